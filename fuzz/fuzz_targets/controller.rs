//! Sequences of events against the properties of crates/cc/tests/suite/properties.rs that hold
//! after each event: the input is that of `events::replay_history`.

#![no_main]

use libfuzzer_sys::fuzz_target;

#[path = "../../crates/cc/tests/events/mod.rs"]
#[allow(dead_code, reason = "the liveness test is of the other target")]
mod events;

fuzz_target!(|input: &[u8]| {
    _ = events::replay_history(input);
});
