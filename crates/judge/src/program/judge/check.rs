//! The checks: each a figure of one path's record, and the sense in which it is good.

use super::test_path::{GIVEN, RTT_S};
use super::view::{View, burst_quantile};

/// Direction in which a figure is better, and by how much it may differ for nothing.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) enum Sense {
    More,
    Less { slack: f64 },
}

/// A figure of a record; the reason where there is none.
type Figure = fn(&View) -> Result<f64, String>;

/// A check.
#[derive(Clone, Copy)]
pub(super) struct Check {
    pub(super) name: &'static str,
    /// The path's name.
    pub(super) test_path: &'static str,
    pub(super) unit: &'static str,
    pub(super) sense: Sense,
    /// A sender that ended before, in seconds, is not judged.
    pub(super) until: f64,
    pub(super) figure: Figure,
}

const fn check(
    name: &'static str,
    test_path: &'static str,
    unit: &'static str,
    sense: Sense,
    until: f64,
    figure: Figure,
) -> Check {
    Check { name, test_path, unit, sense, until, figure }
}

use Sense::{Less, More};

/// All of them, in the order of the table.
pub(super) const CHECKS: [Check; 37] = [
    check("fills the path", "clean", "%", More, 8.0, |v| {
        percent(v.utilization(v.start + 3.0, v.end_or(22.0)))
    }),
    check("largest usual burst", "clean", "pkts", Less { slack: 4.0 }, 8.0, |v| {
        bursts(v, v.start + 3.0, v.end_or(22.0))
    }),
    check("burst behind late ACKs", "aggregation", "pkts", Less { slack: 4.0 }, 8.0, |v| {
        bursts(v, v.start + 3.0, 10.0)
    }),
    check("time to 80 % of the rate", "clean", "s", Less { slack: 0.5 }, 8.0, |v| Ok(ramp(v))),
    check("Startup's queue", "deep", "ms", Less { slack: 20.0 }, 6.0, |v| {
        ms(v.queue(v.start, v.start + 2.5, 0.99))
    }),
    check("Startup's losses", "shallow", "BDP", Less { slack: 0.3 }, 6.0, |v| {
        Ok(startup_losses(v))
    }),
    check("Startup's queue drains", "deep", "s", Less { slack: 1.0 }, 12.0, |v| Ok(drain(v))),
    check("queue, buffer 0.5 BDP", "shallow", "ms", Less { slack: 5.0 }, 8.0, |v| {
        ms(v.queue(v.start + 3.0, 10.0, 0.5))
    }),
    check("queue, buffer 2 BDP", "clean", "ms", Less { slack: 5.0 }, 8.0, |v| {
        ms(v.queue(v.start + 3.0, v.end_or(22.0), 0.5))
    }),
    check("queue, buffer 8 BDP", "deep", "ms", Less { slack: 5.0 }, 8.0, |v| {
        ms(v.queue(v.start + 3.0, v.end_or(15.0), 0.5))
    }),
    check("losses, buffer 0.5 BDP", "shallow", "%", Less { slack: 0.5 }, 8.0, |v| {
        share(v.loss(v.start + 3.0, 10.0))
    }),
    check("fills, buffer 0.5 BDP", "shallow", "%", More, 8.0, |v| {
        percent(v.utilization(v.start + 3.0, 10.0))
    }),
    check("fills at 0.1 % loss", "loss 0.1 %", "%", More, 8.0, |v| {
        percent(v.utilization(v.start + 3.0, 10.0))
    }),
    check("fills at 1 % loss", "loss 1 %", "%", More, 8.0, |v| {
        percent(v.utilization(v.start + 3.0, 10.0))
    }),
    check("fills at 3 % loss", "loss 3 %", "%", More, 8.0, |v| {
        percent(v.utilization(v.start + 3.0, 10.0))
    }),
    check("fills at 10 % loss", "loss 10 %", "%", More, 8.0, |v| {
        percent(v.utilization(v.start + 3.0, 10.0))
    }),
    check("queue after a step down", "steps", "ms", Less { slack: 20.0 }, 22.0, |v| {
        ms(v.queue(16.0, 22.0, 0.5))
    }),
    check("losses after a step down", "steps", "%", Less { slack: 0.5 }, 22.0, |v| {
        share(v.loss(16.0, 22.0))
    }),
    check("fills after a step up", "steps", "%", More, 27.0, |v| {
        percent(v.utilization(24.0, 28.0))
    }),
    check("fills after a longer route", "route", "%", More, 25.0, |v| {
        percent(v.utilization(20.0, 26.0))
    }),
    check("back after an outage", "outage", "s", Less { slack: 1.0 }, 15.0, |v| Ok(back(v, 8.0))),
    check("back after idleness", "clean", "s", Less { slack: 1.0 }, 8.0, after_idle),
    check("fills under jitter", "jitter", "%", More, 9.0, |v| {
        percent(v.utilization(v.start + 3.0, 10.0))
    }),
    check("fills under aggregation", "aggregation", "%", More, 9.0, |v| {
        percent(v.utilization(v.start + 3.0, 10.0))
    }),
    check("fills behind a policer", "policer", "%", More, 14.0, |v| {
        percent(v.utilization(5.0, 15.0))
    }),
    check("losses behind a policer", "policer", "%", Less { slack: 1.0 }, 14.0, |v| {
        share(v.loss(5.0, 15.0))
    }),
    check("fills at 2 s", "long", "%", More, 44.0, |v| percent(v.utilization(30.0, 45.0))),
    check("losses at 2 s", "long", "%", Less { slack: 1.0 }, 44.0, |v| share(v.loss(10.0, 40.0))),
    check("fair to itself", "itself", "Jain", More, 28.0, jain),
    check("fair to CUBIC", "cubic", "Jain", More, 28.0, jain),
    check("fills your path", GIVEN, "%", More, 5.0, |v| {
        let (from, to) = settled(v)?;
        percent(v.utilization(from, to))
    }),
    check("usual burst there", GIVEN, "pkts", Less { slack: 4.0 }, 5.0, |v| {
        let (from, to) = settled(v)?;
        bursts(v, from, to)
    }),
    check("time to 80 % of its rate", GIVEN, "s", Less { slack: 0.5 }, 5.0, |v| Ok(ramp(v))),
    check("queue at the start, p99", GIVEN, "ms", Less { slack: 20.0 }, 5.0, |v| {
        let (from, _) = settled(v)?;
        ms(v.queue(v.start, from, 0.99))
    }),
    check("queue, median", GIVEN, "ms", Less { slack: 5.0 }, 5.0, |v| {
        let (from, to) = settled(v)?;
        ms(v.queue(from, to, 0.5))
    }),
    check("queue, p95", GIVEN, "ms", Less { slack: 5.0 }, 5.0, |v| {
        let (from, to) = settled(v)?;
        ms(v.queue(from, to, 0.95))
    }),
    check("losses there", GIVEN, "%", Less { slack: 0.5 }, 5.0, |v| {
        let (from, to) = settled(v)?;
        share(v.loss(from, to))
    }),
];

impl View {
    /// The end of the observation, or this if that is earlier.
    fn end_or(&self, latest: f64) -> f64 {
        self.ended.unwrap_or(self.end).min(latest)
    }
}

/// The time after the start on a given path: three seconds, and ten round trips of a long one.
fn settled(v: &View) -> Result<(f64, f64), String> {
    let rtt = v.empty_rtt();
    let (from, to) = (v.start + f64::max(3.0, 10.0 * rtt), v.ended_or_end());
    match to - from >= f64::max(2.0, 5.0 * rtt) {
        true => Ok((from, to)),
        false => Err(format!(
            "a verdict on a round trip of {:.0} ms takes {:.0} s; write a longer --duration",
            1e3 * rtt,
            from - v.start + f64::max(2.0, 5.0 * rtt)
        )),
    }
}

fn percent(share: f64) -> Result<f64, String> {
    Ok(100.0 * share)
}

fn ms(seconds: Option<f64>) -> Result<f64, String> {
    seconds.map(|s| 1e3 * s).ok_or_else(|| "nothing was delivered then".to_owned())
}

fn share(share: Option<f64>) -> Result<f64, String> {
    share.map(|s| 100.0 * s).ok_or_else(|| "nothing was sent then".to_owned())
}

fn bursts(v: &View, from: f64, to: f64) -> Result<f64, String> {
    burst_quantile(&v.bursts(from, to), 0.9).ok_or_else(|| "nothing was sent then".to_owned())
}

/// Time from the first packet until the rate over 0.2 s is 80 % of the path's.
fn ramp(v: &View) -> f64 {
    let step = 0.1;
    let rates = v.rates(v.start, v.end, step);
    let is_there = |i: usize| {
        let from = v.start + i as f64 * step;
        (rates[i] + rates[i + 1]) * step >= 0.8 * v.capacity(from, from + 2.0 * step)
    };
    let there = (0..rates.len().saturating_sub(1)).find(|i| rates[*i] > 0.0 && is_there(*i));
    there.map_or(v.end - v.start, |i| (i + 2) as f64 * step)
}

/// Data that the first two seconds lost, in BDP.
fn startup_losses(v: &View) -> f64 {
    let lost = v.sent_in(v.start, v.start + 2.0).iter().filter(|p| p.lost.is_some());
    lost.map(|p| p.bytes).sum::<f64>() / v.bdp(v.start, RTT_S)
}

/// Time from the first packet until the queue of Startup, after its peak, is below a quarter of a
/// round trip.
fn drain(v: &View) -> f64 {
    let delivered = || v.of_flow(v.main).filter(|p| p.delivered.is_some());
    let early = delivered().filter(|p| p.sent < v.start + 2.5);
    let peak = early.max_by(|a, b| a.queued.total_cmp(&b.queued));
    let Some(peak) = peak.filter(|peak| peak.queued > 0.5 * RTT_S) else { return 0.0 };
    let mut later = delivered().filter(|p| p.sent > peak.sent);
    let low = later.find(|p| p.queued < 0.25 * RTT_S);
    low.map_or(v.end_or(15.0), |p| p.sent) - v.start
}

/// Time from a moment until the rate over half a second is 80 % of the path's.
fn back(v: &View, from: f64) -> f64 {
    let step = 0.25;
    let rates = v.rates(from, v.end, step);
    let want = 0.8 * v.rate_at(from);
    let there = rates.windows(2).position(|w| (w[0] + w[1]) / 2.0 >= want);
    there.map_or(v.end - from, |i| (i + 1) as f64 * step)
}

/// As [`back`] after the first pause.
fn after_idle(v: &View) -> Result<f64, String> {
    match v.pause() {
        Some((_, began)) if v.end_or(22.0) - began > 1.0 => Ok(back(v, began)),
        _ => Err("it never paused for a second".to_owned()),
    }
}

/// Jain's index of what two flows got.
fn jain(v: &View) -> Result<f64, String> {
    let [a, b] = shares(v).ok_or("there were not two flows")?;
    Ok((a + b) * (a + b) / (2.0 * (a * a + b * b)).max(1.0))
}

/// Share of each of the two largest flows in the last half.
pub(super) fn shares(v: &View) -> Option<[f64; 2]> {
    let flows = v.flows();
    let [(a, sent_a), (b, sent_b), ..] = flows.as_slice() else { return None };
    // A control connection is no competitor.
    if *sent_b < 0.001 * sent_a {
        return None;
    }
    Some([*a, *b].map(|flow| v.delivered_in(12.0, 30.0, Some(flow))))
}
