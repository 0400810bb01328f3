//! Shows when the peer has proved that it receives at a new address, from noq's own path validation
//! (RFC 9000 section 8.2). noq expands every PATH_CHALLENGE to 1200 bytes, which may be more than
//! three times what the new address sent, and fills the packet with data. So this layer, at noq's
//! packet protection, makes a second packet of each: with the same number, and the PATH_CHALLENGE
//! alone. The socket sends one of the two, as the limit allows, and never both. When it sent the
//! small one, the peer acknowledges a packet whose data it has not got; that number is taken out of
//! its ACKs, and noq sends the data again as lost.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::BytesMut;
use noq::crypto::{
    self, CryptoError, HeaderKey, KeyPair, Keys, PacketKey, Session, UnsupportedVersion,
};
use noq::{ConnectionId, PathId};
use noq_proto::transport_parameters::TransportParameters;
use ring::rand::{SecureRandom, SystemRandom};

use super::Guard;
use super::frames::{
    PATH_CHALLENGE, PATH_FRAME_BYTES, PATH_RESPONSE, challenge, room_for_challenge, without_acks,
};
use crate::layer::{Layer, Layered, PacketKeys, protect};

/// The last bytes of a packet, by which the socket knows it again.
pub(super) const TAG_BYTES: usize = 16;
/// Challenges that are remembered of one connection: more than are under way at one time.
const MOST_CHALLENGES: usize = 16;
/// Packets of one connection that were replaced. Each is forgotten never, because its ACK may come
/// at any time; a connection that needs more gets no small challenges any more.
const MOST_REPLACED: usize = 64;

/// Challenges and packets that one connection has sent on paths that are not validated.
#[derive(Debug, Default)]
pub(super) struct Paths(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    /// Challenges that were sent.
    asked: Vec<[u8; 8]>,
    /// Numbers of packets that the peer got in a smaller version.
    replaced: Vec<u64>,
}

/// The small version of a packet with a PATH_CHALLENGE.
#[derive(Debug)]
pub(super) struct Small {
    pub(super) datagram: Vec<u8>,
    pub(super) data: [u8; 8],
    number: u64,
    /// True if the large version has more that the peer acknowledges.
    loses: bool,
    paths: Arc<Paths>,
}

impl Paths {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn may_replace(&self) -> bool {
        self.state().replaced.len() < MOST_REPLACED
    }

    /// The challenges that a payload answers. That the peer has the data is what counts, wherever
    /// it stands.
    fn answered(&self, payload: &[u8]) -> Vec<[u8; 8]> {
        let mut state = self.state();
        if state.asked.is_empty() {
            return Vec::new();
        }
        let answers = |data: &[u8; 8]| {
            let frames = payload.windows(PATH_FRAME_BYTES);
            frames.into_iter().any(|frame| frame[0] == PATH_RESPONSE && frame[1..] == data[..])
        };
        let (answered, open) = state.asked.drain(..).partition(answers);
        state.asked = open;
        answered
    }

    /// Takes the numbers of replaced packets out of a payload's ACKs.
    fn correct(&self, payload: &mut BytesMut) -> Result<(), CryptoError> {
        let state = self.state();
        if state.replaced.is_empty() {
            return Ok(());
        }
        // A packet with frames that nobody here knows cannot be corrected, and is dropped.
        if let Some(changed) = without_acks(payload, &state.replaced).map_err(|_| CryptoError)? {
            *payload = BytesMut::from(&changed[..]);
        }
        Ok(())
    }
}

impl Small {
    /// The challenge goes out, in this version or the large one.
    pub(super) fn sent(&self, small: bool) {
        let mut state = self.paths.state();
        if state.asked.len() >= MOST_CHALLENGES {
            state.asked.remove(0);
        }
        state.asked.push(self.data);
        if small && self.loses {
            state.replaced.push(self.number);
        }
    }
}

/// A server's TLS with this layer above its packet protection.
pub(super) struct Crypto {
    pub(super) inner: Arc<dyn crypto::ServerConfig>,
    pub(super) guard: Guard,
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
        let inner = self.inner.start_session(version, params);
        let watch = Watch { guard: self.guard.clone(), paths: Arc::default() };
        Box::new(Layered::new(inner, watch))
    }
}

/// The layer of one connection.
struct Watch {
    guard: Guard,
    paths: Arc<Paths>,
}

impl Layer for Watch {
    fn around(&self, keys: PacketKeys, header: &Arc<dyn HeaderKey>) -> PacketKeys {
        let key = |inner| -> Box<dyn PacketKey> {
            let (guard, paths) = (self.guard.clone(), self.paths.clone());
            Box::new(WatchedKey { inner, header: header.clone(), guard, paths })
        };
        KeyPair { local: key(keys.local), remote: key(keys.remote) }
    }
}

struct WatchedKey {
    inner: Box<dyn PacketKey>,
    header: Arc<dyn HeaderKey>,
    guard: Guard,
    paths: Arc<Paths>,
}

impl WatchedKey {
    /// The packet with its PATH_CHALLENGE alone, protected.
    fn small(
        &self,
        path_id: PathId,
        number: u64,
        packet: &[u8],
        header_len: usize,
    ) -> Option<Small> {
        let payload = packet.get(header_len..packet.len().checked_sub(self.inner.tag_len())?)?;
        let challenge = challenge(payload)?;
        let header = packet.get(..header_len)?;
        let frame = [&[PATH_CHALLENGE][..], &challenge.data].concat();
        let datagram = protect(&*self.inner, &*self.header, path_id, number, header, &frame)?;
        let paths = self.paths.clone();
        Some(Small { datagram, data: challenge.data, number, loses: !challenge.alone, paths })
    }
}

/// Adds a PATH_CHALLENGE to a packet that answers a probe, in the place of its padding: a server
/// that hears from a client on a new path probes that path as well (RFC 9000 section 9.6.2), which
/// noq does no earlier than the client moves there.
fn challenge_too(packet: &mut [u8], header_len: usize, tag_len: usize) {
    let Some(end) = packet.len().checked_sub(tag_len) else { return };
    let Some(payload) = packet.get_mut(header_len..end) else { return };
    let Some(frame) = room_for_challenge(payload).and_then(|at| payload.get_mut(at)) else {
        return;
    };
    let mut data = [0; 8];
    // Without random bytes the path is validated later, by noq.
    if SystemRandom::new().fill(&mut data).is_ok()
        && let Some((kind, place)) = frame.split_first_mut()
    {
        *kind = PATH_CHALLENGE;
        place.copy_from_slice(&data);
    }
}

impl PacketKey for WatchedKey {
    fn encrypt(&self, path_id: PathId, packet: u64, buf: &mut [u8], header_len: usize) {
        let mut small = None;
        if self.guard.is_migrating() && self.paths.may_replace() {
            challenge_too(buf, header_len, self.inner.tag_len());
            small = self.small(path_id, packet, buf, header_len);
        }
        self.inner.encrypt(path_id, packet, buf, header_len);
        if let (Some(small), Some(tag)) = (small, buf.last_chunk()) {
            self.guard.challenge(*tag, small);
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
        for data in self.paths.answered(payload) {
            self.guard.answered(data);
        }
        self.paths.correct(payload)
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
