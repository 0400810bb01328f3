//! The command `fullpipe`: all of it is the library.

use std::process::ExitCode;

fn main() -> ExitCode {
    fullpipe_cli::main_with(&[])
}
