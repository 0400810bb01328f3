//! The figures of QUICHE's simulator: 4 Mbit/s, 30 ms each way, QUIC. `tests/quiche.rs` asks the same, with
//! a table of where its network and this one differ.

use fullpipe_cc::{Algorithm, State};
use fullpipe_path::{ElementConfig, QueueLimit, RateConfig};
use fullpipe_sim::{Application, FlowConfig};

use super::drawing::{Drawing, Line, Panel};
use super::outcome::Outcome;
use super::stage::{Broken, MBIT, Run, Setup, Stage, largest, millis, rate, seconds};

const BITS: f64 = 4.0 * MBIT;
/// 30 ms of the link and 2 ms of a sender's own, each way.
const DELAY_MS: f64 = 64.0;
/// A MiB.
const MIB: u64 = 1 << 20;
/// A sender's own link, before the one under test.
const LOCAL: f64 = 10.0 * MBIT;
/// Their datagrams, without and with IP and UDP.
const DATAGRAM: f64 = 1350.0;
const PACKET: f64 = 1378.0;
/// What the link carries of a full datagram.
const PAYLOAD: f64 = DATAGRAM / PACKET;

fn transfer(bytes: u64) -> FlowConfig {
    let mut flow = FlowConfig::bulk(Algorithm::Bbr3);
    flow.cc.smss = DATAGRAM as u32;
    FlowConfig { application: Application::Bytes(bytes), ..flow }
}

/// The round trip of the empty path: a full packet is serialised by both links on both ways.
fn rtt_ms(bits: f64, local: f64) -> f64 {
    DELAY_MS + 2.0 * PACKET * 8e3 * (1.0 / bits + 1.0 / local)
}

fn link(bits: f64, buffer_bdp: f64, secs: f64) -> Setup {
    let local = if bits > LOCAL * 0.9 { 1.5 * LOCAL } else { LOCAL };
    let buffer = buffer_bdp * rtt_ms(bits, local) / DELAY_MS;
    let mut setup = Setup::new(bits, DELAY_MS, buffer, secs).every_ms(5.0);
    let unlimited = || QueueLimit::Packets(u64::MAX).into();
    let wire = |bits| ElementConfig::Bottleneck { rate: rate(bits).into(), queue: unlimited() };
    setup.before.push(wire(local));
    setup.acks = vec![wire(bits), wire(local)];
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
    let base = stage.run(&link(BITS, 2.0, 60.0).flow(transfer(12 * MIB)))?;
    let (rounds, bw, loss) = after_startup(&base, BITS);
    out.within("Startup's rounds after max_bw", rounds, 2.0, 4.0);
    out.within("its bandwidth over the link", bw, 0.99, 1.01);
    out.at_most("its loss", loss, 0.0);
    out.at_most("12 MiB in s", took(&base), 30.0);
    out.at_most("with loss", base.retransmitted(), 0.0);
    let srtt = base.samples.last().map_or(0.0, |s| s.flows[0].srtt_ms);
    out.at_most("srtt in RTTs at the end", srtt / rtt_ms(BITS, LOCAL), 2.5);
    shallow(stage, &mut out)?;
    aggregated(stage, &mut out)?;
    steps(stage, &mut out)?;
    policed(stage, &mut out)?;
    six(stage, &mut out)?;
    out.note("QUIC, bbr3; buffers of 2 BDP but where another is named. Two figures hang on the size of the datagrams: see tests/quiche.rs");
    Ok(out)
}

fn shallow(stage: &Stage<'_>, out: &mut Outcome) -> Result<(), Broken> {
    let run = stage.run(&link(BITS, 0.5, 60.0).flow(transfer(12 * MIB)))?;
    let (_, bw, _) = after_startup(&run, BITS);
    out.within("0.5 BDP: bandwidth over the link", bw, 0.98, 1.02);
    // Their loss of a Startup is that of a transfer of 1 MiB.
    let run = stage.run(&link(BITS, 0.5, 60.0).flow(transfer(MIB)))?;
    out.at_most("0.5 BDP: loss of 1 MiB", run.retransmitted(), 0.05);
    Ok(())
}

fn aggregated(stage: &Stage<'_>, out: &mut Outcome) -> Result<(), Broken> {
    let mut setup = link(BITS, 2.0, 60.0).flow(transfer(12 * MIB));
    let interval = millis(2.0 * rtt_ms(BITS, LOCAL));
    let burst = QueueLimit::Bytes(10_000);
    setup.acks.push(ElementConfig::Aggregation { interval, burst, keep_one_in: 1 });
    let run = stage.run(&setup)?;
    out.at_most("ACKs of 10 kB or 2 RTT: 12 MiB in s", took(&run), 35.0);
    out.at_most("loss", run.retransmitted(), 0.01);
    Ok(())
}

fn steps(stage: &Stage<'_>, out: &mut Outcome) -> Result<(), Broken> {
    let mut panel =
        Panel::new("From 10 Mbit/s to 100 kbit/s at 10 s", "Time, s", "bandwidth believed, Mbit/s");
    let (fast, slow) = (rate(10.0 * MBIT), rate(0.1 * MBIT));
    let mut setup = link(10.0 * MBIT, 2.0, 1000.0).every_ms(50.0).flow(transfer(20 * MIB));
    setup.rate = RateConfig::Steps(vec![(seconds(0.0), fast), (seconds(10.0), slow)]);
    let run = stage.run(&setup)?;
    panel.lines.push(Line::new("max_bw", run.line(|s| s.flows[0].max_bw / 1e6)));
    // Both times count from the step.
    out.at_most("10 M to 100 k: 20 MiB in s", took(&run) - 10.0, 800.0);
    let mut setup = link(10.0 * MBIT, 2.0, 200.0).flow(transfer(10 * MIB));
    setup.rate = RateConfig::Steps(vec![(seconds(0.0), slow), (seconds(15.0), fast)]);
    let run = stage.run(&setup)?;
    out.at_most("100 k to 10 M: 10 MiB in s", took(&run) - 15.0, 50.0);
    out.at_most("loss", run.retransmitted(), 0.3);
    out.drawing = Drawing::of(vec![panel]);
    Ok(())
}

fn policed(stage: &Stage<'_>, out: &mut Outcome) -> Result<(), Broken> {
    let mut setup = link(BITS, 2.0, 400.0).flow(transfer(3 * MIB));
    setup.before.push(ElementConfig::Policer { rate: rate(BITS / 4.0), bucket_bytes: 100_000 });
    let run = stage.run(&setup)?;
    out.at_most("policer: 3 MiB in s", took(&run), 30.0);
    out.at_most("loss", run.retransmitted(), 0.3);
    Ok(())
}

fn six(stage: &Stage<'_>, out: &mut Outcome) -> Result<(), Broken> {
    let volume = 10 * MIB;
    let alone = took(&stage.run(&link(BITS, 2.0, 400.0).flow(transfer(volume)))?);
    let mut setup = link(BITS, 2.0, 400.0);
    for i in 0..6 {
        setup = setup.flow(FlowConfig { start: seconds(2.0 * f64::from(i)), ..transfer(volume) });
    }
    let run = stage.run(&setup)?;
    let last = largest(run.ends.iter().map(|e| e.unwrap_or(f64::INFINITY)));
    out.at_most("6 flows: the last, over 6 times one flow's time", last / (6.0 * alone), 1.1);
    Ok(())
}
