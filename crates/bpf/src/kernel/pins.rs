//! The pins in the BPF file system: of programs a directory for each, by the program's name, and a
//! directory for what cgroups use.

use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use libbpf_rs::Link;

use super::Error;

/// Directory of the directories.
const PINS: &str = "/sys/fs/bpf/fullpipe";

/// Directory of the links to cgroups. No program's pins are in it, whatever its name is.
const USES: &str = "/sys/fs/bpf/fullpipe-use";

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

/// The pin for what a cgroup uses, by its number and the first of the ports: no two have it.
pub(super) fn of_use(cgroup: u64, port: Option<u16>) -> PathBuf {
    let port = port.map_or("all".to_owned(), |port| port.to_string());
    Path::new(USES).join(format!("{cgroup}-{port}"))
}

/// The pins of all that cgroups use.
pub(super) fn uses() -> Result<Vec<PathBuf>, Error> {
    match fs::read_dir(USES) {
        Ok(entries) => Ok(entries.filter_map(|entry| Some(entry.ok()?.path())).collect()),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(Vec::new()),
        Err(error) if error.kind() == ErrorKind::PermissionDenied => Err(Error::NotRoot),
        Err(source) => Err(Error::Pins { source }),
    }
}

/// Makes the directory for them.
pub(super) fn make_uses() -> Result<(), Error> {
    fs::create_dir_all(USES).map_err(|source| Error::Pins { source })
}

/// Ends one of them and removes it. Without the pin alone the kernel would detach the program when
/// it gets to it. One whose cgroup was removed is detached already.
pub(super) fn remove_use(pin: &Path) -> Result<(), Error> {
    if let Ok(link) = Link::open(pin) {
        let _ = link.detach();
    }
    match fs::remove_file(pin) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(Error::Pins { source: error }),
        _ => {
            // Fails as long as there is another one.
            let _ = fs::remove_dir(USES);
            Ok(())
        }
    }
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
