//! Server and client over sockets of this machine.

use std::process::ExitCode;

#[path = "../common/mod.rs"]
mod common;
#[path = "../common/raw.rs"]
mod raw;

mod amplification;
mod answers;
mod bounds;
mod certificates;
mod changing_files;
mod ecn_codepoint;
mod endurance;
mod first_flight;
mod http3;
mod http3_errors;
mod migration;
mod preferred;
mod refusals;
mod semantics;
mod serve_and_get;
mod sessions;
mod thrown_away;
mod unfinished;
mod versions;
mod windows;

fn main() -> ExitCode {
    fullpipe_testkit::main(&[
        amplification::TESTS,
        answers::TESTS,
        bounds::TESTS,
        certificates::TESTS,
        changing_files::TESTS,
        ecn_codepoint::TESTS,
        endurance::TESTS,
        first_flight::TESTS,
        http3::TESTS,
        http3_errors::TESTS,
        migration::TESTS,
        preferred::TESTS,
        refusals::TESTS,
        semantics::TESTS,
        serve_and_get::TESTS,
        sessions::TESTS,
        thrown_away::TESTS,
        unfinished::TESTS,
        versions::TESTS,
        windows::TESTS,
    ])
}
