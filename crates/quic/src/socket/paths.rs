//! Shows when the peer has proved that it receives at a new address, from noq's own path validation (RFC 9000 section
//! 8.2). noq expands every PATH_CHALLENGE to 1200 bytes, which may be more than three times what the new address sent,
//! and fills the packet with data. So this layer, at noq's packet protection, makes a second packet of each: with the same number,
//! and the PATH_CHALLENGE alone. The socket sends one of the two, as the limit allows, and never both. When it sent the small
//! one, the peer acknowledges a packet whose data it has not got; that number is taken out of its ACKs, and noq sends
//! the data again as lost.

use std::any::Any;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::BytesMut;
use noq::crypto::{
    self, CryptoError, ExportKeyingMaterialError, HeaderKey, KeyPair, Keys, PacketKey, Session,
    UnsupportedVersion,
};
use noq::{ConnectionId, PathId, Side};
use noq_proto::TransportError;
use noq_proto::transport_parameters::TransportParameters;

use super::Guard;
use super::frames::{PATH_FRAME_BYTES, PATH_RESPONSE, challenge, without_acks};

/// The last bytes of a packet, by which the socket knows it again.
pub(super) const TAG_BYTES: usize = 16;
/// Challenges that are remembered of one connection: more than are under way at one time.
const MOST_CHALLENGES: usize = 16;
/// Packets of one connection that were replaced. Each is forgotten never, because its ACK may come at any time; a
/// connection that needs more gets no small challenges any more.
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

    /// The challenges that a payload answers. That the peer has the data is what counts, wherever it stands.
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
        let paths = Arc::new(Paths::default());
        Box::new(Watched { inner, keys: 0, header: None, guard: self.guard.clone(), paths })
    }
}

struct Watched {
    inner: Box<dyn Session>,
    /// Keys that the handshake has given: first those of the handshake, then those of data.
    keys: usize,
    /// Header protection of data to the peer, which stays when keys are updated.
    header: Option<Arc<dyn HeaderKey>>,
    guard: Guard,
    paths: Arc<Paths>,
}

impl Watched {
    fn watch(&self, keys: KeyPair<Box<dyn PacketKey>>) -> KeyPair<Box<dyn PacketKey>> {
        let key = |inner| -> Box<dyn PacketKey> {
            let header = self.header.clone();
            let (guard, paths) = (self.guard.clone(), self.paths.clone());
            Box::new(WatchedKey { inner, header, guard, paths })
        };
        KeyPair { local: key(keys.local), remote: key(keys.remote) }
    }
}

impl Session for Watched {
    fn write_handshake(&mut self, buf: &mut Vec<u8>) -> Option<Keys> {
        let mut keys = self.inner.write_handshake(buf)?;
        self.keys += 1;
        if self.keys == 2 {
            let header: Arc<dyn HeaderKey> = keys.header.local.into();
            keys.header.local = Box::new(Shared(header.clone()));
            self.header = Some(header);
            keys.packet = self.watch(keys.packet);
        }
        Some(keys)
    }

    fn next_1rtt_keys(&mut self) -> Option<KeyPair<Box<dyn PacketKey>>> {
        let keys = self.inner.next_1rtt_keys()?;
        Some(self.watch(keys))
    }

    fn initial_keys(&self, dst_cid: ConnectionId, side: Side) -> Keys {
        self.inner.initial_keys(dst_cid, side)
    }

    fn handshake_data(&self) -> Option<Box<dyn Any>> {
        self.inner.handshake_data()
    }

    fn peer_identity(&self) -> Option<Box<dyn Any>> {
        self.inner.peer_identity()
    }

    fn early_crypto(&self) -> Option<(Box<dyn HeaderKey>, Box<dyn PacketKey>)> {
        self.inner.early_crypto()
    }

    fn early_data_accepted(&self) -> Option<bool> {
        self.inner.early_data_accepted()
    }

    fn is_handshaking(&self) -> bool {
        self.inner.is_handshaking()
    }

    fn read_handshake(&mut self, buf: &[u8]) -> Result<bool, TransportError> {
        self.inner.read_handshake(buf)
    }

    fn transport_parameters(&self) -> Result<Option<TransportParameters>, TransportError> {
        self.inner.transport_parameters()
    }

    fn is_valid_retry(&self, orig_dst_cid: ConnectionId, header: &[u8], payload: &[u8]) -> bool {
        self.inner.is_valid_retry(orig_dst_cid, header, payload)
    }

    fn export_keying_material(
        &self,
        output: &mut [u8],
        label: &[u8],
        context: &[u8],
    ) -> Result<(), ExportKeyingMaterialError> {
        self.inner.export_keying_material(output, label, context)
    }
}

/// Header protection that noq and this layer both use.
struct Shared(Arc<dyn HeaderKey>);

impl HeaderKey for Shared {
    fn decrypt(&self, pn_offset: usize, packet: &mut [u8]) {
        self.0.decrypt(pn_offset, packet);
    }

    fn encrypt(&self, pn_offset: usize, packet: &mut [u8]) {
        self.0.encrypt(pn_offset, packet);
    }

    fn sample_size(&self) -> usize {
        self.0.sample_size()
    }
}

struct WatchedKey {
    inner: Box<dyn PacketKey>,
    header: Option<Arc<dyn HeaderKey>>,
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
        let (header, first) = (self.header.as_ref()?, *packet.first()?);
        let number_bytes = usize::from(first & 3) + 1;
        let mut datagram = packet[..header_len].to_vec();
        datagram.push(0x1a);
        datagram.extend_from_slice(&challenge.data);
        datagram.resize(datagram.len() + self.inner.tag_len(), 0);
        self.inner.encrypt(path_id, number, &mut datagram, header_len);
        header.encrypt(header_len.checked_sub(number_bytes)?, &mut datagram);
        let paths = self.paths.clone();
        Some(Small { datagram, data: challenge.data, number, loses: !challenge.alone, paths })
    }
}

impl PacketKey for WatchedKey {
    fn encrypt(&self, path_id: PathId, packet: u64, buf: &mut [u8], header_len: usize) {
        let mut small = None;
        if self.guard.is_migrating() && self.paths.may_replace() {
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
