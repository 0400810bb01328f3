//! Figures of a flow.

use serde::Serialize;

use super::flow::{Place, Sending};
use super::marks;
use super::measure::{SETTLED_S, View, sums};
use crate::program::judge::{at_quantile, burst_quantile};

/// The spread of some values.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct Spread {
    /// The least.
    pub min: f64,
    /// The median.
    pub p50: f64,
    /// 95 % are at most this.
    pub p95: f64,
    /// The largest.
    pub max: f64,
}

impl Spread {
    fn of(mut values: Vec<f64>) -> Option<Self> {
        values.sort_by(f64::total_cmp);
        let at =
            |q: f64| values.get(((values.len().max(1) - 1) as f64 * q).round() as usize).copied();
        Some(Self { min: at(0.0)?, p50: at(0.5)?, p95: at(0.95)?, max: at(1.0)? })
    }
}

/// Less data in flight than usual for a short time, without a loss before it.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct Dip {
    /// Its beginning.
    pub at_s: f64,
    /// Its duration.
    pub lasted_s: f64,
    /// The least in flight meanwhile.
    pub least_packets: f64,
    /// That as a share of the usual.
    pub share: f64,
}

/// Losses that follow each other within a round trip or so.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct Episode {
    /// The time at which the first of them was noticed.
    pub at_s: f64,
    /// The time of the last one.
    pub until_s: f64,
    /// Bytes that were lost.
    pub lost_bytes: f64,
    /// Data in flight after it as a share of that before; null where something else came soon.
    pub share_after: Option<f64>,
    /// The least in flight within the round trips after it, as such a share.
    pub least_after: Option<f64>,
}

/// The beginning of the flow.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct Start {
    /// Time until 80 % of the rate of later are delivered; null where that never was.
    pub to_rate_s: Option<f64>,
    /// Packets of the first flight that left back to back.
    pub first_burst_packets: Option<f64>,
    /// Packets that leave back to back while the data in flight double, as a multiple of those that
    /// the acknowledgements before them confirmed; null where that was not seen.
    pub burst_per_ack: Option<f64>,
    /// The share of bursts in that time that leave just when an acknowledgement comes.
    pub ack_clocked_share: Option<f64>,
    /// The share of its data that was lost in the first three seconds.
    pub loss_share: f64,
}

/// Figures of a flow over time, in steps of one length.
#[derive(Clone, PartialEq, Debug, Default, Serialize)]
pub struct TimeSeries {
    /// The length of a step.
    pub step_s: f64,
    /// Data that was confirmed, or seen where confirmations cannot be read.
    pub rate_mbps: Vec<f64>,
    /// The most data in flight; null where it is not known.
    pub inflight_bytes: Vec<Option<f64>>,
    /// The median of the round trips; null where there was none.
    pub rtt_ms: Vec<Option<f64>>,
    /// Data that was sent again.
    pub resent_bytes: Vec<f64>,
}

/// Figures of a flow. Null is what the file does not show.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Figures {
    /// Time from the first packet to the last one.
    pub duration_s: f64,
    /// Data that was sent, and again as often as it was.
    pub sent_bytes: f64,
    /// Packets with data.
    pub sent_packets: u64,
    /// Bytes of data in a full packet.
    pub packet_bytes: f64,
    /// Data that was confirmed once, over the duration.
    pub goodput_mbps: f64,
    /// The rate that was reached in a tenth of all fifths of a second.
    pub peak_mbps: f64,
    /// Round trips.
    pub rtt_ms: Option<Spread>,
    /// Data in flight.
    pub inflight_bytes: Option<Spread>,
    /// The product of the peak rate and the shortest round trip.
    pub bdp_bytes: Option<f64>,
    /// Packets that were sent again without having arrived, as far as anybody had said.
    pub resent_packets: Option<u64>,
    /// Their share of all.
    pub resent_share: Option<f64>,
    /// Packets that were sent again although they had arrived.
    pub needless_packets: Option<u64>,
    /// Data that was sent again after a silence.
    pub timeouts: Option<u64>,
    /// Packets that were overtaken.
    pub reordered_packets: Option<u64>,
    /// Packets with a mark of congestion.
    pub marked_packets: u64,
    /// The share of the packets of data that left as ECT(1), which is L4S; null where the ECN field
    /// is not seen.
    pub ect1_share: Option<f64>,
    /// Acknowledgements of all kinds.
    pub acks: u64,
    /// Data that one of them confirms.
    pub bytes_per_ack: Option<Spread>,
    /// Packets that are confirmed by acknowledgements that come back to back.
    pub ack_burst_packets: Option<Spread>,
    /// Packets that leave back to back: closer than a quarter of the time for one at the peak rate.
    pub burst_packets: Option<Spread>,
    /// 90 % of the packets are in bursts of at most this many.
    pub burst_packets_p90: Option<f64>,
    /// Time between two packets.
    pub gap_us: Option<Spread>,
    /// The share of bursts that leave just when an acknowledgement comes.
    pub ack_clocked_share: Option<f64>,
    /// Dips of the data in flight.
    pub dips: Vec<Dip>,
    /// The median time between two of them, where they come regularly.
    pub dip_period_s: Option<f64>,
    /// Times at which more than usual was in flight for a short time, without a loss.
    pub probes_at_s: Vec<f64>,
    /// Losses.
    pub loss_episodes: Vec<Episode>,
    /// The share of the time in which the receiver's window was full.
    pub window_limited_share: Option<f64>,
    /// The beginning.
    pub start: Start,
    /// The figures over time.
    #[serde(rename = "course")]
    pub series: TimeSeries,
}

impl View<'_> {
    fn start(&self) -> Start {
        let rates = self.rates(0.0, self.end_s, 0.1);
        let there = rates.iter().position(|rate| *rate >= 0.8 * self.peak);
        let doubling = self.doubling().filter(|_| self.flow.place == Place::Sender);
        Start {
            to_rate_s: there.map(|i| (i + 1) as f64 * 0.1),
            first_burst_packets: self.first_burst().filter(|_| self.flow.place == Place::Sender),
            burst_per_ack: doubling.and_then(|time| self.burst_per_ack(time)),
            ack_clocked_share: doubling.and_then(|(from, to)| self.ack_clocked(from, to)),
            loss_share: self.loss(0.0, SETTLED_S),
        }
    }

    fn series(&self) -> TimeSeries {
        let step_s = [0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 60.0, 600.0, 3600.0];
        let step_s = step_s.into_iter().find(|s| self.end_s / s <= 600.0).unwrap_or(86_400.0);
        let count = (self.end_s / step_s).ceil().max(1.0) as usize;
        let end = count as f64 * step_s;
        let mut rtts: Vec<Vec<f64>> = vec![Vec::new(); count];
        for r in &self.flow.rtt {
            if let Some(slot) = rtts.get_mut((r.at_s / step_s) as usize) {
                slot.push(1e3 * r.value);
            }
        }
        let steps = (0..count).map(|i| (i as f64 * step_s, (i + 1) as f64 * step_s));
        let most = |(from, to)| self.levels_in(from, to).iter().copied().reduce(f64::max);
        let again = self.flow.lost.iter().map(|l| (l.at_s, l.bytes));
        TimeSeries {
            step_s,
            rate_mbps: self.rates(0.0, end, step_s).iter().map(|r| r * 8.0 / 1e6).collect(),
            inflight_bytes: steps.map(most).collect(),
            rtt_ms: rtts.into_iter().map(|values| at_quantile(values, 0.5)).collect(),
            resent_bytes: sums(again, 0.0, end, step_s).iter().map(|rate| rate * step_s).collect(),
        }
    }

    pub(super) fn figures(&self) -> Figures {
        let flow = self.flow;
        let is_seen = |what: &str| flow.unknown.iter().all(|u| !u.what.starts_with(what));
        let packets_of = |sending| {
            let of = flow.sent.iter().filter(|s| s.sending == sending);
            of.map(|s| u64::from(s.packets)).sum::<u64>()
        };
        let lost = flow.lost.iter().map(|l| u64::from(l.packets)).sum();
        let resent = is_seen("losses").then_some(lost);
        let sent_packets: u64 = flow.sent.iter().map(|s| u64::from(s.packets)).sum();
        let delivered: f64 = match self.is_confirmed() {
            true => flow.acked.iter().map(|a| a.bytes).sum(),
            false => flow.sent.iter().map(|s| s.bytes).sum(),
        };
        let settled = self.settled_s();
        let is_paced_seen = flow.place == Place::Sender && is_seen("pacing");
        let bursts = is_paced_seen.then(|| self.bursts(settled, self.end_s));
        let gaps = flow.sent.windows(2).map(|w| 1e6 * (w[1].at_s - w[0].at_s)).collect();
        let confirms = flow.acked.iter().map(|a| a.bytes).filter(|b| *b > 0.0);
        let dips = self.dips();
        let first = flow.inflight.first().map_or(0.0, |f| f.at_s);
        Figures {
            duration_s: self.end_s,
            sent_bytes: flow.sent.iter().map(|s| s.bytes).sum(),
            sent_packets,
            packet_bytes: self.packet(),
            goodput_mbps: delivered * 8.0 / 1e6 / self.end_s.max(1e-9),
            peak_mbps: self.peak * 8.0 / 1e6,
            rtt_ms: Spread::of(flow.rtt.iter().map(|r| 1e3 * r.value).collect()),
            inflight_bytes: Spread::of(self.levels_in(first, self.end_s).to_vec()),
            bdp_bytes: self.bdp(),
            resent_packets: resent,
            resent_share: resent.map(|n| n as f64 / sent_packets.max(1) as f64),
            needless_packets: resent.map(|_| packets_of(Sending::Needless)),
            timeouts: resent.map(|_| flow.timeouts),
            reordered_packets: is_seen("reordering").then_some(flow.reordered_packets),
            marked_packets: flow.marked_packets,
            ect1_share: marks::ect1_share(&flow.codepoints),
            acks: flow.acks,
            bytes_per_ack: Spread::of(confirms.collect()),
            ack_burst_packets: Spread::of(self.ack_bursts(settled, self.end_s)),
            burst_packets: bursts
                .as_ref()
                .and_then(|all| Spread::of(all.iter().map(|n| *n as f64).collect())),
            burst_packets_p90: bursts.as_ref().and_then(|all| burst_quantile(all, 0.9)),
            gap_us: if is_paced_seen { Spread::of(gaps) } else { None },
            ack_clocked_share: self.ack_clocked(settled, self.end_s).filter(|_| is_paced_seen),
            dip_period_s: period(&dips),
            dips,
            probes_at_s: self.probes(),
            loss_episodes: self.episodes(),
            window_limited_share: flow.window_limited,
            start: self.start(),
            series: self.series(),
        }
    }
}

/// The median time between dips, where most of the times are about that.
fn period(dips: &[Dip]) -> Option<f64> {
    let gaps: Vec<f64> = dips.windows(2).map(|w| w[1].at_s - w[0].at_s).collect();
    let median = at_quantile(gaps.clone(), 0.5)?;
    let near = gaps.iter().filter(|gap| (*gap - median).abs() < 0.2 * median).count();
    (2 * near > gaps.len() && median > 1.5).then_some(median)
}
