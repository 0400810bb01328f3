//! Access links: figures 9 and 10 of the paper, and the retransmissions of BBRv3's slides.

use super::checks::{Checks, show};
use super::runs::{FileRuns, number};
use fullpipe_report::output::plot::{CellTable, Drawing, Kind, Line, Panel, Scale};
use fullpipe_scenario::formulas::percentile;

/// Figure 9: the median round trip over a population.
pub(super) fn fig9(out: &mut Checks, plays: &[FileRuns]) {
    let mut panel =
        Panel::new("Median round trip of each link, the shortest first", "Links, %", "ms")
            .scales(Scale::Linear, Scale::Log);
    let mut medians = Vec::new();
    for cc in plays[0].values("cc") {
        let mut rtts: Vec<f64> = plays[0].runs(&[cc]).map(|run| run.figure("rtt_ms.p50")).collect();
        let n = rtts.len() as f64;
        medians.push((cc, percentile(&mut rtts, 50).unwrap_or(f64::NAN)));
        let points = rtts.into_iter().enumerate().map(|(i, rtt)| (100.0 * i as f64 / n, rtt));
        panel.lines.push(Line::new(cc, points));
    }
    let each = medians.iter().map(|(cc, rtt)| format!("{cc} {}", show(*rtt)));
    out.note(format!("median RTT in ms: {}", each.collect::<Vec<_>>().join(", ")));
    out.drawing = Drawing::of(vec![panel]);
}

/// BBRv3's retransmissions against BBRv1's.
pub(super) fn retx(out: &mut Checks, plays: &[FileRuns]) {
    let mut table = CellTable::new(&["", "retransmitted %", "received GB"]);
    let mut panel = Panel::new("Retransmitted, all links together", "", "%");
    let mut bars = Vec::new();
    for cc in plays[0].values("cc") {
        let sum = |of: &str| plays[0].runs(&[cc]).map(|run| run.figure(of)).sum::<f64>();
        let lost =
            plays[0].runs(&[cc]).map(|r| r.figure("retransmit_rate") * r.figure("sent_bytes"));
        let percent = 100.0 * lost.sum::<f64>() / sum("sent_bytes");
        table.row([cc.to_owned(), show(percent), show(sum("completed_bytes") / 1e9)]);
        bars.push((bars.len() as f64, percent));
        panel.names.push(cc.to_owned());
    }
    panel.lines.push(Line::new("retransmitted", bars).kind(Kind::Bars));
    out.drawing = Drawing::of(vec![panel]).table(table);
    out.note("the links and streams of fig9");
}

/// Figure 10: eight flows on a mobile link behind a gateway with a lot of memory.
pub(super) fn fig10(out: &mut Checks, plays: &[FileRuns]) {
    let rtt_s = |run: super::runs::FigureRun<'_>| run.figure("rtt_ms.p50") / 1e3;
    let mut panel =
        Panel::new("Median round trip", "Buffer, packets", "s").scales(Scale::Log, Scale::Log);
    panel.lines = plays[0].lines("cc", "buffer", rtt_s);
    let ends: Vec<f64> = plays[0].values("buffer").into_iter().map(number).collect();
    if let (Some(first), Some(last)) = (ends.first(), ends.last()) {
        for (name, level) in [("SYN timeout, 1 s", 1.0), ("SYN timeout, 3 s", 3.0)] {
            let line = Line::new(name, [(*first, level), (*last, level)]);
            panel.lines.push(line.kind(Kind::Dashed));
        }
    }
    let table =
        plays[0].table("buffer", "cc", "buffer, median RTT in s", &[], |run| show(rtt_s(run)));
    out.drawing = Drawing::of(vec![panel]).table(table);
    out.note("half an hour each, of which the last 20 minutes are judged; 8 flows of at least 4 packets hold 3 s of this link whatever they do. The first windows of 8 flows are 7.5 s of this link, more than the 5 s between two ProbeRTTs of bbr3: each of its samples in Startup counts as application-limited, from which no plateau is concluded, and its min_rtt, of the last 10 s, is soon a round trip through the queue, of which a ProbeRTT leaves half");
}
