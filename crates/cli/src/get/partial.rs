//! A file of which a part is there: `--continue`. The part has its name beside that of the file,
//! and a second file says which URL it is of, and of which content (RFC 9110 section 8.8).

use std::fs::{File, Permissions};
use std::io::{self, Seek, SeekFrom};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use hyper::header::{
    CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_RANGE, HeaderName, HeaderValue, IF_RANGE, RANGE,
};
use hyper::{HeaderMap, StatusCode};
use nix::fcntl::Flock;

use super::content_range::{content_range, is_of_several_ranges, number_of};
use super::names::{locked, names_beside};
use super::note::Note;
use super::validator::{encoding_of, strong_tag, validator_of};

/// Most bytes of a Content-Encoding, so that its note can be read.
const MOST_OF_AN_ENCODING: usize = 1024;

/// The part of a file.
pub(super) struct Partial {
    part: PathBuf,
    note: PathBuf,
    url: String,
    /// Bytes that were there at the beginning.
    had: u64,
    /// The length of the whole, from the answer that continues the part.
    whole: Option<u64>,
    /// Bytes of the rest that the answer may still bring; none is a whole answer's.
    left: Option<u64>,
    /// The version that the part is of; without it, the part is not continued and goes with this.
    validator: Option<String>,
    /// The part's Content-Encoding.
    encoding: Option<String>,
    /// The mode of the file that it replaces. The part itself can be written in any case, or it
    /// could not be continued.
    mode: Option<u32>,
    /// One process at a time.
    lock: Option<Flock<File>>,
    is_done: bool,
}

/// The place of the body of an answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Start {
    /// It begins at this byte of the file.
    At(u64),
    /// There is nothing to come: the part is the whole.
    Whole,
    /// The answer is of no use; ask for the whole.
    Again,
}

impl Partial {
    /// Opens or makes the part of `path`, which is to have this mode when it is complete.
    ///
    /// # Errors
    /// The part cannot be opened, is another process's, or has bytes and no note, so that it may be
    /// a file of somebody else.
    pub(super) fn open(
        path: &Path,
        url: &str,
        mode: Option<Permissions>,
    ) -> io::Result<(Self, File)> {
        let [part, note] = names_beside(path);
        // A note that cannot be read leaves no part behind.
        Note::read(&note)?;
        let (mut file, lock) = locked(&part)?;
        let known = Note::read(&note)?;
        if known.is_none() && file.metadata()?.len() > 0 {
            return Err(io::Error::other(format!(
                "{} is there, and no {} says of which URL it is; move it away",
                part.display(),
                note.display()
            )));
        }
        let known = known.filter(|known| known.url == url);
        let mode = mode.map(|mode| mode.mode());
        if let Some(mode) = mode {
            file.set_permissions(Permissions::from_mode(mode | 0o200))?;
        }
        let (validator, encoding) =
            known.map_or((None, None), |known| (known.validator, known.encoding));
        let had = match &validator {
            Some(_) => file.seek(SeekFrom::End(0))?,
            None => 0,
        };
        file.set_len(had)?;
        let url = url.to_owned();
        let (whole, left, lock) = (None, None, Some(lock));
        let is_done = false;
        let partial =
            Self { part, note, url, had, whole, left, validator, encoding, mode, lock, is_done };
        Ok((partial, file))
    }

    /// The fields that ask for the rest; none if nothing is there.
    pub(super) fn fields(&self) -> Vec<(HeaderName, HeaderValue)> {
        let Some(validator) = self.validator.as_ref().filter(|_| self.had > 0) else {
            return Vec::new();
        };
        let range = HeaderValue::from_str(&format!("bytes={}-", self.had));
        match (range, HeaderValue::from_str(validator)) {
            (Ok(range), Ok(validator)) => vec![(RANGE, range), (IF_RANGE, validator)],
            _ => Vec::new(),
        }
    }

    /// Decides by the header of an answer; `None` is one of a protocol without headers.
    ///
    /// # Errors
    /// The answer is a part, and not the one that was asked for.
    pub(super) fn start(
        &mut self,
        head: Option<(StatusCode, &HeaderMap)>,
    ) -> Result<Start, String> {
        let Some((status, headers)) = head else { return Ok(self.anew(None)) };
        let asked = !self.fields().is_empty();
        match status {
            StatusCode::PARTIAL_CONTENT if asked => {
                if is_of_several_ranges(headers) {
                    return Err("the part is one of several ranges".to_owned());
                }
                // It may be left out (RFC 9110 section 15.3.7).
                if headers.contains_key(CONTENT_ENCODING) && encoding_of(headers) != self.encoding {
                    return Err("the part has another encoding than what is there".to_owned());
                }
                let range = headers.get(CONTENT_RANGE).and_then(|range| range.to_str().ok());
                let range = range.and_then(content_range).ok_or("the part says no range")?;
                let is_same = match strong_tag(headers) {
                    Some(tag) if self.is_by_tag() => Some(tag) == self.validator.as_deref(),
                    _ => true,
                };
                // A server may send less than was asked for (RFC 9110 section 15.3.7).
                let Some((from, last)) = range.bytes.filter(|(from, last)| from <= last) else {
                    return Err("the part says no range".to_owned());
                };
                let Some(whole) = last.checked_add(1) else {
                    return Err("the part says a range that no file has".to_owned());
                };
                if from != self.had || !is_same || range.all.is_some_and(|all| all != whole) {
                    return Err("the part is not the one that was asked for".to_owned());
                }
                let length = whole - from;
                if headers
                    .get_all(CONTENT_LENGTH)
                    .iter()
                    .any(|said| number_of(said) != Some(length))
                {
                    return Err("the part has another length than its range".to_owned());
                }
                (self.whole, self.left) = (Some(whole), Some(length));
                Ok(Start::At(self.had))
            }
            StatusCode::RANGE_NOT_SATISFIABLE if asked => {
                let range = headers.get(CONTENT_RANGE).and_then(|range| range.to_str().ok());
                // The validator holds, or the range would not have counted.
                let all = range.and_then(content_range).and_then(|range| range.all);
                if all == Some(self.had) {
                    return Ok(Start::Whole);
                }
                self.anew(None);
                Ok(Start::Again)
            }
            _ => {
                let encoding = encoding_of(headers);
                let fits = encoding.as_ref().is_none_or(|all| all.len() <= MOST_OF_AN_ENCODING);
                let start = self.anew(validator_of(headers).filter(|_| fits));
                self.encoding = encoding.filter(|_| fits);
                Ok(start)
            }
        }
    }

    fn is_by_tag(&self) -> bool {
        self.validator.as_ref().is_some_and(|validator| validator.starts_with('"'))
    }

    fn anew(&mut self, validator: Option<String>) -> Start {
        (self.had, self.whole, self.left, self.validator) = (0, None, None, validator);
        self.encoding = None;
        Start::At(0)
    }

    /// Counts bytes of the answer.
    ///
    /// # Errors
    /// They are more than its range has.
    pub(super) fn count(&mut self, bytes: u64) -> Result<(), String> {
        if let Some(left) = &mut self.left {
            let after = left.checked_sub(bytes);
            *left = after.ok_or("the part is longer than its range")?;
        }
        Ok(())
    }

    /// Bytes that were there before the answer that continues them.
    pub(super) fn had(&self) -> u64 {
        self.had
    }

    /// Says in the second file what the part is of.
    pub(super) fn note(&self) -> io::Result<()> {
        let (url, validator) = (self.url.clone(), self.validator.clone());
        Note { url, validator, encoding: self.encoding.clone() }.write(&self.note)
    }

    /// True if the part stays for another time.
    pub(super) fn stays(&self) -> bool {
        self.validator.is_some()
    }

    pub(super) fn part(&self) -> &Path {
        &self.part
    }

    /// The file is complete: the part gets its name.
    ///
    /// # Errors
    /// It has not the length that the answer said, or cannot get its name.
    pub(super) fn finish(&mut self, to: &Path) -> io::Result<()> {
        let length = std::fs::metadata(&self.part)?.len();
        if let Some(whole) = self.whole.filter(|whole| *whole != length) {
            let reason = format!("the part has {length} bytes at its end, and the file {whole}");
            return Err(io::Error::other(reason));
        }
        std::fs::rename(&self.part, to)?;
        self.is_done = true;
        // It was of the part.
        let _ = std::fs::remove_file(&self.note);
        // Not before: a part that gets no name is continued, and needs to be written.
        if let (Some(mode), Some(file)) = (self.mode, &self.lock) {
            file.set_permissions(Permissions::from_mode(mode))?;
        }
        Ok(())
    }
}

impl Drop for Partial {
    fn drop(&mut self) {
        let is_empty = std::fs::metadata(&self.part).is_ok_and(|part| part.len() == 0);
        if !self.is_done && (!self.stays() || is_empty) {
            // What is not there any more needs no removal.
            let _ = std::fs::remove_file(&self.part);
            let _ = std::fs::remove_file(&self.note);
        }
        drop(self.lock.take());
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use hyper::header::{CONTENT_TYPE, ETAG};

    use super::super::validator::MOST_OF_A_VALIDATOR;
    use super::*;

    fn headers(fields: &[(HeaderName, &str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in fields {
            headers.insert(name, HeaderValue::from_str(value).expect("a value"));
        }
        headers
    }

    /// A part of four bytes, which are encoded.
    fn partial(dir: &Path) -> Partial {
        let (mut partial, _file) =
            Partial::open(&dir.join("f"), "https://a/f", None).expect("a part");
        let whole = headers(&[(ETAG, "\"a\""), (CONTENT_ENCODING, "gzip")]);
        assert_eq!(partial.start(Some((StatusCode::OK, &whole))), Ok(Start::At(0)));
        partial.note().expect("a note");
        std::fs::write(dir.join("f.part"), "abcd").expect("a file");
        drop(partial);
        let (partial, _file) = Partial::open(&dir.join("f"), "https://a/f", None).expect("a part");
        partial
    }

    #[test]
    fn the_rest_is_asked_for_under_the_condition_that_nothing_changed() {
        let dir = tempfile::tempdir().expect("a directory");
        let part = partial(dir.path());
        let fields = part.fields();
        assert_eq!(
            (&fields[0].1, &fields[1].1),
            (&HeaderValue::from_static("bytes=4-"), &HeaderValue::from_static("\"a\""))
        );
        assert!(
            Partial::open(&dir.path().join("f"), "https://a/f", None).is_err(),
            "one at a time"
        );
        drop(part);
        // Of another URL it is of no use.
        let (part, file) =
            Partial::open(&dir.path().join("f"), "https://b/f", None).expect("a part");
        assert_eq!((part.fields().len(), file.metadata().expect("a file").len()), (0, 0));
    }

    #[test]
    fn a_note_that_is_a_fifo_is_refused() {
        let dir = tempfile::tempdir().expect("a directory");
        let owner = nix::sys::stat::Mode::S_IRWXU;
        nix::unistd::mkfifo(&dir.path().join("f.part.json"), owner).expect("a FIFO");
        let (done, opened) = std::sync::mpsc::channel();
        let path = dir.path().join("f");
        std::thread::spawn(move || {
            let opened = Partial::open(&path, "https://a/f", None);
            done.send(opened.map(drop).map_err(|error| error.to_string()))
        });
        let opened = opened.recv_timeout(Duration::from_secs(10)).expect("it does not block");
        assert!(opened.expect_err("no note").ends_with("f.part.json is no regular file"));
    }

    #[test]
    fn an_answer_continues_the_part_or_begins_anew() {
        let ok = StatusCode::OK;
        let part = StatusCode::PARTIAL_CONTENT;
        let beyond = StatusCode::RANGE_NOT_SATISFIABLE;
        for (status, fields, expected) in [
            (part, &[(CONTENT_RANGE, "bytes 4-9/10"), (ETAG, "\"a\"")][..], Some(Start::At(4))),
            (part, &[(CONTENT_RANGE, "bytes 4-9/*")], Some(Start::At(4))),
            (part, &[(CONTENT_RANGE, "Bytes 4-9/*")], Some(Start::At(4))),
            (part, &[(CONTENT_RANGE, "bytes 3-9/10")], None),
            (part, &[(CONTENT_RANGE, "bytes 4-8/10")], None),
            (part, &[(CONTENT_RANGE, "bytes 4-3/4")], None),
            (part, &[(CONTENT_RANGE, "bytes 4-18446744073709551615/*")], None),
            (part, &[(CONTENT_RANGE, "bytes 4-18446744073709551616/*")], None),
            (part, &[(CONTENT_RANGE, "bytes +4-9/10")], None),
            (part, &[(CONTENT_RANGE, "bytes 4-9/10"), (CONTENT_LENGTH, "6")], Some(Start::At(4))),
            (part, &[(CONTENT_RANGE, "bytes 4-9/10"), (CONTENT_LENGTH, "7")], None),
            (part, &[(CONTENT_RANGE, "bytes 4-9/10"), (CONTENT_LENGTH, "5")], None),
            (part, &[(CONTENT_RANGE, "bytes */10")], None),
            (part, &[(CONTENT_RANGE, "bytes 4-9/10"), (ETAG, "\"b\"")], None),
            (
                part,
                &[(CONTENT_RANGE, "bytes 4-9/10"), (CONTENT_ENCODING, "GZIP")],
                Some(Start::At(4)),
            ),
            (part, &[(CONTENT_RANGE, "bytes 4-9/10"), (CONTENT_ENCODING, "br")], None),
            (
                part,
                &[(CONTENT_RANGE, "bytes 4-9/10"), (CONTENT_TYPE, "text/plain")],
                Some(Start::At(4)),
            ),
            (
                part,
                &[
                    (CONTENT_RANGE, "bytes 4-9/10"),
                    (CONTENT_TYPE, "Multipart/Byteranges; boundary=x"),
                ],
                None,
            ),
            (part, &[], None),
            (part, &[(CONTENT_RANGE, "chapters 4-9/10")], None),
            (ok, &[(ETAG, "\"b\"")], Some(Start::At(0))),
            (beyond, &[(CONTENT_RANGE, "bytes */4")], Some(Start::Whole)),
            (beyond, &[(CONTENT_RANGE, "bytes */3")], Some(Start::Again)),
            (beyond, &[], Some(Start::Again)),
        ] {
            let dir = tempfile::tempdir().expect("a directory");
            let mut partial = partial(dir.path());
            let start = partial.start(Some((status, &headers(fields))));
            assert_eq!(start.ok(), expected, "{status} {fields:?}");
        }
    }

    #[test]
    fn a_rest_that_ends_early_is_no_file() {
        let dir = tempfile::tempdir().expect("a directory");
        let to = dir.path().join("f");
        for (length, is_whole) in [(9, false), (10, true)] {
            let mut partial = partial(dir.path());
            let rest = headers(&[(CONTENT_RANGE, "bytes 4-9/*")]);
            let start = partial.start(Some((StatusCode::PARTIAL_CONTENT, &rest)));
            assert_eq!(start, Ok(Start::At(4)));
            std::fs::write(dir.path().join("f.part"), &b"abcdefghij"[..length]).expect("a file");
            assert_eq!(partial.finish(&to).is_ok(), is_whole, "{length}");
            assert_eq!(to.exists(), is_whole, "{length}");
        }
    }

    #[test]
    fn a_part_that_gets_no_name_can_still_be_written() {
        let dir = tempfile::tempdir().expect("a directory");
        let to = dir.path().join("f");
        let read_only = Some(Permissions::from_mode(0o444));
        let (mut partial, _file) = Partial::open(&to, "https://a/f", read_only).expect("a part");
        let mode = |path: &Path| path.metadata().expect("a file").permissions().mode() & 0o777;
        std::fs::create_dir(&to).expect("something in its way");
        partial.finish(&to).expect_err("no file takes the place of a directory");
        assert_eq!(mode(&dir.path().join("f.part")), 0o644);
        std::fs::remove_dir(&to).expect("it is empty");
        partial.finish(&to).expect("its name");
        assert_eq!(mode(&to), 0o444);
    }

    #[test]
    fn more_than_the_range_has_is_not_counted() {
        let dir = tempfile::tempdir().expect("a directory");
        let mut partial = partial(dir.path());
        let rest = headers(&[(CONTENT_RANGE, "bytes 4-9/10")]);
        assert_eq!(partial.start(Some((StatusCode::PARTIAL_CONTENT, &rest))), Ok(Start::At(4)));
        assert_eq!((partial.count(4), partial.count(2)), (Ok(()), Ok(())));
        assert_eq!(partial.count(1), Err("the part is longer than its range".to_owned()));
        // A whole answer says no range.
        assert_eq!(partial.start(Some((StatusCode::OK, &headers(&[])))), Ok(Start::At(0)));
        assert_eq!(partial.count(1_000), Ok(()));
    }

    /// A note with the longest tag that is taken is read again.
    #[test]
    fn a_note_can_be_read_whatever_is_in_it() {
        let dir = tempfile::tempdir().expect("a directory");
        let (path, url) = (dir.path().join("f"), format!("https://a/{}", "x".repeat(100_000)));
        let long = format!("\"{}\"", "\\".repeat(MOST_OF_A_VALIDATOR - 2));
        for (tag, stays) in [(&*long, true), (&*format!("\"x{}", &long[1..]), false)] {
            let (mut partial, _file) = Partial::open(&path, &url, None).expect("a part");
            let whole = headers(&[(ETAG, tag)]);
            assert_eq!(partial.start(Some((StatusCode::OK, &whole))), Ok(Start::At(0)));
            assert_eq!(partial.stays(), stays);
            partial.note().expect("a note");
            std::fs::write(dir.path().join("f.part"), "abcd").expect("a file");
            drop(partial);
            let (partial, _file) = Partial::open(&path, &url, None).expect("a part");
            assert_eq!(partial.fields().len(), if stays { 2 } else { 0 });
        }
    }

    #[test]
    fn an_encoding_that_no_note_holds_is_not_continued() {
        let dir = tempfile::tempdir().expect("a directory");
        let (mut partial, _file) =
            Partial::open(&dir.path().join("f"), "https://a/f", None).expect("a part");
        let long = "x".repeat(MOST_OF_AN_ENCODING + 1);
        for (encoding, stays) in [(&long[1..], true), (&long, false)] {
            let whole = headers(&[(ETAG, "\"a\""), (CONTENT_ENCODING, encoding)]);
            assert_eq!(partial.start(Some((StatusCode::OK, &whole))), Ok(Start::At(0)));
            assert_eq!(partial.stays(), stays);
        }
    }

    #[test]
    fn a_part_that_cannot_be_continued_does_not_stay() {
        let dir = tempfile::tempdir().expect("a directory");
        let (mut partial, _) =
            Partial::open(&dir.path().join("f"), "https://a/f", None).expect("a part");
        assert_eq!(partial.start(None), Ok(Start::At(0)));
        std::fs::write(dir.path().join("f.part"), "abcd").expect("a file");
        drop(partial);
        assert_eq!(std::fs::read_dir(dir.path()).expect("a directory").count(), 0);
        std::os::unix::fs::symlink("elsewhere", dir.path().join("g.part")).expect("a link");
        assert!(Partial::open(&dir.path().join("g"), "https://a/g", None).is_err());
    }

    #[test]
    fn a_file_of_that_name_without_a_note_is_left_alone() {
        let dir = tempfile::tempdir().expect("a directory");
        let part = dir.path().join("f.part");
        std::fs::write(&part, "of somebody else").expect("a file");
        let opened = Partial::open(&dir.path().join("f"), "https://a/f", None);
        let error = opened.err().expect("a refusal").to_string();
        assert!(error.contains("f.part is there, and no "), "{error}");
        assert_eq!(std::fs::read(&part).expect("a file"), b"of somebody else");
        // One of this program, killed while it had no validator, is begun anew.
        let note = Note { url: "https://a/f".to_owned(), validator: None, encoding: None };
        let note = serde_json::to_vec(&note).expect("JSON");
        std::fs::write(dir.path().join("f.part.json"), note).expect("a note");
        let (begun, file) =
            Partial::open(&dir.path().join("f"), "https://a/f", None).expect("a part");
        assert_eq!(file.metadata().expect("a file").len(), 0);
        drop(begun);
        assert_eq!(std::fs::read_dir(dir.path()).expect("a directory").count(), 0);
        // An empty one holds nothing that could be lost.
        std::fs::write(&part, "").expect("a file");
        assert!(Partial::open(&dir.path().join("f"), "https://a/f", None).is_ok());
    }

    #[test]
    fn a_part_of_a_file_that_is_read_only_can_be_continued() {
        let dir = tempfile::tempdir().expect("a directory");
        let (path, mode) = (dir.path().join("f"), |path: &Path| {
            std::fs::metadata(path).expect("a file").permissions().mode() & 0o777
        });
        let read_only = Permissions::from_mode(0o440);
        let (mut partial, _file) =
            Partial::open(&path, "https://a/f", Some(read_only)).expect("a part");
        assert_eq!(mode(partial.part()), 0o640);
        std::fs::write(partial.part(), "abcd").expect("it can be written");
        partial.finish(&path).expect("a file");
        assert_eq!(mode(&path), 0o440);
    }
}
