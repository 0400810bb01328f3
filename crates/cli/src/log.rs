//! The log on stderr: one line an event, whatever a peer managed to get into it.

use std::io::{self, Stderr, Write, stderr};
use std::sync::{LazyLock, Mutex, PoisonError};
use std::time::SystemTime;

use tracing_subscriber::fmt::writer::BoxMakeWriter;

use crate::lines::{Lines, Sink, WholeLines};

/// Writes lines to stderr, whichever thread has them.
pub(crate) fn write_to_stderr(lines: &[u8]) -> io::Result<()> {
    static STDERR: LazyLock<Mutex<WholeLines<Stderr>>> =
        LazyLock::new(|| Mutex::new(WholeLines::new(stderr(), false)));
    STDERR.lock().unwrap_or_else(PoisonError::into_inner).write(lines)
}

/// The log on its way to stderr.
pub(crate) enum Log {
    /// Written where an event is, so that it is in order with what else is on stderr.
    AtOnce,
    /// Written by a thread of its own, so that a reader that takes nothing stops no server.
    Apart(Lines),
}

impl Log {
    /// The log of a program that goes on whoever reads it, or of one that does not.
    pub(crate) fn start(goes_on: bool) -> Self {
        let lines = goes_on.then(|| Lines::start("log", ToStderr));
        // Without a thread for it the program will hardly have its own ones, and says so.
        lines.and_then(Result::ok).map_or(Self::AtOnce, Self::Apart)
    }

    pub(crate) fn writer(&self) -> BoxMakeWriter {
        match self {
            Self::AtOnce => BoxMakeWriter::new(|| Escaping(ToStderr)),
            Self::Apart(lines) => {
                let queue = lines.queue();
                BoxMakeWriter::new(move || Escaping(queue.clone()))
            }
        }
    }

    /// The last line of the program, behind all others.
    pub(crate) fn say(&self, line: &str) {
        match self {
            Self::AtOnce => crate::say(line),
            Self::Apart(lines) => lines.queue().push(format!("{line}\n").into_bytes().into()),
        }
    }

    /// Waits until all is written, but not for a reader that takes nothing.
    pub(crate) fn finish(&self) {
        if let Self::Apart(lines) = self {
            // Whoever could be told that something is missing is not reading.
            let _ = lines.finish();
        }
    }
}

struct ToStderr;

/// Each write is a line.
impl Write for ToStderr {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        write_to_stderr(line)?;
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Sink for ToStderr {
    fn write(&mut self, lines: &[u8]) -> io::Result<()> {
        write_to_stderr(lines)
    }

    /// There is no other place to say it.
    fn failed(&mut self, _error: &io::Error) {}

    fn left_out(&mut self, lines: u64) {
        let now = humantime::format_rfc3339_micros(SystemTime::now());
        crate::say(&format!(
            "{now}  WARN lines of the log were left out: too many wait lines={lines}"
        ));
    }
}

/// Escapes control characters, all but the line break at the end of an event, which the subscriber
/// writes as one.
pub(crate) struct Escaping<W>(pub(crate) W);

impl<W: Write> Write for Escaping<W> {
    fn write(&mut self, event: &[u8]) -> io::Result<usize> {
        let (text, end) = match event.strip_suffix(b"\n") {
            Some(text) => (text, "\n"),
            None => (event, ""),
        };
        let text = String::from_utf8_lossy(text);
        if text.contains(char::is_control) {
            let escaped: String = text.chars().map(escape).collect();
            self.0.write_all(format!("{escaped}{end}").as_bytes())?;
        } else {
            self.0.write_all(event)?;
        }
        Ok(event.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

fn escape(c: char) -> String {
    if c.is_control() { c.escape_default().to_string() } else { c.to_string() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_is_one_line_of_plain_text() {
        for (event, line) in [
            ("plain, Gr\u{fc}\u{df}e\n", "plain, Gr\u{fc}\u{df}e\n"),
            ("a\nforged\n", "a\\nforged\n"),
            ("\x1b[31mred\u{9b}0m\r\n", "\\u{1b}[31mred\\u{9b}0m\\r\n"),
        ] {
            let mut out = Escaping(Vec::new());
            out.write_all(event.as_bytes()).expect("memory");
            assert_eq!(String::from_utf8_lossy(&out.0), line);
        }
    }
}
