//! The worst paths, each as simple as it can be, as scenario files that show the shortfall.

use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

use fullpipe_lab::output::page::write_text;
use fullpipe_lab::output::table::number;
use fullpipe_lab::output::{create_dir, file_name_of};
use fullpipe_lab::run::each;
use serde::Serialize;

use crate::case::{Case, Kind};
use crate::error::SurveyError;
use crate::judge::{Pair, Point, Reference};
use crate::measure::{ALIKE_MS, LESS, MORE_RETRANSMISSIONS, Measure, TIME_FACTOR, Values};
use crate::results::Outcome;
use crate::run::{RunPoint, Survey};
use crate::shrink::{Claim, Shown, shrink};
use crate::text;

/// One of the worst paths of a pair in one measure.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Worst {
    /// The algorithm under test.
    pub cc: String,
    /// The one that it falls short of.
    pub against: String,
    /// In this.
    pub measure: Measure,
    /// The two on the path as it was drawn.
    pub drawn: Point,
    /// The two on the path of the file.
    pub shown: Point,
    /// The path of the file: as it was drawn, or simpler.
    pub case: Case,
    /// The scenario file.
    pub file: PathBuf,
    /// Its content.
    #[serde(skip)]
    pub text: String,
}

/// Number of the worst paths, and what becomes of them.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Wanted {
    /// So many of each pair and measure.
    pub count: usize,
    /// True if they are shrunk.
    pub shrink: bool,
    /// A goodput below this part of the reference's falls short.
    pub limit: f64,
}

/// Finds and shrinks the worst paths, the worst of a measure first. `tell` is called with the
/// number of those that are done and that of all.
pub fn worst(
    survey: &Survey,
    done: &[Outcome],
    pairs: &[Pair],
    wanted: Wanted,
    run: RunPoint<'_>,
    stop: &AtomicBool,
    mut tell: impl FnMut(usize, usize),
) -> Vec<Worst> {
    let values =
        |path: u64, cc: &str| done.iter().find(|o| o.path == path && o.cc == cc).map(|o| o.values);
    let mut todo: Vec<(Claim<'_>, Shown)> = Vec::new();
    for pair in pairs {
        let Reference::Algorithm(against) = &pair.against else { continue };
        // A file has the same seeds for both.
        if text::is_again(against) || text::is_again(&pair.cc) {
            continue;
        }
        for comparison in &pair.comparisons {
            let (measure, limit) = (comparison.measure, wanted.limit);
            let claim = Claim { cc: &pair.cc, against, measure, limit };
            let short = comparison.points.iter().filter(|point| point.short).take(wanted.count);
            todo.extend(short.filter_map(|point| {
                let case = survey.case(point.path)?.clone();
                let own = values(point.path, &pair.cc)?;
                let reference = values(point.path, against)?;
                Some((claim, Shown { case, own, reference, point: *point }))
            }));
        }
    }
    let places: Vec<usize> = (0..todo.len()).collect();
    let mut shown: Vec<(usize, Shown)> = Vec::with_capacity(todo.len());
    let work = |i: usize| {
        let (claim, drawn) = &todo[i];
        match wanted.shrink {
            true => shrink(&survey.options, claim, drawn.clone(), run, stop),
            false => drawn.clone(),
        }
    };
    tell(0, todo.len());
    each(&places, survey.jobs, work, |i, found| {
        shown.push((i, found));
        tell(shown.len(), todo.len());
        true
    });
    shown.sort_by_key(|(i, _)| *i);
    let mut all: Vec<Worst> = Vec::with_capacity(shown.len());
    for (i, shown) in shown {
        let (claim, drawn) = &todo[i];
        let alike = |w: &&Worst| {
            (w.cc.as_str(), w.against.as_str(), w.measure)
                == (claim.cc, claim.against, claim.measure)
        };
        let rank = 1 + all.iter().filter(alike).count();
        let name = format!("{}-below-{}-{}-{rank}", claim.cc, claim.against, claim.measure);
        all.push(Worst {
            cc: claim.cc.to_owned(),
            against: claim.against.to_owned(),
            measure: claim.measure,
            drawn: drawn.point,
            shown: shown.point,
            text: file(survey, claim, drawn, &shown),
            case: shown.case,
            file: PathBuf::from(format!("{}.toml", file_name_of(&name))),
        });
    }
    all
}

/// First words of each file, by which one is known as written here.
const MARK: &str = "# Found by fullpipe survey";

/// Writes the files into a directory, in place of those of an earlier survey.
///
/// # Errors
/// The directory cannot be written.
pub fn write(dir: &Path, all: &mut [Worst]) -> Result<(), SurveyError> {
    create_dir(dir)?;
    for entry in std::fs::read_dir(dir).into_iter().flatten().flatten() {
        let path = entry.path();
        let is_ours = || std::fs::read_to_string(&path).is_ok_and(|text| text.starts_with(MARK));
        if path.extension().is_some_and(|end| end == "toml") && is_ours() {
            // One that stays is only one too many.
            let _ = std::fs::remove_file(&path);
        }
    }
    for worst in all {
        worst.file = dir.join(&worst.file);
        write_text(&worst.file, &worst.text)?;
    }
    Ok(())
}

fn file(survey: &Survey, claim: &Claim<'_>, drawn: &Shown, shown: &Shown) -> String {
    let value = |value: Option<f64>| value.map_or("none".to_owned(), number);
    let seen = |shown: &Shown| {
        format!(
            "{}: {} {}, {} {}",
            claim.measure.metric(),
            claim.cc,
            value(shown.point.own),
            claim.against,
            value(Some(shown.point.reference))
        )
    };
    let options = &survey.options;
    let mut about = vec![
        format!("{} as path {} of seed {}.", &MARK[2..], drawn.case.path, options.seed),
        format!("It was: {}.", drawn.case),
        format!("There {}.", seen(drawn)),
    ];
    if shown.case != drawn.case {
        about.push(format!("Here {}.", seen(shown)));
    }
    about.push(format!(
        "Run it again: fullpipe run FILE --backend {}, where FILE is this file.",
        options.backend
    ));
    text::scenario(
        &shown.case,
        &options.senders.only(&[claim.cc, claim.against]),
        options.seeds.get(),
        &about,
        &[expectation(claim, shown, options.seeds.get())],
    )
}

/// The expectation that the algorithm under test does not meet.
fn expectation(claim: &Claim<'_>, shown: &Shown, seeds: usize) -> String {
    let Claim { cc, against, measure, limit } = *claim;
    let case = &shown.case;
    let of = |term: &str, cc: &str| match seeds {
        1 => format!("{term}[{}]", text::algorithm(cc)),
        _ => format!("mean({term}[{}] over seed)", text::algorithm(cc)),
    };
    let own = |term: &str| of(term, cc);
    let other = |term: &str| of(term, against);
    let sides = match measure {
        Measure::Goodput => {
            let reference = match takes_more_than_fair(case, &shown.reference) {
                false => other("goodput_mbps"),
                true => format!(
                    "{:.4} * ({} + {})",
                    case.fair_share(),
                    other("goodput_mbps"),
                    other("flow[competitor].goodput_mbps")
                ),
            };
            format!("{} >= {limit} * {reference}", own("goodput_mbps"))
        }
        Measure::Queue | Measure::Latency => {
            let term = match (measure, case.has(Kind::Media)) {
                (Measure::Queue, _) => "queue_ms.p95",
                (_, true) => "flow[media].latency_ms.p99",
                (_, false) => "flow[requests].completion_ms.p99",
            };
            format!("{} <= {TIME_FACTOR} * {} + {ALIKE_MS}", own(term), other(term))
        }
        Measure::Jain => format!("{} >= {} - {LESS}", own("jain"), other("jain")),
        Measure::Retransmissions => {
            let term = "retransmit_rate";
            format!("{} <= {} + {MORE_RETRANSMISSIONS}", own(term), other(term))
        }
        Measure::Share => {
            let share = |side: &dyn Fn(&str) -> String| {
                let (own, other) = (side("goodput_mbps"), side("flow[competitor].goodput_mbps"));
                format!("{own} / ({own} + {other})")
            };
            let reference = match takes_more_than_fair(case, &shown.reference) {
                false => share(&other),
                true => format!("{:.4}", case.fair_share()),
            };
            format!("{} >= {reference} - {LESS}", share(&own))
        }
    };
    format!("{sides} after {}s", case.judged_from_s())
}

/// True if the reference's share beside flows of another algorithm is above the fair one.
fn takes_more_than_fair(case: &Case, reference: &Values) -> bool {
    reference.share().is_some_and(|share| share > case.fair_share())
}
