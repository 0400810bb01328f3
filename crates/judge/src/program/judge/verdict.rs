//! Verdicts: a grade for each check, by what our own senders do there.

use std::collections::BTreeMap;
use std::sync::atomic::AtomicBool;

use serde::{Deserialize, Serialize};

use super::Views;
use super::check::{CHECKS, Check, Sense};
use super::defect::{Defect, defects};
use super::kind::Looks;
use super::reference::{ReferenceSender, simulate};
use super::test_path::{GIVEN, TEST_PATHS, TestPath};
use super::view::View;
use fullpipe_lab::backend::RunError;

/// Difference from good by noise and by how an implementation counts: a factor of the best of
/// ours.
const GOOD_SHARE: f64 = 0.8;
const GOOD_MULTIPLE: f64 = 2.0;

/// Limits that none of ours reaches, noise taken into account: factors of the worst of them.
const BROKEN_SHARE: f64 = 0.5;
const BROKEN_MULTIPLE: f64 = 1.5;

/// The line about the kind where there is one path alone.
const ONE_PATH: &str = "not judged on one path, and neither are defects and fairness: without options about the \
                        path there are sixteen paths for that";

/// A grade. The order is from the best to the worst.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Grade {
    /// About as good as the best of ours, or better.
    Good,
    /// Not much worse than the worst of ours.
    Poor,
    /// Worse than each of ours by far.
    Broken,
}

impl Grade {
    /// In a word.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Good => "good",
            Self::Poor => "poor",
            Self::Broken => "BROKEN",
        }
    }
}

/// A check with its outcome.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Judgement {
    /// Name of the check.
    pub check: String,
    /// The path's name.
    #[serde(rename = "course")]
    pub test_path: String,
    /// Unit of the values.
    pub unit: String,
    /// The figure; null where it was not judged.
    pub value: Option<f64>,
    /// Good up to this.
    pub good: f64,
    /// Broken beyond this.
    pub broken: f64,
    /// The same figure of our senders on the same path, in the simulator.
    pub ours: BTreeMap<String, f64>,
    /// The verdict; null where it was not judged.
    pub grade: Option<Grade>,
    /// The reason why it was not judged.
    pub reason: Option<String>,
}

/// Figures of our senders, by check, from which the limits come.
#[derive(Clone, PartialEq, Debug)]
pub struct Limits(Vec<BTreeMap<String, f64>>);

impl Limits {
    /// Runs our senders on these paths. `tell` is called after each path with its name.
    ///
    /// # Errors
    /// `stop` was set.
    pub fn simulate(
        test_paths: &[&TestPath],
        stop: &AtomicBool,
        mut tell: impl FnMut(&TestPath),
    ) -> Result<Self, RunError> {
        let mut figures = vec![BTreeMap::new(); CHECKS.len()];
        for test_path in test_paths {
            for sender in ReferenceSender::ours() {
                let view = simulate(test_path, &sender, 1, stop)?;
                for (ours, check) in figures.iter_mut().zip(&CHECKS) {
                    if check.test_path == test_path.name
                        && let Ok(value) = (check.figure)(&view)
                    {
                        ours.insert(sender.name.clone(), value);
                    }
                }
            }
            tell(test_path);
        }
        Ok(Self(figures))
    }
}

/// The verdicts on a sender.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Judged {
    /// One for each check of the paths.
    pub checks: Vec<Judgement>,
    /// The kind of algorithm.
    pub looks: Looks,
    /// That in words.
    pub looks_like: String,
    /// Defects that have a name.
    pub defects: Vec<Defect>,
}

impl Judged {
    /// Of a sender that ran on these paths. `missing` has the reason for each path without a
    /// view.
    pub fn of(views: &Views, missing: &BTreeMap<&'static str, String>, limits: &Limits) -> Self {
        let is_given = views.contains_key(GIVEN);
        let pauses = ["clean", GIVEN].iter().filter_map(|name| views.get(name));
        let pauses = pauses.map(View::pause).any(|pause| pause.is_some());
        let checks = CHECKS.iter().zip(&limits.0).filter_map(|(check, ours)| {
            let figure = match (views.get(check.test_path), missing.get(check.test_path)) {
                (Some(_), _) if pauses && check.sense == Sense::More => {
                    Err("it pauses by itself".to_owned())
                }
                (Some(view), _) => figure(check, view),
                (None, Some(why)) => Err(why.clone()),
                (None, None) => return None,
            };
            Some(judgement(check, figure, ours))
        });
        let checks = checks.collect();
        let looks = Looks::of(views);
        let defects = defects(views, &looks);
        let looks_like = match is_given {
            true => ONE_PATH.to_owned(),
            false => looks.to_string(),
        };
        Self { checks, looks, looks_like, defects }
    }

    /// True if something is broken or has the name of a defect.
    pub fn is_broken(&self) -> bool {
        !self.defects.is_empty() || self.checks.iter().any(|c| c.grade == Some(Grade::Broken))
    }

    /// Results that are worse than before: the checks whose grade is, and defects that were not
    /// there.
    pub fn worse_than(&self, before: &Self) -> Vec<String> {
        let was = |check: &str| before.checks.iter().find(|c| c.check == check)?.grade;
        let checks = self.checks.iter().filter_map(|c| {
            let (old, new) = (was(&c.check)?, c.grade?);
            (new > old).then(|| {
                let [new, old] = [new, old].map(|grade| grade.name().to_lowercase());
                format!("{}: {new}, and it was {old}", c.check)
            })
        });
        let is_new = |d: &&Defect| before.defects.iter().all(|old| old.name != d.name);
        let defects = self.defects.iter().filter(is_new).map(|d| format!("new: {}", d.name));
        checks.chain(defects).collect()
    }
}

/// The figure of a sender that was there for long enough.
fn figure(check: &Check, view: &View) -> Result<f64, String> {
    if let Some(ended) = view.ended
        && ended < check.until
    {
        return Err(format!(
            "it ended after {ended:.1} s, and this takes {:.0} s; give it more to transfer",
            check.until
        ));
    }
    if view.packets.is_empty() {
        return Err("it sent nothing".to_owned());
    }
    (check.figure)(view).and_then(|value| match value.is_finite() {
        true => Ok(value),
        false => Err("nothing was delivered".to_owned()),
    })
}

fn judgement(
    check: &Check,
    figure: Result<f64, String>,
    ours: &BTreeMap<String, f64>,
) -> Judgement {
    let (good, broken) = limits(check.sense, ours);
    let (value, reason) = match figure {
        Ok(value) => (Some(value), None),
        Err(why) => (None, Some(why)),
    };
    Judgement {
        check: check.name.to_owned(),
        test_path: check.test_path.to_owned(),
        unit: check.unit.to_owned(),
        value,
        good,
        broken,
        ours: ours.clone(),
        grade: value.map(|value| grade(check.sense, value, good, broken)),
        reason,
    }
}

/// From where on a figure is good, and from where on broken, by ours.
fn limits(sense: Sense, ours: &BTreeMap<String, f64>) -> (f64, f64) {
    let least = ours.values().copied().reduce(f64::min).unwrap_or(0.0);
    let most = ours.values().copied().reduce(f64::max).unwrap_or(0.0);
    match sense {
        Sense::More => (GOOD_SHARE * most, BROKEN_SHARE * least),
        Sense::Less { slack } => {
            let good = GOOD_MULTIPLE * least + slack;
            (good, good.max(BROKEN_MULTIPLE * most + slack))
        }
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

/// The paths of a whole or of a quick verdict.
pub fn test_paths(quick: bool) -> Vec<&'static TestPath> {
    TEST_PATHS.iter().filter(|test_path| test_path.quick || !quick).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ours(least: f64, most: f64) -> BTreeMap<String, f64> {
        [("a".to_owned(), least), ("b".to_owned(), most)].into()
    }

    #[test]
    fn ours_are_never_broken_and_the_best_is_good() {
        for (sense, least, most, best) in
            [(Sense::More, 0.15, 0.95, 0.95), (Sense::Less { slack: 2.0 }, 0.4, 250.0, 0.4)]
        {
            let (good, broken) = limits(sense, &ours(least, most));
            assert_eq!(grade(sense, best, good, broken), Grade::Good);
            for ours in [least, most] {
                assert_ne!(grade(sense, ours, good, broken), Grade::Broken);
            }
        }
    }

    #[test]
    fn what_none_of_ours_does_is_broken() {
        let judged = |sense, value| {
            let (good, broken) = limits(sense, &ours(0.2, 0.9));
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

    #[test]
    fn a_worse_grade_and_a_new_defect_are_worse_than_before() {
        let check = |grade| Judgement {
            check: "c".to_owned(),
            test_path: "clean".to_owned(),
            unit: "%".to_owned(),
            value: Some(1.0),
            good: 1.0,
            broken: 1.0,
            ours: BTreeMap::new(),
            grade,
            reason: None,
        };
        let looks = Looks::of(&Views::new());
        let judged = |grade, defects: &[&str]| Judged {
            checks: vec![check(grade)],
            looks,
            looks_like: String::new(),
            defects: defects
                .iter()
                .map(|name| Defect { name: (*name).to_owned(), about: String::new() })
                .collect(),
        };
        let before = judged(Some(Grade::Poor), &["old"]);
        assert_eq!(judged(Some(Grade::Good), &["old"]).worse_than(&before), [""; 0]);
        assert_eq!(judged(None, &[]).worse_than(&before), [""; 0]);
        let worse = judged(Some(Grade::Broken), &["old", "new"]).worse_than(&before);
        assert_eq!(worse, ["c: broken, and it was poor", "new: new"]);
        let text = serde_json::to_string(&before).expect("JSON");
        assert_eq!(serde_json::from_str::<Judged>(&text).expect("the same"), before);
    }
}
