//! TIME-WAIT: what was acknowledged stays readable, and the next connection may come.

use std::net::SocketAddr;
use std::time::Duration;

use fullpipe_cc::{Algorithm, Instant};
use fullpipe_tcp::wire::{self, Control, Header, Timestamp};
use fullpipe_tcp::{Config, Endpoint, Error, Handle, State};
use proptest::prelude::*;

use super::lab::{MS, config};

fn server() -> SocketAddr {
    SocketAddr::from(([10, 0, 0, 2], 80))
}

fn client() -> SocketAddr {
    SocketAddr::from(([10, 0, 0, 1], 5000))
}

fn now() -> Instant {
    Instant::default() + MS.times(1000)
}

fn send(end: &mut Endpoint, way: [SocketAddr; 2], header: Header, payload: &[u8]) {
    send_at(end, now(), way, header, payload);
}

fn send_at(
    end: &mut Endpoint,
    now: Instant,
    [from, to]: [SocketAddr; 2],
    header: Header,
    payload: &[u8],
) {
    let mut packet = Vec::new();
    wire::write(&mut packet, from, to, &header, [payload, &[]]);
    end.receive(now, &packet);
}

fn answers(end: &mut Endpoint) -> Vec<Header> {
    answers_at(end, now())
}

fn answers_at(end: &mut Endpoint, now: Instant) -> Vec<Header> {
    let mut packet = Vec::new();
    let mut all = Vec::new();
    while end.transmit(now, &mut packet) {
        all.push(wire::parse(&packet).expect("a sound packet").header);
    }
    all
}

fn syn(seq: u32) -> Header {
    Header { seq, control: Control::Syn, window: 5000, mss: Some(1000), ..Header::default() }
}

fn ack(seq: u32, ack: u32) -> Header {
    Header { seq, ack: Some(ack), window: 5000, ..Header::default() }
}

/// A server in TIME-WAIT whose client sent `data` with its FIN, and its initial sequence number.
fn waiting(end: &mut Endpoint, config: &Config, at: u32, data: &[u8]) -> (Handle, u32) {
    let timestamp = config.timestamps.then_some(Timestamp { value: at, echo: 0 });
    let ae = config.accurate_ecn;
    let with = |header| Header { timestamp, ae, ece: ae, ..header };
    let up = [client(), server()];
    let listener = end.listen(server(), 4, config).expect("nobody listens");
    let scale = config.window_scaling.then_some(1);
    let syn = Header { sack_permitted: config.sack, window_scale: scale, ..with(syn(7)) };
    send(end, up, syn, b"");
    let iss = answers(end)[0].seq;
    send(end, up, with(ack(8, iss.wrapping_add(1))), b"");
    let handle = end.accept(listener).expect("a connection");
    end.close(now(), handle);
    answers(end);
    let fin = Header { control: Control::Fin, ..ack(8, iss.wrapping_add(2)) };
    send(end, up, with(fin), data);
    answers(end);
    let connection = end.connection(handle).expect("a connection");
    assert_eq!((connection.state(), connection.readable()), (State::TimeWait, data.len()));
    (handle, iss)
}

/// A stranger's SYN takes the place of a connection in TIME-WAIT, and not its data.
#[test]
fn unread_data_survives_a_stranger() {
    let mut end = Endpoint::new([3; 16], 1);
    let (handle, _) = waiting(&mut end, &config(), 0, b"the answer");
    let stranger = SocketAddr::from(([6, 6, 6, 6], 666));
    send(&mut end, [stranger, server()], syn(1), b"");
    assert_eq!(answers(&mut end)[0].control, Control::Syn);
    let mut to = [0; 20];
    assert_eq!(end.read(handle, &mut to), Ok(10), "it was acknowledged");
    assert_eq!(&to[..10], b"the answer");
    assert_eq!(end.read(handle, &mut to), Ok(0), "the end of the stream");
    end.release(now(), handle);
    answers(&mut end);
    assert_eq!(end.read(handle, &mut to), Err(Error::Closed));
}

/// The same of the client's next connection from the same port.
#[test]
fn unread_data_survives_the_next_syn() {
    let mut end = Endpoint::new([3; 16], 100);
    let (handle, _) = waiting(&mut end, &config(), 0, b"upload");
    send(&mut end, [client(), server()], syn(100_000), b"");
    assert_eq!(answers(&mut end)[0].ack, Some(100_001), "a new connection");
    assert_eq!(end.read(handle, &mut [0; 20]), Ok(6), "it was acknowledged");
    assert_eq!(end.read(handle, &mut [0; 20]), Ok(0));
}

/// RFC 6191 section 2: an equal timestamp and a larger sequence number open a new connection; an
/// equal timestamp and a smaller one do not.
#[test]
fn an_equal_timestamp_and_a_larger_number_begin_anew() {
    for (seq, begins) in [(9000, true), (3, false)] {
        for released in [false, true] {
            let mut end = Endpoint::new([3; 16], 10);
            let config = Config { timestamps: true, ..config() };
            let (handle, _) = waiting(&mut end, &config, 100, b"");
            if released {
                end.release(now(), handle);
                answers(&mut end);
            }
            let timestamp = Some(Timestamp { value: 100, echo: 0 });
            send(&mut end, [client(), server()], Header { timestamp, ..syn(seq) }, b"");
            let reply = answers(&mut end)[0];
            assert_eq!(reply.control == Control::Syn, begins, "{seq}, released {released}");
        }
    }
}

/// RFC 9293 section 3.10.7.4: a connection that nobody has any more answers late segments as one
/// that somebody has, and ends as it does.
#[test]
fn a_released_connection_answers_as_another() {
    let late = |end: &mut Endpoint, iss: u32| {
        let up = [client(), server()];
        let mut all = Vec::new();
        let fin = Header { control: Control::Fin, ..ack(8, iss.wrapping_add(2)) };
        for (header, data) in [
            (fin, &b"upload"[..]),
            (ack(8, iss.wrapping_add(2)), b"up"),
            (ack(15, iss.wrapping_add(2)), b""),
            (ack(100_000, iss.wrapping_add(2)), b""),
            (ack(100_000, iss.wrapping_add(2)), b"beyond"),
            (Header { control: Control::Rst, ..ack(15, 0) }, b""),
            (syn(2), b""),
            (syn(15), b""),
        ] {
            send(end, up, header, data);
            all.extend(answers(end));
        }
        for _ in 0..30 {
            send(end, up, ack(100_000, iss.wrapping_add(2)), b"");
            all.extend(answers(end));
        }
        (all, end.poll_at(), end.connections())
    };
    for (timestamps, accurate_ecn) in [(false, false), (true, false), (false, true)] {
        let seen = [false, true].map(|released| {
            let mut end = Endpoint::new([3; 16], 10);
            let ecn = accurate_ecn;
            let window_scaling = false;
            let config = Config { timestamps, ecn, accurate_ecn, window_scaling, ..config() };
            let (handle, iss) = waiting(&mut end, &config, 100, b"upload");
            assert_eq!(end.read(handle, &mut [0; 20]), Ok(6));
            if released {
                end.release(now(), handle);
                answers(&mut end);
            }
            late(&mut end, iss)
        });
        assert_eq!(seen[0], seen[1], "timestamps {timestamps}");
        assert!(timestamps || seen[0].0.len() >= 10, "{seen:?}");
        assert_eq!(seen[0].2, 1);
    }
}

/// RFC 6191 section 3 and Linux's tcp_tw_reuse: an end in TIME-WAIT may open the next connection
/// from the same port after a second, if timestamps tell its segments from old ones.
#[test]
fn a_port_in_time_wait_may_be_used_again() {
    for (timestamps, released, ms, may) in [
        (true, false, 1000, true),
        (true, true, 1000, true),
        (true, true, 999, false),
        (false, true, 59_000, false),
    ] {
        let mut end = Endpoint::new([3; 16], 10);
        let config = Config { timestamps, ..config() };
        let (handle, iss) = waiting(&mut end, &config, 100, b"");
        if released {
            end.release(now(), handle);
            answers(&mut end);
        }
        let later = now() + MS.times(ms);
        end.on_timer(later);
        let opened = end.connect(later, server(), client(), &config);
        let case = format!("timestamps {timestamps}, released {released}, {ms} ms");
        assert_eq!(opened.is_ok(), may, "{case}: {opened:?}");
        if !may {
            assert_eq!(opened, Err(Error::InUse));
            continue;
        }
        let mut packet = Vec::new();
        assert!(end.transmit(later, &mut packet));
        let syn = wire::parse(&packet).expect("a sound packet").header;
        assert_eq!(syn.control, Control::Syn);
        assert!(syn.seq.wrapping_sub(iss) < 1 << 31 && syn.seq != iss, "beyond the old numbers");
        assert_eq!(end.connections(), 1);
    }
}

/// The same where all ports to a server wait: one of them is taken, and none before its second.
#[test]
fn a_client_out_of_ports_takes_one_in_time_wait() {
    const PORTS: usize = 16_384;
    let config = Config { timestamps: true, algorithm: Algorithm::RENO, ..config() };
    let mut end = Endpoint::new([3; 16], 2 * PORTS);
    let (local, remote) = (SocketAddr::new(client().ip(), 0), server());
    let connect = |end: &mut Endpoint, at| end.connect(at, local, remote, &config);
    let mut packet = Vec::new();
    for _ in 0..PORTS {
        let handle = connect(&mut end, now()).expect("a port");
        assert!(end.transmit(now(), &mut packet));
        let syn = wire::parse(&packet).expect("a SYN");
        let back = [syn.to, syn.from];
        let timestamp = syn.header.timestamp.map(|t| Timestamp { value: 5, echo: t.value });
        let next = syn.header.seq.wrapping_add(1);
        let reply = Header { control: Control::Syn, timestamp, ..ack(0, next) };
        send(&mut end, back, reply, b"");
        end.release(now(), handle);
        while end.transmit(now(), &mut packet) {}
        let fin = Header { control: Control::Fin, timestamp, ..ack(1, next.wrapping_add(1)) };
        send(&mut end, back, fin, b"");
        while end.transmit(now(), &mut packet) {}
    }
    assert_eq!(end.connections(), PORTS);
    let start = std::time::Instant::now();
    for _ in 0..1000 {
        assert_eq!(connect(&mut end, now()), Err(Error::InUse));
    }
    // Nobody else has the endpoint meanwhile: it does not look at each port.
    assert!(start.elapsed() < Duration::from_secs(1), "{:?}", start.elapsed());
    assert!(connect(&mut end, now() + MS.times(1000)).is_ok());
    assert_eq!(end.connections(), PORTS);
}

/// A segment that comes late.
#[derive(Clone, Copy, Debug)]
struct Drawn {
    /// Milliseconds since the last one.
    wait: u64,
    /// Where it begins beside RCV.NXT, and what it acknowledges beside SND.NXT.
    seq: i32,
    ack: Option<i32>,
    control: Control,
    bytes: usize,
    /// Its timestamp beside the newest one.
    timestamp: Option<i32>,
}

fn drawn() -> impl Strategy<Value = Drawn> {
    let wait = prop_oneof![4 => 0..50_u64, 2 => 0..2_000_u64, 1 => 0..70_000_u64];
    let seq = prop_oneof![4 => -12..12_i32, 1 => 65_520..65_550_i32, 1 => any::<i32>()];
    let ack = prop_oneof![6 => Just(0), 3 => -5010..10_i32, 1 => any::<i32>()];
    let control = prop_oneof![
        4 => Just(Control::None),
        2 => Just(Control::Fin),
        1 => Just(Control::Rst),
        1 => Just(Control::Syn),
    ];
    let bytes = prop_oneof![Just(0), 0..12_usize];
    let timestamp = prop_oneof![6 => -3..20_i32, 1 => any::<i32>()];
    let some = |percent| prop::bool::weighted(percent);
    (wait, seq, (ack, some(0.9)), control, bytes, (timestamp, some(0.9))).prop_map(
        |(wait, seq, (ack, has_ack), control, bytes, (timestamp, has_timestamp))| Drawn {
            wait,
            seq,
            ack: has_ack.then_some(ack),
            control,
            bytes,
            timestamp: has_timestamp.then_some(timestamp),
        },
    )
}

proptest! {
    /// RFC 9293 section 3.10.7.4, RFC 7323 section 5.3 and RFC 5961: whatever comes, and whenever,
    /// a connection that nobody has any more answers as one that somebody has, and
    /// its TIME-WAIT is as long.
    #[test]
    fn a_released_connection_answers_any_segment_as_another(
        late in prop::collection::vec(drawn(), 1..40),
        kind in 0..3_usize,
        (sack, window_scaling) in any::<(bool, bool)>(),
        before in 0..12_usize,
    ) {
        let (timestamps, ecn) = [(false, false), (true, false), (false, true)][kind];
        let accurate_ecn = ecn;
        let config =
            Config { timestamps, sack, window_scaling, ecn, accurate_ecn, ..config() };
        let up = [client(), server()];
        let ends = [false, true].map(|released| {
            let mut end = Endpoint::new([3; 16], 10);
            let (handle, iss) = waiting(&mut end, &config, 100, b"upload");
            assert_eq!(end.read(handle, &mut [0; 20]), Ok(6));
            // The limit of what strangers can make it send has begun.
            for _ in 0..before {
                send(&mut end, up, ack(200_000, iss.wrapping_add(2)), b"");
                answers(&mut end);
            }
            if released {
                end.release(now(), handle);
                answers(&mut end);
            }
            (end, handle, iss)
        });
        let mut clock = now();
        let (mut recent, mut ends) = (100_u32, ends);
        for drawn in late {
            clock += MS.times(drawn.wait);
            let stamp = drawn.timestamp.filter(|_| timestamps);
            let value = stamp.map(|off| recent.wrapping_add_signed(off));
            ends.iter_mut().for_each(|(end, ..)| end.on_timer(clock));
            let state = ends[0].0.connection(ends[0].1).map(|connection| connection.state());
            let is_over = ends[1].0.connections() == 0;
            prop_assert_eq!(state == Some(State::TimeWait), !is_over, "{:?}", drawn);
            if is_over {
                break;
            }
            let given = ends.each_mut().map(|(end, _, iss)| {
                let header = Header {
                    seq: 15_u32.wrapping_add_signed(drawn.seq),
                    ack: drawn.ack.map(|off| iss.wrapping_add(2).wrapping_add_signed(off)),
                    control: drawn.control,
                    window: 5000,
                    timestamp: value.map(|value| Timestamp { value, echo: 0 }),
                    ..Header::default()
                };
                send_at(end, clock, up, header, &[7; 12][..drawn.bytes]);
                answers_at(end, clock)
            });
            prop_assert_eq!(&given[0], &given[1], "{:?}", drawn);
            if given[0].iter().any(|answer| answer.control != Control::None) {
                // A new connection, or none any more.
                break;
            }
            let echoes = given[0].iter().filter_map(|answer| answer.timestamp);
            recent = echoes.fold(recent, |_, timestamp| timestamp.echo);
        }
    }
}
