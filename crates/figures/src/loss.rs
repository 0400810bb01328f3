//! Goodput under random loss: figure 8 of the paper, and nsperf's table.

use super::checks::{Checks, show};
use super::runs::{FileRuns, number};
use fullpipe_report::output::plot::{CellTable, Drawing, Kind, Line, Panel, Scale};

/// Figure 8.
pub(super) fn fig8(out: &mut Checks, plays: &[FileRuns]) {
    out.drawing = draw(&plays[0], 100.0);
    for name in ["bbr3", "bbr1"] {
        out.note(shares(&plays[0], name, 100.0));
    }
    out.note("over QUIC, a buffer of 1 BDP");
}

/// Goodput over the loss, beside what the link of so many Mbit/s lets pass.
fn draw(plays: &FileRuns, link: f64) -> Drawing {
    let mut panel = Panel::new("Goodput under random loss", "Loss, %", "Mbit/s")
        .scales(Scale::Log, Scale::Linear);
    let (algorithms, losses) = (plays.values("cc"), plays.values("loss"));
    let goodput = |cc: &str, loss: &str| {
        plays.run(&[cc, loss]).map_or(f64::NAN, |run| run.figure("goodput_mbps"))
    };
    let limit = |loss: &str| link * (1.0 - number(loss) / 100.0);
    for cc in &algorithms {
        let points = losses.iter().map(|loss| (number(loss), goodput(cc, loss)));
        panel.lines.push(Line::new(*cc, points).kind(Kind::Marked));
    }
    let limits = losses.iter().map(|loss| (number(loss), limit(loss)));
    panel.lines.push(Line::new("link x (1 - p)", limits).kind(Kind::Dashed));
    let header = ["loss", "link x (1 - p)"].into_iter().chain(algorithms.iter().copied());
    let mut table = CellTable::new(&header.collect::<Vec<_>>());
    for loss in &losses {
        let cells = algorithms.iter().map(|cc| show(goodput(cc, loss)));
        table.row([(*loss).to_owned(), show(limit(loss))].into_iter().chain(cells));
    }
    Drawing::of(vec![panel]).table(table)
}

fn shares(plays: &FileRuns, cc: &str, link: f64) -> String {
    let each = plays.runs(&[cc]).map(|run| {
        let loss = run.at("loss");
        let share = run.figure("goodput_mbps") / (link * (1.0 - number(loss) / 100.0));
        format!("{} at {loss}", show(share))
    });
    format!("{cc}, of link x (1 - p): {}", each.collect::<Vec<_>>().join(", "))
}

/// nsperf's random_loss.
pub(super) fn random_loss(out: &mut Checks, plays: &[FileRuns]) {
    out.drawing = draw(&plays[0], 1000.0);
    out.note(shares(&plays[0], "bbr3", 1000.0));
    out.note("1 Gbit/s, 100 ms, 1 BDP");
}
