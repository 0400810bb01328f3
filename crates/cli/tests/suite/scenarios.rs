//! `fullpipe run` on scenario files: good ones, bad ones, and ones that expect too much.

use std::path::Path;

use super::sweeps::assert_same;
use crate::checks::limits_of_bbr3x;
use crate::common::{fullpipe, names, run, text};

const PATH: &str = "path = { rate = \"10mbit\", rtt = \"40ms\" }\n";

fn run_file(dir: &Path, content: &str) -> crate::common::Said {
    std::fs::write(dir.join("x.toml"), content).expect("a file");
    run(fullpipe(dir, &["run", "x.toml"]))
}

/// Ten values of a list.
fn ten(item: impl Fn(u32) -> String) -> String {
    (1..=10).map(|i| format!("{:?}", item(i))).collect::<Vec<_>>().join(", ")
}

#[test]
fn a_bad_file_is_told_in_one_line_with_line_and_field() {
    let dir = tempfile::tempdir().expect("a directory");
    std::fs::write(dir.path().join("empty.trace"), "").expect("a file");
    let times = ten(|i| format!("{i}ms"));
    let rates = ten(|i| format!("{i}mbit"));
    let huge = format!(
        "seed = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10]\n[path]\nrate = [{rates}]\nrtt = [{times}]\n\
         buffer = [{}]\nloss = [{}]\n[[flow]]\ncc = \"bbr3\"\nstart = [{times}]\n[[cross]]\nrate = [{rates}]\n",
        ten(|i| format!("{i}bdp")),
        ten(|i| format!("{i}%")),
    );
    let with = |rest: &str| format!("cc = \"bbr3\"\n{PATH}{rest}");
    let rows: [(&str, String, &[&str]); 23] = [
        (
            "a negative rate",
            "cc = \"bbr3\"\n\n[path]\nrate = \"-5mbit\"\n".into(),
            &["x.toml:4: path.rate: '-5mbit'", "write a rate like 100mbit"],
        ),
        ("an unknown field", with("dration = \"5s\"\n"), &["x.toml:3: dration: unknown field"]),
        (
            "an unknown algorithm",
            format!("{PATH}[[flow]]\ncc = \"vegas\"\n"),
            &["x.toml:3: flow[0].cc: unknown algorithm \"vegas\"", "bbr3"],
        ),
        ("10^7 runs", huge, &["x.toml:1: seed", "= 10000000 runs", "100000"]),
        (
            "an empty trace",
            "cc = \"bbr3\"\n[path]\nrtt = \"40ms\"\nbuffer = \"9kB\"\ntrace = \"empty.trace\"\n"
                .into(),
            &["x.toml:5: path.trace: empty.trace: the trace is empty"],
        ),
        (
            "an unknown metric",
            with("expect = [\n  \"jain > 0\",\n  \"queue.p95 <= 10\",\n]\n"),
            &["x.toml:5: expect[1]: 'queue.p95' is no metric", "queue_ms"],
        ),
        ("no flows", PATH.into(), &["x.toml: no flows; write cc"]),
        (
            "a stop before the start",
            with("[[flow]]\nstart = \"5s\"\nstop = \"2s\"\n"),
            &["x.toml:5: flow[0].stop: 2s is not after the start at 5s"],
        ),
        (
            "a route beyond the links",
            with("[[flow]]\nroute = \"0-1\"\n"),
            &["x.toml:4: flow[0].route: '0-1' is no route: there is one link"],
        ),
        (
            "a time without a unit",
            "cc = \"bbr3\"\npath = { rate = \"1mbit\", rtt = 40 }\n".into(),
            &["x.toml:2: path.rtt: '40' has no unit"],
        ),
        (
            "a rate as a time",
            "cc = \"bbr3\"\npath = { rate = \"1mbit\", rtt = \"1mbit\" }\n".into(),
            &["x.toml:2: path.rtt: '1mbit' is not a time"],
        ),
        ("no TOML", "cc = \"bbr3\n".into(), &["x.toml:1: "]),
        ("a number as a name", format!("cc = 3\n{PATH}"), &["x.toml:1: cc: invalid type"]),
        (
            "a rate in place of a table",
            with("[[flow]]\napp = { rate_limited = \"4mbit\" }\n"),
            &["app.rate_limited: invalid type", "expected { rate = \"5mbit\" }"],
        ),
        (
            "an unknown queue",
            "cc = \"bbr3\"\npath = { rate = \"1mbit\", rtt = \"1ms\", queue = \"sfq\" }\n".into(),
            &["x.toml:2: path.queue: unknown variant `sfq`", "`fq_codel`"],
        ),
        (
            "an unknown parameter of an element",
            "cc = \"bbr3\"\n[path]\nrtt = \"1ms\"\nrate = \"9mbit\"\n\
             down = [{ policer = { rat = \"5mbit\" } }]\n"
                .into(),
            &["x.toml:5: path.down[0].policer.rat: unexpected key"],
        ),
        (
            "a buffer below a packet",
            "cc = \"bbr3\"\n[path]\nrate = \"9mbit\"\nrtt = \"1ms\"\nbuffer = \"900B\"\n".into(),
            &["x.toml:5: path.buffer: a queue of 900 bytes"],
        ),
        ("nothing that limits", "cc = \"bbr3\"\npath = { rtt = \"1ms\" }\n".into(), &["no rate"]),
        (
            "a value twice",
            format!("cc = [\"bbr3\", \"bbr3\"]\n{PATH}"),
            &["x.toml:1: cc: 'bbr3' is named twice"],
        ),
        (
            "a pick of nothing",
            with("expect = [\"goodput_mbps[cubic] > 5\"]\n"),
            &["x.toml:3: expect[0]: no field's list has 'cubic'"],
        ),
        (
            "a window after the end",
            with("expect = [\"jain > 0.5 after 30s\"]\n"),
            &["x.toml:3: expect[0]: the window begins when the run is over"],
        ),
        (
            "a unit in an expectation",
            with("expect = [\"queue_ms.p95 < 10ms\"]\n"),
            &["x.toml:3: expect[0]: '10ms' has a unit"],
        ),
        (
            "a flow that is not there",
            with("expect = [\"flow[1].goodput_mbps > 0\"]\n"),
            &["x.toml:3: expect[0]: flow[1] of 1"],
        ),
    ];
    for (what, content, telling) in rows {
        let said = run_file(dir.path(), &content);
        assert_eq!(said.code, Some(2), "{what}: {}", said.stderr);
        assert_eq!(said.stderr.lines().count(), 1, "{what}: {}", said.stderr);
        assert!(said.stdout.is_empty(), "{what}");
        for part in telling {
            assert!(said.stderr.contains(part), "{what} should tell {part:?}: {}", said.stderr);
        }
    }
    let said = run(fullpipe(dir.path(), &["run", "missing.toml"]));
    assert_eq!(said.code, Some(2));
    assert!(said.stderr.contains("missing.toml: No such file"), "{}", said.stderr);
}

#[test]
fn an_expectation_that_is_not_met_fails_the_run_and_says_by_how_much() {
    let dir = tempfile::tempdir().expect("a directory");
    let content = format!(
        "cc = [\"bbr3\", \"cubic\"]\nduration = \"3s\"\n{PATH}\
         expect = [\"goodput_mbps <= 10\", \"goodput_mbps[bbr3] >= 2 * goodput_mbps[cubic]\"]\n"
    );
    let said = run_file(dir.path(), &content);
    assert_eq!(said.code, Some(1), "{}", said.stderr);
    assert!(said.stderr.contains("1 expectation was not met"), "{}", said.stderr);
    let stdout = String::from_utf8_lossy(&said.stdout);
    let lines: Vec<&str> = stdout.lines().collect();
    assert!(lines.iter().any(|l| l.starts_with("met     goodput_mbps <= 10: ")), "{lines:?}");
    let unmet = lines.iter().find(|l| l.starts_with("NOT MET goodput_mbps[bbr3] >=")).expect("one");
    assert!(unmet.contains("missed by"), "{unmet}");
}

#[test]
fn what_was_not_met_is_red_where_colour_is_wanted() {
    let dir = tempfile::tempdir().expect("a directory");
    let content = format!(
        "cc = \"bbr3\"\nduration = \"1s\"\n{PATH}expect = [\"goodput_mbps < 10\", \"goodput_mbps > 10\"]\n"
    );
    std::fs::write(dir.path().join("x.toml"), content).expect("a file");
    let escapes = |settings: &[&str]| {
        let mut command = fullpipe(dir.path(), &["run", "x.toml"]);
        command.env_remove("NO_COLOR").env_remove("CLICOLOR_FORCE");
        command.envs(settings.iter().map(|name| (name, "1")));
        let said = String::from_utf8(run(command).stdout).expect("text");
        let coloured: Vec<_> = said.lines().filter(|line| line.contains('\u{1b}')).collect();
        assert!(coloured.iter().all(|line| line.contains("NOT MET")), "{coloured:?}");
        coloured.len()
    };
    assert_eq!(escapes(&["CLICOLOR_FORCE"]), 1);
    assert_eq!(escapes(&[]), 0, "it is no terminal");
    assert_eq!(escapes(&["CLICOLOR_FORCE", "NO_COLOR"]), 0);
}

#[test]
fn the_files_that_come_with_the_command_are_met() {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios");
    let mut files: Vec<String> = [dir.clone(), dir.join("reports")]
        .into_iter()
        .flat_map(|dir| std::fs::read_dir(dir).expect("scenarios"))
        .filter_map(|entry| Some(text(&entry.ok()?.path()).to_owned()))
        .filter(|name| name.ends_with(".toml"))
        .collect();
    files.sort();
    let mut args = vec!["run", "--json"];
    args.extend(files.iter().map(String::as_str));
    let said = run(fullpipe(&dir, &args));
    assert_eq!(said.code, Some(0), "{}", said.stderr);
    let report: serde_json::Value = serde_json::from_slice(&said.stdout).expect("JSON");
    let scenarios = report["scenarios"].as_array().expect("a list");
    assert_eq!(scenarios.len(), files.len());
    for scenario in scenarios {
        let expectations = scenario["expectations"].as_array().expect("a list");
        assert!(!expectations.is_empty(), "{} expects nothing", scenario["file"]);
        assert!(expectations.iter().all(|e| e["met"] == true));
    }
}

/// Runs the judging suite of bbr3x that a test can wait for: each limit is met, or known not to be,
/// and the file says why.
#[test]
fn each_limit_of_bbr3x_is_met_or_known_not_to_be() {
    // Those of shallow.toml and fairness.toml take half a minute: live/scenarios.rs.
    limits_of_bbr3x(&[
        "beside-cubic.toml",
        "long-rtt.toml",
        "one-flow-loss.toml",
        "one-flow.toml",
        "random-loss.toml",
        "short-flow.toml",
        "steps.toml",
    ]);
}

/// The files of bbr-swift that take little time; those of 1000 and 5000 flows are run by hand.
#[test]
fn each_limit_of_bbr_swift_is_met_or_known_not_to_be() {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios/bbr-swift");
    let files = ["one-flow.toml", "incast.toml", "busy-receiver.toml"];
    for stack in ["sim", "tcp"] {
        let args = [&["run", "--json", "--stack", stack][..], &files].concat();
        let said = run(fullpipe(&dir, &args));
        assert_eq!(said.code, Some(0), "{stack}: {}", said.stderr);
    }
}

/// The files of topologies that take little time; the others are in live/scenarios.rs.
#[test]
fn each_topology_is_met_and_is_the_same_with_any_number_of_jobs() {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios/topology");
    let files = ["dumbbell.toml", "parking-lot.toml", "reroute.toml"];
    let said = run(fullpipe(&dir, &[&["run", "--json"][..], &files].concat()));
    assert_eq!(said.code, Some(0), "{}", said.stderr);
    let out = tempfile::tempdir().expect("a directory");
    let kept = ["1", "3"].map(|jobs| {
        let to = out.path().join(jobs);
        let args = ["sweep", "parking-lot.toml", "--jobs", jobs, "--out", text(&to)];
        let said = run(fullpipe(&dir, &args));
        assert_eq!(said.code, Some(0), "{}", said.stderr);
        to
    });
    assert_same(&kept[0], &kept[1]);
}

#[test]
fn each_limit_of_live_media_is_met_or_known_not_to_be() {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios/media");
    let files = ["live-frames.toml", "adaptive.toml", "probe.toml", "beside-bulk.toml"];
    let said = run(fullpipe(&dir, &[&["run", "--json"][..], &files].concat()));
    assert_eq!(said.code, Some(0), "{}", said.stderr);
    let files = ["live-frames.toml", "adaptive.toml", "beside-bulk.toml"];
    for stack in ["noq", "tcp"] {
        let said =
            run(fullpipe(&dir, &[&["run", "--json", "--stack", stack], &files[..]].concat()));
        assert!(matches!(said.code, Some(0 | 1)), "{stack}: {}", said.stderr);
    }
    // With padding, and with requests that reach the sender: without either the bitrate stays.
    for stack in ["noq", "quinn", "tcp"] {
        let said = run(fullpipe(&dir, &["run", "--json", "probe.toml", "--stack", stack]));
        assert_eq!(said.code, Some(0), "{stack}: {}", said.stderr);
    }
}

#[test]
fn each_limit_of_the_faster_starts_is_met() {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios/start");
    let said = run(fullpipe(&dir, &["run", "--json", "long-path.toml", "deep-buffer.toml"]));
    assert_eq!(said.code, Some(0), "{}", said.stderr);
}

#[test]
fn each_limit_of_careful_resume_is_met_or_known_not_to_be() {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios/careful-resume");
    for stack in ["sim", "tcp"] {
        let files = ["known-path.toml", "slower-path.toml"];
        let said =
            run(fullpipe(&dir, &[&["run", "--json", "--stack", stack], &files[..]].concat()));
        assert_eq!(said.code, Some(0), "{stack}: {}", said.stderr);
    }
    // TCP's timeout ends the jump there, and BBR's Startup goes on.
    let said = run(fullpipe(&dir, &["run", "--json", "outage.toml"]));
    assert_eq!(said.code, Some(0), "{}", said.stderr);
}

#[test]
fn qlogs_go_where_they_can_and_a_bad_directory_is_told_before_anything_runs() {
    let dir = tempfile::tempdir().expect("a directory");
    let content = format!("cc = \"bbr3\"\nname = \"../q\"\nduration = \"1s\"\n{PATH}");
    for name in ["a.toml", "b.toml"] {
        std::fs::write(dir.path().join(name), &content).expect("a file");
    }
    for qlog in ["one", "two/deep"] {
        let said = run(fullpipe(dir.path(), &["run", "a.toml", "--qlog", qlog]));
        assert_eq!(said.code, Some(0), "{}", said.stderr);
        assert_eq!(names(&dir.path().join(qlog)), ["___q-run0-flow0-bbr3.sqlog"]);
    }
    assert_same(&dir.path().join("one"), &dir.path().join("two/deep"));
    let before = names(dir.path());
    let rows: [(&[&str], &str); 3] = [
        (&["run", "a.toml", "--qlog", "a.toml"], "--qlog: cannot write a.toml: "),
        (
            &["run", "a.toml", "--qlog", "a.toml/x"],
            "--qlog: cannot write a.toml/x: Not a directory",
        ),
        (
            &["run", "a.toml", "b.toml", "--qlog", "new"],
            "a.toml and b.toml: both scenarios are '___q'",
        ),
    ];
    for (args, telling) in rows {
        let said = run(fullpipe(dir.path(), args));
        assert_eq!((said.code, said.stderr.lines().count()), (Some(2), 1), "{}", said.stderr);
        assert!(said.stderr.contains(telling), "{telling:?}: {}", said.stderr);
        assert!(said.stdout.is_empty(), "{args:?}");
    }
    assert_eq!(names(dir.path()), before);
}

#[test]
fn results_stay_in_their_directory_and_a_bad_one_is_told_before_anything_runs() {
    let base = tempfile::tempdir().expect("a directory");
    let dir = base.path().join("here");
    std::fs::create_dir(&dir).expect("a directory");
    let content = format!("cc = \"bbr3\"\nduration = \"1s\"\n{PATH}");
    for (file, name) in [("a.toml", "../../evil"), ("b.toml", "b"), ("c.toml", "b")] {
        std::fs::write(dir.join(file), format!("name = \"{name}\"\n{content}")).expect("a file");
    }
    std::fs::create_dir_all(dir.join("part/b")).expect("a directory");
    std::fs::write(dir.join("part/______evil"), "a file of somebody").expect("a file");
    let said = run(fullpipe(&dir, &["run", "a.toml", "b.toml", "--out", "out"]));
    assert_eq!(said.code, Some(0), "{}", said.stderr);
    assert_eq!(names(&dir.join("out")), ["______evil", "b"]);
    assert_eq!(names(base.path()), ["here"]);
    let before = names(&dir);
    for (files, out, telling) in [
        (&["b.toml", "a.toml", "c.toml"][..], "new", "b.toml and c.toml: both scenarios are 'b'"),
        (&["a.toml"], "b.toml", "--out: cannot write b.toml: "),
        (&["a.toml"], "/dev/null", "write a directory"),
        (&["a.toml"], "b.toml/x", "write a directory"),
        (&["a.toml", "b.toml"], "part", "--out: cannot write part/______evil: "),
    ] {
        let args = [&["run"], files, &["--out", out]].concat();
        let said = run(fullpipe(&dir, &args));
        assert_eq!((said.code, said.stderr.lines().count()), (Some(2), 1), "{}", said.stderr);
        assert!(said.stderr.contains(telling), "{telling:?}: {}", said.stderr);
        assert!(said.stdout.is_empty(), "{args:?}");
    }
    assert_eq!(names(&dir), before);
}

#[test]
fn a_wrong_number_is_told_with_a_right_one() {
    let dir = tempfile::tempdir().expect("a directory");
    std::fs::write(dir.path().join("a.toml"), format!("cc = \"bbr3\"\n{PATH}")).expect("a file");
    for (args, telling) in [
        (
            ["sweep", "a.toml", "--out=out", "--jobs", "0"],
            "'0' is too few; write a whole number like 2",
        ),
        (["sweep", "a.toml", "--out=out", "--jobs", "-1"], "'-1' is below 0"),
        (["explain", "a.toml", "--run=0", "--flow", "-1"], "'-1' is below 0"),
        (["explain", "a.toml", "--flow=0", "--run", "x"], "'x' is no whole number"),
    ] {
        let said = run(fullpipe(dir.path(), &args));
        assert_eq!((said.code, said.stderr.lines().count()), (Some(2), 1), "{}", said.stderr);
        assert!(said.stderr.contains(telling), "{telling:?}: {}", said.stderr);
    }
    assert_eq!(names(dir.path()), ["a.toml"]);
}

#[test]
fn what_does_not_run_over_quic_is_told_before_anything_runs() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = "path = { rate = \"5mbit\", rtt = \"10ms\", buffer = \"4bdp\" }\n";
    let quic = |content: &str| {
        std::fs::write(dir.path().join("q.toml"), content).expect("a file");
        run(fullpipe(dir.path(), &["run", "--stack", "noq", "--clock", "real", "--json", "q.toml"]))
    };
    for (rest, telling) in [
        (
            "[[flow]]\n[[flow]]\ncc = \"linux:bbr\"\n",
            "q.toml:5: flow[1].cc: linux:bbr does not run over noq (real clock)",
        ),
        (
            "[[flow]]\nstart = \"1s\"\n",
            "q.toml:4: flow[0].start: a run without a flow that starts at 0s does not",
        ),
        (
            "[[flow]]\nmss = 1200\n",
            "q.toml:4: flow[0].mss: mss does not run over noq (real clock); write --stack sim",
        ),
        (
            "[[cross]]\nrate = \"1mbit\"\nroute = \"0\"\n",
            "q.toml:5: cross[0].route: a route does not run over noq (real clock)",
        ),
        ("expect = [\"latency_ms.p50 < 9\"]\n", "q.toml:3: expect[0]: latency_ms.p50 is not"),
    ] {
        let said = quic(&format!("cc = \"bbr3\"\n{path}{rest}"));
        assert_eq!((said.code, said.stderr.lines().count()), (Some(2), 1), "{}", said.stderr);
        assert!(said.stderr.contains(telling), "{telling:?}: {}", said.stderr);
    }
}
