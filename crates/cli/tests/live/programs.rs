//! Flows that other programs make.

use std::fs;
use std::path::Path;
use std::process::Stdio;

use fullpipe_testkit::until;
use nix::sys::signal::Signal;
use serde_json::Value;

use crate::common::{Running, Said, fullpipe, run};
use crate::over_tcp::counted;

fullpipe_testkit::tests! {
    [Root, Tun]
        a_program_that_is_not_there_is_one_line,
        a_program_that_fails_is_told_of_with_its_last_output;
    long [Root, Tun] a_stopped_run_leaves_no_program;
    long [Root, Tun, Python3] a_program_that_hangs_is_told_of;
    long timed [Root, Tun, Iperf3]
        a_program_shares_the_link_with_a_flow_of_the_kernels,
        compare_runs_a_program_beside_an_algorithm,
        a_server_that_sends_is_placed_where_the_link_begins;
}

fn write(dir: &Path, duration: &str, flows: &str) {
    let path = "path = { rate = \"20mbit\", rtt = \"20ms\", buffer = \"2bdp\" }";
    fs::write(dir.join("x.toml"), format!("duration = \"{duration}\"\n{path}\n{flows}"))
        .expect("a file");
}

fn run_file(dir: &Path, duration: &str, flows: &str) -> Said {
    write(dir, duration, flows);
    run(fullpipe(dir, &["run", "--stack", "linux", "--json", "x.toml"]))
}

fn program(fields: &str) -> String {
    format!("[[flow]]\nprogram = {{ {fields} }}\n")
}

const IPERF: &str =
    "server = \"iperf3 -s -1 -p {port}\", client = \"iperf3 -c {server} -p {port} -t {duration}\"";

/// True if a process runs whose command line has this in it.
fn runs(part: &str) -> bool {
    let entries = fs::read_dir("/proc").expect("processes").flatten();
    entries.into_iter().any(|entry| {
        let line = fs::read(entry.path().join("cmdline")).unwrap_or_default();
        String::from_utf8_lossy(&line).replace('\0', " ").contains(part)
    })
}

fn a_program_shares_the_link_with_a_flow_of_the_kernels() {
    let dir = tempfile::tempdir().expect("a directory");
    let flows = format!("{}[[flow]]\ncc = \"linux:cubic\"\n", program(IPERF));
    let said = run_file(dir.path(), "4s", &flows);
    let json = counted(&said);
    assert_eq!(said.code, Some(0), "{}", said.stderr);
    let run = &json["scenarios"][0]["runs"][0];
    let flow = &run["flows"][0];
    assert_eq!((&flow["name"], &flow["cc"]), (&"iperf3".into(), &"iperf3".into()));
    let figure = |of: &Value, name: &str| {
        of["metrics"][name].as_f64().unwrap_or_else(|| panic!("no {name}: {}", said.stderr))
    };
    // Of 20 Mbit/s; how the two share it is not asserted.
    let both = figure(run, "goodput_mbps");
    assert!((10.0..20.0).contains(&both), "{both}");
    for flow in run["flows"].as_array().expect("flows") {
        let goodput = figure(flow, "goodput_mbps");
        assert!((0.2..20.0).contains(&goodput), "{flow}");
        // The empty path has 20 ms, and a full buffer adds 40.
        let rtt = figure(flow, "rtt_ms.p50");
        assert!((20.0..150.0).contains(&rtt), "{flow}");
        assert!(figure(flow, "queue_ms.p95") > 1.0, "{flow}");
        assert!(figure(flow, "burst_packets.max") >= 1.0, "{flow}");
        let (lost, again) = (figure(flow, "loss_rate"), figure(flow, "retransmit_rate"));
        assert!(lost < 0.5 && again < 0.5, "{flow}");
    }
}

fn compare_runs_a_program_beside_an_algorithm() {
    let dir = tempfile::tempdir().expect("a directory");
    let line = "compare --stack linux --cc linux:reno --rate 20mbit --rtt 10ms --duration 2s --json --program";
    let program = format!("mine = {{ {IPERF} }}");
    let mut arguments: Vec<&str> = line.split_whitespace().collect();
    arguments.push(&program);
    let said = run(fullpipe(dir.path(), &arguments));
    let json = counted(&said);
    assert_eq!(said.code, Some(0), "{}", said.stderr);
    let runs = json["scenarios"][0]["runs"].as_array().expect("runs");
    let names: Vec<_> = runs.iter().map(|run| run["flows"][0]["cc"].as_str()).collect();
    assert_eq!(names, [Some("linux:reno"), Some("mine")]);
    for run in runs {
        let goodput = run["metrics"]["goodput_mbps"].as_f64();
        assert!(goodput.is_some_and(|mbps| (2.0..20.0).contains(&mbps)), "{goodput:?}");
    }
}

fn a_server_that_sends_is_placed_where_the_link_begins() {
    let dir = tempfile::tempdir().expect("a directory");
    let reversed = IPERF.replace("{duration}", "{duration} -R");
    let said = run_file(dir.path(), "3s", &program(&format!("{reversed}, sends = \"server\"")));
    let json = counted(&said);
    assert_eq!(said.code, Some(0), "{}", said.stderr);
    let goodput = json["scenarios"][0]["runs"][0]["metrics"]["goodput_mbps"].as_f64();
    assert!(goodput.is_some_and(|mbps| (5.0..20.0).contains(&mbps)), "{goodput:?}");
    // And if it is not said.
    let said = run_file(dir.path(), "3s", &program(&reversed));
    assert_eq!(said.code, Some(2), "{}", said.stderr);
    assert!(said.stderr.contains("write sends = \"server\""), "{}", said.stderr);
}

fn a_program_that_is_not_there_is_one_line() {
    let dir = tempfile::tempdir().expect("a directory");
    let said = run_file(dir.path(), "2s", &program("client = \"no-such-program {port}\""));
    assert_eq!(said.code, Some(2), "{}", said.stderr);
    assert_eq!(said.stderr.lines().count(), 1, "{}", said.stderr);
    assert!(said.stderr.contains("'no-such-program' is not there"), "{}", said.stderr);
}

fn a_program_that_fails_is_told_of_with_its_last_output() {
    let dir = tempfile::tempdir().expect("a directory");
    let shell = |script: &str| format!("sh -c '{script}' {{port}}");
    for (fields, part) in [
        (format!("client = \"{}\"", shell("echo dead >&2; exit 3")), "exit status: 3"),
        (format!("client = \"{}\"", shell("echo dead; exit 0")), "before it sent anything"),
        (
            format!("server = \"{}\", client = \"true {{port}}\"", shell("echo dead; exit 4")),
            "exit status: 4",
        ),
    ] {
        let said = run_file(dir.path(), "2s", &program(&fields));
        assert_eq!(said.code, Some(2), "{fields}: {}", said.stderr);
        assert!(said.stderr.contains(part), "{fields}: {}", said.stderr);
        assert!(said.stderr.contains("it last wrote: dead"), "{fields}: {}", said.stderr);
    }
}

fn a_program_that_hangs_is_told_of() {
    let dir = tempfile::tempdir().expect("a directory");
    // A datagram that nobody takes, and silence.
    let script = "import signal,socket,sys; s=socket.socket(2,2); print(7,flush=True); \
                  s.sendto(bytes(1000),(sys.argv[1],int(sys.argv[2]))); signal.pause()";
    let client = format!("client = \"python3 -c '{script}' {{server}} {{port}}\"");
    let said = run_file(dir.path(), "7s", &program(&client));
    assert_eq!(said.code, Some(1), "{}", said.stderr);
    assert!(
        said.stderr.contains("hangs") && said.stderr.contains("it last wrote: 7"),
        "{}",
        said.stderr
    );
}

fn a_stopped_run_leaves_no_program() {
    let dir = tempfile::tempdir().expect("a directory");
    // A number that is in no other command line; the programs start others and do not end when they
    // are asked to.
    let mark = format!("7{}", std::process::id());
    let script = format!("trap : TERM; sleep 1{mark} & while :; do sleep 2{mark}; done");
    write(dir.path(), "60s", &program(&format!("client = \"sh -c '{script}' {{port}}\"")));
    for signal in [Signal::SIGINT, Signal::SIGTERM] {
        let mut command = fullpipe(dir.path(), &["run", "--stack", "linux", "x.toml"]);
        let child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn();
        let mut process = Running(child.expect("the command starts"));
        until("the program starts", || runs(&format!("sleep 2{mark}")));
        process.signal(signal);
        assert_eq!(process.end().code(), Some(130), "{signal}");
        assert!(!runs(&mark), "{signal} left a program");
    }
}
