//! Live media: an encoder that follows the sender's estimate over a link whose rate changes.

use super::checks::{Checks, show};
use super::runs::FileRuns;
use fullpipe_report::output::plot::{CellTable, Drawing, Kind, Line, Panel};

/// Time over which rates are means, in seconds: from keyframe to keyframe, over which the bitrate
/// is the mean too.
const WINDOW: f64 = 2.0;

/// What comes of the frames and what the sender believes, beside the link, and how late frames are.
pub(super) fn media(out: &mut Checks, plays: &[FileRuns]) {
    let x = "Time, s";
    let mut read = Panel::new("Frames that the receiver read", x, "Mbit/s");
    let mut believed = Panel::new("Bandwidth believed", x, "Mbit/s");
    let mut rtt = Panel::new("Round trip", x, "ms");
    let mut late = Panel::new("Frame delay, p99", "", "ms");
    let mut table = CellTable::new(&[
        "",
        "bitrate Mbit/s",
        "frame delay p50 ms",
        "p99 ms",
        "dropped frames",
        "stalls",
        "stalled ms",
    ]);
    let mut bars = Vec::new();
    for run in plays[0].runs(&[]) {
        let cc = run.at("cc");
        read.lines.push(Line::new(cc, run.goodput_line(0, WINDOW)));
        if run.rows(0).any(|row| row.max_bw_mbps.is_some()) {
            believed
                .lines
                .push(Line::new(cc, run.line(0, |row| row.max_bw_mbps.unwrap_or(f64::NAN))));
        }
        rtt.lines.push(Line::new(cc, run.line(0, |row| row.rtt_ms.unwrap_or(f64::NAN))));
        bars.push((bars.len() as f64, run.figure("completion_ms.p99")));
        late.names.push(cc.to_owned());
        let figures = [
            "bitrate_mbps",
            "completion_ms.p50",
            "completion_ms.p99",
            "dropped_frames",
            "stalls",
            "stalled_ms",
        ];
        let cells = figures.map(|figure| show(run.figure(figure)));
        table.row([cc.to_owned()].into_iter().chain(cells));
    }
    if let Some(run) = plays[0].run(&[]) {
        let link = run.line(0, |row| row.capacity_mbps.unwrap_or(f64::NAN));
        let link = Line::new("the link", link).kind(Kind::Dashed);
        read.lines.push(link.clone());
        believed.lines.push(link);
    }
    late.lines.push(Line::new("measured", bars).kind(Kind::Bars));
    out.drawing = Drawing::of(vec![read, believed, rtt, late]).table(table);
    out.note("means over the two seconds from keyframe to keyframe; believed is max_bw of the BBRs. The player shows a frame 200 ms after its capture");
}
