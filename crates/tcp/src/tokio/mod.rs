//! Connections for tokio over a device that carries IP packets, such as a TUN device.
//!
//! A [`Stack`] is an [`Endpoint`] with a task that drives it. The task ends when the stack and all
//! of its listeners and streams are dropped and their connections are over: what they sent has
//! arrived, and TIME-WAIT has passed. When it ends before, by an error or the end of the device, a
//! panic, or because its runtime is gone, everybody who waits for the stack has an error, and so
//! has whoever asks it for something from then on: the device's, or
//! [`io::ErrorKind::ConnectionAborted`].
//!
//! ```no_run
//! use fullpipe_tcp::{Config, tokio::{Stack, TcpStream}};
//! use tokio::io::AsyncWriteExt;
//!
//! # async fn run() -> std::io::Result<()> {
//! let device = tun_rs::DeviceBuilder::new().ipv4("10.9.0.1", 24, None).build_sync()?;
//! device.set_nonblocking(true)?;
//! // The kernel has 10.9.0.1 on this device; the stack is another host behind it.
//! let stack = Stack::start(device, 1_000)?;
//! let (from, to) = ("10.9.0.2:0".parse().unwrap(), "10.9.0.1:80".parse().unwrap());
//! let mut stream = TcpStream::connect(&stack, from, to, &Config::default()).await?;
//! stream.write_all(b"GET / HTTP/1.0\r\n\r\n").await?;
//! # Ok(())
//! # }
//! ```

mod device;
mod driver;
mod halves;
mod listener;
mod stream;
mod timer;
mod wakers;

use std::collections::{BTreeSet, HashMap};
use std::fmt;
use std::io;
use std::ops::Deref;
use std::pin::pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time;

use ::tokio::sync::Notify;
use ::tokio::time::{sleep, timeout};
use fullpipe_cc::{Duration, Instant};

use crate::{Counters, Endpoint, Error, Handle, ListenerHandle};
use wakers::{Accepting, Wakers, Wakes};

pub use device::Device;
pub use halves::{OwnedReadHalf, OwnedWriteHalf, ReadHalf, ReuniteError, WriteHalf};
pub use listener::TcpListener;
pub use stream::TcpStream;

/// The time between two looks of [`Stack::shutdown`].
const LOOK: time::Duration = time::Duration::from_millis(5);
/// The longest time for resets to leave.
const GOODBYE: time::Duration = time::Duration::from_secs(1);

/// An endpoint, and the task that drives it. Clones are the same stack.
#[derive(Clone)]
pub struct Stack {
    shared: Share,
}

struct Shared {
    state: Mutex<State>,
    /// Somebody did something with the endpoint.
    work: Notify,
    /// The task has ended.
    ended: Notify,
    epoch: time::Instant,
    /// Stacks, listeners and streams: with the last one the task has nobody to work for.
    shares: AtomicUsize,
}

/// The part of a stack, listener or stream in what they share with the task.
struct Share(Arc<Shared>);

struct State {
    endpoint: Endpoint,
    wakers: HashMap<Handle, Wakers>,
    /// Notifies the tasks that wait to accept.
    listeners: HashMap<ListenerHandle, Accepting>,
    /// Connections whose streams were dropped, and the times at which they are reset if their peers
    /// do not have everything by then.
    lingering: BTreeSet<(Instant, Handle)>,
    /// The reason for which the task has ended.
    failed: Option<io::ErrorKind>,
}

impl Stack {
    /// Starts a stack of at most `max_connections` over `device`, which has to be non-blocking, on
    /// the runtime that this is called from.
    ///
    /// # Errors
    /// The runtime cannot wait for the device, or the system has no random numbers.
    ///
    /// # Panics
    /// Outside of a tokio runtime.
    pub fn start(device: impl Device, max_connections: usize) -> io::Result<Self> {
        let key = random_key()?;
        let state = State {
            endpoint: Endpoint::new(key, max_connections),
            wakers: HashMap::new(),
            listeners: HashMap::new(),
            lingering: BTreeSet::new(),
            failed: None,
        };
        let shared = Arc::new(Shared {
            state: Mutex::new(state),
            work: Notify::new(),
            ended: Notify::new(),
            epoch: time::Instant::now(),
            shares: AtomicUsize::new(1),
        });
        driver::spawn(device, Arc::clone(&shared))?;
        Ok(Self { shared: Share(shared) })
    }

    /// Waits until the peers have all that was written, but no longer than `grace`, and resets what
    /// connections are left.
    pub async fn shutdown(&self, grace: time::Duration) {
        // Whoever is late is reset.
        let _ = timeout(grace, self.delivered()).await;
        self.shared.lock().endpoint.abort_all();
        self.shared.work.notify_one();
        let _ = timeout(GOODBYE, self.until(|endpoint| endpoint.connections() == 0)).await;
    }

    /// Waits until every connection has ended and its peer has all of it, or the stack has ended. A
    /// connection that stays open is waited for.
    pub async fn delivered(&self) {
        self.until(|endpoint| endpoint.undelivered() == 0).await;
    }

    /// Waits until `done` holds, or the task has ended.
    async fn until(&self, done: impl Fn(&Endpoint) -> bool) {
        let is_over = |state: &State| state.failed.is_some() || done(&state.endpoint);
        while !is_over(&self.shared.lock()) {
            sleep(LOOK).await;
        }
    }

    /// Waits until the stack's task has ended: its device failed, it panicked, or its runtime is
    /// gone. Connecting, accepting, reading and writing then fail with this error.
    pub async fn ended(&self) -> io::Error {
        loop {
            // It is registered before it looks, so that it misses no end.
            let mut ended = pin!(self.shared.ended.notified());
            ended.as_mut().enable();
            if let Err(error) = self.shared.lock().check() {
                return error;
            }
            ended.await;
        }
    }

    /// Bytes of memory that the connections take up.
    pub fn memory(&self) -> usize {
        self.shared.lock().endpoint.memory()
    }

    /// Sets the most bytes that all connections hold together; see [`Endpoint::set_memory_limit`].
    pub fn set_memory_limit(&self, bytes: usize) {
        self.shared.lock().endpoint.set_memory_limit(bytes);
        self.shared.work.notify_one();
    }

    /// The counters of all connections since the stack began, those that are over included. It
    /// takes a look at each connection.
    pub fn counters(&self) -> Counters {
        self.shared.lock().endpoint.counters()
    }

    /// Connections that there are.
    pub fn connections(&self) -> usize {
        self.shared.lock().endpoint.connections()
    }
}

impl Shared {
    /// A panic while the lock was held leaves connections that are merely late.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn now(&self) -> Instant {
        Instant::default() + Duration::from(self.epoch.elapsed())
    }
}

impl Clone for Share {
    fn clone(&self) -> Self {
        self.shares.fetch_add(1, Ordering::Relaxed);
        Self(Arc::clone(&self.0))
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        if self.shares.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.work.notify_one();
        }
    }
}

impl Deref for Share {
    type Target = Shared;

    fn deref(&self) -> &Shared {
        &self.0
    }
}

impl State {
    /// An error for everybody when the task has ended.
    fn check(&self) -> io::Result<()> {
        self.failed.map_or(Ok(()), |kind| Err(io::Error::new(kind, "the stack has ended")))
    }

    /// Resets a connection at `at` if its peer does not have everything by then.
    fn linger(&mut self, at: Instant, handle: Handle) {
        self.lingering.insert((at, handle));
    }

    /// Does what is due.
    fn on_timer(&mut self, now: Instant) {
        while let Some(&(_, handle)) = self.lingering.first().filter(|(at, _)| *at <= now) {
            self.lingering.pop_first();
            if self.endpoint.connection(handle).is_some_and(|c| c.has_undelivered()) {
                self.endpoint.abort(handle);
            }
        }
        self.endpoint.on_timer(now);
    }

    /// The next time at which [`Self::on_timer`] has something to do.
    fn poll_at(&self) -> Option<Instant> {
        let lingering = self.lingering.first().map(|(at, _)| *at);
        lingering.into_iter().chain(self.endpoint.poll_at()).min()
    }

    /// Finds whoever waits for something that has changed.
    fn find_changed(&mut self, wakes: &mut Wakes) {
        while let Some(handle) = self.endpoint.next_changed() {
            if let Some(wakers) = self.wakers.get_mut(&handle) {
                let connection = self.endpoint.connection(handle);
                let can_read = connection.is_none_or(|c| c.is_readable());
                let can_write = connection.is_none_or(|c| c.is_writable());
                wakers.wake(can_read, can_write, wakes);
            } else if let Some(listener) = self.endpoint.queued_at(handle)
                && let Some(accepting) = self.listeners.get_mut(&listener)
            {
                accepting.wake(wakes);
            }
        }
    }

    /// The task has ended: finds all that wait.
    fn fail(&mut self, kind: io::ErrorKind, wakes: &mut Wakes) {
        self.failed = Some(kind);
        for (_, mut wakers) in self.wakers.drain() {
            wakers.wake(true, true, wakes);
        }
        self.listeners.drain().for_each(|(_, accepting)| accepting.wake_all(wakes));
    }
}

impl fmt::Debug for Stack {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.shared.lock();
        let mut parts = f.debug_struct("Stack");
        parts.field("connections", &state.endpoint.connections());
        parts.field("failed", &state.failed).finish_non_exhaustive()
    }
}

fn random_key() -> io::Result<[u8; 16]> {
    let mut key = [0; 16];
    getrandom::fill(&mut key).map_err(io::Error::from)?;
    Ok(key)
}

/// With the kind that std has for it; [`Error::Closed`] is [`io::ErrorKind::NotConnected`], and
/// when writing [`io::ErrorKind::BrokenPipe`].
impl From<Error> for io::Error {
    fn from(error: Error) -> Self {
        let kind = match error {
            Error::WouldBlock => io::ErrorKind::WouldBlock,
            Error::Refused => io::ErrorKind::ConnectionRefused,
            Error::Reset => io::ErrorKind::ConnectionReset,
            Error::Aborted => io::ErrorKind::ConnectionAborted,
            Error::TimedOut => io::ErrorKind::TimedOut,
            Error::NetworkUnreachable => io::ErrorKind::NetworkUnreachable,
            Error::HostUnreachable => io::ErrorKind::HostUnreachable,
            Error::Closed => io::ErrorKind::NotConnected,
            Error::InUse => io::ErrorKind::AddrInUse,
            Error::TooMany => io::ErrorKind::QuotaExceeded,
            Error::Address => io::ErrorKind::InvalidInput,
        };
        Self::new(kind, error)
    }
}
