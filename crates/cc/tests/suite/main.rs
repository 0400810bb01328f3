//! The algorithms from outside, without a clock.

mod bounds;
mod bugs;
mod clean_link;
mod custom;
// The fuzzer's targets use it, too.
#[path = "../events/mod.rs"]
mod events;
mod idle;
mod limits;
mod marks;
mod plain_draft;
mod properties;
mod resume;
mod resume_ends;
mod said;
mod serde;
mod stages;
// The link of the unit tests, which use more of it.
#[allow(dead_code)]
#[path = "../../src/test_link.rs"]
mod test_link;
mod traceability;
mod unused_window;

// What `test_link` finds in the crate that has it.
use fullpipe_cc::{
    Algorithm, BbrSnapshot, Config, Controller, Duration, Instant, PacketState, Rate, SendDecision,
    State,
};
