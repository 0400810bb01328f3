//! `fullpipe run`: scenario files, and whether they went as expected.

use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};

use fullpipe_lab::run::ROWS;
use fullpipe_lab::{BackendChoice, RunOptions};
use fullpipe_report::metrics::RunResult;
use fullpipe_report::output::{self, QlogDir, Reports, StoreError, file_name_of};
use fullpipe_report::{Part, plan::Plan};
use fullpipe_scenario::{Edition, units};
use fullpipe_scenario::{MAX_FILE_BYTES, read_text};

use crate::experiment::{Experiment, Forms, Outputs, Work, check, perform};
use crate::failure::Failure;
use crate::interrupt::Interrupt;
use crate::over_args::{OverArgs, choose_for};
use crate::pictures::Pictures;

/// More runs than these are a sweep's work.
const MAX_RUNS: usize = 1000;

/// Run scenario files
///
/// Each file is a path, the flows on it, and what is expected of them; docs/scenarios.md describes
/// it. A field with a list of values makes one run of each. Prints a line a run, and for each
/// expectation whether it was met and by how much.
#[derive(clap::Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The scenario files; - is standard input
    #[arg(value_name = "FILE.toml", required = true)]
    files: Vec<PathBuf>,
    #[command(flatten)]
    over: OverArgs,
    /// Take the fields of a file's table `full` in place of the shorter ones
    #[arg(long)]
    full: bool,
    /// Number of runs of each point, each with a seed of its own made from the file's: the table
    /// has the means and their 95 % confidence intervals, and expectations are judged on the means
    #[arg(long, visible_alias = "seeds", value_name = "N", value_parser = units::parse_count_above_0, allow_negative_numbers = true)]
    repeat: Option<NonZeroUsize>,
    /// Repeat with the seed of the file, in real time: losses and probe times are then the same,
    /// and the intervals show the noise of the machine alone
    #[arg(long, requires = "repeat")]
    same_seed: bool,
    /// Compare with the output of an earlier run --json, and exit with 1 if a metric of the table
    /// left its interval; in real time that has to be of a run with --repeat
    #[arg(long, value_name = "FILE.json")]
    baseline: Option<PathBuf>,
    #[command(flatten)]
    forms: Forms,
    /// Print only the expectations that were not met
    #[arg(long, short, conflicts_with_all = ["json", "csv"])]
    quiet: bool,
    #[command(flatten)]
    pictures: Pictures,
    /// Write the expectations as JUnit test cases, as continuous integration reads them
    #[arg(long, value_name = "FILE.xml")]
    junit: Option<PathBuf>,
    /// Write summary.parquet, flows.parquet, links.parquet, series.parquet and scenario.toml into
    /// this directory; of several files, each into one of its scenario's name in it
    #[arg(long, short = 'o', value_name = "DIR")]
    out: Option<PathBuf>,
    /// Write a qlog of each flow of each run into this directory, while it runs and a sample each
    /// interval of the file; qvis opens them
    #[arg(long, value_name = "DIR")]
    qlog: Option<PathBuf>,
    #[command(flatten)]
    work: Work,
}

const EXAMPLES: &str = "\
Examples:
  fullpipe run scenarios/quickstart.toml
  fullpipe run scenarios/*.toml --json
  fullpipe run scenarios/fairness.toml --out results
  fullpipe run scenarios/fairness.toml --svg plots --series-csv series.csv
  fullpipe run scenarios/fairness.toml --qlog qlogs
  fullpipe run scenarios/quickstart.toml --stack noq --report page.html
  fullpipe run scenarios/quickstart.toml --stack noq --clock real --repeat 5 --json > before.json
  fullpipe run scenarios/quickstart.toml --stack noq --clock real --repeat 5 --baseline before.json

Exit status: 0 all expectations met but known failures, 1 one was not, 2 a file is wrong (one line says where).";

pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    for (asked, part) in [(&args.out, Part::Parquet), (&args.qlog, Part::Qlog)] {
        if asked.is_some() {
            part.check().map_err(Failure::bad_input)?;
        }
    }
    let edition = Edition { full: args.full, over: args.over.named() };
    let load = |file: &PathBuf| {
        let plan = load(file, edition)?;
        Ok(Experiment { plan, file: Some(file.display().to_string()) })
    };
    let experiments = args.files.iter().map(load).collect::<Result<Vec<_>, Failure>>()?;
    for (experiment, file) in experiments.iter().zip(&args.files) {
        let runs = experiment.plan.grid.runs.len();
        if runs > MAX_RUNS {
            let file = file.display();
            return Err(Failure::bad_input(format!(
                "{file}: its lists make {runs} runs, more than the {MAX_RUNS} of this command; \
                 write fullpipe sweep {file} --out DIR"
            )));
        }
    }
    let mut outputs = Outputs {
        json: args.forms.json,
        csv: args.forms.csv,
        quiet: args.quiet,
        report: args.forms.report.clone(),
        pictures: args.pictures.clone(),
        junit: args.junit.clone(),
        rows: args.shows_series().then_some(ROWS),
        ..Outputs::default()
    };
    let (backend, link) = choose_for(&experiments, &args.over)?;
    let repeat = repeat(args, &experiments, backend)?;
    outputs.repeat = repeat;
    outputs.same_seed = args.same_seed;
    outputs.baselines = baselines(args, &experiments, backend)?;
    let (jobs, memory) = (args.work.jobs(), args.work.memory);
    let (link, jobs) = check(&experiments, backend, link, &outputs, jobs, memory)?;
    let qlog = qlog_dir(args, &experiments)?;
    outputs.tables = out_dirs(args, &experiments)?;
    let stop = Interrupt::install()?.flag();
    let options = RunOptions {
        backend,
        link,
        rows: outputs.rows,
        qlog: qlog.as_ref(),
        ..RunOptions::default()
    };
    perform(&experiments, &options, jobs, &outputs, &stop)
}

impl Args {
    /// True if something shows the series.
    fn shows_series(&self) -> bool {
        let forms = self.forms.json || self.forms.report.is_some() || self.pictures.is_any();
        forms || self.out.is_some() || self.qlog.is_some()
    }
}

/// Errors in a file are told before anything runs.
pub(crate) fn load(file: &Path, edition: Edition) -> Result<Plan, Failure> {
    if file != Path::new("-") {
        return Plan::load(file, edition).map_err(Failure::bad_input);
    }
    let text = read_text(std::io::stdin(), MAX_FILE_BYTES)
        .map_err(|e| Failure::bad_input(format!("standard input: {e}")))?;
    Plan::parse(&text, "-", "stdin", Path::new(""), edition).map_err(Failure::bad_input)
}

/// The directory of the qlogs. An error in it is reported before anything runs.
fn qlog_dir(args: &Args, experiments: &[Experiment]) -> Result<Option<QlogDir>, Failure> {
    let Some(dir) = &args.qlog else { return Ok(None) };
    names(args, experiments, "--qlog")?;
    QlogDir::create(dir).map(Some).map_err(|e| no_directory("--qlog", &e))
}

/// The directory of each file's tables, made before anything runs; none without --out.
fn out_dirs(args: &Args, experiments: &[Experiment]) -> Result<Vec<PathBuf>, Failure> {
    let Some(out) = &args.out else { return Ok(Vec::new()) };
    let dirs: Vec<PathBuf> = match experiments {
        [_] => vec![out.clone()],
        _ => names(args, experiments, "--out")?.iter().map(|name| out.join(name)).collect(),
    };
    let make = |dir: &PathBuf| output::create_dir(dir).map_err(|e| no_directory("--out", &e));
    dirs.iter().try_for_each(make)?;
    Ok(dirs)
}

/// Names of the scenarios in the names of files. Those of an option must not be the same for
/// two, or one would write over the other.
fn names(args: &Args, experiments: &[Experiment], option: &str) -> Result<Vec<String>, Failure> {
    let names: Vec<String> = experiments.iter().map(|e| file_name_of(&e.plan.name)).collect();
    for (i, name) in names.iter().enumerate() {
        if let Some(before) = names[..i].iter().position(|n| n == name) {
            return Err(Failure::bad_input(format!(
                "{} and {}: both scenarios are '{name}' in the names of files, and {option} would write \
                 one over the other; give one another name, or run one at a time",
                args.files[before].display(),
                args.files[i].display(),
            )));
        }
    }
    Ok(names)
}

/// So many runs of each point.
fn repeat(
    args: &Args,
    experiments: &[Experiment],
    backend: BackendChoice,
) -> Result<usize, Failure> {
    let Some(repeat) = args.repeat.map(NonZeroUsize::get) else { return Ok(1) };
    if args.same_seed && !backend.is_realtime() {
        return Err(Failure::bad_input(format!(
            "--same-seed: every run of a seed is the same over {backend}; leave it out"
        )));
    }
    if args.qlog.is_some() {
        return Err(Failure::bad_input(
            "--repeat and --qlog: each run would write the same files; leave one out",
        ));
    }
    let runs = experiments.iter().map(|e| e.plan.grid.runs.len()).max().unwrap_or(0);
    match runs.checked_mul(repeat) {
        Some(all) if all <= MAX_RUNS => Ok(repeat),
        _ => Err(Failure::bad_input(format!(
            "--repeat {repeat} of {runs} runs are more than the {MAX_RUNS} of this command; write a smaller number"
        ))),
    }
}

/// The runs of before of each experiment; none without a baseline.
fn baselines(
    args: &Args,
    experiments: &[Experiment],
    backend: BackendChoice,
) -> Result<Vec<Vec<RunResult>>, Failure> {
    let Some(path) = &args.baseline else { return Ok(Vec::new()) };
    let wrong = |e: &dyn std::fmt::Display| {
        Failure::bad_input(format!("--baseline {}: {e}", path.display()))
    };
    let text = std::fs::read_to_string(path).map_err(|e| wrong(&e))?;
    let reports = Reports::parse(&text).map_err(|e| wrong(&e))?;
    let over = (backend.stack(), backend.clock());
    let of = |e: &Experiment| reports.baseline_of(&e.plan, over).map(<[RunResult]>::to_vec);
    experiments.iter().map(of).collect::<Result<_, _>>().map_err(|e| wrong(&e))
}

fn no_directory(option: &str, error: &StoreError) -> Failure {
    Failure::bad_input(format!("{option}: {error}; write a directory that can be written into"))
}
