//! Memory follows what is under way and unread, not what once was.

use fullpipe_cc::{Algorithm, Duration, Instant, Rate};
use fullpipe_path::Link;
use fullpipe_tcp::Config;

use super::Pair;
use crate::common::{App, MS, Net};

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
            Config { time_wait: MS.times(100), algorithm: Algorithm::RENO, ..Config::default() };
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
    assert!(each <= 200, "{each} bytes, with the tables that find it");
}

/// All connections together keep to the endpoint's limit: those that send, and those whose
/// applications do not read. When they do, everything arrives.
#[test]
fn the_memory_of_all_connections_is_bounded() {
    const LIMIT: usize = 400_000;
    const CONNECTIONS: usize = 20;
    const BYTES: usize = 200_000;
    let config = Config { algorithm: Algorithm::RENO, ..Config::default() };
    let mut pair = Pair::new(100, &config);
    pair.ends.iter_mut().for_each(|end| end.set_memory_limit(LIMIT));
    let all = [(); CONNECTIONS].map(|()| pair.connect(&config));
    let data = vec![7; BYTES];
    let (mut written, mut read) = ([0; CONNECTIONS], [0; CONNECTIONS]);
    let (start, mut most) = (pair.now, [0; 2]);
    while read != [BYTES; CONNECTIONS] {
        for (i, handles) in all.iter().enumerate() {
            let rest = &data[written[i]..];
            written[i] += pair.ends[0].write(pair.now, handles[0], rest).unwrap_or(0);
            if pair.now.since(start) > Duration::from_secs(10) {
                read[i] += pair.read_all(1, handles[1]);
            }
        }
        assert!(pair.step(), "nothing will happen: {read:?}");
        assert!(pair.now.since(start) < Duration::from_secs(500), "{read:?}");
        for (i, most) in most.iter_mut().enumerate() {
            let held: usize =
                all.iter().map(|handles| pair.connection(i, handles[i]).memory()).sum();
            *most = held.max(*most);
        }
    }
    println!("at most {most:?} bytes");
    assert!(most.iter().all(|held| *held <= LIMIT + CONNECTIONS * (32 << 10)), "{most:?}");
    // Half of it is used at least.
    assert!(most.iter().all(|held| *held > LIMIT / 2), "{most:?}");
}

/// Connections of which each has done a transfer, and nothing since.
#[test]
fn an_idle_connection_keeps_sixteen_kilobytes() {
    let config = Config::default();
    let mut pair = Pair::new(1000, &config);
    for _ in 0..200 {
        let handles = pair.connect(&config);
        assert!(pair.transfer(handles, 100_000, Duration::from_secs(100)));
    }
    while pair.step() {}
    let each = pair.ends.each_ref().map(|end| end.memory() / 200);
    println!("{each:?} bytes for each idle connection");
    assert!(each.iter().all(|bytes| *bytes <= 16 << 10), "{each:?}");
}

/// While memory is short, data in order has a place, also what comes together before the
/// application reads. Only some of the first window, which was told before, is sent again.
#[test]
fn data_in_order_is_kept_while_memory_is_short() {
    const BYTES: u64 = 200_000;
    let path = Link {
        rate: Some(Rate::from_bits_per_sec(100_000_000)),
        delay: MS.times(10),
        ..Link::default()
    };
    for every in [0, 1, 10] {
        let apps = [App::writer(0, BYTES), App::default()];
        let mut net = Net::new([path.into(), path.into()], [Config::default(); 2], apps);
        net.ends[1].set_memory_limit(0);
        net.granularity = MS.times(every);
        let end = Instant::default() + Duration::from_secs(100);
        assert!(net.run_while(end, |net| net.apps[1].read < BYTES));
        let handle = net.apps[0].handle.expect("a connection");
        let info = net.ends[0].connection(handle).expect("open").info();
        let secs = net.now.as_nanos() as f64 / 1e9;
        println!(
            "{every} ms: {secs} s, {} sent again, {} timeouts",
            info.total_retrans, info.timeouts
        );
        assert!(info.total_retrans <= 10 && secs < 3.0, "{every} ms: {secs} s, {info:?}");
    }
}
