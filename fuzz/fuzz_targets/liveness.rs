//! The target `controller`, and after each legal history whether the flow fills half of a plain
//! link again: the input is that of `events::replay`.

#![no_main]

use libfuzzer_sys::fuzz_target;

#[path = "../../crates/cc/tests/events/mod.rs"]
mod events;

fuzz_target!(|input: &[u8]| events::replay(input));
