//! The link between real sockets.

use std::collections::HashSet;
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::AsRawFd;
use std::thread;
use std::time::{Duration, Instant};

use fullpipe_cc::Rate;
use fullpipe_emu::{
    Emulator, EmulatorConfig, Link, LinkReport, PathConfig, QueueLimit, Rebinding, Rebound,
};
use fullpipe_path::{ElementConfig, Event, Path, Probability};
use fullpipe_testkit::{PATIENCE, until};

pub(crate) fn socket(ip: &str) -> UdpSocket {
    let socket = UdpSocket::bind((ip, 0)).expect("a free port");
    socket.set_read_timeout(Some(PATIENCE)).expect("a timeout");
    socket
}

pub(crate) fn local(socket: &UdpSocket) -> SocketAddr {
    socket.local_addr().expect("it is bound")
}

fn millis(n: u64) -> fullpipe_cc::Duration {
    fullpipe_cc::Duration::from_millis(n)
}

fn wire(mbit: u64) -> Link {
    Link {
        rate: Some(Rate::from_bits_per_sec(mbit * 1_000_000)),
        queue: QueueLimit::Bytes(100_000),
        ..Link::default()
    }
}

pub(crate) fn start(config: EmulatorConfig) -> Emulator {
    Emulator::start(config).expect("a link that makes sense")
}

/// A client that the server knows: its first packet makes the flow.
pub(crate) fn introduce(link: &Emulator, server: &UdpSocket) -> (UdpSocket, SocketAddr) {
    let client = socket(if link.addr().is_ipv4() { "127.0.0.1" } else { "::1" });
    client.send_to(b"hello", link.addr()).expect("loopback");
    let (n, peer) = server.recv_from(&mut [0; 16]).expect("the link carries it");
    assert_eq!(n, 5);
    (client, peer)
}

fn assert_conserved(report: &LinkReport) {
    for direction in [&report.downlink, &report.uplink] {
        let s = &direction.stats;
        let known = s.delivered.bytes + s.dropped().bytes + s.inside.bytes;
        assert_eq!(s.arrived.bytes, known, "{s:?}");
        assert_eq!(direction.queue_delay.len(), s.delivered.packets);
    }
    let left = report.downlink.stats.delivered.packets + report.uplink.stats.delivered.packets;
    assert_eq!(report.lateness.len(), left, "the lateness of every packet is measured");
}

fn datagrams_of_any_size_cross_unchanged_and_take_the_delay() {
    datagrams_cross("127.0.0.1", 28);
}

fn datagrams_of_any_size_cross_over_ipv6() {
    datagrams_cross("::1", 48);
}

fn datagrams_cross(ip: &str, headers: u64) {
    let server = socket(ip);
    let half = Link { delay: millis(15), ..Link::default() };
    let link = start(EmulatorConfig {
        uplink: half.into(),
        downlink: half.into(),
        ..EmulatorConfig::new(local(&server))
    });
    let (client, _) = introduce(&link, &server);
    let mut buffer = vec![0; 65_536];
    for size in [0, 1, 1452, 9000, 65_507] {
        let sent: Vec<u8> = (0..size).map(|i| (i * 31 + size) as u8).collect();
        let before = Instant::now();
        client.send_to(&sent, link.addr()).expect("loopback");
        let (n, peer) = server.recv_from(&mut buffer).expect("the link carries it");
        server.send_to(&buffer[..n], peer).expect("loopback");
        let (n, from) = client.recv_from(&mut buffer).expect("and its answer");
        let rtt = before.elapsed();
        assert_eq!(buffer[..n], sent);
        assert_eq!(from, link.addr(), "the answer comes from where the client sent to");
        assert!(rtt >= Duration::from_millis(30), "{size} bytes took only {rtt:?}");
    }
    let report = link.finish().expect("it ran");
    assert_conserved(&report);
    assert_eq!(report.downlink.stats.arrived.bytes, 1 + 1452 + 9000 + 65_507 + 5 * headers);
}

fn the_server_sees_each_client_as_its_own_peer() {
    let server = socket("127.0.0.1");
    let link = start(EmulatorConfig::new(local(&server)));
    let clients: Vec<_> = (0..8).map(|_| introduce(&link, &server)).collect();
    let peers: HashSet<_> = clients.iter().map(|(_, peer)| *peer).collect();
    assert_eq!(peers.len(), 8);
    let known = link.clients();
    for (client, peer) in &clients {
        assert_eq!(known.behind(*peer), Some(local(client)));
        assert_eq!(known.behind(local(client)), None, "an address that the server does not see");
    }
    for (i, (_, peer)) in clients.iter().enumerate() {
        server.send_to(&[i as u8], peer).expect("loopback");
    }
    for (i, (client, _)) in clients.iter().enumerate() {
        let mut byte = [0];
        client.recv(&mut byte).expect("its answer");
        assert_eq!(usize::from(byte[0]), i, "each gets its own");
    }
    let report = link.finish().expect("it ran");
    assert_eq!((report.flows, report.refused.packets), (8, 0));
    assert_conserved(&report);
}

fn the_flows_share_one_bottleneck_that_keeps_its_rate_and_its_limit() {
    let server = socket("127.0.0.1");
    let downlink = PathConfig::from(wire(20));
    let link = start(EmulatorConfig {
        downlink: downlink.clone(),
        record_arrivals: 10_000,
        ..EmulatorConfig::new(local(&server))
    });
    let clients = [introduce(&link, &server), introduce(&link, &server)];
    let begun = Instant::now();
    let mut fullest = link.sample().downlink;
    // Twice the rate, in steps of a millisecond.
    for step in 1..=500 {
        for (_, peer) in clients.iter().cycle().take(4) {
            server.send_to(&[7; 1222], peer).expect("loopback");
        }
        // Sleeps: until the next step of the load.
        thread::sleep(Duration::from_millis(step).saturating_sub(begun.elapsed()));
        let now = link.sample().downlink;
        assert!(now.queue.bytes <= 100_000, "over the limit: {now:?}");
        if now.queue.bytes > fullest.queue.bytes {
            fullest = now;
        }
    }
    assert!(fullest.queue.bytes > 90_000, "the queue stands full: {fullest:?}");
    let time = Rate::from_bits_per_sec(20_000_000).time_for(fullest.queue.bytes);
    assert!(fullest.queue.delay <= time && fullest.queue.delay + millis(1) > time, "{fullest:?}");
    until("the queue drains", || link.sample().downlink.queue.bytes == 0);
    let so_far = link.queue_delay_ns();
    let report = link.finish().expect("it ran");
    assert_conserved(&report);
    let stats = &report.downlink.stats;
    assert!(stats.tail_dropped.packets > 500, "half of 2000 had no room: {stats:?}");
    assert!(so_far.len() > 500, "{} packets left while it ran", so_far.len());
    let mut rest = report.downlink.queue_delay.clone();
    rest.subtract(&so_far).expect("what was told while it ran is part of the whole");

    // What happened is what the path does with what arrived.
    let mut path = Path::new(&downlink).expect("a path");
    let mut waits = Vec::new();
    for arrival in &report.downlink.arrivals {
        let _ = path.send(arrival.at, arrival.header, ());
    }
    while let Some(Event::Delivered(d)) = path.poll(fullpipe_cc::Instant::from_nanos(u64::MAX)) {
        waits.push(d.queued.as_nanos());
    }
    assert_eq!(path.stats(), *stats);
    let longest = *waits.iter().max().expect("packets");
    assert!(
        (39_000_000..=39_500_000).contains(&longest),
        "79 packets of 500 us, less what is gone"
    );
    let reported = report.downlink.queue_delay.max();
    assert!(reported.abs_diff(longest) <= longest / 1000, "{reported} {longest}");
}

fn the_link_does_what_its_path_does() {
    let server = socket("127.0.0.1");
    let loss = Probability::new(0.3).expect("a probability");
    let config = PathConfig::from(Link { loss, seed: 99, ..Link::default() });
    let link =
        start(EmulatorConfig { downlink: config.clone(), ..EmulatorConfig::new(local(&server)) });
    let (client, peer) = introduce(&link, &server);
    let mut path = Path::new(&config).expect("a path");
    let mut expected = Vec::new();
    for i in 0..50_u8 {
        server.send_to(&[i], peer).expect("loopback");
        if path.send(fullpipe_cc::Instant::default(), 29, ()).is_ok() {
            expected.push(i);
        }
    }
    let mut got = Vec::new();
    let mut byte = [0];
    while got.len() < expected.len() && client.recv(&mut byte).is_ok() {
        got.push(byte[0]);
    }
    assert_eq!(got, expected, "the same seed loses the same packets");
    // The last one may be lost, and not read yet.
    until("the link has read them", || link.sample().downlink.stats.arrived.packets == 50);
    let report = link.finish().expect("it ran");
    assert_eq!(report.downlink.stats.random_lost.packets, 50 - expected.len() as u64);
}

/// A socket that shares its port with others that agree to it.
fn shared(address: SocketAddr) -> UdpSocket {
    use nix::sys::socket::{
        AddressFamily, SockFlag, SockType, SockaddrStorage, bind, setsockopt, socket, sockopt,
    };
    let (family, kind) = (AddressFamily::Inet, SockType::Datagram);
    let socket = socket(family, kind, SockFlag::empty(), None).expect("a socket");
    setsockopt(&socket, sockopt::ReusePort, &true).expect("a socket option");
    bind(socket.as_raw_fd(), &SockaddrStorage::from(address)).expect("the port is ours");
    UdpSocket::from(socket)
}

fn a_target_that_is_not_there_yet_ends_nothing() {
    // It keeps the port from others, and gets nothing: it has another peer.
    let placeholder = shared("127.0.0.1:0".parse().expect("an address"));
    placeholder.connect("127.0.0.1:9").expect("no packet is sent");
    let target = local(&placeholder);
    let link = start(EmulatorConfig::new(target));
    let client = socket("127.0.0.1");
    for sent in 1..=20 {
        client.send_to(b"anyone?", link.addr()).expect("loopback");
        until("it has left", || link.sample().uplink.stats.delivered.packets == sent);
    }
    let server = shared(target);
    drop(placeholder);
    server.set_read_timeout(Some(PATIENCE)).expect("a timeout");
    client.send_to(b"now", link.addr()).expect("loopback");
    let mut buffer = [0; 16];
    let (n, peer) = server.recv_from(&mut buffer).expect("the link lives");
    assert_eq!(&buffer[..n], b"now");
    // The other way round: a client that went away.
    drop(client);
    for sent in 1..=20 {
        server.send_to(b"anyone?", peer).expect("loopback");
        until("it has left", || link.sample().downlink.stats.delivered.packets == sent);
    }
    let report = link.finish().expect("it ran to its end");
    assert!(report.unreachable > 0);
    assert_eq!(report.uplink.send_failures.packets + report.downlink.send_failures.packets, 0);
    assert_conserved(&report);
}

fn a_dropped_link_is_gone() {
    let server = socket("127.0.0.1");
    let link = start(EmulatorConfig {
        downlink: Link { delay: millis(600_000), ..Link::default() }.into(),
        ..EmulatorConfig::new(local(&server))
    });
    let (_client, peer) = introduce(&link, &server);
    server.send_to(b"ten minutes on its way", peer).expect("loopback");
    let addr = link.addr();
    let before = Instant::now();
    drop(link);
    assert!(before.elapsed() < PATIENCE, "it does not wait for what is inside");
    for port in [addr, peer] {
        // Another program may have got the port for a while.
        until(&format!("{port} is free"), || UdpSocket::bind(port).is_ok());
    }
}

fn an_idle_link_reports_nothing_and_is_trusted() {
    let server = socket("127.0.0.1");
    let epoch = Instant::now();
    let link = start(EmulatorConfig { epoch: Some(epoch), ..EmulatorConfig::new(local(&server)) });
    // Sleeps: the time in which nothing is to happen.
    thread::sleep(Duration::from_millis(100));
    let (sample, by_hand) = (link.sample(), fullpipe_cc::Duration::from(epoch.elapsed()));
    assert!(sample.at.as_nanos() >= 100_000_000 && sample.at.as_nanos() <= by_hand.as_nanos());
    let report = link.finish().expect("it ran");
    assert!(report.trusted && report.warning.is_none());
    assert!(report.ran >= millis(100));
    assert!(report.cpu < millis(50), "an idle link sleeps: {}", report.cpu);
}

/// 95 Mbit/s of full packets through 100 Mbit/s for two seconds. On a quiet machine p99 is below
/// 0.2 ms (see the example `lateness`); the bound here is that of a busy one.
fn packets_leave_on_time() {
    let server = socket("127.0.0.1");
    let half = Link { delay: millis(20), ..Link::default() };
    let link = start(EmulatorConfig {
        uplink: half.into(),
        downlink: Link { delay: millis(20), queue: QueueLimit::Bytes(3_000_000), ..wire(100) }
            .into(),
        ..EmulatorConfig::new(local(&server))
    });
    let (client, peer) = introduce(&link, &server);
    let reader = thread::spawn(move || {
        let _ = client.set_read_timeout(Some(Duration::from_millis(500)));
        while client.recv(&mut [0; 2048]).is_ok() {}
    });
    let interval = Duration::from_nanos(1452 * 8 * 1000 / 95);
    let begun = Instant::now();
    let mut next = begun;
    while begun.elapsed() < Duration::from_secs(2) {
        while next <= Instant::now() {
            server.send_to(&[0; 1452], peer).expect("loopback");
            next += interval;
        }
        // Sleeps: until the next packet of the load.
        thread::sleep(next.saturating_duration_since(Instant::now()));
    }
    reader.join().expect("the reader ends");
    let report = link.finish().expect("it ran");
    assert_conserved(&report);
    let (p50, p99) = (report.lateness_at(0.5), report.lateness_at(0.99));
    println!("late by {p50} at p50, {p99} at p99; {:?}; {:?}", report.host, report.warning);
    assert!(report.downlink.stats.delivered.packets > 15_000);
    assert_eq!(report.trusted, report.warning.is_none());
    assert!(p50 < millis(2), "p50 {p50}");
    assert!(p99 < millis(50), "p99 {p99}");
}

fn at_its_times_every_client_gets_another_port_and_keeps_its_own() {
    let server = socket("127.0.0.1");
    let link = start(EmulatorConfig {
        rebind: [900, 400].map(|at| Rebinding { at: millis(at), what: Rebound::Port }).into(),
        ..EmulatorConfig::new(local(&server))
    });
    let clients = [introduce(&link, &server), introduce(&link, &server)];
    let mut seen: HashSet<SocketAddr> = clients.iter().map(|(_, peer)| *peer).collect();
    for (after, ports) in [(500, 4), (1000, 6)] {
        let now = Duration::from(link.now().since(fullpipe_cc::Instant::default()));
        // Sleeps: past the time of the change.
        thread::sleep(Duration::from(millis(after)).saturating_sub(now));
        for (client, _) in &clients {
            client.send_to(b"again", link.addr()).expect("loopback");
            let (_, peer) = server.recv_from(&mut [0; 16]).expect("the link carries it");
            seen.insert(peer);
            assert_eq!(link.clients().behind(peer), Some(local(client)));
            server.send_to(b"back", peer).expect("loopback");
            let (_, from) = client.recv_from(&mut [0; 16]).expect("the link carries it");
            assert_eq!(from, link.addr());
        }
        assert_eq!(seen.len(), ports, "{after} ms: {seen:?}");
    }
    assert_eq!(link.finish().expect("it ran").flows, 2);
}

fn corruption_changes_one_byte_at_the_beginning_and_delivers() {
    let server = socket("127.0.0.1");
    let all = Probability::new(1.0).expect("a probability");
    let downlink = PathConfig { row: vec![ElementConfig::Corruption(all)], seed: 1 };
    let link = start(EmulatorConfig { downlink, ..EmulatorConfig::new(local(&server)) });
    let (client, peer) = introduce(&link, &server);
    let mut positions = HashSet::new();
    for _ in 0..60 {
        server.send_to(&[7; 1200], peer).expect("loopback");
        let mut data = [0; 1500];
        let (bytes, _) = client.recv_from(&mut data).expect("the link carries it");
        let changed: Vec<usize> = (0..bytes).filter(|i| data[*i] != 7).collect();
        assert_eq!((bytes, changed.len()), (1200, 1));
        positions.extend(changed);
    }
    assert!(positions.len() == 50 && positions.iter().all(|i| *i < 50), "{positions:?}");
    assert_eq!(link.finish().expect("it ran").downlink.corrupted_packets, 60);
}

fn at_its_times_every_client_gets_another_address() {
    let server = socket("127.0.0.1");
    let rebinding = |at| Rebinding { at: millis(at), what: Rebound::Address };
    let rebind = [1, 2].map(rebinding).into();
    let config = EmulatorConfig { rebind, ..EmulatorConfig::new(local(&server)) };
    let link = start(config);
    until("both times are over", || link.now() > fullpipe_cc::Instant::default() + millis(10));
    // Both times may have come before the first packet or between two: each client is somewhere all
    // the same.
    let (client, peer) = introduce(&link, &server);
    assert!(peer.ip().is_loopback());
    for _ in 0..2 {
        client.send_to(b"again", link.addr()).expect("loopback");
        let (_, peer) = server.recv_from(&mut [0; 16]).expect("the link carries it");
        server.send_to(b"back", peer).expect("loopback");
        let (_, from) = client.recv_from(&mut [0; 16]).expect("the link carries it");
        assert_eq!((from, peer.ip().to_string().as_str()), (link.addr(), "127.0.0.3"));
    }
}

fullpipe_testkit::tests! {
    [] datagrams_of_any_size_cross_unchanged_and_take_the_delay,
        the_server_sees_each_client_as_its_own_peer;
    [Ipv6] datagrams_of_any_size_cross_over_ipv6;
    long [] the_link_does_what_its_path_does, a_target_that_is_not_there_yet_ends_nothing,
        a_dropped_link_is_gone, corruption_changes_one_byte_at_the_beginning_and_delivers;
    long [SecondLoopback] at_its_times_every_client_gets_another_address;
    long timed [] the_flows_share_one_bottleneck_that_keeps_its_rate_and_its_limit,
        an_idle_link_reports_nothing_and_is_trusted, packets_leave_on_time,
        at_its_times_every_client_gets_another_port_and_keeps_its_own;
}
