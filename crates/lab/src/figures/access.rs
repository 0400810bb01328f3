//! Access links: figures 9 and 10 of the paper, and the retransmissions of BBRv3's slides.

use fullpipe_cc::{Algorithm, Rate};
use fullpipe_sim::{Application, FlowConfig};
use rand::{RngExt as _, SeedableRng as _};
use rand_pcg::Pcg64;

use super::drawing::{Drawing, Kind, Line, Panel, Scale, Table};
use super::outcome::{Outcome, show};
use super::stage::{Broken, MBIT, Setup, Stage, largest, percentile, smallest};

/// An access link.
#[derive(Clone, Copy)]
struct Access {
    bits: f64,
    rtt_ms: f64,
    buffer_bdp: f64,
    loss: f64,
    /// What is watched: a share of the link, written a chunk at a time; more than 1 is a bulk transfer.
    demand: f64,
}

/// Links from 0.5 to 50 Mbit/s and 20 to 200 ms with buffers of a quarter to 32 BDP, all even on a
/// logarithmic scale; a tenth of them loses 0.1 %. What streams over them takes 0.3 to 1.2 of the link.
fn population(n: usize) -> Vec<Access> {
    let mut rng = Pcg64::seed_from_u64(9);
    let mut log = |low: f64, high: f64| low * (high / low).powf(rng.random::<f64>());
    (0..n)
        .map(|i| Access {
            bits: log(0.5, 50.0) * MBIT,
            rtt_ms: log(20.0, 200.0),
            buffer_bdp: log(0.25, 32.0),
            loss: if i % 10 == 0 { 0.001 } else { 0.0 },
            demand: log(0.3, 1.2),
        })
        .collect()
}

/// What streams: two seconds of video in each write, or bulk where more is wanted than there is.
fn watch(link: &Access, algorithm: Algorithm) -> FlowConfig {
    let bits = link.bits * link.demand;
    let application = if link.demand >= 1.0 {
        Application::Bulk
    } else {
        Application::RateLimited {
            rate: Rate::from_bits_per_sec(bits as u64),
            write_bytes: (bits / 8.0 * 2.0) as u64,
        }
    };
    FlowConfig { application, ..FlowConfig::tcp_bulk(algorithm) }
}

/// For each link and algorithm: median RTT in ms, bytes received, bytes lost, bytes sent.
type Seen = Vec<[(f64, u64, u64, u64); 3]>;

fn survey(stage: &Stage<'_>, links: &[Access]) -> Result<Seen, Broken> {
    let mut seen = Vec::new();
    for (i, link) in links.iter().enumerate() {
        let mut row = [(0.0, 0, 0, 0); 3];
        for (cell, algorithm) in
            row.iter_mut().zip([Algorithm::Cubic, Algorithm::Bbr1, Algorithm::Bbr3])
        {
            let setup = Setup::new(link.bits, link.rtt_ms, link.buffer_bdp, 60.0).every_ms(1000.0);
            let setup = setup.seed(1 + i as u64).loss(link.loss).flow(watch(link, algorithm));
            let run = stage.run(&setup)?;
            let (sent, lost) = run.sent[0];
            let received = run.samples.last().map_or(0, |s| s.flows[0].received);
            *cell = (run.rtt_at(0.5), received, lost, sent);
        }
        seen.push(row);
    }
    Ok(seen)
}

/// Figure 9: the median round trip over a population.
pub(super) fn fig9(stage: &Stage<'_>) -> Result<Outcome, Broken> {
    let links = population(150);
    let seen = survey(stage, &links)?;
    let mut out = Outcome::default();
    let mut panel =
        Panel::new("Median round trip of each link, the shortest first", "Links, %", "ms")
            .scales(Scale::Linear, Scale::Log);
    for (k, name) in ["cubic", "bbr1", "bbr3"].into_iter().enumerate() {
        let mut rtts: Vec<f64> = seen.iter().map(|row| row[k].0).collect();
        rtts.sort_by(f64::total_cmp);
        let n = rtts.len() as f64;
        panel.lines.push(Line::new(
            name,
            rtts.into_iter().enumerate().map(|(i, r)| (100.0 * i as f64 / n, r)),
        ));
    }
    let cut = |k: usize, of: &dyn Fn(&Access) -> bool| {
        let chosen = || seen.iter().zip(&links).filter(|(_, l)| of(l)).map(|(row, _)| row);
        let median = |k: usize| percentile(chosen().map(|row| row[k].0).collect(), 0.5);
        1.0 - median(k) / median(0)
    };
    let deep = |l: &Access| l.buffer_bdp >= 8.0;
    for (k, name) in [(1, "bbr1"), (2, "bbr3")] {
        out.at_least(&format!("{name}: median RTT cut by"), cut(k, &|_| true), 0.5);
        out.note(format!(
            "{name} with buffers from 8 BDP: cut by {} (the paper: 0.8)",
            show(cut(k, &deep))
        ));
    }
    out.drawing = Drawing::of(vec![panel]);
    out.note("150 links of 0.5 to 50 Mbit/s, 20 to 200 ms, a quarter to 32 BDP; streams of 0.3 to 1.2 of the link for 60 s each. The paper's population is not published");
    Ok(out)
}

/// BBRv3's retransmissions against BBRv1's.
pub(super) fn retx(stage: &Stage<'_>) -> Result<Outcome, Broken> {
    let links = population(150);
    let seen = survey(stage, &links)?;
    let sum = |k: usize, of: fn(&(f64, u64, u64, u64)) -> u64| {
        seen.iter().map(|row| of(&row[k]) as f64).sum::<f64>()
    };
    let rate = |k: usize| sum(k, |c| c.2) / sum(k, |c| c.3);
    let mut table = Table::new(&["", "retransmitted %", "received GB"]);
    for (k, name) in ["cubic", "bbr1", "bbr3"].into_iter().enumerate() {
        table.row([name.to_owned(), show(100.0 * rate(k)), show(sum(k, |c| c.1) / 1e9)]);
    }
    // A session's own throughput, so that fast links do not outweigh all others.
    let session =
        percentile(seen.iter().map(|row| row[2].1 as f64 / row[1].1.max(1) as f64).collect(), 0.5);
    let mut panel = Panel::new("Retransmitted, all links together", "", "%");
    panel.names = ["cubic", "bbr1", "bbr3"].map(str::to_owned).to_vec();
    panel.lines.push(
        Line::new("retransmitted", (0..3).map(|k| (k as f64, 100.0 * rate(k)))).kind(Kind::Bars),
    );
    let mut out = Outcome::new(Drawing::of(vec![panel]).table(table));
    out.at_most("retransmissions of bbr3 over bbr1", rate(2) / rate(1), 0.88);
    out.within("throughput of the median session, over bbr1's", session, 0.99, 1.05);
    out.note(format!(
        "all bytes together: {} of bbr1's; retransmitted {} % against {} %; the links and streams of fig9",
        show(sum(2, |c| c.1) / sum(1, |c| c.1)), show(100.0 * rate(2)), show(100.0 * rate(1))
    ));
    Ok(out)
}

/// Figure 10: eight flows on a mobile link behind a gateway with a lot of memory.
pub(super) fn fig10(stage: &Stage<'_>) -> Result<Outcome, Broken> {
    const PACKETS: [u64; 7] = [10, 30, 100, 200, 300, 600, 1200];
    let mut panel = Panel::new("Median round trip in the steady state", "Buffer, packets", "s")
        .scales(Scale::Log, Scale::Log);
    let mut table = Table::new(&["buffer, packets", "cubic RTT s", "bbr1 RTT s", "bbr3 RTT s"]);
    let mut rows: Vec<Vec<f64>> = Vec::new();
    for algorithm in [Algorithm::Cubic, Algorithm::Bbr1, Algorithm::Bbr3] {
        let mut row = Vec::new();
        for packets in PACKETS {
            let mut setup = Setup::new(128e3, 40.0, 1.0, 1800.0).packets(packets).every_ms(500.0);
            for _ in 0..8 {
                setup = setup.tcp(algorithm, 0.0);
            }
            let run = stage.run(&setup)?;
            let rtts =
                run.between(600.0, 1800.0).iter().flat_map(|s| s.flows.iter().map(|f| f.rtt_ms));
            row.push(percentile(rtts.collect(), 0.5) / 1e3);
        }
        let points = PACKETS.iter().zip(&row).map(|(p, r)| (*p as f64, *r));
        panel.lines.push(Line::new(algorithm.name(), points).kind(Kind::Marked));
        rows.push(row);
    }
    for (name, level) in [("SYN timeout, 1 s", 1.0), ("SYN timeout, 3 s", 3.0)] {
        panel.lines.push(Line::new(name, [(10.0, level), (1200.0, level)]).kind(Kind::Dashed));
    }
    for (i, packets) in PACKETS.iter().enumerate() {
        table.row([packets.to_string()].into_iter().chain(rows.iter().map(|row| show(row[i]))));
    }
    let mut out = Outcome::new(Drawing::of(vec![panel]).table(table));
    // From 100 packets on: 8 flows of 4 packets each need 32.
    out.at_least("cubic: RTT at 1200 packets over that at 100", rows[0][6] / rows[0][2], 8.0);
    for (row, name) in rows[1..].iter().zip(["bbr1", "bbr3"]) {
        out.at_most(
            &format!("{name}: most over least from 100"),
            largest(row[2..].to_vec()) / smallest(row[2..].to_vec()),
            1.5,
        );
    }
    out.note("half an hour each, the last 20 minutes count; 8 flows of at least 4 packets hold 3 s of this link whatever they do. The first windows of 8 flows are 7.5 s of this link, more than the 5 s between two ProbeRTTs of bbr3: each of its samples in Startup counts as application-limited, from which no plateau is concluded, and its min_rtt, of the last 10 s, is soon a round trip through the queue, of which a ProbeRTT leaves half");
    Ok(out)
}
