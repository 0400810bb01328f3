//! Fields that make a message malformed, and that h3 lets through (RFC 9114 sections 4.1.2 to 4.3).

use http::header::{CONTENT_LENGTH, HOST, TE};
use http::{HeaderMap, HeaderValue, Request};

/// The reason why a request is malformed: fields of a connection (section 4.2), no authority, two
/// of them or one with a user's name (section 4.3.1), or a length that is none (RFC 9110 section
/// 8.6).
pub(super) fn malformed(request: &Request<()>) -> Option<&'static str> {
    let headers = request.headers();
    if of_a_connection(headers).is_some() {
        return Some("a field that is about a connection");
    }
    if headers.get_all(TE).iter().any(|te| te != "trailers") {
        return Some("TE has more than trailers");
    }
    if content_length(headers).is_err() {
        return Some("content-length is no length");
    }
    let mut hosts = headers.get_all(HOST).iter();
    let (host, second) = (hosts.next(), hosts.next());
    let authority = request.uri().authority().map(|authority| authority.as_str().as_bytes());
    match (authority, host.map(HeaderValue::as_bytes)) {
        (Some(authority), Some(host)) if authority != host => Some("another Host than :authority"),
        (None, None | Some(b"")) => Some("neither :authority nor Host"),
        (Some(authority), _) if authority.contains(&b'@') => Some("a user's name in :authority"),
        _ if second.is_some() => Some("two Hosts"),
        _ => None,
    }
}

/// A field that is about a connection (RFC 9114 section 4.2).
pub(super) fn of_a_connection(headers: &HeaderMap) -> Option<&'static str> {
    ["connection", "keep-alive", "proxy-connection", "transfer-encoding", "upgrade"]
        .into_iter()
        .find(|name| headers.contains_key(*name))
}

/// The length that a message says, if it says one. It may say the same several times (RFC 9110
/// section 8.6).
///
/// # Errors
/// The value that is none.
pub(super) fn content_length(headers: &HeaderMap) -> Result<Option<u64>, &HeaderValue> {
    let mut length = None;
    for value in headers.get_all(CONTENT_LENGTH) {
        for part in value.to_str().unwrap_or_default().split(',') {
            let part = part.trim_matches([' ', '\t']);
            let is_number = !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
            let number = part.parse().ok().filter(|_| is_number);
            if number.is_none() || length.is_some() && length != number {
                return Err(value);
            }
            length = number;
        }
    }
    Ok(length)
}
