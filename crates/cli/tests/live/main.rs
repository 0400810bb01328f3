//! The command in real time, on sockets, with rights, and beside other programs.

use std::process::ExitCode;

#[path = "../common/mod.rs"]
mod common;

fn main() -> ExitCode {
    fullpipe_testkit::main(&[])
}
