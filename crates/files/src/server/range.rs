//! The Range header of a request (RFC 9110 section 14.2).

/// The part of a file that a request asks for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Wanted {
    /// All of it: there is no range, or one that need not be understood.
    Whole,
    /// So many bytes from this one on; both within the file, and at least one.
    Part { from: u64, bytes: u64 },
    /// A range beyond the file's end.
    Nothing,
}

/// The range of a file of `length` bytes. One range of bytes is understood; whoever asks for
/// several gets the whole.
pub(super) fn wanted(header: Option<&str>, length: u64) -> Wanted {
    header.and_then(|header| one_range(header, length)).unwrap_or(Wanted::Whole)
}

fn one_range(header: &str, length: u64) -> Option<Wanted> {
    let (unit, range) = header.split_once('=')?;
    if !unit.trim().eq_ignore_ascii_case("bytes") {
        return None;
    }
    let (first, last) = range.trim().split_once('-')?;
    let part = |from: u64, bytes: u64| match bytes {
        0 => Wanted::Nothing,
        bytes => Wanted::Part { from, bytes },
    };
    if first.is_empty() {
        let bytes = number(last)?.min(length);
        return Some(part(length - bytes, bytes));
    }
    let first = number(first)?;
    let last = if last.is_empty() { u64::MAX } else { number(last)? };
    if last < first {
        return None;
    }
    let end = last.saturating_add(1).min(length);
    Some(part(first, end.saturating_sub(first)))
}

/// Digits alone, which `parse` does not insist on.
fn number(text: &str) -> Option<u64> {
    if !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    // More digits than a number has are beyond any file.
    if text.is_empty() { None } else { Some(text.parse().unwrap_or(u64::MAX)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_range_of_bytes_is_understood() {
        let part = |from, bytes| Wanted::Part { from, bytes };
        for (header, expected) in [
            ("bytes=0-0", part(0, 1)),
            ("bytes=0-99", part(0, 100)),
            ("bytes=0-100", part(0, 100)),
            ("bytes=99-", part(99, 1)),
            ("Bytes= 10-19 ", part(10, 10)),
            ("bytes=-1", part(99, 1)),
            ("bytes=-1000", part(0, 100)),
            ("bytes=5-99999999999999999999999", part(5, 95)),
            ("bytes=100-", Wanted::Nothing),
            ("bytes=-0", Wanted::Nothing),
            ("bytes=99999999999999999999999-", Wanted::Nothing),
            ("bytes=2-1", Wanted::Whole),
            ("bytes=0-1,3-4", Wanted::Whole),
            ("bytes=+1-2", Wanted::Whole),
            ("bytes=-", Wanted::Whole),
            ("lines=1-2", Wanted::Whole),
            ("", Wanted::Whole),
        ] {
            assert_eq!(wanted(Some(header), 100), expected, "{header:?}");
        }
        assert_eq!(wanted(None, 100), Wanted::Whole);
        assert_eq!(wanted(Some("bytes=0-"), 0), Wanted::Nothing);
    }
}
