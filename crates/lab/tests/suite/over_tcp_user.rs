//! Scenarios over TCP in user space, beside the simulator's TCP: both have a virtual clock, so that
//! everything is exact, on every machine.

use fullpipe_lab::BackendChoice;
use fullpipe_report::metrics::RunResult;

use crate::beside_sim::{self, PATH, assert_near, figure, figures, plan, run};

fn both(text: &str) -> [RunResult; 2] {
    beside_sim::both(BackendChoice::TCP, text)
}

#[test]
fn a_clean_path_brings_what_it_brings_in_the_simulator() {
    for cc in [
        "bbr3",
        "bbr3x",
        "bbr3-linux",
        "bbr3x-linux",
        "bbr-swift",
        "prague",
        "bbr1",
        "cubic",
        "reno",
    ] {
        let text =
            format!("cc = \"{cc}\"\nduration = \"10s\"\n{PATH}[[flow]]\ntransport = \"tcp\"\n");
        let runs = both(&text);
        assert_near(&runs, "goodput_mbps", 0.03);
        assert_near(&runs, "rtt_ms.min", 0.01);
        let (ours, simulated) = figures(&runs, "latency_ms.p50");
        assert!((ours - simulated).abs() <= 8.0, "{cc}: {ours} and {simulated} ms");
        let (ours, simulated) = figures(&runs, "queue_ms.p95");
        assert!((ours - simulated).abs() <= 8.0, "{cc}: {ours} and {simulated} ms");
        assert!(runs[0].series.iter().all(|row| row.state.is_some()), "{cc}");
        assert_eq!(runs[0].series.len(), 200);
    }
}

#[test]
fn the_same_seed_gives_the_same_bytes_and_another_seed_others() {
    let text = format!(
        "cc = [\"bbr3\"]\nduration = \"4s\"\n{}[[flow]]\ncount = 3\nevery = \"500ms\"\n[[flow]]\n\
         app = {{ short_flows = {{ bytes = \"30kB\", every = \"50ms\" }} }}\n",
        PATH.replace("buffer", "loss = \"1%\", buffer")
    );
    let first = run(BackendChoice::TCP, &text);
    assert_eq!(first, run(BackendChoice::TCP, &text));
    let other = run(BackendChoice::TCP, &format!("seed = 2\n{text}"));
    assert_ne!(first.metrics, other.metrics);
}

/// A send buffer that is always full is what data waits in: its size over the rate, less the way
/// back of the ACKs, whatever the queue is.
#[test]
fn a_send_buffer_delays_what_is_written() {
    let text = format!(
        "cc = \"bbr3\"\nduration = \"10s\"\n{PATH}[[flow]]\ntransport = \"tcp\"\nsend_buffer = \"2MB\"\n"
    );
    let runs = both(&text);
    assert_near(&runs, "latency_ms.p50", 0.05);
    let (goodput, latency) =
        (figure(&runs[0].metrics, "goodput_mbps"), figure(&runs[0].metrics, "latency_ms.p50"));
    let expected = 16e3 / goodput - 20.0;
    assert!((latency / expected - 1.0).abs() < 0.05, "{latency} ms, {expected} expected");
}

#[test]
fn applications_do_what_they_do_in_the_simulator() {
    let flow = |app: &str, more: &str| {
        both(&format!(
            "cc = \"bbr3\"\nduration = \"10s\"\n{PATH}[[flow]]\ntransport = \"tcp\"\napp = {app}\n{more}"
        ))
    };
    let paced = flow("{ rate_limited = { rate = \"2mbit\", write = \"2500B\" } }", "");
    assert_near(&paced, "goodput_mbps", 0.01);
    let (ours, simulated) = figures(&paced, "latency_ms.p95");
    assert!((ours - simulated).abs() < 1.0, "{ours} and {simulated} ms");

    let on_off = flow("{ on_off = { on = \"500ms\", off = \"500ms\" } }", "");
    assert_near(&on_off, "goodput_mbps", 0.1);

    let answers = flow("{ request_response = { response = \"50kB\", think = \"20ms\" } }", "");
    assert_near(&answers, "completion_ms.p50", 0.05);
    assert_near(&answers, "goodput_mbps", 0.05);

    let short = flow("{ short_flows = { bytes = \"50kB\", every = \"100ms\" } }", "");
    assert_near(&short, "completion_ms.p50", 0.05);
    assert_near(&short, "goodput_mbps", 0.05);

    let volume = flow("{ bytes = \"10MB\" }", "send_buffer = \"1MB\"\nreceive_window = \"4MB\"\n");
    assert_near(&volume, "elapsed_s", 0.05);
    assert_eq!(figures(&volume, "completed_bytes"), (10e6, 10e6));

    // Frames of the same number and bitrate, in the same time, also while the encoder adapts.
    let media = flow("{ media = { bitrate = \"8mbit\", keyframes = \"2s\" } }", "");
    assert_near(&media, "bitrate_mbps", 0.01);
    assert_near(&media, "completion_ms.p50", 0.1);
    assert_near(&media, "completion_ms.p99", 0.1);
    assert_eq!(figures(&media, "stalls"), (0.0, 0.0));
    let adapts = flow("{ media = { bitrate = \"8mbit\", keyframes = \"2s\", adapt = true } }", "");
    assert_near(&adapts, "bitrate_mbps", 0.1);
    assert!(figures(&adapts, "bitrate_mbps").0 > 25.0);
}

#[test]
fn data_goes_up_and_around() {
    beside_sim::data_goes_up_and_around(BackendChoice::TCP, "tcp");
}

#[test]
fn silences_and_stops_are_what_the_file_says() {
    beside_sim::silences_and_stops_are_what_the_file_says(BackendChoice::TCP);
}

/// Two flows that come late into a queue which thirty others keep above its threshold see nothing
/// but marks, and go on to answer them: without ECN nothing but a full buffer would hold them back.
#[test]
fn flows_that_come_late_into_a_marked_queue_go_on_with_ecn() {
    let flow = "[[flow]]\ncc = \"cubic\"\ntransport = \"tcp\"\necn = \"l4s\"\n";
    let text = format!(
        "duration = \"20s\"\npath = {{ rate = \"20mbit\", rtt = \"10ms\", buffer = \"10000pkts\", \
         queue = {{ codel = {{ ce_threshold = \"1ms\" }} }} }}\n\
         {flow}count = 30\n{flow}count = 2\nstart = \"5s\"\n"
    );
    for run in both(&text) {
        let each: Vec<_> = run.flows.iter().map(|f| figure(&f.metrics, "goodput_mbps")).collect();
        let (others, late) = each.split_at(30);
        let (others, late) = (others.iter().sum::<f64>() / 30.0, late.iter().sum::<f64>() / 2.0);
        println!("{others:.3} Mbit/s each, and {late:.3} of those that come late");
        assert!(late < 2.0 * others, "{late} and {others} Mbit/s");
    }
}

#[test]
fn a_bad_path_loses_nothing() {
    beside_sim::a_bad_path_loses_nothing(BackendChoice::TCP);
}

#[test]
fn what_it_does_not_have_is_refused() {
    for (line, says) in [
        (
            "transport = \"quic\"",
            "x.toml:4: flow[0].transport: transport = \"quic\" does not run over tcp (virtual clock)",
        ),
        (
            "handshake = false",
            "flow[0].handshake: handshake does not run over tcp (virtual clock); write --stack sim",
        ),
        (
            "transport = \"tcp\"\nprr = false",
            "flow[0].prr: prr does not run over tcp (virtual clock)",
        ),
        ("cc = \"noq:bbr3\"", "noq:bbr3 does not run over tcp (virtual clock); write --stack noq"),
    ] {
        let text = format!("cc = \"bbr3\"\n{PATH}[[flow]]\n{line}\n");
        let error = BackendChoice::TCP.check_plan(&plan(&text), "x.toml");
        let error = error.expect_err(says).to_string();
        assert!(error.contains(says) && !error.contains('\n'), "{error}");
    }
}

#[test]
fn a_file_of_the_docs_runs_unchanged() {
    let text = include_str!("../../../../scenarios/three-backends.toml");
    let run = run(BackendChoice::TCP, text);
    let verdicts = plan(text).judge(&[&run.probes]);
    assert!(verdicts.iter().all(|v| v.met), "{:?}", run.probes);
    assert_eq!(run.links.len(), 2, "each link is seen by itself");
}
