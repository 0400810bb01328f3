//! HTTP/3 (RFC 9114) by the h3 crate, over noq.

mod adapter;
pub(crate) mod client;
mod critical;
mod errors;
mod fields;
mod huffman;
mod message;
mod qpack;
mod rules;
pub(crate) mod server;
mod whole;

use noq::VarInt;

/// The name of HTTP/3 in the TLS handshake.
pub(crate) const ALPN: &[u8] = b"h3";

/// H3_EXCESSIVE_LOAD (RFC 9114 section 8.1).
pub(crate) const EXCESSIVE_LOAD: VarInt = VarInt::from_u32(0x107);

/// H3_NO_ERROR: nothing is wrong, and nothing more is wanted (RFC 9114 section 8.1).
pub(crate) const NO_ERROR: VarInt = VarInt::from_u32(0x100);
