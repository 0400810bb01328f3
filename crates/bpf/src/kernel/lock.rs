//! One process at a time changes what is pinned and what is the default.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};

use nix::fcntl::{Flock, FlockArg};

use super::Error;

/// Only root can open it, so nobody else can hold a loader up.
const PATH: &str = "/run/fullpipe-kernel.lock";

/// Held while something is loaded or unloaded. The kernel releases it for a process that was
/// killed.
pub(super) struct Lock {
    _file: Flock<File>,
}

impl Lock {
    /// Waits until nobody else has it.
    pub(super) fn take() -> Result<Self, Error> {
        loop {
            let file =
                OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(PATH);
            let file = file.map_err(|source| match source.kind() {
                io::ErrorKind::PermissionDenied => Error::NotRoot,
                _ => Error::Lock { source },
            })?;
            let file = Flock::lock(file, FlockArg::LockExclusive)
                .map_err(|(_, errno)| Error::Lock { source: errno.into() })?;
            let mine = file.metadata().map_err(|source| Error::Lock { source })?.ino();
            // The previous holder may have removed the file meanwhile; then another process may
            // lock a new file by this name.
            if fs::metadata(PATH).is_ok_and(|named| named.ino() == mine) {
                return Ok(Self { _file: file });
            }
        }
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        // Before the file is unlocked. A file that stays is no harm.
        let _ = fs::remove_file(PATH);
    }
}
