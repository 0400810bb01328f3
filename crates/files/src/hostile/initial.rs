//! Initial packets that are protected as they should be: their keys come from the connection ID
//! that stands in them (RFC 9001 section 5.2), so anybody can make them, with whatever content.

use fullpipe_noq_repairs::wire::{Invariants, V1, V2, write_integer};
use rustls::quic::{ClientConnection, DirectionalKeys, Suite, Version};
use rustls_pki_types::ServerName;

use super::frames;
use super::noise::Noise;

const TAG_BYTES: usize = 16;
/// Offset of the sample for header protection behind the packet number's first byte.
const SAMPLE_OFFSET: usize = 4;
const SAMPLE_BYTES: usize = 16;

/// An Initial packet before its protection.
#[derive(Clone, Debug)]
pub(super) struct Initial {
    pub(super) version: u32,
    pub(super) destination: Vec<u8>,
    pub(super) source: Vec<u8>,
    pub(super) token: Vec<u8>,
    pub(super) number: u32,
    pub(super) payload: Vec<u8>,
}

/// The keys with which one end sends Initials on a connection that began with this ID.
fn keys(suite: &Suite, version: u32, id: &[u8], side: rustls::Side) -> DirectionalKeys {
    let labels = if version == V2 { Version::V2 } else { Version::V1 };
    suite.keys(id, side, labels).local
}

impl Initial {
    /// The packet on the wire. `key_id` is the ID that the keys come from, if it is not the
    /// destination's.
    pub(super) fn protect(
        &self,
        suite: &Suite,
        side: rustls::Side,
        key_id: Option<&[u8]>,
    ) -> Vec<u8> {
        let keys = keys(suite, self.version, key_id.unwrap_or(&self.destination), side);
        let kind = if self.version == V2 { 1 } else { 0 };
        let number_bytes = 4;
        let first = 0xc0 | kind << 4 | (number_bytes as u8 - 1);
        let Self { version, ref destination, ref source, .. } = *self;
        let mut packet = Invariants { first, version, destination, source, rest: &[] }.write();
        write_integer(self.token.len() as u64, &mut packet);
        packet.extend_from_slice(&self.token);
        let length = number_bytes + self.payload.len() + TAG_BYTES;
        packet.extend_from_slice(&(0x4000 | length as u16).to_be_bytes());
        let number_at = packet.len();
        packet.extend_from_slice(&self.number.to_be_bytes());
        let mut payload = self.payload.clone();
        let tag = keys
            .packet
            .encrypt_in_place(self.number.into(), &packet, &mut payload)
            .expect("a packet of this size can be encrypted");
        packet.extend_from_slice(&payload);
        packet.extend_from_slice(tag.as_ref());
        let sample_at = number_at + SAMPLE_OFFSET;
        let sample = packet[sample_at..sample_at + SAMPLE_BYTES].to_vec();
        let (header, rest) = packet.split_at_mut(number_at);
        keys.header
            .encrypt_in_place(&sample, &mut header[0], &mut rest[..number_bytes])
            .expect("the sample has its size");
        packet
    }
}

/// ClientHellos of rustls with transport parameters of every kind.
pub(super) struct Hellos(Vec<Vec<u8>>);

impl Hellos {
    pub(super) fn new(tls: &rustls::ClientConfig, noise: &mut Noise) -> Self {
        let hello = |_| {
            let mut tls = tls.clone();
            tls.alpn_protocols = match noise.below(4) {
                0 => vec![b"hq-interop".to_vec()],
                1 => vec![b"h3".to_vec()],
                2 => (0..40).map(|_| noise.bytes(20)).collect(),
                _ => vec![b"h3".to_vec(), b"hq-interop".to_vec()],
            };
            let name = ServerName::try_from("localhost").expect("a name");
            let version = if noise.percent(50) { Version::V1 } else { Version::V2 };
            let parameters = parameters(noise);
            let mut connection =
                ClientConnection::new(tls.into(), version, name, parameters).expect("a client");
            let mut hello = Vec::new();
            let _no_keys_yet = connection.write_hs(&mut hello);
            hello
        };
        Self((0..256).map(hello).collect())
    }

    /// One of them, changed now and then.
    pub(super) fn one(&self, noise: &mut Noise) -> Vec<u8> {
        let mut hello = self.0[noise.below(self.0.len())].clone();
        match noise.below(3) {
            0 => noise.mangle(&mut hello),
            // The extensions behind the fixed part alone.
            1 => {
                let at = hello.len().min(60);
                noise.change(&mut hello[at..]);
            }
            _ => {}
        }
        hello
    }
}

/// Transport parameters (RFC 9000 section 18.2) that are right, wrong, doubled, or nobody's.
fn parameters(noise: &mut Noise) -> Vec<u8> {
    let mut out = Vec::new();
    // A client's connection ID must be there: that of all packets that the tests make.
    if noise.percent(90) {
        out.extend_from_slice(&[0x0f, SOURCE.len() as u8]);
        out.extend_from_slice(&SOURCE);
    }
    for _ in 0..noise.below(14) {
        let id = noise.pick(&[
            0,
            1,
            2,
            3,
            4,
            5,
            6,
            7,
            8,
            9,
            0xa,
            0xb,
            0xc,
            0xd,
            0xe,
            0xf,
            0x10,
            0x11,
            0x20,
            0x2ab2,
            0x6ab2,
            0xff04_de1b,
            0x0f73_9bbc_1b66_6d11,
            0x0f73_9bbc_1b66_6d0d,
            27,
            58,
        ]);
        write_integer(id, &mut out);
        let mut value = Vec::new();
        match id {
            0x11 => {
                for _ in 0..noise.below(6) {
                    let version = noise.pick(&[V1, V2, 0, 0x0a0a_0a0a, 0xff00_001d, u32::MAX]);
                    value.extend_from_slice(&version.to_be_bytes());
                }
            }
            0 | 2 | 0xd | 0xf | 0x10 => {
                let count = noise.pick(&[0, 4, 8, 16, 20, 21, 41, 61]);
                value = noise.bytes(count);
            }
            _ => write_integer(noise.number(), &mut value),
        }
        if noise.percent(5) {
            noise.mangle(&mut value);
        }
        write_integer(if noise.percent(3) { noise.number() } else { value.len() as u64 }, &mut out);
        out.extend_from_slice(&value);
    }
    out
}

/// The connection ID of a stranger.
pub(super) const SOURCE: [u8; 8] = *b"stranger";

/// A payload of so many bytes: a ClientHello in pieces, in any order, with gaps, overlaps and other
/// frames.
pub(super) fn payload(noise: &mut Noise, hello: &[u8], bytes: usize) -> Vec<u8> {
    let mut out = Vec::new();
    let pieces = noise.pick(&[1, 1, 1, 1, 2, 3, 20]);
    let mut starts: Vec<usize> = (0..pieces).map(|i| i * hello.len() / pieces).collect();
    starts.push(hello.len());
    let mut order: Vec<usize> = (0..pieces).collect();
    if noise.percent(50) {
        order.reverse();
    }
    if noise.percent(10) {
        order.truncate(noise.below(pieces));
    }
    for piece in order {
        let (start, mut end) = (starts[piece], starts[piece + 1]);
        if noise.percent(5) {
            end = hello.len().min(end + noise.below(40));
        }
        out.push(0x06);
        write_integer(start as u64, &mut out);
        write_integer((end - start) as u64, &mut out);
        out.extend_from_slice(&hello[start..end]);
    }
    if noise.percent(20) {
        let count = noise.below(200);
        out.extend_from_slice(&frames::fill(noise, count));
    }
    if noise.percent(10) {
        noise.change(&mut out);
    }
    out.resize(bytes.max(40), 0);
    out
}
