//! Files that are packed with gzip or zstd, read as if they were not.

use std::io::{self, BufRead, BufReader, Read};

use flate2::bufread::MultiGzDecoder;
use ruzstd::decoding::StreamingDecoder;

/// Bytes that are read at a time.
const CHUNK: usize = 64 << 10;

/// Compression of a file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Compression {
    /// gzip.
    Gzip,
    /// Zstandard.
    Zstd,
}

impl Compression {
    /// Its usual name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Gzip => "gzip",
            Self::Zstd => "zstd",
        }
    }
}

/// The content of a file, and how it was packed, which its first bytes show.
///
/// # Errors
/// The file cannot be read.
pub fn unpacked(
    file: impl Read + Send + 'static,
) -> io::Result<(Box<dyn BufRead + Send>, Option<Compression>)> {
    let mut packed = BufReader::with_capacity(CHUNK, file);
    let compression = match packed.fill_buf()? {
        [0x1F, 0x8B, ..] => Some(Compression::Gzip),
        [0x28, 0xB5, 0x2F, 0xFD, ..] | [0x50..=0x5F, 0x2A, 0x4D, 0x18, ..] => {
            Some(Compression::Zstd)
        }
        _ => None,
    };
    let content: Box<dyn BufRead + Send> = match compression {
        None => Box::new(packed),
        Some(Compression::Gzip) => {
            Box::new(BufReader::with_capacity(CHUNK, MultiGzDecoder::new(packed)))
        }
        Some(Compression::Zstd) => {
            let source = Source { ahead: [0; 4], held: 0, inner: packed };
            let frames = Frames { decoder: None, source: Some(source) };
            Box::new(BufReader::with_capacity(CHUNK, frames))
        }
    };
    Ok((content, compression))
}

/// A zstd file, of which up to four bytes were read ahead.
struct Source<R> {
    ahead: [u8; 4],
    /// The number of them that are still to be read: the last ones.
    held: usize,
    inner: R,
}

impl<R: Read> Read for Source<R> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        if self.held == 0 {
            return self.inner.read(out);
        }
        let mut held = &self.ahead[self.ahead.len() - self.held..];
        let read = held.read(out)?;
        self.held -= read;
        Ok(read)
    }
}

impl<R: Read> Source<R> {
    /// True where another frame of data begins; the frames before it that hold none are passed by
    /// (RFC 8878 section 3.1.2), as programs that pack in parallel write them.
    fn is_at_frame(&mut self) -> io::Result<bool> {
        loop {
            let mut magic = [0; 4];
            match self.read(&mut magic[..1])? {
                0 => return Ok(false),
                _ => self.read_exact(&mut magic[1..])?,
            }
            let [0x50..=0x5F, 0x2A, 0x4D, 0x18] = magic else {
                (self.ahead, self.held) = (magic, 4);
                return Ok(true);
            };
            let mut length = [0; 4];
            self.read_exact(&mut length)?;
            let length = u64::from(u32::from_le_bytes(length));
            if io::copy(&mut self.by_ref().take(length), &mut io::sink())? < length {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
    }
}

/// The frames of a zstd file, one behind the other.
struct Frames<R: Read> {
    decoder: Option<Box<StreamingDecoder<Source<R>, ruzstd::decoding::FrameDecoder>>>,
    /// The rest of the file, while no frame is being read.
    source: Option<Source<R>>,
}

impl<R: Read> Read for Frames<R> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        loop {
            if let Some(decoder) = &mut self.decoder {
                let read = decoder.read(out)?;
                if read > 0 || out.is_empty() {
                    return Ok(read);
                }
                self.source = self.decoder.take().map(|decoder| decoder.into_inner());
            }
            let Some(mut source) = self.source.take() else { return Ok(0) };
            if !source.is_at_frame()? {
                return Ok(0);
            }
            let decoder = StreamingDecoder::new(source).map_err(io::Error::other)?;
            self.decoder = Some(Box::new(decoder));
        }
    }
}
