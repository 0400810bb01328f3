//! The range of an answer that is a part (RFC 9110 section 14.4).

use hyper::HeaderMap;
use hyper::header::{CONTENT_TYPE, HeaderValue};

/// The field Content-Range (RFC 9110 section 14.4).
pub(super) struct ContentRange {
    /// The first and the last byte, unless no range can be had.
    pub(super) bytes: Option<(u64, u64)>,
    /// The length of all, if the server knows it.
    pub(super) all: Option<u64>,
}

/// `bytes 10-19/20` or `bytes */20`. The unit's case does not matter (section 14.1).
pub(super) fn content_range(text: &str) -> Option<ContentRange> {
    let (unit, range) = text.split_once(' ')?;
    let (range, all) = range.split_once('/').filter(|_| unit.eq_ignore_ascii_case("bytes"))?;
    let all = if all == "*" { None } else { Some(number(all)?) };
    let bytes = match range {
        "*" => None,
        range => {
            let (first, last) = range.split_once('-')?;
            Some((number(first)?, number(last)?))
        }
    };
    Some(ContentRange { bytes, all })
}

/// Digits alone: the standard library takes a sign as well.
fn number(text: &str) -> Option<u64> {
    text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok())?
}

pub(super) fn number_of(value: &HeaderValue) -> Option<u64> {
    number(value.to_str().ok()?)
}

/// True of several ranges, which come with headers of their own in the body (RFC 9110 section
/// 15.3.7.2).
pub(super) fn is_of_several_ranges(headers: &HeaderMap) -> bool {
    const KIND: &[u8] = b"multipart/byteranges";
    headers.get_all(CONTENT_TYPE).iter().any(|kind| {
        let kind = kind.as_bytes().get(..KIND.len());
        kind.is_some_and(|kind| kind.eq_ignore_ascii_case(KIND))
    })
}
