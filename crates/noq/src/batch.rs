//! More datagrams in one call of the kernel's than noq hands over at a time.
//!
//! noq 1.4.0 sends ten datagrams at most in one call, and twenty before it lets other tasks run
//! (`connection.rs`, `MAX_TRANSMIT_SEGMENTS` and `MAX_TRANSMIT_DATAGRAMS`). The kernel takes 64 in
//! a call (UDP_SEGMENT), if they have no more bytes than the largest datagram. So a sender keeps
//! what it gets while a task of noq's runs, and sends it at the end of the task's turn, which
//! [`Turns`] marks. Nothing waits longer than that turn.
//!
//! That bound of the bytes holds here as well: noq sends ten datagrams of whatever size, and ten of
//! 8850 bytes are refused with EMSGSIZE.

use std::cell::RefCell;
use std::future::Future;
use std::io::{self, IoSliceMut};
use std::net::{IpAddr, SocketAddr};
use std::num::NonZeroUsize;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};

use noq::udp::{EcnCodepoint, RecvMeta, Transmit};
use noq::{AsyncUdpSocket, UdpSender};

/// Bytes of the largest datagram of UDP over IPv4, which bounds what one call sends as well.
const MOST_BYTES: usize = 65_507;
/// Datagrams after which noq ends a turn although it has more.
const DATAGRAMS_OF_A_TURN: usize = 20;
/// Turns without a pause: 80 datagrams, which are two calls at the usual size.
const MOST_TURNS: usize = 4;

thread_local! {
    /// The turn that this thread is in.
    static TURN: RefCell<Option<Turn>> = const { RefCell::new(None) };
}

/// The part of a task's work after which what was kept is sent.
#[derive(Debug, Default)]
struct Turn {
    /// The senders that keep something: a task has one for each of its sockets.
    kept: Vec<Shared>,
    /// Datagrams that were handed over.
    datagrams: usize,
}

impl Turn {
    /// True if a sender may keep datagrams until the end of this thread's turn.
    fn keeps(sender: &Shared) -> bool {
        TURN.with_borrow_mut(|turn| {
            let Some(turn) = turn else { return false };
            sender.add_to(&mut turn.kept);
            true
        })
    }

    fn count(datagrams: usize) {
        TURN.with_borrow_mut(|turn| {
            if let Some(turn) = turn {
                turn.datagrams += datagrams;
            }
        });
    }
}

/// Ends the thread's turn, also when the task panics.
struct InTurn;

impl InTurn {
    fn begin() -> Self {
        TURN.set(Some(Turn::default()));
        Self
    }
}

impl Drop for InTurn {
    fn drop(&mut self) {
        TURN.set(None);
    }
}

/// A task of noq's whose turns end with the sending of what its sender has kept.
pub(crate) struct Turns {
    task: Pin<Box<dyn Future<Output = ()> + Send>>,
    /// The senders whose sockets did not take all of it yet.
    left: Vec<Shared>,
}

impl Turns {
    pub(crate) fn of(task: Pin<Box<dyn Future<Output = ()> + Send>>) -> Self {
        Self { task, left: Vec::new() }
    }

    /// One turn, and the datagrams that were handed over in it.
    fn turn(&mut self, cx: &mut Context<'_>) -> (Poll<()>, usize) {
        let turn = InTurn::begin();
        let done = self.task.as_mut().poll(cx);
        let Turn { kept, datagrams } = TURN.take().unwrap_or_default();
        drop(turn);
        kept.iter().for_each(|sender| sender.add_to(&mut self.left));
        (done, datagrams)
    }

    /// Sends what is left. The memory of it goes where the task had no more to send: most
    /// connections send nothing for most of their time.
    fn flush(&mut self, cx: &mut Context<'_>, has_more: bool) {
        self.left.retain(|sender| {
            let mut batch = sender.lock();
            let is_left = batch.flush(cx).is_pending();
            if !is_left && !has_more {
                batch.bytes = Vec::new();
            }
            is_left
        });
    }
}

impl Future for Turns {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let this = &mut *self;
        let (mut done, mut has_more) = (Poll::Pending, true);
        for _ in 0..MOST_TURNS {
            let datagrams;
            (done, datagrams) = this.turn(cx);
            has_more = done.is_pending() && datagrams >= DATAGRAMS_OF_A_TURN;
            if !has_more {
                break;
            }
        }
        // What the socket does not take from a task that ends is lost, as any datagram may be.
        this.flush(cx, has_more);
        done
    }
}

/// A socket whose senders make batches.
#[derive(Debug)]
pub(crate) struct Batching(pub(crate) Box<dyn AsyncUdpSocket>);

impl AsyncUdpSocket for Batching {
    fn create_sender(&self) -> Pin<Box<dyn UdpSender>> {
        let batch = Batch { socket: self.0.create_sender(), head: None, bytes: Vec::new() };
        Box::pin(BatchSender(Shared(Arc::new(Mutex::new(batch)))))
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

/// A batch, which its sender and the turn of its task have.
#[derive(Clone, Debug)]
struct Shared(Arc<Mutex<Batch>>);

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Batch> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn add_to(&self, senders: &mut Vec<Self>) {
        if !senders.iter().any(|sender| Arc::ptr_eq(&sender.0, &self.0)) {
            senders.push(self.clone());
        }
    }
}

#[derive(Debug)]
struct BatchSender(Shared);

impl UdpSender for BatchSender {
    fn poll_send(
        self: Pin<&mut Self>,
        transmit: &Transmit<'_>,
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<()>> {
        let mut batch = self.0.lock();
        let (head, contents) = (Head::of(transmit), transmit.contents);
        let datagrams = contents.len().div_ceil(head.size);
        if !batch.add(&head, contents) {
            // The end of others' datagrams is not this one's.
            let _ = ready!(batch.flush(cx));
            if datagrams > 1 && Turn::keeps(&self.0) {
                batch.begin(head, contents);
            } else {
                ready!(batch.send(head, contents, cx))?;
            }
        }
        Turn::count(datagrams);
        Poll::Ready(Ok(()))
    }

    fn max_transmit_segments(&self) -> NonZeroUsize {
        self.0.lock().socket.max_transmit_segments()
    }
}

/// Datagrams that wait to be sent.
#[derive(Debug)]
struct Batch {
    socket: Pin<Box<dyn UdpSender>>,
    /// Properties of those in `bytes`, if there are any.
    head: Option<Head>,
    bytes: Vec<u8>,
}

/// Properties that the datagrams of one call share.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Head {
    destination: SocketAddr,
    ecn: Option<EcnCodepoint>,
    src_ip: Option<IpAddr>,
    /// Bytes of each; the last one may have less.
    size: usize,
}

impl Head {
    fn of(transmit: &Transmit<'_>) -> Self {
        let Transmit { destination, ecn, src_ip, contents, segment_size } = *transmit;
        let size = segment_size.unwrap_or(contents.len()).max(1);
        Self { destination, ecn, src_ip, size }
    }

    fn transmit<'a>(&self, contents: &'a [u8]) -> Transmit<'a> {
        let Self { destination, ecn, src_ip, size } = *self;
        let segment_size = Some(size).filter(|size| *size < contents.len());
        Transmit { destination, ecn, contents, segment_size, src_ip }
    }

    /// Bytes that one call may have.
    fn room(&self, segments: NonZeroUsize) -> usize {
        self.size * (MOST_BYTES / self.size).clamp(1, segments.get())
    }
}

impl Batch {
    fn room(&self, head: &Head) -> usize {
        head.room(self.socket.max_transmit_segments())
    }

    /// Adds datagrams to those that wait; false if they do not go with them.
    fn add(&mut self, head: &Head, contents: &[u8]) -> bool {
        let Some(held) = self.head else { return false };
        // One datagram, which may be shorter, says its own length.
        let is_last = contents.len() <= head.size && contents.len() <= held.size;
        let is_alike = Head { size: held.size, ..*head } == held;
        let fits = self.bytes.len() + contents.len() <= self.room(&held);
        let is_open = self.bytes.len().is_multiple_of(held.size);
        if is_alike && fits && is_open && (is_last || head.size == held.size) {
            self.bytes.extend_from_slice(contents);
            return true;
        }
        false
    }

    /// Keeps the first datagrams of a batch. More than one call takes are sent in several.
    fn begin(&mut self, head: Head, contents: &[u8]) {
        self.head = Some(head);
        self.bytes.extend_from_slice(contents);
    }

    /// Sends what waits.
    fn flush(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let Some(head) = self.head else { return Poll::Ready(Ok(())) };
        let mut sent = 0;
        while sent < self.bytes.len() {
            // The kernel's first refusal makes it one datagram a call.
            let room = self.room(&head);
            let part = &self.bytes[sent..self.bytes.len().min(sent + room)];
            match self.socket.as_mut().poll_send(&head.transmit(part), cx) {
                Poll::Ready(Ok(())) => sent += part.len(),
                Poll::Ready(Err(error)) => {
                    self.head = None;
                    self.bytes.clear();
                    return Poll::Ready(Err(error));
                }
                Poll::Pending => {
                    self.bytes.drain(..sent);
                    return Poll::Pending;
                }
            }
        }
        self.bytes.clear();
        self.head = None;
        Poll::Ready(Ok(()))
    }

    /// Sends datagrams at once. Those of several calls wait if only the first of these was taken.
    fn send(&mut self, head: Head, contents: &[u8], cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if contents.len() <= self.room(&head) {
            return self.socket.as_mut().poll_send(&head.transmit(contents), cx);
        }
        self.begin(head, contents);
        match self.flush(cx) {
            Poll::Pending if self.bytes.len() == contents.len() => {
                self.head = None;
                self.bytes.clear();
                Poll::Pending
            }
            // The next transmit sends the rest, or the end of the turn.
            Poll::Pending => Poll::Ready(Ok(())),
            sent => sent,
        }
    }
}

#[cfg(test)]
mod tests;
