//! One end of a flow: an endpoint and its connections.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use bytes::Bytes;
use fullpipe_cc::{Duration, Instant};
use fullpipe_noq::{Unsent, Writer};
use fullpipe_path::Ecn;

use super::stack::{Arrival, Batch, Leave, News, Stack};
use crate::backend::network::{Read, RttSample, Seen};

type StackInstant = std::time::Instant;

/// The bytes to write: streams take turns with so many.
static ZEROS: [u8; 1 << 14] = [0; 1 << 14];

/// The address at which each end sees the other.
pub(super) const PEER: SocketAddr =
    SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 4433);

/// The clock of a stack, which begins when the run does.
#[derive(Clone, Copy, Debug)]
pub(super) struct StackClock(StackInstant);

impl StackClock {
    pub(super) fn start() -> Self {
        Self(StackInstant::now())
    }

    pub(super) fn of(self, at: Instant) -> StackInstant {
        self.0 + std::time::Duration::from_nanos(at.as_nanos())
    }

    pub(super) fn to(self, at: StackInstant) -> Instant {
        Instant::default() + Duration::from(at.saturating_duration_since(self.0))
    }
}

struct OpenConnection<S: Stack> {
    handle: S::Handle,
    connection: S::Connection,
    is_established: bool,
    is_lost: bool,
    is_released: bool,
    is_changed: bool,
    is_finished: bool,
    /// It is in [`QuicEnd::senders`].
    may_send: bool,
    /// Its place in [`QuicEnd::timeouts`].
    timeout: Option<StackInstant>,
    pacing: S::Pacing,
    /// Datagrams of which the last have not left.
    waiting: Option<(Batch, Vec<u8>)>,
    /// The time for which they wait.
    due: Option<StackInstant>,
    unsent: Unsent,
    /// The application, while the stack has not taken all that it has.
    writer: Option<Writer>,
    /// Streams to write to, and the place of the next one's turn.
    writes: Vec<S::StreamId>,
    turn: usize,
    /// Those of them of which the peer has everything.
    acknowledged: usize,
    /// Streams of the peer that may have data, and the number of those that ended.
    readable: BTreeSet<S::StreamId>,
    ended: u64,
    acks: u64,
    rtt: RttSample,
}

pub(super) struct QuicEnd<S: Stack> {
    endpoint: S::Endpoint,
    server: Option<Arc<S::ServerConfig>>,
    /// Streams of a connection.
    streams: u64,
    open: BTreeMap<u64, OpenConnection<S>>,
    numbers: HashMap<S::Handle, u64>,
    accepted: VecDeque<u64>,
    changed: VecDeque<u64>,
    /// Connections that may have something to send: each sends a batch in its turn.
    senders: VecDeque<u64>,
    /// The next timeout of each connection that has one.
    timeouts: BTreeSet<(StackInstant, u64)>,
    /// Datagrams that may leave now, each with its connection's number.
    ready: VecDeque<(Vec<u8>, Ecn, u64)>,
    /// For the datagrams of a connection of which none wait.
    buffer: Vec<u8>,
}

impl<S: Stack> QuicEnd<S> {
    pub(super) fn new(seed: u64, server: Option<Arc<S::ServerConfig>>, streams: u64) -> Self {
        let mut bytes = [0; 32];
        bytes[..8].copy_from_slice(&seed.to_le_bytes());
        Self {
            endpoint: S::endpoint(bytes, server.clone()),
            server,
            streams,
            open: BTreeMap::new(),
            numbers: HashMap::new(),
            accepted: VecDeque::new(),
            changed: VecDeque::new(),
            senders: VecDeque::new(),
            timeouts: BTreeSet::new(),
            ready: VecDeque::new(),
            buffer: Vec::new(),
        }
    }

    pub(super) fn connect(
        &mut self,
        now: StackInstant,
        number: u64,
        config: S::ClientConfig,
        name: &str,
    ) -> Option<()> {
        let (handle, connection) = S::connect(&mut self.endpoint, now, config, name)?;
        self.add(number, handle, connection);
        Some(())
    }

    fn add(&mut self, number: u64, handle: S::Handle, connection: S::Connection) {
        self.numbers.insert(handle, number);
        let unsent = Unsent::default();
        S::set_unsent(&connection, &unsent);
        let open = OpenConnection {
            handle,
            connection,
            is_established: false,
            is_lost: false,
            is_released: false,
            is_changed: false,
            is_finished: false,
            may_send: false,
            timeout: None,
            pacing: S::Pacing::default(),
            waiting: None,
            due: None,
            unsent,
            writer: None,
            writes: Vec::new(),
            turn: 0,
            acknowledged: 0,
            readable: BTreeSet::new(),
            ended: 0,
            acks: 0,
            rtt: RttSample::default(),
        };
        self.open.insert(number, open);
        self.settle(number);
    }

    pub(super) fn accept(&mut self) -> Option<u64> {
        self.accepted.pop_front()
    }

    pub(super) fn next_changed(&mut self) -> Option<u64> {
        let number = self.changed.pop_front()?;
        if let Some(open) = self.open.get_mut(&number) {
            open.is_changed = false;
        }
        Some(number)
    }

    pub(super) fn look(&self, number: u64) -> Option<Seen> {
        let open = self.open.get(&number)?;
        let has_all = open.is_finished && open.acknowledged == open.writes.len();
        Some(Seen {
            is_established: open.is_established,
            is_over: open.is_lost || has_all,
            unsent: 0,
            writable: u64::MAX,
            rtt: open.rtt,
        })
    }

    pub(super) fn peek(&self, number: u64) -> Option<&S::Connection> {
        self.open.get(&number).map(|open| &open.connection)
    }

    pub(super) fn connection(&mut self, number: u64) -> Option<&mut S::Connection> {
        self.open.get_mut(&number).map(|open| &mut open.connection)
    }

    /// The connections that the application has not released.
    pub(super) fn kept(&mut self) -> impl Iterator<Item = &mut S::Connection> {
        self.open.values_mut().filter(|open| !open.is_released).map(|open| &mut open.connection)
    }

    pub(super) fn write(&mut self, number: u64, bytes: u64) -> u64 {
        let streams = if self.server.is_some() { 1 } else { self.streams };
        let Some(open) = self.open.get_mut(&number) else { return 0 };
        while (open.writes.len() as u64) < streams {
            let Some(id) = S::open(&mut open.connection) else { break };
            open.writes.push(id);
        }
        let (mut left, mut blocked) = (bytes, 0);
        while left > 0 && blocked < open.writes.len() {
            let id = open.writes[open.turn % open.writes.len()];
            open.turn += 1;
            let piece = left.min(ZEROS.len() as u64) as usize;
            match S::write(&mut open.connection, id, Bytes::from_static(&ZEROS[..piece])) {
                0 => blocked += 1,
                written => {
                    left -= written as u64;
                    blocked = 0;
                }
            }
        }
        self.touch(number);
        bytes - left
    }

    /// The application has so many bytes that the stack has not taken.
    pub(super) fn has_unsent(&mut self, number: u64, bytes: u64) {
        let Some(open) = self.open.get_mut(&number) else { return };
        match bytes {
            0 => open.writer = None,
            _ => {
                open.writer.get_or_insert_with(|| open.unsent.writer());
            }
        }
    }

    pub(super) fn read(&mut self, number: u64) -> Read {
        let Some(open) = self.open.get_mut(&number) else { return Read::End };
        let mut bytes = 0;
        while let Some(id) = open.readable.pop_first() {
            let Some((read, has_ended)) = S::read(&mut open.connection, id) else { continue };
            bytes += read;
            open.ended += u64::from(has_ended);
        }
        let is_over = open.is_lost || open.ended == self.streams;
        self.touch(number);
        match bytes {
            1.. => Read::Data(bytes),
            0 if is_over => Read::End,
            0 => Read::Nothing,
        }
    }

    /// Throws away what was written and has not left. What is lost from now on is not sent again.
    pub(super) fn abandon(&mut self, number: u64) {
        let Some(open) = self.open.get_mut(&number) else { return };
        open.writer = None;
        for id in open.writes.drain(..) {
            S::reset(&mut open.connection, id);
        }
        self.touch(number);
    }

    /// Everything was written.
    pub(super) fn finish(&mut self, number: u64) {
        let Some(open) = self.open.get_mut(&number) else { return };
        open.is_finished = true;
        open.writer = None;
        for id in &open.writes {
            S::finish(&mut open.connection, *id);
        }
        self.touch(number);
    }

    /// The application forgets a connection; the sender closes it as well.
    pub(super) fn release(&mut self, now: StackInstant, number: u64, close: bool) {
        let Some(open) = self.open.get_mut(&number) else { return };
        open.is_released = true;
        if close && !S::is_closed(&open.connection) {
            S::close(&mut open.connection, now);
        }
        self.settle(number);
    }

    pub(super) fn receive(&mut self, now: StackInstant, datagram: &[u8], ecn: Ecn) {
        let mut reply = Vec::new();
        match S::arrive(&mut self.endpoint, now, ecn, datagram, &mut reply) {
            Arrival::Of(handle, event) => {
                let Some(number) = self.numbers.get(&handle).copied() else { return };
                if let Some(open) = self.open.get_mut(&number) {
                    S::handle_event(&mut open.connection, event);
                    open.sample_rtt();
                }
                self.settle(number);
            }
            Arrival::Opens(incoming) => {
                let server = self.server.clone();
                if let Some((number, handle, connection)) =
                    S::accept(&mut self.endpoint, now, incoming, server)
                {
                    self.add(number, handle, connection);
                    self.accepted.push_back(number);
                }
            }
            Arrival::Answered(size) => {
                reply.truncate(size);
                self.ready.push_back((reply, Ecn::NotEct, u64::MAX));
            }
            Arrival::Nothing => {}
        }
    }

    pub(super) fn on_timer(&mut self, now: StackInstant) {
        // Each once, whatever timeout it has then.
        let due: Vec<u64> =
            self.timeouts.iter().take_while(|(at, _)| *at <= now).map(|(_, n)| *n).collect();
        for number in due {
            if let Some(open) = self.open.get_mut(&number) {
                S::handle_timeout(&mut open.connection, now);
            }
            self.settle(number);
        }
    }

    pub(super) fn poll_timeout(&self) -> Option<StackInstant> {
        self.timeouts.first().map(|(at, _)| *at)
    }

    /// Writes the next datagram into `out`: its connection's number, and its codepoint.
    pub(super) fn transmit(&mut self, now: StackInstant, out: &mut Vec<u8>) -> Option<(u64, Ecn)> {
        if self.ready.is_empty() {
            self.poll_transmit(now);
        }
        let (datagram, ecn, number) = self.ready.pop_front()?;
        *out = datagram;
        Some((number, ecn))
    }

    fn poll_transmit(&mut self, now: StackInstant) {
        while let Some(number) = self.senders.pop_front() {
            let Some(open) = self.open.get_mut(&number) else { continue };
            open.may_send = false;
            // What waits is asked for anew: an ACK may have changed the rate.
            open.due = None;
            let (batch, bytes) = match open.waiting.take() {
                Some(waiting) => waiting,
                None => {
                    self.buffer.clear();
                    let (connection, pacing) = (&mut open.connection, &mut open.pacing);
                    let Some(batch) = S::poll_transmit(connection, pacing, now, &mut self.buffer)
                    else {
                        self.watch(number);
                        continue;
                    };
                    (batch, std::mem::take(&mut self.buffer))
                }
            };
            let (part, ecn) = match S::leave(&mut open.pacing, now, &batch) {
                Leave::Now(part, ecn) => (part, ecn),
                Leave::At(due) => {
                    (open.due, open.waiting) = (Some(due), Some((batch, bytes)));
                    self.watch(number);
                    continue;
                }
            };
            let end = part.end;
            let datagrams = bytes[part].chunks(batch.segment_size.unwrap_or(batch.size));
            self.ready.extend(datagrams.map(|datagram| (datagram.to_vec(), ecn, number)));
            if end < batch.size {
                open.waiting = Some((batch, bytes));
            } else {
                self.buffer = bytes;
            }
            return self.settle(number);
        }
    }

    /// Something was done with a connection: it may have something to send.
    fn touch(&mut self, number: u64) {
        if let Some(open) = self.open.get_mut(&number).filter(|open| !open.may_send) {
            open.may_send = true;
            self.senders.push_back(number);
        }
        self.watch(number);
    }

    /// Keeps a connection's timeout up to date.
    fn watch(&mut self, number: u64) {
        let Some(open) = self.open.get_mut(&number) else { return };
        let timeout = S::poll_timeout(&mut open.connection).into_iter().chain(open.due).min();
        if timeout != open.timeout {
            self.timeouts.extend(timeout.map(|at| (at, number)));
            if let Some(old) = std::mem::replace(&mut open.timeout, timeout) {
                self.timeouts.remove(&(old, number));
            }
        }
    }

    /// Takes what a connection has to tell its endpoint and its application.
    fn settle(&mut self, number: u64) {
        let Some(open) = self.open.get_mut(&number) else { return };
        S::confer(&mut self.endpoint, open.handle, &mut open.connection);
        while let Some(news) = S::poll(&mut open.connection, &mut open.readable) {
            match news {
                News::Connected => open.is_established = true,
                News::Lost => open.is_lost = true,
                News::Acknowledged => open.acknowledged += 1,
                News::Other => {}
            }
        }
        let is_drained = S::is_drained(&open.connection);
        if is_drained && self.numbers.get(&open.handle) == Some(&number) {
            // From here on the stack may give the handle to another connection.
            self.numbers.remove(&open.handle);
        }
        if is_drained && open.is_released {
            if let Some(at) = open.timeout {
                self.timeouts.remove(&(at, number));
            }
            self.open.remove(&number);
            return;
        }
        if !open.is_changed {
            open.is_changed = true;
            self.changed.push_back(number);
        }
        self.touch(number);
    }
}

impl<S: Stack> OpenConnection<S> {
    /// A packet came: with an ACK frame it is a sample.
    fn sample_rtt(&mut self) {
        let acks = S::acks(&mut self.connection);
        if acks > self.acks {
            self.acks = acks;
            let newest = S::sample(&self.connection).and_then(|s| s.rtt.or(s.srtt));
            self.rtt = RttSample { newest, count: self.rtt.count + 1 };
        }
    }
}
