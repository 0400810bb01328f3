//! The kernel's own netem between two namespaces. Needs root and a kernel that has it; without them each
//! test says so and is over.
#![cfg(target_os = "linux")]

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::time::{Duration, Instant};

use fullpipe_cc::Rate;
use fullpipe_emu::namespace::{CLIENT, DIRECTORY, SERVER};
use fullpipe_emu::netem::{self, NetemConfig, NetemLink};
use fullpipe_emu::{EmuError, QueueLimit};
use fullpipe_path::Probability;

/// Whether the tests can run here; tells why not.
fn available() -> bool {
    let missing = netem::available();
    if let Err(missing) = &missing {
        eprintln!("skipped: {missing}");
    }
    missing.is_ok()
}

/// 50 Mbit/s and 20 ms with a buffer of 40 packets.
fn config() -> NetemConfig {
    let half = fullpipe_cc::Duration::from_millis(10);
    NetemConfig {
        rate: Rate::from_bits_per_sec(50_000_000),
        queue: QueueLimit::Bytes(60_000),
        loss: Probability::ZERO,
        downlink_delay: half,
        uplink_delay: half,
        seed: 1,
    }
}

#[test]
fn tcp_crosses_at_the_rate_and_after_the_delay() {
    if !available() {
        return;
    }
    let link = NetemLink::start(&config()).expect("a link");
    let paths = [link.server().path().to_owned(), link.client().path().to_owned()];
    let listener = link.client().enter(|| TcpListener::bind((CLIENT, 7))).expect("inside");
    let listener = listener.expect("a listener");
    let begun = Instant::now();
    let stream = link.server().enter(|| TcpStream::connect((CLIENT, 7))).expect("inside");
    let mut stream = stream.expect("a connection");
    let connected = begun.elapsed();
    assert!(connected >= Duration::from_millis(20), "a round trip: {connected:?}");
    assert_eq!(stream.local_addr().expect("an address").ip(), SERVER);
    let (mut other, _) = listener.accept().expect("a connection");
    let sender = std::thread::spawn(move || stream.write_all(&[7; 3_000_000]));
    let (mut got, mut fullest) = (vec![0; 3_000_000], netem::NetemSample::default());
    for part in got.chunks_mut(50_000) {
        other.read_exact(part).expect("all of it");
        let now = link.sample().expect("counters");
        if now.queue.bytes > fullest.queue.bytes {
            fullest = now;
        }
    }
    sender.join().expect("no panic").expect("all of it");
    assert!(got.iter().all(|&b| b == 7));
    let took = begun.elapsed();
    assert!(took >= Duration::from_millis(20 + 20 + 480), "3 MB at 50 Mbit/s: {took:?}");
    // In packets of 1500 bytes, and no more than the buffer takes.
    assert!((10..=40).contains(&fullest.queue.packets), "{fullest:?}");
    assert!(fullest.queue.bytes <= fullest.queue.packets * 1500, "{fullest:?}");
    let delay = fullpipe_cc::Duration::from_nanos(fullest.queue.bytes * 8 * 20);
    assert_eq!(fullest.queue.delay, delay);
    let end = link.sample().expect("counters");
    assert!(end.carried.bytes >= 3_000_000 / 1448 * 1500, "{end:?}");
    assert_eq!(end.random_lost_packets, 0);
    drop(link);
    assert!(paths.iter().all(|path| !path.exists()), "{DIRECTORY}");
}

#[test]
fn what_does_not_fit_and_what_chance_takes_are_told_apart() {
    if !available() {
        return;
    }
    let loss = Probability::new(0.1).expect("a probability");
    let link = NetemLink::start(&NetemConfig { loss, ..config() }).expect("a link");
    let open = |address| move || UdpSocket::bind((address, 9)).expect("a socket");
    let from = link.server().enter(open(SERVER)).expect("inside");
    let _to = link.client().enter(open(CLIENT)).expect("inside");
    for _ in 0..1000 {
        from.send_to(&[0; 972], (CLIENT, 9)).expect("a packet");
    }
    // 40 packets of 1000 bytes take 6.4 ms.
    std::thread::sleep(Duration::from_millis(100));
    let sample = link.sample().expect("counters");
    let kept = sample.carried.packets + sample.tail_dropped_packets;
    assert_eq!(sample.arrived_packets, 1000, "{sample:?}");
    assert_eq!(kept + sample.random_lost_packets, 1000, "{sample:?}");
    assert!((60..140).contains(&sample.random_lost_packets), "{sample:?}");
    assert!(sample.tail_dropped_packets > 100 && sample.carried.packets >= 40, "{sample:?}");
    assert_eq!(sample.carried.bytes, sample.carried.packets * 1000);
}

#[test]
fn what_makes_no_sense_is_refused() {
    for (config, why) in [
        (NetemConfig { rate: Rate::ZERO, ..config() }, "a rate of 0"),
        (NetemConfig { queue: QueueLimit::Bytes(1499), ..config() }, "1499 bytes"),
        (NetemConfig { queue: QueueLimit::Packets(0), ..config() }, "0 packets"),
    ] {
        let error = NetemLink::start(&config).expect_err(why);
        assert!(matches!(error, EmuError::Path { .. }), "{error}");
        assert!(error.to_string().contains(why), "{error}");
    }
}
