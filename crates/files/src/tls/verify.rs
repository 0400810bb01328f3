//! Verification of a server's certificate by the client.

use std::path::PathBuf;
use std::sync::Arc;

use fullpipe_noq_repairs::{ClientCrypto, UpgradedServers};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{Resumption, WebPkiServerVerifier, verify_server_name};
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::server::ParsedCertificate;
use rustls::version::TLS13;
use rustls::{
    CertificateError, DigitallySignedStruct, Error, KeyLogFile, OtherError, RootCertStore,
    SignatureScheme,
};
use rustls_pki_types::{CertificateDer, ServerName, UnixTime};

use super::cipher::initial_suite;
use super::{Cipher, Fingerprint, Sessions, TlsError, read_certificates, setup};
use crate::{Alpn, QuicVersions};

/// Criteria by which a client accepts a server's certificate.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Verify {
    /// An issuer that this machine's owner trusts: the certificates of the operating system, or
    /// those that the environment's `SSL_CERT_FILE` and `SSL_CERT_DIR` name.
    SystemRoots,
    /// An issuer, or the server's own certificate, in this PEM file.
    Ca(PathBuf),
    /// An issuer, or the server's own certificate, among these.
    Certificates(Vec<CertificateDer<'static>>),
    /// The very certificate with this fingerprint, whatever name and time stand in it.
    Fingerprint(Fingerprint),
    /// Nothing: anybody on the way can pretend to be the server.
    Insecure,
}

impl Verify {
    /// rustls for a client that checks like this. Connections with one configuration share their
    /// sessions.
    pub(crate) fn config(
        &self,
        cipher: Cipher,
        alpn: Alpn,
        versions: QuicVersions,
        sessions: Arc<Sessions>,
    ) -> Result<Arc<dyn noq::crypto::ClientConfig>, TlsError> {
        Ok(Arc::new(self.crypto(cipher, alpn, versions, sessions)?))
    }

    /// The same with what it is made of.
    pub(crate) fn crypto(
        &self,
        cipher: Cipher,
        alpn: Alpn,
        versions: QuicVersions,
        sessions: Arc<Sessions>,
    ) -> Result<ClientCrypto, TlsError> {
        let provider = cipher.provider();
        let mut config = rustls::ClientConfig::builder_with_provider(provider.clone())
            .with_protocol_versions(&[&TLS13])
            .map_err(setup)?
            .dangerous()
            .with_custom_certificate_verifier(self.verifier(provider)?)
            .with_no_client_auth();
        config.alpn_protocols = alpn.names();
        config.resumption = Resumption::store(sessions);
        config.key_log = Arc::new(KeyLogFile::new());
        // Sent only by whoever asks for it; see `Connector::connect_early`.
        config.enable_early_data = true;
        let suite = initial_suite().ok_or_else(|| setup("ring has no AES-128-GCM"))?;
        let moved = UpgradedServers::default();
        Ok(ClientCrypto { tls: Arc::new(config), suite, versions, moved })
    }

    fn verifier(
        &self,
        provider: Arc<CryptoProvider>,
    ) -> Result<Arc<dyn ServerCertVerifier>, TlsError> {
        let given = match self {
            Self::Insecure => return Ok(Arc::new(ByKey { provider, pin: None })),
            Self::Fingerprint(pin) => return Ok(Arc::new(ByKey { provider, pin: Some(*pin) })),
            Self::SystemRoots => return system_verifier(provider),
            Self::Ca(path) => read_certificates(path)?,
            Self::Certificates(certificates) => certificates.clone(),
        };
        let mut roots = RootCertStore::empty();
        for certificate in &given {
            roots.add(certificate.clone()).map_err(|error| match self {
                Self::Ca(path) => {
                    TlsError::Certificate { path: path.clone(), reason: error.to_string() }
                }
                _ => TlsError::Roots(error.to_string()),
            })?;
        }
        let chain = chain_verifier(roots, provider)?;
        Ok(Arc::new(GivenCertificates { chain, given }))
    }
}

fn system_verifier(provider: Arc<CryptoProvider>) -> Result<Arc<dyn ServerCertVerifier>, TlsError> {
    let found = rustls_native_certs::load_native_certs();
    for error in &found.errors {
        tracing::warn!("root certificates: {error}");
    }
    let mut roots = RootCertStore::empty();
    // Some systems carry old certificates that rustls does not parse; the others still count.
    roots.add_parsable_certificates(found.certs);
    if roots.is_empty() {
        return Err(TlsError::NoSystemRoots);
    }
    Ok(chain_verifier(roots, provider)?)
}

fn chain_verifier(
    roots: RootCertStore,
    provider: Arc<CryptoProvider>,
) -> Result<Arc<WebPkiServerVerifier>, TlsError> {
    WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider)
        .build()
        .map_err(|error| TlsError::Roots(error.to_string()))
}

/// Certificates that the user named: as issuers, or as the very one that the server has.
///
/// A self-signed certificate by `openssl req -x509` says that it is a CA, and webpki takes no CA
/// for a server. Whoever names this certificate means this server, so it is taken as it is; only
/// its time, which webpki looks at first, and its name still count.
#[derive(Debug)]
struct GivenCertificates {
    chain: Arc<WebPkiServerVerifier>,
    given: Vec<CertificateDer<'static>>,
}

impl ServerCertVerifier for GivenCertificates {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let verdict = self.chain.verify_server_cert(
            end_entity,
            intermediates,
            server_name,
            ocsp_response,
            now,
        );
        match verdict {
            Err(error) if is_a_ca(&error) && self.given.contains(end_entity) => {
                verify_server_name(&ParsedCertificate::try_from(end_entity)?, server_name)?;
                Ok(ServerCertVerified::assertion())
            }
            verdict => verdict,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.chain.verify_tls12_signature(message, cert, dss)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.chain.verify_tls13_signature(message, cert, dss)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.chain.supported_verify_schemes()
    }
}

fn is_a_ca(error: &Error) -> bool {
    let Error::InvalidCertificate(CertificateError::Other(other)) = error else { return false };
    matches!(other.0.downcast_ref(), Some(webpki::Error::CaUsedAsEndEntity))
}

/// One certificate, or any from anybody. The handshake's signature is still checked, so the peer
/// does hold the key of whatever it presents.
#[derive(Debug)]
struct ByKey {
    provider: Arc<CryptoProvider>,
    pin: Option<Fingerprint>,
}

/// The server has another certificate than the one that was asked for.
#[derive(Debug, thiserror::Error)]
#[error("its fingerprint is {0}")]
struct OtherFingerprint(Fingerprint);

impl ServerCertVerifier for ByKey {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let has = Fingerprint::of(end_entity);
        if self.pin.is_some_and(|pin| pin != has) {
            let other = OtherError(Arc::new(OtherFingerprint(has)));
            return Err(CertificateError::Other(other).into());
        }
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls12_signature(message, cert, dss, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls13_signature(message, cert, dss, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}
