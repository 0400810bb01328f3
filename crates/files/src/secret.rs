//! The secret behind a server's stateless resets, connection IDs and tokens. A server that keeps it
//! across a restart can tell the clients of the process before that their connection is gone (RFC
//! 9000 section 10.3.1), and knows the tokens that they hold.

use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind, Read, Write};
use std::net::SocketAddr;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::Arc;

use noq::crypto::{CryptoError, HandshakeTokenKey};
use noq::{ConnectionId, ConnectionIdGenerator, EndpointConfig};
use noq_proto::{InvalidCid, RandomConnectionIdGenerator};
use ring::rand::{SecureRandom, SystemRandom};
use ring::{aead, hmac};

use crate::QuicVersions;

const BYTES: usize = 32;

/// 32 random bytes.
#[derive(Clone)]
pub struct Secret([u8; BYTES]);

/// No content in any log.
impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Secret")
    }
}

impl Secret {
    /// A new one, for this process alone.
    ///
    /// # Errors
    ///
    /// The system gives no random bytes.
    pub fn random() -> io::Result<Self> {
        let mut bytes = [0; BYTES];
        SystemRandom::new()
            .fill(&mut bytes)
            .map_err(|_| io::Error::other("the system gives no random bytes"))?;
        Ok(Self(bytes))
    }

    /// The one in this file; a file that is not there is made, readable by its owner alone.
    ///
    /// # Errors
    ///
    /// The file cannot be read or made, or has not 32 bytes.
    pub fn load_or_create(path: &Path) -> io::Result<Self> {
        match File::open(path) {
            Ok(file) => Self::read(file),
            Err(error) if error.kind() == ErrorKind::NotFound => Self::create(path),
            Err(error) => Err(error),
        }
    }

    fn read(file: File) -> io::Result<Self> {
        let mut bytes = Vec::new();
        file.take(BYTES as u64 + 1).read_to_end(&mut bytes)?;
        let bytes = bytes.try_into().map_err(|_| {
            io::Error::new(
                ErrorKind::InvalidData,
                "it is no secret of 32 bytes; remove it, and a new one is made",
            )
        })?;
        Ok(Self(bytes))
    }

    fn create(path: &Path) -> io::Result<Self> {
        let secret = Self::random()?;
        let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty());
        if let Some(directory) = directory {
            std::fs::create_dir_all(directory)?;
        }
        // Under another name until it is whole, because two servers may start at once.
        let name = format!(".{}.new", std::process::id());
        let new = directory.unwrap_or(Path::new(".")).join(name);
        let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&new)?;
        let made = file.write_all(&secret.0).and_then(|()| file.sync_all());
        let linked = made.and_then(|()| std::fs::hard_link(&new, path));
        let removed = std::fs::remove_file(&new);
        match linked {
            Ok(()) => removed.map(|()| secret),
            Err(error) if error.kind() == ErrorKind::AlreadyExists => Self::read(File::open(path)?),
            Err(error) => Err(error),
        }
    }

    /// The keys of the server at this address. Each address has its own, because two servers with
    /// one reset key would tell a stranger the reset tokens of each other's connections (RFC 9000
    /// section 21.11).
    pub(crate) fn at(&self, address: SocketAddr) -> Keys {
        let key = hmac::Key::new(hmac::HMAC_SHA256, &self.0);
        let derive = |purpose: &str| -> [u8; BYTES] {
            let tag = hmac::sign(&key, format!("fullpipe {purpose} {address}").as_bytes());
            let mut derived = [0; BYTES];
            derived.copy_from_slice(tag.as_ref());
            derived
        };
        Keys {
            reset: hmac::Key::new(hmac::HMAC_SHA256, &derive("stateless reset")),
            connection_id: hmac::Key::new(hmac::HMAC_SHA256, &derive("connection id")),
            token: derive("token"),
        }
    }
}

/// The keys that a server makes of its secret.
pub(crate) struct Keys {
    reset: hmac::Key,
    connection_id: hmac::Key,
    token: [u8; BYTES],
}

impl Keys {
    pub(crate) fn token_key(&self) -> Arc<dyn HandshakeTokenKey> {
        Arc::new(TokenKey(hmac::Key::new(hmac::HMAC_SHA256, &self.token)))
    }

    /// noq with these keys, and the versions that a Version Negotiation packet tells.
    pub(crate) fn endpoint_config(&self, versions: QuicVersions) -> EndpointConfig {
        let mut config = EndpointConfig::new(Arc::new(self.reset.clone()));
        let key = self.connection_id.clone();
        config
            .cid_generator(Arc::new(move || -> Box<dyn ConnectionIdGenerator> {
                Box::new(ConnectionIds(key.clone()))
            }))
            .supported_versions(versions.available().to_vec());
        config
    }
}

/// Random bytes of a connection ID, so that a million of them hardly ever meet.
const RANDOM_BYTES: usize = 5;
/// Bytes of a connection ID that show whose it is.
const TAG_BYTES: usize = 3;

/// Connection IDs that an earlier process with the same secret can have made as well, so that a
/// packet of one of its connections is told from noise, which is not answered with a stateless
/// reset.
struct ConnectionIds(hmac::Key);

impl ConnectionIds {
    fn tag(&self, random: &[u8]) -> [u8; TAG_BYTES] {
        let mut tag = [0; TAG_BYTES];
        tag.copy_from_slice(&hmac::sign(&self.0, random).as_ref()[..TAG_BYTES]);
        tag
    }
}

impl ConnectionIdGenerator for ConnectionIds {
    fn generate_cid(&mut self) -> ConnectionId {
        let random = RandomConnectionIdGenerator::new(RANDOM_BYTES).generate_cid();
        ConnectionId::new(&[&random[..], &self.tag(&random)].concat())
    }

    fn validate(&self, id: ConnectionId) -> Result<(), InvalidCid> {
        match id.split_at_checked(RANDOM_BYTES) {
            Some((random, tag)) if *tag == self.tag(random) => Ok(()),
            _ => Err(InvalidCid),
        }
    }

    fn cid_len(&self) -> usize {
        RANDOM_BYTES + TAG_BYTES
    }

    fn cid_lifetime(&self) -> Option<std::time::Duration> {
        None
    }
}

/// Seals tokens with AES-256-GCM under a key of its own for each token, made of noq's random nonce
/// of 128 bits: so a nonce of GCM is used once.
struct TokenKey(hmac::Key);

impl TokenKey {
    fn aead(&self, token_nonce: u128) -> Result<aead::LessSafeKey, CryptoError> {
        let key = hmac::sign(&self.0, &token_nonce.to_le_bytes());
        let key =
            aead::UnboundKey::new(&aead::AES_256_GCM, key.as_ref()).map_err(|_| CryptoError)?;
        Ok(aead::LessSafeKey::new(key))
    }
}

impl HandshakeTokenKey for TokenKey {
    fn seal(&self, token_nonce: u128, data: &mut Vec<u8>) -> Result<(), CryptoError> {
        let nonce = aead::Nonce::assume_unique_for_key([0; aead::NONCE_LEN]);
        self.aead(token_nonce)?
            .seal_in_place_append_tag(nonce, aead::Aad::empty(), data)
            .map_err(|_| CryptoError)
    }

    fn open<'a>(&self, token_nonce: u128, data: &'a mut [u8]) -> Result<&'a [u8], CryptoError> {
        let nonce = aead::Nonce::assume_unique_for_key([0; aead::NONCE_LEN]);
        let opened = self.aead(token_nonce)?.open_in_place(nonce, aead::Aad::empty(), data);
        opened.map(|bytes| &*bytes).map_err(|_| CryptoError)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn a_token_opens_with_its_own_secret_address_and_nonce_only() {
        let (secret, other) =
            (Secret::random().expect("random"), Secret::random().expect("random"));
        let here = ([127, 0, 0, 1], 4433).into();
        let there = ([127, 0, 0, 1], 4434).into();
        let mut token = b"for a client".to_vec();
        secret.at(here).token_key().seal(7, &mut token).expect("sealed");
        let open = |secret: &Secret, address, nonce| {
            let mut token = token.clone();
            secret.at(address).token_key().open(nonce, &mut token).map(<[u8]>::to_vec).ok()
        };
        assert_eq!(open(&secret.clone(), here, 7).as_deref(), Some(&b"for a client"[..]));
        assert_eq!(open(&other, here, 7), None);
        assert_eq!(open(&secret, there, 7), None);
        assert_eq!(open(&secret, here, 8), None);
    }

    #[test]
    fn connection_ids_are_random_and_are_known_again() {
        let secret = Secret::random().expect("random");
        let here = ([127, 0, 0, 1], 4433).into();
        let ids = |secret: &Secret| ConnectionIds(secret.at(here).connection_id);
        let mut own = ids(&secret);
        let mut random = std::collections::HashSet::new();
        for _ in 0..20_000 {
            let id = own.generate_cid();
            assert_eq!(id.len(), own.cid_len());
            assert!(ids(&secret).validate(id).is_ok(), "by the next process");
            assert!(random.insert(id[..RANDOM_BYTES].to_vec()), "twice in 20,000");
        }
        let mut others = ids(&Secret::random().expect("random"));
        let strange = (0..1000).filter(|_| own.validate(others.generate_cid()).is_ok());
        assert!(strange.count() < 3);
        assert!(own.validate(ConnectionId::new(&[])).is_err());
    }

    #[test]
    fn a_secret_is_made_once_and_is_the_owners_alone() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("new/secret");
        let first = Secret::load_or_create(&path).expect("made");
        assert_eq!(Secret::load_or_create(&path).expect("read").0, first.0);
        let mode = std::fs::metadata(&path).expect("a file").permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        assert_eq!(std::fs::read_dir(dir.path().join("new")).expect("a directory").count(), 1);
        for wrong in [&b""[..], &[1; 31], &[1; 33]] {
            std::fs::write(&path, wrong).expect("a file");
            let error = Secret::load_or_create(&path).expect_err("no secret").to_string();
            assert!(error.contains("32 bytes"), "{error}");
        }
        assert!(!format!("{first:?}").contains(char::is_numeric));
    }
}
