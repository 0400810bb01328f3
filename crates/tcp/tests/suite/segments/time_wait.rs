//! TIME-WAIT: what was acknowledged stays readable, and the next connection may come.

use std::net::SocketAddr;

use fullpipe_cc::Instant;
use fullpipe_tcp::wire::{self, Control, Header, Timestamp};
use fullpipe_tcp::{Config, Endpoint, Error, Handle, State};

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

fn send(end: &mut Endpoint, [from, to]: [SocketAddr; 2], header: Header, payload: &[u8]) {
    let mut packet = Vec::new();
    wire::write(&mut packet, from, to, &header, [payload, &[]]);
    end.receive(now(), &packet);
}

fn answers(end: &mut Endpoint) -> Vec<Header> {
    let mut packet = Vec::new();
    let mut all = Vec::new();
    while end.transmit(now(), &mut packet) {
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
    let with = |header| Header { timestamp, ..header };
    let up = [client(), server()];
    let listener = end.listen(server(), 4, config).expect("nobody listens");
    send(end, up, with(syn(7)), b"");
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
    for timestamps in [false, true] {
        let seen = [false, true].map(|released| {
            let mut end = Endpoint::new([3; 16], 10);
            let config = Config { timestamps, ..config() };
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
