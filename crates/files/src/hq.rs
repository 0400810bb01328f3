//! `hq-interop`: HTTP/0.9 over QUIC. A request is `GET /path` and a line end on a bidirectional
//! stream that the client then finishes; the answer is the bytes of the body and the end of the
//! stream. There are no headers and no status, so whatever goes wrong is a reset of the stream.

use std::fmt;

use noq::{ReadError, RecvStream, VarInt};

/// The name that both ends offer in the TLS handshake.
pub const ALPN: &[u8] = b"hq-interop";

/// The longest request, line end included: the length of a request line that HTTP asks every server
/// to take (RFC 9112 section 3).
pub const MAX_REQUEST_BYTES: usize = 8000;

/// The reason why a server sends no body. It determines the error code of the reset: hq-interop
/// defines none, so these are HTTP's, which are widely known.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Refusal {
    /// Not `GET`, a space, an absolute path and a line end.
    BadRequest,
    /// A path that leaves the directory, or something that is not a regular file.
    Forbidden,
    /// No such file.
    NotFound,
    /// The client did not finish its request, or took nothing of the answer, in time.
    Timeout,
    /// The file could not be read to its end, or was cut off while it was sent.
    Internal,
    /// The server lacks descriptors or memory now; the same request may succeed later.
    Unavailable,
}

impl Refusal {
    const ALL: [Self; 6] = [
        Self::BadRequest,
        Self::Forbidden,
        Self::NotFound,
        Self::Timeout,
        Self::Internal,
        Self::Unavailable,
    ];

    /// The application error code of the stream's reset.
    pub const fn code(self) -> u32 {
        self.status() as u32
    }

    /// The status of HTTP that says the same (RFC 9110 section 15).
    pub(crate) const fn status(self) -> u16 {
        match self {
            Self::BadRequest => 400,
            Self::Forbidden => 403,
            Self::NotFound => 404,
            Self::Timeout => 408,
            Self::Internal => 500,
            Self::Unavailable => 503,
        }
    }

    /// The meaning of a peer's code, if it is one of ours.
    pub fn from_code(code: u64) -> Option<Self> {
        Self::ALL.into_iter().find(|r| u64::from(r.code()) == code)
    }

    pub(crate) const fn var_int(self) -> VarInt {
        VarInt::from_u32(self.code())
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::BadRequest => "bad request",
            Self::Forbidden => "forbidden",
            Self::NotFound => "not found",
            Self::Timeout => "timeout",
            Self::Internal => "server error",
            Self::Unavailable => "unavailable for now",
        })
    }
}

/// The reason why there is no request to answer.
pub(crate) enum RequestError {
    Refused(Refusal),
    Lost(ReadError),
}

/// Reads up to the line end or the end of the stream. Clients differ in whether they finish the
/// stream at once, so a whole line is enough.
pub(crate) async fn read_request(recv: &mut RecvStream) -> Result<Vec<u8>, RequestError> {
    let mut request = Vec::new();
    while let Some(chunk) = recv.read_chunk(MAX_REQUEST_BYTES).await.map_err(RequestError::Lost)? {
        request.extend_from_slice(&chunk);
        if request.len() > MAX_REQUEST_BYTES {
            return Err(RequestError::Refused(Refusal::BadRequest));
        }
        if request.contains(&b'\n') {
            break;
        }
    }
    Ok(request)
}

/// The path of a request, percent-encoded as it came, without its query. Nothing but `GET` and
/// visible ASCII passes.
pub(crate) fn request_path(request: &[u8]) -> Result<&str, Refusal> {
    let line = request.strip_suffix(b"\n").unwrap_or(request);
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    let target = line.strip_prefix(b"GET ").ok_or(Refusal::BadRequest)?;
    if !target.starts_with(b"/") || !target.iter().all(u8::is_ascii_graphic) {
        return Err(Refusal::BadRequest);
    }
    let target = std::str::from_utf8(target).map_err(|_| Refusal::BadRequest)?;
    Ok(target.split_once('?').map_or(target, |(path, _query)| path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_get_of_an_absolute_path_is_a_request() {
        for good in ["GET /a\r\n", "GET /a\n", "GET /a", "GET /a?x=1\r\n", "GET /a?\r\n"] {
            assert_eq!(request_path(good.as_bytes()), Ok("/a"), "{good:?}");
        }
        let bad: [&[u8]; 14] = [
            b"",
            b"\r\n",
            b"GET",
            b"GET \r\n",
            b"get /a\r\n",
            b"POST /a\r\n",
            b"GET  /a\r\n",
            b"GET a\r\n",
            b"GET https://host/a\r\n",
            b"GET /a HTTP/1.0\r\n",
            b"GET /a\r\nGET /b\r\n",
            b"GET /a\0\r\n",
            b"GET /\xff\r\n",
            b" GET /a\r\n",
        ];
        for raw in bad {
            assert_eq!(request_path(raw), Err(Refusal::BadRequest), "{raw:?}");
        }
    }

    #[test]
    fn a_refusal_survives_the_wire() {
        for refusal in Refusal::ALL {
            assert_eq!(Refusal::from_code(refusal.code().into()), Some(refusal));
        }
        assert_eq!(Refusal::from_code(0), None);
    }
}
