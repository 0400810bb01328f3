//! Two TCP endpoints over a network that does to each packet what the input says, and heals: the
//! properties of crates/tcp/tests/two_ends.

#![no_main]

use libfuzzer_sys::fuzz_target;

// Bytes that the network changes would reach the application.
#[cfg(fuzzing)]
compile_error!("smoltcp looks at no checksum in a build for fuzzing: give --no-cfg-fuzzing");

#[path = "../../crates/tcp/tests/common/mod.rs"]
mod common;
#[path = "../../crates/tcp/tests/input/mod.rs"]
#[allow(dead_code, reason = "numbers near others are for the other target")]
mod input;
#[path = "../../crates/tcp/tests/two_ends/mod.rs"]
mod two_ends;

fuzz_target!(|input: &[u8]| {
    _ = two_ends::run(input);
});
