//! What a scenario file expects of its runs: `queue_ms.p95 <= 10 after 5s`.
//!
//! An expectation holds at every point of the grid. A term may pick values of the grid's axes,
//! `goodput_mbps[cubic]`, and then means the run at that point but for these; so runs are compared.

mod check;
mod metric;
mod parse;

use std::fmt;

use fullpipe_cc::Duration;

pub use check::{Verdict, check};
pub use metric::{Level, Metric, Stat};

use crate::file::Plan;

/// One line of `expect`.
#[derive(Clone, Debug)]
pub struct Expectation {
    /// As it was written.
    pub text: String,
    left: Expression,
    comparison: Comparison,
    right: Expression,
}

/// How two sides compare.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Comparison {
    AtLeast,
    AtMost,
    More,
    Less,
    Equal,
}

impl Comparison {
    const fn sign(self) -> &'static str {
        match self {
            Self::AtLeast => ">=",
            Self::AtMost => "<=",
            Self::More => ">",
            Self::Less => "<",
            Self::Equal => "==",
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Operator {
    Plus,
    Minus,
    Times,
    Over,
}

#[derive(Clone, Debug)]
enum Expression {
    Number(f64),
    Term(Term),
    Of(Box<Self>, Operator, Box<Self>),
}

/// A metric of a run.
#[derive(Clone, Debug)]
struct Term {
    scope: Scope,
    metric: Metric,
    picks: Vec<parse::Pick>,
    /// The picks with the names of their axes.
    fixed: Vec<(String, String)>,
    /// The place of its value among those that each run brings.
    probe: usize,
}

/// Whose figure.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Scope {
    /// All flows, and the first link.
    Run,
    Flow(Which),
    Link(usize),
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Which {
    Number(usize),
    /// All flows of this name together.
    Name(String),
}

/// The time that counts: all of it where nothing is said.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub(crate) struct Window {
    pub(crate) from: Option<Duration>,
    pub(crate) to: Option<Duration>,
}

/// A value that a run has to bring for the expectations.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Probe {
    pub(crate) scope: Scope,
    pub(crate) metric: Metric,
    pub(crate) window: Window,
}

impl Expression {
    fn terms<'a>(&'a mut self, out: &mut Vec<&'a mut Term>) {
        match self {
            Self::Number(_) => {}
            Self::Term(term) => out.push(term),
            Self::Of(left, _, right) => {
                left.terms(out);
                right.terms(out);
            }
        }
    }
}

/// Reads an expectation and looks up what it names in the plan. `probes` grows by what it asks for.
///
/// # Errors
/// What is wrong with it, in one line.
pub(crate) fn parse(
    text: &str,
    plan: &Plan,
    probes: &mut Vec<Probe>,
) -> Result<Expectation, String> {
    let sentence = parse::sentence(text)?;
    let (mut left, mut right) = (sentence.left, sentence.right);
    let mut terms = Vec::new();
    left.terms(&mut terms);
    right.terms(&mut terms);
    if terms.is_empty() {
        return Err("there is no metric in it; write it like queue_ms.p95 <= 10".to_owned());
    }
    for term in terms {
        term.fixed = term.picks.iter().map(|p| axis_of(p, plan)).collect::<Result<_, _>>()?;
        let probe =
            Probe { scope: term.scope.clone(), metric: term.metric, window: sentence.window };
        check_exists(&probe, plan)?;
        term.probe = probes.iter().position(|p| *p == probe).unwrap_or_else(|| {
            probes.push(probe);
            probes.len() - 1
        });
    }
    let expectation =
        Expectation { text: text.to_owned(), left, comparison: sentence.comparison, right };
    if check::cases(&expectation, plan).is_empty() {
        return Err("no run of the grid has all that it picks".to_owned());
    }
    Ok(expectation)
}

/// The axis that a pick means.
fn axis_of((axis, value): &parse::Pick, plan: &Plan) -> Result<(String, String), String> {
    let has = |name: &str, value: &str| {
        plan.runs.iter().any(|r| r.at.iter().any(|(a, v)| a == name && v == value))
    };
    if let Some(axis) = axis {
        if !plan.axes.contains(axis) {
            let all = match plan.axes.join(", ") {
                none if none.is_empty() => "no field has a list".to_owned(),
                all => format!("lists have {all}"),
            };
            return Err(format!("'{}' is no field with a list; {all}", axis.escape_debug()));
        }
        if !has(axis, value) {
            return Err(format!("no run has {axis}={}", value.escape_debug()));
        }
        return Ok((axis.clone(), value.clone()));
    }
    let having: Vec<&String> = plan.axes.iter().filter(|a| has(a, value)).collect();
    let value = value.escape_debug();
    match having.as_slice() {
        [] => Err(format!("no field's list has '{value}', so there is no run to pick by it")),
        [axis] => Ok(((*axis).clone(), value.to_string())),
        [a, b, ..] => Err(format!("'{value}' could be of {a} or {b}; write [{a}={value}]")),
    }
}

/// Whether some run has that flow or link, and lasts until the window begins.
fn check_exists(probe: &Probe, plan: &Plan) -> Result<(), String> {
    let (mut flows, mut links, mut longest) = (0, 0, Duration::ZERO);
    let mut names: Vec<String> = Vec::new();
    for run in &plan.runs {
        let Ok(setup) = run.setup() else { continue };
        let is_there = match &probe.scope {
            Scope::Run => true,
            Scope::Flow(Which::Number(n)) => *n < setup.flows.len(),
            Scope::Flow(Which::Name(name)) => setup.flows.iter().any(|f| f.name == *name),
            Scope::Link(n) => *n < setup.config.links.len(),
        };
        let is_long_enough = probe.window.from.is_none_or(|from| from < setup.duration);
        if is_there && is_long_enough {
            return Ok(());
        }
        longest = longest.max(setup.duration);
        (flows, links) = (flows.max(setup.flows.len()), links.max(setup.config.links.len()));
        for flow in setup.flows {
            if !names.contains(&flow.name) {
                names.push(flow.name);
            }
        }
    }
    Err(match &probe.scope {
        Scope::Flow(Which::Number(n)) if *n >= flows => {
            format!("flow[{n}] of {flows}; they count from 0")
        }
        Scope::Flow(Which::Name(name)) if !names.contains(name) => {
            format!("no flow is called '{}'; there are {}", name.escape_debug(), names.join(", "))
        }
        Scope::Link(n) if *n >= links => format!("link[{n}] of {links}; they count from 0"),
        _ => {
            let end = crate::units::show_duration(longest);
            format!("the window begins when the run is over; that lasts {end}")
        }
    })
}

impl fmt::Display for Expectation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

#[cfg(test)]
mod tests;
