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
mod tests {
    use std::task::Waker;

    use super::*;

    /// A socket that takes so many calls, and tells the lengths of their datagrams.
    #[derive(Clone, Debug, Default)]
    struct Wire {
        calls: Arc<Mutex<Vec<Vec<usize>>>>,
        bytes: Arc<Mutex<Vec<u8>>>,
        takes: Arc<Mutex<usize>>,
    }

    impl AsyncUdpSocket for Wire {
        fn create_sender(&self) -> Pin<Box<dyn UdpSender>> {
            Box::pin(self.clone())
        }

        fn poll_recv(
            &mut self,
            _cx: &mut Context<'_>,
            _bufs: &mut [IoSliceMut<'_>],
            _meta: &mut [RecvMeta],
        ) -> Poll<io::Result<usize>> {
            Poll::Pending
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
            let mut takes = self.takes.lock().expect("a test");
            if *takes == 0 {
                return Poll::Pending;
            }
            *takes -= 1;
            let size = transmit.segment_size.unwrap_or(transmit.contents.len());
            let datagrams: Vec<usize> = transmit.contents.chunks(size).map(<[u8]>::len).collect();
            // As the kernel does.
            let is_taken = transmit.contents.len() <= MOST_BYTES && datagrams.len() <= 64;
            assert!(is_taken, "EMSGSIZE: {datagrams:?}");
            self.calls.lock().expect("a test").push(datagrams);
            self.bytes.lock().expect("a test").extend_from_slice(transmit.contents);
            Poll::Ready(Ok(()))
        }

        fn max_transmit_segments(&self) -> NonZeroUsize {
            NonZeroUsize::new(64).expect("not 0")
        }
    }

    fn address(port: u16) -> SocketAddr {
        ([192, 0, 2, 1], port).into()
    }

    impl Wire {
        fn that_takes(calls: usize) -> Self {
            let wire = Self::default();
            *wire.takes.lock().expect("a test") = calls;
            wire
        }

        fn calls(&self) -> Vec<Vec<usize>> {
            self.calls.lock().expect("a test").clone()
        }
    }

    /// Datagrams of one call of noq's: their number, the length of each, and of a shorter last one.
    #[derive(Clone, Copy)]
    struct Call(usize, usize, usize);

    /// Hands a call over, with bytes that count on from `at`.
    fn hand_over(sender: &mut Pin<Box<dyn UdpSender>>, call: Call, to: u16, at: usize) -> Poll<()> {
        let Call(count, size, last) = call;
        let contents: Vec<u8> = (at..at + count * size + last).map(|byte| byte as u8).collect();
        let segment_size = Some(size).filter(|size| contents.len() > *size);
        let contents = &contents[..];
        let destination = address(to);
        let transmit = Transmit { destination, ecn: None, contents, segment_size, src_ip: None };
        let mut cx = Context::from_waker(Waker::noop());
        sender.as_mut().poll_send(&transmit, &mut cx).map(|sent| sent.expect("no error"))
    }

    /// A task that hands these calls over, two in each turn as noq does, until it may not.
    fn task(wire: &Wire, calls: Vec<(Call, u16)>) -> Turns {
        let mut sender = Batching(Box::new(wire.clone())).create_sender();
        let (mut calls, mut at) = (std::collections::VecDeque::from(calls), 0);
        Turns::of(Box::pin(std::future::poll_fn(move |_| {
            for _ in 0..2 {
                let Some((call, to)) = calls.front().copied() else { return Poll::Pending };
                if hand_over(&mut sender, call, to, at).is_pending() {
                    return Poll::Pending;
                }
                at += call.0 * call.1 + call.2;
                calls.pop_front();
            }
            Poll::Pending
        })))
    }

    fn poll(task: &mut Turns) {
        let mut cx = Context::from_waker(Waker::noop());
        assert!(Pin::new(task).poll(&mut cx).is_pending());
    }

    /// Everything that was handed over was sent, in its order.
    fn assert_whole(wire: &Wire, bytes: usize) {
        let sent = wire.bytes.lock().expect("a test");
        assert_eq!(sent.len(), bytes);
        assert!(sent.iter().enumerate().all(|(at, byte)| *byte == at as u8), "the order");
    }

    const FULL: (Call, u16) = (Call(10, 1452, 0), 1);

    #[test]
    fn what_a_task_hands_over_goes_in_as_few_calls_as_the_kernel_takes() {
        let wire = Wire::that_takes(100);
        let end = (Call(3, 1452, 700), 1);
        let mut task = task(&wire, [[FULL; 7].as_slice(), &[end]].concat());
        poll(&mut task);
        let lengths = |count, last| [vec![1452; count], vec![last]].concat();
        assert_eq!(wire.calls(), [vec![1452; 40], lengths(33, 700)]);
        assert_whole(&wire, 73 * 1452 + 700);
    }

    #[test]
    fn one_call_has_no_more_bytes_than_a_datagram_can_have() {
        let wire = Wire::that_takes(100);
        let mut task = task(&wire, vec![(Call(10, 8850, 0), 1), (Call(10, 8850, 20), 1)]);
        poll(&mut task);
        assert!(wire.calls().iter().all(|call| call.len() <= 7), "{:?}", wire.calls());
        assert_whole(&wire, 20 * 8850 + 20);
        // Nor where no turn would end.
        let wire = Wire::that_takes(100);
        let mut sender = Batching(Box::new(wire.clone())).create_sender();
        assert!(hand_over(&mut sender, Call(10, 8850, 0), 1, 0).is_ready());
        assert_eq!(wire.calls(), [vec![8850; 7], vec![8850; 3]]);
    }

    #[test]
    fn what_differs_is_not_put_together() {
        let wire = Wire::that_takes(100);
        let calls =
            [FULL, (Call(10, 1452, 0), 2), (Call(1, 1200, 0), 2), FULL, (Call(2, 1300, 0), 1)];
        let mut task = task(&wire, calls.to_vec());
        for _ in 0..3 {
            poll(&mut task);
        }
        let shorter_last = [vec![1452; 10], vec![1200]].concat();
        assert_eq!(wire.calls(), [vec![1452; 10], shorter_last, vec![1452; 10], vec![1300; 2]]);
    }

    #[test]
    fn what_the_socket_does_not_take_waits_and_keeps_its_order() {
        let wire = Wire::that_takes(0);
        let mut task = task(&wire, vec![FULL; 8]);
        poll(&mut task);
        assert!(wire.calls().is_empty());
        for _ in 0..4 {
            *wire.takes.lock().expect("a test") = 1;
            poll(&mut task);
        }
        assert_whole(&wire, 80 * 1452);
    }

    /// A server with a preferred address has two sockets, and a connection sends over both in a
    /// turn, or over the other one in the next.
    #[test]
    fn each_socket_of_a_task_sends_what_it_keeps() {
        let wires = [Wire::that_takes(100), Wire::that_takes(0)];
        let mut senders = wires.clone().map(|wire| Batching(Box::new(wire)).create_sender());
        let mut turns = 0;
        let mut task = Turns::of(Box::pin(std::future::poll_fn(move |_| {
            turns += 1;
            match turns {
                1 => {
                    for sender in &mut senders {
                        assert!(hand_over(sender, FULL.0, 1, 0).is_ready());
                    }
                }
                2 => assert!(hand_over(&mut senders[0], FULL.0, 1, 10 * 1452).is_ready()),
                _ => {}
            }
            Poll::Pending
        })));
        for _ in 0..2 {
            poll(&mut task);
        }
        *wires[1].takes.lock().expect("a test") = 100;
        poll(&mut task);
        assert_whole(&wires[0], 20 * 1452);
        assert_whole(&wires[1], 10 * 1452);
        assert!(task.left.is_empty());
    }

    #[test]
    fn outside_of_a_turn_nothing_waits() {
        let wire = Wire::that_takes(100);
        let mut sender = Batching(Box::new(wire.clone())).create_sender();
        assert!(hand_over(&mut sender, FULL.0, 1, 0).is_ready());
        assert_eq!(wire.calls(), [vec![1452; 10]]);
        *wire.takes.lock().expect("a test") = 0;
        assert!(hand_over(&mut sender, FULL.0, 1, 0).is_pending());
    }
}
