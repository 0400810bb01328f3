//! The command in real time, on sockets, with rights, and beside other programs.

use std::process::ExitCode;

#[path = "../common/checks.rs"]
mod checks;
#[path = "../common/mod.rs"]
mod common;
#[path = "../common/documents.rs"]
mod documents;

mod action;
mod aioquic;
mod attacks;
mod bad_input;
mod compare;
mod conformance;
mod docs;
mod failures;
mod figures;
mod repeat;
mod robust;
mod scenarios;
mod serving;
mod shell;
mod terminal;
mod two_processes;

fn main() -> ExitCode {
    fullpipe_testkit::main(&[
        action::TESTS,
        aioquic::TESTS,
        attacks::TESTS,
        bad_input::TESTS,
        compare::TESTS,
        conformance::TESTS,
        docs::TESTS,
        failures::TESTS,
        figures::TESTS,
        repeat::TESTS,
        robust::TESTS,
        scenarios::TESTS,
        serving::TESTS,
        shell::TESTS,
        terminal::TESTS,
        two_processes::TESTS,
    ])
}
