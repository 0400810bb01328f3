//! Memory follows what is under way and unread, not what once was.

use fullpipe_cc::{Algorithm, Duration};
use fullpipe_tcp::{Config, Connection};

use super::Pair;
use crate::common::MS;

/// The list of transmissions is emptied without SACK as well.
#[test]
fn memory_does_not_grow_with_the_bytes_sent() {
    for sack in [true, false] {
        let config = Config { sack, ..Config::default() };
        let mut pair = Pair::new(10, &config);
        let handles = pair.connect(&config);
        let held = [(); 4].map(|()| {
            assert!(pair.transfer(handles, 10_000_000, Duration::from_secs(1000)));
            for _ in 0..20 {
                pair.step();
            }
            pair.ends[0].memory()
        });
        assert!(held[3] < held[0] * 11 / 10, "SACK {sack}: it grows: {held:?}");
    }
}

/// Connections that are over leave nothing behind, also when nobody asks for what has changed.
#[test]
fn memory_does_not_grow_with_connections_that_were() {
    for asks in [true, false] {
        let config =
            Config { time_wait: MS.times(100), algorithm: Algorithm::Reno, ..Config::default() };
        let mut pair = Pair::new(1000, &config);
        pair.asks = asks;
        let held = [(); 3].map(|()| {
            for _ in 0..1000 {
                let [client, server] = pair.connect(&config);
                pair.ends[0].release(pair.now, client);
                pair.step();
                pair.step();
                pair.ends[1].release(pair.now, server);
                while pair.ends.iter().any(|end| end.connections() > 0) {
                    assert!(pair.step());
                }
            }
            pair.ends.iter().map(|end| end.memory()).sum::<usize>()
        });
        assert_eq!(held[2], held[0], "somebody asks {asks}: it grows: {held:?}");
        assert!(held[2] < 10_000, "{held:?}");
    }
}

/// A connection gives back what a transfer needed, a while after it.
#[test]
fn an_idle_connection_keeps_little() {
    let config = Config::default();
    let mut pair = Pair::new(10, &config);
    let handles = pair.connect(&config);
    let before = pair.ends.each_ref().map(|end| end.memory());
    assert!(pair.transfer(handles, 20_000_000, Duration::from_secs(1000)));
    // The receiver does not read for a while, and then all.
    let data = vec![7; 8 << 20];
    let written = pair.ends[0].write(pair.now, handles[0], &data).expect("room");
    while pair.connection(0, handles[0]).info().rcv_wnd > 0
        && pair.connection(1, handles[1]).readable() < written / 2
    {
        pair.step();
    }
    assert!(pair.ends[1].memory() > 1 << 20, "{}", pair.ends[1].memory());
    let mut read = 0;
    while read < written {
        read += pair.read_all(1, handles[1]);
        assert!(pair.step());
    }
    while pair.step() {}
    for (end, before) in pair.ends.iter().zip(before) {
        assert!(end.memory() < before + (32 << 10), "{before} before, {}", end.memory());
    }
}

/// TIME-WAIT is a minute long: a connection that the application has no more to do with keeps what
/// it needs to answer late segments.
#[test]
fn time_wait_keeps_little() {
    let config = Config::default();
    let mut pair = Pair::new(1000, &config);
    for _ in 0..100 {
        let handles = pair.connect(&config);
        assert!(pair.transfer(handles, 100_000, Duration::from_secs(100)));
        pair.ends[0].release(pair.now, handles[0]);
        pair.step();
        pair.step();
        pair.ends[1].release(pair.now, handles[1]);
    }
    while pair.ends[1].connections() > 0 {
        assert!(pair.step());
    }
    assert_eq!(pair.ends[0].connections(), 100, "all in TIME-WAIT");
    let each = pair.ends[0].memory() / 100;
    assert!(each <= 400, "{each} bytes, with the tables that find it");
    assert!(each < size_of::<Connection>() / 4);
}
