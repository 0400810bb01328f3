//! The command survives scenarios without a bound, odd files, full disks, and the files that killed
//! runs left.

use std::path::Path;
use std::process::Command;

use crate::common::{fullpipe, names, run};

const PATH: &str = "path = { rate = \"10mbit\", rtt = \"20ms\" }\n";

fn refused(dir: &Path, file: &str, text: &str) -> String {
    std::fs::write(dir.join(file), text).expect("a file");
    let said = run(fullpipe(dir, &["run", file]));
    assert_eq!((said.code, said.stderr.lines().count()), (Some(2), 1), "{}", said.stderr);
    assert!(said.stderr.len() < 1200, "{}", said.stderr);
    said.stderr
}

/// Each of these took more memory than there is, or no end.
#[test]
fn a_scenario_without_a_bound_is_refused_before_it_runs() {
    let dir = tempfile::tempdir().expect("a directory");
    let many = vec!["{ duplication = \"100%\" }"; 40].join(", ");
    for (fields, telling) in [
        ("path = { rate = \"1000000gbit\", rtt = \"40ms\" }", "--max-memory"),
        (
            "path = { rate = \"1gbit\", rtt = \"40ms\" }\nflow = [{ initial_cwnd = \"1000000000000B\" }]",
            "flow[0].initial_cwnd: the first window is",
        ),
        (
            "path = { rate = \"1gbit\", rtt = \"40ms\", queue = { fq_codel = { queues = 1000000000 } } }",
            "path.queue: fq_codel has 1 thousand million queues",
        ),
        (
            &format!("path = {{ rate = \"1gbit\", rtt = \"40ms\", down = [{many}] }}"),
            "path.down: every packet becomes",
        ),
        (
            "path = { rate = \"1gbit\", rtt = \"40ms\" }\n\
             flow = [{ app = { on_off = { on = \"1ns\", off = \"1ns\" } } }]",
            "flow[0].app: makes 1000000000 steps a second",
        ),
        (
            "path = { rate = \"1gbit\", rtt = \"40ms\" }\n\
             flow = [{ app = { rate_limited = { rate = \"1tbit\", write = \"1B\" } } }]",
            "writes a second, the most is 10000000",
        ),
        (
            "path = { rate = \"1gbit\", rtt = \"40ms\", buffer = \"1000TB\" }\nduration = \"1000s\"",
            "path.buffer: some",
        ),
    ] {
        let line = refused(dir.path(), "a.toml", &format!("cc = \"bbr3\"\n{fields}\n"));
        assert!(line.contains(telling), "{telling:?}: {line}");
    }
    // The bound is the user's.
    let text =
        "cc = \"cubic\"\nduration = \"100ms\"\npath = { rate = \"1gbit\", rtt = \"40ms\" }\n";
    std::fs::write(dir.path().join("b.toml"), text).expect("a file");
    for (most, code) in [("2GB", 0), ("1MB", 2)] {
        let said = run(fullpipe(dir.path(), &["run", "b.toml", "--max-memory", most]));
        assert_eq!(said.code, Some(code), "{}", said.stderr);
    }
    for args in [
        ["compare", "--stack=sim", "--rate=1000000gbit", "--cc=bbr3"],
        ["sweep", "a.toml", "--out=out", "--jobs=1"],
    ] {
        let said = run(fullpipe(dir.path(), &args));
        assert_eq!((said.code, said.stderr.lines().count()), (Some(2), 1), "{}", said.stderr);
        assert!(said.stderr.contains("--max-memory"), "{}", said.stderr);
    }
    assert_eq!(names(dir.path()), ["a.toml", "b.toml"]);
}

#[test]
fn a_long_name_is_refused() {
    let dir = tempfile::tempdir().expect("a directory");
    let long = "x".repeat(65_536);
    let flow = format!("cc = \"bbr3\"\n{PATH}flow = [{{ name = \"{long}\" }}]\n");
    for text in [
        format!("name = \"{long}\"\ncc = \"bbr3\"\n{PATH}"),
        flow,
        format!("cc = \"{long}\"\n{PATH}"),
        format!("cc = \"bbr3\"\n{long} = 1\n{PATH}"),
        format!("cc = \"bbr3\"\nexpect = [\"{long} > 1\"]\n{PATH}"),
        format!("cc = \"bbr3\"\nexpect = [\"goodput_mbps[{long}] > 1\"]\n{PATH}"),
        format!("cc = \"bbr3\"\n{PATH}[[variant]]\nname = \"{long}\"\n"),
        format!("cc = \"bbr3\"\nabout = [\"{long}\", \"b\"]\n{PATH}"),
    ] {
        refused(dir.path(), "a.toml", &text);
    }
    let said = run(fullpipe(dir.path(), &["compare", "--cc", &long]));
    assert_eq!((said.code, said.stderr.lines().count()), (Some(2), 1));
    assert!(said.stderr.len() < 1200, "{} bytes", said.stderr.len());
}

#[test]
fn a_trace_is_a_regular_file_of_bounded_size() {
    let dir = tempfile::tempdir().expect("a directory");
    nix::unistd::mkfifo(&dir.path().join("fifo"), nix::sys::stat::Mode::S_IRWXU).expect("a FIFO");
    let long = std::fs::File::create(dir.path().join("long")).expect("a file");
    long.set_len(1 << 40).expect("a file with holes");
    for (trace, telling) in
        [("fifo", "no regular file"), ("/dev/zero", "no regular file"), ("long", "longer than")]
    {
        let text = format!("cc = \"bbr3\"\npath = {{ trace = \"{trace}\", rtt = \"20ms\" }}\n");
        let line = refused(dir.path(), "a.toml", &text);
        assert!(line.contains(telling) && line.contains("a.toml:2: path.trace"), "{line}");
    }
    let said = run(fullpipe(dir.path(), &["run", "/dev/zero"]));
    assert_eq!((said.code, said.stderr.lines().count()), (Some(2), 1), "{}", said.stderr);
}

/// The shell's limit on a file's size is as good as a full disk.
#[test]
fn a_full_disk_ends_a_sweep_with_one_line() {
    let dir = tempfile::tempdir().expect("a directory");
    let text = format!("cc = \"bbr3\"\nduration = \"1s\"\nseed = [1, 2, 3, 4, 5, 6, 7, 8]\n{PATH}");
    std::fs::write(dir.path().join("a.toml"), text).expect("a file");
    let script = r#"trap "" XFSZ; ulimit -f 8; exec "$0" "$@""#;
    let mut command = Command::new("sh");
    command.args(["-c", script, env!("CARGO_BIN_EXE_fullpipe"), "sweep", "a.toml", "--out=out"]);
    command.arg("--jobs=1").current_dir(dir.path());
    let said = run(command);
    let errors: Vec<&str> = said.stderr.lines().filter(|l| l.starts_with("error: ")).collect();
    assert_eq!((said.code, errors.len()), (Some(1), 1), "{}", said.stderr);
    assert!(errors[0].contains("cannot write out/runs.jsonl: File too large"), "{}", errors[0]);
    // The disk has room again: the runs that are done are not lost.
    let said = run(fullpipe(dir.path(), &["sweep", "a.toml", "--out=out"]));
    assert_eq!(said.code, Some(0), "{}", said.stderr);
    assert!(!said.stderr.contains(" 0 of them done before"), "{}", said.stderr);
}

#[test]
fn what_a_killed_process_left_in_a_directory_is_removed_by_the_next() {
    let dir = tempfile::tempdir().expect("a directory");
    std::fs::write(dir.path().join("a.toml"), format!("cc = \"bbr3\"\nduration = \"1s\"\n{PATH}"))
        .expect("a file");
    let out = dir.path().join("out");
    std::fs::create_dir(&out).expect("a directory");
    std::fs::write(out.join(".fullpipe-a1B2c3.tmp"), "half of a table").expect("a file");
    let said = run(fullpipe(dir.path(), &["sweep", "a.toml", "--out=out"]));
    assert_eq!(said.code, Some(0), "{}", said.stderr);
    assert!(!names(&out).iter().any(|name| name.starts_with('.')), "{:?}", names(&out));
}
