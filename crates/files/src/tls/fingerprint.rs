//! A certificate by its hash.

use std::fmt;
use std::str::FromStr;

use rustls_pki_types::CertificateDer;
use sha2::{Digest, Sha256};

/// The SHA-256 of a certificate, printed as `openssl x509 -fingerprint -sha256` does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Fingerprint(pub [u8; 32]);

/// A text that is no fingerprint.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error(
    "no SHA-256 fingerprint; write the 64 hexadecimal digits that fullpipe serve prints, with or without colons"
)]
pub struct NoFingerprint;

impl Fingerprint {
    /// That of a certificate.
    pub fn of(certificate: &CertificateDer<'_>) -> Self {
        Self(Sha256::digest(certificate).into())
    }
}

impl fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, byte) in self.0.iter().enumerate() {
            let colon = if i == 0 { "" } else { ":" };
            write!(f, "{colon}{byte:02X}")?;
        }
        Ok(())
    }
}

impl FromStr for Fingerprint {
    type Err = NoFingerprint;

    fn from_str(text: &str) -> Result<Self, NoFingerprint> {
        let digits: Vec<u8> = text.bytes().filter(|byte| *byte != b':').collect();
        let mut bytes = [0; 32];
        if digits.len() != 2 * bytes.len() || !digits.iter().all(u8::is_ascii_hexdigit) {
            return Err(NoFingerprint);
        }
        for (byte, pair) in bytes.iter_mut().zip(digits.chunks(2)) {
            let pair = std::str::from_utf8(pair).map_err(|_| NoFingerprint)?;
            *byte = u8::from_str_radix(pair, 16).map_err(|_| NoFingerprint)?;
        }
        Ok(Self(bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_read_as_it_is_printed() {
        let one = Fingerprint(std::array::from_fn(|i| (i * 7) as u8));
        let shown = one.to_string();
        assert_eq!(shown.parse(), Ok(one));
        assert_eq!(shown.replace(':', "").to_lowercase().parse(), Ok(one));
        for wrong in ["", "12", &shown[..92], &shown.replace('0', "g"), &format!("{shown}:00")] {
            assert_eq!(wrong.parse::<Fingerprint>(), Err(NoFingerprint), "{wrong}");
        }
    }
}
