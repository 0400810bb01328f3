//! Sequences of events against every property of crates/cc/tests/properties.rs.
//!
//! Input: the algorithm and whether the transport keeps the rules, three bytes of start, then four
//! bytes an event. A legal history is followed by the test of liveness.

#![no_main]

use events::liveness::{self, Fate};
use events::{Event, Flow, Property, Start, algorithms};
use libfuzzer_sys::fuzz_target;

#[path = "../../crates/cc/tests/events/mod.rs"]
mod events;

const ALWAYS: [Property; 5] = [
    Property::WindowFloor,
    Property::WindowBound,
    Property::PacingRate,
    Property::SendQuantum,
    Property::Departure,
];
const LEGAL: [Property; 2] = [Property::Volumes, Property::Inflight];

fuzz_target!(|input: &[u8]| {
    let Some(([choice, fate, clock, window, smss], rest)) = input.split_first_chunk::<5>() else {
        return;
    };
    let legal = choice.is_multiple_of(2);
    let algorithms = algorithms();
    let algorithm = algorithms[usize::from(choice / 2) % algorithms.len()];
    let events: Vec<Event> = rest.as_chunks::<4>().0.iter().map(|e| Event::decode(*e)).collect();

    let start = Start::decode(algorithm, legal, [*clock, *window, *smss]);
    let mut flow = Flow::new(&start);
    if legal {
        flow.run(&events, &[&ALWAYS[..], &LEGAL[..]].concat());
        _ = liveness::assert_delivers(flow, Fate::decode(*fate));
    } else {
        flow.run(&events, &ALWAYS);
    }
});
