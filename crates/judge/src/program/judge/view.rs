//! Figures of a record: pure functions of what was on the wire.

use std::borrow::Cow;

use fullpipe_cc::Duration;
use fullpipe_path::{DropReason, ElementConfig, PathConfig, RateConfig};

use crate::program::{Fate, ProgramPath, WirePacket, WireRecord};

/// A packet of data, with times in seconds from the start of the link.
#[derive(Clone, Copy, Debug)]
pub(super) struct Packet {
    pub(super) sent: f64,
    pub(super) bytes: f64,
    pub(super) flow: u32,
    /// The time at which it came out; nothing for one that was lost.
    pub(super) delivered: Option<f64>,
    pub(super) queued: f64,
    pub(super) lost: Option<DropReason>,
}

/// A record from the sender's side.
#[derive(Clone, Debug)]
pub struct View {
    /// In the direction that carried the data, in the order of sending.
    pub(super) packets: Vec<Packet>,
    /// The first packet of the flow that carried most.
    pub(super) start: f64,
    /// That flow's number.
    pub(super) main: u32,
    /// The path of the data.
    config: PathConfig,
    /// From the path's far end to the sender.
    way_back: f64,
    /// The round trip without queues.
    empty_rtt: f64,
    /// The end of the observation.
    pub(super) end: f64,
    /// The time at which the sender ended by itself.
    pub(super) ended: Option<f64>,
}

fn seconds(ns: u64) -> f64 {
    ns as f64 / 1e9
}

impl View {
    /// The view of a record that ends after so many seconds; `ended_s` is when the command ended by
    /// itself.
    pub fn of(record: &WireRecord, path: &ProgramPath, end_s: f64, ended_s: Option<f64>) -> Self {
        let volume = |way: &[WirePacket]| way.iter().map(|p| u64::from(p.bytes)).sum::<u64>();
        let is_up = volume(&record.up) > volume(&record.down);
        let (way, config, back) = match is_up {
            true => (&record.up, &path.up, &path.down),
            false => (&record.down, &path.down, &path.up),
        };
        let packet = |p: &WirePacket| Packet {
            sent: seconds(p.sent.as_nanos()),
            bytes: f64::from(p.bytes),
            flow: p.flow,
            delivered: match p.fate {
                Fate::Delivered { at, .. } => Some(seconds(at.as_nanos())),
                Fate::Lost(_) => None,
            },
            queued: match p.fate {
                Fate::Delivered { queued, .. } => seconds(queued.as_nanos()),
                Fate::Lost(_) => 0.0,
            },
            lost: match p.fate {
                Fate::Delivered { .. } => None,
                Fate::Lost(reason) => Some(reason),
            },
        };
        let packets: Vec<Packet> = way.iter().map(packet).collect();
        let mut view = Self {
            packets,
            start: 0.0,
            main: 0,
            config: config.clone(),
            way_back: seconds(back.least_delay().as_nanos()),
            empty_rtt: seconds((back.least_delay() + config.least_delay()).as_nanos()),
            end: end_s,
            ended: ended_s,
        };
        view.main = view.flows().first().map_or(0, |(flow, _)| *flow);
        let first = view.of_flow(view.main).next().map(|p| p.sent);
        view.start = first.unwrap_or(0.0);
        view
    }

    /// The end of the sender, or of the observation.
    pub(super) fn ended_or_end(&self) -> f64 {
        self.ended.unwrap_or(self.end).min(self.end)
    }

    /// The first pause of at least a second, three seconds after the start or later: its start and
    /// its end.
    pub(super) fn pause(&self) -> Option<(f64, f64)> {
        let mut before = f64::INFINITY;
        for p in self.of_flow(self.main) {
            if p.sent - before >= 1.0 && before - self.start > 3.0 {
                return Some((before, p.sent));
            }
            before = p.sent;
        }
        None
    }

    /// The flows with the bytes that were sent, the largest first.
    pub(super) fn flows(&self) -> Vec<(u32, f64)> {
        let mut all = std::collections::BTreeMap::<u32, f64>::new();
        for p in &self.packets {
            *all.entry(p.flow).or_default() += p.bytes;
        }
        let mut all: Vec<_> = all.into_iter().collect();
        all.sort_by(|a, b| b.1.total_cmp(&a.1));
        all
    }

    pub(super) fn of_flow(&self, flow: u32) -> impl Iterator<Item = &Packet> {
        self.packets.iter().filter(move |p| p.flow == flow)
    }

    /// Those that were sent from one time to another.
    pub(super) fn sent_in(&self, from: f64, to: f64) -> &[Packet] {
        let begin = self.packets.partition_point(|p| p.sent < from);
        let end = self.packets.partition_point(|p| p.sent < to);
        self.packets.get(begin..end.max(begin)).unwrap_or_default()
    }

    /// Bytes that came out in a time.
    pub(super) fn delivered_in(&self, from: f64, to: f64, flow: Option<u32>) -> f64 {
        let is_in = |p: &&Packet| {
            p.delivered.is_some_and(|at| at >= from && at < to)
                && flow.is_none_or(|flow| flow == p.flow)
        };
        self.packets.iter().filter(is_in).map(|p| p.bytes).sum()
    }

    /// The round trip without queues, in seconds.
    pub(super) fn empty_rtt(&self) -> f64 {
        self.empty_rtt
    }

    /// The rates that nothing passes the path faster than.
    fn limits(&self) -> impl Iterator<Item = Cow<'_, RateConfig>> {
        self.config.row.iter().filter_map(|element| match element {
            ElementConfig::Bottleneck { rate, .. } => Some(Cow::Borrowed(rate)),
            ElementConfig::Policer { rate, .. } | ElementConfig::Shaper { rate, .. } => {
                Some(Cow::Owned((*rate).into()))
            }
            _ => None,
        })
    }

    /// Bytes a second that the path carries at a time; the mean of a rate that is a series.
    pub(super) fn rate_at(&self, t: f64) -> f64 {
        let rates = self.limits().map(|rate| match rate.as_ref() {
            RateConfig::Steps(steps) => {
                let step = steps.iter().rev().find(|(at, _)| seconds(at.as_nanos()) <= t);
                step.map_or_else(|| rate.nominal(), |(_, rate)| *rate)
            }
            rate => rate.nominal(),
        });
        rates.map(|rate| rate.as_bytes_per_sec() as f64).fold(f64::INFINITY, f64::min)
    }

    /// Bytes that the path can carry from one time to another.
    pub(super) fn capacity(&self, from: f64, to: f64) -> f64 {
        let [from, to] =
            [from, to].map(|t| Duration::from_nanos((t * 1e9).round().max(0.0) as u64));
        let room = self.limits().map(|rate| rate.bytes_between(from, to) as f64);
        room.fold(f64::INFINITY, f64::min)
    }

    /// The share of what the path can carry in a time that came out.
    pub(super) fn utilization(&self, from: f64, to: f64) -> f64 {
        self.delivered_in(from, to, None) / self.capacity(from, to)
    }

    /// A quantile of the queueing delays of what was sent in a time, in seconds.
    pub(super) fn queue(&self, from: f64, to: f64, quantile: f64) -> Option<f64> {
        let sent = self.sent_in(from, to).iter().filter(|p| p.delivered.is_some());
        at_quantile(sent.map(|p| p.queued).collect(), quantile)
    }

    /// The share of what was sent in a time that was lost.
    pub(super) fn loss(&self, from: f64, to: f64) -> Option<f64> {
        let sent = self.sent_in(from, to);
        let lost = sent.iter().filter(|p| p.lost.is_some()).count();
        (!sent.is_empty()).then(|| lost as f64 / sent.len() as f64)
    }

    /// The bandwidth-delay product at a time, in bytes.
    pub(super) fn bdp(&self, t: f64, rtt: f64) -> f64 {
        self.rate_at(t) * rtt
    }

    /// Bytes in flight as the sender counts them, every `step` seconds: what was sent and whose ACK
    /// cannot have come back yet. What was lost counts for a round trip, as it takes about so long
    /// to be known.
    pub(super) fn inflight(&self, step: f64, rtt: f64) -> Vec<f64> {
        let count = (self.end / step).ceil().max(0.0) as usize;
        let mut change = vec![0.0; count + 1];
        let mut queued = 0.0;
        for p in &self.packets {
            let gone = match p.delivered {
                Some(at) => {
                    queued = p.queued;
                    at + self.way_back
                }
                None => p.sent + rtt + queued,
            };
            let place = |t: f64| ((t / step).ceil().max(0.0) as usize).min(count);
            change[place(p.sent)] += p.bytes;
            change[place(gone)] -= p.bytes;
        }
        let mut now = 0.0;
        change.pop();
        change
            .into_iter()
            .map(|c| {
                now += c;
                now
            })
            .collect()
    }

    /// The packets of each burst that was sent in a time: packets that follow each other by less
    /// than a quarter of the time that the path needs for one.
    pub(super) fn bursts(&self, from: f64, to: f64) -> Vec<usize> {
        let mut bursts: Vec<usize> = Vec::new();
        let mut before = f64::NEG_INFINITY;
        for p in self.sent_in(from, to).iter().filter(|p| p.flow == self.main) {
            let near = 0.25 * p.bytes.max(1000.0) / self.rate_at(p.sent);
            match bursts.last_mut() {
                Some(last) if p.sent - before < near => *last += 1,
                _ => bursts.push(1),
            }
            before = p.sent;
        }
        bursts
    }

    /// Delivered bytes a second in each of the slices of a time.
    pub(super) fn rates(&self, from: f64, to: f64, step: f64) -> Vec<f64> {
        let count = ((to - from) / step).floor().max(0.0) as usize;
        let mut bytes = vec![0.0; count];
        for p in &self.packets {
            if let Some(at) = p.delivered
                && at >= from
                && let Some(slot) = bytes.get_mut(((at - from) / step) as usize)
            {
                *slot += p.bytes / step;
            }
        }
        bytes
    }

    /// The rate that was delivered in Mbit/s and the longest queueing delay in ms, in each of the
    /// slices.
    pub(super) fn series(&self, step: f64) -> [Vec<(f64, f64)>; 2] {
        let end = self.ended_or_end();
        let at = |i: usize| (i as f64 + 0.5) * step;
        let rates = self.rates(0.0, end, step).into_iter().enumerate();
        let rates: Vec<_> = rates.map(|(i, rate)| (at(i), rate * 8.0 / 1e6)).collect();
        let mut queue: Vec<(f64, f64)> = (0..rates.len()).map(|i| (at(i), 0.0)).collect();
        for p in &self.packets {
            if let Some(slot) = queue.get_mut((p.sent / step) as usize) {
                slot.1 = slot.1.max(p.queued * 1e3);
            }
        }
        [rates, queue]
    }

    /// Bytes a second that were sent in a time.
    pub(super) fn sending_rate(&self, from: f64, to: f64) -> f64 {
        self.sent_in(from, to).iter().map(|p| p.bytes).sum::<f64>() / (to - from)
    }
}

/// A quantile of values in any order.
pub(crate) fn at_quantile(mut values: Vec<f64>, quantile: f64) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    let last = values.len().checked_sub(1)?;
    values.get((last as f64 * quantile).round() as usize).copied()
}

/// The size of burst up to which this share of all packets are.
pub(crate) fn burst_quantile(bursts: &[usize], quantile: f64) -> Option<f64> {
    let mut bursts = bursts.to_vec();
    bursts.sort_unstable();
    // The place of the packet, if each burst stood there once for each of its packets.
    let last = bursts.iter().sum::<usize>().checked_sub(1)?;
    let place = (last as f64 * quantile).round() as usize;
    let mut before = 0;
    let found = bursts.into_iter().find(|burst| {
        before += burst;
        before > place
    });
    found.map(|burst| burst as f64)
}
