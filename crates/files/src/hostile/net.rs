//! A network inside the process: sockets of noq's that are queues, so that no datagram is lost that
//! a test counts.

use std::collections::{HashMap, VecDeque};
use std::io::{self, IoSliceMut};
use std::net::SocketAddr;
use std::num::NonZeroUsize;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use noq::udp::{RecvMeta, Transmit};
use noq::{AsyncUdpSocket, UdpSender};

use super::noise::SharedNoise;

/// Datagrams that wait at a socket before those who may wait do.
const ROOM: usize = 512;
/// Datagrams that wait at a socket at most; the others are lost.
const MOST_WAITING: usize = 8 * ROOM;
/// Datagrams of the target that are kept for whoever listens on the path.
const SEEN: usize = 32;
/// Largest datagram: noq's buffers hold no larger one.
pub(super) const MOST_BYTES: usize = 1472;
/// Datagrams of one sender that are received as one, as the kernel does it (GRO).
const SEGMENTS: usize = 8;

#[derive(Clone, Debug)]
pub(crate) struct Net(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    state: Mutex<State>,
    /// Target of an attack: the bytes that it is sent are counted.
    target: SocketAddr,
    delivered: AtomicU64,
}

#[derive(Debug, Default)]
struct State {
    ports: HashMap<SocketAddr, Port>,
    /// Datagrams that are sent to addresses at which nobody listens: strangers.
    strays: VecDeque<(SocketAddr, Vec<u8>)>,
    accounts: HashMap<SocketAddr, Account>,
    /// Datagrams that the target has sent lately.
    seen: VecDeque<(SocketAddr, Vec<u8>)>,
    /// An address that got more than three times what it sent.
    amplified: Option<(SocketAddr, Account)>,
}

#[derive(Debug, Default)]
struct Port {
    queue: VecDeque<(SocketAddr, Vec<u8>)>,
    waker: Option<Waker>,
}

/// Bytes that a stranger's address sent to the target, and got from it.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(super) struct Account {
    pub(super) sent: u64,
    pub(super) got: u64,
    /// It has shown that it receives.
    pub(super) is_valid: bool,
}

impl Net {
    pub(crate) fn new(target: SocketAddr) -> Self {
        let state = Mutex::default();
        Self(Arc::new(Inner { state, target, delivered: AtomicU64::new(0) }))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Datagrams that the target has taken in.
    pub(super) fn delivered(&self) -> u64 {
        self.0.delivered.load(Ordering::Relaxed)
    }

    /// A socket at this address. With noise, what it sends comes changed, doubled, late, or from
    /// elsewhere now and then.
    pub(crate) fn socket(
        &self,
        address: SocketAddr,
        noise: Option<SharedNoise>,
    ) -> Box<dyn AsyncUdpSocket> {
        let mut state = self.state();
        state.ports.insert(address, Port::default());
        // Whoever has a socket receives what is sent there; how much that is before it is proven,
        // is seen with strangers.
        state.accounts.entry(address).or_default().is_valid = true;
        drop(state);
        Box::new(Socket { net: self.clone(), address, noise })
    }

    /// Waits until the target keeps up.
    pub(super) async fn room(&self) {
        let is_full = |state: &State| {
            state.ports.get(&self.0.target).is_some_and(|port| port.queue.len() >= ROOM)
        };
        while is_full(&self.state()) {
            tokio::time::sleep(Duration::from_micros(200)).await;
        }
    }

    /// Delivers a datagram. One to the target from an address at which nobody listens is a
    /// stranger's, and counted.
    pub(super) fn send(&self, from: SocketAddr, to: SocketAddr, mut datagram: Vec<u8>) {
        datagram.truncate(MOST_BYTES);
        if datagram.is_empty() {
            return;
        }
        let mut state = self.state();
        if to == self.0.target && !state.ports.contains_key(&from) {
            state.accounts.entry(from).or_default().sent += datagram.len() as u64;
        }
        if from == self.0.target {
            if state.seen.len() >= SEEN {
                state.seen.pop_front();
            }
            state.seen.push_back((to, datagram.clone()));
        }
        if let Some(port) = state.ports.get_mut(&to) {
            if port.queue.len() < MOST_WAITING {
                port.queue.push_back((from, datagram));
            }
            let waker = port.waker.take();
            drop(state);
            return waker.into_iter().for_each(Waker::wake);
        }
        if from == self.0.target {
            let account = state.accounts.entry(to).or_default();
            account.got += datagram.len() as u64;
            let account = *account;
            if account.got > 3 * account.sent && !account.is_valid && state.amplified.is_none() {
                state.amplified = Some((to, account));
            }
        }
        if state.strays.len() >= ROOM {
            state.strays.pop_front();
        }
        state.strays.push_back((to, datagram));
    }

    /// An answer to a stranger.
    pub(super) fn stray(&self) -> Option<(SocketAddr, Vec<u8>)> {
        self.state().strays.pop_front()
    }

    /// A datagram that the target has sent lately, and where it went.
    pub(super) fn seen(&self) -> Option<(SocketAddr, Vec<u8>)> {
        self.state().seen.pop_front()
    }

    /// The stranger at this address shows that it receives.
    pub(super) fn proves(&self, address: SocketAddr) {
        self.state().accounts.entry(address).or_default().is_valid = true;
    }

    pub(super) fn amplified(&self) -> Option<(SocketAddr, Account)> {
        self.state().amplified
    }

    /// Addresses of strangers, the bytes that they sent, and that they got.
    pub(super) fn strangers(&self) -> (usize, u64, u64) {
        let state = self.state();
        let all = || state.accounts.values().filter(|account| !account.is_valid);
        (all().count(), all().map(|one| one.sent).sum(), all().map(|one| one.got).sum())
    }

    fn receive(
        &self,
        address: SocketAddr,
        cx: &Context<'_>,
        bufs: &mut [IoSliceMut<'_>],
        metas: &mut [RecvMeta],
    ) -> Poll<io::Result<usize>> {
        let mut state = self.state();
        let Some(port) = state.ports.get_mut(&address) else {
            return Poll::Ready(Err(io::ErrorKind::NotConnected.into()));
        };
        let mut count = 0;
        let mut datagrams = 0;
        for (buf, meta) in bufs.iter_mut().zip(metas) {
            let Some((from, first)) = port.queue.pop_front() else { break };
            let stride = first.len();
            let mut len = first.len().min(buf.len());
            buf[..len].copy_from_slice(&first[..len]);
            let mut segments = 1;
            // Datagrams of one size; the last may be smaller.
            while segments < SEGMENTS
                && len == stride * segments
                && let Some((next_from, next)) = port.queue.front()
                && *next_from == from
                && next.len() <= stride
                && len + next.len() <= buf.len()
            {
                buf[len..len + next.len()].copy_from_slice(next);
                len += next.len();
                segments += 1;
                port.queue.pop_front();
            }
            *meta = RecvMeta::default();
            (meta.addr, meta.len, meta.stride) = (from, len, stride);
            datagrams += segments as u64;
            count += 1;
        }
        if count == 0 {
            port.waker = Some(cx.waker().clone());
            return Poll::Pending;
        }
        if address == self.0.target {
            self.0.delivered.fetch_add(datagrams, Ordering::Relaxed);
        }
        Poll::Ready(Ok(count))
    }
}

#[derive(Debug)]
struct Socket {
    net: Net,
    address: SocketAddr,
    noise: Option<SharedNoise>,
}

impl AsyncUdpSocket for Socket {
    fn create_sender(&self) -> Pin<Box<dyn UdpSender>> {
        let (net, noise) = (self.net.clone(), self.noise.clone());
        Box::pin(NetSender { net, address: self.address, noise, late: None })
    }

    fn poll_recv(
        &mut self,
        cx: &mut Context<'_>,
        bufs: &mut [IoSliceMut<'_>],
        meta: &mut [RecvMeta],
    ) -> Poll<io::Result<usize>> {
        self.net.receive(self.address, cx, bufs, meta)
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        Ok(self.address)
    }

    fn max_receive_segments(&self) -> NonZeroUsize {
        NonZeroUsize::new(SEGMENTS).unwrap_or(NonZeroUsize::MIN)
    }

    fn may_fragment(&self) -> bool {
        false
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        self.net.state().ports.remove(&self.address);
    }
}

#[derive(Debug)]
struct NetSender {
    net: Net,
    address: SocketAddr,
    noise: Option<SharedNoise>,
    /// A datagram that the next one overtakes.
    late: Option<Vec<u8>>,
}

impl NetSender {
    fn send(&mut self, to: SocketAddr, datagram: Vec<u8>) {
        let Some(noise) = &self.noise else {
            return self.net.send(self.address, to, datagram);
        };
        let mut noise = noise.lock();
        let mut all = Vec::new();
        match noise.below(20) {
            // Lost.
            0 => {}
            // Overtaken.
            1 => self.late = Some(datagram.clone()),
            2 => all.extend([datagram.clone(), datagram.clone()]),
            _ => all.push(datagram.clone()),
        }
        all.extend(self.late.take_if(|_| !all.is_empty()));
        // Copies that somebody on the path has changed.
        for _ in 0..noise.pick(&[0, 0, 1, 2, 4]) {
            let mut copy = datagram.clone();
            if noise.percent(30) {
                // The header alone.
                let end = copy.len().min(40);
                noise.change(&mut copy[..end]);
            } else {
                noise.mangle(&mut copy);
            }
            all.push(copy);
        }
        // As it is, from an address that is not the sender's.
        let elsewhere = noise.percent(5).then(|| {
            let mut address = self.address;
            address.set_ip([198, 51, 100, noise.byte()].into());
            address
        });
        drop(noise);
        if let Some(elsewhere) = elsewhere {
            self.net.send(elsewhere, to, datagram);
        }
        for datagram in all {
            self.net.send(self.address, to, datagram);
        }
    }
}

impl UdpSender for NetSender {
    fn poll_send(
        mut self: Pin<&mut Self>,
        transmit: &Transmit<'_>,
        _cx: &mut Context<'_>,
    ) -> Poll<io::Result<()>> {
        let segment = transmit.segment_size.unwrap_or(transmit.contents.len()).max(1);
        for datagram in transmit.contents.chunks(segment) {
            self.send(transmit.destination, datagram.to_vec());
        }
        Poll::Ready(Ok(()))
    }
}
