//! Figures 4 and 5 of the paper, and the tuning of Startup from BBRv3's slides.

use super::checks::{Checks, show};
use super::runs::{FileRuns, mean};
use fullpipe_report::output::plot::{CellTable, Drawing, Kind, Line, Panel};
use fullpipe_scenario::formulas::percentile;
/// BDP of 10 Mbit/s and 40 ms, in kB.
const BDP_KB: f64 = 50.0;

/// RTT and inflight of the three algorithms, with the states of bbr3 behind them.
fn draw(plays: &FileRuns) -> Drawing {
    let x = "Time, s";
    let mut rtt = Panel::new("Round trip", x, "ms");
    let mut inflight = Panel::new("In flight", x, "kB");
    let mut end = 0.0;
    for run in plays.runs(&[]) {
        let name = run.at("cc");
        rtt.lines.push(Line::new(name, run.line(0, |r| r.rtt_ms.unwrap_or(f64::NAN))));
        inflight
            .lines
            .push(Line::new(name, run.line(0, |r| r.inflight_bytes.unwrap_or(0) as f64 / 1e3)));
        end = run.end();
    }
    for (name, level) in [("BDP", BDP_KB), ("BDP and buffer", 7.0 * BDP_KB)] {
        inflight.lines.push(Line::new(name, [(0.0, level), (end, level)]).kind(Kind::Dashed));
    }
    let bands = plays.run(&["bbr3"]).map_or(Vec::new(), |run| run.bands(0));
    Drawing::of(vec![rtt.bands(bands.clone()), inflight.bands(bands)])
}

/// Figure 4: the first second.
pub(super) fn fig4(out: &mut Checks, plays: &[FileRuns]) {
    for run in plays[0].runs(&[]) {
        let last = run.rows(0).last().map_or(f64::NAN, |r| r.queue_ms);
        let peak = run.figure("queue_ms.max");
        let name = run.at("cc");
        out.note(format!("{name}: queue {} ms at its peak, {} ms at 1 s", show(peak), show(last)));
    }
    out.note("each alone over QUIC, a buffer of 6 BDP");
    out.drawing = draw(&plays[0]);
}

/// Figure 5: the first eight seconds.
pub(super) fn fig5(out: &mut Checks, plays: &[FileRuns]) {
    for run in plays[0].runs(&[]).filter(|run| run.at("cc") != "cubic") {
        let mut queue: Vec<f64> = run.rows(0).filter(|r| r.t_s > 1.0).map(|r| r.queue_ms).collect();
        out.note(format!(
            "{}: queue after 1 s {} ms on average, {} ms at p95",
            run.at("cc"),
            show(mean(queue.iter().copied())),
            show(percentile(&mut queue, 95).unwrap_or(f64::NAN))
        ));
    }
    out.note("each alone over QUIC, a buffer of 6 BDP");
    out.drawing = draw(&plays[0]);
}

/// The tuning of Startup's gains: 2.89 and 2.89 before, 2.77 and 2.0 now.
pub(super) fn tuning(out: &mut Checks, plays: &[FileRuns]) {
    let mut table = CellTable::new(&["buffer", "gains", "queue mean ms", "queue max ms", "loss %"]);
    for buffer in plays[0].values("buffer") {
        let mut panel = Panel::new(&format!("Queue with a buffer of {buffer}"), "Time, s", "ms");
        for run in plays[0].runs(&[buffer]) {
            let (like, gains) = match run.at("variant") {
                "before" => ("bbr1", "2.89 and 2.89"),
                _ => ("bbr3", "2.77 and 2.0"),
            };
            let figures = ["queue_ms.mean", "queue_ms.max"].map(|f| show(run.figure(f)));
            let loss = show(100.0 * run.figure("retransmit_rate"));
            let head = [buffer.to_owned(), gains.to_owned()];
            table.row(head.into_iter().chain(figures).chain([loss]));
            panel.lines.push(Line::new(gains, run.line(0, |r| r.queue_ms)).colour(like));
        }
        out.drawing.panels.push(panel);
    }
    out.drawing.tables.push(table);
    out.note("bbr3 with both, the first 2 s at 50 Mbit/s and 40 ms");
}
