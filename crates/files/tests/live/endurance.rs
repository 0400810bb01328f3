//! Attacks that were tried on the server without success, and must stay so.

use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::common::{fetch, sha256, start, start_and_connect};
use crate::raw::{RawClient, bytes_within, config};
use fullpipe_files::{Alpn, Client, ClientOptions, Content, ServerOptions, Verify, bulk_block};
use fullpipe_testkit::{PATIENCE, skip};

/// Numbers that look random and are the same in every run.
struct Noise(u64);

impl Noise {
    fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
        (self.0 >> 33) as usize % end
    }

    /// No fewer than `least` and less than `end` bytes.
    fn bytes_between(&mut self, least: usize, end: usize) -> Vec<u8> {
        let count = least + self.below(end - least);
        self.bytes(count)
    }

    fn bytes(&mut self, count: usize) -> Vec<u8> {
        (0..count).map(|_| self.below(256) as u8).collect()
    }
}

/// The server still works.
async fn check(address: SocketAddr, verify: &Verify) {
    let client = Client::connect(address, "localhost", verify, ClientOptions::default());
    let client = client.await.expect("a connection");
    assert_eq!(fetch(&client, "/bulk/5000").await.expect("a body"), &bulk_block()[..5000]);
}

/// Changes of a client's first datagram, each of one kind.
fn garbage(kind: usize, first: &[u8], noise: &mut Noise) -> Vec<u8> {
    let mut bytes = first.to_vec();
    let end = bytes.len();
    match kind {
        // Nothing of it, in many lengths.
        0 => return noise.bytes(1),
        1 => return noise.bytes_between(1, 41),
        2 => return noise.bytes_between(1, 1501),
        3 => return vec![0; noise.below(1500) + 1],
        4 => return vec![0xff; noise.below(1500) + 1],
        5 => bytes = [&[0x40][..], &noise.bytes_between(8, 1408)].concat(),
        // Its header with other types, versions and lengths.
        6 => bytes[0] = noise.below(256) as u8,
        7 => bytes[0] = 0x40 | noise.below(64) as u8,
        8..=11 => bytes[0] = bytes[0] & 0xcf | ((kind - 8) as u8) << 4,
        12 => bytes[1..5].copy_from_slice(&noise.bytes(4)),
        13 => bytes[1..5].fill(0),
        14 => bytes[5] = noise.below(256) as u8,
        15 => bytes[5] = 0,
        16 => bytes[5] = 0xff,
        17 => bytes[14] = noise.below(256) as u8,
        18 => bytes[14] = 0xff,
        19 => bytes[15..31].copy_from_slice(&noise.bytes(16)),
        20 => bytes[22..30].fill(0xff),
        // Cut off, prolonged, doubled.
        21 => bytes.truncate(noise.below(end)),
        22 => bytes.truncate(1199),
        23 => bytes.truncate(40),
        24 => bytes.extend_from_slice(&noise.bytes(200)),
        25 => bytes.extend_from_slice(first),
        26 => bytes.extend_from_slice(&[0xe0, 0, 0, 0, 1, 8]),
        // Its content.
        27 => bytes[end - 1] ^= 1,
        28 => bytes[40 + noise.below(1000)] ^= 1 << noise.below(8),
        29 => bytes[40..].copy_from_slice(&noise.bytes(end - 40)),
        30 => bytes[40..].fill(0),
        31 => bytes.rotate_left(noise.below(end)),
        _ => bytes.reverse(),
    }
    bytes
}

#[tokio::main]
async fn thirty_three_kinds_of_garbage_do_no_harm() {
    let (server, verify) = start(Content::Bulk, ServerOptions::default());
    let address = server.local_addr();
    let first = RawClient::new(address, config(1200)).datagrams().remove(0);
    let socket = UdpSocket::bind("127.0.0.1:0").expect("a socket");
    let mut noise = Noise(1);
    for kind in 0..33 {
        for _ in 0..1000 {
            let datagram = garbage(kind, &first, &mut noise);
            // One that is empty, or that the system does not take, is none.
            let _ = socket.send_to(&datagram, address);
        }
        check(address, &verify).await;
    }
}

#[tokio::main]
async fn packets_of_connections_that_are_gone_get_less_than_they_bring() {
    let (server, verify) = start(Content::Bulk, ServerOptions::default());
    let address = server.local_addr();
    let socket = UdpSocket::bind("127.0.0.1:0").expect("a socket");
    let (mut noise, mut sent, mut received) = (Noise(2), 0, 0);
    for i in 0..20_000 {
        let mut packet = noise.bytes_between(30, 130);
        packet[0] = 0x40 | packet[0] & 0x3f;
        sent += socket.send_to(&packet, address).unwrap_or(0) as u64;
        if i % 1000 == 0 {
            received += bytes_within(&socket, Duration::from_millis(2));
        }
    }
    received += bytes_within(&socket, Duration::from_millis(200));
    assert!(received < sent, "{received} bytes for {sent}");
    check(address, &verify).await;
}

#[tokio::main]
async fn two_thousand_handshakes_leave_nothing_behind() {
    let mut options = ServerOptions::default();
    // A close right behind the handshake often goes unseen, and the connection stays until it is
    // idle for too long.
    options.limits.per_address = Some(2001);
    let (server, verify) = start(Content::Bulk, options);
    let address = server.local_addr();
    let descriptors = || std::fs::read_dir("/proc/self/fd").map_or(0, Iterator::count);
    let before = descriptors();
    tokio::task::spawn_blocking(move || {
        for i in 0..2000 {
            let mut client = RawClient::new(address, config(1200));
            client.drive_until(PATIENCE, |client| client.connected);
            assert!(client.connected, "the {i}th: {:?}", client.lost);
            client.close(b"");
            client.transmit();
        }
    })
    .await
    .expect("all of them");
    assert!(descriptors() <= before + 4, "{before}, then {}", descriptors());
    check(address, &verify).await;
}

#[tokio::main]
async fn two_hundred_slow_readers_keep_nobody_waiting() {
    let (server, verify) = start(Content::Bulk, ServerOptions::default());
    let address = server.local_addr();
    let mut slow = Vec::new();
    for _ in 0..200 {
        let client = Client::connect(address, "localhost", &verify, ClientOptions::default());
        let client = client.await.expect("a connection");
        let mut response = client.get("/bulk/100000000").await.expect("an answer");
        response.chunk().await.expect("data");
        slow.push((client, response));
    }
    let start = Instant::now();
    for _ in 0..5 {
        check(address, &verify).await;
    }
    assert!(start.elapsed() < Duration::from_secs(10), "{:?}", start.elapsed());
    for (_, response) in &mut slow {
        assert!(response.chunk().await.expect("it goes on").is_some());
    }
}

/// The whole body fits into the send window, so that the server has written it long before the
/// client has it.
#[tokio::main]
async fn a_slow_path_is_no_client_that_takes_nothing() {
    const BYTES: usize = 60_000;
    let mut options = ServerOptions::default();
    options.limits.stall_timeout = Duration::from_secs(2);
    let (server, _verify) = start(Content::Bulk, options);
    let address = server.local_addr();
    let took = tokio::task::spawn_blocking(move || {
        let mut client = RawClient::connect(address);
        let id = client.request(format!("GET /bulk/{BYTES}\r\n").as_bytes(), true);
        let (id, start) = (id.expect("a stream"), Instant::now());
        let mut body = 0;
        let mut buffer = [0; 2000];
        while body < BYTES {
            client.transmit();
            // One packet in 150 ms: 80 kbit/s.
            if let Ok((length, from)) = client.socket.recv_from(&mut buffer) {
                client.take_in(from, &buffer[..length]);
            }
            body += client.read(id).expect("it is not reset").len();
            assert!(start.elapsed() < PATIENCE, "{body} bytes, {:?}", client.lost);
            // Sleeps: the time of a packet on this path.
            std::thread::sleep(Duration::from_millis(150));
        }
        start.elapsed()
    });
    let took = took.await.expect("a client");
    assert!(took > Duration::from_secs(4), "{took:?} is not slow");
}

#[tokio::main]
async fn a_storm_of_key_updates_loses_no_byte() {
    const BYTES: usize = 5_000_000;
    let (server, verify) = start(Content::Bulk, ServerOptions::default());
    let address = server.local_addr();
    let body = tokio::task::spawn_blocking(move || {
        let mut client = RawClient::connect(address);
        let request = format!("GET /bulk/{BYTES}\r\n");
        let id = client.request(request.as_bytes(), true).expect("a stream");
        let (mut body, mut updated) = (Vec::new(), Instant::now());
        let end = updated + PATIENCE;
        while body.len() < BYTES && client.lost.is_none() && Instant::now() < end {
            if updated.elapsed() > Duration::from_millis(1) {
                client.connection.force_key_update();
                updated = Instant::now();
            }
            client.transmit();
            client.receive();
            body.extend_from_slice(&client.read(id).expect("no reset"));
        }
        assert_eq!(client.lost, None);
        body
    });
    let body = body.await.expect("a client");
    let expected: Vec<u8> = bulk_block().iter().copied().cycle().take(BYTES).collect();
    assert_eq!(sha256(body), sha256(expected));
    check(address, &verify).await;
}

/// Skips a test that takes very long; `LONG=1 ./test.sh --long` runs it.
fn only_if_long() {
    if std::env::var_os("LONG").is_none() {
        skip("LONG is not set");
    }
}

fn many_small_files_arrive_over_one_connection() {
    small_files(4000);
}

fn forty_thousand_files_arrive_over_one_connection() {
    only_if_long();
    small_files(40_000);
}

#[tokio::main]
async fn small_files(files: usize) {
    let dir = tempfile::tempdir().expect("a directory");
    let bytes_of = |i: usize| 32 + i % 100;
    for i in 0..files {
        // Each has its own content.
        let mut body = format!("{i:032}").into_bytes();
        body.resize(bytes_of(i), b'x');
        std::fs::write(dir.path().join(i.to_string()), body).expect("a file");
    }
    for alpn in [Alpn::HqInterop, Alpn::H3] {
        let content = Content::Dir(dir.path().to_owned());
        let (server, verify) = start(content, ServerOptions::default());
        let options = ClientOptions { alpn, ..ClientOptions::default() };
        let client = Client::connect(server.local_addr(), "localhost", &verify, options).await;
        let client = Arc::new(client.expect("a connection"));
        let mut tasks = Vec::new();
        for i in 0..20 {
            let client = client.clone();
            tasks.push(tokio::spawn(async move {
                for file in (i..files).step_by(20) {
                    let body = fetch(&client, &format!("/{file}")).await.expect("a body");
                    assert_eq!(body.len(), bytes_of(file));
                    assert!(body.starts_with(format!("{file:032}").as_bytes()), "{file}");
                }
            }));
        }
        for task in tasks {
            task.await.expect("all of them");
        }
    }
}

fn a_large_file_arrives_byte_for_byte() {
    large_file(200_000_000);
}

fn five_gigabytes_arrive_byte_for_byte() {
    only_if_long();
    large_file(5_000_000_000);
}

#[tokio::main]
async fn large_file(bytes: u64) {
    let (_server, client) = start_and_connect(Content::Bulk).await;
    let mut response = client.get(&format!("/bulk/{bytes}")).await.expect("an answer");
    let (block, mut at) = (bulk_block(), 0_u64);
    while let Some(chunk) = response.chunk().await.expect("data") {
        let mut rest = &chunk[..];
        while !rest.is_empty() {
            let from = (at % block.len() as u64) as usize;
            let same = rest.len().min(block.len() - from);
            assert!(rest[..same] == block[from..from + same], "around byte {at}");
            (rest, at) = (&rest[same..], at + same as u64);
        }
    }
    assert_eq!(at, bytes);
}

fullpipe_testkit::tests! {
    long [] thirty_three_kinds_of_garbage_do_no_harm;
    [] packets_of_connections_that_are_gone_get_less_than_they_bring;
    long [] two_thousand_handshakes_leave_nothing_behind;
    long timed [] two_hundred_slow_readers_keep_nobody_waiting;
    long timed [] a_slow_path_is_no_client_that_takes_nothing;
    long [] a_storm_of_key_updates_loses_no_byte;
    long [] many_small_files_arrive_over_one_connection;
    long [] forty_thousand_files_arrive_over_one_connection;
    long [] a_large_file_arrives_byte_for_byte;
    long [] five_gigabytes_arrive_byte_for_byte;
}
