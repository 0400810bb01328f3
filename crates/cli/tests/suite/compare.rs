//! `fullpipe compare` as a process. The figures are the lab's business; here it is what comes out,
//! where, and how it ends.

use std::path::Path;

use crate::checks::{check_run, one_object};
use crate::common::{Said, fullpipe, names, run};

fn here() -> tempfile::TempDir {
    tempfile::tempdir().expect("a directory")
}

fn compare(dir: &Path, line: &str) -> Said {
    let args: Vec<&str> = std::iter::once("compare").chain(line.split_whitespace()).collect();
    run(fullpipe(dir, &args))
}

#[test]
fn without_a_path_there_are_two_paths() {
    let dir = here();
    let said = compare(dir.path(), "--stack sim --duration 2s --json --report both.html");
    assert_eq!(said.code, Some(0), "{}", said.stderr);
    let object = one_object(&said);
    let runs = object["scenarios"][0]["runs"].as_array().expect("runs");
    assert_eq!(runs.len(), 4);
    let places = [
        ("100mbit 40ms 6bdp", "bbr3"),
        ("100mbit 40ms 6bdp", "cubic"),
        ("100mbit 40ms 1bdp 1%", "bbr3"),
        ("100mbit 40ms 1bdp 1%", "cubic"),
    ];
    for (run, (path, cc)) in runs.iter().zip(places) {
        assert_eq!((&run["at"][0][1], &run["at"][1][1]), (&path.into(), &cc.into()));
        check_run(run, 1);
    }
    assert_eq!(names(dir.path()), ["both.html"]);
}

/// The scenario that compare makes of its options runs as a file, and has the same results.
#[test]
fn the_options_are_a_file() {
    let dir = here();
    let said =
        compare(dir.path(), "--stack sim --cc bbr3 --loss 0.5% --flows 2 --duration 2s --json");
    let ours = one_object(&said)["scenarios"][0].clone();
    std::fs::write(dir.path().join("same.toml"), ours["toml"].as_str().expect("a file"))
        .expect("written");
    let said = run(fullpipe(dir.path(), &["run", "same.toml", "--json"]));
    assert_eq!(said.code, Some(0), "{}", said.stderr);
    assert_eq!(one_object(&said)["scenarios"][0]["runs"], ours["runs"]);
}

#[test]
fn the_table_has_a_row_for_each_run_and_names_the_report() {
    let dir = here();
    let said = compare(
        dir.path(),
        "--stack sim --cc bbr3,cubic,reno --flows 2 --stagger 500ms --bytes 5MB --buffer 300pkts",
    );
    assert_eq!(said.code, Some(0), "{}", said.stderr);
    let text = String::from_utf8(said.stdout).expect("UTF-8");
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines[0], "100mbit 40ms 300pkts 2 flows");
    assert!(lines[1].starts_with("run") && lines[1].ends_with("jain"), "{text}");
    for (line, cc) in lines[3..].iter().zip(["bbr3", "cubic", "reno"]) {
        assert!(line.starts_with(cc), "{text}");
    }
    assert!(lines.iter().all(|line| line.len() <= 80), "{text}");
    assert_eq!(lines[6..], ["report: fullpipe-report.html"], "{text}");
    assert_eq!(names(dir.path()), ["fullpipe-report.html"]);
    let page = std::fs::read_to_string(dir.path().join("fullpipe-report.html")).expect("a page");
    assert!(page.ends_with("</html>\n"));
    assert_eq!(said.stderr.lines().count(), 6, "two lines a run: {}", said.stderr);
}

#[test]
fn bad_input_is_one_line_and_starts_nothing() {
    let dir = here();
    std::fs::write(dir.path().join("file"), "x").expect("a file");
    for (line, says) in [
        (
            "--cc bbr",
            "there are bbr3, bbr3x, bbr3-linux, bbr3x-linux, bbr-swift, prague, bbr1, cubic, reno, and noq's own noq:bbr3",
        ),
        ("--cc bbr3,", "unknown algorithm"),
        ("--cc bbr3,bbr3", "--cc: 'bbr3' is named twice"),
        ("--rate 0", "--rate: '0bit' carries nothing; write a rate like 100mbit"),
        ("--rate fast", "write a rate like 100mbit"),
        ("--rate -5mbit", "'-5mbit' is not a rate"),
        ("--rate 100mbps", "bytes"),
        ("--rtt 40", "'40' has no unit"),
        ("--rtt 1h", "write a time like 40ms"),
        ("--buffer 1000B", "--buffer: "),
        ("--buffer 1000", "'1000' has no unit; write a buffer like 1bdp"),
        ("--buffer 0pkts", "--buffer: "),
        ("--buffer 6M", "write a buffer like 1bdp"),
        ("--loss 100%", "below 100%"),
        ("--loss 2", "if you meant 2%"),
        ("--loss -1%", "'-1%' is not a loss"),
        ("--flows 0", "--flows: 0 flows are none; write at least 1"),
        (
            "--stack noq --clock real --flows 1001",
            "--flows: 1001 flows does not run over noq (real clock); write --stack sim",
        ),
        ("--flows two", "'two' is no whole number; write a whole number like 2"),
        ("--rate 100", "'100' has no unit; write a rate like 100mbit"),
        ("--flows -1", "'-1' is below 0; write a whole number like 2"),
        ("--duration 0s", "--duration: must be greater than 0"),
        ("--bytes 0", "--bytes: bytes must be greater than 0"),
        ("--bytes 1MB --duration 1s", "cannot be used with"),
        ("--flows 3 --stagger 10s", "--stagger: a flow starts at 20s, and the run ends at 10s"),
        ("--stack udp", "there are sim, noq, quinn, s2n, tcp, linux"),
        ("--stack linux --cc bbr1", "bbr1 does not run over linux (real clock)"),
        ("--cc linux:bbr", "linux:bbr does not run over sim (virtual clock); write --stack linux"),
        ("--cc linux:", "write one like linux:bbr"),
        ("--cc quinn:bbr", "quinn:bbr does not run over sim (virtual clock); write --stack quinn"),
        ("--stack quinn --clock real --cc quinn:bbr3", "over quinn its own quinn:bbr, quinn:cubic"),
        ("--cc s2n:bbr", "s2n:bbr does not run over sim (virtual clock); write --stack s2n"),
        ("--stack s2n --cc s2n:bbr2", "over s2n its own s2n:bbr, s2n:cubic"),
        ("--stack s2n --cc s2n:bbr2", "did you mean s2n:bbr?"),
        (
            "--stack sim --cc noq:bbr3",
            "noq:bbr3 does not run over sim (virtual clock); write --stack noq",
        ),
        ("--seed x", "'x' is no whole number"),
        ("--report no/such/dir.html", "cannot write the report"),
        ("--report file/report.html", "cannot write the report"),
        ("--report .", "cannot write the report"),
        ("--report /dev/null", "not a regular file"),
        ("--colour", "--colour"),
        ("extra", "extra"),
    ] {
        let said = compare(dir.path(), line);
        assert_eq!(said.code, Some(2), "{line}: {}", said.stderr);
        assert!(said.stdout.is_empty(), "{line}");
        assert_eq!(said.stderr.lines().count(), 1, "{line}: {}", said.stderr);
        assert!(said.stderr.contains(says), "{line}: {}", said.stderr);
    }
    assert_eq!(names(dir.path()), ["file"]);
}

#[test]
fn a_report_that_cannot_be_written_costs_nothing_else() {
    let dir = here();
    let file = dir.path().join("fullpipe-report.html");
    std::fs::write(&file, "<title>my notes</title>").expect("a file");
    let short = "--stack sim --cc cubic --rate 5mbit --duration 1s";
    // Nobody can write into /proc, root neither.
    for (at, why) in [
        (dir.path(), "the file there is no report of fullpipe; name another with --report"),
        (std::path::Path::new("/proc"), "cannot write the report"),
    ] {
        let said = compare(at, short);
        assert_eq!(said.code, Some(0), "{}", said.stderr);
        assert!(
            said.stderr.starts_with("no report: ") && said.stderr.contains(why),
            "{}",
            said.stderr
        );
        let text = String::from_utf8_lossy(&said.stdout);
        assert!(text.contains("5mbit 40ms 1bdp") && !text.contains("report:"), "{text}");
    }
    assert_eq!(std::fs::read_to_string(&file).expect("a file"), "<title>my notes</title>");
    // One that was asked for is wrong before anything runs.
    let said = compare(dir.path(), &format!("{short} --report fullpipe-report.html"));
    assert_eq!((said.code, said.stdout.len()), (Some(2), 0), "{}", said.stderr);
}
