//! The tables of Google's nsperf: beside CUBIC, in shallow buffers, in bloated ones.

use fullpipe_cc::Algorithm;

use super::drawing::{Drawing, Kind, Line, Panel, Scale, Table};
use super::outcome::{Outcome, show};
use super::stage::{Broken, MBIT, Setup, Stage, largest, smallest};

/// CUBIC beside one other on 50 Mbit/s and 30 ms, and the harm that it takes.
pub(super) fn coexist(stage: &Stage<'_>) -> Result<Outcome, Broken> {
    const BUFFERS: [f64; 8] = [0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0];
    const SECS: f64 = 180.0;
    let others = [Algorithm::Bbr3, Algorithm::Bbr3Linux, Algorithm::Bbr1, Algorithm::Cubic];
    let mut table = Table::new(&[
        "buffer, BDP",
        "cubic | bbr3",
        "harm",
        "cubic | bbr3-linux",
        "harm",
        "cubic | bbr1",
        "harm",
        "cubic | cubic",
    ]);
    let mut lines: Vec<Vec<(f64, f64)>> = vec![Vec::new(); others.len()];
    let (mut shares, mut harms) = (Vec::new(), Vec::new());
    for buffer in BUFFERS {
        let mut got = Vec::new();
        for other in others {
            let setup = Setup::new(50.0 * MBIT, 30.0, buffer, SECS).every_ms(100.0);
            let run = stage.run(&setup.tcp(Algorithm::Cubic, 0.0).tcp(other, 0.0))?;
            got.push((run.goodput(0, 0.0, SECS) / 1e6, run.goodput(1, 0.0, SECS) / 1e6));
        }
        let alone_together = got[3].0.min(got[3].1);
        let mut cells = vec![show(buffer)];
        for (i, (cubic, other)) in got.iter().enumerate() {
            lines[i].push((buffer, 100.0 * other / (cubic + other)));
            cells.push(format!("{} | {}", show(*cubic), show(*other)));
            if i < 3 {
                cells.push(show(harm(*cubic, alone_together)));
            }
        }
        table.row(cells);
        shares.push((buffer, got[0].1 / (got[0].0 + got[0].1)));
        harms.push(harm(got[0].0, alone_together));
    }
    let mut panel = Panel::new("Share of the flow beside CUBIC", "Buffer, BDP", "%")
        .scales(Scale::Log, Scale::Linear);
    for (other, line) in others.iter().zip(lines) {
        panel.lines.push(Line::new(other.name(), line).kind(Kind::Marked));
    }
    panel.lines.push(Line::new("fair", [(0.1, 50.0), (16.0, 50.0)]).kind(Kind::Dashed));
    let mut out = Outcome::new(Drawing::of(vec![panel]).table(table));
    let least = smallest(shares.iter().map(|s| s.1));
    let most = largest(shares.iter().map(|s| s.1));
    out.within("bbr3's share, least", least, 0.1, 0.9);
    out.within("most", most, 0.1, 0.9);
    let each = shares
        .iter()
        .zip(&harms)
        .map(|((b, s), h)| format!("{} BDP {} ({})", show(*b), show(*s), show(*h)));
    out.note(format!(
        "bbr3's share (harm to cubic) by buffer: {}",
        each.collect::<Vec<_>>().join(", ")
    ));
    out.note("nobody publishes a share that it has to be; the target is that none of the two is starved below a fifth of its half");
    Ok(out)
}

/// RFC 9743's harm: the share of what CUBIC has beside another CUBIC that it lacks beside ours; 0 when it
/// has as much or more.
pub(super) fn harm(beside_ours: f64, beside_its_like: f64) -> f64 {
    if beside_its_like <= 0.0 { 0.0 } else { (1.0 - beside_ours / beside_its_like).max(0.0) }
}

/// 1 to 100 flows on a buffer of a fiftieth of a BDP: retransmissions.
pub(super) fn shallow(stage: &Stage<'_>) -> Result<Outcome, Broken> {
    const FLOWS: [u32; 4] = [1, 10, 30, 100];
    let secs = stage.secs(60.0, 30.0);
    let mut table =
        Table::new(&["flows", "cubic retx %", "bbr1", "bbr3", "cubic Mbit/s", "bbr1", "bbr3"]);
    let mut panel = Panel::new("Retransmitted with a buffer of 0.02 BDP", "Flows", "%")
        .scales(Scale::Log, Scale::Log);
    let algorithms = [Algorithm::Cubic, Algorithm::Bbr1, Algorithm::Bbr3];
    let mut rows: Vec<Vec<(f64, f64, f64)>> = vec![Vec::new(); algorithms.len()];
    for n in FLOWS {
        for (row, algorithm) in rows.iter_mut().zip(algorithms) {
            let mut setup = Setup::new(1000.0 * MBIT, 100.0, 0.02, secs).every_ms(200.0);
            for i in 0..n {
                // Not all at the very same moment, as no real ones do.
                setup = setup.tcp(algorithm, f64::from(i) * 0.01);
            }
            let run = stage.run(&setup)?;
            row.push((f64::from(n), 100.0 * run.retransmitted(), run.total() / 1e6));
        }
    }
    for (i, n) in FLOWS.iter().enumerate() {
        let retx = rows.iter().map(|row| show(row[i].1));
        let mbit = rows.iter().map(|row| show(row[i].2));
        table.row([n.to_string()].into_iter().chain(retx).chain(mbit));
    }
    for (row, algorithm) in rows.iter().zip(algorithms) {
        panel
            .lines
            .push(Line::new(algorithm.name(), row.iter().map(|p| (p.0, p.1))).kind(Kind::Marked));
    }
    let mut out = Outcome::new(Drawing::of(vec![panel]).table(table));
    let ratio = |i: usize| rows[2][i].1 / rows[1][i].1;
    out.at_most(
        "bbr3's retransmissions over bbr1's, most",
        largest((0..FLOWS.len()).map(ratio)),
        0.5,
    );
    out.at_most("bbr3 retransmitted %, most", largest(rows[2].iter().map(|p| p.1)), 5.0);
    out.note("1 Gbit/s, 100 ms; BBRv2 and v3 were made because of this table (v1 loses some 10 to 20 % here)");
    Ok(out)
}

/// Two flows in buffers of 1 to 100 BDP.
pub(super) fn bufferbloat(stage: &Stage<'_>) -> Result<Outcome, Broken> {
    const BUFFERS: [f64; 5] = [1.0, 5.0, 10.0, 50.0, 100.0];
    const SECS: f64 = 120.0;
    let mut table = Table::new(&[
        "buffer, BDP",
        "cubic RTT p50 ms",
        "bbr1",
        "bbr3",
        "cubic Mbit/s",
        "bbr1",
        "bbr3",
    ]);
    let mut panel = Panel::new("Median round trip of two flows", "Buffer, BDP", "ms")
        .scales(Scale::Log, Scale::Log);
    let algorithms = [Algorithm::Cubic, Algorithm::Bbr1, Algorithm::Bbr3];
    let mut rows: Vec<Vec<(f64, f64, f64)>> = vec![Vec::new(); algorithms.len()];
    for buffer in BUFFERS {
        for (row, algorithm) in rows.iter_mut().zip(algorithms) {
            let setup = Setup::new(50.0 * MBIT, 30.0, buffer, SECS).every_ms(50.0);
            let run = stage.run(&setup.tcp(algorithm, 0.0).tcp(algorithm, 0.0))?;
            row.push((buffer, run.rtt_at(0.5), run.total() / 1e6));
        }
    }
    for (i, buffer) in BUFFERS.iter().enumerate() {
        let rtt = rows.iter().map(|row| show(row[i].1));
        let mbit = rows.iter().map(|row| show(row[i].2));
        table.row([show(*buffer)].into_iter().chain(rtt).chain(mbit));
    }
    for (row, algorithm) in rows.iter().zip(algorithms) {
        panel
            .lines
            .push(Line::new(algorithm.name(), row.iter().map(|p| (p.0, p.1))).kind(Kind::Marked));
    }
    let mut out = Outcome::new(Drawing::of(vec![panel]).table(table));
    let spread = |row: &[(f64, f64, f64)]| {
        largest(row[1..].iter().map(|p| p.1)) / smallest(row[1..].iter().map(|p| p.1))
    };
    out.at_most("bbr3: most over least RTT from 5 BDP", spread(&rows[2]), 1.5);
    out.at_least("cubic: the same", spread(&rows[0]), 5.0);
    out.at_least(
        "cubic's RTT over bbr3's from 5 BDP, least",
        smallest((1..5).map(|i| rows[0][i].1 / rows[2][i].1)),
        2.0,
    );
    out.note("50 Mbit/s, 30 ms, 120 s");
    Ok(out)
}
