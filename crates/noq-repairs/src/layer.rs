//! A layer between noq and a connection's TLS, for both ends: around the packet protection of its
//! data, or as an onlooker.

use std::any::Any;
use std::sync::Arc;

use noq::crypto::{ExportKeyingMaterialError, HeaderKey, KeyPair, Keys, PacketKey, Session};
use noq::{ConnectionId, Side};
use noq_proto::TransportError;
use noq_proto::transport_parameters::TransportParameters;

/// A layer between noq and a connection's TLS.
pub trait Layer: Send + Sync + 'static {
    /// The keys of data that noq gets for these, which are the first or those after a key update.
    /// `header` protects the headers of what is sent, and stays the same.
    fn around(&self, keys: PacketKeys, _header: &Arc<dyn HeaderKey>) -> PacketKeys {
        keys
    }

    /// TLS has read a part of the handshake, and the answer to it was not sent yet.
    fn handshake(&self, _session: &dyn Session) {}

    /// The peer's transport parameters, each time that noq reads them.
    fn parameters(&self, _parameters: &TransportParameters) {}
}

/// The keys of data in both directions.
pub type PacketKeys = KeyPair<Box<dyn PacketKey>>;

/// A connection's TLS with a layer.
pub struct Layered<L> {
    inner: Box<dyn Session>,
    layer: L,
    /// Keys that the handshake has given: first those of the handshake, then those of data.
    given: usize,
    /// Header protection of data to the peer.
    header: Option<Arc<dyn HeaderKey>>,
}

impl<L: Layer> Layered<L> {
    /// `inner` with `layer` around its packet protection.
    pub fn new(inner: Box<dyn Session>, layer: L) -> Self {
        Self { inner, layer, given: 0, header: None }
    }
}

impl<L: Layer> Session for Layered<L> {
    fn write_handshake(&mut self, buf: &mut Vec<u8>) -> Option<Keys> {
        let mut keys = self.inner.write_handshake(buf)?;
        self.given += 1;
        if self.given == 2 {
            let header: Arc<dyn HeaderKey> = keys.header.local.into();
            keys.header.local = Box::new(Shared(header.clone()));
            keys.packet = self.layer.around(keys.packet, &header);
            self.header = Some(header);
        }
        Some(keys)
    }

    fn next_1rtt_keys(&mut self) -> Option<PacketKeys> {
        let keys = self.inner.next_1rtt_keys()?;
        // There is no update of keys that were not given.
        Some(match &self.header {
            Some(header) => self.layer.around(keys, header),
            None => keys,
        })
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
        let read = self.inner.read_handshake(buf)?;
        self.layer.handshake(&*self.inner);
        Ok(read)
    }

    fn transport_parameters(&self) -> Result<Option<TransportParameters>, TransportError> {
        let parameters = self.inner.transport_parameters()?;
        if let Some(parameters) = &parameters {
            self.layer.parameters(parameters);
        }
        Ok(parameters)
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

/// Header protection that noq and a layer both use.
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

/// Bytes of the packet number in a short header without protection (RFC 9000 section 17.3.1).
pub(crate) fn number_bytes(header: &[u8]) -> Option<usize> {
    Some(usize::from(header.first()? & 3) + 1)
}

/// A packet of this header and this payload, protected.
pub(crate) fn protect(
    key: &dyn PacketKey,
    header_key: &dyn HeaderKey,
    path: noq::PathId,
    number: u64,
    header: &[u8],
    payload: &[u8],
) -> Option<Vec<u8>> {
    let number_offset = header.len().checked_sub(number_bytes(header)?)?;
    let mut packet = [header, payload].concat();
    packet.resize(packet.len() + key.tag_len(), 0);
    key.encrypt(path, number, &mut packet, header.len());
    header_key.encrypt(number_offset, &mut packet);
    Some(packet)
}
