//! Completion scripts and manual pages: every subcommand is in them, and shells and man take them.

mod common;

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;

use common::{fullpipe, names, run};

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

/// The output of a program that may be missing on this machine, with `script` in a file as its last argument.
fn by(program: &str, args: &[&str], script: &Path) -> Option<String> {
    match Command::new(program).args(args).arg(script).output() {
        Ok(output) => {
            let said = String::from_utf8_lossy(&output.stderr).into_owned();
            assert!(output.status.success() && said.is_empty(), "{program}: {said}");
            Some(String::from_utf8_lossy(&output.stdout).into_owned())
        }
        Err(_) => {
            eprintln!("skipped: no {program} on this machine");
            None
        }
    }
}

#[test]
fn each_shell_takes_its_script_with_every_subcommand() {
    let dir = tempfile::tempdir().expect("a directory");
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let said = run(fullpipe(dir.path(), &["completions", shell]));
        assert_eq!(said.code, Some(0), "{shell}: {}", said.stderr);
        let script = String::from_utf8(said.stdout).expect("UTF-8");
        for name in subcommands() {
            assert!(script.contains(&name), "{shell}: no {name}");
        }
        let file = dir.path().join(shell);
        fs::write(&file, script).expect("a file");
        if ["bash", "zsh", "fish"].contains(&shell) {
            by(shell, &["-n"], &file);
        }
    }
}

#[test]
fn bash_completes_subcommands_options_and_values() {
    let dir = tempfile::tempdir().expect("a directory");
    let script = run(fullpipe(dir.path(), &["completions", "bash"])).stdout;
    let completes = |typed: &[&str], expected: &str| {
        let words = typed.iter().map(|word| format!("'{word}'")).collect::<Vec<_>>().join(" ");
        let (at, last) = (typed.len() - 1, typed.last().expect("a word"));
        let ask = format!(
            "COMP_WORDS=({words}); COMP_CWORD={at}; _fullpipe fullpipe '{last}' ''; echo \"${{COMPREPLY[*]}}\""
        );
        let file = dir.path().join("ask");
        let text = [&script[..], ask.as_bytes()].concat();
        fs::write(&file, text).expect("a file");
        let Some(found) = by("bash", &["--norc"], &file) else { return };
        let found: Vec<&str> = found.split_whitespace().collect();
        assert!(found.contains(&expected), "{typed:?}: {found:?}");
    };
    completes(&["fullpipe", "confor"], "conformance");
    completes(&["fullpipe", "serve", "--met"], "--metrics");
    completes(&["fullpipe", "kernel", "un"], "unload");
    completes(&["fullpipe", "completions", "fi"], "fish");
}

#[test]
fn every_subcommand_has_a_manual_page_that_man_formats() {
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
    for page in written {
        let Some(text) = by("man", &["--warnings", "-l"], &pages.join(&page)) else { return };
        assert!(text.contains("SYNOPSIS"), "{page}");
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
