//! The log on stderr: one line an event, whatever a peer managed to get into it.

use std::io::{self, Write};

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
