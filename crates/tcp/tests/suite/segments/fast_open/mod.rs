//! TCP Fast Open: RFC 7413.

mod client;
mod server;

use std::net::SocketAddr;

use fullpipe_cc::{Duration, Instant};
use fullpipe_tcp::wire::{self, Control, Header, Segment};
use fullpipe_tcp::{Config, Endpoint, Error, Handle, ListenerHandle};

use super::lab::MS;

fn server() -> SocketAddr {
    SocketAddr::from(([10, 0, 0, 2], 80))
}

fn client(port: u16) -> SocketAddr {
    SocketAddr::from(([10, 0, 0, 1], port))
}

fn config() -> Config {
    Config { fast_open: true, mtu: 1040, nagle: false, timestamps: false, ..Config::default() }
}

/// A segment that left.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Out {
    header: Header,
    payload: Vec<u8>,
    packet: Vec<u8>,
}

/// A client and a server, whose packets the test carries.
struct Pair {
    now: Instant,
    client: Endpoint,
    server: Endpoint,
    listener: ListenerHandle,
}

impl Pair {
    fn new(server_config: &Config) -> Self {
        let (client, mut server) = (Endpoint::new([1; 16], 100), Endpoint::new([2; 16], 100));
        let listener = server.listen(self::server(), 8, server_config).expect("nobody listens");
        Self { now: Instant::default() + MS, client, server, listener }
    }

    /// Both ends with Fast Open, and a client that has a cookie.
    fn with_cookie() -> Self {
        let mut pair = Self::new(&config());
        pair.connect_once();
        pair
    }

    fn connect(&mut self, config: &Config) -> Handle {
        self.client.connect(self.now, client(0), server(), config).expect("a connection")
    }

    /// A connection opens and is reset.
    fn connect_once(&mut self) {
        let handle = self.connect(&config());
        self.carry();
        self.client.abort(handle);
        self.client.release(self.now, handle);
        self.carry();
        while let Some(handle) = self.server.accept(self.listener) {
            self.server.release(self.now, handle);
        }
        self.carry();
        assert_eq!((self.client.connections(), self.server.connections()), (0, 0));
    }

    /// Everything that leaves either end arrives, until both are quiet.
    fn carry(&mut self) {
        loop {
            let (up, down) = (self.client_sends(), self.server_sends());
            if up.is_empty() && down.is_empty() {
                return;
            }
            self.arrive_at_server(&up);
            self.arrive_at_client(&down);
        }
    }

    fn client_sends(&mut self) -> Vec<Out> {
        all(&mut self.client, self.now)
    }

    fn server_sends(&mut self) -> Vec<Out> {
        all(&mut self.server, self.now)
    }

    fn arrive_at_server(&mut self, packets: &[Out]) {
        packets.iter().for_each(|out| self.server.receive(self.now, &out.packet));
    }

    fn arrive_at_client(&mut self, packets: &[Out]) {
        packets.iter().for_each(|out| self.client.receive(self.now, &out.packet));
    }

    fn after(&mut self, time: Duration) {
        self.now += time;
        self.client.on_timer(self.now);
        self.server.on_timer(self.now);
    }

    /// A client that writes `data` before its SYN leaves; the SYN.
    fn open(&mut self, data: &[u8]) -> (Handle, Out) {
        let handle = self.connect(&config());
        assert_eq!(self.client.write(self.now, handle, data), Ok(data.len()));
        // What else leaves is of other connections.
        let syn = self.client_sends().pop().expect("a packet");
        assert_eq!(syn.header.control, Control::Syn);
        (handle, syn)
    }

    /// A connection whose SYN with data is lost: it opens by the next SYN, without data, and its
    /// request arrives.
    fn lose_a_syn(&mut self) {
        let (_, syn) = self.open(b"question");
        assert_eq!(syn.payload, b"question");
        self.after(Duration::from_secs(1));
        let [again] = self.client_sends().try_into().expect("one packet");
        assert_eq!((again.header.seq, again.header.control), (syn.header.seq, Control::Syn));
        assert_eq!((again.payload.len(), again.header.fast_open), (0, None));
        self.arrive_at_server(&[again]);
        assert_eq!(self.accept(), None);
        self.carry();
        let accepted = self.accept().expect("a connection");
        assert_eq!(self.read(accepted), Ok(b"question".to_vec()));
    }

    fn accept(&mut self) -> Option<Handle> {
        self.server.accept(self.listener)
    }

    fn read(&mut self, handle: Handle) -> Result<Vec<u8>, Error> {
        let mut data = vec![0; 10_000];
        let count = self.server.read(handle, &mut data)?;
        data.truncate(count);
        Ok(data)
    }
}

fn all(end: &mut Endpoint, now: Instant) -> Vec<Out> {
    let mut packet = Vec::new();
    let mut all = Vec::new();
    while end.transmit(now, &mut packet) {
        let Segment { header, payload, .. } = wire::parse(&packet).expect("a sound packet");
        all.push(Out { header, payload: payload.to_vec(), packet: packet.clone() });
    }
    all
}

/// The packet with another header.
fn with(out: &Out, change: impl FnOnce(&mut Header)) -> Vec<Out> {
    let (mut header, mut packet) = (out.header, Vec::new());
    change(&mut header);
    let segment = wire::parse(&out.packet).expect("a sound packet");
    wire::write(&mut packet, segment.from, segment.to, &header, [&out.payload, &[]]);
    vec![Out { header, packet, ..out.clone() }]
}
