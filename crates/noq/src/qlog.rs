//! A qlog of each connection, which qvis and readers of the newest draft open.
//!
//! noq writes the events of draft-ietf-quic-qlog-quic-events-12, as they come to its mind: some are
//! a little late, a range of packets ends behind its last one, and the delay of an acknowledgement
//! is not in milliseconds. [`QlogFiles`] puts them in order and into one [dialect].

mod dialect;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Write};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::{Instant, SystemTime};

use noq_proto::{ConnectionId, QlogConfig, QlogFactory, Side};
use serde_json::Value;

use dialect::Dialect;

/// RFC 7464: the byte before every text of a sequence.
const RECORD_SEPARATOR: u8 = 0x1e;

/// An event waits for earlier ones so long. The tasks of a connection take the time when they
/// begin, and on a busy machine each runs some milliseconds later.
const PATIENCE_US: u64 = 100_000;

/// The most events that wait, about 3 MB of them. A connection of 1 Gbit/s has as many in 50 ms.
const MOST_WAITING: usize = 8192;

/// Bytes that are written at once.
const BUFFER_BYTES: usize = 8 << 10;

/// Files in a directory, one for each end of a connection:
/// `MILLISECONDS-CONNECTIONID-SIDE.sqlog`, with the time since 1970.
///
/// For [`TransportConfig::qlog_factory`](noq_proto::TransportConfig::qlog_factory). A file is
/// complete when an end closes the connection, or it is dropped; until then its last tenth of a
/// second is missing.
#[derive(Clone, Debug)]
pub struct QlogFiles {
    directory: PathBuf,
}

impl QlogFiles {
    /// Writes into this directory, which must exist.
    pub fn new(directory: impl Into<PathBuf>) -> Self {
        Self { directory: directory.into() }
    }
}

impl QlogFactory for QlogFiles {
    fn for_connection(
        &self,
        side: Side,
        _remote: SocketAddr,
        initial_dst_cid: ConnectionId,
        now: Instant,
    ) -> Option<QlogConfig> {
        let began = SystemTime::now().checked_sub(now.elapsed())?;
        let since = began.duration_since(SystemTime::UNIX_EPOCH).ok()?.as_millis();
        let side = if side.is_client() { "client" } else { "server" };
        let title = format!("{since}-{initial_dst_cid}-{side}");
        let path = self.directory.join(format!("{title}.sqlog"));
        match File::create(&path) {
            Ok(file) => Some(QlogConfig::new(Box::new(Log::new(file, title, began)))),
            Err(error) => {
                tracing::warn!("no qlog in {path:?}: {error}");
                None
            }
        }
    }
}

/// Takes a connection's records as noq writes them, and writes them in order.
struct Log<W: Write> {
    out: W,
    title: String,
    began: SystemTime,
    /// A record whose end is not here yet.
    partial: Vec<u8>,
    dialect: Option<Dialect>,
    /// Events by their time in microseconds and the order in which they came.
    waiting: BTreeMap<(u64, u64), Vec<u8>>,
    events: u64,
    newest_us: u64,
    /// The time of the last event that waits no more.
    past_us: u64,
    buffer: Vec<u8>,
}

impl<W: Write> Log<W> {
    fn new(out: W, title: String, began: SystemTime) -> Self {
        Self {
            out,
            title,
            began,
            partial: Vec::new(),
            dialect: None,
            waiting: BTreeMap::new(),
            events: 0,
            newest_us: 0,
            past_us: 0,
            buffer: Vec::new(),
        }
    }

    fn record(&mut self, record: &[u8]) -> io::Result<()> {
        let text = record.strip_prefix(&[RECORD_SEPARATOR]).unwrap_or(record).trim_ascii();
        if text.is_empty() {
            return Ok(());
        }
        let record: Value = serde_json::from_slice(text)?;
        let Some(dialect) = &mut self.dialect else {
            let head = dialect::head(&record, &self.title, self.began);
            self.dialect = Some(Dialect::default());
            return append(&mut self.buffer, &head);
        };
        let us = record.get("time").and_then(Value::as_f64).unwrap_or(0.0) * 1e3;
        // What comes after its place has been written takes the time of the last one there.
        let us = (us.round() as u64).max(self.past_us);
        for event in dialect.event(record, us as f64 / 1e3) {
            let mut bytes = Vec::with_capacity(256);
            append(&mut bytes, &event)?;
            self.events += 1;
            self.waiting.insert((us, self.events), bytes);
        }
        if self.dialect.as_ref().is_some_and(|dialect| dialect.is_closing) {
            self.release(u64::MAX)?;
            return self.write_buffer();
        }
        self.newest_us = self.newest_us.max(us);
        self.release(self.newest_us.saturating_sub(PATIENCE_US))
    }

    /// Writes the events up to this time, and those that are too many to wait.
    fn release(&mut self, until_us: u64) -> io::Result<()> {
        loop {
            let are_many = self.waiting.len() > MOST_WAITING;
            match self.waiting.first_entry() {
                Some(first) if are_many || first.key().0 <= until_us => {
                    self.past_us = first.key().0;
                    self.buffer.extend(first.remove());
                }
                _ => break,
            }
        }
        if self.buffer.len() >= BUFFER_BYTES { self.write_buffer() } else { Ok(()) }
    }

    fn write_buffer(&mut self) -> io::Result<()> {
        let written = self.out.write_all(&self.buffer);
        self.buffer.clear();
        written
    }
}

/// A record of a sequence.
fn append(bytes: &mut Vec<u8>, value: &Value) -> io::Result<()> {
    bytes.push(RECORD_SEPARATOR);
    serde_json::to_writer(&mut *bytes, value)?;
    bytes.push(b'\n');
    Ok(())
}

impl<W: Write> Write for Log<W> {
    /// noq writes a record in many pieces, and ends it with a line.
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let Some(end) = bytes.iter().rposition(|byte| *byte == b'\n') else {
            self.partial.extend(bytes);
            return Ok(bytes.len());
        };
        self.partial.extend(&bytes[..=end]);
        let whole = std::mem::take(&mut self.partial);
        self.partial.extend(&bytes[end + 1..]);
        for record in whole.split_inclusive(|byte| *byte == b'\n') {
            self.record(record)?;
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.release(u64::MAX)?;
        self.write_buffer()?;
        self.out.flush()
    }
}

impl<W: Write> Drop for Log<W> {
    fn drop(&mut self) {
        if let Err(error) = self.flush() {
            tracing::warn!("the qlog {:?} has no end: {error}", self.title);
        }
    }
}
