//! `fullpipe peers bulk`: what stacks make of a path without a bottleneck.

use std::sync::atomic::Ordering;

use fullpipe_judge::peers::{
    self, BulkCase, BulkFigures, BulkReport, BulkSender, BulkSource, Chosen, Missing, PeersOptions,
};
use fullpipe_report::output::SCHEMA_VERSION;

use super::{Folder, install, itself};
use crate::failure::Failure;
use crate::interrupt::Interrupt;
use crate::{print, say};

/// The senders when none is named: that of noq's own CUBIC first, with which the others are
/// compared.
const SENDERS: [&str; 6] =
    ["noq:cubic", "fullpipe:cubic", "fullpipe:bbr3", "quinn:cubic", "s2n-quic:cubic", "quic-go"];

#[derive(clap::Args, Debug)]
pub(super) struct Bulk {
    /// The senders; the first is the one that the others are compared with [default: noq:cubic,
    /// fullpipe:cubic, fullpipe:bbr3, quinn:cubic, s2n-quic:cubic, quic-go]
    #[arg(value_name = "NAME")]
    names: Vec<String>,
    /// Transfers of each sender
    #[arg(long, value_name = "COUNT", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=1000))]
    rounds: u32,
    /// Where the servers have the data: memory, file, or both; those that cannot are left out
    #[arg(long, value_name = "PLACES", value_delimiter = ',', value_parser = source, default_value = "memory,file")]
    from: Vec<BulkSource>,
    /// Threads of each end; `fullpipe get` has one in any case
    #[arg(long, value_name = "COUNTS", value_delimiter = ',', value_parser = clap::value_parser!(u32).range(1..=64), default_value = "1")]
    threads: Vec<u32>,
    /// Install what is not there before the transfers
    #[arg(long)]
    install: bool,
    /// Print one JSON object in place of the table
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    folder: Folder,
}

/// A sender with its medians.
#[derive(serde::Serialize)]
struct Row<'a> {
    #[serde(flatten)]
    sender: &'a BulkSender,
    medians: Option<BulkFigures>,
}

impl Bulk {
    pub(super) fn run(&self) -> Result<(), Failure> {
        let (root, itself) = (self.folder.path()?, itself()?);
        let names = match self.names.as_slice() {
            [] => SENDERS.map(str::to_owned).to_vec(),
            some => some.to_vec(),
        };
        let stop = Interrupt::install()?.flag();
        // Each name by itself, so that their order stays.
        let mut senders: Vec<(&'static peers::Recipe, &'static str)> = Vec::new();
        for name in &names {
            let chosen = peers::choose(std::slice::from_ref(name)).map_err(Failure::bad_input)?;
            for Chosen { recipe, cc } in chosen {
                if !self.from.iter().any(|source| peers::has_bulk(recipe, *source)) {
                    let reason = format!("{} has no bulk transfer of that kind", recipe.name);
                    return Err(Failure::bad_input(reason));
                }
                let found = match self.install {
                    true => install(recipe, &root, &itself, &stop)?,
                    false => peers::installed(recipe, &root, &itself).map_err(|error| Missing {
                        name: recipe.name.clone(),
                        reason: error.to_string(),
                    }),
                };
                match found {
                    Ok(_stack) => senders.extend(cc.into_iter().map(|cc| (recipe, cc))),
                    Err(missing) => say(&format!("{} {}", missing.name, missing.reason)),
                }
            }
        }
        if senders.is_empty() {
            return Err(Failure::bad_input("no stack is there; the lines above say why"));
        }
        PeersOptions::prepare_at(&root).map_err(Failure::bad_input)?;
        peers::read_served(&root).map_err(Failure::run)?;
        let senders: Vec<_> = self
            .cases()
            .flat_map(|case| senders.iter().map(move |(recipe, cc)| (*recipe, *cc, case)))
            .filter(|(recipe, _, case)| peers::has_bulk(recipe, case.source))
            .collect();
        let named = senders.iter().map(|(recipe, cc, case)| (recipe.sender(cc), *case));
        let mut report = BulkReport::new(named);
        'all: for round in 1..=self.rounds {
            for ((recipe, cc, case), sender) in senders.iter().zip(&mut report.senders) {
                if sender.error.is_some() {
                    continue;
                }
                let result = peers::bulk_once(recipe, (cc, *case), &root, &itself, &stop);
                if stop.load(Ordering::Relaxed) {
                    report.interrupted = true;
                    break 'all;
                }
                match result {
                    Ok(run) => {
                        let (rate, cpu) = (run.goodput_gbps, run.server_cpu_s + run.client_cpu_s);
                        say(&format!(
                            "{round} of {}: {}, {}, {}: {rate:.2} Gbit/s, {cpu:.2} s of processor",
                            self.rounds,
                            sender.name,
                            case.source.name(),
                            case.threads
                        ));
                        sender.runs.push(run);
                    }
                    Err(error) => {
                        say(&format!("{}: {error}", sender.name));
                        sender.error = Some(error);
                    }
                }
            }
        }
        self.tell(&report)
    }

    fn cases(&self) -> impl Iterator<Item = BulkCase> + '_ {
        let threads = |source| move |threads: &u32| BulkCase { source, threads: *threads };
        self.from.iter().flat_map(move |source| self.threads.iter().map(threads(*source)))
    }

    fn tell(&self, report: &BulkReport) -> Result<(), Failure> {
        if self.json {
            let rows: Vec<Row<'_>> = report
                .senders
                .iter()
                .map(|sender| Row { sender, medians: report.figures(sender) })
                .collect();
            let object = serde_json::json!({
                "schema_version": SCHEMA_VERSION,
                "bytes": report.bytes,
                "base": report.base,
                "interrupted": report.interrupted,
                "senders": rows,
            });
            print(&format!("{object}\n"))?;
        } else {
            print(&format!("{}\n", report.table().to_text()))?;
        }
        let failed = report.senders.iter().filter(|sender| sender.error.is_some()).count();
        match (report.interrupted, failed) {
            (true, _) => {
                Err(Failure::interrupted(report.senders.iter().all(|s| s.runs.is_empty())))
            }
            (false, 0) => Ok(()),
            (false, 1) => Err(Failure::run("1 sender failed; the others are above")),
            (false, n) => Err(Failure::run(format!("{n} senders failed; the others are above"))),
        }
    }
}

fn source(text: &str) -> Result<BulkSource, String> {
    let known = BulkSource::ALL.into_iter().find(|source| source.name() == text);
    known.ok_or_else(|| format!("'{text}' is no place of data; there are memory and file"))
}
