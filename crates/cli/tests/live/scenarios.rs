//! `fullpipe run` on scenario files over QUIC, and on those that take long.

use crate::checks::limits_of_bbr3x;
use crate::common::{fullpipe, names, run};

fn over_quic_runs_of_a_file_share_their_path() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = "path = { rate = \"5mbit\", rtt = \"10ms\", buffer = \"4bdp\" }\n";
    let content =
        format!("cc = [\"bbr3\", \"cubic\"]\nduration = \"1s\"\n{path}[[flow]]\ncount = 2\n");
    std::fs::write(dir.path().join("q.toml"), content).expect("a file");
    let said = run(fullpipe(
        dir.path(),
        &["run", "--stack", "noq", "--clock", "real", "--json", "q.toml"],
    ));
    assert_eq!(said.code, Some(0), "{}", said.stderr);
    let report: serde_json::Value = serde_json::from_slice(&said.stdout).expect("JSON");
    let runs = report["scenarios"][0]["runs"].as_array().expect("runs");
    assert_eq!(runs.len(), 2);
    for run in runs {
        let goodput = run["metrics"]["goodput_mbps"].as_f64().expect("a figure");
        assert!(goodput > 0.5 && goodput < 5.0, "{goodput}");
        assert_eq!(run["flows"].as_array().map(Vec::len), Some(2));
    }
}

fn over_quic_a_path_changes_with_time_and_windows_are_measured() {
    let dir = tempfile::tempdir().expect("a directory");
    let content = "cc = \"bbr3\"\nduration = \"6s\"\ninterval = \"50ms\"\n\
        [path]\nrate = \"10mbit\"\nrtt = \"20ms\"\nbuffer = \"100kB\"\nqueue = \"codel\"\n\
        steps = [{ at = \"2s\", rate = \"2mbit\" }]\n\
        down = [{ blackhole = [{ from = \"500ms\", to = \"600ms\" }] }]\n\
        [[flow]]\nname = \"first\"\n[[flow]]\nname = \"late\"\nstart = \"1s\"\nstop = \"3s\"\n"
        .to_owned();
    // In front of the tables. What CoDel drops at the step keeps what follows it from being read.
    // Such data crossed the link at 10 Mbit/s and is read up to two seconds later, so goodput is
    // the new rate's only after that.
    let expect = "expect = [\"goodput_mbps > 3 before 2s\", \"goodput_mbps < 2.1 after 4s\",\
        \"flow[late].completed_bytes == 0 before 1s\", \"flow[late].completed_bytes > 0 after 1s\",\
        \"flow[late].completed_bytes == 0 after 3.5s\",\
        \"link[0].loss_rate > 0 from 400ms to 700ms\", \"queue_ms.p50 >= 0 after 2s\",\
        \"utilization < 1.01 after 2.5s\"]\n";
    std::fs::write(dir.path().join("q.toml"), format!("{expect}{content}")).expect("a file");
    let args = [
        "run", "--stack", "noq", "--clock", "real", "--json", "q.toml", "--out", "out", "--qlog",
        "qlogs",
    ];
    let said = run(fullpipe(dir.path(), &args));
    let report: serde_json::Value = serde_json::from_slice(&said.stdout).expect("JSON");
    let scenario = &report["scenarios"][0];
    if let Some(warning) = scenario["runs"][0]["emulator"]["warning"].as_str() {
        fullpipe_testkit::inconclusive(warning);
    }
    assert_eq!(said.code, Some(0), "{}: {}", said.stderr, scenario["expectations"]);
    let run = &scenario["runs"][0];
    assert!(run["emulator"]["lateness_us"]["p99"].is_number(), "{run}");
    let series = run["series"].as_array().expect("a series");
    assert!(series.len() > 80, "{} rows", series.len());
    let of_late = series.iter().filter(|row| row["flow"] == 1);
    let times: Vec<f64> = of_late.filter_map(|row| row["t_s"].as_f64()).collect();
    let (first, last) = (times[0], times[times.len() - 1]);
    assert!((1.0..2.8).contains(&first) && (2.5..3.2).contains(&last), "{first} to {last}");
    assert!(series.iter().any(|row| row["state"] == "Startup" && row["max_bw_mbps"].is_number()));
    assert!(names(&dir.path().join("out")).contains(&"series.parquet".to_owned()));
    let qlog = std::fs::read_to_string(dir.path().join("qlogs/q-run0-flow0-first.sqlog"));
    let qlog = qlog.expect("a qlog of the first flow");
    let events = qlog.lines().filter_map(|line| {
        serde_json::from_str::<serde_json::Value>(line.trim_start_matches('\u{1e}')).ok()
    });
    let mut samples = events.filter(|event| event["name"] == "recovery:metrics_updated");
    let last = samples.next_back().expect("samples");
    for count in ["sent_packets", "lost_packets"] {
        assert!(last["data"][count].as_u64() > Some(10), "{count}: {last}");
    }
}

/// No packets, but half a minute of a processor.
fn the_limits_of_bbr3x_in_shallow_buffers_and_among_many_are_met_or_known_not_to_be() {
    limits_of_bbr3x(&["fairness.toml", "shallow.toml"]);
}

/// A thousand senders, and a data center: seconds of a processor.
fn large_topologies_are_met() {
    let dir = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios/topology");
    let said = run(fullpipe(&dir, &["run", "--json", "incast.toml", "fat-tree.toml"]));
    assert_eq!(said.code, Some(0), "{}", said.stderr);
}

/// Minutes of dozens of flows: seconds of a processor.
fn the_limits_of_l4s_are_met() {
    let dir = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios/l4s");
    let files = [
        "beside-cubic.toml",
        "alone.toml",
        "classic-queue.toml",
        "classic-queue-bbr.toml",
        "changed-field.toml",
    ];
    let said = run(fullpipe(&dir, &[&["run", "--json"][..], &files].concat()));
    assert_eq!(said.code, Some(0), "{}", said.stderr);
    let said = run(fullpipe(&dir, &["run", "--json", "--stack", "tcp", "over-tcp.toml"]));
    assert_eq!(said.code, Some(0), "tcp: {}", said.stderr);
    for stack in [
        "sim",
        "noq",
        "tcp",
        #[cfg(feature = "quinn")]
        "quinn",
    ] {
        let args = ["run", "--json", "--stack", stack, "over-quic.toml", "changed-field.toml"];
        let said = run(fullpipe(&dir, &args));
        assert_eq!(said.code, Some(0), "{stack}: {}", said.stderr);
    }
}

fullpipe_testkit::tests! {
    long timed []
        over_quic_runs_of_a_file_share_their_path,
        over_quic_a_path_changes_with_time_and_windows_are_measured;
    long []
        the_limits_of_bbr3x_in_shallow_buffers_and_among_many_are_met_or_known_not_to_be,
        large_topologies_are_met,
        the_limits_of_l4s_are_met;
}
