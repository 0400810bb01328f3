//! The keys of version 2 from TLS's secrets (RFC 9369 section 3.3).
//!
//! rustls derives keys with the labels of the version that a connection began with. A client that
//! began with version 1 and is moved to version 2 needs others from the same secrets, which rustls
//! hands to its key log alone.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::BytesMut;
use noq::crypto::{CryptoError, HeaderKey, KeyPair, Keys, PacketKey};
use noq::{PathId, Side};
use ring::aead::quic::{self, HeaderProtectionKey};
use ring::aead::{self, Aad, LessSafeKey, Nonce, UnboundKey};
use rustls::crypto::tls13::OkmBlock;
use rustls::{CipherSuite, KeyLog, SupportedCipherSuite, Tls13CipherSuite};

use crate::wire::LONG_FORM;

/// Largest number of packets that a key of AES protects, and of packets that may fail (RFC 9001
/// section 6.6). That of ChaCha20 has no limit that a connection reaches.
const AES_CONFIDENTIALITY_LIMIT: u64 = 1 << 23;
const AES_INTEGRITY_LIMIT: u64 = 1 << 52;
const CHACHA_INTEGRITY_LIMIT: u64 = 1 << 36;

/// The secrets of a phase of the handshake.
#[derive(Clone, Default)]
pub(super) struct Secrets {
    client: Vec<u8>,
    server: Vec<u8>,
}

/// Takes a connection's secrets and passes them on.
pub(super) struct SecretLog {
    taken: Mutex<[Secrets; 2]>,
    next: Arc<dyn KeyLog>,
}

/// No secret in any log.
impl fmt::Debug for SecretLog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Tap")
    }
}

/// A phase of the handshake that has keys.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Phase {
    Handshake = 0,
    OneRtt = 1,
}

impl SecretLog {
    pub(super) fn new(next: Arc<dyn KeyLog>) -> Self {
        Self { taken: Mutex::default(), next }
    }

    pub(super) fn secrets(&self, phase: Phase) -> Secrets {
        let taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        taken[phase as usize].clone()
    }
}

impl KeyLog for SecretLog {
    fn log(&self, label: &str, client_random: &[u8], secret: &[u8]) {
        let mut taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        let place = match label {
            "CLIENT_HANDSHAKE_TRAFFIC_SECRET" => &mut taken[0].client,
            "SERVER_HANDSHAKE_TRAFFIC_SECRET" => &mut taken[0].server,
            "CLIENT_TRAFFIC_SECRET_0" => &mut taken[1].client,
            "SERVER_TRAFFIC_SECRET_0" => &mut taken[1].server,
            _ => return self.next.log(label, client_random, secret),
        };
        *place = secret.to_vec();
        drop(taken);
        self.next.log(label, client_random, secret);
    }

    fn will_log(&self, _label: &str) -> bool {
        true
    }
}

/// The algorithms of a cipher suite.
#[derive(Clone, Copy)]
pub(super) struct Algorithms {
    suite: &'static Tls13CipherSuite,
    packet: &'static aead::Algorithm,
    header: &'static quic::Algorithm,
}

impl Algorithms {
    /// The algorithms of a suite that ring has for QUIC; `None` for another one.
    pub(super) fn of(suite: SupportedCipherSuite) -> Option<Self> {
        let suite = suite.tls13()?;
        let (packet, header) = match suite.common.suite {
            CipherSuite::TLS13_AES_128_GCM_SHA256 => (&aead::AES_128_GCM, &quic::AES_128),
            CipherSuite::TLS13_AES_256_GCM_SHA384 => (&aead::AES_256_GCM, &quic::AES_256),
            CipherSuite::TLS13_CHACHA20_POLY1305_SHA256 => {
                (&aead::CHACHA20_POLY1305, &quic::CHACHA20)
            }
            _ => return None,
        };
        Some(Self { suite, packet, header })
    }

    /// HKDF-Expand-Label (RFC 8446 section 7.1) without a context.
    fn expand(self, secret: &[u8], label: &str, output: &mut [u8]) -> Option<()> {
        let length = u16::try_from(output.len()).ok()?.to_be_bytes();
        let label_length = [u8::try_from("tls13 ".len() + label.len()).ok()?];
        let info: [&[u8]; 5] = [&length, &label_length, b"tls13 ", label.as_bytes(), &[0]];
        let secret = OkmBlock::new(secret);
        self.suite.hkdf_provider.expander_for_okm(&secret).expand_slice(&info, output).ok()
    }

    fn packet_key(self, secret: &[u8]) -> Option<Box<dyn PacketKey>> {
        let (mut key, mut iv) = (vec![0; self.packet.key_len()], [0; aead::NONCE_LEN]);
        self.expand(secret, "quicv2 key", &mut key)?;
        self.expand(secret, "quicv2 iv", &mut iv)?;
        let key = LessSafeKey::new(UnboundKey::new(self.packet, &key).ok()?);
        let is_aes = self.packet != &aead::CHACHA20_POLY1305;
        Some(Box::new(DerivedPacketKey { key, iv, is_aes }))
    }

    fn header_key(self, secret: &[u8]) -> Option<Box<dyn HeaderKey>> {
        let mut key = vec![0; self.header.key_len()];
        self.expand(secret, "quicv2 hp", &mut key)?;
        Some(Box::new(DerivedHeaderKey(HeaderProtectionKey::new(self.header, &key).ok()?)))
    }

    /// The keys of a phase for this end.
    pub(super) fn keys(self, secrets: &Secrets, side: Side) -> Option<Keys> {
        let (local, remote) = secrets.of(side);
        Some(Keys {
            header: KeyPair { local: self.header_key(local)?, remote: self.header_key(remote)? },
            packet: self.packet_keys(secrets, side)?,
        })
    }

    fn packet_keys(self, secrets: &Secrets, side: Side) -> Option<KeyPair<Box<dyn PacketKey>>> {
        let (local, remote) = secrets.of(side);
        Some(KeyPair { local: self.packet_key(local)?, remote: self.packet_key(remote)? })
    }

    /// The keys after the next key update, and the secrets that they are from.
    pub(super) fn updated(
        self,
        secrets: &mut Secrets,
        side: Side,
    ) -> Option<KeyPair<Box<dyn PacketKey>>> {
        for secret in [&mut secrets.client, &mut secrets.server] {
            let mut next = vec![0; secret.len()];
            self.expand(secret, "quicv2 ku", &mut next)?;
            *secret = next;
        }
        self.packet_keys(secrets, side)
    }
}

impl Secrets {
    /// This end's and the other's.
    fn of(&self, side: Side) -> (&[u8], &[u8]) {
        match side {
            Side::Client => (&self.client, &self.server),
            Side::Server => (&self.server, &self.client),
        }
    }
}

struct DerivedPacketKey {
    key: LessSafeKey,
    iv: [u8; aead::NONCE_LEN],
    is_aes: bool,
}

impl DerivedPacketKey {
    /// The nonce of a packet (RFC 9001 section 5.3), of path 0.
    fn nonce(&self, number: u64) -> Nonce {
        let mut nonce = self.iv;
        let number = number.to_be_bytes();
        let start = nonce.len() - number.len();
        nonce[start..].iter_mut().zip(number).for_each(|(byte, part)| *byte ^= part);
        Nonce::assume_unique_for_key(nonce)
    }
}

impl PacketKey for DerivedPacketKey {
    fn encrypt(&self, _path: PathId, number: u64, packet: &mut [u8], header_len: usize) {
        let (header, payload) = packet.split_at_mut(header_len);
        let Some(length) = payload.len().checked_sub(self.tag_len()) else { return };
        let (payload, place) = payload.split_at_mut(length);
        let aad = Aad::from(&*header);
        // Fails for payloads of more than 2^36 bytes alone; the packet then has no valid tag, and
        // the peer drops it.
        if let Ok(tag) = self.key.seal_in_place_separate_tag(self.nonce(number), aad, payload) {
            place.copy_from_slice(tag.as_ref());
        }
    }

    fn decrypt(
        &self,
        _path: PathId,
        number: u64,
        header: &[u8],
        payload: &mut BytesMut,
    ) -> Result<(), CryptoError> {
        let plain = self
            .key
            .open_in_place(self.nonce(number), Aad::from(header), payload)
            .map_err(|_| CryptoError)?;
        let length = plain.len();
        payload.truncate(length);
        Ok(())
    }

    fn tag_len(&self) -> usize {
        self.key.algorithm().tag_len()
    }

    fn confidentiality_limit(&self) -> u64 {
        if self.is_aes { AES_CONFIDENTIALITY_LIMIT } else { u64::MAX }
    }

    fn integrity_limit(&self) -> u64 {
        if self.is_aes { AES_INTEGRITY_LIMIT } else { CHACHA_INTEGRITY_LIMIT }
    }
}

struct DerivedHeaderKey(HeaderProtectionKey);

impl DerivedHeaderKey {
    /// RFC 9001 section 5.4.1. `plain` gives the first byte without its mask, of what it was and
    /// what it becomes.
    fn apply(&self, pn_offset: usize, packet: &mut [u8], plain: impl Fn(u8, u8) -> u8) {
        let Some((header, behind)) = packet.split_at_mut_checked(pn_offset + 4) else { return };
        let Some(sample) = behind.get(..self.sample_size()) else { return };
        let Ok(mask) = self.0.new_mask(sample) else { return };
        let bits = if header[0] & LONG_FORM != 0 { 0x0f } else { 0x1f };
        let masked = header[0] ^ mask[0] & bits;
        let length = usize::from(plain(header[0], masked) & 3) + 1;
        header[0] = masked;
        let number = header[pn_offset..].iter_mut().take(length);
        number.zip(&mask[1..]).for_each(|(byte, part)| *byte ^= part);
    }
}

impl HeaderKey for DerivedHeaderKey {
    fn decrypt(&self, pn_offset: usize, packet: &mut [u8]) {
        self.apply(pn_offset, packet, |_before, after| after);
    }

    fn encrypt(&self, pn_offset: usize, packet: &mut [u8]) {
        self.apply(pn_offset, packet, |before, _after| before);
    }

    fn sample_size(&self) -> usize {
        self.0.algorithm().sample_len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustls::crypto::ring::cipher_suite;

    const ALL: [SupportedCipherSuite; 3] = [
        cipher_suite::TLS13_AES_128_GCM_SHA256,
        cipher_suite::TLS13_AES_256_GCM_SHA384,
        cipher_suite::TLS13_CHACHA20_POLY1305_SHA256,
    ];

    fn bytes(hex: &str) -> Vec<u8> {
        let pairs = (0..hex.len()).step_by(2).map(|i| &hex[i..i + 2]);
        pairs.map(|pair| u8::from_str_radix(pair, 16).expect("hexadecimal")).collect()
    }

    /// RFC 9369 appendix A.5.
    #[test]
    fn the_rfcs_secret_has_these_keys() {
        let chacha = Algorithms::of(ALL[2]).expect("ring has it");
        let secret = bytes("9ac312a7f877468ebe69422748ad00a15443f18203a07d6060f688f30f21632b");
        let expanded = |label, length: usize| {
            let mut output = vec![0; length];
            chacha.expand(&secret, label, &mut output).expect("it is short");
            output
        };
        assert_eq!(
            expanded("quicv2 key", 32),
            bytes("3bfcddd72bcf02541d7fa0dd1f5f9eeea817e09a6963a0e6c7df0f9a1bab90f2")
        );
        assert_eq!(expanded("quicv2 iv", 12), bytes("a6b5bc6ab7dafce30ffff5dd"));
        assert_eq!(
            expanded("quicv2 hp", 32),
            bytes("d659760d2ba434a226fd37b35c69e2da8211d10c4f12538787d65645d5d1b8e2")
        );
        assert_eq!(
            expanded("quicv2 ku", 32),
            bytes("c69374c49e3d2a9466fa689e49d476db5d0dfbc87d32ceeaa6343fd0ae4c7d88")
        );
    }

    /// The packet of RFC 9369 appendix A.5: PING in a packet with the number 654360564.
    #[test]
    fn the_rfcs_packet_is_protected_like_this() {
        let chacha = Algorithms::of(ALL[2]).expect("ring has it");
        let secret = bytes("9ac312a7f877468ebe69422748ad00a15443f18203a07d6060f688f30f21632b");
        let (key, header) = (chacha.packet_key(&secret), chacha.header_key(&secret));
        let (key, header) = (key.expect("a key"), header.expect("a key"));
        let plain = bytes("4200bff401");
        let mut packet = [&plain[..], &[0; 16]].concat();
        key.encrypt(PathId::ZERO, 654_360_564, &mut packet, 4);
        header.encrypt(1, &mut packet);
        assert_eq!(packet, bytes("5558b1c60ae7b6b932bc27d786f4bc2bb20f2162ba"));
        header.decrypt(1, &mut packet);
        let mut payload = BytesMut::from(&packet[4..]);
        key.decrypt(PathId::ZERO, 654_360_564, &packet[..4], &mut payload).expect("authentic");
        assert_eq!((&packet[..4], &payload[..]), (&plain[..4], &plain[4..]));
        payload.resize(17, 0);
        assert!(key.decrypt(PathId::ZERO, 1, &packet[..4], &mut payload).is_err());
    }

    #[test]
    fn two_ends_understand_each_other_also_after_key_updates() {
        for suite in ALL {
            let algorithms = Algorithms::of(suite).expect("ring has it");
            let length = if suite == ALL[1] { 48 } else { 32 };
            let secrets = Secrets { client: vec![1; length], server: vec![2; length] };
            let (mut at_client, mut at_server) = (secrets.clone(), secrets.clone());
            for update in 0..3 {
                let pair = if update == 0 {
                    let client = algorithms.packet_keys(&secrets, Side::Client);
                    (client, algorithms.packet_keys(&secrets, Side::Server))
                } else {
                    let client = algorithms.updated(&mut at_client, Side::Client);
                    (client, algorithms.updated(&mut at_server, Side::Server))
                };
                let (Some(client), Some(server)) = pair else { panic!("no keys") };
                for (from, to) in [(&client.local, &server.remote), (&server.local, &client.remote)]
                {
                    let mut packet = [&[9; 6][..], b"data", &[0; 16]].concat();
                    from.encrypt(PathId::ZERO, 7, &mut packet, 6);
                    let mut payload = BytesMut::from(&packet[6..]);
                    to.decrypt(PathId::ZERO, 7, &packet[..6], &mut payload).expect("authentic");
                    assert_eq!(&payload[..], b"data");
                }
            }
        }
    }
}
