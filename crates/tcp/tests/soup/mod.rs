//! An endpoint and a peer that sends what a sequence of bytes says: honest segments, and such that
//! are nearly so. What must hold after each event: no panic, no endless stream of packets, no timer
//! that is due again at once, bounded memory, packets that can be read, and that what arrived stays
//! until it is read. At the end all connections go, and nothing is kept of them.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use fullpipe_cc::{Algorithm, Duration, Instant};
use fullpipe_tcp::wire::{self, Control, Ecn, FastOpen, Header, ReceiverDelay, Segment, Timestamp};
use fullpipe_tcp::{Config, Connection, Endpoint, Handle, ListenerHandle};

use crate::input::Bytes;

const BUFFER: usize = 20_000;
const MAX_CONNECTIONS: usize = 8;
/// The most packets that one event may bring: two full buffers for each connection, in tiny
/// segments.
const MAX_PACKETS: usize = 4 * MAX_CONNECTIONS * BUFFER / 8;
/// Buffers, which may have twice the capacity of what is in them, and lists of segments of 8 bytes.
const MAX_MEMORY: usize = MAX_CONNECTIONS * (4 * BUFFER + BUFFER / 8 * 512);

/// A limit to the memory of all connections; what is apart from it for each, also for one that is
/// over and not released; and the tables.
const LIMIT: usize = 100_000;
const APART: usize = (32 << 10) + size_of::<Connection>();
const TABLES: usize = 8_000;

/// The peer's state of a connection.
#[derive(Clone, Copy, Debug, Default)]
struct Peer {
    /// The next number that is expected of the endpoint, and the first one that it has not
    /// acknowledged.
    expected: u32,
    acked: u32,
    clock: u32,
    echo: Option<u32>,
}

struct Soup {
    now: Instant,
    end: Endpoint,
    is_limited: bool,
    listener: ListenerHandle,
    /// Connections, and the bytes that each had to read.
    handles: Vec<(Handle, usize)>,
    /// The most connections at a time, those that are over and not released included.
    most: usize,
    /// Somebody asks for what has changed.
    asks: bool,
    peers: BTreeMap<(SocketAddr, SocketAddr), Peer>,
    config: Config,
    /// The newest Fast Open cookie that the endpoint has given: all peers have one address.
    cookie: Option<FastOpen>,
    buffer: Vec<u8>,
}

fn server() -> SocketAddr {
    SocketAddr::from(([10, 0, 0, 1], 80))
}

fn peer(port: u8) -> SocketAddr {
    SocketAddr::from(([10, 0, 0, 2], 1000 + u16::from(port % 4)))
}

/// Runs the events that `input` says; their number.
pub(crate) fn run(input: &[u8]) -> usize {
    let mut bytes = Bytes(input);
    let (a, b) = (bytes.byte(), bytes.byte());
    let is_set = |bit: u8| a >> bit & 1 == 1;
    let algorithms =
        [Algorithm::BBR3, Algorithm::CUBIC, Algorithm::RENO, Algorithm::BBR1, Algorithm::BBR_SWIFT];
    let config = Config {
        algorithm: algorithms[usize::from(b) % algorithms.len()],
        send_buffer: BUFFER,
        receive_buffer: 1 + usize::from(b) * 50,
        mtu: 576,
        sack: is_set(0),
        timestamps: is_set(1),
        window_scaling: is_set(2),
        ecn: is_set(3),
        accurate_ecn: b >> 2 & 1 == 1,
        fast_open: b >> 3 & 1 == 1,
        fast_open_pending: 2,
        receiver_delay: b >> 4 & 1 == 1,
        nagle: is_set(4),
        keep_alive: is_set(5).then_some(Duration::from_secs(5)),
        time_wait: Duration::from_secs(2),
        ..Config::default()
    };
    let mut end = Endpoint::new([9; 16], MAX_CONNECTIONS);
    let is_limited = is_set(7);
    if is_limited {
        end.set_memory_limit(LIMIT);
    }
    let listener = end.listen(server(), 2, &config).expect("nobody listens");
    let now = Instant::default() + Duration::from_secs(1);
    let (handles, peers, buffer) = (Vec::new(), BTreeMap::new(), Vec::new());
    let (most, asks) = (MAX_CONNECTIONS, is_set(6));
    let cookie = None;
    let mut soup =
        Soup { now, end, is_limited, listener, handles, most, asks, peers, config, cookie, buffer };
    let mut events = 0;
    while let Some(event) = bytes.next() {
        soup.apply(event, &mut bytes);
        soup.settle();
        events += 1;
    }
    soup.end();
    events
}

impl Soup {
    fn apply(&mut self, event: u8, bytes: &mut Bytes<'_>) {
        let detail = bytes.byte();
        let handle = match self.handles.len() {
            0 => None,
            count => self.handles.get(usize::from(detail) % count).map(|(handle, _)| *handle),
        };
        if event == u8::MAX {
            return (0..detail).for_each(|i| self.come_and_go(i));
        }
        match (event % 16, handle) {
            (0..=4, _) => self.send(detail, bytes),
            (5..=7, _) => self.answer(detail),
            (8, _) => self.now += Duration::from_micros(1 << (detail % 28)),
            (9, _) => self.handles.extend(self.end.accept(self.listener).map(|h| (h, 0))),
            (10, None) | (15, _) => {
                let local = SocketAddr::new(server().ip(), 0);
                let opened = self.end.connect(self.now, local, peer(detail), &self.config);
                self.handles.extend(opened.map(|handle| (handle, 0)));
            }
            (10 | 11, Some(handle)) => {
                let data = vec![detail; usize::from(detail) * 100];
                let _ = self.end.write(self.now, handle, &data);
            }
            (12, Some(handle)) => {
                let read = self.end.read(handle, &mut vec![0; usize::from(detail) * 50]);
                for known in self.handles.iter_mut().filter(|known| known.0 == handle) {
                    known.1 -= read.unwrap_or(0);
                }
            }
            (13, Some(handle)) if detail > 100 => self.end.close(self.now, handle),
            (13, Some(handle)) if detail < 10 => self.end.abort(handle),
            (14, Some(handle)) if detail > 200 => {
                self.end.release(self.now, handle);
                self.handles.retain(|(h, _)| *h != handle);
            }
            _ => {}
        }
    }

    /// A segment that is nearly what the endpoint expects.
    fn send(&mut self, detail: u8, bytes: &mut Bytes<'_>) {
        let known = self.peers.len();
        let (ends, state) = match self.peers.iter().nth(usize::from(detail) % (known + 1)) {
            Some((ends, state)) => (*ends, *state),
            None => ((server(), peer(detail)), Peer::default()),
        };
        let flags = bytes.byte();
        let control = match flags % 16 {
            0..=9 => Control::None,
            10 => Control::Psh,
            11 | 12 => Control::Syn,
            13 | 14 => Control::Fin,
            _ => Control::Rst,
        };
        let has = |bit: u8| flags >> bit & 1 == 1;
        let acked = state.expected.wrapping_add(bytes.near());
        let mut sack = [None; 3];
        for block in &mut sack {
            if bytes.next().is_some_and(|b| b % 2 == 0) {
                let start = acked.wrapping_sub(u32::from(bytes.byte()) * 64);
                *block = Some((start, start.wrapping_add(bytes.near())));
            }
        }
        let value = state.clock.wrapping_add(bytes.near());
        let header = Header {
            seq: state.acked.wrapping_add(bytes.near()),
            ack: has(4).then_some(acked),
            control,
            ae: has(4),
            ece: has(5),
            cwr: has(6),
            window: u16::from(bytes.byte()) << (detail % 9),
            mss: has(7).then(|| u16::from(detail) * 10),
            window_scale: has(6).then_some(detail % 16),
            sack_permitted: has(5) && control == Control::Syn,
            sack: if control == Control::Syn { [None; 3] } else { sack },
            timestamp: state.echo.map(|echo| Timestamp { value, echo }),
            fast_open: match bytes.byte() % 8 {
                _ if control != Control::Syn => None,
                0..=3 => self.cookie,
                4 => Some(FastOpen::REQUEST),
                5 => FastOpen::new(&[detail; 8]),
                _ => None,
            },
            delay_permitted: control == Control::Syn && detail.is_multiple_of(2),
            // Also of what was not agreed, and of more than any round trip.
            receiver_delay: (control != Control::Syn && sack[2].is_none() && has(5)).then(|| {
                let time = |n: u8| Duration::from_micros(1 << (n % 30));
                ReceiverDelay { host: time(detail), wait: time(flags) }
            }),
            ecn: if has(7) { Ecn::Ce } else { Ecn::Ect0 },
            fragments: None,
        };
        let payload = vec![flags; usize::from(bytes.byte()) * 4];
        self.put(ends, &header, &payload);
    }

    /// The ACK of all that came, or the SYN-ACK.
    fn answer(&mut self, detail: u8) {
        let count = self.peers.len().max(1);
        let Some((ends, state)) = self.peers.iter_mut().nth(usize::from(detail) % count) else {
            return;
        };
        state.clock = state.clock.wrapping_add(1);
        let opens = state.acked == 0;
        let header = Header {
            seq: state.acked,
            ack: Some(state.expected),
            control: if opens { Control::Syn } else { Control::None },
            window: u16::from(detail) << 8,
            mss: opens.then_some(500),
            window_scale: opens.then_some(2),
            sack_permitted: opens,
            delay_permitted: opens,
            timestamp: state.echo.map(|echo| Timestamp { value: state.clock, echo }),
            fast_open: if opens && detail.is_multiple_of(2) {
                FastOpen::new(&[detail; 8])
            } else {
                None
            },
            ..Header::default()
        };
        let ends = *ends;
        self.put(ends, &header, &[]);
    }

    fn put(&mut self, ends: (SocketAddr, SocketAddr), header: &Header, payload: &[u8]) {
        let mut packet = Vec::new();
        wire::write(&mut packet, ends.1, ends.0, header, [payload, &[]]);
        let in_host = Duration::from_micros(u64::from(header.window));
        self.end.receive_after(self.now, in_host, &packet);
    }

    /// Lets everything happen that is due.
    fn settle(&mut self) {
        let mut packets = 0;
        let mut buffer = core::mem::take(&mut self.buffer);
        for _ in 0..2 {
            while self.end.transmit(self.now, &mut buffer) {
                packets += 1;
                assert!(packets < MAX_PACKETS, "an endless stream of packets");
                let Segment { from, to, header, payload, .. } =
                    wire::parse(&buffer).expect("a packet that can be read");
                let state = self.peers.entry((from, to)).or_default();
                let length = payload.len() as u32 + header.control.len() as u32;
                state.expected = header.seq.wrapping_add(length);
                state.acked = header.ack.unwrap_or(0);
                state.echo = header.timestamp.map(|timestamp| timestamp.value);
                let given = header.fast_open.filter(|_| header.ack.is_some());
                self.cookie = given.or(self.cookie);
            }
            self.end.on_timer(self.now);
        }
        while self.end.transmit(self.now, &mut buffer) {}
        self.buffer = buffer;
        if self.peers.len() > 16 {
            self.peers.clear();
        }
        while self.asks && self.end.next_changed().is_some() {}
        self.most = self.most.max(self.handles.len() + MAX_CONNECTIONS);
        for (handle, readable) in &mut self.handles {
            let there = self.end.connection(*handle).map(|connection| connection.readable());
            assert!(there >= Some(*readable), "{there:?} of {readable} bytes: {:?}", self.end);
            *readable = there.unwrap_or(0);
        }
        assert!(
            self.end.poll_at().is_none_or(|at| at > self.now),
            "a timer is due again at once: {:?}",
            self.end
        );
        let held = self.end.memory();
        let limit = LIMIT + self.most * APART + TABLES;
        let most = if self.is_limited { limit } else { MAX_MEMORY };
        assert!(held < most, "{held} bytes of {most}");
    }

    /// A connection opens, ends properly, and its TIME-WAIT passes.
    fn come_and_go(&mut self, i: u8) {
        let to = SocketAddr::from(([10, 0, 0, 3], 1 + u16::from(i)));
        let local = SocketAddr::new(server().ip(), 0);
        let Ok(handle) = self.end.connect(self.now, local, to, &self.config) else { return };
        let Some((from, syn)) = self.next_to(to) else { return };
        let answer =
            Header { ack: Some(syn.seq.wrapping_add(1)), window: 5000, ..Header::default() };
        self.put((from, to), &Header { control: Control::Syn, ..answer }, &[]);
        self.end.release(self.now, handle);
        let Some((_, fin)) = self.next_to(to) else { return };
        let all = Some(fin.seq.wrapping_add(1));
        self.put((from, to), &Header { control: Control::Fin, seq: 1, ack: all, ..answer }, &[]);
        self.next_to(to);
        self.now += self.config.time_wait;
        self.end.on_timer(self.now);
    }

    /// Lets everything leave; the last header to `to` that there was, and its sender.
    fn next_to(&mut self, to: SocketAddr) -> Option<(SocketAddr, Header)> {
        let mut found = None;
        let mut buffer = core::mem::take(&mut self.buffer);
        while self.end.transmit(self.now, &mut buffer) {
            let segment = wire::parse(&buffer).expect("a packet that can be read");
            if segment.to == to {
                found = Some((segment.from, segment.header));
            }
        }
        self.buffer = buffer;
        found
    }

    /// All connections go.
    fn end(&mut self) {
        for (handle, _) in core::mem::take(&mut self.handles) {
            self.end.release(self.now, handle);
        }
        self.end.close_listener(self.listener);
        self.end.abort_all();
        self.settle();
        assert_eq!((self.end.connections(), self.end.poll_at()), (0, None));
        let most = 200 * self.most + 1000;
        assert!(self.end.memory() <= most, "{} of {most} bytes stay", self.end.memory());
    }
}
