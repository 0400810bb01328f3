//! Streams.

use std::fmt;
use std::io::{self, IoSlice};
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time;

use ::tokio::io::ReadBuf;

use fullpipe_cc::{Algorithm, BandwidthProbe, Duration, Rate, Snapshot};

use super::halves::{self, OwnedReadHalf, OwnedWriteHalf, ReadHalf, WriteHalf};
use super::wakers::{Direction, Wakers};
use super::{Share, Stack};
use crate::{Config, Connection, Endpoint, Error, Handle, Info, State};

/// A connection. Dropping it closes it: what was written still arrives. Data that nobody has read
/// by then, or that the peer sends from then on, resets it instead, so that the peer learns that it
/// was lost (RFC 2525 section 2.17).
///
/// As with tokio's own streams, of the tasks that poll to read the last one is woken, and of those
/// that poll to write; any number may wait in the futures that take `&self`, and all are woken.
pub struct TcpStream {
    shared: Share,
    handle: Handle,
    /// Nanoseconds that what was written has to arrive once this is dropped; [`NO_LIMIT`] for as
    /// many as it takes.
    linger: AtomicU64,
}

/// See [`TcpStream::linger`].
const NO_LIMIT: u64 = u64::MAX;

/// [`Poll::Pending`] for [`Error::WouldBlock`].
fn outcome<T>(result: Result<T, Error>) -> Poll<io::Result<T>> {
    match result {
        Err(Error::WouldBlock) => Poll::Pending,
        done => Poll::Ready(done.map_err(io::Error::from)),
    }
}

/// A stream whose handshake is not over. Given up, nothing of it may arrive later: what was written
/// for Fast Open would leave with the next SYN.
struct Connecting(Option<TcpStream>);

impl Drop for Connecting {
    fn drop(&mut self) {
        if let Some(stream) = &self.0 {
            stream.shared.lock().endpoint.abort(stream.handle);
        }
    }
}

impl TcpStream {
    pub(super) fn new(shared: Share, handle: Handle) -> Self {
        Self { shared, handle, linger: AtomicU64::new(NO_LIMIT) }
    }

    /// Connects `local`, an address of the stack whose port may be 0 for any, to `remote`.
    ///
    /// It waits for [`Config::connect_timeout`] at most, three minutes by default, or for
    /// [`Config::user_timeout`] if that is shorter. Dropping the future gives up at once, so
    /// `tokio::time::timeout` around it is a shorter limit.
    ///
    /// # Errors
    /// [`io::ErrorKind::InvalidInput`] for addresses that are impossible, `AddrInUse` for a
    /// connection that there is or when no port is left, `QuotaExceeded` beyond the stack's number
    /// of connections, `ConnectionRefused` by the peer, `TimedOut` without an answer,
    /// `NetworkUnreachable` or `HostUnreachable` where a router said so meanwhile; the stack has
    /// ended.
    pub async fn connect(
        stack: &Stack,
        local: SocketAddr,
        remote: SocketAddr,
        config: &Config,
    ) -> io::Result<Self> {
        let (stream, _) = Self::connect_with(stack, local, remote, config, &[]).await?;
        Ok(stream)
    }

    /// As [`Self::connect`], and writes of `data` what there is room for before the SYN leaves; the
    /// number of bytes is beside the stream. With [`Config::fast_open`] the first of them leave
    /// with the SYN, once a cookie of the server's is known, and the others after the handshake;
    /// without it nothing is written. Linux: MSG_FASTOPEN, TCP_FASTOPEN_CONNECT.
    ///
    /// # Errors
    /// As [`Self::connect`].
    pub async fn connect_with(
        stack: &Stack,
        local: SocketAddr,
        remote: SocketAddr,
        config: &Config,
        data: &[u8],
    ) -> io::Result<(Self, usize)> {
        let shared = stack.shared.clone();
        let (handle, written) = {
            let (mut state, now) = (shared.lock(), shared.now());
            state.check()?;
            let handle = state.endpoint.connect(now, local, remote, config)?;
            // No room without Fast Open.
            (handle, state.endpoint.write(now, handle, data).unwrap_or(0))
        };
        shared.work.notify_one();
        let mut connecting = Connecting(Some(Self::new(shared, handle)));
        let is_open = |endpoint: &mut Endpoint| {
            let connection = endpoint.connection(handle);
            outcome(match connection.map(Connection::state) {
                Some(State::SynSent | State::SynReceived) => Err(Error::WouldBlock),
                Some(State::Closed) | None => {
                    Err(connection.and_then(Connection::error).unwrap_or(Error::Closed))
                }
                Some(_) => Ok(()),
            })
        };
        if let Some(stream) = &connecting.0 {
            stream.wait(is_open, |wakers| &mut wakers.write).await?;
        }
        let stream = connecting.0.take().ok_or(io::ErrorKind::NotConnected)?;
        Ok((stream, written))
    }

    fn with<T>(&self, look: impl FnOnce(&Connection) -> T) -> io::Result<T> {
        let state = self.shared.lock();
        state.endpoint.connection(self.handle).map(look).ok_or(io::ErrorKind::NotConnected.into())
    }

    /// The state and the counters, by the names of Linux's TCP_INFO.
    ///
    /// # Errors
    /// The connection is gone.
    pub fn info(&self) -> io::Result<Info> {
        self.with(Connection::info)
    }

    /// The model of the congestion control.
    ///
    /// # Errors
    /// The connection is gone.
    pub fn congestion(&self) -> io::Result<Snapshot> {
        self.with(Connection::congestion)
    }

    /// Asks whether the path carries `target`: as [`Connection::probe_bandwidth`].
    ///
    /// # Errors
    /// The connection is gone.
    pub fn probe_bandwidth(&self, target: Rate) -> io::Result<BandwidthProbe> {
        let now = self.shared.now();
        Ok(self.shared.lock().endpoint.probe_bandwidth(now, self.handle, target)?)
    }

    /// The peer's address.
    ///
    /// # Errors
    /// The connection is gone.
    pub fn peer_addr(&self) -> io::Result<SocketAddr> {
        self.with(Connection::remote)
    }

    /// This end's address.
    ///
    /// # Errors
    /// The connection is gone.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.with(Connection::local)
    }

    /// Lets small segments leave at once, or not: TCP_NODELAY.
    pub fn set_nodelay(&self, nodelay: bool) {
        self.shared.lock().endpoint.set_nagle(self.handle, !nodelay);
        self.shared.work.notify_one();
    }

    /// Lets the last segment wait until it is full, or lets it leave: TCP_CORK, as
    /// [`Connection::set_cork`] with its limit of 200 ms.
    pub fn set_cork(&self, is_corked: bool) {
        self.shared.lock().endpoint.set_cork(self.shared.now(), self.handle, is_corked);
        self.shared.work.notify_one();
    }

    /// Asks the peer whether it is still there after `idle` without a segment, which is at least a
    /// second, and every `interval` from then on, and ends the connection with `TimedOut` after
    /// `probes` without an answer: SO_KEEPALIVE, TCP_KEEPIDLE, TCP_KEEPINTVL and TCP_KEEPCNT.
    /// Without `idle` it never asks; without `interval` that is 75 seconds, or `idle` if it is
    /// shorter. As [`Config::keep_alive`] and its neighbours, for this stream.
    pub fn set_keep_alive(
        &self,
        idle: Option<time::Duration>,
        interval: Option<time::Duration>,
        probes: u32,
    ) {
        let (idle, interval) = (idle.map(Duration::from), interval.map(Duration::from));
        self.shared.lock().endpoint.set_keep_alive(self.handle, idle, interval, probes);
        self.shared.work.notify_one();
    }

    /// The time without an answer after which the connection ends with `TimedOut`, for what is
    /// already waiting as well: TCP_USER_TIMEOUT, as [`Config::user_timeout`] for this stream.
    pub fn set_user_timeout(&self, timeout: time::Duration) {
        self.shared.lock().endpoint.set_user_timeout(self.handle, timeout.into());
        self.shared.work.notify_one();
    }

    /// Has dropping this stream reset the connection: what was written and has not arrived is lost,
    /// and the peer's next call fails. SO_LINGER with a time of 0.
    pub fn set_zero_linger(&self) {
        self.set_linger(Some(time::Duration::ZERO));
    }

    /// The time after the drop of this stream in which what was written may arrive; then the
    /// connection is reset. `None`, as it is at first, is as long as the peer answers. SO_LINGER,
    /// but no call waits: [`Self::delivered`] does.
    pub fn set_linger(&self, time: Option<time::Duration>) {
        let nanos = time.map(|time| u64::try_from(time.as_nanos()).unwrap_or(NO_LIMIT));
        self.linger.store(nanos.unwrap_or(NO_LIMIT), Ordering::Relaxed);
    }

    /// Two halves that borrow this stream, to read and to write at the same time within one task.
    pub fn split(&mut self) -> (ReadHalf<'_>, WriteHalf<'_>) {
        halves::split(self)
    }

    /// Two halves to read and to write in different tasks. Dropping the one that writes closes this
    /// end for writing, as a shutdown does; with both the stream is dropped.
    pub fn into_split(self) -> (OwnedReadHalf, OwnedWriteHalf) {
        halves::into_split(self)
    }

    /// Another congestion control from now on: TCP_CONGESTION.
    pub fn set_congestion(&self, algorithm: Algorithm) {
        self.shared.lock().endpoint.set_congestion(self.shared.now(), self.handle, algorithm);
        self.shared.work.notify_one();
    }

    /// Waits until there is something to read: data, the end, or an error.
    ///
    /// # Errors
    /// The stack has ended.
    pub async fn readable(&self) -> io::Result<()> {
        self.until(Connection::is_readable, |wakers| &mut wakers.read).await
    }

    /// Waits until there is room to write, as [`Connection::is_writable`] says, or an error.
    ///
    /// # Errors
    /// The stack has ended.
    pub async fn writable(&self) -> io::Result<()> {
        self.until(Connection::is_writable, |wakers| &mut wakers.write).await
    }

    /// Waits until the peer has acknowledged all that was written, and the end of it if this end is
    /// shut down.
    ///
    /// # Errors
    /// The reason of the connection's end, if it ends before; the stack has ended.
    pub async fn delivered(&self) -> io::Result<()> {
        let look = |endpoint: &mut Endpoint| {
            let Some(connection) = endpoint.connection(self.handle) else {
                return Poll::Ready(Err(io::ErrorKind::NotConnected.into()));
            };
            match connection.error() {
                Some(error) => Poll::Ready(Err(error.into())),
                None if connection.has_undelivered() => Poll::Pending,
                None => Poll::Ready(Ok(())),
            }
        };
        self.wait(look, |wakers| &mut wakers.write).await
    }

    /// Waits until the connection ends by an error and gives that: the peer reset it or answers no
    /// more, or the stack has ended. Of one that ends well nothing comes. Data that has arrived
    /// before stays to be read.
    pub async fn broken(&self) -> io::Error {
        let look = |endpoint: &mut Endpoint| {
            let error = endpoint.connection(self.handle).and_then(Connection::error);
            error.map_or(Poll::Pending, |error| Poll::Ready(Ok(error)))
        };
        match self.wait(look, |wakers| &mut wakers.read).await {
            Ok(error) => error.into(),
            Err(ended) => ended,
        }
    }

    async fn until(
        &self,
        is_so: fn(&Connection) -> bool,
        direction: fn(&mut Wakers) -> &mut Direction,
    ) -> io::Result<()> {
        let look = |endpoint: &mut Endpoint| match endpoint.connection(self.handle) {
            Some(connection) if !is_so(connection) => Poll::Pending,
            _ => Poll::Ready(Ok(())),
        };
        self.wait(look, direction).await
    }

    /// Does something with the endpoint once it is possible.
    async fn wait<T>(
        &self,
        mut act: impl FnMut(&mut Endpoint) -> Poll<io::Result<T>>,
        direction: fn(&mut Wakers) -> &mut Direction,
    ) -> io::Result<T> {
        let waiting = |wakers: &mut Wakers| direction(wakers).waiting();
        let notify = match self.attempt(&mut act, waiting) {
            Ok(done) => return done,
            Err(notify) => notify,
        };
        loop {
            // It is registered before it looks, so that it misses nothing.
            let mut changed = pin!(notify.notified());
            changed.as_mut().enable();
            if let Ok(done) = self.attempt(&mut act, |_| ()) {
                return done;
            }
            changed.await;
        }
    }

    /// Does something with the endpoint; where that has to wait, `or` is the error.
    fn attempt<T, W>(
        &self,
        act: impl FnOnce(&mut Endpoint) -> Poll<io::Result<T>>,
        or: impl FnOnce(&mut Wakers) -> W,
    ) -> Result<io::Result<T>, W> {
        let mut state = self.shared.lock();
        if let Err(ended) = state.check() {
            return Ok(Err(ended));
        }
        match act(&mut state.endpoint) {
            Poll::Ready(done) => Ok(done),
            Poll::Pending => Err(or(state.wakers.entry(self.handle).or_default())),
        }
    }

    /// Waits for data, copies it into `to` and leaves it to be read; the number of bytes, 0 for the
    /// end of the stream.
    ///
    /// # Errors
    /// As [`Self::try_read`].
    pub async fn peek(&self, to: &mut [u8]) -> io::Result<usize> {
        let look = |endpoint: &mut Endpoint| {
            let connection = endpoint.connection(self.handle).ok_or(Error::Closed);
            outcome(connection.and_then(|connection| connection.peek(to)))
        };
        self.wait(look, |wakers| &mut wakers.read).await
    }

    /// Reads what there is, as [`Connection::read`].
    ///
    /// # Errors
    /// [`io::ErrorKind::WouldBlock`] when there is nothing yet; the reason of the connection's end,
    /// such as `ConnectionReset` or `TimedOut`; the stack has ended.
    pub fn try_read(&self, to: &mut [u8]) -> io::Result<usize> {
        self.now(|endpoint| self.read(endpoint, to))
    }

    /// Writes what there is room for, as [`Connection::write`].
    ///
    /// # Errors
    /// [`io::ErrorKind::WouldBlock`] when there is no room; `BrokenPipe` after a shutdown; the
    /// reason of the connection's end, such as `ConnectionReset` or `TimedOut`; the stack has
    /// ended.
    pub fn try_write(&self, data: &[u8]) -> io::Result<usize> {
        self.now(|endpoint| self.write(endpoint, data))
    }

    fn now<T>(&self, act: impl FnOnce(&mut Endpoint) -> Poll<io::Result<T>>) -> io::Result<T> {
        let done = self.attempt(act, |_| ()).map_err(|()| io::ErrorKind::WouldBlock)??;
        self.shared.work.notify_one();
        Ok(done)
    }

    fn poll<T>(
        &self,
        context: &mut Context<'_>,
        act: impl FnOnce(&mut Endpoint) -> Poll<io::Result<T>>,
        direction: fn(&mut Wakers) -> &mut Direction,
    ) -> Poll<io::Result<T>> {
        let on_poll = |wakers: &mut Wakers| direction(wakers).on_poll(context.waker());
        match self.attempt(act, on_poll) {
            Ok(done) => {
                self.shared.work.notify_one();
                Poll::Ready(done)
            }
            Err(_old) => Poll::Pending,
        }
    }

    fn read(&self, endpoint: &mut Endpoint, to: &mut [u8]) -> Poll<io::Result<usize>> {
        outcome(endpoint.read(self.handle, to))
    }

    fn write(&self, endpoint: &mut Endpoint, data: &[u8]) -> Poll<io::Result<usize>> {
        match endpoint.write(self.shared.now(), self.handle, data) {
            // Nothing needs no room.
            Err(Error::WouldBlock) if data.is_empty() => Poll::Ready(Ok(0)),
            Err(closed @ Error::Closed) => {
                Poll::Ready(Err(io::Error::new(io::ErrorKind::BrokenPipe, closed)))
            }
            written => outcome(written),
        }
    }

    fn write_vectored(
        &self,
        endpoint: &mut Endpoint,
        parts: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let mut written = 0;
        for part in parts.iter().filter(|part| !part.is_empty()) {
            match self.write(endpoint, part) {
                Poll::Ready(Ok(count)) => written += count,
                // The next call has it.
                _ if written > 0 => break,
                not_written => return not_written,
            }
        }
        // Of nothing but empty parts.
        if written == 0 { self.write(endpoint, &[]) } else { Poll::Ready(Ok(written)) }
    }

    pub(super) fn poll_read_to(
        &self,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if buffer.remaining() == 0 {
            return Poll::Ready(Ok(()));
        }
        let to = buffer.initialize_unfilled();
        let read =
            self.poll(context, |endpoint| self.read(endpoint, to), |wakers| &mut wakers.read);
        read.map_ok(|count| buffer.advance(count))
    }

    pub(super) fn poll_write_from(
        &self,
        context: &mut Context<'_>,
        data: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.poll(context, |endpoint| self.write(endpoint, data), |wakers| &mut wakers.write)
    }

    pub(super) fn poll_write_vectored_from(
        &self,
        context: &mut Context<'_>,
        parts: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let write = |endpoint: &mut Endpoint| self.write_vectored(endpoint, parts);
        self.poll(context, write, |wakers| &mut wakers.write)
    }

    /// No more is written; what was still arrives, and the end after it. As `poll_shutdown`, for
    /// who shares the stream.
    ///
    /// # Errors
    /// The stack has ended.
    pub fn shutdown_write(&self) -> io::Result<()> {
        let mut state = self.shared.lock();
        state.check()?;
        state.endpoint.close(self.shared.now(), self.handle);
        drop(state);
        self.shared.work.notify_one();
        Ok(())
    }
}

impl fmt::Debug for TcpStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ends = self.with(|c| (c.local(), c.remote(), c.state())).ok();
        let mut parts = f.debug_struct("TcpStream");
        match ends {
            Some((local, remote, state)) => {
                parts.field("local", &local).field("remote", &remote).field("state", &state)
            }
            None => parts.field("state", &State::Closed),
        };
        parts.finish_non_exhaustive()
    }
}

impl Drop for TcpStream {
    fn drop(&mut self) {
        let mut state = self.shared.lock();
        let wakers = state.wakers.remove(&self.handle);
        let now = self.shared.now();
        match *self.linger.get_mut() {
            0 => state.endpoint.abort(self.handle),
            NO_LIMIT => {}
            nanos => state.linger(now + Duration::from_nanos(nanos), self.handle),
        }
        state.endpoint.release(now, self.handle);
        drop(state);
        // Without the lock: a waker's end may run code of an application's.
        drop(wakers);
        self.shared.work.notify_one();
    }
}
