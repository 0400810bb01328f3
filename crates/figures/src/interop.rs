//! The two measurements of the QUIC interop runner: goodput, and goodput beside one TCP flow.

use super::checks::{Checks, show};
use super::runs::FileRuns;
use fullpipe_report::output::plot::{CellTable, Drawing, Line, Panel};

/// 10 MB alone.
pub(super) fn goodput(out: &mut Checks, plays: &[FileRuns]) {
    let mut panel = Panel::new("Goodput of the first of five", "Time, s", "Mbit/s");
    for run in plays[0].runs(&["1"]) {
        panel.lines.push(Line::new(run.at("cc"), run.goodput_line(0, 0.1)));
        let states = run.rows(0).filter(|r| r.state.as_deref() == Some("ProbeRTT")).count() as f64;
        out.note(format!(
            "{}: the link is idle for {} % of the time, and ProbeRTT lasts {} % of it",
            run.at("cc"),
            show(100.0 * (1.0 - run.figure("utilization"))),
            show(100.0 * states / run.rows(0).count().max(1) as f64)
        ));
    }
    let table =
        plays[0].table("seed", "cc", "seed, Mbit/s", &[], |r| show(r.figure("goodput_mbps")));
    out.drawing = Drawing::of(vec![panel]).table(table);
    out.note("full datagrams of 1452 bytes carry 1415 of the application: 9.56 Mbit/s are the most there can be, without a handshake, which is not in it");
}

/// 25 MB beside one TCP flow of CUBIC.
pub(super) fn crosstraffic(out: &mut Checks, plays: &[FileRuns]) {
    let mut table = CellTable::new(&["seed", "over QUIC", "Mbit/s", "TCP, all 90 s, Mbit/s"]);
    for run in plays[0].runs(&[]) {
        let figures = [0, 1].map(|flow| show(run.of_flow(flow, "goodput_mbps")));
        let head = [run.at("seed"), run.at("cc")].map(str::to_owned);
        table.row(head.into_iter().chain(figures));
    }
    let mut panel = Panel::new("The first of five, beside CUBIC", "Time, s", "Mbit/s");
    if let Some(run) = plays[0].run(&["1", "bbr3"]) {
        panel.lines.push(Line::new("bbr3", run.goodput_line(0, 1.0)));
        panel.lines.push(Line::new("cubic", run.goodput_line(1, 1.0)));
    }
    out.drawing = Drawing::of(vec![panel]).table(table);
    out.note("the TCP flow is there to the end of 90 s, and has the link to itself when the other is through");
}
