//! Tests that need access to the link's internals.

use std::net::UdpSocket;
use std::thread;
use std::time::Duration;

use fullpipe_cc::Rate;
use fullpipe_path::Count;

use super::*;

fn socket() -> UdpSocket {
    let socket = UdpSocket::bind("127.0.0.1:0").expect("a free port");
    socket.set_read_timeout(Some(Duration::from_secs(10))).expect("a timeout");
    socket
}

/// A link and a client that the server knows as `peer`.
fn connected(
    config: EmulatorConfig,
    server: &UdpSocket,
) -> (Emulator, UdpSocket, std::net::SocketAddr) {
    let target = server.local_addr().expect("it is bound");
    let link = Emulator::start(EmulatorConfig { target, ..config }).expect("a link");
    let client = socket();
    client.send_to(b"hello", link.addr()).expect("loopback");
    let (_, peer) = server.recv_from(&mut [0; 16]).expect("the link carries it");
    (link, client, peer)
}

fn quiet() -> EmulatorConfig {
    EmulatorConfig::new(([127, 0, 0, 1], 9).into())
}

#[test]
fn a_report_says_why_it_is_not_to_be_trusted() {
    let server = socket();
    let (link, _client, _) = connected(quiet(), &server);
    let good = LinkReport {
        lateness: report::Nanos::new().into_inner(),
        ..link.finish().expect("it ran")
    };
    let judged = |change: &dyn Fn(&mut LinkReport)| {
        let mut report = good.clone();
        change(&mut report);
        let report = report.judge();
        assert_eq!(report.trusted, report.warning.is_none());
        report.warning.unwrap_or_default()
    };
    assert_eq!(judged(&|_| ()), "");
    let late = |nanos: u64, n: u64| {
        move |r: &mut LinkReport| {
            r.lateness.record_n(10_000, 1000 - n).expect("in range");
            r.lateness.record_n(nanos, n).expect("in range");
        }
    };
    assert_eq!(judged(&late(4_000_000, 10)), "", "1 % late is the bound");
    assert!(judged(&late(4_000_000, 11)).starts_with("packets left 4"));
    assert_eq!(judged(&late(900_000, 1000)), "");
    assert_eq!(judged(&late(20_000_000, 1)), "", "0.1 % is the bound");
    assert!(judged(&late(20_000_000, 2)).contains("stood still"));
    assert!(judged(&|r| r.kernel_drops = 3).contains("the kernel dropped 3 datagrams"));
    assert!(judged(&|r| r.endpoint_drops = 4).contains("dropped 4 datagrams"));
    let one = Count { packets: 1, bytes: 1 };
    assert!(judged(&|r| r.uplink.send_failures = one).contains("refused to send 1 packets"));
    assert!(judged(&|r| r.refused = one).contains("1 packets found no room"));
    assert_eq!(judged(&|r| r.unreachable = 1), "");
}

#[cfg(target_os = "linux")]
fn wait_until(happened: impl Fn() -> bool) {
    let begun = std::time::Instant::now();
    while !happened() {
        assert!(begun.elapsed() < Duration::from_secs(10), "it does not happen");
        thread::sleep(Duration::from_millis(5));
    }
}

/// Holds the model, and with it the link's thread at its next step, while `act` runs.
#[cfg(target_os = "linux")]
fn while_stalled(link: &Emulator, act: impl FnOnce()) {
    let model = link.hold_model();
    act();
    drop(model);
}

#[cfg(target_os = "linux")]
#[test]
fn a_stalled_thread_changes_no_arrival_and_no_departure_of_the_model() {
    let server = socket();
    let downlink = Link {
        rate: Some(Rate::from_bytes_per_sec(1_000_000)),
        delay: fullpipe_cc::Duration::from_millis(5),
        ..Link::default()
    }
    .into();
    let config = EmulatorConfig { downlink, record_arrivals: 10_000, ..quiet() };
    let (link, first, peer) = connected(config, &server);
    // A second flow: what both send is in order only by its time.
    let second = socket();
    second.send_to(b"hello", link.addr()).expect("loopback");
    let (_, other) = server.recv_from(&mut [0; 16]).expect("the link carries it");
    let mut sent = Vec::new();
    while_stalled(&link, || {
        for peer in [peer, other, peer, other, peer] {
            let before = link.now();
            server.send_to(&[0; 972], peer).expect("loopback");
            sent.push((before, link.now()));
            thread::sleep(Duration::from_millis(20));
        }
    });
    for client in [&first, &first, &first, &second, &second] {
        client.recv(&mut [0; 2048]).expect("it comes, late");
    }
    let report = link.finish().expect("it ran");
    assert_eq!(report.host.arrival_time, ArrivalTime::Kernel);
    assert_eq!(report.downlink.arrivals.len(), 5);
    for ((before, after), arrival) in sent.iter().zip(&report.downlink.arrivals) {
        // For the wall clock, which is placed on ours with an error; the stall was 100 ms.
        let slack = fullpipe_cc::Duration::from_millis(1);
        assert!(arrival.at + slack > *before && *after + slack > arrival.at, "{arrival:?}");
        assert_eq!(arrival.header.wire_bytes, 1000);
    }
    // Each had left the wire, after 1 ms, long before the next came: nothing waited in the model.
    assert_eq!(report.downlink.queue_delay.max(), 0);
    // But all of them left late, and the report says so.
    assert!(report.lateness_at(1.0) > fullpipe_cc::Duration::from_millis(80));
    assert!(!report.trusted, "five of seven packets were late");
}

#[cfg(target_os = "linux")]
#[test]
fn a_packet_that_the_kernel_dropped_is_not_hidden() {
    // The kernel tells with the next packet that it takes, or at the end when there is none.
    for another in [false, true] {
        let server = socket();
        let (link, client, peer) = connected(quiet(), &server);
        let mut sent = 0_u64;
        while_stalled(&link, || {
            // More than its receive buffer holds, whether root gave 16 MB or the system its default.
            for _ in 0..600 {
                server.send_to(&[0; 60_000], peer).expect("loopback");
                sent += 1;
            }
        });
        let read = |link: &Emulator| link.sample().downlink.stats.arrived.packets;
        wait_until(|| {
            let before = read(&link);
            thread::sleep(Duration::from_millis(100));
            before > 0 && read(&link) == before
        });
        let before = read(&link);
        if another {
            server.send_to(b"one more", peer).expect("loopback");
            sent += 1;
            wait_until(|| read(&link) > before);
            assert_eq!(read(&link) + link.sample().kernel_drops, sent, "seen while it runs");
        }
        drop(client);
        let report = link.finish().expect("it ran");
        assert!(report.kernel_drops > 0);
        let arrived = report.downlink.stats.arrived.packets;
        assert_eq!(arrived + report.kernel_drops, sent, "every packet is accounted for");
        assert!(report.warning.expect("a warning").contains("the kernel dropped"));
    }
}

#[cfg(target_os = "linux")]
#[test]
fn every_packet_of_a_burst_is_sent_although_nobody_listens() {
    let server = socket();
    let (link, client, _) = connected(quiet(), &server);
    drop(server);
    while_stalled(&link, || {
        for _ in 0..10 {
            client.send_to(b"anyone?", link.addr()).expect("loopback");
        }
    });
    wait_until(|| link.sample().uplink.stats.delivered.packets == 11);
    thread::sleep(Duration::from_millis(50));
    // Each was answered, although the answer to one comes out of the call that sends the next.
    assert_eq!(link.finish().expect("it ran").unreachable, 10);
}

#[cfg(target_os = "linux")]
#[test]
fn a_client_too_many_is_refused_and_reported() {
    let server = socket();
    let (link, _client, _) = connected(quiet(), &server);
    // Some of the closed ones give their port to a later one.
    for _ in 0..MAX_FLOWS + 60 {
        socket().send_to(b"hello", link.addr()).expect("loopback");
    }
    wait_until(|| link.sample().uplink.stats.arrived.packets >= MAX_FLOWS as u64);
    thread::sleep(Duration::from_millis(100));
    let report = link.finish().expect("it ran");
    assert_eq!(report.flows, MAX_FLOWS);
    assert!(report.refused.packets > 0 && !report.trusted);
    assert_eq!(
        report.refused.packets + report.uplink.stats.arrived.packets + report.kernel_drops,
        MAX_FLOWS as u64 + 61
    );
}

#[cfg(target_os = "linux")]
#[test]
fn a_packet_that_the_clients_full_socket_dropped_is_not_hidden() {
    let server = socket();
    let (link, client, peer) = connected(quiet(), &server);
    nix::sys::socket::setsockopt(&client, nix::sys::socket::sockopt::RcvBuf, &65_536)
        .expect("a small buffer");
    let sent = 1000;
    for _ in 0..sent {
        server.send_to(&[0; 1400], peer).expect("loopback");
    }
    thread::sleep(Duration::from_millis(300));
    assert!(link.sample().endpoint_drops > 0, "a live look sees it");
    client.set_nonblocking(true).expect("a socket option");
    let read = std::iter::from_fn(|| client.recv(&mut [0; 2048]).ok()).count() as u64;
    // The counter goes with the socket, what was seen of it stays.
    drop(client);
    let report = link.finish().expect("it ran");
    assert_eq!(read + report.endpoint_drops + report.kernel_drops, sent);
    assert!(report.warning.expect("a warning").contains("endpoints' own sockets"));
}

#[cfg(target_os = "linux")]
#[test]
fn a_burst_of_one_gso_send_is_many_packets() {
    use std::io::IoSlice;
    use std::os::fd::AsRawFd;

    use nix::sys::socket::{ControlMessage, MsgFlags, SockaddrStorage, sendmsg};

    let server = socket();
    let config = EmulatorConfig { record_arrivals: 10_000, ..quiet() };
    let (link, client, peer) = connected(config, &server);
    let payload: Vec<u8> = (0..10 * 1200 + 700).map(|i| (i / 1200) as u8).collect();
    let segment = [ControlMessage::UdpGsoSegments(&1200)];
    let to = SockaddrStorage::from(peer);
    sendmsg(server.as_raw_fd(), &[IoSlice::new(&payload)], &segment, MsgFlags::empty(), Some(&to))
        .expect("one call");
    let mut buffer = [0; 2048];
    for i in 0..11 {
        let n = client.recv(&mut buffer).expect("a packet");
        assert_eq!(n, if i < 10 { 1200 } else { 700 });
        assert!(buffer[..n].iter().all(|b| *b == i), "packet {i}");
    }
    let report = link.finish().expect("it ran");
    let sizes: Vec<_> = report.downlink.arrivals.iter().map(|a| a.header.wire_bytes).collect();
    assert_eq!(sizes, [vec![1228; 10], vec![728]].concat());
    assert!(
        report.downlink.arrivals.iter().all(|a| a.at == report.downlink.arrivals[0].at),
        "at one moment"
    );
}
