//! The cipher suites that are offered.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use rustls::CipherSuite;
use rustls::crypto::{CryptoProvider, ring};
use rustls::quic::Suite;

/// The cipher suite of a connection's data. Initial packets have AES-128-GCM always (RFC 9001
/// section 5.2).
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum Cipher {
    /// The suite that both ends negotiate.
    #[default]
    Any,
    /// TLS_AES_128_GCM_SHA256.
    Aes128,
    /// TLS_AES_256_GCM_SHA384.
    Aes256,
    /// TLS_CHACHA20_POLY1305_SHA256.
    ChaCha20,
}

impl Cipher {
    const ALL: [Self; 4] = [Self::Any, Self::Aes128, Self::Aes256, Self::ChaCha20];

    const fn name(self) -> &'static str {
        match self {
            Self::Any => "any",
            Self::Aes128 => "aes128",
            Self::Aes256 => "aes256",
            Self::ChaCha20 => "chacha20",
        }
    }

    fn allows(self, suite: CipherSuite) -> bool {
        match self {
            Self::Any => true,
            Self::Aes128 => suite == CipherSuite::TLS13_AES_128_GCM_SHA256,
            Self::Aes256 => suite == CipherSuite::TLS13_AES_256_GCM_SHA384,
            Self::ChaCha20 => suite == CipherSuite::TLS13_CHACHA20_POLY1305_SHA256,
        }
    }

    /// ring, with these suites. AES-128 comes first: it needs the least time, and is as safe as the
    /// keys of the usual certificates.
    pub(super) fn provider(self) -> Arc<CryptoProvider> {
        let mut provider = ring::default_provider();
        provider.cipher_suites.retain(|suite| self.allows(suite.suite()));
        provider.cipher_suites.sort_by_key(|suite| !Self::Aes128.allows(suite.suite()));
        Arc::new(provider)
    }
}

impl fmt::Display for Cipher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The name is none of a [`Cipher`].
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("unknown cipher {0:?}; there are any, aes128, aes256 and chacha20")]
pub struct UnknownCipher(pub String);

impl FromStr for Cipher {
    type Err = UnknownCipher;

    fn from_str(name: &str) -> Result<Self, UnknownCipher> {
        let known = Self::ALL.into_iter().find(|cipher| cipher.name() == name);
        known.ok_or_else(|| UnknownCipher(name.to_owned()))
    }
}

/// The suite of Initial packets.
pub(crate) fn initial_suite() -> Option<Suite> {
    let suites = ring::default_provider().cipher_suites;
    let initial = suites.iter().find(|suite| Cipher::Aes128.allows(suite.suite()))?;
    initial.tls13()?.quic_suite()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_parses_and_leaves_its_suite() {
        for cipher in Cipher::ALL {
            assert_eq!(cipher.to_string().parse(), Ok(cipher));
            let suites = cipher.provider().cipher_suites.clone();
            let count = suites.len();
            assert!(if cipher == Cipher::Any { count > 1 } else { count == 1 }, "{cipher}");
            let is_first = Cipher::Aes128.allows(suites[0].suite());
            assert_eq!(is_first, matches!(cipher, Cipher::Any | Cipher::Aes128), "{cipher}");
        }
        assert!("aes".parse::<Cipher>().is_err());
        assert!(initial_suite().is_some());
    }
}
