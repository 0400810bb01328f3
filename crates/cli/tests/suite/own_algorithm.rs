//! `examples/own_algorithm.rs`: the command with an algorithm that is not of this project.

use std::path::PathBuf;
use std::process::{Command, Output};

/// The example. `cargo test` builds it, unless it was asked for this test alone.
fn example() -> PathBuf {
    let command = PathBuf::from(env!("CARGO_BIN_EXE_fullpipe"));
    let example = command.with_file_name("examples").join("own_algorithm");
    if !example.exists() {
        let built = Command::new(env!("CARGO"))
            .args(["build", "--release", "--locked", "--quiet", "--workspace"])
            .args(["--example", "own_algorithm"])
            .status()
            .expect("cargo runs");
        assert!(built.success(), "the example does not compile");
    }
    example
}

fn run(args: &[&str]) -> Output {
    let dir = tempfile::tempdir().expect("a directory");
    let file = "cc = [\"vegas\", \"reno\"]\nduration = \"5s\"\n\
        [path]\nrate = \"20mbit\"\nrtt = \"20ms\"\nbuffer = \"2bdp\"\n[[flow]]\n";
    std::fs::write(dir.path().join("own.toml"), file).expect("written");
    Command::new(example()).args(args).current_dir(dir.path()).output().expect("it runs")
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

#[test]
fn compare_and_scenario_files_know_an_algorithm_of_another_crate() {
    let simulated = ["compare", "--stack", "sim", "--cc", "vegas,cubic", "--duration", "5s"];
    for args in [&simulated[..], &["run", "own.toml"]] {
        let output = run(args);
        assert!(output.status.success(), "{args:?}: {}", said(&output));
        assert!(said(&output).contains("vegas"), "{args:?}: {}", said(&output));
    }
    let survey =
        run(&["survey", "--cc", "vegas,cubic", "--paths", "2", "--kind", "aqm", "--shrink", "0"]);
    assert!(survey.status.success(), "{}", said(&survey));
    assert!(said(&survey).contains("vegas against cubic"), "{}", said(&survey));
    let unknown = run(&["compare", "--stack", "sim", "--cc", "tahoe"]);
    assert_eq!(unknown.status.code(), Some(2), "{}", said(&unknown));
}
