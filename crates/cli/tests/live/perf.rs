//! `fullpipe perf` between the kernel's TCP and itself, and between the kernel's and ours behind a
//! TUN device.

use std::fs::File;
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

use fullpipe_testkit::{PATIENCE, in_namespace, line_of};
use nix::fcntl::{FcntlArg, fcntl};
use serde_json::Value;

use crate::common::{Running, Said, first_line, fullpipe, run};

fullpipe_testkit::tests! {
    []
        the_kernels_tcp_is_measured_in_both_directions,
        ctrl_c_keeps_the_results,
        strangers_are_turned_away,
        who_reads_nothing_stops_no_server,
        a_result_that_a_full_disk_cut_is_not_continued_by_the_next,
        results_that_nobody_reads_are_missed_at_the_end;
    timed []
        a_measurement_lasts_as_long_as_it_should_and_shows_its_parts,
        who_does_not_listen_is_told_of_at_once;
    [Root, Tun, Ip] our_tcp_is_measured_in_both_directions;
}

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

/// A measurement too short for its times to say anything comes to its end.
fn measures(server: &Server) {
    let said = client(server, &["--bytes", "1MB", "--json"]);
    assert_eq!(report(&said)["bytes"].as_u64(), Some(62 << 14), "{}", said.stderr);
}

fn the_kernels_tcp_is_measured_in_both_directions() {
    let server = server(&["127.0.0.1:0"]);
    let up = client(&server, &["--bytes", "300MB", "--json", "--cc", "linux:reno"]);
    assert_eq!(up.code, Some(0), "{}", up.stderr);
    is_whole(&report(&up), 300_000_000);
    assert_eq!(report(&up)["sender"].as_str(), Some("the kernel's TCP with reno"));
    let down = client(&server, &["--bytes", "1B", "--reverse", "--json"]);
    assert_eq!(report(&down)["bytes"].as_u64(), Some(16 << 10), "{}", down.stderr);
}

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

fn ctrl_c_keeps_the_results() {
    let dir = tempfile::tempdir().expect("a directory");
    let mut server = server(&["127.0.0.1:0", "--json"]);
    for direction in ["", "--reverse"] {
        let log = dir.path().join(format!("log{direction}"));
        let all = ["perf", "--client", &server.address, "--json", "--interval", "100ms", direction];
        let all: Vec<&str> = all.into_iter().filter(|word| !word.is_empty()).collect();
        let mut command = fullpipe(Path::new("/"), &all);
        command.stdout(Stdio::piped()).stderr(File::create(&log).expect("a file"));
        let mut process = Running(command.spawn().expect("the command starts"));
        line_of(&log, " Mbit/s");
        process.interrupt();
        assert_eq!(process.end().code(), Some(130), "{direction}");
        let mut stdout = String::new();
        let pipe = process.0.stdout.as_mut().expect("stdout is a pipe");
        pipe.read_to_string(&mut stdout).expect("text");
        let report: Value = serde_json::from_str(&stdout).expect("JSON");
        assert!(report["bytes"].as_u64() > Some(0), "{direction}: {report}");
        line_of(&log, "these are the results so far");
        let line: Value = serde_json::from_str(&first_line(&mut server.process)).expect("JSON");
        assert_eq!(line["bytes"], report["bytes"]);
    }
    server.process.interrupt();
    assert_eq!(server.process.end().code(), Some(0));
}

fn strangers_are_turned_away() {
    let mut server = server(&["127.0.0.1:0"]);
    let address: SocketAddr = server.address.parse().expect("an address");
    for words in [&b"GET / HTTP/1.1\r\n\r\n"[..], b"\0\0\0\x02{}", b"\0\0\0\0", b"\xff\xff\xff\xff"]
    {
        let mut stream = TcpStream::connect(address).expect("a listener");
        stream.write_all(words).expect("there is room");
        stream.set_read_timeout(Some(PATIENCE)).expect("a socket");
        let mut rest = Vec::new();
        let end = stream.read_to_end(&mut rest).map_err(|error| error.kind());
        assert!(matches!(end, Ok(0) | Err(ErrorKind::ConnectionReset)), "{words:?}: {end:?}");
    }
    measures(&server);
    server.process.interrupt();
    assert_eq!(server.process.end().code(), Some(0));
    assert_eq!(server.process.stderr().matches(" broke off: ").count(), 4);
}

/// Neither of what it says on stderr, nor of the results on stdout.
fn who_reads_nothing_stops_no_server() {
    let mut server = server(&["127.0.0.1:0"]);
    let (stdout, stderr) = (server.process.0.stdout.as_ref(), server.process.0.stderr.as_ref());
    // The least: fifty lines fill it.
    fcntl(stdout.expect("a pipe"), FcntlArg::F_SETPIPE_SZ(4096)).expect("a size");
    fcntl(stderr.expect("a pipe"), FcntlArg::F_SETPIPE_SZ(4096)).expect("a size");
    let address: SocketAddr = server.address.parse().expect("an address");
    for number in 0..200 {
        let mut stream = TcpStream::connect(address).expect("a listener");
        stream.set_read_timeout(Some(PATIENCE)).expect("a socket");
        stream.write_all(b"\0\0\0\0").expect("there is room");
        let end = stream.read_to_end(&mut Vec::new()).map_err(|error| error.kind());
        let is_over = matches!(end, Ok(0) | Err(ErrorKind::ConnectionReset));
        assert!(is_over, "number {number}: {end:?}");
    }
    for _ in 0..20 {
        measures(&server);
    }
    server.process.interrupt();
    assert_eq!(server.process.end().code(), Some(0));
    assert!(server.process.stderr().contains(" broke off: "));
    let mut results = String::new();
    let stdout = server.process.0.stdout.as_mut().expect("a pipe");
    stdout.read_to_string(&mut results).expect("text");
    assert!(results.contains("goodput "), "{results}");
}

/// The size of a file has a limit, as the room on a disk has. Somebody keeps no more of the results
/// than their end, and there is room again.
fn a_result_that_a_full_disk_cut_is_not_continued_by_the_next() {
    let dir = tempfile::tempdir().expect("a directory");
    let (results, log) = (dir.path().join("results"), dir.path().join("log"));
    // Some kilobytes; a write beyond them fails, and is no signal.
    let script = "trap '' XFSZ; ulimit -f 4; exec \"$0\" perf --server 127.0.0.1:0 --json";
    let mut shell = std::process::Command::new("sh");
    shell.args(["-c", script, env!("CARGO_BIN_EXE_fullpipe")]);
    shell.stdout(File::options().append(true).create(true).open(&results).expect("a file"));
    shell.stderr(File::create(&log).expect("a file"));
    let process = Running(shell.spawn().expect("the command starts"));
    let line = line_of(&results, "listening on ");
    let address = line.split(' ').nth(2).expect("an address").to_owned();
    let server = Server { process, address };
    for _ in 0..20 {
        measures(&server);
    }
    line_of(&log, "results are lost");
    let full = std::fs::read_to_string(&results).expect("text");
    std::fs::write(&results, &full[full.len() - 20..]).expect("there is room");
    let said = client(&server, &["--bytes", "1B"]);
    assert_eq!(said.code, Some(0), "{}", said.stderr);
    let last = line_of(&results, "\"bytes\":16384,");
    serde_json::from_str::<Value>(&last).unwrap_or_else(|_| panic!("no line of its own: {last}"));
}

fn results_that_nobody_reads_are_missed_at_the_end() {
    let dir = tempfile::tempdir().expect("a directory");
    let log = dir.path().join("log");
    let mut command = fullpipe(Path::new("/"), &["perf", "--server", "127.0.0.1:0"]);
    command.stdout(Stdio::piped()).stderr(File::create(&log).expect("a file"));
    let mut process = Running(command.spawn().expect("the command starts"));
    fcntl(process.0.stdout.as_ref().expect("a pipe"), FcntlArg::F_SETPIPE_SZ(4096))
        .expect("a size");
    let line = first_line(&mut process);
    let server =
        Server { process, address: line.split(' ').nth(2).expect("an address").to_owned() };
    for _ in 0..40 {
        measures(&server);
    }
    let mut process = server.process;
    process.interrupt();
    assert_eq!(process.end().code(), Some(0));
    line_of(&log, "the last results may be missing");
}

fn who_does_not_listen_is_told_of_at_once() {
    let begun = Instant::now();
    let refused = run(fullpipe(Path::new("/"), &["perf", "--client", "127.0.0.1:1"]));
    assert_eq!(refused.code, Some(1), "{}", refused.stderr);
    assert!(begun.elapsed() < Duration::from_secs(5));
}

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
