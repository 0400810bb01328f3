//! The packet that a client acknowledges and throws away.
//!
//! picoquic's client (1.1.53) changes to version 2 with the header of the server's first packet of
//! that version, and loses the content of this packet: it acknowledges its number without the
//! frames. noq takes the acknowledgement for what it says and never sends the ServerHello again, so
//! that the handshake ends in a timeout. Therefore that one number is taken out of the
//! acknowledgements of a client that was moved to version 2, as if the packet had been lost. For a
//! client that did read the packet nothing changes, because the first Handshake packet ends all
//! Initial packets (RFC 9001 section 4.9.1).

use std::ops::RangeInclusive;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::BytesMut;
use noq::VarInt;
use noq_proto::coding::Encodable;

use crate::socket::header::Reader;

const NONE: u64 = u64::MAX;
const PADDING: usize = 0;
const PING: usize = 1;
const ACK: usize = 2;
const ACK_ECN: usize = 3;
const CRYPTO: usize = 6;

/// The number of the first Initial packet of version 2 that a server sends to a client that began
/// with version 1.
#[derive(Clone, Debug)]
pub(super) struct FirstOfV2(Arc<AtomicU64>);

impl FirstOfV2 {
    pub(super) fn new() -> Self {
        Self(Arc::new(AtomicU64::new(NONE)))
    }

    /// Such a packet is sent.
    pub(super) fn sent(&self, number: u64) {
        self.0.fetch_min(number, Ordering::Relaxed);
    }

    /// Takes the number out of the acknowledgements of a packet's frames.
    pub(super) fn forget(&self, frames: &mut BytesMut) {
        let number = self.0.load(Ordering::Relaxed);
        if number != NONE
            && let Some(changed) = without(frames, number)
        {
            *frames = changed;
        }
    }
}

/// The frames of an Initial packet without the acknowledgement of `number`; nothing if it is not
/// acknowledged, or for frames that noq will refuse.
fn without(frames: &[u8], number: u64) -> Option<BytesMut> {
    let mut rest = Reader(frames);
    while !rest.0.is_empty() {
        let before = frames.len() - rest.0.len();
        match rest.integer()? {
            PADDING | PING => {}
            kind @ (ACK | ACK_ECN) => {
                let (delay, ranges) = acknowledged(&mut rest)?;
                let counts = rest.0;
                for _ in 0..if kind == ACK_ECN { 3 } else { 0 } {
                    rest.integer()?;
                }
                let counts = &counts[..counts.len() - rest.0.len()];
                if !ranges.iter().any(|range| range.contains(&number)) {
                    continue;
                }
                let mut changed = BytesMut::from(&frames[..before]);
                write(&mut changed, kind, delay, &split(&ranges, number), counts);
                changed.extend_from_slice(rest.0);
                if changed.is_empty() {
                    // A packet has a frame.
                    changed.extend_from_slice(&[PADDING as u8]);
                }
                return Some(changed);
            }
            CRYPTO => {
                rest.integer()?;
                let length = rest.integer()?;
                rest.take(length)?;
            }
            _ => return None,
        }
    }
    None
}

/// The delay and the ranges of an ACK frame, the largest first (RFC 9000 section 19.3).
fn acknowledged(rest: &mut Reader<'_>) -> Option<(u64, Vec<RangeInclusive<u64>>)> {
    let mut next = || rest.integer().map(|value| value as u64);
    let (mut largest, delay, more) = (next()?, next()?, next()?);
    let mut ranges = Vec::new();
    loop {
        let smallest = largest.checked_sub(next()?)?;
        ranges.push(smallest..=largest);
        if ranges.len() as u64 > more {
            return Some((delay, ranges));
        }
        largest = smallest.checked_sub(next()?.checked_add(2)?)?;
    }
}

fn split(ranges: &[RangeInclusive<u64>], number: u64) -> Vec<RangeInclusive<u64>> {
    let parts = ranges.iter().flat_map(|range| {
        let (smallest, largest) = range.clone().into_inner();
        match range.contains(&number) {
            false => [Some(range.clone()), None],
            true => [
                (number < largest).then(|| number + 1..=largest),
                (smallest < number).then(|| smallest..=number - 1),
            ],
        }
    });
    parts.flatten().collect()
}

/// An ACK frame of these ranges; none of no ranges.
fn write(
    to: &mut BytesMut,
    kind: usize,
    delay: u64,
    ranges: &[RangeInclusive<u64>],
    counts: &[u8],
) {
    let Some((first, more)) = ranges.split_first() else { return };
    let mut integer = |value: u64| VarInt::from_u64(value).unwrap_or_default().encode(to);
    integer(kind as u64);
    integer(*first.end());
    integer(delay);
    integer(more.len() as u64);
    integer(first.end() - first.start());
    let mut smallest = *first.start();
    for range in more {
        integer(smallest - range.end() - 2);
        integer(range.end() - range.start());
        smallest = *range.start();
    }
    to.extend_from_slice(counts);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn forgotten(frames: &[u8], number: u64) -> Vec<u8> {
        let first = FirstOfV2::new();
        first.sent(number);
        first.sent(number + 1);
        let mut frames = BytesMut::from(frames);
        first.forget(&mut frames);
        frames.to_vec()
    }

    #[test]
    fn one_number_is_taken_out_and_all_else_stays() {
        // PING, CRYPTO of two bytes, ACK of 0 with ECN counts, PADDING.
        let (before, after) = ([1, 6, 0, 2, 9, 9], [0, 0]);
        let ack = [3, 0, 5, 0, 0, 1, 0, 0];
        assert_eq!(forgotten(&[&before[..], &ack, &after].concat(), 0), [1, 6, 0, 2, 9, 9, 0, 0]);
        assert_eq!(forgotten(&[2, 0, 5, 0, 0], 0), [0], "an empty packet is none");
        // 0 to 2.
        assert_eq!(forgotten(&[2, 2, 5, 0, 2], 0), [2, 2, 5, 0, 1]);
        assert_eq!(forgotten(&[3, 2, 5, 0, 2, 3, 0, 0], 2), [3, 1, 5, 0, 1, 3, 0, 0]);
        assert_eq!(forgotten(&[2, 2, 5, 0, 2], 1), [2, 2, 5, 1, 0, 0, 0]);
        // 7 and 8, 4, and 0 to 2.
        let ranges = [2, 8, 5, 2, 1, 1, 0, 0, 2];
        assert_eq!(forgotten(&ranges, 4), [2, 8, 5, 1, 1, 3, 2]);
        assert_eq!(forgotten(&ranges, 0), [2, 8, 5, 2, 1, 1, 0, 0, 1]);
        assert_eq!(forgotten(&ranges, 3), ranges, "was not acknowledged");
    }

    #[test]
    fn what_is_malformed_is_left_to_noq() {
        for frames in
            [&[2, 0, 5][..], &[2, 1, 5, 0, 2], &[2, 4, 5, 1, 0, 3, 0], &[0x1c, 0], &[6, 0, 9]]
        {
            assert_eq!(forgotten(frames, 0), frames);
        }
        let mut frames = BytesMut::from(&[2, 0, 5, 0, 0][..]);
        FirstOfV2::new().forget(&mut frames);
        assert_eq!(&frames[..], [2, 0, 5, 0, 0], "nothing was sent in version 2");
    }
}
