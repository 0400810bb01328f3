//! `fullpipe explain` and `fullpipe figures` over QUIC.

use crate::checks::{TWO_RUNS, check_story};
use crate::common::{fullpipe, run};

fn a_figure_that_runs_over_quic_does() {
    let dir = tempfile::tempdir().expect("a directory");
    let said = run(fullpipe(
        dir.path(),
        &["figures", "fig4", "--stack", "noq", "--clock", "real", "--json"],
    ));
    // Whether it is seen depends on the machine.
    assert!(matches!(said.code, Some(0 | 1)), "{}", said.stderr);
    let value: serde_json::Value = serde_json::from_slice(&said.stdout).expect("JSON");
    let detail = value["figures"][0]["detail"].as_str().expect("words");
    assert!(
        detail.contains("real packets of noq's QUIC over the emulated link in 3 runs"),
        "{detail}"
    );
}

fn explain_takes_a_flow_of_a_file() {
    let dir = tempfile::tempdir().expect("a directory");
    std::fs::write(dir.path().join("x.toml"), TWO_RUNS).expect("a file");
    let args = ["explain", "x.toml", "--run", "1", "--stack", "noq", "--clock", "real", "--json"];
    check_story(&run(fullpipe(dir.path(), &args)));
}

fullpipe_testkit::tests! {
    long timed [] explain_takes_a_flow_of_a_file;
    long [] a_figure_that_runs_over_quic_does;
}
