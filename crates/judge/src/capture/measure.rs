//! Measures of a flow: pure functions of its events.

use super::figures::{Dip, Episode};
use super::flow::{At, Flow};
use crate::program::judge::at_quantile;

/// Time between two values that are looked at, in seconds. It is more where there would be too
/// many.
const STEP_S: f64 = 0.01;
const MOST_STEPS: f64 = 1e6;

/// Time that a sender has to find its rate.
pub(super) const SETTLED_S: f64 = 3.0;

/// A flow with what more than one figure or rule asks for.
pub(super) struct View<'a> {
    pub(super) flow: &'a Flow,
    pub(super) end_s: f64,
    pub(super) step_s: f64,
    /// The most in flight in each step.
    pub(super) inflight: Vec<f64>,
    /// Bytes a second at the peak.
    pub(super) peak: f64,
    pub(super) min_rtt_s: Option<f64>,
    pub(super) usual_rtt_s: Option<f64>,
}

impl<'a> View<'a> {
    pub(super) fn of(flow: &'a Flow) -> Self {
        let end_s = flow.end_s();
        let step_s = STEP_S.max(end_s / MOST_STEPS);
        let rtts = || flow.rtt.iter().map(|r| r.value).filter(|r| *r > 0.0);
        let least = rtts().min_by(f64::total_cmp).or(flow.handshake_rtt_s);
        let usual = at_quantile(rtts().collect(), 0.5).or(flow.handshake_rtt_s);
        let mut view = Self {
            flow,
            end_s,
            step_s,
            inflight: levels(&flow.inflight, end_s, step_s),
            peak: 0.0,
            min_rtt_s: least,
            usual_rtt_s: usual,
        };
        let slice = 0.2_f64.max(2.0 * usual.unwrap_or(0.0)).min(end_s.max(1e-3));
        view.peak = at_quantile(view.rates(0.0, end_s, slice), 0.9).unwrap_or(0.0);
        view
    }

    pub(super) fn packet(&self) -> f64 {
        self.flow.packet_bytes
    }

    /// The time from which on the sender has found its rate, in a flow that is long enough.
    pub(super) fn settled_s(&self) -> f64 {
        SETTLED_S.min(self.end_s / 3.0)
    }

    /// Bytes a second that were delivered in each of the slices of a time.
    pub(super) fn rates(&self, from: f64, to: f64, step: f64) -> Vec<f64> {
        let acked = self.flow.acked.iter().map(|a| (a.at_s, a.bytes));
        let sent = self.flow.sent.iter().map(|s| (s.at_s, s.bytes));
        match self.is_confirmed() {
            true => sums(acked, from, to, step),
            false => sums(sent, from, to, step),
        }
    }

    /// True if the file shows what was confirmed.
    pub(super) fn is_confirmed(&self) -> bool {
        self.flow.acked.iter().any(|a| a.bytes > 0.0)
    }

    /// Bytes a second that were sent in each of the slices of a time.
    pub(super) fn sending(&self, from: f64, to: f64, step: f64) -> Vec<f64> {
        sums(self.flow.sent.iter().map(|s| (s.at_s, s.bytes)), from, to, step)
    }

    /// The share of what was sent in a time that was lost.
    pub(super) fn loss(&self, from: f64, to: f64) -> f64 {
        let is_in = |t: f64| t >= from && t < to;
        let sent = self.flow.sent.iter().filter(|s| is_in(s.at_s)).map(|s| s.bytes);
        let lost = self.flow.lost_in(from, to).iter().map(|l| l.bytes);
        // The sum of no floats is -0.
        let (sent, lost) = (sent.fold(0.0, |a, b| a + b), lost.fold(0.0, |a, b| a + b));
        if sent > 0.0 { lost / sent } else { 0.0 }
    }

    /// Round trips with a loss from a time on, over the packets that were sent: losses that come
    /// together are one event of congestion.
    pub(super) fn loss_events(&self, from: f64) -> f64 {
        let rtt = self.usual_rtt_s.unwrap_or(0.1);
        let (mut events, mut last) = (0_u64, f64::NEG_INFINITY);
        for l in self.flow.lost.iter().filter(|l| l.at_s >= from) {
            if l.at_s - last > rtt {
                events += 1;
                last = l.at_s;
            }
        }
        let sent = self.flow.sent.iter().filter(|s| s.at_s >= from);
        events as f64 / sent.map(|s| f64::from(s.packets)).fold(0.0, |a, b| a + b).max(1.0)
    }

    /// A quantile of the round trips of a time.
    pub(super) fn rtt(&self, from: f64, to: f64, quantile: f64) -> Option<f64> {
        at_quantile(self.flow.rtt_in(from, to).iter().map(|r| r.value).collect(), quantile)
    }

    /// The steps of a time.
    pub(super) fn levels_in(&self, from: f64, to: f64) -> &[f64] {
        let place = |t: f64| ((t / self.step_s).max(0.0) as usize).min(self.inflight.len());
        let (from, to) = (place(from), place(to));
        self.inflight.get(from..to.max(from)).unwrap_or_default()
    }

    pub(super) fn bdp(&self) -> Option<f64> {
        self.min_rtt_s.map(|rtt| rtt * self.peak).filter(|bdp| *bdp > 0.0)
    }

    /// Time below which two packets are back to back.
    fn near_s(&self) -> f64 {
        0.25 * self.packet() / self.peak.max(1.0)
    }

    /// The packets of each burst that was sent in a time.
    pub(super) fn bursts(&self, from: f64, to: f64) -> Vec<usize> {
        let near = self.near_s();
        let mut bursts: Vec<usize> = Vec::new();
        let mut before = f64::NEG_INFINITY;
        for s in self.flow.sent.iter().filter(|s| s.at_s >= from && s.at_s < to) {
            match bursts.last_mut() {
                Some(last) if s.at_s - before < near => *last += s.packets as usize,
                _ => bursts.push(s.packets as usize),
            }
            before = s.at_s;
        }
        bursts
    }

    /// The packets that are confirmed back to back.
    pub(super) fn ack_bursts(&self, from: f64, to: f64) -> Vec<f64> {
        let near = self.near_s();
        let mut bursts: Vec<f64> = Vec::new();
        let mut before = f64::NEG_INFINITY;
        for a in self.flow.acked.iter().filter(|a| a.at_s >= from && a.at_s < to && a.bytes > 0.0) {
            let packets = a.bytes / self.packet();
            match bursts.last_mut() {
                Some(last) if a.at_s - before < near => *last += packets,
                _ => bursts.push(packets),
            }
            before = a.at_s;
        }
        bursts
    }

    /// The share of bursts whose first packet leaves within an eighth of the usual time between two
    /// acknowledgements after one of them; by chance that is an eighth of them.
    pub(super) fn ack_clocked(&self, from: f64, to: f64) -> Option<f64> {
        let in_time = |at_s: &f64| *at_s >= from && *at_s < to;
        let acks: Vec<f64> = self.flow.acked.iter().map(|a| a.at_s).filter(in_time).collect();
        let gaps = acks.windows(2).map(|w| w[1] - w[0]).filter(|gap| *gap > 0.0).collect();
        let soon = (at_quantile(gaps, 0.5)? / 8.0).min(2e-4);
        // The resolution of a usual clock; and a host that answers later sends by no
        // acknowledgement that is seen here.
        if soon < 1e-5 || self.flow.reaction_s.is_none_or(|reaction| reaction > soon) {
            return None;
        }
        let near = self.near_s();
        let (mut all, mut clocked, mut before) = (0_u64, 0_u64, f64::NEG_INFINITY);
        for s in self.flow.sent.iter().filter(|s| in_time(&s.at_s)) {
            if s.at_s - before >= near {
                let last = acks.partition_point(|t| *t <= s.at_s + 1e-9);
                let wait = last.checked_sub(1).and_then(|i| acks.get(i)).map(|t| s.at_s - t);
                all += 1;
                clocked += u64::from(wait.is_some_and(|wait| wait <= soon));
            }
            before = s.at_s;
        }
        (all >= 20).then(|| clocked as f64 / all as f64)
    }

    /// Packets of the first flight that leave back to back.
    pub(super) fn first_burst(&self) -> Option<f64> {
        let rtt = self.min_rtt_s?;
        let first = self.flow.sent.first()?.at_s;
        let flight = || self.flow.sent.iter().take_while(|s| s.at_s < first + 0.5 * rtt);
        let mut before = first;
        let burst = flight().take_while(|s| {
            let is_near = s.at_s - before < 0.02 * rtt;
            before = s.at_s;
            is_near
        });
        (flight().count() >= 4).then(|| burst.map(|s| f64::from(s.packets)).sum())
    }

    /// The time in which the data in flight double, from the first acknowledgement.
    pub(super) fn doubling(&self) -> Option<(f64, f64)> {
        self.flow.handshake_rtt_s?;
        let early = self.levels_in(0.0, SETTLED_S);
        let most = early.iter().copied().fold(0.0, f64::max);
        // Behind it HyStart++ may grow more slowly.
        let until = early.iter().position(|level| *level > 0.35 * most)? as f64 * self.step_s;
        let from = self.flow.acked.iter().find(|a| a.bytes > 0.0)?.at_s;
        Some((from, until))
    }

    /// Bursts over acknowledgements in that time: without pacing an acknowledgement lets twice as
    /// much leave at once.
    pub(super) fn burst_per_ack(&self, (from, until): (f64, f64)) -> Option<f64> {
        let bursts = self.bursts(from, until);
        let bursts: Vec<f64> = bursts.into_iter().map(|n| n as f64).collect();
        if bursts.len() < 6 {
            return None;
        }
        Some(at_quantile(bursts, 0.5)? / at_quantile(self.ack_bursts(from, until), 0.5)?)
    }

    /// Short times in which more than usual is in flight, without a loss: an algorithm that has a
    /// rate looks whether there is more.
    pub(super) fn probes(&self) -> Vec<f64> {
        let Some(rtt) = self.usual_rtt_s else { return Vec::new() };
        let from = self.settled_s();
        let late = self.levels_in(from, self.end_s);
        let usual = at_quantile(late.to_vec(), 0.5).unwrap_or(0.0);
        let mut probes = Vec::new();
        let mut since: Option<f64> = None;
        for (i, bytes) in late.iter().enumerate() {
            let t = from + i as f64 * self.step_s;
            match since {
                None if *bytes > 1.12 * usual && usual > 0.0 => since = Some(t),
                Some(begin) if *bytes < 1.06 * usual => {
                    since = None;
                    let is_short = t - begin >= rtt && t - begin < 12.0 * rtt;
                    if is_short && self.flow.lost_in(begin, t + 2.0 * rtt).is_empty() {
                        probes.push(begin);
                    }
                }
                _ => {}
            }
        }
        probes
    }

    /// Times in which the data in flight were much less than usual, without a loss before.
    pub(super) fn dips(&self) -> Vec<Dip> {
        let from = self.settled_s().min(2.0);
        let high = at_quantile(self.levels_in(from, self.end_s).to_vec(), 0.5).unwrap_or(0.0);
        // A sender that keeps a queue of its own has more than the path holds.
        let usual = self.bdp().map_or(high, |bdp| bdp.min(high));
        if usual < 4.0 * self.packet() {
            return Vec::new();
        }
        let rtt = self.usual_rtt_s.unwrap_or(0.1);
        let rare = self.loss(from, self.end_s) < 0.003;
        let mut dips = Vec::new();
        let (mut since, mut was_high) = (None, false);
        for (i, bytes) in self.inflight.iter().enumerate() {
            let t = i as f64 * self.step_s;
            match since {
                None if was_high && *bytes < 0.65 * usual && t > from => since = Some(t),
                Some(begin) if *bytes > 0.8 * usual => {
                    since = None;
                    let lasted_s = t - begin;
                    let least = self.levels_in(begin, t).iter().copied().fold(f64::MAX, f64::min);
                    let lost = self.flow.lost_in(begin - 3.0 * rtt - 0.1, begin + 0.1);
                    let of_loss = !lost.is_empty();
                    // A pause of the application leaves nothing in flight.
                    let is_pause = least < 0.5 * self.packet();
                    if lasted_s >= 0.1 && !(rare && of_loss) && !is_pause {
                        dips.push(Dip {
                            at_s: begin,
                            lasted_s,
                            least_packets: least / self.packet(),
                            share: least / usual,
                        });
                    }
                }
                _ => {}
            }
            was_high |= *bytes > 0.8 * usual;
        }
        dips
    }

    /// Losses, and what was in flight before and after.
    pub(super) fn episodes(&self) -> Vec<Episode> {
        self.episodes_of(self.flow.lost.iter().map(|l| (l.at_s, l.bytes)))
    }

    /// Marks as [`Self::episodes`] has losses: `lost_bytes` is what was marked.
    pub(super) fn mark_episodes(&self) -> Vec<Episode> {
        let marks = self.flow.marks.iter();
        self.episodes_of(marks.map(|m| (m.at_s, m.value * self.packet())))
    }

    fn episodes_of(&self, events: impl Iterator<Item = (f64, f64)>) -> Vec<Episode> {
        let rtt = self.usual_rtt_s.unwrap_or(0.1).max(self.step_s);
        let mut episodes: Vec<Episode> = Vec::new();
        for (at_s, bytes) in events {
            match episodes.last_mut() {
                Some(last) if at_s - last.until_s < 2.0 * rtt => {
                    last.until_s = at_s;
                    last.lost_bytes += bytes;
                }
                _ => episodes.push(Episode {
                    at_s,
                    until_s: at_s,
                    lost_bytes: bytes,
                    share_after: None,
                    least_after: None,
                }),
            }
        }
        let starts: Vec<f64> = episodes.iter().skip(1).map(|e| e.at_s).collect();
        for (i, episode) in episodes.iter_mut().enumerate() {
            let (from, to) = (episode.until_s + rtt, episode.until_s + 4.0 * rtt);
            if starts.get(i).is_some_and(|next| *next < to) || to > self.end_s {
                continue;
            }
            let before = self.levels_in(episode.at_s - 1.5 * rtt, episode.at_s);
            let before = before.iter().copied().fold(0.0, f64::max);
            let after = self.levels_in(from, to);
            if before > 0.0 && !after.is_empty() {
                let least = after.iter().copied().fold(f64::MAX, f64::min);
                episode.share_after = at_quantile(after.to_vec(), 0.25).map(|b| b / before);
                episode.least_after = Some(least / before);
            }
        }
        episodes
    }
}

/// The largest of the values that hold in each step; a value holds until the next one.
fn levels(values: &[At], end_s: f64, step_s: f64) -> Vec<f64> {
    if values.is_empty() {
        return Vec::new();
    }
    let count = (end_s / step_s).ceil().max(1.0) as usize;
    let mut levels: Vec<Option<f64>> = vec![None; count];
    let mut held = vec![0.0; count];
    let mut now = 0.0;
    let mut i = 0;
    for value in values {
        let at = ((value.at_s / step_s) as usize).min(count - 1);
        while i <= at {
            held[i] = now;
            i += 1;
        }
        levels[at] = Some(levels[at].map_or(value.value, |most| most.max(value.value)));
        now = value.value;
    }
    held[i..].fill(now);
    // What held at the beginning of a step counts where nothing happens in it.
    levels.into_iter().zip(held).map(|(level, held)| level.unwrap_or(held)).collect()
}

/// Bytes a second in each of the slices of a time.
pub(super) fn sums(
    events: impl Iterator<Item = (f64, f64)>,
    from: f64,
    to: f64,
    step: f64,
) -> Vec<f64> {
    let count = ((to - from) / step + 1e-9).floor().max(0.0) as usize;
    let mut sums = vec![0.0; count];
    for (at_s, bytes) in events {
        if at_s >= from
            && let Some(slot) = sums.get_mut(((at_s - from) / step) as usize)
        {
            *slot += bytes / step;
        }
    }
    sums
}
