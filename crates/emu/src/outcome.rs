//! Results of a link that its thread measures, and corruption, for every kind of link.

use fullpipe_cc::{Duration, Instant, Rate};
use fullpipe_path::{Count, Path};
use nix::time::{ClockId, clock_gettime};

use crate::DirectionReport;
use crate::report::Nanos;

/// Bytes of a datagram in which one is changed: QUIC's header and the first of what it protects.
const CORRUPTIBLE_BYTES: u64 = 50;

/// Time between two points of a [`Growth`] at first, and the number of points beyond which there
/// are half as many.
const POINT_INTERVAL: Duration = Duration::from_millis(10);
const MOST_POINTS: usize = 1 << 16;

/// The growth of what was delivered, for a rate that leaves out how it began and ended.
#[derive(Debug)]
struct Growth {
    interval: Duration,
    points: Vec<(Instant, u64)>,
}

impl Growth {
    fn push(&mut self, at: Instant, bytes: u64) {
        if self.points.last().is_some_and(|(last, _)| at.since(*last) < self.interval) {
            return;
        }
        if self.points.len() >= MOST_POINTS {
            let mut number = 0;
            self.points.retain(|_| {
                number += 1;
                number % 2 == 1
            });
            self.interval = self.interval.times(2);
        }
        self.points.push((at, bytes));
    }

    /// The rate between the moments by which one quarter and three quarters of all bytes had been
    /// delivered.
    fn middle_half(&self, all: u64) -> Option<Rate> {
        let at = |part: u64| self.points.iter().find(|(_, bytes)| *bytes >= part);
        let (from, to) = (at(all / 4)?, at(all / 4 * 3)?);
        let time = to.0.since(from.0);
        // Below that a packet more or less is too much of it.
        (time >= POINT_INTERVAL.times(10) && time >= self.interval.times(10))
            .then(|| Rate::from_volume(to.1 - from.1, time))
    }
}

/// Queueing delays, payload and send failures of the packets that left a path.
#[derive(Debug)]
pub(crate) struct Outcome {
    pub(crate) queue_delay: Nanos,
    payload_bytes: u64,
    growth: Growth,
    pub(crate) corrupted: u64,
    pub(crate) send_failures: Count,
}

impl Outcome {
    pub(crate) fn new() -> Self {
        Self {
            queue_delay: Nanos::new(),
            payload_bytes: 0,
            growth: Growth { interval: POINT_INTERVAL, points: Vec::new() },
            corrupted: 0,
            send_failures: Count::default(),
        }
    }

    /// A packet with so much behind its headers left the path.
    pub(crate) fn deliver(&mut self, at: Instant, payload_bytes: u64) {
        if payload_bytes > 0 {
            self.payload_bytes += payload_bytes;
            self.growth.push(at, self.payload_bytes);
        }
    }

    pub(crate) fn report<T: Clone>(self, path: &mut Path<T>) -> DirectionReport {
        DirectionReport {
            stats: path.stats(),
            queue_delay: self.queue_delay.into_inner(),
            payload_bytes: self.payload_bytes,
            middle_half: self.growth.middle_half(self.payload_bytes),
            corrupted_packets: self.corrupted,
            send_failures: self.send_failures,
            arrivals: path.take_arrivals(),
        }
    }
}

/// Time from the first packet that came to the last that left.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Active {
    from: Option<Instant>,
    to: Instant,
}

impl Active {
    /// A packet came.
    pub(crate) fn begin(&mut self, at: Instant) {
        self.from.get_or_insert(at);
    }

    /// A packet left.
    pub(crate) fn extend_to(&mut self, at: Instant) {
        self.to = self.to.max(at);
    }

    /// The time of the first packet, since the zero of the link's clock.
    pub(crate) fn began(self) -> Duration {
        self.from.map_or(Duration::ZERO, |from| from.since(Instant::default()))
    }

    pub(crate) fn lasted(self) -> Duration {
        self.from.map_or(Duration::ZERO, |from| self.to.since(from))
    }
}

/// Position of the byte that is changed in a datagram of this length after so many others.
pub(crate) fn corrupt_position(length: usize, before: u64) -> usize {
    (before % CORRUPTIBLE_BYTES.min(length.max(1) as u64)) as usize
}

/// Changes one byte at the beginning of a datagram, each time another one. The kernel sends it with
/// a right checksum, so only the endpoint can find it.
pub(crate) fn corrupt(datagram: &mut [u8], before: u64) {
    let position = corrupt_position(datagram.len(), before);
    if let Some(byte) = datagram.get_mut(position) {
        *byte = !*byte;
    }
}

/// Processor time that this thread has used.
pub(crate) fn thread_cpu_time() -> Duration {
    clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID)
        .map_or(Duration::ZERO, |t| std::time::Duration::from(t).into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path() -> Path<()> {
        Path::new(&fullpipe_path::PathConfig::default()).expect("a wire")
    }

    #[test]
    fn the_middle_half_knows_nothing_of_a_slow_start_and_of_a_late_end() {
        let mut outcome = Outcome::new();
        let ms = |n: u64| Instant::from_nanos(n * 1_000_000);
        outcome.deliver(ms(0), 100);
        for packet in 0..4_000 {
            outcome.deliver(ms(1_000 + packet), 1_000);
        }
        outcome.deliver(ms(20_000), 100);
        let report = outcome.report(&mut path());
        assert_eq!(report.payload_bytes, 4_000_200);
        assert_eq!(report.middle_half, Some(Rate::from_bytes_per_sec(1_000_000)));
    }

    #[test]
    fn what_is_over_at_once_has_no_middle() {
        let mut outcome = Outcome::new();
        for packet in 0..50 {
            outcome.deliver(Instant::from_nanos(packet * 1_000_000), 1_000);
        }
        assert_eq!(outcome.report(&mut path()).middle_half, None);
    }

    #[test]
    fn a_long_run_keeps_few_points_and_the_same_rate() {
        let mut outcome = Outcome::new();
        for second in 0..200_000 {
            outcome.deliver(Instant::from_nanos(second * 1_000_000_000), 500);
        }
        assert!(outcome.growth.points.len() <= MOST_POINTS);
        let rate = outcome.report(&mut path()).middle_half;
        assert_eq!(rate, Some(Rate::from_bytes_per_sec(500)));
    }
}
