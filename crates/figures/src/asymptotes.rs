//! Figures 1 and 2 of the paper: where the two limits meet, and BBR's walk about that point.

use super::checks::Checks;
use super::runs::{FigureRun, FileRuns, largest, mean, number};
use fullpipe_report::observe::SeriesRow;
use fullpipe_report::output::plot::{Band, Drawing, Kind, Line, Panel};

/// The round trip of the empty path for a full segment on 10 Mbit/s and 40 ms, and what is under
/// way in it.
const EMPTY_MS: f64 = 41.2;
const BDP_BYTES: f64 = 51_500.0;
/// A full datagram's round trip there, whose transmission is a little shorter.
const RTPROP_MS: f64 = 41.184;
/// Goodput of the link: 1415 of a datagram's 1480 bytes are the application's.
const GOODPUT_MBPS: f64 = 10.0 * 1415.0 / 1480.0;

/// Figure 1: a window of fixed size on a path with a buffer of one BDP.
pub(super) fn fig1(out: &mut Checks, plays: &[FileRuns]) {
    let bdps = |run: FigureRun<'_>| number(run.at("receive_window")) / 1448.0 * 1500.0 / BDP_BYTES;
    let panel = |title: &str, y: &str, value: &dyn Fn(FigureRun<'_>) -> f64| {
        let points = plays[0].runs(&[]).map(|run| (bdps(run), value(run)));
        let line = Line::new("measured", points).kind(Kind::Marked);
        Panel::new(title, "In flight, BDP", y).with(line)
    };
    let limits = |of: &dyn Fn(f64) -> f64| {
        let points = plays[0].runs(&[]).map(|run| (bdps(run), of(bdps(run))));
        Line::new("limits", points).kind(Kind::Dashed)
    };
    out.drawing = Drawing::of(vec![
        panel("Round trip", "ms", &|run| run.figure("rtt_ms.mean"))
            .with(limits(&|x| EMPTY_MS * x.clamp(1.0, 2.0))),
        panel("Delivery rate", "Mbit/s", &|run| 10.0 * run.figure("utilization"))
            .with(limits(&|x| 10.0 * x.min(1.0))),
        panel("Loss", "%", &|run| 100.0 * run.figure("retransmit_rate")),
    ]);
    out.note("the knee is where rate over RTT (Kleinrock's power) is largest; a buffer of 1 BDP");
}

/// Figure 2: 700 ms of BBRv1's steady state.
pub(super) fn fig2(out: &mut Checks, plays: &[FileRuns]) {
    let Some(run) = plays[0].run(&[]) else { return };
    let rows: Vec<&SeriesRow> = run.rows(0).filter(|r| r.t_s > 3.0 && r.t_s <= 9.0).collect();
    let changes = |to_probe: bool| {
        let gain = |r: &SeriesRow| r.pacing_gain.is_some_and(|gain| gain > 1.0);
        let pairs =
            rows.windows(2).filter(move |w| gain(w[0]) != to_probe && gain(w[1]) == to_probe);
        pairs.map(|w| w[1].t_s).collect::<Vec<f64>>()
    };
    let (begins, ends) = (changes(true), changes(false));
    let start = begins.first().copied().unwrap_or(3.0) - 0.1;
    let shown = || rows.iter().filter(|r| r.t_s > start && r.t_s <= start + 0.7);
    let line = |of: &dyn Fn(&SeriesRow) -> f64| shown().map(|r| (r.t_s, of(r))).collect::<Vec<_>>();
    let nan = |x: Option<f64>| x.unwrap_or(f64::NAN);
    let delivered = |row: &SeriesRow| {
        let since = row.t_s - nan(row.rtt_ms) / 1e3;
        let last_rtt = rows.iter().filter(|r| r.t_s > since && r.t_s <= row.t_s);
        mean(last_rtt.map(|r| r.goodput_mbps)) / GOODPUT_MBPS * 10.0
    };
    let rtts = line(&|r| nan(r.rtt_ms));
    let rates = line(&delivered);
    let gains = line(&|r| nan(r.pacing_gain));
    let cycle = mean(begins.windows(2).map(|w| w[1] - w[0])) * 1e3 / RTPROP_MS;
    out.within("cycle of eight phases in RTTs", cycle, 7.2, 8.8);
    let peak = largest(rtts.iter().map(|p| p.1));
    let peak_at = rtts.iter().find(|p| p.1 >= peak - 0.5).map_or(f64::NAN, |p| p.0);
    let ended = ends.iter().rfind(|t| **t <= peak_at).copied().unwrap_or(f64::NAN);
    out.within("RTT peaks after the probe's end, RTTs", (peak_at - ended) * 1e3 / peak, 0.5, 1.0);
    let off = largest(rates.iter().map(|p| (p.1 / 10.0 - 1.0).abs()));
    out.at_most("delivery rate off the link, share", off, 0.06);
    let x = "Time, s";
    out.drawing = Drawing::of(vec![
        Panel::new("Round trip", x, "ms").with(Line::new("RTT", rtts)),
        Panel::new("In flight", x, "kB")
            .with(Line::new("inflight", line(&|r| r.inflight_bytes.unwrap_or(0) as f64 / 1e3))),
        Panel::new("Max filter, and the pacing gain above it", x, "Mbit/s")
            .with(Line::new("max_bw", line(&|r| nan(r.max_bw_mbps))))
            .bands(gain_bands(&gains)),
        Panel::new("Delivery rate over the last round trip, as the link's", x, "Mbit/s")
            .with(Line::new("delivery rate", rates)),
    ]);
    out.note("BBRv1 over QUIC, from the first probe after 3 s: TCP would keep two more quanta in flight, 7 ms of queue at this rate; times of the gain row are those of sending");
}

/// The gain in each time, as the paper's row above the filter.
fn gain_bands(gains: &[(f64, f64)]) -> Vec<Band> {
    let mut bands: Vec<Band> = Vec::new();
    for &(t, gain) in gains {
        let label = format!("{gain}");
        match bands.last_mut() {
            Some(last) if last.label == label => last.to = t,
            last => {
                if let Some(last) = last {
                    last.to = t;
                }
                bands.push(Band { from: t, to: t, label });
            }
        }
    }
    bands
}
