//! `fullpipe sweep`: every point of a scenario file's grid, on all cores.

use std::io::{IsTerminal, stderr};
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use fullpipe_lab::output::table;
use fullpipe_lab::run::{self, SweepError, SweepProgress};
use fullpipe_lab::units;
use fullpipe_lab::{Edition, Part, Plan};
use indicatif::{ProgressBar, ProgressStyle};

use crate::colour;
use crate::experiment::{Memory, answer};
use crate::failure::Failure;
use crate::interrupt::Interrupt;
use crate::patience::PATIENCE;
use crate::run::load;
use crate::{print, say};

/// A longer table is not read but queried.
const MAX_LINES: usize = 40;

/// Run every point of a scenario file's grid on all cores
///
/// Each field with a list of values is an axis of the grid. A run that is over is on disk; a sweep
/// that was stopped, however it was, goes on where it was when the same command is given again.
/// Writes summary.parquet, flows.parquet, links.parquet, series.parquet (when the file names an
/// interval), scenario.toml and runs.jsonl; they are the same for any --jobs.
#[derive(clap::Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The scenario file
    #[arg(value_name = "FILE.toml")]
    file: PathBuf,
    /// Runs at a time [default: as many as there are cores]
    #[arg(long, short = 'j', value_name = "N", value_parser = units::parse_count_above_0, allow_negative_numbers = true)]
    jobs: Option<NonZeroUsize>,
    /// The directory for the results; one that holds a part of them is completed
    #[arg(long, short = 'o', value_name = "DIR")]
    out: PathBuf,
    #[command(flatten)]
    memory: Memory,
}

const EXAMPLES: &str = "\
Examples:
  fullpipe sweep scenarios/buffers.toml --out buffers
  python3 -c 'import pandas; print(pandas.read_parquet(\"buffers/summary.parquet\"))'";

pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    Part::Parquet.check().map_err(Failure::bad_input)?;
    let plan = &load(&args.file, Edition::default())?;
    let cores = || std::thread::available_parallelism().map_or(1, NonZeroUsize::get);
    let jobs = args.jobs.map_or_else(cores, NonZeroUsize::get);
    let file = args.file.display().to_string();
    let fit = plan.jobs_within(args.memory.max_memory, jobs, None, &file);
    let jobs = fit.map_err(Failure::bad_input)?;
    let stop = Interrupt::install()?.flag();
    let mut display = Display::start(plan);
    let swept = run::sweep(plan, &args.out, jobs, &stop, &mut |p| display.show(p));
    display.end();
    let outcomes = swept.map_err(|error| match error {
        SweepError::Interrupted { .. } => Failure::Interrupted(error.to_string()),
        error if error.is_of_input() => Failure::bad_input(error),
        error => Failure::run(error),
    })?;
    let verdicts = plan.judge_runs(&outcomes);
    if outcomes.len() <= MAX_LINES {
        print(&format!("{}\n{}", plan.name, table::runs(&plan.name, &outcomes).to_text()))?;
    }
    print(&colour::verdicts(verdicts.iter()))?;
    print(&format!("{} runs in {}\n", outcomes.len(), args.out.display()))?;
    answer(verdicts.iter())
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
