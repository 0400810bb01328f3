//! An error in a file, and its place.

use std::borrow::Cow;
use std::fmt;

/// A scenario file that cannot be run: one line with the file, the line in it, the field, what is
/// wrong and what would be right.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FileError {
    /// The file as it was named.
    pub file: String,
    /// The line, from 1; `None` when the file as a whole is meant.
    pub line: Option<usize>,
    /// The field as a path, `flow[0].stop`; empty when no field is meant.
    pub field: String,
    /// The mistake, and a correct form.
    pub message: String,
}

impl std::error::Error for FileError {}

impl fmt::Display for FileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.file)?;
        if let Some(line) = self.line {
            write!(f, ":{line}")?;
        }
        if !self.field.is_empty() {
            write!(f, ": {}", shortened(&self.field, 100))?;
        }
        // A parser's message may have several lines, and quotes what stands in the file.
        let message: Vec<&str> = self.message.lines().map(str::trim).collect();
        write!(f, ": {}", shortened(&message.join(", "), 850))
    }
}

/// A field and what is wrong with it, before it is known where the field stands.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Wrong {
    /// The field's path in the file.
    pub field: String,
    /// The mistake, and what to write instead, in one line.
    pub message: String,
}

impl Wrong {
    /// A mistake in this field.
    pub fn new(field: impl Into<String>, message: impl fmt::Display) -> Self {
        Self { field: field.into(), message: message.to_string() }
    }
}

impl fmt::Display for Wrong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.field, self.message)
    }
}

/// A text of at most about `most` characters: the middle of a longer one is left out.
pub fn shortened(text: &str, most: usize) -> Cow<'_, str> {
    let length = text.chars().count();
    if length <= most {
        return Cow::Borrowed(text);
    }
    let head: String = text.chars().take(most / 2).collect();
    let tail: String = text.chars().skip(length - most / 2).collect();
    Cow::Owned(format!("{head} ... {tail}"))
}
