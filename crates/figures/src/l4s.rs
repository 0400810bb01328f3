//! L4S: Prague and BBR with low-latency marks, alone and beside CUBIC.

use super::checks::{Checks, show};
use super::runs::{FigureRun, FileRuns, number};
use fullpipe_report::output::plot::{Drawing, Kind, Line, Panel, Scale};

/// The queue of flows of L4S by themselves, and what Prague and CUBIC share behind DualPI2.
pub(super) fn l4s(out: &mut Checks, plays: &[FileRuns]) {
    let [alone, beside] = plays else { return };
    let rtt = |run: FigureRun<'_>| number(run.at("rtt"));
    let share = |run: FigureRun<'_>| 100.0 * run.of_flow(0, "share");
    let x = "RTT, ms";
    let mut queue = Panel::new("One flow of L4S behind DualPI2: queue, p99", x, "ms")
        .scales(Scale::Linear, Scale::Log);
    for cc in alone.values("cc") {
        let runs = alone.runs(&["DualPI2", cc, "1"]);
        let points = runs.map(|run| (rtt(run), run.figure("queue_ms.p99")));
        queue.lines.push(Line::new(cc, points).kind(Kind::Marked));
    }
    let mut shares = Panel::new("Prague beside CUBIC: its share", x, "%");
    let mut beside_queue = Panel::new("Prague beside CUBIC: its queue, p99", x, "ms");
    for (rate, colour) in beside.values("rate").into_iter().zip(["flow 3", "flow 4"]) {
        let name = format!("{} Mbit/s", show(number(rate)));
        let line = |value: &dyn Fn(FigureRun<'_>) -> f64| {
            let points = beside.runs(&[rate]).map(|run| (rtt(run), value(run)));
            Line::new(name.as_str(), points).kind(Kind::Marked).colour(colour)
        };
        shares.lines.push(line(&share));
        beside_queue.lines.push(line(&|run| run.of_flow(0, "queue_ms.p99")));
    }
    let rtts: Vec<f64> = beside.values("rtt").into_iter().map(number).collect();
    if let (Some(first), Some(last)) = (rtts.first(), rtts.last()) {
        let fair = Line::new("fair", [(*first, 50.0), (*last, 50.0)]);
        shares.lines.push(fair.kind(Kind::Dashed));
    }
    out.drawing = Drawing::of(vec![queue, shares, beside_queue]);
    for (queue, flows) in [("step", "1"), ("step", "4"), ("DualPI2", "1"), ("DualPI2", "4")] {
        let corner = format!("{queue}, flows {flows}: used %, queue p99 ms");
        out.drawing.tables.push(alone.table("rtt", "cc", &corner, &[queue, flows], |run| {
            let used = 100.0 * run.figure("utilization");
            format!("{}, {}", show(used), show(run.figure("queue_ms.p99")))
        }));
    }
    let corner = "beside CUBIC: Prague's share %, its queue p99 ms, CUBIC's";
    out.drawing.tables.push(beside.table("rtt", "rate", corner, &[], |run| {
        let queues = [0, 1].map(|flow| run.of_flow(flow, "queue_ms.p99"));
        [share(run), queues[0], queues[1]].map(show).join(", ")
    }));
    out.note("100 Mbit/s alone; the drawing is of whole runs, of which the time after slow start is judged. bbr3-linux does not count marks over more than 5 ms");
}
