//! The fate of each packet on a path, worked out from the packets that entered it: the path does
//! the same again.

use fullpipe_cc::{Duration, Instant};
use fullpipe_path::{Arrival, DropReason, Event, Path, PathConfig};

/// The most packets of a direction that are kept: 200 Mbit/s for 24 s, 12 MB.
pub const MOST_PACKETS: usize = 500_000;

/// Later than any packet comes out.
const END: Instant = Instant::from_nanos(u64::MAX - 1);

/// A packet on a path. Times count from the start of the link.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct WirePacket {
    /// The time at which it entered the path.
    pub sent: Instant,
    /// Its size on the wire, IP headers included.
    pub bytes: u32,
    /// Whose it is: the two ports, or the number of a relay's client or of a simulated flow.
    pub flow: u32,
    /// Its fate.
    pub fate: Fate,
}

/// The fate of a packet.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Fate {
    /// It came out.
    Delivered {
        /// The time at which it did.
        at: Instant,
        /// Time that it waited in queues.
        queued: Duration,
    },
    /// It went no further.
    Lost(DropReason),
}

/// Every packet of a run, in both directions, in the order in which they entered.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct WireRecord {
    /// To the command.
    pub down: Vec<WirePacket>,
    /// From the command.
    pub up: Vec<WirePacket>,
}

impl WireRecord {
    /// The fate on these paths of packets that enter at these times, those to the command first.
    pub fn of(down: &PathConfig, up: &PathConfig, arrivals: [&[Arrival]; 2]) -> Self {
        Self { down: replay(down, arrivals[0]), up: replay(up, arrivals[1]) }
    }
}

/// Sends the packets over such a path once more. One that the path cannot be built for had no
/// packets either.
fn replay(config: &PathConfig, arrivals: &[Arrival]) -> Vec<WirePacket> {
    let Ok(mut path) = Path::<usize>::new(config) else { return Vec::new() };
    let mut fates = vec![None; arrivals.len()];
    let mut note = |i: usize, fate| {
        // Of a packet that was duplicated the first counts.
        if let Some(slot @ None) = fates.get_mut(i) {
            *slot = Some(fate);
        }
    };
    let mut take = |event: Event<usize>| match event {
        Event::Delivered(d) => note(d.payload, Fate::Delivered { at: d.at, queued: d.queued }),
        Event::Dropped(d) => note(d.payload, Fate::Lost(d.reason)),
    };
    for (i, arrival) in arrivals.iter().enumerate() {
        while let Some(event) = path.poll(arrival.at) {
            take(event);
        }
        if let Err(dropped) = path.send(arrival.at, arrival.header, i) {
            take(Event::Dropped(dropped));
        }
    }
    while let Some(event) = path.poll(END) {
        take(event);
    }
    let each = arrivals.iter().zip(fates);
    each.filter_map(|(arrival, fate)| {
        let (bytes, flow) = (arrival.header.wire_bytes, arrival.header.flow);
        Some(WirePacket { sent: arrival.at, bytes, flow, fate: fate? })
    })
    .collect()
}

#[cfg(test)]
mod tests {
    use fullpipe_cc::Rate;
    use fullpipe_path::{Header, Link, QueueLimit};

    use super::*;

    #[test]
    fn the_record_has_what_each_packet_met() {
        let config = PathConfig::from(Link {
            rate: Some(Rate::from_bytes_per_sec(1_000_000)),
            delay: Duration::from_millis(5),
            queue: QueueLimit::Packets(2),
            ..Link::default()
        });
        let at = Instant::from_nanos(7_000_000);
        let arrival = |flow| Arrival { at, header: Header { flow, ..Header::from(1000) } };
        let record = WireRecord::of(&config, &config, [&[1, 2, 3].map(arrival), &[]]);
        let ms = Duration::from_millis;
        let delivered = |after, queued| Fate::Delivered { at: at + ms(after), queued: ms(queued) };
        let fates: Vec<_> = record.down.iter().map(|p| (p.flow, p.fate)).collect();
        let lost = Fate::Lost(DropReason::TailDrop);
        assert_eq!(fates, [(1, delivered(6, 0)), (2, delivered(7, 1)), (3, lost)]);
        assert!(record.up.is_empty());
    }
}
