//! Careful Resume (RFC 9959): a megabyte over a satellite, with and without saved parameters.

use super::checks::{Checks, show};
use super::runs::FileRuns;
use fullpipe_report::output::plot::{CellTable, Drawing, Kind, Line, Panel};

/// The algorithms that are drawn: those of one family are nearly the same.
const DRAWN: [&str; 2] = ["bbr3", "cubic"];

/// What the receiver has read over time.
pub(super) fn resume(out: &mut Checks, plays: &[FileRuns]) {
    let mut panel = Panel::new("Read by the receiver", "Time, s", "MB");
    let mut table =
        CellTable::new(&["", "without, s", "with saved parameters, s", "time, with over without"]);
    for cc in plays[0].values("cc") {
        let runs = ["off", "1bdp"].map(|cwnd| plays[0].run(&[cc, cwnd]));
        let [Some(without), Some(with)] = runs else { continue };
        let times = [without, with].map(|run| run.figure("elapsed_s"));
        let cells = [times[0], times[1], times[1] / times[0]].map(show);
        table.row([cc.to_owned()].into_iter().chain(cells));
        if DRAWN.contains(&cc) {
            panel.lines.push(Line::new(cc, without.read_line(0)).kind(Kind::Dashed));
            panel.lines.push(Line::new(format!("{cc} resuming"), with.read_line(0)).colour(cc));
        }
    }
    out.drawing = Drawing::of(vec![panel]).table(table);
    out.note("50 Mbit/s, 600 ms, from the start of the handshake; the saved window is one BDP");
}
