//! The access log: one line of JSON for each request that is over.

use std::fs::File;
use std::io::Write;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::thread;
use std::time::{Duration, SystemTime};

use fullpipe_files::{OnRequest, RequestRecord};
use serde::Serialize;

use crate::failure::Failure;

/// Lines that wait for the disk; beyond them lines are left out, because requests do not wait.
const MOST_WAITING: usize = 16 * 1024;
/// Bytes that are written at once, if so many wait.
const BATCH_BYTES: usize = 64 << 10;
/// Longest time for the last lines to reach the disk.
const LAST_LINES: Duration = Duration::from_secs(1);

/// A file that gets the lines, written by a thread of its own.
pub(super) struct AccessLog {
    messages: SyncSender<Message>,
    /// Ends when all lines are written.
    written: Receiver<()>,
    left_out: Arc<AtomicU64>,
}

enum Message {
    Line(Vec<u8>),
    /// The file at the path is another one now.
    Reopen,
    End,
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
        let (messages, waiting) = sync_channel(MOST_WAITING);
        let (done, written) = sync_channel(1);
        let left_out = Arc::new(AtomicU64::new(0));
        let writer =
            Writer { path: path.to_owned(), file, left_out: left_out.clone(), fails: false };
        thread::Builder::new()
            .name("access-log".to_owned())
            .spawn(move || {
                writer.run(&waiting);
                // That nobody waits any more is no error.
                let _ = done.send(());
            })
            .map_err(cannot)?;
        Ok(Self { messages, written, left_out })
    }

    /// The server's look at its requests.
    pub(super) fn on_request(&self) -> OnRequest {
        let (messages, left_out) = (self.messages.clone(), self.left_out.clone());
        Arc::new(move |record| {
            if let Err(TrySendError::Full(_)) = messages.try_send(Message::Line(line(record))) {
                left_out.fetch_add(1, Ordering::Relaxed);
            }
        })
    }

    /// Takes the file that is at the path now, after the old one got another name.
    pub(super) fn reopen(&self) {
        let messages = self.messages.clone();
        // It waits where the disk is slow.
        tokio::task::spawn_blocking(move || drop(messages.send(Message::Reopen)));
    }

    /// Waits until the lines are written, but not for a disk that does not answer.
    pub(super) fn finish(&self) {
        if self.messages.try_send(Message::End).is_err()
            || self.written.recv_timeout(LAST_LINES).is_err()
        {
            tracing::warn!("the last lines of the access log may be missing");
        }
    }
}

fn append(path: &Path) -> std::io::Result<File> {
    File::options().append(true).create(true).open(path)
}

fn line(record: &RequestRecord<'_>) -> Vec<u8> {
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
    // JSON escapes line ends and other control characters.
    let mut line = serde_json::to_vec(&line).unwrap_or_default();
    line.push(b'\n');
    line
}

struct Writer {
    path: PathBuf,
    file: File,
    left_out: Arc<AtomicU64>,
    /// True if the last write failed, which was told.
    fails: bool,
}

impl Writer {
    fn run(mut self, waiting: &Receiver<Message>) {
        let mut batch = Vec::new();
        while let Ok(first) = waiting.recv() {
            let mut next = Some(first);
            let mut ends = false;
            while let Some(message) = next {
                match message {
                    Message::Line(line) => batch.extend_from_slice(&line),
                    Message::Reopen => {
                        self.write(&mut batch);
                        self.reopen();
                    }
                    Message::End => ends = true,
                }
                next = if batch.len() < BATCH_BYTES { waiting.try_recv().ok() } else { None };
            }
            self.write(&mut batch);
            if ends {
                return;
            }
        }
    }

    fn write(&mut self, batch: &mut Vec<u8>) {
        let written = self.file.write_all(batch);
        batch.clear();
        if let Err(error) = &written
            && !self.fails
        {
            tracing::error!("cannot write the access log {:?}: {error}; lines are lost", self.path);
        }
        self.fails = written.is_err();
        let lines = self.left_out.swap(0, Ordering::Relaxed);
        if lines > 0 {
            tracing::warn!(lines, "lines of the access log were left out: the disk is too slow");
        }
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
}
