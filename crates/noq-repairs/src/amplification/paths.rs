//! Shows when the peer has proved that it receives at a new address, from noq's own path validation
//! (RFC 9000 section 8.2). noq expands every PATH_CHALLENGE to 1200 bytes, which may be more than
//! three times what the new address sent, and fills the packet with data. So this layer, at noq's
//! packet protection, makes a second packet of each: with the same number, and the PATH_CHALLENGE
//! alone. The socket sends one of the two, as the limit allows, and never both. When it sent the
//! small one, the peer acknowledges a packet whose data it has not got; that number is taken out of
//! its ACKs, and noq sends the data again as lost.

use std::sync::Arc;

use bytes::BytesMut;
use noq::crypto::{
    self, CryptoError, HeaderKey, KeyPair, Keys, PacketKey, Session, UnsupportedVersion,
};
use noq::{ConnectionId, PathId};
use noq_proto::transport_parameters::TransportParameters;
use ring::rand::{SecureRandom, SystemRandom};

use super::peer::{Challenge, Cid, Peer};
use crate::layer::{Layer, Layered, PacketKeys, protect};
use crate::wire::Reader;
use crate::wire::frames::{PATH_CHALLENGE, challenge, room_for_challenge};

/// The transport parameter initial_source_connection_id (RFC 9000 section 18.2).
const INITIAL_SOURCE_CONNECTION_ID: u64 = 0x0f;

/// A server's TLS for one connection, with this layer above its packet protection.
pub(super) struct Crypto {
    pub(super) inner: Arc<dyn crypto::ServerConfig>,
    pub(super) peer: Arc<Peer>,
}

impl crypto::ServerConfig for Crypto {
    fn initial_keys(
        &self,
        version: u32,
        dst_cid: ConnectionId,
    ) -> Result<Keys, UnsupportedVersion> {
        self.inner.initial_keys(version, dst_cid)
    }

    fn retry_tag(&self, version: u32, orig_dst_cid: ConnectionId, packet: &[u8]) -> [u8; 16] {
        self.inner.retry_tag(version, orig_dst_cid, packet)
    }

    fn start_session(&self, version: u32, params: &TransportParameters) -> Box<dyn Session> {
        if let Some(id) = first_id(params) {
            self.peer.enter(id);
        }
        let inner = self.inner.start_session(version, params);
        Box::new(Layered::new(inner, Watch(self.peer.clone())))
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

/// The layer of one connection.
struct Watch(Arc<Peer>);

impl Layer for Watch {
    fn around(&self, keys: PacketKeys, header: &Arc<dyn HeaderKey>) -> PacketKeys {
        let key = |inner| -> Box<dyn PacketKey> {
            Box::new(WatchedKey { inner, header: header.clone(), peer: self.0.clone() })
        };
        KeyPair { local: key(keys.local), remote: key(keys.remote) }
    }
}

struct WatchedKey {
    inner: Box<dyn PacketKey>,
    header: Arc<dyn HeaderKey>,
    peer: Arc<Peer>,
}

impl WatchedKey {
    /// The PATH_CHALLENGE of a packet, and the packet with it alone, protected.
    fn challenge(
        &self,
        path_id: PathId,
        number: u64,
        packet: &[u8],
        header_len: usize,
        added: bool,
    ) -> Option<Challenge> {
        let payload = packet.get(header_len..packet.len().checked_sub(self.inner.tag_len())?)?;
        let found = challenge(payload)?;
        let header = packet.get(..header_len)?;
        let frame = [&[PATH_CHALLENGE][..], &found.data].concat();
        let small = || protect(&*self.inner, &*self.header, path_id, number, header, &frame);
        let small = if self.peer.may_replace() { small() } else { None };
        Some(Challenge { data: found.data, small, number, loses: !found.alone, added })
    }
}

/// Adds a PATH_CHALLENGE to a packet that answers a probe, in the place of its padding: a server
/// that hears from a client on a new path probes that path as well (RFC 9000 section 9.6.2), which
/// noq does no earlier than the client moves there. Whether there was room for it.
fn challenge_too(packet: &mut [u8], header_len: usize, tag_len: usize) -> bool {
    let end = packet.len().saturating_sub(tag_len);
    let Some(payload) = packet.get_mut(header_len..end) else { return false };
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

impl PacketKey for WatchedKey {
    fn encrypt(&self, path_id: PathId, packet: u64, buf: &mut [u8], header_len: usize) {
        let mut challenge = None;
        if self.peer.has_moved() {
            let added = challenge_too(buf, header_len, self.inner.tag_len());
            challenge = self.challenge(path_id, packet, buf, header_len, added);
        }
        self.inner.encrypt(path_id, packet, buf, header_len);
        if let (Some(challenge), Some(tag)) = (challenge, buf.last_chunk()) {
            self.peer.challenge(*tag, challenge);
        }
    }

    fn decrypt(
        &self,
        path_id: PathId,
        packet: u64,
        header: &[u8],
        payload: &mut BytesMut,
    ) -> Result<(), CryptoError> {
        self.inner.decrypt(path_id, packet, header, payload)?;
        self.peer.opened(header);
        self.peer.read(payload)
    }

    fn tag_len(&self) -> usize {
        self.inner.tag_len()
    }

    fn confidentiality_limit(&self) -> u64 {
        self.inner.confidentiality_limit()
    }

    fn integrity_limit(&self) -> u64 {
        self.inner.integrity_limit()
    }
}
