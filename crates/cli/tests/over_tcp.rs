//! The kernel's TCP between two namespaces. Needs Linux and root; without them each test says so.
#![cfg(target_os = "linux")]

mod common;

use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

use common::{Running, Said, fullpipe, run};
use nix::sys::signal::{Signal, kill};
use nix::unistd::{Pid, geteuid};

const NOBODY: u32 = 65_534;

/// Whether the tests can run here; tells why not.
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

/// What a run of this process number has left.
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
    let line = arguments("--cc linux:cubic --duration 1s --json");
    let mut command = fullpipe(Path::new("/"), &line);
    if geteuid().is_root() {
        command.uid(NOBODY).gid(NOBODY);
    }
    let said = run(command);
    assert_eq!(said.code, Some(2), "{}", said.stderr);
    assert_eq!(said.stderr.lines().count(), 1, "{}", said.stderr);
    assert!(said.stderr.contains("need root") && said.stderr.contains("sudo"), "{}", said.stderr);
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
    let before = interfaces();
    let said =
        tcp("--cc linux:cubic,linux:reno --rate 20mbit --rtt 20ms --duration 3s --flows 2 --json");
    assert_eq!(said.code, Some(0), "{}", said.stderr);
    let object: serde_json::Value = serde_json::from_slice(&said.stdout).expect("one object");
    assert_eq!(object["scenario"]["over"], "tcp");
    for (i, cc) in ["linux:cubic", "linux:reno"].into_iter().enumerate() {
        let r = &object["results"][i];
        assert_eq!(r["cc"], cc);
        let goodput = r["goodput_bps"].as_f64().expect("a number");
        assert!(goodput > 4e6 && goodput < 20e6, "{cc}: {goodput}");
        assert!(r["rtt_ms"]["min"].as_f64() >= Some(20.0), "{cc}: {}", r["rtt_ms"]);
        for unsent in ["bounded", "unbounded"] {
            let latency = &r["app_latency_ms"][unsent];
            assert!(latency["min"].as_f64() >= Some(10.0), "{cc} {unsent}: {latency}");
        }
        let rows = r["series"]["t_s"].as_array().expect("a series").len();
        assert!(rows > 100, "{rows} rows in 3 s, one every 10 ms");
        for column in ["delivery_bps", "retransmitted_bytes", "pacing_bps", "cwnd_bytes"] {
            assert_eq!(r["series"][column].as_array().expect(column).len(), rows, "{column}");
        }
    }
    assert_eq!(interfaces(), before);
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
