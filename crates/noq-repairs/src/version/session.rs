//! TLS of both versions for noq, which asks for version 1 always.

use std::any::Any;
use std::collections::HashSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use noq::crypto::{
    self, ExportKeyingMaterialError, HeaderKey, KeyPair, Keys, PacketKey, Session,
    UnsupportedVersion,
};
use noq::{ConnectError, ConnectionId, Side, TransportErrorCode};
use noq_proto::TransportError;
use noq_proto::transport_parameters::TransportParameters;
use rustls::quic::{
    ClientConnection, Connection, KeyChange, Secrets as RustlsSecrets, ServerConnection, Suite,
    Version,
};
use rustls_pki_types::{CertificateDer, ServerName};

use super::derive::{Algorithms, Phase, SecretLog, Secrets};
use super::hello::{self, Hello, Progress};
use super::keys::{Role, VersionedPacketKey, initial};
use super::parameters::{decode, encode};
use super::{Negotiated, NegotiationTable, QuicVersions, retry};
use crate::wire::{V1, V2};

/// RFC 9368 section 8.
const VERSION_NEGOTIATION_ERROR: u32 = 0x11;

/// rustls's name of a version, which decides on the labels of its keys.
const fn labels(version: u32) -> Version {
    if version == V2 { Version::V2 } else { Version::V1 }
}

/// Agreements of a handshake: what noq gives as a connection's handshake data.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Handshake {
    /// The protocol of the requests (RFC 7301).
    pub protocol: Option<Vec<u8>>,
    /// The name by which the client calls the server; `None` at the client, or if it gave none.
    pub server_name: Option<String>,
}

impl Handshake {
    /// That of a connection, once the other end's part of it has arrived.
    pub fn of(connection: &noq::Connection) -> Option<Self> {
        connection.handshake_data()?.downcast().ok().map(|data| *data)
    }
}

/// A server's TLS.
pub struct ServerCrypto {
    /// The configuration of each version, with sessions of its own: a ticket is of the version in
    /// which it was given (RFC 9369 section 5).
    pub v1: Arc<rustls::ServerConfig>,
    /// That of version 2.
    pub v2: Arc<rustls::ServerConfig>,
    /// The suite of Initial packets (RFC 9001 section 5.2).
    pub suite: Suite,
    /// The versions that the server speaks.
    pub versions: QuicVersions,
    /// The same as those of the server's socket.
    pub notes: NegotiationTable,
}

impl crypto::ServerConfig for ServerCrypto {
    fn initial_keys(&self, version: u32, id: ConnectionId) -> Result<Keys, UnsupportedVersion> {
        if version != V1 {
            return Err(UnsupportedVersion);
        }
        let role = Role::Endpoint(self.notes.clone());
        Ok(initial(&self.suite, id, Side::Server, &Negotiated::new(V1), role))
    }

    fn retry_tag(&self, _version: u32, first_id: ConnectionId, packet: &[u8]) -> [u8; 16] {
        let mut packet = packet.to_vec();
        let v2 = self.notes.began_with_v2(first_id);
        if v2 {
            super::headers::make_v2(&mut packet);
        }
        // Fails for no packet that noq makes; a client drops a Retry with another tag.
        let tag = retry::tag(if v2 { V2 } else { V1 }, first_id, &packet).unwrap_or_default();
        if v2 {
            self.notes.retry_of_v2(tag);
        }
        tag
    }

    fn start_session(&self, _version: u32, parameters: &TransportParameters) -> Box<dyn Session> {
        Box::new(TlsSession {
            side: Side::Server,
            suite: self.suite,
            negotiated: Negotiated::new(V1),
            notes: Some(self.notes.clone()),
            state: State::Waiting(Box::new(PendingHello {
                v1: self.v1.clone(),
                v2: self.v2.clone(),
                parameters: *parameters,
                versions: self.versions,
                hello: Vec::new(),
            })),
            first: V1,
            next: None,
            client: None,
            held: None,
            told: false,
        })
    }
}

/// A client's TLS.
pub struct ClientCrypto {
    /// The configuration of both versions.
    pub tls: Arc<rustls::ClientConfig>,
    /// The suite of Initial packets (RFC 9001 section 5.2).
    pub suite: Suite,
    /// The versions that the client speaks.
    pub versions: QuicVersions,
    /// Servers that moved a connection before.
    pub moved: UpgradedServers,
}

/// Servers that moved a connection to version 2. The next connection begins with it, because the
/// session that it resumes is of version 2 (RFC 9369 section 5).
#[derive(Clone, Default, Debug)]
pub struct UpgradedServers(Arc<Mutex<HashSet<String>>>);

impl UpgradedServers {
    /// True if the server of this name has moved the last connection to version 2.
    pub fn contains(&self, server_name: &str) -> bool {
        self.lock().contains(server_name)
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, HashSet<String>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl crypto::ClientConfig for ClientCrypto {
    fn start_session(
        &self,
        _version: u32,
        server_name: &str,
        parameters: &TransportParameters,
    ) -> Result<Box<dyn Session>, ConnectError> {
        let invalid = || ConnectError::InvalidServerName(server_name.into());
        let name = ServerName::try_from(server_name).map_err(|_| invalid())?.to_owned();
        // A server that has no version 2 any more is asked with version 1 the next time.
        let first = if self.moved.lock().remove(server_name) { V2 } else { self.versions.first() };
        let tap = Arc::new(SecretLog::new(self.tls.key_log.clone()));
        let mut tls = (*self.tls).clone();
        tls.key_log = tap.clone();
        let parameters = encode(parameters, first, self.versions);
        let connection = ClientConnection::new(Arc::new(tls), labels(first), name, parameters)
            .map_err(|_| ConnectError::UnsupportedVersion)?;
        Ok(Box::new(TlsSession {
            side: Side::Client,
            suite: self.suite,
            negotiated: Negotiated::new(first),
            notes: None,
            state: State::Running(Box::new(Connection::Client(connection))),
            first,
            next: None,
            client: Some(OfClient { tap, moved: self.moved.clone(), name: server_name.to_owned() }),
            held: None,
            told: false,
        }))
    }
}

/// A server that waits for the whole ClientHello, by which it chooses the version.
struct PendingHello {
    v1: Arc<rustls::ServerConfig>,
    v2: Arc<rustls::ServerConfig>,
    parameters: TransportParameters,
    versions: QuicVersions,
    hello: Vec<u8>,
}

enum State {
    Waiting(Box<PendingHello>),
    Running(Box<Connection>),
}

/// The secrets of the next key update.
enum Next {
    Rustls(Box<RustlsSecrets>),
    Derived(Algorithms, Secrets),
}

struct TlsSession {
    side: Side,
    suite: Suite,
    negotiated: Negotiated,
    /// A server's.
    notes: Option<NegotiationTable>,
    state: State,
    /// The version of the client's first packet, as far as it is known.
    first: u32,
    next: Option<Next>,
    client: Option<OfClient>,
    /// A server's keys of data until the client's Finished has come.
    held: Option<Keys>,
    /// noq knows that there is handshake data.
    told: bool,
}

struct OfClient {
    tap: Arc<SecretLog>,
    moved: UpgradedServers,
    name: String,
}

impl OfClient {
    fn was_moved(&self) {
        self.moved.lock().insert(self.name.clone());
    }
}

fn error(code: TransportErrorCode, reason: impl Into<String>) -> TransportError {
    TransportError::new(code, reason.into())
}

fn version_error(reason: &str) -> TransportError {
    error(noq::VarInt::from_u32(VERSION_NEGOTIATION_ERROR).into(), reason)
}

impl TlsSession {
    fn connection(&self) -> Option<&Connection> {
        match &self.state {
            State::Running(connection) => Some(connection),
            State::Waiting(_) => None,
        }
    }

    fn versioned(&self, key: Box<dyn PacketKey>) -> Box<dyn PacketKey> {
        Box::new(VersionedPacketKey { key, negotiated: self.negotiated.clone() })
    }

    fn versioned_pair(&self, pair: KeyPair<Box<dyn PacketKey>>) -> KeyPair<Box<dyn PacketKey>> {
        KeyPair { local: self.versioned(pair.local), remote: self.versioned(pair.remote) }
    }

    /// Starts TLS once the ClientHello is complete. Gives the bytes for TLS.
    fn choose(&mut self, bytes: &[u8]) -> Result<Option<Vec<u8>>, TransportError> {
        let State::Waiting(waiting) = &mut self.state else { return Ok(Some(bytes.to_vec())) };
        waiting.hello.extend_from_slice(bytes);
        let Progress::Done(hello) = hello::read(&waiting.hello) else { return Ok(None) };
        let begun = self.negotiated.version();
        let version = chosen(&hello, begun, waiting.versions)?;
        if version == V2 {
            self.negotiated.set_v2();
        }
        self.first = begun;
        let tls = if version == V2 { &waiting.v2 } else { &waiting.v1 };
        let parameters = encode(&waiting.parameters, version, waiting.versions);
        let connection = ServerConnection::new(tls.clone(), labels(version), parameters)
            .map_err(|e| error(TransportErrorCode::INTERNAL_ERROR, e.to_string()))?;
        let hello = std::mem::take(&mut waiting.hello);
        self.state = State::Running(Box::new(Connection::Server(connection)));
        Ok(Some(hello))
    }

    /// Checks that a server tells the version that it sends (RFC 9368 section 4).
    fn check_versions(&self, parameters: &[u8]) -> Result<(), TransportError> {
        let malformed = |_| {
            let code = TransportErrorCode::TRANSPORT_PARAMETER_ERROR;
            error(code, "malformed version_information")
        };
        let told = decode(parameters).map_err(malformed)?;
        let version = self.negotiated.version();
        match told {
            Some(told) if self.side == Side::Client && told.chosen != version => {
                Err(version_error("the server tells another version than it sends"))
            }
            None if self.side == Side::Client && version != self.first => {
                Err(version_error("the server changed the version and does not tell it"))
            }
            _ => {
                if let Some(client) = self.client.as_ref().filter(|_| version == V2) {
                    client.was_moved();
                }
                Ok(())
            }
        }
    }

    /// The keys that this connection needs instead of those that rustls derives: of a client that
    /// was moved to version 2.
    fn derived(&mut self, phase: Phase) -> Option<Keys> {
        if self.negotiated.version() == self.first {
            return None;
        }
        let algorithms = Algorithms::of(self.connection()?.negotiated_cipher_suite()?)?;
        let secrets = self.client.as_ref()?.tap.secrets(phase);
        let keys = algorithms.keys(&secrets, self.side)?;
        if phase == Phase::OneRtt {
            self.next = Some(Next::Derived(algorithms, secrets));
        }
        Some(keys)
    }
}

/// The version that a server chooses: that of the client's first packet, or version 2 if the client
/// speaks it. A session is resumed in the version in which it began. A client that tells no
/// versions has that of its first packet, `begun`, alone.
///
/// # Errors
/// The client leaves its own version out of those that it speaks, which is malformed, or tells
/// another one than its packets have (RFC 9368 section 4): somebody may have changed either.
fn chosen(hello: &Hello, begun: u32, mine: QuicVersions) -> Result<u32, TransportError> {
    let Some(versions) = &hello.versions else { return Ok(begun) };
    if !versions.available.contains(&versions.chosen) {
        let code = TransportErrorCode::TRANSPORT_PARAMETER_ERROR;
        return Err(error(code, "the chosen version is not among the available ones"));
    }
    if versions.chosen != begun {
        return Err(version_error("the client tells another version than it sends"));
    }
    let offers_v2 = versions.available.contains(&V2) && !hello.resumes;
    let v2 = versions.chosen == V2 || offers_v2;
    Ok(if v2 && mine.available().contains(&V2) { V2 } else { V1 })
}

impl Session for TlsSession {
    fn initial_keys(&self, id: ConnectionId, side: Side) -> Keys {
        let role = match &self.notes {
            None => Role::Client,
            Some(notes) => {
                if notes.began_with_v2(id) {
                    self.negotiated.set_v2();
                }
                Role::Server
            }
        };
        initial(&self.suite, id, side, &self.negotiated, role)
    }

    fn handshake_data(&self) -> Option<Box<dyn Any>> {
        let connection = self.connection().filter(|_| self.told)?;
        let server_name = match connection {
            Connection::Client(_) => None,
            Connection::Server(connection) => connection.server_name().map(str::to_owned),
        };
        let protocol = connection.alpn_protocol().map(<[u8]>::to_vec);
        Some(Box::new(Handshake { protocol, server_name }))
    }

    fn peer_identity(&self) -> Option<Box<dyn Any>> {
        let certificates = self.connection()?.peer_certificates()?;
        let certificates = certificates.iter().map(|c| c.clone().into_owned());
        Some(Box::new(certificates.collect::<Vec<CertificateDer<'static>>>()))
    }

    fn early_crypto(&self) -> Option<(Box<dyn HeaderKey>, Box<dyn PacketKey>)> {
        let keys = self.connection()?.zero_rtt_keys()?;
        // 0-RTT packets stay in the version of the first (RFC 9369 section 4.1).
        let negotiated = Negotiated::new(self.first);
        let key = VersionedPacketKey { key: Box::new(keys.packet), negotiated };
        Some((Box::new(keys.header), Box::new(key)))
    }

    fn early_data_accepted(&self) -> Option<bool> {
        match self.connection()? {
            Connection::Client(connection) => Some(connection.is_early_data_accepted()),
            Connection::Server(_) => None,
        }
    }

    fn is_handshaking(&self) -> bool {
        self.connection().is_none_or(|connection| connection.is_handshaking())
    }

    fn read_handshake(&mut self, bytes: &[u8]) -> Result<bool, TransportError> {
        let Some(bytes) = self.choose(bytes)? else { return Ok(false) };
        let State::Running(connection) = &mut self.state else { return Ok(false) };
        if let Err(e) = connection.read_hs(&bytes) {
            let code = match connection.alert() {
                Some(alert) => TransportErrorCode::crypto(alert.into()),
                None => TransportErrorCode::PROTOCOL_VIOLATION,
            };
            let mut error = error(code, e.to_string());
            error.crypto = Some(Arc::new(e));
            return Err(error);
        }
        let named = match &**connection {
            Connection::Client(_) => false,
            Connection::Server(connection) => connection.server_name().is_some(),
        };
        let ready = connection.alpn_protocol().is_some() || named || !connection.is_handshaking();
        let first_time = ready && !self.told;
        self.told |= ready;
        Ok(first_time)
    }

    fn transport_parameters(&self) -> Result<Option<TransportParameters>, TransportError> {
        let Some(bytes) = self.connection().and_then(|c| c.quic_transport_parameters()) else {
            return Ok(None);
        };
        self.check_versions(bytes)?;
        let read = TransportParameters::read(self.side, &mut &*bytes);
        read.map(Some).map_err(Into::into)
    }

    /// A server gets its keys of data when the handshake is complete, unless the client sends early
    /// data. With them before (0.5-RTT), noq sends its NEW_CONNECTION_ID frames alone in a packet
    /// that the client acknowledges a round trip late, and nothing else: no request has come yet.
    fn write_handshake(&mut self, buf: &mut Vec<u8>) -> Option<Keys> {
        if self.held.is_some() && !self.is_handshaking() {
            return self.held.take();
        }
        let State::Running(connection) = &mut self.state else { return None };
        let (phase, keys) = match connection.write_hs(buf)? {
            KeyChange::Handshake { keys } => (Phase::Handshake, keys),
            KeyChange::OneRtt { keys, next } => {
                self.next = Some(Next::Rustls(Box::new(next)));
                (Phase::OneRtt, keys)
            }
        };
        let keys = match self.derived(phase) {
            Some(derived) => derived,
            None => Keys {
                header: KeyPair {
                    local: Box::new(keys.local.header),
                    remote: Box::new(keys.remote.header),
                },
                packet: KeyPair {
                    local: Box::new(keys.local.packet),
                    remote: Box::new(keys.remote.packet),
                },
            },
        };
        let keys = Keys { header: keys.header, packet: self.versioned_pair(keys.packet) };
        let too_early = self.is_handshaking() && self.early_crypto().is_none();
        if self.side == Side::Server && phase == Phase::OneRtt && too_early {
            self.held = Some(keys);
            return None;
        }
        Some(keys)
    }

    fn next_1rtt_keys(&mut self) -> Option<KeyPair<Box<dyn PacketKey>>> {
        let pair = match self.next.as_mut()? {
            Next::Rustls(secrets) => {
                let keys = secrets.next_packet_keys();
                KeyPair { local: Box::new(keys.local) as _, remote: Box::new(keys.remote) as _ }
            }
            Next::Derived(algorithms, secrets) => algorithms.updated(secrets, self.side)?,
        };
        Some(self.versioned_pair(pair))
    }

    fn is_valid_retry(&self, first_id: ConnectionId, header: &[u8], payload: &[u8]) -> bool {
        let version = if super::headers::is_marked(header) { V2 } else { V1 };
        if version != self.first {
            return false;
        }
        let Some((token, tag)) = payload.split_last_chunk::<16>() else { return false };
        let packet = [&super::headers::as_received(header), token].concat();
        retry::tag(version, first_id, &packet).is_some_and(|right| right == *tag)
    }

    fn export_keying_material(
        &self,
        output: &mut [u8],
        label: &[u8],
        context: &[u8],
    ) -> Result<(), ExportKeyingMaterialError> {
        let connection = self.connection().ok_or(ExportKeyingMaterialError)?;
        let exported = connection.export_keying_material(output, label, Some(context));
        exported.map(drop).map_err(|_| ExportKeyingMaterialError)
    }
}

#[cfg(test)]
#[path = "session_tests.rs"]
mod tests;
