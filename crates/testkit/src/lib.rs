//! For the tests alone: capabilities of the machine, a harness for tests in real time, and waiting
//! for events.
//!
//! Tests of two kinds are in this repository. Those of the first kind need no clock, no port and no
//! rights; they are ordinary `#[test]` functions. Those of the second kind run in real time or need
//! something of the machine. They are listed with [`tests!`] in a binary named `live`, which
//! [`main`] runs one after the other:
//!
//! - A test whose [`Need`] is not there is skipped, and counted as skipped.
//! - A test that fails while other programs used the machine proves nothing. Tests marked `timed`
//!   are then repeated, and *inconclusive* if no try was undisturbed. A failure on a quiet machine
//!   counts at once.
//! - Each skip, repetition and inconclusive result is recorded for the summary that `./test.sh`
//!   prints.

mod harness;
mod machine;
mod need;
mod process;
mod record;
mod wait;

pub use harness::{Test, inconclusive, main, skip};
pub use machine::{Disturbance, Watch};
pub use need::{Need, program};
pub use process::{Ended, Running, first_line, in_namespace, line_of};
pub use record::{Entry, Outcome, read as read_record};
pub use wait::{PATIENCE, until, until_some};
