//! As much of QUIC's frames as it takes to find a PATH_CHALLENGE and to change an ACK (RFC 9000
//! section 19).

use std::ops::Range;

use fullpipe_adapter::frames::{ACK, ACK_ECN, IMMEDIATE_ACK, PADDING, PING, frames};

use super::{Reader, write_integer};

/// The type of a frame that asks whether the peer receives on a path, as it is written, and of the
/// answer.
pub(crate) const PATH_CHALLENGE: u8 = 0x1a;
pub(crate) const PATH_RESPONSE: u8 = 0x1b;
/// Type and data of either.
pub(crate) const PATH_FRAME_BYTES: usize = 9;

/// A PATH_CHALLENGE in a packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Challenge {
    pub(crate) data: [u8; 8],
    /// True if the packet has nothing else that its receiver acknowledges.
    pub(crate) alone: bool,
}

/// The PATH_CHALLENGE of a payload, if it has one.
pub(crate) fn challenge(payload: &[u8]) -> Option<Challenge> {
    let (mut found, mut others) = (None, false);
    for (kind, frame) in frames(payload) {
        match kind {
            Some(kind) if kind == u64::from(PATH_CHALLENGE) => found = frame.get(1..),
            Some(PADDING | ACK | ACK_ECN) => {}
            Some(_) | None => others = true,
        }
    }
    Some(Challenge { data: found?.try_into().ok()?, alone: !others })
}

/// The data of the PATH_RESPONSE frames of a payload.
pub(crate) fn responses(payload: &[u8]) -> impl Iterator<Item = [u8; 8]> {
    let responses = frames(payload).filter(|(kind, _)| *kind == Some(PATH_RESPONSE.into()));
    responses.filter_map(|(_, frame)| frame.get(1..)?.try_into().ok())
}

/// True if a payload asks for an acknowledgement and says nothing else that its receiver has to
/// get.
pub(crate) fn only_asks(payload: &[u8]) -> bool {
    let mut asks = false;
    let known = frames(payload).all(|(kind, _)| {
        asks |= matches!(kind, Some(PING | IMMEDIATE_ACK));
        matches!(kind, Some(PADDING | PING | IMMEDIATE_ACK | ACK | ACK_ECN))
    });
    known && asks
}

/// The place for a PATH_CHALLENGE in the padding of a payload that has a PATH_RESPONSE and nothing
/// else.
pub(crate) fn room_for_challenge(payload: &[u8]) -> Option<Range<usize>> {
    let (response, padding) = payload.split_at_checked(PATH_FRAME_BYTES)?;
    let room = response[0] == PATH_RESPONSE
        && padding.len() >= PATH_FRAME_BYTES
        && padding.iter().all(|byte| *byte == 0);
    room.then_some(PATH_FRAME_BYTES..2 * PATH_FRAME_BYTES)
}

/// A packet in which not all frames are known.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Unknown;

/// The payload without these packet numbers in its ACK frames; `None` if there are none of them in
/// it.
pub(crate) fn without_acks(payload: &[u8], numbers: &[u64]) -> Result<Option<Vec<u8>>, Unknown> {
    let mut changed = None;
    let (mut at, mut copied) = (0, 0);
    for (kind, frame) in frames(payload) {
        let begin = at;
        at += frame.len();
        if !matches!(kind.ok_or(Unknown)?, ACK | ACK_ECN) {
            continue;
        }
        let ack = Ack::read(frame).ok_or(Unknown)?;
        if !numbers.iter().any(|number| ack.ranges.iter().any(|range| range.contains(number))) {
            continue;
        }
        let out = changed.get_or_insert_with(|| Vec::with_capacity(payload.len() + 16));
        out.extend_from_slice(&payload[copied..begin]);
        ack.write_without(numbers, out);
        copied = at;
    }
    if let Some(out) = &mut changed {
        out.extend_from_slice(&payload[copied..]);
    }
    Ok(changed)
}

/// An ACK frame: its ranges from the newest to the oldest, each with its end excluded.
struct Ack<'a> {
    kind: u64,
    delay: u64,
    ranges: Vec<Range<u64>>,
    ecn: &'a [u8],
}

impl<'a> Ack<'a> {
    fn read(frame: &'a [u8]) -> Option<Self> {
        let mut reader = Reader(frame);
        let (kind, largest, delay) = (reader.integer()?, reader.integer()?, reader.integer()?);
        let more = reader.integer()?;
        let mut smallest = largest.checked_sub(reader.integer()?)?;
        let mut ranges: Vec<_> = std::iter::once(smallest..largest + 1).collect();
        for _ in 0..more {
            let largest = smallest.checked_sub(reader.integer()?.checked_add(2)?)?;
            smallest = largest.checked_sub(reader.integer()?)?;
            ranges.push(smallest..largest + 1);
        }
        Some(Self { kind, delay, ranges, ecn: reader.0 })
    }

    fn write_without(mut self, numbers: &[u64], out: &mut Vec<u8>) {
        for number in numbers {
            self.ranges = self
                .ranges
                .into_iter()
                .flat_map(|range| {
                    let inside = range.contains(number);
                    let upper = if inside { number + 1..range.end } else { range.clone() };
                    let lower = if inside { range.start..*number } else { 0..0 };
                    [upper, lower]
                })
                .filter(|range| !range.is_empty())
                .collect();
        }
        let Some((first, rest)) = self.ranges.split_first() else {
            // PADDING, so that the packet is not empty.
            return out.push(0);
        };
        write_integer(self.kind, out);
        write_integer(first.end - 1, out);
        write_integer(self.delay, out);
        write_integer(rest.len() as u64, out);
        write_integer(first.end - 1 - first.start, out);
        let mut smallest = first.start;
        for range in rest {
            write_integer(smallest - range.end - 1, out);
            write_integer(range.end - 1 - range.start, out);
            smallest = range.start;
        }
        out.extend_from_slice(self.ecn);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ack(largest: u64, first: u64, more: &[(u64, u64)]) -> Vec<u8> {
        let mut out = Vec::new();
        for value in [ACK, largest, 25, more.len() as u64, first] {
            write_integer(value, &mut out);
        }
        for (gap, length) in more {
            write_integer(*gap, &mut out);
            write_integer(*length, &mut out);
        }
        out
    }

    fn acknowledged(frame: &[u8]) -> Vec<u64> {
        let mut numbers: Vec<u64> =
            Ack::read(frame).expect("an ACK").ranges.into_iter().flatten().collect();
        numbers.sort_unstable();
        numbers
    }

    #[test]
    fn a_number_is_taken_out_of_an_ack_and_nothing_else() {
        // 90-100, 70-80 and 60.
        let whole = ack(100, 10, &[(8, 10), (8, 0)]);
        let all = acknowledged(&whole);
        assert_eq!(all.len(), 23);
        for taken in [&[100][..], &[90], &[95], &[60], &[75, 76], &[100, 60, 70], &[99, 100]] {
            let left = without_acks(&whole, taken).expect("known").expect("changed");
            let expected: Vec<u64> = all.iter().copied().filter(|n| !taken.contains(n)).collect();
            assert_eq!(acknowledged(&left), expected, "without {taken:?}");
        }
        for other in [&[][..], &[85], &[101, 59, 0]] {
            assert_eq!(without_acks(&whole, other), Ok(None));
        }
        assert_eq!(without_acks(&ack(7, 0, &[]), &[7]), Ok(Some(vec![0])), "PADDING is left");
    }

    #[test]
    fn what_is_around_an_ack_stays() {
        let around = |ack: &[u8]| {
            let stream = [0x0a, 4, 3, 1, 2, 3];
            [&[1][..], ack, &[0x10, 9], ack, &stream].concat()
        };
        let changed =
            without_acks(&around(&ack(9, 3, &[])), &[9]).expect("known").expect("changed");
        assert_eq!(changed, around(&ack(8, 2, &[])));
        // ECN counts stay as they were.
        let mut ecn = ack(9, 3, &[]);
        ecn[0] = 3;
        ecn.extend_from_slice(&[5, 6, 7]);
        let changed = without_acks(&ecn, &[6]).expect("known").expect("changed");
        assert_eq!(changed[changed.len() - 3..], [5, 6, 7]);
        assert_eq!(without_acks(&[0x21, 0, 0], &[1]), Err(Unknown));
        assert_eq!(without_acks(&[2, 9], &[9]), Err(Unknown));
    }

    #[test]
    fn a_challenge_is_found_among_other_frames() {
        let data = [1, 2, 3, 4, 5, 6, 7, 8];
        let frame = [&[0x1a][..], &data].concat();
        let found = |before: &[u8], after: &[u8]| challenge(&[before, &frame, after].concat());
        assert_eq!(found(&[], &[0; 50]), Some(Challenge { data, alone: true }));
        assert_eq!(found(&ack(9, 3, &[]), &[]), Some(Challenge { data, alone: true }));
        assert_eq!(found(&[1], &[]), Some(Challenge { data, alone: false }));
        assert_eq!(found(&[], &[0x08, 0, 0x1a, 9, 9]), Some(Challenge { data, alone: false }));
        assert_eq!(found(&[], &[0x80, 0, 0, 0x77]), Some(Challenge { data, alone: false }));
        assert_eq!(challenge(&[0x08, 0, 0x1a, 1, 2, 3, 4, 5, 6, 7, 8]), None, "it is data");
    }

    #[test]
    fn a_probe_takes_the_place_of_what_only_asks() {
        assert!(only_asks(&[0x01, 0, 0]));
        assert!(only_asks(&[&ack(9, 3, &[])[..], &[0x01]].concat()));
        assert!(only_asks(&[0x1f]));
        assert!(!only_asks(&ack(9, 3, &[])), "an ACK alone asks for nothing");
        assert!(!only_asks(&[0x01, 0x10, 9]), "MAX_DATA would be lost");
        assert!(!only_asks(&[0x01, 0x40]), "cut off");
    }

    #[test]
    fn a_challenge_has_room_behind_a_response_alone() {
        let response = [0x1b, 1, 2, 3, 4, 5, 6, 7, 8];
        let padded = [&response[..], &[0; 20]].concat();
        assert_eq!(room_for_challenge(&padded), Some(9..18));
        assert_eq!(responses(&padded).collect::<Vec<_>>(), [[1, 2, 3, 4, 5, 6, 7, 8]]);
        assert_eq!(room_for_challenge(&[&response[..], &[0; 8]].concat()), None);
        assert_eq!(room_for_challenge(&[&response[..], &[0, 1], &[0; 20]].concat()), None);
        assert_eq!(room_for_challenge(&[0; 30]), None);
        assert_eq!(responses(&[0x08, 0, 0x1b, 1, 2, 3, 4, 5, 6, 7, 8]).count(), 0, "it is data");
    }
}
