//! Figure 3 of the paper: the rate of the link doubles, and falls back.

use fullpipe_cc::{Algorithm, State};
use fullpipe_path::RateConfig;

use super::drawing::{Drawing, Kind, Line, Panel};
use super::outcome::Outcome;
use super::stage::{Broken, MBIT, Run, Setup, Stage, rate, seconds};

const BITS: f64 = 10.0 * MBIT;
const RTT_MS: f64 = 40.0;
const UP: f64 = 20.0;
const DOWN: f64 = 40.0;
const END: f64 = 60.0;
/// What the link carries of a segment's 1500 bytes.
const PAYLOAD: f64 = 1448.0 / 1500.0;

struct Reaction {
    up_s: f64,
    up_cycles: f64,
    forgot_s: f64,
    forgot_rounds: f64,
    forgot_probes: f64,
    drained_s: f64,
}

/// Figure 3.
pub(super) fn fig3(stage: &Stage<'_>) -> Result<Outcome, Broken> {
    let mut runs = Vec::new();
    for algorithm in [Algorithm::Bbr1, Algorithm::Bbr3] {
        let mut setup = Setup::new(BITS, RTT_MS, 16.0, END).tcp(algorithm, 0.0);
        let (slow, fast) = (rate(BITS), rate(2.0 * BITS));
        let steps = vec![(seconds(0.0), slow), (seconds(UP), fast), (seconds(DOWN), slow)];
        setup.rate = RateConfig::Steps(steps);
        runs.push((algorithm.name(), stage.run(&setup)?));
    }
    let x = "Time, s";
    let mut panels = [
        Panel::new("Round trip", x, "ms"),
        Panel::new("In flight", x, "kB"),
        Panel::new("Bandwidth believed", x, "Mbit/s"),
    ];
    for (name, run) in &runs {
        let lines = [
            run.line(|s| s.flows[0].rtt_ms),
            run.line(|s| s.flows[0].inflight as f64 / 1e3),
            run.line(|s| s.flows[0].max_bw / 1e6),
        ];
        for (panel, line) in panels.iter_mut().zip(lines) {
            panel.lines.push(Line::new(*name, line));
        }
    }
    let truth = [(0.0, 10.0), (UP, 10.0), (UP, 20.0), (DOWN, 20.0), (DOWN, 10.0), (END, 10.0)];
    let truth = truth.map(|(t, mbit)| (t, mbit * PAYLOAD));
    panels[2].lines.push(Line::new("the link", truth).kind(Kind::Dashed));
    let mut out = Outcome::new(Drawing::of(panels.to_vec()));
    for (name, run) in &runs {
        let is_v1 = *name == "bbr1";
        let r = reaction(run);
        out.at_most(&format!("{name}: up after cycles"), r.up_cycles, 3.0);
        // BBRv1's filter forgets 10 rounds after the last sample that still spans the step, which comes
        // up to three rounds after it; its window of two BDP then holds one in the queue until the
        // other filter's 10 s are over and a ProbeRTT empties it. BBRv3's filter forgets with the end
        // of the second probe that began after the step.
        if is_v1 {
            out.at_most("bbr1: 10 Mbit/s believed after rounds", r.forgot_rounds, 13.0);
            out.at_most("bbr1: queue gone after s", r.drained_s, 11.5);
        } else {
            out.at_most("bbr3: 10 Mbit/s believed after probes", r.forgot_probes, 3.0);
            out.at_most("bbr3: queue gone s after that", r.drained_s - r.forgot_s, 2.0);
        }
        out.note(format!(
            "{name}: 20 Mbit/s believed {:.2} s after the step, 10 Mbit/s {:.2} s ({} rounds) after, queue gone after {:.2} s",
            r.up_s, r.forgot_s, r.forgot_rounds, r.drained_s
        ));
    }
    out.note("bbr1 leaves a BDP in the queue until its next ProbeRTT, up to 10 s later");
    out.note("a buffer of 16 BDP");
    Ok(out)
}

fn reaction(run: &Run) -> Reaction {
    let first = |from: f64, holds: &dyn Fn(&super::stage::Sample) -> bool| {
        run.between(from, END)
            .iter()
            .find(|s| holds(s))
            .map_or((f64::INFINITY, 0), |s| (s.t - from, s.flows[0].rounds))
    };
    let carries = BITS * PAYLOAD;
    let (up_s, _) = first(UP, &|s| s.flows[0].max_bw >= 0.95 * 2.0 * carries);
    let (forgot_s, rounds) = first(DOWN, &|s| s.flows[0].max_bw <= 1.05 * carries);
    let before = run.between(DOWN, DOWN).first().map_or(0, |s| s.flows[0].rounds);
    let forgetting = run.between(DOWN, DOWN + forgot_s.min(END - DOWN));
    let begins_probe = |w: &&[super::stage::Sample]| {
        w[1].flows[0].state == State::ProbeBwRefill && w[0].flows[0].state != State::ProbeBwRefill
    };
    let forgot_probes = forgetting.windows(2).filter(begins_probe).count() as f64;
    let (more_s, _) = first(DOWN + forgot_s.min(END - DOWN), &|s| s.queue_ms < 5.0);
    // Cycles begun until then: each has one phase above 1.
    let probes = run.between(UP, UP + up_s.min(END - UP));
    let ups =
        probes.windows(2).filter(|w| w[1].flows[0].gain > 1.0 && w[0].flows[0].gain <= 1.0).count();
    let already = probes.first().is_some_and(|s| s.flows[0].gain > 1.0);
    let up_cycles =
        if up_s.is_finite() { (ups + usize::from(already)) as f64 } else { f64::INFINITY };
    Reaction {
        up_s,
        up_cycles,
        forgot_s,
        forgot_rounds: rounds.saturating_sub(before) as f64,
        forgot_probes,
        drained_s: forgot_s + more_s,
    }
}
