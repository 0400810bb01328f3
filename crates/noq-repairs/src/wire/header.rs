//! Fields of QUIC packets that anyone on the path can read: the long headers of versions 1 and 2
//! (RFC 9000 section 17.2, RFC 9369 section 3.2).

use super::{Invariants, LONG_FORM, Reader, V1, V2};

/// The smallest datagram that may begin a connection (RFC 9000 section 14.1).
pub(crate) const MIN_INITIAL_BYTES: usize = 1200;

/// The types of packets with a long header.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum LongType {
    Initial,
    ZeroRtt,
    Handshake,
    Retry,
}

/// A long header of version 1 or 2.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct LongHeader<'a> {
    /// Offset of the packet in its datagram.
    pub(crate) start: usize,
    pub(crate) kind: LongType,
    pub(crate) destination: &'a [u8],
    pub(crate) source: &'a [u8],
}

/// The version of a packet with a long header; `None` for a short one.
pub(crate) fn long_version(packet: &[u8]) -> Option<u32> {
    let (first, rest) = packet.split_first()?;
    if first & LONG_FORM == 0 {
        return None;
    }
    // A packet that is too short for a version is not of any that there is.
    Some(rest.first_chunk().map_or(u32::MAX, |bytes| u32::from_be_bytes(*bytes)))
}

/// The long headers of versions 1 and 2 in a datagram, up to the first thing that is none.
pub(crate) fn long_headers(datagram: &[u8]) -> impl Iterator<Item = LongHeader<'_>> {
    let mut rest = datagram;
    std::iter::from_fn(move || {
        let start = datagram.len() - rest.len();
        let Invariants { destination, source, rest: behind, .. } = Invariants::read(rest)?;
        let kind = long_type(rest)?;
        // A header without a packet that fits behind it is the last.
        rest = behind_packet(kind, behind).unwrap_or_default();
        Some(LongHeader { start, kind, destination, source })
    })
}

/// The type of a packet with a long header of version 1 or 2.
fn long_type(packet: &[u8]) -> Option<LongType> {
    // The types of version 2 are those of version 1 and one more, modulo four.
    let added = match long_version(packet)? {
        V1 => 0,
        V2 => 1,
        _ => return None,
    };
    Some(match (packet.first()? >> 4).wrapping_sub(added) & 3 {
        0 => LongType::Initial,
        1 => LongType::ZeroRtt,
        2 => LongType::Handshake,
        _ => LongType::Retry,
    })
}

/// The bytes behind a packet whose header was read up to the connection IDs.
fn behind_packet(kind: LongType, rest: &[u8]) -> Option<&[u8]> {
    let mut reader = Reader(rest);
    if kind == LongType::Retry {
        return None;
    }
    if kind == LongType::Initial {
        // The token.
        reader.with_length()?;
    }
    reader.with_length()?;
    Some(reader.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn coalesced_packets_are_found_one_after_the_other() {
        // Initial with a token of 2 bytes and 3 bytes of packet, Handshake with 4, a short header.
        let datagram = [
            &[0xc0, 0, 0, 0, 1, 2, 0xd1, 0xd2, 1, 0x51, 2, 9, 9, 0x40, 3, 7, 7, 7][..],
            &[0xe5, 0, 0, 0, 1, 2, 0xd3, 0xd4, 0, 4, 8, 8, 8, 8],
            &[0x40, 1, 2, 3],
        ]
        .concat();
        let found: Vec<LongHeader<'_>> = long_headers(&datagram).collect();
        assert_eq!(
            found,
            [
                LongHeader {
                    start: 0,
                    kind: LongType::Initial,
                    destination: &[0xd1, 0xd2],
                    source: &[0x51]
                },
                LongHeader {
                    start: 18,
                    kind: LongType::Handshake,
                    destination: &[0xd3, 0xd4],
                    source: &[]
                },
            ]
        );
        // However it is cut off, nothing is read beyond its end.
        for end in 0..datagram.len() {
            assert!(long_headers(&datagram[..end]).count() <= 2);
        }
        let mut second = datagram.clone();
        for (start, first) in [(0, 0xd0), (18, 0xf5)] {
            second[start] = first;
            second[start + 1..start + 5].copy_from_slice(&V2.to_be_bytes());
        }
        assert_eq!(long_headers(&second).collect::<Vec<_>>(), found, "version 2");
        let mut other = datagram.clone();
        other[4] = 2;
        assert_eq!(long_headers(&other).count(), 0, "not this version");
    }

    #[test]
    fn any_bytes_can_be_read() {
        let mut state = 1_u64;
        for length in 0..300 {
            let bytes: Vec<u8> = (0..length)
                .map(|_| {
                    state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
                    (state >> 56) as u8
                })
                .collect();
            let mut version_1 = [&[0xc0, 0, 0, 0, 1][..], &bytes].concat();
            for kind in 0..4 {
                version_1[0] = 0xc0 | kind << 4;
                assert!(long_headers(&version_1).count() <= version_1.len());
            }
            let _any = long_headers(&bytes).count();
        }
    }
}
