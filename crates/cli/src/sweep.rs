//! `fullpipe sweep`: every point of a scenario file's grid, on all cores.

use std::io::{IsTerminal, stderr};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use fullpipe_lab::RunOptions;
use fullpipe_lab::run::{self, SweepError, SweepProgress};
use fullpipe_report::output::{self, Reports, ScenarioReport, table};
use fullpipe_report::{Part, plan::Plan};
use fullpipe_scenario::Edition;
use indicatif::{ProgressBar, ProgressStyle};

use crate::colour;
use crate::experiment::{Experiment, Forms, Outputs, Work, answer, check, write_pages};
use crate::failure::Failure;
use crate::heartbeat::PATIENCE;
use crate::interrupt::Interrupt;
use crate::over_args::{OverArgs, choose_for};
use crate::run::load;
use crate::width::in_columns;
use crate::{print, say};

/// A longer table is not read but queried.
const MAX_LINES: usize = 40;

/// Run every point of a scenario file's grid on all cores
///
/// Each field with a list of values is an axis of the grid. A run that is over is on disk; a sweep
/// that was stopped, however it was, goes on where it was when the same command is given again.
/// Writes summary.parquet, flows.parquet, links.parquet, series.parquet (when the file names an
/// interval), scenario.toml and runs.jsonl; where time is virtual, they are the same for any
/// --jobs.
#[derive(clap::Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The scenario file
    #[arg(value_name = "FILE.toml")]
    file: PathBuf,
    #[command(flatten)]
    over: OverArgs,
    /// The directory for the results; one that holds a part of them is completed
    #[arg(long, short = 'o', value_name = "DIR")]
    out: PathBuf,
    #[command(flatten)]
    forms: Forms,
    #[command(flatten)]
    work: Work,
}

const EXAMPLES: &str = "\
Examples:
  fullpipe sweep scenarios/buffers.toml --out buffers
  fullpipe sweep scenarios/buffers.toml --out noq --stack noq --report noq.html
  python3 -c 'import pandas; print(pandas.read_parquet(\"buffers/summary.parquet\"))'";

pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    Part::Parquet.check().map_err(Failure::bad_input)?;
    let edition = Edition { over: args.over.named(), ..Edition::default() };
    let file = Some(args.file.display().to_string());
    let experiment = [Experiment { plan: load(&args.file, edition)?, file }];
    let outputs = Outputs {
        json: args.forms.json,
        csv: args.forms.csv,
        report: args.forms.report.clone(),
        ..Outputs::default()
    };
    let (backend, link) = choose_for(&experiment, &args.over)?;
    let jobs = if backend.is_realtime() { 1 } else { args.work.jobs() };
    let (link, jobs) = check(&experiment, backend, link, &outputs, jobs, args.work.memory)?;
    let [Experiment { plan, file }] = &experiment;
    let stop = Interrupt::install()?.flag();
    let options = RunOptions { backend, link, ..RunOptions::default() };
    let mut display = Display::start(plan);
    let swept = run::sweep(plan, &args.out, &options, jobs, &stop, &mut |p| display.show(p));
    display.end();
    let outcomes = swept.map_err(|error| match error {
        SweepError::Interrupted { .. } => Failure::Interrupted(error.to_string()),
        error if error.is_of_input() => Failure::bad_input(error),
        error => Failure::run(error),
    })?;
    let mut report =
        ScenarioReport::of(plan, file.clone(), link.map(|link| link.name().to_owned()));
    report.expectations = plan.judge_runs(&outcomes);
    report.runs = outcomes;
    report.summarize();
    let done = format!("{} runs in {}\n", report.runs.len(), args.out.display());
    if args.forms.json || args.forms.csv {
        say(done.trim_end());
    } else {
        let rows = report.rows();
        if rows.len() <= MAX_LINES {
            print(&format!("{}\n{}", plan.name, in_columns(&table::runs(&plan.name, &rows))))?;
        }
        print(&colour::verdicts(report.expectations.iter()))?;
        print(&done)?;
    }
    let reports = [report];
    write_pages(&reports, &outputs)?;
    if args.forms.csv {
        print(&output::csv(&reports))?;
    }
    let [report] = reports;
    let answer = answer(report.expectations.iter());
    if args.forms.json {
        let object = Reports::new(vec![report], false);
        print(&format!("{}\n", serde_json::to_string(&object).map_err(Failure::run)?))?;
    }
    answer
}

/// A bar on a terminal, a line at the start anywhere else; both on stderr.
struct Display {
    bar: Option<ProgressBar>,
    name: String,
    spoken: Instant,
}

impl Display {
    fn start(plan: &Plan) -> Self {
        let bar = stderr().is_terminal().then(|| {
            let bar = ProgressBar::new(plan.grid.runs.len() as u64);
            // A constant that every sweep on a terminal shows; a plain bar is no worse than none.
            let template = "{prefix} [{bar:30}] {pos}/{len} runs, {elapsed} so far, {eta} to go";
            if let Ok(style) = ProgressStyle::with_template(template) {
                bar.set_style(style.progress_chars("=> "));
            }
            bar.set_prefix(plan.name.clone());
            bar.enable_steady_tick(Duration::from_millis(200));
            bar
        });
        Self { bar, name: plan.name.clone(), spoken: Instant::now() }
    }

    fn show(&mut self, progress: SweepProgress) {
        let SweepProgress { before, done, all } = progress;
        match &self.bar {
            Some(bar) => {
                bar.set_position(done as u64);
                if done == before {
                    // Runs of another day say nothing about the pace of this one.
                    bar.reset_eta();
                }
            }
            None if done == before => {
                say(&format!("{}: {all} runs, {before} of them done before", self.name));
            }
            None if self.spoken.elapsed() >= PATIENCE && done < all => {
                say(&format!("{}: {done} of {all} runs are over", self.name));
                self.spoken = Instant::now();
            }
            None => {}
        }
    }

    fn end(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}
