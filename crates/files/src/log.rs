//! Text from a peer for a log or an error message: escaped, and bounded in length and in number.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// The most characters of a peer's text that are shown.
const MOST_CHARS: usize = 200;

/// Shows text that a peer may have written: without control characters, line breaks, escape
/// sequences or characters that reorder a line, and cut off after 200 characters.
pub struct Escaped<T>(pub T);

impl<T: fmt::Display> fmt::Display for Escaped<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut bounded = Bounded { to: f, left: MOST_CHARS, cut: false };
        // An error is of the formatter below, or says that there is no room for more.
        let result = fmt::write(&mut bounded, format_args!("{}", self.0));
        if bounded.cut { f.write_str("...") } else { result }
    }
}

struct Bounded<'a, 'b> {
    to: &'a mut fmt::Formatter<'b>,
    left: usize,
    cut: bool,
}

impl fmt::Write for Bounded<'_, '_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for c in text.chars() {
            if self.left == 0 {
                self.cut = true;
                return Err(fmt::Error);
            }
            self.left -= 1;
            if is_plain(c) {
                fmt::Write::write_char(self.to, c)?;
            } else {
                write!(self.to, "{}", c.escape_default())?;
            }
        }
        Ok(())
    }
}

/// True if a character shows as itself and moves nothing: no control character (C0, DEL, C1), no
/// line or paragraph separator, none of Unicode's marks of direction and of annotation, and no tag.
pub fn is_plain(c: char) -> bool {
    !c.is_control()
        && !matches!(
            c,
            '\u{61c}'
                | '\u{200e}'
                | '\u{200f}'
                | '\u{2028}'..='\u{202e}'
                | '\u{2066}'..='\u{206f}'
                | '\u{feff}'
                | '\u{fff9}'..='\u{fffb}'
                | '\u{e0000}'..='\u{e007f}'
        )
}

/// Lets a number of lines through a second, and counts the others.
pub(crate) struct RateLimit {
    start: Instant,
    per_second: u64,
    /// The second since the start, and the lines let through in it: 32 bits each.
    current: AtomicU64,
    suppressed: AtomicU64,
}

impl RateLimit {
    pub(crate) fn new(per_second: u32) -> Self {
        Self {
            start: Instant::now(),
            per_second: per_second.into(),
            current: AtomicU64::new(0),
            suppressed: AtomicU64::new(0),
        }
    }

    /// `Some` if this line may be written, with the number of those that were not since the last
    /// one.
    pub(crate) fn admit(&self) -> Option<u64> {
        self.admit_at(self.start.elapsed())
    }

    fn admit_at(&self, since: Duration) -> Option<u64> {
        let second = since.as_secs() & 0xffff_ffff;
        let update = self.current.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |packed| {
            let (at, lines) = (packed >> 32, packed & 0xffff_ffff);
            match () {
                () if at != second => Some(second << 32 | 1),
                () if lines < self.per_second => Some(packed + 1),
                () => None,
            }
        });
        if update.is_err() {
            self.suppressed.fetch_add(1, Ordering::Relaxed);
            return None;
        }
        Some(self.suppressed.swap(0, Ordering::Relaxed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_that_a_peer_writes_breaks_a_line_or_moves_the_cursor() {
        for (raw, shown) in [
            ("plain text, Grüße", "plain text, Grüße"),
            ("a\nINFO forged\r\n", "a\\nINFO forged\\r\\n"),
            ("\x1b[2J\x1b]0;title\x07", "\\u{1b}[2J\\u{1b}]0;title\\u{7}"),
            ("\u{9b}31m\u{2028}\u{202e}", "\\u{9b}31m\\u{2028}\\u{202e}"),
            ("\0\x7f", "\\u{0}\\u{7f}"),
            ("\u{61c}\u{2067}\u{e0041}", "\\u{61c}\\u{2067}\\u{e0041}"),
        ] {
            assert_eq!(Escaped(raw).to_string(), shown);
        }
    }

    #[test]
    fn a_long_text_is_cut_off() {
        let long = "x".repeat(100_000);
        assert_eq!(Escaped(&long).to_string(), format!("{}...", "x".repeat(MOST_CHARS)));
        let exact = "x".repeat(MOST_CHARS);
        assert_eq!(Escaped(&exact).to_string(), exact);
        assert!(Escaped("\u{202e}".repeat(1000)).to_string().len() < 10 * MOST_CHARS);
    }

    #[test]
    fn so_many_lines_a_second_and_the_rest_is_counted() {
        let limit = RateLimit::new(3);
        let at = |ms| limit.admit_at(Duration::from_millis(ms));
        assert_eq!([at(0), at(1), at(2), at(3), at(900)], [Some(0), Some(0), Some(0), None, None]);
        assert_eq!([at(1000), at(1001), at(1002), at(1003)], [Some(2), Some(0), Some(0), None]);
        assert_eq!(at(50_000), Some(1));
    }
}
