//! Clients that make a server keep much and take nothing.

use std::collections::VecDeque;
use std::net::SocketAddr;

use fullpipe_cc::Instant;
use fullpipe_tcp::wire::{self, Control, Header, Timestamp};
use fullpipe_tcp::{Config, Endpoint, Error, Handle};

use crate::common::{MS, ends};

const CLIENTS: usize = 24;
const LIMIT: usize = 32 << 20;

/// What a client that stalls does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Client {
    /// It acknowledges what it never got, and falls silent after three seconds.
    Liar,
    /// It answers each window probe and never opens its window.
    Closed,
}

struct Stalling {
    from: SocketAddr,
    handle: Option<Handle>,
    /// The end of the newest segment that the server sent, and its timestamp.
    newest: Option<(u32, u32)>,
}

struct Server {
    now: Instant,
    end: Endpoint,
    client: Endpoint,
    /// Packets between the server and the honest client.
    wire: VecDeque<(Instant, bool, Vec<u8>)>,
    stalling: Vec<Stalling>,
}

/// As a proxy for long paths has it.
fn config() -> Config {
    Config {
        unsent: 512 << 10,
        send_buffer: 16 << 20,
        receive_buffer: 16 << 20,
        nagle: false,
        ..Config::default()
    }
}

impl Server {
    fn new() -> Self {
        let [end, client] = [1, 2].map(|key| Endpoint::new([key; 16], 1280));
        let from = |i| SocketAddr::from(([10, 0, 1, i as u8], 4000));
        let clients = (0..CLIENTS).map(|i| Stalling { from: from(i), handle: None, newest: None });
        let (now, wire, stalling) = (Instant::default() + MS, VecDeque::new(), clients.collect());
        Self { now, end, client, wire, stalling }
    }

    /// The `i`-th client that stalls sends a segment.
    fn reply(&mut self, i: usize, header: Header) {
        let value = (self.now.as_nanos() / 1_000_000) as u32;
        let echo = self.stalling[i].newest.map_or(0, |(_, echo)| echo);
        let header = Header { timestamp: Some(Timestamp { value, echo }), ..header };
        let mut packet = Vec::new();
        wire::write(&mut packet, self.stalling[i].from, ends()[1], &header, [&[], &[]]);
        self.end.receive(self.now, &packet);
    }

    fn transmit(&mut self) {
        let mut packet = Vec::new();
        while self.end.transmit(self.now, &mut packet) {
            let segment = wire::parse(&packet).expect("a sound packet");
            match self.stalling.iter_mut().find(|client| client.from == segment.to) {
                // The byte of a window probe is not taken.
                Some(_) if segment.payload.len() == 1 => {}
                Some(client) => {
                    // A reset has no timestamp, and is not answered.
                    let end = segment.header.seq.wrapping_add(segment.len());
                    client.newest = segment.header.timestamp.map(|stamp| (end, stamp.value));
                }
                None => self.wire.push_back((self.now + MS.times(5), true, packet.clone())),
            }
        }
        while self.client.transmit(self.now, &mut packet) {
            self.wire.push_back((self.now + MS.times(5), false, packet.clone()));
        }
    }

    fn step(&mut self) {
        self.transmit();
        self.now += MS;
        while self.wire.front().is_some_and(|(at, ..)| *at <= self.now) {
            let (_, to_client, packet) = self.wire.pop_front().expect("the first");
            let end = if to_client { &mut self.client } else { &mut self.end };
            end.receive(self.now, &packet);
        }
        self.end.on_timer(self.now);
        self.client.on_timer(self.now);
        while self.end.next_changed().is_some() || self.client.next_changed().is_some() {}
    }
}

/// All that the connections hold keeps to the limit, and an honest client has its rate again after
/// a while: those that take nothing are reset.
#[test]
fn clients_that_take_nothing_do_not_starve_others() {
    for (kind, bytes, ms) in
        [(Client::Liar, 20_000_000, 20_000), (Client::Closed, 80_000_000, 75_000)]
    {
        let mut server = Server::new();
        server.end.set_memory_limit(LIMIT);
        let listener = server.end.listen(ends()[1], 256, &config()).expect("nobody listens");
        for i in 0..CLIENTS {
            let syn = Header {
                seq: 1,
                control: Control::Syn,
                window: 65_535,
                mss: Some(1460),
                window_scale: Some(14),
                sack_permitted: true,
                ..Header::default()
            };
            server.reply(i, syn);
            server.transmit();
        }
        let data = vec![7; 1 << 20];
        let (mut most, mut read, mut written) = (0, 0, 0);
        let mut honest: Option<(Handle, Option<Handle>)> = None;
        let start = server.now;
        while read < bytes {
            let time = server.now.since(start);
            let speaks = kind == Client::Closed || time < MS.times(3000);
            for i in 0..CLIENTS {
                if let Some(handle) = server.stalling[i].handle {
                    while server.end.write(server.now, handle, &data).is_ok() {}
                }
                let due = (time.as_nanos() / 1_000_000).is_multiple_of(100);
                if let Some((ack, _)) = server.stalling[i].newest.filter(|_| due && speaks) {
                    // A window that closes when much was sent.
                    let is_closed = kind == Client::Closed && time > MS.times(1000);
                    let window = if is_closed { 0 } else { 65_535 };
                    server.reply(i, Header { seq: 2, ack: Some(ack), window, ..Header::default() });
                }
            }
            while let Some(handle) = server.end.accept(listener) {
                let remote = server.end.connection(handle).expect("open").remote();
                match server.stalling.iter_mut().find(|client| client.from == remote) {
                    Some(client) => client.handle = Some(handle),
                    None => honest = honest.map(|(client, _)| (client, Some(handle))),
                }
            }
            if time >= MS.times(3500) && honest.is_none() {
                let (now, at) = (server.now, ends()[0]);
                let handle = server.client.connect(now, at, ends()[1], &config());
                honest = Some((handle.expect("a connection"), None));
            }
            if let Some((client, Some(handle))) = honest {
                let rest = &data[..data.len().min(bytes - written)];
                written += server.end.write(server.now, handle, rest).unwrap_or(0);
                let mut to = vec![0; 1 << 16];
                loop {
                    match server.client.read(client, &mut to) {
                        Ok(count) => read += count,
                        Err(Error::WouldBlock) => break,
                        Err(error) => panic!("{kind:?}: {error}"),
                    }
                }
            }
            server.step();
            let all = server.stalling.iter().filter_map(|client| client.handle);
            let held = all.filter_map(|handle| server.end.connection(handle));
            most = held.map(|connection| connection.memory()).sum::<usize>().max(most);
            assert!(server.now.since(start) < MS.times(ms), "{kind:?}: {read} bytes");
        }
        let counters = server.end.counters();
        let took = server.now.since(start).as_nanos() / 1_000_000;
        println!("{kind:?}: {took} ms, at most {most} bytes, {} reset", counters.stalled);
        assert!(most > LIMIT / 2 && most <= LIMIT + CLIENTS * (32 << 10), "{kind:?}: {most}");
        assert!(counters.stalled > 0, "{kind:?}: {took} ms, {counters:?}");
    }
}
