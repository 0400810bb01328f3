//! Connections for tokio over a device that carries IP packets, such as a TUN device.
//!
//! A [`Stack`] is an [`Endpoint`] with a task that drives it. It ends when the stack, all of its
//! listeners and streams are dropped, and what they sent has arrived.
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
mod listener;
mod stream;
mod timer;

use std::collections::HashMap;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Waker;
use std::time;
use std::vec::Vec;

use ::tokio::sync::Notify;
use ::tokio::time::error::Elapsed;
use ::tokio::time::{sleep, timeout};
use fullpipe_cc::{Duration, Instant};

use crate::{Endpoint, Error, Handle};

pub use device::Device;
pub use listener::TcpListener;
pub use stream::TcpStream;

/// The time between two looks of [`Stack::shutdown`].
const LOOK: time::Duration = time::Duration::from_millis(5);
/// The longest time for resets to leave.
const GOODBYE: time::Duration = time::Duration::from_secs(1);

/// An endpoint, and the task that drives it. Clones are the same stack.
#[derive(Clone, Debug)]
pub struct Stack {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    state: Mutex<State>,
    /// Somebody did something with the endpoint.
    work: Notify,
    epoch: time::Instant,
}

#[derive(Debug)]
struct State {
    endpoint: Endpoint,
    wakers: HashMap<Handle, Wakers>,
    accepting: Vec<Waker>,
    /// The reason for which the task has ended.
    failed: Option<io::ErrorKind>,
}

/// The tasks that wait for a connection.
#[derive(Debug, Default)]
struct Wakers {
    read: Option<Waker>,
    write: Option<Waker>,
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
            accepting: Vec::new(),
            failed: None,
        };
        let shared = Arc::new(Shared {
            state: Mutex::new(state),
            work: Notify::new(),
            epoch: time::Instant::now(),
        });
        driver::spawn(device, Arc::clone(&shared))?;
        Ok(Self { shared })
    }

    /// Waits until the peers have all that was written, but no longer than `grace`, and resets what
    /// connections are left.
    pub async fn shutdown(&self, grace: time::Duration) {
        // Whoever is late is reset.
        let _ = self.wait_for(grace, |endpoint| endpoint.undelivered() == 0).await;
        self.shared.lock().endpoint.abort_all();
        self.shared.work.notify_one();
        let _ = self.wait_for(GOODBYE, |endpoint| endpoint.connections() == 0).await;
    }

    /// Ends when `done` holds, when the task has ended, or with an error after `time`.
    async fn wait_for(
        &self,
        time: time::Duration,
        done: impl Fn(&Endpoint) -> bool,
    ) -> Result<(), Elapsed> {
        let looks = async {
            let is_over = |state: &State| state.failed.is_some() || done(&state.endpoint);
            while !is_over(&self.shared.lock()) {
                sleep(LOOK).await;
            }
        };
        timeout(time, looks).await
    }

    /// Bytes of memory that the connections take up.
    pub fn memory(&self) -> usize {
        self.shared.lock().endpoint.memory()
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

impl State {
    /// An error for everybody when the task has ended.
    fn check(&self) -> io::Result<()> {
        self.failed.map_or(Ok(()), |kind| Err(io::Error::new(kind, "the stack has ended")))
    }

    /// Wakes whoever waits for something that has changed.
    fn wake(&mut self) {
        let mut any = false;
        while let Some(handle) = self.endpoint.next_changed() {
            any = true;
            let Some(wakers) = self.wakers.get_mut(&handle) else { continue };
            let connection = self.endpoint.connection(handle);
            if connection.is_none_or(|c| c.is_readable())
                && let Some(waker) = wakers.read.take()
            {
                waker.wake();
            }
            if connection.is_none_or(|c| c.is_writable())
                && let Some(waker) = wakers.write.take()
            {
                waker.wake();
            }
        }
        if any {
            self.accepting.drain(..).for_each(Waker::wake);
        }
    }

    fn fail(&mut self, kind: io::ErrorKind) {
        self.failed = Some(kind);
        for (_, wakers) in self.wakers.drain() {
            [wakers.read, wakers.write].into_iter().flatten().for_each(Waker::wake);
        }
        self.accepting.drain(..).for_each(Waker::wake);
    }
}

fn random_key() -> io::Result<[u8; 16]> {
    let mut key = [0; 16];
    getrandom::fill(&mut key).map_err(io::Error::from)?;
    Ok(key)
}

impl From<Error> for io::Error {
    fn from(error: Error) -> Self {
        let kind = match error {
            Error::WouldBlock => io::ErrorKind::WouldBlock,
            Error::Refused => io::ErrorKind::ConnectionRefused,
            Error::Reset => io::ErrorKind::ConnectionReset,
            Error::Aborted => io::ErrorKind::ConnectionAborted,
            Error::TimedOut => io::ErrorKind::TimedOut,
            Error::Closed => io::ErrorKind::NotConnected,
            Error::InUse => io::ErrorKind::AddrInUse,
            Error::TooMany => io::ErrorKind::QuotaExceeded,
            Error::Address => io::ErrorKind::InvalidInput,
        };
        Self::new(kind, error)
    }
}
