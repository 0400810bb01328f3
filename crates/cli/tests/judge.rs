//! Verdicts on senders whose defects are known. Needs Linux, root and iperf3; without them each test says so.
#![cfg(target_os = "linux")]

mod common;

use std::net::TcpListener;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use common::{Running, Said, fullpipe, run};

/// Judges `iperf3 -c` with these arguments; nothing where that cannot be.
fn judge(arguments: &[&str]) -> Option<Said> {
    let port = TcpListener::bind("0.0.0.0:0").and_then(|l| l.local_addr()).expect("a port").port();
    let port = port.to_string();
    let server = Command::new("iperf3").args(["-s", "-p", &port]).stdout(Stdio::null()).spawn();
    let Ok(server) = server else {
        eprintln!("skipped: there is no iperf3 here");
        return None;
    };
    let _server = Running(server);
    thread::sleep(Duration::from_millis(300));
    let command = ["judge", "--json", "--", "iperf3", "-c", "{host}", "-p", &port];
    let said = run(fullpipe(Path::new("/"), &[&command, arguments].concat()));
    if said.stderr.contains("need root") || said.stderr.contains("/dev/net/tun") {
        eprintln!("skipped: {}", said.stderr.trim());
        return None;
    }
    Some(said)
}

/// The verdicts, by the checks' names.
fn grades(said: &Said) -> Vec<(String, String)> {
    let object: serde_json::Value =
        serde_json::from_slice(&said.stdout).unwrap_or_else(|e| panic!("{e}: {}", said.stderr));
    let checks = object["checks"].as_array().expect("checks");
    assert_eq!(checks.len(), 4, "{object}");
    let text = |value: &serde_json::Value| value.as_str().expect("text").to_owned();
    checks.iter().map(|check| (text(&check["check"]), text(&check["grade"]))).collect()
}

fn broken(said: &Said) -> Vec<String> {
    let all = grades(said).into_iter();
    all.filter(|(_, grade)| grade == "broken").map(|(check, _)| check).collect()
}

#[test]
fn the_kernels_own_tcp_raises_no_alarm() {
    let Some(said) = judge(&["-t", "6"]) else { return };
    assert_eq!(broken(&said), [""; 0], "{}", String::from_utf8_lossy(&said.stdout));
    assert_eq!(said.code, Some(0), "{}", said.stderr);
}

#[test]
fn a_window_that_never_grows_does_not_fill_the_path() {
    let Some(said) = judge(&["-t", "4", "-w", "8K"]) else { return };
    assert!(broken(&said).contains(&"fills the path".to_owned()), "{:?}", grades(&said));
    assert_eq!(said.code, Some(1), "{}", said.stderr);
    assert!(said.stderr.contains("broken: fills the path"), "{}", said.stderr);
}

/// 40 Mbit/s over UDP for 4 s, whatever becomes of it.
const FLOOD: &str = "import socket,sys,time
s=socket.socket(socket.AF_INET,socket.SOCK_DGRAM)
begun=time.time(); sent=0
while time.time()<begun+4:
    while sent*1400*8<(time.time()-begun)*4e7:
        sent+=1
        try: s.sendto(bytes(1400),(sys.argv[1],9))
        except OSError: pass
    time.sleep(0.001)";

#[test]
fn a_sender_that_does_not_react_loses_most_of_it() {
    let command = ["judge", "--json", "--", "python3", "-c", FLOOD, "{host}"];
    let said = run(fullpipe(Path::new("/"), &command));
    let lacking = ["need root", "/dev/net/tun", "cannot start"];
    if lacking.iter().any(|what| said.stderr.contains(what)) {
        eprintln!("skipped: {}", said.stderr.trim());
        return;
    }
    let broken = broken(&said);
    assert!(broken.contains(&"few losses at a shallow buffer".to_owned()), "{:?}", grades(&said));
    assert_eq!(said.code, Some(1), "{}", said.stderr);
}

#[test]
fn what_transfers_too_little_is_refused_in_one_line() {
    let Some(said) = judge(&["-n", "100K"]) else { return };
    assert_eq!(said.code, Some(2), "{}", said.stderr);
    let errors = said.stderr.lines().filter(|line| line.starts_with("error: ")).count();
    assert!(errors == 1 && said.stderr.contains("takes 3 s"), "{}", said.stderr);
}
