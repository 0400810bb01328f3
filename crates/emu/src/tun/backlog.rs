//! The time for which packets may have waited in a device before they were read.

use fullpipe_cc::{Duration, Instant};

/// What a device holds back. A packet's time begins when it is read: what it waits before that is
/// in no lateness and in no queue.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Backlog {
    since: Option<Instant>,
}

impl Backlog {
    /// The device was read at `now`, to its end or not; the longest that a packet which came then
    /// may have waited. Wake-ups are not in it.
    pub(super) fn note(&mut self, now: Instant, is_empty: bool) -> Duration {
        let since = self.since.unwrap_or(now);
        self.since = (!is_empty).then_some(since);
        now.since(since)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_wait_from_the_first_turn_that_left_some_to_the_one_that_reads_all() {
        let mut backlog = Backlog::default();
        let ms = |n: u64| Instant::from_nanos(n * 1_000_000);
        for (now, is_empty, waited) in [
            (1, true, 0),
            (5, false, 0),
            (6, false, 1),
            (9, false, 4),
            (11, true, 6),
            (20, true, 0),
            (30, false, 0),
        ] {
            let expected = Duration::from_millis(waited);
            assert_eq!(backlog.note(ms(now), is_empty), expected, "{now}");
        }
    }
}
