//! Runs every command that README and the guide show, and checks that the book has every page.

mod common;

use std::fs;
use std::path::{Path, PathBuf};

use common::{fullpipe, run};

/// Commands that a test cannot run as they stand, and the reason. Each must be in a document.
const NOT_RUN: [(&str, &str); 3] = [
    ("sudo ", "needs root; tests/over_tcp.rs and crates/bpf/tests/kernel.rs run such commands"),
    ("fullpipe serve ", "runs until it is stopped; tests/two_processes.rs runs it"),
    ("fullpipe get ", "needs a server; tests/two_processes.rs runs it"),
];

/// Lines of code blocks that do not call the command: how to install, test or use the results.
const OTHER_PROGRAMS: [&str; 3] = ["cargo ", "./test.sh", "iperf3 "];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().expect("the checkout")
}

/// The lines of the fenced blocks without a language, without their comments. A block that shows output does not
/// begin with a command.
fn commands(document: &str) -> Vec<String> {
    let text = fs::read_to_string(root().join(document)).expect(document);
    let mut found = Vec::new();
    for (i, block) in text.split("```").enumerate() {
        // Every second part is inside a fence; its first line is the rest of the fence.
        let Some(lines) = block.strip_prefix('\n').filter(|_| i % 2 == 1) else { continue };
        let is_command = |line: &str| {
            NOT_RUN.iter().any(|(start, _)| line.starts_with(start))
                || OTHER_PROGRAMS.iter().any(|start| line.starts_with(start))
                || line.starts_with("fullpipe ")
        };
        if !lines.lines().next().is_some_and(is_command) {
            continue;
        }
        for line in lines.lines().filter(|line| !line.trim().is_empty()) {
            assert!(is_command(line), "{document}: '{line}' is no command that this test knows");
            found.push(line.split(" #").next().unwrap_or(line).trim().to_owned());
        }
    }
    assert!(found.len() > 5, "{document}: only {found:?}");
    found
}

/// The commands name files below the checkout and write into the current directory.
fn work_dir() -> tempfile::TempDir {
    let dir = tempfile::tempdir().expect("a directory");
    std::os::unix::fs::symlink(root().join("scenarios"), dir.path().join("scenarios"))
        .expect("a link");
    dir
}

fn run_all(document: &str) {
    let dir = work_dir();
    for command in commands(document) {
        if OTHER_PROGRAMS.iter().any(|start| command.starts_with(start)) {
            continue;
        }
        if let Some((_, reason)) = NOT_RUN.iter().find(|(start, _)| command.starts_with(start)) {
            println!("not run: {command}: {reason}");
            continue;
        }
        let args: Vec<&str> = command.split_whitespace().skip(1).collect();
        let said = run(fullpipe(dir.path(), &args));
        assert_eq!(said.code, Some(0), "{document}: {command}\n{}", said.stderr);
    }
}

#[test]
fn every_command_of_the_readme_runs() {
    run_all("README.md");
}

#[test]
fn every_command_of_the_guide_runs() {
    run_all("docs/guide.md");
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
