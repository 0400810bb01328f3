//! The pins of programs in the BPF file system: a directory for each, by the program's name.

use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use super::Error;

/// Directory of the directories.
const PINS: &str = "/sys/fs/bpf/fullpipe";

/// The registration, pinned last and removed first: a program without it is not pinned.
const LINK: &str = "link";
/// The iterator over the connections.
const CONNECTIONS: &str = "connections";

fn directory(name: &str) -> PathBuf {
    Path::new(PINS).join(name)
}

pub(super) fn link(name: &str) -> PathBuf {
    directory(name).join(LINK)
}

pub(super) fn connections(name: &str) -> PathBuf {
    directory(name).join(CONNECTIONS)
}

/// The names of the pinned programs, in their order.
pub(super) fn names() -> Result<Vec<String>, Error> {
    let entries = match fs::read_dir(PINS) {
        Ok(entries) => entries,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) if error.kind() == ErrorKind::PermissionDenied => return Err(Error::NotRoot),
        Err(source) => return Err(Error::Pins { source }),
    };
    let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    let mut names: Vec<String> = names.filter(|name| is_pinned(name)).collect();
    names.sort_unstable();
    Ok(names)
}

/// True if a program of this name is pinned.
pub(super) fn is_pinned(name: &str) -> bool {
    fs::symlink_metadata(link(name)).is_ok()
}

/// Sees to it that a program can be pinned. To be called with the lock held: what another loader
/// pinned before it was killed is removed.
pub(super) fn prepare(name: &str) -> Result<(), Error> {
    if !has_file_system() {
        return Err(Error::NoBpfFileSystem);
    }
    if directory(name).exists() {
        remove(name).map_err(|source| Error::Pins { source })?;
    }
    Ok(())
}

/// True if there is a BPF file system where pins are made.
pub(super) fn has_file_system() -> bool {
    let mounts = fs::read_to_string("/proc/thread-self/mounts").unwrap_or_default();
    mounts.lines().any(|line| {
        let mut words = line.split(' ').skip(1);
        words.next() == Some("/sys/fs/bpf") && words.next() == Some("bpf")
    })
}

/// Makes the directory for the pins of a program.
pub(super) fn make(name: &str) -> Result<(), Error> {
    fs::create_dir_all(directory(name)).map_err(|source| Error::Pins { source })
}

/// Removes the pins of a program.
pub(super) fn remove(name: &str) -> io::Result<()> {
    for file in [LINK, CONNECTIONS] {
        match fs::remove_file(directory(name).join(file)) {
            Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
            _ => {}
        }
    }
    fs::remove_dir(directory(name))?;
    // Fails as long as another program is pinned.
    let _ = fs::remove_dir(PINS);
    Ok(())
}
