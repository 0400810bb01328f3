//! `fullpipe compare`: algorithms side by side on the same path.

use std::path::PathBuf;

use fullpipe_cc::Duration;
use fullpipe_lab::RunOptions;
use fullpipe_lab::run::ROWS;
use fullpipe_report::output::page;
use fullpipe_report::plan::Options;
use fullpipe_scenario::units;
use fullpipe_scenario::{Cc, LinkKind, Stack};

use crate::experiment::{Experiment, Memory, Outputs, check, perform};
use crate::failure::Failure;
use crate::interrupt::Interrupt;
use crate::over_args::{OverArgs, choose_for};
use crate::path_args::PathArgs;
use crate::pictures::Pictures;
use crate::say;

/// The file of the report without --report.
const REPORT: &str = "fullpipe-report.html";

/// Names of the algorithms over linux when none is named.
const TCP_CC: [&str; 2] = ["linux:bbr", "linux:cubic"];

/// Compare congestion control algorithms on one path, or on two
///
/// Each algorithm runs alone, one after the other, on a fresh path with the same seed. Without
/// --rate, --rtt, --buffer, --loss, --flows, --stagger, --bytes and what else says of the path
/// there are two paths, both of 100 Mbit/s and 40 ms: a buffer of 6 BDP without loss, then one of 1
/// BDP with 1 % random loss.
#[derive(clap::Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    #[command(flatten)]
    over: OverArgs,
    /// The algorithms: bbr3, bbr3x, bbr3-linux, bbr3x-linux, bbr-swift, prague, bbr1, cubic, reno,
    /// fixed:RATE; over noq its own noq:bbr3, noq:cubic, noq:reno, over quinn quinn:bbr,
    /// quinn:cubic, quinn:reno, over s2n s2n:bbr, s2n:cubic; over linux bbr3 and bbr3x (as
    /// bbr3-linux and bbr3x-linux, loaded into the kernel for the run), cubic, reno and those that
    /// the kernel has, like linux:bbr, linux:cubic, linux:reno [default: bbr3,cubic; over linux
    /// linux:bbr,linux:cubic]
    #[arg(long, short = 'c', value_name = "NAMES", value_delimiter = ',')]
    cc: Vec<Cc>,
    /// Another sender beside them, over linux: two programs, as a scenario file has them, 'NAME = {
    /// server = "COMMAND", client = "COMMAND", sends = "server" }'; may be given several times
    #[arg(long, value_name = "NAME={...}", value_parser = parse_program)]
    program: Vec<(String, toml::Value)>,
    /// Flows that share the path, all with the same algorithm [default: 1]
    #[arg(long, value_name = "N", value_parser = units::parse_count::<u64>, allow_negative_numbers = true)]
    flows: Option<u64>,
    /// Time between the starts of two flows, like 1s [default: 0s]
    #[arg(long, value_name = "TIME", value_parser = units::parse_duration, allow_hyphen_values = true)]
    stagger: Option<Duration>,
    /// Duration of each algorithm's run [default: 10s]
    #[arg(long, short = 'd', value_name = "TIME", value_parser = units::parse_duration, allow_hyphen_values = true)]
    duration: Option<Duration>,
    /// Run until each flow has received this much, like 100MB (10^8 bytes) or 1GiB (2^30)
    #[arg(long, value_name = "SIZE", value_parser = units::parse_bytes, allow_hyphen_values = true, conflicts_with = "duration")]
    bytes: Option<u64>,
    #[command(flatten)]
    path: PathArgs,
    /// Print one JSON object and nothing else; write a report only if --report is given
    #[arg(long)]
    json: bool,
    /// The file of the report [default: fullpipe-report.html]
    #[arg(long, short = 'r', value_name = "FILE.html")]
    report: Option<PathBuf>,
    #[command(flatten)]
    pictures: Pictures,
    #[command(flatten)]
    memory: Memory,
}

const EXAMPLES: &str = "\
Examples:
  fullpipe compare
  fullpipe compare --stack noq --cc bbr3,noq:bbr3
  fullpipe compare --svg plots --series-csv series.csv
  fullpipe compare --scenario scenarios/quickstart.toml --cc bbr3x,reno
  fullpipe compare --stack quinn --cc bbr3,quinn:bbr,quinn:cubic
  fullpipe compare --stack quinn --clock real --cc bbr3,quinn:bbr,quinn:cubic
  fullpipe compare --stack s2n --cc bbr3,s2n:bbr,s2n:cubic
  fullpipe compare --trace drive.csv --rtt 50ms --up-rate 2mbit --queue codel
  fullpipe compare --rate 50mbit --rtt 80ms --buffer 2bdp --loss 0.1% --duration 20s
  sudo fullpipe compare --stack linux --cc bbr3,linux:bbr,linux:cubic
  sudo fullpipe compare --stack linux --cc linux:bbr --program 'mine = { server = \"my-server {port}\", client = \"my-client {server} {port}\", sends = \"server\" }'
  fullpipe compare --flows 4 --stagger 5s --duration 1min --json

The options make a scenario like a file's: the JSON object is that of fullpipe run, and its field toml is a file
that runs the same again.";

pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    // Before anything is said: who reads it may want an end.
    let stop = Interrupt::install()?.flag();
    let plan = args.options()?.plan().map_err(Failure::BadInput)?;
    let experiments = [Experiment { plan, file: None }];
    let mut outputs = Outputs { json: args.json, report: args.report_path(), ..Outputs::default() };
    outputs.pictures = args.pictures.clone();
    // Nobody asked for the usual one: that it cannot be written costs the report alone.
    let mut no_report = None;
    if args.report.is_none()
        && let Some(Err(error)) = outputs.report.as_deref().map(page::check_replaceable)
    {
        no_report = Some(format!("no report: {error}"));
        outputs.report = None;
    }
    let shows_series = outputs.json || outputs.report.is_some() || outputs.pictures.is_any();
    outputs.rows = shows_series.then_some(ROWS);
    let (backend, link) = choose_for(&experiments, &args.over)?;
    let (link, _) = check(&experiments, backend, link, &outputs, 1, args.memory)?;
    // Behind the check, because bad input gets one line.
    if let Some(no_report) = no_report {
        say(&no_report);
    }
    for name in ["bbr3", "bbr3x"] {
        if backend.stack() == Stack::Linux && args.cc.iter().any(|cc| cc.to_string() == name) {
            say(&format!(
                "over linux {name} is {name}-linux, Linux's flavour: BPF, in the kernel for this run alone"
            ));
        }
    }
    if link == Some(LinkKind::Netem) {
        say(
            "over the kernel's netem: its queue is looked at every 10 ms and not at each packet, and \
             whether it kept its time is not known, so that no run is marked (!)",
        );
    }
    let rows = outputs.rows;
    let options = RunOptions { backend, link, rows, ..RunOptions::default() };
    perform(&experiments, &options, 1, &outputs, &stop)
}

/// The algorithms over linux when none is named.
fn kernels() -> Vec<Cc> {
    TCP_CC.iter().filter_map(|name| name.parse().ok()).collect()
}

/// `NAME = { … }` as TOML has it.
pub(crate) fn parse_program(text: &str) -> Result<(String, toml::Value), String> {
    let like = "write NAME = { server = \"COMMAND\", client = \"COMMAND\" }";
    let table: toml::Table = text.parse().map_err(|e: toml::de::Error| {
        format!("{}; {like}", e.message().replace(['\n', '\r'], " "))
    })?;
    let number = table.len();
    match table.into_iter().next() {
        Some((name, commands)) if number == 1 && commands.is_table() && is_plain(&name) => {
            Ok((name, commands))
        }
        _ => Err(format!("not one program with a name of letters, digits, - and _; {like}")),
    }
}

fn is_plain(name: &str) -> bool {
    !name.is_empty() && name.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_".contains(&b))
}

impl Args {
    /// The scenario that the arguments describe, or the two paths when they describe none.
    fn options(&self) -> Result<Options, Failure> {
        let usual = Options::default();
        let show = |text: Option<String>, usual: String| text.unwrap_or(usual);
        let own = self.path.over(Options {
            cc: self.cc.clone(),
            over: self.over.named(),
            programs: self.program.clone(),
            flows: self.flows.unwrap_or(usual.flows),
            stagger: show(self.stagger.map(units::show_duration), usual.stagger),
            bytes: self.bytes.map(units::show_bytes),
            ..Options::default()
        })?;
        let of_file = own.network.as_ref().and_then(|network| network.duration.clone());
        let duration = self.duration.map(units::show_duration).or(of_file);
        let cc = match own.cc.is_empty() {
            true if own.over.stack() == Stack::Linux => kernels(),
            true => usual.cc,
            false => own.cc,
        };
        let own = Options { duration: show(duration, usual.duration), cc, ..own };
        if self.describes_a_path() {
            return Ok(own);
        }
        let path = |buffer: &str, loss: &str| (buffer.to_owned(), loss.to_owned());
        Ok(Options { paths: vec![path("6bdp", "0%"), path("1bdp", "1%")], ..own })
    }

    fn describes_a_path(&self) -> bool {
        self.path.is_any() || self.flows.is_some() || self.stagger.is_some() || self.bytes.is_some()
    }

    fn report_path(&self) -> Option<PathBuf> {
        let usual = (!self.json).then(|| PathBuf::from(REPORT));
        self.report.clone().or(usual)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Command {
        #[command(flatten)]
        args: Args,
    }

    fn parse(line: &str) -> Args {
        let words = std::iter::once("compare").chain(line.split_whitespace());
        Command::try_parse_from(words).unwrap_or_else(|e| panic!("{line}: {e}")).args
    }

    fn options(line: &str) -> Options {
        parse(line).options().unwrap_or_else(|_| panic!("{line}"))
    }

    #[test]
    fn without_a_path_there_are_the_two() {
        for line in [
            "",
            "--json",
            "--cc bbr3,noq:bbr3",
            "--stack quinn --clock real --cc quinn:bbr",
            "--stack quinn --cc quinn:bbr",
            "--stack s2n --cc s2n:bbr",
            "--duration 3s --seed 7",
            "--stack sim",
        ] {
            let plan = options(line).plan().expect(line);
            let mut paths: Vec<_> = plan.grid.runs.iter().map(|r| r.at[0].1.as_str()).collect();
            paths.dedup();
            assert_eq!(paths, ["100mbit 40ms 6bdp", "100mbit 40ms 1bdp 1%"], "{line}");
        }
        let o = options("--duration 3s --seed 7");
        assert_eq!((o.duration.as_str(), o.seed), ("3s", 7));
    }

    #[test]
    fn any_word_about_the_path_makes_it_one() {
        for (line, name) in [
            ("--rate 1gbit", "1gbit 40ms 1bdp"),
            ("--rtt 5ms", "100mbit 5ms 1bdp"),
            ("--buffer 700pkts", "100mbit 40ms 700pkts"),
            ("--loss 0.5%", "100mbit 40ms 1bdp 0.5%"),
            ("--flows 3", "100mbit 40ms 1bdp 3 flows"),
            ("--bytes 100MB", "100mbit 40ms 1bdp"),
        ] {
            let plan = options(line).plan().expect(line);
            assert_eq!(plan.grid.axes, ["cc"], "{line}");
            assert_eq!(plan.name, name);
        }
    }

    #[test]
    fn a_program_is_written_as_in_a_file() {
        let (name, table) = parse_program("mine = { client = \"x {port}\" }").expect("a program");
        assert_eq!((name.as_str(), table["client"].as_str()), ("mine", Some("x {port}")));
        let options = Options { programs: vec![(name, table)], ..options("--rate 1mbit") };
        let plan = options.plan().expect("a plan");
        let senders: Vec<_> = plan.grid.runs.iter().map(|run| run.at[0].1.as_str()).collect();
        assert_eq!(senders, ["bbr3", "cubic", "program:mine"]);
        for wrong in ["", "mine", "x = 1", "\"a b\" = {}", "a = {}\nb = {}", "a = {"] {
            let why = parse_program(wrong).expect_err(wrong);
            assert!(why.contains("write NAME = {") && !why.contains('\n'), "{wrong}: {why}");
        }
    }

    #[test]
    fn the_usual_algorithms_are_those_of_the_backend() {
        let names = |line| {
            let cc = options(line).cc;
            cc.iter().map(ToString::to_string).collect::<Vec<_>>()
        };
        assert_eq!(names("--stack sim"), ["bbr3", "cubic"]);
        assert_eq!(names("--stack linux"), ["linux:bbr", "linux:cubic"]);
        assert_eq!(names("--stack linux --cc linux:reno"), ["linux:reno"]);
        assert_eq!(names("--stack linux --cc bbr3,linux:bbr"), ["bbr3", "linux:bbr"]);
        assert_eq!(names("--stack sim --cc bbr3"), ["bbr3"]);
    }

    #[test]
    fn json_writes_a_report_only_where_it_was_told_to() {
        assert_eq!(parse("").report_path(), Some(REPORT.into()));
        assert_eq!(parse("--json").report_path(), None);
        assert_eq!(parse("--json --report a.html").report_path(), Some("a.html".into()));
    }
}
