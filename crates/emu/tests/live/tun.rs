//! A link between two namespaces.

use std::io::{IoSlice, Read, Write};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::os::fd::AsRawFd;
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

use fullpipe_cc::Rate;
use fullpipe_emu::namespace::{CLIENT, DIRECTORY, Namespace, SERVER};
use fullpipe_emu::tun::{TunConfig, TunLink};
use fullpipe_emu::{Link, QueueLimit};
use fullpipe_path::{ElementConfig, PathConfig, QueueConfig, RateConfig, StepConfig};
use fullpipe_testkit::{PATIENCE, in_namespace, until};
use nix::sys::socket::{ControlMessage, MsgFlags, SockaddrStorage, sendmsg, setsockopt, sockopt};

fn half() -> Link {
    Link { delay: fullpipe_cc::Duration::from_millis(10), ..Link::default() }
}

fn start(downlink: PathConfig) -> TunLink {
    let config = TunConfig::new(half().into(), downlink);
    TunLink::start(&config).expect("a link")
}

/// The server's namespace of a link that has one.
fn server(link: &TunLink) -> &Namespace {
    link.server().expect("a namespace")
}

fn names() -> Vec<PathBuf> {
    let Ok(entries) = std::fs::read_dir(DIRECTORY) else { return Vec::new() };
    entries.filter_map(|e| Some(e.ok()?.path())).collect()
}

/// The devices of this thread's namespace.
fn interfaces() -> String {
    std::fs::read_to_string("/proc/thread-self/net/dev")
        .expect("a table")
        .lines()
        .filter_map(|line| Some(line.split_once(':')?.0.to_owned()))
        .collect()
}

fn tcp_crosses_the_link_and_nothing_stays_behind() {
    // In a namespace of its own, where nobody else has devices.
    in_namespace(tcp_crosses);
}

fn tcp_crosses() {
    let own_namespace = || std::fs::read_link("/proc/thread-self/ns/net").expect("a link");
    let (before, own) = (interfaces(), own_namespace());
    let rate = Some(Rate::from_bits_per_sec(50_000_000));
    let link = start(Link { rate, queue: QueueLimit::Bytes(250_000), ..half() }.into());
    let name = |of: &Namespace| of.path().expect("root gives names").to_owned();
    let paths = [name(server(&link)), name(link.client())];
    assert!(paths.iter().all(|path| names().contains(path)), "{:?}", names());
    let listener = link.client().enter(|| TcpListener::bind((CLIENT, 7))).expect("inside");
    let listener = listener.expect("a listener");
    let begun = Instant::now();
    let stream = server(&link).enter(|| TcpStream::connect((CLIENT, 7))).expect("inside");
    let mut stream = stream.expect("a connection");
    assert!(begun.elapsed() >= Duration::from_millis(20), "a round trip");
    assert_eq!(stream.local_addr().expect("an address").ip(), SERVER);
    let (mut other, _) = listener.accept().expect("a connection");
    let sender = std::thread::spawn(move || stream.write_all(&[7; 2_000_000]));
    let mut got = Vec::new();
    other.read_to_end(&mut got).expect("all of it");
    sender.join().expect("no panic").expect("all of it");
    assert!(got.len() == 2_000_000 && got.iter().all(|&b| b == 7));
    assert!(begun.elapsed() >= Duration::from_millis(320), "2 MB at 50 Mbit/s");
    let sample = link.sample();
    assert!(sample.downlink.stats.carried.bytes > 2_000_000);
    assert_eq!((sample.kernel_drops, sample.endpoint_drops), (0, 0));
    let report = link.finish().expect("it ran");
    assert_eq!(report.downlink.send_failures.packets, 0);
    assert!(!names().iter().any(|name| paths.contains(name)), "{:?}", names());
    assert_eq!(interfaces(), before);
    assert_eq!(own_namespace(), own);
}

fn an_idle_link_carries_nothing() {
    let link = start(half().into());
    // Sleeps: what the kernel would ask of a new network it asks within this time.
    std::thread::sleep(Duration::from_millis(1500));
    let sample = link.sample();
    assert_eq!(sample.downlink.stats.arrived.packets, 0);
    assert_eq!(sample.uplink.stats.arrived.packets, 0);
}

fn a_mark_of_the_path_arrives_with_a_right_checksum() {
    let marking = QueueConfig::Step(StepConfig {
        limit: QueueLimit::Bytes(1_000_000),
        mark_above: QueueLimit::Bytes(1_500),
    });
    let rate = RateConfig::Constant(Rate::from_bits_per_sec(1_000_000));
    let link = start(PathConfig {
        row: vec![ElementConfig::Bottleneck { rate, queue: marking }],
        seed: 1,
    });
    let open = |address| move || UdpSocket::bind((address, 9)).expect("a socket");
    let from = server(&link).enter(open(SERVER)).expect("inside");
    let to = link.client().enter(open(CLIENT)).expect("inside");
    to.set_read_timeout(Some(PATIENCE)).expect("a timeout");
    // ECT(0).
    setsockopt(&from, sockopt::Ipv4Tos, &2).expect("a type of service");
    for _ in 0..5 {
        from.send_to(&[0; 972], (CLIENT, 9)).expect("a packet");
    }
    for _ in 0..5 {
        // The kernel would have dropped a packet whose header does not add up.
        to.recv(&mut [0; 2048]).expect("a packet");
    }
    let report = link.finish().expect("it ran");
    assert!(report.downlink.stats.marked.packets >= 2, "{:?}", report.downlink.stats);
}

fn two_links_at_once_do_not_meet() {
    let links = [start(half().into()), start(half().into())];
    let sockets: Vec<UdpSocket> = links
        .iter()
        .map(|l| l.client().enter(|| UdpSocket::bind((CLIENT, 9))).expect("inside").expect("free"))
        .collect();
    let from = server(&links[0]).enter(|| UdpSocket::bind((SERVER, 9))).expect("inside");
    from.expect("a socket").send_to(b"one", (CLIENT, 9)).expect("a packet");
    for (socket, waits, arrives) in
        [(&sockets[0], PATIENCE, true), (&sockets[1], Duration::from_millis(500), false)]
    {
        socket.set_read_timeout(Some(waits)).expect("a timeout");
        assert_eq!(socket.recv(&mut [0; 16]).is_ok(), arrives);
    }
}

fn a_corrupted_datagram_arrives_with_a_right_checksum() {
    let all = fullpipe_path::Probability::new(1.0).expect("a probability");
    let link = start(PathConfig { row: vec![ElementConfig::Corruption(all)], seed: 1 });
    let open = |address| move || UdpSocket::bind((address, 9)).expect("a socket");
    let from = server(&link).enter(open(SERVER)).expect("inside");
    let to = link.client().enter(open(CLIENT)).expect("inside");
    to.set_read_timeout(Some(PATIENCE)).expect("a timeout");
    for _ in 0..60 {
        from.send_to(&[7; 999], (CLIENT, 9)).expect("a packet");
        let mut data = [0; 2048];
        // The kernel would have dropped a packet whose checksum is wrong.
        let bytes = to.recv(&mut data).expect("a packet");
        let changed = data[..bytes].iter().filter(|byte| **byte != 7).count();
        assert_eq!((bytes, changed), (999, 1));
    }
    let report = link.finish().expect("it ran");
    assert_eq!(report.downlink.corrupted_packets, 60);
}

fn a_burst_of_one_gso_send_is_many_packets() {
    let config = TunConfig { record_arrivals: 100, ..TunConfig::new(half().into(), half().into()) };
    let link = TunLink::start(&config).expect("a link");
    let open = |address| move || UdpSocket::bind((address, 9)).expect("a socket");
    let from = server(&link).enter(open(SERVER)).expect("inside");
    let to = link.client().enter(open(CLIENT)).expect("inside");
    to.set_read_timeout(Some(PATIENCE)).expect("a timeout");
    let payload: Vec<u8> = (0..10 * 1200 + 700).map(|i| (i / 1200) as u8).collect();
    let (segment, data) = ([ControlMessage::UdpGsoSegments(&1200)], [IoSlice::new(&payload)]);
    let peer = SockaddrStorage::from(std::net::SocketAddr::from((CLIENT, 9)));
    sendmsg(from.as_raw_fd(), &data, &segment, MsgFlags::empty(), Some(&peer)).expect("one call");
    let mut buffer = [0; 2048];
    for i in 0..11 {
        let n = to.recv(&mut buffer).expect("a packet");
        assert_eq!(n, if i < 10 { 1200 } else { 700 });
        assert!(buffer[..n].iter().all(|b| *b == i), "packet {i}");
    }
    let report = link.finish().expect("it ran");
    let sizes: Vec<_> = report.downlink.arrivals.iter().map(|a| a.header.wire_bytes).collect();
    assert_eq!(sizes, [vec![1228; 10], vec![728]].concat());
    assert_eq!(report.downlink.payload_bytes, payload.len() as u64);
}

fn a_device_holds_back_a_bounded_number_of_packets_and_counts_the_others() {
    let held = TunLink::hold(TunConfig::new(half().into(), half().into())).expect("a link");
    let open = || UdpSocket::bind((SERVER, 9)).expect("a socket");
    let from = held.server().enter(open).expect("inside");
    let sent = 1500;
    for _ in 0..sent {
        from.send_to(&[7; 100], (CLIENT, 9)).expect("a packet");
    }
    let link = held.start().expect("a link");
    until("the end of every packet", || {
        let sample = link.sample();
        sample.downlink.stats.delivered.packets + sample.kernel_drops == sent
    });
    let report = link.finish().expect("it ran");
    assert!(report.kernel_drops >= 500 && !report.trusted, "{}", report.kernel_drops);
    assert_eq!(report.waited, 0);
}

fn a_device_whose_mtu_was_raised_is_still_read() {
    let link = start(half().into());
    let set = |mtu: &str| {
        let ip =
            || Command::new("ip").args(["link", "set", "dev", "fullpipe", "mtu", mtu]).status();
        assert!(server(&link).enter(ip).expect("inside").expect("it runs").success());
    };
    let open = |address| move || UdpSocket::bind((address, 9)).expect("a socket");
    let from = server(&link).enter(open(SERVER)).expect("inside");
    let to = link.client().enter(open(CLIENT)).expect("inside");
    to.set_read_timeout(Some(PATIENCE)).expect("a timeout");
    let mut buffer = [0; 65_536];
    for (mtu, bytes) in [("9000", 8972), ("1500", 1472), ("65535", 65_507)] {
        set(mtu);
        from.send_to(&vec![7; bytes], (CLIENT, 9)).expect("a packet");
        assert_eq!(to.recv(&mut buffer).expect("a packet"), bytes);
    }
    let report = link.finish().expect("it ran to its end");
    assert_eq!((report.downlink.stats.delivered.packets, report.refused.packets), (3, 0));
}

fullpipe_testkit::tests! {
    [Root, Tun, Ip] tcp_crosses_the_link_and_nothing_stays_behind;
    long [Root, Tun] an_idle_link_carries_nothing, a_mark_of_the_path_arrives_with_a_right_checksum,
        two_links_at_once_do_not_meet, a_corrupted_datagram_arrives_with_a_right_checksum,
        a_burst_of_one_gso_send_is_many_packets,
        a_device_holds_back_a_bounded_number_of_packets_and_counts_the_others;
    long [Root, Tun, Ip] a_device_whose_mtu_was_raised_is_still_read;
}
