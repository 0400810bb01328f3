//! The protocol of the requests, negotiated in the TLS handshake (RFC 7301).

use std::fmt;
use std::str::FromStr;

use crate::{Handshake, hq, http3};

/// The protocols that a client offers.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum Alpn {
    /// HTTP/0.9 alone.
    #[default]
    HqInterop,
    /// HTTP/3 alone.
    H3,
    /// Both, and the server chooses.
    Any,
}

impl Alpn {
    const ALL: [Self; 3] = [Self::HqInterop, Self::H3, Self::Any];

    const fn name(self) -> &'static str {
        match self {
            Self::HqInterop => "hq-interop",
            Self::H3 => "h3",
            Self::Any => "any",
        }
    }

    /// The names in the handshake.
    pub(crate) fn names(self) -> Vec<Vec<u8>> {
        let names: &[&[u8]] = match self {
            Self::HqInterop => &[hq::ALPN],
            Self::H3 => &[http3::ALPN],
            Self::Any => &[http3::ALPN, hq::ALPN],
        };
        names.iter().map(|name| name.to_vec()).collect()
    }
}

/// True if a handshake agreed on HTTP/3.
pub(super) fn is_http3(connection: &noq::Connection) -> bool {
    Handshake::of(connection).is_some_and(|made| made.protocol.as_deref() == Some(http3::ALPN))
}

impl fmt::Display for Alpn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The name is none of an [`Alpn`].
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("unknown protocol {0:?}; there are h3, hq-interop and any")]
pub struct UnknownAlpn(pub String);

impl FromStr for Alpn {
    type Err = UnknownAlpn;

    fn from_str(name: &str) -> Result<Self, UnknownAlpn> {
        let known = Self::ALL.into_iter().find(|alpn| alpn.name() == name);
        known.ok_or_else(|| UnknownAlpn(name.to_owned()))
    }
}
