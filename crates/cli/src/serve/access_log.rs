//! The access log: one line of JSON for each request that is over.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::net::SocketAddr;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use fullpipe_files::{OnRequest, RequestRecord, is_plain};
use nix::errno::Errno;
use nix::fcntl::{FcntlArg, OFlag, fcntl};
use serde::Serialize;

use crate::failure::Failure;
use crate::lines::{Lines, Sink, WholeLines};

/// A file that gets the lines, written by a thread of its own.
pub(super) struct AccessLog(Lines);

/// The file, and the place where it is opened again.
struct Log {
    path: PathBuf,
    file: WholeLines<File>,
}

/// A line, in the order of its fields.
#[derive(Serialize)]
struct Line<'a> {
    /// The end of the request, as RFC 3339 has it, in UTC.
    time: String,
    address: SocketAddr,
    version: &'a str,
    method: &'a str,
    authority: &'a str,
    path: &'a str,
    status: u16,
    body_bytes: u64,
    duration_s: f64,
    complete: bool,
}

impl AccessLog {
    /// Appends to the file, which is made if there is none.
    pub(super) fn open(path: &Path) -> Result<Self, Failure> {
        let cannot =
            |error| Failure::bad_input(format!("cannot write the access log {path:?}: {error}"));
        let file = append(path).map_err(cannot)?;
        let log = Log { path: path.to_owned(), file };
        Lines::start("access-log", log).map(Self).map_err(cannot)
    }

    /// The server's look at its requests.
    pub(super) fn on_request(&self) -> OnRequest {
        let queue = self.0.queue();
        Arc::new(move |record| queue.push(line(record)))
    }

    /// Takes the file that is at the path now, after the old one got another name.
    pub(super) fn reopen(&self) {
        let queue = self.0.queue();
        // It waits where the disk is slow.
        tokio::task::spawn_blocking(move || queue.reopen());
    }

    /// Waits until the lines are written, but not for a disk that does not answer.
    pub(super) fn finish(&self) {
        if !self.0.finish() {
            tracing::warn!("the last lines of the access log may be missing");
        }
    }
}

impl Sink for Log {
    fn write(&mut self, lines: &[u8]) -> io::Result<()> {
        self.file.write(lines)
    }

    fn reopen(&mut self) {
        match append(&self.path) {
            Ok(file) => {
                self.file = file;
                tracing::info!("SIGHUP: the access log goes on in {:?}", self.path);
            }
            Err(error) => {
                tracing::error!("SIGHUP: cannot open the access log {:?}: {error}", self.path);
            }
        }
    }

    fn failed(&mut self, error: &io::Error) {
        tracing::error!("cannot write the access log {:?}: {error}; lines are lost", self.path);
    }

    fn left_out(&mut self, lines: u64) {
        tracing::warn!(lines, "lines of the access log were left out: too many wait");
    }
}

/// The file at this place. A FIFO is one as well, if it has a reader: nobody waits for one.
fn append(path: &Path) -> io::Result<WholeLines<File>> {
    let nonblocking = OFlag::O_NONBLOCK.bits();
    let file = File::options().append(true).create(true).custom_flags(nonblocking).open(path);
    let file = file.map_err(|error| match error.raw_os_error().map(Errno::from_raw) {
        Some(Errno::ENXIO) => io::Error::other("it is a FIFO with no reader, or a socket"),
        _ => error,
    })?;
    // The thread that writes may wait.
    fcntl(&file, FcntlArg::F_SETFL(OFlag::O_APPEND))?;
    let is_cut = file.metadata().is_ok_and(|file| file.is_file()) && ends_within_a_line(path);
    Ok(WholeLines::new(file, is_cut))
}

/// True if the file does not end where a line does: whoever wrote it before was stopped.
fn ends_within_a_line(path: &Path) -> bool {
    let mut last = [b'\n'];
    // One that is empty, or may not be read, counts as whole.
    let read = File::open(path).and_then(|mut file| {
        file.seek(SeekFrom::End(-1))?;
        file.read_exact(&mut last)
    });
    read.is_ok() && last != [b'\n']
}

fn line(record: &RequestRecord<'_>) -> Box<[u8]> {
    let line = Line {
        time: humantime::format_rfc3339_millis(SystemTime::now()).to_string(),
        address: record.peer,
        version: record.version,
        method: record.method,
        authority: record.authority,
        path: record.target,
        status: record.status,
        body_bytes: record.body_bytes,
        duration_s: record.duration.as_secs_f64(),
        complete: record.is_complete,
    };
    let mut line = printable(serde_json::to_string(&line).unwrap_or_default());
    line.push('\n');
    line.into_bytes().into_boxed_slice()
}

/// JSON without characters that break a line or move what is around them: of these it escapes those
/// below U+0020 itself, and the others can be in strings alone.
fn printable(json: String) -> String {
    if json.chars().all(is_plain) {
        return json;
    }
    let mut escaped = String::with_capacity(json.len());
    for c in json.chars() {
        if is_plain(c) {
            escaped.push(c);
            continue;
        }
        for unit in c.encode_utf16(&mut [0; 2]) {
            escaped.push_str(&format!("\\u{unit:04x}"));
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_in_a_line_moves_what_is_around_it() {
        let raw =
            "é /\u{1b}[2J\n\u{7f}\u{9b}31m\u{9d}0;t\u{202e}\u{2028}\u{2066}\u{e0041}\u{1f600}";
        let line = printable(serde_json::to_string(&[raw]).expect("JSON"));
        assert!(line.chars().all(is_plain), "{line:?}");
        assert!(line.contains("\\u009b31m\\u009d0;t\\u202e\\u2028\\u2066\\udb40\\udc41"), "{line}");
        assert!(line.starts_with("[\"é /") && line.contains('\u{1f600}'), "{line}");
        let back: [String; 1] = serde_json::from_str(&line).expect("JSON");
        assert_eq!(back[0], raw);
    }

    #[test]
    fn a_line_that_an_earlier_run_left_unfinished_is_not_continued() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("access");
        let log = |before: &str| {
            std::fs::write(&path, before).expect("a file");
            append(&path).expect("the file").write(b"next\n").expect("there is room");
            std::fs::read_to_string(&path).expect("text")
        };
        assert_eq!(log(""), "next\n");
        assert_eq!(log("whole\n"), "whole\nnext\n");
        assert_eq!(log("whole\ncut"), "whole\ncut\nnext\n");
    }
}
