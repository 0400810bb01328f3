//! Cross traffic on the way of the data: made by the link's own thread, and delivered to nobody.

use fullpipe_cc::Instant;
use fullpipe_path::{CrossSource, Header};

/// All sources of a link.
#[derive(Debug)]
pub(crate) struct Cross(Vec<CrossSource>);

impl Cross {
    pub(crate) fn new(sources: Vec<CrossSource>) -> Self {
        Self(sources)
    }

    /// The time of the next packet of all.
    pub(crate) fn next_due(&self) -> Option<Instant> {
        self.0.iter().filter_map(CrossSource::next_due).min()
    }

    /// The next packet that is due until `now`: its time, and its header.
    pub(crate) fn pop(&mut self, now: Instant) -> Option<(Instant, Header)> {
        let due = |(i, source): (usize, &CrossSource)| Some((source.next_due()?, i));
        let (at, i) = self.0.iter().enumerate().filter_map(due).min()?;
        if at > now {
            return None;
        }
        let source = &mut self.0[i];
        source.advance();
        let flow = CrossSource::FIRST_FLOW + i as u32;
        Some((at, Header { flow, ..Header::from(source.packet_bytes()) }))
    }
}

#[cfg(test)]
mod tests {
    use fullpipe_cc::Rate;
    use fullpipe_path::CrossTraffic;

    use super::*;

    #[test]
    fn packets_of_all_sources_come_in_the_order_of_their_times() {
        let source = |bytes_per_sec| {
            let traffic = CrossTraffic::constant(Rate::from_bytes_per_sec(bytes_per_sec));
            CrossSource::new(traffic, 1)
        };
        let mut cross = Cross::new(vec![source(1_500_000), source(500_000)]);
        let now = Instant::from_nanos(5_500_000);
        let mut seen = Vec::new();
        while let Some((at, header)) = cross.pop(now) {
            seen.push((at.as_nanos() / 1_000_000, header.flow - CrossSource::FIRST_FLOW));
        }
        assert_eq!(seen, [(0, 0), (0, 1), (1, 0), (2, 0), (3, 0), (3, 1), (4, 0), (5, 0)]);
        assert_eq!(cross.next_due(), Some(Instant::from_nanos(6_000_000)));
    }
}
