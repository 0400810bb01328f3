//! What a server gives: the files under one directory, or data without a file.

use std::path::{Component, Path, PathBuf};

use bytes::{Bytes, BytesMut};
use noq::{SendStream, WriteError};
use percent_encoding::percent_decode_str;
use tokio::fs::File;
use tokio::io::AsyncReadExt;

use crate::ServeError;
use crate::bulk::bulk_block;
use crate::hq::Refusal;

/// One read from a file: large enough that the hand-over to the blocking pool costs little.
const READ_BYTES: usize = 256 * 1024;

/// What the server answers with.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Content {
    /// The regular files under this directory. A path that leaves it is refused and never read:
    /// `..` however it is encoded, and a symbolic link to somewhere else.
    Dir(PathBuf),
    /// `GET /bulk/<bytes>` gives that many bytes, `GET /bulk` gives bytes until the client stops:
    /// [`bulk_block`](crate::bulk_block()) over and over. No file is touched.
    Bulk,
}

/// [`Content`] that was looked at once.
pub(crate) enum Source {
    /// Canonical, so that a file's canonical path tells whether it is inside.
    Root(PathBuf),
    Bulk,
}

/// The answer to one request.
#[derive(Debug)]
pub(crate) enum Body {
    File(File),
    Bulk { bytes: u64 },
}

/// Why a body was not sent to its end.
pub(crate) enum SendError {
    Read(std::io::Error),
    Write(WriteError),
}

impl Source {
    pub(crate) fn new(content: Content) -> Result<Self, ServeError> {
        let Content::Dir(dir) = content else { return Ok(Self::Bulk) };
        let root = dir.canonicalize().and_then(|root| {
            // Reading it now rather than at the first request tells whoever starts the server.
            std::fs::read_dir(&root).map(|_| root)
        });
        root.map(Self::Root).map_err(|source| ServeError::Directory { path: dir, source })
    }

    pub(crate) async fn open(&self, path: &str) -> Result<Body, Refusal> {
        match self {
            Self::Root(root) => open_inside(root, path).await.map(Body::File),
            Self::Bulk => bulk_length(path).map(|bytes| Body::Bulk { bytes }),
        }
    }
}

/// Opens the regular file that `path` names under `root`.
///
/// The name is checked before the disk is asked, and the canonical path before the file is opened.
/// Whoever can replace directories under `root` while the server runs can win a race against the
/// second check; such a person can as well put the data under `root`.
async fn open_inside(root: &Path, path: &str) -> Result<File, Refusal> {
    let canonical = tokio::fs::canonicalize(root.join(relative_path(path)?))
        .await
        .map_err(|error| refusal_for(&error))?;
    if !canonical.starts_with(root) {
        return Err(Refusal::Forbidden);
    }
    // Asked before opening: to open a FIFO would wait for its writer.
    let metadata = tokio::fs::metadata(&canonical).await.map_err(|error| refusal_for(&error))?;
    if !metadata.is_file() {
        return Err(Refusal::Forbidden);
    }
    File::open(&canonical).await.map_err(|error| refusal_for(&error))
}

/// The path below the root that a request names. Each segment must be one plain file name after
/// decoding, so `.`, `..`, an empty one, and one that hides a separator or a NUL are refused.
fn relative_path(path: &str) -> Result<PathBuf, Refusal> {
    let mut relative = PathBuf::new();
    for segment in path.strip_prefix('/').ok_or(Refusal::BadRequest)?.split('/') {
        let name = percent_decode_str(segment).decode_utf8().map_err(|_| Refusal::BadRequest)?;
        let mut components = Path::new(name.as_ref()).components();
        match (components.next(), components.next()) {
            (Some(Component::Normal(only)), None) if only == name.as_ref() => relative.push(only),
            _ => return Err(Refusal::Forbidden),
        }
        if name.contains(['\0', '\\']) {
            return Err(Refusal::Forbidden);
        }
    }
    Ok(relative)
}

fn refusal_for(error: &std::io::Error) -> Refusal {
    match error.kind() {
        std::io::ErrorKind::PermissionDenied => Refusal::Forbidden,
        _ => Refusal::NotFound,
    }
}

fn bulk_length(path: &str) -> Result<u64, Refusal> {
    if path == "/bulk" {
        return Ok(u64::MAX);
    }
    let count = path.strip_prefix("/bulk/").ok_or(Refusal::NotFound)?;
    count.parse().map_err(|_| Refusal::BadRequest)
}

impl Body {
    /// Writes the body and counts what noq took. The stream is left open.
    pub(crate) async fn send(self, to: &mut SendStream, sent: &mut u64) -> Result<(), SendError> {
        match self {
            Self::File(file) => send_file(file, to, sent).await,
            Self::Bulk { bytes } => send_bulk(bytes, to, sent).await.map_err(SendError::Write),
        }
    }
}

async fn send_file(mut file: File, to: &mut SendStream, sent: &mut u64) -> Result<(), SendError> {
    loop {
        let mut buffer = BytesMut::with_capacity(READ_BYTES);
        if file.read_buf(&mut buffer).await.map_err(SendError::Read)? == 0 {
            return Ok(());
        }
        write(buffer.freeze(), to, sent).await.map_err(SendError::Write)?;
    }
}

async fn send_bulk(bytes: u64, to: &mut SendStream, sent: &mut u64) -> Result<(), WriteError> {
    let block = bulk_block();
    let mut left = bytes;
    while left > 0 {
        let take = usize::try_from(left).unwrap_or(usize::MAX).min(block.len());
        write(block.slice(..take), to, sent).await?;
        left -= take as u64;
    }
    Ok(())
}

async fn write(chunk: Bytes, to: &mut SendStream, sent: &mut u64) -> Result<(), WriteError> {
    let bytes = chunk.len() as u64;
    to.write_chunk(chunk).await?;
    *sent += bytes;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_plain_names_below_the_root() {
        for (path, relative) in [
            ("/a", "a"),
            ("/a/b.txt", "a/b.txt"),
            ("/with%20space", "with space"),
            ("/%C3%A9", "é"),
            ("/...", "..."),
            ("/a..b", "a..b"),
            // Decoded once and no more: this names a file with a percent sign.
            ("/%252e%252e", "%2e%2e"),
        ] {
            assert_eq!(relative_path(path), Ok(PathBuf::from(relative)), "{path}");
        }
    }

    #[test]
    fn a_path_that_could_leave_the_root_is_refused_without_a_look_at_the_disk() {
        for path in [
            "/",
            "//etc/passwd",
            "/..",
            "/../etc/passwd",
            "/a/../../etc/passwd",
            "/a/..",
            "/.",
            "/./a",
            "/a/",
            "/%2e%2e/etc/passwd",
            "/%2E%2e/etc/passwd",
            "/.%2e/etc/passwd",
            "/..%2fetc%2fpasswd",
            "/%2fetc/passwd",
            "/a%2f..%2f..%2fetc/passwd",
            "/a%00",
            "/%00/../etc/passwd",
            "/..%5cetc",
            "/a%5cb",
        ] {
            assert_eq!(relative_path(path), Err(Refusal::Forbidden), "{path}");
        }
        assert_eq!(relative_path("/%ff"), Err(Refusal::BadRequest));
        assert_eq!(relative_path("etc/passwd"), Err(Refusal::BadRequest));
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
