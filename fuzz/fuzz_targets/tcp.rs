//! A TCP endpoint and a peer that sends what the input says: the properties of
//! crates/tcp/tests/soup.

#![no_main]

use libfuzzer_sys::fuzz_target;

#[path = "../../crates/tcp/tests/input/mod.rs"]
mod input;
#[path = "../../crates/tcp/tests/soup/mod.rs"]
mod soup;

fuzz_target!(|input: &[u8]| {
    _ = soup::run(input);
});
