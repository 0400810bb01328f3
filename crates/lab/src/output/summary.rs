//! The table of a run: the same columns on the terminal and in the report.

use crate::output::results::{AlgorithmResult, ScenarioRecord, ScenarioResults};
use crate::units;
use fullpipe_cc::Rate;

/// A table of text, a cell each; `header` has one line for names and one for units.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Table {
    /// Name and unit of each column. An empty name continues the one to its left.
    pub header: Vec<(&'static str, &'static str)>,
    /// The cells, row by row.
    pub rows: Vec<Vec<String>>,
}

const COLUMNS: [(&str, &str); 14] = [
    ("path", ""),
    ("cc", ""),
    ("goodput", "Mbit/s"),
    ("utilization", "%"),
    ("queue ms", "p50"),
    ("", "p95"),
    ("", "max"),
    ("rtt ms", "p50"),
    ("", "p95"),
    ("loss", "%"),
    ("retransmit", "%"),
    ("app p50 ms", "bounded"),
    ("", "unbounded"),
    ("jain", ""),
];

/// Over tcp only.
const APP: [usize; 2] = [11, 12];

/// With several flows only.
const JAIN: usize = 13;

/// One row for each scenario and algorithm.
pub fn table(scenarios: &[ScenarioResults]) -> Table {
    let fair = scenarios.iter().any(|s| s.scenario.flows > 1);
    let app = scenarios.iter().any(|s| s.results.iter().any(|r| r.app_latency_ms.is_some()));
    let shown: Vec<usize> =
        (0..COLUMNS.len()).filter(|&c| (fair || c != JAIN) && (app || !APP.contains(&c))).collect();
    let rows = scenarios.iter().flat_map(|s| {
        s.results.iter().map(|r| {
            let row = cells(&s.scenario, r);
            shown.iter().filter_map(|&c| row.get(c).cloned()).collect()
        })
    });
    Table { header: shown.iter().map(|&c| COLUMNS[c]).collect(), rows: rows.collect() }
}

fn cells(scenario: &ScenarioRecord, r: &AlgorithmResult) -> Vec<String> {
    let rtt = |pick: fn(&crate::output::results::RoundTrip) -> f64| {
        r.rtt_ms.as_ref().map_or("-".to_owned(), |rtt| format!("{:.1}", pick(rtt)))
    };
    let app = |pick: fn(
        &crate::output::results::AppLatency,
    ) -> Option<crate::output::results::RoundTrip>| {
        let latency = r.app_latency_ms.as_ref().and_then(pick);
        latency.map_or("-".to_owned(), |l| format!("{:.1}", l.p50))
    };
    let trusted = r.emulator.as_ref().is_none_or(|e| e.trusted);
    let mark = match (r.interrupted, trusted) {
        (true, _) => " (stopped)",
        (_, false) => " (!)",
        _ => "",
    };
    vec![
        short_name(scenario),
        format!("{}{mark}", r.cc),
        megabits(r.goodput_bps),
        format!("{:.1}", r.utilization * 100.0),
        format!("{:.1}", r.queue_ms.p50),
        format!("{:.1}", r.queue_ms.p95),
        format!("{:.1}", r.queue_ms.max),
        rtt(|d| d.p50),
        rtt(|d| d.p95),
        format!("{:.2}", r.loss_rate * 100.0),
        format!("{:.2}", r.retransmit_rate * 100.0),
        app(|l| l.bounded),
        app(|l| l.unbounded),
        format!("{:.3}", r.jain),
    ]
}

/// Mbit/s with as many digits as say something.
fn megabits(bps: u64) -> String {
    let mbit = bps as f64 / 1e6;
    if mbit < 1.0 { format!("{mbit:.3}") } else { format!("{mbit:.1}") }
}

/// The path in a few characters: `100mbit 40ms 6bdp`, with the loss if there is one.
pub fn short_name(s: &ScenarioRecord) -> String {
    let rate = units::show_rate(Rate::from_bits_per_sec(s.rate_bps));
    let mut name = format!("{rate} {}ms {}", s.rtt_ms, s.buffer);
    if s.loss > 0.0 {
        name.push_str(&format!(" {}", units::show_loss(s.loss)));
    }
    if s.flows > 1 {
        name.push_str(&format!(" {} flows", s.flows));
    }
    name
}

/// The scenario in one sentence.
pub fn in_words(s: &ScenarioRecord) -> String {
    let held = match (s.buffer_bytes, s.buffer_packets) {
        (Some(bytes), _) => {
            let ms = bytes as f64 * 8e3 / s.rate_bps.max(1) as f64;
            format!("{}, {ms:.0} ms at that rate", units::show_bytes(bytes))
        }
        (None, packets) => format!("{} packets", packets.unwrap_or(0)),
    };
    let loss = if s.loss > 0.0 {
        format!("{} random loss", units::show_loss(s.loss))
    } else {
        "no random loss".to_owned()
    };
    let flows = match s.flows {
        1 => "one flow".to_owned(),
        n if s.stagger_s > 0.0 => format!("{n} flows, one more every {} s,", s.stagger_s),
        n => format!("{n} flows at once"),
    };
    let amount = match (s.duration_s, s.bytes) {
        (Some(d), _) => format!("for {d} s"),
        (None, bytes) => {
            let each = if s.flows > 1 { " each" } else { "" };
            format!("of {}{each}", units::show_bytes(bytes.unwrap_or(0)))
        }
    };
    let over = match (s.over.as_str(), s.link.as_deref()) {
        ("quic", Some("tun")) => {
            "real QUIC packets over an emulated link between two network namespaces"
        }
        ("quic", _) => "real QUIC packets over an emulated link inside the process",
        ("tcp", Some("netem")) => {
            "the kernel's own TCP over its netem between two network namespaces"
        }
        ("tcp", _) => "the kernel's own TCP over an emulated link between two network namespaces",
        _ => "a simulation under a virtual clock",
    };
    format!(
        "{} Mbit/s, {} ms round trip, a buffer of {} ({held}), {loss}; {flows} {amount}; {over}, \
         seed {}.",
        s.rate_bps as f64 / 1e6,
        s.rtt_ms,
        s.buffer,
        s.seed
    )
}

/// The command that runs the scenario again.
pub fn command(s: &ScenarioRecord) -> String {
    let rate = units::show_rate(Rate::from_bits_per_sec(s.rate_bps));
    let link = match (s.over.as_str(), s.link.as_deref()) {
        ("quic", Some("udp")) | ("tcp", Some("tun")) | (_, None) => String::new(),
        (_, Some(link)) => format!(" --link {link}"),
    };
    let mut c = format!(
        "fullpipe compare --over {}{link} --cc {} --rate {rate} --rtt {}ms --buffer {}",
        s.over,
        s.cc.join(","),
        s.rtt_ms,
        s.buffer
    );
    if s.loss > 0.0 {
        c.push_str(&format!(" --loss {}", units::show_loss(s.loss)));
    }
    if s.flows > 1 {
        c.push_str(&format!(" --flows {}", s.flows));
    }
    if s.stagger_s > 0.0 {
        c.push_str(&format!(" --stagger {}s", s.stagger_s));
    }
    match (s.duration_s, s.bytes) {
        (Some(d), _) => c.push_str(&format!(" --duration {d}s")),
        (None, bytes) => c.push_str(&format!(" --bytes {}", bytes.unwrap_or(0))),
    }
    c.push_str(&format!(" --seed {}", s.seed));
    c
}

/// The sentences about runs whose emulator was too late, one for each.
pub fn warnings(scenarios: &[ScenarioResults]) -> Vec<String> {
    let mut out = Vec::new();
    for s in scenarios {
        for r in &s.results {
            let Some(warning) = r.emulator.as_ref().and_then(|e| e.warning.as_ref()) else {
                continue;
            };
            out.push(format!("{} on {}: {warning}", r.cc, short_name(&s.scenario)));
        }
    }
    out
}

impl Table {
    /// The table in aligned columns, each line ending in a newline. The first two columns are text
    /// and start at the left; numbers end at the right, under their unit.
    pub fn to_text(&self) -> String {
        let width = |c: usize| {
            let (_, unit) = self.header[c];
            let cells = self.rows.iter().filter_map(|r| r.get(c)).map(|s| s.chars().count());
            let name = self.header[c].0.chars().count();
            // A name that the next columns continue may spread over them.
            let continued = self.header.get(c + 1).is_some_and(|next| next.0.is_empty());
            let name = if continued { 0 } else { name };
            cells.chain([unit.len(), name]).max().unwrap_or(0)
        };
        let widths: Vec<usize> = (0..self.header.len()).map(width).collect();
        let line = |cells: &[&str]| {
            let mut out = String::new();
            for (c, (cell, w)) in cells.iter().zip(&widths).enumerate() {
                let pad = w.saturating_sub(cell.chars().count());
                let gap = if c == 0 { 0 } else { 2 };
                let (before, after) = if c < 2 { (gap, pad) } else { (gap + pad, 0) };
                out.push_str(&" ".repeat(before));
                out.push_str(cell);
                out.push_str(&" ".repeat(after));
            }
            out.truncate(out.trim_end().len());
            out.push('\n');
            out
        };
        let mut out = self.names(&widths);
        out.push_str(&line(&self.header.iter().map(|h| h.1).collect::<Vec<_>>()));
        for row in &self.rows {
            out.push_str(&line(&row.iter().map(String::as_str).collect::<Vec<_>>()));
        }
        out
    }

    /// The line of names: one that covers several columns ends above the last of them.
    fn names(&self, widths: &[usize]) -> String {
        let mut out = String::new();
        let mut c = 0;
        while c < self.header.len() {
            let name = self.header[c].0;
            let mut end = c + 1;
            while end < self.header.len() && c >= 2 && self.header[end].0.is_empty() {
                end += 1;
            }
            let span: usize = widths[c..end].iter().sum::<usize>() + 2 * (end - c - 1);
            let gap = if c == 0 { "" } else { "  " };
            let cell = if c < 2 { format!("{name:<span$}") } else { format!("{name:>span$}") };
            out.push_str(gap);
            out.push_str(&cell);
            c = end;
        }
        out.truncate(out.trim_end().len());
        out.push('\n');
        out
    }
}

#[cfg(test)]
#[path = "summary_tests.rs"]
mod tests;
