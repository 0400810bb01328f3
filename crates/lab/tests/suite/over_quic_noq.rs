//! Scenarios over noq under a virtual clock, beside the simulator's QUIC: everything is exact, on
//! every machine.

use fullpipe_lab::BackendChoice;
use fullpipe_report::metrics::RunResult;

use crate::beside_sim::{self, PATH, assert_near, figures, plan, run};

fn both(text: &str) -> [RunResult; 2] {
    beside_sim::both(BackendChoice::NOQ, text)
}

/// The simulator agrees with the real stack: within 2 % of goodput, 1 % of the shortest round trip,
/// 1 ms of the median queue or a tenth of it. The goodput of `bbr3` with 1 % of loss is chance, 76
/// to 82 Mbit/s over eight seeds, and so no row.
#[test]
fn the_simulator_agrees_with_the_real_stack() {
    for (cc, rate, rtt, buffer, loss) in [
        ("bbr3", "50mbit", "40ms", "1bdp", "0%"),
        ("bbr3x", "50mbit", "40ms", "1bdp", "0%"),
        ("bbr1", "50mbit", "40ms", "500kB", "0%"),
        ("cubic", "50mbit", "40ms", "1bdp", "0%"),
        ("reno", "50mbit", "20ms", "250kB", "0%"),
        ("cubic", "100mbit", "40ms", "1MB", "0%"),
        ("cubic", "20mbit", "100ms", "250kB", "0%"),
        ("bbr3", "100mbit", "40ms", "3MB", "0%"),
        ("bbr1", "100mbit", "40ms", "500kB", "1%"),
        ("bbr3x", "100mbit", "40ms", "500kB", "1%"),
    ] {
        // 8 s have two cycles of CUBIC, whose phase decides the median.
        let (duration, queue) =
            if cc == "cubic" { ("30s", "queue_ms.mean") } else { ("8s", "queue_ms.p50") };
        let text = format!(
            "cc = \"{cc}\"\nduration = \"{duration}\"\n[path]\nrate = \"{rate}\"\nrtt = \"{rtt}\"\n\
             buffer = \"{buffer}\"\nloss = \"{loss}\"\n"
        );
        let runs = both(&text);
        assert_near(&runs, "goodput_mbps", 0.02);
        assert_near(&runs, "rtt_ms.min", 0.01);
        let (ours, simulated) = figures(&runs, queue);
        assert!(
            (ours - simulated).abs() <= 1.0_f64.max(0.1 * simulated),
            "{cc} {rate} {rtt} {buffer} {loss}: queue {ours} and {simulated} ms"
        );
        let ours = &runs[0].series;
        assert!(ours.len() == 200 && ours.iter().skip(5).all(|row| row.state.is_some()), "{cc}");
    }
}

#[test]
fn the_same_seed_gives_the_same_figures_and_another_seed_others() {
    let text = format!(
        "cc = [\"bbr3\"]\nduration = \"4s\"\n{}[[flow]]\ncount = 3\nevery = \"500ms\"\n[[flow]]\n\
         app = {{ short_flows = {{ bytes = \"30kB\", every = \"50ms\" }} }}\n",
        PATH.replace("buffer", "loss = \"1%\", buffer")
    );
    let first = run(BackendChoice::NOQ, &text);
    assert_eq!(first, run(BackendChoice::NOQ, &text));
    let other = run(BackendChoice::NOQ, &format!("seed = 2\n{text}"));
    assert_ne!(first.metrics, other.metrics);
}

#[test]
fn applications_do_what_they_do_in_the_simulator() {
    let flow = |app: &str| {
        both(&format!("cc = \"bbr3\"\nduration = \"10s\"\n{PATH}[[flow]]\napp = {app}\n"))
    };
    let paced = flow("{ rate_limited = { rate = \"2mbit\", write = \"2500B\" } }");
    assert_near(&paced, "goodput_mbps", 0.01);
    let (ours, simulated) = figures(&paced, "latency_ms.p95");
    assert!((ours - simulated).abs() < 1.0, "{ours} and {simulated} ms");

    let on_off = flow("{ on_off = { on = \"500ms\", off = \"500ms\" } }");
    // noq's buffer goes on for a while after the application has fallen silent.
    assert_near(&on_off, "goodput_mbps", 0.2);

    // noq lets ten packets go at once after a pause, and the simulator a send quantum: an answer of
    // 35 packets ends the time of five to seven packets sooner.
    let answers = flow("{ request_response = { response = \"50kB\", think = \"20ms\" } }");
    assert_near(&answers, "completion_ms.p50", 0.15);
    assert_near(&answers, "goodput_mbps", 0.15);

    let short = flow("{ short_flows = { bytes = \"50kB\", every = \"100ms\" } }");
    assert_near(&short, "completion_ms.p50", 0.1);
    assert_near(&short, "goodput_mbps", 0.1);

    let volume = flow("{ bytes = \"10MB\" }");
    assert_near(&volume, "elapsed_s", 0.05);
    assert_eq!(figures(&volume, "completed_bytes"), (10e6, 10e6));

    // Frames of the same number and bitrate, in the same time, also while the encoder adapts.
    let media = flow("{ media = { bitrate = \"8mbit\", keyframes = \"2s\" } }");
    assert_near(&media, "bitrate_mbps", 0.01);
    assert_near(&media, "completion_ms.p50", 0.1);
    assert_near(&media, "completion_ms.p99", 0.1);
    assert_eq!(figures(&media, "stalls"), (0.0, 0.0));
    let adapts = flow("{ media = { bitrate = \"8mbit\", keyframes = \"2s\", adapt = true } }");
    assert_near(&adapts, "bitrate_mbps", 0.1);
    assert!(figures(&adapts, "bitrate_mbps").0 > 25.0);
}

#[test]
fn a_receive_window_leaves_no_queue() {
    beside_sim::a_receive_window_leaves_no_queue(BackendChoice::NOQ);
}

#[test]
fn a_window_that_grows_is_refused() {
    beside_sim::a_window_that_grows_is_refused(BackendChoice::NOQ);
}

#[test]
fn pauses_do_not_widen_the_window() {
    beside_sim::pauses_do_not_widen_the_window(BackendChoice::NOQ);
}

#[test]
fn a_known_path_is_full_at_once() {
    beside_sim::a_known_path_is_full_at_once(BackendChoice::NOQ);
}

#[test]
fn data_goes_up_and_around() {
    beside_sim::data_goes_up_and_around(BackendChoice::NOQ, "quic");
}

#[test]
fn silences_and_stops_are_what_the_file_says() {
    beside_sim::silences_and_stops_are_what_the_file_says(BackendChoice::NOQ);
}

#[test]
fn a_bad_path_loses_nothing() {
    beside_sim::a_bad_path_loses_nothing(BackendChoice::NOQ);
}

#[test]
fn prague_keeps_the_queue_of_l4s() {
    beside_sim::prague_keeps_the_queue_of_l4s(BackendChoice::NOQ);
}

#[test]
fn a_field_that_is_changed_ends_ecn() {
    beside_sim::a_field_that_is_changed_ends_ecn(BackendChoice::NOQ);
}

#[test]
fn classic_marks_take_the_place_of_losses() {
    beside_sim::classic_marks_take_the_place_of_losses(BackendChoice::NOQ);
}

#[test]
fn an_algorithm_of_the_stack_is_no_sender_of_l4s() {
    beside_sim::is_no_sender_of_l4s(BackendChoice::NOQ, "noq:cubic");
}

#[test]
fn what_it_does_not_have_is_refused() {
    for (line, says) in [
        (
            "transport = \"tcp\"",
            "x.toml:4: flow[0].transport: transport = \"tcp\" does not run over noq (virtual clock)",
        ),
        (
            "handshake = false",
            "flow[0].handshake: handshake does not run over noq (virtual clock); write --stack sim",
        ),
        (
            "cc = \"quinn:bbr\"",
            "quinn:bbr does not run over noq (virtual clock); write --stack quinn",
        ),
    ] {
        let text = format!("cc = \"bbr3\"\n{PATH}[[flow]]\n{line}\n");
        let error = BackendChoice::NOQ.check_plan(&plan(&text), "x.toml");
        let error = error.expect_err(says).to_string();
        assert!(error.contains(says) && !error.contains('\n'), "{error}");
    }
}

#[test]
fn a_file_of_the_docs_runs_unchanged() {
    let runs = both(include_str!("../../../../scenarios/three-backends.toml"));
    assert_near(&runs, "goodput_mbps", 0.02);
    assert_near(&runs, "rtt_ms.p50", 0.03);
    assert_eq!(runs[0].links.len(), 2, "each link is seen by itself");
}
