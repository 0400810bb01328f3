//! Feedback of L4S for quinn, which sends ECT(0) and holds a count of ECT(1) for a changed field.
//! It is read between quinn and TLS, at the keys that open the peer's packets.

use std::any::Any;
use std::sync::Arc;

use bytes::BytesMut;
use fullpipe_adapter::{EcnCounts, Marks};
use quinn::crypto::{
    ClientConfig, CryptoError, ExportKeyingMaterialError, HeaderKey, KeyPair, Keys, PacketKey,
    Session,
};
use quinn_proto::transport_parameters::TransportParameters;
use quinn_proto::{ConnectError, ConnectionId, Side, TransportError};

/// A client's TLS for one connection whose packets leave as ECT(1) where quinn wrote ECT(0), at a
/// socket of its owner's: in the ACKs that quinn reads, the peer's count of ECT(1) is that of
/// ECT(0). `marks` has the number of packets that the peer counted as CE: see
/// [`crate::Controllers::with_marks`].
pub fn l4s_client(inner: Arc<dyn ClientConfig>, marks: &Marks) -> Arc<dyn ClientConfig> {
    let initial = EcnCounts::of_initial(marks.clone());
    let counts = || EcnCounts::new(marks.clone());
    Arc::new(Heard { inner, counts: [initial, counts(), counts()] })
}

/// A packet number space (RFC 9000 section 12.3), by the place of its counts.
const INITIAL: usize = 0;
const HANDSHAKE: usize = 1;
const DATA: usize = 2;

struct Heard {
    inner: Arc<dyn ClientConfig>,
    counts: [EcnCounts; 3],
}

impl ClientConfig for Heard {
    fn start_session(
        self: Arc<Self>,
        version: u32,
        server_name: &str,
        own: &TransportParameters,
    ) -> Result<Box<dyn Session>, ConnectError> {
        let inner = self.inner.clone().start_session(version, server_name, own)?;
        Ok(Box::new(HeardSession { inner, counts: self.counts.clone(), given: INITIAL }))
    }
}

struct HeardSession {
    inner: Box<dyn Session>,
    counts: [EcnCounts; 3],
    /// The number space of the keys that TLS gave last.
    given: usize,
}

impl HeardSession {
    fn opener(&self, space: usize, inner: Box<dyn PacketKey>) -> Box<dyn PacketKey> {
        Box::new(Opener { inner, counts: self.counts[space].clone() })
    }
}

impl Session for HeardSession {
    fn initial_keys(&self, first_id: &ConnectionId, side: Side) -> Keys {
        let mut keys = self.inner.initial_keys(first_id, side);
        keys.packet.remote = self.opener(INITIAL, keys.packet.remote);
        keys
    }

    fn write_handshake(&mut self, buf: &mut Vec<u8>) -> Option<Keys> {
        let mut keys = self.inner.write_handshake(buf)?;
        self.given = if self.given == INITIAL { HANDSHAKE } else { DATA };
        keys.packet.remote = self.opener(self.given, keys.packet.remote);
        Some(keys)
    }

    fn next_1rtt_keys(&mut self) -> Option<KeyPair<Box<dyn PacketKey>>> {
        let KeyPair { local, remote } = self.inner.next_1rtt_keys()?;
        Some(KeyPair { local, remote: self.opener(DATA, remote) })
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

    fn is_valid_retry(&self, first_id: &ConnectionId, header: &[u8], payload: &[u8]) -> bool {
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

/// A key for the peer's packets of a number space.
struct Opener {
    inner: Box<dyn PacketKey>,
    counts: EcnCounts,
}

impl PacketKey for Opener {
    fn encrypt(&self, number: u64, packet: &mut [u8], header_len: usize) {
        self.inner.encrypt(number, packet, header_len);
    }

    fn decrypt(
        &self,
        number: u64,
        header: &[u8],
        payload: &mut BytesMut,
    ) -> Result<(), CryptoError> {
        self.inner.decrypt(number, header, payload)?;
        if let Some(instead) = self.counts.opened(payload) {
            *payload = instead.as_slice().into();
        }
        Ok(())
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
