//! The harness beside another program.

use std::process::ExitCode;

#[path = "../common/mod.rs"]
mod common;

mod beside {
    use fullpipe_testkit::Outcome;

    use super::common::planted;

    fn a_busy_machine_excuses_a_limit_of_time_and_nothing_else() {
        let (code, entry) = planted("known::fails_in_time_beside_a_busy_program", "");
        assert_eq!((code, entry.expect("an entry").outcome), (Some(0), Outcome::Inconclusive));
        assert_eq!(planted("known::fails_beside_a_busy_program", ""), (Some(101), None));
    }

    fullpipe_testkit::tests! {
        [] a_busy_machine_excuses_a_limit_of_time_and_nothing_else;
    }
}

fn main() -> ExitCode {
    fullpipe_testkit::main(&[beside::TESTS])
}
