//! Short connections that start at random times, each on a thread of its own at either end.

use std::collections::HashMap;
use std::io::{self, ErrorKind};
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicU16, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::{thread, time};

use fullpipe_cc::{Duration, Instant};
use fullpipe_emu::namespace::NamespaceHandle;
use fullpipe_report::observe::FlowSample;
use fullpipe_tcp::Config;
use fullpipe_traffic::{Action, Application, Reading, SenderStats, Traffic};
use socket2::{Domain, Protocol, Socket, Type};

use super::end::{Listener, TcpEnd, Unconnected};
use super::flow::{CHUNK_BYTES, TcpFlow};
use super::user_stack::UserStack;
use crate::backend::realtime::Event;

/// The most connections of a flow at the same time: each has two threads.
const MAX_OPEN: usize = 500;

/// Time between two looks whether everything is acknowledged.
const LOOK: time::Duration = time::Duration::from_millis(2);

/// The stack that opens the connections of one flow.
pub(super) enum Opener {
    /// The kernel, in this namespace with this address.
    Kernel(NamespaceHandle, Ipv4Addr),
    /// One in user space.
    User {
        stack: Arc<UserStack>,
        config: Box<Config>,
        /// The number of connections so far.
        opened: AtomicU16,
    },
}

/// The lowest port of connections that a stack in user space opens: above those of receivers.
const LOWEST_PORT: u16 = 10_000;

impl Opener {
    pub(super) fn in_user_space(stack: Arc<UserStack>, config: Box<Config>) -> Self {
        Self::User { stack, config, opened: AtomicU16::new(0) }
    }

    /// The next connection's port and the sender's end of it, which is not connected yet.
    fn open(&self) -> io::Result<(u16, Unconnected)> {
        match self {
            Self::Kernel(_, address) => {
                let socket = Socket::new(Domain::IPV4, Type::STREAM, Some(Protocol::TCP))?;
                socket.bind(&SocketAddr::from((*address, 0)).into())?;
                let port = socket.local_addr()?.as_socket().map_or(0, |addr| addr.port());
                Ok((port, Unconnected::Kernel(socket)))
            }
            Self::User { stack, config, opened } => {
                let number = opened.fetch_add(1, Ordering::Relaxed);
                let port = LOWEST_PORT + number % (u16::MAX - LOWEST_PORT);
                let (stack, config) = (stack.clone(), config.clone());
                Ok((port, Unconnected::User { stack, port, config }))
            }
        }
    }
}

/// The connections of one flow.
#[derive(Default)]
pub(super) struct Shorts {
    open: Mutex<Vec<Arc<TcpEnd>>>,
    /// Counters of those that are closed.
    over: Mutex<SenderStats>,
    /// Start of those whose last byte has not arrived, since the epoch, by the sender's port.
    begun: Mutex<HashMap<u16, Duration>>,
    incomplete: AtomicU64,
}

impl Shorts {
    pub(super) fn incomplete(&self) -> u64 {
        self.incomplete.load(Ordering::Relaxed)
    }

    /// The newest connection, with the counters of all.
    pub(super) fn sample(&self) -> FlowSample {
        let open = lock(&self.open);
        let samples: Vec<_> = open.iter().filter_map(|stream| stream.sample()).collect();
        let mut all = *lock(&self.over);
        samples.iter().for_each(|sample| all.add(sample.sender));
        FlowSample { sender: all, ..samples.last().copied().unwrap_or_default() }
    }

    fn close(&self, stream: &Arc<TcpEnd>) {
        let mut open = lock(&self.open);
        open.retain(|other| !Arc::ptr_eq(other, stream));
        if let Some(last) = stream.sample() {
            lock(&self.over).add(last.sender);
        }
    }
}

impl TcpFlow {
    /// Starts connections from `start` on, as [`TcpFlow::send`] does one.
    pub(super) fn send_shorts(&self, opener: &Opener, start: Duration, zero: Option<Duration>) {
        if let Opener::Kernel(entry, _) = opener
            && let Err(error) = entry.enter()
        {
            return self.tell(Event::Failed(error.into()));
        }
        if !self.wait_for_servers() || !self.sleep_until(start) {
            return;
        }
        let begun = self.now();
        let zero = *self.zero.get_or_init(|| zero.unwrap_or(begun));
        self.tell(Event::Started { flow: self.number, at: begun });
        let mut traffic = self.traffic(begun, self.stop.map(|stop| zero + stop));
        thread::scope(|scope| {
            while !self.has_ended() && !traffic.has_stopped() {
                match (traffic.on_time(self.instant()), traffic.wakes()) {
                    (Action::Connect, _) if lock(&self.shorts.open).len() >= MAX_OPEN => {
                        let why = format!("{MAX_OPEN} short connections are open at once");
                        return self.answer(Err(io::Error::other(why)));
                    }
                    (Action::Connect, _) => {
                        scope.spawn(|| self.answer(self.send_short(opener)));
                    }
                    (_, Some(at)) => {
                        self.sleep_until(at.since(Instant::default()));
                    }
                    (_, None) => {}
                }
            }
        });
        if !self.has_ended() {
            self.tell(Event::Finished { flow: self.number, at: self.now() });
        }
    }

    /// The applications of one connection, which is open now.
    fn short_traffic(&self) -> Traffic {
        let bytes = self.application.connection_bytes().unwrap_or(0);
        let mut traffic = Traffic::new(Application::Bytes(bytes), self.instant(), None, 0);
        traffic.on_connected(self.instant());
        traffic
    }

    fn send_short(&self, opener: &Opener) -> io::Result<()> {
        let (port, sender) = opener.open()?;
        self.shorts.incomplete.fetch_add(1, Ordering::Relaxed);
        lock(&self.shorts.begun).insert(port, self.now());
        let Some(sender) = sender.connect(self)? else { return Ok(()) };
        let stream = Arc::new(sender);
        lock(&self.shorts.open).push(stream.clone());
        self.write(&stream, self.short_traffic(), None)?;
        // Closing resets the connection, so it waits until nothing is under way.
        while !self.has_ended() && !stream.is_all_acknowledged()? {
            thread::sleep(LOOK);
        }
        self.shorts.close(&stream);
        Ok(())
    }

    /// Takes connections and reads each to its end.
    pub(super) fn receive_shorts(&self, listener: &Listener) {
        let took = thread::scope(|scope| {
            while !self.has_ended() {
                if let Some((stream, port)) = listener.accept()? {
                    scope.spawn(move || self.answer(self.receive_short(&stream, port)));
                }
            }
            Ok(())
        });
        self.answer(took);
    }

    /// `port` is the sender's.
    fn receive_short(&self, stream: &TcpEnd, port: u16) -> io::Result<()> {
        let mut chunk = vec![0; CHUNK_BYTES];
        let (mut traffic, mut received, mut is_complete) = (self.short_traffic(), 0, false);
        while !self.has_ended() {
            let count = match self.read(stream, &mut chunk) {
                // That is how the sender closes.
                Err(e) if is_complete && is_close(&e) => return Ok(()),
                read => read?.unwrap_or(0),
            };
            received += count;
            self.received.fetch_add(count, Ordering::Relaxed);
            if traffic.on_read(self.instant(), received) != Reading::All {
                continue;
            }
            is_complete = true;
            if let Some(begun) = lock(&self.shorts.begun).remove(&port) {
                self.completions.record(self.now() - begun);
                self.shorts.incomplete.fetch_sub(1, Ordering::Relaxed);
            }
        }
        Ok(())
    }
}

/// True if the other end has closed the connection, or reset it.
fn is_close(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::ConnectionReset | ErrorKind::UnexpectedEof)
}

fn lock<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}
