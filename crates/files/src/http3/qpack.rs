//! The instructions of QPACK (RFC 9204 section 4). Neither end of this program has a dynamic table:
//! its capacity is 0, and no field section of ours needs one. So most instructions are errors.

use super::rules::{Code, Violation};

/// Set Dynamic Table Capacity to 0 (section 4.3.1).
const NO_CAPACITY: u8 = 0x20;

/// The instructions of one stream.
#[derive(Debug)]
pub(super) enum Instructions {
    Encoder,
    /// With the stream ID of a cancellation that is not complete.
    Decoder(Option<Integer>),
}

/// What came of an integer behind its prefix (section 4.1.1).
#[derive(Clone, Copy, Debug)]
pub(super) struct Integer {
    value: u64,
    shift: u32,
}

impl Integer {
    /// `None` for one of more than 62 bits, which nobody has to take; else whether it goes on.
    fn take(&mut self, byte: u8) -> Option<bool> {
        // Nine bytes of seven bits hold it.
        if self.shift > 56 {
            return None;
        }
        let more = u64::from(byte & 0x7f) << self.shift;
        self.value = Some(self.value + more).filter(|value| *value < 1 << 62)?;
        self.shift += 7;
        Some(byte >= 0x80)
    }
}

impl Instructions {
    /// Takes what has come.
    pub(super) fn take(&mut self, bytes: &[u8]) -> Result<(), Violation> {
        bytes.iter().try_for_each(|byte| match self {
            Self::Encoder => of_encoder(*byte),
            Self::Decoder(cancelled) => of_decoder(cancelled, *byte),
        })
    }
}

fn of_encoder(byte: u8) -> Result<(), Violation> {
    let reason = match byte {
        NO_CAPACITY => return Ok(()),
        // Section 4.3.1: above what this end allows.
        0x21..=0x3f => "a dynamic table where none may be",
        // Section 3.2.2: larger than the capacity; a copy is of an entry that there is not.
        _ => "an entry of a table without room",
    };
    Err(Violation::new(Code::QpackEncoderStream, reason))
}

fn of_decoder(cancelled: &mut Option<Integer>, byte: u8) -> Result<(), Violation> {
    let wrong = |reason| Err(Violation::new(Code::QpackDecoderStream, reason));
    if let Some(id) = cancelled {
        match id.take(byte) {
            Some(true) => {}
            Some(false) => *cancelled = None,
            None => return wrong("the ID of a cancelled stream is too large"),
        }
        return Ok(());
    }
    match byte {
        // Section 4.4.1.
        0x80.. => wrong("an acknowledgment of what needs none"),
        // Section 4.4.2: a decoder without a table may leave it out or not.
        0x7f => {
            *cancelled = Some(Integer { value: 0x3f, shift: 0 });
            Ok(())
        }
        0x40..=0x7e => Ok(()),
        // Section 4.4.3.
        _ => wrong("an acknowledgment of entries that there are not"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcome(mut instructions: Instructions, bytes: &[u8]) -> Option<u64> {
        // The pieces in which they come make no difference.
        let taken = bytes.chunks(1).try_for_each(|piece| instructions.take(piece));
        taken.err().map(|violation| violation.code.into_inner())
    }

    #[test]
    fn without_a_table_few_instructions_are_right() {
        for (bytes, expected) in [
            (&[0x20, 0x20][..], None),
            (&[0x21], Some(0x201)),
            (&[0x3f, 0], Some(0x201)),
            (&[0xc0, 1, b'x'], Some(0x201)),
            (&[0x41, b'a', 1, b'x'], Some(0x201)),
            (&[0x00], Some(0x201)),
        ] {
            assert_eq!(outcome(Instructions::Encoder, bytes), expected, "{bytes:x?}");
        }
        let most = [0x7f, 0xc0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x3f];
        let more = [0x7f, 0xc1, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x3f];
        for (bytes, expected) in [
            (&[0x40, 0x44, 0x7f, 0x00, 0x7f, 0x81, 0x01, 0x48][..], None),
            (&most, None),
            (&more, Some(0x202)),
            (&[0x7f, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80], Some(0x202)),
            (&[0x80], Some(0x202)),
            (&[0x40, 0xff], Some(0x202)),
            (&[0x00], Some(0x202)),
            (&[0x01], Some(0x202)),
        ] {
            assert_eq!(outcome(Instructions::Decoder(None), bytes), expected, "{bytes:x?}");
        }
    }
}
