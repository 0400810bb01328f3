//! The files under one directory. Linux resolves each path below the directory (openat2 with
//! `RESOLVE_BENEATH`), so nothing that changes under it while a request is answered leads out of
//! it. Other systems have no such call: there each name is opened below the one before it, and no
//! symbolic link is followed.

use std::fs::File;
use std::net::IpAddr;
use std::os::fd::OwnedFd;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use nix::errno::Errno;
#[cfg(any(test, not(target_os = "linux")))]
use nix::fcntl::openat;
use nix::fcntl::{OFlag, open};
#[cfg(target_os = "linux")]
use nix::fcntl::{OpenHow, ResolveFlag, openat2};
use nix::sys::stat::Mode;
use percent_encoding::percent_decode_str;
use tokio::sync::Semaphore;

use super::Body;
use super::descriptors::{Descriptor, Descriptors};
use crate::hq::Refusal;
use crate::{Limits, ServeError};

/// Largest number of attempts to resolve a name. openat2 fails with EAGAIN if a directory was
/// renamed meanwhile.
const ATTEMPTS: usize = 16;
/// Calls to the file system at one time.
const AT_ONCE: usize = 16;

/// An open directory, and the descriptors for files under it.
pub(crate) struct Directory {
    root: Arc<OwnedFd>,
    descriptors: Descriptors,
    disk: Disk,
}

/// A regular file as it was when it was opened.
#[derive(Debug)]
pub(crate) struct OpenFile {
    pub(crate) file: Arc<File>,
    /// Its length then; what is added later is not part of the answer.
    pub(crate) bytes: u64,
    /// The first byte of it that is wanted; `bytes` count from here.
    pub(crate) from: u64,
    /// Of the whole file.
    pub(crate) stamp: Stamp,
    pub(crate) disk: Disk,
    _descriptor: Descriptor,
}

/// A stamp that tells a file's content from that of another one, or from its own at another time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Stamp {
    pub(crate) modified: SystemTime,
    pub(crate) bytes: u64,
}

/// Runs calls that may wait for a disk on a few threads; few, because each thread keeps its memory.
#[derive(Clone, Debug)]
pub(crate) struct Disk(Arc<Semaphore>);

impl Disk {
    pub(super) fn new() -> Self {
        Self(Arc::new(Semaphore::new(AT_ONCE)))
    }

    /// The result of `call`; `None` if it panicked.
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        call: impl FnOnce() -> T + Send + 'static,
    ) -> Option<T> {
        let permit = self.0.clone().acquire_owned().await.ok()?;
        let call = move || {
            // With the call, even when nobody waits for it any more.
            let _permit = permit;
            call()
        };
        tokio::task::spawn_blocking(call).await.ok()
    }
}

impl Directory {
    /// Opens the directory itself. What it names must be a directory that can be read.
    pub(crate) fn open(dir: &Path, limits: &Limits) -> Result<Self, ServeError> {
        let error = |source| ServeError::Directory { path: dir.to_owned(), source };
        // Listed once, because whoever starts the server should hear now that the directory cannot
        // be read.
        std::fs::read_dir(dir).map_err(error)?;
        let flags = OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
        let root = open(dir, flags, Mode::empty()).map_err(|errno| error(errno.into()))?;
        // A kernel before 5.6 has no openat2, and a sandbox may forbid it.
        open_below(&root, Path::new("."), OFlag::O_RDONLY).map_err(|errno| error(errno.into()))?;
        let descriptors = Descriptors::new(limits.open_files, limits.files_per_address);
        Ok(Self { root: Arc::new(root), descriptors, disk: Disk::new() })
    }

    /// Files that are open now.
    pub(super) fn open_files(&self) -> usize {
        self.descriptors.in_use()
    }

    /// Opens the regular file that `path`, percent-encoded as in a request, names.
    pub(crate) async fn find(&self, path: &str, client: IpAddr) -> Result<Body, Refusal> {
        let relative = relative_path(path)?;
        let descriptor = self.descriptors.get(client).await.ok_or(Refusal::Unavailable)?;
        let root = self.root.clone();
        let opened = self.disk.run(move || open_regular(&root, &relative)).await;
        let (file, stamp) = opened.ok_or(Refusal::Internal)??;
        let (file, disk, bytes) = (Arc::new(file), self.disk.clone(), stamp.bytes);
        Ok(Body::File(OpenFile { file, bytes, from: 0, stamp, disk, _descriptor: descriptor }))
    }
}

/// Opens what `relative` names below `root`. A link that stays below `root` is followed.
#[cfg(target_os = "linux")]
fn open_below(root: &OwnedFd, relative: &Path, flags: OFlag) -> Result<OwnedFd, Errno> {
    let resolve = ResolveFlag::RESOLVE_BENEATH | ResolveFlag::RESOLVE_NO_MAGICLINKS;
    openat2(root, relative, OpenHow::new().flags(flags | OFlag::O_CLOEXEC).resolve(resolve))
}

#[cfg(not(target_os = "linux"))]
fn open_below(root: &OwnedFd, relative: &Path, flags: OFlag) -> Result<OwnedFd, Errno> {
    open_by_names(root, relative, flags)
}

/// Opens each name of `relative` below the one before it. A symbolic link gives `ELOOP` or
/// `ENOTDIR`.
#[cfg(any(test, not(target_os = "linux")))]
fn open_by_names(root: &OwnedFd, relative: &Path, flags: OFlag) -> Result<OwnedFd, Errno> {
    let always = OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
    let mut opened: Option<OwnedFd> = None;
    let mut names = relative.components().peekable();
    while let Some(name) = names.next() {
        let kind =
            if names.peek().is_some() { OFlag::O_RDONLY | OFlag::O_DIRECTORY } else { flags };
        let parent = opened.as_ref().unwrap_or(root);
        opened = Some(openat(parent, name.as_os_str(), kind | always, Mode::empty())?);
    }
    opened.ok_or(Errno::ENOENT)
}

/// Opens a regular file and nothing else. The type is asked of the descriptor, which no renaming
/// changes, and `O_NONBLOCK` opens a FIFO without a writer.
fn open_regular(root: &OwnedFd, relative: &Path) -> Result<(File, Stamp), Refusal> {
    let flags = OFlag::O_RDONLY | OFlag::O_NONBLOCK | OFlag::O_NOCTTY;
    let mut opened = Err(Errno::EAGAIN);
    for _ in 0..ATTEMPTS {
        opened = open_below(root, relative, flags);
        if !matches!(opened, Err(Errno::EAGAIN | Errno::EINTR)) {
            break;
        }
    }
    let file = File::from(opened.map_err(refusal_for)?);
    let metadata = file.metadata().map_err(|_| Refusal::Internal)?;
    if !metadata.is_file() {
        return Err(Refusal::Forbidden);
    }
    let modified = metadata.modified().map_err(|_| Refusal::Internal)?;
    let stamp = Stamp { modified, bytes: metadata.len() };
    Ok((file, stamp))
}

fn refusal_for(errno: Errno) -> Refusal {
    match errno {
        // EXDEV: the path leaves the directory. ENXIO: a socket, or a device without a driver.
        Errno::EXDEV | Errno::EACCES | Errno::EPERM | Errno::ENXIO => Refusal::Forbidden,
        // Resources that the server lacks now and may have later; EAGAIN: directories that are
        // renamed all the time.
        Errno::EMFILE | Errno::ENFILE | Errno::ENOMEM | Errno::EAGAIN => Refusal::Unavailable,
        Errno::EIO => Refusal::Internal,
        _ => Refusal::NotFound,
    }
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
    fn without_openat2_no_link_is_followed() {
        let dir = tempfile::tempdir().expect("a directory");
        std::fs::create_dir(dir.path().join("sub")).expect("a directory");
        std::fs::write(dir.path().join("sub/file"), "text").expect("a file");
        for (link, to) in [("out", "/etc"), ("up", ".."), ("inside", "sub/file")] {
            std::os::unix::fs::symlink(to, dir.path().join(link)).expect("a link");
        }
        let flags = OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
        let root = open(dir.path(), flags, Mode::empty()).expect("the directory");
        let opens = |path: &str| open_by_names(&root, Path::new(path), OFlag::O_RDONLY).is_ok();
        assert!(opens("sub/file"));
        for refused in ["out/passwd", "up/x", "inside", "sub/none", "sub/file/x"] {
            assert!(!opens(refused), "{refused}");
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
}
