//! Commands on a link between namespaces of their own, for somebody who is not root.

use std::collections::BTreeSet;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};

use fullpipe_testkit::until;

use crate::common::{
    Running, anybodys, as_nobody, captured, counts, fullpipe, run, sha256, text, write_file,
};
use crate::link::{CAPACITY, figure, json, seconds, sleepers};

fullpipe_testkit::tests! {
    [UnprivilegedTun]
        a_server_that_does_not_listen_is_told_with_its_output,
        clean_ends_what_a_killed_run_without_root_left;
    long [UnprivilegedTun] a_client_can_become_somebody_else_at_given_times;
    long [UnprivilegedTun, Ipv6] a_client_over_ipv6_can_become_somebody_else_at_given_times;
    long timed [UnprivilegedTun, Iperf3] without_root_both_ends_are_inside;
}

/// A server and a client on a path.
fn with_server(dir: &Path, server: &str, line: &str, command: &[&str]) -> Command {
    let mut made = Command::new(anybodys(dir));
    let line = line.split_whitespace();
    made.arg("link").args(line).args(["--server", server, "--"]).args(command);
    made.current_dir("/").stdin(Stdio::null());
    as_nobody(made)
}

fn without_root_both_ends_are_inside() {
    let dir = tempfile::tempdir().expect("a directory");
    for direction in [&["-R"][..], &[]] {
        let command = [&["iperf3", "-c", "{host}", "-t", "4"][..], direction].concat();
        let line = "--rate 20mbit --rtt 40ms --buffer 2bdp --json";
        let result = json(&run(with_server(dir.path(), "iperf3 -s", line, &command)));
        counts(&result["emulator"]);
        let way = if direction.is_empty() { "up" } else { "down" };
        let middle = figure(&result[way]["metrics"]["goodput_mbps.middle"]);
        assert!((0.5 * CAPACITY..1.005 * CAPACITY).contains(&middle), "{middle} of {CAPACITY}");
        assert_eq!(result["server"]["command"], "iperf3 -s");
        assert!(result["server"]["ended"].is_null(), "{result}");
    }
}

fn a_server_that_does_not_listen_is_told_with_its_output() {
    let dir = tempfile::tempdir().expect("a directory");
    for (server, parts) in [
        ("echo no such port >&2; exit 3", &["ended with exit code 3", "no such port"][..]),
        ("/no/such/server", &["/no/such/server", "not found"]),
    ] {
        let said = run(with_server(dir.path(), server, "--rtt 1ms --quiet", &["true"]));
        assert_eq!(said.code, Some(2), "{}", said.stderr);
        assert_eq!(said.stderr.lines().count(), 1, "{}", said.stderr);
        for part in parts {
            assert!(said.stderr.contains(part), "{server} should tell {part}: {}", said.stderr);
        }
    }
}

/// A process without a name in /run/fullpipe is found by a variable in its environment.
fn clean_ends_what_a_killed_run_without_root_left() {
    let dir = tempfile::tempdir().expect("a directory");
    let seconds = &seconds(1);
    let script = format!("setsid sleep {seconds} & sleep {seconds}");
    let server =
        format!("cd {} && exec ./fullpipe serve . --listen 0.0.0.0:4433", text(dir.path()));
    let mut link = with_server(dir.path(), &server, "--rtt 1ms", &["sh", "-c", &script]);
    link.stdout(Stdio::null()).stderr(Stdio::null());
    let mut killed = Running(link.spawn().expect("the command starts"));
    until("two sleepers", || sleepers(seconds) == 2);
    killed.0.kill().expect("it runs");
    killed.end();
    assert_eq!(sleepers(seconds), 2);
    let said = run(fullpipe(Path::new("/"), &["clean"]));
    assert_eq!(said.code, Some(0), "{}", said.stderr);
    assert_eq!(sleepers(seconds), 0);
}

fn a_client_can_become_somebody_else_at_given_times() {
    becomes_somebody_else("{host}", "0.0.0.0:4433", 4);
}

fn a_client_over_ipv6_can_become_somebody_else_at_given_times() {
    becomes_somebody_else("[{host6}]", "[::]:4433", 6);
}

/// QUIC goes on when the client has another port and then another address.
fn becomes_somebody_else(host: &str, listen: &str, version: u8) {
    let dir = tempfile::tempdir().expect("a directory");
    write_file(&dir.path().join("a"), 3_000_000);
    let serve = format!("cd {} && ./fullpipe serve . --listen {listen}", text(dir.path()));
    let out = tempfile::tempdir().expect("a directory");
    std::fs::set_permissions(out.path(), PermissionsExt::from_mode(0o777)).expect("a mode");
    let (got, pcap) = (out.path().join("got"), out.path().join("packets.pcapng"));
    let own = dir.path().join("fullpipe");
    let url = format!("https://{host}:4433/a");
    let get = [text(&own), "get", &url, "--insecure", "-o", text(&got)];
    let line = format!(
        "--rate 10mbit --rtt 20ms --rebind 700ms --rebind-address 1400ms --json --pcap {}",
        text(&pcap)
    );
    let said = run(with_server(dir.path(), &serve, &line, &get));
    let result = json(&said);
    assert_eq!(sha256(&got), sha256(&dir.path().join("a")), "{}", said.stderr);
    assert!(figure(&result["elapsed_s"]) > 2.0, "both times came: {result}");
    let (source, ports) = if version == 4 { (12..16, 20) } else { (8..24, 40) };
    let mut from = BTreeSet::new();
    for (_, _, data) in captured(&pcap).iter().filter(|(end, ..)| *end == 1) {
        assert_eq!(data[0] >> 4, version);
        if data[ports + 2..ports + 4] == 4433_u16.to_be_bytes() {
            from.insert((data[source.clone()].to_vec(), data[ports..ports + 2].to_vec()));
        }
    }
    let addresses: BTreeSet<_> = from.iter().map(|(ip, _)| ip).collect();
    assert_eq!((from.len(), addresses.len()), (3, 2), "{from:?}");
}
