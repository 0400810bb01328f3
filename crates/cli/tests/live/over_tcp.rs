//! The kernel's TCP between two namespaces. Needs Linux and root; without them each test says so.
#![cfg(target_os = "linux")]

mod common;

use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

use common::{Running, Said, fullpipe, run, up_to_three_times};
use nix::sys::signal::{Signal, kill};
use nix::unistd::{Pid, geteuid};

const NOBODY: u32 = 65_534;

/// True if the tests can run here; tells why not.
fn available() -> bool {
    let said = tcp("--cc linux:reno --rate 10mbit --rtt 1ms --buffer 9pkts --bytes 1kB --json");
    let lacking = ["need root", "no /dev/net/tun"].iter().any(|what| said.stderr.contains(what));
    if lacking {
        eprintln!("skipped: {}", said.stderr.trim());
        return false;
    }
    assert_eq!(said.code, Some(0), "{}", said.stderr);
    true
}

fn arguments(line: &str) -> Vec<&str> {
    ["compare", "--over", "tcp"].into_iter().chain(line.split_whitespace()).collect()
}

fn tcp(line: &str) -> Said {
    run(fullpipe(Path::new("/"), &arguments(line)))
}

/// The files that a run of this process number has left.
fn names_of(process: u32) -> Vec<String> {
    let Ok(entries) = std::fs::read_dir("/run/fullpipe") else { return Vec::new() };
    let names = entries.filter_map(|e| Some(e.ok()?.file_name().to_string_lossy().into_owned()));
    names.filter(|name| name.starts_with(&format!("{process}-"))).collect()
}

/// A run that has its namespaces and is under way.
fn under_way() -> Running {
    let line = arguments("--rate 20mbit --rtt 10ms --duration 30s --json");
    let mut command = fullpipe(Path::new("/"), &line);
    let child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn();
    let mut process = Running(child.expect("the command starts"));
    let mut news = String::new();
    let stderr = process.0.stderr.as_mut().expect("a pipe");
    BufReader::new(stderr).read_line(&mut news).expect("a line");
    let begun = Instant::now();
    while names_of(process.0.id()).len() < 2 {
        assert!(begun.elapsed() < Duration::from_secs(10), "no namespaces; it said {news}");
        std::thread::sleep(Duration::from_millis(10));
    }
    std::thread::sleep(Duration::from_millis(300));
    process
}

fn interfaces() -> Vec<String> {
    let table = std::fs::read_to_string("/proc/net/dev").expect("a table");
    table.lines().filter_map(|line| Some(line.split_once(':')?.0.to_owned())).collect()
}

#[test]
fn without_root_one_line_says_what_is_needed() {
    for link in ["", "--link netem "] {
        let line = format!("{link}--cc linux:cubic --duration 1s --json");
        let mut command = fullpipe(Path::new("/"), &arguments(&line));
        if geteuid().is_root() {
            command.uid(NOBODY).gid(NOBODY);
        }
        let said = run(command);
        assert_eq!(said.code, Some(2), "{}", said.stderr);
        assert_eq!(said.stderr.lines().count(), 1, "{}", said.stderr);
        assert!(
            said.stderr.contains("need root") && said.stderr.contains("sudo"),
            "{}",
            said.stderr
        );
        assert!(!said.stderr.contains("write --link"), "{}", said.stderr);
    }
}

#[test]
fn an_algorithm_that_the_kernel_lacks_is_answered_with_those_it_has() {
    let said = tcp("--cc linux:nosuch --json");
    assert_eq!(said.code, Some(2), "{}", said.stderr);
    assert_eq!(said.stderr.lines().count(), 1, "{}", said.stderr);
    for part in ["no linux:nosuch", "it has ", "linux:reno"] {
        assert!(said.stderr.contains(part), "{}", said.stderr);
    }
}

#[test]
fn the_kernels_algorithms_have_the_same_results_as_the_others() {
    if !available() {
        return;
    }
    up_to_three_times(|| {
        let before = interfaces();
        let said = tcp(
            "--cc linux:cubic,linux:reno --rate 20mbit --rtt 20ms --duration 3s --flows 2 --json",
        );
        assert_eq!(said.code, Some(0), "{}", said.stderr);
        let object: serde_json::Value = serde_json::from_slice(&said.stdout).expect("one object");
        let scenario = &object["scenarios"][0];
        for (i, cc) in ["linux:cubic", "linux:reno"].into_iter().enumerate() {
            let r = &scenario["runs"][i];
            assert_eq!((&r["flows"][0]["cc"], &r["backend"]), (&cc.into(), &"tcp".into()));
            let goodput = r["metrics"]["goodput_mbps"].as_f64().expect("a number");
            assert!(goodput > 4.0 && goodput < 20.0, "{cc}: {goodput}");
            for (metric, least) in [("rtt_ms.min", 20.0), ("latency_ms.min", 10.0)] {
                assert!(r["metrics"][metric].as_f64() >= Some(least), "{cc}: {}", r["metrics"]);
            }
            let rows = r["series"].as_array().expect("a series");
            assert!(rows.len() > 100, "{} rows in 3 s, of two flows one every 6 ms", rows.len());
            for column in ["delivery_mbps", "cwnd_bytes", "inflight_bytes", "srtt_ms"] {
                assert!(rows.iter().all(|row| row[column].is_number()), "{column}");
            }
        }
        assert_eq!(interfaces(), before);
    });
}

#[test]
fn ctrl_c_and_sigterm_leave_nothing() {
    if !available() {
        return;
    }
    for signal in [Signal::SIGINT, Signal::SIGTERM] {
        let mut process = under_way();
        let number = process.0.id();
        kill(Pid::from_raw(number.try_into().expect("a process id")), signal).expect("it runs");
        assert_eq!(process.end().code(), Some(130));
        assert_eq!(names_of(number), [""; 0], "{signal}");
    }
}

#[test]
fn clean_removes_what_a_killed_run_left_and_no_living_runs() {
    if !available() {
        return;
    }
    let mut living = under_way();
    let mut killed = under_way();
    let number = killed.0.id();
    killed.0.kill().expect("it runs");
    killed.end();
    let left = names_of(number);
    assert_eq!(left.len(), 2, "{left:?}");
    let said = run(fullpipe(Path::new("/"), &["clean"]));
    assert_eq!(said.code, Some(0), "{}", said.stderr);
    let text = String::from_utf8(said.stdout).expect("text");
    for name in left {
        assert!(text.contains(&name), "{text}");
    }
    assert_eq!(names_of(number), [""; 0]);
    assert_eq!(names_of(living.0.id()).len(), 2);
    living.interrupt();
    living.end();
    assert_eq!(names_of(living.0.id()), [""; 0]);
}

#[cfg(not(feature = "kernel"))]
#[test]
fn a_build_without_the_kernel_program_says_how_to_have_it() {
    let said = tcp("--cc bbr3,linux:reno --json");
    assert_eq!(said.code, Some(2), "{}", said.stderr);
    assert_eq!(said.stderr.lines().count(), 1, "{}", said.stderr);
    for part in ["bbr3-linux over tcp", "--features kernel", "linux:NAME"] {
        assert!(said.stderr.contains(part), "{}", said.stderr);
    }
}

/// With the kernel program in the command. Needs root and a kernel that takes it; without them each test
/// says so.
#[cfg(feature = "kernel")]
mod kernel {
    use std::fs;
    use std::io::{Read, Write};
    use std::net::{Ipv4Addr, TcpListener, TcpStream};
    use std::process::Command;

    use nix::sys::socket::{setsockopt, sockopt::TcpCongestion};

    use super::*;

    fn in_the_kernel() -> Vec<String> {
        let names = fs::read_to_string("/proc/sys/net/ipv4/tcp_available_congestion_control");
        names.expect("Linux has it").split_whitespace().map(str::to_owned).collect()
    }

    /// As `available()`, for the program.
    fn can_load() -> bool {
        let said = tcp("--cc bbr3 --rate 10mbit --rtt 1ms --buffer 9pkts --bytes 1kB --json");
        let lacking = ["type information", "no congestion control from BPF"];
        if lacking.iter().any(|what| said.stderr.contains(what)) {
            eprintln!("skipped: {}", said.stderr.trim());
            return false;
        }
        true
    }

    #[test]
    fn bbr3_runs_beside_the_kernels_own_and_is_gone_afterwards() {
        if !available() || !can_load() {
            return;
        }
        let said = tcp("--cc bbr3,linux:reno --rate 20mbit --rtt 20ms --duration 3s --json");
        assert_eq!(said.code, Some(0), "{}", said.stderr);
        assert!(said.stderr.contains("over tcp bbr3 is bbr3-linux"), "{}", said.stderr);
        let object: serde_json::Value = serde_json::from_slice(&said.stdout).expect("one object");
        let [ours, reno] = [0, 1].map(|i| &object["scenarios"][0]["runs"][i]);
        let cc = |run: &serde_json::Value| run["flows"][0]["cc"].clone();
        assert_eq!((cc(ours), cc(reno)), ("bbr3-linux".into(), "linux:reno".into()));
        let goodput = ours["metrics"]["goodput_mbps"].as_f64().expect("a number");
        assert!(goodput > 10.0 && goodput < 20.0, "{goodput}");
        let rows = ours["series"].as_array().expect("a series");
        let states: Vec<_> = rows.iter().map(|row| row["state"].clone()).collect();
        for state in ["Startup", "Drain", "ProbeBW_CRUISE"] {
            assert!(states.contains(&state.into()), "{state} of {states:?}");
        }
        assert_eq!(left_over(), [""; 0]);
    }

    /// The algorithms that processes that are gone left in the kernel. Other tests' processes have theirs there.
    fn left_over() -> Vec<String> {
        let is_gone = |name: &String| {
            let process = name.strip_prefix("bbr3_").and_then(|rest| rest.split('_').next());
            process.is_some_and(|process| !Path::new("/proc").join(process).exists())
        };
        let gone: Vec<String> = in_the_kernel().into_iter().filter(is_gone).collect();
        // One may have ended, and taken its own along, between the two looks.
        in_the_kernel().into_iter().filter(|name| gone.contains(name)).collect()
    }

    #[test]
    fn ctrl_c_takes_it_out() {
        if !available() || !can_load() {
            return;
        }
        let line = arguments("--cc bbr3-linux --rate 20mbit --rtt 10ms --duration 30s --json");
        let mut command = fullpipe(Path::new("/"), &line);
        let child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn();
        let mut process = Running(child.expect("the command starts"));
        let name = format!("bbr3_{}_0", process.0.id());
        let begun = Instant::now();
        while !in_the_kernel().contains(&name) {
            assert!(begun.elapsed() < Duration::from_secs(10), "no {name}");
            std::thread::sleep(Duration::from_millis(10));
        }
        process.interrupt();
        process.end();
        assert!(!in_the_kernel().contains(&name), "{:?}", in_the_kernel());
        assert_eq!(names_of(process.0.id()), [""; 0]);
    }

    /// In namespaces of its own, for the machine's default is to stay what it is.
    #[test]
    fn clean_puts_back_the_default_that_a_killed_load_changed() {
        if !available() || !can_load() {
            return;
        }
        let name = format!("d{}", std::process::id());
        let script = format!(
            "mount -t tmpfs tmpfs /run && cd /proc/sys/net/ipv4 && echo reno > tcp_congestion_control || exit
             $0 kernel load --default --name {name} > /dev/null 2>&1 &
             for i in $(seq 100); do grep -q {name} tcp_congestion_control && break; sleep 0.1; done
             kill -KILL $!; wait
             for i in $(seq 100); do grep -q {name} tcp_available_congestion_control || break; sleep 0.1; done
             cat tcp_congestion_control; $0 clean; cat tcp_congestion_control; $0 clean; ls /run"
        );
        let mut shell = Command::new("unshare");
        shell.args(["--mount", "--net", "sh", "-c", &script, env!("CARGO_BIN_EXE_fullpipe")]);
        let said = shell.output().expect("util-linux is everywhere");
        let back = format!("put back reno as the default of new connections: {name} is gone");
        let lines = [&name, &*back, "reno", "nothing was left"];
        assert_eq!(String::from_utf8_lossy(&said.stdout).lines().collect::<Vec<_>>(), lines);
    }

    #[test]
    fn what_cannot_be_loaded_or_measured_is_told_in_one_line() {
        if !available() || !can_load() {
            return;
        }
        for (line, code, says) in [
            ("load --name a\nb", 2, r"`a\nb` is no name"),
            ("load --name reno", 1, "has a congestion control reno already"),
            ("figures --duration 0s", 2, "--duration is 0"),
        ] {
            let line: Vec<&str> = std::iter::once("kernel").chain(line.split(' ')).collect();
            let said = run(fullpipe(Path::new("/"), &line));
            assert!(said.stderr.contains(says), "{line:?}: {}", said.stderr);
            assert_eq!((said.code, said.stderr.lines().count()), (Some(code), 1), "{line:?}");
        }
    }

    /// In a mount namespace, whose BPF file system is its own.
    #[test]
    fn status_shows_a_connection_and_compare_takes_what_is_loaded() {
        if !available() || !can_load() {
            return;
        }
        let name = format!("b{}", std::process::id());
        let script = format!(
            "mount -t bpf bpf /sys/fs/bpf && $0 kernel load --pin --name {name} && read _ &&
             $0 kernel status && $0 kernel unload && $0 kernel status"
        );
        let mut shell = Command::new("unshare");
        shell.args(["--mount", "sh", "-c", &script, env!("CARGO_BIN_EXE_fullpipe")]);
        let child = shell.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
        let mut shell = Running(child.expect("util-linux is everywhere"));
        let mut said = BufReader::new(shell.0.stdout.take().expect("a pipe"));
        let mut line = String::new();
        said.read_line(&mut line).expect("a line");
        assert_eq!(line, format!("{name} is in the kernel\n"));

        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
        let address = listener.local_addr().expect("it has one");
        let mut stream = TcpStream::connect(address).expect("it listens");
        setsockopt(&stream, TcpCongestion, &name.clone().into()).expect("the name is known");
        stream.write_all(&[0; 100_000]).expect("it is sent");
        let mut received = [0; 100_000];
        listener.accept().expect("it is there").0.read_exact(&mut received).expect("it arrives");

        let over_tcp = tcp(&format!("--cc linux:{name} --rate 20mbit --bytes 100kB --json"));
        assert_eq!(over_tcp.code, Some(0), "{}", over_tcp.stderr);
        let mut pipe = shell.0.stdin.take().expect("a pipe");
        pipe.write_all(b"\n").expect("it reads");
        let mut status = String::new();
        said.read_to_string(&mut status).expect("text");
        let lines: Vec<&str> = status.lines().collect();
        let [head, connection, unloaded, nothing] = lines[..] else { panic!("{status}") };
        assert_eq!(head, format!("{name}: 1 connection"));
        let ends = format!("  :{} -> {address} ", stream.local_addr().expect("one").port());
        assert!(connection.starts_with(&ends), "{connection}");
        for part in ["cwnd:", "pacing_rate:", "max_bw:", "min_rtt:0.", "delivered:"] {
            assert!(connection.contains(part), "{part} is not in {connection}");
        }
        assert_eq!(unloaded, format!("{name} is out of the kernel"));
        // Tests that run at the same time may have an algorithm in the kernel, which is not pinned.
        let others = nothing.strip_prefix("nothing is pinned").expect("nothing is pinned");
        assert!(others.is_empty() || others.starts_with("; in the kernel until "), "{others}");
        assert!(!others.contains(&name), "{others}");
        assert!(!in_the_kernel().contains(&name));
    }
}

/// Where the kernel has no netem, one line says so and what else there is.
#[test]
fn netem_is_the_link_where_the_kernel_has_it() {
    if !available() {
        return;
    }
    let before = interfaces();
    let said = tcp("--link netem --cc linux:cubic --rate 20mbit --rtt 20ms --duration 3s --json");
    if said.code == Some(2) {
        assert!(
            said.stderr.contains("no netem") && said.stderr.contains("--link tun"),
            "{}",
            said.stderr
        );
        assert_eq!(said.stderr.lines().count(), 1, "{}", said.stderr);
        eprintln!("skipped: {}", said.stderr.trim());
        return;
    }
    assert_eq!(said.code, Some(0), "{}", said.stderr);
    assert!(said.stderr.contains("over the kernel's netem"), "{}", said.stderr);
    let object: serde_json::Value = serde_json::from_slice(&said.stdout).expect("one object");
    assert_eq!(object["scenarios"][0]["link"], "netem");
    let result = &object["scenarios"][0]["runs"][0];
    let goodput = result["metrics"]["goodput_mbps"].as_f64().expect("a goodput");
    assert!((15.0..20.0).contains(&goodput), "{goodput}");
    assert!(result["metrics"]["rtt_ms.min"].as_f64() >= Some(20.0), "{}", result["metrics"]);
    // A buffer of 1 BDP, which CUBIC fills.
    let p95 = result["metrics"]["queue_ms.p95"].as_f64().expect("a queue");
    assert!((10.0..=20.1).contains(&p95), "{p95}");
    assert!(result["emulator"].is_null());
    assert_eq!(interfaces(), before);
}

/// The namespaces' link carries QUIC too: the bottleneck is seen from both ends, and nothing stays.
#[test]
fn quic_runs_between_the_namespaces_too() {
    if !available() {
        return;
    }
    up_to_three_times(|| {
        let before = interfaces();
        let line = "compare --over quic --link tun --cc bbr3 --rate 20mbit --rtt 20ms --duration 3s --flows 2 --json";
        let arguments: Vec<&str> = line.split_whitespace().collect();
        let said = run(fullpipe(Path::new("/"), &arguments));
        assert_eq!(said.code, Some(0), "{}", said.stderr);
        // The ends end before their network does.
        assert!(!said.stderr.contains("WARN"), "{}", said.stderr);
        let result: serde_json::Value = serde_json::from_slice(&said.stdout).expect("JSON");
        assert_eq!(result["scenarios"][0]["link"], "tun");
        let metrics = &result["scenarios"][0]["runs"][0]["metrics"];
        let goodput = metrics["goodput_mbps"].as_f64().expect("a goodput");
        assert!((12.0..20.0).contains(&goodput), "{goodput}");
        let rtt_ms = metrics["rtt_ms.min"].as_f64().expect("a round trip");
        // Smoothed, of two flows that begin together: some of what they queue in Startup may be in it.
        assert!((20.0..35.0).contains(&rtt_ms), "{rtt_ms}");
        assert_eq!(interfaces(), before);
    });
}

#[test]
fn a_link_that_a_backend_does_not_have_is_refused() {
    for (line, why) in [
        ("--over tcp --link udp --cc linux:cubic", "write --link tun or --link netem"),
        ("--over sim --link tun", "leave it out"),
        ("--link netem", "write --link udp or --link tun"),
        ("--over tcp --link wire --cc linux:cubic", "there are udp, tun and netem"),
    ] {
        let line: Vec<&str> = std::iter::once("compare").chain(line.split_whitespace()).collect();
        let said = run(fullpipe(Path::new("/"), &line));
        assert_eq!(said.code, Some(2), "{}", said.stderr);
        assert!(said.stderr.contains(why) && said.stderr.lines().count() == 1, "{}", said.stderr);
    }
}

/// A scenario file over the kernel's TCP: algorithms, applications and a chain of links in one run.
#[test]
fn a_scenario_file_runs_over_tcp() {
    if !available() {
        return;
    }
    up_to_three_times(|| {
        let dir = tempfile::tempdir().expect("a directory");
        let text = "name = \"mixed\"\nduration = \"4s\"\n\
        expect = [\"goodput_mbps >= 4\", \"flow[call].goodput_mbps >= 0.4\", \"latency_ms.min >= 10\"]\n\
        [[link]]\nrate = \"20mbit\"\ndelay = \"5ms\"\n[[link]]\nrate = \"10mbit\"\ndelay = \"5ms\"\nbuffer = \"2bdp\"\n\
        [[flow]]\ncc = \"linux:reno\"\n[[flow]]\ncc = \"cubic\"\nstart = \"500ms\"\n\
        [[flow]]\nname = \"call\"\ncc = \"reno\"\napp = { rate_limited = { rate = \"800kbit\", write = \"1000B\" } }\n\
        [[flow]]\nname = \"web\"\ncc = \"cubic\"\napp = { request_response = { response = \"20kB\", think = \"100ms\" } }\n";
        std::fs::write(dir.path().join("mixed.toml"), text).expect("a file");
        let said = run(fullpipe(dir.path(), &["run", "mixed.toml", "--backend", "tcp", "--json"]));
        assert_eq!(said.code, Some(0), "{}", said.stderr);
        let object: serde_json::Value = serde_json::from_slice(&said.stdout).expect("one object");
        let result = &object["scenarios"][0]["runs"][0];
        let ccs: Vec<_> = (0..4).map(|i| result["flows"][i]["cc"].clone()).collect();
        assert_eq!(ccs, ["linux:reno", "linux:cubic", "linux:reno", "linux:cubic"]);
        let web = &result["flows"][3]["metrics"];
        assert!(web["completion_ms.p50"].as_f64() >= Some(20.0), "{web}");
        assert!(result["metrics"]["goodput_mbps"].as_f64() < Some(10.0), "{}", result["metrics"]);
    });
}

/// Cross traffic, a longer way back and short connections: the kernel's TCP has them where the simulator has.
#[test]
fn cross_traffic_far_away_ends_and_short_connections_run_over_tcp() {
    if !available() {
        return;
    }
    let dir = tempfile::tempdir().expect("a directory");
    let text = "name = \"mixed\"\nduration = \"6s\"\n\
        expect = [\"goodput_mbps <= 12\", \"goodput_mbps >= 4\", \"flow[far].rtt_ms.min >= 80\", \"flow[near].rtt_ms.min <= 40\",\
        \"flow[web].completion_ms.min >= 30\", \"flow[web].completed_bytes >= 1200000\", \"flow[web].completed_bytes <= 4000000\",\
        \"flow[web].censored <= 30\", \"utilization >= 0.8\"]\n\
        [path]\nrate = \"20mbit\"\nrtt = \"20ms\"\nbuffer = \"2bdp\"\n\
        [[flow]]\nname = \"near\"\ncc = \"cubic\"\n\
        [[flow]]\nname = \"far\"\ncc = \"cubic\"\nextra_rtt = \"60ms\"\n\
        [[flow]]\nname = \"web\"\ncc = \"cubic\"\napp = { short_flows = { bytes = \"20kB\", every = \"50ms\" } }\n\
        [[cross]]\nrate = \"8mbit\"\narrivals = \"poisson\"\n";
    std::fs::write(dir.path().join("mixed.toml"), text).expect("a file");
    for backend in ["sim", "tcp"] {
        let said =
            run(fullpipe(dir.path(), &["run", "mixed.toml", "--backend", backend, "--json"]));
        let object: serde_json::Value = serde_json::from_slice(&said.stdout).expect("one object");
        let expectations = &object["scenarios"][0]["expectations"];
        assert_eq!(said.code, Some(0), "{backend}: {}: {expectations}", said.stderr);
    }
}

/// Data both ways at once, in the simulator and over the kernel's TCP.
#[test]
fn a_flow_goes_up_beside_one_that_goes_down() {
    if !available() {
        return;
    }
    let dir = tempfile::tempdir().expect("a directory");
    let text = "duration = \"6s\"\n\
        expect = [\"flow[down].goodput_mbps >= 8\", \"flow[up].goodput_mbps >= 2.5\", \"flow[up].goodput_mbps <= 5\",\
        \"flow[up].rtt_ms.min >= 60\", \"flow[up].rtt_ms.min <= 75\"]\n\
        [path]\nrate = \"20mbit\"\nrtt = \"20ms\"\nbuffer = \"2bdp\"\n\
        up = [{ bottleneck = { rate = \"5mbit\", buffer = \"25kB\" } }]\n\
        [[flow]]\nname = \"down\"\ncc = \"cubic\"\n\
        [[flow]]\nname = \"up\"\ncc = \"cubic\"\ndirection = \"up\"\nextra_rtt = \"40ms\"\n";
    std::fs::write(dir.path().join("both.toml"), text).expect("a file");
    for backend in ["sim", "tcp"] {
        let said = run(fullpipe(dir.path(), &["run", "both.toml", "--backend", backend, "--json"]));
        let object: serde_json::Value = serde_json::from_slice(&said.stdout).expect(&said.stderr);
        let expectations = &object["scenarios"][0]["expectations"];
        assert_eq!(said.code, Some(0), "{backend}: {}: {expectations}", said.stderr);
    }
    let said = run(fullpipe(dir.path(), &["run", "both.toml", "--backend", "quic"]));
    let telling =
        "flow[1].direction: direction = \"up\" does not run over quic; write --backend sim or tcp";
    assert!(said.code == Some(2) && said.stderr.contains(telling), "{}", said.stderr);
    let without =
        text.replace("up = [{ bottleneck = { rate = \"5mbit\", buffer = \"25kB\" } }]\n", "");
    std::fs::write(dir.path().join("both.toml"), without).expect("a file");
    let said = run(fullpipe(dir.path(), &["run", "both.toml"]));
    assert!(
        said.code == Some(2) && said.stderr.contains("the way up has no rate"),
        "{}",
        said.stderr
    );
}
