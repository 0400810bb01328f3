//! Packet protection that knows both versions.

use bytes::BytesMut;
use noq::crypto::{CryptoError, HeaderKey, KeyPair, Keys, PacketKey};
use noq::{ConnectionId, PathId, Side};
use rustls::quic::{HeaderProtectionKey, PacketKey as RustlsPacketKey, Suite, Version};

use super::headers::{as_received, is_long, is_marked, is_v2, make_v2};
use super::unheard::FirstOfV2;
use super::{Negotiated, NegotiationTable};
use crate::wire::{V1, V2};

/// The keys of Initial packets: each is received in the version that it has, and sent in the
/// connection's.
pub(super) fn initial(
    suite: &Suite,
    id: ConnectionId,
    side: Side,
    negotiated: &Negotiated,
    role: Role,
) -> Keys {
    let rustls_side = match side {
        Side::Client => rustls::Side::Client,
        Side::Server => rustls::Side::Server,
    };
    let v1 = suite.keys(&id, rustls_side, Version::V1);
    let v2 = suite.keys(&id, rustls_side, Version::V2);
    let begins_with_v1 = matches!(role, Role::Server) && negotiated.version() == V1;
    let first_of_v2 = begins_with_v1.then(FirstOfV2::new);
    let packet = |v1: Box<dyn RustlsPacketKey>, v2| -> Box<dyn PacketKey> {
        let (negotiated, first_of_v2) = (negotiated.clone(), first_of_v2.clone());
        let is_client = matches!(role, Role::Client);
        Box::new(InitialPacketKey { v1, v2, negotiated, is_client, first_of_v2 })
    };
    let header = |v1: Box<dyn HeaderProtectionKey>, v2| -> Box<dyn HeaderKey> {
        let begins = match &role {
            Role::Endpoint(notes) => Some((notes.clone(), id, negotiated.clone())),
            Role::Client | Role::Server => None,
        };
        Box::new(InitialHeaderKey { v1, v2, begins })
    };
    Keys {
        header: KeyPair {
            local: header(v1.local.header, v2.local.header),
            remote: header(v1.remote.header, v2.remote.header),
        },
        packet: KeyPair {
            local: packet(v1.local.packet, v2.local.packet),
            remote: packet(v1.remote.packet, v2.remote.packet),
        },
    }
}

/// The end that has the keys, by which it depends what an Initial of version 2 means that it
/// receives.
pub(super) enum Role {
    /// A client that offered version 2: the server has chosen it (RFC 9368 section 2.3).
    Client,
    /// A server before it has accepted the connection: the client begins with version 2.
    Endpoint(NegotiationTable),
    /// A server's connection, which knows its version by its ClientHello.
    Server,
}

struct InitialHeaderKey {
    v1: Box<dyn HeaderProtectionKey>,
    v2: Box<dyn HeaderProtectionKey>,
    /// Of a server that has not accepted the connection yet. A Retry is sent before the packet is
    /// decrypted, so that its header alone tells the version.
    begins: Option<(NegotiationTable, ConnectionId, Negotiated)>,
}

impl HeaderKey for InitialHeaderKey {
    fn decrypt(&self, pn_offset: usize, packet: &mut [u8]) {
        if !is_marked(packet) {
            return HeaderKey::decrypt(&self.v1, pn_offset, packet);
        }
        if let Some((notes, id, negotiated)) = &self.begins {
            notes.begins_with_v2(*id);
            negotiated.set_v2();
        }
        HeaderKey::decrypt(&self.v2, pn_offset, packet);
    }

    fn encrypt(&self, pn_offset: usize, packet: &mut [u8]) {
        let key = if is_v2(packet) { &self.v2 } else { &self.v1 };
        HeaderKey::encrypt(key, pn_offset, packet);
    }

    fn sample_size(&self) -> usize {
        HeaderKey::sample_size(&self.v1)
    }
}

struct InitialPacketKey {
    v1: Box<dyn RustlsPacketKey>,
    v2: Box<dyn RustlsPacketKey>,
    negotiated: Negotiated,
    is_client: bool,
    /// Of a server whose client began with version 1.
    first_of_v2: Option<FirstOfV2>,
}

impl PacketKey for InitialPacketKey {
    fn encrypt(&self, path: PathId, number: u64, packet: &mut [u8], header_len: usize) {
        if self.negotiated.version() == V2 {
            make_v2(packet);
            if let Some(first) = &self.first_of_v2 {
                first.sent(number);
            }
            PacketKey::encrypt(&self.v2, path, number, packet, header_len);
        } else {
            PacketKey::encrypt(&self.v1, path, number, packet, header_len);
        }
    }

    fn decrypt(
        &self,
        path: PathId,
        number: u64,
        header: &[u8],
        payload: &mut BytesMut,
    ) -> Result<(), CryptoError> {
        if !is_marked(header) {
            return PacketKey::decrypt(&self.v1, path, number, header, payload);
        }
        PacketKey::decrypt(&self.v2, path, number, &as_received(header), payload)?;
        if self.is_client {
            self.negotiated.set_v2();
        }
        if let Some(first) = &self.first_of_v2 {
            first.forget(payload);
        }
        Ok(())
    }

    fn tag_len(&self) -> usize {
        PacketKey::tag_len(&self.v1)
    }

    fn confidentiality_limit(&self) -> u64 {
        PacketKey::confidentiality_limit(&self.v1)
    }

    fn integrity_limit(&self) -> u64 {
        PacketKey::integrity_limit(&self.v1)
    }
}

/// A key of 0-RTT, Handshake or 1-RTT packets. Only long headers differ between the versions.
pub(super) struct VersionedPacketKey {
    pub(super) key: Box<dyn PacketKey>,
    pub(super) negotiated: Negotiated,
}

impl PacketKey for VersionedPacketKey {
    fn encrypt(&self, path: PathId, number: u64, packet: &mut [u8], header_len: usize) {
        if is_long(packet) && self.negotiated.version() == V2 {
            make_v2(packet);
        }
        self.key.encrypt(path, number, packet, header_len);
    }

    fn decrypt(
        &self,
        path: PathId,
        number: u64,
        header: &[u8],
        payload: &mut BytesMut,
    ) -> Result<(), CryptoError> {
        if is_marked(header) {
            self.key.decrypt(path, number, &as_received(header), payload)
        } else {
            self.key.decrypt(path, number, header, payload)
        }
    }

    fn tag_len(&self) -> usize {
        self.key.tag_len()
    }

    fn confidentiality_limit(&self) -> u64 {
        self.key.confidentiality_limit()
    }

    fn integrity_limit(&self) -> u64 {
        self.key.integrity_limit()
    }
}
