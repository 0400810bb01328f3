//! Fields of QUIC packets and frames (RFC 9000 sections 12, 17 and 19; RFC 9369 section 3.2).

/// Version 1 (RFC 9000).
pub const V1: u32 = 1;
/// Version 2 (RFC 9369).
pub const V2: u32 = 0x6b33_43cf;

/// The types of packets.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PacketType {
    /// The first of each end.
    Initial,
    /// A client's data before the handshake.
    ZeroRtt,
    /// The rest of the handshake.
    Handshake,
    /// A server's request to begin again with its token.
    Retry,
    /// All that follows the handshake.
    OneRtt,
    /// A server's list of versions.
    VersionNegotiation,
    /// Of another version, or nothing that is one.
    Unknown,
}

/// The bytes that were not read yet.
#[derive(Clone, Copy)]
pub struct Reader<'a>(pub &'a [u8]);

impl<'a> Reader<'a> {
    /// So many bytes.
    pub fn take(&mut self, bytes: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(bytes)?;
        self.0 = rest;
        Some(taken)
    }

    /// The same as an array.
    pub fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        self.take(N)?.try_into().ok()
    }

    /// A byte.
    pub fn byte(&mut self) -> Option<u8> {
        self.array::<1>().map(|[byte]| byte)
    }

    /// A number of so many bytes.
    pub fn number(&mut self, bytes: usize) -> Option<u64> {
        Some(self.take(bytes)?.iter().fold(0, |value, byte| value << 8 | u64::from(*byte)))
    }

    /// A variable-length integer (RFC 9000 section 16).
    pub fn integer(&mut self) -> Option<u64> {
        let first = self.byte()?;
        let more = (1 << (first >> 6)) - 1;
        let rest = self.number(more)?;
        Some(u64::from(first & 0x3f) << (8 * more) | rest)
    }

    /// As many bytes as the integer before them says.
    pub fn counted(&mut self) -> Option<&'a [u8]> {
        let bytes = self.integer()?;
        self.take(usize::try_from(bytes).ok()?)
    }

    /// As many bytes as a number of so many bytes before them says.
    pub fn sized(&mut self, bytes: usize) -> Option<&'a [u8]> {
        let length = self.number(bytes)?;
        self.take(usize::try_from(length).ok()?)
    }
}

/// A long header.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct LongHeader<'a> {
    pub(super) kind: PacketType,
    pub(super) version: u32,
    pub(super) destination: &'a [u8],
    pub(super) source: &'a [u8],
    /// Of an Initial, the token that it returns; of a Retry, the one that it gives.
    pub(super) token: &'a [u8],
    /// Offset of the packet number; where there is none, the end of the packet.
    pub(super) number_at: usize,
    pub(super) end: usize,
}

/// Bytes of the tag at the end of a Retry.
const RETRY_TAG: usize = 16;

impl<'a> LongHeader<'a> {
    /// The header at the beginning of a packet, with what follows the packet still behind it.
    pub(super) fn read(packet: &'a [u8]) -> Option<Self> {
        let mut reader = Reader(packet);
        let first = reader.byte()?;
        if first & 0x80 == 0 {
            return None;
        }
        let version = u32::from_be_bytes(reader.array()?);
        let destination = reader.sized(1)?;
        let source = reader.sized(1)?;
        let whole = packet.len();
        let plain = Self {
            kind: PacketType::Unknown,
            version,
            destination,
            source,
            token: &[],
            number_at: whole,
            end: whole,
        };
        // The types of version 2 are those of version 1 and one more, modulo four.
        let added = match version {
            0 => return Some(Self { kind: PacketType::VersionNegotiation, ..plain }),
            V1 => 0,
            V2 => 1,
            _ => return Some(plain),
        };
        let kind = match (first >> 4).wrapping_sub(added) & 3 {
            0 => PacketType::Initial,
            1 => PacketType::ZeroRtt,
            2 => PacketType::Handshake,
            _ => PacketType::Retry,
        };
        if kind == PacketType::Retry {
            let token = reader.take(reader.0.len().checked_sub(RETRY_TAG)?)?;
            return Some(Self { kind, token, ..plain });
        }
        let token = if kind == PacketType::Initial { reader.counted()? } else { &[] };
        let length = usize::try_from(reader.integer()?).ok()?;
        let number_at = whole - reader.0.len();
        reader.take(length)?;
        Some(Self { kind, token, number_at, end: number_at + length, ..plain })
    }
}

/// The facts in a packet's frames that are asked for.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Frames {
    /// Data of PATH_CHALLENGE frames.
    pub challenges: Vec<[u8; 8]>,
    /// Data of PATH_RESPONSE frames.
    pub responses: Vec<[u8; 8]>,
    /// True if its packet is to be acknowledged (RFC 9002 section 2).
    pub is_eliciting: bool,
    /// Packets that are acknowledged, as ranges with both of their ends, the newest first.
    pub acked: Vec<(u64, u64)>,
    /// The ECN counts of an acknowledgement, if it has some: ECT(0), ECT(1), CE.
    pub ecn_counts: Option<[u64; 3]>,
    /// The code of a close: the transport's or the application's.
    pub close: Option<Close>,
    /// Data of CRYPTO frames with their offsets.
    pub crypto: Vec<(u64, Vec<u8>)>,
    /// Connection IDs that the sender gives to its peer.
    pub new_ids: Vec<Vec<u8>>,
}

/// The most ranges of an acknowledgement that are kept. What is in older ones was in others before.
const MOST_RANGES: usize = 32;

/// The end of a connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Close {
    /// True if the application ended it.
    pub is_application: bool,
    /// Its code.
    pub code: u64,
}

impl Close {
    /// HTTP/3's code of an end without an error (RFC 9114 section 8.1).
    const H3_NO_ERROR: u64 = 0x100;

    /// False for the codes of an orderly end: 0, and HTTP/3's own.
    pub fn is_error(&self) -> bool {
        self.code != 0 && !(self.is_application && self.code == Self::H3_NO_ERROR)
    }
}

impl Frames {
    /// The frames of a decrypted payload, up to one that is not known.
    pub(super) fn read(payload: &[u8]) -> Self {
        let mut frames = Self::default();
        let mut reader = Reader(payload);
        while !reader.0.is_empty() {
            if frames.read_one(&mut reader).is_none() {
                // A frame of an extension, of which only few are not acknowledged.
                frames.is_eliciting = true;
                break;
            }
        }
        frames
    }

    fn read_one(&mut self, reader: &mut Reader<'_>) -> Option<()> {
        let kind = reader.integer()?;
        // All but PADDING, ACK and CONNECTION_CLOSE.
        self.is_eliciting |= !matches!(kind, 0x00 | 0x02 | 0x03 | 0x1c | 0x1d);
        let mut skip = |integers: usize| (0..integers).try_for_each(|_| reader.integer().map(drop));
        match kind {
            // PADDING, PING, HANDSHAKE_DONE, IMMEDIATE_ACK.
            0x00 | 0x01 | 0x1e | 0x1f => {}
            0x02 | 0x03 => {
                let mut last = reader.integer()?;
                reader.integer()?;
                let ranges = reader.integer()?;
                for n in 0..=ranges {
                    // RFC 9000 section 19.3.1: both numbers are one less than what they count.
                    if n > 0 {
                        last = last.checked_sub(reader.integer()?.checked_add(2)?)?;
                    }
                    let first = last.checked_sub(reader.integer()?)?;
                    if self.acked.len() < MOST_RANGES {
                        self.acked.push((first, last));
                    }
                    last = first;
                }
                if kind == 0x03 {
                    self.ecn_counts =
                        Some([reader.integer()?, reader.integer()?, reader.integer()?]);
                }
            }
            // RESET_STREAM, STOP_SENDING, MAX_STREAM_DATA, STREAM_DATA_BLOCKED, and ACK_FREQUENCY
            // of a draft.
            0x04 => skip(3)?,
            0x05 | 0x11 | 0x15 => skip(2)?,
            0xaf => skip(4)?,
            0x06 => {
                let offset = reader.integer()?;
                self.crypto.push((offset, reader.counted()?.to_vec()));
            }
            // NEW_TOKEN.
            0x07 => drop(reader.counted()?),
            // STREAM: bit 2 for an offset, bit 1 for a length.
            0x08..=0x0f => {
                skip(1 + usize::from(kind & 4 != 0))?;
                if kind & 2 == 0 {
                    reader.0 = &[];
                } else {
                    reader.counted()?;
                }
            }
            // MAX_DATA, MAX_STREAMS, DATA_BLOCKED, STREAMS_BLOCKED, RETIRE_CONNECTION_ID.
            0x10 | 0x12 | 0x13 | 0x14 | 0x16 | 0x17 | 0x19 => skip(1)?,
            0x18 => {
                skip(2)?;
                self.new_ids.push(reader.sized(1)?.to_vec());
                reader.take(16)?;
            }
            0x1a => self.challenges.push(reader.array()?),
            0x1b => self.responses.push(reader.array()?),
            0x1c | 0x1d => {
                let code = reader.integer()?;
                if kind == 0x1c {
                    reader.integer()?;
                }
                reader.counted()?;
                self.close.get_or_insert(Close { is_application: kind == 0x1d, code });
            }
            // DATAGRAM.
            0x30 => reader.0 = &[],
            0x31 => drop(reader.counted()?),
            _ => return None,
        }
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_of_both_versions_are_read() {
        let mut initial =
            vec![0xc0, 0, 0, 0, 1, 2, 0xd1, 0xd2, 1, 0x51, 2, 9, 8, 0x40, 3, 7, 7, 7, 0x40, 1, 2];
        let read = LongHeader::read(&initial).expect("a header");
        let expected = LongHeader {
            kind: PacketType::Initial,
            version: V1,
            destination: &[0xd1, 0xd2],
            source: &[0x51],
            token: &[9, 8],
            number_at: 15,
            end: 18,
        };
        assert_eq!(read, expected);
        for end in 0..18 {
            assert_eq!(LongHeader::read(&initial[..end]), None, "cut off at {end}");
        }
        initial[0] = 0xd0;
        initial[1..5].copy_from_slice(&V2.to_be_bytes());
        assert_eq!(LongHeader::read(&initial), Some(LongHeader { version: V2, ..expected }));
        let mut retry = vec![0xf0, 0, 0, 0, 1, 0, 1, 5, 0xaa, 0xbb];
        retry.extend([0; RETRY_TAG]);
        let read = LongHeader::read(&retry).expect("a header");
        assert_eq!((read.kind, read.token), (PacketType::Retry, &[0xaa, 0xbb][..]));
        let none = [0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1];
        let kind = LongHeader::read(&none).map(|header| header.kind);
        assert_eq!(kind, Some(PacketType::VersionNegotiation));
        assert_eq!(LongHeader::read(&[0x40; 30]), None, "a short one");
    }

    #[test]
    fn frames_are_read_up_to_one_that_is_not_known() {
        let payload = [
            &[0, 0, 1][..],
            &[0x03, 9, 0, 1, 1, 2, 3, 5, 0, 1],
            &[0x06, 3, 2, 0xaa, 0xbb],
            &[0x0e, 4, 1, 2, 7, 7],
            &[0x18, 1, 0, 3, 1, 2, 3],
            &[0; 16],
            &[0x1a, 1, 2, 3, 4, 5, 6, 7, 8],
            &[0x1b, 8, 7, 6, 5, 4, 3, 2, 1],
            &[0x1c, 0x41, 0x2f, 6, 2, b'n', b'o'],
            &[0x0c, 0, 1, 0x1a, 1],
        ]
        .concat();
        let frames = Frames::read(&payload);
        assert_eq!(frames.crypto, [(3, vec![0xaa, 0xbb])]);
        assert_eq!(frames.new_ids, [vec![1, 2, 3]]);
        assert_eq!(frames.challenges, [[1, 2, 3, 4, 5, 6, 7, 8]]);
        assert_eq!(frames.responses, [[8, 7, 6, 5, 4, 3, 2, 1]]);
        assert_eq!(frames.close, Some(Close { is_application: false, code: 0x12f }));
        assert!(frames.ecn_counts.is_some() && frames.is_eliciting);
        assert_eq!(frames.acked, [(8, 9), (1, 4)]);
        assert!(!Frames::read(&[0, 0x02, 9, 0, 0, 2, 0x1c, 0, 0, 0]).is_eliciting);
        assert_eq!(Frames::read(&[0x02, 9, 0, 1, 2, 7, 0]).acked, [(7, 9)], "below the first");
        assert_eq!(Frames::read(&[0x02, 9, 0, 0, 2]).ecn_counts, None);
        let unknown = Frames { is_eliciting: true, ..Frames::default() };
        assert_eq!(Frames::read(&[0x3f, 0x1a, 1, 2, 3, 4, 5, 6, 7, 8]), unknown);
        for end in 0..payload.len() {
            Frames::read(&payload[..end]);
        }
    }

    #[test]
    fn an_end_of_http3_without_an_error_is_none() {
        let is_error = |is_application, code| Close { is_application, code }.is_error();
        assert!(!is_error(true, 0) && !is_error(false, 0) && !is_error(true, 0x100));
        // The transport's 0x100 and above are alerts of TLS.
        assert!(is_error(false, 0x100) && is_error(true, 0x101));
    }
}
