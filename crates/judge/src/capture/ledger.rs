//! Packets of a QUIC sender by their numbers, and what becomes of them.

use std::collections::{BTreeMap, HashMap};

use super::flow::{Acked, At, Flow, Lost, Place, Sending, Sent};
use super::marks::Counts;

/// The flow of a sender, from what is told of its packets in the order of time.
pub(super) struct Ledger {
    pub(super) flow: Flow,
    pub(super) sent_bytes: f64,
    packets: BTreeMap<(u64, u64), Outgoing>,
    lost: BTreeMap<(u64, u64), usize>,
    /// Packets that a sender may take for lost, and since when.
    overdue: BTreeMap<(u64, u64), f64>,
    /// The size of the largest packet that arrived: larger ones look for the path's MTU.
    largest_arrived: f64,
    numbers: HashMap<u64, Numbers>,
    counts: HashMap<u64, Counts>,
    inflight: f64,
    /// True if something else says what is in flight.
    pub(super) is_inflight_logged: bool,
}

/// The packet numbers of a space.
#[derive(Clone, Copy)]
struct Numbers {
    first: u64,
    last: u64,
    count: u64,
    largest_acked: Option<u64>,
    /// Numbers below this one were looked at for being overdue.
    looked_at: u64,
}

/// A packet on its way.
struct Outgoing {
    at_s: f64,
    bytes: f64,
    /// Its place in the list of packets with data.
    index: usize,
}

impl Ledger {
    pub(super) fn new(flow: Flow) -> Self {
        Self {
            flow,
            sent_bytes: 0.0,
            packets: BTreeMap::new(),
            lost: BTreeMap::new(),
            overdue: BTreeMap::new(),
            largest_arrived: 0.0,
            numbers: HashMap::new(),
            counts: HashMap::new(),
            inflight: 0.0,
            is_inflight_logged: false,
        }
    }

    /// The number of packets that are known, and of all, if most of them are not.
    pub(super) fn samples(&self) -> Option<(u64, u64)> {
        let numbers = self.numbers.values().max_by_key(|numbers| numbers.count)?;
        let all = numbers.last - numbers.first + 1;
        (numbers.count < all - all / 5 && self.flow.sent.len() > 10).then_some((numbers.count, all))
    }

    /// The last number that was sent in a space.
    pub(super) fn last_sent(&self, space: u64) -> Option<u64> {
        self.numbers.get(&space).map(|numbers| numbers.last)
    }

    /// A packet with or without data has this number.
    pub(super) fn numbered(&mut self, space: u64, number: u64) {
        let start = Numbers {
            first: number,
            last: number,
            count: 0,
            largest_acked: None,
            looked_at: number,
        };
        let numbers = self.numbers.entry(space).or_insert(start);
        numbers.last = numbers.last.max(number);
        numbers.count += 1;
    }

    /// A packet with data leaves.
    pub(super) fn sent(&mut self, at_s: f64, space: u64, number: u64, bytes: f64) {
        self.sent_bytes += bytes;
        let index = self.flow.sent.len();
        self.flow.sent.push(Sent { at_s, bytes, packets: 1, sending: Sending::First });
        self.packets.insert((space, number), Outgoing { at_s, bytes, index });
        self.count_inflight(at_s, bytes);
    }

    /// An acknowledgement of these packets comes, both ends of a range included.
    pub(super) fn acked(&mut self, at_s: f64, space: u64, ranges: &[(u64, u64)]) {
        self.flow.acks += 1;
        let before = self.numbers.get(&space).and_then(|numbers| numbers.largest_acked);
        let (mut bytes, mut newest, mut largest) = (0.0, None::<f64>, before);
        for (from, to) in ranges {
            // The ranges of an acknowledgement repeat what earlier ones said.
            let range = (space, *from)..=(space, *to);
            let sent = self.packets.range(range.clone()).map(|(key, _)| key.1);
            let numbers: Vec<u64> =
                sent.chain(self.lost.range(range).map(|(key, _)| key.1)).collect();
            for n in numbers {
                largest = largest.max(Some(n));
                if let Some(packet) = self.packets.remove(&(space, n)) {
                    self.overdue.remove(&(space, n));
                    self.largest_arrived = self.largest_arrived.max(packet.bytes);
                    bytes += packet.bytes;
                    newest = Some(newest.map_or(packet.at_s, |newest| newest.max(packet.at_s)));
                    // A later one had arrived before.
                    self.flow.reordered_packets += u64::from(before.is_some_and(|b| n < b));
                } else if let Some(index) = self.lost.remove(&(space, n)) {
                    // It was not lost after all, and late.
                    self.flow.reordered_packets += u64::from(before.is_some_and(|b| n < b));
                    if let Some(sent) = self.flow.sent.get_mut(index) {
                        sent.sending = Sending::Needless;
                    }
                }
            }
        }
        if let Some(numbers) = self.numbers.get_mut(&space) {
            numbers.largest_acked = largest;
        }
        if bytes > 0.0 {
            self.flow.acked.push(Acked { at_s, bytes });
            self.count_inflight(at_s, -bytes);
        }
        if let Some(sent_s) = newest
            && self.flow.place == Place::Sender
        {
            self.flow.rtt.push(At { at_s, value: at_s - sent_s });
        }
    }

    /// The packets that a space can have sent: its numbers begin at 0 (RFC 9000 section 12.3).
    fn most_sent(&self, space: u64) -> u64 {
        self.last_sent(space).map_or(0, |last| last.saturating_add(1))
    }

    /// An acknowledgement has these counts of ECT(0), ECT(1) and CE.
    pub(super) fn counted(&mut self, at_s: f64, space: u64, told: [u64; 3]) {
        let sent = self.most_sent(space);
        self.counts.entry(space).or_default().ack(&mut self.flow, at_s, told, sent);
    }

    /// Notes at the end that counts were left out.
    pub(super) fn remark_counts(&mut self) {
        if self.counts.iter().any(|(space, counts)| counts.is_impossible(self.most_sent(*space))) {
            self.flow.remarks.push(
                "acknowledgements count more packets than were sent (ECN); such counts are left out \
                 (RFC 9000 section 13.4.2.1)"
                    .to_owned(),
            );
        }
    }

    /// Declares lost what a sender may (RFC 9002 section 6.1.1): packets that were sent three or
    /// more before the largest that is acknowledged, and of which `is_lost` is true.
    pub(super) fn detect(&mut self, at_s: f64, space: u64, is_lost: impl Fn(u64) -> bool) {
        let largest = self.numbers.get(&space).and_then(|numbers| numbers.largest_acked);
        let Some(below) = largest.and_then(|n| n.checked_sub(THRESHOLD - 1)) else { return };
        let old = self.packets.range((space, 0)..(space, below)).map(|(key, _)| key.1);
        let found: Vec<u64> = old.filter(|n| is_lost(*n)).collect();
        found.into_iter().for_each(|n| self.lost(at_s, space, n));
    }

    /// Notes what a sender may take for lost after an acknowledgement, where nothing says what it
    /// does take for lost.
    pub(super) fn note_overdue(&mut self, at_s: f64, space: u64) {
        let Some(numbers) = self.numbers.get_mut(&space) else { return };
        let below = numbers.largest_acked.and_then(|n| n.checked_sub(THRESHOLD - 1));
        let Some(below) = below.filter(|below| *below > numbers.looked_at) else { return };
        let new = self.packets.range((space, numbers.looked_at)..(space, below));
        self.overdue.extend(new.map(|(key, _)| (*key, at_s)));
        numbers.looked_at = below;
    }

    /// Declares lost what was overdue and never arrived; their number.
    pub(super) fn lose_overdue(&mut self) -> usize {
        let mut found: Vec<(f64, f64)> = Vec::new();
        for (key, at_s) in std::mem::take(&mut self.overdue) {
            let bytes = self.packets.get(&key).map(|packet| packet.bytes);
            if let Some(bytes) = bytes.filter(|bytes| *bytes <= self.largest_arrived) {
                self.packets.remove(&key);
                found.push((at_s, bytes));
            }
        }
        found.sort_by(|a, b| a.0.total_cmp(&b.0));
        if !self.is_inflight_logged {
            let mut gone = found.iter().peekable();
            let mut bytes = 0.0;
            for at in &mut self.flow.inflight {
                while let Some((_, lost)) = gone.next_if(|(at_s, _)| *at_s <= at.at_s) {
                    bytes += lost;
                }
                at.value = (at.value - bytes).max(0.0);
            }
        }
        let lost =
            found.iter().map(|(at_s, bytes)| Lost { at_s: *at_s, bytes: *bytes, packets: 1 });
        self.flow.lost.extend(lost);
        found.len()
    }

    /// A packet is declared lost.
    pub(super) fn lost(&mut self, at_s: f64, space: u64, number: u64) {
        let Some(packet) = self.packets.remove(&(space, number)) else { return };
        self.overdue.remove(&(space, number));
        self.lost.insert((space, number), packet.index);
        self.flow.lost.push(Lost { at_s, bytes: packet.bytes, packets: 1 });
        self.count_inflight(at_s, -packet.bytes);
    }

    /// So many packets are declared lost, the last of them that with this number.
    pub(super) fn lost_up_to(&mut self, at_s: f64, space: u64, largest: u64, packets: u64) {
        let old = self.packets.range((space, 0)..=(space, largest)).map(|(key, _)| key.1);
        let found: Vec<u64> = old.take(usize::try_from(packets).unwrap_or(usize::MAX)).collect();
        found.into_iter().for_each(|n| self.lost(at_s, space, n));
    }

    fn count_inflight(&mut self, at_s: f64, change: f64) {
        self.inflight = (self.inflight + change).max(0.0);
        if !self.is_inflight_logged && self.flow.place == Place::Sender {
            self.flow.inflight.push(At { at_s, value: self.inflight });
        }
    }
}

/// kPacketThreshold of RFC 9002 section 6.1.1.
pub(super) const THRESHOLD: u64 = 3;
