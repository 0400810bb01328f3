//! A request and its outcome, for the log, the counters and whoever else watches.

use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use http::{Request, Version, header::HOST};

use super::answer::Outcome;
use super::connection::Shared;

/// Called with every request once it is over: answered, refused or broken off. It is called from
/// the server's tasks, so it may not wait for anything.
pub type OnRequest = Arc<dyn Fn(&RequestRecord<'_>) + Send + Sync>;

/// A request that is over. The texts are the client's own, with nothing escaped; one that did not
/// arrive is empty.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct RequestRecord<'a> {
    /// The client's address.
    pub peer: SocketAddr,
    /// The version of HTTP: `HTTP/3`, `HTTP/1.1`, `HTTP/1.0`, or `HTTP/0.9`, which hq-interop is.
    pub version: &'static str,
    /// The method.
    pub method: &'a str,
    /// The authority (RFC 9110 section 7.2): `:authority` or `Host`. hq-interop has none.
    pub authority: &'a str,
    /// The path with its query, percent-encoded as it came.
    pub target: &'a str,
    /// The status. What has no status on the wire has the one of the same meaning: 400 for a reset
    /// with H3_MESSAGE_ERROR, the code of a reset of hq-interop, 200 for its bodies.
    pub status: u16,
    /// Bytes of the body that were given to the transport.
    pub body_bytes: u64,
    /// The time from the server's first look at the request until the client had all of the answer,
    /// or until it was certain that it never will.
    pub duration: Duration,
    /// True if there was an answer and nothing is missing of it.
    pub is_complete: bool,
}

/// A request as it came.
pub(crate) struct Asked {
    peer: SocketAddr,
    version: &'static str,
    method: String,
    authority: String,
    target: String,
    start: Instant,
}

impl Asked {
    /// A request that begins to arrive.
    pub(crate) fn begin(peer: SocketAddr, version: &'static str) -> Self {
        let (method, authority, target) = (String::new(), String::new(), String::new());
        Self { peer, version, method, authority, target, start: Instant::now() }
    }

    /// Takes method, authority and target of a request that has arrived.
    pub(crate) fn read<T>(&mut self, request: &Request<T>) {
        self.version = match request.version() {
            Version::HTTP_10 => "HTTP/1.0",
            Version::HTTP_11 => "HTTP/1.1",
            _ => self.version,
        };
        request.method().as_str().clone_into(&mut self.method);
        let host = || request.headers().get(HOST).map(|host| host.as_bytes());
        let authority = request.uri().authority().map(|authority| authority.as_str().as_bytes());
        let authority = authority.or_else(host).unwrap_or_default();
        self.authority = String::from_utf8_lossy(authority).into_owned();
        let target = request.uri().path_and_query().map(|target| target.as_str());
        target.unwrap_or_default().clone_into(&mut self.target);
    }

    /// Takes a request line of hq-interop.
    pub(super) fn read_line(&mut self, line: &str) {
        let (method, target) = line.split_once(' ').unwrap_or((line, ""));
        method.clone_into(&mut self.method);
        target.clone_into(&mut self.target);
    }

    /// Method and path, without the query.
    fn line(&self) -> String {
        let path = self.target.split_once('?').map_or(self.target.as_str(), |(path, _)| path);
        format!("{} {path}", self.method).trim().to_owned()
    }

    fn record(&self, status: u16, body_bytes: u64, is_complete: bool) -> RequestRecord<'_> {
        RequestRecord {
            peer: self.peer,
            version: self.version,
            method: &self.method,
            authority: &self.authority,
            target: &self.target,
            status,
            body_bytes,
            duration: self.start.elapsed(),
            is_complete,
        }
    }
}

impl Shared {
    /// A request gets a status and no body.
    pub(crate) fn refused(&self, asked: &Asked, status: u16, why: &dyn fmt::Display) {
        self.no_body(asked, status, why, true);
    }

    /// A request gets a reset, or nothing at all.
    pub(crate) fn reset(&self, asked: &Asked, status: u16, why: &dyn fmt::Display) {
        self.no_body(asked, status, why, false);
    }

    fn no_body(&self, asked: &Asked, status: u16, why: &dyn fmt::Display, is_complete: bool) {
        self.counters.refused_requests.add(1);
        self.log.refused(asked.peer, &asked.line(), status, why);
        self.tell(&asked.record(status, 0, is_complete));
    }

    /// A request got an answer, whole or in part.
    pub(crate) fn answered(&self, asked: &Asked, status: u16, body_bytes: u64, outcome: &Outcome) {
        let is_complete = matches!(outcome, Outcome::Complete);
        let counter = match is_complete {
            true => &self.counters.complete_requests,
            false => &self.counters.broken_requests,
        };
        counter.add(1);
        self.counters.body_bytes.add(body_bytes);
        let record = asked.record(status, body_bytes, is_complete);
        self.log.answered(&record, &asked.line(), outcome);
        self.tell(&record);
    }

    fn tell(&self, record: &RequestRecord<'_>) {
        if let Some(on_request) = &self.on_request {
            on_request(record);
        }
    }
}
