//! The packet that a client acknowledges and throws away.
//!
//! picoquic's client (1.1.53) changes to version 2 with the header of the server's first packet of
//! that version, and loses the content of this packet: it acknowledges its number without the
//! frames. noq takes the acknowledgement for what it says and never sends the ServerHello again, so
//! that the handshake ends in a timeout. Therefore that one number is taken out of the
//! acknowledgements of a client that was moved to version 2, as if the packet had been lost. For a
//! client that did read the packet nothing changes, because the first Handshake packet ends all
//! Initial packets (RFC 9001 section 4.9.1).

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::BytesMut;

use crate::wire::frames::without_acks;

const NONE: u64 = u64::MAX;

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

    /// Takes the number out of the acknowledgements of a packet's frames. What is malformed is left
    /// to noq, which refuses it.
    pub(super) fn forget(&self, frames: &mut BytesMut) {
        let number = self.0.load(Ordering::Relaxed);
        if number != NONE
            && let Ok(Some(changed)) = without_acks(frames, &[number])
        {
            *frames = BytesMut::from(&changed[..]);
        }
    }
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
        // PING, CRYPTO of two bytes, ACK of 0 to 2 with ECN counts, PADDING.
        let (before, after) = ([1, 6, 0, 2, 9, 9], [0, 0]);
        let with = |ack: &[u8]| [&before[..], ack, &after].concat();
        assert_eq!(forgotten(&with(&[3, 2, 5, 0, 2, 3, 0, 0]), 2), with(&[3, 1, 5, 0, 1, 3, 0, 0]));
        assert_eq!(forgotten(&[2, 0, 5, 0, 0], 0), [0], "an empty packet is none");
        assert_eq!(forgotten(&[2, 2, 5, 0, 2], 3), [2, 2, 5, 0, 2], "was not acknowledged");
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
