//! TLS of an end that sends what it should not: its packets are protected with the right keys and
//! their content is changed.

use std::any::Any;
use std::sync::Arc;

use bytes::BytesMut;
use noq::crypto::{
    self, CryptoError, ExportKeyingMaterialError, HeaderKey, KeyPair, Keys, PacketKey, Session,
    UnsupportedVersion,
};
use noq::{ConnectError, ConnectionId, PathId, Side};
use noq_proto::TransportError;
use noq_proto::transport_parameters::TransportParameters;

use super::frames;
use super::noise::{Noise, SharedNoise};

/// A session that is honest for long, or less long.
fn hostile(noise: &SharedNoise, inner: Box<dyn Session>) -> Box<dyn Session> {
    let mut noise = Noise::new(noise.lock().next());
    let changes = noise.pick(&[0, 0, 1, 5, 20, 50]);
    let hello_changes = noise.pick(&[0, 0, 0, 10, 50]);
    Box::new(Changed { inner, noise, changes, hello_changes, keys: 0, flood: None })
}

/// Fills the payload of a packet of data. noq has made its header, so that number and key phase are
/// right.
pub(super) type Flood = Arc<dyn Fn(&mut [u8]) + Send + Sync>;

/// A client whose packets of data have another content.
pub(super) struct FloodingClient {
    pub(super) inner: Arc<dyn crypto::ClientConfig>,
    pub(super) flood: Flood,
}

impl crypto::ClientConfig for FloodingClient {
    fn start_session(
        &self,
        version: u32,
        server_name: &str,
        parameters: &TransportParameters,
    ) -> Result<Box<dyn Session>, ConnectError> {
        let inner = self.inner.start_session(version, server_name, parameters)?;
        let (noise, flood) = (Noise::new(1), Some(self.flood.clone()));
        Ok(Box::new(Changed { inner, noise, changes: 0, hello_changes: 0, keys: 0, flood }))
    }
}

/// A client whose sessions are hostile.
pub(super) struct HostileClient {
    pub(super) inner: Arc<dyn crypto::ClientConfig>,
    pub(super) noise: SharedNoise,
}

impl crypto::ClientConfig for HostileClient {
    fn start_session(
        &self,
        version: u32,
        server_name: &str,
        parameters: &TransportParameters,
    ) -> Result<Box<dyn Session>, ConnectError> {
        let inner = self.inner.start_session(version, server_name, parameters)?;
        Ok(hostile(&self.noise, inner))
    }
}

/// A server whose sessions are hostile.
pub(super) struct HostileServer {
    pub(super) inner: Arc<dyn crypto::ServerConfig>,
    pub(super) noise: SharedNoise,
}

impl crypto::ServerConfig for HostileServer {
    fn initial_keys(&self, version: u32, id: ConnectionId) -> Result<Keys, UnsupportedVersion> {
        self.inner.initial_keys(version, id)
    }

    fn retry_tag(&self, version: u32, first_id: ConnectionId, packet: &[u8]) -> [u8; 16] {
        self.inner.retry_tag(version, first_id, packet)
    }

    fn start_session(&self, version: u32, parameters: &TransportParameters) -> Box<dyn Session> {
        hostile(&self.noise, self.inner.start_session(version, parameters))
    }
}

struct Changed {
    inner: Box<dyn Session>,
    noise: Noise,
    /// Of a hundred packets, those that are changed.
    changes: usize,
    /// Of a hundred handshake messages.
    hello_changes: usize,
    /// Keys that the handshake has given: first those of the handshake, then those of data.
    keys: usize,
    flood: Option<Flood>,
}

impl Changed {
    fn packet_key(&mut self, inner: Box<dyn PacketKey>) -> Box<dyn PacketKey> {
        let noise = SharedNoise::new(self.noise.next());
        let flood = self.flood.clone().filter(|_| self.keys == 2);
        Box::new(ChangedKey { inner, noise, changes: self.changes, flood })
    }

    fn pair(&mut self, pair: KeyPair<Box<dyn PacketKey>>) -> KeyPair<Box<dyn PacketKey>> {
        KeyPair { local: self.packet_key(pair.local), remote: pair.remote }
    }
}

impl Session for Changed {
    fn initial_keys(&self, id: ConnectionId, side: Side) -> Keys {
        let mut keys = self.inner.initial_keys(id, side);
        let noise = SharedNoise::new(self.noise.clone().next());
        keys.packet.local = Box::new(ChangedKey {
            inner: keys.packet.local,
            noise,
            changes: self.changes,
            flood: None,
        });
        keys
    }

    fn write_handshake(&mut self, buf: &mut Vec<u8>) -> Option<Keys> {
        let start = buf.len();
        let keys = self.inner.write_handshake(buf);
        if buf.len() > start && self.noise.percent(self.hello_changes) {
            self.noise.change(&mut buf[start..]);
        }
        let keys = keys?;
        self.keys += 1;
        Some(Keys { header: keys.header, packet: self.pair(keys.packet) })
    }

    fn next_1rtt_keys(&mut self) -> Option<KeyPair<Box<dyn PacketKey>>> {
        let pair = self.inner.next_1rtt_keys()?;
        Some(self.pair(pair))
    }

    fn early_crypto(&self) -> Option<(Box<dyn HeaderKey>, Box<dyn PacketKey>)> {
        let (header, inner) = self.inner.early_crypto()?;
        let noise = SharedNoise::new(self.noise.clone().next());
        let key = ChangedKey { inner, noise, changes: self.changes, flood: None };
        Some((header, Box::new(key)))
    }

    fn handshake_data(&self) -> Option<Box<dyn Any>> {
        self.inner.handshake_data()
    }

    fn peer_identity(&self) -> Option<Box<dyn Any>> {
        self.inner.peer_identity()
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

    fn is_valid_retry(&self, first_id: ConnectionId, header: &[u8], payload: &[u8]) -> bool {
        self.inner.is_valid_retry(first_id, header, payload)
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

struct ChangedKey {
    inner: Box<dyn PacketKey>,
    noise: SharedNoise,
    changes: usize,
    flood: Option<Flood>,
}

impl PacketKey for ChangedKey {
    fn encrypt(&self, path: PathId, number: u64, packet: &mut [u8], header_len: usize) {
        let mut noise = self.noise.lock();
        let end = packet.len() - self.inner.tag_len();
        if let (Some(flood), Some(payload)) = (&self.flood, packet.get_mut(header_len..end)) {
            flood(payload);
        }
        if noise.percent(self.changes)
            && let Some(payload) = packet.get_mut(header_len..end)
        {
            match noise.below(3) {
                0 => noise.change(payload),
                1 => payload.copy_from_slice(&frames::fill(&mut noise, end - header_len)),
                // Where the padding is, so that the rest stays.
                _ => {
                    let used = payload.iter().rposition(|byte| *byte != 0).map_or(0, |at| at + 1);
                    let left = payload.len() - used;
                    payload[used..].copy_from_slice(&frames::fill(&mut noise, left));
                }
            }
        }
        drop(noise);
        self.inner.encrypt(path, number, packet, header_len);
    }

    fn decrypt(
        &self,
        path: PathId,
        number: u64,
        header: &[u8],
        payload: &mut BytesMut,
    ) -> Result<(), CryptoError> {
        self.inner.decrypt(path, number, header, payload)
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
