//! The frames of QUIC's packets (RFC 9000 section 19), as far as it takes to pass over them.

/// The type of an ACK frame.
pub const ACK: u64 = 0x02;
/// The type of an ACK frame with counts of ECN.
pub const ACK_ECN: u64 = 0x03;
/// The type of a PADDING frame.
pub const PADDING: u64 = 0x00;
/// The type of a PING frame.
pub const PING: u64 = 0x01;
/// The type of an IMMEDIATE_ACK frame (draft-ietf-quic-ack-frequency).
pub const IMMEDIATE_ACK: u64 = 0x1f;

/// The frames of a payload by their types, up to the first that is of no known type or cut off,
/// whose type is `None`.
pub fn frames(payload: &[u8]) -> impl Iterator<Item = (Option<u64>, &[u8])> {
    let mut rest = Rest(payload);
    std::iter::from_fn(move || {
        let from_here = rest.0;
        if from_here.is_empty() {
            return None;
        }
        let kind = rest.frame();
        if kind.is_none() {
            rest.0 = &[];
        }
        Some((kind, &from_here[..from_here.len() - rest.0.len()]))
    })
}

/// The bytes that were not passed over yet. What is cut off is `None`.
struct Rest<'a>(&'a [u8]);

impl Rest<'_> {
    fn skip(&mut self, bytes: usize) -> Option<()> {
        self.0 = self.0.get(bytes..)?;
        Some(())
    }

    fn skip_with_length(&mut self) -> Option<()> {
        let bytes = self.integer()?.try_into().ok()?;
        self.skip(bytes)
    }

    /// A variable-length integer (RFC 9000 section 16).
    fn integer(&mut self) -> Option<u64> {
        let (value, bytes) = integer(self.0)?;
        self.skip(bytes)?;
        Some(value)
    }

    fn integers(&mut self, count: u64) -> Option<()> {
        (0..count).try_for_each(|_| self.integer().map(drop))
    }

    /// Passes over the frame that begins here, and gives its type.
    fn frame(&mut self) -> Option<u64> {
        let kind = self.integer()?;
        match kind {
            // PADDING, PING, HANDSHAKE_DONE, IMMEDIATE_ACK
            PADDING | PING | 0x1e | IMMEDIATE_ACK => {}
            ACK | ACK_ECN => {
                self.integers(2)?;
                let ranges = self.integer()?;
                self.integer()?;
                self.integers(ranges.checked_mul(2)?)?;
                if kind == ACK_ECN {
                    self.integers(3)?;
                }
            }
            // RESET_STREAM
            0x04 => self.integers(3)?,
            // STOP_SENDING, MAX_STREAM_DATA, STREAM_DATA_BLOCKED
            0x05 | 0x11 | 0x15 => self.integers(2)?,
            // CRYPTO
            0x06 => {
                self.integer()?;
                self.skip_with_length()?;
            }
            // NEW_TOKEN
            0x07 => self.skip_with_length()?,
            // STREAM: with an offset, with a length
            0x08..=0x0f => {
                self.integers(1 + (kind >> 2 & 1))?;
                if kind & 2 != 0 { self.skip_with_length()? } else { self.0 = &[] }
            }
            // MAX_DATA, MAX_STREAMS, DATA_BLOCKED, STREAMS_BLOCKED, RETIRE_CONNECTION_ID
            0x10 | 0x12..=0x14 | 0x16 | 0x17 | 0x19 => self.integers(1)?,
            // NEW_CONNECTION_ID, with a reset token
            0x18 => {
                self.integers(2)?;
                let length = *self.0.first()?;
                self.skip(1 + usize::from(length) + 16)?;
            }
            // PATH_CHALLENGE, PATH_RESPONSE
            0x1a | 0x1b => self.skip(8)?,
            // CONNECTION_CLOSE
            0x1c => {
                self.integers(2)?;
                self.skip_with_length()?;
            }
            0x1d => {
                self.integer()?;
                self.skip_with_length()?;
            }
            // DATAGRAM
            0x30 => self.0 = &[],
            0x31 => self.skip_with_length()?,
            // ACK_FREQUENCY
            0xaf => self.integers(4)?,
            _ => return None,
        }
        Some(kind)
    }
}

/// The variable-length integer with which these bytes begin, and its number of bytes.
pub(crate) fn integer(bytes: &[u8]) -> Option<(u64, usize)> {
    let first = *bytes.first()?;
    let length = 1 << (first >> 6);
    let more = bytes.get(1..length)?;
    let value =
        more.iter().fold(u64::from(first & 0x3f), |value, byte| value << 8 | u64::from(*byte));
    Some((value, length))
}
