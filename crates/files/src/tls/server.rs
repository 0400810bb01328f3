//! A server's certificate and key.

use std::path::Path;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::{Duration, SystemTime};

use fullpipe_noq_repairs::{NegotiationTable, ServerCrypto};
use rcgen::{CertificateParams, DistinguishedName, DnType, KeyPair};
use rustls::crypto::ring;
use rustls::server::{
    ClientHello, NoServerSessionStorage, ResolvesServerCert, ServerSessionMemoryCache,
};
use rustls::sign::CertifiedKey;
use rustls::version::TLS13;
use rustls::{Error, KeyLogFile};
use rustls_pki_types::{CertificateDer, PrivatePkcs8KeyDer};

use super::cipher::initial_suite;
use super::{Cipher, Fingerprint, TlsError, read_certificates, read_key, setup};
use crate::{QuicVersions, hq, http3};

/// A self-signed certificate is made anew at every start, so it need not live long.
const SELF_SIGNED_VALIDITY: Duration = Duration::from_secs(90 * 24 * 3600);
/// Clocks differ: a certificate that begins now is not valid yet for some.
const CLOCK_SKEW: Duration = Duration::from_secs(24 * 3600);

/// Sessions that can be resumed; more than these are forgotten. Each takes about a kilobyte.
const SESSIONS: usize = 4096;

/// A certificate chain with its private key, and what else a server's TLS is told. Clones share the
/// certificate, so that [`reload`](Self::reload) changes it for all of them.
#[derive(Clone)]
pub struct ServerTls {
    current: Arc<Current>,
    cipher: Cipher,
    early_data: bool,
    resumption: bool,
}

/// The certificate that is presented now.
#[derive(Debug)]
struct Current(RwLock<Arc<CertifiedKey>>);

impl Current {
    fn get(&self) -> Arc<CertifiedKey> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl ResolvesServerCert for Current {
    fn resolve(&self, _hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(self.get())
    }
}

impl ServerTls {
    /// The chain in `certificate`, the server's own first, and its private key in `key`; both PEM.
    pub fn from_pem_files(certificate: &Path, key: &Path) -> Result<Self, TlsError> {
        read_pair(certificate, key).map(Self::new)
    }

    /// A fresh key and a certificate for these DNS names and IP addresses that it signs itself,
    /// valid for 90 days.
    pub fn self_signed(names: &[&str]) -> Result<Self, TlsError> {
        let key = KeyPair::generate()?;
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        let mut params = CertificateParams::new(names)?;
        params.distinguished_name = DistinguishedName::new();
        params.distinguished_name.push(DnType::CommonName, "fullpipe, self-signed");
        let now = SystemTime::now();
        params.not_before = (now - CLOCK_SKEW).into();
        params.not_after = (now + SELF_SIGNED_VALIDITY).into();
        let certificate = params.self_signed(&key)?;
        let key = PrivatePkcs8KeyDer::from(key.serialize_der());
        let provider = ring::default_provider();
        CertifiedKey::from_der(vec![certificate.into()], key.into(), &provider)
            .map(Self::new)
            .map_err(setup)
    }

    fn new(certified: CertifiedKey) -> Self {
        let current = Arc::new(Current(RwLock::new(Arc::new(certified))));
        Self { current, cipher: Cipher::default(), early_data: false, resumption: true }
    }

    /// With this cipher suite alone.
    pub fn with_cipher(self, cipher: Cipher) -> Self {
        Self { cipher, ..self }
    }

    /// Takes requests in a client's first packets (0-RTT) when it resumes a session. Such packets
    /// can be sent again by anybody who saw them, which is harmless for requests that only read. A
    /// session is resumed once.
    pub fn with_early_data(self) -> Self {
        Self { early_data: true, ..self }
    }

    /// Gives no session tickets, so that each connection proves the server's identity with its
    /// certificate.
    pub fn without_resumption(self) -> Self {
        Self { resumption: false, ..self }
    }

    /// Presents another certificate from the next handshake on. On an error it stays as it was.
    pub fn reload(&self, certificate: &Path, key: &Path) -> Result<(), TlsError> {
        let certified = Arc::new(read_pair(certificate, key)?);
        *self.current.0.write().unwrap_or_else(PoisonError::into_inner) = certified;
        Ok(())
    }

    /// The certificates that the server presents, its own first.
    pub fn certificates(&self) -> Vec<CertificateDer<'static>> {
        self.current.get().cert.clone()
    }

    /// The SHA-256 fingerprint of the server's own certificate.
    pub fn fingerprint(&self) -> Fingerprint {
        // A pair that was read has a certificate.
        self.current.get().cert.first().map_or(Fingerprint([0; 32]), Fingerprint::of)
    }

    /// TLS of both versions; `notes` are those of the server's socket.
    pub(crate) fn crypto(
        &self,
        versions: QuicVersions,
        notes: &NegotiationTable,
    ) -> Result<Arc<dyn noq::crypto::ServerConfig>, TlsError> {
        let suite = initial_suite().ok_or_else(|| setup("ring has no AES-128-GCM"))?;
        let (v1, v2) = (Arc::new(self.rustls()?), Arc::new(self.rustls()?));
        Ok(Arc::new(ServerCrypto { v1, v2, suite, versions, notes: notes.clone() }))
    }

    fn rustls(&self) -> Result<rustls::ServerConfig, TlsError> {
        let mut config = rustls::ServerConfig::builder_with_provider(self.cipher.provider())
            .with_protocol_versions(&[&TLS13])
            .map_err(setup)?
            .with_no_client_auth()
            .with_cert_resolver(self.current.clone());
        // The first that the client has as well.
        config.alpn_protocols = vec![http3::ALPN.to_vec(), hq::ALPN.to_vec()];
        config.key_log = Arc::new(KeyLogFile::new());
        if self.resumption {
            config.session_storage = ServerSessionMemoryCache::new(SESSIONS);
        } else {
            config.session_storage = Arc::new(NoServerSessionStorage {});
            config.send_tls13_tickets = 0;
        }
        if self.early_data && self.resumption {
            // In QUIC it is all or nothing (RFC 9001 section 4.6.1).
            config.max_early_data_size = u32::MAX;
        }
        Ok(config)
    }
}

/// A chain and its key, which must belong together.
fn read_pair(certificate: &Path, key: &Path) -> Result<CertifiedKey, TlsError> {
    let chain = read_certificates(certificate)?;
    let provider = ring::default_provider();
    CertifiedKey::from_der(chain, read_key(key)?, &provider).map_err(|error| match error {
        Error::InconsistentKeys(_) => {
            TlsError::Pair { certificate: certificate.to_owned(), key: key.to_owned() }
        }
        Error::InvalidCertificate(error) => TlsError::Certificate {
            path: certificate.to_owned(),
            reason: format!("it is no X.509 certificate ({error})"),
        },
        error => TlsError::Key { path: key.to_owned(), reason: error.to_string() },
    })
}
