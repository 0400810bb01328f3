//! The receiving side of a flow: hands the application what is in order, and decides when to
//! acknowledge (RFC 9000 section 13.2, RFC 9293 section 3.8.6.3).

use std::collections::VecDeque;

use fullpipe_cc::{Duration, Instant};
use fullpipe_path::Ecn;

use crate::config::{AckPolicy, FlowConfig};
use crate::packet::{Ack, Chunk, Data, Named};
use crate::reports::{Ranges, Sack};
use crate::window::Window;

/// A gap longer than a round trip plus this is a pause: the timeout with Linux's minimum.
const QUICK_PAUSE: Duration = Duration::from_millis(200);

/// The receiver's record for its next ACK.
#[derive(Debug)]
enum Report {
    Quic(Ranges),
    // It is twice as large.
    Tcp(Box<Sack>),
}

/// The order in memory is that of use, as in [`crate::Flow`]; all but the end is for each packet.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Receiver {
    report: Report,
    unacked: u32,
    /// Packets that are still acknowledged one by one.
    quick: u32,
    policy: AckPolicy,
    /// The largest packet number so far, and when it came.
    largest: Option<(u64, Instant)>,
    ce_packets: u64,
    ecn_packets: u64,
    /// The time that the newest packet spent in the host, and the time at which it was taken in.
    in_host: Duration,
    taken_in: Instant,
    ack_deadline: Option<Instant>,
    next_chunk: u64,
    /// Bytes that the application read, in order, so far.
    pub(crate) readable: u64,
    /// Chunks from `next_chunk` on; those that did not arrive have no bytes. Empty when nothing is
    /// missing.
    ahead: VecDeque<(u32, Instant)>,
    window: Window,
    /// Arrival time of the newest packet, for quick ACKs.
    newest: Option<Instant>,
    /// For QUIC with ECN.
    counted: Option<Box<Counted>>,
}

/// Packet numbers that are counted for ECN, of those up to [`Counted::KEPT`] before the largest:
/// QUIC counts a duplicate once (RFC 9000 section 13.4.1), TCP as often as it comes (RFC 9768
/// section 3.2).
#[derive(Clone, Copy, Debug, Default)]
struct Counted {
    /// A bit for each number, in turns.
    bits: [u64; (Self::KEPT / 64) as usize],
    /// One past the largest number.
    end: u64,
}

impl Counted {
    /// Packets that come later than so many others are counted: without them the field would seem
    /// to be cleared.
    const KEPT: u64 = 1024;

    /// Notes a packet; true if it is to be counted.
    fn is_new(&mut self, pn: u64) -> bool {
        if pn >= self.end {
            if pn - self.end >= Self::KEPT {
                self.bits.fill(0);
            } else {
                for n in self.end..=pn {
                    let (word, bit) = self.word(n);
                    *word &= !bit;
                }
            }
            self.end = pn + 1;
        } else if self.end - pn > Self::KEPT {
            return true;
        }
        let (word, bit) = self.word(pn);
        let is_new = *word & bit == 0;
        *word |= bit;
        is_new
    }

    fn word(&mut self, pn: u64) -> (&mut u64, u64) {
        let at = (pn % Self::KEPT / 64) as usize;
        (&mut self.bits[at], 1 << (pn % 64))
    }
}

const MISSING: (u32, Instant) = (0, Instant::from_nanos(0));

impl Receiver {
    pub(crate) fn new(config: &FlowConfig) -> Self {
        Self {
            report: if config.is_tcp() {
                Report::Tcp(Box::default())
            } else {
                Report::Quic(Ranges::default())
            },
            policy: config.acks,
            window: Window::new(config.receive_window),
            largest: None,
            unacked: 0,
            ce_packets: 0,
            ecn_packets: 0,
            quick: config.acks.quick,
            newest: None,
            counted: (config.ecn.is_capable() && !config.is_tcp()).then(Box::default),
            in_host: Duration::ZERO,
            taken_in: Instant::default(),
            ack_deadline: None,
            ahead: VecDeque::new(),
            next_chunk: 0,
            readable: 0,
        }
    }

    /// Takes a packet in; returns the ACK that it causes at once. `read` hears of each chunk that
    /// the application reads now: its bytes, and when they were written. `rtt` is the connection's,
    /// for the window, and far from here in memory; `arrived` the packet's arrival at the host.
    #[inline]
    pub(crate) fn on_packet(
        &mut self,
        (now, arrived): (Instant, Instant),
        data: &Data,
        ecn: Ecn,
        rtt: impl Fn() -> Duration,
        read: impl FnMut(u32, Instant),
    ) -> Option<Ack> {
        let in_order = match &mut self.report {
            Report::Quic(ranges) => ranges.on_packet(data.pn),
            Report::Tcp(sack) => sack.on_segment(data, self.next_chunk),
        };
        self.in_host = now.since(arrived);
        self.taken_in = now;
        self.read(data.chunk(), read);
        if let Report::Tcp(sack) = &mut self.report {
            sack.cut(self.next_chunk);
        }
        self.window.on_read(now, self.readable, &rtt);
        if self.largest.is_none_or(|(largest, _)| data.pn > largest) {
            self.largest = Some((data.pn, now));
        }
        self.unacked += 1;
        let is_quick = self.policy.quick > 0 && self.is_quick(now, rtt());
        let is_marked = ecn == Ecn::Ce;
        let counted = self.counted.as_mut();
        if ecn.is_capable() && counted.is_none_or(|counted| counted.is_new(data.pn)) {
            self.ce_packets += u64::from(is_marked);
            self.ecn_packets += 1;
        }
        // Out of order, a hole that closes, a mark: the sender wants to know at once.
        if !in_order || is_marked || is_quick || self.unacked >= self.policy.every {
            return Some(self.acknowledge(now));
        }
        if self.ack_deadline.is_none() {
            self.ack_deadline = Some(now + self.policy.max_delay);
        }
        None
    }

    /// True if this packet is one of those that are acknowledged at once, as Linux does it
    /// (`tcp_event_data_recv`); a pause begins their count anew.
    fn is_quick(&mut self, now: Instant, rtt: Duration) -> bool {
        let pause = self.newest.replace(now).map_or(Duration::ZERO, |newest| now.since(newest));
        if pause > rtt + QUICK_PAUSE {
            self.quick = self.policy.quick;
        }
        let is_quick = self.quick > 0;
        self.quick = self.quick.saturating_sub(1);
        is_quick
    }

    #[inline]
    fn read(&mut self, chunk: Chunk, mut read: impl FnMut(u32, Instant)) {
        let Some(i) = chunk.id.checked_sub(self.next_chunk) else { return };
        if i > 0 || !self.ahead.is_empty() {
            let i = i as usize;
            if self.ahead.len() <= i {
                self.ahead.resize(i + 1, MISSING);
            }
            self.ahead[i] = (chunk.bytes, chunk.written);
            while let Some((bytes, written)) = self.ahead.front().copied().filter(|c| c.0 > 0) {
                self.ahead.pop_front();
                self.take(bytes);
                read(bytes, written);
            }
        } else {
            self.take(chunk.bytes);
            read(chunk.bytes, chunk.written);
        }
    }

    fn take(&mut self, bytes: u32) {
        self.readable += u64::from(bytes);
        self.next_chunk += 1;
    }

    /// The deadline of a delayed ACK.
    #[inline]
    pub(crate) fn deadline(&self) -> Option<Instant> {
        self.ack_deadline
    }

    /// The ACK for everything so far.
    pub(crate) fn acknowledge(&mut self, now: Instant) -> Ack {
        self.unacked = 0;
        self.ack_deadline = None;
        let named = match &mut self.report {
            Report::Quic(ranges) => {
                let (range, upto) = ranges.end();
                let delay = self.largest.map_or(Duration::ZERO, |(_, at)| now.since(at));
                Named::Packets { range, upto, delay }
            }
            Report::Tcp(sack) => sack.acknowledge(self.next_chunk),
        };
        Ack {
            max_data: self.window.max_data(),
            ce_packets: self.ce_packets,
            ecn_packets: self.ecn_packets,
            receiver_delay: self.in_host,
            ack_delay: now.since(self.taken_in),
            named,
        }
    }

    /// The receiver's log of packets, which QUIC's ACKs point into.
    #[inline]
    pub(crate) fn ranges(&mut self) -> Option<&mut Ranges> {
        match &mut self.report {
            Report::Quic(ranges) => Some(ranges),
            Report::Tcp(_) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use fullpipe_cc::Algorithm;

    use super::*;
    use crate::MAX_ACK_DELAY;

    const NOW: Instant = Instant::from_nanos(5);

    fn packet(pn: u64, id: u64) -> Data {
        let chunk = Chunk { id, bytes: 10, written: NOW };
        Data::new(0, pn, NOW, chunk)
    }

    fn take(r: &mut Receiver, pn: u64, id: u64) -> Option<Ack> {
        r.on_packet((NOW, NOW), &packet(pn, id), Ecn::NotEct, || Duration::ZERO, |_, _| {})
    }

    fn receiver() -> Receiver {
        Receiver::new(&FlowConfig::bulk(Algorithm::RENO, 1))
    }

    #[test]
    fn every_second_packet_is_acknowledged_and_a_gap_at_once() {
        let mut r = receiver();
        assert!(take(&mut r, 0, 0).is_none());
        assert_eq!(r.deadline(), Some(NOW + MAX_ACK_DELAY));
        assert!(take(&mut r, 1, 1).is_some());
        assert_eq!(r.deadline(), None);
        assert!(take(&mut r, 3, 3).is_some(), "2 is missing");
        assert!(take(&mut r, 2, 2).is_some(), "the gap closes");
        assert!(take(&mut r, 4, 4).is_none());
    }

    /// RFC 9000 section 13.4.1, and RFC 9768 section 3.2, by which TCP counts all that come.
    #[test]
    fn a_duplicate_is_counted_once_in_quic() {
        for (config, counted) in [
            (FlowConfig::bulk(Algorithm::RENO, 1), (8, 4)),
            (FlowConfig::tcp_bulk(Algorithm::RENO, 1), (12, 6)),
        ] {
            let mut r = Receiver::new(&FlowConfig { ecn: Ecn::Ect1, ..config });
            let (mut id, ce, ect) = (0, Ecn::Ce, Ecn::Ect1);
            let all = [(0, ect), (0, ect), (1, ce), (1, ce), (3, ce), (2, ect), (2, ect), (3, ce)];
            for (pn, ecn) in all.into_iter().chain([(3000, ce), (1500, ect), (2900, ect), (1, ce)])
            {
                let data = packet(pn, id);
                id += 1;
                r.on_packet((NOW, NOW), &data, ecn, || Duration::ZERO, |_, _| {});
            }
            let ack = r.acknowledge(NOW);
            assert_eq!((ack.ecn_packets, ack.ce_packets), counted, "{config:?}");
        }
    }

    #[test]
    fn a_policy_of_four_waits_for_four() {
        let acks = AckPolicy { every: 4, ..AckPolicy::default() };
        let mut r = Receiver::new(&FlowConfig { acks, ..FlowConfig::bulk(Algorithm::RENO, 1) });
        let acked: Vec<bool> = (0..8).map(|i| take(&mut r, i, i).is_some()).collect();
        assert_eq!(acked, [false, false, false, true, false, false, false, true]);
    }

    #[test]
    fn the_first_packets_and_those_after_a_pause_are_acknowledged_one_by_one() {
        let acks = AckPolicy { quick: 3, ..AckPolicy::default() };
        let mut r = Receiver::new(&FlowConfig { acks, ..FlowConfig::bulk(Algorithm::RENO, 1) });
        let mut acked = |pn: u64, ms| {
            let now = NOW + Duration::from_millis(ms);
            let rtt = Duration::from_millis(40);
            r.on_packet((now, now), &packet(pn, pn), Ecn::NotEct, || rtt, |_, _| {}).is_some()
        };
        let start: Vec<bool> = (0..6).map(|pn| acked(pn, pn)).collect();
        assert_eq!(start, [true, true, true, false, true, false]);
        assert!(acked(6, 240), "the second one");
        assert!(!acked(7, 480), "no pause");
        let again: Vec<bool> = (8..13).map(|pn| acked(pn, 730)).collect();
        assert_eq!(again, [true, true, true, false, true]);
    }

    #[test]
    fn the_application_reads_each_chunk_once_and_in_order() {
        let mut r = receiver();
        for (pn, id, readable) in [(0, 0, 10), (1, 2, 10), (2, 2, 10), (3, 1, 30), (4, 0, 30)] {
            take(&mut r, pn, id);
            assert_eq!(r.readable, readable, "after packet {pn}");
        }
    }
}
