//! Lines that a thread of its own writes, so that whoever has one never waits for their reader; and
//! what is done about a line that a failed write cut.

use std::fs::File;
use std::io::{self, Stderr, Write};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

use nix::sys::stat::{SFlag, fstat};

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
pub(crate) trait Sink: Send + 'static {
    fn write(&mut self, lines: &[u8]) -> io::Result<()>;

    /// The file at its path is another one now.
    fn reopen(&mut self) {}

    /// Lines are lost, and the ones before them were not.
    fn failed(&mut self, error: &io::Error);

    /// So many lines were left out.
    fn left_out(&mut self, lines: u64);
}

/// A place where lines come to lie behind each other.
pub(crate) trait Place: Write {
    /// True if nothing is there, or nothing any more: whoever rotates files may truncate one.
    fn is_empty(&self) -> bool;
}

impl Place for File {
    fn is_empty(&self) -> bool {
        is_empty_file(self)
    }
}

impl Place for Stderr {
    fn is_empty(&self) -> bool {
        is_empty_file(self)
    }
}

fn is_empty_file(place: impl AsFd) -> bool {
    let file = SFlag::S_IFREG.bits();
    fstat(place).is_ok_and(|is| is.st_size == 0 && is.st_mode & SFlag::S_IFMT.bits() == file)
}

/// A place for whole lines. A write that fails, on a full disk say, can cut one: it is ended before
/// the next, or that would look like its rest.
pub(crate) struct WholeLines<W> {
    to: W,
    /// True if the last byte is none of a line's end.
    is_cut: bool,
}

impl<W> WholeLines<W> {
    pub(crate) const fn new(to: W, is_cut: bool) -> Self {
        Self { to, is_cut }
    }
}

impl<W: Place> WholeLines<W> {
    /// Writes lines, with their ends.
    pub(crate) fn write(&mut self, lines: &[u8]) -> io::Result<()> {
        if self.is_cut && !self.to.is_empty() {
            self.write_all(b"\n")?;
        }
        self.write_all(lines)
    }

    fn write_all(&mut self, mut rest: &[u8]) -> io::Result<()> {
        while !rest.is_empty() {
            match self.to.write(rest) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(written) => {
                    self.is_cut = rest[..written].last() != Some(&b'\n');
                    rest = &rest[written..];
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
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
        self.finish_within(LAST_LINES)
    }

    fn finish_within(&self, most: Duration) -> bool {
        let begun = Instant::now();
        while self.queue.messages.try_send(Message::End).is_err() {
            if begun.elapsed() > most {
                return false;
            }
            // As many lines as there may be wait: a reader that is slow makes room.
            thread::sleep(Duration::from_millis(10));
        }
        self.written.recv_timeout(most.saturating_sub(begun.elapsed())).is_ok()
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
        let written = self.sink.write(batch);
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
    use std::io::Read;
    use std::os::fd::OwnedFd;
    use std::os::unix::fs::OpenOptionsExt;

    use nix::fcntl::OFlag;
    use nix::sys::stat::Mode;

    use super::*;

    /// A file, and the lines that were left out as it was told.
    struct Counting(File, Arc<AtomicU64>);

    impl Sink for Counting {
        fn write(&mut self, lines: &[u8]) -> io::Result<()> {
            self.0.write_all(lines)
        }

        fn failed(&mut self, error: &io::Error) {
            panic!("{error}");
        }

        fn left_out(&mut self, lines: u64) {
            self.1.fetch_add(lines, Ordering::Relaxed);
        }
    }

    /// Lines to a file, and the number of those that it was told were left out.
    fn start(file: impl Into<File>) -> (Lines, Arc<AtomicU64>) {
        let told = Arc::<AtomicU64>::default();
        let sink = Counting(file.into(), told.clone());
        (Lines::start("lines", sink).expect("a thread"), told)
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
        let (log, told) = start(fifo);
        for _ in 0..LINES {
            log.queue.push(of(BYTES));
        }
        let waiting = log.queue.load.bytes.load(Ordering::Relaxed);
        assert!(waiting <= MOST_WAITING_BYTES, "{waiting} bytes");
        // A blocking one, which takes all that was not left out.
        let mut reader_of_all = File::open(&path).expect("the FIFO");
        drop(reader);
        log.queue.messages.send(Message::End).expect("the thread");
        let mut all = Vec::new();
        reader_of_all.read_to_end(&mut all).expect("the lines");
        assert_eq!(log.queue.load.bytes.load(Ordering::Relaxed), 0);
        let left_out = told.load(Ordering::Relaxed) as usize;
        assert!(left_out >= LINES - 2 * MOST_WAITING_BYTES / BYTES, "{left_out} lines");
        assert_eq!(all.len(), (LINES - left_out) * BYTES);
        assert!(all.chunks(BYTES).all(|line| *line == *of(BYTES)), "lines are whole");
    }

    #[test]
    fn it_is_told_now_and_then_and_at_the_end() {
        let file = tempfile::tempfile().expect("a file");
        let (load, sink) = (Arc::<Load>::default(), Counting(file, Arc::default()));
        let mut writer = Writer { sink, load: load.clone(), fails: false, told: None };
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
        let (log, told) = start(OwnedFd::from(writer));
        for _ in 0..2 * MOST_WAITING {
            log.queue.push(of(20));
        }
        let reading = thread::spawn(move || {
            thread::sleep(Duration::from_millis(100));
            let mut all = Vec::new();
            reader.read_to_end(&mut all).map(|_| all)
        });
        assert!(log.finish_within(Duration::from_secs(60)));
        let left_out = told.load(Ordering::Relaxed) as usize;
        let all = reading.join().expect("no panic").expect("the lines");
        assert_eq!(all.len() / 20, 2 * MOST_WAITING - left_out);
        assert!(all.len() / 20 >= MOST_WAITING, "{} lines", all.len() / 20);
    }

    #[test]
    fn the_end_does_not_wait_for_a_reader_that_takes_nothing() {
        let (_reader, writer) = std::io::pipe().expect("a pipe");
        let (log, _) = start(OwnedFd::from(writer));
        for _ in 0..100 {
            log.queue.push(of(10_000));
        }
        assert!(!log.finish_within(Duration::from_millis(10)));
    }

    /// A disk that takes so many bytes in all, and seven at a time.
    struct Disk {
        room: usize,
        has: Vec<u8>,
    }

    impl Write for Disk {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            if self.room == 0 {
                return Err(io::ErrorKind::StorageFull.into());
            }
            let taken = bytes.len().min(self.room).min(7);
            self.room -= taken;
            self.has.extend_from_slice(&bytes[..taken]);
            Ok(taken)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    impl Place for Disk {
        fn is_empty(&self) -> bool {
            self.has.is_empty()
        }
    }

    /// Wherever the disk is full.
    #[test]
    fn a_line_that_is_cut_is_not_continued_by_the_next() {
        let before = b"the first one\nthe second one\n";
        for room in 0..=before.len() {
            let mut lines = WholeLines::new(Disk { room, has: Vec::new() }, false);
            assert_eq!(lines.write(before).is_err(), room < before.len());
            lines.write(b"lost\n").expect_err("it stays full");
            lines.to.room = usize::MAX;
            lines.write(b"the last one\n").expect("there is room");
            let text = String::from_utf8(lines.to.has).expect("text");
            let (last, whole) = (text.lines().last(), &before[..room]);
            assert_eq!(last, Some("the last one"), "{text:?}");
            assert!(text.as_bytes().starts_with(whole), "{text:?}");
            let ends = usize::from(whole.last().is_some_and(|byte| *byte != b'\n'));
            assert_eq!(text.len(), room + ends + "the last one\n".len(), "{text:?}");
        }
    }

    /// The end of a line that was cut may itself be all there is room for.
    #[test]
    fn what_an_earlier_program_cut_is_ended_too() {
        let mut lines = WholeLines::new(Disk { room: 1, has: b"cut".to_vec() }, true);
        lines.write(b"lost\n").expect_err("there is no room");
        lines.to.room = usize::MAX;
        lines.write(b"next\n").expect("there is room");
        assert_eq!(lines.to.has, b"cut\nnext\n");
    }

    /// As `copytruncate` of logrotate does it to make room on the disk.
    #[test]
    fn a_cut_line_that_is_gone_leaves_no_empty_one() {
        let mut lines = WholeLines::new(Disk { room: 3, has: Vec::new() }, false);
        lines.write(b"cut off\n").expect_err("there is no room");
        lines.to = Disk { room: usize::MAX, has: Vec::new() };
        lines.write(b"next\n").expect("there is room");
        assert_eq!(lines.to.has, b"next\n");
    }

    #[test]
    fn a_file_is_empty_once_it_is_truncated_and_a_pipe_never_is() {
        let mut file = tempfile::tempfile().expect("a file");
        assert!(Place::is_empty(&file));
        file.write_all(b"cut").expect("there is room");
        assert!(!Place::is_empty(&file));
        file.set_len(0).expect("it is truncated");
        assert!(Place::is_empty(&file));
        let (_reader, writer) = std::io::pipe().expect("a pipe");
        assert!(!is_empty_file(&writer));
    }
}
