//! The kernel's own netem between two namespaces. Where the kernel has none, the tests are skipped,
//! or fail where `NETEM` is set to anything.

use std::io::{ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::time::{Duration, Instant};

use fullpipe_cc::Rate;
use fullpipe_emu::QueueLimit;
use fullpipe_emu::namespace::{CLIENT, DIRECTORY, Namespace, SERVER};
use fullpipe_emu::netem::pair::Pair;
use fullpipe_emu::netem::{self, NetemConfig, NetemLink, NetemSample};
use fullpipe_path::Probability;
use fullpipe_testkit::skip;
use nix::sys::socket::setsockopt;
use nix::sys::socket::sockopt::RcvBufForce;

/// A link, where the kernel can make one.
fn start(config: &NetemConfig) -> NetemLink {
    if let Err(missing) = netem::available() {
        assert!(std::env::var_os("NETEM").is_none(), "{missing}");
        skip(missing.to_string());
    }
    NetemLink::start(config).expect("a link")
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

fn tcp_crosses_at_the_rate_and_after_the_delay() {
    let link = start(&config());
    let name = |of: &Namespace| of.path().expect("root gives names").to_owned();
    let paths = [name(link.server()), name(link.client())];
    let listener = link.client().enter(|| TcpListener::bind((CLIENT, 7))).expect("inside");
    let listener = listener.expect("a listener");
    let begun = Instant::now();
    let stream = link.server().enter(|| TcpStream::connect((CLIENT, 7))).expect("inside");
    let mut stream = stream.expect("a connection");
    let connected = begun.elapsed();
    let expected = Duration::from_millis(20)..Duration::from_millis(30);
    assert!(expected.contains(&connected), "a round trip: {connected:?}");
    assert_eq!(stream.local_addr().expect("an address").ip(), SERVER);
    let (mut other, _) = listener.accept().expect("a connection");
    let sender = std::thread::spawn(move || stream.write_all(&[7; 3_000_000]));
    let (mut got, mut fullest) = (vec![0; 3_000_000], NetemSample::default());
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
    // The handshake, a way, and 2072 packets of 1500 bytes at 50 Mbit/s; slow start and losses take
    // longer.
    let least = Duration::from_millis(20 + 10 + 497);
    assert!((least..least * 2).contains(&took), "{took:?}");
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

/// A thousand packets of 1000 bytes at once, and what has arrived of them when all are through.
fn burst(config: &NetemConfig) -> (NetemSample, u64, Duration) {
    let link = start(config);
    let open = |address| move || UdpSocket::bind((address, 9)).expect("a socket");
    let from = link.server().enter(open(SERVER)).expect("inside");
    let to = link.client().enter(open(CLIENT)).expect("inside");
    setsockopt(&to, RcvBufForce, &4_000_000).expect("a buffer");
    to.set_read_timeout(Some(Duration::from_millis(100))).expect("a timeout");
    let begun = Instant::now();
    for _ in 0..1000 {
        from.send_to(&[0; 972], (CLIENT, 9)).expect("a packet");
    }
    let (mut arrived, mut last) = (0, Duration::ZERO);
    while to.recv(&mut [0; 2048]).is_ok() {
        (arrived, last) = (arrived + 1, begun.elapsed());
    }
    (link.sample().expect("counters"), arrived, last)
}

fn what_does_not_fit_and_what_chance_takes_are_told_apart() {
    let loss = Probability::new(0.1).expect("a probability");
    let (sample, arrived, _) = burst(&NetemConfig { loss, ..config() });
    assert_eq!(sample.queue.packets, 0, "{sample:?}");
    assert_eq!(sample.carried.packets, arrived, "{sample:?}");
    assert_eq!(sample.carried.bytes, arrived * 1000);
    assert_eq!(sample.arrived_packets, 1000, "{sample:?}");
    assert!((60..140).contains(&sample.random_lost_packets), "{sample:?}");
    assert!(sample.tail_dropped_packets > 100 && arrived >= 40, "{sample:?}");
}

fn a_buffer_of_all_of_them_takes_the_time_that_the_rate_gives() {
    let (sample, arrived, took) =
        burst(&NetemConfig { queue: QueueLimit::Packets(1000), ..config() });
    assert_eq!((sample.carried.packets, arrived), (1000, 1000), "{sample:?}");
    // 160 ms without the Ethernet headers, which would take 2.2 more, and 10 ms of delay.
    let least = Duration::from_millis(170);
    assert!((least..least + Duration::from_millis(2)).contains(&took), "{took:?}");
}

/// From Linux 6.6 on.
fn a_seed_repeats_its_losses() {
    let loss = Probability::new(0.3).expect("a probability");
    let lost = |seed| burst(&NetemConfig { loss, seed, ..config() }).0.random_lost_packets;
    assert_eq!(lost(7), lost(7));
}

/// The parts that do not need netem: the devices, TCP between them, and a qdisc that every kernel
/// has.
fn devices_carry_tcp_and_a_qdisc_counts_it() {
    let pair = Pair::start().expect("two namespaces");
    pair.add_queue().expect("a qdisc");
    let again = pair.add_queue().expect_err("one is there");
    assert_eq!(again.kind(), ErrorKind::AlreadyExists);
    let listener = pair.client.enter(|| TcpListener::bind((CLIENT, 7)).expect("a listener"));
    let stream = pair.server.enter(|| TcpStream::connect((CLIENT, 7)).expect("a connection"));
    let mut stream = stream.expect("inside");
    let (mut other, _) = listener.expect("inside").accept().expect("it is there");
    stream.write_all(&[7; 100_000]).expect("it is sent");
    other.read_exact(&mut [0; 100_000]).expect("it arrives");
    let queue = pair.queue().expect("counters");
    // 1448 bytes of it in a full packet of 1500.
    assert!((70..90).contains(&queue.packets), "{queue:?}");
    let most = 100_000 + 60 * queue.packets;
    assert!((103_640..=most).contains(&queue.bytes), "{queue:?}");
    assert_eq!((queue.waiting, queue.dropped), (0, 0));
    let gone = pair.bottleneck().expect_err("there is none");
    assert_eq!(gone.kind(), ErrorKind::NotFound);
}

fullpipe_testkit::tests! {
    long [Root] devices_carry_tcp_and_a_qdisc_counts_it;
    long timed [Root] tcp_crosses_at_the_rate_and_after_the_delay,
        what_does_not_fit_and_what_chance_takes_are_told_apart,
        a_buffer_of_all_of_them_takes_the_time_that_the_rate_gives, a_seed_repeats_its_losses;
}
