//! The facts in a TLS handshake's messages that a case asks for (RFC 8446 section 4, RFC 9000
//! section 18).

use std::collections::BTreeMap;

use super::wire::Reader;

/// Types of messages, and of extensions.
const CLIENT_HELLO: u8 = 1;
const SERVER_HELLO: u8 = 2;
const ENCRYPTED_EXTENSIONS: u8 = 8;
const CERTIFICATE: u8 = 11;
const PROTOCOL: u64 = 16;
const QUIC_PARAMETERS: u64 = 57;

/// Numbers of parameters.
const INITIAL_MAX_STREAMS_BIDI: u64 = 0x08;
const PREFERRED_ADDRESS: u64 = 0x0d;

/// Bytes of both addresses with their ports, before the connection ID of a preferred address.
const BOTH_ADDRESSES: usize = 4 + 2 + 16 + 2;

/// A stream of CRYPTO frames of one direction and level.
#[derive(Debug, Default)]
pub(super) struct Stream {
    /// The bytes that arrived without a gap.
    data: Vec<u8>,
    /// The bytes behind a gap.
    waiting: BTreeMap<u64, Vec<u8>>,
    /// Bytes of messages that were read.
    read: usize,
    /// The end of the last byte.
    pub(super) end: u64,
}

impl Stream {
    pub(super) fn insert(&mut self, offset: u64, data: &[u8]) {
        self.end = self.end.max(offset + data.len() as u64);
        let part = self.waiting.entry(offset).or_default();
        if part.len() < data.len() {
            *part = data.to_vec();
        }
        while let Some(first) = self.waiting.first_entry() {
            let Some(known) = (self.data.len() as u64).checked_sub(*first.key()) else { break };
            let part = first.remove();
            self.data.extend(part.get(known as usize..).unwrap_or_default());
        }
    }

    /// The messages that are complete and were not given before, each with its type.
    pub(super) fn messages(&mut self) -> Vec<(u8, Vec<u8>)> {
        let mut found = Vec::new();
        let mut reader = Reader(&self.data[self.read..]);
        while let Some(kind) = reader.byte()
            && let Some(body) = reader.sized(3)
        {
            found.push((kind, body.to_vec()));
            self.read = self.data.len() - reader.0.len();
        }
        found
    }
}

/// The facts about a connection that its handshake tells.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Known {
    /// The random number of the ClientHello.
    pub random: Option<[u8; 32]>,
    /// The cipher suites that the client offered, without those that mean nothing (RFC 8701).
    pub offered: Vec<u16>,
    /// The suite that the server chose.
    pub suite: Option<u16>,
    /// True if the server sent a certificate.
    pub has_certificate: bool,
    /// The application's protocol that the server chose.
    pub protocol: Option<Vec<u8>>,
    /// Streams that the client may open at first.
    pub max_streams: Option<u64>,
    /// The connection ID of the server's preferred address.
    pub preferred_id: Option<Vec<u8>>,
}

impl Known {
    /// Takes over what a message says.
    pub(super) fn hear(&mut self, kind: u8, body: &[u8]) {
        let _ = match kind {
            CLIENT_HELLO => self.client_hello(Reader(body)),
            SERVER_HELLO => self.server_hello(Reader(body)),
            ENCRYPTED_EXTENSIONS => self.extensions(Reader(body)),
            CERTIFICATE => {
                self.has_certificate = true;
                Some(())
            }
            _ => None,
        };
    }

    fn client_hello(&mut self, mut reader: Reader<'_>) -> Option<()> {
        reader.take(2)?;
        let random = reader.array()?;
        reader.sized(1)?;
        let suites = reader.sized(2)?.chunks_exact(2);
        self.random = Some(random);
        let suites = suites.map(|pair| u16::from_be_bytes([pair[0], pair[1]]));
        self.offered = suites.filter(|suite| suite & 0x0f0f != 0x0a0a).collect();
        Some(())
    }

    fn server_hello(&mut self, mut reader: Reader<'_>) -> Option<()> {
        reader.take(2 + 32)?;
        reader.sized(1)?;
        self.suite = Some(u16::from_be_bytes(reader.array()?));
        Some(())
    }

    fn extensions(&mut self, mut reader: Reader<'_>) -> Option<()> {
        let mut extensions = Reader(reader.sized(2)?);
        while let Some(kind) = extensions.number(2) {
            let body = extensions.sized(2)?;
            match kind {
                QUIC_PARAMETERS => drop(self.parameters(Reader(body))),
                PROTOCOL => self.protocol = Reader(body.get(2..)?).sized(1).map(<[u8]>::to_vec),
                _ => {}
            }
        }
        Some(())
    }

    fn parameters(&mut self, mut reader: Reader<'_>) -> Option<()> {
        // None at all is none.
        self.max_streams = Some(0);
        while let Some(number) = reader.integer() {
            let mut value = Reader(reader.counted()?);
            match number {
                INITIAL_MAX_STREAMS_BIDI => self.max_streams = value.integer(),
                PREFERRED_ADDRESS => {
                    value.take(BOTH_ADDRESSES)?;
                    self.preferred_id = value.sized(1).map(<[u8]>::to_vec);
                }
                _ => {}
            }
        }
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_put_together_from_parts_in_any_order() {
        let whole = [&[1, 0, 0, 3, 7, 8, 9][..], &[11, 0, 0, 0], &[2, 0, 0, 1]].concat();
        let mut stream = Stream::default();
        let mut insert = |from: usize, to: usize| {
            stream.insert(from as u64, &whole[from..to]);
            stream.messages()
        };
        assert_eq!(insert(5, 9), []);
        assert_eq!(insert(5, 8), []);
        assert_eq!(insert(0, 3), []);
        assert_eq!(insert(2, 6), [(1, vec![7, 8, 9])]);
        assert_eq!(insert(8, whole.len()), [(11, vec![])]);
        assert_eq!(stream.end, whole.len() as u64);
    }

    #[test]
    fn a_handshake_tells_suites_certificate_and_parameters() {
        let mut known = Known::default();
        let hello =
            [&[3, 3][..], &[7; 32], &[0], &[0, 6, 0x1a, 0x1a, 0x13, 0x01, 0x13, 0x03], &[1, 0]];
        known.hear(CLIENT_HELLO, &hello.concat());
        assert_eq!(
            (known.random, known.offered.as_slice()),
            (Some([7; 32]), &[0x1301, 0x1303][..])
        );
        known.hear(SERVER_HELLO, &[&[3, 3][..], &[8; 32], &[0, 0x13, 0x03, 0]].concat());
        assert_eq!(known.suite, Some(0x1303));
        let preferred = [&[0x0d, 24 + 1 + 2 + 16][..], &[0; 24], &[2, 5, 6], &[0; 16]].concat();
        let parameters = [&[0x08, 2, 0x40, 0x64][..], &preferred].concat();
        let length = parameters.len() as u8;
        let extension = [&[0, 57, 0, length][..], &parameters].concat();
        let alpn = [0, 16, 0, 5, 0, 3, 2, b'h', b'3'];
        let body = [&[0, length + 4 + 9][..], &alpn, &extension].concat();
        known.hear(ENCRYPTED_EXTENSIONS, &body);
        assert_eq!((known.max_streams, known.preferred_id.clone()), (Some(100), Some(vec![5, 6])));
        assert_eq!(known.protocol.as_deref(), Some(&b"h3"[..]));
        assert!(!known.has_certificate);
        known.hear(CERTIFICATE, &[]);
        assert!(known.has_certificate);
        for end in 0..body.len() {
            Known::default().hear(ENCRYPTED_EXTENSIONS, &body[..end]);
        }
    }
}
