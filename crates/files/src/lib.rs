//! A server and a client on QUIC, with fullpipe's congestion control.
//!
//! Both ends speak HTTP/3 and `hq-interop`: HTTP/0.9 over QUIC, one bidirectional stream a request,
//! the protocol that QUIC implementations test each other with. The transport is noq, which this
//! crate re-exports, because the connections that it hands out are noq's.
//!
//! Everything here runs inside a tokio runtime.
#![forbid(unsafe_code)]

mod bulk;
mod client;
mod content;
#[cfg(test)]
mod hostile;
mod hq;
mod http3;
mod log;
mod secret;
mod server;
mod tls;
mod transport;

pub use bulk::bulk_block;
pub use client::{Alpn, Client, ClientError, ClientOptions, Connector, Response, UnknownAlpn};
pub use content::Content;
pub use fullpipe_noq::{CongestionControl, TransportSettings};
pub use fullpipe_noq_repairs::{
    Handshake, NoPreferredAddress, PreferredAddress, QuicVersions, UnknownVersions,
};
pub use hq::{ALPN, MAX_REQUEST_BYTES, Refusal};
pub use http;
pub use log::{Escaped, is_plain};
pub use noq;
pub use secret::Secret;
pub use server::{
    Arrival, Choose, ChooseByName, ClientPlace, ClientPlaces, Limits, OnAccept, OnRequest,
    RequestRecord, ServeError, Server, ServerOptions, ServerStats,
};
pub use tls::{Cipher, Fingerprint, NoFingerprint, ServerTls, TlsError, UnknownCipher, Verify};

/// The examples of README.md.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
pub struct Readme;
