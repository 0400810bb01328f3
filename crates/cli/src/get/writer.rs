//! Writes what arrives to a file, on a thread that may wait for a disk or for a pipe. Many pieces
//! go in one hand-over and in one call, without a copy, while the next ones arrive.

use std::fs::File;
use std::io::{self, IoSlice, Write};
use std::sync::Arc;

use hyper::body::Bytes;
use tokio::task::{JoinHandle, spawn_blocking};

/// Bytes of one hand-over.
const BATCH_BYTES: usize = 512 * 1024;
/// Pieces of one hand-over. Each keeps the datagram that it came in, however small it is. One call
/// takes 1024 (IOV_MAX).
const BATCH_PIECES: usize = 512;

/// A file that is written to.
pub(super) struct Writer {
    file: Arc<File>,
    /// The bytes that were not handed over yet.
    pieces: Vec<Bytes>,
    bytes: usize,
    /// The reason of the write that failed: nothing that comes after it is written, or the file
    /// would have a hole.
    failed: Option<Reason>,
    /// The hand-over that is under way.
    writing: Option<JoinHandle<io::Result<()>>>,
}

impl Writer {
    pub(super) fn new(file: File) -> Self {
        Self { file: Arc::new(file), pieces: Vec::new(), bytes: 0, failed: None, writing: None }
    }

    /// Takes bytes for the file. True if a hand-over is due before the next.
    pub(super) fn push(&mut self, bytes: Bytes) -> bool {
        self.bytes += bytes.len();
        self.pieces.push(bytes);
        self.bytes >= BATCH_BYTES || self.pieces.len() >= BATCH_PIECES
    }

    /// Waits until everything is written.
    pub(super) async fn flush(&mut self) -> io::Result<()> {
        self.hand_over().await?;
        self.wait().await
    }

    /// Does something with the file once everything is written.
    pub(super) async fn after_all<T: Send + 'static>(
        &mut self,
        act: impl FnOnce(&File) -> io::Result<T> + Send + 'static,
    ) -> io::Result<T> {
        self.flush().await?;
        let file = self.file.clone();
        spawn_blocking(move || act(&file)).await?
    }

    /// Lets what was taken be written. An error may be of what was handed over before.
    pub(super) async fn hand_over(&mut self) -> io::Result<()> {
        self.wait().await?;
        if let Some(reason) = &self.failed {
            self.pieces.clear();
            return Err(reason.error());
        }
        if self.pieces.is_empty() {
            return Ok(());
        }
        let file = self.file.clone();
        let pieces = std::mem::replace(&mut self.pieces, Vec::with_capacity(BATCH_PIECES));
        self.bytes = 0;
        self.writing = Some(spawn_blocking(move || write_all(&file, &pieces)));
        Ok(())
    }

    async fn wait(&mut self) -> io::Result<()> {
        let Some(writing) = &mut self.writing else { return Ok(()) };
        let written = writing.await;
        // Not before: whoever stops to wait may come again.
        self.writing = None;
        let written = written.unwrap_or_else(|error| Err(error.into()));
        if let Err(error) = &written {
            self.failed.get_or_insert_with(|| Reason::of(error));
        }
        written
    }

    /// True if a write failed, so that no more can be written.
    pub(super) fn has_failed(&self) -> bool {
        self.failed.is_some()
    }
}

/// The reason of an error that is told more than once.
enum Reason {
    Os(i32),
    Other(io::ErrorKind, String),
}

impl Reason {
    fn of(error: &io::Error) -> Self {
        match error.raw_os_error() {
            Some(code) => Self::Os(code),
            None => Self::Other(error.kind(), error.to_string()),
        }
    }

    fn error(&self) -> io::Error {
        match self {
            Self::Os(code) => io::Error::from_raw_os_error(*code),
            Self::Other(kind, text) => io::Error::new(*kind, text.clone()),
        }
    }
}

fn write_all(mut file: &File, pieces: &[Bytes]) -> io::Result<()> {
    let mut slices: Vec<IoSlice<'_>> = pieces.iter().map(|piece| IoSlice::new(piece)).collect();
    let mut rest = &mut slices[..];
    // Without empty ones, or nothing written would look like an end.
    IoSlice::advance_slices(&mut rest, 0);
    while !rest.is_empty() {
        match file.write_vectored(rest) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(written) => IoSlice::advance_slices(&mut rest, written),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn pieces_of_every_size_arrive_in_their_order() {
        let place = tempfile::NamedTempFile::new().expect("a file");
        let file = File::options().write(true).open(place.path()).expect("the file");
        let (mut writer, mut expected) = (Writer::new(file), Vec::new());
        for number in 0..3000_usize {
            let piece = Bytes::from(vec![number as u8; number % 1700]);
            expected.extend_from_slice(&piece);
            if writer.push(piece) {
                writer.hand_over().await.expect("room for it");
            }
            assert!(writer.pieces.len() < BATCH_PIECES && writer.bytes < BATCH_BYTES);
        }
        writer.flush().await.expect("room for it");
        assert!(std::fs::read(place.path()).expect("the file") == expected);
    }

    /// Bytes behind a failed write are not put in its place.
    #[tokio::test]
    async fn nothing_follows_a_failed_write() {
        let full = File::options().write(true).open("/dev/full").expect("the device");
        let place = tempfile::NamedTempFile::new().expect("a file");
        let mut writer = Writer::new(full);
        writer.push(Bytes::from_static(b"lost"));
        writer.hand_over().await.expect("it is under way");
        writer.push(Bytes::from_static(b"behind"));
        let full = std::io::ErrorKind::StorageFull;
        assert_eq!(writer.hand_over().await.expect_err("no room").kind(), full);
        let file = File::options().write(true).open(place.path()).expect("the file");
        writer.file = Arc::new(file);
        assert_eq!(writer.flush().await.expect_err("a failure before").kind(), full);
        assert!(std::fs::read(place.path()).expect("the file").is_empty());
    }

    #[tokio::test]
    async fn an_error_is_told_at_the_end() {
        let full = File::options().write(true).open("/dev/full").expect("the device");
        let mut writer = Writer::new(full);
        assert!(!writer.push(Bytes::from_static(b"a")), "it waits");
        assert!(writer.flush().await.is_err());
    }
}
