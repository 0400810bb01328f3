//! Marks of L4S (RFC 9331) over stacks that know ECT(0) alone. Such a stack takes a count of ECT(1)
//! for a changed field, and tells its controller that an ACK had marks, not how many. Both are in
//! the ACK frames of the peer, which a layer at the packet protection sees before the stack does.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::frames::{ACK_ECN, frames, integer};

/// The marks that one connection's peer has counted and that no controller has heard of yet; clones
/// are of the same connection.
#[derive(Clone, Debug, Default)]
pub struct Marks(Arc<AtomicU64>);

impl Marks {
    /// Takes them. The number, in packets, is exact at the moment at which a stack says that an ACK
    /// had marks: the ACK was opened before.
    pub fn take(&self) -> u64 {
        self.0.swap(0, Ordering::Relaxed)
    }

    fn add(&self, packets: u64) {
        // What a peer counts has no bound.
        let _last = self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |marks| {
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
}

impl EcnCounts {
    /// Those of a packet number space of a connection.
    pub fn new(marks: Marks) -> Self {
        Self { ce: Arc::default(), marks }
    }

    /// Reads a packet's payload that was opened, and exchanges the counts of ECT(0) and ECT(1) in
    /// its ACK frames, for a connection whose packets leave as ECT(1) where its stack wrote ECT(0).
    /// So the stack finds what it looks for, and a path that makes ECT(0) of ECT(1) is found out.
    pub fn opened(&self, payload: &mut [u8]) {
        let mut end = 0;
        loop {
            // Each time from where the last one ended: the frames borrow what is to be changed.
            let from_here = payload.get(end..).unwrap_or_default();
            let mut passed = 0;
            let ack = frames(from_here).find_map(|(kind, frame)| {
                passed += frame.len();
                (kind == Some(ACK_ECN)).then(|| Tail::of(frame)).flatten()
            });
            let Some(tail) = ack else { return };
            end += passed;
            let last = self.ce.fetch_max(tail.ce, Ordering::Relaxed);
            self.marks.add(tail.ce.saturating_sub(last));
            let ect = end - tail.bytes..end - tail.ce_bytes;
            if let Some(ect) = payload.get_mut(ect) {
                ect.rotate_left(tail.ect0_bytes);
            }
        }
    }
}

/// The counts at the end of an ACK frame: ECT(0), ECT(1), CE.
struct Tail {
    /// Of all three.
    bytes: usize,
    ect0_bytes: usize,
    ce_bytes: usize,
    ce: u64,
}

impl Tail {
    fn of(frame: &[u8]) -> Option<Self> {
        let mut at = 0;
        let mut next = || {
            let (value, bytes) = integer(frame.get(at..)?)?;
            at += bytes;
            Some((value, bytes))
        };
        // The type, the largest number, the delay, and the number of ranges after the first.
        let [_, _, _, (ranges, _)] = [next()?, next()?, next()?, next()?];
        for _ in 0..=ranges.checked_mul(2)? {
            next()?;
        }
        let [(_, ect0_bytes), (_, ect1_bytes), (ce, ce_bytes)] = [next()?, next()?, next()?];
        Some(Self { bytes: ect0_bytes + ect1_bytes + ce_bytes, ect0_bytes, ce_bytes, ce })
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
        counts.opened(&mut payload);
        payload
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
}
