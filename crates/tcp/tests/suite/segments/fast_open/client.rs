//! Data in a SYN, seen from the end that opens.

use std::net::SocketAddr;

use fullpipe_cc::{Duration, Instant};
use fullpipe_tcp::wire::{self, Control, FastOpen, Header};
use fullpipe_tcp::{Config, Endpoint, State};

use super::{Out, Pair, all, client, config, server, with};
use crate::segments::lab::MS;

/// It is off unless both ends want it.
#[test]
fn nothing_is_asked_and_nothing_given_without_it() {
    let off = Config { fast_open: false, ..config() };
    for (client_config, server_config) in [(off, config()), (config(), off)] {
        let mut pair = Pair::new(&server_config);
        let handle = pair.connect(&client_config);
        let written = pair.client.write(pair.now, handle, b"x");
        assert_eq!(written.is_ok(), client_config.fast_open);
        let syn = pair.client_sends();
        let asked = client_config.fast_open.then_some(FastOpen::REQUEST);
        assert_eq!(syn[0].header.fast_open, asked);
        pair.arrive_at_server(&syn);
        let answer = pair.server_sends();
        assert_eq!(answer[0].header.fast_open, None);
        pair.arrive_at_client(&answer);
        pair.carry();
        let accepted = pair.accept().expect("a connection");
        assert_eq!(pair.read(accepted).is_ok(), written.is_ok(), "it arrives after the handshake");
    }
}

/// Section 4.1: a cookie is asked for, given and used; section 4.2: the data of the SYN is there
/// when it comes, and is acknowledged by the SYN-ACK, with the answer to it.
#[test]
fn data_goes_with_the_syn_and_with_its_answer() {
    let mut pair = Pair::new(&config());
    let first = pair.connect(&config());
    let asks = pair.client_sends();
    assert_eq!(asks[0].header.fast_open, Some(FastOpen::REQUEST));
    pair.arrive_at_server(&asks);
    assert_eq!(pair.accept(), None, "the handshake is not over");
    let gives = pair.server_sends();
    let cookie = gives[0].header.fast_open.expect("a cookie");
    assert_eq!(cookie.cookie().len(), 8);
    pair.arrive_at_client(&gives);
    pair.carry();
    assert!(!pair.client.connection(first).expect("open").info().syn_data);

    let (handle, syn) = pair.open(b"question");
    assert_eq!((syn.header.fast_open, &syn.payload[..]), (Some(cookie), &b"question"[..]));
    pair.arrive_at_server(std::slice::from_ref(&syn));
    pair.accept().expect("the first");
    let accepted = pair.accept().expect("before its handshake is over");
    assert_eq!(pair.server.connection(accepted).map(|c| c.state()), Some(State::SynReceived));
    assert_eq!(pair.read(accepted), Ok(b"question".to_vec()));
    assert_eq!(pair.server.write(pair.now, accepted, b"answer"), Ok(6));
    let [answer] = pair.server_sends().try_into().expect("one packet");
    assert_eq!(answer.header.control, Control::Syn);
    assert_eq!(answer.header.ack, Some(syn.header.seq.wrapping_add(9)));
    assert_eq!((&answer.payload[..], answer.header.fast_open), (&b"answer"[..], None));
    // More follows without waiting for the client.
    assert_eq!(pair.server.write(pair.now, accepted, &[7; 2500]), Ok(2500));
    let more = pair.server_sends();
    assert_eq!(more.iter().map(|out| out.payload.len()).sum::<usize>(), 2500);
    pair.arrive_at_client(&[answer]);
    pair.arrive_at_client(&more);
    let mut data = vec![0; 5000];
    assert_eq!(pair.client.read(handle, &mut data), Ok(2506));
    assert_eq!(&data[..6], b"answer");
    assert!(pair.client.connection(handle).expect("open").info().syn_data);
    pair.carry();
    let info = pair.server.connection(accepted).expect("open").info();
    assert_eq!((info.state, info.unacked, info.syn_data), (State::Established, 0, true));
    assert_eq!((info.bytes_received, info.bytes_acked), (8, 2506));
    assert_eq!(pair.server.counters().fast_opens, 1);
}

/// Section 4.2.1: no more than the segment size that came with the cookie, options included. The
/// rest follows.
#[test]
fn a_syn_has_what_fits_into_a_segment() {
    let mut pair = Pair::with_cookie();
    let data: Vec<u8> = (0..3000_u32).map(|i| i as u8).collect();
    let (handle, syn) = pair.open(&data);
    assert_eq!(syn.packet.len(), 1040, "a full one");
    pair.arrive_at_server(&[syn]);
    let accepted = pair.accept().expect("at once");
    pair.carry();
    assert_eq!(pair.read(accepted), Ok(data));
    let info = pair.client.connection(handle).expect("open").info();
    assert_eq!((info.bytes_acked, info.total_retrans, info.bytes_sent), (3000, 0, 3000));
}

/// Section 4.2.1: when a SYN with data is not answered, one without it and without the option
/// leaves. After one such SYN the next connection tries again, after two in a row none does for a
/// while (section 4.1.3.1).
#[test]
fn a_syn_whose_data_is_dropped_leaves_without_it() {
    let mut pair = Pair::with_cookie();
    pair.lose_a_syn();
    pair.lose_a_syn();
    let (_, syn) = pair.open(b"another");
    assert_eq!((syn.payload.len(), syn.header.fast_open), (0, None), "it is avoided");
    pair.after(Duration::from_secs(239));
    let (_, syn) = pair.open(b"another");
    assert_eq!((syn.payload.len(), syn.header.fast_open), (0, None), "it is avoided");
    pair.after(Duration::from_secs(2));
    let (_, syn) = pair.open(b"third");
    assert_eq!(syn.payload, b"third", "it is tried again, with the cookie of before");
    assert!(syn.header.fast_open.is_some_and(|option| !option.is_request()));
}

/// Data that is taken between two losses makes the second the first again.
#[test]
fn losses_in_a_row_are_counted() {
    let mut pair = Pair::with_cookie();
    pair.lose_a_syn();
    let (_, syn) = pair.open(b"question");
    assert_eq!(syn.payload, b"question");
    pair.arrive_at_server(&[syn]);
    pair.carry();
    let accepted = pair.accept().expect("a connection");
    assert_eq!(pair.read(accepted), Ok(b"question".to_vec()));
    pair.lose_a_syn();
    let (_, syn) = pair.open(b"another");
    assert_eq!(syn.payload, b"another");
}

/// So does an answer of a server that has Fast Open no more: the SYN arrived.
#[test]
fn an_answer_without_the_data_is_no_loss() {
    let mut pair = Pair::with_cookie();
    pair.lose_a_syn();
    let plain = Pair::new(&Config::default());
    (pair.server, pair.listener) = (plain.server, plain.listener);
    let (_, syn) = pair.open(b"question");
    assert_eq!(syn.payload, b"question");
    pair.arrive_at_server(&[syn]);
    pair.carry();
    let accepted = pair.accept().expect("a connection");
    assert_eq!(pair.read(accepted), Ok(b"question".to_vec()));
    pair.lose_a_syn();
    let (_, syn) = pair.open(b"another");
    assert_eq!(syn.payload, b"another");
}

/// Section 4.1.3.1: no answer at all is one as well.
#[test]
fn a_server_that_never_answers_gets_no_data_in_the_third_syn() {
    let mut pair = Pair::with_cookie();
    for _ in 0..2 {
        let (handle, syn) = pair.open(b"question");
        assert_eq!(syn.payload, b"question");
        for _ in 0..300 {
            pair.after(Duration::from_secs(1));
            pair.client_sends();
        }
        let error = pair.client.connection(handle).and_then(|c| c.error());
        assert!(error.is_some(), "it gave up");
        pair.client.release(pair.now, handle);
    }
    let (_, syn) = pair.open(b"another");
    assert_eq!((syn.payload.len(), syn.header.fast_open), (0, None), "it is avoided");
}

/// A SYN that had a cookie and no data is no sign that data is dropped.
#[test]
fn a_lost_syn_without_data_says_nothing_of_data() {
    let mut pair = Pair::with_cookie();
    for _ in 0..2 {
        let handle = pair.connect(&config());
        assert_eq!(pair.client_sends().len(), 1);
        for _ in 0..300 {
            pair.after(Duration::from_secs(1));
            pair.client_sends();
        }
        pair.client.release(pair.now, handle);
    }
    let (_, syn) = pair.open(b"another");
    assert_eq!(syn.payload, b"another");
}

/// The answer to the first SYN counts although a second one has left, without the data.
#[test]
fn a_late_answer_to_the_data_counts() {
    let mut pair = Pair::with_cookie();
    let (handle, syn) = pair.open(b"question");
    pair.after(Duration::from_secs(1));
    let again = pair.client_sends();
    pair.arrive_at_server(&[syn]);
    pair.arrive_at_server(&again);
    let accepted = pair.accept().expect("at once");
    let answers = pair.server_sends();
    assert!(answers.iter().all(|out| out.header.ack == Some(again[0].header.seq.wrapping_add(9))));
    pair.arrive_at_client(&answers);
    assert_eq!(pair.client.connection(handle).map(|c| c.info().bytes_acked), Some(8));
    pair.carry();
    assert_eq!(pair.read(accepted), Ok(b"question".to_vec()));
    let (_, syn) = pair.open(b"another");
    assert_eq!(syn.payload, b"another", "it came through");
}

/// Section 4.2.1: what a SYN-ACK does not acknowledge leaves at once; also where it is a part.
#[test]
fn what_is_not_acknowledged_leaves_again() {
    for acked in 0..=8_u32 {
        let mut pair = Pair::with_cookie();
        let (handle, syn) = pair.open(b"question");
        let plain = Out { payload: Vec::new(), ..syn.clone() };
        // A server of which the test knows what it takes.
        pair.arrive_at_server(&with(&plain, |header| header.fast_open = None));
        let [answer] = pair.server_sends().try_into().expect("one packet");
        let start = syn.header.seq.wrapping_add(1);
        let part = with(&answer, |header| header.ack = Some(start.wrapping_add(acked)));
        pair.arrive_at_client(&part);
        let out = pair.client_sends();
        let sent: Vec<_> = out.iter().filter(|out| !out.payload.is_empty()).collect();
        if acked == 8 {
            assert_eq!(sent.len(), 0);
        } else {
            assert_eq!(sent[0].header.seq, start.wrapping_add(acked));
            assert_eq!(sent[0].payload, b"question"[acked as usize..]);
        }
        let connection = pair.client.connection(handle).expect("open");
        assert_eq!(connection.has_undelivered(), acked < 8);
        let info = connection.info();
        assert_eq!((info.state, info.syn_data), (State::Established, acked > 0));
        assert_eq!(info.bytes_acked, u64::from(acked));
    }
    // Nothing beyond what left.
    let mut pair = Pair::with_cookie();
    let (handle, syn) = pair.open(b"question");
    let plain = Out { payload: Vec::new(), ..syn.clone() };
    pair.arrive_at_server(&with(&plain, |header| header.fast_open = None));
    let [answer] = pair.server_sends().try_into().expect("one packet");
    for ack in [0, 10] {
        pair.arrive_at_client(&with(&answer, |h| h.ack = Some(syn.header.seq.wrapping_add(ack))));
        assert_eq!(pair.client_sends()[0].header.control, Control::Rst);
        assert_eq!(pair.client.connection(handle).map(|c| c.state()), Some(State::SynSent));
    }
}

/// Both ends open at the same time, with data in their SYNs: it arrives after the handshake.
#[test]
fn data_of_crossing_syns_arrives_once() {
    let mut ends = [Endpoint::new([1; 16], 10), Endpoint::new([2; 16], 10)];
    let addresses = [client(4000), server()];
    let now = Instant::default() + MS;
    // Each has a cookie of the other's.
    let caught = [0, 1].map(|i| {
        let (me, you) = (addresses[i], SocketAddr::new(addresses[1 - i].ip(), 99));
        let listener = ends[1 - i].listen(you, 1, &config()).expect("nobody listens");
        let handle = ends[i].connect(now, SocketAddr::new(me.ip(), 0), you, &config());
        for _ in 0..2 {
            for from in 0..2 {
                for out in all(&mut ends[from], now) {
                    ends[1 - from].receive(now, &out.packet);
                }
            }
        }
        (handle.expect("a connection"), ends[1 - i].accept(listener))
    });
    assert!(caught.iter().all(|(_, accepted)| accepted.is_some()));
    let handles = [0, 1].map(|i| {
        let handle = ends[i].connect(now, addresses[i], addresses[1 - i], &config());
        let handle = handle.expect("a connection");
        assert_eq!(ends[i].write(now, handle, &[i as u8; 100]), Ok(100));
        handle
    });
    let syns = [0, 1].map(|i| all(&mut ends[i], now));
    for i in 0..2 {
        assert_eq!((syns[i].len(), syns[i][0].payload.len()), (1, 100));
        ends[1 - i].receive(now, &syns[i][0].packet);
    }
    for _ in 0..8 {
        for i in 0..2 {
            for out in all(&mut ends[i], now) {
                assert_eq!(out.header.fast_open, None, "nobody gives a cookie");
                ends[1 - i].receive(now, &out.packet);
            }
        }
    }
    for i in 0..2 {
        let mut data = [9; 300];
        assert_eq!(ends[i].read(handles[i], &mut data), Ok(100));
        assert!(data[..100].iter().all(|byte| usize::from(*byte) == 1 - i));
        let info = ends[i].connection(handles[i]).expect("open").info();
        assert_eq!((info.state, info.bytes_acked), (State::Established, 100));
    }
}

/// Data that was written before the SYN left is delivered although the application closes at once.
#[test]
fn a_request_of_a_closed_stream_arrives() {
    let mut pair = Pair::with_cookie();
    let (handle, syn) = pair.open(b"question");
    pair.client.release(pair.now, handle);
    pair.arrive_at_server(&[syn]);
    let accepted = pair.accept().expect("at once");
    pair.carry();
    assert_eq!(pair.read(accepted), Ok(b"question".to_vec()));
    assert_eq!(pair.read(accepted), Ok(Vec::new()));
}

/// Section 4.1.1: cookies of all lengths, beside all other options.
#[test]
fn the_option_is_read_as_it_was_written() {
    for count in [0, 4, 6, 8, 10, 12, 14, 16] {
        let option = FastOpen::new(&[7; 16][..count]);
        let header = Header {
            control: Control::Syn,
            mss: Some(1460),
            window_scale: Some(7),
            sack_permitted: true,
            timestamp: Some(wire::Timestamp { value: 1, echo: 2 }),
            fast_open: option,
            ..Header::default()
        };
        assert!(option.is_some());
        let mut packet = Vec::new();
        wire::write(&mut packet, client(1), server(), &header, [b"ab", b"c"]);
        let read = wire::parse(&packet).expect("a sound packet");
        assert_eq!((read.header, read.payload), (header, &b"abc"[..]));
        assert_eq!(packet.len(), 20 + header.bytes() + 3);
        // Without SYN it is none.
        let header = Header { control: Control::None, ack: Some(1), ..header };
        wire::write(&mut packet, client(1), server(), &header, [&[], &[]]);
        assert_eq!(wire::parse(&packet).expect("a sound packet").header.fast_open, None);
    }
}
