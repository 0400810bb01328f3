//! The file beside a part that says which URL it is of, and of which content.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use nix::fcntl::OFlag;
use serde::{Deserialize, Serialize};

/// Most bytes of the second file: in JSON each byte of a tag may be two, and Linux bounds a URL, as
/// it does each argument, to 128 KiB.
const MOST_OF_A_NOTE: u64 = 1 << 20;
/// Its content.
#[derive(Serialize, Deserialize)]
pub(super) struct Note {
    pub(super) url: String,
    /// The value of If-Range: a strong entity tag or a date. Without it the part is begun anew.
    pub(super) validator: Option<String>,
    /// The value of Content-Encoding.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) encoding: Option<String>,
}

impl Note {
    /// The note at this place, if there is one of this program.
    ///
    /// # Errors
    /// Something is there that is no regular file, as a FIFO, which would be waited for.
    pub(super) fn read(path: &Path) -> io::Result<Option<Self>> {
        let flags = OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK;
        let Ok(file) = File::options().read(true).custom_flags(flags.bits()).open(path) else {
            return Ok(None);
        };
        if !file.metadata()?.is_file() {
            return Err(io::Error::other(format!("{} is no regular file", path.display())));
        }
        let mut text = String::new();
        let read = file.take(MOST_OF_A_NOTE).read_to_string(&mut text);
        Ok(read.ok().and_then(|_| serde_json::from_str(&text).ok()))
    }

    pub(super) fn write(&self, path: &Path) -> io::Result<()> {
        let text = serde_json::to_vec(self)?;
        // With a rename, so that it is there whole, and no link is followed.
        let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty());
        let mut file = tempfile::NamedTempFile::new_in(directory.unwrap_or(Path::new(".")))?;
        file.write_all(&text)?;
        file.persist(path).map_err(|error| error.error)?;
        Ok(())
    }
}
