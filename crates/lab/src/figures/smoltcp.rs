//! The link of the smoltcp report: 400 Mbit/s, 20 ms, 3 GB.

use fullpipe_cc::{Algorithm, State};
use fullpipe_path::{ElementConfig, QueueLimit};
use fullpipe_sim::{AckPolicy, FlowConfig, ReceiveWindow};

use super::drawing::{Drawing, Line, Panel, Table};
use super::outcome::{Outcome, show};
use super::stage::{Broken, MBIT, Run, Setup, Stage, millis, seconds, smallest};

const BITS: f64 = 400.0 * MBIT;
const RTT_MS: f64 = 20.0;
/// Their send buffer.
const SEND_BUFFER: u64 = 6 << 20;

fn flow(algorithm: Algorithm, send_buffer: Option<u64>) -> FlowConfig {
    FlowConfig { send_buffer, ..FlowConfig::tcp_bulk(algorithm) }
}

/// Application bit/s until so much had arrived, or until the end.
fn goodput(run: &Run, volume: u64) -> f64 {
    let through = run.samples.iter().find(|s| s.flows[0].received >= volume).or(run.samples.last());
    through.map_or(0.0, |s| s.flows[0].received.min(volume) as f64 * 8.0 / s.t)
}

fn link(buffer: u64, secs: f64) -> Setup {
    let mut setup = Setup::new(BITS, RTT_MS, 6.0, secs);
    setup.queue = if buffer == 0 {
        QueueLimit::Packets(700).into()
    } else {
        QueueLimit::Bytes(buffer).into()
    };
    setup
}

/// Both buffers, BBRv3 and CUBIC, with unsent data bounded and with their send buffer.
pub(super) fn smoltcp(stage: &Stage<'_>) -> Result<Outcome, Broken> {
    let volume = 3_000_000_000;
    let mut table = Table::new(&[
        "buffer",
        "cc",
        "send buffer",
        "Gbit/s",
        "queue p50 ms",
        "queue p95 ms",
        "latency p50 ms",
        "lost %",
    ]);
    let mut panel = Panel::new("Queue with a buffer of 6 MB", "Time, s", "ms");
    let mut out = Outcome::default();
    for (buffer, words) in [(6_000_000, "6 MB"), (0, "700 packets")] {
        for algorithm in [Algorithm::Bbr3, Algorithm::Bbr1, Algorithm::Cubic] {
            for send_buffer in [None, Some(SEND_BUFFER)] {
                let run = stage.run(&link(buffer, 66.0).flow(flow(algorithm, send_buffer)))?;
                let gbit = goodput(&run, volume) / 1e9;
                let latency = run.latency.value_at_quantile(0.5) as f64 / 1e6;
                let held = send_buffer.map_or("what can leave", |_| "6 MiB");
                let figures = [
                    gbit,
                    run.queue_at(0.5),
                    run.queue_at(0.95),
                    latency,
                    100.0 * run.retransmitted(),
                ];
                let head = [words, algorithm.name(), held].map(str::to_owned);
                table.row(head.into_iter().chain(figures.map(show)));
                if buffer > 0 && send_buffer.is_none() {
                    panel.lines.push(Line::new(algorithm.name(), run.line(|s| s.queue_ms)));
                }
                if algorithm == Algorithm::Bbr3 && send_buffer.is_none() {
                    out.at_least(&format!("{words}: bbr3 Gbit/s"), gbit, 0.385);
                    out.at_most("queue p95 ms", run.queue_at(0.95), 5.0);
                    out.at_most("latency p50 ms", latency, 35.0);
                    out.note(format!("{words}: {}", costs(&run)));
                }
                if algorithm == Algorithm::Bbr3 && send_buffer.is_some() {
                    out.note(format!(
                        "{words}: with a send buffer of 6 MiB bbr3's latency is {} ms",
                        show(latency)
                    ));
                }
            }
        }
    }
    let worst = poor(stage, &mut table)?;
    out.at_least("delayed ACKs, loss to 1 %, slow polls: bbr3 Gbit/s, least", worst, 0.3);
    out.drawing = Drawing::of(vec![panel]).table(table);
    out.note("3 GB over TCP");
    Ok(out)
}

/// Where the rest of the rate went, and when there was a queue.
fn costs(run: &Run) -> String {
    let n = run.samples.len().max(1) as f64;
    let share = |of: &dyn Fn(&super::stage::Sample) -> bool| {
        100.0 * run.samples.iter().filter(|s| of(s)).count() as f64 / n
    };
    let probing = |s: &super::stage::Sample| {
        matches!(
            s.flows[0].state,
            State::ProbeBwUp | State::ProbeBwDown | State::Startup | State::Drain
        )
    };
    let idle = share(&|s| s.queue_bytes == 0);
    format!(
        "the link is idle {} % of the time and ProbeRTT lasts {} % of it; the queue is above 5 ms {} % of the time, {} % of it in Startup, Drain, UP and DOWN",
        show(idle),
        show(share(&|s| s.flows[0].state == State::ProbeRtt)),
        show(share(&|s| s.queue_ms > 5.0)),
        show(
            100.0 * share(&|s| s.queue_ms > 5.0 && probing(s))
                / share(&|s| s.queue_ms > 5.0).max(1e-9)
        )
    )
}

/// What broke theirs: 16 MiB buffers, delayed ACKs, loss, and polls up to a millisecond apart.
fn poor(stage: &Stage<'_>, table: &mut Table) -> Result<f64, Broken> {
    let volume = 500_000_000;
    let mut goodputs = Vec::new();
    for (loss, poll_ms) in
        [(0.0, 0.05), (0.0, 1.0), (0.5, 0.05), (0.5, 1.0), (1.0, 1.0), (2.0, 1.0)]
    {
        let mut setup = link(6_000_000, 30.0).loss(loss / 100.0);
        let poll = ElementConfig::Aggregation {
            interval: millis(poll_ms),
            burst: QueueLimit::Bytes(u64::MAX),
            keep_one_in: 1,
        };
        setup.behind.push(poll.clone());
        setup.acks.push(poll);
        let mut flow = flow(Algorithm::Bbr3, Some(16 << 20));
        flow.receive_window = ReceiveWindow::Fixed(16 << 20);
        flow.acks = AckPolicy { every: 2, max_delay: seconds(0.04) };
        let run = stage.run(&setup.flow(flow))?;
        let gbit = goodput(&run, volume) / 1e9;
        if loss < 2.0 {
            goodputs.push(gbit);
        }
        let head = [
            format!("6 MB, {loss} % loss, polls {poll_ms} ms apart"),
            "bbr3".into(),
            "16 MiB".into(),
        ];
        let latency = run.latency.value_at_quantile(0.5) as f64 / 1e6;
        let figures =
            [gbit, run.queue_at(0.5), run.queue_at(0.95), latency, 100.0 * run.retransmitted()];
        table.row(head.into_iter().chain(figures.map(show)));
    }
    Ok(smallest(goodputs))
}
