//! The size of the receive buffer: it grows as the application reads, so that it is never what
//! limits the sender.
//!
//! A buffer has to hold what is under way in one round trip, and as much again while a loss is
//! repaired. What the application read in the last round trip says how much that is (dynamic
//! right-sizing, as Linux does it; Fisk and Feng, "Dynamic Right-Sizing in TCP", 2001). An
//! application that does not read gets no more than it had.

use fullpipe_cc::{Duration, Instant};

/// The buffer as a multiple of what was read in a round trip: twice for repairs, and twice because
/// a sender in slow start has doubled its window meanwhile.
const HEADROOM: u64 = 4;

#[derive(Debug)]
pub(crate) struct Autotune {
    /// The round trip as the receiver sees it.
    rtt: Option<Duration>,
    /// The reading is measured since this time and from this place.
    since: Instant,
    read: u64,
    /// The right edge of the window at a time: data beyond it answers an ACK from after that time,
    /// so a round trip is over.
    edge: u64,
    edge_since: Instant,
}

/// The places of a receiver.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Offsets {
    /// The first byte that was not read.
    pub(crate) read: u64,
    /// RCV.NXT.
    pub(crate) next: u64,
    /// The right edge of the window.
    pub(crate) edge: u64,
}

impl Autotune {
    /// For a connection whose handshake took `rtt`.
    pub(crate) fn new(now: Instant, rtt: Option<Duration>, places: Offsets) -> Self {
        let Offsets { read, edge, .. } = places;
        Self { rtt, since: now, read, edge, edge_since: now }
    }

    /// Data arrived; `echoed` is the age of the timestamp that came with it. The number of bytes
    /// that the buffer should have at least, once in a round trip.
    pub(crate) fn on_data(
        &mut self,
        now: Instant,
        places: Offsets,
        echoed: Option<Duration>,
    ) -> Option<u64> {
        match (echoed, self.rtt) {
            (Some(sample), Some(rtt)) => {
                let sum = rtt.as_nanos().saturating_mul(7).saturating_add(sample.as_nanos());
                self.rtt = Some(Duration::from_nanos(sum / 8));
            }
            (Some(sample), None) => self.rtt = Some(sample),
            (None, _) => {}
        }
        if places.next > self.edge {
            let took = now.since(self.edge_since);
            if echoed.is_none() {
                self.rtt = Some(self.rtt.map_or(took, |rtt| rtt.min(took)));
            }
            (self.edge, self.edge_since) = (places.edge.max(places.next), now);
        }
        if now.since(self.since) < self.rtt? {
            return None;
        }
        let read = places.read - self.read;
        (self.since, self.read) = (now, places.read);
        Some(read.saturating_mul(HEADROOM))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    fn places(read: u64) -> Offsets {
        Offsets { read, next: read, edge: read + 1000 }
    }

    /// 500 bytes in a round trip of 10 ms, whatever the number of segments.
    #[test]
    fn what_is_read_in_a_round_trip_counts() {
        let start = Instant::default();
        let mut tune = Autotune::new(start, Some(MS.times(10)), places(0));
        assert_eq!(tune.on_data(start + MS.times(5), places(300), None), None);
        assert_eq!(tune.on_data(start + MS.times(10), places(500), None), Some(2000));
        assert_eq!(tune.on_data(start + MS.times(20), places(500), None), Some(0));
    }

    /// Without a sample, the time in which a window fills is one.
    #[test]
    fn a_full_window_measures_the_round_trip() {
        let start = Instant::default();
        let mut tune = Autotune::new(start, None, places(0));
        assert_eq!(tune.on_data(start + MS.times(30), places(1000), None), None);
        assert_eq!(tune.on_data(start + MS.times(40), places(1001), None), Some(4004));
    }

    /// Timestamps follow a path that grows longer.
    #[test]
    fn timestamps_are_smoothed() {
        let start = Instant::default();
        let mut tune = Autotune::new(start, Some(MS.times(8)), places(0));
        tune.on_data(start + MS.times(1), places(0), Some(MS.times(16)));
        assert_eq!(tune.rtt, Some(MS.times(9)));
    }
}
