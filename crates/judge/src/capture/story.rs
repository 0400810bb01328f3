//! The story of a flow: for people as text, for programs as an object.

use std::fmt::Write as _;
use std::net::SocketAddr;
use std::path::Path;

use serde::Serialize;

use super::figures::{Figures, Spread};
use super::flow::{Flow, Place};
use super::measure::View;
use super::verdict::FlowVerdict;
use super::{CaptureError, Choice, Listed, read_capture, read_qlog};
use crate::quic::KeyLog;

/// All that a file shows of a flow.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Story {
    /// The kind of file: `pcap` or `qlog`.
    pub source: &'static str,
    /// `TCP`, `UDP` or `QUIC`.
    pub protocol: &'static str,
    /// The end that sends the data; null in a log without addresses.
    pub sender: Option<SocketAddr>,
    /// The other end.
    pub receiver: Option<SocketAddr>,
    /// The number of the flow in the list, from 1.
    pub flow: usize,
    /// All flows of the file with data, the largest first, up to [`Story::MOST_LISTED`].
    pub flows: Vec<Listed>,
    /// Number of all of them.
    pub flows_in_all: usize,
    /// The place of the capture.
    pub place: Place,
    /// The observation that shows it.
    pub place_because: String,
    /// Remarks about the file.
    pub remarks: Vec<String>,
    /// The figures.
    pub figures: Figures,
    /// The verdict.
    #[serde(flatten)]
    pub verdict: FlowVerdict,
}

impl Story {
    /// The most flows of the list.
    pub const MOST_LISTED: usize = 20;

    /// The story of a flow of a capture.
    ///
    /// # Errors
    /// The file is no capture, or has no such flow.
    pub fn of_capture(path: &Path, choice: &Choice) -> Result<Self, CaptureError> {
        Self::of_packets(path, choice, None)
    }

    /// The story of a flow of QUIC whose packets are opened with the secrets in the file `keys`, in
    /// the format of `SSLKEYLOGFILE`.
    ///
    /// # Errors
    /// The file is no capture, or has no such flow; or no packet of that can be opened.
    pub fn of_capture_with_keys(
        path: &Path,
        choice: &Choice,
        keys: &Path,
    ) -> Result<Self, CaptureError> {
        let of_keys = |why: &str| CaptureError(format!("its keys {}: {why}", keys.display()));
        let text = super::file::text(keys).map_err(|CaptureError(why)| of_keys(&why))?;
        let log = KeyLog::read(&text);
        if log.is_empty() {
            return Err(of_keys(
                "it has no secrets; run an end with SSLKEYLOGFILE=FILE, which writes them",
            ));
        }
        Self::of_packets(path, choice, Some(&log))
    }

    fn of_packets(
        path: &Path,
        choice: &Choice,
        keys: Option<&KeyLog>,
    ) -> Result<Self, CaptureError> {
        let (flow, flows, number) = read_capture(path, choice, keys)?;
        let one = flows.get(number);
        let ends = one.and_then(|one| Some((one.sender?, one.receiver?)));
        Ok(Self::of("pcap", ends, &flow, flows, number))
    }

    /// The story of the connection of a qlog.
    ///
    /// # Errors
    /// The file is no qlog, or has no packets.
    pub fn of_qlog(path: &Path, choice: &Choice) -> Result<Self, CaptureError> {
        let (flow, flows, number) = read_qlog(path, choice)?;
        Ok(Self::of("qlog", None, &flow, flows, number))
    }

    pub(super) fn of(
        source: &'static str,
        ends: Option<(SocketAddr, SocketAddr)>,
        flow: &Flow,
        mut flows: Vec<Listed>,
        number: usize,
    ) -> Self {
        let view = View::of(flow);
        let figures = view.figures();
        let verdict = FlowVerdict::of(&view, &figures);
        let flows_in_all = flows.len();
        flows.truncate(Self::MOST_LISTED);
        Self {
            source,
            protocol: flow.protocol,
            sender: ends.map(|e| e.0),
            receiver: ends.map(|e| e.1),
            flow: number + 1,
            flows,
            flows_in_all,
            place: flow.place,
            place_because: flow.place_why.clone(),
            remarks: flow.remarks.clone(),
            figures,
            verdict,
        }
    }

    /// In words.
    pub fn text(&self) -> String {
        let mut out = String::new();
        self.head(&mut out);
        self.numbers(&mut out);
        self.plots(&mut out);
        self.judgement(&mut out);
        out
    }

    // Text is written to text without fail.
    fn head(&self, out: &mut String) {
        let f = &self.figures;
        let sends = match (self.sender, self.receiver) {
            (Some(a), Some(b)) => format!("{a} sends to {b}"),
            _ if self.place == Place::Receiver => "the log's other end sends".to_owned(),
            _ => "the log's own end sends".to_owned(),
        };
        let _ = writeln!(
            out,
            "{}: {sends}: {} in {} s, {} packets",
            self.protocol,
            bytes(f.sent_bytes),
            number(f.duration_s),
            f.sent_packets
        );
        if self.flows_in_all > 1 {
            let others = self.flows.iter().enumerate().filter(|(i, _)| i + 1 != self.flow).take(3);
            let others: Vec<String> = others
                .map(|(i, o)| format!("{}: {}, {}", i + 1, o.name(), bytes(o.data_bytes as f64)))
                .collect();
            let _ = writeln!(
                out,
                "flow {} of {}; --flow chooses another ({})",
                self.flow,
                self.flows_in_all,
                others.join(", ")
            );
        }
        let _ = writeln!(out, "seen {}: {}", self.place.name(), self.place_because);
        for remark in &self.remarks {
            let _ = writeln!(out, "note: {remark}");
        }
        out.push('\n');
    }

    fn numbers(&self, out: &mut String) {
        let f = &self.figures;
        let mut row = |name: &str, text: String| {
            let _ = writeln!(out, "{name:<18}{text}");
        };
        row(
            "rate",
            format!(
                "{} Mbit/s on average, {} at its peak",
                number(f.goodput_mbps),
                number(f.peak_mbps)
            ),
        );
        let spread = |s: &Spread, factor: f64, unit: &str| {
            let [min, p50, p95, max] = [s.min, s.p50, s.p95, s.max].map(|x| number(factor * x));
            format!("least {min}, median {p50}, p95 {p95}, most {max} {unit}")
        };
        if let Some(s) = &f.rtt_ms {
            row("round trip", spread(s, 1.0, "ms"));
        }
        if let Some(s) = &f.inflight_bytes {
            row("in flight", spread(s, 1.0 / f.packet_bytes, "packets"));
        }
        if let Some(bdp) = f.bdp_bytes {
            row(
                "BDP",
                format!(
                    "{} packets, from the peak rate and the shortest round trip",
                    number(bdp / f.packet_bytes)
                ),
            );
        }
        if let (Some(again), Some(share)) = (f.resent_packets, f.resent_share) {
            let needless = f.needless_packets.unwrap_or(0);
            let timeouts = f.timeouts.unwrap_or(0);
            row(
                "sent again",
                format!(
                    "{again} packets ({} %) in {} episodes, {needless} more that had arrived, {timeouts} after a silence",
                    number(100.0 * share),
                    f.loss_episodes.len()
                ),
            );
        }
        if let Some(n) = f.reordered_packets.filter(|n| *n > 0) {
            row("out of order", format!("{n} packets were overtaken"));
        }
        if f.marked_packets > 0 {
            row("marked", format!("{} packets have met congestion (ECN)", f.marked_packets));
        }
        if let Some(s) = &f.bytes_per_ack {
            let at_once = f.ack_burst_packets.map_or(String::new(), |b| {
                format!("; {} of them at once in 95 % of the cases", number(b.p95))
            });
            row(
                "acknowledgements",
                format!(
                    "{}, of {} packets as a rule, p95 {}, most {}{at_once}",
                    f.acks,
                    number(s.p50 / f.packet_bytes),
                    number(s.p95 / f.packet_bytes),
                    number(s.max / f.packet_bytes)
                ),
            );
        } else {
            row("acknowledgements", format!("{} packets come back", f.acks));
        }
        if let (Some(burst), Some(p90), Some(gap)) =
            (&f.burst_packets, f.burst_packets_p90, &f.gap_us)
        {
            let clocked = f.ack_clocked_share.map_or(String::new(), |share| {
                format!("; {} % leave with an acknowledgement", number(100.0 * share))
            });
            row(
                "bursts",
                format!(
                    "90 % of the packets in bursts of at most {p90:.0}, the largest {:.0}; median gap {} us{clocked}",
                    burst.max,
                    number(gap.p50)
                ),
            );
        }
        let to_rate = f.start.to_rate_s.map_or("never".to_owned(), |t| format!("{} s", number(t)));
        let first = f
            .start
            .first_burst_packets
            .map_or(String::new(), |n| format!(", {n:.0} packets of the first flight at once"));
        row(
            "start",
            format!(
                "80 % of the peak rate after {to_rate}, {} % lost in the first 3 s{first}",
                number(100.0 * f.start.loss_share)
            ),
        );
        if let Some(share) = f.window_limited_share.filter(|share| *share > 0.01) {
            row("receiver's window", format!("full for {} % of the time", number(100.0 * share)));
        }
        if !f.dips.is_empty() {
            let times: Vec<String> =
                f.dips.iter().take(8).map(|d| format!("{:.1}", d.at_s)).collect();
            let more = if f.dips.len() > 8 { " …" } else { "" };
            let every =
                f.dip_period_s.map_or(String::new(), |p| format!(", every {} s", number(p)));
            row(
                "dips",
                format!(
                    "{} of the data in flight{every}: at {}{more} s",
                    f.dips.len(),
                    times.join(", ")
                ),
            );
        }
    }

    fn plots(&self, out: &mut String) {
        let series = &self.figures.series;
        let known = |values: &[Option<f64>]| -> Vec<f64> {
            values.iter().map(|v| v.unwrap_or(0.0)).collect()
        };
        out.push('\n');
        line(out, "Mbit/s", &series.rate_mbps);
        let inflight: Vec<f64> =
            known(&series.inflight_bytes).iter().map(|b| b / self.figures.packet_bytes).collect();
        line(out, "packets in flight", &inflight);
        line(out, "round trip, ms", &known(&series.rtt_ms));
        line(out, "bytes sent again", &series.resent_bytes);
    }

    fn judgement(&self, out: &mut String) {
        let v = &self.verdict;
        let _ = writeln!(out, "\nlooks like: {}", v.looks_like);
        for why in &v.because {
            let _ = writeln!(out, "because: {why}");
        }
        for defect in &v.defects {
            let _ = writeln!(out, "defect: {}: {}", defect.name, defect.about);
        }
        for s in &v.suspicions {
            let _ = writeln!(out, "suspected: {}: {}; or {}", s.name, s.about, s.or_else);
        }
        let mut reasons: Vec<(&str, Vec<&str>)> = Vec::new();
        for unknown in &v.cannot_tell {
            match reasons.iter_mut().find(|(why, _)| *why == unknown.why) {
                Some((_, all)) => all.push(&unknown.what),
                None => reasons.push((&unknown.why, vec![&unknown.what])),
            }
        }
        for (why, all) in reasons {
            let _ = writeln!(out, "cannot tell: {}: {why}", all.join(", "));
        }
    }
}

/// Columns of a plot.
const COLUMNS: usize = 72;
const BLOCKS: [char; 9] = [' ', '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// A plot of one line: the largest value of each of the columns.
fn line(out: &mut String, name: &str, values: &[f64]) {
    let most = values.iter().copied().fold(0.0, f64::max);
    if most <= 0.0 {
        return;
    }
    let columns = values.len().min(COLUMNS);
    let bounds = |i: usize| i * values.len() / columns;
    let text: String = (0..columns)
        .map(|i| {
            let part = values.get(bounds(i)..bounds(i + 1)).unwrap_or_default();
            let value = part.iter().copied().fold(0.0, f64::max);
            BLOCKS[((value / most * 8.0).ceil() as usize).min(8)]
        })
        .collect();
    let _ = writeln!(out, "{name:<18}{} up to {}", text, number(most));
}

/// A number with three digits.
fn number(x: f64) -> String {
    match x.abs() {
        0.0 => "0".to_owned(),
        x if x >= 99.95 => format!("{x:.0}"),
        x if x >= 9.995 => format!("{x:.1}"),
        _ => format!("{x:.2}"),
    }
}

fn bytes(n: f64) -> String {
    match n {
        n if n >= 1e9 => format!("{:.2} GB", n / 1e9),
        n if n >= 1e6 => format!("{:.1} MB", n / 1e6),
        n if n >= 1e3 => format!("{:.1} kB", n / 1e3),
        n => format!("{n:.0} bytes"),
    }
}
