//! The link of the smoltcp report: 400 Mbit/s, 20 ms, 3 GB.

use super::checks::{Checks, show};
use super::runs::{FigureRun, FileRuns};
use fullpipe_report::observe::SeriesRow;
use fullpipe_report::output::plot::{CellTable, Drawing, Line, Panel};

/// The variants in which nothing waits for its turn at the sender: over TCP and over QUIC.
const PLAIN: [&str; 2] = ["unsent bounded", "QUIC"];

/// Both buffers, with unsent data bounded and with their send buffer; and what broke theirs.
pub(super) fn smoltcp(out: &mut Checks, plays: &[FileRuns]) {
    let mut table = CellTable::new(&[
        "",
        "buffer",
        "loss",
        "cc",
        "Gbit/s",
        "queue p50 ms",
        "queue p95 ms",
        "latency p50 ms",
        "lost %",
    ]);
    let mut panel = Panel::new("Queue with a buffer of 6 MB", "Time, s", "ms");
    for run in plays[0].runs(&[]) {
        let variant = run.at("variant");
        let head = [variant, run.at("buffer"), run.at("loss"), &run.0.flows[0].cc];
        let figures = [
            run.figure("goodput_mbps") / 1e3,
            run.figure("queue_ms.p50"),
            run.figure("queue_ms.p95"),
            run.figure("latency_ms.p50"),
            100.0 * run.figure("retransmit_rate"),
        ];
        table.row(head.map(str::to_owned).into_iter().chain(figures.map(show)));
        if PLAIN.contains(&variant) && run.at("buffer") == "6MB" {
            panel.lines.push(Line::new(run.at("cc"), run.line(0, |r| r.queue_ms)));
        }
        if run.at("cc") == "bbr3" && PLAIN.contains(&variant) {
            out.note(format!("{}: {}", run.at("buffer"), costs(run)));
        } else if run.at("cc") == "bbr3" {
            let latency = show(run.figure("latency_ms.p50"));
            out.note(format!(
                "{}: with a {variant} bbr3's latency is {latency} ms",
                run.at("buffer")
            ));
        }
    }
    out.drawing = Drawing::of(vec![panel]).table(table);
    if plays[0].values("variant") != ["QUIC"] {
        out.note("3 GB over TCP");
    }
}

/// Shares of time in which the link was idle or a queue was present.
fn costs(run: FigureRun<'_>) -> String {
    let n = run.rows(0).count().max(1) as f64;
    let share =
        |of: &dyn Fn(&SeriesRow) -> bool| 100.0 * run.rows(0).filter(|r| of(r)).count() as f64 / n;
    let probing = |r: &SeriesRow| {
        ["ProbeBW_UP", "ProbeBW_DOWN", "Startup", "Drain"]
            .contains(&r.state.as_deref().unwrap_or_default())
    };
    let queued = share(&|r| r.queue_ms > 5.0);
    format!(
        "the link is idle {} % of the time and ProbeRTT lasts {} % of it; the queue is above 5 ms {} % of the time, {} % of it in Startup, Drain, UP and DOWN",
        show(share(&|r| r.queue_ms == 0.0)),
        show(share(&|r| r.state.as_deref() == Some("ProbeRTT"))),
        show(queued),
        show(100.0 * share(&|r| r.queue_ms > 5.0 && probing(r)) / queued.max(1e-9))
    )
}
