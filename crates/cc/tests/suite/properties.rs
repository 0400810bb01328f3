//! Properties that must hold for every algorithm under any input: random sequences of events, with
//! the clock at 1 ns and at its end, packets of one byte and of 64 kB, round trips of zero and of
//! years.
//!
//! `PROPTEST_CASES` sets the number of sequences of each test; `cargo fuzz` looks for more (see
//! CONTRIBUTING.md).

use crate::events::liveness::{self, Fate};
use crate::events::{Event, Flow, Property, Start, algorithms};
use proptest::prelude::*;

/// Sequences of each test; each is run for every algorithm.
pub(crate) fn cases(default: u32) -> ProptestConfig {
    let cases = std::env::var("PROPTEST_CASES").ok().and_then(|n| n.parse().ok());
    ProptestConfig {
        cases: cases.unwrap_or(default),
        failure_persistence: None,
        ..ProptestConfig::default()
    }
}

/// One in 20 is of a limit that is not the window's, which have one code of 256.
fn events() -> impl Strategy<Value = Vec<Event>> {
    let any_event = any::<[u8; 4]>().prop_map(Event::decode);
    let limit = any::<[u8; 3]>().prop_map(|[kind, a, b]| Event::decode([254, kind, a, b]));
    prop::collection::vec(prop_oneof![19 => any_event, 1 => limit], 0..250)
}

/// Mostly packets and the ACKs of the oldest, some with a mark: what a jump does not end with.
fn quiet_events() -> impl Strategy<Value = Vec<Event>> {
    let send = (0..32_u8).prop_map(|count| Event::Send { size: 0, count, wait: 1 });
    let marks = prop_oneof![99 => Just(0_u8), 1 => Just(16)];
    // Mostly 20 ms, the round trip that was saved.
    let step = prop_oneof![1 => 0..6_u8, 9 => Just(6)];
    let ack = (0..16_u8, step, marks).prop_map(|(count, step, marks)| Event::Ack {
        from: 0,
        count,
        flags: (step << 5) | marks,
    });
    let any_event = any::<[u8; 4]>().prop_map(Event::decode);
    prop::collection::vec(prop_oneof![20 => send, 20 => ack, 1 => any_event], 0..250)
}

/// Runs one sequence for each algorithm.
fn hold(legal: bool, start: [u8; 3], events: &[Event], properties: &[Property]) {
    for algorithm in algorithms() {
        Flow::new(&Start::decode(algorithm, legal, start)).run(events, properties);
    }
}

proptest! {
    #![proptest_config(cases(300))]

    /// No arithmetic overflows (the debug profile checks), no index, no division by zero: not even
    /// when packets are acknowledged twice, volumes are invented and the clock runs backwards.
    #[test]
    fn nothing_panics(start: [u8; 3], events in events()) {
        hold(false, start, &events, &[]);
    }

    /// A window under the floor would wait for ACKs that nobody can send: BBR keeps four SMSS after
    /// an ACK and room for one more packet after a timeout, CUBIC and Reno keep two.
    #[test]
    fn the_window_keeps_its_floor(start: [u8; 3], events in events()) {
        hold(false, start, &events, &[Property::WindowFloor]);
    }

    /// The window is never above its start and what was acknowledged since: nothing but delivered
    /// data earns room.
    #[test]
    fn the_window_grows_by_no_more_than_what_was_acknowledged(
        start: [u8; 3],
        events in events(),
    ) {
        hold(false, start, &events, &[Property::WindowBound]);
    }

    /// A rate of zero would never end.
    #[test]
    fn the_pacing_rate_is_never_zero(start: [u8; 3], events in events()) {
        hold(false, start, &events, &[Property::PacingRate]);
    }

    /// An aggregate holds a full packet, and fits one segmentation offload if two packets do.
    #[test]
    fn the_send_quantum_keeps_its_bounds(start: [u8; 3], events in events()) {
        hold(false, start, &events, &[Property::SendQuantum]);
    }

    /// A departure time given by the pacer is later than now, and at that time the packet may
    /// leave.
    #[test]
    fn a_departure_time_lies_ahead_and_is_kept(start: [u8; 3], events in events()) {
        hold(false, start, &events, &[Property::Departure]);
    }

    /// An application that plans with an estimate of nothing would stop, and one that plans with
    /// more than the flow may send would fill its own queue.
    #[test]
    fn what_a_controller_answers_can_be_used(start: [u8; 3], events in events()) {
        hold(false, start, &events, &[Property::Answers]);
    }

    /// Each byte is delivered or lost at most once.
    #[test]
    fn delivered_and_lost_are_never_more_than_sent(start: [u8; 3], events in events()) {
        hold(true, start, &events, &[Property::Volumes]);
    }

    /// C.inflight neither leaks nor forgets.
    #[test]
    fn inflight_is_the_sum_of_what_is_outstanding(start: [u8; 3], events in events()) {
        hold(true, start, &events, &[Property::Inflight]);
    }
}

proptest! {
    #![proptest_config(cases(100))]

    /// All of that holds in each phase of Careful Resume as well, into which random events from the
    /// start hardly lead.
    #[test]
    fn a_connection_that_jumps_keeps_all_properties(
        [clock, window, smss]: [u8; 3],
        events in quiet_events(),
    ) {
        // A paced sender with the usual initial window.
        let start = [0x40 | (clock % 2), window & 0b1111_1000, smss];
        hold(true, start, &events, &Property::ALL);
    }
}

proptest! {
    #![proptest_config(cases(64))]

    /// From any state that a legal history leads to, the flow fills half of a plain link again
    /// within [`liveness::bound`].
    #[test]
    fn a_flow_delivers_again_from_any_state(
        [clock, window, smss]: [u8; 3],
        events in events(),
        fate: u8,
    ) {
        for algorithm in algorithms() {
            let mut flow = Flow::new(&Start::decode(algorithm, true, [clock & !2, window, smss]));
            flow.run(&events, &[]);
            liveness::assert_delivers(flow, Fate::decode(fate));
        }
    }
}

/// A packet of one byte gave a rate of 27 bytes per second, and then packets became larger: the
/// least pacing rate is one of these a second.
#[test]
fn a_flow_delivers_again_after_its_packets_grew() {
    let history = [
        Event::Send { size: 0, count: 0, wait: 0 },
        Event::Ack { from: 0, count: 0, flags: 224 },
        Event::Probe { size: 0 },
    ];
    for algorithm in algorithms() {
        let mut flow = Flow::new(&Start::decode(algorithm, true, [0, 102, 22]));
        flow.run(&history, &[]);
        liveness::assert_delivers(flow, Fate::decode(1));
    }
}

/// Replays the fuzzer's earlier findings, in `fuzz/regressions`.
#[test]
fn what_the_fuzzer_found_does_not_come_back() {
    let directory = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fuzz/regressions/controller");
    let files = std::fs::read_dir(directory).expect("it is part of the repository");
    let inputs: Vec<_> = files.map(|file| file.expect("readable").path()).collect();
    assert!(!inputs.is_empty());
    for input in inputs {
        println!("{}", input.display());
        crate::events::replay(&std::fs::read(&input).expect("readable"));
    }
}

/// All bytes that enter C.inflight leave it again, whatever size a caller claims.
#[test]
fn a_packet_of_impossible_size_leaves_nothing_in_flight() {
    for algorithm in algorithms() {
        let mut flow = Flow::new(&Start::decode(algorithm, false, [0; 3]));
        let packet = flow.send(u32::MAX);
        flow.check(Property::Inflight);
        flow.outstanding.clear();
        flow.report(&[packet], Vec::new());
        flow.check(Property::Inflight);
    }
}
