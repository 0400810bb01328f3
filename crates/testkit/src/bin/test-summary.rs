//! The summary of a run of the tests, from nextest's JUnit files and the record of the harness:
//!
//! ```text
//! test-summary RECORD JUNIT...
//! ```
//!
//! Names the slowest tests, since the time of a run is limited. Ends with 1 if a test failed or if
//! none ran.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::ExitCode;

use fullpipe_testkit::{Entry, Outcome, read_record};

/// Slowest tests that are named.
const SLOWEST: usize = 12;

fn main() -> ExitCode {
    let mut files = std::env::args().skip(1);
    let Some(record) = files.next() else {
        eprintln!("test-summary: write test-summary RECORD JUNIT...");
        return ExitCode::from(2);
    };
    let record = read_record(Path::new(&record));
    let (mut all, mut failed, mut slow) = (0, Vec::new(), Vec::new());
    for file in files {
        let text = match std::fs::read_to_string(&file) {
            Ok(text) => text,
            Err(error) => {
                eprintln!("test-summary: {file}: {error}");
                return ExitCode::from(2);
            }
        };
        let page = roxmltree::Document::parse(&text).expect("nextest writes XML");
        for case in page.descendants().filter(|node| node.has_tag_name("testcase")) {
            all += 1;
            let of = |name| case.attribute(name).unwrap_or_default();
            let name = format!("{} {}", of("classname"), of("name"));
            slow.push((of("time").parse().unwrap_or(0.0), name.clone()));
            let is_wrong = |node: roxmltree::Node<'_, '_>| {
                node.has_tag_name("failure") || node.has_tag_name("error")
            };
            if case.children().any(is_wrong) {
                failed.push(name);
            }
        }
    }
    print_slowest(slow);
    print(&record, &failed, all)
}

fn print_slowest(mut tests: Vec<(f64, String)>) {
    tests.sort_by(|a, b| b.0.total_cmp(&a.0));
    let all: f64 = tests.iter().map(|test| test.0).sum();
    tests.truncate(SLOWEST);
    let named: Vec<String> =
        tests.iter().map(|(seconds, name)| format!("{name} {seconds:.1} s")).collect();
    println!("{all:.0} s in tests; the slowest: {}", named.join(", "));
}

fn print(record: &[Entry], failed: &[String], all: usize) -> ExitCode {
    let of = |outcome| record.iter().filter(move |entry| entry.outcome == outcome);
    for entry in of(Outcome::Repeated) {
        println!("repeated: {}: {}", entry.test, entry.why);
    }
    for entry in of(Outcome::Inconclusive) {
        println!("inconclusive: {}: {}", entry.test, entry.why);
    }
    let mut reasons: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for entry in of(Outcome::Skipped) {
        reasons.entry(&entry.why).or_default().push(&entry.test);
    }
    for (why, tests) in &reasons {
        println!("skipped, {why}: {}", tests.join(", "));
    }
    for test in failed {
        println!("failed: {test}");
    }
    let (skipped, inconclusive) = (of(Outcome::Skipped).count(), of(Outcome::Inconclusive).count());
    // A harness that skips ends well, and nextest counts it as passed.
    let passed = all.saturating_sub(failed.len() + skipped + inconclusive);
    if inconclusive > 0 {
        println!(
            "{inconclusive} inconclusive: the machine was too busy to tell; they count as skipped"
        );
    }
    println!("{passed} passed, {} failed, {} skipped", failed.len(), skipped + inconclusive);
    if failed.is_empty() && all > 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
