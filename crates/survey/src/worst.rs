//! The worst paths, each as simple as it can be, as scenario files that show the shortfall.

use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

use fullpipe_lab::run::each;
use fullpipe_report::output::page::write_text;
use fullpipe_report::output::table::number;
use fullpipe_report::output::{create_dir, file_name_of};
use serde::Serialize;

use crate::baseline::Fallen;
use crate::case::{Case, Kind};
use crate::error::SurveyError;
use crate::judge::{Pair, Point, Reference};
use crate::measure::{
    ALIKE_MS, LESS, MORE_RETRANSMISSIONS, Measure, TIME_FACTOR, Values, WINDOW_FACTOR,
};
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
pub fn write(dir: &Path, all: &mut [Worst], fallen: &mut [Fallen]) -> Result<(), SurveyError> {
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
    for fallen in fallen {
        fallen.file = dir.join(&fallen.file);
        write_text(&fallen.file, &fallen.text)?;
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
        "Run it again: fullpipe run FILE {}, where FILE is this file.",
        options.backend.options()
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
    let other = |figure: &str| of(figure, Some(against), seeds);
    let mut reference = match measure {
        Measure::Goodput if takes_more_than_fair(case, &shown.reference) => format!(
            "{:.4} * ({} + {})",
            case.fair_share(),
            other("goodput_mbps"),
            other("flow[competitor].goodput_mbps")
        ),
        Measure::Share if takes_more_than_fair(case, &shown.reference) => {
            format!("{:.4}", case.fair_share())
        }
        _ => term(measure, case, Some(against), seeds),
    };
    if measure == Measure::Goodput && case.has(Kind::Requests) {
        reference = format!("({reference} - {:.6})", case.answer_mbps());
    }
    let own = term(measure, case, Some(cc), seeds);
    holds(measure, limit, &own, &reference, case.judged_from_s())
}

/// The expectation that a value is not short of another one.
fn holds(measure: Measure, limit: f64, own: &str, reference: &str, from_s: u64) -> String {
    let sides = match measure {
        Measure::Goodput => format!("{own} >= {limit} * {reference}"),
        Measure::Queue | Measure::Latency => {
            format!("{own} <= {TIME_FACTOR} * {reference} + {ALIKE_MS}")
        }
        Measure::Jain | Measure::Share => format!("{own} >= {reference} - {LESS}"),
        Measure::Retransmissions => format!("{own} <= {reference} + {MORE_RETRANSMISSIONS}"),
        Measure::Window => format!("{own} <= {WINDOW_FACTOR} * {reference}"),
    };
    format!("{sides} after {from_s}s")
}

/// The value of an algorithm in a measure, as an expectation names it.
fn term(measure: Measure, case: &Case, cc: Option<&str>, seeds: usize) -> String {
    let name = match measure {
        Measure::Goodput => "goodput_mbps",
        Measure::Queue => "queue_ms.p95",
        Measure::Latency if case.has(Kind::Media) => "flow[media].latency_ms.p99",
        Measure::Latency => "flow[requests].completion_ms.p99",
        Measure::Jain => "jain",
        Measure::Retransmissions => "retransmit_rate",
        Measure::Window => "cwnd_bytes.max",
        Measure::Share => {
            let own = of("goodput_mbps", cc, seeds);
            let other = of("flow[competitor].goodput_mbps", cc, seeds);
            return format!("{own} / ({own} + {other})");
        }
    };
    of(name, cc, seeds)
}

/// A figure of an algorithm, or its mean over the seeds.
fn of(figure: &str, cc: Option<&str>, seeds: usize) -> String {
    let picked = cc.map_or(String::new(), |cc| format!("[{}]", text::algorithm(cc)));
    match seeds {
        1 => format!("{figure}{picked}"),
        _ => format!("mean({figure}{picked} over seed)"),
    }
}

/// The file of a path on which an algorithm falls short of what it was in an earlier survey: with
/// the earlier program its expectation holds.
pub(crate) fn file_of_fallen(
    survey: &Survey,
    cc: &str,
    measure: Measure,
    limit: f64,
    case: &Case,
    point: &Point,
) -> String {
    let options = &survey.options;
    let seeds = options.seeds.get();
    let about = [
        format!("{} as path {} of seed {}.", &MARK[2..], case.path, options.seed),
        format!("{cc} has become worse than it was in the baseline."),
        format!("It is: {case}."),
        format!(
            "{}: {} now, {} before.",
            measure.metric(),
            point.own.map_or("none".to_owned(), number),
            number(point.reference)
        ),
        format!(
            "Run it again: fullpipe run FILE {}, where FILE is this file.",
            options.backend.options()
        ),
    ];
    // The file has one algorithm, and so none to pick.
    let own = term(measure, case, None, seeds);
    let before = format!("{:.4}", point.reference);
    let holds = holds(measure, limit, &own, &before, case.judged_from_s());
    text::scenario(case, &options.senders.only(&[cc]), seeds, &about, &[holds])
}

/// True if the reference's share beside flows of another algorithm is above the fair one.
fn takes_more_than_fair(case: &Case, reference: &Values) -> bool {
    reference.share().is_some_and(|share| share > case.fair_share())
}
