//! Figure 7 of the paper: long paths whose shallow switches lose packets in rare bursts.

use fullpipe_cc::{Algorithm, Duration};
use fullpipe_path::LossConfig;
use fullpipe_sim::{Application, FlowConfig, ReceiveWindow};

use super::drawing::{Drawing, Kind, Line, Panel, Table};
use super::outcome::{Outcome, show};
use super::stage::{Broken, MBIT, Run, Setup, Stage, largest, probability, seconds, smallest};

const BITS: f64 = 2000.0 * MBIT;
/// The receive buffer that hid the most of it.
const WINDOW: u64 = 8 << 20;
const TRANSFER: u64 = 8_000_000;
const RTTS_MS: [f64; 6] = [80.0, 100.0, 150.0, 200.0, 250.0, 300.0];
/// One packet in so many finds a switch's buffer full, which then loses all for so long, some 8 packets
/// at the link's rate: at these CUBIC gets the paper's 15 Mbit/s. Counted in packets, such a burst
/// would swallow every timeout's probe of a transfer whose last packets met it.
const BURST_EVERY: f64 = 1700.0;
const BURST_US: u64 = 50;
const BULK_SECS: f64 = 60.0;

fn path(rtt_ms: f64, secs: f64) -> Setup {
    // A twentieth of a BDP: the switches are shallow.
    Setup::new(BITS, rtt_ms, 0.05, secs).every_ms(100.0).bursts(LossConfig::Overflows {
        begins: probability(1.0 / BURST_EVERY),
        lasts: Duration::from_micros(BURST_US),
    })
}

/// Figure 7.
pub(super) fn fig7(stage: &Stage<'_>) -> Result<Outcome, Broken> {
    let minutes = 60.0;
    let algorithms = [Algorithm::Cubic, Algorithm::Bbr1, Algorithm::Bbr3];
    let mut table =
        Table::new(&["RTT ms", "cubic Mbit/s", "bbr1", "bbr3", "bbr1 / cubic", "bbr3 / cubic"]);
    let mut ratios: [Vec<(f64, f64)>; 2] = Default::default();
    for rtt_ms in RTTS_MS {
        let mut rates = Vec::new();
        for algorithm in algorithms {
            let application =
                Application::RequestResponse { response_bytes: TRANSFER, think: seconds(60.0) };
            let flow = FlowConfig {
                application,
                receive_window: ReceiveWindow::Fixed(WINDOW),
                ..FlowConfig::tcp_bulk(algorithm)
            };
            let run = stage.run(&path(rtt_ms, minutes * 60.0).every_ms(1000.0).flow(flow))?;
            rates.push(mean_rate(&run));
        }
        let [cubic, bbr1, bbr3] = rates[..] else { continue };
        ratios[0].push((rtt_ms, bbr1 / cubic));
        ratios[1].push((rtt_ms, bbr3 / cubic));
        table.row([
            show(rtt_ms),
            show(cubic),
            show(bbr1),
            show(bbr3),
            show(bbr1 / cubic),
            show(bbr3 / cubic),
        ]);
    }
    let [v1, v3] = ratios;
    let panel = Panel::new("8 MB each minute: throughput over CUBIC's", "RTT, ms", "times")
        .with(Line::new("bbr1", v1.clone()).kind(Kind::Marked))
        .with(Line::new("bbr3", v3.clone()).kind(Kind::Marked));
    let (bulk, unlimited) = bulk(stage)?;
    let mut out = Outcome::new(Drawing::of(vec![panel, unlimited]).table(table));
    let values = |r: &[(f64, f64)]| r.iter().map(|p| p.1).collect::<Vec<_>>();
    out.at_least("bbr1 over cubic, least path", smallest(values(&v1)), 2.0);
    out.at_most("most", largest(values(&v1)), 25.0);
    out.within("8 MB window at 200 ms, bbr1 Mbit/s", bulk[0], 0.95 * 335.0, 335.6);
    out.within("cubic without the limit, Mbit/s", bulk[1], 7.5, 30.0);
    out.at_least("bbr1 without the limit, Mbit/s", bulk[2], 0.85 * BITS / 1e6);
    out.at_least("bbr1 over cubic", bulk[2] / bulk[1], 100.0);
    out.at_least("bbr3 over cubic", bulk[3] / bulk[1], 100.0);
    out.note(format!(
        "bbr3 over cubic in the transfers: {} to {}",
        show(smallest(values(&v3))),
        show(largest(values(&v3)))
    ));
    let each = v1.iter().map(|(rtt, ratio)| format!("{} at {} ms", show(*ratio), show(*rtt)));
    out.note(format!("bbr1 over cubic by path: {}", each.collect::<Vec<_>>().join(", ")));
    out.note(format!("bbr3 without the limit: {} Mbit/s", show(bulk[3])));
    out.note("2 Gbit/s, bursts of loss of 50 us, begun by one packet in 1700, chosen for CUBIC's 15 Mbit/s at 100 ms; a buffer of a twentieth of a BDP; transfers over one persistent connection");
    Ok(out)
}

/// Mbit/s of all transfers: their bytes over the time that they took.
fn mean_rate(run: &Run) -> f64 {
    let times = run.completion[0].as_ref();
    times.map_or(0.0, |t| TRANSFER as f64 * 8e3 / t.mean())
}

/// A minute of bulk: bbr1 within 8 MB at 200 ms, without loss; cubic, bbr1 and bbr3 at 100 ms without a limit.
fn bulk(stage: &Stage<'_>) -> Result<([f64; 4], Panel), Broken> {
    let mut limited = FlowConfig::tcp_bulk(Algorithm::Bbr1);
    limited.receive_window = ReceiveWindow::Fixed(WINDOW);
    let within =
        stage.run(&Setup { before: Vec::new(), ..path(200.0, BULK_SECS) }.flow(limited))?;
    let mut out = [within.goodput(0, 3.0, BULK_SECS) / 1e6, 0.0, 0.0, 0.0];
    let mut panel = Panel::new("100 ms, the receive buffer raised", "Time, s", "Mbit/s");
    for (i, algorithm) in
        [Algorithm::Cubic, Algorithm::Bbr1, Algorithm::Bbr3].into_iter().enumerate()
    {
        let run = stage.run(&path(100.0, BULK_SECS).tcp(algorithm, 0.0))?;
        out[i + 1] = run.total() / 1e6;
        panel.lines.push(Line::new(algorithm.name(), run.goodput_line(0, 1.0)));
    }
    Ok((out, panel))
}
