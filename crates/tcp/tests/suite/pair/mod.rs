//! Two endpoints on a wire, mostly of 5 ms each way, that loses nothing, and what no packet of
//! theirs may bring about.

mod addresses;
mod bandwidth;
mod batches;
mod memory;
mod numbers;
mod old_syn;
mod probes;
mod small_paths;
mod stalled;

use std::collections::VecDeque;
use std::net::SocketAddr;

use fullpipe_cc::{Duration, Instant};
use fullpipe_tcp::{Config, Connection, Endpoint, Error, Handle, ListenerHandle};

use crate::common::{MS, ends, too_big};

pub(crate) struct Pair {
    pub(crate) now: Instant,
    pub(crate) ends: [Endpoint; 2],
    pub(crate) listener: ListenerHandle,
    /// Packets by the time of their arrival, and the end that each goes to.
    wire: VecDeque<(Instant, usize, Vec<u8>)>,
    buffer: Vec<u8>,
    /// The time that a packet takes.
    delay: Duration,
    /// Somebody asks for what has changed.
    asks: bool,
    /// Bytes of the largest packet that the wire carries, and whether its router says so.
    carries: usize,
    tells: bool,
}

impl Pair {
    /// The second end listens.
    pub(crate) fn new(connections: usize, config: &Config) -> Self {
        let mut both = [Endpoint::new([1; 16], connections), Endpoint::new([2; 16], connections)];
        let listener = both[1].listen(ends()[1], 4, config).expect("nobody listens");
        Self {
            now: Instant::default() + MS,
            ends: both,
            listener,
            wire: VecDeque::new(),
            buffer: Vec::new(),
            delay: MS.times(5),
            asks: true,
            carries: usize::MAX,
            tells: false,
        }
    }

    fn pump(&mut self) {
        let mut buffer = core::mem::take(&mut self.buffer);
        for i in 0..2 {
            while self.ends[i].transmit(self.now, &mut buffer) {
                if buffer.len() <= self.carries {
                    self.wire.push_back((self.now + self.delay, 1 - i, buffer.clone()));
                } else if self.tells {
                    self.ends[i].receive(self.now, &too_big(&buffer, self.carries as u16));
                }
            }
            while self.asks && self.ends[i].next_changed().is_some() {}
        }
        self.buffer = buffer;
    }

    /// The next thing happens; false when there is none.
    pub(crate) fn step(&mut self) -> bool {
        self.pump();
        let first = self.wire.front().map(|packet| packet.0);
        let times = [first, self.ends[0].poll_at(), self.ends[1].poll_at()];
        let Some(at) = times.into_iter().flatten().min() else { return false };
        self.now = self.now.max(at);
        while self.wire.front().is_some_and(|packet| packet.0 <= self.now) {
            let Some((_, to, packet)) = self.wire.pop_front() else { break };
            self.ends[to].receive(self.now, &packet);
        }
        for end in &mut self.ends {
            end.on_timer(self.now);
        }
        self.pump();
        true
    }

    pub(crate) fn connect(&mut self, config: &Config) -> [Handle; 2] {
        let [local, remote] = ends();
        self.connect_from(local, remote, config)
    }

    fn connect_from(
        &mut self,
        local: SocketAddr,
        remote: SocketAddr,
        config: &Config,
    ) -> [Handle; 2] {
        let client = self.ends[0].connect(self.now, local, remote, config).expect("a connection");
        for _ in 0..100 {
            self.step();
            if let Some(server) = self.ends[1].accept(self.listener) {
                return [client, server];
            }
        }
        panic!("no connection");
    }

    pub(crate) fn connection(&self, i: usize, handle: Handle) -> &Connection {
        self.ends[i].connection(handle).expect("a connection")
    }

    /// Sends `bytes` from the first end to the second; whether all arrived within `time`.
    pub(crate) fn transfer(&mut self, handles: [Handle; 2], bytes: usize, time: Duration) -> bool {
        let data = vec![7; 1 << 16];
        let (mut written, mut read) = (0, 0);
        let end = self.now + time;
        while read < bytes {
            while written < bytes {
                let most = data.len().min(bytes - written);
                match self.ends[0].write(self.now, handles[0], &data[..most]) {
                    Ok(count) => written += count,
                    Err(Error::WouldBlock) => break,
                    Err(_) => return false,
                }
            }
            if !self.step() || self.now > end {
                return false;
            }
            read += self.read_all(1, handles[1]);
        }
        true
    }

    /// Reads what end `i` has; the number of bytes.
    pub(crate) fn read_all(&mut self, i: usize, handle: Handle) -> usize {
        let (mut read, mut to) = (0, vec![0; 1 << 16]);
        while let Ok(count @ 1..) = self.ends[i].read(handle, &mut to) {
            read += count;
        }
        read
    }
}
