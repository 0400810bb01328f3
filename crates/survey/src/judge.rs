//! The paths on which an algorithm falls short of another.

use std::collections::BTreeMap;
use std::fmt;

use serde::Serialize;

use crate::case::{Case, Kind};
use crate::measure::{Measure, Values};
use crate::results::Outcome;
use crate::run::Survey;
use crate::text::{algorithm, is_again};

/// The other side of a comparison.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Reference {
    /// An algorithm.
    Algorithm(String),
    /// The best of all others on each path, in goodput. Of an algorithm that runs twice the first
    /// counts.
    Best,
}

impl fmt::Display for Reference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Algorithm(name) => f.write_str(name),
            Self::Best => f.write_str("the best of the others"),
        }
    }
}

impl Serialize for Reference {
    fn serialize<S: serde::Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(self)
    }
}

/// An algorithm under test against another.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Pair {
    /// The algorithm under test.
    pub cc: String,
    /// The reference.
    pub against: Reference,
    /// The results, in the order of [`Measure::ALL`], of measures that some path has.
    pub comparisons: Vec<Comparison>,
}

impl Pair {
    /// True if an algorithm is compared with itself: what differs is chance.
    pub fn is_chance(&self) -> bool {
        match &self.against {
            Reference::Algorithm(against) => algorithm(against) == algorithm(&self.cc),
            Reference::Best => false,
        }
    }
}

/// Two algorithms in one measure, over all paths.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Comparison {
    /// The measure.
    pub measure: Measure,
    /// Of all paths.
    #[serde(flatten)]
    pub all: Summary,
    /// Of the paths with each kind of disturbance.
    pub by_kind: BTreeMap<Kind, Summary>,
    /// Every path, the worst first.
    pub points: Vec<Point>,
}

/// Figures of several paths.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize)]
pub struct Summary {
    /// Number of paths that have the measure.
    pub paths: usize,
    /// Number of those that fall short.
    pub short: usize,
    /// The median figure.
    pub median: Option<f64>,
    /// The worst figure. Null if the algorithm under test has no value there, and the reference has
    /// one.
    pub worst: Option<f64>,
    /// The path of it.
    pub worst_path: Option<u64>,
}

/// Two algorithms in one measure on one path.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct Point {
    /// Number of the path.
    pub path: u64,
    /// Value of the algorithm under test.
    pub own: Option<f64>,
    /// Value of the reference.
    pub reference: f64,
    /// The one against the other.
    pub figure: Option<f64>,
    /// True if it falls short.
    pub short: bool,
}

impl Point {
    /// Distance from equal. No value, where the reference has one, is worst.
    pub(crate) fn shortfall(&self, measure: Measure) -> f64 {
        self.figure.map_or(f64::INFINITY, |figure| measure.shortfall(figure))
    }
}

/// Pairs to compare: the first of the algorithms under test with the others, or, where
/// `against` names some, each of them with those. Where there are several others, there is also the
/// best of them.
pub fn pairs(tested: &[String], against: &[String]) -> Vec<(String, Reference)> {
    let (tested, others) = match against.is_empty() {
        true => tested.split_at(tested.len().min(1)),
        false => (tested, against),
    };
    let mut pairs = Vec::new();
    for cc in tested {
        let others: Vec<&String> = others.iter().filter(|other| *other != cc).collect();
        let several = others.iter().filter(|other| !is_again(other)).count() > 1;
        let each = others.iter().map(|name| Reference::Algorithm((*name).clone()));
        let best = several.then_some(Reference::Best);
        pairs.extend(each.chain(best).map(|reference| (cc.clone(), reference)));
    }
    pairs
}

/// Compares two runs of a path; nothing where there is no value to compare with.
pub fn compare(
    measure: Measure,
    case: &Case,
    own: &Values,
    reference: &Values,
    limit: f64,
) -> Option<Point> {
    let reference = bounded(measure, case, reference)?;
    let own = measure.value(own);
    Some(Point {
        path: case.path,
        own,
        reference,
        figure: own.map(|own| measure.figure(own, reference)),
        short: own.is_none_or(|own| measure.falls_short(own, reference, limit)),
    })
}

/// A reference's value. What it takes from flows of another algorithm beyond its fair share is not
/// asked for, nor is an answer that may come before the end or after it.
fn bounded(measure: Measure, case: &Case, values: &Values) -> Option<f64> {
    let value = measure.value(values)?;
    let fair = case.fair_share();
    match (measure, values.competitor_goodput_mbps) {
        (Measure::Goodput, other) => {
            let asked = other.map_or(value, |other| value.min(fair * (value + other)));
            // Of a flow that answers nothing at all half is asked for.
            Some((asked - case.answer_mbps()).max(asked / 2.0))
        }
        (Measure::Share, _) => Some(value.min(fair)),
        _ => Some(value),
    }
}

/// An algorithm against others, on all paths that all of them have a result on.
pub fn judge(survey: &Survey, done: &[Outcome], cc: &str, against: &Reference, limit: f64) -> Pair {
    let mut by_path: BTreeMap<u64, BTreeMap<&str, &Values>> = BTreeMap::new();
    for outcome in done {
        by_path.entry(outcome.path).or_default().insert(&outcome.cc, &outcome.values);
    }
    let point = |measure: Measure, case: &Case| {
        let runs = by_path.get(&case.path)?;
        let own = runs.get(cc)?;
        match against {
            Reference::Algorithm(name) => {
                compare(measure, case, own, runs.get(name.as_str())?, limit)
            }
            Reference::Best => {
                let names = survey.options.senders.names.iter();
                let others = names.filter(|name| *name != cc && !is_again(name));
                let points: Option<Vec<Point>> = others
                    .map(|name| compare(measure, case, own, runs.get(name.as_str())?, limit))
                    .collect();
                points?.into_iter().max_by(|a, b| a.reference.total_cmp(&b.reference))
            }
        }
    };
    let measures: &[Measure] = match against {
        Reference::Algorithm(_) => &Measure::ALL,
        Reference::Best => &[Measure::Goodput],
    };
    // Each algorithm has windows of its own kind.
    let measures = measures.iter().filter(|measure| **measure != Measure::Window);
    let comparisons = measures.filter_map(|measure| {
        let cases = survey.paths.iter().map(|path| &path.case);
        let of_cases: Vec<(&Case, Point)> =
            cases.filter_map(|case| Some((case, point(*measure, case)?))).collect();
        let all = summary(*measure, of_cases.iter().map(|(_, point)| point))?;
        let by_kind = Kind::ALL.into_iter().filter_map(|kind| {
            let of_kind = of_cases.iter().filter(|(case, _)| case.has(kind));
            Some((kind, summary(*measure, of_kind.map(|(_, point)| point))?))
        });
        let by_kind = by_kind.collect();
        let mut points: Vec<Point> = of_cases.into_iter().map(|(_, point)| point).collect();
        points.sort_by(|a, b| b.shortfall(*measure).total_cmp(&a.shortfall(*measure)));
        Some(Comparison { measure: *measure, all, by_kind, points })
    });
    Pair { cc: cc.to_owned(), against: against.clone(), comparisons: comparisons.collect() }
}

/// Nothing of no path.
fn summary<'a>(measure: Measure, points: impl Iterator<Item = &'a Point>) -> Option<Summary> {
    let points: Vec<&Point> = points.collect();
    let worst =
        points.iter().max_by(|a, b| a.shortfall(measure).total_cmp(&b.shortfall(measure)))?;
    Some(Summary {
        paths: points.len(),
        short: points.iter().filter(|point| point.short).count(),
        median: median(points.iter().filter_map(|point| point.figure).collect()),
        worst: worst.figure,
        worst_path: Some(worst.path),
    })
}

/// Of an even number, half-way between the two in the middle.
pub(crate) fn median(mut figures: Vec<f64>) -> Option<f64> {
    figures.sort_by(f64::total_cmp);
    let (low, high) = (figures.len().checked_sub(1)? / 2, figures.len() / 2);
    Some((figures[low] + figures[high]) / 2.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::case::Disturbance;
    use crate::draw::draw;

    /// One flow beside one of CUBIC.
    fn beside_cubic() -> Case {
        let cc = "cubic".to_owned();
        let competitor = Disturbance::Competitor { cc, flows: 1, start_percent: 0.0, visits: 1 };
        let disturbances = vec![competitor];
        Case { flows: 1, disturbances, ..draw(1, 0, &[]) }
    }

    fn values(goodput_mbps: f64, competitor: Option<f64>) -> Values {
        let goodput_mbps = Some(goodput_mbps);
        Values { goodput_mbps, competitor_goodput_mbps: competitor, ..Values::default() }
    }

    #[test]
    fn what_a_reference_takes_beyond_its_fair_share_is_not_asked_for() {
        let case = beside_cubic();
        let greedy = values(9.0, Some(1.0));
        let point = |own: f64, measure| {
            let own = values(own, Some(10.0 - own));
            compare(measure, &case, &own, &greedy, 0.95).expect("a comparison")
        };
        let goodput = point(4.9, Measure::Goodput);
        assert_eq!((goodput.reference, goodput.short), (5.0, false));
        assert!(point(4.7, Measure::Goodput).short);
        let share = point(4.1, Measure::Share);
        assert_eq!((share.reference, share.short), (0.5, false));
        assert!(point(3.9, Measure::Share).short);
        // Who takes less than that is asked for what it takes.
        let modest = values(3.0, Some(7.0));
        let own = values(3.0, Some(7.0));
        let point = compare(Measure::Goodput, &case, &own, &modest, 0.95).expect("a comparison");
        assert_eq!((point.reference, point.short), (3.0, false));
    }

    #[test]
    fn who_is_there_for_a_part_of_the_time_has_a_part_of_the_share() {
        let case = |start_percent, visits| {
            let mut case = beside_cubic();
            let cc = "cubic".to_owned();
            case.disturbances =
                vec![Disturbance::Competitor { cc, flows: 1, start_percent, visits }];
            case
        };
        assert!((case(0.0, 1).fair_share() - 0.5).abs() < 1e-9);
        // From 0 to 20 %, 40 to 60 % and 80 to 100 %: of the last three quarters 40 of 75.
        let visited = Case { rtt_ms: 50.0, ..case(0.0, 3) };
        assert_eq!((visited.duration_s(), visited.judged_from_s()), (32, 8));
        assert!((visited.fair_share() - (1.0 - 40.0 / 75.0 / 2.0)).abs() < 1e-9);
    }

    /// Where an answer takes long, it is chance on which side of the end it comes.
    #[test]
    fn an_answer_more_or_less_is_not_short() {
        let requests = Disturbance::Requests { response_kb: 3e3, think_ms: 1.0, alone: true };
        let case =
            Case { rtt_ms: 50.0, disturbances: vec![requests], ..draw(1, 0, &[Kind::Media]) };
        // An answer in 25 s.
        assert!((case.answer_mbps() - 0.96).abs() < 0.1);
        let [four, three, two] = [4.0, 3.0, 2.0].map(|n| values(n * case.answer_mbps(), None));
        let is_short = |own| compare(Measure::Goodput, &case, own, &four, 0.95).map(|p| p.short);
        assert_eq!((is_short(&three), is_short(&two)), (Some(false), Some(true)));
        let [one, none] = [1.0, 0.0].map(|n| values(n * case.answer_mbps(), None));
        let hangs = compare(Measure::Goodput, &case, &none, &one, 0.95).map(|p| p.short);
        assert_eq!(hangs, Some(true), "no answer at all");
        let mut beside = case.clone();
        beside.disturbances =
            vec![Disturbance::Requests { response_kb: 3e3, think_ms: 1.0, alone: false }];
        let beside = compare(Measure::Goodput, &beside, &three, &four, 0.95).map(|p| p.short);
        assert_eq!(beside, Some(true), "bulk flows have no such chance");
    }

    #[test]
    fn no_value_is_the_worst_and_no_reference_is_no_comparison() {
        let case = draw(1, 0, &[]);
        let with = |latency_ms_p99| Values { latency_ms_p99, ..Values::default() };
        let (none, some) = (with(None), with(Some(5.0)));
        let point = compare(Measure::Latency, &case, &none, &some, 0.95).expect("a comparison");
        assert_eq!((point.figure, point.short), (None, true));
        assert_eq!(point.shortfall(Measure::Latency), f64::INFINITY);
        assert_eq!(compare(Measure::Latency, &case, &some, &none, 0.95), None);
    }

    #[test]
    fn summaries_have_the_median_and_the_worst() {
        let point = |path, figure| {
            let (own, reference) = (Some(figure), 1.0);
            Point { path, own, reference, figure: Some(figure), short: figure < 0.95 }
        };
        let points = [point(3, 1.2), point(4, 0.5), point(5, 1.0), point(6, 0.9)];
        let summary = summary(Measure::Goodput, points.iter()).expect("four points");
        assert_eq!((summary.paths, summary.short), (4, 2));
        assert_eq!((summary.median, summary.worst), (Some(0.95), Some(0.5)));
        assert_eq!(summary.worst_path, Some(4));
        assert_eq!(super::summary(Measure::Goodput, [].iter()), None);
    }
}
