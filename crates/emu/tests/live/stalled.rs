//! The effect of a late thread of the link on packets, and the report of packets that others lost.
//! Linux tells how many.

use std::io::IoSlice;
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::AsRawFd;
use std::thread;
use std::time::Duration;

use fullpipe_cc::Rate;
use fullpipe_emu::{ArrivalTime, Emulator, EmulatorConfig, Link, MAX_FLOWS};
use fullpipe_testkit::{PATIENCE, until};
use nix::sys::socket::{ControlMessage, MsgFlags, SockaddrStorage, sendmsg, setsockopt, sockopt};

fn socket() -> UdpSocket {
    let socket = UdpSocket::bind("127.0.0.1:0").expect("a free port");
    socket.set_read_timeout(Some(PATIENCE)).expect("a timeout");
    socket
}

/// True if what came to this address of 127.0.0.1 has been read.
fn is_read(address: SocketAddr) -> bool {
    let table = std::fs::read_to_string("/proc/net/udp").expect("Linux has it");
    let local = format!("0100007F:{:04X}", address.port());
    let lines = table.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
    let mut sockets = lines.filter(|fields| fields.get(1) == Some(&local.as_str()));
    let fields = sockets.next().expect("the link has it");
    fields[4].ends_with(":00000000")
}

/// A link and a client that the server knows as `peer`.
fn connected(config: EmulatorConfig, server: &UdpSocket) -> (Emulator, UdpSocket, SocketAddr) {
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
    link.while_stalled(|| {
        for peer in [peer, other, peer, other, peer] {
            let before = link.now();
            server.send_to(&[0; 972], peer).expect("loopback");
            sent.push((before, link.now()));
            // Sleeps: each packet has left the wire long before the next comes.
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

fn a_packet_that_the_kernel_dropped_is_not_hidden() {
    // The kernel tells with the next packet that it takes, or at the end when there is none.
    for another in [false, true] {
        let server = socket();
        let (link, client, peer) = connected(quiet(), &server);
        let mut sent = 0_u64;
        link.while_stalled(|| {
            // More than its receive buffer holds, whether root gave 16 MB or the system its
            // default.
            for _ in 0..600 {
                server.send_to(&[0; 60_000], peer).expect("loopback");
                sent += 1;
            }
        });
        let read = |link: &Emulator| link.sample().downlink.stats.arrived.packets;
        until("the link has read what it got", || is_read(peer));
        if another {
            server.send_to(b"one more", peer).expect("loopback");
            sent += 1;
            let seen = || read(&link) + link.sample().kernel_drops;
            until("each packet is seen while it runs", || seen() == sent);
        }
        drop(client);
        let report = link.finish().expect("it ran");
        assert!(report.kernel_drops > 0);
        let arrived = report.downlink.stats.arrived.packets;
        assert_eq!(arrived + report.kernel_drops, sent, "every packet is accounted for");
        assert!(report.warning.expect("a warning").contains("the kernel dropped"));
    }
}

fn every_packet_of_a_burst_is_sent_although_nobody_listens() {
    let server = socket();
    let (link, client, _) = connected(quiet(), &server);
    drop(server);
    link.while_stalled(|| {
        for _ in 0..10 {
            client.send_to(b"anyone?", link.addr()).expect("loopback");
        }
    });
    until("all have left", || link.sample().uplink.stats.delivered.packets == 11);
    // Sleeps: the link reads the last answer when it gets to it, and tells nobody before its end.
    thread::sleep(Duration::from_secs(1));
    // Each was answered, although the answer to one comes out of the call that sends the next.
    assert_eq!(link.finish().expect("it ran").unreachable, 10);
}

fn a_client_too_many_is_refused_and_reported() {
    let server = socket();
    let (link, _client, _) = connected(quiet(), &server);
    // Each from an address of its own: the closed ones give their port to later ones.
    for i in 0..MAX_FLOWS + 60 {
        let client = UdpSocket::bind(SocketAddr::from(([127, 1, (i >> 8) as u8, i as u8], 0)))
            .expect("a free port");
        client.send_to(b"hello", link.addr()).expect("loopback");
    }
    until("the link has read what it got", || is_read(link.addr()));
    let report = link.finish().expect("it ran");
    assert_eq!(report.flows, MAX_FLOWS);
    assert!(report.refused.packets > 0 && !report.trusted);
    assert_eq!(
        report.refused.packets + report.uplink.stats.arrived.packets + report.kernel_drops,
        MAX_FLOWS as u64 + 61
    );
}

fn a_packet_that_the_clients_full_socket_dropped_is_not_hidden() {
    let server = socket();
    let (link, client, peer) = connected(quiet(), &server);
    setsockopt(&client, sockopt::RcvBuf, &65_536).expect("a small buffer");
    let sent = 1000;
    for n in 1..=sent {
        server.send_to(&[0; 1400], peer).expect("loopback");
        // In parts that the link's own socket has room for, however late it is.
        if n % 20 == 0 {
            until("they have left", || link.sample().downlink.stats.delivered.packets == n);
        }
    }
    // Sleeps: the link looks at other sockets each 200 ms at most.
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

fn a_burst_of_one_gso_send_is_many_packets() {
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

fullpipe_testkit::tests! {
    long [] a_packet_that_the_kernel_dropped_is_not_hidden,
        every_packet_of_a_burst_is_sent_although_nobody_listens,
        a_client_too_many_is_refused_and_reported,
        a_packet_that_the_clients_full_socket_dropped_is_not_hidden,
        a_burst_of_one_gso_send_is_many_packets;
    long timed [] a_stalled_thread_changes_no_arrival_and_no_departure_of_the_model;
}
