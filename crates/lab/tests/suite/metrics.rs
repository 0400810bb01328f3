//! The values of a run's metrics, and the time that they cover: each test is a small scenario whose
//! right answer is known without a simulator.

use std::path::Path;
use std::sync::atomic::AtomicBool;

use fullpipe_lab::{RunOptions, run_point};
use fullpipe_report::metrics::{Figures, RunResult};
use fullpipe_report::plan::Plan;
use fullpipe_scenario::Edition;

fn plan(text: &str) -> Plan {
    let edition = Edition::default();
    Plan::parse(text, "x.toml", "x", Path::new(""), edition).unwrap_or_else(|e| panic!("{e}"))
}

fn outcome_with(rows: Option<u64>, text: &str) -> RunResult {
    let options = RunOptions { rows, ..RunOptions::default() };
    run_point(&plan(text), 0, &options, &AtomicBool::new(false), &mut |_| ()).expect("it runs")
}

fn outcome(text: &str) -> RunResult {
    outcome_with(None, text)
}

fn figure(figures: &Figures, name: &str) -> f64 {
    figures.get(name).copied().flatten().unwrap_or_else(|| panic!("no {name}: {figures:?}"))
}

/// The values of these metrics, each with its window.
fn asked(metrics: &[&str], text: &str) -> Vec<Option<f64>> {
    let expect: Vec<String> = metrics
        .iter()
        .map(|m| match m.split_once(' ') {
            Some((metric, window)) => format!("{metric} >= 0 {window}"),
            None => format!("{m} >= 0"),
        })
        .collect();
    outcome(&format!("expect = {expect:?}\n{text}")).probes
}

/// 200 kB beside cross traffic that goes on after its last byte.
const TRANSFER: &str = "cc = \"cubic\"\nduration = \"60s\"\n\
    path = { rate = \"20mbit\", rtt = \"40ms\", loss = \"1%\" }\n\
    [[flow]]\napp = { bytes = \"200kB\" }\n[[cross]]\nrate = \"15mbit\"\n";

#[test]
fn nothing_counts_that_happens_after_the_last_byte() {
    let sweep = outcome_with(None, TRANSFER);
    let run = outcome_with(Some(500), TRANSFER);
    let often = outcome_with(None, &format!("interval = \"1ms\"\n{TRANSFER}"));
    for other in [&run, &often] {
        assert_eq!(sweep.metrics, other.metrics);
        assert_eq!(sweep.links, other.links);
        assert_eq!(sweep.flows, other.flows);
    }
    let utilization = figure(&sweep.metrics, "utilization");
    assert!((0.5..=1.0).contains(&utilization), "{utilization}");
}

#[test]
fn a_stopped_flow_has_no_more_goodput_than_its_link() {
    // The queue of 16 BDP needs 640 ms to drain after the stop.
    let text = "cc = \"cubic\"\nduration = \"4s\"\n\
        path = { rate = \"20mbit\", rtt = \"40ms\", buffer = \"16bdp\" }\n[[flow]]\nstop = \"2s\"\n";
    let o = outcome(text);
    let flow = &o.flows[0];
    let goodput = figure(&flow.metrics, "goodput_mbps");
    assert!((15.0..=20.0).contains(&goodput), "{goodput}");
    assert_eq!(flow.end_s, 2.0);
    // What was read until the stop, and not a byte more, is its goodput.
    let before = asked(&["completed_bytes before 2s"], text)[0].expect("bytes");
    assert!((goodput - before * 8.0 / 2e6).abs() < 1e-4, "{goodput} {before}");
    assert!(figure(&flow.metrics, "completed_bytes") > before, "the queue drains all the same");
}

#[test]
fn connections_that_are_still_open_are_counted() {
    // 10 MB are 10 s of this link: none of them ends.
    let o = outcome(
        "cc = \"cubic\"\nduration = \"3s\"\npath = { rate = \"8mbit\", rtt = \"20ms\" }\n\
         [[flow]]\napp = { short_flows = { bytes = \"10MB\", every = \"300ms\" } }\n",
    );
    for figures in [&o.metrics, &o.flows[0].metrics] {
        let (sent, read) = (figure(figures, "sent_bytes"), figure(figures, "completed_bytes"));
        assert!(read > 1e6 && sent >= read, "{sent} bytes sent, {read} read");
        assert_eq!(figure(figures, "completions"), 0.0);
        assert!(figure(figures, "censored") >= 3.0, "{figures:?}");
        assert_eq!(figures["completion_ms.p50"], None);
    }
}

#[test]
fn a_connection_is_complete_with_its_last_byte_and_not_with_its_acknowledgment() {
    // A packet arrives after 10 ms, its ACK after the run.
    let o = outcome(
        "cc = \"cubic\"\nduration = \"2s\"\n\
         path = { rate = \"8mbit\", rtt = \"20ms\", up = [{ delay = \"5s\" }] }\n\
         [[flow]]\nhandshake = false\napp = { short_flows = { bytes = \"1kB\", every = \"100ms\" } }\n",
    );
    let m = &o.metrics;
    let done = figure(m, "completions");
    assert_eq!(done, figure(m, "completed_bytes") / 1e3);
    assert!(done > 5.0 && figure(m, "censored") <= 1.0, "{m:?}");
    assert!((11.0..13.0).contains(&figure(m, "completion_ms.max")), "{m:?}");
}

#[test]
fn a_request_without_its_answer_is_censored() {
    // 1 MB takes a second: the third answer is under way when the run ends.
    let text = "cc = \"cubic\"\nduration = \"2800ms\"\npath = { rate = \"8200kbit\", rtt = \"20ms\" }\n\
        [[flow]]\napp = { request_response = { response = \"1MB\", think = \"0ms\" } }\n";
    let values = asked(&["completions", "censored", "completions before 1500ms"], text);
    assert_eq!(values, [Some(2.0), Some(1.0), Some(1.0)]);
    let bulk =
        outcome("cc = \"cubic\"\nduration = \"1s\"\npath = { rate = \"8mbit\", rtt = \"20ms\" }\n");
    assert_eq!(bulk.metrics["censored"], None, "a bulk flow has nothing to complete");
}

/// A frame of 1 kB each 100 ms, which arrives after 11 ms and some headers.
#[test]
fn a_frame_is_timed_from_its_capture_and_stalls_a_player_that_is_too_close() {
    let text = |playout: &str| {
        format!(
            "cc = \"cubic\"\nduration = \"1990ms\"\npath = {{ rate = \"8mbit\", rtt = \"20ms\" }}\n[[flow]]\n\
             handshake = false\napp = {{ media = {{ bitrate = \"80kbit\", fps = 10, playout = \"{playout}\" }} }}\n"
        )
    };
    let (in_time, late) = (outcome(&text("12ms")), outcome(&text("5ms")));
    for figures in [&in_time.metrics, &in_time.flows[0].metrics] {
        assert_eq!(figure(figures, "completions"), 20.0);
        let bitrate = figure(figures, "bitrate_mbps");
        assert!((bitrate - 0.16 / 1.99).abs() < 1e-5, "{bitrate}");
        for none in ["stalls", "stalled_ms", "dropped_frames", "padding_bytes"] {
            assert_eq!(figure(figures, none), 0.0, "{none}");
        }
        for delay in ["completion_ms.min", "completion_ms.p99"] {
            assert!((11.0..11.2).contains(&figure(figures, delay)), "{figures:?}");
        }
    }
    assert_eq!(figure(&late.metrics, "stalls"), 20.0);
    let stalled = figure(&late.metrics, "stalled_ms");
    assert!((20.0 * 6.0..20.0 * 6.2).contains(&stalled), "{stalled}");
    let windows = asked(&["stalls after 950ms", "completions before 950ms"], &text("5ms"));
    assert_eq!(windows, [Some(10.0), Some(10.0)]);
    let bulk =
        outcome("cc = \"cubic\"\nduration = \"1s\"\npath = { rate = \"8mbit\", rtt = \"20ms\" }\n");
    assert_eq!(bulk.metrics["stalls"], None, "a bulk flow has no frames");
}

fn convergence(head: &str, flows: &str, window: &str) -> Option<f64> {
    let text =
        format!("cc = \"cubic\"\npath = {{ rate = \"20mbit\", rtt = \"20ms\" }}\n{head}\n{flows}");
    asked(&[format!("convergence_s {window}").trim()], &text)[0]
}

/// Flows of a fixed rate: what they get is known.
fn fixed(rate: &str, more: &str) -> String {
    format!("[[flow]]\ncc = \"fixed:{rate}\"\nhandshake = false\n{more}\n")
}

#[test]
fn flows_that_are_equal_have_converged_when_the_last_begins() {
    let both = fixed("8mbit", "") + &fixed("8mbit", "start = \"2s\"");
    for interval in ["10ms", "50ms"] {
        let head = format!("duration = \"6s\"\ninterval = \"{interval}\"");
        assert_eq!(convergence(&head, &both, ""), Some(0.0), "{interval}");
        assert_eq!(convergence(&head, &both, "after 3s"), Some(0.0), "{interval}");
    }
}

#[test]
fn convergence_is_known_at_intervals_of_more_than_five_round_trips() {
    let head = "duration = \"8s\"\ninterval = \"500ms\"";
    let both = fixed("8mbit", "") + &fixed("8mbit", "start = \"2s\"");
    assert_eq!(convergence(head, &both, ""), Some(0.0));
    let unequal = fixed("8mbit", "") + &fixed("6mbit", "");
    assert_eq!(convergence(head, &unequal, ""), None);
}

#[test]
fn a_flow_that_stops_does_not_hinder_the_others_from_converging() {
    let head = "duration = \"6s\"\ninterval = \"10ms\"";
    let flows =
        fixed("8mbit", "stop = \"3s\"") + &fixed("4mbit", "") + &fixed("4mbit", "start = \"1s\"");
    let found = convergence(head, &flows, "").expect("two equal flows");
    assert!((found - 2.0).abs() < 0.011, "{found}");
    // One that transfers some bytes has an end of its own: 2.5 MB at 8 Mbit/s are 2.5 s.
    let flows = flows.replacen("stop = \"3s\"", "app = { bytes = \"2500kB\" }", 1);
    let found = convergence(head, &flows, "").expect("two equal flows");
    assert!((1.5..1.8).contains(&found), "{found}");
}

#[test]
fn queueing_delays_belong_to_the_window_in_which_packets_left_the_queue() {
    // Twice the rate from 1 s to 1.5 s: a queue of up to 500 ms, empty again soon after 2 s. Its
    // packets arrive half a second later.
    let text = "cc = \"fixed:100kbit\"\nduration = \"4s\"\n\
        path = { rate = \"10mbit\", rtt = \"1s\", buffer = \"1000pkts\" }\n\
        [[cross]]\nrate = \"20mbit\"\nstart = \"1s\"\nstop = \"1500ms\"\n";
    for queue in ["tail_drop", "{ codel = { target = \"2s\" } }"] {
        let queue = if queue.starts_with('{') { queue.to_owned() } else { format!("{queue:?}") };
        let text = text.replace("buffer =", &format!("queue = {queue}, buffer ="));
        let values = asked(
            &[
                "queue_ms.max before 1s",
                "queue_ms.max from 1s to 1400ms",
                "queue_ms.max from 2150ms to 4s",
                "queue_ms.max",
            ],
            &text,
        );
        let value = |i: usize| values[i].expect("packets");
        assert!(value(0) < 2.0, "{values:?}");
        assert!((150.0..220.0).contains(&value(1)), "{values:?}");
        assert!(value(2) < 2.0, "{values:?}");
        assert!((450.0..510.0).contains(&value(3)), "{values:?}");
    }
}
