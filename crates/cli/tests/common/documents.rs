//! The commands that README and the guide show.

use std::fs;
use std::path::{Path, PathBuf};

use crate::common::{fullpipe, run};

/// Commands that a test cannot run as they stand, and the reason. Each must be in a document.
const NOT_RUN: [(&str, &str); 3] = [
    ("sudo ", "needs root; live/over_tcp.rs and the tests of crates/bpf run such commands"),
    ("fullpipe serve ", "runs until it is stopped; live/two_processes.rs runs it"),
    ("fullpipe get ", "needs a server; live/two_processes.rs runs it"),
];

/// Lines of code blocks that do not call the command: how to install, test or use the results.
const OTHER_PROGRAMS: [&str; 3] = ["cargo ", "./test.sh", "iperf3 "];

pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().expect("the checkout")
}

/// The lines of the fenced blocks without a language, without their comments. A block that shows
/// output does not begin with a command.
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

/// True for a command that runs in real time.
fn is_real(command: &str) -> bool {
    let is_over = |option: &str| command.contains(option);
    is_over(" --clock real") || is_over(" --stack s2n") || is_over(" --stack linux")
}

/// Runs the commands of a document that run in real time, or the others.
pub(crate) fn run_all(document: &str, real: bool) {
    let (dir, mut count) = (work_dir(), 0);
    for command in commands(document) {
        if OTHER_PROGRAMS.iter().any(|start| command.starts_with(start)) {
            continue;
        }
        if let Some((_, reason)) = NOT_RUN.iter().find(|(start, _)| command.starts_with(start)) {
            println!("not run: {command}: {reason}");
            continue;
        }
        if is_real(&command) != real {
            continue;
        }
        // What stands between single quotes is one word, as in a shell.
        let args: Vec<&str> = command
            .split('\'')
            .enumerate()
            .flat_map(|(i, part)| match i % 2 {
                1 => vec![part],
                _ => part.split_whitespace().collect(),
            })
            .skip(1)
            .collect();
        let said = run(fullpipe(dir.path(), &args));
        assert_eq!(said.code, Some(0), "{document}: {command}\n{}", said.stderr);
        count += 1;
    }
    assert!(count >= 2, "{document}: {count} commands");
}
