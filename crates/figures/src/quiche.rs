//! The figures of QUICHE's simulator: 4 Mbit/s, 30 ms each way, QUIC.

use super::checks::{Checks, show};
use super::runs::FileRuns;
use fullpipe_report::output::plot::{CellTable, Drawing, Line, Panel};

/// All of them, as one table.
pub(super) fn quiche(out: &mut Checks, plays: &[FileRuns]) {
    let title = "From 10 Mbit/s to 100 kbit/s at 10 s";
    let mut panel = Panel::new(title, "Time, s", "bandwidth believed, Mbit/s");
    if let Some(run) = plays[0].run(&["down a hundredfold"]) {
        let believed = run.line(0, |r| r.max_bw_mbps.unwrap_or(f64::NAN));
        panel.lines.push(Line::new("max_bw", believed));
    }
    let mut table = CellTable::new(&["", "MiB", "s", "retransmitted %", "srtt at the end, ms"]);
    for run in plays[0].runs(&[]) {
        let srtt = run.rows(0).last().and_then(|r| r.srtt_ms).unwrap_or(f64::NAN);
        let figures = [
            run.figure("completed_bytes") / f64::from(1 << 20),
            run.figure("elapsed_s"),
            100.0 * run.figure("retransmit_rate"),
            srtt,
        ];
        table.row([run.at("variant").to_owned()].into_iter().chain(figures.map(show)));
    }
    out.drawing = Drawing::of(vec![panel]).table(table);
    out.note("QUIC, bbr3; buffers of 2 BDP but where another is named. Two figures depend on the size of the datagrams: see tests/suite/quiche.rs");
}
