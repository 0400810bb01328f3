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
use rules::Code;

/// The name of HTTP/3 in the TLS handshake.
pub(crate) const ALPN: &[u8] = b"h3";

/// Codes that the server closes a connection with, whatever its protocol is.
pub(crate) const EXCESSIVE_LOAD: VarInt = Code::ExcessiveLoad.var_int();
pub(crate) const NO_ERROR: VarInt = Code::NoError.var_int();
