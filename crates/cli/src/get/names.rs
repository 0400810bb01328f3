//! The names of a part and of its note, and the lock by which one process at a time has them.

use std::fs::File;
use std::io::{self, ErrorKind};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use nix::fcntl::{Flock, FlockArg, OFlag};

/// Attempts to open a part of which others make a file meanwhile.
const ATTEMPTS: usize = 16;
/// Ends of the two names.
const PART: &str = ".part";
const NOTE: &str = ".part.json";

/// The names of the part of a file and of its note.
pub(super) fn names_beside(path: &Path) -> [PathBuf; 2] {
    [beside(path, PART), beside(path, NOTE)]
}

fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    PathBuf::from(name)
}

/// Opens or makes a part that nobody else writes. Whoever had it locked before may have made a file
/// of it since it was opened here: then the name is another one's, and is opened again.
pub(super) fn locked(part: &Path) -> io::Result<(File, Flock<File>)> {
    let mut options = File::options();
    // Not through a link that somebody else left there.
    options.read(true).write(true).create(true).truncate(false);
    options.custom_flags(OFlag::O_NOFOLLOW.bits());
    for _ in 0..ATTEMPTS {
        let file = options.open(part)?;
        if !file.metadata()?.is_file() {
            return Err(ErrorKind::InvalidInput.into());
        }
        let lock = Flock::lock(file.try_clone()?, FlockArg::LockExclusiveNonblock);
        let lock = lock.map_err(|(_, _)| io::Error::other("another process writes its part"))?;
        if is_named(&file, part)? {
            return Ok((file, lock));
        }
    }
    Err(io::Error::other("its part is another one each time"))
}

/// True if the name is still that of this file.
fn is_named(file: &File, name: &Path) -> io::Result<bool> {
    let own = file.metadata()?;
    match std::fs::symlink_metadata(name) {
        Ok(there) => Ok((there.dev(), there.ino()) == (own.dev(), own.ino())),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_went_to_another_file_is_opened_again() {
        let dir = tempfile::tempdir().expect("a directory");
        let (part, to) = (dir.path().join("f.part"), dir.path().join("f"));
        let (before, _lock) = locked(&part).expect("a part");
        assert!(is_named(&before, &part).expect("a look"));
        // The process that had it makes a file of it.
        std::fs::rename(&part, &to).expect("a rename");
        assert!(!is_named(&before, &part).expect("a look"), "there is none");
        std::fs::write(&part, "another").expect("a file");
        assert!(!is_named(&before, &part).expect("a look"), "it is another one");
        let (after, _lock) = locked(&part).expect("a part");
        assert_eq!(after.metadata().expect("a file").len(), 7);
    }
}
