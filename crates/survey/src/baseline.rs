//! A survey beside an earlier one.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};

use fullpipe_report::output::file_name_of;
use fullpipe_scenario::{Clock, Stack};
use serde::{Deserialize, Serialize};

use crate::case::Case;
use crate::error::SurveyError;
use crate::judge::{Comparison, Pair, Point, compare};
use crate::measure::{Measure, Values};
use crate::report::{Report, SCHEMA_VERSION};
use crate::results::Outcome;
use crate::run::Survey;
use crate::text::is_again;
use crate::worst::file_of_fallen;

/// A median may be worse by so much.
const SLACK: f64 = 0.01;

/// Fields that are read of the JSON of an earlier survey.
#[derive(Clone, PartialEq, Debug, Deserialize)]
pub struct Baseline {
    seed: u64,
    seeds: usize,
    kinds: Vec<String>,
    stack: Stack,
    clock: Clock,
    pairs: Vec<OldPair>,
    outcomes: Vec<Outcome>,
}

#[derive(Clone, PartialEq, Debug, Deserialize)]
struct OldPair {
    cc: String,
    against: String,
    comparisons: Vec<OldComparison>,
}

#[derive(Clone, PartialEq, Debug, Deserialize)]
struct OldComparison {
    measure: String,
    points: Vec<OldPoint>,
}

#[derive(Clone, Copy, PartialEq, Debug, Deserialize)]
struct OldPoint {
    path: u64,
    figure: Option<f64>,
    short: bool,
}

#[derive(Deserialize)]
struct Version {
    schema_version: u32,
}

/// A figure in which an algorithm is worse than it was.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Worse {
    /// The algorithm under test.
    pub cc: String,
    /// The other algorithm.
    pub against: String,
    /// In this.
    pub measure: Measure,
    /// Number of paths that are short, of those that both surveys have.
    pub short: usize,
    /// The same in the baseline.
    pub short_before: usize,
    /// The median figure of the same paths.
    pub median: Option<f64>,
    /// The same in the baseline.
    pub median_before: Option<f64>,
    /// The paths that are short and were not.
    pub new_paths: Vec<u64>,
}

/// An algorithm that falls short of what it was on the same paths, more often than by chance.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Fallen {
    /// The algorithm.
    pub cc: String,
    /// In this.
    pub measure: Measure,
    /// Paths on which it falls short of itself, the worst first.
    pub short: Vec<u64>,
    /// Number of paths on which it was short of what it is now.
    pub better: usize,
    /// The worst figure.
    pub worst: Option<f64>,
    /// The simplest of the paths on which it falls at least half as far as on the worst one.
    pub simplest: Case,
    /// Its scenario file, whose expectation holds with the program of the baseline.
    pub file: PathBuf,
    /// Content of the file.
    #[serde(skip)]
    pub text: String,
}

/// Square of the standard deviations by which the paths on which an algorithm has become worse may
/// exceed those on which it has become better. Where each path is as likely to be the one as the
/// other, one comparison in a hundred exceeds it.
const CHANCE: f64 = 5.4;

/// Paths count once more by themselves if they are short by so many times the least. Other seeds
/// make a small difference on many paths, and hide a large one on few.
const FAR: f64 = 4.0;

/// True if chance does not explain why so many paths are worse, and so many better.
fn is_more(worse: usize, better: usize) -> bool {
    let more = worse as f64 - better as f64;
    more > 0.0 && more * more >= CHANCE * (worse + better) as f64
}

impl Baseline {
    /// Reads `survey.json` of an earlier survey, or what `--json` printed.
    ///
    /// # Errors
    /// It cannot be read, or is something else.
    pub fn load(path: &Path) -> Result<Self, SurveyError> {
        let wrong = |reason: String| SurveyError::Baseline { path: path.to_owned(), reason };
        let text = std::fs::read_to_string(path).map_err(|error| wrong(error.to_string()))?;
        let none = |error: serde_json::Error| {
            wrong(format!(
                "no JSON of fullpipe survey: {error}; write a survey.json of an earlier one"
            ))
        };
        let version: Version = serde_json::from_str(&text).map_err(none)?;
        match version.schema_version {
            SCHEMA_VERSION => serde_json::from_str(&text).map_err(none),
            other => Err(wrong(format!(
                "its schema_version is {other}, and this program's {SCHEMA_VERSION}; record it again"
            ))),
        }
    }

    /// Checks that its paths are those of a survey.
    ///
    /// # Errors
    /// They are others.
    pub fn check(&self, path: &Path, options: &crate::run::Options) -> Result<(), SurveyError> {
        if self.seeds != options.seeds.get() {
            let reason = format!("it was made with --seeds {0}; write --seeds {0}", self.seeds);
            return Err(SurveyError::Baseline { path: path.to_owned(), reason });
        }
        let kinds: Vec<&str> = options.kinds.iter().map(|kind| kind.name()).collect();
        let (stack, clock) = (options.backend.stack(), options.backend.clock());
        let is_same = (self.stack, self.clock) == (stack, clock);
        if self.seed == options.seed && self.kinds == kinds && is_same {
            return Ok(());
        }
        let reason = format!(
            "it is of seed {} over {} by the {} clock{}, so that its paths are others",
            self.seed,
            self.stack,
            self.clock,
            if self.kinds.is_empty() {
                String::new()
            } else {
                format!(" with {}", self.kinds.join(","))
            }
        );
        Err(SurveyError::Baseline { path: path.to_owned(), reason })
    }

    /// The figures in which a report is worse: more paths are short, or the median is worse by more
    /// than 0.01. Pairs, measures and paths that only one of the two has are left out.
    pub fn worse(&self, report: &Report) -> Vec<Worse> {
        let mut all = Vec::new();
        for pair in report.pairs.iter().filter(|pair| !pair.is_chance()) {
            let against = pair.against.to_string();
            let Some(old) = self.pairs.iter().find(|o| o.cc == pair.cc && o.against == against)
            else {
                continue;
            };
            for comparison in &pair.comparisons {
                let metric = comparison.measure.metric();
                let old = old.comparisons.iter().find(|o| o.measure == metric);
                all.extend(old.and_then(|old| worse(pair, comparison, old)));
            }
        }
        all
    }
}

impl Baseline {
    /// Algorithms that have become worse on the paths of the baseline. Another algorithm as the
    /// reference hides what both suffer from: a queue that is as long as CUBIC's is not short of
    /// it.
    ///
    /// The path of each is not shrunk, because the program of the baseline is not here to run
    /// simpler ones: it is chosen among those that were drawn.
    pub fn fallen(&self, survey: &Survey, report: &Report) -> Vec<Fallen> {
        let before: BTreeMap<(u64, &str), &Values> =
            self.outcomes.iter().map(|o| ((o.path, o.cc.as_str()), &o.values)).collect();
        let mut all = Vec::new();
        for cc in report.algorithms.iter().filter(|cc| !is_again(cc)) {
            let both: Vec<(&Values, &Values, &crate::Case)> = report
                .outcomes
                .iter()
                .filter(|outcome| outcome.cc == *cc)
                .filter_map(|outcome| {
                    let case = report.cases.iter().find(|case| case.path == outcome.path)?;
                    Some((&outcome.values, *before.get(&(outcome.path, cc.as_str()))?, case))
                })
                .collect();
            all.extend(Measure::ALL.into_iter().filter_map(|measure| {
                let points = |worse: bool| {
                    let points = both.iter().filter_map(|(now, before, case)| match worse {
                        true => compare(measure, case, now, before, report.limit),
                        false => compare(measure, case, before, now, report.limit),
                    });
                    points.filter(|point| point.short).collect::<Vec<Point>>()
                };
                let (mut short, better) = (points(true), points(false));
                short.sort_by(|a, b| b.shortfall(measure).total_cmp(&a.shortfall(measure)));
                let far = FAR * measure.short_from(report.limit);
                let beyond = |points: &[Point], least: f64| {
                    points.iter().filter(|point| point.shortfall(measure) >= least).count()
                };
                let is_more = [0.0, far]
                    .into_iter()
                    .any(|least| is_more(beyond(&short, least), beyond(&better, least)));
                if !is_more {
                    return None;
                }
                let (case, point) = simplest(survey, measure, &short)?;
                let name = file_name_of(&format!("{cc}-below-before-{measure}"));
                Some(Fallen {
                    cc: cc.clone(),
                    measure,
                    worst: short.first().and_then(|point| point.figure),
                    short: short.iter().map(|point| point.path).collect(),
                    better: better.len(),
                    file: PathBuf::from(format!("{name}.toml")),
                    text: file_of_fallen(survey, cc, measure, report.limit, case, point),
                    simplest: case.clone(),
                })
            }));
        }
        all
    }
}

/// The path with the fewest disturbances, and then the fewest flows, of those at least half as far
/// from equal as the worst. The worst are first.
fn simplest<'a>(
    survey: &'a Survey,
    measure: Measure,
    short: &'a [Point],
) -> Option<(&'a Case, &'a Point)> {
    let least = short.first()?.shortfall(measure) / 2.0;
    let far = short.iter().take_while(|point| point.shortfall(measure) >= least);
    far.filter_map(|point| Some((survey.case(point.path)?, point)))
        .min_by_key(|(case, _)| (case.disturbances.len(), case.flows))
}

impl fmt::Display for Fallen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { cc, measure, short, better, worst, .. } = self;
        write!(
            f,
            "{cc} against itself before in {measure}: {} paths are short, {better} the other way, worst {}; ",
            short.len(),
            measure.show(*worst)
        )?;
        let first: Vec<String> = short.iter().take(10).map(u64::to_string).collect();
        f.write_str(&first.join(", "))?;
        match short.len() - first.len() {
            0 => Ok(()),
            more => write!(f, " and {more} more"),
        }
    }
}

fn worse(pair: &Pair, now: &Comparison, before: &OldComparison) -> Option<Worse> {
    let both = now.points.iter().filter_map(|point| {
        Some((point, before.points.iter().find(|old| old.path == point.path)?))
    });
    let both: Vec<(&Point, &OldPoint)> = both.collect();
    let mut new_paths: Vec<u64> =
        both.iter().filter(|(now, old)| now.short && !old.short).map(|(now, _)| now.path).collect();
    new_paths.sort_unstable();
    let short = both.iter().filter(|(now, _)| now.short).count();
    let short_before = both.iter().filter(|(_, old)| old.short).count();
    let median = crate::judge::median(both.iter().filter_map(|(now, _)| now.figure).collect());
    let median_before =
        crate::judge::median(both.iter().filter_map(|(_, old)| old.figure).collect());
    let shortfall = |figure: Option<f64>| figure.map_or(0.0, |f| now.measure.shortfall(f));
    let is_worse = short > short_before || shortfall(median) > shortfall(median_before) + SLACK;
    is_worse.then(|| Worse {
        cc: pair.cc.clone(),
        against: pair.against.to_string(),
        measure: now.measure,
        short,
        short_before,
        median,
        median_before,
        new_paths,
    })
}

impl fmt::Display for Worse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} against {} in {}: {} paths are short after {}, median {} after {}",
            self.cc,
            self.against,
            self.measure,
            self.short,
            self.short_before,
            self.measure.show(self.median),
            self.measure.show(self.median_before)
        )?;
        let new: Vec<String> = self.new_paths.iter().take(10).map(u64::to_string).collect();
        match self.new_paths.len() {
            0 => Ok(()),
            n if n > new.len() => write!(f, "; new: {} and {} more", new.join(", "), n - new.len()),
            _ => write!(f, "; new: {}", new.join(", ")),
        }
    }
}
