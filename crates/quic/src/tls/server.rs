//! A server's certificate and key.

use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use noq::crypto::rustls::QuicServerConfig;
use rcgen::{CertificateParams, DistinguishedName, DnType, KeyPair};
use rustls::Error;
use rustls::crypto::ring;
use rustls::version::TLS13;
use rustls_pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use sha2::{Digest, Sha256};

use super::{TlsError, read_certificates, read_key, setup};
use crate::ALPN;

/// A self-signed certificate is made anew at every start, so it need not live long.
const SELF_SIGNED_VALIDITY: Duration = Duration::from_secs(90 * 24 * 3600);
/// Clocks differ: a certificate that begins now is not valid yet for some.
const CLOCK_SKEW: Duration = Duration::from_secs(24 * 3600);

/// A certificate chain with its private key, and rustls set up to present them.
#[derive(Clone)]
pub struct ServerTls {
    chain: Vec<CertificateDer<'static>>,
    config: Arc<QuicServerConfig>,
}

impl ServerTls {
    /// The chain in `certificate`, the server's own first, and its private key in `key`; both PEM.
    pub fn from_pem_files(certificate: &Path, key: &Path) -> Result<Self, TlsError> {
        let chain = read_certificates(certificate)?;
        Self::new(chain, read_key(key)?).map_err(|error| match error {
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
        Self::new(vec![certificate.into()], key.into()).map_err(setup)
    }

    fn new(
        chain: Vec<CertificateDer<'static>>,
        key: PrivateKeyDer<'static>,
    ) -> Result<Self, Error> {
        let mut config =
            rustls::ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
                .with_protocol_versions(&[&TLS13])?
                .with_no_client_auth()
                .with_single_cert(chain.clone(), key)?;
        config.alpn_protocols = vec![ALPN.to_vec()];
        let config =
            QuicServerConfig::try_from(config).map_err(|e| Error::General(e.to_string()))?;
        Ok(Self { chain, config: Arc::new(config) })
    }

    /// The certificates that the server presents, its own first.
    pub fn certificates(&self) -> &[CertificateDer<'static>] {
        &self.chain
    }

    /// The SHA-256 fingerprint of the server's own certificate.
    pub fn fingerprint(&self) -> Fingerprint {
        let mut hash = Sha256::new();
        if let Some(own) = self.chain.first() {
            hash.update(own);
        }
        Fingerprint(hash.finalize().into())
    }

    pub(crate) fn config(&self) -> noq::ServerConfig {
        noq::ServerConfig::with_crypto(self.config.clone())
    }
}

/// The SHA-256 of a certificate, printed as `openssl x509 -fingerprint -sha256` does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Fingerprint(pub [u8; 32]);

impl fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, byte) in self.0.iter().enumerate() {
            let colon = if i == 0 { "" } else { ":" };
            write!(f, "{colon}{byte:02X}")?;
        }
        Ok(())
    }
}
