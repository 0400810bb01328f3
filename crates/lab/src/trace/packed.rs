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
        [0x28, 0xB5, 0x2F, 0xFD, ..] => Some(Compression::Zstd),
        _ => None,
    };
    let content: Box<dyn BufRead + Send> = match compression {
        None => Box::new(packed),
        Some(Compression::Gzip) => {
            Box::new(BufReader::with_capacity(CHUNK, MultiGzDecoder::new(packed)))
        }
        Some(Compression::Zstd) => {
            let frames = Frames { decoder: None, source: Some(packed) };
            Box::new(BufReader::with_capacity(CHUNK, frames))
        }
    };
    Ok((content, compression))
}

/// The frames of a zstd file, one behind the other.
struct Frames<R: BufRead> {
    decoder: Option<Box<StreamingDecoder<R, ruzstd::decoding::FrameDecoder>>>,
    /// The rest of the file, while no frame is being read.
    source: Option<R>,
}

impl<R: BufRead> Read for Frames<R> {
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
            if source.fill_buf()?.is_empty() {
                return Ok(0);
            }
            let decoder = StreamingDecoder::new(source).map_err(io::Error::other)?;
            self.decoder = Some(Box::new(decoder));
        }
    }
}
