//! `bbr3` beside a second model of draft-ietf-ccwg-bbr, which was written from the text alone,
//! after every event of random histories. Numbers are whole and rounded down in both, so that all
//! agree exactly.
//!
//! The model of the core's own tests (`src/bbr3/oracle.rs`) hears what the controller makes of an
//! ACK, and sees what no snapshot shows; this one is beside the whole controller, with a sampler
//! and a recovery of its own. `PROPTEST_CASES` sets the number of histories.

mod connection;
mod control;
mod filters;
mod loss;
mod model;
mod ours;
mod path;
mod probe_bw;
mod probe_rtt;
// The waits before a probe are drawn from the core's generator.
#[path = "../../../src/rng.rs"]
mod rng;

use connection::INFINITY;
use ours::Ours;
use path::Twin;

/// The variables in which the two differ.
fn differences(twin: &Twin) -> Vec<String> {
    let (m, s) = (&twin.model, twin.cc.snapshot());
    let bbr = s.bbr.expect("BBR has a model");
    let bounded = |value: Option<u64>| value.unwrap_or(INFINITY);
    let rate = |rate: fullpipe_cc::Rate| rate.as_bytes_per_sec();
    let time = |time: fullpipe_cc::Duration| time.as_nanos();
    // The text computes them at the end of an ACK, and has no value before the first.
    let after_ack = |value: u64| if twin.has_sample { value } else { 0 };
    let numbers = [
        ("cwnd", m.c.cwnd, s.cwnd),
        ("inflight", m.c.inflight, s.inflight),
        ("pacing_rate", m.c.pacing_rate, bounded(s.pacing_rate.map(rate))),
        ("send_quantum", m.c.send_quantum, s.send_quantum),
        ("delivered", m.c.delivered, s.delivered),
        ("lost", m.c.lost, s.lost),
        ("max_bw", m.max_bw, rate(bbr.max_bw)),
        ("bw", m.bw, rate(bbr.bw)),
        ("bw_shortterm", m.bw_shortterm, bounded(bbr.bw_shortterm.map(rate))),
        ("inflight_shortterm", m.inflight_shortterm, bounded(bbr.inflight_shortterm)),
        ("inflight_longterm", m.inflight_longterm, bounded(bbr.inflight_longterm)),
        ("min_rtt", m.min_rtt, bounded(bbr.min_rtt.map(time))),
        ("bdp", after_ack(m.bdp), after_ack(bbr.bdp)),
        ("extra_acked", m.extra_acked, bbr.extra_acked),
        ("max_inflight", after_ack(m.max_inflight), after_ack(bbr.max_inflight)),
        ("pacing_gain", m.pacing_gain, bbr.pacing_gain.as_percent().into()),
        ("cwnd_gain", m.cwnd_gain, bbr.cwnd_gain.as_percent().into()),
        ("round_count", m.round_count, bbr.round_count),
        ("full_bw", m.full_bw, rate(bbr.full_bw)),
        ("full_bw_count", m.full_bw_count.into(), bbr.full_bw_count.into()),
        ("bw_probe_wait", m.bw_probe_wait, time(bbr.bw_probe_wait)),
        ("rounds_since_probe_up", m.rounds_since_probe_up, bbr.rounds_since_probe_up),
        ("probe_rtt_min_delay", m.probe_rtt_min_delay, bounded(bbr.probe_rtt_min_delay.map(time))),
        ("drain_start_round", m.drain_start_round, bbr.drain_start_round),
        ("bw_latest", m.bw_latest, rate(bbr.bw_latest)),
        ("inflight_latest", m.inflight_latest, bbr.inflight_latest),
        ("bw_probe_up_rounds", m.bw_probe_up_rounds.into(), bbr.bw_probe_up_rounds.into()),
        ("probe_up_acked_per_inc", m.probe_up_acked_per_inc, bounded(bbr.probe_up_acked_per_inc)),
        ("undo_bw_shortterm", m.undo_bw_shortterm, bounded(bbr.undo_bw_shortterm.map(rate))),
        (
            "undo_inflight_shortterm",
            m.undo_inflight_shortterm,
            bounded(bbr.undo_inflight_shortterm),
        ),
        ("undo_inflight_longterm", m.undo_inflight_longterm, bounded(bbr.undo_inflight_longterm)),
    ];
    let flags = [
        ("is_cwnd_limited", m.c.is_cwnd_limited(), s.is_cwnd_limited),
        ("app_limited", m.c.app_limited != 0, s.app_limited),
        ("round_start", m.round_start, bbr.round_start),
        ("full_bw_reached", m.full_bw_reached, bbr.full_bw_reached),
        ("full_bw_now", m.full_bw_now, bbr.full_bw_now),
        ("idle_restart", m.idle_restart, bbr.idle_restart),
        ("prev_probe_too_high", m.prev_probe_too_high, bbr.prev_probe_too_high),
        ("prev_probe_precautionary", m.prev_probe_precautionary, bbr.prev_probe_precautionary),
    ];
    let states =
        [("state", Some(m.state), Some(s.state)), ("undo_state", m.undo_state, bbr.undo_state)];
    let mut found = Vec::new();
    for (name, model, core) in numbers.iter().filter(|(_, model, core)| model != core) {
        found.push(format!("{name}: model {model}, core {core}"));
    }
    for (name, model, core) in flags.iter().filter(|(_, model, core)| model != core) {
        found.push(format!("{name}: model {model}, core {core}"));
    }
    for (name, model, core) in states.iter().filter(|(_, model, core)| model != core) {
        found.push(format!("{name}: model {model:?}, core {core:?}"));
    }
    found
}

/// Runs a history. Returns the first differences, if there are any.
fn run(twin: &mut Twin) -> Option<String> {
    (0..EVENTS).find_map(|event| {
        let before = twin.cc.state();
        twin.step();
        let found = differences(twin);
        let told = || format!("event {event}, {} ACKs, from {before:?}: {found:?}", twin.acks);
        (!found.is_empty()).then(told)
    })
}

/// Events of a history.
const EVENTS: u32 = 6_000;

/// State, model and control parameters are the text's, with what [`Ours`] says.
#[test]
fn each_event_does_what_the_text_says() {
    let cases = crate::properties::cases(60).cases;
    let (mut acks, mut undone, mut timeouts) = (0, 0, 0);
    for seed in 0..u64::from(cases) {
        let mut twin = Twin::new(seed, None);
        if let Some(found) = run(&mut twin) {
            panic!("history {seed}, {found}");
        }
        acks += twin.acks;
        undone += twin.undone;
        timeouts += twin.timeouts;
    }
    println!("{acks} ACKs, {undone} undone, {timeouts} timeouts");
    assert!(acks > 1_000 * u64::from(cases) && undone > 0 && timeouts > 0);
}

/// The histories are those in which each correction shows: without it the two differ.
#[test]
fn each_correction_shows() {
    for ours in Ours::ALL {
        // One shows in one history of thousands: an undo of Startup's end, and more ACKs of the same
        // round.
        let first = if ours == Ours::ExtraAckedWindowByRound { 4_200 } else { 0 };
        let shows = (first..first + 200)
            .find_map(|seed| run(&mut Twin::new(seed, Some(ours))).map(|f| (seed, f)));
        let (seed, found) = shows.unwrap_or_else(|| panic!("{ours:?} never shows"));
        println!("{ours:?}: history {seed}, {found}");
    }
}
