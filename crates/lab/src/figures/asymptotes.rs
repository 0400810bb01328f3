//! Figures 1 and 2 of the paper: where the two limits meet, and BBR's walk about that point.

use fullpipe_cc::Algorithm;
use fullpipe_sim::{AckPolicy, FlowConfig, ReceiveWindow};

use super::drawing::{Band, Drawing, Kind, Line, Panel};
use super::outcome::Outcome;
use super::stage::{Broken, MBIT, Setup, Stage, largest, mean, rate};

const BITS: f64 = 10.0 * MBIT;
const RTT_MS: f64 = 40.0;
/// A full segment on the wire.
const SEGMENT: f64 = 1500.0;

/// Figure 1: a window of fixed size on a path with a buffer of one BDP.
pub(super) fn fig1(stage: &Stage<'_>) -> Result<Outcome, Broken> {
    // What a window of one packet needs: the propagation, and its own time on the wire.
    let base_ms = RTT_MS + SEGMENT * 8e3 / BITS;
    let bdp = BITS / 8e3 * base_ms;
    let mut points = Vec::new();
    for tenth in 1..=30u32 {
        let target = f64::from(tenth) / 10.0;
        let window = (bdp * target / SEGMENT).round().max(1.0) * 1448.0;
        let mut flow = FlowConfig::tcp_bulk(Algorithm::Fixed(rate(BITS * 1.25)));
        flow.receive_window = ReceiveWindow::Fixed(window as u64);
        flow.acks = AckPolicy { every: 1, ..flow.acks };
        let run = stage.run(&Setup::new(BITS, RTT_MS, 1.0, 20.0).flow(flow))?;
        let steady = run.between(5.0, 20.0);
        let (Some(a), Some(b)) = (steady.first(), steady.last()) else { continue };
        let delivered = (b.carried - a.carried) as f64 * 8.0 / (b.t - a.t);
        let rtt = mean(steady.iter().map(|s| s.flows[0].rtt_ms));
        let lost = (b.flows[0].lost - a.flows[0].lost) as f64;
        let sent = lost + (b.flows[0].delivered - a.flows[0].delivered) as f64;
        points.push((window / 1448.0 * SEGMENT / bdp, delivered, rtt, lost / sent.max(1.0)));
    }
    let limits = |x: f64| (BITS * x.min(1.0), base_ms * x.clamp(1.0, 2.0));
    let off = |of: fn(&(f64, f64, f64, f64)) -> f64, limit: fn((f64, f64)) -> f64| {
        largest(
            points.iter().filter(|p| p.0 <= 1.9).map(|p| (of(p) / limit(limits(p.0)) - 1.0).abs()),
        )
    };
    let knee =
        points.iter().max_by(|a, b| (a.1 / a.2).total_cmp(&(b.1 / b.2))).map_or(0.0, |p| p.0);
    let beyond = largest(points.iter().filter(|p| p.0 <= 1.9).map(|p| p.3));
    let overload = points.last().map_or(0.0, |p| p.3);
    let panel = |title: &str, y: &str| Panel::new(title, "In flight, BDP", y);
    let mut out = Outcome::new(Drawing::of(vec![
        panel("Round trip", "ms")
            .with(Line::new("measured", points.iter().map(|p| (p.0, p.2))).kind(Kind::Marked))
            .with(
                Line::new("limits", points.iter().map(|p| (p.0, limits(p.0).1))).kind(Kind::Dashed),
            ),
        panel("Delivery rate", "Mbit/s")
            .with(Line::new("measured", points.iter().map(|p| (p.0, p.1 / 1e6))).kind(Kind::Marked))
            .with(
                Line::new("limits", points.iter().map(|p| (p.0, limits(p.0).0 / 1e6)))
                    .kind(Kind::Dashed),
            ),
        panel("Loss", "%").with(
            Line::new("measured", points.iter().map(|p| (p.0, 100.0 * p.3))).kind(Kind::Marked),
        ),
    ]));
    out.within("knee at BDP", knee, 0.95, 1.05);
    out.at_most("rate off its limit, share", off(|p| p.1, |l| l.0), 0.03);
    out.at_most("RTT off its limit, share", off(|p| p.2, |l| l.1), 0.03);
    out.at_most("loss within the buffer", beyond, 0.0);
    out.at_least("loss beyond it", overload, 0.001);
    out.note("the knee is where rate over RTT (Kleinrock's power) is largest; a buffer of 1 BDP");
    Ok(out)
}

/// Figure 2: 700 ms of BBRv1's steady state.
pub(super) fn fig2(stage: &Stage<'_>) -> Result<Outcome, Broken> {
    let setup = Setup::new(BITS, RTT_MS, 8.0, 12.0).every_ms(1.0);
    let setup = setup.flow(FlowConfig::bulk(Algorithm::Bbr1));
    let run = stage.run(&setup)?;
    let gains = run.line(|s| s.flows[0].gain);
    let ups: Vec<f64> = gains
        .windows(2)
        .filter(|w| w[0].0 > 3.0 && w[1].1 > 1.0 && w[0].1 <= 1.0)
        .map(|w| w[1].0)
        .collect();
    let start = ups.first().copied().unwrap_or(3.0) - 0.1;
    let shown = run.between(start, start + 0.7);
    let at = |of: fn(&super::stage::FlowSample) -> f64| {
        shown.iter().map(move |s| (s.t, of(&s.flows[0])))
    };
    let srtt = |t: f64| -> f64 {
        // What was delivered in the last round trip, as the sender's samples have it.
        let now = run.between(t, t).first().cloned();
        let Some(now) = now else { return f64::NAN };
        let ago = run.between(t - now.flows[0].rtt_ms / 1e3, t).first().cloned();
        let Some(ago) = ago.filter(|a| a.t < t) else { return f64::NAN };
        (now.flows[0].delivered - ago.flows[0].delivered) as f64 * 8.0 / (now.t - ago.t) / 1e6
    };
    let rates: Vec<(f64, f64)> = shown.iter().map(|s| (s.t, srtt(s.t))).collect();
    let carries = BITS * 1452.0 / 1480.0;
    let cycle = mean(ups.windows(2).map(|w| w[1] - w[0]));
    let peak_rtt = largest(at(|f| f.rtt_ms).map(|p| p.1));
    let peak_inflight = largest(at(|f| f.inflight as f64).map(|p| p.1)) / (carries / 8e3 * RTT_MS);
    let rtts: Vec<(f64, f64)> = at(|f| f.rtt_ms).collect();
    let peak_at = rtts.iter().find(|p| p.1 >= peak_rtt - 0.5).map_or(f64::NAN, |p| p.0);
    let lag_ms = (peak_at - start - 0.1) * 1e3;
    let filter = largest(at(|f| f.max_bw).map(|p| (p.1 / carries - 1.0).abs()));
    let steady = largest(rates.iter().map(|p| (p.1 * 1e6 / carries - 1.0).abs()));
    let x = "Time, s";
    let gain_row = gain_bands(&at(|f| f.gain).collect::<Vec<_>>());
    let mut out = Outcome::new(Drawing::of(vec![
        Panel::new("Round trip", x, "ms").with(Line::new("RTT", rtts)),
        Panel::new("In flight", x, "kB")
            .with(Line::new("inflight", at(|f| f.inflight as f64 / 1e3))),
        Panel::new("Max filter, and the pacing gain above it", x, "Mbit/s")
            .with(Line::new("max_bw", at(|f| f.max_bw / 1e6)))
            .bands(gain_row),
        Panel::new("Delivery rate over the last round trip", x, "Mbit/s")
            .with(Line::new("delivery rate", rates)),
    ]));
    out.within("cycle in RTTs", cycle * 1e3 / RTT_MS, 7.8, 9.0);
    out.within("RTT peak over RTprop", peak_rtt / RTT_MS, 1.15, 1.4);
    out.within("inflight peak in BDP", peak_inflight, 1.15, 1.4);
    out.within("RTT peaks after the probe, ms", lag_ms, 40.0, 110.0);
    out.at_most("max filter off the link", filter, 0.01);
    out.at_most("delivery rate off the link", steady, 0.06);
    out.note("BBRv1 over QUIC, from the first probe after 3 s: TCP would keep two more quanta in flight, 7 ms of queue at this rate; times of the gain row are those of sending");
    Ok(out)
}

/// The gain in each time, as the paper's row above the filter.
fn gain_bands(gains: &[(f64, f64)]) -> Vec<Band> {
    let mut bands: Vec<Band> = Vec::new();
    for &(t, gain) in gains {
        let label = format!("{gain}");
        match bands.last_mut() {
            Some(last) if last.label == label => last.to = t,
            last => {
                if let Some(last) = last {
                    last.to = t;
                }
                bands.push(Band { from: t, to: t, label });
            }
        }
    }
    bands
}
