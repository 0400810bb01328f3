//! Expectations of a scenario file for its runs: `queue_ms.p95 <= 10 after 5s`.
//!
//! An expectation holds at every point of the grid. A term may pick values of the grid's axes, as
//! in `goodput_mbps[cubic]`. It then means the run at the same point except for these values, so
//! that runs can be compared. A function takes all values of an axis together:
//! `max(rtt_ms.p50[bbr3] over buffer)`.

mod check;
mod parse;

use std::fmt;

use fullpipe_cc::Duration;
use fullpipe_scenario::{Grid, Run};

use crate::metrics::{Comparison, Metric, Probe, Scope, Which};
use crate::observe::MAX_OWN_DISTRIBUTIONS;
pub use check::{Verdict, check};

/// One line of `expect`.
#[derive(Clone, Debug)]
pub struct Expectation {
    /// As it was written.
    pub text: String,
    /// Its name: the words before the colon, or else the left side.
    pub name: String,
    /// The reason for which it is known not to be met.
    pub known_failure: Option<String>,
    left: Expression,
    comparison: Comparison,
    right: Expression,
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
    /// The number that the value of an axis begins with.
    Axis(String),
    Term(Term),
    Of(Box<Self>, Operator, Box<Self>),
    /// All values of an axis together, or those of a part of it.
    Over(Function, Box<Self>, Vec<Span>),
}

/// Function of several values.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Function {
    Min,
    Max,
    Mean,
    Median,
    Sum,
    HalfWidth,
}

/// An axis, and perhaps the first and the last of its values that count.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Span {
    axis: String,
    part: Option<(String, String)>,
}

/// A metric of a run.
#[derive(Clone, Debug)]
struct Term {
    scope: Scope,
    metric: Metric,
    picks: Vec<parse::Pick>,
    /// The picks of one value, with the names of their axes.
    fixed: Vec<(String, String)>,
    /// Those of several: where the run at hand has none of them, nothing is compared.
    within: Vec<Span>,
    /// The place of its value among those that each run brings.
    probe: usize,
}

impl Expression {
    fn terms<'a>(&'a mut self, out: &mut Vec<&'a mut Term>) {
        match self {
            Self::Number(_) | Self::Axis(_) => {}
            Self::Term(term) => out.push(term),
            Self::Of(left, _, right) => {
                left.terms(out);
                right.terms(out);
            }
            Self::Over(_, inner, _) => inner.terms(out),
        }
    }

    /// The axes that it names itself, and not in a pick.
    fn check_axes(&self, grid: &Grid) -> Result<(), String> {
        match self {
            Self::Number(_) | Self::Term(_) => Ok(()),
            Self::Axis(axis) => check_axis(axis, grid),
            Self::Of(left, _, right) => {
                left.check_axes(grid)?;
                right.check_axes(grid)
            }
            Self::Over(_, inner, spans) => {
                inner.check_axes(grid)?;
                spans.iter().try_for_each(|span| check_span(span, grid))
            }
        }
    }
}

/// Reads an expectation and looks up what it names in the plan. `probes` grows by what it asks for.
///
/// # Errors
/// The mistake, in one line.
pub(crate) fn parse(
    text: &str,
    grid: &Grid,
    probes: &mut Vec<Probe>,
) -> Result<Expectation, String> {
    let (name, rest) = parse::name_and_rest(text);
    let sentence = parse::sentence(rest)?;
    let (mut left, mut right) = (sentence.left, sentence.right);
    left.check_axes(grid)?;
    right.check_axes(grid)?;
    let mut terms = Vec::new();
    left.terms(&mut terms);
    right.terms(&mut terms);
    if terms.is_empty() {
        return Err("there is no metric in it; write it like queue_ms.p95 <= 10".to_owned());
    }
    for term in terms {
        for pick in &term.picks {
            match pick {
                parse::Pick::One(axis, value) => {
                    term.fixed.push(axis_of(axis.as_deref(), value, grid)?);
                }
                parse::Pick::Part(axis, first, last) => {
                    let (axis, first) = axis_of(axis.as_deref(), first, grid)?;
                    let span = Span { axis, part: Some((first, last.clone())) };
                    check_span(&span, grid)?;
                    term.within.push(span);
                }
            }
        }
        let probe =
            Probe { scope: term.scope.clone(), metric: term.metric, window: sentence.window };
        check_exists(&probe, grid)?;
        term.probe = probes.iter().position(|p| *p == probe).unwrap_or_else(|| {
            probes.push(probe);
            probes.len() - 1
        });
    }
    let name = name.unwrap_or(sentence.left_text).to_owned();
    let text = text.to_owned();
    let comparison = sentence.comparison;
    let expectation = Expectation { text, name, known_failure: None, left, comparison, right };
    if check::cases(&expectation, grid).is_empty() {
        return Err("no run of the grid has all that it picks".to_owned());
    }
    Ok(expectation)
}

fn check_axis(axis: &str, grid: &Grid) -> Result<(), String> {
    if grid.axes.iter().any(|a| a == axis) {
        return Ok(());
    }
    let all = match grid.axes.join(", ") {
        none if none.is_empty() => "no field has a list".to_owned(),
        all => format!("lists have {all}"),
    };
    Err(format!("'{}' is no field with a list; {all}", axis.escape_debug()))
}

fn check_span(span: &Span, grid: &Grid) -> Result<(), String> {
    check_axis(&span.axis, grid)?;
    let Some((first, last)) = &span.part else { return Ok(()) };
    let values = check::values_of(&span.axis, grid);
    let place = |value: &String| {
        values
            .iter()
            .position(|v| v == value)
            .ok_or_else(|| format!("no run has {}={}", span.axis, value.escape_debug()))
    };
    if place(first)? > place(last)? {
        return Err(format!("'{first}..{last}' runs backwards; write the first value first"));
    }
    Ok(())
}

/// The axis that a pick means.
fn axis_of(axis: Option<&str>, value: &str, grid: &Grid) -> Result<(String, String), String> {
    let has = |name: &str, value: &str| {
        grid.runs.iter().any(|r| r.at.iter().any(|(a, v)| a == name && v == value))
    };
    if let Some(axis) = axis {
        check_axis(axis, grid)?;
        if !has(axis, value) {
            return Err(format!("no run has {axis}={}", value.escape_debug()));
        }
        return Ok((axis.to_owned(), value.to_owned()));
    }
    let having: Vec<&String> = grid.axes.iter().filter(|a| has(a, value)).collect();
    let shown = value.escape_debug();
    match having.as_slice() {
        [] => Err(format!("no field's list has '{shown}', so there is no run to pick by it")),
        [axis] => Ok(((*axis).clone(), value.to_owned())),
        [a, b, ..] => Err(format!("'{shown}' could be of {a} or {b}; write [{a}={shown}]")),
    }
}

/// Checks that some run has that flow or link, and lasts until the window begins.
fn check_exists(probe: &Probe, grid: &Grid) -> Result<(), String> {
    let has_series = |run: &Run| run.scenario().interval.is_some();
    if probe.metric.needs_series() && !grid.runs.iter().any(has_series) {
        let why = "is measured by samples; write how often, interval = \"20ms\"";
        return Err(format!("{} {why}", probe.metric));
    }
    let needs_own = matches!(probe.metric, Metric::Rtt(_) | Metric::Latency(_));
    let mut crowd = false;
    let (mut flows, mut links, mut longest) = (0, 0, Duration::ZERO);
    let mut names: Vec<String> = Vec::new();
    for scenario in grid.runs.iter().map(Run::scenario) {
        let is_there = match &probe.scope {
            Scope::Run => true,
            Scope::Flow(_) if needs_own && scenario.flows.len() > MAX_OWN_DISTRIBUTIONS => {
                crowd = true;
                false
            }
            Scope::Flow(Which::Number(n)) => *n < scenario.flows.len(),
            Scope::Flow(Which::Name(name)) => scenario.flows.iter().any(|f| f.name == *name),
            Scope::Link(n) => *n < scenario.config.links.len(),
        };
        let is_long_enough =
            probe.window.from.is_none_or(|from| from < scenario.duration.unwrap_or(Duration::MAX));
        if is_there && is_long_enough {
            return Ok(());
        }
        longest = longest.max(scenario.duration.unwrap_or(Duration::MAX));
        (flows, links) = (flows.max(scenario.flows.len()), links.max(scenario.config.links.len()));
        for flow in &scenario.flows {
            if !names.contains(&flow.name) {
                names.push(flow.name.clone());
            }
        }
    }
    Err(match &probe.scope {
        Scope::Flow(_) if crowd => format!(
            "{} of one flow is known in runs of at most {MAX_OWN_DISTRIBUTIONS} flows, and here are {flows}; \
             write it without flow[..]",
            probe.metric
        ),
        Scope::Flow(Which::Number(n)) if *n >= flows => {
            format!("flow[{n}] of {flows}; they count from 0")
        }
        Scope::Flow(Which::Name(name)) if !names.contains(name) => {
            format!("no flow is called '{}'; there are {}", name.escape_debug(), names.join(", "))
        }
        Scope::Link(n) if *n >= links => format!("link[{n}] of {links}; they count from 0"),
        _ => {
            let end = fullpipe_scenario::units::show_duration(longest);
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
