//! Input that is refused over the kernel's TCP before anything starts.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::common::{Said, anybodys, as_nobody, fullpipe, run};

fn arguments(line: &str) -> Vec<&str> {
    ["compare", "--stack", "linux"].into_iter().chain(line.split_whitespace()).collect()
}

fn tcp(line: &str) -> Said {
    run(fullpipe(Path::new("/"), &arguments(line)))
}

#[test]
fn without_root_one_line_says_what_is_needed() {
    let dir = tempfile::tempdir().expect("a directory");
    for link in ["", "--link netem "] {
        let line = format!("{link}--cc linux:cubic --duration 1s --json");
        let mut command = Command::new(anybodys(dir.path()));
        command.args(arguments(&line)).current_dir("/");
        let said = run(as_nobody(command));
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

#[cfg(not(feature = "kernel"))]
#[test]
fn a_build_without_the_kernel_program_says_how_to_have_it() {
    let said = tcp("--cc bbr3,linux:reno --json");
    assert_eq!(said.code, Some(2), "{}", said.stderr);
    assert_eq!(said.stderr.lines().count(), 1, "{}", said.stderr);
    for part in ["bbr3-linux over linux", "--features kernel", "linux:NAME"] {
        assert!(said.stderr.contains(part), "{}", said.stderr);
    }
}

#[test]
fn a_link_that_a_backend_does_not_have_is_refused() {
    let dir = tempfile::tempdir().expect("a directory");
    // No report can be written here, which is nothing to be told of what is refused.
    fs::create_dir(dir.path().join("fullpipe-report.html")).expect("a directory");
    for (line, why) in [
        ("--stack linux --link udp --cc linux:cubic", "write --link tun or --link netem"),
        ("--stack sim --link tun", "leave --link tun out, or write --stack noq --clock real or"),
        ("--stack noq --clock real --link netem", "write --link udp or --link tun"),
        ("--stack linux --link wire --cc linux:cubic", "there are udp, tun, netem"),
    ] {
        let line: Vec<&str> = std::iter::once("compare").chain(line.split_whitespace()).collect();
        let said = run(fullpipe(dir.path(), &line));
        assert_eq!(said.code, Some(2), "{}", said.stderr);
        assert!(said.stderr.contains(why) && said.stderr.lines().count() == 1, "{}", said.stderr);
    }
}

#[test]
fn a_flow_that_goes_up_is_refused_where_the_way_up_has_no_rate() {
    let dir = tempfile::tempdir().expect("a directory");
    let text = "duration = \"6s\"\n[path]\nrate = \"20mbit\"\nrtt = \"20ms\"\nbuffer = \"2bdp\"\n\
        [[flow]]\ncc = \"cubic\"\n[[flow]]\ncc = \"cubic\"\ndirection = \"up\"\n";
    std::fs::write(dir.path().join("both.toml"), text).expect("a file");
    let said = run(fullpipe(dir.path(), &["run", "both.toml"]));
    let telling = "the way up has no rate";
    assert!(said.code == Some(2) && said.stderr.contains(telling), "{}", said.stderr);
}
