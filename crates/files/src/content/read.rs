//! Reads from a file. What the system has in memory is read at once, and only what it has to get
//! from a disk goes to a thread that may wait: a hand-over to another thread costs as much as the
//! copy of some ten kilobytes.

use std::fs::File;
use std::io::ErrorKind;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use bytes::Bytes;

use super::{Disk, SendError};

/// Bytes of a piece. What a stream takes of a piece keeps the whole of it in memory.
pub(super) const PIECE_BYTES: usize = 16 * 1024;

/// Reads so many bytes from `at` on.
pub(crate) async fn read(
    disk: &Disk,
    file: &Arc<File>,
    at: u64,
    bytes: usize,
) -> Result<Bytes, SendError> {
    let mut pieces = read_pieces(disk, file, at, bytes, bytes).await?;
    Ok(pieces.pop().unwrap_or_default())
}

/// Reads so many bytes from `at` on, in pieces of a length of which only the last has less.
pub(super) async fn read_pieces(
    disk: &Disk,
    file: &Arc<File>,
    at: u64,
    bytes: usize,
    piece: usize,
) -> Result<Vec<Bytes>, SendError> {
    let empty = move || -> Vec<Vec<u8>> {
        (0..bytes).step_by(piece.max(1)).map(|from| vec![0; piece.min(bytes - from)]).collect()
    };
    let mut pieces = empty();
    let there = read_cached(file, &mut pieces, at);
    if there < bytes {
        let file = file.clone();
        // Nothing is held while others have the disk, unless there is something in it.
        let begun = (there > 0).then_some(pieces);
        let rest = move || {
            let mut pieces = begun.unwrap_or_else(empty);
            fill(&file, &mut pieces, there, at)?;
            Ok(pieces)
        };
        pieces = match disk.run(rest).await {
            Some(Ok(pieces)) => pieces,
            Some(Err(error)) => return Err(failed(error)),
            None => return Err(failed(std::io::Error::other("the read ended early"))),
        };
    }
    Ok(pieces.into_iter().map(Bytes::from).collect())
}

/// Reads what is missing of pieces whose first bytes, `there` of them all, were read already.
fn fill(file: &File, pieces: &mut [Vec<u8>], there: usize, at: u64) -> std::io::Result<()> {
    let mut skipped = 0;
    for piece in pieces {
        let from = there.saturating_sub(skipped).min(piece.len());
        file.read_exact_at(&mut piece[from..], at + (skipped + from) as u64)?;
        skipped += piece.len();
    }
    Ok(())
}

fn failed(error: std::io::Error) -> SendError {
    match error.kind() {
        ErrorKind::UnexpectedEof => SendError::CutOff,
        _ => SendError::Read(error),
    }
}

/// Reads what is in memory of it, without a wait: the bytes that were read. An error is left to the
/// read that may wait, and so is a file system that cannot tell.
#[cfg(target_os = "linux")]
fn read_cached(file: &File, pieces: &mut [Vec<u8>], at: u64) -> usize {
    use std::io::IoSliceMut;

    use rustix::io::{ReadWriteFlags, preadv2};

    let mut into: Vec<IoSliceMut<'_>> = pieces.iter_mut().map(|p| IoSliceMut::new(p)).collect();
    preadv2(file, &mut into, at, ReadWriteFlags::NOWAIT).unwrap_or(0)
}

#[cfg(not(target_os = "linux"))]
fn read_cached(_file: &File, _pieces: &mut [Vec<u8>], _at: u64) -> usize {
    0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file_of(bytes: usize) -> (tempfile::NamedTempFile, Vec<u8>) {
        let content: Vec<u8> = (0..bytes).map(|at| (at / 251 + at) as u8).collect();
        let file = tempfile::NamedTempFile::new().expect("a file");
        std::fs::write(file.path(), &content).expect("room for it");
        (file, content)
    }

    #[tokio::test]
    async fn pieces_are_the_file_whoever_read_them() {
        let (named, content) = file_of(100_000);
        let file = Arc::new(File::open(named.path()).expect("the file"));
        let disk = Disk::new();
        for (at, bytes, piece) in [(0, 100_000, 16_384), (5, 40, 16), (99_999, 1, 7), (3, 0, 9)] {
            let pieces = read_pieces(&disk, &file, at as u64, bytes, piece).await;
            let Ok(pieces) = pieces else { panic!("{bytes} bytes at {at} are there") };
            assert_eq!(pieces.concat(), content[at..at + bytes], "{bytes} at {at}");
            assert!(pieces.iter().rev().skip(1).all(|one| one.len() == piece), "{bytes} at {at}");
        }
        let whole = read(&disk, &file, 7, 1000).await;
        assert!(whole.is_ok_and(|whole| whole == content[7..1007]));
    }

    /// The system may have had any part of it.
    #[test]
    fn what_was_read_already_is_kept_and_the_rest_is_filled() {
        let (named, content) = file_of(1000);
        let file = File::open(named.path()).expect("the file");
        let at = 7;
        for there in [0, 5, 100, 101, 399, 400] {
            let mut pieces = vec![vec![0; 100]; 4];
            for (n, byte) in content[at..at + there].iter().enumerate() {
                pieces[n / 100][n % 100] = *byte;
            }
            fill(&file, &mut pieces, there, at as u64).expect("it is there");
            assert_eq!(pieces.concat(), content[at..at + 400], "{there} bytes were there");
        }
    }

    #[tokio::test]
    async fn an_end_that_comes_early_is_told() {
        let (named, _) = file_of(1000);
        let file = Arc::new(File::open(named.path()).expect("the file"));
        let disk = Disk::new();
        for (at, bytes) in [(0, 1001), (999, 2), (1000, 1), (5000, 10)] {
            let read = read_pieces(&disk, &file, at, bytes, 100).await;
            assert!(matches!(read, Err(SendError::CutOff)), "{bytes} bytes at {at}");
        }
    }
}
