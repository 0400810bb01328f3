//! Input that `fullpipe link` refuses before anything starts.

use std::process::Command;

use crate::common::{anybodys, as_nobody, fullpipe, run};

fn arguments<'a>(line: &'a str, command: &[&'a str]) -> Vec<&'a str> {
    let line = std::iter::once("link").chain(line.split_whitespace());
    line.chain(["--"]).chain(command.iter().copied()).collect()
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
    let dir = tempfile::tempdir().expect("a directory");
    let mut command = Command::new(anybodys(dir.path()));
    command.args(arguments("--rate 1mbit", &["true"])).current_dir("/");
    let said = run(as_nobody(command));
    assert_eq!(said.code, Some(2), "{}", said.stderr);
    assert_eq!(said.stderr.lines().count(), 1, "{}", said.stderr);
    for part in ["needs root", "sudo", "--server", "--udp"] {
        assert!(said.stderr.contains(part), "{part}: {}", said.stderr);
    }
}

#[test]
fn the_stack_of_a_file_is_told_to_count_for_nothing() {
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("noq.toml");
    let text = "stack = \"noq\"\nclock = \"real\"\ncc = \"reno\"\npath = { rate = \"10mbit\", rtt = \"20ms\" }\n";
    std::fs::write(&file, text).expect("a file");
    let mut command = Command::new(anybodys(dir.path()));
    let line = format!("--scenario {}", file.display());
    command.args(arguments(&line, &["true"])).current_dir("/");
    let said = run(as_nobody(command)).stderr;
    assert!(said.contains("noq.toml: stack = \"noq\", clock = \"real\": of the flows"), "{said}");
}
