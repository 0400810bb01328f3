//! Delay that keeps the order.

use fullpipe_units::{Duration, Instant};

use crate::Series;
use crate::jitter::Jitter;
use crate::line::Line;
use crate::pool::Key;
use crate::schedule::Schedule;

/// The rule for the delay of the next packet.
#[derive(Debug)]
enum Law {
    Fixed(Duration),
    Steps(Schedule<Duration>),
    Random(Box<Jitter>),
}

/// Lets every packet out later than it came in, and none before the one ahead of it.
#[derive(Debug)]
pub(crate) struct Delay {
    law: Law,
    pub(crate) line: Line,
}

impl Delay {
    fn new(law: Law) -> Self {
        Self { law, line: Line::default() }
    }

    pub(crate) fn fixed(delay: Duration) -> Self {
        Self::new(Law::Fixed(delay))
    }

    pub(crate) fn steps(steps: &[(Duration, Duration)]) -> Self {
        Self::new(Law::Steps(Schedule::new(steps)))
    }

    pub(crate) fn series(series: &Series<Duration>) -> Self {
        Self::new(Law::Steps(Schedule::of(series)))
    }

    pub(crate) fn random(jitter: Jitter) -> Self {
        Self::new(Law::Random(Box::new(jitter)))
    }

    #[inline]
    pub(crate) fn enter(&mut self, now: Instant, key: Key) {
        let delay = match &mut self.law {
            Law::Fixed(delay) => *delay,
            Law::Steps(steps) => steps.at(now),
            Law::Random(jitter) => jitter.draw(now),
        };
        self.line.push(now + delay, key);
    }
}
