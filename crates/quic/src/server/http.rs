//! The meaning of a request, whichever version of HTTP carries it (RFC 9110): method, range,
//! status.

use http::header::{ACCEPT_RANGES, ALLOW, CONTENT_LENGTH, CONTENT_RANGE, IF_RANGE, RANGE};
use http::{HeaderValue, Method, Request, Response, StatusCode};

use super::connection::Shared;
use super::range::{Wanted, wanted};
use crate::content::Body;
use crate::hq::Refusal;

/// The header of the answer to a request, and its body. The body of the request counts for nothing.
pub(crate) async fn respond<T>(request: &Request<T>, shared: &Shared) -> (Response<()>, Body) {
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
        false => shared.source.open(request.uri().path()).await,
    };
    let body = match opened {
        Ok(body) => body,
        Err(refusal) => {
            let status = StatusCode::from_u16(refusal.code() as u16);
            return (empty(status.unwrap_or(StatusCode::INTERNAL_SERVER_ERROR)), Body::EMPTY);
        }
    };
    let Some(length) = body.length() else {
        let mut response = Response::new(());
        *response.status_mut() = StatusCode::OK;
        return (response, if get { body } else { Body::EMPTY });
    };
    // There is no validator that If-Range could be equal to, so it asks for the whole.
    let range = request.headers().get(RANGE).and_then(|range| range.to_str().ok());
    let range = range.filter(|_| get && !request.headers().contains_key(IF_RANGE));
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
    response.headers_mut().insert(ACCEPT_RANGES, HeaderValue::from_static("bytes"));
    insert(&mut response, CONTENT_LENGTH, &bytes.to_string());
    (response, if get { body } else { Body::EMPTY })
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

/// The refusal behind a status that is no success.
pub(crate) fn refusal_of(status: StatusCode) -> Refusal {
    Refusal::from_code(status.as_u16().into()).unwrap_or(Refusal::BadRequest)
}
