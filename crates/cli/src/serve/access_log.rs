//! The access log: one line of JSON for each request that is over.

use std::fs::File;
use std::io::Write;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError, sync_channel};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use fullpipe_files::{OnRequest, RequestRecord, is_plain};
use serde::Serialize;

use crate::failure::Failure;

/// Lines that wait for the disk, and their bytes; beyond them lines are left out, because requests
/// do not wait.
const MOST_WAITING: usize = 16 * 1024;
const MOST_WAITING_BYTES: usize = 2 << 20;
/// Bytes that are written at once, if so many wait.
const BATCH_BYTES: usize = 64 << 10;
/// Shortest time between two messages about lines that were left out.
const TELL_EVERY: Duration = Duration::from_secs(10);
/// Longest time for the last lines to reach the disk.
const LAST_LINES: Duration = Duration::from_secs(1);

/// A file that gets the lines, written by a thread of its own.
pub(super) struct AccessLog {
    queue: Queue,
    /// Ends when all lines are written.
    written: Receiver<()>,
}

/// What is on its way to the file.
#[derive(Clone)]
struct Queue {
    messages: SyncSender<Message>,
    load: Arc<Load>,
}

#[derive(Default)]
struct Load {
    /// Bytes of lines that wait or are being written.
    bytes: AtomicUsize,
    /// Lines that were left out and not told.
    left_out: AtomicU64,
}

enum Message {
    Line(Box<[u8]>),
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
        let load = Arc::<Load>::default();
        let writer =
            Writer { path: path.to_owned(), file, load: load.clone(), fails: false, told: None };
        thread::Builder::new()
            .name("access-log".to_owned())
            .spawn(move || {
                writer.run(&waiting);
                // That nobody waits any more is no error.
                let _ = done.send(());
            })
            .map_err(cannot)?;
        Ok(Self { queue: Queue { messages, load }, written })
    }

    /// The server's look at its requests.
    pub(super) fn on_request(&self) -> OnRequest {
        let queue = self.queue.clone();
        Arc::new(move |record| queue.push(line(record)))
    }

    /// Takes the file that is at the path now, after the old one got another name.
    pub(super) fn reopen(&self) {
        let messages = self.queue.messages.clone();
        // It waits where the disk is slow.
        tokio::task::spawn_blocking(move || drop(messages.send(Message::Reopen)));
    }

    /// Waits until the lines are written, but not for a disk that does not answer.
    pub(super) fn finish(&self) {
        if self.queue.messages.try_send(Message::End).is_err()
            || self.written.recv_timeout(LAST_LINES).is_err()
        {
            tracing::warn!("the last lines of the access log may be missing");
        }
    }
}

impl Queue {
    fn push(&self, line: Box<[u8]>) {
        let bytes = line.len();
        let room = |now: usize| Some(now + bytes).filter(|all| *all <= MOST_WAITING_BYTES);
        let taken = self.load.bytes.fetch_update(Ordering::Relaxed, Ordering::Relaxed, room);
        if taken.is_err() {
            return self.load.left_out();
        }
        match self.messages.try_send(Message::Line(line)) {
            Ok(()) => {}
            Err(error) => {
                self.load.bytes.fetch_sub(bytes, Ordering::Relaxed);
                if matches!(error, TrySendError::Full(_)) {
                    self.load.left_out();
                }
            }
        }
    }
}

impl Load {
    fn left_out(&self) {
        self.left_out.fetch_add(1, Ordering::Relaxed);
    }
}

fn append(path: &Path) -> std::io::Result<File> {
    File::options().append(true).create(true).open(path)
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

struct Writer {
    path: PathBuf,
    file: File,
    load: Arc<Load>,
    /// True if the last write failed, which was told.
    fails: bool,
    /// The time at which it was last told that lines were left out.
    told: Option<Instant>,
}

impl Writer {
    fn run(mut self, waiting: &Receiver<Message>) {
        let mut batch = Vec::new();
        loop {
            let first = match waiting.recv_timeout(TELL_EVERY) {
                Ok(first) => Some(first),
                Err(RecvTimeoutError::Timeout) => None,
                Err(RecvTimeoutError::Disconnected) => return,
            };
            let mut next = first;
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
            if let Some(lines) = self.left_out(Instant::now(), ends) {
                tracing::warn!(lines, "lines of the access log were left out: too many wait");
            }
            if ends {
                return;
            }
        }
    }

    fn write(&mut self, batch: &mut Vec<u8>) {
        let written = self.file.write_all(batch);
        self.load.bytes.fetch_sub(batch.len(), Ordering::Relaxed);
        batch.clear();
        if let Err(error) = &written
            && !self.fails
        {
            tracing::error!("cannot write the access log {:?}: {error}; lines are lost", self.path);
        }
        self.fails = written.is_err();
    }

    /// The number of lines that were left out, if it is to be told now.
    fn left_out(&mut self, now: Instant, ends: bool) -> Option<u64> {
        let soon = self.told.is_some_and(|told| now.duration_since(told) < TELL_EVERY);
        if soon && !ends {
            return None;
        }
        let lines = self.load.left_out.swap(0, Ordering::Relaxed);
        (lines > 0).then(|| {
            self.told = Some(now);
            lines
        })
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

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::os::unix::fs::OpenOptionsExt;

    use nix::fcntl::OFlag;
    use nix::sys::stat::Mode;

    use super::*;

    fn of(bytes: usize) -> Box<[u8]> {
        let mut line = vec![b'x'; bytes];
        line[bytes - 1] = b'\n';
        line.into()
    }

    /// The file is a FIFO whose reader takes nothing for a while.
    #[test]
    fn lines_that_wait_are_bounded_in_bytes_and_the_others_are_counted() {
        const BYTES: usize = 40_000;
        const LINES: usize = 4000;
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("fifo");
        nix::unistd::mkfifo(&path, Mode::S_IRUSR | Mode::S_IWUSR).expect("a FIFO");
        let nonblocking = OFlag::O_NONBLOCK.bits();
        let reader = File::options().read(true).custom_flags(nonblocking).open(&path);
        let log = AccessLog::open(&path).expect("a log");
        for _ in 0..LINES {
            log.queue.push(of(BYTES));
        }
        let waiting = log.queue.load.bytes.load(Ordering::Relaxed);
        assert!(waiting <= MOST_WAITING_BYTES, "{waiting} bytes");
        let left_out = log.queue.load.left_out.load(Ordering::Relaxed) as usize;
        assert!(left_out >= LINES - 2 * MOST_WAITING_BYTES / BYTES, "{left_out} lines");
        // A blocking one, which takes all that was not left out.
        let mut reader_of_all = File::open(&path).expect("the FIFO");
        drop(reader);
        let mut all = vec![0; (LINES - left_out) * BYTES];
        reader_of_all.read_exact(&mut all).expect("the lines");
        assert!(all.chunks(BYTES).all(|line| *line == *of(BYTES)), "lines are whole");
        log.finish();
        assert_eq!(log.queue.load.bytes.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn it_is_told_now_and_then_and_at_the_end() {
        let file = tempfile::tempfile().expect("a file");
        let load = Arc::<Load>::default();
        let path = PathBuf::new();
        let mut writer = Writer { path, file, load: load.clone(), fails: false, told: None };
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        assert_eq!(writer.left_out(at(0), false), None, "there are none");
        load.left_out();
        assert_eq!(writer.left_out(at(1), false), Some(1));
        for second in 2..11 {
            load.left_out();
            assert_eq!(writer.left_out(at(second), false), None);
        }
        assert_eq!(writer.left_out(at(11), false), Some(9));
        load.left_out();
        assert_eq!(writer.left_out(at(12), true), Some(1));
    }

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
}
