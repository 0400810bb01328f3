//! Lines that a thread of its own writes, so that whoever has one never waits for their reader.

use std::io::{self, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

/// Lines that wait for their reader, and their bytes; beyond them lines are left out.
const MOST_WAITING: usize = 16 * 1024;
const MOST_WAITING_BYTES: usize = 2 << 20;
/// Bytes that are written at once, if so many wait.
const BATCH_BYTES: usize = 64 << 10;
/// Shortest time between two messages about lines that were left out.
const TELL_EVERY: Duration = Duration::from_secs(10);
/// Longest time for the last lines to be written.
const LAST_LINES: Duration = Duration::from_secs(1);

/// The place of the lines.
pub(crate) trait Sink: Write + Send + 'static {
    /// The file at its path is another one now.
    fn reopen(&mut self) {}

    /// Lines are lost, and the ones before them were not.
    fn failed(&mut self, error: &io::Error);

    /// So many lines were left out.
    fn left_out(&mut self, lines: u64);
}

/// Lines on their way to a sink.
pub(crate) struct Lines {
    queue: Queue,
    /// Ends when all lines are written.
    written: Receiver<()>,
}

/// The way of lines to their thread.
#[derive(Clone)]
pub(crate) struct Queue {
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
    Reopen,
    End,
}

impl Lines {
    /// Starts the thread, which has this name.
    pub(crate) fn start(name: &str, sink: impl Sink) -> io::Result<Self> {
        let (messages, waiting) = sync_channel(MOST_WAITING);
        let (done, written) = sync_channel(1);
        let load = Arc::<Load>::default();
        let writer = Writer { sink, load: load.clone(), fails: false, told: None };
        thread::Builder::new().name(name.to_owned()).spawn(move || {
            writer.run(&waiting);
            // That nobody waits any more is no error.
            let _ = done.send(());
        })?;
        Ok(Self { queue: Queue { messages, load }, written })
    }

    pub(crate) fn queue(&self) -> Queue {
        self.queue.clone()
    }

    /// Waits until the lines are written, but not for a reader that takes nothing. True if they
    /// are.
    pub(crate) fn finish(&self) -> bool {
        let begun = Instant::now();
        while self.queue.messages.try_send(Message::End).is_err() {
            if begun.elapsed() > LAST_LINES {
                return false;
            }
            // As many lines as there may be wait: a reader that is slow makes room.
            thread::sleep(Duration::from_millis(10));
        }
        self.written.recv_timeout(LAST_LINES.saturating_sub(begun.elapsed())).is_ok()
    }
}

impl Queue {
    pub(crate) fn push(&self, line: Box<[u8]>) {
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

    /// Has the sink opened again, behind the lines that wait. Blocks where their reader is slow.
    pub(crate) fn reopen(&self) {
        // The thread is gone at the end alone.
        let _ = self.messages.send(Message::Reopen);
    }
}

/// Each write is a line.
impl Write for Queue {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        self.push(line.into());
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Load {
    fn left_out(&self) {
        self.left_out.fetch_add(1, Ordering::Relaxed);
    }
}

struct Writer<S> {
    sink: S,
    load: Arc<Load>,
    /// True if the last write failed, which was told.
    fails: bool,
    /// The time at which it was last told that lines were left out.
    told: Option<Instant>,
}

impl<S: Sink> Writer<S> {
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
                        self.sink.reopen();
                    }
                    Message::End => ends = true,
                }
                next = if batch.len() < BATCH_BYTES { waiting.try_recv().ok() } else { None };
            }
            self.write(&mut batch);
            if let Some(lines) = self.left_out(Instant::now(), ends) {
                self.sink.left_out(lines);
            }
            if ends {
                return;
            }
        }
    }

    fn write(&mut self, batch: &mut Vec<u8>) {
        // Writing nothing always works, and says nothing of the lines.
        if batch.is_empty() {
            return;
        }
        let written = self.sink.write_all(batch);
        self.load.bytes.fetch_sub(batch.len(), Ordering::Relaxed);
        batch.clear();
        if let Err(error) = &written
            && !self.fails
        {
            self.sink.failed(error);
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
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::io::Read;
    use std::os::unix::fs::OpenOptionsExt;

    use nix::fcntl::OFlag;
    use nix::sys::stat::Mode;

    use super::*;

    impl Sink for File {
        fn failed(&mut self, error: &io::Error) {
            panic!("{error}");
        }

        fn left_out(&mut self, _lines: u64) {}
    }

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
        let fifo = File::options().write(true).open(&path).expect("the FIFO");
        let log = Lines::start("lines", fifo).expect("a thread");
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
        assert!(log.finish());
        assert_eq!(log.queue.load.bytes.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn it_is_told_now_and_then_and_at_the_end() {
        let file = tempfile::tempfile().expect("a file");
        let load = Arc::<Load>::default();
        let mut writer = Writer { sink: file, load: load.clone(), fails: false, told: None };
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

    /// As many short lines as may wait, and a reader that begins late.
    #[test]
    fn the_end_waits_for_a_reader_that_is_slow() {
        let (mut reader, writer) = std::io::pipe().expect("a pipe");
        let log = Lines::start("lines", File::from(std::os::fd::OwnedFd::from(writer)));
        let log = log.expect("a thread");
        for _ in 0..2 * MOST_WAITING {
            log.queue.push(of(20));
        }
        let reading = thread::spawn(move || {
            thread::sleep(Duration::from_millis(100));
            let mut all = Vec::new();
            reader.read_to_end(&mut all).map(|_| all)
        });
        assert!(log.finish());
        let left_out = log.queue.load.left_out.load(Ordering::Relaxed) as usize;
        drop(log);
        let all = reading.join().expect("no panic").expect("the lines");
        assert!(all.len() / 20 <= 2 * MOST_WAITING - left_out, "{left_out} were left out");
        assert!(all.len() / 20 >= MOST_WAITING, "{} lines", all.len() / 20);
    }

    #[test]
    fn the_end_does_not_wait_for_a_reader_that_takes_nothing() {
        let (_reader, writer) = std::io::pipe().expect("a pipe");
        let log = Lines::start("lines", File::from(std::os::fd::OwnedFd::from(writer)));
        let log = log.expect("a thread");
        for _ in 0..100 {
            log.queue.push(of(10_000));
        }
        let begun = Instant::now();
        assert!(!log.finish());
        assert!(begun.elapsed() < 3 * LAST_LINES, "{:?}", begun.elapsed());
    }
}
