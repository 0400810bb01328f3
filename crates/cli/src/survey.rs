//! `fullpipe survey`: random paths, and where an algorithm falls short of others.

use std::num::NonZeroUsize;
use std::path::PathBuf;

use fullpipe_lab::output::{create_dir, page};
use fullpipe_lab::units;
use fullpipe_lab::{BackendChoice, Cc, LinkKind};
use fullpipe_survey::Kind;
use fullpipe_survey::judge::{Reference, judge};
use fullpipe_survey::report;
use fullpipe_survey::run::{Options, Survey};
use fullpipe_survey::text::Senders;

use crate::experiment::Memory;
use crate::failure::Failure;
use crate::interrupt::Interrupt;
use crate::live::Live;
use crate::{print, say};

/// Draw random paths, run algorithms on each, and say where one falls below another
#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    /// The algorithms; the first is compared with each of the others
    #[arg(
        long,
        short = 'c',
        value_name = "NAMES",
        value_delimiter = ',',
        default_value = "bbr3x,bbr3,cubic"
    )]
    cc: Vec<Cc>,
    /// Number of paths
    #[arg(long, short = 'n', value_name = "N", value_parser = units::parse_count_above_0, default_value = "500", allow_negative_numbers = true)]
    paths: NonZeroUsize,
    /// Seed of the paths: path 17 of a seed is the same in each survey with the same --kind
    #[arg(long, value_name = "N", value_parser = units::parse_count::<u64>, default_value_t = 1, allow_negative_numbers = true)]
    seed: u64,
    /// Disturbances of these kinds alone
    #[arg(long, value_name = "KINDS", value_delimiter = ',')]
    kind: Vec<Kind>,
    /// A goodput below this part of the reference's falls short
    #[arg(long, value_name = "RATIO", default_value_t = 0.95)]
    limit: f64,
    /// Write a scenario file of so many of the worst paths of each measure
    #[arg(long, value_name = "N", value_parser = units::parse_count::<usize>, default_value_t = 3, allow_negative_numbers = true)]
    shrink: usize,
    /// The directory for the results
    #[arg(long, short = 'o', value_name = "DIR", default_value = "fullpipe-survey")]
    out: PathBuf,
    /// What carries the flows, as in fullpipe run
    #[arg(
        long,
        short = 'b',
        visible_alias = "over",
        value_name = "BACKEND",
        default_value = "sim"
    )]
    backend: BackendChoice,
    /// What is between the ends in real time: udp, tun or netem [default: udp for quic, tun for tcp]
    #[arg(long, value_name = "LINK")]
    link: Option<LinkKind>,
    /// Runs at a time under a virtual clock [default: as many as there are cores]
    #[arg(long, short = 'j', value_name = "N", value_parser = units::parse_count_above_0, allow_negative_numbers = true)]
    jobs: Option<NonZeroUsize>,
    #[command(flatten)]
    memory: Memory,
}

pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    let stop = Interrupt::install()?.flag();
    let cores = || std::thread::available_parallelism().map_or(1, NonZeroUsize::get);
    let link = args.backend.link(args.link).map_err(Failure::bad_input)?;
    let senders =
        Senders { names: args.cc.iter().map(ToString::to_string).collect(), programs: Vec::new() };
    let survey = Survey::new(Options {
        paths: args.paths.get() as u64,
        seed: args.seed,
        kinds: args.kind.clone(),
        senders,
        backend: args.backend,
        link,
        jobs: args.jobs.map_or_else(cores, NonZeroUsize::get),
        max_memory: args.memory.max_memory,
    })
    .map_err(Failure::bad_input)?;
    create_dir(&args.out).map_err(Failure::bad_input)?;
    let runs = survey.runs();
    let mut live = Live::of_runs("survey", runs, false);
    let outcomes = survey.run(&stop, |done| live.runs(done, runs));
    live.end(None);
    for failed in &outcomes.failed {
        say(&format!("error: path {}, {}: {}", failed.path, failed.cc, failed.reason));
    }
    let names = &survey.options.senders.names;
    let others = names[1..].iter().map(|name| Reference::Algorithm(name.clone()));
    let best = (names.len() > 2).then_some(Reference::Best);
    for reference in others.chain(best) {
        let pair = judge(&survey, &outcomes.done, &names[0], &reference, args.limit);
        print(&report::table(&pair, args.limit))?;
        for comparison in &pair.comparisons {
            let short = comparison.points.iter().filter(|point| point.short);
            for point in short.take(args.shrink) {
                let Some(path) = survey.paths.iter().find(|p| p.case.path == point.path) else {
                    continue;
                };
                let text = report::worst_file(
                    &pair,
                    comparison,
                    point,
                    &path.case,
                    &survey.options.senders,
                    args.seed,
                    args.limit,
                );
                let file = args.out.join(report::file_name(&pair, comparison.measure, point.path));
                page::write_text(&file, &text).map_err(Failure::run)?;
                print(&format!("{}: {}\n", file.display(), path.case))?;
            }
        }
    }
    if outcomes.interrupted {
        return Err(Failure::interrupted(outcomes.done.is_empty()));
    }
    match outcomes.failed.len() {
        0 => Ok(()),
        n => Err(Failure::run(format!("{n} of the runs failed; the others are above"))),
    }
}
