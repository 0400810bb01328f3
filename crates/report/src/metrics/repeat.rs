//! Several runs of the same point: the mean of each metric, and how far it can be trusted.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use statrs::distribution::{ContinuousCDF, StudentsT};

use super::{Figures, RunResult};

/// Of so many intervals of one kind one does not hold the truth, by chance.
const ERROR: f64 = 0.05;

/// The metrics that are compared with a baseline: those of the table.
pub const COMPARED: [&str; 9] = [
    "goodput_mbps",
    "utilization",
    "queue_ms.p50",
    "queue_ms.p95",
    "rtt_ms.p50",
    "rtt_ms.p95",
    "loss_rate",
    "retransmit_rate",
    "jain",
];

/// The values of a metric over several runs.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub struct Interval {
    /// Runs that have a value.
    pub n: usize,
    /// Their mean.
    pub mean: f64,
    /// The smallest of them.
    #[serde(default)]
    pub min: f64,
    /// The largest.
    #[serde(default)]
    pub max: f64,
    /// The sample's standard deviation; 0 of one run.
    pub deviation: f64,
    /// The mean of more runs lies within so much of this one, with 95 %: the half width of the
    /// confidence interval by Student's t. Null of one run.
    pub half_width: Option<f64>,
}

impl Interval {
    /// Nothing of no values.
    pub fn of(values: &[f64]) -> Option<Self> {
        let n = values.len();
        let mean = values.iter().sum::<f64>() / n as f64;
        let squares: f64 = values.iter().map(|x| (x - mean).powi(2)).sum();
        let deviation = if n > 1 { (squares / (n - 1) as f64).sqrt() } else { 0.0 };
        let half_width = student(n, ERROR).map(|t| t * deviation / (n as f64).sqrt());
        let min = values.iter().copied().fold(f64::INFINITY, f64::min);
        let max = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        (n > 0).then_some(Self { n, mean, min, max, deviation, half_width })
    }

    /// Largest distance of the mean of `runs` more runs from this mean, if one in so many of
    /// `values` comparisons is to be wrong by chance; `None` for a single run.
    fn reach(&self, runs: usize, values: usize) -> Option<f64> {
        let t = student(self.n, ERROR / values.max(1) as f64)?;
        Some(t * self.deviation * (1.0 / self.n as f64 + 1.0 / runs.max(1) as f64).sqrt())
    }
}

/// The quantile of Student's distribution beyond which `error` lies on both sides together, for `n`
/// values.
fn student(n: usize, error: f64) -> Option<f64> {
    let freedom = n.checked_sub(1).filter(|f| *f > 0)?;
    let distribution = StudentsT::new(0.0, 1.0, freedom as f64).ok()?;
    Some(distribution.inverse_cdf(1.0 - error / 2.0))
}

/// Combined result of the repetitions of one point.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Repeated {
    /// The point's number.
    pub run: usize,
    /// Its place in the grid.
    pub at: Vec<(String, String)>,
    /// The metrics of the run by name; those without a value in some repetition are left out.
    pub metrics: BTreeMap<String, Interval>,
}

/// The repetitions of each point together, in the order of the grid.
pub fn repeated(runs: &[RunResult]) -> Vec<Repeated> {
    let mut points: BTreeMap<usize, Vec<&RunResult>> = BTreeMap::new();
    for run in runs {
        points.entry(run.run).or_default().push(run);
    }
    points.into_values().filter_map(|runs| together(&runs, runs.first()?.at.clone())).collect()
}

/// The runs that differ in nothing but their seed together: the axis `seed` of a file is one of
/// replicates. In the order of the grid, without that axis in their place.
pub fn over_seeds(runs: &[RunResult]) -> Vec<Repeated> {
    let mut places: Vec<(GridPoint, Vec<&RunResult>)> = Vec::new();
    let mut numbers = BTreeMap::new();
    for run in runs {
        let number = *numbers.entry(without(&run.at, &["seed"])).or_insert_with_key(|at| {
            places.push((at.clone(), Vec::new()));
            places.len() - 1
        });
        places[number].1.push(run);
    }
    places.into_iter().filter_map(|(at, runs)| together(&runs, at)).collect()
}

/// A place in the grid: axes and values.
pub(super) type GridPoint = Vec<(String, String)>;

/// The place of a run without some of its axes.
pub(super) fn without(at: &[(String, String)], axes: &[&str]) -> GridPoint {
    at.iter().filter(|(axis, _)| !axes.contains(&axis.as_str())).cloned().collect()
}

fn together(runs: &[&RunResult], at: GridPoint) -> Option<Repeated> {
    let first = runs.first()?;
    let interval = |name: &String| {
        let values: Option<Vec<f64>> =
            runs.iter().map(|r| r.metrics.get(name).copied().flatten()).collect();
        Some((name.clone(), Interval::of(&values?)?))
    };
    let metrics = first.metrics.keys().filter_map(interval).collect();
    Some(Repeated { run: first.run, at, metrics })
}

/// For a table: of each point one row with the means, and one with the half widths of their
/// intervals.
pub fn mean_rows(points: &[Repeated], runs: &[RunResult]) -> Vec<RunResult> {
    let mut firsts = BTreeMap::new();
    for run in runs {
        firsts.entry(run.run).or_insert(run);
    }
    let mut rows = Vec::new();
    for point in points {
        let Some(first) = firsts.get(&point.run).copied() else { continue };
        let figures = |of: fn(&Interval) -> Option<f64>| -> Figures {
            point.metrics.iter().map(|(name, i)| (name.clone(), of(i))).collect()
        };
        let plain = RunResult {
            at: point.at.clone(),
            series: Vec::new(),
            emulator: None,
            interrupted: false,
            ..first.clone()
        };
        rows.push(RunResult { metrics: figures(|i| Some(i.mean)), ..plain.clone() });
        let at = vec![(String::new(), "  ± (95 %)".to_owned())];
        rows.push(RunResult { metrics: figures(|i| i.half_width), at, ..plain });
    }
    rows
}

/// The values that each point brings for the plan's probes: the means over its repetitions.
pub fn mean_probes(runs: &[RunResult]) -> Vec<Vec<Option<f64>>> {
    let mut points: BTreeMap<usize, Vec<&RunResult>> = BTreeMap::new();
    for run in runs {
        points.entry(run.run).or_default().push(run);
    }
    let mean = |runs: &[&RunResult], probe: usize| -> Option<f64> {
        let values: Option<Vec<f64>> =
            runs.iter().map(|r| r.probes.get(probe).copied().flatten()).collect();
        Interval::of(&values?).map(|interval| interval.mean)
    };
    let point = |runs: Vec<&RunResult>| {
        let probes = runs.first().map_or(0, |r| r.probes.len());
        (0..probes).map(|probe| mean(&runs, probe)).collect()
    };
    points.into_values().map(point).collect()
}

/// A metric that is not what it was.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Change {
    /// The point's place in the grid.
    pub at: Vec<(String, String)>,
    /// The metric.
    pub metric: String,
    /// The mean of before, and how far from it the mean may be.
    pub before: f64,
    /// The half width of the interval that it left.
    pub reach: f64,
    /// The mean of now; null where there is none any more.
    pub now: Option<f64>,
}

/// The metrics of [`COMPARED`] that left their interval. Where every run is the same, as in the
/// simulator, the interval is the value.
pub fn changes(before: &[RunResult], now: &[RunResult]) -> Vec<Change> {
    let (before, now) = (repeated(before), repeated(now));
    let values = before.len() * COMPARED.len();
    // The first of a place counts.
    let now: BTreeMap<_, _> = now.iter().rev().map(|point| (&point.at, point)).collect();
    let mut changes = Vec::new();
    for old in &before {
        let new = now.get(&old.at);
        for (metric, interval) in COMPARED.iter().filter_map(|m| Some((*m, old.metrics.get(*m)?))) {
            let new = new.and_then(|point| point.metrics.get(metric));
            let reach = interval.reach(new.map_or(1, |i| i.n), values).unwrap_or(0.0);
            // Decimal digits of a file are not the bits of a number.
            let rounding = 1e-9 * interval.mean.abs();
            if new.is_none_or(|new| (new.mean - interval.mean).abs() > reach + rounding) {
                changes.push(Change {
                    at: old.at.clone(),
                    metric: metric.to_owned(),
                    before: interval.mean,
                    reach,
                    now: new.map(|new| new.mean),
                });
            }
        }
    }
    changes
}

#[cfg(test)]
pub(super) mod tests {
    use fullpipe_scenario::{Clock, Stack};

    use super::*;

    /// Five values, their interval from a table of Student's t: 2.776 of four degrees of freedom.
    #[test]
    fn an_interval_is_that_of_the_textbook() {
        let interval = Interval::of(&[9.0, 10.0, 11.0, 10.5, 9.5]).expect("values");
        assert_eq!((interval.n, interval.mean), (5, 10.0));
        assert!((interval.deviation - 0.790_569).abs() < 1e-5, "{interval:?}");
        let half = 2.776_445 * 0.790_569 / 5_f64.sqrt();
        assert!((interval.half_width.expect("one") - half).abs() < 1e-4, "{interval:?}");
        let one = Interval::of(&[3.0]).expect("a value");
        assert_eq!((one.mean, one.half_width), (3.0, None));
        assert_eq!(Interval::of(&[]), None);
    }

    #[test]
    fn the_seeds_of_a_file_are_replicates() {
        let mut each = runs(&[1.0, 2.0, 6.0, 4.0]);
        let places = [("cubic", "1"), ("cubic", "2"), ("bbr3", "1"), ("bbr3", "2")];
        for (n, (run, (cc, seed))) in each.iter_mut().zip(places).enumerate() {
            run.run = n;
            run.at = [("cc", cc), ("seed", seed)].map(|(k, v)| (k.to_owned(), v.to_owned())).into();
        }
        let points = over_seeds(&each);
        assert_eq!(points.len(), 2);
        assert_eq!(points[1].at, [("cc".to_owned(), "bbr3".to_owned())]);
        let goodput = points[1].metrics["goodput_mbps"];
        assert_eq!((goodput.n, goodput.mean, goodput.min, goodput.max), (2, 5.0, 4.0, 6.0));
    }

    pub(in crate::metrics) fn runs(goodputs: &[f64]) -> Vec<RunResult> {
        let run = |goodput: &f64| RunResult {
            run: 0,
            repetition: 0,
            scenario: "x".into(),
            stack: Stack::Noq,
            clock: Clock::Real,
            link: None,
            at: Vec::new(),
            seed: 1,
            rate_mbps: None,
            empty_rtt_ms: 1.0,
            metrics: [("goodput_mbps".to_owned(), Some(*goodput))].into(),
            flows: Vec::new(),
            links: Vec::new(),
            series: Vec::new(),
            probes: vec![Some(*goodput), None],
            emulator: None,
            interrupted: false,
            late_starts: 0,
        };
        goodputs.iter().map(run).collect()
    }

    #[test]
    fn a_metric_leaves_its_interval_or_does_not() {
        let before = runs(&[94.0, 95.0, 96.0, 95.5, 94.5]);
        assert_eq!(changes(&before, &runs(&[95.8, 95.2, 94.9, 95.1, 95.3])), []);
        let low = changes(&before, &runs(&[85.0, 85.2, 84.9, 85.1, 85.3]));
        assert_eq!(low.len(), 1);
        assert_eq!((low[0].metric.as_str(), low[0].before), ("goodput_mbps", 95.0));
        // One run has no width: what is not the same is a change.
        assert_eq!(changes(&runs(&[95.0]), &runs(&[95.0])), []);
        assert_eq!(changes(&runs(&[95.0]), &runs(&[95.01])).len(), 1);
    }

    #[test]
    fn expectations_are_judged_on_the_means() {
        assert_eq!(mean_probes(&runs(&[1.0, 2.0, 6.0])), [vec![Some(3.0), None]]);
        let three = runs(&[1.0, 2.0, 6.0]);
        let rows = mean_rows(&repeated(&three), &three);
        assert_eq!(rows.len(), 2);
        assert_eq!(rows[0].metrics["goodput_mbps"], Some(3.0));
        assert_eq!(rows[1].at[0].1, "  ± (95 %)");
    }
}
