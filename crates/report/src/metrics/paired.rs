//! Two algorithms on the same draws of chance: the mean of their differences.
//!
//! Runs with one seed meet the same losses and arrivals as far as the algorithms let them, so that
//! the differences vary less than the values do. Their interval is that of Student's paired test: a
//! difference whose interval does not hold 0 is one with 95 % (for one figure; of twenty that are
//! read together one is so by chance).

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::repeat::{GridPoint, Interval, Repeated, without};
use super::{COMPARED, RunResult};

/// An algorithm against the first of the file, at a place of the grid.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Paired {
    /// The algorithm.
    pub cc: String,
    /// The first of the axis, which is subtracted.
    pub against: String,
    /// The rest of the place in the grid, without the seed.
    pub at: Vec<(String, String)>,
    /// The differences of each figure of the table, over pairs of runs with the same seed; those
    /// without a value in some run are left out.
    pub differences: BTreeMap<String, Interval>,
    /// The number of the first run of `cc` here.
    #[serde(skip)]
    run: usize,
}

/// An algorithm, a place, and there the runs of it and of the first with the same seeds.
type Group<'a> = (String, GridPoint, Vec<[&'a RunResult; 2]>);

/// The comparisons of the algorithms of a grid, where each ran more than once at a place. None
/// where the grid has no axis of algorithms, or more than one.
pub fn paired(axes: &[String], runs: &[RunResult]) -> Vec<Paired> {
    let of_cc = |axis: &&String| axis.as_str() == "cc" || axis.ends_with(".cc");
    let [axis] = axes.iter().filter(of_cc).collect::<Vec<_>>()[..] else { return Vec::new() };
    let cc = |run: &RunResult| run.at.iter().find(|(name, _)| name == axis).map(|(_, v)| v.clone());
    let Some(against) = runs.first().and_then(cc) else { return Vec::new() };
    // What a pair has in common, and what its group has.
    let pair = |run: &RunResult| (without(&run.at, &[axis]), run.repetition);
    let place = |run: &RunResult| without(&run.at, &[axis, "seed"]);
    let mut base = BTreeMap::new();
    for run in runs.iter().filter(|run| cc(run).as_ref() == Some(&against)) {
        base.entry(pair(run)).or_insert(run);
    }
    let mut groups: Vec<Group<'_>> = Vec::new();
    let mut numbers = BTreeMap::new();
    for run in runs {
        let Some(own) = cc(run).filter(|own| *own != against) else { continue };
        let Some(other) = base.get(&pair(run)) else { continue };
        let number = *numbers.entry((own, place(run))).or_insert_with_key(|(own, at)| {
            groups.push((own.clone(), at.clone(), Vec::new()));
            groups.len() - 1
        });
        groups[number].2.push([run, other]);
    }
    let comparison = |(cc, at, pairs): Group<'_>| {
        let run = pairs.first()?[0].run;
        let difference = |metric: &&str| {
            let of = |run: &RunResult| run.metrics.get(*metric).copied().flatten();
            let each: Option<Vec<f64>> = pairs.iter().map(|[a, b]| Some(of(a)? - of(b)?)).collect();
            Some(((*metric).to_owned(), Interval::of(&each?)?))
        };
        let differences = COMPARED.iter().filter_map(difference).collect();
        let is_pair = pairs.len() > 1;
        is_pair.then(|| Paired { cc, against: against.clone(), at, differences, run })
    };
    groups.into_iter().filter_map(comparison).collect()
}

impl Paired {
    /// For the rows of a table: the differences in place of the figures.
    pub(crate) fn as_point(&self) -> Repeated {
        let mut at = vec![("cc".to_owned(), format!("{} - {}", self.cc, self.against))];
        at.extend(self.at.iter().cloned());
        Repeated { run: self.run, at, metrics: self.differences.clone() }
    }
}

#[cfg(test)]
mod tests {
    use super::super::repeat::tests::runs;
    use super::*;

    fn placed(goodputs: &[f64], places: &[(&str, &str, &str)]) -> Vec<RunResult> {
        let mut each = runs(goodputs);
        for (n, (run, (cc, rate, seed))) in each.iter_mut().zip(places).enumerate() {
            run.run = n;
            run.at = [("flow.cc", cc), ("rate", rate), ("seed", seed)]
                .map(|(k, v)| (k.to_owned(), (*v).to_owned()))
                .into();
        }
        each
    }

    #[test]
    fn the_difference_is_that_of_runs_with_one_seed() {
        let axes = ["flow.cc", "rate", "seed"].map(str::to_owned);
        let each = placed(
            &[10.0, 20.0, 30.0, 13.0, 21.0, 32.0],
            &[
                ("cubic", "1", "1"),
                ("cubic", "1", "2"),
                ("cubic", "1", "3"),
                ("bbr3", "1", "1"),
                ("bbr3", "1", "2"),
                ("bbr3", "1", "3"),
            ],
        );
        let all = paired(&axes, &each);
        assert_eq!(all.len(), 1);
        assert_eq!((all[0].cc.as_str(), all[0].against.as_str()), ("bbr3", "cubic"));
        assert_eq!(all[0].at, [("rate".to_owned(), "1".to_owned())]);
        let goodput = all[0].differences["goodput_mbps"];
        assert_eq!((goodput.n, goodput.mean, goodput.deviation), (3, 2.0, 1.0));
        // 4.3027 of two degrees of freedom. The values themselves vary ten times as much.
        assert!((goodput.half_width.expect("one") - 4.3027 / 3_f64.sqrt()).abs() < 1e-3);
        assert_eq!(all[0].as_point().at[0].1, "bbr3 - cubic");
    }

    #[test]
    fn one_run_of_each_or_two_axes_of_algorithms_are_not_compared() {
        let axes = ["flow.cc".to_owned()];
        let each = placed(&[1.0, 2.0], &[("cubic", "1", "1"), ("bbr3", "1", "1")]);
        assert_eq!(paired(&axes, &each), []);
        let two = ["flow.cc".to_owned(), "flow[1].cc".to_owned()];
        assert_eq!(paired(&two, &each), []);
        assert_eq!(paired(&[], &[]), []);
    }
}
