//! Results of a program's run, from the wire alone.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;

use fullpipe_cc::Duration;
use fullpipe_emu::{CaptureReport, DirectionReport, LinkReport};
use fullpipe_path::RateConfig;
use serde::{Deserialize, Serialize};

use super::packet_log::WireRecord;
use super::path::{ProgramPath, first_rate};
use super::sampler::ProgramSample;
use fullpipe_report::metrics::Figures;
use fullpipe_report::observe::EmulatorRecord;
use fullpipe_report::output::table::{Table, number};
use fullpipe_scenario::formulas::ratio;

/// Result of one run.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct ProgramResult {
    /// The path's name.
    pub path: String,
    /// The scenario file of the path.
    pub toml: String,
    /// The command; empty where there was none.
    pub command: Vec<String>,
    /// Its end; null where there was none.
    pub ended: Option<Ended>,
    /// Time from its start to its end, in seconds.
    pub elapsed_s: f64,
    /// Time from the first packet to the last one, in seconds: what rates refer to.
    pub active_s: f64,
    /// Round-trip propagation delay of the path.
    pub rtt_ms: f64,
    /// The direction to the command.
    pub down: WayResult,
    /// The direction from the command.
    pub up: WayResult,
    /// The relay; null where the command was in a namespace.
    pub relay: Option<RelayResult>,
    /// The server that belonged to the run; null where it had none.
    pub server: Option<ServerResult>,
    /// The file of the packets; null where none was asked for.
    pub pcap: Option<PcapResult>,
    /// Timing accuracy of the link.
    pub emulator: EmulatorRecord,
    /// True if it was stopped: then the figures are those so far.
    pub interrupted: bool,
    /// The path ten times a second, or less often where it would be too long.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub series: Vec<ProgramSample>,
    /// Every packet, where that was asked for.
    #[serde(skip)]
    pub wire: Option<Box<WireRecord>>,
}

/// A server at the other end of the path, that was started with the command.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct ServerResult {
    /// Its command line.
    pub command: String,
    /// Its end, if it ended by itself; null where it ran until the end.
    pub ended: Option<Ended>,
    /// The last lines of its output, in one.
    pub output: String,
}

/// A relay between UDP clients and a server.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct RelayResult {
    /// The address to which clients sent.
    pub listen: SocketAddr,
    /// The server's address.
    pub server: SocketAddr,
    /// Number of clients, each with a socket of its own towards the server.
    pub clients: usize,
    /// Packets of clients beyond the most that a relay has.
    pub refused_packets: u64,
    /// Times that the system said that nobody listens at the server's address.
    pub unreachable: u64,
}

impl RelayResult {
    pub(super) fn of(listen: SocketAddr, server: SocketAddr, report: &LinkReport) -> Self {
        Self {
            listen,
            server,
            clients: report.flows,
            refused_packets: report.refused.packets,
            unreachable: report.unreachable,
        }
    }
}

/// The file of the packets.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct PcapResult {
    /// Packets in it: each once at either end.
    pub written: u64,
    /// Packets that are not in it, because it was written too slowly.
    pub missing: u64,
    /// The error that ended it early.
    pub error: Option<String>,
}

impl From<CaptureReport> for PcapResult {
    fn from(report: CaptureReport) -> Self {
        let CaptureReport { written, missing, error } = report;
        Self { written, missing, error }
    }
}

/// End of a command: its exit code, or the signal that killed it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Ended {
    /// The exit code.
    pub code: Option<i32>,
    /// The signal.
    pub signal: Option<i32>,
}

impl Ended {
    /// The exit code as a shell gives it: 128 and the signal's number for one that was killed.
    pub fn exit_code(self) -> u8 {
        let code = self.code.unwrap_or_else(|| 128 + self.signal.unwrap_or(0));
        u8::try_from(code).unwrap_or(u8::MAX)
    }

    /// In words: `exit code 3` or `signal 9`.
    pub fn in_words(self) -> String {
        match (self.code, self.signal) {
            (Some(code), _) => format!("exit code {code}"),
            (None, Some(signal)) => format!("signal {signal}"),
            (None, None) => "nothing said".to_owned(),
        }
    }
}

impl From<ExitStatus> for Ended {
    fn from(status: ExitStatus) -> Self {
        Self { code: status.code(), signal: status.signal() }
    }
}

/// One direction.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct WayResult {
    /// Rate of the first bottleneck; null where there is none or it changes.
    pub rate_mbps: Option<f64>,
    /// Packets that the path was given, those of cross traffic as well.
    pub sent_packets: u64,
    /// Packets that it delivered, and their bytes with IP headers.
    pub delivered_packets: u64,
    /// Bytes of these, IP headers included.
    pub delivered_bytes: u64,
    /// Bytes of these behind the headers of TCP and UDP.
    pub payload_bytes: u64,
    /// Packets that were lost, by reason; reasons without any are left out.
    pub lost_packets: BTreeMap<String, u64>,
    /// Packets that the path marked as having met congestion.
    pub marked_packets: u64,
    /// Packets that were delivered with changed bits.
    pub corrupted_packets: u64,
    /// `goodput_mbps`, `goodput_mbps.middle`, `utilization`, `loss_rate`, `queue_ms.p50`,
    /// `queue_ms.p95`, `queue_ms.p99`, `queue_ms.max`.
    pub metrics: Figures,
}

impl WayResult {
    /// The figures of one direction, for the time from `began` on, as long as it was active.
    fn of(
        report: &DirectionReport,
        rate: Option<&RateConfig>,
        began: Duration,
        active: Duration,
    ) -> Self {
        let stats = &report.stats;
        let mbps = |bytes: u64| ratio(bytes.saturating_mul(8_000), active.as_nanos());
        let offered = stats.arrived.packets + stats.duplicated.packets;
        let is_empty = report.queue_delay.is_empty();
        let queue_ms = |ns: u64| (!is_empty).then_some(ns as f64 / 1e6);
        let quantile = |q| queue_ms(report.queue_delay.value_at_quantile(q));
        let lost = [
            ("tail_drop", stats.tail_dropped),
            ("random_loss", stats.random_lost),
            ("outage", stats.blackholed),
            ("aqm", stats.aqm_dropped),
            ("policer", stats.policed),
            ("thinned", stats.thinned),
        ];
        let carried = |rate: &RateConfig| {
            let room = rate.bytes_between(began, began + active);
            (room > 0).then(|| ratio(stats.carried.bytes, room))
        };
        let metrics = [
            ("goodput_mbps", (active > Duration::ZERO).then(|| mbps(report.payload_bytes))),
            ("goodput_mbps.middle", report.middle_half.map(|r| r.as_bits_per_sec() as f64 / 1e6)),
            ("utilization", rate.and_then(carried)),
            ("loss_rate", (offered > 0).then(|| ratio(stats.dropped().packets, offered))),
            ("queue_ms.p50", quantile(0.5)),
            ("queue_ms.p95", quantile(0.95)),
            ("queue_ms.p99", quantile(0.99)),
            ("queue_ms.max", queue_ms(report.queue_delay.max())),
        ];
        Self {
            rate_mbps: match rate {
                Some(RateConfig::Constant(rate)) => Some(rate.as_bits_per_sec() as f64 / 1e6),
                _ => None,
            },
            sent_packets: stats.arrived.packets,
            delivered_packets: stats.delivered.packets,
            delivered_bytes: stats.delivered.bytes,
            payload_bytes: report.payload_bytes,
            lost_packets: lost
                .into_iter()
                .filter(|(_, count)| count.packets > 0)
                .map(|(reason, count)| (reason.to_owned(), count.packets))
                .collect(),
            marked_packets: stats.marked.packets,
            corrupted_packets: report.corrupted_packets,
            metrics: metrics.map(|(name, value)| (name.to_owned(), value)).into(),
        }
    }
}

impl ProgramResult {
    pub(super) fn of(
        path: &ProgramPath,
        command: Vec<String>,
        ended: Option<Ended>,
        elapsed: Duration,
        report: &LinkReport,
    ) -> Self {
        let seconds = |d: Duration| d.as_nanos() as f64 / 1e9;
        let way = |report_of: &DirectionReport, config| {
            WayResult::of(report_of, first_rate(config), report.began, report.active)
        };
        Self {
            path: path.name.clone(),
            toml: path.toml.clone(),
            command,
            ended,
            elapsed_s: seconds(elapsed),
            active_s: seconds(report.active),
            rtt_ms: path.rtt.as_nanos() as f64 / 1e6,
            down: way(&report.downlink, &path.down),
            up: way(&report.uplink, &path.up),
            relay: None,
            server: None,
            pcap: report.capture.clone().map(PcapResult::from),
            emulator: fullpipe_lab::emulator_record(report),
            interrupted: false,
            series: Vec::new(),
            wire: None,
        }
    }

    /// True if what the command sent was for nobody: nothing came back, or refusals of its
    /// connections alone.
    pub fn is_without_answer(&self) -> bool {
        let (down, up) = (&self.down, &self.up);
        down.payload_bytes == 0 && (down.delivered_packets == 0 || up.payload_bytes == 0)
    }

    /// True if the command sent nothing over the link.
    pub fn is_without_packets(&self) -> bool {
        self.up.sent_packets == 0
    }
}

/// Name, unit, metric and factor.
const COLUMNS: [(&str, &str, &str, f64); 7] = [
    ("goodput Mbit/s", "all", "goodput_mbps", 1.0),
    ("", "middle", "goodput_mbps.middle", 1.0),
    ("util", "%", "utilization", 100.0),
    ("queue ms", "p50", "queue_ms.p50", 1.0),
    ("", "p95", "queue_ms.p95", 1.0),
    ("", "max", "queue_ms.max", 1.0),
    ("loss", "%", "loss_rate", 100.0),
];

/// A row for each direction.
pub fn table(result: &ProgramResult) -> Table {
    let mut header = vec![("direction", "")];
    header.extend(COLUMNS.iter().map(|c| (c.0, c.1)));
    header.push(("packets", ""));
    let row = |name: &str, way: &WayResult| {
        let mut row = vec![name.to_owned()];
        row.extend(COLUMNS.iter().map(|(_, _, metric, factor)| {
            let value = way.metrics.get(*metric).copied().flatten();
            value.map_or("-".to_owned(), |value| number(value * factor))
        }));
        row.push(way.sent_packets.to_string());
        row
    };
    Table { header, rows: vec![row("down", &result.down), row("up", &result.up)] }
}

#[cfg(test)]
mod tests {
    use fullpipe_cc::Rate;
    use fullpipe_path::{Count, PathStats};
    use hdrhistogram::Histogram;

    use super::*;

    /// The part that was carried of what could have been, in the time in which packets went.
    #[test]
    fn a_rate_that_changes_has_a_utilization_too() {
        let ms = Duration::from_millis;
        let fast = Rate::from_bytes_per_sec(1_000_000);
        let steps = RateConfig::Steps(vec![(ms(0), fast), (ms(500), Rate::ZERO), (ms(1500), fast)]);
        let trace = RateConfig::mahimahi("3\n").expect("a trace");
        let stats = PathStats { carried: Count { packets: 200, bytes: 300_000 }, ..<_>::default() };
        let report = DirectionReport {
            stats,
            queue_delay: Histogram::new(3).expect("a histogram"),
            payload_bytes: 0,
            middle_half: None,
            corrupted_packets: 0,
            send_failures: Count::default(),
            arrivals: Vec::new(),
        };
        let share = |rate: &RateConfig, began, active| {
            let way = WayResult::of(&report, Some(rate), ms(began), ms(active));
            way.metrics["utilization"].map(|share| (share * 1e4).round() / 1e4)
        };
        assert_eq!(
            share(&steps, 100, 1900),
            Some(0.3333),
            "400 ms before the outage, 500 after it"
        );
        assert_eq!(share(&trace, 30, 1200), Some(0.5));
        assert_eq!(share(&steps, 600, 100), None, "nothing could be carried");
        assert_eq!(share(&fast.into(), 0, 300), Some(1.0));
    }
}
