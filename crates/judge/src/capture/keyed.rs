//! A QUIC flow from packets that were opened: what of each arrived is in the acknowledgements.

use std::collections::{BTreeMap, HashMap, VecDeque};

use super::flow::{Flow, Lost, Place};
use super::ledger::{Ledger, THRESHOLD};
use crate::quic::{Packet, PacketType};

/// A packet of the flow that was opened.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Opened {
    /// From the first datagram on, in seconds.
    pub(super) at_s: f64,
    is_data_way: bool,
    /// A packet number space of a connection.
    space: u64,
    number: u64,
    bytes: u32,
    is_eliciting: bool,
    /// Packets of the other direction that it acknowledges.
    acked: Box<[(u64, u64)]>,
    ecn_counts: Option<[u64; 3]>,
}

impl Opened {
    /// True if its packet is one of the handshake.
    pub(super) fn is_of_handshake(&self) -> bool {
        self.space % 4 < 2
    }

    pub(super) fn of(at_s: f64, is_data_way: bool, packet: Packet) -> Option<Self> {
        let opened = packet.opened?;
        let space = match packet.kind {
            PacketType::Initial => 0,
            PacketType::Handshake => 1,
            _ => 2,
        };
        Some(Self {
            at_s,
            is_data_way,
            space: 4 * opened.connection as u64 + space,
            number: opened.number,
            bytes: packet.whole_bytes as u32,
            is_eliciting: opened.frames.is_eliciting,
            acked: opened.frames.acked.into_boxed_slice(),
            ecn_counts: opened.frames.ecn_counts,
        })
    }
}

/// The packets of each space that an acknowledgement names, by the first of a range.
#[derive(Default)]
struct Arrived(HashMap<u64, BTreeMap<u64, u64>>);

impl Arrived {
    fn add(&mut self, space: u64, (first, last): (u64, u64)) {
        let ranges = self.0.entry(space).or_default();
        let (mut first, mut last) = (first, last);
        // Together with those that it touches.
        while let Some((from, to)) = ranges.range(..=last.saturating_add(1)).next_back()
            && *to + 1 >= first
        {
            (first, last) = (first.min(*from), last.max(*to));
            let from = *from;
            ranges.remove(&from);
        }
        ranges.insert(first, last);
    }

    fn has(&self, space: u64, number: u64) -> bool {
        let range = self.0.get(&space).and_then(|ranges| ranges.range(..=number).next_back());
        range.is_some_and(|(_, last)| *last >= number)
    }
}

/// Numbers that do not arrive where packets are seen behind a part of the path.
#[derive(Default)]
struct Holes {
    largest: Option<u64>,
    /// With the time at which a later packet arrived.
    missing: BTreeMap<u64, f64>,
}

/// The most numbers that are missing at once: what is more is a jump of the sender's.
const MOST_MISSING: u64 = 10_000;

impl Holes {
    /// True if the packet was overtaken.
    fn arrives(&mut self, at_s: f64, number: u64) -> bool {
        let Some(largest) = self.largest else {
            self.largest = Some(number);
            return false;
        };
        if number <= largest {
            return self.missing.remove(&number).is_some();
        }
        if number - largest <= MOST_MISSING {
            self.missing.extend((largest + 1..number).map(|n| (n, at_s)));
        }
        self.largest = Some(number);
        false
    }
}

/// The least times from a packet of the sender to its acknowledgement, and from one of the receiver
/// to its own: the ways from the capture to each end and back. Each acknowledgement is for the last
/// packet that it names, as a round trip is (RFC 9002 section 5.1).
pub(super) fn least_waits(packets: &[Opened]) -> Option<(f64, f64)> {
    let mut sent: [HashMap<u64, VecDeque<(u64, f64)>>; 2] = Default::default();
    let mut least = [None::<f64>; 2];
    for packet in packets {
        let (way, other) = if packet.is_data_way { (0, 1) } else { (1, 0) };
        if let Some(last) = packet.acked.iter().map(|range| range.1).max() {
            let waiting = sent[other].entry(packet.space).or_default();
            while let Some((number, at_s)) = waiting.front().copied().filter(|(n, _)| *n <= last) {
                waiting.pop_front();
                if number == last {
                    let wait = packet.at_s - at_s;
                    least[other] = Some(least[other].map_or(wait, |least| least.min(wait)));
                }
            }
        }
        if packet.is_eliciting {
            sent[way].entry(packet.space).or_default().push_back((packet.number, packet.at_s));
        }
    }
    Some((least[0]?, least[1]?))
}

/// Puts what the packets tell in place of what datagrams tell.
pub(super) fn fill(flow: Flow, packets: &[Opened]) -> Flow {
    let mut arrived = Arrived::default();
    let acks = packets.iter().filter(|p| !p.is_data_way);
    acks.for_each(|p| p.acked.iter().for_each(|range| arrived.add(p.space, *range)));
    let mut ledger = Ledger::new(flow);
    let flow = &mut ledger.flow;
    let acks_alone = packets.iter().filter(|p| p.is_data_way && !p.is_eliciting).count();
    for list in [&mut flow.rtt, &mut flow.inflight] {
        list.clear();
    }
    (flow.sent, flow.acked, flow.acks) = (Vec::new(), Vec::new(), 0);
    let mut holes: HashMap<u64, Holes> = HashMap::new();
    for packet in packets {
        let (at_s, space) = (packet.at_s, packet.space);
        if packet.is_data_way {
            ledger.numbered(space, packet.number);
            if ledger.flow.place != Place::Sender
                && holes.entry(space).or_default().arrives(at_s, packet.number)
            {
                ledger.flow.reordered_packets += 1;
            }
            if packet.is_eliciting {
                ledger.sent(at_s, space, packet.number, f64::from(packet.bytes));
            }
        } else if !packet.acked.is_empty() {
            ledger.acked(at_s, space, &packet.acked);
            if let Some(told) = packet.ecn_counts {
                ledger.counted(at_s, space, told);
            }
            ledger.detect(at_s, space, |n| !arrived.has(space, n));
        }
    }
    ledger.remark_counts();
    let mut flow = ledger.flow;
    // Before the capture: numbers that never come.
    let (bytes, known) = (flow.packet_bytes, flow.lost.len());
    for holes in holes.into_values() {
        let Some(known) = holes.largest.and_then(|n| n.checked_sub(THRESHOLD)) else { continue };
        let lost = holes.missing.range(..=known).map(|(_, at_s)| *at_s);
        flow.lost.extend(lost.map(|at_s| Lost { at_s, bytes, packets: 1 }));
    }
    if flow.lost.len() > known {
        flow.remarks.push(
            "a packet number that does not come is taken for a loss; a sender may leave out a few \
             (RFC 9000 section 21.4)"
                .to_owned(),
        );
    }
    if acks_alone > 0 {
        flow.remarks.push(format!(
            "{acks_alone} packets of the sender have no data and only acknowledge; they are left out"
        ));
    }
    flow
}

#[cfg(test)]
mod tests {
    use super::super::opening::Packets;
    use super::super::udp::{self, Datagram};
    use super::*;

    #[test]
    fn ranges_that_touch_are_one() {
        let mut arrived = Arrived::default();
        [(5, 6), (9, 9), (7, 8), (1, 2), (2, 3)].into_iter().for_each(|r| arrived.add(0, r));
        assert_eq!(arrived.0[&0], BTreeMap::from([(1, 3), (5, 9)]));
        assert!(arrived.has(0, 6) && !arrived.has(0, 4) && !arrived.has(1, 6));
    }

    #[test]
    fn numbers_that_come_late_are_no_losses() {
        let mut holes = Holes::default();
        let late: Vec<bool> = [4, 6, 9, 7, 5, 5].map(|n| holes.arrives(n as f64, n)).to_vec();
        assert_eq!(late, [false, false, false, true, true, false]);
        assert_eq!(holes.missing, BTreeMap::from([(8, 9.0)]));
    }

    fn packet(at_ms: f64, is_data_way: bool, number: u64, acked: &[(u64, u64)]) -> Opened {
        let (at_s, acked) = (at_ms / 1e3, acked.into());
        Opened {
            at_s,
            is_data_way,
            space: 2,
            number,
            bytes: 1200,
            is_eliciting: true,
            acked,
            ecn_counts: None,
        }
    }

    /// A server that takes 22 ms for its handshake and 40 ms from the client, at its own end.
    #[test]
    fn a_host_that_is_busy_in_its_handshake_is_the_sender_all_the_same() {
        let long = [0xC0, 0, 0, 0, 1];
        let times = [(0.0, false), (22.0, true), (62.0, false)];
        let handshake =
            times.map(|(at_ms, is_data_way)| Datagram::of(at_ms / 1e3, is_data_way, &long, 1200));
        let opened = vec![
            packet(100.0, true, 0, &[]),
            packet(110.0, true, 1, &[]),
            // Of the last one that it names.
            packet(150.0, false, 0, &[(0, 1)]),
            packet(150.5, true, 2, &[(0, 0)]),
        ];
        let (ahead, behind) = least_waits(&opened).expect("both ways");
        assert!((ahead - 0.04).abs() < 1e-9 && (behind - 0.0005).abs() < 1e-9);
        let place = |opened| udp::flow(&handshake, &Packets { opened, closed: 0 }).place;
        assert_eq!(place(Vec::new()), Place::Between);
        assert_eq!(place(opened), Place::Sender);
    }
}
