//! Two stacks with a pair of datagram sockets between them: no device, and no rights.

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixDatagram;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use fullpipe_tcp::Config;
use fullpipe_tcp::tokio::{Device, Stack, TcpListener, TcpStream};
use fullpipe_testkit::PATIENCE;
use tokio::runtime::{Builder, Runtime};
use tokio::time::timeout;

/// A device that misbehaves.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Fault {
    /// Sending panics.
    Panics = 1,
    /// There is nothing at its other end any more.
    Ended,
    /// Reading is an error.
    Broken,
    /// It has room for nothing.
    Full,
}

/// The test's view of a device.
#[derive(Default)]
pub(crate) struct Seen {
    reads: AtomicU64,
    fault: AtomicU64,
}

impl Seen {
    pub(crate) fn reads(&self) -> u64 {
        self.reads.load(Relaxed)
    }

    pub(crate) fn set(&self, fault: Fault) {
        self.fault.store(fault as u64, Relaxed);
    }

    fn has(&self, fault: Fault) -> bool {
        self.fault.load(Relaxed) == fault as u64
    }
}

/// True if no driver has the device any more.
pub(crate) fn is_gone(seen: &Arc<Seen>) -> bool {
    Arc::strong_count(seen) == 1
}

pub(crate) struct Wire {
    socket: UnixDatagram,
    seen: Arc<Seen>,
}

impl AsFd for Wire {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl Device for Wire {
    fn receive(&self, to: &mut [u8]) -> io::Result<usize> {
        self.seen.reads.fetch_add(1, Relaxed);
        if self.seen.has(Fault::Ended) {
            return Ok(0);
        }
        if self.seen.has(Fault::Broken) {
            return Err(io::ErrorKind::HostUnreachable.into());
        }
        self.socket.recv(to)
    }

    fn send(&self, packet: &[u8]) -> io::Result<usize> {
        assert!(!self.seen.has(Fault::Panics), "a device that panics");
        if self.seen.has(Fault::Full) {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        self.socket.send(packet)
    }
}

/// The two ends of a wire.
pub(crate) fn wires() -> [(Wire, Arc<Seen>); 2] {
    let (one, other) = UnixDatagram::pair().expect("two sockets");
    [one, other].map(|socket| {
        socket.set_nonblocking(true).expect("a setting");
        let seen = Arc::new(Seen::default());
        (Wire { socket, seen: Arc::clone(&seen) }, seen)
    })
}

pub(crate) fn client(port: u16) -> SocketAddr {
    SocketAddr::from(([10, 0, 0, 1], port))
}

pub(crate) fn server(port: u16) -> SocketAddr {
    SocketAddr::from(([10, 0, 0, 2], port))
}

/// With a short TIME-WAIT, so that connections end while a test waits for it.
pub(crate) fn config() -> Config {
    Config { time_wait: fullpipe_cc::Duration::from_millis(20), ..Config::default() }
}

pub(crate) fn runtime() -> Runtime {
    let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build();
    runtime.expect("a runtime")
}

/// Runs what ends by itself, and fails where it does not.
pub(crate) fn run<T>(runtime: &Runtime, future: impl Future<Output = T>) -> T {
    runtime.block_on(async { timeout(PATIENCE, future).await.expect("it ends by itself") })
}

/// A connection between two stacks.
pub(crate) struct Pair {
    pub(crate) stacks: [Stack; 2],
    pub(crate) devices: [Arc<Seen>; 2],
    pub(crate) listener: TcpListener,
    pub(crate) client: TcpStream,
    pub(crate) server: TcpStream,
}

pub(crate) async fn pair() -> Pair {
    pair_with(&config()).await
}

pub(crate) async fn pair_with(config: &Config) -> Pair {
    let [(one, seen), (other, other_seen)] = wires();
    let stacks = [one, other].map(|wire| Stack::start(wire, 10).expect("a stack"));
    let listener = TcpListener::bind(&stacks[1], server(80), 4, config).expect("a listener");
    let connect = TcpStream::connect(&stacks[0], client(0), server(80), config);
    let (client, accepted) = tokio::join!(connect, listener.accept());
    let (client, (server, _)) = (client.expect("it connects"), accepted.expect("it connects"));
    Pair { stacks, devices: [seen, other_seen], listener, client, server }
}

/// Long enough for what must not happen to happen.
pub(crate) const A_WHILE: Duration = Duration::from_millis(100);
