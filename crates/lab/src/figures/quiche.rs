//! The figures of QUICHE's simulator: 4 Mbit/s, 30 ms, QUIC.

use fullpipe_cc::{Algorithm, State};
use fullpipe_path::{ElementConfig, QueueLimit, RateConfig};
use fullpipe_sim::{Application, FlowConfig};

use super::drawing::{Drawing, Line, Panel};
use super::outcome::{Outcome, show};
use super::stage::{Broken, MBIT, Run, Setup, Stage, largest, millis, rate, seconds};

const BITS: f64 = 4.0 * MBIT;
const RTT_MS: f64 = 30.0;
/// What the link carries of a full datagram.
const PAYLOAD: f64 = 1452.0 / 1480.0;

fn transfer(bytes: u64) -> FlowConfig {
    FlowConfig { application: Application::Bytes(bytes), ..FlowConfig::bulk(Algorithm::Bbr3) }
}

fn link(bits: f64, buffer_bdp: f64, secs: f64) -> Setup {
    let mut setup = Setup::new(bits, RTT_MS, buffer_bdp, secs).every_ms(5.0);
    setup.ends_early = true;
    setup
}

/// Seconds that a transfer of one flow took; infinite when it was not through.
fn took(run: &Run) -> f64 {
    run.ends[0].map_or(f64::INFINITY, |end| end - run.starts[0])
}

/// What Startup left behind: rounds after max_bw came within 1 %, bandwidth over the link, and loss.
fn after_startup(run: &Run, bits: f64) -> (f64, f64, f64) {
    let carries = bits * PAYLOAD;
    let left = run.samples.iter().position(|s| s.flows[0].state != State::Startup).unwrap_or(0);
    let known = run.samples.iter().find(|s| s.flows[0].max_bw >= 0.99 * carries);
    let f = run.samples[left].flows[0];
    let rounds = known.map_or(f64::INFINITY, |s| f.rounds.saturating_sub(s.flows[0].rounds) as f64);
    (rounds, f.max_bw / carries, f.lost as f64 / (f.lost + f.delivered).max(1) as f64)
}

/// All of them, as one table.
pub(super) fn quiche(stage: &Stage<'_>) -> Result<Outcome, Broken> {
    let mut out = Outcome::default();
    let base = stage.run(&link(BITS, 2.0, 60.0).flow(transfer(12_000_000)))?;
    let (rounds, bw, loss) = after_startup(&base, BITS);
    out.within("Startup's rounds after max_bw", rounds, 2.0, 4.0);
    out.within("its bandwidth over the link", bw, 0.99, 1.01);
    out.at_most("its loss", loss, 0.0);
    out.at_most("12 MB in s", took(&base), 30.0);
    out.at_most("with loss", base.retransmitted(), 0.0);
    let srtt = base.samples.last().map_or(0.0, |s| s.flows[0].srtt_ms);
    out.at_most("srtt in RTTs at the end", srtt / RTT_MS, 2.5);
    shallow(stage, &mut out)?;
    aggregated(stage, &mut out)?;
    steps(stage, &mut out)?;
    policed(stage, &mut out)?;
    six(stage, &mut out)?;
    out.note("QUIC, bbr3; buffers of 2 BDP but where another is named");
    Ok(out)
}

fn shallow(stage: &Stage<'_>, out: &mut Outcome) -> Result<(), Broken> {
    let run = stage.run(&link(BITS, 0.5, 60.0).flow(transfer(12_000_000)))?;
    let (_, bw, loss) = after_startup(&run, BITS);
    out.within("0.5 BDP: bandwidth over the link", bw, 0.98, 1.02);
    out.at_most("0.5 BDP: Startup's loss", loss, 0.05);
    let left = run.samples.iter().find(|s| s.flows[0].state != State::Startup).map(|s| s.flows[0]);
    let (lost, sent) = left.map_or((0, 0), |f| (f.lost / 1452, (f.lost + f.delivered) / 1452));
    out.note(format!(
        "0.5 BDP are 5 packets: Startup lost {lost} of the {sent} that it sent until it left; all of 12 MB lost {} %",
        show(100.0 * run.retransmitted())
    ));
    Ok(())
}

fn aggregated(stage: &Stage<'_>, out: &mut Outcome) -> Result<(), Broken> {
    // Data, as there: 10 kB at once, or what comes in two round trips.
    let kinds = [("10 kB", QueueLimit::Bytes(10_000)), ("2 RTT", QueueLimit::Bytes(u64::MAX))];
    for (name, burst) in kinds {
        let mut setup = link(BITS, 2.0, 60.0).flow(transfer(12_000_000));
        let interval = millis(2.0 * RTT_MS);
        setup.behind.push(ElementConfig::Aggregation { interval, burst, keep_one_in: 1 });
        let run = stage.run(&setup)?;
        out.at_most(&format!("{name} of aggregation: 12 MB in s"), took(&run), 35.0);
        out.at_most("loss", run.retransmitted(), 0.01);
    }
    Ok(())
}

fn steps(stage: &Stage<'_>, out: &mut Outcome) -> Result<(), Broken> {
    let mut panel =
        Panel::new("From 10 Mbit/s to 100 kbit/s at 10 s", "Time, s", "bandwidth believed, Mbit/s");
    let (fast, slow) = (rate(10.0 * MBIT), rate(0.1 * MBIT));
    let mut setup = link(10.0 * MBIT, 2.0, 1000.0).every_ms(50.0).flow(transfer(20_000_000));
    setup.rate = RateConfig::Steps(vec![(seconds(0.0), fast), (seconds(10.0), slow)]);
    let run = stage.run(&setup)?;
    panel.lines.push(Line::new("max_bw", run.line(|s| s.flows[0].max_bw / 1e6)));
    out.at_most("10 M to 100 k: 20 MB in s", took(&run), 800.0);
    let mut setup = link(10.0 * MBIT, 2.0, 200.0).flow(transfer(10_000_000));
    setup.rate = RateConfig::Steps(vec![(seconds(0.0), slow), (seconds(15.0), fast)]);
    let run = stage.run(&setup)?;
    out.at_most("100 k to 10 M: 10 MB in s", took(&run), 50.0);
    out.at_most("loss", run.retransmitted(), 0.3);
    out.drawing = Drawing::of(vec![panel]);
    Ok(())
}

fn policed(stage: &Stage<'_>, out: &mut Outcome) -> Result<(), Broken> {
    let mut setup = link(BITS, 2.0, 200.0).flow(transfer(3_000_000));
    setup.before.push(ElementConfig::Policer { rate: rate(BITS / 4.0), bucket_bytes: 100_000 });
    let run = stage.run(&setup)?;
    out.at_most("policer: 3 MB in s", took(&run), 30.0);
    out.at_most("loss", run.retransmitted(), 0.3);
    Ok(())
}

fn six(stage: &Stage<'_>, out: &mut Outcome) -> Result<(), Broken> {
    let volume = 2_000_000;
    let alone = took(&stage.run(&link(BITS, 2.0, 200.0).flow(transfer(volume)))?);
    let mut setup = link(BITS, 2.0, 200.0);
    for i in 0..6 {
        setup = setup.flow(FlowConfig { start: seconds(2.0 * f64::from(i)), ..transfer(volume) });
    }
    let run = stage.run(&setup)?;
    let last = largest(run.ends.iter().map(|e| e.unwrap_or(f64::INFINITY)));
    out.at_most("6 flows: the last, over 6 times one flow's time", last / (6.0 * alone), 1.1);
    Ok(())
}
