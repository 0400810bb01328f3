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
mod layer;
mod log;
mod preferred;
mod secret;
mod server;
mod socket;
mod tls;
mod transport;
mod version;

pub use bulk::bulk_block;
pub use client::{Alpn, Client, ClientError, ClientOptions, Connector, Response, UnknownAlpn};
pub use content::{Content, STAMP_BYTES, written_at};
pub use fullpipe_noq::{CongestionControl, TransportSettings};
pub use hq::{ALPN, MAX_REQUEST_BYTES, Refusal};
pub use log::Escaped;
pub use noq;
pub use preferred::{NoPreferredAddress, PreferredAddress};
pub use secret::Secret;
pub use server::{
    Arrival, Choose, ChooseByName, Limits, OnAccept, ServeError, Server, ServerOptions, ServerStats,
};
pub use tls::{
    Cipher, Fingerprint, Handshake, NoFingerprint, ServerTls, TlsError, UnknownCipher, Verify,
};
pub use version::{QuicVersions, UnknownVersions};

/// The examples of README.md.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
pub struct Readme;
