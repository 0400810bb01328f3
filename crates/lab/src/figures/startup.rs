//! Figures 4 and 5 of the paper, and the tuning of Startup from BBRv3's slides.

use fullpipe_cc::Algorithm;
use fullpipe_sim::FlowConfig;

use super::drawing::{Drawing, Kind, Line, Panel, Table};
use super::outcome::{Outcome, show};
use super::stage::{Broken, MBIT, Run, Setup, Stage, largest, mean, percentile, smallest};

const BITS: f64 = 10.0 * MBIT;
const RTT_MS: f64 = 40.0;
/// Deep: the paper does not say how deep.
const BUFFER: f64 = 6.0;

fn runs(stage: &Stage<'_>, secs: f64, every_ms: f64) -> Result<Vec<(&'static str, Run)>, Broken> {
    let mut runs = Vec::new();
    for algorithm in [Algorithm::Bbr1, Algorithm::Bbr3, Algorithm::Cubic] {
        let setup = Setup::new(BITS, RTT_MS, BUFFER, secs)
            .every_ms(every_ms)
            .flow(FlowConfig::bulk(algorithm));
        runs.push((algorithm.name(), stage.run(&setup)?));
    }
    Ok(runs)
}

fn draw(runs: &[(&'static str, Run)]) -> Drawing {
    let x = "Time, s";
    let mut rtt = Panel::new("Round trip", x, "ms");
    let mut inflight = Panel::new("In flight", x, "kB");
    for (name, run) in runs {
        rtt.lines.push(Line::new(*name, run.line(|s| s.flows[0].rtt_ms)));
        inflight.lines.push(Line::new(*name, run.line(|s| s.flows[0].inflight as f64 / 1e3)));
    }
    let end = runs.first().map_or(1.0, |(_, run)| run.end());
    let bdp = BITS / 8e3 * RTT_MS / 1e3;
    for (name, level) in [("BDP", bdp), ("BDP and buffer", bdp * (1.0 + BUFFER))] {
        inflight.lines.push(Line::new(name, [(0.0, level), (end, level)]).kind(Kind::Dashed));
    }
    let bands = runs.iter().find(|(name, _)| *name == "bbr3").map(|(_, run)| run.bands(0));
    Drawing::of(vec![
        rtt.bands(bands.clone().unwrap_or_default()),
        inflight.bands(bands.unwrap_or_default()),
    ])
}

/// Figure 4: the first second.
pub(super) fn fig4(stage: &Stage<'_>) -> Result<Outcome, Broken> {
    let runs = runs(stage, 1.0, 1.0)?;
    let mut out = Outcome::new(draw(&runs));
    for (name, run) in &runs {
        let peak = largest(run.samples.iter().map(|s| s.queue_ms));
        let top = run.samples.iter().position(|s| s.queue_ms >= peak).unwrap_or(0);
        let after = smallest(run.samples[top..].iter().map(|s| s.queue_ms));
        if *name == "cubic" {
            out.at_least("cubic: least queue after the peak, ms", after, RTT_MS);
        } else {
            out.at_least(&format!("{name}: peak of the queue, ms"), peak, 0.5 * RTT_MS);
            out.at_most(&format!("{name}: drained to ms"), after, 3.0);
        }
        out.note(format!(
            "{name}: queue {} ms at its peak, {} ms at 1 s",
            show(peak),
            show(run.samples.last().map_or(0.0, |s| s.queue_ms))
        ));
    }
    out.note("each alone over QUIC, a buffer of 6 BDP");
    Ok(out)
}

/// Figure 5: the first eight seconds.
pub(super) fn fig5(stage: &Stage<'_>) -> Result<Outcome, Broken> {
    let runs = runs(stage, 8.0, 5.0)?;
    let mut out = Outcome::new(draw(&runs));
    let bdp = BITS / 8.0 * RTT_MS / 1e3;
    for (name, run) in &runs {
        let steady = run.between(1.0, 8.0);
        if *name == "cubic" {
            // What the queue and the path hold, in shares of what they can hold: the figure's own axis.
            let held: Vec<f64> = steady
                .iter()
                .map(|s| (s.queue_bytes as f64 + bdp) / (bdp * (1.0 + BUFFER)))
                .collect();
            out.at_least(
                "cubic: path and buffer filled at least",
                percentile(held.clone(), 0.02),
                0.65,
            );
            out.at_least("and at most", largest(held), 0.98);
        } else {
            let queue: Vec<f64> = steady.iter().map(|s| s.queue_ms).collect();
            let p50 = percentile(queue.clone(), 0.5);
            out.at_most(&format!("{name}: median queue after 1 s, ms"), p50, 5.0);
            out.note(format!(
                "{name}: queue after 1 s {} ms on average, {} ms at p95",
                show(mean(queue.clone())),
                show(percentile(queue, 0.95))
            ));
        }
    }
    out.note("each alone over QUIC, a buffer of 6 BDP");
    Ok(out)
}

/// The tuning of Startup's gains: 2.89 and 2.89 before, 2.77 and 2.0 now.
pub(super) fn tuning(stage: &Stage<'_>) -> Result<Outcome, Broken> {
    let mut table = Table::new(&["path", "gains", "queue mean ms", "queue max ms", "loss %"]);
    let mut panels = Vec::new();
    let mut out = Outcome::default();
    for (buffer, words) in [(8.0, "8 BDP"), (1.0, "1 BDP")] {
        let mut panel = Panel::new(&format!("Queue with a buffer of {words}"), "Time, s", "ms");
        let mut seen = Vec::new();
        for (algorithm, gains) in
            [(Algorithm::Bbr1, "2.89/2.89 (bbr1)"), (Algorithm::Bbr3, "2.77/2.0 (bbr3)")]
        {
            let setup =
                Setup::new(50.0 * MBIT, RTT_MS, buffer, 2.0).every_ms(2.0).tcp(algorithm, 0.0);
            let run = stage.run(&setup)?;
            let during = run.between(0.0, 1.5);
            let queue = mean(during.iter().map(|s| s.queue_ms));
            let most = largest(during.iter().map(|s| s.queue_ms));
            let (sent, lost) = run.sent[0];
            let loss = 100.0 * lost as f64 / sent as f64;
            table.row([words.to_owned(), gains.to_owned(), show(queue), show(most), show(loss)]);
            panel.lines.push(Line::new(gains, run.line(|s| s.queue_ms)).colour(algorithm.name()));
            seen.push((queue, loss));
        }
        panels.push(panel);
        let [(before, loss_before), (now, loss_now)] = seen[..] else { continue };
        out.at_most(&format!("queue with {words}, now over before"), now / before, 0.95);
        if loss_before > 0.0 {
            out.at_most(
                &format!("loss with {words}, now over before"),
                loss_now / loss_before,
                0.9,
            );
        }
    }
    out.drawing = Drawing::of(panels).table(table);
    out.note("the first 2 s at 50 Mbit/s and 40 ms. The gains of before are bbr1's, whose Startup ends, as bbr3's, after three rounds without growth; with 1 BDP bbr3 also leaves on loss");
    Ok(out)
}
