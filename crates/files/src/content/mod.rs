//! Content of a server: the files under one directory, or data without a file.

mod dir;
mod send;

use std::path::PathBuf;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use dir::{Directory, Disk, OpenFile};

use crate::ServeError;
use crate::hq::Refusal;

pub(crate) use dir::Stamp;
pub(crate) use send::{BLOCK_BYTES, SendError, Sending, read};

/// Source of the server's answers.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Content {
    /// The regular files under this directory. A path that leaves it is refused and never read:
    /// `..` however it is encoded, an absolute symbolic link, and a relative one to somewhere else.
    Dir(PathBuf),
    /// `GET /bulk/<bytes>` gives that many bytes, `GET /bulk` gives bytes until the client stops:
    /// [`bulk_block`](crate::bulk_block()) over and over. No file is touched.
    ///
    /// For measurements there are applications that do not always have data. Both write until the
    /// client stops: `GET /rate/<bytes>/<ns>` writes so many bytes every so many nanoseconds, each
    /// write beginning with the time at which it was due ([`written_at`]); `GET /on-off/<ns>/<ns>`
    /// writes as fast as it can for the first time, then nothing for the second, and so on.
    Bulk,
}

/// Bytes of the time at the head of each write of `GET /rate`.
pub const STAMP_BYTES: usize = 8;

/// The time in which stamps count. It begins when a process first asks for it, so only the process
/// that wrote a stamp can compare it.
fn stamp_zero() -> Instant {
    static ZERO: OnceLock<Instant> = OnceLock::new();
    *ZERO.get_or_init(Instant::now)
}

/// The time at which a write of `GET /rate` by this process was due, from the [`STAMP_BYTES`] at
/// its head.
pub fn written_at(stamp: [u8; STAMP_BYTES]) -> Instant {
    stamp_zero() + Duration::from_nanos(u64::from_be_bytes(stamp))
}

/// [`Content`] that was opened once.
pub(crate) enum Source {
    Directory(Directory),
    Bulk,
}

/// The answer to one request.
#[derive(Debug)]
pub(crate) enum Body {
    File(OpenFile),
    Bulk {
        bytes: u64,
    },
    /// So many bytes in every interval.
    Rate {
        write_bytes: usize,
        interval: Duration,
    },
    OnOff {
        on: Duration,
        off: Duration,
    },
}

impl Body {
    /// Nothing.
    pub(crate) const EMPTY: Self = Self::Bulk { bytes: 0 };

    /// Its bytes, if it ends by itself.
    pub(crate) fn length(&self) -> Option<u64> {
        match self {
            Self::File(file) => Some(file.bytes),
            Self::Bulk { bytes } => Some(*bytes).filter(|bytes| *bytes < u64::MAX),
            Self::Rate { .. } | Self::OnOff { .. } => None,
        }
    }

    /// The stamp that tells its content from another one, if it is a file's.
    pub(crate) fn stamp(&self) -> Option<&Stamp> {
        match self {
            Self::File(file) => Some(&file.stamp),
            Self::Bulk { .. } | Self::Rate { .. } | Self::OnOff { .. } => None,
        }
    }

    /// So many bytes of it from one on, which must be in it. Of generated data it is the number
    /// alone that counts.
    pub(crate) fn part(self, from: u64, bytes: u64) -> Self {
        match self {
            Self::File(mut file) => {
                (file.from, file.bytes) = (from, bytes);
                Self::File(file)
            }
            Self::Bulk { .. } => Self::Bulk { bytes },
            other => other,
        }
    }
}

impl Source {
    /// `open_files` bounds the files that are open at one time.
    pub(crate) fn new(content: Content, open_files: usize) -> Result<Self, ServeError> {
        match content {
            Content::Dir(dir) => Directory::open(&dir, open_files).map(Self::Directory),
            Content::Bulk => Ok(Self::Bulk),
        }
    }

    /// Files that are open now.
    pub(crate) fn open_files(&self) -> usize {
        match self {
            Self::Directory(directory) => directory.open_files(),
            Self::Bulk => 0,
        }
    }

    pub(crate) async fn open(&self, path: &str) -> Result<Body, Refusal> {
        match self {
            Self::Directory(directory) => directory.find(path).await,
            Self::Bulk => generated(path),
        }
    }
}

/// The largest write of `GET /rate`.
const MAX_WRITE_BYTES: u64 = 1 << 20;
/// The shortest interval of `GET /rate`: a server is not to spin for a client.
const LEAST_INTERVAL: Duration = Duration::from_micros(10);

fn generated(path: &str) -> Result<Body, Refusal> {
    let pair = |text: &str| -> Result<(u64, u64), Refusal> {
        let (a, b) = text.split_once('/').ok_or(Refusal::BadRequest)?;
        let number = |n: &str| n.parse::<u64>().ok().filter(|n| *n > 0).ok_or(Refusal::BadRequest);
        Ok((number(a)?, number(b)?))
    };
    if let Some(rest) = path.strip_prefix("/rate/") {
        let (bytes, nanos) = pair(rest)?;
        let interval = Duration::from_nanos(nanos);
        let is_sound = (STAMP_BYTES as u64..=MAX_WRITE_BYTES).contains(&bytes);
        if !is_sound || interval < LEAST_INTERVAL {
            return Err(Refusal::BadRequest);
        }
        return Ok(Body::Rate { write_bytes: bytes as usize, interval });
    }
    if let Some(rest) = path.strip_prefix("/on-off/") {
        let (on, off) = pair(rest)?;
        let (on, off) = (Duration::from_nanos(on), Duration::from_nanos(off));
        if on < LEAST_INTERVAL || off < LEAST_INTERVAL {
            return Err(Refusal::BadRequest);
        }
        return Ok(Body::OnOff { on, off });
    }
    bulk_length(path).map(|bytes| Body::Bulk { bytes })
}

fn bulk_length(path: &str) -> Result<u64, Refusal> {
    if path == "/bulk" {
        return Ok(u64::MAX);
    }
    let count = path.strip_prefix("/bulk/").ok_or(Refusal::NotFound)?;
    count.parse().map_err(|_| Refusal::BadRequest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn generated_bodies_take_numbers_above_0() {
        for path in ["/rate/4096/1000000", "/on-off/1000000000/500000000", "/bulk/1", "/bulk"] {
            assert!(generated(path).is_ok(), "{path}");
        }
        for path in [
            "/rate/7/1000000",
            "/rate/4096/9",
            "/rate/99999999999/1000000",
            "/rate/8",
            "/on-off/0/1000000",
        ] {
            assert_eq!(generated(path).err(), Some(Refusal::BadRequest), "{path}");
        }
    }

    #[test]
    fn bulk_takes_a_count_or_none() {
        assert_eq!(bulk_length("/bulk"), Ok(u64::MAX));
        assert_eq!(bulk_length("/bulk/0"), Ok(0));
        assert_eq!(bulk_length("/bulk/100000000"), Ok(100_000_000));
        assert_eq!(bulk_length("/bulk/"), Err(Refusal::BadRequest));
        assert_eq!(bulk_length("/bulk/-1"), Err(Refusal::BadRequest));
        assert_eq!(bulk_length("/bulk/1e9"), Err(Refusal::BadRequest));
        assert_eq!(bulk_length("/bulk/99999999999999999999"), Err(Refusal::BadRequest));
        assert_eq!(bulk_length("/etc/passwd"), Err(Refusal::NotFound));
    }
}
