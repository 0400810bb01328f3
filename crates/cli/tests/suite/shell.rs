//! Completion scripts and manual pages: every subcommand is in them.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use crate::common::{fullpipe, names, run};

/// The subcommands that `--help` lists.
fn subcommands() -> BTreeSet<String> {
    let help = run(fullpipe(Path::new("."), &["--help"])).stdout;
    let help = String::from_utf8(help).expect("UTF-8");
    let list = help.split("Commands:\n").nth(1).expect("a list");
    let first = |line: &str| line.split_whitespace().next().map(str::to_owned);
    // What a long description goes on with is indented further.
    let lines = list.lines().take_while(|line| !line.is_empty());
    let names = lines.filter(|line| line.starts_with("  ") && !line.starts_with("   "));
    let names: BTreeSet<_> = names.filter_map(first).filter(|name| name != "help").collect();
    assert!(names.len() >= 15, "{names:?}");
    names
}

#[test]
fn the_script_of_each_shell_has_every_subcommand() {
    let dir = tempfile::tempdir().expect("a directory");
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let said = run(fullpipe(dir.path(), &["completions", shell]));
        assert_eq!(said.code, Some(0), "{shell}: {}", said.stderr);
        let script = String::from_utf8(said.stdout).expect("UTF-8");
        for name in subcommands() {
            assert!(script.contains(&name), "{shell}: no {name}");
        }
        assert!(!script.contains("backend"), "{shell}: a former option");
    }
}

#[test]
fn what_cannot_be_made_is_one_line() {
    let dir = tempfile::tempdir().expect("a directory");
    fs::write(dir.path().join("file"), "").expect("a file");
    for (args, tells) in [
        (&["completions", "tcsh"][..], "bash"),
        (&["man", "file"], "file"),
        (&["completions"], "SHELL"),
    ] {
        let said = run(fullpipe(dir.path(), args));
        assert_eq!((said.code, said.stderr.lines().count()), (Some(2), 1), "{}", said.stderr);
        assert!(said.stderr.contains(tells), "{}", said.stderr);
    }
}

#[test]
fn every_subcommand_has_a_manual_page() {
    let dir = tempfile::tempdir().expect("a directory");
    let said = run(fullpipe(dir.path(), &["man", "new/man1"]));
    assert_eq!((said.code, &*said.stderr), (Some(0), ""));
    let pages = dir.path().join("new/man1");
    let written = names(&pages);
    for name in subcommands().iter().map(String::as_str).chain(["kernel-load", "peers-run"]) {
        assert!(written.contains(&format!("fullpipe-{name}.1")), "no page of {name}: {written:?}");
    }
    let main = fs::read(pages.join("fullpipe.1")).expect("the first page");
    let printed = run(fullpipe(dir.path(), &["man"])).stdout;
    assert!(printed == main, "{}", String::from_utf8_lossy(&printed));
}
