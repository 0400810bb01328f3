//! From a path on which an algorithm falls short to the simplest one that still shows it.

use std::sync::atomic::{AtomicBool, Ordering};

use crate::case::{Case, Disturbance, Ecn, Shape};
use crate::chance::digits;
use crate::judge::{Point, compare};
use crate::measure::{Measure, Values};
use crate::results::values;
use crate::run::{Options, RunPoint, plan};

/// The most paths that are tried for one that is shrunk.
const MAX_TRIES: usize = 40;

/// Property that a path shows: an algorithm against another, in one measure.
#[derive(Clone, Copy, Debug)]
pub struct Claim<'a> {
    /// The algorithm under test.
    pub cc: &'a str,
    /// The other.
    pub against: &'a str,
    /// In this.
    pub measure: Measure,
    /// A goodput below this part of the other's falls short.
    pub limit: f64,
}

/// A path, and the two runs on it.
#[derive(Clone, PartialEq, Debug)]
pub struct Shown {
    /// The path.
    pub case: Case,
    /// The algorithm under test.
    pub own: Values,
    /// The other.
    pub reference: Values,
    /// The one against the other.
    pub point: Point,
}

impl Claim<'_> {
    /// Runs both algorithms on a path. Nothing where one has no result, or the other no value.
    fn try_on(&self, options: &Options, case: &Case, run: RunPoint<'_>) -> Option<Shown> {
        let senders = options.senders.only(&[self.cc, self.against]);
        let plan = plan(case, &senders, options.seeds).ok()?;
        options.backend.check_plan(&plan, "survey").ok()?;
        let of = |cc| values(case, &plan, senders.runs_of(cc, options.seeds.get()), run).ok();
        let (own, reference) = (of(self.cc)?, of(self.against)?);
        let point = compare(self.measure, case, &own, &reference, self.limit)?;
        Some(Shown { case: case.clone(), own, reference, point })
    }

    /// True if a simpler path shows what another does: at least half as far from equal.
    fn holds(&self, drawn: &Point, now: &Point) -> bool {
        now.short && now.shortfall(self.measure) >= drawn.shortfall(self.measure) / 2.0
    }
}

/// The simplest path that is found in 40 tries, and what it shows. What `stop` ends is the simplest
/// so far.
pub fn shrink(
    options: &Options,
    claim: &Claim<'_>,
    drawn: Shown,
    run: RunPoint<'_>,
    stop: &AtomicBool,
) -> Shown {
    let original = drawn.point;
    let mut shown = drawn;
    let mut tries = 0;
    for stage in STAGES {
        let mut place = 0;
        // A path that is taken has one way less to become simpler, so that the next has its place.
        while let Some(simpler) = stage(&shown.case).into_iter().nth(place) {
            if tries == MAX_TRIES || stop.load(Ordering::Relaxed) {
                return shown;
            }
            tries += 1;
            match claim.try_on(options, &simpler, run) {
                Some(found) if claim.holds(&original, &found.point) => shown = found,
                _ => place += 1,
            }
        }
    }
    shown
}

/// The steps that make a path simpler, in this order. With two disturbances less one has one at most.
const STAGES: [fn(&Case) -> Vec<Case>; 5] = [without, without, fewer, plainer, rounder];

/// Each disturbance left out.
fn without(case: &Case) -> Vec<Case> {
    let each = (0..case.disturbances.len()).map(|i| {
        let mut simpler = case.clone();
        simpler.disturbances.remove(i);
        simpler
    });
    each.collect()
}

/// One flow, and QUIC.
fn fewer(case: &Case) -> Vec<Case> {
    let one = (case.flows > 1).then(|| Case { flows: 1, ..case.clone() });
    let quic = case.tcp.then(|| Case { tcp: false, ..case.clone() });
    one.into_iter().chain(quic).collect()
}

/// Each disturbance without what it can be without.
fn plainer(case: &Case) -> Vec<Case> {
    let mut all = Vec::new();
    for (i, disturbance) in case.disturbances.iter().enumerate() {
        for plain in plain(disturbance) {
            let mut simpler = case.clone();
            simpler.disturbances[i] = plain;
            all.push(simpler);
        }
    }
    all
}

fn plain(disturbance: &Disturbance) -> Vec<Disturbance> {
    let mut all = Vec::new();
    let mut with = |change: &dyn Fn(&mut Disturbance)| {
        let mut plain = disturbance.clone();
        change(&mut plain);
        if plain != *disturbance {
            all.push(plain);
        }
    };
    with(&|d| match d {
        Disturbance::AckBursts { keep_one_in, .. } => *keep_one_in = 1,
        Disturbance::TwoWay { flows, .. }
        | Disturbance::RttMix { flows, .. }
        | Disturbance::Competitor { flows, .. } => *flows = 1,
        Disturbance::RttStep { back_percent, .. } => *back_percent = None,
        Disturbance::RateStep { steps } => steps.truncate(1),
        Disturbance::Cross { poisson, .. } => *poisson = false,
        Disturbance::Aqm { ecn, .. } => *ecn = Ecn::Off,
        Disturbance::Jitter { shape, .. } => *shape = Shape::Uniform,
        Disturbance::Handovers { lasts_ms, .. } => *lasts_ms = 0.0,
        Disturbance::ManyFlows { flows, .. } => *flows = (*flows).min(4),
        Disturbance::Requests { alone, .. } | Disturbance::Media { alone, .. } => *alone = true,
        _ => {}
    });
    with(&|d| match d {
        Disturbance::TwoWay { cc, .. } | Disturbance::Competitor { cc, .. } => {
            "cubic".clone_into(cc);
        }
        Disturbance::RateStep { steps } if steps.len() > 1 => {
            steps.remove(0);
        }
        Disturbance::ManyFlows { flows, .. } => *flows = (*flows).min(8),
        Disturbance::Aqm { ecn: ecn @ Ecn::L4s, .. } => *ecn = Ecn::Classic,
        Disturbance::Handovers { more_ms, .. } => *more_ms = vec![0.0],
        _ => {}
    });
    with(&|d| match d {
        Disturbance::Competitor { visits, .. } => *visits = 1,
        Disturbance::Handovers { more_ms, .. } => more_ms.truncate(2),
        _ => {}
    });
    with(&|d| {
        if let Disturbance::Competitor { start_percent, .. } = d {
            *start_percent = 0.0;
        }
    });
    all
}

/// Each number as 1, 2 or 5 times a power of ten.
fn rounder(case: &Case) -> Vec<Case> {
    let count = numbers(&mut case.clone()).len();
    let each = (0..count).filter_map(|i| {
        let mut simpler = case.clone();
        let mut all = numbers(&mut simpler);
        let number = all.get_mut(i)?;
        **number = round(**number);
        drop(all);
        (simpler != *case).then_some(simpler)
    });
    each.collect()
}

fn round(x: f64) -> f64 {
    if x <= 0.0 {
        return x;
    }
    let power = 10f64.powf(x.log10().floor());
    let distance = |step: &f64| (x / (step * power)).ln().abs();
    let nearest =
        [1.0, 2.0, 5.0, 10.0].into_iter().min_by(|a, b| distance(a).total_cmp(&distance(b)));
    digits(nearest.unwrap_or(1.0) * power, 1)
}

/// The numbers of a path that mean as much when they are a little different.
fn numbers(case: &mut Case) -> Vec<&mut f64> {
    let mut all = vec![&mut case.rate_mbps, &mut case.rtt_ms, &mut case.buffer_bdp];
    for disturbance in &mut case.disturbances {
        match disturbance {
            Disturbance::Jitter { jitter_ms: x, .. }
            | Disturbance::AckBursts { interval_ms: x, .. }
            | Disturbance::AckLoss { loss_percent: x }
            | Disturbance::LateHost { late_ms: x }
            | Disturbance::RandomLoss { loss_percent: x }
            | Disturbance::Cross { rate_percent: x, .. }
            | Disturbance::Media { rate_percent: x, .. }
            | Disturbance::ManyFlows { stagger_ms: x, .. }
            | Disturbance::RttMix { extra_ms: x, .. }
            | Disturbance::ReceiveWindow { window_bdp: x }
            | Disturbance::SendBuffer { buffer_bdp: x } => all.push(x),
            Disturbance::Reordering { chance_percent: x, delay_ms: y }
            | Disturbance::TwoWay { rate_mbps: x, buffer_ms: y, .. }
            | Disturbance::RttStep { before_ms: x, after_ms: y, .. }
            | Disturbance::Policer { rate_percent: x, bucket_ms: y }
            | Disturbance::Shaper { rate_percent: x, bucket_ms: y, .. }
            | Disturbance::LossBursts { every_ms: x, lasts_ms: y }
            | Disturbance::Requests { response_kb: x, think_ms: y, .. } => all.extend([x, y]),
            Disturbance::RateStep { steps } => {
                all.extend(steps.iter_mut().map(|step| &mut step.factor));
            }
            Disturbance::Handovers { more_ms, lasts_ms } => {
                all.extend(more_ms);
                all.push(lasts_ms);
            }
            Disturbance::Trace { .. }
            | Disturbance::Aqm { .. }
            | Disturbance::Competitor { .. }
            | Disturbance::PacketSize { .. } => {}
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroUsize;

    use fullpipe_lab::BackendChoice;

    use super::*;
    use crate::case::Kind;
    use crate::draw::draw;
    use crate::text::Senders;

    /// The path's scenario, which the simulator can run.
    fn scenario(case: &Case) -> String {
        let names = ["bbr3", "cubic"].map(str::to_owned).to_vec();
        let senders = Senders { names, programs: Vec::new() };
        let plan = plan(case, &senders, NonZeroUsize::MIN);
        let plan = plan.unwrap_or_else(|error| panic!("{error:?}: {case:?}"));
        BackendChoice::SIM.check_plan(&plan, "survey").expect("the simulator has it");
        crate::text::scenario(case, &senders, 1, &[], &[])
    }

    /// Each step from a drawn path towards the simplest one is a scenario, and they end: with one
    /// disturbance or none, and nothing that is not simple.
    #[test]
    fn each_simpler_path_is_a_scenario() {
        for (i, kind) in Kind::ALL.into_iter().cycle().take(10 * Kind::ALL.len()).enumerate() {
            let kinds: &[Kind] = if i % 2 == 0 { &[] } else { &[kind, Kind::RandomLoss] };
            let mut case = draw(2, i as u64, kinds);
            for (number, stage) in STAGES.into_iter().enumerate() {
                let mut steps = 0;
                while let Some(simpler) = stage(&case).pop() {
                    scenario(&simpler);
                    if number < 2 && simpler.disturbances.is_empty() {
                        break;
                    }
                    case = simpler;
                    steps += 1;
                    assert!(steps < 40, "no end: {case:?}");
                }
            }
            assert_eq!(case.disturbances.len(), 1, "{case}");
        }
    }

    /// A path is another one without any of its disturbances, so that each is written.
    #[test]
    fn each_disturbance_is_written_and_can_be_left_out() {
        for kind in Kind::ALL {
            for path in 0..20 {
                let case = draw(3, path, &[kind, Kind::RandomLoss]);
                for simpler in without(&case) {
                    let seed = case.seed;
                    let written = [&case, &Case { seed, ..simpler }].map(scenario);
                    assert_ne!(written[0], written[1], "{case}");
                }
            }
        }
    }

    #[test]
    fn numbers_become_round_ones() {
        for (x, rounded) in
            [(0.0, 0.0), (0.351, 0.5), (1.4, 1.0), (1.5, 2.0), (70.5, 50.0), (8.0, 10.0)]
        {
            assert_eq!(round(x), rounded, "{x}");
        }
    }
}
