//! A client that loses packets and says that they came: its ACK frames are its own, below its noq.
//!
//! noq leaves out one packet number of 0 to 63, one of 64 to 127, one of 128 to 255, and so on, and
//! ends a connection whose peer acknowledges the one that was left out last. A client that has seen
//! the gap knows that there is no other one before the next power of two.

use std::any::Any;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::BytesMut;
use noq_proto::coding::{Decodable, Encodable};
use noq_proto::crypto::{
    self, CryptoError, ExportKeyingMaterialError, KeyPair, Keys, PacketKey, Session,
};
use noq_proto::transport_parameters::TransportParameters;
use noq_proto::{ConnectError, ConnectionId, PathId, Side, TransportError, VarInt};

/// The packets of a client's ACK frames.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Acknowledged {
    /// Those that came.
    Honest,
    /// All up to the largest one that came, but for the gap that was seen last.
    AllButTheLastGap,
    All,
}

/// Behind each gap, up to the next power of two, the path loses one packet of so many.
const ONE_LOST_OF: u64 = 4;

/// A client's packets, as far as the client can know. Nothing overtakes on its path.
#[derive(Clone, Debug)]
pub(crate) struct Client {
    acknowledged: Acknowledged,
    largest: Option<u64>,
    /// The numbers that the server left out.
    pub(crate) gaps: Vec<u64>,
    /// Packets that the path lost.
    pub(crate) lost: u64,
    /// Gaps that were acknowledged with the packets around them, the last one not counted.
    pub(crate) gaps_acknowledged: usize,
    behind_gaps: u64,
}

/// A client's state, which its keys share.
#[derive(Clone, Debug)]
pub(crate) struct SharedClient(Arc<Mutex<Client>>);

/// The first number of those of which one is left out.
fn range_of(number: u64) -> u64 {
    if number < 64 { 0 } else { 1 << number.ilog2() }
}

impl Client {
    /// A packet of data came to the client; false if the path lost it in truth.
    fn receive(&mut self, number: u64) -> bool {
        let knows_gap = |gaps: &[u64], number| {
            gaps.last().is_some_and(|gap| range_of(*gap) == range_of(number))
        };
        if knows_gap(&self.gaps, number) {
            self.behind_gaps += 1;
            if self.behind_gaps.is_multiple_of(ONE_LOST_OF) {
                self.lost += 1;
                return false;
            }
        }
        for missing in self.largest.map_or(0, |largest| largest + 1)..number {
            // The path loses nothing before the gap of a range is known.
            if !knows_gap(&self.gaps, missing) {
                self.gaps.push(missing);
            }
        }
        self.largest = Some(number);
        true
    }

    /// The frame that stands in the place of noq's.
    fn ack(&mut self, delay: VarInt) -> Option<Vec<u8>> {
        let (largest, last) = (self.largest?, *self.gaps.last()?);
        // How many ranges follow the first, the first, what is missing below it, and the second
        // (RFC 9000 section 19.3.1).
        let ranges = match self.acknowledged {
            Acknowledged::Honest => return None,
            Acknowledged::AllButTheLastGap if last == 0 => vec![0, largest - 1],
            Acknowledged::AllButTheLastGap => vec![1, largest - last - 1, 0, last - 1],
            Acknowledged::All => vec![0, largest],
        };
        self.gaps_acknowledged = self.gaps.len() - 1;
        let mut frame = vec![2];
        for value in [largest, delay.into_inner()].into_iter().chain(ranges) {
            VarInt::try_from(value).expect("62 bits").encode(&mut frame);
        }
        Some(frame)
    }

    /// Replaces the ACK frame, with which noq begins a packet; there is padding behind the frames.
    fn replace_ack(&mut self, payload: &mut [u8]) {
        let Some((2, mut rest)) = payload.split_first().map(|(kind, rest)| (*kind, rest)) else {
            return;
        };
        let mut integer = || VarInt::decode(&mut rest).expect("noq's own frame");
        let (_largest, delay, ranges, _first) = (integer(), integer(), integer(), integer());
        for _ in 0..2 * ranges.into_inner() {
            integer();
        }
        let Some(mut replaced) = self.ack(delay) else { return };
        replaced.extend_from_slice(rest);
        replaced.resize(replaced.len().max(payload.len()), 0);
        let (kept, beyond) = replaced.split_at(payload.len());
        assert!(beyond.iter().all(|byte| *byte == 0), "no padding gave room");
        payload.copy_from_slice(kept);
    }
}

impl SharedClient {
    pub(crate) fn new(acknowledged: Acknowledged) -> Self {
        Self(Arc::new(Mutex::new(Client {
            acknowledged,
            largest: None,
            gaps: Vec::new(),
            lost: 0,
            gaps_acknowledged: 0,
            behind_gaps: 0,
        })))
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, Client> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn around(&self, keys: KeyPair<Box<dyn PacketKey>>) -> KeyPair<Box<dyn PacketKey>> {
        let key = |inner| -> Box<dyn PacketKey> { Box::new(Key { inner, client: self.clone() }) };
        KeyPair { local: key(keys.local), remote: key(keys.remote) }
    }
}

/// TLS of such a client.
pub(crate) struct Tls {
    pub(crate) inner: Arc<dyn crypto::ClientConfig>,
    pub(crate) client: SharedClient,
}

impl crypto::ClientConfig for Tls {
    fn start_session(
        &self,
        version: u32,
        server_name: &str,
        parameters: &TransportParameters,
    ) -> Result<Box<dyn Session>, ConnectError> {
        let inner = self.inner.start_session(version, server_name, parameters)?;
        Ok(Box::new(Connection { inner, client: self.client.clone(), keys: 0 }))
    }
}

struct Connection {
    inner: Box<dyn Session>,
    client: SharedClient,
    /// Keys that the handshake has given: first those of the handshake, then those of data.
    keys: usize,
}

impl Session for Connection {
    fn write_handshake(&mut self, buf: &mut Vec<u8>) -> Option<Keys> {
        let keys = self.inner.write_handshake(buf)?;
        self.keys += 1;
        let packet = if self.keys == 2 { self.client.around(keys.packet) } else { keys.packet };
        Some(Keys { header: keys.header, packet })
    }

    fn next_1rtt_keys(&mut self) -> Option<KeyPair<Box<dyn PacketKey>>> {
        Some(self.client.around(self.inner.next_1rtt_keys()?))
    }

    fn initial_keys(&self, id: ConnectionId, side: Side) -> Keys {
        self.inner.initial_keys(id, side)
    }

    fn handshake_data(&self) -> Option<Box<dyn Any>> {
        self.inner.handshake_data()
    }

    fn peer_identity(&self) -> Option<Box<dyn Any>> {
        self.inner.peer_identity()
    }

    fn early_crypto(&self) -> Option<(Box<dyn crypto::HeaderKey>, Box<dyn PacketKey>)> {
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

/// A key of data.
struct Key {
    inner: Box<dyn PacketKey>,
    client: SharedClient,
}

impl PacketKey for Key {
    fn encrypt(&self, path: PathId, number: u64, packet: &mut [u8], header_len: usize) {
        let end = packet.len() - self.inner.tag_len();
        self.client.lock().replace_ack(&mut packet[header_len..end]);
        self.inner.encrypt(path, number, packet, header_len);
    }

    fn decrypt(
        &self,
        path: PathId,
        number: u64,
        header: &[u8],
        payload: &mut BytesMut,
    ) -> Result<(), CryptoError> {
        self.inner.decrypt(path, number, header, payload)?;
        // noq sees nothing of a packet that it cannot open.
        if self.client.lock().receive(number) { Ok(()) } else { Err(CryptoError) }
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
