//! The anti-amplification limit of a server, as a filter at its socket: what noq never gets to see,
//! and what it may not send.

mod limit;
mod path_validation;
mod peer;

use std::net::SocketAddr;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::Context;
use std::time::Instant;

use noq::udp::Transmit;

use crate::filter::{Filter, NotTaken, OnReceive, OnSend, Outgoing};
use crate::wire::V1;
use crate::wire::header::{MIN_INITIAL_BYTES, long_version};
use limit::Allowance;
pub use limit::AmplificationLimit;
pub use peer::Peer;

impl AmplificationLimit {
    /// The filter of a server's socket.
    pub(crate) fn filter(&self) -> Box<dyn Filter> {
        Box::new(Guarded { guard: self.clone(), senders: AtomicUsize::new(0) })
    }
}

#[derive(Debug)]
struct Guarded {
    guard: AmplificationLimit,
    /// Senders so far.
    senders: AtomicUsize,
}

impl Filter for Guarded {
    fn on_receive(&self, from: SocketAddr, datagram: &mut [u8], now: Instant) -> OnReceive {
        if !is_acceptable(datagram) {
            return OnReceive::Drop;
        }
        self.guard.received(from, datagram, now);
        OnReceive::Keep
    }

    /// The first is the endpoint's, for what is of no connection. A Retry of the endpoint's has a
    /// random connection ID that may be a connection's by chance, so whose a sender is cannot be
    /// told by what it sends alone.
    fn sender(&self) -> Box<dyn Outgoing> {
        Box::new(LimitedSender {
            guard: self.guard.clone(),
            is_endpoints: self.senders.fetch_add(1, Ordering::Relaxed) == 0,
            peer: None,
            open: None,
            permitted: Permitted::Freely,
        })
    }
}

/// True if the server may answer a datagram. The version layer below has already rewritten version
/// 2 to version 1, if the server speaks it. A packet of a version that it does not speak is
/// answered only in a datagram that could begin a connection (RFC 9000 section 6.1), for an answer
/// would be longer than what asks for it. Version 0 is an answer itself.
fn is_acceptable(datagram: &[u8]) -> bool {
    match long_version(datagram) {
        None | Some(V1) => true,
        Some(0) => false,
        Some(_) => datagram.len() >= MIN_INITIAL_BYTES,
    }
}

#[derive(Debug)]
struct LimitedSender {
    guard: AmplificationLimit,
    is_endpoints: bool,
    /// The connection, once it has sent something.
    peer: Option<Arc<Peer>>,
    /// The address that everything may be sent to, and until which generation.
    open: Option<(SocketAddr, u64)>,
    /// Of what was let through last.
    permitted: Permitted,
}

/// A reason to let something through.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Permitted {
    /// The address is validated.
    Freely,
    /// Of no connection or of a handshake, and counted by the guard.
    ByGuard,
    /// Counted by the connection.
    ByPeer,
}

impl LimitedSender {
    fn is_open(&mut self, to: SocketAddr) -> bool {
        let Some(peer) = &self.peer else { return false };
        let is_known = |(known, generation)| known == to && peer.is_still_open(generation);
        if !self.open.is_some_and(is_known) {
            self.open = peer.open_to(to).map(|generation| (to, generation));
        }
        self.open.is_some()
    }

    fn is_in_handshake(&self) -> bool {
        self.peer.as_ref().is_none_or(|peer| peer.is_in_handshake())
    }
}

impl Outgoing for LimitedSender {
    /// A datagram of a handshake, or of no connection, waits until its address may be sent more. A
    /// connection that is validated on another path must not wait for this one: a datagram that may
    /// not be sent is lost, and noq detects the loss.
    fn on_send(&mut self, transmit: &Transmit<'_>, cx: &mut Context<'_>) -> OnSend {
        let (to, contents) = (transmit.destination, transmit.contents);
        if self.peer.is_none() && !self.is_endpoints {
            self.peer = self.guard.sender_of(contents);
        }
        if self.is_open(to) {
            self.permitted = Permitted::Freely;
            return OnSend::Keep;
        }
        if self.is_in_handshake() {
            if self.guard.permit(to, contents, cx.waker()) {
                self.permitted = Permitted::ByGuard;
                return OnSend::Keep;
            }
            // It may have ended before there was somebody to be woken.
            if self.is_in_handshake() {
                return OnSend::Wait;
            }
        }
        if transmit.segment_size.is_some_and(|size| size < contents.len()) {
            return OnSend::Split;
        }
        self.permitted = Permitted::ByPeer;
        match self.peer.as_ref().and_then(|peer| peer.permit(to, contents)) {
            Some(Allowance::Yes) => OnSend::Keep,
            Some(Allowance::Instead(small)) => {
                OnSend::Rewrite { destination: to, contents: Some(small) }
            }
            Some(Allowance::No) | None => OnSend::Drop,
        }
    }

    fn not_taken(&mut self, transmit: &Transmit<'_>) -> NotTaken {
        match self.permitted {
            Permitted::Freely => NotTaken::Wait,
            Permitted::ByGuard => {
                self.guard.take_back(transmit.destination, transmit.contents);
                NotTaken::Wait
            }
            // Its challenge counts as sent.
            Permitted::ByPeer => NotTaken::Lose,
        }
    }

    /// One at a time unless everything may be sent, so that each can be counted and held back.
    fn most_segments(&self, below: NonZeroUsize) -> NonZeroUsize {
        if self.open.is_some() { below } else { NonZeroUsize::MIN }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_versions_pass_only_in_full_datagrams() {
        let datagram = |version: u32, bytes: usize| {
            let mut datagram = vec![0xc0; bytes];
            datagram[1..5].copy_from_slice(&version.to_be_bytes());
            datagram
        };
        for (version, bytes, passes) in [
            (1, 30, true),
            (1, 1200, true),
            (2, 1199, false),
            (2, 1200, true),
            (0xff00_001d, 1199, false),
            (0x6b33_43cf, 100, false),
            (0, 1200, false),
        ] {
            assert_eq!(
                is_acceptable(&datagram(version, bytes)),
                passes,
                "{version:#x}, {bytes} bytes"
            );
        }
        assert!(is_acceptable(&[0x40]), "a short header");
        assert!(!is_acceptable(&[0xc0, 0, 0]), "no room for a version");
    }
}
