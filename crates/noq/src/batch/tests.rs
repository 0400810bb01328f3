//! Batches that leave and wait.

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
    let calls = [FULL, (Call(10, 1452, 0), 2), (Call(1, 1200, 0), 2), FULL, (Call(2, 1300, 0), 1)];
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
