//! Random sequences of events until `FUZZ_EVENTS` have passed: an endpoint and a peer that need not
//! be honest, and two ends over a network that does what it likes.
//!
//! A sequence that fails is made as short as possible and printed. `FUZZ_SEED` gives other
//! sequences.

use std::cell::Cell;

use proptest::prelude::*;
use proptest::test_runner::{RngAlgorithm, TestError, TestRng, TestRunner};

use crate::{soup, two_ends};

/// The number in an environment variable.
pub(crate) fn number(variable: &str, default: u64) -> u64 {
    let text = std::env::var(variable).ok();
    text.map_or(default, |text| text.parse().expect("the variable is a number"))
}

/// Runs sequences of up to `longest` bytes until there were enough events.
fn until_enough(longest: usize, run: fn(&[u8]) -> usize) {
    let (wanted, seed) = (number("FUZZ_EVENTS", 200_000), number("FUZZ_SEED", 1));
    let events = Cell::new(0_u64);
    let mut sequences = 0_u64;
    while events.get() < wanted {
        let mut key = [0; 32];
        key[..8].copy_from_slice(&seed.to_le_bytes());
        key[8..16].copy_from_slice(&sequences.to_le_bytes());
        let config = ProptestConfig {
            cases: 1,
            max_shrink_iters: 20_000,
            failure_persistence: None,
            ..ProptestConfig::default()
        };
        let dice = TestRng::from_seed(RngAlgorithm::ChaCha, &key);
        let strategy = prop::collection::vec(any::<u8>(), 0..longest);
        let done = TestRunner::new_with_rng(config, dice).run(&strategy, |input| {
            events.set(events.get() + run(&input) as u64);
            Ok(())
        });
        if let Err(TestError::Fail(reason, input)) = done {
            let hex: String = input.iter().map(|byte| format!("{byte:02x}")).collect();
            panic!("sequence {sequences} of FUZZ_SEED={seed}, in short {hex}: {reason}");
        }
        sequences += 1;
    }
    println!("{} events in {sequences} sequences", events.get());
}

#[test]
fn nothing_that_a_peer_sends_does_harm() {
    until_enough(3000, soup::run);
}

#[test]
fn every_byte_arrives_when_the_network_heals() {
    until_enough(1500, two_ends::run);
}

/// Replays earlier findings, in `fuzz/regressions`.
#[test]
fn earlier_findings_stay_mended() {
    let directory = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fuzz/regressions/two_ends");
    for entry in std::fs::read_dir(directory).expect("the directory of regressions") {
        let path = entry.expect("a file").path();
        let input = std::fs::read(&path).expect("a file");
        println!("{}: {} events", path.display(), two_ends::run(&input));
    }
}
