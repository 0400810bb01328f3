//! Claims of a figure, and their results.

use serde::Serialize;

use super::FigureResult;
use fullpipe_report::expect::Verdict;
use fullpipe_report::output::plot::Drawing;

/// One thing that must be seen.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Check {
    /// Subject of the check.
    pub claim: String,
    /// Measured value, in the worst of its cases.
    pub measured: String,
    /// Required value.
    pub target: String,
    /// True if it was.
    pub met: bool,
    /// True if it is met, or known not to be. A known failure that is met is a change.
    pub as_known: bool,
    /// The reason for which its file says that it is not met.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub known_failure: Option<String>,
}

impl Check {
    fn words(&self) -> String {
        format!("{} {}", self.claim, self.measured)
    }
}

/// Checks, details and drawing of a figure.
#[derive(Default)]
pub(super) struct Checks {
    checks: Vec<Check>,
    details: Vec<String>,
    pub(super) drawing: Drawing,
}

impl Checks {
    /// That `figure` is at most `most`; `what` is what it is called.
    pub(super) fn at_most(&mut self, what: &str, figure: f64, most: f64) {
        self.check(figure <= most, what, show(figure), format!("<= {}", show(most)));
    }

    /// That `figure` is from `least` to `most`.
    pub(super) fn within(&mut self, what: &str, figure: f64, least: f64, most: f64) {
        let target = format!("{} to {}", show(least), show(most));
        self.check((least..=most).contains(&figure), what, show(figure), target);
    }

    /// Adds the verdict on an expectation of a scenario file, in the worst of its cases.
    pub(super) fn verdict(&mut self, v: &Verdict) {
        let place: Vec<&str> = v.at.iter().map(|(_, value)| value.as_str()).collect();
        let place = match (v.cases, place.join(", ")) {
            (1, _) => String::new(),
            (_, none) if none.is_empty() => none,
            (_, place) => format!(" ({place})"),
        };
        let number = |x: Option<f64>| x.map_or("none".to_owned(), show);
        self.checks.push(Check {
            claim: v.name.clone(),
            measured: format!("{}{place}", number(v.value)),
            target: format!("{} {}", v.comparison, number(v.bound)),
            met: v.met,
            as_known: v.is_as_known(),
            known_failure: v.known_failure.clone(),
        });
    }

    /// Adds the verdicts of one of many scenario files as a single check.
    pub(super) fn verdicts(&mut self, name: &str, all: &[Verdict]) {
        let met = all.iter().filter(|v| v.met).count();
        let known: Vec<_> = all
            .iter()
            .filter_map(|v| Some(format!("{}: {}", v.name, v.known_failure.as_ref()?)))
            .collect();
        self.checks.push(Check {
            claim: format!("{name}:"),
            measured: format!("{met} met"),
            target: format!("all {}", all.len()),
            met: met == all.len(),
            as_known: all.iter().all(Verdict::is_as_known),
            known_failure: (!known.is_empty()).then(|| known.join("; ")),
        });
    }

    /// Anything else that must be seen.
    fn check(&mut self, met: bool, claim: &str, measured: String, target: String) {
        let claim = claim.to_owned();
        let check = Check { claim, measured, target, met, as_known: met, known_failure: None };
        self.checks.push(check);
    }

    /// Adds a further measurement, or a remark.
    pub(super) fn note(&mut self, words: impl Into<String>) {
        self.details.push(words.into());
    }

    pub(super) fn result(self, name: &'static str, shortened: Option<String>) -> FigureResult {
        let join = |which: fn(&Check) -> bool, words: fn(&Check) -> String| -> String {
            self.checks.iter().filter(|c| which(c)).map(words).collect::<Vec<_>>().join("; ")
        };
        let told = [
            ("not seen", join(|c| !c.met && !c.as_known, Check::words)),
            (
                "known",
                join(
                    |c| !c.met && c.as_known,
                    |c| format!("{}: {}", c.words(), c.known_failure.as_deref().unwrap_or("")),
                ),
            ),
            ("now met, remove its known_failure", join(|c| c.met && !c.as_known, Check::words)),
        ];
        let told = told.into_iter().filter(|(_, words)| !words.is_empty());
        let told = told.map(|(what, words)| format!("{what}: {words}"));
        let details: Vec<String> = told.chain(self.details).collect();
        FigureResult {
            name,
            seen: self.checks.iter().all(|c| c.met) && !self.checks.is_empty(),
            as_known: self.checks.iter().all(|c| c.as_known) && !self.checks.is_empty(),
            figure: join(|_| true, Check::words),
            target: join(|_| true, |c| c.target.clone()),
            detail: details.join(". "),
            checks: self.checks,
            shortened,
            drawing: self.drawing,
        }
    }
}

/// A number with as many digits as say something.
pub(super) fn show(x: f64) -> String {
    if x.is_nan() {
        return "-".to_owned();
    }
    let digits = match x.abs() {
        a if a >= 100.0 || a == 0.0 => 0,
        a if a >= 10.0 => 1,
        a if a >= 1.0 => 2,
        a if a >= 0.01 => 3,
        _ => 5,
    };
    let text = format!("{x:.digits$}");
    if text.contains('.') {
        text.trim_end_matches('0').trim_end_matches('.').to_owned()
    } else {
        text
    }
}
