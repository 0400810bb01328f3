//! A socket for algorithms that do not answer CE.

use std::io::{self, IoSliceMut};
use std::net::SocketAddr;
use std::num::NonZeroUsize;
use std::pin::Pin;
use std::task::{Context, Poll};

use noq::udp::{RecvMeta, Transmit};
use noq::{AsyncUdpSocket, UdpSender};

/// A socket whose packets are not ECN-capable: noq marks all of its packets ECT(0), whatever its
/// controller makes of CE. To the peer, and so to noq, this is a path that clears the codepoint.
#[derive(Debug)]
pub(crate) struct NotEct(pub(crate) Box<dyn AsyncUdpSocket>);

impl AsyncUdpSocket for NotEct {
    fn create_sender(&self) -> Pin<Box<dyn UdpSender>> {
        Box::pin(NotEctSender(self.0.create_sender()))
    }

    fn poll_recv(
        &mut self,
        cx: &mut Context<'_>,
        bufs: &mut [IoSliceMut<'_>],
        meta: &mut [RecvMeta],
    ) -> Poll<io::Result<usize>> {
        self.0.poll_recv(cx, bufs, meta)
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.0.local_addr()
    }

    fn max_receive_segments(&self) -> NonZeroUsize {
        self.0.max_receive_segments()
    }

    fn may_fragment(&self) -> bool {
        self.0.may_fragment()
    }
}

#[derive(Debug)]
struct NotEctSender(Pin<Box<dyn UdpSender>>);

impl UdpSender for NotEctSender {
    fn poll_send(
        mut self: Pin<&mut Self>,
        transmit: &Transmit<'_>,
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<()>> {
        self.0.as_mut().poll_send(&Transmit { ecn: None, ..*transmit }, cx)
    }

    fn max_transmit_segments(&self) -> NonZeroUsize {
        self.0.max_transmit_segments()
    }
}
