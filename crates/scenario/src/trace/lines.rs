//! A file's lines, whatever they end with and however the file is packed.

use std::fs::File;
use std::io::{self, BufRead, Read};
use std::path::Path;

use super::packed::{Compression, unpacked};
use super::{TraceFileError, wrong};

/// A longer line belongs to no table of numbers.
const MAX_LINE: usize = 64 << 10;

/// The most bytes of JSON, which is read as a whole.
const MAX_JSON: u64 = 64 << 20;

/// First bytes of files that are something else, and what to do with those.
const OTHERS: [(&[u8], &str); 8] = [
    (&[0xFF, 0xFE], "it is UTF-16 text; save it as UTF-8"),
    (&[0xFE, 0xFF], "it is UTF-16 text; save it as UTF-8"),
    (b"PK\x03\x04", "it is a zip archive, or a spreadsheet; write a text file of rows, as CSV"),
    (b"BZh", "it is compressed with bzip2; write it as text, gzip or zstd"),
    (&[0xFD, b'7', b'z', b'X'], "it is compressed with xz; write it as text, gzip or zstd"),
    (&[0x0A, 0x0D, 0x0D, 0x0A], "it is a capture of packets; a trace has rows of time and rate"),
    (&[0xD4, 0xC3, 0xB2, 0xA1], "it is a capture of packets; a trace has rows of time and rate"),
    (b"PAR1", "it is a Parquet file; write a text file of rows, as CSV"),
];

/// The lines of a file, which end with LF, CR LF or CR.
pub(super) struct Lines {
    from: Box<dyn BufRead + Send>,
    /// True if the last line ended with CR: an LF right behind belongs to it.
    after_cr: bool,
    raw: Vec<u8>,
    number: usize,
}

impl Lines {
    /// The lines of a regular file.
    pub(super) fn open(path: &Path) -> Result<(Self, Option<Compression>), TraceFileError> {
        let cannot = |e: io::Error| TraceFileError(e.to_string());
        // A pipe would be waited for, and a device may never end.
        if !std::fs::metadata(path).map_err(cannot)?.is_file() {
            return wrong("no regular file; write the name of one");
        }
        Self::of(File::open(path).map_err(cannot)?)
    }

    pub(super) fn of(
        file: impl Read + Send + 'static,
    ) -> Result<(Self, Option<Compression>), TraceFileError> {
        let cannot = |e: io::Error| TraceFileError(format!("it cannot be read: {e}"));
        let (mut from, compression) = unpacked(file).map_err(cannot)?;
        let start = from.fill_buf().map_err(cannot)?;
        if let Some((_, why)) = OTHERS.iter().find(|(magic, _)| start.starts_with(magic)) {
            return wrong(*why);
        }
        Ok((Self { from, after_cr: false, raw: Vec::new(), number: 0 }, compression))
    }

    /// The whole content of a file in JSON, of which no line was read; nothing of another one.
    pub(super) fn json(&mut self) -> Result<Option<Vec<u8>>, TraceFileError> {
        let cannot = |e: io::Error| TraceFileError(format!("it cannot be read: {e}"));
        let start = self.from.fill_buf().map_err(cannot)?;
        let mark: &[u8] = b"\xEF\xBB\xBF";
        let before = if start.starts_with(mark) { mark.len() } else { 0 };
        let mut bytes = start[before..].iter().filter(|byte| !byte.is_ascii_whitespace());
        // ping -D begins its lines with a time in brackets.
        let is_json = match bytes.next() {
            Some(b'{') => true,
            Some(b'[') => bytes.next() == Some(&b'{'),
            _ => false,
        };
        if !is_json {
            return Ok(None);
        }
        self.from.consume(before);
        let mut text = Vec::new();
        self.from.by_ref().take(MAX_JSON + 1).read_to_end(&mut text).map_err(cannot)?;
        if text.len() as u64 > MAX_JSON {
            return wrong(format!(
                "more than {} MB of JSON; make a table of it, as with jq and its @csv",
                MAX_JSON >> 20
            ));
        }
        Ok(Some(text))
    }

    /// The number of the last line, from 1.
    pub(super) fn number(&self) -> usize {
        self.number
    }

    /// Reads a line without its end; false when there is none.
    pub(super) fn next(&mut self, line: &mut String) -> Result<bool, TraceFileError> {
        self.raw.clear();
        self.number += 1;
        let mut is_there = false;
        loop {
            let chunk = match self.from.fill_buf() {
                Ok(chunk) => chunk,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => continue,
                Err(e) => return wrong(format!("line {}: it cannot be read: {e}", self.number)),
            };
            if chunk.is_empty() {
                break;
            }
            if std::mem::take(&mut self.after_cr) && chunk[0] == b'\n' {
                self.from.consume(1);
                continue;
            }
            is_there = true;
            let end = chunk.iter().position(|byte| matches!(byte, b'\n' | b'\r'));
            self.raw.extend_from_slice(&chunk[..end.unwrap_or(chunk.len())]);
            let used = end.map_or(chunk.len(), |end| {
                self.after_cr = chunk[end] == b'\r';
                end + 1
            });
            self.from.consume(used);
            if self.raw.len() > MAX_LINE {
                return wrong(format!(
                    "line {}: longer than {MAX_LINE} bytes; a trace has a time or a row a line",
                    self.number
                ));
            }
            if end.is_some() {
                break;
            }
        }
        if self.raw.contains(&0) {
            return wrong(format!(
                "line {}: it is no text; a trace has rows of numbers",
                self.number
            ));
        }
        line.clear();
        let text = String::from_utf8_lossy(&self.raw);
        // The mark that editors on Windows put at the beginning.
        let text = if self.number == 1 { text.trim_start_matches('\u{feff}') } else { &text };
        line.push_str(text);
        Ok(is_there)
    }
}
