//! `fullpipe conformance --suite`: the conditions of others, as scenario files of the program.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;

use fullpipe_conformance::suites::{Changes, SUITES, Suite, SuiteFile};
use fullpipe_lab::{BackendChoice, RunOptions};
use fullpipe_report::expect::Verdict;
use fullpipe_report::output::table::{Table, number};
use fullpipe_scenario::suggest::did_you_mean;
use serde::Serialize;

use crate::experiment::{Experiment, Failed, Outputs, Work, answer, check, run_plan};
use crate::failure::Failure;
use crate::interrupt::Interrupt;
use crate::print;
use crate::width::in_columns;

/// Results of a suite.
#[derive(Serialize)]
struct Results<'a> {
    suite: &'static str,
    stack: &'static str,
    source: &'static str,
    files: &'a [FileResult],
    /// True if somebody stopped it: the files are those that were through.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    interrupted: bool,
}

/// Results of a file.
#[derive(Serialize)]
struct FileResult {
    file: &'static str,
    /// The reason for which it was not run over this stack.
    #[serde(skip_serializing_if = "Option::is_none")]
    not_applicable: Option<String>,
    /// True if a run of it failed: there are no conditions then.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    failed: bool,
    conditions: Vec<Verdict>,
}

/// The suite of a name; none for the draft's own cases.
pub(crate) fn find(name: &str) -> Result<Option<&'static Suite>, String> {
    if name == "draft" {
        return Ok(None);
    }
    SUITES.iter().find(|suite| suite.name == name).map(Some).ok_or_else(|| {
        let names = || std::iter::once("draft").chain(SUITES.iter().map(|suite| suite.name));
        let meant = did_you_mean(name, names());
        format!(
            "there is no such suite; there are {}{meant}",
            names().collect::<Vec<_>>().join(", ")
        )
    })
}

/// The files of these names; all without names.
fn chosen(suite: &'static Suite, names: &[String]) -> Result<Vec<&'static SuiteFile>, Failure> {
    let find = |name: &String| {
        suite.files.iter().find(|file| file.name == name || file.path == name).ok_or_else(|| {
            let all: Vec<&str> = suite.files.iter().map(|file| file.name).collect();
            Failure::bad_input(format!(
                "{}: there is no such file in {}; there are {}",
                name.escape_debug(),
                suite.name,
                all.join(", ")
            ))
        })
    };
    match names {
        [] => Ok(suite.files.iter().collect()),
        names => names.iter().map(find).collect(),
    }
}

/// Runs the files of these names over a stack under the virtual clock.
pub(crate) fn run(
    suite: &'static Suite,
    names: &[String],
    changes: &Changes,
    (work, json): (Work, bool),
) -> Result<(), Failure> {
    let files = chosen(suite, names)?;
    let backend = BackendChoice::of(changes.edition.over).map_err(Failure::bad_input)?;
    if backend.is_realtime() {
        return Err(Failure::bad_input(
            "--stack: the suites run under the virtual clock: over sim, noq, quinn or tcp",
        ));
    }
    let mut plans = Vec::with_capacity(files.len());
    for file in files {
        plans.push((file, suite.plan(file, changes).map_err(Failure::bad_input)?));
    }
    if plans.iter().all(|(file, plan)| backend.check_plan(plan, file.path).is_err()) {
        let (name, stack) = (suite.name, backend.stack());
        return Err(Failure::bad_input(format!("--stack {stack}: no file of {name} runs over it")));
    }
    let stop = Interrupt::install()?.flag();
    let mut results: Vec<FileResult> = Vec::new();
    let mut failed = Failed::default();
    for (file, plan) in plans {
        let mut result =
            FileResult { file: file.path, not_applicable: None, failed: false, conditions: vec![] };
        if let Err(lacks) = backend.check_plan(&plan, file.path) {
            result.not_applicable = Some(lacks.to_string());
        } else {
            let experiment = [Experiment { plan, file: Some(file.path.to_owned()) }];
            let (_, jobs) =
                check(&experiment, backend, None, &Outputs::default(), work.jobs(), work.memory)?;
            let [experiment] = &experiment;
            let options = RunOptions { backend, ..RunOptions::default() };
            let mut runs = Vec::new();
            let failures = run_plan(experiment, &options, jobs, json, &stop, &mut runs);
            if stop.load(Ordering::Relaxed) {
                break;
            }
            result.failed = !failures.is_none();
            if failures.is_none() {
                runs.sort_by_key(|run| run.run);
                result.conditions = experiment.plan.judge_runs(&runs);
            }
            failed.add(failures);
        }
        if !json {
            print(&text(&result))?;
        }
        results.push(result);
    }
    let interrupted = stop.load(Ordering::Relaxed);
    let all = || results.iter().flat_map(|result| &result.conditions);
    if json {
        let (stack, source) = (backend.stack().name(), suite.source);
        let object = Results { suite: suite.name, stack, source, files: &results, interrupted };
        print(&format!("{}\n", serde_json::to_string(&object).map_err(Failure::run)?))?;
    } else {
        let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
        all().for_each(|verdict| *counts.entry(word(verdict)).or_default() += 1);
        let counts = counts.into_iter().filter(|(word, _)| *word != "yes");
        let counts: String = counts.map(|(word, n)| format!(", {n} {word}")).collect();
        let met = all().filter(|verdict| verdict.met).count();
        print(&format!(
            "{met} of {} conditions of {} are met{counts}\n",
            all().count(),
            suite.source
        ))?;
    }
    if interrupted {
        return Err(Failure::interrupted(results.is_empty()));
    }
    if !failed.is_none() {
        return Err(Failure::run("a run failed; the others are above"));
    }
    answer(all())
}

/// The verdict on a condition in words.
fn word(verdict: &Verdict) -> &'static str {
    match (verdict.met, &verdict.known_failure) {
        (true, None) => "yes",
        (false, None) => "NO",
        (false, Some(_)) => "known not to be",
        (true, Some(_)) => "met though known not to be",
    }
}

/// A file's results as a table.
fn text(result: &FileResult) -> String {
    if let Some(lacks) = &result.not_applicable {
        return format!("{}: not applicable: {lacks}\n", result.file);
    }
    let shown = |value: Option<f64>| value.map_or_else(|| "-".to_owned(), number);
    let row = |verdict: &Verdict| {
        let limit = format!("{} {}", verdict.comparison, shown(verdict.bound));
        vec![verdict.name.clone(), limit, shown(verdict.value), word(verdict).to_owned()]
    };
    let header = ["case", "limit", "measured", "met"].map(|name| (name, ""));
    let table =
        Table { header: header.to_vec(), rows: result.conditions.iter().map(row).collect() };
    let known = result.conditions.iter().filter_map(|verdict| {
        let reason = verdict.known_failure.as_ref()?;
        Some(format!("known: {}: {reason}\n", verdict.name))
    });
    format!("{}\n{}{}", result.file, in_columns(&table), known.collect::<String>())
}
