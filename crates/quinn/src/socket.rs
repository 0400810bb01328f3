//! A socket that holds the datagrams of each connection to its pacing rate.
//!
//! quinn's `Controller` has no pacing rate, and its pacer takes 1.25 windows a round trip. So the
//! rate is enforced where datagrams leave. A connection's task does three things in a row: it makes
//! the datagrams of one GSO batch, which the controller is told of; it asks its own [`UdpPoller`]
//! if the socket is writable; and it hands them to the socket. The poller is asked on the same
//! thread right after the controller was told, which is how it knows the path; it is not ready
//! before the pacer lets a datagram leave. Of a batch that is larger than what may leave, the
//! socket sends a part, which is a GSO batch again, and says that it would block; quinn keeps the
//! batch and asks the poller anew.
//!
//! `Endpoint::rebind` gives a connection another poller, which does not know the path before
//! datagrams are made for it. A batch of which a part has left goes then as a whole and unpaced:
//! the peer gets that part twice, and drops the second copy.

use std::cell::RefCell;
use std::fmt;
use std::io::{self, IoSliceMut};
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use fullpipe_adapter::{Timer, Timers};
use quinn::udp::{RecvMeta, Transmit};
use quinn::{AsyncUdpSocket, UdpPoller};

use crate::pacing::{Grant, Pacing, Permit};

thread_local! {
    /// Permission of the next batch on this thread.
    static GRANT: RefCell<Option<Grant>> = const { RefCell::new(None) };
}

#[derive(Debug)]
pub(crate) struct PacedSocket {
    socket: Arc<dyn AsyncUdpSocket>,
    timers: Timers,
}

impl PacedSocket {
    pub(crate) fn new(socket: Arc<dyn AsyncUdpSocket>, timers: Timers) -> Self {
        Self { socket, timers }
    }

    /// Sends the part of a batch that may leave.
    fn send_part(&self, transmit: &Transmit<'_>, grant: Grant) -> io::Result<()> {
        let (whole, segment) = (transmit.contents.len(), transmit.segment_size);
        let range = grant.part(whole, segment);
        let end = range.end;
        let part = &transmit.contents[range];
        // Over a short path the answer can be there before the system call returns.
        let now = self.timers.now();
        self.socket.try_send(&Transmit {
            destination: transmit.destination,
            ecn: transmit.ecn.filter(|_| grant.wants_ecn()),
            contents: part,
            segment_size: segment.filter(|segment| part.len() > *segment),
            src_ip: transmit.src_ip,
        })?;
        grant.have_left(now, whole, segment);
        if end < whole { Err(io::ErrorKind::WouldBlock.into()) } else { Ok(()) }
    }
}

impl AsyncUdpSocket for PacedSocket {
    fn create_io_poller(self: Arc<Self>) -> Pin<Box<dyn UdpPoller>> {
        Box::pin(PacedPoller {
            poller: self.socket.clone().create_io_poller(),
            timer: self.timers.timer(self.timers.now()),
            timers: self.timers.clone(),
            pacing: Pacing::new(),
        })
    }

    fn try_send(&self, transmit: &Transmit<'_>) -> io::Result<()> {
        match GRANT.take() {
            Some(grant) => self.send_part(transmit, grant),
            None => self.socket.try_send(transmit),
        }
    }

    fn poll_recv(
        &self,
        cx: &mut Context<'_>,
        bufs: &mut [IoSliceMut<'_>],
        meta: &mut [RecvMeta],
    ) -> Poll<io::Result<usize>> {
        self.socket.poll_recv(cx, bufs, meta)
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.socket.local_addr()
    }

    fn max_transmit_segments(&self) -> usize {
        self.socket.max_transmit_segments()
    }

    fn max_receive_segments(&self) -> usize {
        self.socket.max_receive_segments()
    }

    fn may_fragment(&self) -> bool {
        self.socket.may_fragment()
    }
}

/// The poller of one connection.
struct PacedPoller {
    poller: Pin<Box<dyn UdpPoller>>,
    timers: Timers,
    timer: Timer,
    pacing: Pacing,
}

impl UdpPoller for PacedPoller {
    fn poll_writable(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = &mut *self;
        this.pacing.look();
        let grant = loop {
            match this.pacing.permit(this.timers.now()) {
                Permit::Now(grant) => break grant,
                Permit::At(time) => {
                    this.timer.reset(time);
                    ready!(this.timer.poll(cx));
                }
            }
        };
        ready!(this.poller.as_mut().poll_writable(cx))?;
        GRANT.set(Some(grant));
        Poll::Ready(Ok(()))
    }
}

impl fmt::Debug for PacedPoller {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PacedPoller").field("timer", &self.timer).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::poll_fn;
    use std::sync::Mutex;
    use std::task::Waker;

    use crate::path::Path;
    use fullpipe_cc::{Algorithm, Rate};

    /// A socket that notes the length and the segment size of what it is given.
    #[derive(Debug, Default)]
    struct Noting(Mutex<Vec<(usize, Option<usize>)>>);

    impl AsyncUdpSocket for Noting {
        fn create_io_poller(self: Arc<Self>) -> Pin<Box<dyn UdpPoller>> {
            Box::pin(Writable)
        }

        fn try_send(&self, transmit: &Transmit<'_>) -> io::Result<()> {
            let sent = (transmit.contents.len(), transmit.segment_size);
            self.0.lock().expect("no panic").push(sent);
            Ok(())
        }

        fn poll_recv(
            &self,
            _: &mut Context<'_>,
            _: &mut [IoSliceMut<'_>],
            _: &mut [RecvMeta],
        ) -> Poll<io::Result<usize>> {
            Poll::Pending
        }

        fn local_addr(&self) -> io::Result<SocketAddr> {
            Ok(([127, 0, 0, 1], 1).into())
        }
    }

    #[derive(Debug)]
    struct Writable;

    impl UdpPoller for Writable {
        fn poll_writable(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }
    }

    /// A path at 10 MB/s, whose pacer lets 20 kB leave at once, and two batches of it: the first
    /// goes as it is, and the second in parts of several segments, every byte once.
    #[tokio::test(start_paused = true)]
    async fn a_batch_leaves_in_parts_that_are_batches() {
        let (noting, timers) = (Arc::new(Noting::default()), Timers::coarse());
        let socket = Arc::new(PacedSocket::new(noting.clone(), timers.clone()));
        let mut poller = socket.clone().create_io_poller();
        let rate = Rate::from_bytes_per_sec(10_000_000);
        let path = Path::new(
            Algorithm::Fixed(rate),
            fullpipe_cc::Config::new(1),
            timers.now(),
            1200,
            None,
        );
        let contents = vec![0; 10 * 1200 + 700];
        let transmit = Transmit {
            destination: ([127, 0, 0, 1], 2).into(),
            ecn: None,
            contents: &contents,
            segment_size: Some(1200),
            src_ip: None,
        };
        for _ in 0..3 {
            path.made(timers.now(), contents.len() as u64);
            loop {
                let is_writable = poll_fn(|cx| poller.as_mut().poll_writable(cx));
                is_writable.await.expect("writable");
                match socket.try_send(&transmit) {
                    Ok(()) => break,
                    Err(error) => assert_eq!(error.kind(), io::ErrorKind::WouldBlock),
                }
            }
        }
        let sent = noting.0.lock().expect("no panic").clone();
        assert_eq!(sent.iter().map(|(bytes, _)| bytes).sum::<usize>(), 3 * contents.len());
        assert!(sent.len() > 3 && sent.iter().any(|(bytes, _)| *bytes > 1200), "{sent:?}");
        for (bytes, segment) in sent {
            assert_eq!(segment, (bytes > 1200).then_some(1200), "{bytes}");
        }
    }

    #[tokio::test]
    async fn what_is_of_no_controller_of_ours_passes() {
        let noting = Arc::new(Noting::default());
        let socket = Arc::new(PacedSocket::new(noting.clone(), Timers::start()));
        let mut poller = socket.clone().create_io_poller();
        let mut cx = Context::from_waker(Waker::noop());
        for _ in 0..1000 {
            assert!(poller.as_mut().poll_writable(&mut cx).is_ready());
            let transmit = Transmit {
                destination: ([127, 0, 0, 1], 2).into(),
                ecn: None,
                contents: &[0; 1200],
                segment_size: None,
                src_ip: None,
            };
            socket.try_send(&transmit).expect("sent");
        }
        assert_eq!(noting.0.lock().expect("no panic").len(), 1000);
    }
}
