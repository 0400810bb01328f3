//! The endpoint: listeners, strangers, floods.

use std::net::SocketAddr;

use fullpipe_cc::Instant;
use fullpipe_tcp::wire::{self, Control, Header, Segment};
use fullpipe_tcp::{Config, Endpoint, Error, Handle, ListenerHandle, State};

use super::lab::{MS, config};

fn server() -> SocketAddr {
    SocketAddr::from(([10, 0, 0, 2], 80))
}

fn client(port: u16) -> SocketAddr {
    SocketAddr::from(([10, 0, 0, 1], port))
}

fn now() -> Instant {
    Instant::default() + MS.times(1000)
}

fn send(end: &mut Endpoint, from: SocketAddr, to: SocketAddr, header: Header, payload: &[u8]) {
    let mut packet = Vec::new();
    wire::write(&mut packet, from, to, &header, [payload, &[]]);
    end.receive(now(), &packet);
}

fn answers(end: &mut Endpoint) -> Vec<Header> {
    let mut buffer = Vec::new();
    let mut all = Vec::new();
    while end.transmit(now(), &mut buffer) {
        let Segment { header, .. } = wire::parse(&buffer).expect("a sound packet");
        all.push(header);
    }
    all
}

fn syn(seq: u32) -> Header {
    Header { seq, control: Control::Syn, window: 5000, mss: Some(1000), ..Header::default() }
}

fn ack(seq: u32, ack: u32) -> Header {
    Header { seq, ack: Some(ack), window: 5000, ..Header::default() }
}

fn endpoint() -> Endpoint {
    Endpoint::new([3; 16], 1000)
}

/// RFC 9293 section 3.10.7.1: what belongs to nobody is reset, and a reset is not.
#[test]
fn what_belongs_to_nobody_is_reset() {
    let mut end = endpoint();
    send(&mut end, client(1), server(), syn(7), b"abc");
    let reset = answers(&mut end)[0];
    assert_eq!((reset.seq, reset.ack, reset.control), (0, Some(11), Control::Rst));
    send(&mut end, client(1), server(), ack(7, 99), b"");
    let reset = answers(&mut end)[0];
    assert_eq!((reset.seq, reset.ack, reset.control), (99, None, Control::Rst));
    send(&mut end, client(1), server(), Header { control: Control::Rst, ..ack(7, 99) }, b"");
    assert_eq!(answers(&mut end), []);
}

/// RFC 9293 section 3.10.7.2: a listener resets an ACK and takes a SYN.
#[test]
fn a_listener_takes_a_syn() {
    let mut end = endpoint();
    let any = SocketAddr::from(([0, 0, 0, 0], 80));
    let listener = end.listen(any, 4, &config()).expect("nobody listens");
    assert_eq!(end.listen(any, 4, &config()), Err(Error::InUse));
    send(&mut end, client(1), server(), ack(7, 99), b"");
    assert_eq!(answers(&mut end)[0].control, Control::Rst);
    send(&mut end, client(1), server(), syn(7), b"");
    let reply = answers(&mut end)[0];
    assert_eq!((reply.ack, reply.control), (Some(8), Control::Syn));
    assert_eq!(end.accept(listener), None, "the handshake is not over");
    send(&mut end, client(1), server(), ack(8, reply.seq.wrapping_add(1)), b"hi");
    let handle = end.accept(listener).expect("a connection");
    let mut data = [0; 10];
    assert_eq!(end.read(handle, &mut data), Ok(2));
    assert_eq!(end.connection(handle).map(|c| c.remote()), Some(client(1)));
}

/// RFC 6528 section 3: initial sequence numbers differ from connection to connection.
#[test]
fn initial_sequence_numbers_differ() {
    let mut end = endpoint();
    end.listen(server(), 100, &config()).expect("nobody listens");
    let mut numbers = Vec::new();
    for port in 1..50 {
        send(&mut end, client(port), server(), syn(7), b"");
        numbers.push(answers(&mut end)[0].seq);
    }
    let mut gaps: Vec<u32> = numbers.windows(2).map(|w| w[1].wrapping_sub(w[0])).collect();
    gaps.sort_unstable();
    gaps.dedup();
    assert_eq!(gaps.len(), 48);
}

/// RFC 4987 section 3.6: a full backlog answers with cookies, and a cookie opens a connection.
#[test]
fn a_cookie_opens_a_connection() {
    let mut end = endpoint();
    let listener = end.listen(server(), 2, &config()).expect("nobody listens");
    for port in 1..=2 {
        send(&mut end, client(port), server(), syn(7), b"");
    }
    answers(&mut end);
    let held = end.connections();
    send(&mut end, client(9), server(), syn(70), b"");
    let cookie = answers(&mut end)[0];
    assert_eq!((cookie.control, cookie.ack), (Control::Syn, Some(71)));
    assert_eq!((cookie.window_scale, cookie.sack_permitted), (None, false), "cannot be remembered");
    assert_eq!(end.connections(), held, "nothing is kept");
    send(&mut end, client(9), server(), ack(71, cookie.seq.wrapping_add(2)), b"");
    assert_eq!(answers(&mut end)[0].control, Control::Rst, "a guess is refused");
    send(&mut end, client(9), server(), ack(71, cookie.seq.wrapping_add(1)), b"data");
    let handle = end.accept(listener).expect("a connection");
    assert_eq!(end.read(handle, &mut [0; 10]), Ok(4));
    assert_eq!(end.write(now(), handle, &[0; 2000]), Ok(2000));
    let mut buffer = Vec::new();
    assert!(end.transmit(now(), &mut buffer));
    assert_eq!(wire::parse(&buffer).expect("sound").payload.len(), 536, "as the cookie says");
}

/// RFC 4987 section 3.6, and Linux: with timestamps a cookie keeps the window's scale, SACK and
/// ECN.
#[test]
fn a_cookie_with_a_timestamp_keeps_options() {
    let stamp = |value, echo| Some(wire::Timestamp { value, echo });
    let config = Config { timestamps: true, ecn: true, ..config() };
    for (scale, sack, ecn) in [(Some(7), true, true), (None, false, false), (Some(0), true, false)]
    {
        let mut end = endpoint();
        let listener = end.listen(server(), 1, &config).expect("nobody listens");
        send(&mut end, client(1), server(), syn(7), b"");
        answers(&mut end);
        let offer = Header {
            window_scale: scale,
            sack_permitted: sack,
            ece: ecn,
            cwr: ecn,
            timestamp: stamp(900, 0),
            ..syn(70)
        };
        send(&mut end, client(9), server(), offer, b"");
        let cookie = answers(&mut end)[0];
        let agreed = (cookie.window_scale.is_some(), cookie.sack_permitted, cookie.ece);
        assert_eq!(agreed, (scale.is_some(), sack, ecn));
        let echo = cookie.timestamp.expect("a timestamp");
        assert_eq!(echo.echo, 900);
        let reply = ack(71, cookie.seq.wrapping_add(1));
        let reply = Header { timestamp: stamp(901, echo.value), ..reply };
        send(&mut end, client(9), server(), reply, b"data");
        let handle = end.accept(listener).expect("a connection");
        let info = end.connection(handle).expect("a connection").info();
        assert_eq!((info.wscale, info.sack, info.ecn), (scale.is_some(), sack, ecn));
        assert_eq!(info.snd_wnd, 5000 << scale.unwrap_or(0));
        assert!(info.timestamps);
        let sent = answers(&mut end)[0].timestamp.expect("a timestamp");
        assert!(sent.value.wrapping_sub(echo.value) < 64, "its clock goes on");
        assert_eq!(sent.echo, 901);
    }
}

/// A flood of SYNs: the backlog is all that is kept, and a connection goes on.
#[test]
fn a_flood_of_syns_is_bounded() {
    let mut end = endpoint();
    let listener = end.listen(server(), 64, &config()).expect("nobody listens");
    send(&mut end, client(1), server(), syn(7), b"");
    let reply = answers(&mut end)[0];
    send(&mut end, client(1), server(), ack(8, reply.seq.wrapping_add(1)), b"");
    let handle = end.accept(listener).expect("a connection");
    let mut buffer = Vec::new();
    let mut offset = 0;
    for i in 0..1_000_000_u32 {
        let from = SocketAddr::from((std::net::Ipv4Addr::from(0x0b00_0000 + i), 999));
        wire::write(&mut buffer, from, server(), &syn(i), [&[], &[]]);
        end.receive(now(), &buffer);
        if i % 1000 == 0 {
            send(&mut end, client(1), server(), ack(8 + offset, reply.seq.wrapping_add(1)), b"x");
            offset += 1;
            assert_eq!(end.read(handle, &mut [0; 10]), Ok(1));
            answers(&mut end);
        }
    }
    assert_eq!(end.connections(), 65);
    assert!(end.memory() < 500_000, "{} bytes", end.memory());
}

/// Garbage in place of packets: nothing is kept, nothing panics, and what looks like TCP is at most
/// reset.
#[test]
fn garbage_is_passed_by() {
    let mut end = endpoint();
    end.listen(server(), 8, &config()).expect("nobody listens");
    let mut state = 1_u64;
    let mut random = || {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as u32
    };
    let mut sound = Vec::new();
    for i in 0..300_000 {
        let mut packet = Vec::new();
        if i % 2 == 0 {
            packet.extend((0..random() % 100).map(|_| random() as u8));
            if let Some(first) = packet.first_mut() {
                *first = [0x45, 0x60][random() as usize % 2];
            }
        } else {
            let control =
                [Control::None, Control::Syn, Control::Fin, Control::Rst][random() as usize % 4];
            let header = Header {
                seq: random(),
                ack: (random() % 2 == 0).then_some(random()),
                control,
                window: random() as u16,
                mss: (random() % 2 == 0).then_some(random() as u16),
                window_scale: (random() % 2 == 0).then_some(random() as u8),
                sack_permitted: random() % 2 == 0,
                ..Header::default()
            };
            wire::write(
                &mut packet,
                client(random() as u16 % 8 + 1),
                server(),
                &header,
                [b"xy", &[]],
            );
        }
        end.receive(now(), &packet);
        while end.transmit(now(), &mut sound) {
            assert!(wire::parse(&sound).is_some());
        }
    }
    assert!(end.connections() <= 8);
}

/// A listener whose connection is in TIME-WAIT.
fn in_time_wait() -> (Endpoint, ListenerHandle, Handle) {
    let mut end = endpoint();
    let listener = end.listen(server(), 4, &config()).expect("nobody listens");
    send(&mut end, client(1), server(), syn(7), b"");
    let iss = answers(&mut end)[0].seq;
    send(&mut end, client(1), server(), ack(8, iss.wrapping_add(1)), b"");
    let handle = end.accept(listener).expect("a connection");
    end.close(now(), handle);
    answers(&mut end);
    let fin = Header { control: Control::Fin, ..ack(8, iss.wrapping_add(2)) };
    send(&mut end, client(1), server(), fin, b"");
    assert_eq!(end.connection(handle).map(|c| c.state()), Some(State::TimeWait));
    answers(&mut end);
    (end, listener, handle)
}

/// RFC 9293 section 3.10.7.4 and RFC 6191: a SYN beyond the old connection's numbers opens a new
/// one.
#[test]
fn time_wait_gives_way_to_a_newer_syn() {
    let (mut end, _, handle) = in_time_wait();
    send(&mut end, client(1), server(), syn(5), b"");
    assert_eq!(answers(&mut end)[0].control, Control::None, "older: it is challenged");
    send(&mut end, client(1), server(), syn(9000), b"");
    let reply = answers(&mut end)[0];
    assert_eq!((reply.control, reply.ack), (Control::Syn, Some(9001)));
    assert_eq!(end.connection(handle).map(|c| c.state()), Some(State::Closed));
}

/// A SYN that nobody takes ends nothing: RFC 6191 lets TIME-WAIT give way to a new connection
/// alone.
#[test]
fn time_wait_stays_where_nobody_listens() {
    let (mut end, listener, handle) = in_time_wait();
    end.close_listener(listener);
    send(&mut end, client(1), server(), syn(9000), b"");
    assert_ne!(answers(&mut end)[0].control, Control::Rst);
    assert_eq!(end.connection(handle).map(|c| c.state()), Some(State::TimeWait));
}

/// RFC 9293 section 3.10.7.2: a SYN with an ACK is reset in LISTEN. With a cookie's number it would
/// be kept beyond the backlog.
#[test]
fn a_syn_with_an_ack_opens_no_cookie() {
    let mut end = endpoint();
    end.listen(server(), 2, &config()).expect("nobody listens");
    for port in 1..=2 {
        send(&mut end, client(port), server(), syn(7), b"");
    }
    answers(&mut end);
    let held = end.connections();
    send(&mut end, client(9), server(), syn(70), b"");
    let cookie = answers(&mut end)[0];
    let both = Header { control: Control::Syn, ..ack(71, cookie.seq.wrapping_add(1)) };
    send(&mut end, client(9), server(), both, b"");
    assert_eq!(answers(&mut end)[0].control, Control::Rst);
    assert_eq!(end.connections(), held, "nothing is kept");
}

/// A connection that is over and released is forgotten, and its handle names no other.
#[test]
fn a_handle_names_one_connection() {
    let mut end = endpoint();
    let first = end.connect(now(), client(0), server(), &config()).expect("room");
    let port = end.connection(first).map(|c| c.local().port());
    assert!(port >= Some(49_152), "{port:?}: RFC 6335 section 6");
    end.abort(first);
    answers(&mut end);
    assert_eq!(end.read(first, &mut [0; 1]), Err(Error::Aborted), "until it is released");
    end.release(now(), first);
    answers(&mut end);
    let second = end.connect(now(), client(0), server(), &config()).expect("room");
    assert_ne!(first, second);
    assert_eq!(end.read(first, &mut [0; 1]), Err(Error::Closed));
}

/// A call that read and wrote nothing is no news: whoever answers each change with a call would
/// never rest.
#[test]
fn a_call_without_effect_changes_nothing() {
    let mut end = endpoint();
    let listener = end.listen(server(), 4, &config()).expect("nobody listens");
    send(&mut end, client(1), server(), syn(7), b"");
    let iss = answers(&mut end)[0].seq;
    send(&mut end, client(1), server(), ack(8, iss.wrapping_add(1)), b"abc");
    let handle = end.accept(listener).expect("a connection");
    answers(&mut end);
    let changed = |end: &mut Endpoint| std::iter::from_fn(|| end.next_changed()).count();
    assert_eq!(changed(&mut end), 1);
    let mut data = [0; 10];
    assert_eq!(end.read(handle, &mut data), Ok(3));
    assert_eq!(changed(&mut end), 1);
    assert_eq!(end.read(handle, &mut data), Err(Error::WouldBlock));
    assert_eq!(changed(&mut end), 0);
    let room = end.connection(handle).map_or(0, |c| c.writable());
    assert_eq!(end.write(now(), handle, &vec![0; room]), Ok(room));
    assert_eq!(changed(&mut end), 1);
    assert_eq!(end.write(now(), handle, &[0]), Err(Error::WouldBlock));
    assert_eq!(changed(&mut end), 0);
}

/// The number of connections is bounded; those in TIME-WAIT give way.
#[test]
fn there_is_a_most_of_connections() {
    let mut end = Endpoint::new([3; 16], 3);
    let listener = end.listen(server(), 4, &config()).expect("nobody listens");
    for port in 1..=3 {
        send(&mut end, client(port), server(), syn(7), b"");
        let iss = answers(&mut end)[0].seq;
        send(&mut end, client(port), server(), ack(8, iss.wrapping_add(1)), b"");
    }
    let connect = |end: &mut Endpoint| end.connect(now(), server(), client(9), &Config::default());
    assert_eq!(connect(&mut end), Err(Error::TooMany));
    let handle = end.accept(listener).expect("a connection");
    end.close(now(), handle);
    let fin = answers(&mut end)[0].seq;
    let header = Header { control: Control::Fin, ..ack(8, fin.wrapping_add(1)) };
    send(&mut end, client(1), server(), header, b"");
    assert_eq!(end.connection(handle).map(|c| c.state()), Some(State::TimeWait));
    assert!(connect(&mut end).is_ok());
    assert_eq!(end.connection(handle).map(|c| c.state()), Some(State::Closed));
    assert_eq!(end.connections(), 3);
}

/// RFC 9293 section 3.9.1: ends that cannot have a connection.
#[test]
fn impossible_ends_are_refused() {
    let mut end = endpoint();
    let six = SocketAddr::from(([0xfd00, 0, 0, 0, 0, 0, 0, 1], 80));
    for (local, remote) in [
        (client(0), six),
        (client(0), client(0)),
        (SocketAddr::from(([0, 0, 0, 0], 0)), server()),
        (client(0), SocketAddr::from(([0, 0, 0, 0], 80))),
    ] {
        assert_eq!(end.connect(now(), local, remote, &config()), Err(Error::Address));
    }
    end.connect(now(), client(5), server(), &config()).expect("room");
    assert_eq!(end.connect(now(), client(5), server(), &config()), Err(Error::InUse));
}

/// The queue of connections is full when a cookie comes back: the ACK is dropped, as Linux does
/// (tcp_abort_on_overflow = 0), and the next one opens the connection.
#[test]
fn a_cookie_waits_for_room_in_the_queue() {
    let mut end = endpoint();
    let listener = end.listen(server(), 1, &config()).expect("nobody listens");
    let numbers = [1, 2].map(|port| {
        send(&mut end, client(port), server(), syn(7), b"");
        answers(&mut end)[0].seq.wrapping_add(1)
    });
    for (port, number) in [1, 2].into_iter().zip(numbers) {
        send(&mut end, client(port), server(), ack(8, number), b"");
    }
    assert_eq!(answers(&mut end), [], "no reset");
    // What is no cookie is refused nevertheless.
    send(&mut end, client(3), server(), ack(8, 1234), b"");
    assert_eq!(answers(&mut end)[0].control, Control::Rst);
    assert!(end.accept(listener).is_some());
    send(&mut end, client(2), server(), ack(8, numbers[1]), b"later");
    let second = end.accept(listener).expect("the second");
    assert_eq!(end.read(second, &mut [0; 9]), Ok(5));
}

/// A handle of a listener that is closed is no handle of the next one at the same address.
#[test]
fn a_listener_is_not_the_one_before_it() {
    let mut end = endpoint();
    let old = end.listen(server(), 4, &config()).expect("nobody listens");
    end.close_listener(old);
    let new = end.listen(server(), 4, &config()).expect("nobody listens");
    assert_ne!(old, new);
    send(&mut end, client(1), server(), syn(7), b"");
    let number = answers(&mut end)[0].seq.wrapping_add(1);
    send(&mut end, client(1), server(), ack(8, number), b"");
    assert_eq!(end.accept(old), None);
    end.close_listener(old);
    assert!(end.accept(new).is_some());
}

/// RFC 6864 section 4.3: all packets between two addresses that routers may cut have different
/// identifications, whichever connection they are of.
#[test]
fn connections_to_one_host_number_their_packets_together() {
    let mut end = endpoint();
    let config = Config { mtu_discovery: false, ..config() };
    for port in [1, 2] {
        end.connect(now(), client(0), SocketAddr::new(server().ip(), port), &config).expect("room");
    }
    let mut numbers = Vec::new();
    let mut at = now();
    while numbers.len() < 10 {
        end.on_timer(at);
        let mut buffer = Vec::new();
        while end.transmit(at, &mut buffer) {
            numbers.push(wire::parse(&buffer).expect("sound").header.fragments.expect("a number"));
        }
        at = end.poll_at().expect("a timer");
    }
    let first = numbers[0];
    let wanted: Vec<u16> = (0..numbers.len() as u16).map(|i| first.wrapping_add(i)).collect();
    assert_eq!(numbers, wanted);
}

/// The counters of an endpoint: what arrived, what was dropped and what left, of connections that
/// are over as well.
#[test]
fn an_endpoint_counts() {
    let mut end = endpoint();
    let listener = end.listen(server(), 1, &config()).expect("nobody listens");
    let numbers = [1, 2, 3].map(|port| {
        send(&mut end, client(port), server(), syn(7), b"");
        answers(&mut end)[0].seq.wrapping_add(1)
    });
    for (port, number) in [1, 2].into_iter().zip(numbers) {
        send(&mut end, client(port), server(), ack(8, number), b"");
        if port == 1 {
            let handle = end.accept(listener).expect("a connection");
            end.write(now(), handle, b"data").expect("room");
            answers(&mut end);
            // The peer is gone.
            let mut at = now();
            for _ in 0..3 {
                at = end.poll_at().expect("a timer").max(at);
                end.on_timer(at);
                while end.transmit(at, &mut Vec::new()) {}
            }
            end.abort(handle);
            end.release(at, handle);
            while end.transmit(at, &mut Vec::new()) {}
        }
    }
    send(&mut end, client(3), server(), ack(8, numbers[2]), b"");
    for port in [4, 7] {
        send(&mut end, client(port), server(), syn(7), b"");
    }
    send(&mut end, client(5), server(), ack(8, 1), b"");
    end.receive(now(), b"no packet");
    let nobody = SocketAddr::from(([10, 0, 0, 2], 81));
    send(&mut end, client(6), nobody, Header { control: Control::Rst, ..ack(8, 1) }, b"");
    answers(&mut end);
    let all = end.counters();
    assert_eq!((all.segments_in, all.packets_unread, all.resets_in), (10, 1, 1), "{all:?}");
    assert_eq!((all.passive_opens, all.active_opens), (3, 0), "{all:?}");
    assert_eq!((all.cookies_sent, all.cookies_accepted, all.cookies_refused), (2, 1, 1), "{all:?}");
    assert_eq!((all.syns_dropped, all.resets_out), (1, 2), "{all:?}");
    assert!(all.retransmitted >= 2 && all.timeouts >= 1, "{all:?}");
    assert!(all.segments_out >= 6, "{all:?}");
}
