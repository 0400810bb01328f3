//! Tells the command which commit it is built from, where that is known, and leaves the lines of
//! the source out of it.

use std::path::Path;
use std::process::Command;

fn git(args: &[&str]) -> Option<String> {
    let output = Command::new("git").args(args).output().ok().filter(|o| o.status.success())?;
    let text = String::from_utf8(output.stdout).ok()?;
    Some(text.trim().to_owned()).filter(|text| !text.is_empty())
}

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-env-changed=FULLPIPE_COMMIT");
    // They are most of its size. The profile keeps them, for the benchmarks and for the tests'
    // backtraces.
    if std::env::var("CARGO_CFG_TARGET_OS").as_deref() == Ok("linux") {
        println!("cargo::rustc-link-arg-bins=-Wl,--strip-debug");
    }
    let told = std::env::var("FULLPIPE_COMMIT").ok();
    // Each commit writes a line into this log: only this crate is built again for it, and not those
    // below.
    let log = git(&["rev-parse", "--git-path", "logs/HEAD"]).filter(|log| Path::new(log).exists());
    if let Some(log) = log {
        println!("cargo::rerun-if-changed={log}");
    }
    let commit = told.or_else(|| git(&["rev-parse", "--short=10", "HEAD"]));
    println!("cargo::rustc-env=FULLPIPE_COMMIT={}", commit.as_deref().unwrap_or("unknown commit"));
}
