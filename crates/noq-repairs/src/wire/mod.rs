//! QUIC's packets, as far as they are read and written outside of noq.

pub(crate) mod frames;
pub(crate) mod header;

/// Version 1 (RFC 9000), as it is written in long headers.
pub const V1: u32 = 1;
/// Version 2 (RFC 9369).
pub const V2: u32 = 0x6b33_43cf;

/// The bit of the first byte that says that a header is long.
pub(crate) const LONG_FORM: u8 = 0x80;

/// Reads bytes one after the other; those in it were not read yet. What is cut off is `None`.
pub struct Reader<'a>(pub &'a [u8]);

impl<'a> Reader<'a> {
    /// The next so many bytes; `None` if there are fewer.
    pub fn take(&mut self, bytes: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(bytes)?;
        self.0 = rest;
        Some(taken)
    }

    /// The next byte.
    pub fn byte(&mut self) -> Option<u8> {
        self.take(1)?.first().copied()
    }

    /// A variable-length integer (RFC 9000 section 16).
    pub fn integer(&mut self) -> Option<u64> {
        let first = self.byte()?;
        let more = self.take((1 << (first >> 6)) - 1)?;
        Some(more.iter().fold(u64::from(first & 0x3f), |value, byte| value << 8 | u64::from(*byte)))
    }

    /// The same where it is a number of bytes.
    pub fn size(&mut self) -> Option<usize> {
        self.integer()?.try_into().ok()
    }

    /// Bytes behind their number, a variable-length integer.
    pub fn with_length(&mut self) -> Option<&'a [u8]> {
        let length = self.size()?;
        self.take(length)
    }

    /// The next transport parameter (RFC 9000 section 18).
    pub(crate) fn parameter(&mut self) -> Option<Parameter<'a>> {
        let before = self.0;
        let (id, value) = (self.integer()?, self.with_length()?);
        Some(Parameter { id, value, whole: &before[..before.len() - self.0.len()] })
    }
}

/// The part of a long header that is the same in all versions (RFC 8999 section 5.1).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Invariants<'a> {
    /// The first byte; its highest bit says that the header is long.
    pub first: u8,
    /// The version; 0 is that of a Version Negotiation packet.
    pub version: u32,
    /// The destination's connection ID.
    pub destination: &'a [u8],
    /// The source's connection ID.
    pub source: &'a [u8],
    /// The bytes behind it.
    pub rest: &'a [u8],
}

impl<'a> Invariants<'a> {
    /// Those at the beginning of a packet; `None` for a short header, or if it is cut off.
    pub fn read(packet: &'a [u8]) -> Option<Self> {
        let mut reader = Reader(packet);
        let first = reader.byte().filter(|first| first & LONG_FORM != 0)?;
        let version = u32::from_be_bytes(*reader.take(4)?.first_chunk()?);
        let mut id = || {
            let length = reader.byte()?;
            reader.take(length.into())
        };
        let (destination, source) = (id()?, id()?);
        Some(Self { first, version, destination, source, rest: reader.0 })
    }

    /// The packet. A connection ID has 255 bytes at most.
    pub fn write(&self) -> Vec<u8> {
        let mut packet = vec![self.first];
        packet.extend_from_slice(&self.version.to_be_bytes());
        for id in [self.destination, self.source] {
            packet.push(id.len() as u8);
            packet.extend_from_slice(id);
        }
        packet.extend_from_slice(self.rest);
        packet
    }
}

/// A transport parameter.
pub(crate) struct Parameter<'a> {
    pub(crate) id: u64,
    pub(crate) value: &'a [u8],
    /// All of its bytes.
    pub(crate) whole: &'a [u8],
}

/// Writes a variable-length integer (RFC 9000 section 16) of less than 2^62.
pub fn write_integer(value: u64, out: &mut Vec<u8>) {
    let bytes = value.to_be_bytes();
    let (skip, prefix) = match value {
        0..0x40 => (7, 0),
        0x40..0x4000 => (6, 0x40),
        0x4000..0x4000_0000 => (4, 0x80),
        _ => (0, 0xc0),
    };
    let start = out.len();
    out.extend_from_slice(&bytes[skip..]);
    out[start] |= prefix;
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The examples of RFC 9000 appendix A.1, and the limits of each length.
    #[test]
    fn integers_are_written_as_short_as_they_are_read() {
        for (bytes, value) in [
            (&[0xc2, 0x19, 0x7c, 0x5e, 0xff, 0x14, 0xe8, 0x8c][..], 151_288_809_941_952_652),
            (&[0x9d, 0x7f, 0x3e, 0x7d], 494_878_333),
            (&[0x7b, 0xbd], 15_293),
            (&[0x25], 37),
        ] {
            let mut out = Vec::new();
            write_integer(value, &mut out);
            assert_eq!(out, bytes);
            assert_eq!(Reader(bytes).integer(), Some(value));
            assert_eq!(Reader(&bytes[..bytes.len() - 1]).integer(), None);
        }
        assert_eq!(Reader(&[0x40, 0x25]).integer(), Some(37), "longer than it has to be");
        for value in [0, 63, 64, 16_383, 16_384, (1 << 30) - 1, 1 << 30, (1 << 62) - 1] {
            let mut out = Vec::new();
            write_integer(value, &mut out);
            assert_eq!(Reader(&out).integer(), Some(value));
        }
    }

    #[test]
    fn a_long_header_is_read_as_it_was_written() {
        let ids: [&[u8]; 3] = [&[], &[7; 8], &[9; 255]];
        for (destination, source) in ids.iter().flat_map(|to| ids.map(|from| (*to, from))) {
            for version in [0, V1, V2, u32::MAX] {
                let header = Invariants { first: 0xc3, version, destination, source, rest: &[] };
                let bytes = header.write();
                assert_eq!(Invariants::read(&bytes), Some(header));
                assert_eq!(
                    Invariants::read(&[&bytes[..], b"rest"].concat()).map(|h| h.rest),
                    Some(&b"rest"[..])
                );
                for end in 0..bytes.len() {
                    assert_eq!(Invariants::read(&bytes[..end]), None, "{end} bytes");
                }
                assert_eq!(
                    Invariants::read(&[&[0x43], &bytes[1..]].concat()),
                    None,
                    "a short header"
                );
            }
        }
    }
}
