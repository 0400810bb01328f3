//! The validator of a file: its content is still the same (RFC 9110 section 8.8).

use std::time::{Duration, SystemTime};

use hyper::HeaderMap;
use hyper::header::{CONTENT_ENCODING, DATE, ETAG, LAST_MODIFIED};

/// Most bytes of a tag. It is more than most servers send, and they have to take it back.
pub(super) const MOST_OF_A_VALIDATOR: usize = 256 << 10;
/// Age from which a time of change tells the content: RFC 9110 section 8.8.2.2 demands a second of
/// one clock, and servers may have several.
const SETTLED: Duration = Duration::from_secs(60);

/// The strong entity tag of an answer.
pub(super) fn strong_tag(headers: &HeaderMap) -> Option<&str> {
    let tag = headers.get(ETAG)?.to_str().ok()?;
    (tag.len() > 1 && tag.starts_with('"') && tag.ends_with('"')).then_some(tag)
}

/// A validator that two equal bytes have alone: a strong entity tag, or else a time of change that
/// is old enough (RFC 9110 section 13.1.5).
pub(super) fn validator_of(headers: &HeaderMap) -> Option<String> {
    if let Some(tag) = strong_tag(headers) {
        return (tag.len() <= MOST_OF_A_VALIDATOR).then(|| tag.to_owned());
    }
    let date = |name| -> Option<SystemTime> {
        httpdate::parse_http_date(headers.get(name)?.to_str().ok()?).ok()
    };
    let age = date(DATE)?.duration_since(date(LAST_MODIFIED)?).ok()?;
    let modified = headers.get(LAST_MODIFIED)?.to_str().ok()?;
    (age >= SETTLED).then(|| modified.to_owned())
}

/// All encodings in one, as a list says them; what is no text is escaped.
pub(super) fn encoding_of(headers: &HeaderMap) -> Option<String> {
    let said = headers.get_all(CONTENT_ENCODING).iter();
    let all: Vec<_> = said.map(|one| one.as_bytes().escape_ascii().to_string()).collect();
    (!all.is_empty()).then(|| all.join(", ").to_ascii_lowercase())
}

#[cfg(test)]
mod tests {
    use hyper::header::HeaderValue;

    use super::*;

    #[test]
    fn only_what_tells_equal_bytes_is_a_validator() {
        const OLD: &str = "Sun, 09 Sep 2001 01:46:40 GMT";
        const LATER: &str = "Sun, 09 Sep 2001 01:47:40 GMT";
        for (fields, expected) in [
            (&[(ETAG, "\"a\""), (LAST_MODIFIED, OLD)][..], Some("\"a\"")),
            (&[(ETAG, "W/\"a\"")], None),
            (&[(LAST_MODIFIED, OLD), (DATE, LATER)], Some(OLD)),
            (&[(LAST_MODIFIED, OLD), (DATE, OLD)], None),
            (&[(LAST_MODIFIED, OLD)], None),
            (&[], None),
        ] {
            let value = |text| HeaderValue::from_static(text);
            let headers = fields.iter().map(|(name, text)| (name.clone(), value(text))).collect();
            assert_eq!(validator_of(&headers).as_deref(), expected, "{fields:?}");
        }
    }
}
