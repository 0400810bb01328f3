//! QUIC version 2 (RFC 9369) and compatible version negotiation (RFC 9368) around noq, which speaks
//! version 1 alone.
//!
//! noq sees version 1 always. The socket turns the long headers of version 2 that it receives into
//! those of version 1 and clears their fixed bit as a mark. Packet protection reads the mark, and
//! writes the headers of version 2 into the packets of a connection that has it. So nobody may
//! clear that bit for another reason: the transport parameter that allows it (RFC 9287) is not
//! sent.
//!
//! Deviations: a token of NEW_TOKEN is taken whatever the version of the connection that gave it
//! (RFC 9369 section 5 wants it ignored); it proves an address, which does not depend on the
//! version.

mod derive;
mod headers;
mod hello;
mod keys;
mod negotiation;
mod parameters;
mod retry;
mod session;
mod unheard;

use std::fmt;
use std::str::FromStr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use noq::ConnectionId;

pub(crate) use headers::client_filter;
pub use retry::tag as retry_tag;
pub use session::{ClientCrypto, Handshake, ServerCrypto, UpgradedServers};

use crate::expiring_map::ExpiringMap;
use crate::wire::{V1, V2};

/// First packets of version 2 that wait to be accepted, and Retry packets that wait to be sent.
/// Each waits no longer than the server takes for its next step.
const MOST_WAITING: usize = 4096;
const KEEP_WAITING: Duration = Duration::from_secs(10);

/// The versions of QUIC that an endpoint speaks.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum QuicVersions {
    /// Version 1 alone (RFC 9000).
    #[default]
    V1,
    /// Both. A client begins with version 1 and offers version 2; a server takes either, and moves
    /// to version 2 a client that offers it and does not resume a session.
    V1AndV2,
    /// A client begins with version 2 and speaks no other.
    V2,
}

impl QuicVersions {
    const ALL: [Self; 3] = [Self::V1, Self::V1AndV2, Self::V2];

    const fn name(self) -> &'static str {
        match self {
            Self::V1 => "v1",
            Self::V1AndV2 => "v1,v2",
            Self::V2 => "v2",
        }
    }

    /// The version of a client's first packet.
    const fn first(self) -> u32 {
        match self {
            Self::V1 | Self::V1AndV2 => V1,
            Self::V2 => V2,
        }
    }

    /// These and version 1: those of a server.
    pub const fn with_v1(self) -> Self {
        match self {
            Self::V1 => Self::V1,
            Self::V1AndV2 | Self::V2 => Self::V1AndV2,
        }
    }

    /// The versions that it speaks, the preferred one first.
    pub const fn available(self) -> &'static [u32] {
        match self {
            Self::V1 => &[V1],
            Self::V1AndV2 => &[V2, V1],
            Self::V2 => &[V2],
        }
    }
}

impl fmt::Display for QuicVersions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The name is none of [`QuicVersions`].
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("unknown versions {0:?}; there are v1, v2 and v1,v2")]
pub struct UnknownVersions(pub String);

impl FromStr for QuicVersions {
    type Err = UnknownVersions;

    fn from_str(name: &str) -> Result<Self, UnknownVersions> {
        let known = Self::ALL.into_iter().find(|versions| versions.name() == name);
        known.ok_or_else(|| UnknownVersions(name.to_owned()))
    }
}

/// The version in which a connection sends, shared by its keys.
#[derive(Clone, Debug)]
struct Negotiated(Arc<AtomicBool>);

impl Negotiated {
    fn new(version: u32) -> Self {
        Self(Arc::new(AtomicBool::new(version == V2)))
    }

    fn version(&self) -> u32 {
        if self.0.load(Ordering::Relaxed) { V2 } else { V1 }
    }

    fn set_v2(&self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Facts about version 2 that a server's packet protection and its socket tell each other.
#[derive(Clone, Debug)]
pub struct NegotiationTable(Arc<Mutex<PendingNegotiations>>);

#[derive(Debug)]
struct PendingNegotiations {
    /// Connections whose first packet has version 2, by the connection ID that the client chose.
    begun: ExpiringMap<ConnectionId, ()>,
    /// Retry packets of version 2, by their integrity tag.
    retries: ExpiringMap<[u8; 16], ()>,
}

impl Default for NegotiationTable {
    fn default() -> Self {
        let now = Instant::now();
        Self(Arc::new(Mutex::new(PendingNegotiations {
            begun: ExpiringMap::new(KEEP_WAITING, MOST_WAITING, now),
            retries: ExpiringMap::new(KEEP_WAITING, MOST_WAITING, now),
        })))
    }
}

impl NegotiationTable {
    fn lock(&self) -> MutexGuard<'_, PendingNegotiations> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn begins_with_v2(&self, id: ConnectionId) {
        let mut waiting = self.lock();
        waiting.begun.age(Instant::now());
        waiting.begun.get_or_insert(id, || ());
    }

    fn began_with_v2(&self, id: ConnectionId) -> bool {
        self.lock().begun.get(&id).is_some()
    }

    fn retry_of_v2(&self, tag: [u8; 16]) {
        let mut waiting = self.lock();
        waiting.retries.age(Instant::now());
        waiting.retries.get_or_insert(tag, || ());
    }

    fn is_retry_of_v2(&self, tag: &[u8; 16]) -> bool {
        self.lock().retries.get(tag).is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_parses() {
        for versions in QuicVersions::ALL {
            assert_eq!(versions.to_string().parse(), Ok(versions));
            assert!(versions.available().contains(&versions.first()));
        }
        assert!("v3".parse::<QuicVersions>().is_err());
    }
}
