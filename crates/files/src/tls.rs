//! The server's certificate, and its verification by the client. TLS is rustls with ring.

mod cipher;
mod fingerprint;
mod server;
mod sessions;
mod verify;

#[cfg(test)]
pub(crate) use cipher::initial_suite;
pub use cipher::{Cipher, UnknownCipher};
pub use fingerprint::{Fingerprint, NoFingerprint};
pub use server::ServerTls;
pub(crate) use sessions::Sessions;
pub use verify::Verify;

use std::path::{Path, PathBuf};

use rustls_pki_types::pem::{self, PemObject};
use rustls_pki_types::{CertificateDer, PrivateKeyDer};

/// Errors of a certificate, a key, or the roots to check them against.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TlsError {
    /// A certificate file that cannot be read, or has no certificate in it.
    #[error("cannot use the certificate {path:?}: {reason}")]
    Certificate {
        /// The file.
        path: PathBuf,
        /// The reason.
        reason: String,
    },
    /// A key file that cannot be read, or has no private key in it.
    #[error("cannot use the private key {path:?}: {reason}")]
    Key {
        /// The file.
        path: PathBuf,
        /// The reason; it never contains any of the file's content.
        reason: String,
    },
    /// Two files that are fine each for itself.
    #[error("the private key {key:?} is not that of the certificate {certificate:?}")]
    Pair {
        /// The certificate's file.
        certificate: PathBuf,
        /// The key's file.
        key: PathBuf,
    },
    /// rcgen made no certificate.
    #[error("cannot make a self-signed certificate: {0}")]
    SelfSigned(#[from] rcgen::Error),
    /// The certificates to check a server's against are none that rustls can use.
    #[error("cannot use the certificates given to check the server's: {0}")]
    Roots(String),
    /// There is nothing to check a server's certificate against.
    #[error("this system has no root certificates to check the server's certificate against")]
    NoSystemRoots,
    /// ring and rustls agree on no cipher suite, protocol version or verifier.
    #[error("cannot set up TLS: {0}")]
    Setup(String),
}

/// All certificates of a PEM file, at least one.
fn read_certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let error = |reason| TlsError::Certificate { path: path.to_owned(), reason };
    let certificates = CertificateDer::pem_file_iter(path)
        .and_then(Iterator::collect::<Result<Vec<_>, _>>)
        .map_err(|e| error(reason("certificate", &e)))?;
    if certificates.is_empty() {
        return Err(error(reason("certificate", &pem::Error::NoItemsFound)));
    }
    Ok(certificates)
}

/// The first private key of a PEM file.
fn read_key(path: &Path) -> Result<PrivateKeyDer<'static>, TlsError> {
    PrivateKeyDer::from_pem_file(path)
        .map_err(|e| TlsError::Key { path: path.to_owned(), reason: reason("private key", &e) })
}

/// The reason why a PEM file gave nothing, without any of its content, which may be a key.
fn reason(what: &str, error: &pem::Error) -> String {
    match error {
        pem::Error::Io(error) => error.to_string(),
        pem::Error::NoItemsFound => format!("there is no PEM {what} in it"),
        _ => "it is not valid PEM".to_owned(),
    }
}

fn setup(error: impl std::fmt::Display) -> TlsError {
    TlsError::Setup(error.to_string())
}
