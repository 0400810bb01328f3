//! Attacks that strangers tried on `fullpipe serve` and `fullpipe get`, each once with success.

use std::fs::File;
use std::net::UdpSocket;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::common::{
    Running, Serve, certificate, first_line, fullpipe, run, scrape, sha256, text, write_file,
};
use crate::raw::{RawClient, bytes_within, config};
use fullpipe_files::noq;
use fullpipe_testkit::{PATIENCE, line_of, until};

/// `fullpipe serve` with a log in a file and a limit on descriptors.
pub(crate) fn serve(dir: &Path, log: &Path, descriptors: u32, args: &[&str]) -> Serve {
    serve_logging("info", dir, log, descriptors, args)
}

fn serve_logging(level: &str, dir: &Path, log: &Path, descriptors: u32, args: &[&str]) -> Serve {
    let script = format!(r#"ulimit -n {descriptors}; exec "$0" "$@""#);
    let mut command = Command::new("sh");
    command.args([
        "-c",
        &script,
        env!("CARGO_BIN_EXE_fullpipe"),
        "serve",
        ".",
        "--listen",
        "127.0.0.1:0",
    ]);
    command.args(args).current_dir(dir).stdin(Stdio::null()).env("RUST_LOG", level);
    command.stdout(Stdio::piped()).stderr(File::create(log).expect("a file"));
    let mut process = Running(command.spawn().expect("a shell"));
    let line = first_line(&mut process);
    let address = line.split([' ', ',']).find_map(|word| word.parse().ok());
    Serve { address: address.expect(&line), process, line }
}

fn get(dir: &Path, server: &Serve, path: &str) -> crate::common::Said {
    run(fullpipe(dir, &["get", &server.url(path), "--insecure", "-o", "-"]))
}

fn a_flood_of_first_packets_keeps_nobody_out() {
    let dir = tempfile::tempdir().expect("a directory");
    let www = dir.path().join("www");
    std::fs::create_dir(&www).expect("a directory");
    write_file(&www.join("f"), 100_000);
    let server = serve(&www, &dir.path().join("log"), 256, &[]);
    let (before, few) = (server.resident(), server.descriptors());
    let mut fetched = 0;
    for i in 0..3000 {
        // Each is of a client that never says more, from a socket of its own.
        RawClient::new(server.address, config(1200)).transmit();
        if i % 500 == 499 {
            let said = get(dir.path(), &server, "/f");
            assert_eq!(said.code, Some(0), "after {i}: {}", said.stderr);
            assert_eq!(said.stdout.len(), 100_000);
            fetched += 1;
        }
    }
    assert_eq!(fetched, 6);
    let now = server.descriptors();
    assert!(now <= few + 8, "{few} descriptors, then {now}");
    let grown = server.resident().saturating_sub(before);
    assert!(grown < 30_000_000, "3000 packets made {grown} bytes");
}

fn connections_take_no_descriptor_and_files_beyond_the_limit_are_unavailable_not_missing() {
    // The server's own limit is what it meets first, or with a larger one the system's (EMFILE).
    files_beyond_the_limit_are_unavailable(&[]);
    files_beyond_the_limit_are_unavailable(&["--max-files", "1000"]);
}

fn files_beyond_the_limit_are_unavailable(args: &[&str]) {
    let dir = tempfile::tempdir().expect("a directory");
    let www = dir.path().join("www");
    std::fs::create_dir(&www).expect("a directory");
    write_file(&www.join("f"), 5_000_000);
    let server = serve(&www, &dir.path().join("log"), 100, args);
    let few = server.descriptors();
    let mut idle: Vec<RawClient> = (0..150).map(|_| RawClient::connect(server.address)).collect();
    assert!(server.descriptors() <= few + 4, "{few}, then {}", server.descriptors());
    // Each asks for the same file and takes none of it, so that the file stays open.
    for client in &mut idle {
        client.request(b"GET /f\r\n", true);
        client.transmit();
    }
    until("a request finds no file left to open", || {
        let said = get(dir.path(), &server, "/f");
        assert!(
            said.code == Some(0) || said.stderr.contains("503 (unavailable"),
            "{}",
            said.stderr
        );
        said.code == Some(1)
    });
    // Whoever is gone leaves room.
    for client in &mut idle {
        client.close(b"");
        client.transmit();
    }
    until("there is room again", || {
        let said = get(dir.path(), &server, "/f");
        said.code == Some(0) && said.stdout.len() == 5_000_000
    });
}

fn clients_that_read_nothing_cost_little_memory_which_is_given_back() {
    const CLIENTS: u64 = 12;
    let dir = tempfile::tempdir().expect("a directory");
    let www = dir.path().join("www");
    std::fs::create_dir(&www).expect("a directory");
    write_file(&www.join("f"), 80_000_000);
    let server = serve(&www, &dir.path().join("log"), 4096, &["--metrics", "127.0.0.1:0"]);
    drop(RawClient::connect(server.address));
    let before = server.resident();
    for wave in 1..=3 {
        let mut clients: Vec<RawClient> =
            (0..CLIENTS).map(|_| RawClient::connect(server.address)).collect();
        for client in &mut clients {
            // As many requests as it may have, windows of a gigabyte, and then nothing, not even an
            // ACK.
            while client.request(b"GET /f\r\n", true).is_some() {}
            client.transmit();
        }
        // Sleeps: the attack lasts so long, in which the server may send and keep what it wants.
        std::thread::sleep(Duration::from_secs(4));
        let grown = server.resident().saturating_sub(before);
        assert!(
            grown <= CLIENTS * 2_000_000,
            "wave {wave}: {} bytes a connection",
            grown / CLIENTS
        );
        for client in &mut clients {
            client.close(b"");
            client.transmit();
        }
        let over = "fullpipe_connections ";
        until("the server has seen the end of the wave", || {
            let (_, body) = scrape(server.metrics(), "/metrics");
            let open = body.lines().find_map(|line| line.strip_prefix(over));
            open.and_then(|count| count.parse().ok()).is_some_and(|count: u64| count <= 1)
        });
    }
    if cfg!(all(target_os = "linux", target_env = "gnu")) {
        // The server looks every few seconds whether its clients are gone. The heaps of its threads
        // keep some of a wave's 24 MB, more of it when other work delays them.
        let most = before + 10_000_000;
        until("the memory is given back", || server.resident() <= most);
    }
}

/// Clients that read until the server has much on its way to each, and then nothing any more.
fn all_connections_together_hold_no_more_than_the_bound() {
    const CLIENTS: u64 = 20;
    let dir = tempfile::tempdir().expect("a directory");
    let www = dir.path().join("www");
    std::fs::create_dir(&www).expect("a directory");
    write_file(&www.join("f"), 80_000_000);
    let server = serve(&www, &dir.path().join("log"), 4096, &["--max-memory", "4MB"]);
    drop(RawClient::connect(server.address));
    let before = server.resident();
    let mut clients = Vec::new();
    for _ in 0..CLIENTS {
        let mut client = RawClient::connect(server.address);
        client.request(b"GET /f\r\n", true);
        client.drive(Duration::from_millis(300));
        clients.push(client);
    }
    // Sleeps: what the server keeps may grow for so long.
    std::thread::sleep(Duration::from_secs(1));
    let grown = server.resident().saturating_sub(before);
    println!("{grown} bytes for {CLIENTS} clients");
    // 256 kB of each, and what noq keeps beside them.
    let most = 4_000_000 + CLIENTS * 1_000_000;
    assert!(grown <= most, "{grown} bytes");
}

fn streams_that_the_server_does_not_read_are_not_allowed() {
    let dir = tempfile::tempdir().expect("a directory");
    let server = serve(dir.path(), &dir.path().join("log"), 1024, &[]);
    let mut client = RawClient::connect(server.address);
    assert!(
        client.connection.streams().open(noq_proto::Dir::Uni).is_none(),
        "a stream for nothing"
    );
}

fn an_unknown_version_is_answered_only_when_it_could_be_a_connection() {
    let dir = tempfile::tempdir().expect("a directory");
    let server = serve(dir.path(), &dir.path().join("log"), 1024, &[]);
    let socket = UdpSocket::bind("127.0.0.1:0").expect("a socket");
    socket.set_read_timeout(Some(PATIENCE)).expect("a timeout");
    let mut number = 0_u64;
    let mut send = |version: u32, bytes: usize| {
        number += 1;
        let mut packet = vec![0; bytes];
        packet[0] = 0xc0;
        packet[1..5].copy_from_slice(&version.to_be_bytes());
        packet[5] = 8;
        packet[6..14].copy_from_slice(&number.to_be_bytes());
        packet[14] = 0;
        socket.send_to(&packet, server.address).expect("sent");
        number
    };
    const GOOD: (u32, usize) = (0x1a2a_3a4a, 1200);
    // The next answer, which must be of this packet: version negotiation has its connection ID (RFC
    // 8999, section 6).
    let answer_to = |number: u64| {
        let mut answer = [0; 2000];
        let len = socket.recv(&mut answer).expect("version negotiation");
        assert_eq!(answer[1..5], [0; 4], "version 0 says so");
        assert_eq!((answer[5], answer[6]), (0, 8));
        assert_eq!(answer[7..15], number.to_be_bytes(), "an answer to what needs none");
        answer[15..len].to_vec()
    };
    const V2: u32 = 0x6b33_43cf;
    // What comes first is that of a good packet which is sent next: there was none to the one
    // before it.
    for bytes in [40, 1199, 1200] {
        // Garbage of version 2.
        send(V2, bytes);
        answer_to(send(GOOD.0, GOOD.1));
    }
    for version in [0x1a2a_3a4a, 0xff00_001d, 0xff00_0022, 2] {
        for bytes in [40, 1199] {
            send(version, bytes);
            answer_to(send(GOOD.0, GOOD.1));
        }
        let versions: Vec<u32> = answer_to(send(version, 1200))
            .chunks_exact(4)
            .map(|bytes| u32::from_be_bytes(bytes.try_into().expect("four")))
            .filter(|version| version & 0x0f0f_0f0f != 0x0a0a_0a0a)
            .collect();
        assert_eq!(versions, [V2, 1], "to {version:#x}");
    }
}

/// A certificate chain as long as a server's may be: filled up with copies of the first.
fn long_chain(dir: &Path, copies: usize) {
    let (certificate, _key) = certificate(dir);
    let one = std::fs::read_to_string(&certificate).expect("a file");
    std::fs::write(certificate, one.repeat(copies)).expect("a file");
}

fn nobody_gets_more_than_three_times_what_an_unvalidated_client_sent() {
    for copies in [1, 9, 30] {
        let dir = tempfile::tempdir().expect("a directory");
        long_chain(dir.path(), copies);
        let pem = ["--cert", "cert.pem", "--key", "key.pem"];
        let server = serve(dir.path(), &dir.path().join("log"), 1024, &pem);
        for size in [1200, 1201, 1252, 1350, 1452] {
            let mut client = RawClient::new(server.address, config(size));
            client.transmit();
            let received = bytes_within(&client.socket, Duration::from_secs(2));
            assert!(received > 0, "an answer");
            assert!(
                received <= 3 * client.sent,
                "{:.2} times {} bytes, {copies} certificates",
                received as f64 / client.sent as f64,
                client.sent
            );
        }
        // And the handshake is done all the same.
        RawClient::connect(server.address);
    }
}

fn a_spoofed_address_gets_no_more_than_three_times_what_came_from_it() {
    let dir = tempfile::tempdir().expect("a directory");
    write_file(&dir.path().join("f"), 1000);
    let server = serve(dir.path(), &dir.path().join("log"), 1024, &[]);
    let mut client = RawClient::connect(server.address);
    client.drive(Duration::from_millis(300));
    // One victim that is named again and again, and two that take turns.
    for victims in [1, 2] {
        let victims: Vec<UdpSocket> =
            (0..victims).map(|_| UdpSocket::bind("127.0.0.1:0").expect("a socket")).collect();
        let (mut sent, mut received) = (vec![0; victims.len()], vec![0; victims.len()]);
        for i in 0..500 {
            client.connection.ping();
            for datagram in client.datagrams() {
                let victim = i % victims.len();
                sent[victim] += datagram.len() as u64;
                victims[victim].send_to(&datagram, server.address).expect("sent");
            }
            // Sleeps: sent at once, the packets would not fit into a socket.
            std::thread::sleep(Duration::from_millis(1));
            if i % 50 == 0 {
                for (victim, received) in victims.iter().zip(&mut received) {
                    *received += bytes_within(victim, Duration::from_millis(1));
                }
            }
        }
        for ((victim, mut received), sent) in victims.iter().zip(received).zip(sent) {
            received += bytes_within(victim, Duration::from_secs(1));
            assert!(sent > 4000, "the attack took place: {sent} bytes");
            let factor = received as f64 / sent as f64;
            assert!(received <= 3 * sent, "{factor:.2} times {sent} bytes");
        }
    }
}

fn what_a_peer_says_breaks_no_line_of_the_log_and_fills_no_disk() {
    const REASON: &[u8] =
        b"x\nINFO peer=192.0.2.1:1 request=\"GET /forged\" complete\n\x1b[2J\x1b[31mred";
    let dir = tempfile::tempdir().expect("a directory");
    let (www, log) = (dir.path().join("www"), dir.path().join("log"));
    std::fs::create_dir(&www).expect("a directory");
    write_file(&www.join("f"), 10_000_000);
    let server = serve_logging("debug", &www, &log, 1024, &[]);
    // In the middle of an answer, so that the reason is told with it.
    let mut client = RawClient::connect(server.address);
    client.request(b"GET /f\r\n", true);
    client.drive(Duration::from_millis(50));
    client.close(REASON);
    client.transmit();
    // Before the handshake is done, when anybody can.
    let mut client = RawClient::new(server.address, config(1200));
    client.transmit();
    client.close(REASON);
    client.transmit();
    // And in requests.
    let mut client = RawClient::connect(server.address);
    for _ in 0..50 {
        client.request(b"GET /\x1b[31m\x9b31m\r\r\x07 forged\r\n", true);
    }
    client.drive(Duration::from_millis(500));
    // A stranger that does it all day.
    for _ in 0..40 {
        for _ in 0..50 {
            client.request(&[b'x'; 7999], true);
        }
        client.drive(Duration::from_millis(30));
    }
    // A client that is honest comes last.
    assert_eq!(get(dir.path(), &server, "/f").stdout.len(), 10_000_000);
    line_of(&log, "complete");
    let written = std::fs::read(&log).expect("a log");
    let control = |byte: &&u8| **byte < 0x20 && **byte != b'\n' || **byte == 0x7f;
    assert_eq!(
        written.iter().filter(control).count(),
        0,
        "{}",
        String::from_utf8_lossy(&written).escape_debug()
    );
    let written = String::from_utf8(written).expect("UTF-8");
    assert!(!written.contains('\u{9b}'), "{written}");
    assert!(!written.lines().any(|line| line.starts_with("INFO peer")), "{written}");
    let refusals = written.lines().filter(|line| line.contains("refused")).count();
    assert!((1..=800).contains(&refusals), "{refusals} lines of refusals");
    assert!(written.lines().all(|line| line.len() < 1500), "a line is bounded");
}

fn get_shows_what_a_server_says_on_one_line() {
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let _inside = runtime.enter();
    let tls = fullpipe_files::ServerTls::self_signed(&["localhost"]).expect("a certificate");
    let said = std::sync::Arc::new(|connection: fullpipe_files::noq::Connection| {
        connection.close(7_u32.into(), b"x\nerror: forged\x1b[2J\x1b[31m");
    });
    let options = fullpipe_files::ServerOptions { on_accept: Some(said), ..Default::default() };
    let any = ([127, 0, 0, 1], 0).into();
    let server = fullpipe_files::Server::bind(any, &tls, fullpipe_files::Content::Bulk, options);
    let server = server.expect("a server");
    let dir = tempfile::tempdir().expect("a directory");
    let url = format!("https://localhost:{}/bulk", server.local_addr().port());
    let said = run(fullpipe(dir.path(), &["get", &url, "--insecure", "-o", "-"]));
    assert_eq!(said.code, Some(1), "{}", said.stderr);
    assert_eq!(said.stderr.lines().count(), 1, "{}", said.stderr);
    assert!(!said.stderr.contains('\x1b') && said.stderr.contains("\\n"), "{:?}", said.stderr);
}

fn a_request_that_never_ends_is_reset() {
    let dir = tempfile::tempdir().expect("a directory");
    let server = serve(dir.path(), &dir.path().join("log"), 1024, &["--request-timeout", "1s"]);
    let mut client = RawClient::connect(server.address);
    let id = client.request(b"GET /never", false).expect("a stream");
    let start = Instant::now();
    let code = loop {
        client.drive(Duration::from_millis(50));
        if let Err(code) = client.read(id) {
            break code;
        }
        assert!(start.elapsed() < PATIENCE, "the server waits for ever");
    };
    assert_eq!(code, 408);
}

/// A server that takes connections and requests, acknowledges everything, and answers nothing.
fn silent_server() -> noq::Endpoint {
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).expect("a certificate");
    let key = rustls_pki_types::PrivatePkcs8KeyDer::from(made.signing_key.serialize_der());
    let provider = std::sync::Arc::new(rustls::crypto::ring::default_provider());
    let mut tls = rustls::ServerConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&rustls::version::TLS13])
        .expect("TLS 1.3")
        .with_no_client_auth()
        .with_single_cert(vec![made.cert.into()], key.into())
        .expect("a certificate");
    tls.alpn_protocols = vec![fullpipe_files::ALPN.to_vec()];
    let crypto = noq::crypto::rustls::QuicServerConfig::try_from(tls).expect("a cipher suite");
    let config = noq::ServerConfig::with_crypto(std::sync::Arc::new(crypto));
    let any = ([127, 0, 0, 1], 0).into();
    noq::Endpoint::server(config, any).expect("a socket")
}

fn get_does_not_wait_for_ever_for_a_server_that_says_nothing() {
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let endpoint = runtime.block_on(async { silent_server() });
    let address = endpoint.local_addr().expect("an address");
    runtime.spawn(async move {
        let connection = endpoint.accept().await.expect("a client").await.expect("a connection");
        let mut streams = Vec::new();
        while let Ok(stream) = connection.accept_bi().await {
            streams.push(stream);
        }
    });
    let dir = tempfile::tempdir().expect("a directory");
    let url = format!("https://localhost:{}/f", address.port());
    let start = Instant::now();
    let said = run(fullpipe(dir.path(), &["get", &url, "--insecure", "--stall-timeout", "2s"]));
    assert_eq!(said.code, Some(1), "{}", said.stderr);
    assert!(start.elapsed() < Duration::from_secs(10), "{:?}", start.elapsed());
    assert!(said.stderr.contains("nothing arrived for 2"), "{}", said.stderr);
}

fn a_client_hears_at_once_that_the_server_was_started_anew() {
    let dir = tempfile::tempdir().expect("a directory");
    let (www, state) = (dir.path().join("www"), dir.path().join("state"));
    std::fs::create_dir(&www).expect("a directory");
    write_file(&www.join("f"), 400_000_000);
    let args = ["--state", text(&state)];
    let mut first = serve(&www, &dir.path().join("log"), 1024, &args);
    let mut command = fullpipe(dir.path(), &["get", &first.url("/f"), "--insecure", "-o", "f"]);
    let mut get = Running(command.stderr(Stdio::piped()).spawn().expect("the command starts"));
    let some = |name: &String| {
        name.ends_with(".part")
            && std::fs::metadata(dir.path().join(name)).is_ok_and(|found| found.len() > 1_000_000)
    };
    until("a part of the file arrives", || crate::common::names(dir.path()).iter().any(some));
    first.process.0.kill().expect("killed");
    first.process.0.wait().expect("ended");
    let listen = first.address.to_string();
    let mut command = fullpipe(&www, &["serve", ".", "--listen", &listen]);
    command.args(args).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut second = Running(command.spawn().expect("the command starts"));
    first_line(&mut second);
    let again = Instant::now();
    assert_eq!(get.end().code(), Some(1));
    assert!(again.elapsed() < Duration::from_secs(10), "{:?}", again.elapsed());
    let said = get.stderr();
    assert!(said.contains("reset"), "{said}");
}

fn a_file_is_on_the_disk_before_it_has_its_name() {
    let dir = tempfile::tempdir().expect("a directory");
    let (www, trace) = (dir.path().join("www"), dir.path().join("trace"));
    std::fs::create_dir(&www).expect("a directory");
    write_file(&www.join("f"), 100_000);
    let server = serve(&www, &dir.path().join("log"), 1024, &[]);
    let mut command = Command::new("strace");
    command.args([
        "-f",
        "-qq",
        "-e",
        "trace=fsync,fdatasync,rename,renameat,renameat2,link,linkat",
        "-o",
    ]);
    command.arg(&trace).arg(env!("CARGO_BIN_EXE_fullpipe"));
    command.args(["get", &server.url("/f"), "--insecure", "-o", "f"]).current_dir(dir.path());
    let said = run(command);
    let calls = std::fs::read_to_string(&trace).unwrap_or_default();
    assert_eq!(sha256(&dir.path().join("f")), sha256(&www.join("f")), "{}", said.stderr);
    let at = |what: &str| calls.lines().position(|line| line.contains(what));
    let (synced, renamed) = (at("fsync("), at("rename"));
    assert!(synced.is_some() && synced < renamed, "{calls}");
    let last = calls.lines().enumerate().filter(|(_, line)| line.contains("fsync(")).last();
    assert!(last.map(|(at, _)| at) > renamed, "the directory with the new name as well: {calls}");
}

fullpipe_testkit::tests! {
    [] an_unknown_version_is_answered_only_when_it_could_be_a_connection,
        get_shows_what_a_server_says_on_one_line;
    [Strace] a_file_is_on_the_disk_before_it_has_its_name;
    long [] a_flood_of_first_packets_keeps_nobody_out,
        connections_take_no_descriptor_and_files_beyond_the_limit_are_unavailable_not_missing,
        streams_that_the_server_does_not_read_are_not_allowed,
        nobody_gets_more_than_three_times_what_an_unvalidated_client_sent,
        a_spoofed_address_gets_no_more_than_three_times_what_came_from_it,
        a_request_that_never_ends_is_reset;
    long timed [] clients_that_read_nothing_cost_little_memory_which_is_given_back,
        all_connections_together_hold_no_more_than_the_bound,
        what_a_peer_says_breaks_no_line_of_the_log_and_fills_no_disk,
        get_does_not_wait_for_ever_for_a_server_that_says_nothing,
        a_client_hears_at_once_that_the_server_was_started_anew;
}
