//! Verdicts: expectations that were met or not, and by how much.

use std::collections::{HashMap, HashSet};

use fullpipe_scenario::Grid;

use super::{Expectation, Expression, Function, Operator, Span, Term};
use crate::metrics::{Comparison, Interval};

/// Result of an expectation.
#[derive(Clone, PartialEq, Debug, serde::Serialize, serde::Deserialize)]
pub struct Verdict {
    /// The expectation as it was written.
    pub expect: String,
    /// Its name.
    pub name: String,
    /// Comparison operator between the two sides: `>=` and so on.
    pub comparison: String,
    /// True if it was met in every case.
    pub met: bool,
    /// Cases in which it was compared: points of the grid.
    pub cases: usize,
    /// Cases in which it was not met.
    pub unmet: usize,
    /// The left side in the worst case; null without a value.
    pub value: Option<f64>,
    /// The right side there.
    pub bound: Option<f64>,
    /// By how much it was met there; below 0 it was not.
    pub margin: Option<f64>,
    /// That case: the values of the axes that are not picked in every term.
    pub at: Vec<(String, String)>,
    /// The reason for which its file says that it is not met.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub known_failure: Option<String>,
}

impl Verdict {
    /// True if it is met, or else known not to be. A known failure that is met is a change as well.
    pub fn is_as_known(&self) -> bool {
        self.met == self.known_failure.is_none()
    }
}

/// The points of a grid, for those who look them up.
struct Lookup<'a> {
    grid: &'a Grid,
    places: HashMap<&'a [(String, String)], usize>,
    /// The values of each axis, in their order.
    values: HashMap<&'a str, Vec<&'a str>>,
}

impl<'a> Lookup<'a> {
    fn of(grid: &'a Grid) -> Self {
        let places = grid.runs.iter().enumerate().map(|(i, run)| (run.at.as_slice(), i)).collect();
        let values = grid.axes.iter().map(|axis| (axis.as_str(), values_of(axis, grid)));
        Self { grid, places, values: values.collect() }
    }

    fn place(&self, axis: &str, value: &str) -> Option<usize> {
        self.values.get(axis)?.iter().position(|v| *v == value)
    }

    /// The values that a span means.
    fn part(&self, span: &Span) -> Option<&[&'a str]> {
        let all = self.values.get(span.axis.as_str())?;
        let Some((first, last)) = &span.part else { return Some(all) };
        all.get(self.place(&span.axis, first)?..=self.place(&span.axis, last)?)
    }
}

/// The values of an axis, each once, in the order of the grid.
pub(super) fn values_of<'a>(axis: &str, grid: &'a Grid) -> Vec<&'a str> {
    let mut known = HashSet::new();
    let all = grid.runs.iter().flat_map(|r| &r.at).filter(|(name, _)| name == axis);
    all.map(|(_, value)| value.as_str()).filter(|value| known.insert(*value)).collect()
}

type At = Vec<(String, String)>;

/// A side of an expectation at one point: the runs that its terms mean are known.
enum Settled {
    Number(f64),
    /// Run and probe.
    Value(usize, usize),
    Of(Box<Self>, Operator, Box<Self>),
    Over(Function, Vec<Self>),
}

/// An expectation at one point.
pub(super) struct Case {
    /// The run at hand.
    point: usize,
    left: Settled,
    right: Settled,
}

/// The cases of an expectation: each different one among those of all points of the grid.
pub(super) fn cases(expectation: &Expectation, grid: &Grid) -> Vec<Case> {
    let lookup = Lookup::of(grid);
    let mut known = HashSet::new();
    let mut cases = Vec::new();
    for point in points(expectation, grid) {
        let run = &grid.runs[point];
        // What tells this case from others: the runs in it, and the numbers of axes.
        let mut marks = Vec::new();
        let left = expectation.left.settle(&run.at, &lookup, &mut marks);
        let right = expectation.right.settle(&run.at, &lookup, &mut marks);
        if let (Some(left), Some(right)) = (left, right)
            && known.insert(marks)
        {
            cases.push(Case { point, left, right });
        }
    }
    cases
}

/// The points of the grid, without those at which the expectation means the same as at an earlier
/// one: they differ in axes alone of which it is free. Functions look at all points of such an axis
/// each time.
pub(super) fn points(expectation: &Expectation, grid: &Grid) -> Vec<usize> {
    let (left, right) = (&expectation.left, &expectation.right);
    let mut free: HashMap<&str, bool> = HashMap::new();
    let mut known = HashSet::new();
    let mut points = Vec::new();
    for (point, run) in grid.runs.iter().enumerate() {
        // An axis counts even if its value does not: a variant may be without it.
        let key: Vec<(&str, Option<&str>)> = run
            .at
            .iter()
            .map(|(axis, value)| {
                let is_free = free
                    .entry(axis)
                    .or_insert_with(|| left.is_free_of(axis) && right.is_free_of(axis));
                (axis.as_str(), (!*is_free).then_some(value.as_str()))
            })
            .collect();
        if known.insert(key) {
            points.push(point);
        }
    }
    points
}

impl Expression {
    /// Its meaning at this point; `None` if the grid has no such run.
    fn settle(&self, at: &At, lookup: &Lookup<'_>, marks: &mut Vec<usize>) -> Option<Settled> {
        match self {
            Self::Number(x) => Some(Settled::Number(*x)),
            Self::Axis(axis) => {
                let (_, value) = at.iter().find(|(a, _)| a == axis)?;
                marks.push(lookup.grid.runs.len() + lookup.place(axis, value)?);
                number_of(value).map(Settled::Number)
            }
            Self::Term(term) => {
                let mut at = at.clone();
                for span in &term.within {
                    let (_, here) = at.iter().find(|(a, _)| *a == span.axis)?;
                    lookup.part(span)?.iter().find(|v| *v == here)?;
                }
                for (axis, value) in &term.fixed {
                    let place = at.iter_mut().find(|(a, _)| a == axis)?;
                    place.1.clone_from(value);
                }
                let run = *lookup.places.get(at.as_slice())?;
                marks.push(run);
                Some(Settled::Value(run, term.probe))
            }
            Self::Of(left, operator, right) => {
                let left = left.settle(at, lookup, marks)?;
                let right = right.settle(at, lookup, marks)?;
                Some(Settled::Of(Box::new(left), *operator, Box::new(right)))
            }
            Self::Over(function, inner, spans) => {
                let mut points = vec![at.clone()];
                for span in spans {
                    points = spread(&points, span, lookup)?;
                }
                let each = points.iter().filter_map(|at| inner.settle(at, lookup, marks));
                let each: Vec<Settled> = each.collect();
                (!each.is_empty()).then_some(Settled::Over(*function, each))
            }
        }
    }

    /// The axes on which its value does not depend: all terms pick them, or a function takes all of
    /// them.
    fn is_free_of(&self, axis: &str) -> bool {
        match self {
            Self::Number(_) => true,
            Self::Axis(name) => name != axis,
            Self::Term(term) => term.fixed.iter().any(|(a, _)| a == axis),
            Self::Of(left, _, right) => left.is_free_of(axis) && right.is_free_of(axis),
            Self::Over(_, inner, spans) => {
                spans.iter().any(|s| s.axis == axis) || inner.is_free_of(axis)
            }
        }
    }
}

/// Each of the points with each value of the span. A point of a variant that has no such axis stays
/// out.
fn spread(points: &[At], span: &Span, lookup: &Lookup<'_>) -> Option<Vec<At>> {
    let values = lookup.part(span)?;
    let mut all = Vec::with_capacity(points.len() * values.len());
    for at in points {
        let place = at.iter().position(|(a, _)| *a == span.axis)?;
        all.extend(values.iter().map(|value| {
            let mut at = at.clone();
            at[place].1 = (*value).to_owned();
            at
        }));
    }
    Some(all)
}

/// The number that a value begins with: 0.5 of `0.5bdp`.
fn number_of(value: &str) -> Option<f64> {
    let end = value.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(value.len());
    value[..end].parse().ok()
}

fn collect<'a>(expression: &'a Expression, out: &mut Vec<&'a Term>) {
    match expression {
        Expression::Number(_) | Expression::Axis(_) => {}
        Expression::Term(term) => out.push(term),
        Expression::Of(left, _, right) => {
            collect(left, out);
            collect(right, out);
        }
        Expression::Over(_, inner, _) => collect(inner, out),
    }
}

impl Expectation {
    /// Numbers of the plan's probes that it asks for.
    pub fn probes(&self) -> Vec<usize> {
        let mut terms = Vec::new();
        collect(&self.left, &mut terms);
        collect(&self.right, &mut terms);
        terms.into_iter().map(|term| term.probe).collect()
    }
}

/// Looks at every expectation; `values[run]` are what that run brought for the plan's probes.
pub fn check(expectations: &[Expectation], grid: &Grid, values: &[&[Option<f64>]]) -> Vec<Verdict> {
    expectations.iter().map(|e| verdict(e, grid, values)).collect()
}

fn verdict(e: &Expectation, grid: &Grid, values: &[&[Option<f64>]]) -> Verdict {
    let cases = cases(e, grid);
    let mut verdict = Verdict {
        expect: e.text.clone(),
        name: e.name.clone(),
        comparison: e.comparison.sign().to_owned(),
        met: true,
        cases: cases.len(),
        unmet: 0,
        value: None,
        bound: None,
        margin: None,
        at: Vec::new(),
        known_failure: e.known_failure.clone(),
    };
    let is_fixed = |axis: &str| e.left.is_free_of(axis) && e.right.is_free_of(axis);
    let mut worst = f64::INFINITY;
    for Case { point, left, right } in cases {
        let (left, right) = (left.value(values), right.value(values));
        let margin = left.zip(right).map(|(l, r)| margin(e.comparison, l, r));
        let is_met = left.zip(right).is_some_and(|(l, r)| e.comparison.holds(l, r));
        verdict.met &= is_met;
        verdict.unmet += usize::from(!is_met);
        // Nothing is worse than no value; and one is shown whatever it is.
        let badness = margin.unwrap_or(f64::NEG_INFINITY);
        if badness < worst || verdict.value.is_none() && worst == f64::INFINITY {
            worst = badness;
            (verdict.value, verdict.bound, verdict.margin) = (left, right, margin);
            verdict.at = grid.runs[point].at.clone();
            verdict.at.retain(|(axis, _)| !is_fixed(axis));
        }
    }
    verdict
}

fn margin(comparison: Comparison, left: f64, right: f64) -> f64 {
    match comparison {
        Comparison::AtLeast | Comparison::More => left - right,
        Comparison::AtMost | Comparison::Less => right - left,
        Comparison::Equal => -(left - right).abs(),
    }
}

impl Settled {
    /// Nothing where a value is missing, or is none: a division by zero.
    fn value(&self, values: &[&[Option<f64>]]) -> Option<f64> {
        match self {
            Self::Number(x) => Some(*x),
            Self::Value(run, probe) => values.get(*run)?.get(*probe).copied().flatten(),
            Self::Of(left, operator, right) => {
                let (left, right) = (left.value(values)?, right.value(values)?);
                let result = match operator {
                    Operator::Plus => left + right,
                    Operator::Minus => left - right,
                    Operator::Times => left * right,
                    Operator::Over => left / right,
                };
                result.is_finite().then_some(result)
            }
            Self::Over(function, each) => {
                let all: Option<Vec<f64>> = each.iter().map(|one| one.value(values)).collect();
                function.of(all?)
            }
        }
    }
}

impl Function {
    fn of(self, mut all: Vec<f64>) -> Option<f64> {
        all.sort_by(f64::total_cmp);
        let (sum, n) = (all.iter().sum::<f64>(), all.len());
        match self {
            Self::Min => all.first().copied(),
            Self::Max => all.last().copied(),
            Self::Sum => Some(sum),
            Self::Mean => (n > 0).then(|| sum / n as f64),
            Self::HalfWidth => Interval::of(&all)?.half_width,
            // Of an even number what lies between the two in the middle.
            Self::Median => Some((all.get(n.checked_sub(1)? / 2)? + all.get(n / 2)?) / 2.0),
        }
    }
}
