//! The kernel's TCP between two namespaces.

use std::path::Path;
use std::process::Stdio;

use fullpipe_testkit::{in_namespace, skip, until};
use nix::sys::signal::Signal;

use crate::common::{Running, Said, counts, fullpipe, run};
use crate::link::names_of;

fullpipe_testkit::tests! {
    [Root, Tun]
        ctrl_c_and_sigterm_leave_nothing,
        clean_removes_what_a_killed_run_left_and_no_living_runs;
    timed [Root, Tun] a_scenario_file_runs_over_tcp;
    long timed [Root, Tun, Ip]
        the_kernels_algorithms_have_the_same_results_as_the_others,
        quic_runs_between_the_namespaces_too;
    long timed [Root, Ip] netem_is_the_link_where_the_kernel_has_it;
    long timed [Root, Tun]
        cross_traffic_far_away_ends_and_short_connections_run_over_tcp,
        a_flow_goes_up_beside_one_that_goes_down;
}

pub(crate) fn arguments(line: &str) -> Vec<&str> {
    ["compare", "--stack", "linux"].into_iter().chain(line.split_whitespace()).collect()
}

pub(crate) fn tcp(line: &str) -> Said {
    run(fullpipe(Path::new("/"), &arguments(line)))
}

/// A run that has its namespaces and is under way.
fn under_way() -> Running {
    let line = arguments("--rate 20mbit --rtt 10ms --duration 60s --json");
    let mut command = fullpipe(Path::new("/"), &line);
    let child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn();
    let process = Running(child.expect("the command starts"));
    let number = process.0.id();
    until("namespaces", || names_of(number).len() == 2);
    until("a flow", || threads_of(number).iter().any(|name| name == "fullpipe-send"));
    process
}

/// The names of a process's threads.
fn threads_of(process: u32) -> Vec<String> {
    let tasks = std::fs::read_dir(format!("/proc/{process}/task")).into_iter().flatten().flatten();
    let names = tasks.filter_map(|task| std::fs::read_to_string(task.path().join("comm")).ok());
    names.map(|name| name.trim_end().to_owned()).collect()
}

/// The result of a command, none of whose runs was late.
pub(crate) fn counted(said: &Said) -> serde_json::Value {
    let object: serde_json::Value =
        serde_json::from_slice(&said.stdout).unwrap_or_else(|_| panic!("{}", said.stderr));
    for run in object["scenarios"][0]["runs"].as_array().expect("runs") {
        counts(&run["emulator"]);
    }
    object
}

/// Runs `work` in a namespace of its own, whose devices must be the same before and afterwards.
fn leaving_no_device(work: impl FnOnce() + Send + 'static) {
    in_namespace(|| {
        let before = interfaces();
        work();
        assert_eq!(interfaces(), before);
    });
}

/// The devices of this thread's namespace.
fn interfaces() -> Vec<String> {
    let table = std::fs::read_to_string("/proc/thread-self/net/dev").expect("a table");
    table.lines().filter_map(|line| Some(line.split_once(':')?.0.to_owned())).collect()
}

fn the_kernels_algorithms_have_the_same_results_as_the_others() {
    leaving_no_device(|| {
        let said = tcp(
            "--cc linux:cubic,linux:reno --rate 20mbit --rtt 20ms --duration 3s --flows 2 --json",
        );
        let object = counted(&said);
        assert_eq!(said.code, Some(0), "{}", said.stderr);
        let scenario = &object["scenarios"][0];
        for (i, cc) in ["linux:cubic", "linux:reno"].into_iter().enumerate() {
            let r = &scenario["runs"][i];
            assert_eq!((&r["flows"][0]["cc"], &r["stack"]), (&cc.into(), &"linux".into()));
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
    });
}

fn ctrl_c_and_sigterm_leave_nothing() {
    for signal in [Signal::SIGINT, Signal::SIGTERM] {
        let mut process = under_way();
        let number = process.0.id();
        process.signal(signal);
        assert_eq!(process.end().code(), Some(130));
        assert_eq!(names_of(number), [""; 0], "{signal}");
    }
}

fn clean_removes_what_a_killed_run_left_and_no_living_runs() {
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

/// One line says that the kernel has no netem, and what else there is.
fn netem_is_the_link_where_the_kernel_has_it() {
    leaving_no_device(|| {
        let said =
            tcp("--link netem --cc linux:cubic --rate 20mbit --rtt 20ms --duration 3s --json");
        if said.code == Some(2) {
            assert!(
                said.stderr.contains("no netem") && said.stderr.contains("--link tun"),
                "{}",
                said.stderr
            );
            assert_eq!(said.stderr.lines().count(), 1, "{}", said.stderr);
            skip(said.stderr.trim());
        }
        let object = counted(&said);
        assert_eq!(said.code, Some(0), "{}", said.stderr);
        assert!(said.stderr.contains("over the kernel's netem"), "{}", said.stderr);
        assert_eq!(object["scenarios"][0]["link"], "netem");
        let result = &object["scenarios"][0]["runs"][0];
        let goodput = result["metrics"]["goodput_mbps"].as_f64().expect("a goodput");
        assert!((15.0..20.0).contains(&goodput), "{goodput}");
        assert!(result["metrics"]["rtt_ms.min"].as_f64() >= Some(20.0), "{}", result["metrics"]);
        // A buffer of 1 BDP, which CUBIC fills.
        let p95 = result["metrics"]["queue_ms.p95"].as_f64().expect("a queue");
        assert!((10.0..=20.1).contains(&p95), "{p95}");
        assert!(result["emulator"].is_null());
    });
}

/// The namespaces' link carries QUIC too: the bottleneck is seen from both ends, and nothing stays.
fn quic_runs_between_the_namespaces_too() {
    leaving_no_device(|| {
        let line = "compare --stack noq --clock real --link tun --cc bbr3 --rate 20mbit --rtt 20ms --duration 3s --flows 2 --json";
        let arguments: Vec<&str> = line.split_whitespace().collect();
        let said = run(fullpipe(Path::new("/"), &arguments));
        let result = counted(&said);
        assert_eq!(said.code, Some(0), "{}", said.stderr);
        // The ends end before their network does.
        assert!(!said.stderr.contains("WARN"), "{}", said.stderr);
        assert_eq!(result["scenarios"][0]["link"], "tun");
        let metrics = &result["scenarios"][0]["runs"][0]["metrics"];
        let goodput = metrics["goodput_mbps"].as_f64().expect("a goodput");
        assert!((12.0..20.0).contains(&goodput), "{goodput}");
        let rtt_ms = metrics["rtt_ms.min"].as_f64().expect("a round trip");
        // Smoothed, of two flows that begin together: some of what they queue in Startup may be in
        // it.
        assert!((20.0..35.0).contains(&rtt_ms), "{rtt_ms}");
    });
}

/// A scenario file over the kernel's TCP: algorithms, applications and a chain of links in one run.
fn a_scenario_file_runs_over_tcp() {
    let dir = tempfile::tempdir().expect("a directory");
    let text = "name = \"mixed\"\nduration = \"3s\"\n\
    expect = [\"goodput_mbps >= 4\", \"flow[call].goodput_mbps >= 0.4\", \"latency_ms.min >= 10\"]\n\
    [[link]]\nrate = \"20mbit\"\ndelay = \"5ms\"\n[[link]]\nrate = \"10mbit\"\ndelay = \"5ms\"\nbuffer = \"2bdp\"\n\
    [[flow]]\ncc = \"linux:reno\"\n[[flow]]\ncc = \"cubic\"\nstart = \"500ms\"\n\
    [[flow]]\nname = \"call\"\ncc = \"reno\"\napp = { rate_limited = { rate = \"800kbit\", write = \"1000B\" } }\n\
    [[flow]]\nname = \"web\"\ncc = \"cubic\"\napp = { request_response = { response = \"20kB\", think = \"100ms\" } }\n";
    std::fs::write(dir.path().join("mixed.toml"), text).expect("a file");
    let said = run(fullpipe(dir.path(), &["run", "mixed.toml", "--stack", "linux", "--json"]));
    let object = counted(&said);
    assert_eq!(said.code, Some(0), "{}", said.stderr);
    let result = &object["scenarios"][0]["runs"][0];
    let ccs: Vec<_> = (0..4).map(|i| result["flows"][i]["cc"].clone()).collect();
    assert_eq!(ccs, ["linux:reno", "linux:cubic", "linux:reno", "linux:cubic"]);
    let web = &result["flows"][3]["metrics"];
    assert!(web["completion_ms.p50"].as_f64() >= Some(20.0), "{web}");
    assert!(result["metrics"]["goodput_mbps"].as_f64() < Some(10.0), "{}", result["metrics"]);
}

/// Cross traffic, a longer way back and short connections: the kernel's TCP has them where the
/// simulator has.
fn cross_traffic_far_away_ends_and_short_connections_run_over_tcp() {
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
    for stack in ["sim", "linux"] {
        let said = run(fullpipe(dir.path(), &["run", "mixed.toml", "--stack", stack, "--json"]));
        let object = counted(&said);
        let expectations = &object["scenarios"][0]["expectations"];
        assert_eq!(said.code, Some(0), "{stack}: {}: {expectations}", said.stderr);
    }
}

/// Data both ways at once, in the simulator and over the kernel's TCP.
fn a_flow_goes_up_beside_one_that_goes_down() {
    let dir = tempfile::tempdir().expect("a directory");
    let text = "duration = \"6s\"\n\
        expect = [\"flow[down].goodput_mbps >= 8\", \"flow[up].goodput_mbps >= 2.5\", \"flow[up].goodput_mbps <= 5\",\
        \"flow[up].rtt_ms.min >= 60\", \"flow[up].rtt_ms.min <= 75\"]\n\
        [path]\nrate = \"20mbit\"\nrtt = \"20ms\"\nbuffer = \"2bdp\"\n\
        up = [{ bottleneck = { rate = \"5mbit\", buffer = \"25kB\" } }]\n\
        [[flow]]\nname = \"down\"\ncc = \"cubic\"\n\
        [[flow]]\nname = \"up\"\ncc = \"cubic\"\ndirection = \"up\"\nextra_rtt = \"40ms\"\n";
    std::fs::write(dir.path().join("both.toml"), text).expect("a file");
    for stack in ["sim", "linux"] {
        let said = run(fullpipe(dir.path(), &["run", "both.toml", "--stack", stack, "--json"]));
        let object = counted(&said);
        let expectations = &object["scenarios"][0]["expectations"];
        assert_eq!(said.code, Some(0), "{stack}: {}: {expectations}", said.stderr);
    }
}
