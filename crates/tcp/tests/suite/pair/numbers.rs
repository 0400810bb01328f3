//! The numbers of a connection between ends that had one before.

use std::net::SocketAddr;

use fullpipe_cc::Duration;
use fullpipe_tcp::wire::{self, Control, Header};
use fullpipe_tcp::{Config, Handle};

use super::Pair;
use crate::common::{MS, ends};

/// More than the clock of initial sequence numbers counts meanwhile, which is 250 kB a second.
const BYTES: usize = 2_000_000;

fn client() -> SocketAddr {
    SocketAddr::new(ends()[0].ip(), 50_000)
}

fn config() -> Config {
    Config { time_wait: Duration::from_secs(60), ..Config::default() }
}

/// Sends from end `i` to the other one; the number after the last one that left.
fn fill(pair: &mut Pair, i: usize, handles: [Handle; 2]) -> u32 {
    let (data, mut written, mut read, mut sent) = (vec![7; 1 << 16], 0, 0, None);
    while read < BYTES {
        let most = data.len().min(BYTES - written);
        written += pair.ends[i].write(pair.now, handles[i], &data[..most]).unwrap_or(0);
        assert!(pair.step());
        sent = newest(pair, i, sent);
        read += pair.read_all(1 - i, handles[1 - i]);
    }
    sent.expect("data left")
}

/// The number after all that end `i` has sent, of which `before` is what was seen before.
fn newest(pair: &Pair, i: usize, before: Option<u32>) -> Option<u32> {
    let packets = pair.wire.iter().filter(|(_, to, _)| *to != i);
    packets.fold(before, |newest, (.., packet)| {
        let segment = wire::parse(packet)?;
        let sent = segment.header.seq.wrapping_add(segment.len());
        Some(newest.filter(|&newest| is_beyond(newest, sent)).unwrap_or(sent))
    })
}

/// The header of the next SYN or SYN-ACK that end `i` sends.
fn syn(pair: &mut Pair, i: usize) -> Header {
    for _ in 0..100 {
        let all = pair.wire.iter().filter(|(_, to, _)| *to != i);
        let mut headers = all.filter_map(|(.., packet)| Some(wire::parse(packet)?.header));
        if let Some(header) = headers.find(|header| header.control == Control::Syn) {
            return header;
        }
        pair.step();
    }
    panic!("no SYN");
}

fn is_beyond(new: u32, old: u32) -> bool {
    new.wrapping_sub(old) < 1 << 31
}

/// RFC 6528 section 3 and RFC 9293 section 3.4.1: after a connection that was reset and that sent
/// fast, the next one between the same ends begins beyond its numbers, whichever end sent.
#[test]
fn a_connection_after_an_abort_begins_beyond_the_old_numbers() {
    for sender in [0, 1] {
        for who in [0, 1] {
            let mut pair = Pair::new(10, &config());
            let mut old = None;
            for round in 0..3 {
                let handle = pair.ends[0].connect(pair.now, client(), ends()[1], &config());
                let handle = handle.expect("the ends are free");
                pair.pump();
                let new = syn(&mut pair, sender).seq;
                assert!(old.is_none_or(|old| is_beyond(new, old)), "{sender} {who} {round}");
                let server = loop {
                    pair.step();
                    if let Some(server) = pair.ends[1].accept(pair.listener) {
                        break server;
                    }
                };
                let handles = [handle, server];
                old = Some(fill(&mut pair, sender, handles));
                pair.ends[who].abort(handles[who]);
                for (end, handle) in pair.ends.iter_mut().zip(handles) {
                    end.release(pair.now, handle);
                }
                while pair.ends.iter().any(|end| end.connections() > 0) {
                    assert!(pair.step());
                }
            }
        }
    }
}

/// RFC 9293 section 3.6.1: the same of a server whose connection is in TIME-WAIT when the next SYN
/// comes.
#[test]
fn a_connection_after_time_wait_begins_beyond_the_old_numbers() {
    for released in [false, true] {
        let mut pair = Pair::new(10, &config());
        let [client, server] = pair.connect_from(client(), ends()[1], &config());
        let mut sent = Some(fill(&mut pair, 1, [client, server]));
        pair.ends[1].close(pair.now, server);
        if released {
            pair.ends[1].release(pair.now, server);
        }
        for _ in 0..4 {
            pair.step();
        }
        pair.ends[0].release(pair.now, client);
        while pair.ends[0].connections() > 0 {
            assert!(pair.step());
            sent = newest(&pair, 1, sent);
        }
        let old = sent.expect("data left");
        // The client's clock of timestamps goes on.
        pair.now += MS.times(20);
        pair.ends[0].connect(pair.now, self::client(), ends()[1], &config()).expect("it is free");
        pair.pump();
        let new = syn(&mut pair, 1).seq;
        assert!(is_beyond(new, old), "{new} after {old}, released {released}");
    }
}
