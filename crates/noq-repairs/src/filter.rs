//! Filters between noq and a UDP socket.
//!
//! Datagrams that arrive go through them from the socket up to noq, and those that noq sends from
//! noq down to the socket. [`chain`] alone implements noq's traits for sockets.

use std::fmt::Debug;
use std::io::{self, IoSliceMut};
use std::net::SocketAddr;
use std::num::NonZeroUsize;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Instant;

use noq::udp::{RecvMeta, Transmit};
use noq::{AsyncUdpSocket, UdpSender};

/// The receiving side of a filter, one for a socket.
pub(crate) trait Filter: Debug + Send + Sync + 'static {
    /// The address from which noq sees what came from `from`.
    fn seen(&self, from: SocketAddr) -> SocketAddr {
        from
    }

    /// Looks at a datagram from `from` that arrived at `now`. It may rewrite it, with the length
    /// that it has.
    fn on_receive(&self, _from: SocketAddr, _datagram: &mut [u8], _now: Instant) -> OnReceive {
        OnReceive::Keep
    }

    /// The sending side of one of noq's senders.
    fn sender(&self) -> Box<dyn Outgoing>;
}

/// The fate of a datagram that arrived.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum OnReceive {
    /// It goes on, as it is now.
    Keep,
    /// noq does not get to see it.
    Drop,
}

/// The sending side of a filter. noq has one sender for an endpoint, which it makes first, and one
/// for each connection.
pub(crate) trait Outgoing: Debug + Send + Sync + 'static {
    /// Looks at what is about to be sent: a datagram, or several of one size.
    fn on_send(&mut self, transmit: &Transmit<'_>, cx: &mut Context<'_>) -> OnSend;

    /// The system does not take now what this filter kept or rewrote.
    fn not_taken(&mut self, _transmit: &Transmit<'_>) -> NotTaken {
        NotTaken::Wait
    }

    /// The most datagrams that noq may send as one, of those that go below.
    fn most_segments(&self, below: NonZeroUsize) -> NonZeroUsize {
        below
    }
}

/// The fate of what noq sends.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum OnSend {
    /// It goes on.
    Keep,
    /// It goes to this address, and with other contents this one datagram goes instead of it.
    Rewrite { destination: SocketAddr, contents: Option<Vec<u8>> },
    /// Each datagram is looked at by itself.
    Split,
    /// It counts as sent, and is not.
    Drop,
    /// It is asked for again when the filter wakes the task.
    Wait,
}

/// The fate of what the system does not take now.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum NotTaken {
    /// noq sends it again.
    Wait,
    /// It counts as sent.
    Lose,
}

/// The socket below these filters, the first of which is next to noq.
pub(crate) fn chain(
    socket: Box<dyn AsyncUdpSocket>,
    filters: Vec<Box<dyn Filter>>,
) -> Box<dyn AsyncUdpSocket> {
    if filters.is_empty() { socket } else { Box::new(Chain { socket, filters }) }
}

#[derive(Debug)]
struct Chain {
    socket: Box<dyn AsyncUdpSocket>,
    filters: Vec<Box<dyn Filter>>,
}

impl AsyncUdpSocket for Chain {
    fn create_sender(&self) -> Pin<Box<dyn UdpSender>> {
        let filters = self.filters.iter().map(|filter| filter.sender()).collect();
        Box::pin(FilteredSender { socket: self.socket.create_sender(), filters })
    }

    fn poll_recv(
        &mut self,
        cx: &mut Context<'_>,
        bufs: &mut [IoSliceMut<'_>],
        meta: &mut [RecvMeta],
    ) -> Poll<io::Result<usize>> {
        let count = ready!(self.socket.poll_recv(cx, bufs, meta))?;
        let now = Instant::now();
        for (buf, meta) in bufs.iter_mut().zip(meta.iter_mut()).take(count) {
            for filter in self.filters.iter().rev() {
                meta.addr = filter.seen(meta.addr);
                let from = meta.addr;
                meta.len = keep(&mut buf[..meta.len], meta.stride, |datagram| {
                    filter.on_receive(from, datagram, now) == OnReceive::Keep
                });
            }
        }
        Poll::Ready(Ok(count))
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.socket.local_addr()
    }

    fn max_receive_segments(&self) -> NonZeroUsize {
        self.socket.max_receive_segments()
    }

    fn may_fragment(&self) -> bool {
        self.socket.may_fragment()
    }
}

/// Moves the datagrams that are kept together, and gives the bytes that they have. All but the last
/// of what was received as one has the length `stride`.
pub(crate) fn keep(
    received: &mut [u8],
    stride: usize,
    mut is_kept: impl FnMut(&mut [u8]) -> bool,
) -> usize {
    let (mut kept, mut at) = (0, 0);
    while at < received.len() {
        let end = received.len().min(at + stride.max(1));
        if is_kept(&mut received[at..end]) {
            if kept < at {
                received.copy_within(at..end, kept);
            }
            kept += end - at;
        }
        at = end;
    }
    kept
}

#[derive(Debug)]
struct FilteredSender {
    socket: Pin<Box<dyn UdpSender>>,
    filters: Vec<Box<dyn Outgoing>>,
}

impl UdpSender for FilteredSender {
    fn poll_send(
        mut self: Pin<&mut Self>,
        transmit: &Transmit<'_>,
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<()>> {
        let Self { socket, filters } = &mut *self;
        send(filters, socket.as_mut(), transmit, cx)
    }

    fn max_transmit_segments(&self) -> NonZeroUsize {
        let most = self.socket.max_transmit_segments();
        self.filters.iter().rfold(most, |below, filter| filter.most_segments(below))
    }
}

/// Sends through these filters and the socket below them.
fn send(
    filters: &mut [Box<dyn Outgoing>],
    mut socket: Pin<&mut dyn UdpSender>,
    transmit: &Transmit<'_>,
    cx: &mut Context<'_>,
) -> Poll<io::Result<()>> {
    let Some((filter, below)) = filters.split_first_mut() else {
        return socket.poll_send(transmit, cx);
    };
    let sent = match filter.on_send(transmit, cx) {
        OnSend::Keep => send(below, socket, transmit, cx),
        OnSend::Rewrite { destination, contents: None } => {
            send(below, socket, &Transmit { destination, ..*transmit }, cx)
        }
        OnSend::Rewrite { destination, contents: Some(contents) } => {
            let instead =
                Transmit { destination, contents: &contents, segment_size: None, ..*transmit };
            send(below, socket, &instead, cx)
        }
        OnSend::Split => {
            let size = transmit.segment_size.unwrap_or(transmit.contents.len()).max(1);
            for contents in transmit.contents.chunks(size) {
                let one = Transmit { contents, segment_size: None, ..*transmit };
                // noq would send those before it again.
                if let Poll::Ready(Err(error)) = send(filters, socket.as_mut(), &one, cx) {
                    return Poll::Ready(Err(error));
                }
            }
            return Poll::Ready(Ok(()));
        }
        OnSend::Drop => return Poll::Ready(Ok(())),
        OnSend::Wait => return Poll::Pending,
    };
    if sent.is_pending() && filter.not_taken(transmit) == NotTaken::Lose {
        return Poll::Ready(Ok(()));
    }
    sent
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;
    use std::sync::{Arc, Mutex};
    use std::task::Waker;

    use super::*;

    fn address(port: u16) -> SocketAddr {
        ([192, 0, 2, 1], port).into()
    }

    /// Datagrams, and where they come from or go.
    type Datagrams = (SocketAddr, Vec<u8>);

    /// A socket that receives datagrams of two bytes, and takes so many.
    #[derive(Clone, Debug)]
    struct Wire {
        received: Arc<Mutex<VecDeque<Datagrams>>>,
        sent: Arc<Mutex<Vec<Datagrams>>>,
        takes: usize,
    }

    impl AsyncUdpSocket for Wire {
        fn create_sender(&self) -> Pin<Box<dyn UdpSender>> {
            Box::pin(self.clone())
        }

        fn poll_recv(
            &mut self,
            _cx: &mut Context<'_>,
            bufs: &mut [IoSliceMut<'_>],
            meta: &mut [RecvMeta],
        ) -> Poll<io::Result<usize>> {
            let next = self.received.lock().expect("a test").pop_front();
            let Some((addr, bytes)) = next else { return Poll::Pending };
            bufs[0][..bytes.len()].copy_from_slice(&bytes);
            (meta[0].addr, meta[0].stride, meta[0].len) = (addr, 2, bytes.len());
            Poll::Ready(Ok(1))
        }

        fn local_addr(&self) -> io::Result<SocketAddr> {
            Ok(address(443))
        }
    }

    impl UdpSender for Wire {
        fn poll_send(
            self: Pin<&mut Self>,
            transmit: &Transmit<'_>,
            _cx: &mut Context<'_>,
        ) -> Poll<io::Result<()>> {
            let mut sent = self.sent.lock().expect("a test");
            if sent.len() >= self.takes {
                return Poll::Pending;
            }
            let size = transmit.segment_size.unwrap_or(transmit.contents.len());
            let datagrams = transmit.contents.chunks(size);
            sent.extend(datagrams.map(|one| (transmit.destination, one.to_vec())));
            Poll::Ready(Ok(()))
        }

        fn max_transmit_segments(&self) -> NonZeroUsize {
            NonZeroUsize::new(10).expect("not 0")
        }
    }

    /// Adds its number to the first byte of each datagram, and does as the second byte says.
    #[derive(Clone, Copy, Debug)]
    struct Adds(u8);

    const DROPPED: u8 = 1;
    const MOVED: u8 = 2;
    const WAITS: u8 = 3;
    const LOST: u8 = 4;

    impl Filter for Adds {
        fn seen(&self, from: SocketAddr) -> SocketAddr {
            address(from.port() * 10 + u16::from(self.0))
        }

        fn on_receive(&self, _from: SocketAddr, datagram: &mut [u8], _now: Instant) -> OnReceive {
            datagram[0] = datagram[0] * 10 + self.0;
            if datagram[1] == DROPPED { OnReceive::Drop } else { OnReceive::Keep }
        }

        fn sender(&self) -> Box<dyn Outgoing> {
            Box::new(*self)
        }
    }

    impl Outgoing for Adds {
        fn on_send(&mut self, transmit: &Transmit<'_>, _cx: &mut Context<'_>) -> OnSend {
            if transmit.segment_size.is_some_and(|size| size < transmit.contents.len()) {
                return OnSend::Split;
            }
            let mut contents = transmit.contents.to_vec();
            contents[0] = contents[0] * 10 + self.0;
            let destination = transmit.destination;
            match contents[1] {
                DROPPED => OnSend::Drop,
                MOVED => OnSend::Rewrite { destination: address(7), contents: None },
                WAITS => OnSend::Wait,
                _ => OnSend::Rewrite { destination, contents: Some(contents) },
            }
        }

        fn not_taken(&mut self, transmit: &Transmit<'_>) -> NotTaken {
            if transmit.contents[1] == LOST { NotTaken::Lose } else { NotTaken::Wait }
        }

        fn most_segments(&self, below: NonZeroUsize) -> NonZeroUsize {
            NonZeroUsize::new(below.get() - usize::from(self.0)).expect("not 0")
        }
    }

    fn chained(takes: usize) -> (Wire, Box<dyn AsyncUdpSocket>) {
        let wire = Wire { received: Arc::default(), sent: Arc::default(), takes };
        let filters: Vec<Box<dyn Filter>> = vec![Box::new(Adds(1)), Box::new(Adds(2))];
        (wire.clone(), chain(Box::new(wire), filters))
    }

    #[test]
    fn what_arrives_passes_the_last_filter_first() {
        let (wire, mut chain) = chained(0);
        // Two of the four datagrams are dropped.
        let batch = [1, 0, 1, DROPPED, 1, DROPPED, 2, 0];
        *wire.received.lock().expect("a test") = [(address(8), batch.to_vec())].into();
        let (mut buffer, mut meta) = ([0; 100], [RecvMeta::default()]);
        let mut cx = Context::from_waker(Waker::noop());
        let taken = chain.poll_recv(&mut cx, &mut [IoSliceMut::new(&mut buffer)], &mut meta);
        assert!(matches!(taken, Poll::Ready(Ok(1))));
        assert_eq!((meta[0].addr, meta[0].len), (address(821), 4));
        assert_eq!(buffer[..4], [121, 0, 221, 0]);
    }

    /// One call of noq's, its end, and the datagrams that the socket got.
    fn sent(
        takes: usize,
        contents: &[u8],
        segment_size: Option<usize>,
    ) -> (Poll<()>, Vec<Datagrams>) {
        let (wire, chain) = chained(takes);
        let mut sender = chain.create_sender();
        assert_eq!(sender.max_transmit_segments().get(), 10 - 1 - 2);
        let destination = address(5);
        let transmit = Transmit { destination, ecn: None, contents, segment_size, src_ip: None };
        let mut cx = Context::from_waker(Waker::noop());
        let end = sender.as_mut().poll_send(&transmit, &mut cx).map(|end| end.expect("no error"));
        let sent = wire.sent.lock().expect("a test").clone();
        (end, sent)
    }

    #[test]
    fn what_is_sent_passes_the_first_filter_first() {
        let done = Poll::Ready(());
        assert_eq!(sent(9, &[1, 0], None), (done, vec![(address(5), vec![112, 0])]));
        assert_eq!(sent(9, &[1, MOVED], None), (done, vec![(address(7), vec![1, MOVED])]));
        assert_eq!(sent(9, &[1, DROPPED], None), (done, vec![]));
        assert_eq!(sent(9, &[1, WAITS], None), (Poll::Pending, vec![]));
        // Each of several has its own fate.
        let several = [1, 0, 1, DROPPED, 2, MOVED, 1, WAITS, 2, 0];
        let each = vec![
            (address(5), vec![112, 0]),
            (address(7), vec![2, MOVED]),
            (address(5), vec![212, 0]),
        ];
        assert_eq!(sent(9, &several, Some(2)), (done, each));
    }

    #[test]
    fn what_the_system_does_not_take_waits_or_is_lost() {
        assert_eq!(sent(0, &[1, 0], None), (Poll::Pending, vec![]));
        assert_eq!(sent(0, &[1, LOST], None), (Poll::Ready(()), vec![]));
    }

    #[test]
    fn what_is_left_of_a_batch_keeps_its_order_and_its_lengths() {
        let mut batch = [1, 1, 1, 0, 0, 0, 2, 2, 2, 3];
        let mut looked_at = Vec::new();
        let kept = keep(&mut batch, 3, |datagram| {
            looked_at.push(datagram.len());
            datagram[0] != 0
        });
        assert_eq!(
            (&batch[..kept], &looked_at[..]),
            (&[1, 1, 1, 2, 2, 2, 3][..], &[3, 3, 3, 1][..])
        );
        assert_eq!(keep(&mut batch, 0, |_| false), 0, "no length is one byte");
    }
}
