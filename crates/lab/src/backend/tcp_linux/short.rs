//! Short connections that start at random times, each on a thread of its own at either end.

use std::collections::HashMap;
use std::io::{self, ErrorKind, Read};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::{thread, time};

use fullpipe_cc::Duration;
use fullpipe_emu::namespace::{Entry, SERVER};
use fullpipe_path::Exponential;
use fullpipe_traffic::SenderStats;
use nix::poll::PollFlags;
use socket2::{Domain, Protocol, Socket, Type};

use super::end::{End, Unconnected};
use super::flow::{CHUNK_BYTES, TcpFlow, is_nothing, wait};

use crate::backend::realtime::Event;
use crate::observe::FlowSample;

/// The most connections of a flow at the same time: each has two threads.
const MAX_OPEN: usize = 500;

/// Time between two looks whether everything is acknowledged.
const LOOK: time::Duration = time::Duration::from_millis(2);

/// The connections of one flow.
#[derive(Default)]
pub(super) struct Shorts {
    open: Mutex<Vec<Arc<End>>>,
    /// Counters of those that are closed.
    over: Mutex<SenderStats>,
    /// Start of those whose last byte has not arrived, by the sender's port.
    begun: Mutex<HashMap<u16, time::Instant>>,
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

    fn close(&self, stream: &Arc<End>) {
        let mut open = lock(&self.open);
        open.retain(|other| !Arc::ptr_eq(other, stream));
        if let Some(last) = stream.sample() {
            lock(&self.over).add(last.sender);
        }
    }
}

impl TcpFlow {
    /// Starts connections of `bytes` from `start` on, as [`TcpFlow::send`] does one.
    pub(super) fn send_shorts(
        &self,
        entry: &Entry,
        (bytes, mean_interval, seed): (u64, Duration, u64),
        start: Duration,
        zero: Option<Duration>,
    ) {
        if let Err(error) = entry.enter() {
            return self.tell(Event::Failed(error.into()));
        }
        if !self.wait_for_servers() || !self.sleep_until(start) {
            return;
        }
        let begun = self.now();
        self.zero.get_or_init(|| zero.unwrap_or(begun));
        self.tell(Event::Started { flow: self.number, at: begun });
        let mut chance = Exponential::new(seed);
        let mut next = begun + chance.draw(mean_interval);
        thread::scope(|scope| {
            while self.sleep_until(next) && !self.has_stopped() {
                if lock(&self.shorts.open).len() >= MAX_OPEN {
                    let why = format!("{MAX_OPEN} short connections are open at once");
                    return self.answer(Err(io::Error::other(why)));
                }
                scope.spawn(|| self.answer(self.send_short(bytes)));
                next = next + chance.draw(mean_interval);
            }
        });
        if !self.has_ended() {
            self.tell(Event::Finished { flow: self.number, at: self.now() });
        }
    }

    fn send_short(&self, bytes: u64) -> io::Result<()> {
        let socket = Socket::new(Domain::IPV4, Type::STREAM, Some(Protocol::TCP))?;
        socket.bind(&SocketAddr::from((SERVER, 0)).into())?;
        let port = socket.local_addr()?.as_socket().map_or(0, |addr| addr.port());
        self.shorts.incomplete.fetch_add(1, Ordering::Relaxed);
        lock(&self.shorts.begun).insert(port, time::Instant::now());
        let Some(sender) = Unconnected::Kernel(socket).connect(self)? else { return Ok(()) };
        let stream = Arc::new(sender);
        lock(&self.shorts.open).push(stream.clone());
        let chunk = vec![0; CHUNK_BYTES];
        let mut left = bytes;
        while left > 0 {
            let part = left.min(CHUNK_BYTES as u64);
            if !self.write_whole(&stream, &chunk[..part as usize])? {
                return Ok(());
            }
            left -= part;
        }
        // Closing resets the connection, so it waits until nothing is under way.
        while !self.has_ended() && !stream.is_all_acknowledged()? {
            thread::sleep(LOOK);
        }
        self.shorts.close(&stream);
        Ok(())
    }

    /// Takes connections and reads `bytes` of each.
    pub(super) fn receive_shorts(&self, listener: &TcpListener, bytes: u64) {
        let took = thread::scope(|scope| {
            while !self.has_ended() {
                if wait(listener, PollFlags::POLLIN)? {
                    let (stream, from) = listener.accept()?;
                    scope.spawn(move || {
                        self.answer(self.receive_short(stream, from.port(), bytes));
                    });
                }
            }
            Ok(())
        });
        self.answer(took);
    }

    fn receive_short(&self, mut stream: TcpStream, port: u16, bytes: u64) -> io::Result<()> {
        stream.set_nonblocking(true)?;
        let mut chunk = vec![0; CHUNK_BYTES];
        let mut left = bytes;
        while !self.has_ended() {
            if !wait(&stream, PollFlags::POLLIN)? {
                continue;
            }
            let read = match stream.read(&mut chunk) {
                Ok(n) => n as u64,
                Err(e) if is_nothing(&e) => continue,
                // That is how the sender closes.
                Err(e) if e.kind() == ErrorKind::ConnectionReset && left == 0 => return Ok(()),
                Err(e) => return Err(e),
            };
            if read == 0 {
                return Err(ErrorKind::UnexpectedEof.into());
            }
            self.received.fetch_add(read, Ordering::Relaxed);
            left = left.saturating_sub(read);
            if left == 0
                && let Some(begun) = lock(&self.shorts.begun).remove(&port)
            {
                self.completions.record(begun.elapsed());
                self.shorts.incomplete.fetch_sub(1, Ordering::Relaxed);
            }
        }
        Ok(())
    }
}

fn lock<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}
