//! The meaning of a request, whichever version of HTTP carries it (RFC 9110): method, range,
//! status.

use std::net::IpAddr;
use std::time::SystemTime;

use http::header::{
    ACCEPT_RANGES, ALLOW, CONTENT_LENGTH, CONTENT_RANGE, CONTENT_TYPE, DATE, ETAG, IF_RANGE,
    LAST_MODIFIED, RANGE,
};
use http::{HeaderValue, Method, Request, Response, StatusCode};
use percent_encoding::percent_decode_str;

use super::conditions::{Decision, Validator};
use super::connection::Shared;
use super::range::{Wanted, wanted};
use crate::content::Body;
use crate::hq::Refusal;

/// The header of the answer to a request, and its body. The body of the request counts for nothing.
pub(crate) async fn respond<T>(
    request: &Request<T>,
    client: IpAddr,
    shared: &Shared,
) -> (Response<()>, Body) {
    let (mut response, body) = answer(request, client, shared).await;
    // RFC 9110 section 6.6.1.
    insert(&mut response, DATE, &httpdate::fmt_http_date(SystemTime::now()));
    (response, body)
}

async fn answer<T>(request: &Request<T>, client: IpAddr, shared: &Shared) -> (Response<()>, Body) {
    let get = match *request.method() {
        Method::GET => true,
        Method::HEAD => false,
        _ => {
            let mut response = empty(StatusCode::METHOD_NOT_ALLOWED);
            response.headers_mut().insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
            return (response, Body::EMPTY);
        }
    };
    let opened = match shared.is_ending() {
        true => Err(Refusal::Unavailable),
        false => shared.source.open(request.uri().path(), client).await,
    };
    let body = match opened {
        Ok(body) => body,
        Err(refusal) => {
            let status = StatusCode::from_u16(refusal.status());
            return (empty(status.unwrap_or(StatusCode::INTERNAL_SERVER_ERROR)), Body::EMPTY);
        }
    };
    let Some(length) = body.length() else {
        let mut response = Response::new(());
        *response.status_mut() = StatusCode::OK;
        return (response, if get { body } else { Body::EMPTY });
    };
    let headers = request.headers();
    let validator = body.stamp().map(|stamp| Validator::of(stamp, SystemTime::now()));
    let decision = validator.as_ref().map_or(Decision::Proceed, |known| known.decide(headers));
    let validate = |response: &mut Response<()>| {
        if let Some(validator) = &validator {
            insert(response, ETAG, &validator.entity_tag());
            if let Some(modified) = validator.last_modified() {
                insert(response, LAST_MODIFIED, &modified);
            }
        }
    };
    match decision {
        Decision::Proceed => {}
        Decision::NotModified => {
            let mut response = Response::new(());
            *response.status_mut() = StatusCode::NOT_MODIFIED;
            validate(&mut response);
            return (response, Body::EMPTY);
        }
        Decision::Failed => return (empty(StatusCode::PRECONDITION_FAILED), Body::EMPTY),
    }
    // What has no validator is equal to nothing.
    let allowed = match &validator {
        Some(validator) => validator.allows_range(headers),
        None => !headers.contains_key(IF_RANGE),
    };
    let range = headers.get(RANGE).and_then(|range| range.to_str().ok());
    let range = range.filter(|_| get && allowed);
    let (mut response, body, bytes) = match wanted(range, length) {
        Wanted::Whole => (empty(StatusCode::OK), body, length),
        Wanted::Part { from, bytes } => {
            let mut response = empty(StatusCode::PARTIAL_CONTENT);
            let shown = format!("bytes {from}-{}/{length}", from + bytes - 1);
            insert(&mut response, CONTENT_RANGE, &shown);
            (response, body.part(from, bytes), bytes)
        }
        Wanted::Nothing => {
            let mut response = empty(StatusCode::RANGE_NOT_SATISFIABLE);
            insert(&mut response, CONTENT_RANGE, &format!("bytes */{length}"));
            return (response, Body::EMPTY);
        }
    };
    validate(&mut response);
    response.headers_mut().insert(CONTENT_TYPE, content_type(request.uri().path()));
    response.headers_mut().insert(ACCEPT_RANGES, HeaderValue::from_static("bytes"));
    insert(&mut response, CONTENT_LENGTH, &bytes.to_string());
    (response, if get { body } else { Body::EMPTY })
}

/// The media type that the extension of a file's name stands for (RFC 9110 section 8.3). Nothing is
/// said of the encoding of a text, which the server does not know.
fn content_type(path: &str) -> HeaderValue {
    let path = percent_decode_str(path).decode_utf8_lossy();
    let known = mime_guess::from_path(path.as_ref()).first_raw();
    HeaderValue::from_static(known.unwrap_or("application/octet-stream"))
}

fn empty(status: StatusCode) -> Response<()> {
    let mut response = Response::new(());
    *response.status_mut() = status;
    insert(&mut response, CONTENT_LENGTH, "0");
    response
}

/// `value` is ASCII that the server made.
fn insert(response: &mut Response<()>, name: http::HeaderName, value: &str) {
    if let Ok(value) = HeaderValue::from_str(value) {
        response.headers_mut().insert(name, value);
    }
}

/// True if a status is no refusal: it comes with a body, which may be empty.
pub(crate) fn has_body(status: StatusCode) -> bool {
    status.is_success() || status == StatusCode::NOT_MODIFIED
}
