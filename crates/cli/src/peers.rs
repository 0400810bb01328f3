//! `fullpipe peers`: stacks of other people's, side by side.

mod bulk;

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use clap::Subcommand;
use fullpipe_cc::Duration;
use fullpipe_judge::peers::{
    self, Chosen, Installed, Missing, NotInstalled, PathOfPeers, PathPreset, PeerRun, PeersOptions,
    PeersReport, SenderRuns,
};
use fullpipe_lab::{RunError, RunOptions, check_machine};
use fullpipe_report::output::{SCHEMA_VERSION, page, table};
use fullpipe_report::plan::Plan;
use fullpipe_scenario::{Over, Stack, units};

use crate::failure::Failure;
use crate::interrupt::Interrupt;
use crate::judge::QuickJudge;
use crate::live::Live;
use crate::over_args::choose;
use crate::path_args::PathArgs;
use crate::{print, say};

/// Run stacks of other people's side by side on several paths
///
/// Recipes in this program say from which registry a stack is installed, in which version, and how
/// it is run: the kernel's TCP, QUIC stacks in C, C++, Go, Python and Rust, and ours. Installing
/// runs the registry's own client (pip, go, cargo) in a folder of the stack's own, and with it what
/// the stack's package runs when it is built.
#[derive(clap::Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

const EXAMPLES: &str = "\
Examples:
  fullpipe peers list
  fullpipe peers install quic-go aioquic
  sudo fullpipe peers run linux quic-go --report peers.html
  sudo fullpipe peers run linux quic-go --trace lte --rtt 60ms --queue codel
  sudo fullpipe peers run --install --paths clean,lossy --duration 20s --json";

#[derive(Subcommand, Debug)]
enum Command {
    /// List the stacks and their senders, and say which of them are installed
    List(List),
    /// Install stacks into the folder
    Install(Install),
    /// Run senders on the paths, each alone and two copies on the first path (Linux, root)
    ///
    /// A name is a stack, or one of its senders, as linux:bbr; without names all installed ones
    /// run. The others are listed with the reason. A sender that fails is in the results as well.
    /// --rate and --rtt are those of the named paths; any other option about a path takes the place
    /// of these.
    Run(Box<Run>),
    /// Transfer a gigabyte over loopback with each, in turns: goodput and processor time (Linux)
    ///
    /// Nothing is between server and client, so it is the stacks' own work that counts. A name is a
    /// stack, or one of its senders, as quinn:cubic; the first is what the others are compared
    /// with.
    Bulk(bulk::Bulk),
}

#[derive(clap::Args, Debug)]
struct Folder {
    /// The folder of the stacks [default: fullpipe/peers below XDG_CACHE_HOME, or below ~/.cache]
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
}

#[derive(clap::Args, Debug)]
struct List {
    #[command(flatten)]
    folder: Folder,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

#[derive(clap::Args, Debug)]
struct Install {
    /// The stacks; all without a name
    #[arg(value_name = "STACK")]
    names: Vec<String>,
    #[command(flatten)]
    folder: Folder,
}

#[derive(clap::Args, Debug)]
struct Run {
    /// The senders
    #[arg(value_name = "NAME")]
    names: Vec<String>,
    /// The paths: clean (2 BDP of buffer), deep (8 BDP), lossy (2 BDP, 1 % random loss), shallow
    /// (0.5 BDP)
    #[arg(long, value_name = "PATHS", value_delimiter = ',', value_parser = path_named, default_value = "clean,deep,lossy,shallow")]
    paths: Vec<PathPreset>,
    #[command(flatten)]
    path: PathArgs,
    /// Duration of each run
    #[arg(long, short = 'd', value_name = "TIME", value_parser = units::parse_duration, default_value = "10s", allow_hyphen_values = true)]
    duration: Duration,
    /// Judge each sender as well, as fullpipe judge --quick does; takes 70 s more for each
    #[arg(long)]
    verdicts: bool,
    /// Install missing stacks before the runs
    #[arg(long)]
    install: bool,
    /// Print one JSON object in place of the tables
    #[arg(long)]
    json: bool,
    /// Write the page here
    #[arg(long, short = 'r', value_name = "FILE.html")]
    report: Option<PathBuf>,
    #[command(flatten)]
    folder: Folder,
}

/// The object of run --json.
#[derive(serde::Serialize)]
struct Report<'a> {
    schema_version: u32,
    peers: &'a PeersReport,
}

/// A stack of list --json.
#[derive(serde::Serialize)]
struct Listed<'a> {
    name: &'a str,
    about: &'a str,
    origin: &'a str,
    version: Option<&'a str>,
    senders: Vec<String>,
    installed: Option<Installed>,
    /// Reason why it is not.
    reason: Option<String>,
}

pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    match &args.command {
        Command::List(list) => list.run(),
        Command::Install(install) => install.run(),
        Command::Run(run) => run.run(),
        Command::Bulk(bulk) => bulk.run(),
    }
}

fn path_named(name: &str) -> Result<PathPreset, String> {
    let found = PathPreset::ALL.into_iter().find(|path| path.name == name);
    let all: Vec<&str> = PathPreset::ALL.iter().map(|path| path.name).collect();
    found.ok_or_else(|| format!("no such path; there are {}", all.join(", ")))
}

impl Folder {
    fn path(&self) -> Result<PathBuf, Failure> {
        peers::folder(self.dir.as_deref()).map_err(Failure::bad_input)
    }
}

fn itself() -> Result<PathBuf, Failure> {
    std::env::current_exe().map_err(Failure::run)
}

impl List {
    fn run(&self) -> Result<(), Failure> {
        let (root, itself) = (self.folder.path()?, itself()?);
        let listed = peers::recipes().iter().map(|recipe| {
            let found = peers::installed(recipe, &root, &itself);
            let reason = found.as_ref().err().map(ToString::to_string);
            Listed {
                name: &recipe.name,
                about: &recipe.about,
                origin: &recipe.origin,
                version: recipe.version.as_deref(),
                senders: recipe.cc.iter().map(|cc| recipe.sender(cc)).collect(),
                installed: found.ok(),
                reason,
            }
        });
        let listed: Vec<Listed<'_>> = listed.collect();
        if self.json {
            let object = serde_json::json!({ "schema_version": SCHEMA_VERSION, "stacks": listed });
            return print(&format!("{object}\n"));
        }
        let mut text = String::new();
        for stack in listed {
            let state = match (&stack.installed, &stack.reason) {
                (Some(installed), _) => format!("there: {}", installed.says),
                (None, reason) => reason.clone().unwrap_or_default(),
            };
            let version = stack.version.map_or(String::new(), |v| format!(" {v}"));
            text.push_str(&format!(
                "{}{version}: {}\n  from {}\n  senders: {}\n  {state}\n",
                stack.name,
                stack.about,
                stack.origin,
                stack.senders.join(", ")
            ));
        }
        print(&text)
    }
}

impl Install {
    fn run(&self) -> Result<(), Failure> {
        let (root, itself) = (self.folder.path()?, itself()?);
        let chosen = peers::choose(&self.names).map_err(Failure::bad_input)?;
        let stop = Interrupt::install()?.flag();
        let mut failed = Vec::new();
        for Chosen { recipe, .. } in &chosen {
            match install(recipe, &root, &itself, &stop)? {
                Ok(installed) => say(&format!("{}: {}", recipe.name, installed.says)),
                Err(missing) => {
                    say(&format!("{} {}", missing.name, missing.reason));
                    failed.push(missing.name);
                }
            }
        }
        match failed.as_slice() {
            [] => Ok(()),
            some => Err(Failure::run(format!("not installed: {}", some.join(", ")))),
        }
    }
}

/// Installs a stack; what is in the way is news, and Ctrl-C an end.
fn install(
    recipe: &peers::Recipe,
    root: &std::path::Path,
    itself: &std::path::Path,
    stop: &AtomicBool,
) -> Result<Result<Installed, Missing>, Failure> {
    let tell = &mut |command: &str| say(&format!("{}: {command}", recipe.name));
    match peers::install(recipe, root, itself, stop, tell) {
        Ok(installed) => Ok(Ok(installed)),
        Err(NotInstalled::Interrupted) => Err(Failure::interrupted(true)),
        Err(error) => Ok(Err(Missing { name: recipe.name.clone(), reason: error.to_string() })),
    }
}

/// A sender with its plans: path, copies, and the scenario.
struct Job {
    name: String,
    stack: Installed,
    plans: Vec<(PathOfPeers, u64, Plan)>,
    /// Server and client, where it is judged.
    judged: Option<(String, Vec<String>)>,
}

impl Run {
    fn run(&self) -> Result<(), Failure> {
        let (root, itself) = (self.folder.path()?, itself()?);
        let chosen = peers::choose(&self.names).map_err(Failure::bad_input)?;
        let options = PeersOptions { duration: self.duration, root: &root, itself: &itself };
        let paths = self.paths()?;
        self.check(&paths, &options)?;
        let stop = Interrupt::install()?.flag();
        let described = paths.iter().map(PathOfPeers::described).collect();
        let mut report = PeersReport::new(described, self.duration.as_nanos() as f64 / 1e9);
        let mut jobs = Vec::new();
        for one in &chosen {
            let found = match self.install {
                true => install(one.recipe, &root, &itself, &stop)?,
                false => peers::installed(one.recipe, &root, &itself).map_err(|error| Missing {
                    name: one.recipe.name.clone(),
                    reason: error.to_string(),
                }),
            };
            match found {
                Ok(stack) => jobs.extend(self.jobs(one, &stack, &paths, &options)?),
                Err(missing) => {
                    say(&format!("{} {}", missing.name, missing.reason));
                    report.missing.push(missing);
                }
            }
        }
        if jobs.is_empty() {
            return Err(Failure::bad_input("no stack is there; the lines above say why"));
        }
        options.prepare().map_err(Failure::bad_input)?;
        let judge = self.verdicts.then(QuickJudge::new).transpose()?;
        perform(&jobs, judge.as_ref(), &mut report, &stop);
        self.tell(&report)
    }

    /// The paths of names, or the one that the options describe. A rate and a round-trip time alone
    /// are those of the named ones.
    fn paths(&self) -> Result<Vec<PathOfPeers>, Failure> {
        let usual = fullpipe_report::plan::Options {
            rate: Some("20mbit".to_owned()),
            buffer: "2bdp".to_owned(),
            ..fullpipe_report::plan::Options::default()
        };
        let options = self.path.over(usual)?;
        if let (false, Some(rate), Some(rtt)) =
            (self.path.is_more_than_rate_and_rtt(), &options.rate, &options.rtt)
        {
            return Ok(self.paths.iter().map(|path| path.with(rate, rtt, options.seed)).collect());
        }
        if let Some(network) = &options.network {
            self.path.one_seed(network)?;
        }
        options.plan().map_err(Failure::bad_input)?;
        self.path.tell_of_stack(options.over);
        let dir = options.network.as_ref().map_or_else(PathBuf::new, |network| network.dir.clone());
        Ok(vec![PathOfPeers {
            name: "your path".to_owned(),
            about: options.name(),
            tables: options.network_tables().to_string(),
            dir,
            seed: options.seed,
        }])
    }

    /// Errors in the options, or of the machine, before anything is installed.
    fn check(&self, paths: &[PathOfPeers], options: &PeersOptions<'_>) -> Result<(), Failure> {
        if let Some(report) = &self.report {
            page::check_replaceable(report).map_err(Failure::bad_input)?;
        }
        let (backend, _) = choose(Over::of(Stack::Linux))?;
        let recipe = &peers::recipes()[0];
        for path in paths {
            let plan = peers::plan_of(recipe, &recipe.cc[0], path, 1, options);
            match plan.map_err(Failure::bad_input)?.grid.runs.len() {
                1 => {}
                n => {
                    return Err(Failure::bad_input(format!(
                        "the scenario's lists make {n} paths; write one value in place of each list"
                    )));
                }
            }
        }
        // Of a flow of the kernel's, so that no program has to be there yet.
        let probe = fullpipe_report::plan::Options {
            cc: "linux:reno".parse().into_iter().collect(),
            ..fullpipe_report::plan::Options::default()
        };
        let probe = probe.plan().map_err(Failure::bad_input)?;
        let options = RunOptions { backend, ..RunOptions::default() };
        check_machine(&probe, &options).map_err(Failure::bad_input)
    }

    fn jobs(
        &self,
        chosen: &Chosen,
        stack: &Installed,
        paths: &[PathOfPeers],
        options: &PeersOptions<'_>,
    ) -> Result<Vec<Job>, Failure> {
        let alone = paths.iter().map(|path| (path, 1));
        let all: Vec<(&PathOfPeers, u64)> =
            alone.chain(paths.first().map(|path| (path, 2))).collect();
        let job = |cc: &&str| {
            let plans = all.iter().map(|(path, copies)| {
                let plan = peers::plan_of(chosen.recipe, cc, path, *copies, options);
                plan.map(|plan| ((*path).clone(), *copies, plan)).map_err(Failure::bad_input)
            });
            let plans = plans.collect::<Result<_, _>>()?;
            let judged = self.verdicts.then(|| peers::commands_of(chosen.recipe, cc, options));
            Ok(Job { name: chosen.recipe.sender(cc), stack: stack.clone(), plans, judged })
        };
        chosen.cc.iter().map(job).collect()
    }

    fn tell(&self, report: &PeersReport) -> Result<(), Failure> {
        if self.json {
            let object = Report { schema_version: SCHEMA_VERSION, peers: report };
            print(&format!("{}\n", serde_json::to_string(&object).map_err(Failure::run)?))?;
        } else {
            for (title, table) in peers::tables(report) {
                print(&format!("{title}\n{}\n", table.to_text()))?;
            }
        }
        if let Some(path) = &self.report {
            page::write_text(path, &peers::render(report)).map_err(Failure::run)?;
            let line = format!("report: {}", path.display());
            if self.json { say(&line) } else { print(&format!("{line}\n"))? }
        }
        if report.interrupted {
            return Err(Failure::interrupted(report.senders.is_empty()));
        }
        let runs = report.senders.iter().flat_map(|sender| &sender.runs);
        match runs.filter(|run| run.error.is_some()).count() {
            0 => Ok(()),
            1 => Err(Failure::run("1 run failed; the others are above")),
            n => Err(Failure::run(format!("{n} runs failed; the others are above"))),
        }
    }
}

/// Runs all senders, until `stop` is set.
fn perform(
    jobs: &[Job],
    judge: Option<&QuickJudge>,
    report: &mut PeersReport,
    stop: &Arc<AtomicBool>,
) {
    let all: usize = jobs.iter().map(|job| job.plans.len()).sum();
    let mut done = 0;
    for job in jobs {
        let mut runs: Vec<PeerRun> = Vec::new();
        for (path, copies, plan) in &job.plans {
            done += 1;
            let both = if *copies > 1 { " twice" } else { "" };
            let name = format!("{}{both} on {}", job.name, path.name);
            let mut live = Live::start(name.clone(), &format!("{done} of {all}"));
            let result = peers::run_sender(plan, path, *copies, stop, &mut |progress| {
                live.tick(&progress);
            });
            let said = result.as_ref().ok().map(in_short);
            live.end(said.as_deref());
            match result {
                Ok(run) => runs.push(run),
                Err(RunError::StoppedEarly) => break,
                Err(error) => say(&format!("error: {name}: {error}")),
            }
            if stop.load(Ordering::Relaxed) {
                break;
            }
        }
        let mut verdict = None;
        if let (Some(judge), Some((server, client)), false) =
            (judge, &job.judged, stop.load(Ordering::Relaxed))
        {
            say(&format!("{}: a verdict", job.name));
            match judge.verdict(server, client, stop) {
                Ok(judged) => verdict = Some(judged),
                Err(failure) => say(&format!("{} is not judged: {failure}", job.name)),
            }
        }
        if !runs.is_empty() {
            let (name, stack) = (job.name.clone(), job.stack.clone());
            report.senders.push(SenderRuns { name, stack, runs, verdict });
        }
        if stop.load(Ordering::Relaxed) {
            report.interrupted = true;
            return;
        }
    }
}

fn in_short(run: &PeerRun) -> String {
    let Some(result) = &run.result else {
        return format!("failed: {}", run.error.as_deref().unwrap_or_default());
    };
    let figure = |name: &str| {
        result.metrics.get(name).copied().flatten().map_or("-".to_owned(), table::number)
    };
    format!("{} Mbit/s, queue p95 {} ms", figure("goodput_mbps"), figure("queue_ms.p95"))
}
