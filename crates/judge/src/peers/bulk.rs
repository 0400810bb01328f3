//! Bulk transfers over loopback, without a path between: what a stack's own work costs. Each
//! transfer is of the stack's own server and client, and the senders take turns, so that what the
//! machine does meanwhile meets all of them. All servers have the data in memory or read the same
//! file, and all clients drop it.

use std::net::UdpSocket;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use std::{fs, io, thread};

use nix::sys::resource::{UsageWho, getrusage};
use nix::unistd::{SysconfVar, sysconf};
use serde::Serialize;

use super::install::{SERVED, SERVED_BYTES};
use super::recipe::{Ends, FILES_DIR, Placeholders, Recipe};
use fullpipe_lab::process::Process;
use fullpipe_report::output::table::Table;

const NAP: Duration = Duration::from_millis(2);
/// Longest time until a server listens.
const START: Duration = Duration::from_secs(10);
/// Longest time of a transfer, which a slow machine needs a part of.
const MOST: Duration = Duration::from_secs(300);

/// One transfer of a gigabyte.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct BulkRun {
    /// From the client's start to its end, which is a handshake and some milliseconds more than the
    /// transfer.
    pub seconds: f64,
    /// Bytes of the file, in 10^9 bits a second.
    pub goodput_gbps: f64,
    /// Processor time of the server.
    pub server_cpu_s: f64,
    /// Processor time of the client.
    pub client_cpu_s: f64,
}

/// The store of a server's data.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum BulkSource {
    /// In its memory: nothing is read.
    Memory,
    /// In a file, which is in the system's memory.
    File,
}

impl BulkSource {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Memory, Self::File];

    /// Its name in tables and switches.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Memory => "memory",
            Self::File => "file",
        }
    }
}

/// A way to transfer.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub struct BulkCase {
    /// The store of the server's data.
    pub source: BulkSource,
    /// Threads that each end may use for the connection. `fullpipe get` has one always.
    pub threads: u32,
}

/// A sender's transfers of one case.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct BulkSender {
    /// Its name.
    pub name: String,
    #[serde(flatten)]
    #[allow(missing_docs)]
    pub case: BulkCase,
    /// One for each round.
    pub runs: Vec<BulkRun>,
    /// The first failure, after which it has no more transfers.
    pub error: Option<String>,
}

/// All of them.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct BulkReport {
    /// Bytes of each transfer.
    pub bytes: u64,
    /// The sender that the others are compared with, in the same case: the first.
    pub base: String,
    /// In the order of the arguments.
    pub senders: Vec<BulkSender>,
    /// True if it was stopped before all rounds were done.
    pub interrupted: bool,
}

/// Medians of a sender.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct BulkFigures {
    /// Median of the goodput.
    pub goodput_gbps: f64,
    /// Median of the processor time of both ends for a gigabyte.
    pub cpu_s_per_gb: f64,
    /// The server's part of it.
    pub server_cpu_s_per_gb: f64,
    /// The goodput beside the base's: the ratio of the medians.
    pub ratio: Option<f64>,
    /// The processor time beside the base's: the median of the ratios of each round.
    pub cpu_ratio: Option<f64>,
}

/// Reads the file that servers serve, so that the first transfer does not wait for the disk's
/// cache.
///
/// # Errors
/// It cannot be read.
pub fn read_served(root: &Path) -> io::Result<u64> {
    io::copy(&mut fs::File::open(root.join(FILES_DIR).join(SERVED))?, &mut io::sink())
}

fn ends(recipe: &Recipe, source: BulkSource) -> Option<&Ends> {
    match source {
        BulkSource::Memory => recipe.bulk.memory.as_ref(),
        BulkSource::File => recipe.bulk.file.as_ref(),
    }
}

/// True if a stack can do a bulk transfer with its data there.
pub fn has_bulk(recipe: &Recipe, source: BulkSource) -> bool {
    ends(recipe, source).is_some()
}

/// Transfers a gigabyte once.
///
/// # Errors
/// A program does not start, or fails, or `stop` was set: in one line.
pub fn bulk_once(
    recipe: &Recipe,
    (cc, case): (&str, BulkCase),
    root: &Path,
    itself: &Path,
    stop: &AtomicBool,
) -> Result<BulkRun, String> {
    let port = free_port().map_err(|error| format!("no free port: {error}"))?;
    let places = Placeholders { root, itself, cc };
    let command = |template: &str| {
        let line = recipe.filled(template, places);
        let line = line.replace("{server}", "127.0.0.1").replace("{port}", &port.to_string());
        let line = line.replace("{threads}", &case.threads.to_string());
        made(&line).ok_or(line)
    };
    let Some(ends) = ends(recipe, case.source) else {
        return Err(format!("has no bulk transfer from {}", case.source.name()));
    };
    let (server, client) = (command(&ends.server)?, command(&ends.client)?);
    let (mut server, said) = Process::start_apart(server).map_err(|e| format!("server: {e}"))?;
    let begin = Instant::now();
    while !listens(port) {
        let ended = server.poll().map_err(|e| e.to_string())?.is_some();
        if ended || begin.elapsed() > START || stop.load(Ordering::Relaxed) {
            return Err(format!("its server does not listen: {}", said.last_words()));
        }
        thread::sleep(NAP);
    }
    let server_before = cpu_of(server.id()).ok_or("its server's processor time is not told")?;
    let children_before = cpu_of_children()?;
    let begin = Instant::now();
    let (mut client, said) = Process::start_apart(client).map_err(|e| format!("client: {e}"))?;
    let status = loop {
        if let Some(status) = client.poll().map_err(|e| e.to_string())? {
            break status;
        }
        if begin.elapsed() > MOST || stop.load(Ordering::Relaxed) {
            return Err("it was stopped".to_owned());
        }
        thread::sleep(NAP);
    };
    let seconds = begin.elapsed().as_secs_f64();
    let client_cpu_s = cpu_of_children()? - children_before;
    let server_cpu_s = cpu_of(server.id()).ok_or("its server is gone")? - server_before;
    // How it ends is no concern.
    let _ = server.end();
    if !status.success() {
        return Err(format!("its client ended with {status}: {}", said.last_words()));
    }
    let goodput_gbps = SERVED_BYTES as f64 * 8.0 / seconds / 1e9;
    Ok(BulkRun { seconds, goodput_gbps, server_cpu_s, client_cpu_s })
}

fn made(line: &str) -> Option<Command> {
    let words = shlex::split(line)?;
    let (program, arguments) = words.split_first()?;
    let mut command = Command::new(program);
    command.args(arguments);
    Some(command)
}

fn free_port() -> io::Result<u16> {
    Ok(UdpSocket::bind("127.0.0.1:0")?.local_addr()?.port())
}

/// True if a UDP socket has this port: the kernel's table has it in hexadecimal digits.
fn listens(port: u16) -> bool {
    has_port(&fs::read_to_string("/proc/net/udp").unwrap_or_default(), port)
}

fn has_port(table: &str, port: u16) -> bool {
    let end = format!(":{port:04X}");
    table
        .lines()
        .skip(1)
        .any(|line| line.split_whitespace().nth(1).is_some_and(|address| address.ends_with(&end)))
}

/// Processor time of a process that runs, in seconds.
fn cpu_of(process: u32) -> Option<f64> {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    // Behind the name, which may have spaces; user time is the 14th field and system time the 15th.
    let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
    let ticks: f64 = fields.get(11)?.parse::<f64>().ok()? + fields.get(12)?.parse::<f64>().ok()?;
    let rate = sysconf(SysconfVar::CLK_TCK).ok()??;
    Some(ticks / rate as f64)
}

/// Processor time of the children that have ended.
fn cpu_of_children() -> Result<f64, String> {
    let usage = getrusage(UsageWho::RUSAGE_CHILDREN).map_err(|error| error.to_string())?;
    let seconds =
        |time: nix::sys::time::TimeVal| time.tv_sec() as f64 + time.tv_usec() as f64 / 1e6;
    Ok(seconds(usage.user_time()) + seconds(usage.system_time()))
}

fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    match values.len() {
        0 => None,
        count if count % 2 == 1 => Some(values[middle]),
        _ => Some((values[middle - 1] + values[middle]) / 2.0),
    }
}

impl BulkSender {
    fn median_of(&self, value: fn(&BulkRun) -> f64) -> Option<f64> {
        median(self.runs.iter().map(value).collect())
    }
}

impl BulkRun {
    fn cpu_s(&self) -> f64 {
        self.server_cpu_s + self.client_cpu_s
    }
}

impl BulkReport {
    /// Of senders with these names in these cases, without a transfer.
    pub fn new(senders: impl IntoIterator<Item = (String, BulkCase)>) -> Self {
        let sender = |(name, case)| BulkSender { name, case, runs: Vec::new(), error: None };
        let senders: Vec<BulkSender> = senders.into_iter().map(sender).collect();
        let base = senders.first().map(|sender| sender.name.clone()).unwrap_or_default();
        Self { bytes: SERVED_BYTES, base, senders, interrupted: false }
    }

    /// A sender's medians; `None` if it has no transfer.
    pub fn figures(&self, sender: &BulkSender) -> Option<BulkFigures> {
        let gigabytes = self.bytes as f64 / 1e9;
        let goodput_gbps = sender.median_of(|run| run.goodput_gbps)?;
        let is_base = |other: &&BulkSender| other.name == self.base && other.case == sender.case;
        let base = self.senders.iter().find(is_base);
        let base_gbps = base.and_then(|base| base.median_of(|run| run.goodput_gbps));
        let rounds = base.map_or(&[][..], |base| &base.runs).iter().zip(&sender.runs);
        let cpu_ratios = rounds.map(|(base, own)| own.cpu_s() / base.cpu_s()).collect();
        Some(BulkFigures {
            goodput_gbps,
            cpu_s_per_gb: sender.median_of(BulkRun::cpu_s)? / gigabytes,
            server_cpu_s_per_gb: sender.median_of(|run| run.server_cpu_s)? / gigabytes,
            ratio: base_gbps.map(|base| goodput_gbps / base),
            cpu_ratio: median(cpu_ratios),
        })
    }

    /// A row for each sender that has a transfer.
    pub fn table(&self) -> Table {
        let header = vec![
            ("sender", ""),
            ("data in", ""),
            ("threads", ""),
            ("goodput", "Gbit/s"),
            ("", "least"),
            ("", "most"),
            ("beside", "the first"),
            ("processor", "s/GB"),
            ("", "server"),
            ("beside", "the first"),
            ("runs", ""),
        ];
        let row = |sender: &BulkSender| {
            let figures = self.figures(sender)?;
            let goodput = || sender.runs.iter().map(|run| run.goodput_gbps);
            let show = |value: f64| format!("{value:.2}");
            let beside =
                |ratio: Option<f64>| ratio.map_or_else(String::new, |ratio| format!("{ratio:.3}"));
            Some(vec![
                sender.name.clone(),
                sender.case.source.name().to_owned(),
                sender.case.threads.to_string(),
                show(figures.goodput_gbps),
                show(goodput().fold(f64::INFINITY, f64::min)),
                show(goodput().fold(0.0, f64::max)),
                beside(figures.ratio),
                show(figures.cpu_s_per_gb),
                show(figures.server_cpu_s_per_gb),
                beside(figures.cpu_ratio),
                sender.runs.len().to_string(),
            ])
        };
        Table { header, rows: self.senders.iter().filter_map(row).collect() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_medians_beside_the_first_sender() {
        let run = |seconds: f64, cpu: f64| BulkRun {
            seconds,
            goodput_gbps: 8.0 / seconds,
            server_cpu_s: cpu,
            client_cpu_s: 2.0 * cpu,
        };
        let case = |source| BulkCase { source, threads: 1 };
        let sender = |name: &str, source, runs| BulkSender {
            name: name.to_owned(),
            case: case(source),
            runs,
            error: None,
        };
        let (memory, file) = (BulkSource::Memory, BulkSource::File);
        let report = BulkReport {
            bytes: 1_000_000_000,
            base: "a".to_owned(),
            senders: vec![
                sender("a", memory, vec![run(2.0, 1.0), run(4.0, 2.0), run(100.0, 3.0)]),
                sender("b", memory, vec![run(8.0, 2.0), run(8.0, 1.0)]),
                sender("c", memory, vec![]),
                sender("b", file, vec![run(1.0, 1.0)]),
            ],
            interrupted: false,
        };
        let a = report.figures(&report.senders[0]).expect("it has runs");
        assert_eq!((a.goodput_gbps, a.cpu_s_per_gb, a.ratio), (2.0, 6.0, Some(1.0)));
        let b = report.figures(&report.senders[1]).expect("it has runs");
        assert_eq!((b.server_cpu_s_per_gb, b.ratio), (1.5, Some(0.5)));
        // Twice as much in the first round, and half as much in the second.
        assert_eq!(b.cpu_ratio, Some(1.25));
        let alone = report.figures(&report.senders[3]).expect("it has a run");
        assert_eq!((alone.ratio, alone.cpu_ratio), (None, None), "the first has no file");
        assert_eq!(report.table().rows.len(), 3, "one has none");
    }

    #[test]
    fn a_socket_and_a_process_are_found() {
        let table = "   sl  local_address rem_address   st tx_queue\n\
                     42: 0100007F:E31D 00000000:0000 07 00000000:00000000 00:00000000\n\
                     43: 00000000:0044 0100007F:1F90 01 00000000:00000000 00:00000000\n";
        assert!(has_port(table, 58_141) && has_port(table, 68));
        assert!(!has_port(table, 8080), "the other end's");
        assert!(!has_port(table, 0xE3) && !has_port("", 68));
        assert!(cpu_of(std::process::id()).is_some_and(|seconds| seconds >= 0.0));
        assert!(cpu_of_children().is_ok_and(|seconds| seconds >= 0.0));
    }
}
