//! Shows when the peer has proved that it receives at a new address, from noq's own path validation
//! (RFC 9000 section 8.2). noq expands every PATH_CHALLENGE to 1200 bytes, which may be more than
//! three times what the new address sent, and fills the packet with data. So this layer, at noq's
//! packet protection, makes a second packet of each: with the same number, and the PATH_CHALLENGE
//! alone. The socket sends one of the two, as the limit allows, and never both. When it sent the
//! small one, the peer acknowledges a packet whose data it has not got; that number is taken out of
//! its ACKs, and noq sends the data again as lost.

use std::sync::Arc;

use bytes::BytesMut;
use noq::crypto::CryptoError;
use noq_proto::transport_parameters::TransportParameters;
use ring::rand::{SecureRandom, SystemRandom};

use super::peer::{Challenge, Cid, Peer};
use crate::layer::{Layer, Packet, Tag};
use crate::wire::Reader;
use crate::wire::frames::{PATH_CHALLENGE, challenge, room_for_challenge};

/// The transport parameter initial_source_connection_id (RFC 9000 section 18.2).
const INITIAL_SOURCE_CONNECTION_ID: u64 = 0x0f;

/// The layer of one of a server's connections.
#[derive(Clone)]
pub(super) struct Watch(pub(super) Arc<Peer>);

impl Layer for Watch {
    const SEES_DATA: bool = true;

    type Second = Challenge;

    fn starts(&self, own: &TransportParameters) {
        if let Some(id) = first_id(own) {
            self.0.enter(id);
        }
    }

    /// The PATH_CHALLENGE of a packet, and the packet with it alone.
    fn sends(&self, packet: &mut Packet<'_>) -> Option<Challenge> {
        if !self.0.has_moved() {
            return None;
        }
        let added = challenge_too(packet.payload_mut());
        let found = challenge(packet.payload())?;
        let frame = [&[PATH_CHALLENGE][..], &found.data].concat();
        let small = if self.0.may_replace() { packet.second(&frame) } else { None };
        let (data, number) = (found.data, packet.number);
        Some(Challenge { data, small, number, loses: !found.alone, added })
    }

    fn has_second(&self, tag: Tag, challenge: Challenge) {
        self.0.challenge(tag, challenge);
    }

    fn opened(&self, header: &[u8], payload: &mut BytesMut) -> Result<(), CryptoError> {
        self.0.opened(header);
        self.0.read(payload)
    }
}

/// The connection ID that the server chose for the handshake.
fn first_id(parameters: &TransportParameters) -> Option<Cid> {
    let mut all = Vec::new();
    parameters.write(&mut all);
    let mut rest = Reader(&all);
    loop {
        let parameter = rest.parameter()?;
        if parameter.id == INITIAL_SOURCE_CONNECTION_ID {
            return parameter.value.try_into().ok();
        }
    }
}

/// Adds a PATH_CHALLENGE to a packet that answers a probe, in the place of its padding: a server
/// that hears from a client on a new path probes that path as well (RFC 9000 section 9.6.2), which
/// noq does no earlier than the client moves there. True if there was room for it.
fn challenge_too(payload: &mut [u8]) -> bool {
    let Some(frame) = room_for_challenge(payload).and_then(|at| payload.get_mut(at)) else {
        return false;
    };
    let mut data = [0; 8];
    // Without random bytes the path is validated later, by noq.
    if SystemRandom::new().fill(&mut data).is_ok()
        && let Some((kind, place)) = frame.split_first_mut()
    {
        *kind = PATH_CHALLENGE;
        place.copy_from_slice(&data);
        return true;
    }
    false
}
