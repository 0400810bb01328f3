//! Files that are either there as a whole or not at all.

use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::path::Path;

use tempfile::{Builder, NamedTempFile};

/// The beginning and the end of a temporary file's name.
const NAME: (&str, &str) = (".fullpipe-", ".tmp");

/// Number of attempts to create a temporary file, if another process removes it before it is
/// locked.
const TRIES: usize = 10;

/// A file under a temporary name in the directory of the one that it will be. Its lock ends with
/// the process, so that a file without one was left by a process that was killed.
pub(super) struct Temporary {
    pub(super) file: NamedTempFile<File>,
    _lock: File,
}

impl Temporary {
    /// A new file beside `path`. What killed processes left there is removed first.
    pub(super) fn beside(path: &Path) -> io::Result<Self> {
        let dir = directory_of(path);
        remove_left_over(dir);
        for _ in 0..TRIES {
            let file = Builder::new()
                .prefix(NAME.0)
                .suffix(NAME.1)
                // Its own `tempfile_in` would make a file for the owner alone, and tell its name in
                // errors.
                .make_in(dir, |path| {
                    File::options().read(true).write(true).create_new(true).open(path)
                })?;
            let lock = file.as_file().try_clone()?;
            lock.lock()?;
            // Between its creation and the lock somebody could have taken it for one that was left.
            if file.path().exists() {
                return Ok(Self { file, _lock: lock });
            }
        }
        Err(io::Error::other("temporary files are removed as soon as they are made"))
    }

    /// Gives the file its name, in one step and once it is on the disk.
    pub(super) fn persist(self, path: &Path) -> io::Result<()> {
        self.file.as_file().sync_all()?;
        self.file.persist(path).map(drop).map_err(|e| e.error)
    }
}

/// The directory that holds a file of this path.
fn directory_of(path: &Path) -> &Path {
    match path.parent() {
        Some(dir) if !dir.as_os_str().is_empty() => dir,
        _ => Path::new("."),
    }
}

/// Removes the temporary files in a directory that no process holds, as far as that is possible.
fn remove_left_over(dir: &Path) {
    let Ok(entries) = std::fs::read_dir(dir) else { return };
    for entry in entries.flatten().filter(|entry| is_ours(&entry.file_name())) {
        let is_file = entry.file_type().is_ok_and(|kind| kind.is_file());
        let path = entry.path();
        if is_file
            && let Ok(file) = File::open(&path)
            && file.try_lock().is_ok()
        {
            let _ = std::fs::remove_file(&path);
        }
    }
}

fn is_ours(name: &OsStr) -> bool {
    let name = name.to_str().and_then(|name| name.strip_prefix(NAME.0)?.strip_suffix(NAME.1));
    name.is_some_and(|random| {
        random.len() == 6 && random.bytes().all(|b| b.is_ascii_alphanumeric())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(dir: &Path) -> Vec<String> {
        let entries = std::fs::read_dir(dir).expect("a directory");
        let name = |e: io::Result<std::fs::DirEntry>| e.expect("an entry").file_name();
        let mut names: Vec<_> = entries.map(|e| name(e).to_string_lossy().into_owned()).collect();
        names.sort();
        names
    }

    #[test]
    fn what_a_killed_process_left_is_removed_and_what_is_being_written_is_not() {
        let dir = tempfile::tempdir().expect("a directory");
        let others = [".fullpipe-abc123.part", ".tmpabc123", "x.tmp", ".fullpipe-../../a.tmp2"];
        for name in others.map(|name| name.replace('/', "_")) {
            std::fs::write(dir.path().join(name), "").expect("a file");
        }
        std::fs::write(dir.path().join(".fullpipe-abc123.tmp"), "half").expect("a file");
        let path = dir.path().join("result");
        let being_written = Temporary::beside(&path).expect("a file");
        assert!(!dir.path().join(".fullpipe-abc123.tmp").exists(), "it was left");
        Temporary::beside(&path).and_then(|t| t.persist(&path)).expect("a file");
        assert!(being_written.file.path().exists());
        being_written.persist(&path).expect("the other one in its place");
        assert_eq!(names(dir.path()).len(), others.len() + 1, "{:?}", names(dir.path()));
    }

    #[test]
    fn an_error_does_not_tell_a_temporary_name() {
        let Err(error) = Temporary::beside(Path::new("/no such dir/x")) else { panic!("no file") };
        assert_eq!(error.kind(), io::ErrorKind::NotFound);
        assert!(!error.to_string().contains("fullpipe"), "{error}");
    }
}
