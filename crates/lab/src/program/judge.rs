//! Verdicts on a sender from the wire alone, beside our own senders on the same paths.
//!
//! A command is run on each of [`paths`]. Then `bbr3`, `bbr1` and `cubic` run there in the simulator for as long, and
//! their figures are what the command's is held against: no limit is a number that somebody thought of.

use std::collections::BTreeMap;
use std::sync::atomic::AtomicBool;

use serde::{Deserialize, Serialize};

use super::options::PathOptions;
use super::result::{ProgramResult, WayResult};
use crate::backend::{BackendChoice, RunError};
use crate::output::table::{Table, number};
use crate::plan::Options;
use crate::run::{RunOptions, run_point};

/// Shortest transfer that is judged, in seconds: the first second of a sender says nothing of the others.
const LEAST_S: f64 = 3.0;

/// The best that differs from good by noise and by how an implementation counts: a factor of the best of ours.
const GOOD_SHARE: f64 = 0.8;
const GOOD_MULTIPLE: f64 = 2.0;

/// What none of ours does, noise taken into account: factors of the worst of them.
const BROKEN_SHARE: f64 = 0.5;
const BROKEN_MULTIPLE: f64 = 1.5;

/// Our senders that a command is held against: of each kind one.
const OURS: [&str; 3] = ["bbr3", "bbr1", "cubic"];

/// The checks: name, buffer and loss of the path, figure, and how it is judged.
const CHECKS: [(&str, &str, Option<&str>, &str, Sense); 4] = [
    ("fills the path", "2bdp", None, "utilization", Sense::More),
    ("no standing queue", "8bdp", None, "queue_ms.p50", Sense::Less { slack: 2.0 }),
    ("rate at 1 % random loss", "2bdp", Some("1%"), "utilization", Sense::More),
    ("few losses at a shallow buffer", "1bdp", None, "loss_rate", Sense::Less { slack: 0.005 }),
];

/// Whether more of a figure is better, or less, and then by how much it may differ for nothing.
#[derive(Clone, Copy)]
enum Sense {
    More,
    Less { slack: f64 },
}

/// A verdict.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Grade {
    /// About as good as the best of ours, or better.
    Good,
    /// Not much worse than the worst of ours.
    Poor,
    /// Worse than each of ours by far.
    Broken,
}

/// A check with its outcome.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Judgement {
    /// Name of the check.
    pub check: String,
    /// The path's name.
    pub path: String,
    /// The metric of the direction that carried the data.
    pub metric: String,
    /// Its value.
    pub value: f64,
    /// Good up to this.
    pub good: f64,
    /// Broken beyond this.
    pub broken: f64,
    /// The same metric of our senders on the same path, in the simulator.
    pub ours: BTreeMap<String, f64>,
    /// The verdict.
    pub grade: Grade,
}

/// The paths on which a command has to run, in order.
pub fn paths() -> Vec<PathOptions> {
    let path = |buffer: &str, loss: Option<&str>| PathOptions {
        rate: "20mbit".to_owned(),
        up_rate: None,
        rtt: "40ms".to_owned(),
        buffer: buffer.to_owned(),
        loss: loss.map(str::to_owned),
        seed: 1,
    };
    CHECKS.iter().map(|(_, buffer, loss, ..)| path(buffer, *loss)).collect()
}

/// The direction that carried the data.
fn data_of(result: &ProgramResult) -> &WayResult {
    if result.down.payload_bytes > result.up.payload_bytes { &result.down } else { &result.up }
}

/// Judges the run on path number `i`.
///
/// # Errors
/// It carried too little to be judged, in one line, or the simulator failed.
pub fn judge(i: usize, result: &ProgramResult, stop: &AtomicBool) -> Result<Judgement, RunError> {
    let (check, _, _, metric, sense) = CHECKS[i];
    let value = data_of(result).metrics.get(metric).copied().flatten();
    let (Some(value), true) = (value, result.active_s >= LEAST_S) else {
        return Err(RunError::Scenario(format!(
            "the command transferred for {} s, and a verdict takes {LEAST_S} s; give it more to transfer",
            number(result.active_s)
        )));
    };
    let ours = ours(&paths()[i], result.active_s, metric, stop)?;
    let least = ours.values().copied().fold(f64::INFINITY, f64::min);
    let most = ours.values().copied().fold(0.0, f64::max);
    let (good, broken) = limits(sense, least, most);
    let grade = grade(sense, value, good, broken);
    Ok(Judgement {
        check: check.to_owned(),
        path: result.path.clone(),
        metric: metric.to_owned(),
        value,
        good,
        broken,
        ours,
        grade,
    })
}

/// From where on a figure is good, and from where on broken, by the least and the most of ours.
fn limits(sense: Sense, least: f64, most: f64) -> (f64, f64) {
    match sense {
        Sense::More => (GOOD_SHARE * most, BROKEN_SHARE * least),
        Sense::Less { slack } => (GOOD_MULTIPLE * least + slack, BROKEN_MULTIPLE * most + slack),
    }
}

fn grade(sense: Sense, value: f64, good: f64, broken: f64) -> Grade {
    let (is_good, is_broken) = match sense {
        Sense::More => (value >= good, value < broken),
        Sense::Less { .. } => (value <= good, value > broken),
    };
    match (is_good, is_broken) {
        (true, _) => Grade::Good,
        (_, true) => Grade::Broken,
        _ => Grade::Poor,
    }
}

/// The metric of our senders on the path.
fn ours(
    path: &PathOptions,
    duration_s: f64,
    metric: &str,
    stop: &AtomicBool,
) -> Result<BTreeMap<String, f64>, RunError> {
    let options = Options {
        rate: path.rate.clone(),
        rtt: path.rtt.clone(),
        buffer: path.buffer.clone(),
        loss: path.loss.clone().unwrap_or_else(|| "0%".to_owned()),
        duration: format!("{duration_s:.0}s"),
        cc: OURS.iter().filter_map(|name| name.parse().ok()).collect(),
        ..Options::default()
    };
    let plan = options.plan().map_err(RunError::Scenario)?;
    let run_options = RunOptions { backend: BackendChoice::SIM, ..RunOptions::default() };
    let mut ours = BTreeMap::new();
    for (i, cc) in options.cc.iter().enumerate() {
        let run = run_point(&plan, i, &run_options, stop, &mut |_| ())?;
        let value = run.metrics.get(metric).copied().flatten().ok_or(RunError::StoppedEarly)?;
        ours.insert(cc.to_string(), value);
    }
    Ok(ours)
}

/// A row for each check.
pub fn judgements(all: &[Judgement]) -> Table {
    let mut header = vec![("check", ""), ("figure", ""), ("good", "limit"), ("broken", "limit")];
    header.extend(OURS.map(|name| (name, "ours")));
    header.push(("verdict", ""));
    let row = |j: &Judgement| {
        let ours = |name: &str| j.ours.get(name).map_or("-".to_owned(), |value| number(*value));
        let grade = match j.grade {
            Grade::Good => "good",
            Grade::Poor => "poor",
            Grade::Broken => "BROKEN",
        };
        let mut row = vec![j.check.clone(), number(j.value), number(j.good), number(j.broken)];
        row.extend(OURS.map(ours));
        row.push(grade.to_owned());
        row
    };
    Table { header, rows: all.iter().map(row).collect() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ours_are_never_broken_and_the_best_is_good() {
        for (sense, least, most, best) in
            [(Sense::More, 0.15, 0.95, 0.95), (Sense::Less { slack: 2.0 }, 0.4, 250.0, 0.4)]
        {
            let (good, broken) = limits(sense, least, most);
            assert_eq!(grade(sense, best, good, broken), Grade::Good);
            for ours in [least, most] {
                assert_ne!(grade(sense, ours, good, broken), Grade::Broken);
            }
        }
    }

    #[test]
    fn what_none_of_ours_does_is_broken() {
        let judged = |sense, value| {
            let (good, broken) = limits(sense, 0.2, 0.9);
            grade(sense, value, good, broken)
        };
        assert_eq!(judged(Sense::More, 0.09), Grade::Broken);
        assert_eq!(judged(Sense::More, 0.11), Grade::Poor);
        assert_eq!(judged(Sense::More, 0.73), Grade::Good);
        let less = Sense::Less { slack: 0.01 };
        assert_eq!(judged(less, 1.4), Grade::Broken);
        assert_eq!(judged(less, 0.5), Grade::Poor);
        assert_eq!(judged(less, 0.4), Grade::Good);
    }
}
