//! Whether expectations were met, and by how much.

use std::collections::{HashMap, HashSet};

use super::{Comparison, Expectation, Expression, Operator, Term};
use crate::file::Plan;

/// What became of an expectation.
#[derive(Clone, PartialEq, Debug, serde::Serialize)]
pub struct Verdict {
    /// The expectation as it was written.
    pub expect: String,
    /// Whether it was met in every case.
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
    /// Which case that is: the values of the axes that are not picked in every term.
    pub at: Vec<(String, String)>,
}

/// One case: the points that the terms mean, from left to right.
type Case = Vec<usize>;

/// The cases of an expectation: each different one among those of all points of the grid.
pub(super) fn cases(expectation: &Expectation, plan: &Plan) -> Vec<(usize, Case)> {
    let places: HashMap<&[(String, String)], usize> =
        plan.runs.iter().enumerate().map(|(i, run)| (run.at.as_slice(), i)).collect();
    let mut terms = Vec::new();
    collect(&expectation.left, &mut terms);
    collect(&expectation.right, &mut terms);
    let mut known = HashSet::new();
    let mut cases = Vec::new();
    for (i, run) in plan.runs.iter().enumerate() {
        let runs: Option<Case> = terms
            .iter()
            .map(|term| {
                let mut at = run.at.clone();
                for (axis, value) in &term.fixed {
                    let place = at.iter_mut().find(|(a, _)| a == axis)?;
                    place.1.clone_from(value);
                }
                places.get(at.as_slice()).copied()
            })
            .collect();
        if let Some(runs) = runs
            && known.insert(runs.clone())
        {
            cases.push((i, runs));
        }
    }
    cases
}

fn collect<'a>(expression: &'a Expression, out: &mut Vec<&'a Term>) {
    match expression {
        Expression::Number(_) => {}
        Expression::Term(term) => out.push(term),
        Expression::Of(left, _, right) => {
            collect(left, out);
            collect(right, out);
        }
    }
}

impl Expectation {
    /// Which of the plan's probes it asks for.
    pub(crate) fn probes(&self) -> Vec<usize> {
        let mut terms = Vec::new();
        collect(&self.left, &mut terms);
        collect(&self.right, &mut terms);
        terms.into_iter().map(|term| term.probe).collect()
    }
}

/// Looks at every expectation; `values[run]` are what that run brought for the plan's probes.
pub fn check(plan: &Plan, values: &[&[Option<f64>]]) -> Vec<Verdict> {
    plan.expectations.iter().map(|e| verdict(e, plan, values)).collect()
}

fn verdict(e: &Expectation, plan: &Plan, values: &[&[Option<f64>]]) -> Verdict {
    let cases = cases(e, plan);
    let mut verdict = Verdict {
        expect: e.text.clone(),
        met: true,
        cases: cases.len(),
        unmet: 0,
        value: None,
        bound: None,
        margin: None,
        at: Vec::new(),
    };
    let mut terms = Vec::new();
    collect(&e.left, &mut terms);
    collect(&e.right, &mut terms);
    let is_fixed = |axis: &str| terms.iter().all(|t| t.fixed.iter().any(|(a, _)| a == axis));
    let mut worst = f64::INFINITY;
    for (point, runs) in cases {
        let mut runs = runs.into_iter();
        let (left, right) = (value(&e.left, &mut runs, values), value(&e.right, &mut runs, values));
        let margin = left.zip(right).map(|(l, r)| margin(e.comparison, l, r));
        let is_met = margin.is_some_and(|m| match e.comparison {
            Comparison::More | Comparison::Less => m > 0.0,
            _ => m >= 0.0,
        });
        verdict.met &= is_met;
        verdict.unmet += usize::from(!is_met);
        // Nothing is worse than no value; and one is shown whatever it is.
        let badness = margin.unwrap_or(f64::NEG_INFINITY);
        if badness < worst || verdict.value.is_none() && worst == f64::INFINITY {
            worst = badness;
            (verdict.value, verdict.bound, verdict.margin) = (left, right, margin);
            verdict.at = plan.runs[point].at.clone();
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

fn value(
    expression: &Expression,
    runs: &mut impl Iterator<Item = usize>,
    values: &[&[Option<f64>]],
) -> Option<f64> {
    match expression {
        Expression::Number(x) => Some(*x),
        Expression::Term(term) => values.get(runs.next()?)?.get(term.probe).copied().flatten(),
        Expression::Of(left, operator, right) => {
            let (left, right) = (value(left, runs, values), value(right, runs, values));
            let (left, right) = (left?, right?);
            let result = match operator {
                Operator::Plus => left + right,
                Operator::Minus => left - right,
                Operator::Times => left * right,
                Operator::Over => left / right,
            };
            result.is_finite().then_some(result)
        }
    }
}
