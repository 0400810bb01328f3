//! Commands on a link that root makes.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use fullpipe_testkit::{until, until_some};
use nix::sys::signal::Signal;
use socket2::{Domain, Socket, Type};

use crate::common::{Running, captured, counts, fullpipe, run, text};
use crate::link::{CAPACITY, arguments, figure, json, link, names_of, seconds, sleepers};

fullpipe_testkit::tests! {
    [Root, Tun, Bash]
        a_page_shows_the_run,
        the_exit_code_is_the_commands,
        commands_that_do_not_run_get_one_line_and_code_2,
        a_command_that_nobody_answers_fails_with_code_2,
        ctrl_c_and_sigterm_keep_the_results_and_leave_nothing,
        clean_removes_what_a_killed_run_left_and_no_living_runs,
        a_terminal_is_the_commands;
    timed [Root, Tun, Bash]
        stdout_is_the_commands_and_the_table_is_on_stderr,
        a_link_inside_a_link_has_both_paths,
        a_capture_has_each_packet_at_both_ends;
    long timed [Root, Tun, Bash]
        two_at_once_do_not_interfere,
        a_transfer_from_the_command_has_what_the_path_carries,
        a_transfer_to_the_command_has_what_the_path_carries,
        cross_traffic_shares_the_way_to_the_command;
    long timed [Root, Tun, Iperf3] iperf3_works_as_a_user_types_it;
    long timed [Root, Tun, Bash, Ipv6] a_command_reaches_this_machine_over_ipv6;
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

/// The result of a thread; its panic is this test's.
fn joined<T>(thread: JoinHandle<T>) -> T {
    thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

/// A script that answers a server on a port of this machine.
fn answer(port: u16) -> String {
    format!("exec 3<> /dev/tcp/$FULLPIPE_HOST/{port}; read -u 3 line; echo >&3")
}

/// A server on this machine, and the rate at which it received.
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

fn a_transfer_from_the_command_has_what_the_path_carries() {
    let server = reader(Duration::from_secs(2), Duration::from_secs(6));
    let script = format!("head -c 17000000 /dev/zero > /dev/tcp/$FULLPIPE_HOST/{}", server.port);
    let said = link("--rate 20mbit --rtt 60ms --buffer 2bdp --json", &["bash", "-c", &script]);
    let result = json(&said);
    counts(&result["emulator"]);
    let mbps = joined(server.mbps);
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
}

fn a_transfer_to_the_command_has_what_the_path_carries() {
    let listener = TcpListener::bind("0.0.0.0:0").expect("a port");
    let port = listener.local_addr().expect("an address").port();
    let sender = thread::spawn(move || {
        let (mut stream, _) = listener.accept().expect("a connection");
        stream.write_all(&vec![7; 17_000_000]).expect("it is taken");
    });
    let script = format!("cat < /dev/tcp/$FULLPIPE_HOST/{port} | wc -c >&2");
    let said = link("--rate 20mbit --rtt 60ms --buffer 2bdp --json", &["bash", "-c", &script]);
    joined(sender);
    let result = json(&said);
    counts(&result["emulator"]);
    assert!(said.stderr.contains("17000000"), "{}", said.stderr);
    let goodput = figure(&result["down"]["metrics"]["goodput_mbps"]);
    assert!(goodput < CAPACITY * 1.001 && goodput > 0.9 * CAPACITY, "{goodput} of {CAPACITY}");
}

fn iperf3_works_as_a_user_types_it() {
    let server = iperf3_server();
    let port = server.port.to_string();
    let said = link(
        "--rate 20mbit --rtt 20ms --json",
        &["iperf3", "-c", "{host}", "-p", &port, "-t", "3", "-R"],
    );
    let result = json(&said);
    counts(&result["emulator"]);
    assert!(said.stderr.contains("iperf Done"), "{}", said.stderr);
    let goodput = figure(&result["down"]["metrics"]["goodput_mbps"]);
    assert!((15.0..CAPACITY * 1.001).contains(&goodput), "{goodput}");
    assert_ne!(result["command"][2], "{host}");
}

struct Iperf3 {
    _process: Running,
    port: u16,
}

/// A server that listens. It cannot choose a port by itself: another is tried if somebody was
/// faster.
fn iperf3_server() -> Iperf3 {
    until_some("iperf3 has a port", || {
        let free = TcpListener::bind("0.0.0.0:0").and_then(|l| l.local_addr()).expect("a port");
        let port = free.port();
        let mut command = Command::new("iperf3");
        command.args(["-s", "-1", "-p", &port.to_string()]);
        let child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn();
        let mut process = Running(child.expect("the test names Need::Iperf3"));
        let mut has_ended = false;
        until("iperf3 listens", || {
            has_ended = process.0.try_wait().expect("a child").is_some();
            has_ended || listens(port)
        });
        (!has_ended).then_some(Iperf3 { _process: process, port })
    })
}

/// True if somebody listens on a port over TCP. It must not be tried: the server is for one client.
fn listens(port: u16) -> bool {
    let tables = ["/proc/net/tcp", "/proc/net/tcp6"].map(std::fs::read_to_string);
    tables.into_iter().flatten().any(|table| {
        table.lines().any(|line| {
            let mut columns = line.split_whitespace().skip(1);
            let local = columns.next().unwrap_or_default();
            // The state LISTEN.
            local.ends_with(&format!(":{port:04X}")) && columns.nth(1) == Some("0A")
        })
    })
}

fn a_page_shows_the_run() {
    let dir = tempfile::tempdir().expect("a directory");
    let page = dir.path().join("page.html");
    let line = format!("--rtt 1ms --quiet --report {}", text(&page));
    let script = format!("{PACKET}; sleep 0.5");
    let (plots, series) = (dir.path().join("plots"), dir.path().join("series.csv"));
    let pictures = format!("{line} --svg {} --series-csv {}", text(&plots), text(&series));
    let said = link(&pictures, &["bash", "-c", &script]);
    assert_eq!(said.code, Some(0), "{}", said.stderr);
    assert_eq!(crate::common::names(&plots).len(), 1);
    let series = std::fs::read_to_string(&series).expect("the series");
    assert!(series.starts_with("t_s,mbps.down,") && series.lines().count() > 1, "{series}");
    let html = std::fs::read_to_string(&page).expect("a page");
    for part in ["<svg", "Queueing delay", "from the command", "exit code 0", "sleep 0.5"] {
        assert!(html.contains(part), "{part}");
    }
    let own = std::fs::read(&page).expect("a page");
    assert_eq!(link(&line, &["bash", "-c", PACKET]).code, Some(0), "its own page is replaced");
    assert_ne!(std::fs::read(&page).expect("a page"), own);
    std::fs::write(&page, "somebody's own").expect("a file");
    let said = link(&line, &["true"]);
    assert_eq!((said.code, said.stderr.lines().count()), (Some(2), 1), "{}", said.stderr);
    assert_eq!(std::fs::read_to_string(&page).expect("a file"), "somebody's own");
}

fn stdout_is_the_commands_and_the_table_is_on_stderr() {
    let (port, round_trip) = pinger();
    let script = format!("{}; echo it", answer(port));
    let said = link("--rate 10mbit --rtt 20ms", &["bash", "-c", &script]);
    assert_eq!((said.code, said.stdout.as_slice()), (Some(0), &b"it\n"[..]), "{}", said.stderr);
    let round_trip = joined(round_trip).as_secs_f64();
    assert!((0.02..0.03).contains(&round_trip), "{round_trip} s");
    for part in ["this machine is 198.1", "goodput", "direction", "late at p99"] {
        assert!(said.stderr.contains(part), "{part}: {}", said.stderr);
    }
    let said = link("--rtt 1ms --quiet", &["bash", "-c", PACKET]);
    assert_eq!((said.code, said.stderr.as_str()), (Some(0), ""));
}

fn the_exit_code_is_the_commands() {
    let script = |end: &str| format!("{PACKET}; {end}");
    for (end, code, word) in
        [("exit 7", 7, "exit code 7"), ("kill -9 $$", 137, "signal 9"), ("true", 0, "exit code 0")]
    {
        let said = link("--rtt 1ms", &["bash", "-c", &script(end)]);
        assert_eq!(said.code, Some(code), "{}", said.stderr);
        assert!(said.stderr.contains(word), "{}", said.stderr);
    }
}

fn commands_that_do_not_run_get_one_line_and_code_2() {
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

fn a_command_that_nobody_answers_fails_with_code_2() {
    // A port that is taken, and nobody listens.
    let taken = Socket::new(Domain::IPV4, Type::STREAM, None).expect("a socket");
    taken.bind(&SocketAddr::from(([0, 0, 0, 0], 0)).into()).expect("a port");
    let port = taken.local_addr().ok().and_then(|a| a.as_socket()).expect("an address").port();
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
    until("three sleepers", || sleepers(seconds) == 3);
    process
}

fn ctrl_c_and_sigterm_keep_the_results_and_leave_nothing() {
    for (signal, seconds) in [(Signal::SIGINT, &seconds(1)), (Signal::SIGTERM, &seconds(2))] {
        let mut process = under_way(seconds);
        let number = process.0.id();
        assert_eq!(names_of(number).len(), 1);
        process.signal(signal);
        assert_eq!(process.end().code(), Some(130));
        let mut text = String::new();
        process.0.stdout.take().expect("a pipe").read_to_string(&mut text).expect("text");
        let object: serde_json::Value = serde_json::from_str(&text).expect("one object");
        assert_eq!(object["link"]["interrupted"], true);
        assert_eq!(object["link"]["up"]["sent_packets"], 1, "{text}");
        assert_eq!((names_of(number), sleepers(seconds)), (Vec::new(), 0), "{signal}");
    }
}

fn clean_removes_what_a_killed_run_left_and_no_living_runs() {
    let (first, second) = (&seconds(1), &seconds(2));
    let (living, mut killed) = (under_way(first), under_way(second));
    killed.0.kill().expect("it runs");
    killed.end();
    let number = killed.0.id();
    assert_eq!((names_of(number).len(), sleepers(second)), (1, 3));
    let said = run(fullpipe(Path::new("/"), &["clean"]));
    assert_eq!(said.code, Some(0), "{}", said.stderr);
    assert!(String::from_utf8_lossy(&said.stdout).contains("killed what still ran"));
    assert_eq!((names_of(number).len(), sleepers(second)), (0, 0));
    assert_eq!((names_of(living.0.id()).len(), sleepers(first)), (1, 3));
    living.interrupt();
    let mut living = living;
    living.end();
    assert_eq!(sleepers(first), 0);
}

fn two_at_once_do_not_interfere() {
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
    let runs = [transfer("20mbit", 9_000_000, ports[0]), transfer("5mbit", 2_400_000, ports[1])];
    for ((run, server), rate) in runs.into_iter().zip(servers).zip([20.0, 5.0]) {
        let result = joined(run);
        counts(&result["emulator"]);
        let capacity = CAPACITY * rate / 20.0;
        let mbps = joined(server.mbps);
        assert!((mbps / capacity - 1.0).abs() < 0.02, "{mbps} of {capacity}");
        assert_eq!(result["up"]["rate_mbps"], rate);
    }
}

fn a_link_inside_a_link_has_both_paths() {
    let own = env!("CARGO_BIN_EXE_fullpipe");
    let (port, round_trip) = pinger();
    let script = answer(port);
    let inner = [own, "link", "--rtt", "30ms", "--json", "--", "bash", "-c", &script];
    let said = link("--rtt 50ms --quiet", &inner);
    let result = json(&said);
    counts(&result["emulator"]);
    let round_trip = joined(round_trip).as_secs_f64();
    assert!((0.08..0.095).contains(&round_trip), "{round_trip} s");
    assert!(figure(&result["up"]["sent_packets"]) >= 3.0, "{result}");
}

fn a_capture_has_each_packet_at_both_ends() {
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("packets.pcapng");
    let (port, round_trip) = pinger();
    let line = format!("--rtt 40ms --json --pcap {}", text(&file));
    let before = std::time::SystemTime::now();
    let result = json(&link(&line, &["bash", "-c", &answer(port)]));
    counts(&result["emulator"]);
    joined(round_trip);
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
}

fn cross_traffic_shares_the_way_to_the_command() {
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
    counts(&result["emulator"]);
    joined(sender);
    let goodput = figure(&result["down"]["metrics"]["goodput_mbps"]);
    assert!((3.5..5.5).contains(&goodput), "half of 10 Mbit/s: {goodput}");
    assert!(figure(&result["down"]["metrics"]["utilization"]) > 0.85, "{result}");
}

/// The command has the terminal: it reads from it, Ctrl-Z does not strand it, and Ctrl-C ends it.
fn a_terminal_is_the_commands() {
    let terminal = nix::pty::openpty(None, None).expect("a terminal");
    let script = format!("{PACKET}; read line; echo got $line; sleep 60");
    let line = arguments("--rtt 2ms", &["bash", "-c", &script]);
    let mut command = Command::new("setsid");
    // A run that hears no key must not hold the terminal for ever.
    command.args(["--ctty", "--wait", "timeout", "--foreground", "60"]);
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
            // Sleeps: a key is pressed while the command is at work, as by a person.
            thread::sleep(Duration::from_millis(100));
            master.write_all(key.as_bytes()).expect("it is taken");
            next = keys.next();
        }
    }
    assert_eq!(running.end().code(), Some(130), "{shown}");
    for part in ["got hello", "direction", "interrupted"] {
        assert!(shown.contains(part), "{part}: {shown}");
    }
}

fn a_command_reaches_this_machine_over_ipv6() {
    let listener = TcpListener::bind("[::]:0").expect("a port");
    let port = listener.local_addr().expect("an address").port();
    let sender = thread::spawn(move || {
        let (mut stream, _) = listener.accept().expect("a connection");
        stream.write_all(&vec![7; 5_000_000]).expect("it is taken");
    });
    let script = format!("cat < /dev/tcp/{{host6}}/{port} | wc -c >&2");
    let said = link("--rate 20mbit --rtt 40ms --buffer 2bdp --json", &["bash", "-c", &script]);
    let result = json(&said);
    counts(&result["emulator"]);
    joined(sender);
    assert!(said.stderr.contains("5000000"), "{}", said.stderr);
    // Of 1500 bytes 72 are headers.
    let capacity = 20.0 * 1428.0 / 1500.0;
    let middle = figure(&result["down"]["metrics"]["goodput_mbps.middle"]);
    assert!((0.2 * capacity..1.005 * capacity).contains(&middle), "{middle} of {capacity}");
}
