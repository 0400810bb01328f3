//! ACKs in bursts: what BBR loses without its estimate of aggregation.

use super::checks::{Checks, show};
use super::runs::FileRuns;
use fullpipe_report::output::plot::{CellTable, Drawing, Kind, Line, Panel};

/// Published values for the two links: without extra_acked, with it, CUBIC.
const PUBLISHED: [(&str, [f64; 3]); 2] =
    [("2.4 GHz", [73.0, 102.0, 100.0]), ("5 GHz", [362.0, 593.0, 601.0])];

/// Without extra_acked, with it, CUBIC; on two links.
pub(super) fn aggregation(out: &mut Checks, plays: &[FileRuns]) {
    let names = ["without", "with", "CUBIC", "bbr3"];
    let mut table = CellTable::new(&["link", "without", "with", "CUBIC", "bbr3", "published"]);
    let mut panels = Vec::new();
    for (link, published) in PUBLISHED {
        let of = |cc: &str, estimate: &str| {
            let run = plays[0].run(&[link, cc, estimate]);
            run.map_or(f64::NAN, |run| run.figure("goodput_mbps"))
        };
        let goodputs =
            [of("bbr1", "false"), of("bbr1", "true"), of("cubic", "true"), of("bbr3", "true")];
        let bars = |values: &[f64]| {
            values.iter().enumerate().map(|(i, v)| (i as f64, *v)).collect::<Vec<_>>()
        };
        let mut panel = Panel::new(&format!("{link}-like link"), "", "Mbit/s")
            .with(Line::new("measured", bars(&goodputs)).kind(Kind::Bars))
            .with(Line::new("published", bars(&published)).kind(Kind::Bars));
        panel.names = names.map(str::to_owned).to_vec();
        panels.push(panel);
        let told = published.map(show).join(" / ");
        let cells = goodputs.iter().map(|g| show(*g));
        table.row([link.to_owned()].into_iter().chain(cells).chain([told]));
        let [without, with, cubic, bbr3] = goodputs.map(show);
        out.note(format!("{link}: {without} / {with} / {cubic} Mbit/s, bbr3 {bbr3}"));
    }
    out.drawing = Drawing::of(panels).table(table);
    out.note("bbr1 over TCP, 10 ms, all ACKs of 19 ms at once");
}
