//! Flows of one kind beside each other: figure 6 of the paper, the two fixes of BBRv3's slides.

use super::checks::{Checks, show};
use super::runs::{FigureRun, FileRuns};
use fullpipe_report::output::plot::{CellTable, Line, Panel};

fn shares(run: FigureRun<'_>, title: &str, window: f64) -> Panel {
    let mut panel = Panel::new(title, "Time, s", "Mbit/s");
    for flow in 0..run.0.flows.len() {
        panel.lines.push(Line::new(format!("flow {flow}"), run.goodput_line(flow, window)));
    }
    panel
}

/// Figure 6: five flows that start one after the other.
pub(super) fn fig6(out: &mut Checks, plays: &[FileRuns]) {
    for run in plays[0].runs(&["1"]) {
        let name = run.at("cc");
        out.drawing.panels.push(shares(run, &format!("Shares of five {name} flows"), 0.2));
        out.note(format!(
            "{name} converged {} s after the last start",
            show(run.convergence_s(8.0, 0.01).unwrap_or(f64::INFINITY))
        ));
    }
    out.note("starts 2 s apart, a buffer of 8 BDP");
}

/// The fixes: convergence with loss, and without.
pub(super) fn fix(out: &mut Checks, plays: &[FileRuns]) {
    let mut table =
        CellTable::new(&["seed", "Jain, all of it", "converged after s", "loss %", "queue p50 ms"]);
    for run in plays[0].runs(&[]) {
        table.row([
            run.at("seed").to_owned(),
            format!("{:.4}", run.figure("jain")),
            show(run.convergence_s(1.0, 0.04).unwrap_or(f64::INFINITY)),
            show(100.0 * run.figure("retransmit_rate")),
            show(run.figure("queue_ms.p50")),
        ]);
    }
    if let Some(run) = plays[0].run(&["1"]) {
        out.drawing.panels.push(shares(run, "Four bbr3 flows", 0.5));
        let queue = run.line(0, |r| r.queue_ms);
        out.drawing
            .panels
            .push(Panel::new("Queue", "Time, s", "ms").with(Line::new("queue", queue)));
    }
    out.drawing.tables.push(table);
    out.note("50 Mbit/s, 40 ms, two flows at 0 s and two at 1 s; drawn is the first of nine seeds");
}
