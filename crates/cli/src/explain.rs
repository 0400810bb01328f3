//! `fullpipe explain`: the story of one flow.

use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

use fullpipe_cc::Duration;
use fullpipe_judge::capture::Choice;
use fullpipe_lab::explain::{self, ExplainError, Story};
use fullpipe_lab::run::ROWS;
use fullpipe_lab::{RunError, RunOptions, run_point};
use fullpipe_report::output::ScenarioReport;
use fullpipe_report::plan::{Options, Plan};
use fullpipe_scenario::units;
use fullpipe_scenario::{Cc, Clock, Edition, Stack};

use crate::failure::Failure;
use crate::heartbeat::Heartbeat;
use crate::interrupt::Interrupt;
use crate::judge::file::File;
use crate::over_args::{OverArgs, choose, choose_of};
use crate::path_args::{PATH_OPTIONS, PathArgs};
use crate::pictures::Pictures;
use crate::print;

/// Tell in words what one flow does on a path, and why
///
/// Runs it, in the simulator unless --stack names another one, and says when and why each state
/// was entered and left, what the model believed and what was true of the path, and where bytes
/// waited. The path is that of the options, or of a scenario file.
///
/// With --pcap or --qlog it runs nothing, and tells what the sender of a captured flow did, as
/// fullpipe judge does. Defects are told, and no failure.
#[derive(clap::Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// A scenario file to take a flow of, in place of the options about cc and path
    #[arg(value_name = "FILE.toml", conflicts_with_all = PATH_OPTIONS, conflicts_with_all = ["cc", "duration", "scenario"])]
    file: Option<PathBuf>,
    /// Number of the run, from 0, if the file's lists make several
    #[arg(long, value_name = "N", value_parser = units::parse_count::<usize>, allow_negative_numbers = true)]
    run: Option<usize>,
    /// Which flow: its number in the scenario file, from 0 [default: 0]; of a capture or a log its
    /// number by size, from 1, ADDRESS:PORT, or ADDRESS:PORT-ADDRESS:PORT [default: the largest]
    #[arg(long, value_name = "FLOW", value_parser = parse_flow, allow_negative_numbers = true)]
    flow: Option<FlowChoice>,
    /// Tell of a flow of this capture: pcap or pcapng, also with gzip or zstd
    #[arg(long, value_name = "CAPTURE", conflicts_with_all = OF_RUNS, conflicts_with_all = PATH_OPTIONS)]
    pcap: Option<PathBuf>,
    /// Tell of the connection of this qlog: JSON, or JSON-SEQ (.sqlog), that of the sender
    #[arg(long, value_name = "LOG", conflicts_with_all = OF_RUNS, conflicts_with_all = PATH_OPTIONS, conflicts_with = "pcap")]
    qlog: Option<PathBuf>,
    /// Open the QUIC packets of the capture with the secrets in this file, which an end writes
    /// where SSLKEYLOGFILE names one
    #[arg(long, value_name = "KEYLOG", requires = "pcap", conflicts_with = "qlog")]
    keys: Option<PathBuf>,
    #[command(flatten)]
    over: OverArgs,
    /// The algorithm: bbr3, bbr3x, bbr3-linux, bbr3x-linux, bbr-swift, prague, bbr1, cubic, reno or
    /// fixed:RATE
    #[arg(long, short = 'c', value_name = "NAME", default_value = "bbr3")]
    cc: Cc,
    #[command(flatten)]
    path: PathArgs,
    /// Duration of the run [default: 10s, or that of --scenario]
    #[arg(long, short = 'd', value_name = "TIME", value_parser = units::parse_duration, allow_hyphen_values = true)]
    duration: Option<Duration>,
    #[command(flatten)]
    pictures: Pictures,
    /// Print the story as one JSON object and nothing else
    #[arg(long)]
    json: bool,
}

/// The options of a run, which a capture has none of.
const OF_RUNS: [&str; 10] =
    ["file", "run", "stack", "clock", "link", "cc", "duration", "scenario", "svg", "series_csv"];

/// A flow as an option names it.
#[derive(Clone, PartialEq, Eq, Debug)]
enum FlowChoice {
    Number(usize),
    Ends(Choice),
}

fn parse_flow(text: &str) -> Result<FlowChoice, String> {
    // An address has a colon before its port.
    match text.contains(':') {
        true => text.parse().map(FlowChoice::Ends),
        false => units::parse_count(text).map(FlowChoice::Number).map_err(|e| e.to_string()),
    }
}

impl FlowChoice {
    /// The number of a flow of a scenario file.
    fn number(flow: Option<&Self>) -> Result<usize, Failure> {
        match flow {
            None => Ok(0),
            Some(Self::Number(n)) => Ok(*n),
            Some(Self::Ends(_)) => Err(Failure::bad_input(
                "--flow: a flow of a run has a number; write --flow 0 or another",
            )),
        }
    }

    /// The choice of a flow of a capture.
    fn choice(flow: Option<&Self>) -> Result<Choice, Failure> {
        match flow {
            None => Ok(Choice::Largest),
            Some(Self::Number(0)) => Err(Failure::bad_input(
                "--flow: the flows of a capture are numbered by their size, from 1",
            )),
            Some(Self::Number(n)) => Ok(Choice::Number(*n)),
            Some(Self::Ends(choice)) => Ok(choice.clone()),
        }
    }
}

const EXAMPLES: &str = "\
Examples:
  fullpipe explain
  fullpipe explain --cc cubic --rate 20mbit --loss 0.1%
  fullpipe explain --trace lte --duration 20s
  fullpipe explain --scenario scenarios/quickstart.toml --cc bbr3x
  fullpipe explain scenarios/fairness.toml --flow 1 --svg plots --series-csv series.csv
  fullpipe explain --pcap scenarios/captures/bbr3.pcap.gz";

pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    if args.pcap.is_some() || args.qlog.is_some() {
        let file = File {
            pcap: args.pcap.as_deref(),
            qlog: args.qlog.as_deref(),
            keys: args.keys.as_deref(),
            choice: &FlowChoice::choice(args.flow.as_ref())?,
            report: None,
            json: args.json,
        };
        return file.tell().map(drop);
    }
    let interrupt = Interrupt::install()?;
    let stop = interrupt.flag();
    let at_work = Heartbeat::start("explain".to_owned());
    let plan = match &args.file {
        Some(file) => plan_of_file(args, file)?,
        None => {
            check_without_file(args).map_err(Failure::BadInput)?;
            let plan = options(args)?.plan().map_err(Failure::BadInput)?;
            let (backend, _) = choose(plan.over)?;
            let of_option = |error| Failure::BadInput(Options::of_option(error));
            backend.check_plan(&plan, "options").map_err(of_option)?;
            plan
        }
    };
    let (backend, link) = choose(plan.over)?;
    backend.link(link).map_err(Failure::bad_input)?;
    if args.pictures.is_any() && backend.is_realtime() {
        return Err(Failure::bad_input(format!(
            "--svg and --series-csv: in real time they would be of another run than the story; write \
             fullpipe run FILE.toml {} with them",
            backend.options()
        )));
    }
    args.pictures.check()?;
    let (story, run) = match (&args.file, &args.path.scenario) {
        (Some(file), _) => {
            of_plan(args, file, &plan, FlowChoice::number(args.flow.as_ref())?, &stop)?
        }
        (None, Some(file)) => of_plan(args, file, &plan, 0, &stop)?,
        (None, None) => {
            let story = explain::tell(&plan, 0, 0, choose(plan.over)?, &stop);
            (story.map_err(|error| of_story("", error))?, 0)
        }
    };
    drop(at_work);
    if args.json {
        print(&format!("{}\n", serde_json::to_string(&story).map_err(Failure::run)?))?;
    } else {
        print(&story.to_text())?;
    }
    if story.interrupted {
        return Err(Failure::Interrupted("interrupted; this is the story so far".into()));
    }
    if args.pictures.is_any() {
        let _at_work = Heartbeat::start("plots and series".to_owned());
        draw(args, &plan, run, &stop)?;
    }
    Ok(())
}

/// True if the options are those of one flow on a path in the simulator. clap's `requires` does not
/// ask for a file where there is also an option that conflicts with one.
fn check_without_file(args: &Args) -> Result<(), String> {
    if args.cc.algorithm().is_none() {
        let name = args.cc.to_string();
        let stack = name.split_once(':').and_then(|(stack, _)| stack.parse::<Stack>().ok());
        let stack = stack.map_or_else(String::new, |stack| format!("--stack {stack} "));
        return Err(format!(
            "there is no story of {name}, which is another program's own; write bbr3, bbr3x, bbr3-linux, bbr3x-linux, \
             bbr-swift, prague, bbr1, cubic, reno or fixed:RATE; fullpipe compare {stack}--cc {name} shows what it does"
        ));
    }
    let option = match args {
        Args { over, .. } if over.named().clock() == Clock::Real => {
            let option = over.named().options();
            return Err(format!(
                "{option} needs a scenario file: fullpipe explain FILE.toml {option}"
            ));
        }
        Args { run: Some(_), path: PathArgs { scenario: None, .. }, .. } => "--run",
        Args { flow: Some(flow), .. } if *flow != FlowChoice::Number(0) => "--flow",
        _ => return Ok(()),
    };
    Err(format!("{option} needs a scenario file: fullpipe explain FILE.toml {option}"))
}

fn options(args: &Args) -> Result<Options, Failure> {
    let own = args.path.over(Options {
        cc: vec![args.cc],
        over: args.over.named(),
        ..Options::default()
    })?;
    let of_file = own.network.as_ref().and_then(|network| network.duration.clone());
    let duration = args.duration.map(units::show_duration).or(of_file);
    Ok(Options { duration: duration.unwrap_or(own.duration), ..own })
}

/// Plots and series of the run that was told of: with a virtual clock it is the same once more.
fn draw(args: &Args, plan: &Plan, run: usize, stop: &AtomicBool) -> Result<(), Failure> {
    let (backend, link) = choose(plan.over)?;
    let options = RunOptions { backend, link, rows: Some(ROWS), ..RunOptions::default() };
    let result =
        run_point(plan, run, &options, stop, &mut |_| ()).map_err(|error| match error {
            RunError::StoppedEarly => {
                Failure::Interrupted("interrupted; there are no plots and no series".into())
            }
            error => Failure::run(error),
        })?;
    let mut report = ScenarioReport::of(plan, None, None);
    report.runs.push(result);
    args.pictures.write_reports(&[report])
}

fn plan_of_file(args: &Args, file: &Path) -> Result<Plan, Failure> {
    let edition = Edition { over: args.over.named(), ..Edition::default() };
    let plan = Plan::load(file, edition).map_err(Failure::bad_input)?;
    let name = file.display().to_string();
    let (backend, _) = choose_of(&plan, &name, &args.over)?;
    backend.check_plan(&plan, &name).map_err(Failure::bad_input)?;
    Ok(plan)
}

/// A flow of a plan that was made of a file, of the run that --run names, or of the only one; and
/// the number of that run.
fn of_plan(
    args: &Args,
    file: &Path,
    plan: &Plan,
    flow: usize,
    stop: &AtomicBool,
) -> Result<(Story, usize), Failure> {
    let run = run_of(args, file, plan)?;
    let story = explain::tell(plan, run, flow, choose(plan.over)?, stop);
    let story = story.map_err(|error| of_story(&format!("{}: ", file.display()), error))?;
    Ok((story, run))
}

fn of_story(place: &str, error: ExplainError) -> Failure {
    match error {
        ExplainError::Input(why) => Failure::bad_input(format!("{place}{why}")),
        ExplainError::Run(error) => Failure::run(error),
    }
}

/// The run that --run names, or the only one.
fn run_of(args: &Args, file: &Path, plan: &Plan) -> Result<usize, Failure> {
    match (args.run, plan.grid.runs.as_slice()) {
        (Some(run), _) => Ok(run),
        (None, [_]) => Ok(0),
        (None, runs) => {
            let place = |(i, run): (usize, &fullpipe_scenario::Run)| {
                let at: Vec<String> = run.at.iter().map(|(a, v)| format!("{a}={v}")).collect();
                format!("{i} {}", at.join(" "))
            };
            let first: Vec<String> = runs.iter().enumerate().take(6).map(place).collect();
            Err(Failure::bad_input(format!(
                "{}: its lists make {} runs ({}{}); write --run 0 or another",
                file.display(),
                runs.len(),
                first.join(", "),
                if runs.len() > first.len() { ", ..." } else { "" }
            )))
        }
    }
}
