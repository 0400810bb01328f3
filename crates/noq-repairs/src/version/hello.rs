//! The ClientHello (RFC 8446 section 4.1.2), as far as the choice of a version needs it. rustls
//! reads all of it behind this, and refuses what is malformed.

use super::parameters::{self, VersionInformation};
use crate::wire::Reader;

const CLIENT_HELLO: u8 = 1;
const PRE_SHARED_KEY: usize = 41;
const QUIC_TRANSPORT_PARAMETERS: usize = 57;
/// Longest ClientHello: that which rustls takes.
const MOST_BYTES: usize = 0xffff;

#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub(super) struct Hello {
    /// The versions that the client speaks, if it tells them.
    pub(super) versions: Option<VersionInformation>,
    /// It resumes a session.
    pub(super) resumes: bool,
}

/// Completeness of a ClientHello.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Progress {
    Incomplete,
    /// Complete, or something that rustls will refuse.
    Done(Hello),
}

pub(super) fn read(bytes: &[u8]) -> Progress {
    let mut reader = Reader(bytes);
    let (Some(kind), Some(length)) = (reader.byte(), number(&mut reader, 3)) else {
        return Progress::Incomplete;
    };
    if kind != CLIENT_HELLO || length > MOST_BYTES {
        return Progress::Done(Hello::default());
    }
    match reader.take(length) {
        None => Progress::Incomplete,
        Some(body) => Progress::Done(hello(Reader(body)).unwrap_or_default()),
    }
}

fn hello(mut body: Reader<'_>) -> Option<Hello> {
    // Version and random, session ID, cipher suites, compression methods.
    body.take(2 + 32)?;
    vector(&mut body, 1)?;
    vector(&mut body, 2)?;
    vector(&mut body, 1)?;
    let mut extensions = Reader(vector(&mut body, 2)?);
    let mut hello = Hello::default();
    while !extensions.0.is_empty() {
        let kind = number(&mut extensions, 2)?;
        let content = vector(&mut extensions, 2)?;
        match kind {
            PRE_SHARED_KEY => hello.resumes = true,
            QUIC_TRANSPORT_PARAMETERS => hello.versions = parameters::decode(content).ok()?,
            _ => {}
        }
    }
    Some(hello)
}

/// A number of so many bytes.
fn number(reader: &mut Reader<'_>, bytes: usize) -> Option<usize> {
    let bytes = reader.take(bytes)?;
    Some(bytes.iter().fold(0, |value, byte| value << 8 | usize::from(*byte)))
}

/// Bytes behind their length, which has so many bytes.
fn vector<'a>(reader: &mut Reader<'a>, length_bytes: usize) -> Option<&'a [u8]> {
    let length = number(reader, length_bytes)?;
    reader.take(length)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::{V1, V2};

    fn client_hello(extensions: &[u8]) -> Vec<u8> {
        let mut body = vec![3; 34];
        body.extend_from_slice(&[0, 0, 2, 0x13, 1, 1, 0, 0, extensions.len() as u8]);
        body.extend_from_slice(extensions);
        [&[1, 0, 0, body.len() as u8], &body[..]].concat()
    }

    #[test]
    fn versions_and_resumption_are_found_once_it_is_complete() {
        let versions = [&[0x11, 12, 0, 0, 0, 1][..], &V2.to_be_bytes(), &V1.to_be_bytes()].concat();
        let extensions = [&[0, 9, 0, 1, 7, 0, 57, 0, 14][..], &versions, &[0, 41, 0, 0]].concat();
        let bytes = client_hello(&extensions);
        let found = VersionInformation { chosen: V1, available: vec![V2, V1] };
        let whole = Hello { versions: Some(found), resumes: true };
        assert_eq!(read(&bytes), Progress::Done(whole));
        for end in 0..bytes.len() {
            assert_eq!(read(&bytes[..end]), Progress::Incomplete, "{end} bytes");
        }
    }

    #[test]
    fn what_rustls_will_refuse_is_done() {
        let nothing = Progress::Done(Hello::default());
        assert_eq!(read(&[2, 0, 0, 1, 0]), nothing, "another message");
        assert_eq!(read(&[1, 1, 0, 0]), nothing, "too long");
        assert_eq!(read(&[1, 0, 0, 2, 3, 3]), nothing, "too short inside");
        assert_eq!(read(&client_hello(&[0, 57, 0, 9, 1])), nothing, "an extension that is cut off");
    }
}
