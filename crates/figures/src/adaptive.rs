//! Figure 3 of the paper: the rate of the link doubles, and falls back.

use super::checks::Checks;
use super::runs::FileRuns;
use fullpipe_report::output::plot::{Drawing, Kind, Line, Panel};

/// Payload share of a full datagram's bytes on the link.
const PAYLOAD: f64 = 1452.0 / 1480.0;

/// Figure 3.
pub(super) fn fig3(out: &mut Checks, plays: &[FileRuns]) {
    let x = "Time, s";
    let mut panels = [
        Panel::new("Round trip", x, "ms"),
        Panel::new("In flight", x, "kB"),
        Panel::new("Bandwidth believed", x, "Mbit/s"),
    ];
    for run in plays[0].runs(&[]) {
        let lines = [
            run.line(0, |r| r.rtt_ms.unwrap_or(f64::NAN)),
            run.line(0, |r| r.inflight_bytes.unwrap_or(0) as f64 / 1e3),
            run.line(0, |r| r.max_bw_mbps.unwrap_or(f64::NAN)),
        ];
        for (panel, line) in panels.iter_mut().zip(lines) {
            panel.lines.push(Line::new(run.at("cc"), line));
        }
        let believes = |from: f64, is: fn(f64) -> bool| {
            let row = run.rows(0).find(|r| r.t_s > from && r.max_bw_mbps.is_some_and(is));
            row.map_or(f64::INFINITY, |r| r.t_s - from)
        };
        let (up, down) = (believes(20.0, |bw| bw >= 18.6), believes(40.0, |bw| bw <= 10.3));
        out.note(format!(
            "{}: 20 Mbit/s believed {up:.2} s after the step, 10 Mbit/s {down:.2} s after",
            run.at("cc")
        ));
    }
    let truth = [(0.0, 10.0), (20.0, 10.0), (20.0, 20.0), (40.0, 20.0), (40.0, 10.0), (60.0, 10.0)];
    let truth = truth.map(|(t, mbit)| (t, mbit * PAYLOAD));
    panels[2].lines.push(Line::new("the link", truth).kind(Kind::Dashed));
    out.drawing = Drawing::of(panels.to_vec());
    out.note("over QUIC, a buffer of 16 BDP");
}
