//! One end of a flow: an endpoint of noq and its connections.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::net::{Ipv4Addr, SocketAddr};
use std::num::NonZeroUsize;
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use fullpipe_cc::{Duration, Instant};
use fullpipe_path::Ecn;
use noq_proto::{
    ClientConfig, Connection, ConnectionHandle, DatagramEvent, Dir, EcnCodepoint, Endpoint,
    EndpointConfig, Event, FourTuple, Incoming, PathId, ReadError, ServerConfig, StreamEvent,
    StreamId, Transmit,
};

use super::ends::sample;
use crate::backend::network::{Read, RttSample, Seen};

type NoqInstant = std::time::Instant;

/// Datagrams that noq's own driver asks for at a time.
const BATCH: NonZeroUsize = NonZeroUsize::new(10).unwrap();

/// The bytes to write: streams take turns with so many.
static ZEROS: [u8; 1 << 14] = [0; 1 << 14];

/// Where each end sees the other.
const PEER: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 4433);

/// noq's clock, which begins when the run does.
#[derive(Clone, Copy, Debug)]
pub(super) struct Times(NoqInstant);

impl Times {
    pub(super) fn start() -> Self {
        Self(NoqInstant::now())
    }

    pub(super) fn of(self, at: Instant) -> NoqInstant {
        self.0 + std::time::Duration::from_nanos(at.as_nanos())
    }

    pub(super) fn to(self, at: NoqInstant) -> Instant {
        Instant::default() + Duration::from(at.saturating_duration_since(self.0))
    }
}

#[derive(Debug)]
struct Open {
    handle: ConnectionHandle,
    connection: Connection,
    is_established: bool,
    is_lost: bool,
    is_released: bool,
    is_changed: bool,
    is_finished: bool,
    /// It is in [`End::senders`].
    may_send: bool,
    /// Its place in [`End::timeouts`].
    timeout: Option<NoqInstant>,
    /// Streams to write to, and the place of the next one's turn.
    writes: Vec<StreamId>,
    turn: usize,
    /// Those of them of which the peer has everything.
    acknowledged: usize,
    /// Streams of the peer that may have data, and the number of those that ended.
    readable: BTreeSet<StreamId>,
    ended: u64,
    acks: u64,
    rtt: RttSample,
}

pub(super) struct End {
    endpoint: Endpoint,
    server: Option<Arc<ServerConfig>>,
    /// Streams of a connection.
    streams: u64,
    open: BTreeMap<u64, Open>,
    numbers: HashMap<ConnectionHandle, u64>,
    accepted: VecDeque<u64>,
    changed: VecDeque<u64>,
    /// Connections that may have something to send: each sends a batch in its turn.
    senders: VecDeque<u64>,
    /// The next timeout of each connection that has one.
    timeouts: BTreeSet<(NoqInstant, u64)>,
    /// Datagrams that may leave now, each with its connection's number.
    ready: VecDeque<(Vec<u8>, Ecn, u64)>,
    buffer: Vec<u8>,
}

impl std::fmt::Debug for End {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("End").field("connections", &self.open.len()).finish_non_exhaustive()
    }
}

impl End {
    pub(super) fn new(seed: u64, server: Option<Arc<ServerConfig>>, streams: u64) -> Self {
        let mut config = EndpointConfig::default();
        let mut bytes = [0; 32];
        bytes[..8].copy_from_slice(&seed.to_le_bytes());
        config.rng_seed(Some(bytes));
        Self {
            endpoint: Endpoint::new(Arc::new(config), server.clone(), true),
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
        now: NoqInstant,
        number: u64,
        config: ClientConfig,
        name: &str,
    ) -> Option<()> {
        let (handle, connection) = self.endpoint.connect(now, config, PEER, name).ok()?;
        self.add(number, handle, connection);
        Some(())
    }

    fn add(&mut self, number: u64, handle: ConnectionHandle, connection: Connection) {
        self.numbers.insert(handle, number);
        let open = Open {
            handle,
            connection,
            is_established: false,
            is_lost: false,
            is_released: false,
            is_changed: false,
            is_finished: false,
            may_send: false,
            timeout: None,
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

    pub(super) fn peek(&self, number: u64) -> Option<&Connection> {
        self.open.get(&number).map(|open| &open.connection)
    }

    pub(super) fn connection(&mut self, number: u64) -> Option<&mut Connection> {
        self.open.get_mut(&number).map(|open| &mut open.connection)
    }

    /// The connections that the application has not released.
    pub(super) fn kept(&mut self) -> impl Iterator<Item = &mut Connection> {
        self.open.values_mut().filter(|open| !open.is_released).map(|open| &mut open.connection)
    }

    pub(super) fn write(&mut self, number: u64, bytes: u64) -> u64 {
        let streams = if self.server.is_some() { 1 } else { self.streams };
        let Some(open) = self.open.get_mut(&number) else { return 0 };
        while (open.writes.len() as u64) < streams {
            let Some(id) = open.connection.streams().open(Dir::Uni) else { break };
            open.writes.push(id);
        }
        let (mut left, mut blocked) = (bytes, 0);
        while left > 0 && blocked < open.writes.len() {
            let id = open.writes[open.turn % open.writes.len()];
            open.turn += 1;
            let piece = left.min(ZEROS.len() as u64) as usize;
            let mut chunk = [Bytes::from_static(&ZEROS[..piece])];
            match open.connection.send_stream(id).write_chunks(&mut &mut chunk[..]) {
                Ok(written @ 1..) => {
                    left -= written as u64;
                    blocked = 0;
                }
                _ => blocked += 1,
            }
        }
        self.touch(number);
        bytes - left
    }

    pub(super) fn read(&mut self, number: u64) -> Read {
        let Some(open) = self.open.get_mut(&number) else { return Read::End };
        let mut bytes = 0;
        while let Some(id) = open.readable.pop_first() {
            let mut stream = open.connection.recv_stream(id);
            let Ok(mut chunks) = stream.read(true) else { continue };
            loop {
                match chunks.next(usize::MAX) {
                    Ok(Some(chunk)) => bytes += chunk.bytes.len() as u64,
                    Ok(None) => {
                        open.ended += 1;
                        break;
                    }
                    // The sender may open others in place of one that it abandoned.
                    Err(ReadError::Blocked | ReadError::Reset(_)) => break,
                }
            }
            let _goes_with_what_leaves_next = chunks.finalize();
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
        for id in open.writes.drain(..) {
            // It fails for one that the peer has stopped, and nobody here does.
            let _ = open.connection.send_stream(id).reset(0_u32.into());
        }
        self.touch(number);
    }

    /// Everything was written.
    pub(super) fn finish(&mut self, number: u64) {
        let Some(open) = self.open.get_mut(&number) else { return };
        open.is_finished = true;
        for id in &open.writes {
            // It fails for one that the peer has stopped, and nobody here does.
            let _ = open.connection.send_stream(*id).finish();
        }
        self.touch(number);
    }

    /// The application forgets a connection; the sender closes it as well.
    pub(super) fn release(&mut self, now: NoqInstant, number: u64, close: bool) {
        let Some(open) = self.open.get_mut(&number) else { return };
        open.is_released = true;
        if close && !open.connection.is_closed() {
            open.connection.close(now, 0_u32.into(), Bytes::new());
        }
        self.settle(number);
    }

    pub(super) fn receive(&mut self, now: NoqInstant, datagram: &[u8], ecn: Ecn) {
        let ecn = match ecn {
            Ecn::NotEct => None,
            Ecn::Ect0 => Some(EcnCodepoint::Ect0),
            Ecn::Ect1 => Some(EcnCodepoint::Ect1),
            Ecn::Ce => Some(EcnCodepoint::Ce),
        };
        let path = FourTuple::from_remote(PEER);
        let mut reply = Vec::new();
        match self.endpoint.handle(now, path, ecn, BytesMut::from(datagram), &mut reply) {
            Some(DatagramEvent::ConnectionEvent(handle, event)) => {
                let Some(number) = self.numbers.get(&handle).copied() else { return };
                if let Some(open) = self.open.get_mut(&number) {
                    open.connection.handle_event(event);
                    open.sample_rtt();
                }
                self.settle(number);
            }
            Some(DatagramEvent::NewConnection(incoming)) => self.take(now, incoming),
            Some(DatagramEvent::Response(Transmit { size, .. })) => {
                reply.truncate(size);
                self.ready.push_back((reply, Ecn::NotEct, u64::MAX));
            }
            None => {}
        }
    }

    fn take(&mut self, now: NoqInstant, incoming: Incoming) {
        let id = incoming.orig_dst_cid();
        let Ok(number) = <[u8; 8]>::try_from(&id[..]).map(u64::from_be_bytes) else {
            return self.endpoint.ignore(incoming);
        };
        let mut reply = Vec::new();
        // A handshake that fails is the sender's to notice.
        if let Ok((handle, connection)) =
            self.endpoint.accept(incoming, now, &mut reply, self.server.clone())
        {
            self.add(number, handle, connection);
            self.accepted.push_back(number);
        }
    }

    pub(super) fn on_timer(&mut self, now: NoqInstant) {
        // Each once, whatever timeout it has then.
        let due: Vec<u64> =
            self.timeouts.iter().take_while(|(at, _)| *at <= now).map(|(_, n)| *n).collect();
        for number in due {
            if let Some(open) = self.open.get_mut(&number) {
                open.connection.handle_timeout(now);
            }
            self.settle(number);
        }
    }

    pub(super) fn poll_timeout(&self) -> Option<NoqInstant> {
        self.timeouts.first().map(|(at, _)| *at)
    }

    /// Writes the next datagram into `out`: its connection's number, and its codepoint.
    pub(super) fn transmit(&mut self, now: NoqInstant, out: &mut Vec<u8>) -> Option<(u64, Ecn)> {
        if self.ready.is_empty() {
            self.poll_transmit(now);
        }
        let (datagram, ecn, number) = self.ready.pop_front()?;
        *out = datagram;
        Some((number, ecn))
    }

    fn poll_transmit(&mut self, now: NoqInstant) {
        while let Some(number) = self.senders.pop_front() {
            let Some(open) = self.open.get_mut(&number) else { continue };
            open.may_send = false;
            self.buffer.clear();
            let Some(Transmit { size, segment_size, ecn, .. }) =
                open.connection.poll_transmit(now, BATCH, &mut self.buffer)
            else {
                self.watch(number);
                continue;
            };
            let ecn = match ecn {
                None => Ecn::NotEct,
                Some(EcnCodepoint::Ect0) => Ecn::Ect0,
                Some(EcnCodepoint::Ect1) => Ecn::Ect1,
                Some(EcnCodepoint::Ce) => Ecn::Ce,
            };
            let datagrams = self.buffer[..size].chunks(segment_size.unwrap_or(size));
            self.ready.extend(datagrams.map(|datagram| (datagram.to_vec(), ecn, number)));
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
        let timeout = open.connection.poll_timeout();
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
        while let Some(event) = open.connection.poll_endpoint_events() {
            if let Some(event) = self.endpoint.handle_event(open.handle, event) {
                open.connection.handle_event(event);
            }
        }
        while let Some(event) = open.connection.poll() {
            open.on_event(event);
        }
        if open.connection.is_drained() && self.numbers.get(&open.handle) == Some(&number) {
            // From here on noq may give the handle to another connection.
            self.numbers.remove(&open.handle);
        }
        if open.connection.is_drained() && open.is_released {
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

impl Open {
    fn on_event(&mut self, event: Event) {
        match event {
            Event::Connected => self.is_established = true,
            Event::ConnectionLost { .. } => self.is_lost = true,
            Event::Stream(StreamEvent::Opened { dir }) => {
                while let Some(id) = self.connection.streams().accept(dir) {
                    self.readable.insert(id);
                }
            }
            Event::Stream(StreamEvent::Readable { id }) => {
                self.readable.insert(id);
            }
            Event::Stream(StreamEvent::Finished { .. }) => self.acknowledged += 1,
            _ => {}
        }
    }

    /// A packet came: with an ACK frame it is a sample.
    fn sample_rtt(&mut self) {
        let acks = self.connection.path_stats(PathId::ZERO).map_or(0, |s| s.frame_rx.acks);
        if acks > self.acks {
            self.acks = acks;
            let newest = sample(&self.connection).and_then(|s| s.rtt.or(s.srtt));
            self.rtt = RttSample { newest, count: self.rtt.count + 1 };
        }
    }
}
