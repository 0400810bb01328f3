//! The command with senders that have one defect each, those that
//! `crates/judge/tests/suite/verdicts.rs` plants, to judge them over real packets:
//!
//! ```text
//! cargo run --release --example planted -- serve DIR --cc no-pacing &
//! fullpipe judge --udp 0=127.0.0.1:4433 -- fullpipe get --insecure -o /dev/null 'https://localhost:{port}/file'
//! ```

use std::process::ExitCode;

#[path = "../../judge/tests/planted/mod.rs"]
#[allow(dead_code, reason = "the names of the defects are for the test")]
mod planted;

fn main() -> ExitCode {
    fullpipe_cli::main_with(&planted::ALL)
}
