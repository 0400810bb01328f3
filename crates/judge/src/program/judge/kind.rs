//! The kind of algorithm, as far as the wire shows it.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::Views;
use super::test_path::RTT_S;
use super::view::{View, at_quantile, burst_quantile};

/// Appearance of an algorithm.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// One rate, whatever is lost.
    FixedRate {
        /// The rate.
        mbps: f64,
    },
    /// One window, whatever is lost.
    FixedWindow {
        /// Its size.
        packets: f64,
    },
    /// Keeps the queue short, and does not take a random loss for congestion.
    BbrLike {
        /// Time between two dips of the volume in flight; null where there were fewer than two.
        probe_rtt_s: Option<f64>,
    },
    /// Fills the buffer until a packet is lost, and sends less then.
    LossBased {
        /// The window after a loss as a share of the one before.
        decrease: Option<f64>,
    },
    /// Of L4S: marks are frequent, and each takes away a little. Seen in captures and logs alone:
    /// no path of a verdict marks.
    Scalable {
        /// The data in flight after a mark that came alone, as a share of those before; null where
        /// no mark did.
        decrease: Option<f64>,
    },
    /// None of these.
    Unknown,
}

/// The kind, and whether it paces.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub struct Looks {
    /// The kind.
    pub kind: Kind,
    /// True if its packets are spaced when their ACKs are not; null where that was not seen.
    pub paced: Option<bool>,
}

/// A burst behind late ACKs from which on a sender does not pace, in packets: 20 ms of ACKs are for
/// 33.
const UNPACED_BURST: f64 = 13.0;

/// A full packet on the wire.
const PACKET: f64 = 1500.0;

impl Looks {
    /// Of a sender that ran on these paths.
    pub(super) fn of(views: &Views) -> Self {
        let usual = |name: &str| {
            let v = views.get(name)?;
            burst_quantile(&v.bursts(v.start + 3.0, v.end), 0.9)
        };
        // On a busy machine a sender that paces is late, and sends what it missed at once, on each
        // path.
        let (late_acks, clean) = (usual("aggregation"), usual("clean"));
        let is_burst = |burst: f64| burst >= UNPACED_BURST && burst >= 3.0 * clean.unwrap_or(1.0);
        let paced = late_acks.map(|burst| !is_burst(burst));
        Self { kind: kind(views), paced }
    }
}

fn kind(views: &Views) -> Kind {
    let Some(clean) = views.get("clean") else { return Kind::Unknown };
    let from = clean.start + 3.0;
    let Some(loss) = clean.loss(from, clean.end) else { return Kind::Unknown };
    let flat = is_flat(&clean.sending(from, clean.end, 0.5), 0.05);
    if let Some(packets) = fixed_window(views) {
        return Kind::FixedWindow { packets };
    }
    if flat && (loss > 0.15 || clean.utilization(from, clean.end) < 0.9) {
        return Kind::FixedRate { mbps: clean.sending_rate(from, clean.end) * 8.0 / 1e6 };
    }
    let dips = dips(clean);
    let starts: Vec<f64> = dips.iter().map(|dip| dip.0).collect();
    let gaps = starts.windows(2).map(|w| w[1] - w[0]).collect();
    let probe_rtt_s = at_quantile(gaps, 0.5);
    let deep = views.get("deep");
    let is_short = deep.is_some_and(|v| {
        let queue = v.queue(v.start + 3.0, v.end, 0.5);
        queue.is_some_and(|q| q < 3.0 * RTT_S) && v.utilization(v.start + 3.0, v.end) > 0.7
    });
    let lossy = views.get("loss 1 %");
    let share = lossy.map(|v| v.utilization(v.start + 3.0, v.end));
    if is_short && (probe_rtt_s.is_some() || share.is_some_and(|share| share > 0.4)) {
        return Kind::BbrLike { probe_rtt_s };
    }
    let fills =
        deep.is_some_and(|v| v.queue(v.start, v.end, 0.99).is_some_and(|q| q > 2.0 * RTT_S));
    if (fills || deep.is_none()) && share.is_some_and(|share| share < 0.5) {
        return Kind::LossBased { decrease: decrease(clean) };
    }
    Kind::Unknown
}

/// True if values differ by no more than this share from their mean.
pub(crate) fn is_flat(values: &[f64], share: f64) -> bool {
    let mean = values.iter().sum::<f64>() / values.len().max(1) as f64;
    values.len() > 3 && values.iter().all(|v| (v - mean).abs() <= share * mean)
}

/// The window of a sender that has the same one on a clean path, with a deep buffer, and on longer
/// paths.
fn fixed_window(views: &Views) -> Option<f64> {
    let window = |name: &str, from: f64, rtt: f64| {
        let view = views.get(name)?;
        let inflight = view.inflight(0.02, rtt);
        let late = inflight.get((from / 0.02) as usize..)?;
        let high = |part: &[f64]| at_quantile(part.to_vec(), 0.95);
        let parts = late.chunks(50).filter(|part| part.len() == 50);
        let parts: Vec<f64> = parts.filter_map(high).collect();
        is_flat(&parts, 0.04).then(|| parts.iter().sum::<f64>() / parts.len() as f64)
    };
    let from = views.get("clean")?.start + 3.0;
    let (clean, deep) = (window("clean", from, RTT_S)?, window("deep", from, RTT_S)?);
    // What paces at one rate has one volume in flight as well, as long as the round trip is the
    // same.
    let is_one = |other: f64, share: f64| (clean - other).abs() < share * clean;
    let is_same = match (views.contains_key("route"), views.contains_key("long")) {
        (true, true) => {
            is_one(window("route", 20.0, 0.16)?, 0.2) && is_one(window("long", 30.0, 2.0)?, 0.2)
        }
        _ => views.get("deep")?.queue(from, 15.0, 0.5)? > 0.25 * RTT_S,
    };
    (is_one(deep, 0.05) && is_same).then_some(clean / PACKET)
}

/// Start and duration of each time in which less than 0.65 BDP were in flight for 0.1 s and more,
/// with more before and after it.
pub(super) fn dips(view: &View) -> Vec<(f64, f64)> {
    const STEP: f64 = 0.01;
    let inflight = view.inflight(STEP, RTT_S);
    let bdp = view.bdp(view.start, RTT_S);
    let mut dips = Vec::new();
    let mut since = None;
    let mut was_high = false;
    for (i, bytes) in inflight.iter().enumerate() {
        let t = i as f64 * STEP;
        match since {
            None if was_high && *bytes < 0.65 * bdp && t > view.start + 1.0 => since = Some(t),
            Some(from) if *bytes > 0.8 * bdp => {
                if t - from >= 0.1 {
                    dips.push((from, t - from));
                }
                since = None;
            }
            _ => {}
        }
        was_high |= *bytes > 0.8 * bdp;
    }
    dips
}

/// The median over losses of the window half a second after as a share of that before.
fn decrease(view: &View) -> Option<f64> {
    const STEP: f64 = 0.02;
    let inflight = view.inflight(STEP, RTT_S);
    let mut shares = Vec::new();
    let mut next = view.start + 3.0;
    for p in view.packets.iter().filter(|p| p.lost.is_some()) {
        if p.sent < next {
            continue;
        }
        next = p.sent + 2.0;
        let at = (p.sent / STEP) as usize;
        let Some(after) = inflight.get(at + 15..at + 35) else { break };
        let after = at_quantile(after.to_vec(), 0.25)?;
        shares.push(after / inflight.get(at)?.max(1.0));
    }
    at_quantile(shares, 0.5)
}

impl View {
    /// Bytes a second that were sent in each of the slices of a time.
    pub(super) fn sending(&self, from: f64, to: f64, step: f64) -> Vec<f64> {
        let count = ((to - from) / step).floor().max(0.0) as usize;
        (0..count)
            .map(|i| self.sending_rate(from + i as f64 * step, from + (i + 1) as f64 * step))
            .collect()
    }
}

impl fmt::Display for Looks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.kind {
            Kind::FixedRate { mbps } => write!(f, "a fixed rate of {mbps:.1} Mbit/s")?,
            Kind::FixedWindow { packets } => write!(f, "a fixed window of {packets:.0} packets")?,
            Kind::BbrLike { probe_rtt_s: None } => {
                f.write_str("BBR: a short queue, and random loss is no congestion to it")?;
            }
            Kind::BbrLike { probe_rtt_s: Some(s) } => {
                write!(f, "BBR, with a ProbeRTT every {s:.0} s")?;
            }
            Kind::LossBased { decrease: None } => f.write_str("loss-based: fills the buffer")?,
            Kind::LossBased { decrease: Some(share) } => write!(
                f,
                "loss-based: fills the buffer, and goes down to {:.0} % at a loss",
                100.0 * share
            )?,
            Kind::Scalable { decrease: None } => {
                f.write_str("scalable (L4S): its packets are ECT(1), and marks are frequent")?;
            }
            Kind::Scalable { decrease: Some(share) } => write!(
                f,
                "scalable (L4S): its packets are ECT(1), and it goes down to {:.0} % at a mark",
                100.0 * share
            )?,
            Kind::Unknown => f.write_str("no kind that is known here")?,
        }
        match self.paced {
            Some(true) => f.write_str(", paced"),
            Some(false) => f.write_str(", not paced"),
            None => Ok(()),
        }
    }
}
