//! The two ends of a flow.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, mpsc};
use std::time;

use fullpipe_cc::Duration;
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use socket2::SockRef;

use super::latency::{Latencies, Unsent, Writes};
use crate::backend::RunError;
use crate::backend::realtime::Event;
use crate::scenario::Amount;
use crate::scenario::KernelCc;

/// The largest write and read.
const CHUNK_BYTES: usize = 64 << 10;

/// How long an end sleeps at most before it looks whether it is to stop.
const NAP_MS: u16 = 20;

/// What both ends of a flow know.
pub(super) struct Flow {
    pub(super) number: usize,
    pub(super) epoch: time::Instant,
    pub(super) cc: KernelCc,
    pub(super) amount: Amount,
    /// How much unsent data a bounded sender keeps.
    pub(super) unsent_bound_bytes: u32,
    /// How long a connection may take.
    pub(super) connect_timeout: time::Duration,
    /// The receiver's address.
    pub(super) to: SocketAddr,
    /// The sender's socket, once it is connected.
    pub(super) sender: OnceLock<TcpStream>,
    /// Application bytes that the receiver got.
    pub(super) received: AtomicU64,
    pub(super) writes: Writes,
    pub(super) latencies: Arc<Latencies>,
    /// Becomes true when the run is over.
    pub(super) ended: Arc<AtomicBool>,
    pub(super) told: mpsc::Sender<Event>,
}

impl Flow {
    fn has_ended(&self) -> bool {
        self.ended.load(Ordering::Relaxed)
    }

    fn now(&self) -> Duration {
        self.epoch.elapsed().into()
    }

    /// Whoever does not listen any more has ended the run.
    fn tell(&self, event: Event) {
        let _ = self.told.send(event);
    }

    /// What an end came to. After the end of the run, a connection that broke is no news.
    fn answer(&self, done: io::Result<()>) {
        if let Err(source) = done
            && !self.has_ended()
        {
            self.tell(Event::Failed(RunError::TcpFlow { flow: self.number, source }));
        }
    }

    /// Writes from `start` on, counted from the epoch.
    pub(super) fn send(&self, socket: socket2::Socket, start: Duration) {
        self.answer(self.try_send(socket, start));
    }

    fn try_send(&self, socket: socket2::Socket, start: Duration) -> io::Result<()> {
        while self.now() < start {
            if self.has_ended() {
                return Ok(());
            }
            let nap = (start - self.now()).min(Duration::from_millis(u64::from(NAP_MS)));
            std::thread::sleep(nap.into());
        }
        socket.set_tcp_congestion(self.cc.name().as_bytes())?;
        socket.set_tcp_nodelay(true)?;
        socket.set_tcp_notsent_lowat(self.unsent_bound_bytes)?;
        abort_on_close(&socket)?;
        socket.set_nonblocking(true)?;
        if !self.connect(&socket)? {
            return Ok(());
        }
        let stream = self.sender.get_or_init(|| TcpStream::from(socket));
        let begun = self.now();
        self.tell(Event::Started { flow: self.number, at: begun });
        self.write(stream, begun)
    }

    /// Whether it is connected; not when the run ended first.
    fn connect(&self, socket: &socket2::Socket) -> io::Result<bool> {
        let deadline = time::Instant::now() + self.connect_timeout;
        match socket.connect(&self.to.into()) {
            Err(e) if e.raw_os_error() != Some(Errno::EINPROGRESS as i32) => return Err(e),
            _ => {}
        }
        while !wait(socket, PollFlags::POLLOUT)? {
            if self.has_ended() {
                return Ok(false);
            }
            if time::Instant::now() > deadline {
                return Err(ErrorKind::TimedOut.into());
            }
        }
        socket.take_error()?.map_or(Ok(true), Err)
    }

    fn write(&self, mut stream: &TcpStream, begun: Duration) -> io::Result<()> {
        let chunk = vec![0; CHUNK_BYTES];
        let mut sent = 0;
        let mut unsent = Unsent::Bounded;
        loop {
            if unsent == Unsent::Bounded && self.is_half_over(self.now() - begun, sent) {
                unsent = Unsent::Unbounded;
                SockRef::from(stream).set_tcp_notsent_lowat(u32::MAX)?;
            }
            let left = match self.amount {
                Amount::Bytes(n) => n - sent,
                Amount::Duration(_) => u64::MAX,
            };
            if left == 0 || self.has_ended() {
                return Ok(());
            }
            if !wait(stream, PollFlags::POLLOUT)? {
                continue;
            }
            let want = left.min(CHUNK_BYTES as u64);
            self.writes.write(sent + want, unsent);
            match stream.write(&chunk[..want as usize]) {
                Ok(n) => sent += n as u64,
                Err(e) if is_nothing(&e) => {}
                Err(e) => return Err(e),
            }
            self.writes.written(sent);
        }
    }

    fn is_half_over(&self, elapsed: Duration, sent: u64) -> bool {
        match self.amount {
            Amount::Bytes(n) => sent >= n / 2,
            Amount::Duration(d) => elapsed.times(2) >= d,
        }
    }

    /// Takes the one connection and reads it to its end.
    pub(super) fn receive(&self, listener: &TcpListener) {
        self.answer(self.try_receive(listener));
    }

    fn try_receive(&self, listener: &TcpListener) -> io::Result<()> {
        let mut stream = loop {
            if self.has_ended() {
                return Ok(());
            }
            if wait(listener, PollFlags::POLLIN)? {
                break listener.accept()?.0;
            }
        };
        stream.set_nonblocking(true)?;
        abort_on_close(&stream)?;
        let mut chunk = vec![0; 4 * CHUNK_BYTES];
        let mut received = 0;
        while !self.has_ended() {
            if !wait(&stream, PollFlags::POLLIN)? {
                continue;
            }
            match stream.read(&mut chunk) {
                Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
                Ok(n) => received += n as u64,
                Err(e) if is_nothing(&e) => continue,
                Err(e) => return Err(e),
            }
            self.received.store(received, Ordering::Relaxed);
            self.writes.read(received, &self.latencies);
            if matches!(self.amount, Amount::Bytes(n) if received >= n) {
                self.tell(Event::Finished { flow: self.number, at: self.now() });
                return Ok(());
            }
        }
        Ok(())
    }
}

/// Closing then resets the connection: what the kernel went on sending after the process is gone
/// would keep the namespace alive.
fn abort_on_close<'s>(socket: impl Into<SockRef<'s>>) -> io::Result<()> {
    socket.into().set_linger(Some(time::Duration::ZERO))
}

fn is_nothing(e: &io::Error) -> bool {
    matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted)
}

/// Whether something happened within a nap.
fn wait(socket: &impl AsFd, flags: PollFlags) -> io::Result<bool> {
    match poll(&mut [PollFd::new(socket.as_fd(), flags)], PollTimeout::from(NAP_MS)) {
        Ok(happened) => Ok(happened > 0),
        Err(Errno::EINTR) => Ok(false),
        Err(e) => Err(e.into()),
    }
}
