//! Keys of QUIC packets (RFC 9001 section 5, RFC 9369 section 3.3), from the secrets that an end
//! wrote down.

use std::collections::HashMap;

use ring::aead::quic::HeaderProtectionKey;
use ring::aead::{self, Aad, LessSafeKey, Nonce, UnboundKey};
use ring::hkdf::{self, KeyType, Prk, Salt};

use super::wire::{V1, V2};

/// The salts of Initial secrets.
const SALT_V1: [u8; 20] = [
    0x38, 0x76, 0x2c, 0xf7, 0xf5, 0x59, 0x34, 0xb3, 0x4d, 0x17, 0x9a, 0xe6, 0xa4, 0xc8, 0x0c, 0xad,
    0xcc, 0xbb, 0x7f, 0x0a,
];
const SALT_V2: [u8; 20] = [
    0x0d, 0xed, 0xe3, 0xde, 0xf7, 0x00, 0xa6, 0xdb, 0x81, 0x93, 0x81, 0xbe, 0x6e, 0x26, 0x9d, 0xcb,
    0xf9, 0xbd, 0x2e, 0xd9,
];

/// Bytes of the sample for the protection of a header, and their distance from the packet number.
const SAMPLE: usize = 16;
const SAMPLE_AT: usize = 4;

/// A cipher suite of TLS 1.3.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Suite {
    Aes128,
    Aes256,
    ChaCha20,
}

impl Suite {
    const ALL: [Self; 3] = [Self::Aes128, Self::Aes256, Self::ChaCha20];

    /// Its number in TLS.
    pub(super) fn number(self) -> u16 {
        match self {
            Self::Aes128 => 0x1301,
            Self::Aes256 => 0x1302,
            Self::ChaCha20 => 0x1303,
        }
    }

    /// The cipher suites that a secret can be of, by its length and by what is known.
    pub(super) fn candidates(secret: &[u8], known: Option<u16>) -> impl Iterator<Item = Self> {
        let bytes = secret.len();
        Self::ALL.into_iter().filter(move |suite| {
            let fits = if *suite == Self::Aes256 { 48 } else { 32 };
            bytes == fits && known.is_none_or(|number| number == suite.number())
        })
    }

    fn hkdf(self) -> hkdf::Algorithm {
        if self == Self::Aes256 { hkdf::HKDF_SHA384 } else { hkdf::HKDF_SHA256 }
    }

    fn packet(self) -> &'static aead::Algorithm {
        match self {
            Self::Aes128 => &aead::AES_128_GCM,
            Self::Aes256 => &aead::AES_256_GCM,
            Self::ChaCha20 => &aead::CHACHA20_POLY1305,
        }
    }

    fn header(self) -> &'static aead::quic::Algorithm {
        match self {
            Self::Aes128 => &aead::quic::AES_128,
            Self::Aes256 => &aead::quic::AES_256,
            Self::ChaCha20 => &aead::quic::CHACHA20,
        }
    }
}

/// The length of a derived secret.
struct Length(usize);

impl KeyType for Length {
    fn len(&self) -> usize {
        self.0
    }
}

/// HKDF-Expand-Label (RFC 8446 section 7.1) without a context.
fn expand(secret: &Prk, label: &str, bytes: usize) -> Option<Vec<u8>> {
    let length = u16::try_from(bytes).ok()?.to_be_bytes();
    let label_length = [u8::try_from("tls13 ".len() + label.len()).ok()?];
    let info: [&[u8]; 5] = [&length, &label_length, b"tls13 ", label.as_bytes(), &[0]];
    let mut output = vec![0; bytes];
    secret.expand(&info, Length(bytes)).ok()?.fill(&mut output).ok()?;
    Some(output)
}

/// A label of a version.
fn label(version: u32, what: &str) -> String {
    let version = if version == V2 { "quicv2" } else { "quic" };
    format!("{version} {what}")
}

/// Keys of one direction.
pub(super) struct Keys {
    packet: LessSafeKey,
    iv: [u8; aead::NONCE_LEN],
    header: HeaderProtectionKey,
    suite: Suite,
    version: u32,
    /// The secret of the next key phase.
    next: Vec<u8>,
}

impl Keys {
    /// The keys of Initial packets, by the first destination connection ID of the client.
    pub(super) fn initial(version: u32, id: &[u8], of_client: bool) -> Option<Self> {
        let salt = match version {
            V1 => SALT_V1,
            V2 => SALT_V2,
            _ => return None,
        };
        let common = Salt::new(hkdf::HKDF_SHA256, &salt).extract(id);
        let secret = expand(&common, if of_client { "client in" } else { "server in" }, 32)?;
        Self::of(Suite::Aes128, version, &secret)
    }

    /// The keys of a secret.
    pub(super) fn of(suite: Suite, version: u32, secret: &[u8]) -> Option<Self> {
        let prk = Prk::new_less_safe(suite.hkdf(), secret);
        let derive = |what: &str, bytes| expand(&prk, &label(version, what), bytes);
        let packet = derive("key", suite.packet().key_len())?;
        let iv = derive("iv", aead::NONCE_LEN)?.try_into().ok()?;
        let header = derive("hp", suite.header().key_len())?;
        Some(Self {
            packet: LessSafeKey::new(UnboundKey::new(suite.packet(), &packet).ok()?),
            iv,
            header: HeaderProtectionKey::new(suite.header(), &header).ok()?,
            suite,
            version,
            next: derive("ku", secret.len())?,
        })
    }

    /// The keys of the next key phase, whose headers are protected as those of the first.
    pub(super) fn updated(&self) -> Option<Self> {
        Self::of(self.suite, self.version, &self.next)
    }

    /// The first byte and the packet number of a packet, as they were before its header was
    /// protected.
    pub(super) fn unprotected(&self, packet: &[u8], number_at: usize) -> Option<Unprotected> {
        let sample = packet.get(number_at + SAMPLE_AT..)?.get(..SAMPLE)?;
        let mask = self.header.new_mask(sample).ok()?;
        let first = *packet.first()?;
        let hidden = if first & 0x80 == 0 { 0x1f } else { 0x0f };
        let first = first ^ (mask[0] & hidden);
        let length = usize::from(first & 3) + 1;
        let bytes = packet.get(number_at..number_at + length)?;
        let bytes: Vec<u8> = bytes.iter().zip(&mask[1..]).map(|(byte, mask)| byte ^ mask).collect();
        Some(Unprotected { first, bytes })
    }

    /// The payload of a packet whose header is unprotected; nothing if it is not of these keys.
    pub(super) fn open(
        &self,
        packet: &[u8],
        number_at: usize,
        header: &Unprotected,
        number: u64,
    ) -> Option<Vec<u8>> {
        let payload_at = number_at + header.bytes.len();
        let mut associated = packet.get(..payload_at)?.to_vec();
        *associated.first_mut()? = header.first;
        associated[number_at..].copy_from_slice(&header.bytes);
        let mut nonce = self.iv;
        let start = nonce.len() - 8;
        nonce[start..].iter_mut().zip(number.to_be_bytes()).for_each(|(byte, part)| *byte ^= part);
        let mut payload = packet.get(payload_at..)?.to_vec();
        let nonce = Nonce::assume_unique_for_key(nonce);
        let bytes =
            self.packet.open_in_place(nonce, Aad::from(associated), &mut payload).ok()?.len();
        payload.truncate(bytes);
        Some(payload)
    }
}

/// The fields that header protection hides.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Unprotected {
    pub(super) first: u8,
    bytes: Vec<u8>,
}

impl Unprotected {
    /// The whole packet number: the one nearest to what is expected next (RFC 9000 appendix A.3).
    pub(super) fn number(&self, largest: Option<u64>) -> u64 {
        let bits = 8 * self.bytes.len();
        let truncated = self.bytes.iter().fold(0, |value, byte| value << 8 | u64::from(*byte));
        let expected = largest.map_or(0, |largest| largest + 1);
        let (window, half) = (1_u64 << bits, 1_u64 << (bits - 1));
        let candidate = (expected & !(window - 1)) | truncated;
        if candidate + half <= expected && candidate < (1 << 62) - window {
            candidate + window
        } else if candidate > expected + half && candidate >= window {
            candidate - window
        } else {
            candidate
        }
    }
}

/// The secrets of connections, as the format of `SSLKEYLOGFILE` has them: by label and the client's
/// random.
#[derive(Debug, Default)]
pub struct KeyLog(HashMap<(String, Vec<u8>), Vec<u8>>);

impl KeyLog {
    /// Reads the lines of a file; what is none of the format is left out.
    pub fn read(text: &str) -> Self {
        let line = |line: &str| {
            let mut words = line.split_ascii_whitespace();
            let label = words.next()?.to_owned();
            let (random, secret) = (from_hex(words.next()?)?, from_hex(words.next()?)?);
            Some(((label, random), secret))
        };
        Self(text.lines().filter_map(line).collect())
    }

    /// True if no line was one of the format.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn secret(&self, label: &str, random: &[u8]) -> Option<&[u8]> {
        self.0.get(&(label.to_owned(), random.to_vec())).map(Vec::as_slice)
    }
}

fn from_hex(text: &str) -> Option<Vec<u8>> {
    let pairs = text.as_bytes().chunks(2);
    pairs.map(|pair| u8::from_str_radix(str::from_utf8(pair).ok()?, 16).ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The packet of RFC 9001 appendix A.5, of ChaCha20.
    #[test]
    fn a_packet_of_the_rfc_is_opened() {
        let secret = from_hex("9ac312a7f877468ebe69422748ad00a15443f18203a07d6060f688f30f21632b")
            .expect("hex");
        let packet = from_hex("4cfe4189655e5cd55c41f69080575d7999c25a5bfb").expect("hex");
        let keys = Keys::of(Suite::ChaCha20, V1, &secret).expect("keys");
        let header = keys.unprotected(&packet, 1).expect("a header");
        assert_eq!((header.first, header.bytes.as_slice()), (0x42, &[0x00, 0xbf, 0xf4][..]));
        let number = header.number(Some(654_360_563));
        assert_eq!(number, 654_360_564);
        assert_eq!(keys.open(&packet, 1, &header, number), Some(vec![1]));
        assert_eq!(keys.open(&packet, 1, &header, number + 1), None);
        let next = from_hex("1223504755036d556342ee9361d253421a826c9ecdf3c7148684b36b714881f9");
        assert_eq!(Some(keys.next), next);
    }

    #[test]
    fn a_number_is_completed_by_the_one_before() {
        let of =
            |bytes: &[u8], largest| Unprotected { first: 0, bytes: bytes.to_vec() }.number(largest);
        assert_eq!(of(&[0x9b, 0x32], Some(0xa82f_30ea)), 0xa82f_9b32);
        assert_eq!(of(&[0], None), 0);
        assert_eq!(of(&[1], Some(255)), 257);
        assert_eq!(of(&[254], Some(256)), 254);
    }

    #[test]
    fn a_key_log_is_read_line_by_line() {
        let log = KeyLog::read("# no\nCLIENT_TRAFFIC_SECRET_0 0aFF 01\nshort 1\n\nX zz 00\n");
        assert_eq!(log.secret("CLIENT_TRAFFIC_SECRET_0", &[0x0a, 0xff]), Some(&[1][..]));
        assert_eq!(log.0.len(), 1);
        assert!(KeyLog::read("").is_empty());
    }
}
