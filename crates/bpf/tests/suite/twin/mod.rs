//! The C of the kernel program against the Rust core in its Linux flavours: random traces of events
//! through both give equal window, pacing rate, state and model after every event.
//!
//! `PROPTEST_CASES` sets the number of traces. They come from a fixed seed, so that a run repeats;
//! a difference is printed with its trace, shrunk.

mod model;
pub(crate) mod native;
mod notes;
mod trace;
mod twins;

use std::cell::RefCell;
use std::collections::BTreeSet;

use fullpipe_cc::{Amendment, State};
use proptest::strategy::{Strategy, ValueTree};
use proptest::test_runner::{Config, RngSeed, TestCaseError, TestRunner};

use native::Native;

fn cases(default: u32) -> u32 {
    std::env::var("PROPTEST_CASES").ok().and_then(|n| n.parse().ok()).unwrap_or(default)
}

/// The events that the traces led to: two sides that are equal prove nothing if nothing happened.
#[derive(Default)]
struct Seen {
    states: BTreeSet<&'static str>,
    bounds: BTreeSet<&'static str>,
    acks: u64,
}

impl Seen {
    fn note(&mut self, snapshot: &fullpipe_cc::Snapshot) {
        self.acks += 1;
        self.states.insert(snapshot.state.name());
        let Some(bbr) = &snapshot.bbr else { return };
        let bounds = [
            ("bw_shortterm", bbr.bw_shortterm.is_some()),
            ("inflight_shortterm", bbr.inflight_shortterm.is_some()),
            ("inflight_longterm", bbr.inflight_longterm.is_some()),
            ("prev_probe_too_high", bbr.prev_probe_too_high),
            ("prev_probe_precautionary", bbr.prev_probe_precautionary),
            ("ecn_alpha under 1", bbr.ecn_alpha.is_some_and(|alpha| alpha.as_percent() < 100)),
            ("undo Startup", bbr.undo_state == Some(State::Startup)),
            ("undo UP", bbr.undo_state == Some(State::ProbeBwUp)),
            ("bw_probe_up_rounds", bbr.bw_probe_up_rounds > 1),
            ("idle_restart", bbr.idle_restart),
            ("extra_acked", bbr.extra_acked > 0),
        ];
        self.bounds.extend(bounds.iter().filter(|(_, is_set)| *is_set).map(|(name, _)| *name));
    }
}

fn runner() -> TestRunner {
    TestRunner::new(Config {
        cases: cases(400),
        rng_seed: RngSeed::Fixed(3),
        failure_persistence: None,
        max_shrink_iters: 20_000,
        ..Config::default()
    })
}

/// Random traces of `bbr3-linux` or of `bbr3x-linux`.
fn believe_the_same(is_amended: bool) {
    let directory = tempfile::tempdir().expect("a place for the library");
    let native = Native::build(directory.path());
    let seen = RefCell::new(Seen::default());
    let result = runner().run(&trace::trace(is_amended), |trace| {
        trace::run(&native, &trace, None, &mut |snapshot| seen.borrow_mut().note(snapshot))
            .map_err(|difference| TestCaseError::fail(difference.0))
    });
    if let Err(error) = result {
        panic!("{error}");
    }
    let seen = seen.into_inner();
    println!("{} ACKs; {:?}; {:?}", seen.acks, seen.states, seen.bounds);
    if cases(400) >= 400 {
        assert_eq!(seen.states.len(), 7, "the traces miss a state: {:?}", seen.states);
        assert_eq!(seen.bounds.len(), 11, "the traces miss something: {:?}", seen.bounds);
    }
}

#[test]
fn the_twins_believe_the_same_after_every_event() {
    believe_the_same(false);
}

#[test]
fn the_twins_of_bbr3x_believe_the_same_after_every_event() {
    believe_the_same(true);
}

/// The traces see each amendment: C without it differs from Rust with it. The one about marks is
/// neither in C nor in Linux's flavour: Linux takes no mark for congestion.
#[test]
fn an_amendment_that_c_does_not_have_is_a_difference() {
    let directory = tempfile::tempdir().expect("a place for the library");
    let native = Native::build(directory.path());
    for broken in Amendment::ALL.into_iter().filter(|a| *a != Amendment::ClassicMarks) {
        let mut runner = runner();
        let differs = (1..=cases(400)).find(|_| {
            let tree = trace::trace(true).new_tree(&mut runner).expect("a trace");
            trace::run(&native, &tree.current(), Some(broken), &mut |_| {}).is_err()
        });
        println!("{}: a difference in trace {differs:?}", broken.name());
        assert!(differs.is_some() || cases(400) < 400, "no trace sees {}", broken.name());
    }
}

#[test]
fn a_note_is_found_for_every_packet() {
    let directory = tempfile::tempdir().expect("a place for the library");
    notes::hold(&Native::build(directory.path()));
}

/// While TCP repairs what a receiver took back, its ACKs bring no delivery-rate sample.
#[test]
fn without_a_sample_the_window_grows_and_nothing_is_learned() {
    let directory = tempfile::tempdir().expect("a place for the library");
    let native = Native::build(directory.path());
    const MS: u64 = 1_000_000;
    let (smss, rtt) = (1_000, 10 * MS);
    let start = twins::Start {
        smss: 1_000,
        initial_cwnd: 10,
        seed: 1,
        ecn: false,
        now: 0,
        max_pacing_rate: None,
        without: None,
    };
    let mut flow = native.flow(&start, 0);
    let value = |flow: &native::Flow, name: &str| {
        let at = model::VIEW.iter().position(|variable| *variable == name).expect("it is there");
        flow.view()[at]
    };
    // A few round trips of ten packets, so that there is a model.
    let mut now = 0;
    for _ in 0..5 {
        let packets: Vec<_> = (0..10).map(|_| flow.sent(now, smss)).collect();
        now += rtt;
        flow.ack();
        packets.iter().for_each(|packet| flow.acked(packet, false));
        flow.finish(now);
    }
    // All of a flight is lost to a timeout.
    let packets: Vec<_> = (0..10).map(|_| flow.sent(now, smss)).collect();
    flow.ack();
    packets.iter().for_each(|packet| flow.lost(packet));
    flow.finish(now);
    flow.rto(now);
    let learned = ["max_bw", "round_count", "inflight_longterm", "bw_shortterm", "full_bw"];
    let before = learned.map(|name| value(&flow, name));
    let cwnd = value(&flow, "cwnd");
    assert!(cwnd <= 4 * smss, "a timeout leaves {cwnd} bytes");
    let mut windows = vec![cwnd];
    for _ in 0..3 {
        now += rtt;
        flow.ack_without_sample(now, rtt, 2 * smss);
        windows.push(value(&flow, "cwnd"));
    }
    assert!(windows.windows(2).all(|pair| pair[1] >= pair[0] + 2 * smss), "{windows:?}");
    assert_eq!(learned.map(|name| value(&flow, name)), before);
}
