//! Marks of L4S (RFC 9331) over stacks that know ECT(0) alone. Such a stack takes a count of ECT(1)
//! for a changed field, and tells its controller that an ACK had marks, not how many. Both are in
//! the ACK frames of the peer, which a layer at the packet protection sees before the stack does.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use crate::frames::{ACK, ACK_ECN, frames, integer};

/// The marks that one connection's peer has counted and that no controller has heard of yet; clones
/// are of the same connection.
#[derive(Clone, Debug, Default)]
pub struct Marks(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    packets: AtomicU64,
    is_asked: AtomicBool,
}

impl Marks {
    /// Takes them. The number, in packets, is exact at the moment at which a stack says that an ACK
    /// had marks: the ACK was opened before.
    pub fn take(&self) -> u64 {
        self.0.packets.swap(0, Ordering::Relaxed)
    }

    /// Asks whether a router writes CE into all packets: the first one, an Initial that is alone in
    /// its datagram, leaves as not ECN-capable. No queue marks that, so a peer that counts it ends
    /// ECN, as one does that counts a SYN (RFC 9768 section 3.2.2.3). The connection's TLS says
    /// that it was counted where it was not.
    pub fn first_leaves_without_ecn(&self) {
        self.0.is_asked.store(true, Ordering::Relaxed);
    }

    fn is_asked(&self) -> bool {
        self.0.is_asked.load(Ordering::Relaxed)
    }

    fn add(&self, packets: u64) {
        // What a peer counts has no bound.
        let _last = self.0.packets.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |marks| {
            Some(marks.saturating_add(packets))
        });
    }
}

/// Counts of ECN in the ACK frames of one packet number space; clones are of the same.
#[derive(Clone, Debug)]
pub struct EcnCounts {
    /// The largest count of CE: ACKs overtake each other.
    ce: Arc<AtomicU64>,
    marks: Marks,
    is_of_initial: bool,
}

impl EcnCounts {
    /// Those of the handshake's packets, or of data.
    pub fn new(marks: Marks) -> Self {
        Self { ce: Arc::default(), marks, is_of_initial: false }
    }

    /// Those of Initial packets: see [`Marks::first_leaves_without_ecn`].
    pub fn of_initial(marks: Marks) -> Self {
        Self { is_of_initial: true, ..Self::new(marks) }
    }

    /// Reads a packet's payload that was opened, and exchanges the counts of ECT(0) and ECT(1) in
    /// its ACK frames, for a connection whose packets leave as ECT(1) where its stack wrote ECT(0).
    /// So the stack finds what it looks for, and a path that makes ECT(0) of ECT(1) is found out.
    /// `Some` is what the stack is to read in the payload's place.
    pub fn opened(&self, payload: &mut [u8]) -> Option<Vec<u8>> {
        if self.is_of_initial && self.marks.is_asked() {
            return Some(self.with_the_first(payload));
        }
        let mut end = 0;
        loop {
            // Each time from where the last one ended: the frames borrow what is to be changed.
            let from_here = payload.get(end..).unwrap_or_default();
            let mut passed = 0;
            let counts = frames(from_here).find_map(|(_, frame)| {
                passed += frame.len();
                Ack::read(frame)?.counts
            });
            let counts = counts?;
            end += passed;
            self.hear(counts.ce);
            let ect = end - counts.bytes..end - counts.ce_bytes;
            if let Some(ect) = payload.get_mut(ect) {
                ect.rotate_left(counts.ect0_bytes);
            }
        }
    }

    /// The payload with a count of all packets in its ACK frames, the first one included; or with
    /// none, which ends ECN, if that one was marked as all others were.
    fn with_the_first(&self, payload: &[u8]) -> Vec<u8> {
        let mut out = Vec::with_capacity(payload.len() + 24);
        for (_, frame) in frames(payload) {
            let Some(ack) = Ack::read(frame) else {
                out.extend_from_slice(frame);
                continue;
            };
            let ce = ack.counts.as_ref().map_or(0, |counts| counts.ce);
            let is_changed = ce > ack.largest;
            write_integer(if is_changed { ACK } else { ACK_ECN }, &mut out);
            out.extend_from_slice(ack.acknowledged);
            if !is_changed {
                self.hear(ce);
                // More than there can be do no harm, and ACKs that overtake each other neither.
                for count in [ack.largest + 1, 0, ce] {
                    write_integer(count, &mut out);
                }
            }
        }
        out
    }

    fn hear(&self, ce: u64) {
        let last = self.ce.fetch_max(ce, Ordering::Relaxed);
        self.marks.add(ce.saturating_sub(last));
    }
}

/// An ACK frame.
struct Ack<'a> {
    largest: u64,
    /// The bytes between the type and the counts.
    acknowledged: &'a [u8],
    counts: Option<Counts>,
}

/// The counts at the end of an ACK frame: ECT(0), ECT(1), CE.
struct Counts {
    /// Of all three.
    bytes: usize,
    ect0_bytes: usize,
    ce_bytes: usize,
    ce: u64,
}

impl<'a> Ack<'a> {
    /// Reads a frame; `None` if it is another one.
    fn read(frame: &'a [u8]) -> Option<Self> {
        let mut at = 0;
        let mut next = || {
            let (value, bytes) = integer(frame.get(at..)?)?;
            at += bytes;
            Some((value, bytes))
        };
        let (kind, kind_bytes) = next()?;
        if !matches!(kind, ACK | ACK_ECN) {
            return None;
        }
        // The largest number, the delay, and the number of ranges after the first.
        let [(largest, _), _, (ranges, _)] = [next()?, next()?, next()?];
        for _ in 0..=ranges.checked_mul(2)? {
            next()?;
        }
        let counts = match kind {
            ACK_ECN => {
                let [(_, ect0_bytes), (_, ect1_bytes), (ce, ce_bytes)] =
                    [next()?, next()?, next()?];
                let bytes = ect0_bytes + ect1_bytes + ce_bytes;
                Some(Counts { bytes, ect0_bytes, ce_bytes, ce })
            }
            _ => None,
        };
        let end = at - counts.as_ref().map_or(0, |counts| counts.bytes);
        Some(Self { largest, acknowledged: frame.get(kind_bytes..end)?, counts })
    }
}

/// Writes a variable-length integer (RFC 9000 section 16) of at most 2^62, which no packet's number
/// and no count reaches.
fn write_integer(value: u64, out: &mut Vec<u8>) {
    match value {
        0..0x40 => out.push(value as u8),
        _ => out.extend_from_slice(&(value.min((1 << 62) - 1) | 0xc0 << 56).to_be_bytes()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 70 packets as ECT(0), which takes two bytes, five as ECT(1) and three marked.
    const COUNTS: [u8; 4] = [0x40, 70, 5, 3];
    const EXCHANGED: [u8; 4] = [5, 0x40, 70, 3];

    /// An ACK frame of this type with a second range and these counts.
    fn ack(kind: u8, counts: &[u8]) -> Vec<u8> {
        [&[kind, 50, 25, 1, 3, 0, 7], counts].concat()
    }

    fn opened(counts: &EcnCounts, payload: &[u8]) -> Vec<u8> {
        let mut payload = payload.to_vec();
        counts.opened(&mut payload).unwrap_or(payload)
    }

    #[test]
    fn counts_of_both_codepoints_are_exchanged_in_each_ack_and_nothing_else_is() {
        let counts = EcnCounts::new(Marks::default());
        let around = |one: &[u8], two: &[u8]| {
            // PING and PADDING, MAX_DATA, and a STREAM whose data looks like an ACK.
            let stream = [&[0x08, 4][..], &ack(3, &COUNTS)].concat();
            [&[1, 0][..], &ack(3, one), &[0x10, 9], &ack(3, two), &stream].concat()
        };
        assert_eq!(opened(&counts, &around(&COUNTS, &[1, 2, 3])), around(&EXCHANGED, &[2, 1, 3]));
        assert_eq!(opened(&counts, &ack(2, &[])), ack(2, &[]), "one without counts");
        for end in 1..ack(3, &COUNTS).len() {
            let cut = &ack(3, &COUNTS)[..end];
            assert_eq!(opened(&counts, cut), cut, "one of {end} bytes");
        }
    }

    #[test]
    fn each_mark_is_heard_of_once_in_whatever_order_acks_come() {
        let marks = Marks::default();
        let (data, handshake) = (EcnCounts::new(marks.clone()), EcnCounts::new(marks.clone()));
        let hear = |counts: &EcnCounts, ce: u8| opened(counts, &ack(3, &[0, 9, ce]));
        hear(&data, 3);
        assert_eq!(marks.take(), 3);
        assert_eq!(marks.take(), 0);
        for ce in [7, 5, 7, 9] {
            hear(&data, ce);
        }
        assert_eq!(marks.take(), 6);
        hear(&handshake, 2);
        assert_eq!(marks.take(), 2, "each space counts by itself");
        let most = ack(3, &[&[0, 9][..], &[0xff; 8]].concat());
        opened(&handshake, &most);
        opened(&data, &most);
        assert!(marks.take() > 1 << 62, "a peer may count what it likes");
    }

    /// The first packet, number 0, leaves as not ECN-capable, and number 1 as ECT(1).
    #[test]
    fn a_first_packet_that_was_marked_without_being_capable_ends_ecn() {
        let marks = Marks::default();
        let counts = EcnCounts::of_initial(marks.clone());
        let ack = |kind: u8, largest: u8, counts: &[u8]| {
            // CRYPTO before it, PADDING behind it.
            [&[6, 0, 2, 9, 9, kind, largest, 25, 0, largest], counts, &[0, 0]].concat()
        };
        assert_eq!(opened(&counts, &ack(3, 0, &[0, 1, 0])), ack(3, 0, &[1, 0, 0]), "not asked");
        marks.first_leaves_without_ecn();
        assert_eq!(opened(&counts, &ack(2, 0, &[])), ack(3, 0, &[1, 0, 0]), "not counted");
        assert_eq!(opened(&counts, &ack(3, 1, &[0, 1, 0])), ack(3, 1, &[2, 0, 0]));
        assert_eq!(opened(&counts, &ack(3, 1, &[0, 0, 1])), ack(3, 1, &[2, 0, 1]), "a queue's");
        assert_eq!(marks.take(), 1);
        assert_eq!(opened(&counts, &ack(3, 0, &[0, 0, 1])), ack(2, 0, &[]), "a router's");
        assert_eq!(opened(&counts, &ack(3, 1, &[0, 0, 2])), ack(2, 1, &[]));
        assert_eq!(marks.take(), 0);
        for end in 0..12 {
            let cut = &ack(3, 0, &[0, 0, 1])[..end];
            assert_eq!(opened(&counts, cut), cut, "{end} bytes");
        }
        // Other spaces are as they were.
        let data = EcnCounts::new(marks);
        assert_eq!(opened(&data, &ack(3, 0, &[0, 0, 1])), ack(3, 0, &[0, 0, 1]));
        let mut large = Vec::new();
        write_integer(1 << 40, &mut large);
        assert_eq!(integer(&large), Some((1 << 40, 8)));
    }
}
