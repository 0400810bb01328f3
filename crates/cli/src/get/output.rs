//! The output of the body: stdout, a device, or a file that is there whole or not at all.

use std::fs::Permissions;
use std::io::{self, Seek};
use std::os::fd::AsFd;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use hyper::body::Bytes;
use hyper::header::{HeaderName, HeaderValue};
use hyper::{HeaderMap, StatusCode};
use tempfile::TempPath;
use tokio::fs::File;

use super::partial::{Partial, Start};
use super::writer::Writer;

/// No path prints like this: those have quotation marks.
const STDOUT: &str = "stdout";

/// An open output. Dropping it before [`finish`](Self::finish) removes what was written to a file.
pub(super) struct Output {
    writer: Writer,
    name: String,
    rename: Option<Rename>,
    /// The answer brought more than it said.
    is_too_long: bool,
}

struct Rename {
    from: From,
    to: PathBuf,
}

/// The file that is written until it gets its name.
enum From {
    Temporary(TempPath),
    Partial(Partial),
}

impl Output {
    /// `-` is stdout. A regular file, or one that is not there yet, is written under another name
    /// beside it and renamed at the end; anything else, like a FIFO, is written to as it is.
    ///
    /// With a URL, what an earlier run left of it is continued, which takes a regular file.
    pub(super) async fn open(path: &Path, continued: Option<&str>) -> io::Result<Self> {
        if path == Path::new("-") {
            let stdout = io::stdout().as_fd().try_clone_to_owned()?;
            return Ok(Self::new(stdout.into(), STDOUT.to_owned(), None));
        }
        let name = format!("{path:?}");
        let mode = match tokio::fs::metadata(path).await {
            Ok(found) if found.is_dir() => return Err(io::ErrorKind::IsADirectory.into()),
            Ok(found) if !found.is_file() => {
                let device = File::options().write(true).open(path).await?;
                return Ok(Self::new(device.into_std().await, name, None));
            }
            Ok(found) => Some(found.permissions()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => return Err(error),
        };
        let to = match &mode {
            // Through a link, the file is replaced and not the link.
            Some(_) => tokio::fs::canonicalize(path).await?,
            None => path.to_owned(),
        };
        let (file, from) = match continued {
            Some(url) => {
                let (partial, file) = Partial::open(&to, url, mode)?;
                (file, From::Partial(partial))
            }
            None => {
                let (file, from) = temporary_beside(&to, mode)?;
                (file, From::Temporary(from))
            }
        };
        Ok(Self::new(file, name, Some(Rename { from, to })))
    }

    fn new(file: std::fs::File, name: String, rename: Option<Rename>) -> Self {
        Self { writer: Writer::new(file), name, rename, is_too_long: false }
    }

    /// The output in words.
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    fn partial(&mut self) -> Option<&mut Partial> {
        match &mut self.rename {
            Some(Rename { from: From::Partial(partial), .. }) => Some(partial),
            _ => None,
        }
    }

    /// True if dropping it leaves nothing behind.
    pub(super) fn vanishes(&self) -> bool {
        match &self.rename {
            Some(Rename { from: From::Partial(partial), .. }) => !partial.stays(),
            rename => rename.is_some(),
        }
    }

    /// The file with the part that stays for another time.
    pub(super) fn kept(&self) -> Option<&Path> {
        match &self.rename {
            Some(Rename { from: From::Partial(partial), .. }) if partial.stays() => {
                Some(partial.part())
            }
            _ => None,
        }
    }

    /// True if a part was to stay, and the answer has nothing that tells its content.
    pub(super) fn cannot_stay(&self) -> bool {
        matches!(&self.rename, Some(Rename { from: From::Partial(partial), .. }) if !partial.stays())
    }

    /// The fields that ask for the rest of what is there.
    pub(super) fn fields(&mut self) -> Vec<(HeaderName, HeaderValue)> {
        self.partial().map_or_else(Vec::new, |partial| partial.fields())
    }

    /// Prepares for the body of an answer by its header; `None` is one of a protocol without.
    ///
    /// # Errors
    /// The answer does not fit what is there, or the file cannot be prepared.
    pub(super) async fn begin(
        &mut self,
        head: Option<(StatusCode, &HeaderMap)>,
    ) -> Result<Start, String> {
        let Some(partial) = self.partial() else { return Ok(Start::At(0)) };
        let start = partial.start(head)?;
        self.place(start)
            .await
            .map_err(|error| format!("cannot write to {}: {error}", self.name))?;
        Ok(start)
    }

    async fn place(&mut self, start: Start) -> io::Result<()> {
        if matches!(start, Start::At(0) | Start::Again) {
            let anew = |mut file: &std::fs::File| {
                file.set_len(0)?;
                file.rewind()
            };
            self.writer.after_all(anew).await?;
            // After that, so that no other content is taken for this one.
            if let Some(partial) = self.partial() {
                partial.note()?;
            }
        }
        Ok(())
    }

    /// Writes what is buffered of a part that stays, unless a write has failed, which is known.
    pub(super) async fn keep(&mut self) -> io::Result<()> {
        if self.kept().is_none() || self.writer.has_failed() {
            return Ok(());
        }
        match self.is_too_long.then(|| self.partial().map(|partial| partial.had())).flatten() {
            // The answer contradicts itself: nothing of it counts.
            Some(had) => self.writer.after_all(move |file| file.set_len(had)).await,
            None => self.writer.flush().await,
        }
    }

    /// Takes bytes. True if [`write`](Self::write) is due before the next.
    ///
    /// # Errors
    /// The answer is longer than it said.
    pub(super) fn push(&mut self, bytes: Bytes) -> Result<bool, String> {
        let length = bytes.len() as u64;
        let counted = self.partial().map_or(Ok(()), |partial| partial.count(length));
        self.is_too_long |= counted.is_err();
        counted?;
        Ok(self.writer.push(bytes))
    }

    /// Writes what was taken.
    pub(super) async fn write(&mut self) -> io::Result<()> {
        self.writer.hand_over().await
    }

    /// Writes what is buffered, and gives a file its name once it is on the disk: a name that
    /// survives a crash must not be that of half a file. A directory that cannot be synchronised is
    /// no failure.
    pub(super) async fn finish(&mut self) -> io::Result<()> {
        self.writer.flush().await?;
        if self.rename.is_none() {
            return Ok(());
        }
        self.writer.after_all(std::fs::File::sync_all).await?;
        let Some(rename) = &mut self.rename else { return Ok(()) };
        let directory = directory_of(&rename.to).to_owned();
        // Until it has its name, the file is what is left after a failure.
        match &mut rename.from {
            From::Temporary(from) => {
                std::fs::rename(&*from, &rename.to)?;
                from.disable_cleanup(true);
            }
            From::Partial(partial) => partial.finish(&rename.to)?,
        }
        self.rename = None;
        if let Ok(directory) = File::open(directory).await {
            let _ = directory.sync_all().await;
        }
        Ok(())
    }
}

/// A new file in the same directory, so that the renaming is within one file system; with the mode
/// of the file that it will replace, or the one that any new file has.
fn temporary_beside(
    path: &Path,
    mode: Option<Permissions>,
) -> io::Result<(std::fs::File, TempPath)> {
    let temporary = tempfile::Builder::new()
        .prefix(".fullpipe-")
        .suffix(".part")
        .permissions(Permissions::from_mode(0o666))
        .tempfile_in(directory_of(path))?;
    if let Some(mode) = mode {
        temporary.as_file().set_permissions(mode)?;
    }
    Ok(temporary.into_parts())
}

fn directory_of(path: &Path) -> &Path {
    let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    directory.unwrap_or(Path::new("."))
}
