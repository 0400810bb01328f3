//! ICMP messages of routers: RFC 9293 section 3.9.2.2, RFC 5927.

use std::net::SocketAddr;

use fullpipe_cc::{Duration, Instant};
use fullpipe_tcp::wire::{self, Control, Header};
use fullpipe_tcp::{Config, Endpoint, Error, Handle, State};
use smoltcp::wire::{Icmpv6Packet, Ipv6Packet};

use super::lab::{MS, config};
use crate::common::icmp;

struct Client {
    end: Endpoint,
    now: Instant,
    handle: Handle,
    ends: [SocketAddr; 2],
    /// The newest packet that left.
    packet: Vec<u8>,
}

impl Client {
    fn new(is_v6: bool, config: &Config) -> Self {
        let mut end = Endpoint::new([3; 16], 10);
        let now = Instant::default() + MS.times(1000);
        let ends = match is_v6 {
            true => ["[fd00::1]:4000", "[fd00::2]:80"],
            false => ["10.0.0.1:4000", "10.0.0.2:80"],
        };
        let ends = ends.map(|end| end.parse().expect("an address"));
        let handle = end.connect(now, ends[0], ends[1], config).expect("room");
        let mut client = Self { end, now, handle, ends, packet: Vec::new() };
        client.pump();
        client
    }

    /// With a connection that is established and has data under way.
    fn established(is_v6: bool, config: &Config) -> Self {
        let mut client = Self::new(is_v6, config);
        let seq = wire::parse(&client.packet).expect("a SYN").header.seq;
        let reply = Header {
            ack: Some(seq.wrapping_add(1)),
            control: Control::Syn,
            window: 5000,
            ..Header::default()
        };
        let mut packet = Vec::new();
        wire::write(&mut packet, client.ends[1], client.ends[0], &reply, [&[], &[]]);
        client.end.receive(client.now, &packet);
        assert_eq!(client.state(), Ok(State::Established));
        client.end.write(client.now, client.handle, b"data").expect("room");
        client.pump();
        client
    }

    fn pump(&mut self) {
        let mut packet = Vec::new();
        while self.end.transmit(self.now, &mut packet) {
            self.packet.clone_from(&packet);
        }
    }

    /// A router says something about the newest packet.
    fn hear(&mut self, kind: u8, code: u8) {
        let message = match self.ends[0].is_ipv4() {
            true => icmp(&self.packet, kind, code, 0),
            false => icmp_v6(&self.packet, kind, code),
        };
        self.end.receive(self.now, &message);
    }

    fn state(&self) -> Result<State, Option<Error>> {
        let connection = self.end.connection(self.handle).expect("it is not released");
        match connection.state() {
            State::Closed => Err(connection.error()),
            state => Ok(state),
        }
    }

    fn soft_error(&self) -> Option<Error> {
        self.end.connection(self.handle).expect("it is not released").soft_error()
    }

    /// The time until the end.
    fn until_closed(&mut self) -> Duration {
        let start = self.now;
        while self.state().is_ok() {
            self.pump();
            self.now = self.end.poll_at().expect("a timer").max(self.now);
            self.end.on_timer(self.now);
        }
        self.now.since(start)
    }
}

/// As [`icmp`], of ICMPv6 and from fd00::9.
fn icmp_v6(packet: &[u8], kind: u8, code: u8) -> Vec<u8> {
    let mut message = vec![0; 40];
    message.extend([kind, code, 0, 0, 0, 0, 0, 0]);
    message.extend(packet);
    let mut ip = Ipv6Packet::new_unchecked(&mut message[..]);
    ip.set_version(6);
    ip.set_payload_len(8 + packet.len() as u16);
    ip.set_next_header(smoltcp::wire::IpProtocol::Icmpv6);
    let (from, to) = ("fd00::9".parse().expect("an address"), "fd00::1".parse().expect("one"));
    ip.set_src_addr(from);
    ip.set_dst_addr(to);
    Icmpv6Packet::new_unchecked(&mut message[40..]).fill_checksum(&from, &to);
    message
}

/// The messages, and whether they end the attempt to connect.
const V4: [(u8, u8, Error, bool); 10] = [
    (3, 0, Error::NetworkUnreachable, false),
    (3, 1, Error::HostUnreachable, false),
    (3, 2, Error::Refused, true),
    (3, 3, Error::Refused, true),
    (3, 5, Error::HostUnreachable, false),
    (3, 9, Error::NetworkUnreachable, true),
    (3, 10, Error::HostUnreachable, true),
    (3, 13, Error::HostUnreachable, true),
    (11, 0, Error::HostUnreachable, false),
    (12, 0, Error::HostUnreachable, false),
];
const V6: [(u8, u8, Error, bool); 6] = [
    (1, 0, Error::NetworkUnreachable, false),
    (1, 1, Error::HostUnreachable, true),
    (1, 3, Error::HostUnreachable, false),
    (1, 4, Error::Refused, true),
    (3, 0, Error::HostUnreachable, false),
    (4, 1, Error::HostUnreachable, false),
];

fn messages() -> impl Iterator<Item = (bool, (u8, u8, Error, bool))> {
    V4.map(|message| (false, message)).into_iter().chain(V6.map(|message| (true, message)))
}

/// RFC 9293 section 3.9.2.2: a hard error ends an attempt to connect; after a soft one it goes on,
/// and the error is its reason if nobody answers.
#[test]
fn an_attempt_to_connect_hears_of_errors() {
    for (is_v6, (kind, code, error, is_hard)) in messages() {
        let config = Config { connect_timeout: Duration::from_secs(20), ..config() };
        let mut client = Client::new(is_v6, &config);
        client.hear(kind, code);
        let case = format!("type {kind} code {code}, IPv6: {is_v6}");
        if is_hard {
            assert_eq!(client.state(), Err(Some(error)), "{case}");
            continue;
        }
        assert_eq!((client.state(), client.soft_error()), (Ok(State::SynSent), Some(error)));
        assert_eq!(client.until_closed(), Duration::from_secs(20), "{case}");
        assert_eq!(client.state(), Err(Some(error)), "{case}");
    }
    let mut silent = Client::new(false, &config());
    silent.until_closed();
    assert_eq!(silent.state(), Err(Some(Error::TimedOut)), "nobody says anything");
}

/// RFC 5927 section 5.2: no message ends a connection that is synchronized. The application can ask
/// for it, an ACK makes it forgotten, and it is the reason of a timeout.
#[test]
fn an_established_connection_survives_errors() {
    for (is_v6, (kind, code, error, _)) in messages() {
        let mut client = Client::established(is_v6, &config());
        client.hear(kind, code);
        assert_eq!((client.state(), client.soft_error()), (Ok(State::Established), Some(error)));
        client.until_closed();
        assert_eq!(client.state(), Err(Some(error)));
    }
    let mut client = Client::established(false, &config());
    client.hear(3, 1);
    let sent = wire::parse(&client.packet).expect("data");
    let ack = sent.header.seq.wrapping_add(sent.len());
    let reply = Header { seq: 1, ack: Some(ack), window: 5000, ..Header::default() };
    let mut packet = Vec::new();
    wire::write(&mut packet, client.ends[1], client.ends[0], &reply, [&[], &[]]);
    client.end.receive(client.now, &packet);
    assert_eq!(client.soft_error(), None);
}

/// RFC 5927 section 4.1: a message about nothing that is under way is forged, and so is one that is
/// damaged.
#[test]
fn a_forged_message_is_passed_by() {
    let mut client = Client::new(false, &config());
    let mut other = client.packet.clone();
    other[24] ^= 1;
    client.end.receive(client.now, &icmp(&other, 3, 3, 0));
    let mut damaged = icmp(&client.packet, 3, 3, 0);
    damaged[21] ^= 1;
    client.end.receive(client.now, &damaged);
    assert_eq!((client.state(), client.soft_error()), (Ok(State::SynSent), None));
    client.hear(4, 0);
    assert_eq!(client.soft_error(), None, "RFC 6633: a source quench is ignored");
}
