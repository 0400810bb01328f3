//! Figure 7 of the paper: long paths whose shallow switches lose packets in rare bursts.

use super::checks::{Checks, show};
use super::runs::{FigureRun, FileRuns};
use fullpipe_report::output::plot::{Drawing, Kind, Line, Panel};

/// Bits of a transfer.
const TRANSFER: f64 = 64e6;

/// Mbit/s of all transfers: their bytes over the time that they took.
fn rate(run: FigureRun<'_>) -> f64 {
    TRANSFER / 1e3 / run.figure("completion_ms.mean")
}

/// Figure 7.
pub(super) fn fig7(out: &mut Checks, plays: &[FileRuns]) {
    let transfers = |cc: &str| {
        plays[0].runs(&["transfers", cc]).map(|r| (r.at("rtt"), rate(r))).collect::<Vec<_>>()
    };
    let cubic = transfers("cubic");
    let mut panel = Panel::new("8 MB each minute: throughput over CUBIC's", "RTT, ms", "times");
    for cc in ["bbr1", "bbr3"] {
        let ratios = transfers(cc)
            .into_iter()
            .zip(&cubic)
            .map(|((rtt, rate), (_, cubic))| (super::runs::number(rtt), rate / cubic));
        let ratios: Vec<(f64, f64)> = ratios.collect();
        let each = ratios.iter().map(|(rtt, r)| format!("{} at {} ms", show(*r), show(*rtt)));
        let each = each.collect::<Vec<_>>().join(", ");
        out.note(format!("{cc} over cubic in the transfers: {each}"));
        panel.lines.push(Line::new(cc, ratios).kind(Kind::Marked));
    }
    let mut raised = Panel::new("100 ms, the receive buffer raised", "Time, s", "Mbit/s");
    for run in plays[0].runs(&["raised"]) {
        raised.lines.push(Line::new(run.at("cc"), run.line(0, |r| r.goodput_mbps)));
    }
    let table = plays[0].table("rtt", "cc", "RTT, Mbit/s", &["transfers"], |run| show(rate(run)));
    out.drawing = Drawing::of(vec![panel, raised]).table(table);
    out.note("2 Gbit/s, bursts of loss of 50 us, begun by one packet in 1700, chosen for CUBIC's 15 Mbit/s at 100 ms; a buffer of a twentieth of a BDP; transfers over one persistent connection");
}
