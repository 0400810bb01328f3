//! The tables of Google's nsperf: beside CUBIC, in shallow buffers, in bloated ones, with marks.

use super::checks::{Checks, show};
use super::runs::{FigureRun, FileRuns};
use fullpipe_report::output::plot::{Drawing, Kind, Line, Panel, Scale};

/// CUBIC beside one other on 50 Mbit/s and 30 ms, and the harm that it takes.
pub(super) fn coexist(out: &mut Checks, plays: &[FileRuns]) {
    let mut panel = Panel::new("Share of the flow beside CUBIC", "Buffer, BDP", "%")
        .scales(Scale::Log, Scale::Linear);
    panel.lines = plays[0].lines("cc", "buffer", |run| 100.0 * run.of_flow(1, "share"));
    panel.lines.push(Line::new("fair", [(0.1, 50.0), (16.0, 50.0)]).kind(Kind::Dashed));
    let goodput = |run: FigureRun<'_>, flow| run.of_flow(flow, "goodput_mbps");
    let harmed = |run: FigureRun<'_>| {
        let like = plays[0].run(&["cubic", run.at("buffer")]);
        like.map_or(f64::NAN, |like| harm(goodput(run, 0), goodput(like, 0).min(goodput(like, 1))))
    };
    let share = |run: FigureRun<'_>, flow| show(100.0 * run.of_flow(flow, "share"));
    let table =
        plays[0].table("buffer", "cc", "CUBIC's and the other's share, % (harm)", &[], |run| {
            let both = format!("{} | {}", share(run, 0), share(run, 1));
            if run.at("cc") == "cubic" { both } else { format!("{both} ({})", show(harmed(run))) }
        });
    out.drawing = Drawing::of(vec![panel]).table(table);
    let each = plays[0].runs(&["bbr3"]).map(|run| {
        let (share, harm) = (show(run.of_flow(1, "share")), show(harmed(run)));
        format!("{} {share} ({harm})", run.at("buffer"))
    });
    out.note(format!(
        "bbr3's share (harm to cubic) by buffer: {}",
        each.collect::<Vec<_>>().join(", ")
    ));
}

/// RFC 9743's harm: the share of what CUBIC has beside another CUBIC that it lacks beside ours; 0
/// when it has as much or more.
pub(super) fn harm(beside_ours: f64, beside_its_like: f64) -> f64 {
    if beside_its_like <= 0.0 { 0.0 } else { (1.0 - beside_ours / beside_its_like).max(0.0) }
}

/// 1 to 100 flows on a buffer of a fiftieth of a BDP: retransmissions.
pub(super) fn shallow(out: &mut Checks, plays: &[FileRuns]) {
    let retransmitted = |run: FigureRun<'_>| 100.0 * run.figure("retransmit_rate");
    let mut panel = Panel::new("Retransmitted with a buffer of 0.02 BDP", "Flows", "%")
        .scales(Scale::Log, Scale::Log);
    panel.lines = plays[0].lines("cc", "count", retransmitted);
    let table = plays[0].table("count", "cc", "flows: retransmitted %, Mbit/s", &[], |run| {
        format!("{}, {}", show(retransmitted(run)), show(run.figure("goodput_mbps")))
    });
    out.drawing = Drawing::of(vec![panel]).table(table);
    out.note("1 Gbit/s, 100 ms; BBRv2 and v3 were made because of this table");
}

/// Two flows in buffers of 1 to 100 BDP.
pub(super) fn bufferbloat(out: &mut Checks, plays: &[FileRuns]) {
    let mut panel = Panel::new("Median round trip of two flows", "Buffer, BDP", "ms")
        .scales(Scale::Log, Scale::Log);
    panel.lines = plays[0].lines("cc", "buffer", |run| run.figure("rtt_ms.p50"));
    let table = plays[0].table("buffer", "cc", "buffer: RTT p50 ms, Mbit/s", &[], |run| {
        format!("{}, {}", show(run.figure("rtt_ms.p50")), show(run.figure("goodput_mbps")))
    });
    out.drawing = Drawing::of(vec![panel]).table(table);
    out.note("50 Mbit/s, 30 ms, 120 s");
}

/// 1 to 100 flows where CoDel marks what waited for 242 us.
pub(super) fn ecn_bulk(out: &mut Checks, plays: &[FileRuns]) {
    let mut panel = Panel::new("Median queue", "Flows", "ms").scales(Scale::Log, Scale::Linear);
    panel.lines = plays[0].lines("variant", "count", |run| run.figure("queue_ms.p50"));
    let corner = "flows: Mbit/s, queue p50 ms, retransmitted %";
    let table = plays[0].table("count", "variant", corner, &[], |run| {
        let retransmitted = show(100.0 * run.figure("retransmit_rate"));
        let (goodput, queue) = (run.figure("goodput_mbps"), run.figure("queue_ms.p50"));
        format!("{}, {}, {retransmitted}", show(goodput), show(queue))
    });
    out.drawing = Drawing::of(vec![panel]).table(table);
    out.note("1 Gbit/s, 1 ms; the drawing is of the whole run, of which the second half is judged. A hundredth of the link holds 0.8 packets in a round trip, and BBR's least window four");
}
