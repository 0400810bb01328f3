//! Verdicts on programs whose defects are known.

use std::fs::File;
use std::io::Read;
use std::net::UdpSocket;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use fullpipe_testkit::{line_of, skip};

use crate::common::{Running, Said, fullpipe, run, text};

fullpipe_testkit::tests! {
    [Root, Tun] a_server_that_is_none_is_bad_input;
    long [Root, Tun, Iperf3]
        what_transfers_too_little_is_refused_in_one_line,
        a_path_of_the_options_is_judged_alone,
        ctrl_c_keeps_what_was_judged;
    // Beside other programs its rate wavers, and the rule that finds its defect is not the same in
    // both runs.
    long timed [] a_capture_tells_what_quic_go_is;
    long timed [Root, Tun, Iperf3]
        a_capture_tells_the_kernels_bbr_and_cubic_apart,
        a_window_that_never_grows_is_broken_and_a_baseline_of_it_is_met;
}

const IPERF3: [&str; 5] = ["--server", "iperf3 -s -p {port}", "--", "iperf3", "-c"];

/// Judges `iperf3 -c` with these arguments, quickly.
fn judge(options: &[&str], arguments: &[&str]) -> Said {
    let all = [&["judge", "--quick"], options, &IPERF3, &["{host}", "-p", "{port}"], arguments];
    run(fullpipe(Path::new("/"), &all.concat()))
}

/// A window of 8 kB is a sixth of the path's.
fn a_window_that_never_grows_is_broken_and_a_baseline_of_it_is_met() {
    if std::env::var_os("JUDGE_SEEDS").is_none() {
        skip("it takes two minutes: JUDGE_SEEDS=20 runs it");
    }
    let said = judge(&["--json"], &["-t", "100", "-w", "8K"]);
    assert_eq!(said.code, Some(1), "{}", said.stderr);
    let object: serde_json::Value =
        serde_json::from_slice(&said.stdout).unwrap_or_else(|e| panic!("{e}: {}", said.stderr));
    let checks = object["checks"].as_array().expect("checks");
    let fills = checks.iter().find(|c| c["check"] == "fills the path").expect("the check");
    assert_eq!(fills["grade"], "broken", "{fills}");
    let dir = tempfile::tempdir().expect("a directory");
    let (before, cases) = (dir.path().join("before.json"), dir.path().join("cases.xml"));
    std::fs::write(&before, &said.stdout).expect("written");
    let [before, cases] = [before, cases].map(|p| p.to_str().expect("UTF-8").to_owned());
    let options = ["--baseline", &before, "--junit", &cases];
    let again = judge(&options, &["-t", "100", "-w", "8K"]);
    assert_eq!(again.code, Some(0), "as bad as before: {}", again.stderr);
    let cases = std::fs::read_to_string(cases).expect("test cases");
    assert!(cases.contains("<failure"), "{cases}");
}

fn what_transfers_too_little_is_refused_in_one_line() {
    let said = judge(&[], &["-n", "100K"]);
    assert_eq!(said.code, Some(2), "{}", said.stderr);
    let errors = said.stderr.lines().filter(|line| line.starts_with("error: ")).count();
    assert!(errors == 1 && said.stderr.contains("a verdict takes"), "{}", said.stderr);
}

/// A window of 8 kB is a sixth of that path's, on which the kernel's own fill it.
fn a_path_of_the_options_is_judged_alone() {
    let path = ["--rate", "10mbit", "--jitter", "1ms,normal", "--duration", "6s", "--json"];
    let command = ["{host}", "-p", "{port}", "-t", "60", "-w", "8K"];
    let all = [&["judge"], &path[..], &IPERF3, &command].concat();
    let said = run(fullpipe(Path::new("/"), &all));
    assert_eq!(said.code, Some(1), "{}", said.stderr);
    let object: serde_json::Value =
        serde_json::from_slice(&said.stdout).unwrap_or_else(|e| panic!("{e}: {}", said.stderr));
    let checks = object["checks"].as_array().expect("checks");
    assert!(checks.iter().all(|c| c["course"] == "your path"), "{checks:?}");
    assert_eq!(
        (&checks[0]["check"], &checks[0]["grade"]),
        (&"fills your path".into(), &"broken".into())
    );
    assert_eq!(object["runs"].as_array().map(Vec::len), Some(1));
    let rows = object["runs"][0]["series"].as_array().expect("rows");
    let capacity = |row: &serde_json::Value| row["capacity_mbps"][0].as_f64().expect("a rate");
    assert!(rows.iter().all(|row| (capacity(row) - 10.0).abs() < 0.01), "{rows:?}");
}

fn ctrl_c_keeps_what_was_judged() {
    let all = [&["judge"], &IPERF3[..], &["{host}", "-p", "{port}", "-t", "100"]].concat();
    let mut command = fullpipe(Path::new("/"), &all);
    let dir = tempfile::tempdir().expect("a directory");
    let log = dir.path().join("log");
    command.stdout(Stdio::piped()).stderr(File::create(&log).expect("a file"));
    let mut running = Running(command.spawn().expect("it starts"));
    // The first path is judged.
    line_of(&log, "judge: 2 of ");
    running.interrupt();
    assert_eq!(running.end().code(), Some(130));
    let mut table = String::new();
    running.0.stdout.take().expect("a pipe").read_to_string(&mut table).expect("text");
    assert!(table.contains("fills the path") && table.contains("looks like"), "{table}");
    line_of(&log, "so far");
}

fn a_server_that_is_none_is_bad_input() {
    let said = run(fullpipe(Path::new("/"), &["judge", "--server", "exit 3", "--", "true"]));
    assert_eq!(said.code, Some(2), "{}", said.stderr);
    assert!(said.stderr.contains("before it listened"), "{}", said.stderr);
}

/// Random loss is congestion to one of them: four seconds of each over a path that the story is not
/// told.
fn a_capture_tells_the_kernels_bbr_and_cubic_apart() {
    let available = std::fs::read_to_string("/proc/sys/net/ipv4/tcp_available_congestion_control");
    let available = available.unwrap_or_default();
    let dir = tempfile::tempdir().expect("a directory");
    let mut told = 0;
    for (cc, kind) in [("bbr", "bbr_like"), ("cubic", "loss_based")] {
        if !available.split_whitespace().any(|name| name == cc) {
            continue;
        }
        let file = dir.path().join(format!("{cc}.pcapng"));
        let file = file.to_str().expect("UTF-8");
        let path = ["--rate", "20mbit", "--rtt", "40ms", "--buffer", "2bdp", "--loss", "1%"];
        let server = ["--server", "iperf3 -s -1 -p 5201", "--pcap", file, "--quiet", "--"];
        let client = ["iperf3", "-c", "{host}", "-p", "5201", "-t", "4", "-C", cc];
        let all = [&["link"], &path[..], &server, &client].concat();
        let said = run(fullpipe(Path::new("/"), &all));
        assert_eq!(said.code, Some(0), "{}", said.stderr);
        let said = run(fullpipe(Path::new("/"), &["judge", "--json", "--pcap", file]));
        assert_eq!(said.code, Some(0), "{}", said.stderr);
        let object: serde_json::Value = serde_json::from_slice(&said.stdout).expect("JSON");
        assert_eq!(object["place"], "sender", "{object}");
        let found = object["looks"]["kind"].as_object().and_then(|kind| kind.keys().next());
        assert_eq!(found.map(String::as_str), Some(kind), "{}", object["because"]);
        told += 1;
    }
    if told == 0 {
        skip("the kernel has neither bbr nor cubic");
    }
}

/// Eight seconds of its Reno, through a relay and with the client's secrets.
fn a_capture_tells_what_quic_go_is() {
    let cache = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
    let cache = cache.or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".cache")));
    let peer = cache.unwrap_or_default().join("fullpipe/peers/quic-go/peer");
    if !peer.exists() {
        skip("quic-go is not installed: fullpipe peers install quic-go");
    }
    let dir = tempfile::tempdir().expect("a directory");
    let free = UdpSocket::bind("127.0.0.1:0").and_then(|socket| socket.local_addr());
    let address = free.expect("a port").to_string();
    let server = Command::new(&peer).args(["server", &address]).spawn();
    let server = Running(server.expect("it starts"));
    let relay = format!("0={address}");
    let path = ["--rate", "20mbit", "--rtt", "40ms", "--buffer", "1bdp"];
    let command = ["--quiet", "--", text(&peer), "client", "{host}:{port}", "18000000"];
    let options = ["link", "--udp", &relay, "--pcap", "x.pcapng"];
    let mut link = fullpipe(dir.path(), &[&options[..], &path, &command].concat());
    link.env("SSLKEYLOGFILE", "keys");
    let said = run(link);
    assert_eq!(said.code, Some(0), "{}", said.stderr);
    server.interrupt();
    let judge = ["judge", "--json", "--pcap", "x.pcapng", "--keys", "keys"];
    let said = run(fullpipe(dir.path(), &judge));
    assert_eq!(said.code, Some(0), "{} {}", said.stderr, String::from_utf8_lossy(&said.stdout));
    let object: serde_json::Value = serde_json::from_slice(&said.stdout).expect("JSON");
    let decrease = object["looks"]["kind"]["loss_based"]["decrease"].as_f64();
    assert!(decrease.is_some_and(|d| (0.6..0.8).contains(&d)), "{}", object["because"]);
    // It paces. Its acknowledgements may come too close to each other for that to be seen.
    let unknown = object["cannot_tell"].as_array().expect("a list");
    let is_said = unknown.iter().any(|unknown| unknown["what"] == "pacing");
    assert!(object["looks"]["paced"] == true || is_said, "{object}");
}
