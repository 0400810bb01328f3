//! `fullpipe survey`: random paths, and where an algorithm falls short of others.

use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;

use fullpipe_lab::run::{Journal, JournalError};
use fullpipe_lab::run_point;
use fullpipe_report::output::page::check_replaceable;
use fullpipe_report::plan::Plan;
use fullpipe_scenario::{Cc, Clock, units};
use fullpipe_survey::baseline::Baseline;
use fullpipe_survey::report::{self, Asked, PAGE, Report};
use fullpipe_survey::results::Results;
use fullpipe_survey::run::{Options, Survey};
use fullpipe_survey::text::{Senders, numbered};
use fullpipe_survey::worst::Wanted;
use fullpipe_survey::{Kind, Measure, SurveyError};
use sha2::{Digest, Sha256};

use crate::compare::parse_program;
use crate::experiment::Work;
use crate::failure::Failure;
use crate::interrupt::Interrupt;
use crate::live::Live;
use crate::over_args::OverArgs;
use crate::{print, say};

/// The directory of the results without --out.
const OUT: &str = "fullpipe-survey";

/// Run algorithms on random paths, and find those on which one falls short of another
///
/// Draws paths from a seed: rate, round trip, buffer, flows, and one to three disturbances. Runs
/// each algorithm on each path, and compares the first one with every other in goodput, queue,
/// latency of frames and answers, fairness, retransmissions and the share beside a competitor. The
/// worst paths are shrunk to the simplest that still show the shortfall, and written as scenario
/// files. docs/survey.md has the distribution.
///
/// Writes into the directory: runs.jsonl (a line for each algorithm on each path; the same command
/// goes on from there), survey.json, report.html and worst/*.toml.
#[derive(clap::Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The algorithms, as in compare. One that is named twice runs twice, with other seeds: its
    /// differences to itself are chance
    #[arg(
        long,
        short = 'c',
        value_name = "NAMES",
        value_delimiter = ',',
        default_value = "bbr3x,bbr3,cubic"
    )]
    cc: Vec<Cc>,
    /// Compare each algorithm of --cc with these, in place of the first with the others
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    against: Vec<Cc>,
    /// Another sender under test, over linux: two programs, as in compare; may be given several times
    #[arg(long, value_name = "NAME={...}", value_parser = parse_program)]
    program: Vec<(String, toml::Value)>,
    /// Number of paths; a larger number continues in the same directory
    #[arg(long, short = 'n', value_name = "N", value_parser = units::parse_count_above_0, default_value = "500", allow_negative_numbers = true)]
    paths: NonZeroUsize,
    /// Seed of the paths
    #[arg(long, value_name = "N", value_parser = units::parse_count::<u64>, default_value_t = 1, allow_negative_numbers = true)]
    seed: u64,
    /// Runs of each algorithm on each path, each with a seed of its own; their means are compared
    #[arg(long, value_name = "N", value_parser = units::parse_count_above_0, default_value = "1", allow_negative_numbers = true)]
    seeds: NonZeroUsize,
    /// Draw disturbances of these kinds alone, like jitter,late-host [default: all]
    #[arg(long, value_name = "KINDS", value_delimiter = ',')]
    kind: Vec<Kind>,
    /// A goodput below this part of the other's falls short
    #[arg(long, value_name = "RATIO", value_parser = parse_ratio, default_value = "0.95", allow_negative_numbers = true)]
    limit: f64,
    /// Number of the worst paths of each comparison that are written as files. In real time they
    /// are not made simpler first, unless this option is given: each takes up to 80 runs [default:
    /// 3]
    #[arg(long, value_name = "N", value_parser = units::parse_count::<usize>, allow_negative_numbers = true)]
    shrink: Option<usize>,
    /// Exit with 1 if a goodput is below this part of the other's on any path
    #[arg(long, value_name = "RATIO", value_parser = parse_ratio, allow_negative_numbers = true)]
    fail_below: Option<f64>,
    /// Compare with survey.json of an earlier survey of the same seed, and exit with 1 if more
    /// paths are short, a median is worse by more than 0.01, or an algorithm falls short of itself
    /// on more paths than chance explains
    #[arg(long, value_name = "FILE.json")]
    baseline: Option<PathBuf>,
    /// Print the JSON object of survey.json and nothing else
    #[arg(long)]
    json: bool,
    /// The directory for the results; one that holds a part of them is completed [default:
    /// fullpipe-survey, where those of another survey are replaced]
    #[arg(long, short = 'o', value_name = "DIR")]
    out: Option<PathBuf>,
    #[command(flatten)]
    over: OverArgs,
    #[command(flatten)]
    work: Work,
}

const EXAMPLES: &str = "\
Examples:
  fullpipe survey
  fullpipe survey --paths 100 --cc bbr3,cubic --kind jitter,late-host,ack-bursts
  fullpipe survey --cc bbr3x --against bbr3,cubic --fail-below 0.85
  fullpipe survey --cc bbr3x,bbr3,bbr3 --against bbr3 --seeds 5
  fullpipe survey --paths 2000 --out results && fullpipe survey --paths 2000 --out after --baseline results/survey.json
  sudo fullpipe survey --stack linux --paths 20 --cc linux:bbr --against linux:cubic

Exit status: 0 done, 1 a goodput below --fail-below, worse than the baseline, or a run failed, 2 bad input, 130 interrupted.";

/// Worst paths of each comparison.
const WORST: usize = 3;

pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    let stop = Interrupt::install()?.flag();
    let survey = Survey::new(args.options()?).map_err(of_survey)?;
    let baseline = args.baseline()?;
    let out = args.out.clone().unwrap_or_else(|| PathBuf::from(OUT));
    let page = out.join(PAGE);
    let results = open(&survey, &out, args.out.is_none())?;
    check_replaceable(&page).map_err(Failure::bad_input)?;
    if let [first, ..] = survey.skipped.as_slice() {
        let (count, all) = (survey.skipped.len(), args.paths);
        say(&format!(
            "{count} of {all} paths are left out, as they cannot be run over {}; the first is path {}: {}",
            survey.options.backend, first.path, first.reason
        ));
    }
    let options = survey.options.run_options();
    let point = |plan: &Plan, i: usize| run_point(plan, i, &options, &stop, &mut |_| ());
    let runs = survey.runs();
    let mut live = Live::of_many("survey", "runs", runs, false);
    let outcomes = survey.run(results, &point, |done| live.over(done, runs));
    live.end(None);
    let outcomes = outcomes.map_err(of_survey)?;
    for failed in &outcomes.failed {
        say(&format!("error: {} on path {}: {}", failed.cc, failed.path, failed.reason));
    }
    let mut live = Live::of_many("making simpler", "paths", 0, false);
    let mut report = Report::of(&survey, outcomes, &args.asked(), &point, &stop, |done, all| {
        live.over(done, all);
    });
    live.end(None);
    if let Some(baseline) = baseline {
        report.fallen = Some(baseline.fallen(&survey, &report));
        report.worse = Some(baseline.worse(&report));
    }
    let json = report.write(&out).map_err(of_survey)?;
    match args.json {
        true => print(&json)?,
        false => {
            print(&report::text(&report))?;
            print(&format!("report: {}\n", page.display()))?;
        }
    }
    if stop.load(Ordering::Relaxed) || report.interrupted {
        return Err(Failure::Interrupted(format!(
            "interrupted: {} of {runs} runs are done; the same command goes on from there",
            report.outcomes.len()
        )));
    }
    args.verdict(&report)
}

/// Opens the directory of the results. Where nobody named it, another survey's results in it are
/// replaced.
fn open(survey: &Survey, out: &Path, is_usual: bool) -> Result<Results, Failure> {
    let program = program().map_err(Failure::run)?;
    let opened = match survey.open(out, &program) {
        Err(SurveyError::Journal(
            JournalError::Other { .. } | JournalError::OtherVersion { .. },
        )) if is_usual => {
            std::fs::remove_file(out.join(Journal::NAME)).map_err(Failure::run)?;
            survey.open(out, &program)
        }
        opened => opened,
    };
    opened.map_err(Failure::bad_input)
}

/// SHA-256 of this program: results of another build are not completed with those of this one.
fn program() -> std::io::Result<Vec<u8>> {
    let program = std::fs::read(std::env::current_exe()?)?;
    Ok(Sha256::digest(program).to_vec())
}

impl Args {
    fn options(&self) -> Result<Options, Failure> {
        let mut names: Vec<String> = self.tested();
        for name in self.against() {
            if !names.contains(&name) {
                names.push(name);
            }
        }
        if let Some(i) = (1..self.program.len())
            .find(|i| self.program[..*i].iter().any(|(name, _)| *name == self.program[*i].0))
        {
            let name = &self.program[i].0;
            return Err(Failure::bad_input(format!("--program: '{name}' is named twice")));
        }
        let (backend, link) = self.over.choose()?;
        Ok(Options {
            paths: self.paths.get() as u64,
            seed: self.seed,
            seeds: self.seeds,
            kinds: self.kind.clone(),
            senders: Senders { names, programs: self.program.clone() },
            backend,
            link: backend.link(link).map_err(Failure::bad_input)?,
            jobs: self.work.jobs(),
            max_memory: self.work.memory.max_memory,
        })
    }

    /// The algorithms of --cc, and the programs.
    fn tested(&self) -> Vec<String> {
        let programs = self.program.iter().map(|(name, _)| format!("program:{name}"));
        let all: Vec<String> = programs.chain(self.cc.iter().map(ToString::to_string)).collect();
        numbered(&all)
    }

    /// The algorithms of --against, each once.
    fn against(&self) -> Vec<String> {
        let mut all: Vec<String> = Vec::new();
        for name in self.against.iter().map(ToString::to_string) {
            if !all.contains(&name) {
                all.push(name);
            }
        }
        all
    }

    fn asked(&self) -> Asked {
        Asked {
            tested: self.tested(),
            against: self.against(),
            wanted: Wanted {
                count: self.shrink.unwrap_or(WORST),
                shrink: self.shrink.is_some() || self.over.named().clock() == Clock::Virtual,
                limit: self.limit,
            },
        }
    }

    fn baseline(&self) -> Result<Option<Baseline>, Failure> {
        let Some(path) = &self.baseline else { return Ok(None) };
        let (backend, _) = self.over.choose()?;
        if backend.is_realtime() {
            return Err(Failure::bad_input(format!(
                "--baseline: over {backend} no two runs are the same; write --stack sim"
            )));
        }
        let of_option = |error| Failure::bad_input(format!("--baseline {error}"));
        let baseline = Baseline::load(path).map_err(of_option)?;
        baseline.check(path, &self.options()?).map_err(of_option)?;
        Ok(Some(baseline))
    }

    /// Exit code 1 when something is below what was asked for.
    fn verdict(&self, report: &Report) -> Result<(), Failure> {
        let mut reasons = Vec::new();
        if !report.failed.is_empty() {
            reasons.push(format!("{} of the runs failed", report.failed.len()));
        }
        if let Some(least) = self.fail_below {
            let pairs = report.pairs.iter().filter(|pair| !pair.is_chance());
            let goodputs = pairs.flat_map(|pair| &pair.comparisons);
            let goodputs = goodputs.filter(|c| c.measure == Measure::Goodput);
            let figures = goodputs.flat_map(|c| &c.points).filter_map(|point| point.figure);
            let below = figures.filter(|figure| *figure < least).count();
            if below > 0 {
                reasons.push(format!("{below} goodputs are below {least} x"));
            }
        }
        if let Some(n) = report.worse.as_ref().map(Vec::len).filter(|n| *n > 0) {
            reasons.push(format!("{n} comparisons are worse than in the baseline"));
        }
        if let Some(n) = report.fallen.as_ref().map(Vec::len).filter(|n| *n > 0) {
            reasons.push(format!("{n} values of algorithms are worse than in the baseline"));
        }
        if reasons.is_empty() { Ok(()) } else { Err(Failure::run(reasons.join("; "))) }
    }
}

/// A part of the other's goodput.
fn parse_ratio(text: &str) -> Result<f64, String> {
    let ratio = text.parse::<f64>().ok().filter(|ratio| (0.0..=10.0).contains(ratio));
    ratio.ok_or_else(|| format!("'{}' is no ratio; write one like 0.95", text.escape_debug()))
}

fn of_survey(error: SurveyError) -> Failure {
    if error.is_of_input() { Failure::bad_input(error) } else { Failure::run(error) }
}
