//! Shells and man take the completion scripts and the manual pages.

use std::fs;
use std::path::Path;
use std::process::Command;

use fullpipe_testkit::Ended;

use crate::common::{fullpipe, names, run};

/// The output of a program, with `script` in a file as its last argument.
fn by(program: &str, args: &[&str], script: &Path) -> String {
    let mut command = Command::new(program);
    command.args(args).arg(script);
    let said = Ended::of(command);
    assert!(said.code == Some(0) && said.stderr.is_empty(), "{program}: {}", said.stderr);
    String::from_utf8_lossy(&said.stdout).into_owned()
}

fn script_of(shell: &str, dir: &Path) -> Vec<u8> {
    let said = run(fullpipe(dir, &["completions", shell]));
    assert_eq!(said.code, Some(0), "{shell}: {}", said.stderr);
    said.stdout
}

fn takes_its_script(shell: &str) {
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join(shell);
    fs::write(&file, script_of(shell, dir.path())).expect("a file");
    by(shell, &["-n"], &file);
}

fn zsh_takes_its_script() {
    takes_its_script("zsh");
}

fn fish_takes_its_script() {
    takes_its_script("fish");
}

fn bash_completes_subcommands_options_and_values() {
    let dir = tempfile::tempdir().expect("a directory");
    let script = script_of("bash", dir.path());
    let completes = |typed: &[&str], expected: &str| {
        let words = typed.iter().map(|word| format!("'{word}'")).collect::<Vec<_>>().join(" ");
        let (at, last) = (typed.len() - 1, typed.last().expect("a word"));
        let ask = format!(
            "COMP_WORDS=({words}); COMP_CWORD={at}; _fullpipe fullpipe '{last}' ''; echo \"${{COMPREPLY[*]}}\""
        );
        let file = dir.path().join("ask");
        fs::write(&file, [&script[..], ask.as_bytes()].concat()).expect("a file");
        let found = by("bash", &["--norc"], &file);
        let found: Vec<&str> = found.split_whitespace().collect();
        assert!(found.contains(&expected), "{typed:?}: {found:?}");
    };
    takes_its_script("bash");
    completes(&["fullpipe", "confor"], "conformance");
    completes(&["fullpipe", "serve", "--met"], "--metrics");
    completes(&["fullpipe", "kernel", "un"], "unload");
    completes(&["fullpipe", "completions", "fi"], "fish");
}

fn man_formats_every_page() {
    let dir = tempfile::tempdir().expect("a directory");
    let said = run(fullpipe(dir.path(), &["man", "pages"]));
    assert_eq!((said.code, &*said.stderr), (Some(0), ""));
    let pages = dir.path().join("pages");
    for page in names(&pages) {
        let text = by("man", &["--warnings", "-l"], &pages.join(&page));
        assert!(text.contains("SYNOPSIS"), "{page}");
    }
}

fullpipe_testkit::tests! {
    [Bash] bash_completes_subcommands_options_and_values;
    [Zsh] zsh_takes_its_script;
    [Fish] fish_takes_its_script;
    [Man] man_formats_every_page;
}
