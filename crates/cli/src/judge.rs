//! `fullpipe judge`: verdicts on any sender.

pub(crate) mod file;
mod runner;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};

use fullpipe_cc::Duration;
use fullpipe_judge::capture::Choice;
use fullpipe_judge::program::judge::{
    self, Competitor, Grade, Judged, Limits, TestPath, View, Views,
};
use fullpipe_judge::program::{self, ProgramPlace, ProgramResult};
use fullpipe_report::output::{SCHEMA_VERSION, page};
use fullpipe_report::plan::Options;
use fullpipe_scenario::units;

use crate::failure::Failure;
use crate::interrupt::Interrupt;
use crate::link::{Relay, needs_root, outcome, parse_relay};
use crate::path_args::{PATH_OPTIONS, PathArgs};
use crate::{print, say};
use runner::Runner;

/// Judge any sender by what it does on sixteen paths
///
/// Runs the command on each path, as fullpipe link does, for as long as that path needs, and ends
/// it then: give it more to transfer than it can. Looks at each packet of the direction that
/// carried the data. Our own senders run on the same paths in the simulator, and the limits come
/// from them: good is about what the best of them does, broken is worse than each by far, poor is
/// between. Says what kind of algorithm it looks like, and names the defects that it knows.
///
/// With options about a path it runs on that one path alone, and is judged there beside ours. All
/// but what says --up-... holds in both directions. Its kind, defects and fairness take several
/// paths that are known, and are not judged then.
#[derive(clap::Args, Default, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Relay UDP from the address LISTEN to SERVER and back, without root, as fullpipe link does
    #[arg(long, value_name = "LISTEN=SERVER", value_parser = parse_relay, allow_hyphen_values = true)]
    udp: Option<Relay>,
    /// Start this command line with sh at the other end of each path, as fullpipe link does; {port}
    /// in it and in the command is a port. Two copies of the command have a server each. Needs no
    /// root
    #[arg(long, value_name = "COMMAND LINE", conflicts_with = "udp", allow_hyphen_values = true)]
    server: Option<OsString>,
    /// Judge on five of the paths, in less than 90 s
    #[arg(long, conflicts_with_all = PATH_OPTIONS, conflicts_with = "scenario")]
    quick: bool,
    #[command(flatten)]
    path: PathArgs,
    /// Time on a path of the options below [default: 20s]
    #[arg(long, short = 'd', value_name = "TIME", value_parser = units::parse_duration, allow_hyphen_values = true)]
    duration: Option<Duration>,
    /// Print one JSON object on stdout; the commands' output goes to stderr
    #[arg(long)]
    json: bool,
    /// Write the verdicts as JUnit's test cases
    #[arg(long, value_name = "FILE")]
    junit: Option<PathBuf>,
    /// Write a page with the verdicts, and the rate and the queue on each path; of a file, with the
    /// rate, the data in flight and the round trips
    #[arg(long, value_name = "FILE.html")]
    report: Option<PathBuf>,
    /// Fail if a grade is worse than in this file, the output of an earlier --json, or a defect is
    /// new
    #[arg(long, value_name = "FILE")]
    baseline: Option<PathBuf>,
    /// Run nothing, and tell the story of a flow of this capture (pcap or pcapng, also with gzip or
    /// zstd): what its sender did, on a path that nobody knows
    #[arg(long, value_name = "FILE", conflicts_with_all = OF_RUNS, conflicts_with_all = PATH_OPTIONS)]
    pcap: Option<PathBuf>,
    /// The same for a qlog: JSON, or JSON-SEQ (.sqlog), that of the sender
    #[arg(long, value_name = "FILE", conflicts_with_all = OF_RUNS, conflicts_with_all = PATH_OPTIONS, conflicts_with = "pcap")]
    qlog: Option<PathBuf>,
    /// Open the QUIC packets of the capture with the secrets in this file, which an end writes
    /// where SSLKEYLOGFILE names one
    #[arg(long, value_name = "FILE", requires = "pcap", conflicts_with = "qlog")]
    keys: Option<PathBuf>,
    /// Which flow of the file: its number by size from 1, ADDRESS:PORT, or
    /// ADDRESS:PORT-ADDRESS:PORT [default: the one with most data]
    #[arg(long, value_name = "FLOW", conflicts_with_all = OF_RUNS, conflicts_with_all = PATH_OPTIONS)]
    flow: Option<Choice>,
    /// The command and its arguments, behind --; {host} and {port} are replaced as fullpipe link
    /// does
    #[arg(last = true, required_unless_present_any = ["pcap", "qlog"], value_name = "COMMAND")]
    command: Vec<OsString>,
}

/// Options of a verdict on runs, which a file has none of.
const OF_RUNS: [&str; 8] =
    ["udp", "server", "quick", "junit", "baseline", "command", "duration", "scenario"];

const EXAMPLES: &str = "\
Examples:
  fullpipe judge --server 'iperf3 -s -p {port}' -- iperf3 -c {host} -p {port} -t 100
  sudo fullpipe judge --quick -- iperf3 -c {host} -t 100 -C bbr
  fullpipe judge --udp 0=127.0.0.1:4433 -- my-quic-client https://localhost:{port}/large-file
  fullpipe judge --trace lte --rtt 60ms --server 'iperf3 -s -p {port}' -- iperf3 -c {host} -p {port} -t 100
  fullpipe judge --pcap scenarios/captures/bbr3.pcap.gz --flow 10.0.0.2:80
  fullpipe judge --quick --udp 0=127.0.0.1:4433 --json --baseline before.json --junit judge.xml -- my-quic-client …

Exit status: 0 nothing is broken, 1 something is or is worse than the baseline, 2 bad input or a command that cannot be
judged, 130 interrupted; that of a command that failed on the first path.";

/// The most seconds of paths that are run once more when their packets were late.
const MOST_REPEATED_S: u64 = 45;

/// The object of --json.
#[derive(serde::Serialize)]
struct Report<'a> {
    schema_version: u32,
    quick: bool,
    #[serde(flatten)]
    judged: &'a Judged,
    /// Values that are worse than the baseline's; null without one.
    worse: Option<&'a [String]>,
    runs: &'a [ProgramResult],
    interrupted: bool,
}

/// Fields that are read of such an object.
#[derive(serde::Deserialize)]
struct Baseline {
    schema_version: u32,
    #[serde(flatten)]
    judged: Judged,
}

pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    if args.pcap.is_some() || args.qlog.is_some() {
        let file = file::File {
            pcap: args.pcap.as_deref(),
            qlog: args.qlog.as_deref(),
            keys: args.keys.as_deref(),
            choice: args.flow.as_ref().unwrap_or(&Choice::Largest),
            report: args.report.as_deref(),
            json: args.json,
        };
        return file.judge();
    }
    for file in args.report.iter().chain(&args.junit) {
        page::check_writable(file).map_err(Failure::bad_input)?;
    }
    if let Some(file) = &args.report {
        page::check_replaceable(file).map_err(Failure::bad_input)?;
    }
    let baseline = args.baseline.as_ref().map(read_baseline).transpose()?;
    let given = args.test_path()?;
    let place = args.udp.map_or(ProgramPlace::Namespace, Relay::place);
    match args.server {
        // Before this process has a second thread.
        Some(_) => program::check_inside().map_err(Failure::bad_input)?,
        None => program::check(place).map_err(needs_root)?,
    }
    let stop = Interrupt::install()?.flag();
    let test_paths = match &given {
        Some(test_path) => vec![test_path],
        None => judge::test_paths(args.quick),
    };
    let all: u64 = test_paths.iter().map(|test_path| test_path.span_s).sum();
    say(&format!("judge: {} paths, {all} s in all", test_paths.len()));
    let mut seen = Seen::default();
    seen.run(args, place, &test_paths, &stop)?;
    let upwards = given.as_ref().filter(|_| seen.is_up).map(TestPath::upwards);
    let test_paths = upwards.as_ref().map_or(test_paths, |test_path| vec![test_path]);
    let interrupted = stop.load(Ordering::Relaxed);
    if seen.views.is_empty() {
        return Err(Failure::interrupted(true));
    }
    let judged = Judged::of(&seen.views, &seen.missing, &limits(&test_paths)?);
    let worse = baseline.map(|before| judged.worse_than(&before));
    if let Some(file) = &args.junit {
        page::write_text(file, &judge::junit(&judged)).map_err(Failure::run)?;
    }
    if let Some(file) = &args.report {
        let text = judge::page(&judged, &seen.views).map_err(Failure::run)?;
        page::write_text(file, &text).map_err(Failure::run)?;
    }
    if args.json {
        let report = Report {
            schema_version: SCHEMA_VERSION,
            quick: args.quick,
            judged: &judged,
            worse: worse.as_deref(),
            runs: &seen.runs,
            interrupted,
        };
        print(&format!("{}\n", serde_json::to_string(&report).map_err(Failure::run)?))?;
    } else {
        print(&judge::text(&judged))?;
        for line in worse.iter().flatten() {
            print(&format!("worse than the baseline: {line}\n"))?;
        }
    }
    if interrupted {
        return Err(Failure::interrupted(false));
    }
    match (verdict(&judged), worse) {
        (_, Some(worse)) if worse.is_empty() => Ok(()),
        (_, Some(worse)) => Err(Failure::run(format!("worse: {}", worse.join("; ")))),
        (None, None) => Ok(()),
        (Some(broken), None) => Err(Failure::run(broken)),
    }
}

impl Args {
    /// The path of the options in place of ours, where they say any.
    fn test_path(&self) -> Result<Option<TestPath>, Failure> {
        if !self.path.is_any() {
            let option = match (self.path.seed, self.duration) {
                (Some(_), _) => "--seed",
                (_, Some(_)) => "--duration",
                _ => return Ok(None),
            };
            return Err(Failure::bad_input(format!(
                "{option} is that of a path of your own; write --rate, --trace, --scenario or another of its options too"
            )));
        }
        let usual = Options {
            rate: Some("20mbit".to_owned()),
            buffer: "2bdp".to_owned(),
            ..Options::default()
        };
        let span_s = self.duration.map_or(20, |time| time.as_nanos().div_ceil(1_000_000_000));
        if !(6..=3600).contains(&span_s) {
            return Err(Failure::bad_input("--duration: a verdict takes from 6 s to an hour"));
        }
        let test_path = self.path.test_path(usual, span_s)?;
        // What is wrong with it is said before anything runs.
        test_path.path(false).map_err(|why| Failure::bad_input(format!("the path: {why}")))?;
        Ok(Some(test_path))
    }
}

/// The limits of the checks. Ctrl-C has ended the command, and what there is of it is still judged.
fn limits(test_paths: &[&TestPath]) -> Result<Limits, Failure> {
    say("judge: our own senders on the same paths");
    Limits::simulate(test_paths, &AtomicBool::new(false), |_| ()).map_err(Failure::run)
}

/// Quick verdicts on one sender after the other, by the same limits.
pub(crate) struct QuickJudge {
    test_paths: Vec<&'static TestPath>,
    limits: Limits,
}

impl QuickJudge {
    pub(crate) fn new() -> Result<Self, Failure> {
        let test_paths = judge::test_paths(true);
        let limits = limits(&test_paths)?;
        Ok(Self { test_paths, limits })
    }

    /// The verdict on a command with a server of its own at the other end.
    pub(crate) fn verdict(
        &self,
        server: &str,
        command: &[String],
        stop: &AtomicBool,
    ) -> Result<Judged, Failure> {
        let args = Args {
            server: Some(server.into()),
            quick: true,
            command: command.iter().map(OsString::from).collect(),
            ..Args::default()
        };
        let mut seen = Seen::default();
        seen.run(&args, ProgramPlace::Namespace, &self.test_paths, stop)?;
        if stop.load(Ordering::Relaxed) {
            return Err(Failure::interrupted(true));
        }
        Ok(Judged::of(&seen.views, &seen.missing, &self.limits))
    }
}

/// The defect, in a line.
fn verdict(judged: &Judged) -> Option<String> {
    let checks = judged.checks.iter().filter(|c| c.grade == Some(Grade::Broken));
    let checks: Vec<&str> = checks.map(|c| c.check.as_str()).collect();
    let defects: Vec<&str> = judged.defects.iter().map(|d| d.name.as_str()).collect();
    match (checks.as_slice(), defects.as_slice()) {
        ([], []) => None,
        (checks, []) => Some(format!("broken: {}", checks.join(", "))),
        ([], defects) => Some(format!("defects: {}", defects.join(", "))),
        (checks, defects) => {
            Some(format!("defects: {}; broken: {}", defects.join(", "), checks.join(", ")))
        }
    }
}

fn read_baseline(file: &PathBuf) -> Result<Judged, Failure> {
    let wrong = |why: String| Failure::bad_input(format!("--baseline {}: {why}", file.display()));
    let text = fs::read_to_string(file).map_err(|e| wrong(e.to_string()))?;
    let read: Baseline = serde_json::from_str(&text).map_err(|e| {
        wrong(format!("no JSON of fullpipe judge: {e}; write what fullpipe judge --json printed"))
    })?;
    match read.schema_version {
        SCHEMA_VERSION => Ok(read.judged),
        other => Err(wrong(format!(
            "its schema_version is {other}, and this program's {SCHEMA_VERSION}; record it again"
        ))),
    }
}

/// Observations so far.
#[derive(Default)]
struct Seen {
    views: Views,
    missing: BTreeMap<&'static str, String>,
    runs: Vec<ProgramResult>,
    /// True if the command's data goes up.
    is_up: bool,
    /// Seconds of runs that were made again because the machine was too busy.
    repeated_s: u64,
}

impl Seen {
    /// Runs the command on all paths, or until `stop` is set.
    fn run(
        &mut self,
        args: &Args,
        place: ProgramPlace,
        test_paths: &[&TestPath],
        stop: &AtomicBool,
    ) -> Result<(), Failure> {
        for (i, test_path) in test_paths.iter().enumerate() {
            if stop.load(Ordering::Relaxed) {
                self.missing.insert(test_path.name, "it was interrupted".to_owned());
                continue;
            }
            if test_path.company == Competitor::Cubic && args.udp.is_some() {
                let why = "a relay carries UDP, and has no flow of CUBIC beside it";
                self.missing.insert(test_path.name, why.to_owned());
                continue;
            }
            let (n, all) = (i + 1, test_paths.len());
            say(&format!(
                "judge: {n} of {all}: {}: {}, {} s",
                test_path.name, test_path.about, test_path.span_s
            ));
            let runner = Runner { args, place, test_path, is_up: self.is_up, stop };
            let (mut result, path) = runner.run()?;
            if !result.emulator.trusted
                && result.interrupted
                && !stop.load(Ordering::Relaxed)
                && self.repeated_s + test_path.span_s <= MOST_REPEATED_S
            {
                let why = result.emulator.warning.as_deref().unwrap_or_default();
                say(&format!("{}: once more: {why}", test_path.name));
                self.repeated_s += test_path.span_s;
                (result, _) = runner.run()?;
            }
            // Whoever cannot be judged here cannot be elsewhere either.
            if i == 0 && !result.interrupted {
                outcome(&result)?;
            }
            if i == 0 {
                self.is_up = result.up.payload_bytes > result.down.payload_bytes;
            }
            if let Some(warning) = &result.emulator.warning {
                say(&format!("{}: not to be trusted: {warning}", test_path.name));
            }
            if let Some(why) = self.take(test_path, result, &path, stop) {
                if i == 0 {
                    return Err(Failure::bad_input(why));
                }
                self.missing.insert(test_path.name, why);
            }
        }
        Ok(())
    }

    /// Keeps what was seen on a path; why it cannot be judged, where that is so.
    fn take(
        &mut self,
        test_path: &TestPath,
        mut result: ProgramResult,
        path: &program::ProgramPath,
        stop: &AtomicBool,
    ) -> Option<String> {
        let ended = (!result.interrupted).then_some(result.elapsed_s);
        let failed = result.ended.filter(|_| !result.interrupted).filter(|e| e.exit_code() != 0);
        let record = result.wire.take().unwrap_or_default();
        let name = result.command.first().map_or("", String::as_str).escape_debug().to_string();
        let is_cut = stop.load(Ordering::Relaxed);
        let cut = is_cut.then_some(result.elapsed_s);
        let active_s = result.active_s;
        self.runs.push(result);
        if let (Some(failed), true) = (failed, active_s < 1.0) {
            return Some(format!("'{name}' ended with {}", failed.in_words()));
        }
        let least = test_path.least_s();
        if let Some(ended) = ended
            && ended < least
        {
            return Some(format!(
                "the command transferred for {ended:.1} s, and a verdict takes {least:.0} s; give it more to transfer"
            ));
        }
        let end = test_path.span_s as f64;
        self.views.insert(test_path.name, View::of(&record, path, end, ended.or(cut)));
        None
    }
}
