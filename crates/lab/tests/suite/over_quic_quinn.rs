//! Scenarios over quinn under a virtual clock, beside the simulator's QUIC.

use fullpipe_lab::BackendChoice;
use fullpipe_report::metrics::RunResult;

use crate::beside_sim::{self, PATH, assert_near, figure, figures, plan, run};

fn both(text: &str) -> [RunResult; 2] {
    beside_sim::both(BackendChoice::QUINN, text)
}

fn one_flow(cc: &str, duration: &str, path: &str) -> String {
    format!("cc = \"{cc}\"\nduration = \"{duration}\"\npath = {{ {path} }}\n")
}

/// The core is the simulator's; quinn, its window's pacer and the pacing below it are not.
#[test]
fn the_simulator_agrees_with_the_real_stack() {
    for (cc, path) in [
        ("bbr3", "rate = \"50mbit\", rtt = \"40ms\", buffer = \"1bdp\""),
        ("bbr3", "rate = \"20mbit\", rtt = \"100ms\", buffer = \"4bdp\""),
        ("bbr3x", "rate = \"100mbit\", rtt = \"20ms\", buffer = \"2bdp\""),
        ("cubic", "rate = \"50mbit\", rtt = \"40ms\", buffer = \"1bdp\""),
    ] {
        // 8 s have two cycles of CUBIC, whose phase decides the median.
        let (duration, queue) =
            if cc == "cubic" { ("30s", "queue_ms.mean") } else { ("8s", "queue_ms.p50") };
        let runs = both(&one_flow(cc, duration, path));
        assert_near(&runs, "goodput_mbps", 0.05);
        assert_near(&runs, "rtt_ms.min", 0.01);
        let (ours, simulated) = figures(&runs, queue);
        assert!(
            (ours - simulated).abs() <= 2.0_f64.max(0.1 * simulated),
            "{cc} {path}: queue {ours} and {simulated} ms"
        );
        let rows = &runs[0].series;
        assert!(rows.len() > 150 && rows.iter().skip(5).all(|row| row.state.is_some()), "{cc}");
    }
}

/// quinn reports losses in its own terms; the core has to reduce as often as in the simulator.
#[test]
fn random_losses_cost_what_they_cost_in_the_simulator() {
    let path = "rate = \"50mbit\", rtt = \"40ms\", buffer = \"1bdp\", loss = \"1%\"";
    for cc in ["cubic", "reno"] {
        assert_near(&both(&one_flow(cc, "60s", path)), "goodput_mbps", 0.08);
    }
}

/// quinn's own pacer would let 1.25 windows a round trip leave, and a fixed rate has a large
/// window.
#[test]
fn the_pacing_rate_is_enforced_to_the_packet() {
    let path = "rate = \"100mbit\", rtt = \"20ms\", buffer = \"1bdp\"";
    let run = run(BackendChoice::QUINN, &one_flow("fixed:20mbit", "4s", path));
    let goodput = figure(&run.metrics, "goodput_mbps");
    assert!((19.0..20.0).contains(&goodput), "{goodput} Mbit/s of 20");
    // A batch of quinn's has ten datagrams, which take 1.2 ms of the link.
    let queue = figure(&run.metrics, "queue_ms.max");
    assert!(queue < 0.5, "a queue of {queue} ms");
}

#[test]
fn the_same_seed_gives_the_same_figures_and_another_seed_others() {
    let text = format!(
        "cc = [\"bbr3\"]\nduration = \"3s\"\n{}[[flow]]\ncount = 3\nevery = \"500ms\"\n[[flow]]\n\
         app = {{ short_flows = {{ bytes = \"30kB\", every = \"50ms\" }} }}\n",
        PATH.replace("buffer", "loss = \"1%\", buffer")
    );
    let first = run(BackendChoice::QUINN, &text);
    for _ in 0..2 {
        assert_eq!(first, run(BackendChoice::QUINN, &text));
    }
    let other = run(BackendChoice::QUINN, &format!("seed = 2\n{text}"));
    assert_ne!(first.metrics, other.metrics);
}

#[test]
fn quinns_own_algorithms_run_unpaced_beside_ours() {
    let flow = |cc: &str| format!("[[flow]]\nname = \"{cc}\"\ncc = \"{cc}\"\n");
    for own in ["quinn:bbr", "quinn:cubic", "quinn:reno"] {
        let text = format!("duration = \"3s\"\n{PATH}{}", flow(own));
        let alone = run(BackendChoice::QUINN, &text);
        let goodput = figure(&alone.metrics, "goodput_mbps");
        assert!(goodput > 35.0, "{own} has {goodput} Mbit/s of 50");
        let text = format!("{text}{}", flow("bbr3"));
        let beside = run(BackendChoice::QUINN, &text);
        for flow in &beside.flows {
            let goodput = figure(&flow.metrics, "goodput_mbps");
            assert!(goodput > 2.0, "{own} and bbr3: {} has {goodput} Mbit/s", flow.name);
        }
    }
}

#[test]
fn applications_do_what_they_do_in_the_simulator() {
    let flow = |app: &str| {
        both(&format!("cc = \"bbr3\"\nduration = \"6s\"\n{PATH}[[flow]]\napp = {app}\n"))
    };
    let paced = flow("{ rate_limited = { rate = \"2mbit\", write = \"2500B\" } }");
    assert_near(&paced, "goodput_mbps", 0.01);
    // While BBR finds out what such a flow needs, some packets wait longer for the pacer.
    for (figure, within_ms) in [("latency_ms.p50", 0.5), ("latency_ms.p95", 5.0)] {
        let (ours, simulated) = figures(&paced, figure);
        assert!((ours - simulated).abs() < within_ms, "{figure}: {ours} and {simulated} ms");
    }

    // quinn's buffer goes on for a while after the application has fallen silent.
    let on_off = flow("{ on_off = { on = \"500ms\", off = \"500ms\" } }");
    assert_near(&on_off, "goodput_mbps", 0.2);

    let answers = flow("{ request_response = { response = \"50kB\", think = \"20ms\" } }");
    assert_near(&answers, "completion_ms.p50", 0.15);

    let short = flow("{ short_flows = { bytes = \"50kB\", every = \"100ms\" } }");
    assert_near(&short, "completion_ms.p50", 0.1);

    let volume = flow("{ bytes = \"10MB\" }");
    assert_near(&volume, "elapsed_s", 0.05);
    assert_eq!(figures(&volume, "completed_bytes"), (10e6, 10e6));
}

#[test]
fn a_receive_window_leaves_no_queue() {
    beside_sim::a_receive_window_leaves_no_queue(BackendChoice::QUINN);
}

#[test]
fn a_window_that_grows_is_refused() {
    beside_sim::a_window_that_grows_is_refused(BackendChoice::QUINN);
}

#[test]
fn pauses_do_not_widen_the_window() {
    beside_sim::pauses_do_not_widen_the_window(BackendChoice::QUINN);
}

#[test]
fn a_known_path_is_full_at_once() {
    beside_sim::a_known_path_is_full_at_once(BackendChoice::QUINN);
}

#[test]
fn data_goes_up_and_around() {
    beside_sim::data_goes_up_and_around(BackendChoice::QUINN, "quic");
}

#[test]
fn silences_and_stops_are_what_the_file_says() {
    beside_sim::silences_and_stops_are_what_the_file_says(BackendChoice::QUINN);
}

#[test]
fn a_bad_path_loses_nothing() {
    beside_sim::a_bad_path_loses_nothing(BackendChoice::QUINN);
}

#[test]
fn prague_keeps_the_queue_of_l4s() {
    beside_sim::prague_keeps_the_queue_of_l4s(BackendChoice::QUINN);
}

#[test]
fn a_field_that_is_changed_ends_ecn() {
    beside_sim::a_field_that_is_changed_ends_ecn(BackendChoice::QUINN);
}

#[test]
fn classic_marks_take_the_place_of_losses() {
    beside_sim::classic_marks_take_the_place_of_losses(BackendChoice::QUINN);
}

#[test]
fn an_algorithm_of_the_stack_is_no_sender_of_l4s() {
    beside_sim::is_no_sender_of_l4s(BackendChoice::QUINN, "quinn:cubic");
}

#[test]
fn what_it_does_not_have_is_refused() {
    for (line, says) in [
        (
            "transport = \"tcp\"",
            "transport = \"tcp\" does not run over quinn (virtual clock); write --stack sim or --stack",
        ),
        (
            "cc = \"noq:bbr3\"",
            "noq:bbr3 does not run over quinn (virtual clock); write --stack noq",
        ),
    ] {
        let text = format!("cc = \"bbr3\"\n{PATH}[[flow]]\n{line}\n");
        let error = BackendChoice::QUINN.check_plan(&plan(&text), "x.toml");
        let error = error.expect_err(says).to_string();
        assert!(error.contains(says) && !error.contains('\n'), "{error}");
    }
}

#[test]
fn a_file_of_the_docs_runs_unchanged() {
    let runs = both(include_str!("../../../../scenarios/three-backends.toml"));
    assert_near(&runs, "goodput_mbps", 0.02);
    assert_near(&runs, "rtt_ms.p50", 0.05);
    assert_eq!(runs[0].links.len(), 2, "each link is seen by itself");
}
