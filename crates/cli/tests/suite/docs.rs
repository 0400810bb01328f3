//! Runs what README and the guide show and needs no packets, checks that the book has every page,
//! and that each sleep of a test has a reason.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::common::{fullpipe, run};
use crate::documents::{root, run_all};

#[test]
fn every_simulation_of_the_readme_runs() {
    run_all("README.md", false);
}

#[test]
fn every_simulation_of_the_guide_runs() {
    run_all("docs/guide.md", false);
}

#[test]
fn every_example_of_the_page_about_files_runs() {
    run_all("docs/files.md", false);
}

/// Each in a directory of its own, with the command in PATH and nothing else.
#[test]
fn every_task_runs_in_an_empty_directory() {
    let command = Path::new(env!("CARGO_BIN_EXE_fullpipe")).parent().expect("its directory");
    let path = format!("{}:/usr/local/bin:/usr/bin:/bin", command.display());
    let mut seen = 0;
    for entry in fs::read_dir(root().join("docs/tasks")).expect("docs/tasks") {
        let script = entry.expect("an entry").path();
        // It compiles a program; live/docs.rs runs it.
        if script.ends_with("library.sh") {
            continue;
        }
        let dir = tempfile::tempdir().expect("a directory");
        let mut shell = Command::new("sh");
        shell.arg(&script).current_dir(&dir).env("PATH", &path);
        let said = run(shell);
        assert_eq!(said.code, Some(0), "{}: {}", script.display(), said.stderr);
        if script.ends_with("screen-reader.sh") {
            // Without Chromium or the packages of web/ it says so; web/tests/reader.spec.ts has
            // both.
            let words = String::from_utf8_lossy(&said.stdout);
            let answers = ["fastest of 2: cubic, goodput ", "\nmet: goodput_mbps["];
            let is_read = answers.iter().all(|answer| words.contains(answer));
            assert!(is_read || words.contains("skipped: "), "{words}");
        }
        seen += 1;
    }
    assert_eq!(seen, 6);
}

#[test]
fn every_command_of_the_readmes_table_exists() {
    let text = fs::read_to_string(root().join("README.md")).expect("README.md");
    let table = text.split("## Which command do I need?").nth(1).expect("the table's section");
    let table = table.split("\n## ").next().expect("one section");
    let mut seen = 0;
    for command in table
        .split('`')
        .filter_map(|code| code.trim_start_matches("sudo ").strip_prefix("fullpipe "))
    {
        let name = command.split_whitespace().next().expect("a subcommand");
        if name == "kernel" && !cfg!(feature = "kernel") {
            continue;
        }
        let said = run(fullpipe(Path::new("."), &[name, "--help"]));
        assert_eq!(said.code, Some(0), "{command}");
        seen += 1;
    }
    assert!(seen >= 8, "{seen} commands");
}

/// The README of the core is compiled and run as its documentation's example.
#[test]
fn the_pages_show_the_snippet_that_compiles() {
    let snippets = |page: &str| -> Vec<String> {
        let text = fs::read_to_string(root().join(page)).expect(page);
        let all = text.split("```rust\n").skip(1).filter_map(|rest| rest.split("```").next());
        all.map(ToOwned::to_owned).collect()
    };
    let compiled = snippets("crates/cc/README.md");
    for (page, count) in [("README.md", 1), ("docs/library.md", 2)] {
        assert_eq!(snippets(page), compiled[..count], "{page}");
    }
}

#[test]
fn the_summary_names_every_page() {
    let summary = fs::read_to_string(root().join("docs/SUMMARY.md")).expect("docs/SUMMARY.md");
    let mut pages = 0;
    for entry in fs::read_dir(root().join("docs")).expect("docs") {
        let name = entry.expect("an entry").file_name().into_string().expect("UTF-8");
        if !name.ends_with(".md") || name == "SUMMARY.md" {
            continue;
        }
        assert!(summary.contains(&format!("({name})")), "docs/SUMMARY.md does not name {name}");
        pages += 1;
    }
    assert!(pages >= 10, "{pages} pages");
}

/// The table of a packet's way names functions that its files have, and few of them.
#[test]
fn a_packet_crosses_the_functions_that_the_architecture_names() {
    let text = fs::read_to_string(root().join("ARCHITECTURE.md")).expect("ARCHITECTURE.md");
    let part = text.split("### Under the virtual clock, function by function").nth(1);
    let part = part.and_then(|rest| rest.split("\n## ").next()).expect("the section");
    let (mut rows, mut between) = (0, 0);
    for row in part.lines().filter(|line| line.starts_with('|') && line.contains(".rs`")) {
        let cells: Vec<_> = row.split('|').map(str::trim).collect();
        let names = |cell: &str| cell.split('`').skip(1).step_by(2).map(str::to_owned).collect();
        let [data, ack, files]: [Vec<String>; 3] = [2, 3, 4].map(|i| names(cells[i]));
        let read = |file| fs::read_to_string(root().join("crates").join(file)).expect("a file");
        let sources: Vec<_> = files.iter().map(read).collect();
        for function in data.iter().chain(&ack) {
            let (_, name) = function.split_once("::").expect("a method");
            let is_there = |source: &String| {
                ["(", "<"].iter().any(|next| source.contains(&format!("fn {name}{next}")))
            };
            assert!(sources.iter().any(is_there), "{files:?} have no {function}");
        }
        rows += 1;
        between += u32::from(cells[1].parse::<u32>().is_ok());
    }
    assert!(rows >= 12 && between <= 8, "{between} functions between the ends, {rows} rows");
}

/// A test that waits for a time instead of an event fails on a busy machine, or wastes the time of
/// an idle one.
#[test]
fn each_sleep_of_a_test_has_a_reason() {
    let mut files = Vec::new();
    for entry in fs::read_dir(root().join("crates")).expect("crates") {
        rust_files(&entry.expect("an entry").path().join("tests"), &mut files);
    }
    assert!(files.len() > 50, "{} files", files.len());
    let mut without = Vec::new();
    for file in files {
        let text = fs::read_to_string(&file).expect("UTF-8");
        let name = file.strip_prefix(root()).expect("below it").display();
        without.extend(unexplained(&text).into_iter().map(|line| format!("{name}:{line}")));
    }
    without.sort();
    assert!(without.is_empty(), "no '// Sleeps: …' directly above:\n{}", without.join("\n"));
}

/// Numbers of the lines that sleep, without a comment directly above that says why.
fn unexplained(text: &str) -> Vec<usize> {
    // In two parts, as this file is looked at as well.
    let call = ["sleep", "("].concat();
    let own = ["fn ", &call].concat();
    let is_comment = |line: &str| line.trim_start().starts_with("//");
    let (mut reason, mut found) = (false, Vec::new());
    for (i, line) in text.lines().enumerate() {
        if is_comment(line) {
            // A reason may take several lines.
            reason |= line.contains("Sleeps:");
            continue;
        }
        let code = line.split("//").next().unwrap_or(line);
        if code.contains(&call) && !code.contains(&own) && !reason {
            found.push(i + 1);
        }
        reason = false;
    }
    found
}

#[test]
fn the_reason_of_a_sleep_stands_directly_above_it() {
    let sleep = ["thread::sleep", "(TIME);"].concat();
    for (above, found) in [
        ("// Sleeps: the load lasts for a second.\n", &[][..]),
        ("// Sleeps: the load\n// lasts for a second.\n", &[]),
        ("", &[1]),
        ("// A second.\n", &[2]),
        ("// Sleeps: not here.\nlet x = 1;\n", &[3]),
        ("// sleep(1)\n// Sleeps: x.\nx(); // sleep(1)\n", &[4]),
    ] {
        assert_eq!(unexplained(&format!("{above}{sleep}")), found, "{above}");
    }
}

fn rust_files(dir: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(dir).into_iter().flatten() {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            rust_files(&path, found);
        } else if path.extension().is_some_and(|end| end == "rs") {
            found.push(path);
        }
    }
}
