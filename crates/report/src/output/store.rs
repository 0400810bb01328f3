//! Directories of results, and whole files or none.

use std::fs::File;
use std::path::{Path, PathBuf};

use super::atomic_file::Temporary;

/// No file system takes names much beyond 200 bytes; a qlog's has two of these and two numbers.
const NAME_BYTES: usize = 80;

/// A directory of results that cannot be written: one line.
#[derive(Debug, thiserror::Error)]
#[error("cannot write {}: {source}", path.display())]
pub struct StoreError {
    /// The file.
    pub path: PathBuf,
    /// Cause of the error.
    pub source: std::io::Error,
}

impl StoreError {
    /// Makes an error of this file of its cause.
    pub fn at(path: &Path) -> impl Fn(std::io::Error) -> Self + '_ {
        |source| Self { path: path.to_owned(), source }
    }
}

/// Makes a directory when it is not there, and sees whether something can be written into it.
///
/// # Errors
/// It cannot be made, or nothing can be written into it.
pub fn create_dir(path: &Path) -> Result<(), StoreError> {
    let made = std::fs::create_dir_all(path).and_then(|()| Temporary::beside(&path.join("x")));
    made.map(drop).map_err(StoreError::at(path))
}

/// Sees whether [`write_whole`] will succeed, before the work is done that the file is to hold.
///
/// # Errors
/// The path is a directory or a device, or its directory cannot be written into.
pub fn check_file(path: &Path) -> Result<(), StoreError> {
    use std::io::{Error, ErrorKind};
    let is_file = match std::fs::metadata(path) {
        Ok(found) => found.is_file(),
        Err(error) if error.kind() == ErrorKind::NotFound => path.file_name().is_some(),
        Err(error) => return Err(StoreError::at(path)(error)),
    };
    if !is_file {
        return Err(StoreError::at(path)(Error::other("it is not a regular file")));
    }
    Temporary::beside(path).map(drop).map_err(StoreError::at(path))
}

/// Writes a file that is either there as a whole or not at all.
///
/// # Errors
/// The file cannot be written; nothing is left of it then.
pub fn write_whole(
    path: &Path,
    fill: impl FnOnce(&mut File) -> std::io::Result<()>,
) -> Result<(), StoreError> {
    let wrong = StoreError::at(path);
    let mut temporary = Temporary::beside(path).map_err(&wrong)?;
    fill(temporary.file.as_file_mut()).and_then(|()| temporary.persist(path)).map_err(&wrong)
}

/// Name of a file or directory for a name: letters, digits, - and _, so that no name leads to
/// another directory; an empty name becomes _.
pub fn file_name_of(name: &str) -> String {
    let is_plain = |c: &char| c.is_ascii_alphanumeric() || *c == '-';
    let name = if name.is_empty() { "_" } else { name };
    name.chars().map(|c| if is_plain(&c) { c } else { '_' }).take(NAME_BYTES).collect()
}
