//! `fullpipe peers`: a run of our own stack.

use std::path::Path;

use serde_json::Value;

use crate::common::{Said, counts, fullpipe, run};

fullpipe_testkit::tests! {
    long timed [Root, Tun] our_own_stack_is_a_row_of_the_table_and_of_the_page;
}

fn peers(dir: &Path, line: &str) -> Said {
    let arguments: Vec<&str> = std::iter::once("peers").chain(line.split_whitespace()).collect();
    let mut command = fullpipe(dir, &arguments);
    command.env("XDG_CACHE_HOME", dir.join("cache"));
    run(command)
}

fn our_own_stack_is_a_row_of_the_table_and_of_the_page() {
    let dir = tempfile::tempdir().expect("a directory");
    let line =
        "run fullpipe:cubic quic-go --paths clean --rate 10mbit -d 3s --json --report p.html";
    let said = peers(dir.path(), line);
    assert_eq!(said.code, Some(0), "{}", said.stderr);
    let json: Value = serde_json::from_slice(&said.stdout).expect("JSON");
    let report = &json["peers"];
    assert_eq!(report["missing"][0]["name"], "quic-go");
    let sender = &report["senders"][0];
    assert_eq!(sender["name"], "fullpipe:cubic");
    let runs = sender["runs"].as_array().expect("runs");
    assert_eq!(runs.iter().map(|run| &run["copies"]).collect::<Vec<_>>(), [&1, &2]);
    for run in runs {
        counts(&run["result"]["emulator"]);
        let flow = &run["result"]["flows"][0]["metrics"];
        let goodput = flow["goodput_mbps"].as_f64().unwrap_or_else(|| panic!("{run}"));
        // Of 10 Mbit/s, of which two copies have a part each.
        assert!((0.3..10.0).contains(&goodput), "{goodput}");
        assert!(flow["queue_ms.p95"].as_f64().is_some(), "{run}");
    }
    let page = std::fs::read_to_string(dir.path().join("p.html")).expect("a page");
    assert!(page.contains("fullpipe:cubic") && page.contains("<li>quic-go "), "{page}");
}
