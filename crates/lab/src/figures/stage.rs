//! Where figures are run: one bottleneck, flows, and samples of all that they show.

use std::cell::RefCell;
use std::sync::atomic::{AtomicBool, Ordering};

use fullpipe_cc::{Algorithm, Duration, Instant, Rate, State};
use fullpipe_path::{
    ElementConfig, LossConfig, PathConfig, Probability, QueueConfig, QueueLimit, RateConfig,
};
use fullpipe_sim::{FlowConfig, Sim, SimConfig, SimError};
use hdrhistogram::Histogram;

use crate::metrics;

/// How a figure ends that has no result.
#[derive(Debug, thiserror::Error)]
pub(super) enum Broken {
    /// A description that no simulation can be built from.
    #[error(transparent)]
    Sim(#[from] SimError),
    /// Somebody asked for an end.
    #[error("stopped early")]
    Stopped,
}

/// What figures run on.
pub(super) struct Stage<'a> {
    full: bool,
    stop: &'a AtomicBool,
    shortened: RefCell<Vec<String>>,
}

impl<'a> Stage<'a> {
    pub(super) fn new(full: bool, stop: &'a AtomicBool) -> Self {
        Self { full, stop, shortened: RefCell::default() }
    }

    /// The length of a run in seconds: as published, or shorter unless the figure runs in full.
    pub(super) fn secs(&self, published: f64, short: f64) -> f64 {
        if self.full || short >= published {
            return published;
        }
        let words = format!("{short} s of {published} s");
        let mut told = self.shortened.borrow_mut();
        if !told.contains(&words) {
            told.push(words);
        }
        short
    }

    pub(super) fn shortened(&self) -> Option<String> {
        let told = self.shortened.borrow();
        (!told.is_empty()).then(|| told.join(", "))
    }

    /// Runs it to its end.
    pub(super) fn run(&self, setup: &Setup) -> Result<Run, Broken> {
        let mut sim = Sim::new(&setup.config())?;
        let mut samples = Vec::new();
        let (mut t, end) = (Duration::ZERO, seconds(setup.secs));
        loop {
            if self.stop.load(Ordering::Relaxed) {
                return Err(Broken::Stopped);
            }
            sim.run_until(Instant::default() + t);
            samples.push(Sample::of(&sim));
            if t >= end || (setup.ends_early && sim.is_done()) {
                break;
            }
            t = (t + setup.every).min(end);
        }
        Ok(Run::of(setup, &sim, samples))
    }
}

/// One bottleneck, there and back, and the flows on it.
#[derive(Clone, Debug)]
pub(super) struct Setup {
    pub(super) rate: RateConfig,
    /// The rate that BDPs and shares are counted with.
    pub(super) bits: f64,
    pub(super) rtt_ms: f64,
    pub(super) queue: QueueConfig,
    /// In front of the bottleneck, in the direction of the data.
    pub(super) before: Vec<ElementConfig>,
    /// Behind the bottleneck.
    pub(super) behind: Vec<ElementConfig>,
    /// On the way of the ACKs.
    pub(super) acks: Vec<ElementConfig>,
    pub(super) flows: Vec<FlowConfig>,
    pub(super) cross: Vec<fullpipe_sim::CrossTraffic>,
    pub(super) secs: f64,
    /// Between two samples.
    pub(super) every: Duration,
    pub(super) seed: u64,
    /// Whether the run is over when every flow is.
    pub(super) ends_early: bool,
}

pub(super) const MBIT: f64 = 1e6;

impl Setup {
    /// A link of so many bit/s and milliseconds, with a buffer of so many BDP, for so long.
    pub(super) fn new(bits: f64, rtt_ms: f64, buffer_bdp: f64, secs: f64) -> Self {
        let buffer = (bits / 8.0 * rtt_ms / 1e3 * buffer_bdp).round().max(1500.0) as u64;
        Self {
            rate: rate(bits).into(),
            bits,
            rtt_ms,
            queue: QueueLimit::Bytes(buffer).into(),
            before: Vec::new(),
            behind: Vec::new(),
            acks: Vec::new(),
            flows: Vec::new(),
            cross: Vec::new(),
            secs,
            every: Duration::from_millis(10),
            seed: 1,
            ends_early: false,
        }
    }

    pub(super) fn packets(self, n: u64) -> Self {
        Self { queue: QueueLimit::Packets(n).into(), ..self }
    }

    pub(super) fn every_ms(self, ms: f64) -> Self {
        Self { every: millis(ms), ..self }
    }

    pub(super) fn seed(self, seed: u64) -> Self {
        Self { seed, ..self }
    }

    /// Random loss in front of the bottleneck.
    pub(super) fn loss(mut self, p: f64) -> Self {
        if p > 0.0 {
            self.before.push(ElementConfig::Loss(probability(p).into()));
        }
        self
    }

    pub(super) fn bursts(mut self, loss: LossConfig) -> Self {
        self.before.push(ElementConfig::Loss(loss));
        self
    }

    /// One more flow, with a seed of its own.
    pub(super) fn flow(mut self, mut flow: FlowConfig) -> Self {
        flow.cc.seed = self.seed.wrapping_add(self.flows.len() as u64);
        self.flows.push(flow);
        self
    }

    /// A TCP flow without an end, which starts after so many seconds.
    pub(super) fn tcp(self, algorithm: Algorithm, start: f64) -> Self {
        self.flow(FlowConfig { start: seconds(start), ..FlowConfig::tcp_bulk(algorithm) })
    }

    fn config(&self) -> SimConfig {
        let half = millis(self.rtt_ms / 2.0);
        let mut row = self.before.clone();
        row.push(ElementConfig::Bottleneck { rate: self.rate.clone(), queue: self.queue });
        row.push(ElementConfig::Delay(half));
        row.extend(self.behind.iter().cloned());
        let mut back = vec![ElementConfig::Delay(half)];
        back.extend(self.acks.iter().cloned());
        let downlink = PathConfig { row, seed: self.seed };
        let uplink = PathConfig { row: back, seed: self.seed.wrapping_add(1 << 32) };
        let mut config = SimConfig::new(downlink, uplink, self.flows.clone());
        config.cross.clone_from(&self.cross);
        config.seed = self.seed;
        config
    }
}

pub(super) fn rate(bits: f64) -> Rate {
    Rate::from_bits_per_sec(bits.round() as u64)
}

pub(super) fn seconds(s: f64) -> Duration {
    Duration::from_nanos((s * 1e9).round() as u64)
}

pub(super) fn millis(ms: f64) -> Duration {
    Duration::from_nanos((ms * 1e6).round() as u64)
}

/// Of a number that stands in the code, and is one.
pub(super) fn probability(p: f64) -> Probability {
    Probability::new(p).unwrap_or_default()
}

/// A flow at one moment.
#[derive(Clone, Copy, Debug)]
pub(super) struct FlowSample {
    pub(super) received: u64,
    pub(super) delivered: u64,
    pub(super) lost: u64,
    pub(super) inflight: u64,
    pub(super) rtt_ms: f64,
    pub(super) srtt_ms: f64,
    pub(super) state: State,
    /// BBR's estimate in bit/s, and its gain; not a number for others.
    pub(super) max_bw: f64,
    pub(super) gain: f64,
    pub(super) rounds: u64,
}

/// Everything at one moment.
#[derive(Clone, Debug)]
pub(super) struct Sample {
    pub(super) t: f64,
    pub(super) queue_ms: f64,
    pub(super) carried: u64,
    pub(super) flows: Vec<FlowSample>,
}

impl Sample {
    fn of(sim: &Sim) -> Self {
        let link = sim.link(0);
        let flow = |f: &fullpipe_sim::Flow| {
            let s = f.snapshot();
            let in_ms = |d: Option<Duration>| d.map_or(f64::NAN, |d| d.as_nanos() as f64 / 1e6);
            FlowSample {
                received: f.received(),
                delivered: s.delivered,
                lost: s.lost,
                inflight: s.inflight,
                rtt_ms: in_ms(s.latest_rtt),
                srtt_ms: in_ms(s.srtt),
                state: s.state,
                max_bw: s.bbr.map_or(f64::NAN, |b| b.max_bw.as_bits_per_sec() as f64),
                gain: s.bbr.map_or(f64::NAN, |b| f64::from(b.pacing_gain.as_percent()) / 100.0),
                rounds: s.bbr.map_or(0, |b| b.round_count),
            }
        };
        Self {
            t: sim.now().as_nanos() as f64 / 1e9,
            queue_ms: link.queue.delay.as_nanos() as f64 / 1e6,
            carried: link.stats.carried.bytes,
            flows: sim.flows().iter().map(flow).collect(),
        }
    }
}

/// What a run came to.
pub(super) struct Run {
    pub(super) samples: Vec<Sample>,
    pub(super) queue: Histogram<u64>,
    pub(super) rtt: Histogram<u64>,
    /// For each flow bytes sent and marked lost.
    pub(super) sent: Vec<(u64, u64)>,
    /// For each flow when it had all its bytes.
    pub(super) ends: Vec<Option<f64>>,
    /// For each flow how long its answers took.
    pub(super) completion: Vec<Option<Histogram<u64>>>,
    pub(super) starts: Vec<f64>,
}

impl Run {
    fn of(setup: &Setup, sim: &Sim, samples: Vec<Sample>) -> Self {
        let since = |at: Instant| at.as_nanos() as f64 / 1e9;
        let flows = sim.flows();
        Self {
            samples,
            queue: sim.queue_delay_ns(0),
            rtt: sim.rtt_ns(),
            sent: flows.iter().map(|f| (f.stats().sent_bytes, f.stats().lost_bytes)).collect(),
            ends: flows.iter().map(|f| f.end().map(since)).collect(),
            completion: flows.iter().map(fullpipe_sim::Flow::completion_ns).collect(),
            starts: setup.flows.iter().map(|f| f.start.as_nanos() as f64 / 1e9).collect(),
        }
    }

    /// The samples from one time to another, both in seconds.
    pub(super) fn between(&self, from: f64, to: f64) -> &[Sample] {
        let first = self.samples.partition_point(|s| s.t < from - 1e-9);
        let end = self.samples.partition_point(|s| s.t <= to + 1e-9);
        &self.samples[first..end.max(first)]
    }

    pub(super) fn end(&self) -> f64 {
        self.samples.last().map_or(0.0, |s| s.t)
    }

    /// Application bit/s of a flow between two times.
    pub(super) fn goodput(&self, flow: usize, from: f64, to: f64) -> f64 {
        let samples = self.between(from, to);
        let (Some(a), Some(b)) = (samples.first(), samples.last()) else { return 0.0 };
        let time = b.t - a.t;
        if time <= 0.0 {
            0.0
        } else {
            (b.flows[flow].received - a.flows[flow].received) as f64 * 8.0 / time
        }
    }

    /// The same of all flows, over the whole run.
    pub(super) fn total(&self) -> f64 {
        (0..self.sent.len()).map(|i| self.goodput(i, 0.0, self.end())).sum()
    }

    /// Jain's index of the flows between two times.
    pub(super) fn jain(&self, from: f64, to: f64) -> f64 {
        metrics::jain((0..self.sent.len()).map(|i| self.goodput(i, from, to) as u64))
    }

    /// Bytes marked lost over bytes sent, of all flows.
    pub(super) fn retransmitted(&self) -> f64 {
        let (sent, lost) = self.sent.iter().fold((0, 0), |sum, f| (sum.0 + f.0, sum.1 + f.1));
        metrics::ratio(lost, sent)
    }

    /// A percentile of every packet's queueing delay, in milliseconds.
    pub(super) fn queue_at(&self, q: f64) -> f64 {
        self.queue.value_at_quantile(q) as f64 / 1e6
    }

    /// A percentile of every round-trip sample, in milliseconds.
    pub(super) fn rtt_at(&self, q: f64) -> f64 {
        self.rtt.value_at_quantile(q) as f64 / 1e6
    }

    /// A line over time.
    pub(super) fn line(&self, of: impl Fn(&Sample) -> f64) -> Vec<(f64, f64)> {
        self.samples.iter().map(|s| (s.t, of(s))).collect()
    }

    /// A flow's goodput in Mbit/s as a mean over `window` seconds, one point for each.
    pub(super) fn goodput_line(&self, flow: usize, window: f64) -> Vec<(f64, f64)> {
        let n = (self.end() / window).floor() as u64;
        (1..=n)
            .map(|i| {
                (
                    i as f64 * window,
                    self.goodput(flow, (i - 1) as f64 * window, i as f64 * window) / 1e6,
                )
            })
            .collect()
    }
}

/// A percentile of values, 0 of none.
pub(super) fn percentile(mut values: Vec<f64>, q: f64) -> f64 {
    values.retain(|v| !v.is_nan());
    values.sort_by(f64::total_cmp);
    let Some(last) = values.len().checked_sub(1) else { return 0.0 };
    values[(last as f64 * q).round() as usize]
}

/// The mean of values, 0 of none.
pub(super) fn mean(values: impl IntoIterator<Item = f64>) -> f64 {
    let (sum, n) = values.into_iter().fold((0.0, 0.0), |(sum, n), v| (sum + v, n + 1.0));
    if n == 0.0 { 0.0 } else { sum / n }
}

/// The largest of values.
pub(super) fn largest(values: impl IntoIterator<Item = f64>) -> f64 {
    values.into_iter().fold(f64::NEG_INFINITY, f64::max)
}

/// The smallest of values.
pub(super) fn smallest(values: impl IntoIterator<Item = f64>) -> f64 {
    values.into_iter().fold(f64::INFINITY, f64::min)
}
