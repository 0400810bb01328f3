//! Flows of other programs that are refused before anything starts.

use std::fs;
use std::path::Path;

use crate::common::{Said, fullpipe, run};

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

#[test]
fn templates_and_programs_that_cannot_be_right_are_one_line() {
    let dir = tempfile::tempdir().expect("a directory");
    for (flow, part) in [
        (program("client = \"iperf3 -c {sever} -p {port}\""), "did you mean server"),
        (program("server = \"iperf3 -s -p {port}\""), "no client"),
        (program("client = \"x {port}\", sends = \"server\""), "no server"),
        (program("client = \"x\""), "no {port}"),
        (program("client = \"x {port}\"") + "cc = \"bbr3\"\n", "decides this for itself"),
        (program("client = \"x {port}\"") + "mss = 1000\n", "decides this for itself"),
        ("[[flow]]\ncc = \"program:mine\"\n".to_owned(), "no [program.mine]"),
        (
            "[[flow]]\ncc = \"program:mine\"\n[program.mine]\nclient = \"x\"\n".to_owned(),
            "program.mine.client: no {port}",
        ),
    ] {
        let said = run_file(dir.path(), "2s", &flow);
        assert_eq!(said.code, Some(2), "{flow}: {}", said.stderr);
        assert_eq!(said.stderr.lines().count(), 1, "{flow}: {}", said.stderr);
        assert!(said.stderr.contains(part), "{flow}: {}", said.stderr);
    }
    for (stack, clock) in [("sim", "virtual"), ("noq", "real")] {
        write(dir.path(), "2s", &program("client = \"x {port}\""));
        let said =
            run(fullpipe(dir.path(), &["run", "--stack", stack, "--clock", clock, "x.toml"]));
        assert_eq!(said.code, Some(2), "{}", said.stderr);
        let line =
            format!("a program does not run over {stack} ({clock} clock); write --stack linux");
        assert!(said.stderr.contains(&line) && said.stderr.lines().count() == 1, "{}", said.stderr);
    }
}
