//! Wake-ups of a link's thread for packets that leave.

use fullpipe_cc::{Duration, Instant};

/// The longest that a packet waits for others to leave: a tenth of
/// [`LATENESS_BOUND`](crate::LATENESS_BOUND). A wake-up costs several times as much as a packet.
const LONGEST: Duration = Duration::from_micros(100);

/// Wake-ups that let packets leave. Between two of them is some time, in which packets wait for
/// each other.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wakes {
    interval: Duration,
    newest: Option<Instant>,
}

impl Wakes {
    /// Of a link with these fixed delays, of both directions together: a packet waits for no more
    /// than a hundredth of them, in each direction.
    pub(crate) fn new(delays: Duration) -> Self {
        let hundredth = Duration::from_nanos(delays.as_nanos() / 100);
        Self { interval: hundredth.min(LONGEST), newest: None }
    }

    /// Packets left at `now`.
    pub(crate) fn note(&mut self, now: Instant) {
        self.newest = Some(now);
    }

    /// The time to wake for a packet that leaves at `at`: never before it, and the same where no
    /// other packet left shortly before.
    pub(crate) fn next(self, at: Instant) -> Instant {
        self.newest.map_or(at, |newest| at.max(newest + self.interval))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_packet_waits_only_behind_another_one_and_never_leaves_before_its_time() {
        let us = |n: u64| Instant::from_nanos(1_000_000 + 1000 * n);
        for (round_trip_us, longest) in [(50_000, 100), (4000, 40), (0, 0)] {
            let mut wakes = Wakes::new(Duration::from_micros(round_trip_us));
            assert_eq!(wakes.next(us(0)), us(0));
            wakes.note(us(3));
            let end = 3 + longest;
            for at in [3, 10, end, end + 1, 900] {
                assert_eq!(wakes.next(us(at)), us(at.max(end)), "{at}");
            }
        }
    }
}
