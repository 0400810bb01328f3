//! A layer between noq and a connection's TLS, for both ends: at the packet protection of its data,
//! or as an onlooker.

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

/// The last bytes of a packet, by which a socket knows it again. All cipher suites have so many.
pub(crate) const TAG_BYTES: usize = 16;
/// See [`TAG_BYTES`].
pub(crate) type Tag = [u8; TAG_BYTES];

/// A layer of one connection; clones are of the same.
pub(crate) trait Layer: Clone + Send + Sync + 'static {
    /// True if it looks at packets of data.
    const SEES_DATA: bool;

    /// A packet that is sent instead of another, with its number.
    type Second;

    /// TLS begins, with these transport parameters of this end's.
    fn starts(&self, _own: &TransportParameters) {}

    /// TLS has read a part of the handshake, and the answer to it was not sent yet.
    fn handshake(&self, _session: &dyn Session) {}

    /// The peer's transport parameters, each time that noq reads them.
    fn parameters(&self, _parameters: &TransportParameters) {}

    /// The key that opens the peer's packets of a number space; the layer may put its own around
    /// it.
    fn opener(&self, _space: Space, key: Box<dyn PacketKey>) -> Box<dyn PacketKey> {
        key
    }

    /// A packet of data is about to be protected. The layer may change it, with the length that it
    /// has, and make a second one.
    fn sends(&self, _packet: &mut Packet<'_>) -> Option<Self::Second> {
        None
    }

    /// The packet with this tag has a second one.
    fn has_second(&self, _tag: Tag, _second: Self::Second) {}

    /// A packet of data was opened.
    ///
    /// # Errors
    /// noq drops the packet.
    fn opened(&self, _header: &[u8], _payload: &mut BytesMut) -> Result<(), CryptoError> {
        Ok(())
    }
}

/// A packet number space (RFC 9000 section 12.3).
#[derive(Clone, Copy, Debug)]
pub(crate) enum Space {
    Initial,
    Handshake,
    Data,
}

/// A packet of data before its protection.
pub(crate) struct Packet<'a> {
    key: &'a dyn PacketKey,
    header_key: &'a dyn HeaderKey,
    path: PathId,
    pub(crate) number: u64,
    header: &'a mut [u8],
    /// With room for the tag.
    behind: &'a mut [u8],
}

impl Packet<'_> {
    /// Its bytes, with the tag.
    pub(crate) fn len(&self) -> usize {
        self.header.len() + self.behind.len()
    }

    pub(crate) fn payload(&self) -> &[u8] {
        &self.behind[..self.payload_len()]
    }

    pub(crate) fn payload_mut(&mut self) -> &mut [u8] {
        let bytes = self.payload_len();
        &mut self.behind[..bytes]
    }

    fn payload_len(&self) -> usize {
        self.behind.len().saturating_sub(self.key.tag_len())
    }

    /// The connection ID to which it goes.
    pub(crate) fn destination(&self) -> Option<&[u8]> {
        self.header.get(1..self.number_offset()?)
    }

    /// Writes another connection ID over that to which it goes, if that has the same length.
    pub(crate) fn set_destination(&mut self, id: &[u8]) {
        if let Some(place) = self.number_offset().and_then(|end| self.header.get_mut(1..end))
            && place.len() == id.len()
        {
            place.copy_from_slice(id);
        }
    }

    fn number_offset(&self) -> Option<usize> {
        self.header.len().checked_sub(number_bytes(self.header)?)
    }

    /// A packet with the same number and this payload, protected.
    pub(crate) fn second(&self, payload: &[u8]) -> Option<Vec<u8>> {
        self.protect(self.header, payload)
    }

    /// A packet with the same number, to another connection ID and with this frame, filled up to so
    /// many bytes, protected.
    pub(crate) fn second_to(&self, id: &[u8], frame: &[u8], bytes: usize) -> Option<Vec<u8>> {
        let (first, number) = (self.header.get(..1)?, self.header.get(self.number_offset()?..)?);
        let header = [first, id, number].concat();
        let mut payload = frame.to_vec();
        payload.resize(bytes.checked_sub(header.len() + self.key.tag_len())?, 0);
        self.protect(&header, &payload)
    }

    fn protect(&self, header: &[u8], payload: &[u8]) -> Option<Vec<u8>> {
        let number_offset = header.len().checked_sub(number_bytes(header)?)?;
        let mut packet = [header, payload].concat();
        packet.resize(packet.len() + self.key.tag_len(), 0);
        self.key.encrypt(self.path, self.number, &mut packet, header.len());
        self.header_key.encrypt(number_offset, &mut packet);
        Some(packet)
    }
}

/// Bytes of the packet number in a short header without protection (RFC 9000 section 17.3.1).
fn number_bytes(header: &[u8]) -> Option<usize> {
    Some(usize::from(header.first()? & 3) + 1)
}

/// A server's TLS with this layer.
pub(crate) fn server(
    inner: Arc<dyn crypto::ServerConfig>,
    layer: impl Layer,
) -> Arc<dyn crypto::ServerConfig> {
    Arc::new(Config { inner, layer })
}

/// A client's TLS with this layer.
pub(crate) fn client(
    inner: Arc<dyn crypto::ClientConfig>,
    layer: impl Layer,
) -> Arc<dyn crypto::ClientConfig> {
    Arc::new(Config { inner, layer })
}

/// A server's TLS that shows each part of a handshake, once it is read and before it is answered.
pub fn on_handshake(
    inner: Arc<dyn crypto::ServerConfig>,
    look: impl Fn(&dyn Session) + Send + Sync + 'static,
) -> Arc<dyn crypto::ServerConfig> {
    server(inner, Onlooker(Arc::new(look)))
}

struct Onlooker<F>(Arc<F>);

impl<F> Clone for Onlooker<F> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<F: Fn(&dyn Session) + Send + Sync + 'static> Layer for Onlooker<F> {
    const SEES_DATA: bool = false;

    type Second = ();

    fn handshake(&self, session: &dyn Session) {
        (self.0)(session);
    }
}

struct Config<C: ?Sized, L> {
    layer: L,
    inner: Arc<C>,
}

impl<L: Layer> crypto::ServerConfig for Config<dyn crypto::ServerConfig, L> {
    fn initial_keys(&self, version: u32, id: ConnectionId) -> Result<Keys, UnsupportedVersion> {
        self.inner.initial_keys(version, id)
    }

    fn retry_tag(&self, version: u32, first_id: ConnectionId, packet: &[u8]) -> [u8; 16] {
        self.inner.retry_tag(version, first_id, packet)
    }

    fn start_session(&self, version: u32, own: &TransportParameters) -> Box<dyn Session> {
        self.layer.starts(own);
        Layered::boxed(self.inner.start_session(version, own), &self.layer)
    }
}

impl<L: Layer> crypto::ClientConfig for Config<dyn crypto::ClientConfig, L> {
    fn start_session(
        &self,
        version: u32,
        server_name: &str,
        own: &TransportParameters,
    ) -> Result<Box<dyn Session>, ConnectError> {
        self.layer.starts(own);
        let session = self.inner.start_session(version, server_name, own)?;
        Ok(Layered::boxed(session, &self.layer))
    }
}

/// A connection's TLS with a layer.
struct Layered<L> {
    inner: Box<dyn Session>,
    layer: L,
    /// Keys that the handshake has given: first those of the handshake, then those of data.
    given: usize,
    /// Header protection of data to the peer. It stays the same in a key update.
    header: Option<Arc<dyn HeaderKey>>,
}

impl<L: Layer> Layered<L> {
    fn boxed(inner: Box<dyn Session>, layer: &L) -> Box<dyn Session> {
        Box::new(Self { inner, layer: layer.clone(), given: 0, header: None })
    }

    fn around(&self, keys: KeyPair<Box<dyn PacketKey>>) -> KeyPair<Box<dyn PacketKey>> {
        // There are no keys of data before there is one of their headers.
        let Some(header) = self.header.clone().filter(|_| L::SEES_DATA) else { return keys };
        let key = |inner| -> Box<dyn PacketKey> {
            Box::new(Key { inner, header: header.clone(), layer: self.layer.clone() })
        };
        KeyPair { local: key(keys.local), remote: key(keys.remote) }
    }
}

impl<L: Layer> Session for Layered<L> {
    fn write_handshake(&mut self, buf: &mut Vec<u8>) -> Option<Keys> {
        let mut keys = self.inner.write_handshake(buf)?;
        self.given += 1;
        let space = if self.given == 1 { Space::Handshake } else { Space::Data };
        if self.given == 2 {
            let header: Arc<dyn HeaderKey> = keys.header.local.into();
            keys.header.local = Box::new(Shared(header.clone()));
            self.header = Some(header);
            keys.packet = self.around(keys.packet);
        }
        keys.packet.remote = self.layer.opener(space, keys.packet.remote);
        Some(keys)
    }

    fn next_1rtt_keys(&mut self) -> Option<KeyPair<Box<dyn PacketKey>>> {
        let keys = self.inner.next_1rtt_keys()?;
        let KeyPair { local, remote } = self.around(keys);
        Some(KeyPair { local, remote: self.layer.opener(Space::Data, remote) })
    }

    fn initial_keys(&self, dst_cid: ConnectionId, side: Side) -> Keys {
        let mut keys = self.inner.initial_keys(dst_cid, side);
        keys.packet.remote = self.layer.opener(Space::Initial, keys.packet.remote);
        keys
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

/// A key of data below a layer.
struct Key<L> {
    inner: Box<dyn PacketKey>,
    header: Arc<dyn HeaderKey>,
    layer: L,
}

impl<L: Layer> PacketKey for Key<L> {
    fn encrypt(&self, path: PathId, number: u64, packet: &mut [u8], header_len: usize) {
        let (header, behind) = packet.split_at_mut(header_len);
        let (key, header_key) = (&*self.inner, &*self.header);
        let mut plain = Packet { key, header_key, path, number, header, behind };
        let second = self.layer.sends(&mut plain);
        self.inner.encrypt(path, number, packet, header_len);
        if let (Some(second), Some(tag)) = (second, packet.last_chunk()) {
            self.layer.has_second(*tag, second);
        }
    }

    fn decrypt(
        &self,
        path: PathId,
        number: u64,
        header: &[u8],
        payload: &mut BytesMut,
    ) -> Result<(), CryptoError> {
        self.inner.decrypt(path, number, header, payload)?;
        self.layer.opened(header, payload)
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
