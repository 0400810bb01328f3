//! `fullpipe compare`: algorithms side by side on the same path.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use fullpipe_cc::{Algorithm, Duration, Rate};
use fullpipe_lab::output::results::{ComparisonResults, ScenarioResults};
use fullpipe_lab::output::{report, summary};
use fullpipe_lab::units::{self, Buffer};
use fullpipe_lab::{Amount, Cc, LinkKind, Over, RunError, Scenario};
use fullpipe_path::Probability;
use fullpipe_quic::CongestionControl;
use serde::Serialize;

use crate::failure::Failure;
use crate::interrupt::Interrupt;
use crate::live::Live;
use crate::{print, say};

/// Where the report goes when nothing else is said.
const REPORT: &str = "fullpipe-report.html";

/// What runs over tcp when nothing else is said.
const TCP_CC: [&str; 2] = ["linux:bbr", "linux:cubic"];

/// Compare congestion control algorithms on one path, or on two
///
/// Each algorithm runs alone, one after the other, on a fresh path with the same seed. Without
/// --rate, --rtt, --buffer, --loss, --flows, --stagger and --bytes there are two paths, both of
/// 100 Mbit/s and 40 ms: a buffer of 6 BDP without loss, then one of 1 BDP with 1 % random loss.
#[derive(clap::Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// What carries the flows: quic (real packets on a link inside this process, in real time), tcp
    /// (the kernel's, between network namespaces; needs Linux and root) or sim (a virtual clock)
    #[arg(long, value_name = "BACKEND", default_value = "quic")]
    over: Over,
    /// What is between the ends: udp (inside this process), tun (between two network namespaces; needs
    /// Linux and root) or netem (the kernel's own, between two network namespaces; for --over tcp, needs root
    /// and a kernel that has it) [default: udp over quic, tun over tcp]
    #[arg(long, value_name = "LINK")]
    link: Option<LinkKind>,
    /// The algorithms: bbr3, bbr3-linux, bbr1, cubic, reno, and noq's own noq:bbr3, noq:cubic, noq:reno;
    /// over tcp bbr3-linux (also by the name bbr3; loaded into the kernel for the run) and those that the
    /// kernel has, like linux:bbr, linux:cubic, linux:reno [default: bbr3,cubic; over tcp linux:bbr,linux:cubic]
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    cc: Vec<Cc>,
    /// Rate of the bottleneck, IP and UDP headers included, like 100mbit, 1gbit or 500kbit
    /// [default: 100mbit]
    #[arg(long, value_parser = units::parse_rate, allow_hyphen_values = true)]
    rate: Option<Rate>,
    /// Round-trip propagation delay, like 40ms, 1s or 200us [default: 40ms]
    #[arg(long, value_name = "TIME", value_parser = units::parse_duration, allow_hyphen_values = true)]
    rtt: Option<Duration>,
    /// The bottleneck's buffer, like 1bdp (rate x rtt), 6MB or 700pkts [default: 1bdp]
    #[arg(long, value_name = "SIZE", allow_hyphen_values = true)]
    buffer: Option<Buffer>,
    /// Random loss, like 0.1% or 0.001 [default: 0%]
    #[arg(long, value_parser = units::parse_loss, allow_hyphen_values = true)]
    loss: Option<Probability>,
    /// Flows that share the path, all with the same algorithm [default: 1]
    #[arg(long, value_name = "N", value_parser = units::parse_count::<u32>, allow_negative_numbers = true)]
    flows: Option<u32>,
    /// Time between the starts of two flows, like 1s [default: 0s]
    #[arg(long, value_name = "TIME", value_parser = units::parse_duration, allow_hyphen_values = true)]
    stagger: Option<Duration>,
    /// How long each algorithm runs [default: 10s]
    #[arg(long, value_name = "TIME", value_parser = units::parse_duration, allow_hyphen_values = true)]
    duration: Option<Duration>,
    /// Run until each flow has received this much, like 100MB (10^8 bytes) or 1GiB (2^30)
    #[arg(long, value_name = "SIZE", value_parser = units::parse_bytes, allow_hyphen_values = true, conflicts_with = "duration")]
    bytes: Option<u64>,
    /// Seed of everything random
    #[arg(long, value_name = "N", value_parser = units::parse_count::<u64>, default_value_t = 1, allow_negative_numbers = true)]
    seed: u64,
    /// Print one JSON object and nothing else; write a report only if --report is given
    #[arg(long)]
    json: bool,
    /// Where to write the report [default: fullpipe-report.html]
    #[arg(long, value_name = "FILE.html")]
    report: Option<PathBuf>,
}

const EXAMPLES: &str = "\
Examples:
  fullpipe compare
  fullpipe compare --cc bbr3,noq:bbr3
  fullpipe compare --rate 50mbit --rtt 80ms --buffer 2bdp --loss 0.1% --duration 20s
  sudo fullpipe compare --over tcp --cc bbr3,linux:bbr,linux:cubic
  fullpipe compare --over sim --flows 4 --stagger 5s --duration 1min --json

With two paths the JSON object is {\"scenarios\": [...]}, each entry as the whole object of one path:
{\"scenario\": {...}, \"results\": [...]}.";

pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    let scenarios = args.scenarios();
    for scenario in &scenarios {
        fullpipe_lab::check(scenario).map_err(Failure::bad_input)?;
    }
    if args.over == Over::Tcp && args.cc.contains(&ours(Algorithm::Bbr3)) {
        say("over tcp bbr3 is bbr3-linux, Linux's flavour: BPF, in the kernel for this run alone");
    }
    if args.link == Some(LinkKind::Netem) {
        say(
            "over the kernel's netem: its queue is looked at every 10 ms and not at each packet, and \
             whether it kept its time is not known, so that no run is marked (!)",
        );
    }
    let report = args.report_path();
    if let Some(path) = &report {
        report::check_writable(path).map_err(Failure::bad_input)?;
    }
    let stop = Interrupt::install()?.flag();
    let mut done = Vec::new();
    let mut failed = 0;
    for scenario in &scenarios {
        if stop.load(Ordering::Relaxed) && !done.is_empty() {
            break;
        }
        done.push(run_scenario(scenario, &stop, &mut failed));
    }
    let interrupted = stop.load(Ordering::Relaxed);
    let nothing = done.iter().all(|s| s.results.is_empty());
    if args.json {
        print_json(done.clone(), scenarios.len() > 1, interrupted)?;
    } else if !nothing {
        print_table(&done)?;
    }
    // A report about nothing would take the place of the one from before.
    if let Some(path) = report.as_ref().filter(|_| !nothing) {
        report::write(path, &done).map_err(Failure::run)?;
        tell_report(path, args.json)?;
    }
    if interrupted {
        return Err(Failure::interrupted(nothing));
    }
    match failed {
        0 => Ok(()),
        _ if nothing => Err(Failure::run("no run gave a result")),
        n => Err(Failure::run(format!("{n} of the runs failed; the others are above"))),
    }
}

impl Args {
    /// The scenario that the arguments describe, or the two paths when they describe none.
    fn scenarios(&self) -> Vec<Scenario> {
        let usual = Scenario::default();
        let own = Scenario {
            over: self.over,
            link: self.link,
            cc: self.algorithms(),
            rate: self.rate.unwrap_or(usual.rate),
            rtt: self.rtt.unwrap_or(usual.rtt),
            buffer: self.buffer.unwrap_or(usual.buffer),
            loss: self.loss.unwrap_or(usual.loss),
            flows: self.flows.unwrap_or(usual.flows),
            stagger: self.stagger.unwrap_or(usual.stagger),
            amount: match (self.duration, self.bytes) {
                (Some(d), _) => Amount::Duration(d),
                (None, Some(n)) => Amount::Bytes(n),
                (None, None) => usual.amount,
            },
            seed: self.seed,
        };
        if self.describes_a_path() {
            return vec![own];
        }
        let deep = Scenario { buffer: Buffer::Bdp(6.0), ..own.clone() };
        // One percent is a probability; the fallback is never taken.
        let one_percent = Probability::new(0.01).unwrap_or_default();
        vec![deep, Scenario { buffer: Buffer::Bdp(1.0), loss: one_percent, ..own }]
    }

    fn algorithms(&self) -> Vec<Cc> {
        match self.over {
            Over::Tcp if self.cc.is_empty() => {
                TCP_CC.iter().filter_map(|name| name.parse().ok()).collect()
            }
            Over::Tcp => self.cc.iter().map(|&cc| over_tcp(cc)).collect(),
            _ if !self.cc.is_empty() => self.cc.clone(),
            Over::Quic | Over::Sim => Scenario::default().cc,
        }
    }

    fn describes_a_path(&self) -> bool {
        self.rate.is_some()
            || self.rtt.is_some()
            || self.buffer.is_some()
            || self.loss.is_some()
            || self.flows.is_some()
            || self.stagger.is_some()
            || self.bytes.is_some()
    }

    fn report_path(&self) -> Option<PathBuf> {
        let usual = (!self.json).then(|| PathBuf::from(REPORT));
        self.report.clone().or(usual)
    }
}

fn ours(algorithm: Algorithm) -> Cc {
    CongestionControl::Fullpipe(algorithm).into()
}

/// The kernel's program is Linux's flavour of bbr3, and results have that name.
fn over_tcp(cc: Cc) -> Cc {
    if cc == ours(Algorithm::Bbr3) { ours(Algorithm::Bbr3Linux) } else { cc }
}

/// Every algorithm of a scenario. One that fails says so and does not keep the others from running.
fn run_scenario(scenario: &Scenario, stop: &AtomicBool, failed: &mut usize) -> ScenarioResults {
    let record = scenario.record();
    let path = summary::short_name(&record);
    let mut results = Vec::new();
    for &cc in &scenario.cc {
        if stop.load(Ordering::Relaxed) {
            break;
        }
        let amount = match scenario.amount {
            Amount::Duration(d) => units::show_duration(d),
            Amount::Bytes(n) => units::show_bytes(n),
        };
        let mut live = Live::start(format!("{cc} on {path}"), &amount);
        let outcome = fullpipe_lab::run(scenario, cc, stop, &mut |tick| live.tick(&tick));
        match outcome {
            Ok(result) => {
                let mbit = result.goodput_bps as f64 / 1e6;
                let p95 = result.queue_ms.p95;
                live.end(Some(&format!("{mbit:.1} Mbit/s, queue p95 {p95:.1} ms")));
                results.push(result);
            }
            Err(RunError::StoppedEarly) => live.end(None),
            Err(error) => {
                live.end(None);
                *failed += 1;
                say(&format!("error: {cc} on {path}: {error}"));
            }
        }
    }
    let interrupted = stop.load(Ordering::Relaxed);
    ScenarioResults { scenario: record, results, interrupted }
}

fn print_json(
    mut done: Vec<ScenarioResults>,
    several: bool,
    interrupted: bool,
) -> Result<(), Failure> {
    match done.pop() {
        Some(only) if !several => print_object(&only),
        last => {
            done.extend(last);
            print_object(&ComparisonResults { scenarios: done, interrupted })
        }
    }
}

fn print_object(object: &impl Serialize) -> Result<(), Failure> {
    let text = serde_json::to_string(object).map_err(Failure::run)?;
    print(&format!("{text}\n"))
}

fn print_table(done: &[ScenarioResults]) -> Result<(), Failure> {
    let mut text = summary::table(done).to_text();
    for warning in summary::warnings(done) {
        text.push_str(&format!("not to be trusted (!): {warning}\n"));
    }
    print(&text)
}

/// The path of the report is a result; beside JSON it is only news.
fn tell_report(path: &Path, json: bool) -> Result<(), Failure> {
    let line = format!("report: {}", path.display());
    if json {
        say(&line);
        return Ok(());
    }
    print(&format!("{line}\n"))
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

    #[test]
    fn without_a_path_there_are_the_two() {
        for line in ["", "--json", "--cc bbr3,noq:bbr3", "--duration 3s --seed 7", "--over sim"] {
            let paths: Vec<_> =
                parse(line).scenarios().iter().map(|s| summary::short_name(&s.record())).collect();
            assert_eq!(paths, ["100mbit 40ms 6bdp", "100mbit 40ms 1bdp 1%"], "{line}");
        }
        let s = parse("--duration 3s --seed 7").scenarios();
        assert!(s.iter().all(|s| s.amount == Amount::Duration(Duration::from_secs(3))));
        assert!(s.iter().all(|s| s.seed == 7));
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
            let s = parse(line).scenarios();
            assert_eq!(s.len(), 1, "{line}");
            assert_eq!(summary::short_name(&s[0].record()), name);
        }
    }

    #[test]
    fn the_usual_algorithms_are_those_of_the_backend() {
        let names = |line| {
            let cc = parse(line).scenarios()[0].cc.clone();
            cc.iter().map(ToString::to_string).collect::<Vec<_>>()
        };
        assert_eq!(names("--over sim"), ["bbr3", "cubic"]);
        assert_eq!(names("--over tcp"), ["linux:bbr", "linux:cubic"]);
        assert_eq!(names("--over tcp --cc linux:reno"), ["linux:reno"]);
        assert_eq!(names("--over tcp --cc bbr3,linux:bbr"), ["bbr3-linux", "linux:bbr"]);
        assert_eq!(names("--over sim --cc bbr3"), ["bbr3"]);
    }

    #[test]
    fn json_writes_a_report_only_where_it_was_told_to() {
        assert_eq!(parse("").report_path(), Some(REPORT.into()));
        assert_eq!(parse("--json").report_path(), None);
        assert_eq!(parse("--json --report a.html").report_path(), Some("a.html".into()));
    }
}
