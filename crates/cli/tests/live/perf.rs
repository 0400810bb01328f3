//! `fullpipe perf` between the kernel's TCP and itself, and between the kernel's and ours behind a TUN device, which needs
//! Linux and root; without them that test says so and is over.
#![cfg(target_os = "linux")]

mod common;

use std::io::Write;
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

use common::{Running, Said, first_line, fullpipe, in_namespace, run};
use serde_json::Value;

struct Server {
    process: Running,
    address: String,
}

/// A server, once it listens.
fn server(args: &[&str]) -> Server {
    let mut command = fullpipe(Path::new("/"), &[&["perf", "--server"], args].concat());
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut process = Running(command.spawn().expect("the command starts"));
    let line = first_line(&mut process);
    let address = line.split(' ').nth(2).expect("an address").to_owned();
    Server { process, address }
}

fn client(server: &Server, args: &[&str]) -> Said {
    let all = [&["perf", "--client", &server.address], args].concat();
    run(fullpipe(Path::new("/"), &all))
}

/// The result in JSON.
fn report(said: &Said) -> Value {
    serde_json::from_slice(&said.stdout).unwrap_or_else(|_| panic!("no JSON; {}", said.stderr))
}

/// All of it arrived, and every figure is there and possible.
fn is_whole(report: &Value, bytes: u64) {
    assert_eq!(report["bytes"].as_u64(), Some(bytes.next_multiple_of(16 << 10)), "{report}");
    let number = |place: &str| report.pointer(place).and_then(Value::as_f64).unwrap_or(-1.0);
    let rate = number("/bytes") * 8.0 / 1e6 / number("/seconds");
    assert!((number("/goodput_mbps") / rate - 1.0).abs() < 1e-6, "{report}");
    let (p50, p95, max) =
        (number("/latency_ms/p50"), number("/latency_ms/p95"), number("/latency_ms/max"));
    assert!(0.0 <= p50 && p50 <= p95 && p95 <= max, "{report}");
    let difference = number("/answer_ms/max") - max;
    // Neither is below zero.
    assert!(difference >= -1e-6 && difference <= number("/idle_rtt_ms") / 2.0 + 1e-3, "{report}");
    assert_eq!(report["interrupted"].as_bool(), Some(false));
}

#[test]
fn the_kernels_tcp_is_measured_in_both_directions() {
    let server = server(&["127.0.0.1:0"]);
    let up = client(&server, &["--bytes", "300MB", "--json", "--cc", "linux:reno"]);
    assert_eq!(up.code, Some(0), "{}", up.stderr);
    is_whole(&report(&up), 300_000_000);
    assert_eq!(report(&up)["sender"].as_str(), Some("the kernel's TCP with reno"));
    let down = client(&server, &["--bytes", "1B", "--reverse", "--json"]);
    assert_eq!(report(&down)["bytes"].as_u64(), Some(16 << 10), "{}", down.stderr);
}

#[test]
fn a_measurement_lasts_as_long_as_it_should_and_shows_its_parts() {
    let server = server(&["127.0.0.1:0"]);
    for direction in [&[][..], &["--reverse"]] {
        let args = ["--duration", "1s", "--interval", "200ms", "--json"];
        let said = client(&server, &[&args[..], direction].concat());
        let seconds = report(&said)["seconds"].as_f64().expect("a number");
        assert!((0.99..1.5).contains(&seconds), "{seconds}");
        let parts = report(&said)["intervals"].as_array().map_or(0, Vec::len);
        assert!((4..=7).contains(&parts), "{parts}");
        assert!((3..=7).contains(&said.stderr.matches(" Mbit/s").count()), "{}", said.stderr);
    }
}

#[test]
fn ctrl_c_keeps_the_results() {
    let mut server = server(&["127.0.0.1:0", "--json"]);
    for direction in [&[][..], &["--reverse"]] {
        let all = [&["perf", "--client", &server.address, "--json"], direction].concat();
        let mut command = fullpipe(Path::new("/"), &all);
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let process = Running(command.spawn().expect("the command starts"));
        std::thread::sleep(Duration::from_millis(700));
        process.interrupt();
        let mut process = process;
        assert_eq!(process.end().code(), Some(130), "{direction:?}");
        let mut stdout = String::new();
        let pipe = process.0.stdout.as_mut().expect("stdout is a pipe");
        std::io::Read::read_to_string(pipe, &mut stdout).expect("text");
        let report: Value = serde_json::from_str(&stdout).expect("JSON");
        assert!(report["bytes"].as_u64() > Some(0), "{direction:?}: {report}");
        assert!(process.stderr().contains("these are the results so far"));
        let line: Value = serde_json::from_str(&first_line(&mut server.process)).expect("JSON");
        assert_eq!(line["bytes"], report["bytes"]);
    }
    server.process.interrupt();
    assert_eq!(server.process.end().code(), Some(0));
}

#[test]
fn strangers_are_turned_away() {
    let mut server = server(&["127.0.0.1:0"]);
    let address: SocketAddr = server.address.parse().expect("an address");
    for words in [&b"GET / HTTP/1.1\r\n\r\n"[..], b"\0\0\0\x02{}", b"\0\0\0\0", b"\xff\xff\xff\xff"]
    {
        let mut stream = TcpStream::connect(address).expect("a listener");
        stream.write_all(words).expect("there is room");
        stream.set_read_timeout(Some(Duration::from_secs(5))).expect("a socket");
        let mut rest = Vec::new();
        // A reset ends it, too.
        let _ = std::io::Read::read_to_end(&mut stream, &mut rest);
        assert!(rest.is_empty());
    }
    is_whole(&report(&client(&server, &["--bytes", "1MB", "--json"])), 1_000_000);
    server.process.interrupt();
    assert_eq!(server.process.end().code(), Some(0));
    assert_eq!(server.process.stderr().matches(" broke off: ").count(), 4);
}

#[test]
fn bad_input_gets_one_line() {
    let said = |args: &[&str]| run(fullpipe(Path::new("/"), &[&["perf"], args].concat()));
    for args in [
        &[][..],
        &["--server", "here"],
        &["--server", "127.0.0.1:0", "--client", "127.0.0.1:1"],
        &["--server", "127.0.0.1:0", "--bytes", "1MB"],
        &["--server", "192.0.2.1:1"],
        &["--client", "127.0.0.1:1", "--bytes", "0B"],
        &["--client", "127.0.0.1:1", "--duration", "0s"],
        &["--client", "127.0.0.1:1", "--interval", "1ms"],
        &["--client", "127.0.0.1:1", "--unsent", "0B"],
        &["--client", "127.0.0.1:1", "--cc", "bbr3"],
        &["--client", "127.0.0.1:1", "--cc", "linux:none"],
        &["--client", "127.0.0.1:1", "--tun", "fp0=10.9.0.1/24"],
        &["--client", "nowhere"],
    ] {
        let said = said(args);
        assert_eq!(said.code, Some(2), "{args:?}: {}", said.stderr);
        assert_eq!(said.stderr.lines().count(), 1, "{args:?}: {}", said.stderr);
    }
    let begun = Instant::now();
    let refused = said(&["--client", "127.0.0.1:1"]);
    assert_eq!(refused.code, Some(1), "{}", refused.stderr);
    assert!(begun.elapsed() < Duration::from_secs(5));
}

#[test]
fn our_tcp_is_measured_in_both_directions() {
    in_namespace(|| {
        let at = ["198.18.9.2:5201", "--tun", "fp0=198.18.9.1/24", "--cc", "bbr3"];
        let ours = server(&at);
        let up = client(&ours, &["--bytes", "50MB", "--json"]);
        is_whole(&report(&up), 50_000_000);
        let down = client(&ours, &["--bytes", "50MB", "--reverse", "--json"]);
        is_whole(&report(&down), 50_000_000);
        assert_eq!(report(&down)["sender"].as_str(), Some("bbr3 over fp0"));
        // And as the client.
        let kernels = server(&["0.0.0.0:5202"]);
        let at = Server { address: "198.18.8.1:5202".to_owned(), ..kernels };
        let tun = ["--tun", "fp1=198.18.8.1/24", "--from", "198.18.8.2", "--bytes", "50MB"];
        let up = client(&at, &[&tun[..], &["--json"]].concat());
        is_whole(&report(&up), 50_000_000);
    });
}
