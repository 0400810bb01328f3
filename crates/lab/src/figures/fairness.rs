//! Flows of one kind beside each other: figure 6 of the paper, the two fixes of BBRv3's slides.

use fullpipe_cc::{Algorithm, State};

use super::drawing::{Line, Panel, Table};
use super::outcome::{Outcome, show};
use super::stage::{Broken, MBIT, Run, Setup, Stage, mean, percentile, smallest};

/// Seeds of the runs: where chance has a part, one run says little.
const SEEDS: u64 = 9;

/// Until every flow stays within a tenth of its share for so many round trips.
const CONVERGED_RTTS: f64 = 5.0;

/// Seconds from `from` until every flow's goodput stays within 10 % of its share for 5 round trips;
/// infinite when that never happens.
pub(super) fn convergence(run: &Run, from: f64, rtt_ms: f64) -> f64 {
    let window = CONVERGED_RTTS * rtt_ms / 1e3;
    let n = run.sent.len();
    let step = window / 5.0;
    let mut t = from;
    while t + window <= run.end() {
        let got: Vec<f64> = (0..n).map(|i| run.goodput(i, t, t + window)).collect();
        let share = mean(got.iter().copied());
        if share > 0.0 && got.iter().all(|g| (g / share - 1.0).abs() <= 0.1) {
            return t - from;
        }
        t += step;
    }
    f64::INFINITY
}

fn shares(run: &Run, title: &str, window: f64) -> Panel {
    let mut panel = Panel::new(title, "Time, s", "Mbit/s");
    for i in 0..run.sent.len() {
        panel.lines.push(Line::new(format!("flow {i}"), run.goodput_line(i, window)));
    }
    panel
}

/// Figure 6: five flows that start one after the other.
pub(super) fn fig6(stage: &Stage<'_>) -> Result<Outcome, Broken> {
    let mut out = Outcome::default();
    for algorithm in [Algorithm::Bbr1, Algorithm::Bbr3] {
        let name = algorithm.name();
        let mut jains = Vec::new();
        let mut in_step = Vec::new();
        for seed in 1..=SEEDS {
            let mut setup = Setup::new(100.0 * MBIT, 10.0, 8.0, 60.0).seed(seed);
            for i in 0..5 {
                setup = setup.tcp(algorithm, 2.0 * f64::from(i));
            }
            let run = stage.run(&setup)?;
            jains.push(run.jain(30.0, 60.0));
            in_step.push(together(&run, 30.0, 60.0));
            if seed == 1 {
                out.drawing.panels.push(shares(&run, &format!("Shares of five {name} flows"), 0.2));
                out.note(format!(
                    "{name} converged {} s after the last start",
                    show(convergence(&run, 8.0, 10.0))
                ));
            }
        }
        out.at_least(
            &format!("{name}: Jain over the last half, least of {SEEDS} seeds"),
            smallest(jains.iter().copied()),
            0.95,
        );
        let in_step = percentile(in_step, 0.5);
        if algorithm == Algorithm::Bbr1 {
            out.at_least("bbr1: ProbeRTTs that all five share", in_step, 0.9);
        } else {
            out.note(format!("bbr3: {} of its ProbeRTTs are shared by all five", show(in_step)));
        }
    }
    out.note("starts 2 s apart, a buffer of 8 BDP");
    Ok(out)
}

/// The share of the times with some flow in ProbeRTT that have a moment with all of them in it.
fn together(run: &Run, from: f64, to: f64) -> f64 {
    let (mut episodes, mut shared) = (0.0, 0.0);
    let (mut inside, mut all) = (false, false);
    for s in run.between(from, to) {
        let n = s.flows.iter().filter(|f| f.state == State::ProbeRtt).count();
        if n > 0 {
            inside = true;
            all |= n == s.flows.len();
        } else if inside {
            episodes += 1.0;
            shared += f64::from(u8::from(all));
            (inside, all) = (false, false);
        }
    }
    if episodes == 0.0 { 0.0 } else { shared / episodes }
}

/// Fix 1: convergence with loss.
pub(super) fn fix1(stage: &Stage<'_>) -> Result<Outcome, Broken> {
    fix(stage, 1.0)
}

/// Fix 2: convergence without.
pub(super) fn fix2(stage: &Stage<'_>) -> Result<Outcome, Broken> {
    fix(stage, 100.0)
}

fn fix(stage: &Stage<'_>, buffer: f64) -> Result<Outcome, Broken> {
    const SECS: f64 = 100.0;
    let mut out = Outcome::default();
    let mut table =
        Table::new(&["seed", "Jain, last half", "converged after s", "loss %", "queue p50 ms"]);
    let (mut jains, mut losses) = (Vec::new(), Vec::new());
    for seed in 1..=SEEDS {
        let mut setup = Setup::new(50.0 * MBIT, 40.0, buffer, SECS).seed(seed);
        for start in [0.0, 0.0, 1.0, 1.0] {
            setup = setup.tcp(Algorithm::Bbr3, start);
        }
        let run = stage.run(&setup)?;
        let (jain, loss) = (run.jain(SECS / 2.0, SECS), run.retransmitted());
        let converged = convergence(&run, 1.0, 40.0);
        table.row([
            seed.to_string(),
            format!("{jain:.4}"),
            show(converged),
            show(100.0 * loss),
            show(run.queue_at(0.5)),
        ]);
        jains.push(jain);
        losses.push(loss);
        if seed == 1 {
            out.drawing.panels.push(shares(
                &run,
                &format!("Four bbr3 flows, a buffer of {buffer} BDP"),
                0.5,
            ));
            out.drawing.panels.push(
                Panel::new("Queue", "Time, s", "ms")
                    .with(Line::new("queue", run.line(|s| s.queue_ms))),
            );
        }
    }
    out.drawing.tables.push(table);
    out.at_least(
        &format!("Jain over the last half, median of {SEEDS} seeds"),
        percentile(jains.clone(), 0.5),
        0.95,
    );
    if buffer > 50.0 {
        out.at_most("loss %", 100.0 * losses.iter().copied().fold(0.0, f64::max), 0.0);
    } else {
        out.at_least("loss %", 100.0 * smallest(losses.iter().copied()), 0.001);
    }
    out.note(format!("Jain of the least fair seed {}", show(smallest(jains))));
    Ok(out)
}
