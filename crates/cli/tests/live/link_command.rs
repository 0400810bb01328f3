//! Commands on a link. Most need Linux and root; without them each of these says so.
#![cfg(target_os = "linux")]

mod common;

use std::io::{Read, Write};
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use common::{Running, Said, captured, fullpipe, run, sha256, text, up_to_three_times, write_file};
use nix::sys::signal::{Signal, kill};
use nix::unistd::{Pid, geteuid};

const NOBODY: u32 = 65_534;

/// True if the tests can run here; tells why not.
fn available() -> bool {
    let said = link("--rtt 1ms --quiet", &["true"]);
    let lacking = ["need root", "no /dev/net/tun"].iter().any(|what| said.stderr.contains(what));
    if lacking {
        eprintln!("skipped: {}", said.stderr.trim());
    }
    !lacking
}

/// Sends one packet to this machine, as a part of a script.
const PACKET: &str = "echo > /dev/udp/$FULLPIPE_HOST/9";

/// A server that measures the round trip of one connection, for a script like [`ASKED`].
fn pinger() -> (u16, JoinHandle<Duration>) {
    let listener = TcpListener::bind("0.0.0.0:0").expect("a port");
    let port = listener.local_addr().expect("an address").port();
    let measure = thread::spawn(move || {
        let (mut stream, _) = listener.accept().expect("a connection");
        let begun = Instant::now();
        stream.write_all(b"now\n").expect("it is taken");
        stream.read_exact(&mut [0]).expect("an answer");
        begun.elapsed()
    });
    (port, measure)
}

/// A script that answers a server on a port of this machine.
fn answer(port: u16) -> String {
    format!("exec 3<> /dev/tcp/$FULLPIPE_HOST/{port}; read -u 3 line; echo >&3")
}

fn arguments<'a>(line: &'a str, command: &[&'a str]) -> Vec<&'a str> {
    let line = std::iter::once("link").chain(line.split_whitespace());
    line.chain(["--"]).chain(command.iter().copied()).collect()
}

fn link(line: &str, command: &[&str]) -> Said {
    run(fullpipe(Path::new("/"), &arguments(line, command)))
}

fn json(said: &Said) -> serde_json::Value {
    assert_eq!(said.code, Some(0), "{}", said.stderr);
    let object: serde_json::Value = serde_json::from_slice(&said.stdout).expect("one object");
    object["link"].clone()
}

fn figure(value: &serde_json::Value) -> f64 {
    value.as_f64().unwrap_or_else(|| panic!("{value} is no number"))
}

/// What a run of this process number has left.
fn names_of(process: u32) -> Vec<String> {
    let Ok(entries) = std::fs::read_dir("/run/fullpipe") else { return Vec::new() };
    let names = entries.filter_map(|e| Some(e.ok()?.file_name().to_string_lossy().into_owned()));
    names.filter(|name| name.starts_with(&format!("{process}-"))).collect()
}

/// Processes that sleep for a number of seconds which nobody else sleeps for.
fn sleepers(seconds: &str) -> usize {
    let entries = std::fs::read_dir("/proc").expect("processes").flatten();
    let lines = entries.filter_map(|e| std::fs::read(e.path().join("cmdline")).ok());
    lines.filter(|line| *line == format!("sleep\0{seconds}\0").into_bytes()).count()
}

fn wait_until(what: &str, is_so: impl Fn() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < Duration::from_secs(10), "{what}");
        thread::sleep(Duration::from_millis(10));
    }
}

/// What a server on this machine received and when, from the second on at which it is in full swing.
struct Served {
    port: u16,
    mbps: JoinHandle<f64>,
}

/// A server that reads, and measures between two times after its first byte.
fn reader(from: Duration, to: Duration) -> Served {
    let listener = TcpListener::bind("0.0.0.0:0").expect("a port");
    let port = listener.local_addr().expect("an address").port();
    let mbps = thread::spawn(move || {
        let (mut stream, _) = listener.accept().expect("a connection");
        let mut buffer = vec![0; 1 << 16];
        let (mut begun, mut marks, mut bytes) = (None, Vec::new(), 0);
        loop {
            let read = stream.read(&mut buffer).expect("the connection holds");
            let now = begun.get_or_insert_with(Instant::now).elapsed();
            bytes += read;
            marks.push((now, bytes));
            if read == 0 {
                break;
            }
        }
        let at = |time: Duration| {
            let mark = marks.iter().find(|(now, _)| *now >= time);
            *mark.unwrap_or_else(|| panic!("it ended before {time:?}"))
        };
        let (a, b) = (at(from), at(to));
        (b.1 - a.1) as f64 * 8e-6 / (b.0 - a.0).as_secs_f64()
    });
    Served { port, mbps }
}

/// What a link of 20 Mbit/s carries of TCP's data in packets of 1500 bytes: 52 are headers with a time stamp.
const CAPACITY: f64 = 20.0 * 1448.0 / 1500.0;

#[test]
fn a_transfer_from_the_command_has_what_the_path_carries() {
    if !available() {
        return;
    }
    up_to_three_times(|| {
        let server = reader(Duration::from_secs(2), Duration::from_secs(6));
        let script =
            format!("head -c 17000000 /dev/zero > /dev/tcp/$FULLPIPE_HOST/{}", server.port);
        let said = link("--rate 20mbit --rtt 60ms --buffer 2bdp --json", &["bash", "-c", &script]);
        let result = json(&said);
        let mbps = server.mbps.join().expect("it measured");
        assert!((mbps / CAPACITY - 1.0).abs() < 0.01, "{mbps} of {CAPACITY}");
        let up = &result["up"];
        // What was delivered is what was sent, but for what TCP sent twice.
        let payload = figure(&up["payload_bytes"]);
        assert!((17e6..17.4e6).contains(&payload), "{up}");
        let goodput = figure(&up["metrics"]["goodput_mbps"]);
        assert!(goodput < CAPACITY * 1.001 && goodput > 0.9 * CAPACITY, "{goodput} of {CAPACITY}");
        assert!(figure(&up["metrics"]["queue_ms.max"]) <= 120.0, "two BDP are 120 ms: {up}");
        assert_eq!(figure(&result["down"]["payload_bytes"]), 0.0);
        assert_eq!((&result["ended"]["code"], figure(&result["rtt_ms"])), (&0.into(), 60.0));
    });
}

#[test]
fn a_transfer_to_the_command_has_what_the_path_carries() {
    if !available() {
        return;
    }
    up_to_three_times(|| {
        let listener = TcpListener::bind("0.0.0.0:0").expect("a port");
        let port = listener.local_addr().expect("an address").port();
        let sender = thread::spawn(move || {
            let (mut stream, _) = listener.accept().expect("a connection");
            stream.write_all(&vec![7; 17_000_000]).expect("it is taken");
        });
        let script = format!("cat < /dev/tcp/$FULLPIPE_HOST/{port} | wc -c >&2");
        let said = link("--rate 20mbit --rtt 60ms --buffer 2bdp --json", &["bash", "-c", &script]);
        sender.join().expect("all was sent");
        let result = json(&said);
        assert!(said.stderr.contains("17000000"), "{}", said.stderr);
        let goodput = figure(&result["down"]["metrics"]["goodput_mbps"]);
        assert!(goodput < CAPACITY * 1.001 && goodput > 0.9 * CAPACITY, "{goodput} of {CAPACITY}");
    });
}

#[test]
fn iperf3_works_as_a_user_types_it() {
    if !available() {
        return;
    }
    up_to_three_times(|| {
        let port =
            TcpListener::bind("0.0.0.0:0").and_then(|l| l.local_addr()).expect("a port").port();
        let port = port.to_string();
        let server =
            Command::new("iperf3").args(["-s", "-1", "-p", &port]).stdout(Stdio::null()).spawn();
        let Ok(server) = server else {
            eprintln!("skipped: there is no iperf3 here");
            return;
        };
        let _server = Running(server);
        thread::sleep(Duration::from_millis(300));
        let said = link(
            "--rate 20mbit --rtt 20ms --json",
            &["iperf3", "-c", "{host}", "-p", &port, "-t", "3", "-R"],
        );
        let result = json(&said);
        assert!(said.stderr.contains("iperf Done"), "{}", said.stderr);
        let goodput = figure(&result["down"]["metrics"]["goodput_mbps"]);
        assert!((15.0..CAPACITY * 1.001).contains(&goodput), "{goodput}");
        assert_ne!(result["command"][2], "{host}");
    });
}

#[test]
fn a_page_shows_the_run() {
    if !available() {
        return;
    }
    let dir = tempfile::tempdir().expect("a directory");
    let page = dir.path().join("page.html");
    let line = format!("--rtt 1ms --quiet --report {}", text(&page));
    let script = format!("{PACKET}; sleep 0.5");
    let said = link(&line, &["bash", "-c", &script]);
    assert_eq!(said.code, Some(0), "{}", said.stderr);
    let html = std::fs::read_to_string(&page).expect("a page");
    for part in ["<svg", "Queueing delay", "from the command", "exit code 0", "sleep 0.5"] {
        assert!(html.contains(part), "{part}");
    }
    let own = std::fs::read(&page).expect("a page");
    assert_eq!(link(&line, &["bash", "-c", &script]).code, Some(0), "its own page is replaced");
    assert!(!own.is_empty());
    std::fs::write(&page, "somebody's own").expect("a file");
    let said = link(&line, &["true"]);
    assert_eq!((said.code, said.stderr.lines().count()), (Some(2), 1), "{}", said.stderr);
    assert_eq!(std::fs::read_to_string(&page).expect("a file"), "somebody's own");
}

#[test]
fn stdout_is_the_commands_and_the_table_is_on_stderr() {
    if !available() {
        return;
    }
    up_to_three_times(|| {
        let (port, round_trip) = pinger();
        let script = format!("{}; echo it", answer(port));
        let said = link("--rate 10mbit --rtt 20ms", &["bash", "-c", &script]);
        assert_eq!((said.code, said.stdout.as_slice()), (Some(0), &b"it\n"[..]), "{}", said.stderr);
        let round_trip = round_trip.join().expect("it measured").as_secs_f64();
        assert!((0.02..0.03).contains(&round_trip), "{round_trip} s");
        for part in ["this machine is 198.1", "goodput", "direction", "late at p99"] {
            assert!(said.stderr.contains(part), "{part}: {}", said.stderr);
        }
        let said = link("--rtt 1ms --quiet", &["bash", "-c", PACKET]);
        assert_eq!((said.code, said.stderr.as_str()), (Some(0), ""));
    });
}

#[test]
fn the_exit_code_is_the_commands() {
    if !available() {
        return;
    }
    let script = |end: &str| format!("{PACKET}; {end}");
    for (end, code, word) in
        [("exit 7", 7, "exit code 7"), ("kill -9 $$", 137, "signal 9"), ("true", 0, "exit code 0")]
    {
        let said = link("--rtt 1ms", &["bash", "-c", &script(end)]);
        assert_eq!(said.code, Some(code), "{}", said.stderr);
        assert!(said.stderr.contains(word), "{}", said.stderr);
    }
}

#[test]
fn commands_that_do_not_run_get_one_line_and_code_2() {
    if !available() {
        return;
    }
    for (command, parts) in [
        (&["no-such-program"][..], &["no-such-program", "No such file"][..]),
        (&["/etc/passwd"], &["/etc/passwd", "Permission denied"]),
        (&["iperf3 -c {host}"], &["'iperf3 -c 198.1", "words of their own"]),
        (&["false"], &["'false' ended with exit code 1", "before it sent", "{host}"]),
        (&["sh", "-c", "echo wrong option >&2; exit 3"], &["wrong option", "exit code 3"]),
    ] {
        let said = link("--rtt 1ms --quiet", command);
        assert_eq!(said.code, Some(2), "{command:?}: {}", said.stderr);
        let errors = said.stderr.lines().filter(|line| line.starts_with("error: ")).count();
        assert_eq!(errors, 1, "{command:?}: {}", said.stderr);
        for part in parts {
            assert!(said.stderr.contains(part), "{command:?} should tell {part}: {}", said.stderr);
        }
    }
}

#[test]
fn bad_paths_are_refused_before_anything_starts() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = "path = { rate = \"10mbit\", rtt = \"20ms\" }\n";
    let file = |name: &str, text: &str| {
        std::fs::write(dir.path().join(name), format!("cc = \"reno\"\n{text}")).expect("a file");
    };
    file("grid.toml", "path = { rate = [\"1mbit\", \"2mbit\"], rtt = \"20ms\" }\n");
    file("cross.toml", &format!("{path}[[cross]]\nrate = \"1mbit\"\nstart = \"0s\"\n"));
    file("good.toml", path);
    for (line, parts) in [
        ("--rate 20", &["--rate", "mbit"][..]),
        ("--rate 10mbit --buffer 10", &["--buffer"]),
        ("--rate 1kbit --rtt 1ms --buffer 1bdp", &["--buffer"]),
        ("--scenario none.toml", &["none.toml", "No such file"]),
        ("--scenario grid.toml", &["grid.toml", "2 paths", "one value"]),
        ("--scenario cross.toml --reverse", &["cross.toml", "[[cross]]"]),
        ("--scenario good.toml --rate 1mbit", &["--scenario", "--rate"]),
        ("--reverse", &["--scenario"]),
        ("--rate 1mbit iperf3 -c host", &["behind --"]),
        ("--server true --udp 0=127.0.0.1:9", &["--server", "--udp"]),
    ] {
        let said = run(fullpipe(dir.path(), &arguments(line, &["true"])));
        assert_eq!(said.code, Some(2), "{line}: {}", said.stderr);
        assert_eq!(said.stderr.lines().count(), 1, "{line}: {}", said.stderr);
        for part in parts {
            assert!(said.stderr.contains(part), "{line} should tell {part}: {}", said.stderr);
        }
    }
    let said = run(fullpipe(dir.path(), &["link", "--rate", "1mbit"]));
    assert_eq!(said.code, Some(2), "{}", said.stderr);
    assert!(said.stderr.contains("COMMAND"), "{}", said.stderr);
}

#[test]
fn without_root_one_line_says_what_is_needed() {
    let mut command = fullpipe(Path::new("/"), &arguments("--rate 1mbit", &["true"]));
    if geteuid().is_root() {
        command.uid(NOBODY).gid(NOBODY);
    }
    let said = run(command);
    assert_eq!(said.code, Some(2), "{}", said.stderr);
    assert_eq!(said.stderr.lines().count(), 1, "{}", said.stderr);
    for part in ["needs root", "sudo", "--server", "--udp"] {
        assert!(said.stderr.contains(part), "{part}: {}", said.stderr);
    }
}

/// A server and a client on a path, as somebody who is not root where the test is root.
fn with_server(dir: &Path, server: &str, line: &str, command: &[&str]) -> Command {
    let own = dir.join("fullpipe");
    if !own.exists() {
        std::fs::set_permissions(dir, PermissionsExt::from_mode(0o755)).expect("a mode");
        std::fs::copy(env!("CARGO_BIN_EXE_fullpipe"), &own).expect("a copy");
    }
    let mut made = Command::new(own);
    let line = line.split_whitespace();
    made.arg("link").args(line).args(["--server", server, "--"]).args(command);
    made.current_dir("/").stdin(Stdio::null());
    if geteuid().is_root() {
        made.uid(NOBODY).gid(NOBODY);
    }
    made
}

/// True if the kernel lets others than root make namespaces; tells why not.
fn unprivileged(dir: &Path) -> bool {
    let said = run(with_server(dir, "exec iperf3 -s", "--rtt 1ms --quiet", &["true"]));
    let lacking = [
        "user namespaces are off",
        "no /dev/net/tun",
        "may not open /dev/net/tun",
        "iperf3: not found",
    ];
    let skipped = lacking.iter().any(|what| said.stderr.contains(what));
    if skipped {
        eprintln!("skipped: {}", said.stderr.trim());
    }
    !skipped
}

#[test]
fn without_root_both_ends_are_inside() {
    let dir = tempfile::tempdir().expect("a directory");
    if !unprivileged(dir.path()) {
        return;
    }
    for direction in [&["-R"][..], &[]] {
        let command = [&["iperf3", "-c", "{host}", "-t", "4"][..], direction].concat();
        let line = "--rate 20mbit --rtt 40ms --buffer 2bdp --json";
        let result = json(&run(with_server(dir.path(), "iperf3 -s", line, &command)));
        let way = if direction.is_empty() { "up" } else { "down" };
        let middle = figure(&result[way]["metrics"]["goodput_mbps.middle"]);
        // A busy machine may cost it something; more than there is nobody has.
        assert!((0.5 * CAPACITY..1.005 * CAPACITY).contains(&middle), "{middle} of {CAPACITY}");
        assert_eq!(result["server"]["command"], "iperf3 -s");
        assert!(result["server"]["ended"].is_null(), "{result}");
    }
}

#[test]
fn a_server_that_does_not_listen_is_told_with_its_output() {
    let dir = tempfile::tempdir().expect("a directory");
    if !unprivileged(dir.path()) {
        return;
    }
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

/// What has no name in /run/fullpipe is found by what stands in its environment.
#[test]
fn clean_ends_what_a_killed_run_without_root_left() {
    let dir = tempfile::tempdir().expect("a directory");
    if !unprivileged(dir.path()) {
        return;
    }
    let script = "setsid sleep 31.45 & sleep 31.45";
    let mut link = with_server(dir.path(), "exec iperf3 -s", "--rtt 1ms", &["sh", "-c", script]);
    link.stdout(Stdio::null()).stderr(Stdio::null());
    let mut killed = Running(link.spawn().expect("the command starts"));
    wait_until("two sleepers", || sleepers("31.45") == 2);
    killed.0.kill().expect("it runs");
    killed.end();
    assert_eq!(sleepers("31.45"), 2);
    let said = run(fullpipe(Path::new("/"), &["clean"]));
    assert_eq!(said.code, Some(0), "{}", said.stderr);
    assert_eq!(sleepers("31.45"), 0);
}

#[test]
fn a_command_that_nobody_answers_fails_with_code_2() {
    if !available() {
        return;
    }
    // Nobody listens on a port that was just free.
    let port = TcpListener::bind("0.0.0.0:0").and_then(|l| l.local_addr()).expect("a port").port();
    let refused = format!("exec 3<> /dev/tcp/$FULLPIPE_HOST/{port}");
    let said = link("--rtt 1ms --quiet", &["bash", "-c", &refused]);
    assert_eq!(said.code, Some(2), "{}", said.stderr);
    for part in ["nobody answered", "{host}", "all addresses", "Connection refused"] {
        assert!(said.stderr.contains(part), "{part}: {}", said.stderr);
    }
}

/// A command with a process that leaves its group and one that does not care for SIGTERM.
fn under_way(seconds: &str) -> Running {
    let script = format!(
        "{PACKET}; setsid sleep {seconds} & (trap '' TERM; sleep {seconds}) & sleep {seconds}"
    );
    let mut command =
        fullpipe(Path::new("/"), &arguments("--rtt 2ms --json", &["bash", "-c", &script]));
    command.stdout(Stdio::piped()).stderr(Stdio::null());
    let process = Running(command.spawn().expect("the command starts"));
    wait_until("three sleepers", || sleepers(seconds) == 3);
    process
}

#[test]
fn ctrl_c_and_sigterm_keep_the_results_and_leave_nothing() {
    if !available() {
        return;
    }
    for (signal, seconds) in [(Signal::SIGINT, "31.41"), (Signal::SIGTERM, "31.42")] {
        let mut process = under_way(seconds);
        let number = process.0.id();
        assert_eq!(names_of(number).len(), 1);
        kill(Pid::from_raw(number.cast_signed()), signal).expect("it runs");
        assert_eq!(process.end().code(), Some(130));
        let mut text = String::new();
        process.0.stdout.take().expect("a pipe").read_to_string(&mut text).expect("text");
        let object: serde_json::Value = serde_json::from_str(&text).expect("one object");
        assert_eq!(object["link"]["interrupted"], true);
        assert_eq!(object["link"]["up"]["sent_packets"], 1, "{text}");
        assert_eq!((names_of(number), sleepers(seconds)), (Vec::new(), 0), "{signal}");
    }
}

#[test]
fn clean_removes_what_a_killed_run_left_and_no_living_runs() {
    if !available() {
        return;
    }
    let (living, mut killed) = (under_way("31.43"), under_way("31.44"));
    killed.0.kill().expect("it runs");
    killed.end();
    let number = killed.0.id();
    assert_eq!((names_of(number).len(), sleepers("31.44")), (1, 3));
    let said = run(fullpipe(Path::new("/"), &["clean"]));
    assert_eq!(said.code, Some(0), "{}", said.stderr);
    assert!(String::from_utf8_lossy(&said.stdout).contains("killed what still ran"));
    assert_eq!((names_of(number).len(), sleepers("31.44")), (0, 0));
    assert_eq!((names_of(living.0.id()).len(), sleepers("31.43")), (1, 3));
    living.interrupt();
    let mut living = living;
    living.end();
    assert_eq!(sleepers("31.43"), 0);
}

#[test]
fn two_at_once_do_not_interfere() {
    if !available() {
        return;
    }
    up_to_three_times(|| {
        let transfer = |rate: &'static str, bytes: usize, port: u16| {
            thread::spawn(move || {
                let script = format!("head -c {bytes} /dev/zero > /dev/tcp/$FULLPIPE_HOST/{port}");
                let line = format!("--rate {rate} --rtt 20ms --buffer 2bdp --json");
                json(&link(&line, &["bash", "-c", &script]))
            })
        };
        let window = (Duration::from_secs(1), Duration::from_secs(3));
        let servers = [reader(window.0, window.1), reader(window.0, window.1)];
        let ports = [servers[0].port, servers[1].port];
        let runs =
            [transfer("20mbit", 9_000_000, ports[0]), transfer("5mbit", 2_400_000, ports[1])];
        for ((run, server), rate) in runs.into_iter().zip(servers).zip([20.0, 5.0]) {
            let result = run.join().expect("it ran");
            let capacity = CAPACITY * rate / 20.0;
            let mbps = server.mbps.join().expect("it measured");
            assert!((mbps / capacity - 1.0).abs() < 0.02, "{mbps} of {capacity}");
            assert_eq!(result["up"]["rate_mbps"], rate);
        }
    });
}

#[test]
fn a_link_inside_a_link_has_both_paths() {
    if !available() {
        return;
    }
    up_to_three_times(|| {
        let own = env!("CARGO_BIN_EXE_fullpipe");
        let (port, round_trip) = pinger();
        let script = answer(port);
        let inner = [own, "link", "--rtt", "30ms", "--json", "--", "bash", "-c", &script];
        let said = link("--rtt 50ms --quiet", &inner);
        let result = json(&said);
        let round_trip = round_trip.join().expect("it measured").as_secs_f64();
        assert!((0.08..0.095).contains(&round_trip), "{round_trip} s");
        assert!(figure(&result["up"]["sent_packets"]) >= 3.0, "{result}");
    });
}

#[test]
fn a_capture_has_each_packet_at_both_ends() {
    if !available() {
        return;
    }
    up_to_three_times(|| {
        let dir = tempfile::tempdir().expect("a directory");
        let file = dir.path().join("packets.pcapng");
        let (port, round_trip) = pinger();
        let line = format!("--rtt 40ms --json --pcap {}", text(&file));
        let before = std::time::SystemTime::now();
        let result = json(&link(&line, &["bash", "-c", &answer(port)]));
        round_trip.join().expect("it measured");
        let packets = captured(&file);
        assert_eq!(result["pcap"]["written"], packets.len());
        let sent = figure(&result["up"]["sent_packets"]) + figure(&result["down"]["sent_packets"]);
        assert_eq!(packets.len() as f64, 2.0 * sent, "nothing was lost");
        // The first is the SYN, which crosses the path from the client in half a round trip.
        let syn = |end| packets.iter().find(|(interface, ..)| *interface == end).expect("a packet");
        let ((_, sent, data), (_, arrived, same)) = (syn(0), syn(1));
        assert_eq!((data, data[9], data[33]), (same, 6, 2));
        let took = (*arrived - *sent).as_secs_f64();
        assert!((0.02..0.03).contains(&took), "{took}");
        let begun = before.duration_since(std::time::UNIX_EPOCH).expect("now");
        assert!(*sent > begun && *sent < begun + Duration::from_secs(10), "{sent:?}");
        let said = link("--rtt 1ms --quiet --pcap /no/such/file", &["true"]);
        assert_eq!(said.code, Some(2), "{}", said.stderr);
        assert!(said.stderr.contains("/no/such/file") && said.stderr.lines().count() == 1);
    });
}

#[test]
fn cross_traffic_shares_the_way_to_the_command() {
    if !available() {
        return;
    }
    up_to_three_times(|| {
        let dir = tempfile::tempdir().expect("a directory");
        let file = "cc = \"reno\"\npath = { rate = \"10mbit\", rtt = \"20ms\", buffer = \"4bdp\" }\n\
                [[cross]]\nrate = \"5mbit\"\n";
        std::fs::write(dir.path().join("cross.toml"), file).expect("a file");
        let listener = TcpListener::bind("0.0.0.0:0").expect("a port");
        let port = listener.local_addr().expect("an address").port();
        let sender = thread::spawn(move || {
            let (mut stream, _) = listener.accept().expect("a connection");
            stream.write_all(&vec![7; 1_500_000]).expect("it is taken");
        });
        let script = format!("cat < /dev/tcp/$FULLPIPE_HOST/{port} > /dev/null");
        let command = ["link", "--scenario", "cross.toml", "--json", "--", "bash", "-c", &script];
        let result = json(&run(fullpipe(dir.path(), &command)));
        sender.join().expect("all was sent");
        let goodput = figure(&result["down"]["metrics"]["goodput_mbps"]);
        assert!((3.5..5.5).contains(&goodput), "half of 10 Mbit/s: {goodput}");
        assert!(figure(&result["down"]["metrics"]["utilization"]) > 0.85, "{result}");
    });
}

/// The command has the terminal: it reads from it, Ctrl-Z does not strand it, and Ctrl-C ends it.
#[test]
fn a_terminal_is_the_commands() {
    if !available() {
        return;
    }
    let terminal = nix::pty::openpty(None, None).expect("a terminal");
    let script = format!("{PACKET}; read line; echo got $line; sleep 60");
    let line = arguments("--rtt 2ms", &["bash", "-c", &script]);
    let mut command = Command::new("setsid");
    // A run that hears no key must not hold the terminal for ever.
    command.args(["--ctty", "--wait", "timeout", "--foreground", "20"]);
    command.arg(env!("CARGO_BIN_EXE_fullpipe")).args(line);
    let slave = || Stdio::from(terminal.slave.try_clone().expect("a handle"));
    command.stdin(slave()).stdout(slave()).stderr(slave());
    let mut running = Running(command.spawn().expect("setsid"));
    drop((command, terminal.slave));
    let mut master = std::fs::File::from(terminal.master);
    let (mut shown, mut buffer) = (String::new(), [0; 4096]);
    let mut keys =
        [("for the command", "hello\n"), ("got hello", "\x1a"), ("^Z", "\x03")].into_iter();
    let mut next = keys.next();
    while let Ok(bytes @ 1..) = master.read(&mut buffer) {
        shown.push_str(&String::from_utf8_lossy(&buffer[..bytes]));
        if let Some((_, key)) = next.filter(|(when, _)| shown.contains(when)) {
            thread::sleep(Duration::from_millis(300));
            master.write_all(key.as_bytes()).expect("it is taken");
            next = keys.next();
        }
    }
    assert_eq!(running.end().code(), Some(130), "{shown}");
    for part in ["got hello", "direction", "interrupted"] {
        assert!(shown.contains(part), "{part}: {shown}");
    }
}

/// QUIC over both families goes on when the client has another port and then another address.
#[test]
fn a_client_can_become_somebody_else_at_given_times() {
    let dir = tempfile::tempdir().expect("a directory");
    if !unprivileged(dir.path()) {
        return;
    }
    write_file(&dir.path().join("a"), 3_000_000);
    let serve =
        |listen: &str| format!("cd {} && ./fullpipe serve . --listen {listen}", text(dir.path()));
    let mut hosts = vec![("{host}", "0.0.0.0:4433", 4, 12..16)];
    if Path::new("/proc/sys/net/ipv6").exists() {
        hosts.push(("[{host6}]", "[::]:4433", 6, 8..24));
    } else {
        eprintln!("skipped in part: this kernel has no IPv6");
    }
    for (host, listen, version, source) in hosts {
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
        let said = run(with_server(dir.path(), &serve(listen), &line, &get));
        let result = json(&said);
        assert_eq!(sha256(&got), sha256(&dir.path().join("a")), "{}", said.stderr);
        assert!(figure(&result["elapsed_s"]) > 2.0, "both times came: {result}");
        let mut from = std::collections::BTreeSet::new();
        for (_, _, data) in captured(&pcap).iter().filter(|(end, ..)| *end == 1) {
            let ports = if version == 4 { 20 } else { 40 };
            assert_eq!(data[0] >> 4, version);
            if data[ports + 2..ports + 4] == 4433_u16.to_be_bytes() {
                from.insert((data[source.clone()].to_vec(), data[ports..ports + 2].to_vec()));
            }
        }
        let addresses: std::collections::BTreeSet<_> = from.iter().map(|(ip, _)| ip).collect();
        assert_eq!((from.len(), addresses.len()), (3, 2), "{from:?}");
    }
}

#[test]
fn a_command_reaches_this_machine_over_ipv6() {
    if !available() || !Path::new("/proc/sys/net/ipv6").exists() {
        eprintln!("skipped: it needs root and a kernel with IPv6");
        return;
    }
    let listener = TcpListener::bind("[::]:0").expect("a port");
    let port = listener.local_addr().expect("an address").port();
    let sender = thread::spawn(move || {
        let (mut stream, _) = listener.accept().expect("a connection");
        stream.write_all(&vec![7; 5_000_000]).expect("it is taken");
    });
    let script = format!("cat < /dev/tcp/{{host6}}/{port} | wc -c >&2");
    let said = link("--rate 20mbit --rtt 40ms --buffer 2bdp --json", &["bash", "-c", &script]);
    let result = json(&said);
    sender.join().expect("all was sent");
    assert!(said.stderr.contains("5000000"), "{}", said.stderr);
    // Of 1500 bytes 72 are headers.
    let capacity = 20.0 * 1428.0 / 1500.0;
    let middle = figure(&result["down"]["metrics"]["goodput_mbps.middle"]);
    assert!((0.2 * capacity..1.005 * capacity).contains(&middle), "{middle} of {capacity}");
}
