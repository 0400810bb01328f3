//! What a figure has to show, and did.

use super::FigureResult;
use super::drawing::Drawing;
use crate::expect::Verdict;

/// One thing that must be seen.
struct Check {
    seen: bool,
    figure: String,
    target: String,
}

/// What a figure measured.
#[derive(Default)]
pub(super) struct Checks {
    checks: Vec<Check>,
    details: Vec<String>,
    pub(super) drawing: Drawing,
}

impl Checks {
    /// That `figure` is at most `most`; `what` is what it is called.
    pub(super) fn at_most(&mut self, what: &str, figure: f64, most: f64) {
        self.check(
            figure <= most,
            format!("{what} {}", show(figure)),
            format!("<= {}", show(most)),
        );
    }

    /// That `figure` is from `least` to `most`.
    pub(super) fn within(&mut self, what: &str, figure: f64, least: f64, most: f64) {
        let target = format!("{} to {}", show(least), show(most));
        self.check((least..=most).contains(&figure), format!("{what} {}", show(figure)), target);
    }

    /// What a scenario file expects, in the worst of its cases.
    pub(super) fn verdict(&mut self, v: &Verdict) {
        let place: Vec<&str> = v.at.iter().map(|(_, value)| value.as_str()).collect();
        let place = match (v.cases, place.join(", ")) {
            (1, _) => String::new(),
            (_, none) if none.is_empty() => none,
            (_, place) => format!(" ({place})"),
        };
        let number = |x: Option<f64>| x.map_or("none".to_owned(), show);
        let figure = format!("{} {}{place}", v.name, number(v.value));
        self.check(v.met, figure, format!("{} {}", v.comparison, number(v.bound)));
    }

    /// What one of many scenario files expects, in one word.
    pub(super) fn verdicts(&mut self, name: &str, all: &[Verdict]) {
        let met = all.iter().filter(|v| v.met).count();
        self.check(met == all.len(), format!("{name}: {met} met"), format!("all {}", all.len()));
    }

    /// Anything else that must be seen.
    pub(super) fn check(&mut self, seen: bool, figure: String, target: String) {
        self.checks.push(Check { seen, figure, target });
    }

    /// What was measured beside it, or what has to be known.
    pub(super) fn note(&mut self, words: impl Into<String>) {
        self.details.push(words.into());
    }

    pub(super) fn result(self, name: &'static str, shortened: Option<String>) -> FigureResult {
        let missed: Vec<&str> =
            self.checks.iter().filter(|c| !c.seen).map(|c| c.figure.as_str()).collect();
        let mut details = self.details;
        let seen = missed.is_empty() && !self.checks.is_empty();
        if !missed.is_empty() {
            details.insert(0, format!("not seen: {}", missed.join("; ")));
        }
        let join = |of: fn(&Check) -> &str| -> String {
            self.checks.iter().map(of).collect::<Vec<_>>().join("; ")
        };
        FigureResult {
            name,
            seen,
            figure: join(|c| &c.figure),
            target: join(|c| &c.target),
            detail: details.join(". "),
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
