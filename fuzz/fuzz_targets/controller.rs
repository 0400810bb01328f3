//! Sequences of events against every property of crates/cc/tests/properties.rs: the input is that of
//! `events::replay`.

#![no_main]

use libfuzzer_sys::fuzz_target;

#[path = "../../crates/cc/tests/events/mod.rs"]
mod events;

fuzz_target!(|input: &[u8]| events::replay(input));
