//! Cookies, their limits and early connections, seen from the end that listens.

use std::net::SocketAddr;

use fullpipe_cc::Duration;
use fullpipe_tcp::wire::{self, Control, Header};
use fullpipe_tcp::{Config, Error, State};

use super::{Out, Pair, client, config, server, with};

/// Section 4.2.2: a cookie that is another client's, or too old, is none: the data is not taken,
/// and a new cookie comes. One of the key before the newest counts and is renewed.
#[test]
fn an_old_cookie_is_renewed_and_a_strange_one_refused() {
    for (hours, is_taken, is_renewed) in [(1, true, false), (12, true, true), (24, false, true)] {
        let mut pair = Pair::with_cookie();
        pair.after(Duration::from_secs(hours * 3600));
        let (_, syn) = pair.open(b"question");
        pair.arrive_at_server(std::slice::from_ref(&syn));
        assert_eq!(pair.accept().is_some(), is_taken, "after {hours} hours");
        let [answer] = pair.server_sends().try_into().expect("one packet");
        assert_eq!(answer.header.fast_open.is_some(), is_renewed, "after {hours} hours");
        let acked = if is_taken { 9 } else { 1 };
        assert_eq!(answer.header.ack, Some(syn.header.seq.wrapping_add(acked)));
        pair.arrive_at_client(std::slice::from_ref(&answer));
        let (_, next) = pair.open(b"next");
        let cookie = if is_renewed { answer.header.fast_open } else { syn.header.fast_open };
        assert_eq!(next.header.fast_open, cookie);
    }
    let mut pair = Pair::with_cookie();
    let (_, syn) = pair.open(b"question");
    // The same from another address.
    let mut packet = Vec::new();
    let other = SocketAddr::from(([10, 0, 0, 9], 4000));
    wire::write(&mut packet, other, server(), &syn.header, [&syn.payload, &[]]);
    pair.server.receive(pair.now, &packet);
    assert_eq!(pair.accept(), None);
    let answer = &pair.server_sends()[0];
    assert_eq!(answer.header.ack, Some(syn.header.seq.wrapping_add(1)));
    assert!(answer.header.fast_open.is_some_and(|cookie| Some(cookie) != syn.header.fast_open));
    assert_eq!(pair.server.counters().fast_opens_refused, 1);
}

/// Section 5.1: beyond the limit of pending ones connections open as ever; a handshake that is over
/// makes room, and a reset does so after a minute, as anybody may forge it.
#[test]
fn pending_connections_are_limited() {
    let mut pair = Pair::new(&Config { fast_open_pending: 2, ..config() });
    pair.connect_once();
    let opened: Vec<_> = (0..3).map(|_| pair.open(b"question").1).collect();
    pair.arrive_at_server(&opened);
    let answers = pair.server_sends();
    let taken = |answers: &[Out]| {
        let is_taken = |out: &&Out| {
            opened.iter().any(|syn| out.header.ack == Some(syn.header.seq.wrapping_add(9)))
        };
        answers.iter().filter(is_taken).count()
    };
    assert_eq!((answers.len(), taken(&answers)), (3, 2));
    assert_eq!(pair.server.counters().fast_opens_refused, 1);

    // One handshake is over.
    pair.arrive_at_client(&answers[..1]);
    let rest = pair.client_sends();
    pair.arrive_at_server(&rest);
    let (_, syn) = pair.open(b"question");
    pair.arrive_at_server(std::slice::from_ref(&syn));
    let answer = &pair.server_sends()[0];
    assert_eq!(answer.header.ack, Some(syn.header.seq.wrapping_add(9)));

    // A reset, at the number that the client would have next.
    let reset =
        Header { seq: syn.header.seq.wrapping_add(9), control: Control::Rst, ..Header::default() };
    let quiet = Out { payload: Vec::new(), ..syn };
    pair.arrive_at_server(&with(&quiet, |header| *header = reset));
    for (wait, is_taken) in [(Duration::from_secs(59), false), (Duration::from_secs(1), true)] {
        pair.now += wait;
        let (_, syn) = pair.open(b"question");
        pair.arrive_at_server(std::slice::from_ref(&syn));
        let is_of = |out: &&Out| out.header.ack == Some(syn.header.seq.wrapping_add(9));
        assert_eq!(pair.server_sends().iter().any(|out| is_of(&out)), is_taken, "{wait}");
    }
}

/// While SYNs are answered with SYN cookies nothing is taken early, and nothing is kept.
#[test]
fn a_syn_cookie_takes_no_data() {
    let mut pair = Pair::with_cookie();
    let (handle, syn) = pair.open(b"question");
    for port in 1..=8 {
        let plain = Header { control: Control::Syn, window: 1000, ..Header::default() };
        let mut packet = Vec::new();
        wire::write(&mut packet, client(port), server(), &plain, [&[], &[]]);
        pair.server.receive(pair.now, &packet);
    }
    pair.server_sends();
    let held = pair.server.connections();
    pair.arrive_at_server(std::slice::from_ref(&syn));
    assert_eq!((pair.server.connections(), pair.accept()), (held, None));
    let [answer] = pair.server_sends().try_into().expect("one packet");
    assert_eq!(answer.header.ack, Some(syn.header.seq.wrapping_add(1)));
    assert_eq!(answer.header.fast_open, None);
    pair.arrive_at_client(&[answer]);
    let out = pair.client_sends();
    pair.arrive_at_server(&out);
    let accepted = pair.accept().expect("a connection");
    assert_eq!(pair.read(accepted), Ok(b"question".to_vec()));
    assert_eq!(pair.client.connection(handle).map(|c| c.state()), Some(State::Established));
}

/// A SYN-ACK that is lost leaves again, without the data that it had.
#[test]
fn a_lost_syn_ack_leaves_again() {
    let mut pair = Pair::with_cookie();
    let (handle, syn) = pair.open(b"question");
    pair.arrive_at_server(std::slice::from_ref(&syn));
    let accepted = pair.accept().expect("at once");
    assert_eq!(pair.server.write(pair.now, accepted, b"answer"), Ok(6));
    pair.server.close(pair.now, accepted);
    assert_eq!(pair.server_sends().len(), 1, "lost; the end waits for the handshake");
    pair.after(Duration::from_secs(1));
    let [again] = pair.server_sends().try_into().expect("one packet");
    assert_eq!((again.header.control, again.payload.len()), (Control::Syn, 0));
    assert_eq!(again.header.ack, Some(syn.header.seq.wrapping_add(9)));
    pair.arrive_at_client(&[again]);
    for _ in 0..5 {
        pair.carry();
        pair.after(Duration::from_secs(1));
    }
    let mut data = [0; 10];
    assert_eq!(pair.client.read(handle, &mut data), Ok(6));
    assert_eq!(pair.client.read(handle, &mut data), Ok(0));
    assert_eq!(pair.server.connection(accepted).map(|c| c.state()), Some(State::FinWait2));
}

/// A SYN that comes again has its answer again, whether its data is with it or not.
#[test]
fn a_syn_that_comes_again_is_answered_again() {
    let mut pair = Pair::with_cookie();
    let (_, syn) = pair.open(b"question");
    pair.arrive_at_server(std::slice::from_ref(&syn));
    let first = pair.server_sends();
    let plain = with(&Out { payload: Vec::new(), ..syn.clone() }, |header| header.fast_open = None);
    for again in [&plain, &vec![syn]] {
        pair.arrive_at_server(again);
        let [answer] = pair.server_sends().try_into().expect("one packet");
        assert_eq!((answer.header.control, answer.header.ack), (Control::Syn, first[0].header.ack));
    }
    let accepted = pair.accept().expect("one connection");
    assert_eq!((pair.read(accepted), pair.accept()), (Ok(b"question".to_vec()), None));
}

/// A reset of a connection that began with data reaches its application.
#[test]
fn a_reset_before_the_handshake_is_over_is_told() {
    let mut pair = Pair::with_cookie();
    let (_, syn) = pair.open(b"question");
    pair.arrive_at_server(std::slice::from_ref(&syn));
    let accepted = pair.accept().expect("at once");
    let reset =
        Header { seq: syn.header.seq.wrapping_add(9), control: Control::Rst, ..Header::default() };
    let quiet = Out { payload: Vec::new(), ..syn };
    pair.arrive_at_server(&with(&quiet, |header| *header = reset));
    assert_eq!(pair.read(accepted), Ok(b"question".to_vec()));
    assert_eq!(pair.read(accepted), Err(Error::Reset));
}

/// Section 4.2.2: a SYN-ACK has as much of the answer as fits into a segment beside its options, and
/// the rest follows.
#[test]
fn a_syn_ack_has_what_fits_into_a_segment() {
    let mut pair = Pair::with_cookie();
    let (handle, syn) = pair.open(b"question");
    pair.arrive_at_server(&[syn]);
    let accepted = pair.accept().expect("at once");
    let answer: Vec<u8> = (0..3000_u32).map(|i| i as u8).collect();
    assert_eq!(pair.server.write(pair.now, accepted, &answer), Ok(3000));
    let sent = pair.server_sends();
    assert_eq!((sent[0].header.control, sent[0].packet.len()), (Control::Syn, 1040));
    assert_eq!(sent.iter().map(|out| out.payload.len()).sum::<usize>(), 3000);
    pair.arrive_at_client(&sent);
    let mut data = vec![0; 5000];
    assert_eq!(pair.client.read(handle, &mut data), Ok(3000));
    assert_eq!(data[..3000], answer);
}
