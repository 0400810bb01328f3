//! bbr-swift: many senders at once to one port of a data centre.

use super::checks::{Checks, show};
use super::runs::{FigureRun, FileRuns};
use fullpipe_report::output::plot::{Drawing, Panel, Scale};

/// Goodput, drops and queue over the number of flows.
pub(super) fn swift(out: &mut Checks, plays: &[FileRuns]) {
    let goodput = |run: FigureRun<'_>| run.figure("goodput_mbps") / 1e3;
    let dropped = |run: FigureRun<'_>| 100.0 * run.figure("loss_rate");
    let queue_us = |run: FigureRun<'_>| 1e3 * run.figure("queue_ms.p99");
    let panel = |title: &str, unit: &str, value: &dyn Fn(FigureRun<'_>) -> f64| {
        let mut panel = Panel::new(title, "Flows", unit).scales(Scale::Log, Scale::Linear);
        panel.lines = plays[0].lines("variant", "count", value);
        panel
    };
    let panels = vec![
        panel("Goodput of all flows", "Gbit/s", &goodput),
        panel("Dropped", "%", &dropped),
        panel("Queue, p99", "us", &queue_us),
    ];
    let corner = "flows: Gbit/s, dropped %, queue p99 us, Jain";
    let table = plays[0].table("count", "variant", corner, &[], |run| {
        let values = [goodput(run), dropped(run), queue_us(run), run.figure("jain")];
        values.map(show).join(", ")
    });
    out.drawing = Drawing::of(panels).table(table);
    out.note("100 Gbit/s, 25 us, 4 MB, marks above 20 us of queue, an ACK for each packet; the drawing is of whole runs, of which the part after the last start is judged");
}
