//! Content of a server: the files under one directory, or data without a file.

mod descriptors;
mod dir;
mod read;
mod send;

use std::net::IpAddr;
use std::path::PathBuf;

use dir::{Directory, Disk, OpenFile};

use crate::hq::Refusal;
use crate::{Limits, ServeError};

pub(crate) use dir::Stamp;
pub(crate) use read::read;
pub(crate) use send::{BLOCK_BYTES, SendError, Sending};

/// Source of the server's answers.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Content {
    /// The regular files under this directory. A path that leaves it is refused and never read:
    /// `..` however it is encoded, an absolute symbolic link, and a relative one to somewhere else.
    Dir(PathBuf),
    /// `GET /bulk/<bytes>` gives that many bytes, `GET /bulk` gives bytes until the client stops:
    /// [`bulk_block`](crate::bulk_block()) over and over. No file is touched.
    Bulk,
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
    Bulk { bytes: u64 },
}

impl Body {
    /// Nothing.
    pub(crate) const EMPTY: Self = Self::Bulk { bytes: 0 };

    /// Its bytes, if it ends by itself.
    pub(crate) fn length(&self) -> Option<u64> {
        match self {
            Self::File(file) => Some(file.bytes),
            Self::Bulk { bytes } => Some(*bytes).filter(|bytes| *bytes < u64::MAX),
        }
    }

    /// The stamp that tells its content from another one, if it is a file's.
    pub(crate) fn stamp(&self) -> Option<&Stamp> {
        match self {
            Self::File(file) => Some(&file.stamp),
            Self::Bulk { .. } => None,
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
        }
    }
}

impl Source {
    pub(crate) fn new(content: Content, limits: &Limits) -> Result<Self, ServeError> {
        match content {
            Content::Dir(dir) => Directory::open(&dir, limits).map(Self::Directory),
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

    /// What `path` names, for the client at this address.
    pub(crate) async fn open(&self, path: &str, client: IpAddr) -> Result<Body, Refusal> {
        match self {
            Self::Directory(directory) => directory.find(path, client).await,
            Self::Bulk => bulk_length(path).map(|bytes| Body::Bulk { bytes }),
        }
    }
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
