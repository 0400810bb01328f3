//! The server's UDP socket between noq and the system: what noq never gets to see, and what it may
//! not send.

mod guard;
mod paths;
mod peer;

use std::io::{self, IoSliceMut};
use std::net::SocketAddr;
use std::num::NonZeroUsize;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Instant;

use noq::udp::{RecvMeta, Transmit};
use noq::{AsyncUdpSocket, UdpSender};

use crate::filter::keep;
use crate::wire::V1;
use crate::wire::header::{MIN_INITIAL_BYTES, long_version};
pub use guard::Guard;
use guard::Permit;
pub use peer::Peer;

impl Guard {
    /// The socket with this guard before it.
    pub fn wrap(&self, socket: Box<dyn AsyncUdpSocket>) -> Box<dyn AsyncUdpSocket> {
        Box::new(Socket { inner: socket, guard: self.clone(), senders: AtomicUsize::new(0) })
    }
}

#[derive(Debug)]
struct Socket {
    inner: Box<dyn AsyncUdpSocket>,
    guard: Guard,
    /// Senders so far.
    senders: AtomicUsize,
}

impl AsyncUdpSocket for Socket {
    /// noq makes one for the endpoint, for what is of no connection, and then one for each
    /// connection. A Retry of the endpoint's has a random connection ID that may be a connection's
    /// by chance, so whose a sender is cannot be told by what it sends alone.
    fn create_sender(&self) -> Pin<Box<dyn UdpSender>> {
        Box::pin(Sender {
            inner: self.inner.create_sender(),
            guard: self.guard.clone(),
            is_endpoints: self.senders.fetch_add(1, Ordering::Relaxed) == 0,
            peer: None,
            open: None,
        })
    }

    fn poll_recv(
        &mut self,
        cx: &mut Context<'_>,
        bufs: &mut [IoSliceMut<'_>],
        meta: &mut [RecvMeta],
    ) -> Poll<io::Result<usize>> {
        let count = ready!(self.inner.poll_recv(cx, bufs, meta))?;
        let now = Instant::now();
        for (buf, meta) in bufs.iter_mut().zip(meta.iter_mut()).take(count) {
            meta.len = keep(&mut buf[..meta.len], meta.stride, is_acceptable);
            for datagram in buf[..meta.len].chunks(meta.stride.max(1)) {
                self.guard.received(meta.addr, datagram, now);
            }
        }
        Poll::Ready(Ok(count))
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.inner.local_addr()
    }

    fn max_receive_segments(&self) -> NonZeroUsize {
        self.inner.max_receive_segments()
    }

    fn may_fragment(&self) -> bool {
        self.inner.may_fragment()
    }
}

/// Version 2 is version 1 here, if the server speaks it. A packet of a version that it does not
/// speak is answered only in a datagram that could begin a connection (RFC 9000 section 6.1), for
/// an answer would be longer than what asks for it. Version 0 is an answer itself.
fn is_acceptable(datagram: &[u8]) -> bool {
    match long_version(datagram) {
        None | Some(V1) => true,
        Some(0) => false,
        Some(_) => datagram.len() >= MIN_INITIAL_BYTES,
    }
}

#[derive(Debug)]
struct Sender {
    inner: Pin<Box<dyn UdpSender>>,
    guard: Guard,
    is_endpoints: bool,
    /// The connection, once it has sent something.
    peer: Option<Arc<Peer>>,
    /// The address that everything may be sent to, and until which generation.
    open: Option<(SocketAddr, u64)>,
}

impl Sender {
    /// A datagram of a handshake, or of no connection. It waits until the peer may be sent more.
    /// `None`: the handshake is over.
    fn send_or_wait(
        &mut self,
        transmit: &Transmit<'_>,
        cx: &mut Context<'_>,
    ) -> Option<Poll<io::Result<()>>> {
        let (to, contents) = (transmit.destination, transmit.contents);
        let is_over =
            |peer: &Option<Arc<Peer>>| peer.as_ref().is_some_and(|p| !p.is_in_handshake());
        if is_over(&self.peer) {
            return None;
        }
        if !self.guard.permit(to, contents, cx.waker()) {
            // It may have ended before there was somebody to be woken.
            return (!is_over(&self.peer)).then_some(Poll::Pending);
        }
        let sent = self.inner.as_mut().poll_send(transmit, cx);
        if sent.is_pending() {
            self.guard.take_back(to, contents);
        }
        Some(sent)
    }

    /// Sends datagrams of a connection that is validated on another path and must not wait for this
    /// one. Each datagram is sent by itself; one that may not be sent is lost, and noq detects the
    /// loss.
    fn send_or_lose(
        &mut self,
        transmit: &Transmit<'_>,
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<()>> {
        let size = transmit.segment_size.unwrap_or(transmit.contents.len()).max(1);
        for datagram in transmit.contents.chunks(size) {
            let permit = self.peer.as_ref().and_then(|p| p.permit(transmit.destination, datagram));
            let contents = match &permit {
                Some(Permit::Yes) => datagram,
                Some(Permit::Instead(small)) => small,
                Some(Permit::No) | None => continue,
            };
            let one = Transmit { contents, segment_size: None, ..*transmit };
            // One that the system does not take now is lost as well.
            if let Poll::Ready(Err(error)) = self.inner.as_mut().poll_send(&one, cx) {
                return Poll::Ready(Err(error));
            }
        }
        Poll::Ready(Ok(()))
    }
}

impl UdpSender for Sender {
    fn poll_send(
        mut self: Pin<&mut Self>,
        transmit: &Transmit<'_>,
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<()>> {
        if self.peer.is_none() && !self.is_endpoints {
            self.peer = self.guard.sender_of(transmit.contents);
        }
        let to = transmit.destination;
        if let (Some((known, generation)), Some(peer)) = (self.open, &self.peer)
            && known == to
            && peer.is_still_open(generation)
        {
            return self.inner.as_mut().poll_send(transmit, cx);
        }
        let open = self.peer.as_ref().and_then(|peer| peer.open_to(to));
        self.open = open.map(|generation| (to, generation));
        if open.is_some() {
            return self.inner.as_mut().poll_send(transmit, cx);
        }
        match self.send_or_wait(transmit, cx) {
            Some(sent) => sent,
            None => self.send_or_lose(transmit, cx),
        }
    }

    /// One at a time unless everything may be sent, so that each can be counted and held back.
    fn max_transmit_segments(&self) -> NonZeroUsize {
        match self.open {
            Some(_) => self.inner.max_transmit_segments(),
            None => NonZeroUsize::MIN,
        }
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

    #[test]
    fn what_is_left_of_a_batch_keeps_its_order_and_its_lengths() {
        let short = |fill: u8| [&[0x40][..], &[fill; 9]].concat();
        let bad = [&[0xc0, 9, 9, 9, 9][..], &[0; 5]].concat();
        let mut batch = [short(1), bad.clone(), bad.clone(), short(2), bad, vec![0x40, 3]].concat();
        let kept = keep(&mut batch, 10, is_acceptable);
        assert_eq!(batch[..kept], [short(1), short(2), vec![0x40, 3]].concat());
        let mut nothing = vec![0xc0; 25];
        assert_eq!(keep(&mut nothing, 10, is_acceptable), 0);
    }
}
