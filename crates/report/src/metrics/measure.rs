//! The figures of a run: counters and distributions are looked at where a window begins and ends,
//! and the values between are the difference. The formulas are in docs/results.md.

use std::cell::RefCell;
use std::collections::BTreeMap;

use fullpipe_cc::Duration;
use fullpipe_path::{ElementConfig, MTU_BYTES, PathConfig, PathStats, RateConfig};
use fullpipe_scenario::formulas::{bits_per_sec, jain, millis_of, ratio, seconds};
use fullpipe_scenario::{Clock, Flow, LinkKind, Scenario, Stack};
use fullpipe_sim::{Route, SimConfig};
use fullpipe_traffic::{MediaStats, SenderStats, Tally};

use super::distribution::Distribution;
use super::{
    Figures, FlowResult, Level, Metric, Probe, RunResult, Scope, SeriesValues, Stat, Which, Window,
};
use crate::observe::{ByFlow, Checkpoint, FlowOnLink, Observations, SeriesRow};

/// The run, its scenario, and what is asked of it beside its metrics.
pub struct RunContext<'a> {
    /// The scenario's name.
    pub scenario: &'a str,
    /// The stack that carries its flows.
    pub stack: Stack,
    /// The clock by which they move.
    pub clock: Clock,
    /// The kind of the link of a run in real time.
    pub link: Option<LinkKind>,
    /// The number of the run in its grid.
    pub run: usize,
    /// Its place in the grid: axis and value.
    pub at: &'a [(String, String)],
    /// The values that are asked for.
    pub probes: &'a [Probe],
}

/// A run that is over, and what it was a run of.
pub struct Measurement<'a> {
    scenario: &'a Scenario,
    seen: Observations,
    /// Distributions that a figure was asked of, between which marks: there are six figures of
    /// each, and those of a run with one flow are that flow's.
    known: RefCell<BTreeMap<(Duration, Duration, Subject), Option<Distribution>>>,
}

/// Subject of a distribution: for all but the last the flows.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
enum Subject {
    Rtt(Vec<usize>),
    Latency(Vec<usize>),
    Completion(Vec<usize>),
    QueueOf(Vec<usize>),
    Burst(Vec<usize>),
    Queue(usize),
}

/// The moments at which windows begin or end or flows stop, inside the run.
pub fn moments(probes: &[Probe], scenario: &Scenario) -> Vec<Duration> {
    let duration = scenario.duration.unwrap_or(Duration::MAX);
    let ends = probes.iter().flat_map(|p| [p.window.from, p.window.to]).flatten();
    let stops = scenario.config.flows.iter().filter_map(|flow| flow.stop);
    let mut moments: Vec<Duration> =
        ends.chain(stops).filter(|t| *t > Duration::ZERO && *t < duration).collect();
    moments.sort();
    moments.dedup();
    moments
}

impl<'a> Measurement<'a> {
    /// The measurement of these observations of a scenario.
    pub fn new(scenario: &'a Scenario, seen: Observations) -> Self {
        Self { scenario, seen, known: RefCell::default() }
    }

    /// All figures of the run.
    pub fn result(self, place: &RunContext<'_>) -> RunResult {
        let whole = |scope: Scope, level: Level| -> Figures {
            let probe = |metric| Probe { scope: scope.clone(), metric, window: Window::default() };
            let all = Metric::of(level).into_iter();
            all.map(|m| (m.to_string(), self.value(&probe(m)))).collect()
        };
        let flow = |(i, flow): (usize, &Flow)| {
            let times = self.seen.times[i];
            FlowResult {
                name: flow.name.clone(),
                cc: flow.algorithm(),
                start_s: seconds(times.start),
                end_s: seconds(times.end),
                metrics: whole(Scope::Flow(Which::Number(i)), Level::Flow),
            }
        };
        let links = 0..self.scenario.config.links.len();
        let rate = self.scenario.config.links.first().and_then(|link| {
            link.row.iter().find_map(|element| match element {
                ElementConfig::Bottleneck { rate: RateConfig::Constant(rate), .. } => Some(rate),
                _ => None,
            })
        });
        let result = RunResult {
            run: place.run,
            repetition: 0,
            scenario: place.scenario.to_owned(),
            stack: place.stack,
            clock: place.clock,
            link: place.link.map(|link| link.name().to_owned()),
            at: place.at.to_vec(),
            seed: self.scenario.seed,
            rate_mbps: rate.map(|rate| rate.as_bits_per_sec() as f64 / 1e6),
            empty_rtt_ms: self.empty_rtt_ms(),
            metrics: whole(Scope::Run, Level::Run),
            flows: self.scenario.flows.iter().enumerate().map(flow).collect(),
            links: links.map(|i| whole(Scope::Link(i), Level::Link)).collect(),
            probes: place.probes.iter().map(|p| self.value(p)).collect(),
            series: Vec::new(),
            emulator: self.seen.emulator.clone(),
            interrupted: self.seen.interrupted,
            late_starts: self.seen.late_starts,
        };
        let mut series = self.seen.series;
        add_capacity(&mut series, &self.scenario.config);
        RunResult { series, ..result }
    }

    /// A value that is asked for; nothing where there is no such thing: a percentile of no packets,
    /// a share of no goodput.
    pub fn value(&self, probe: &Probe) -> Option<f64> {
        let span = self.span(probe.window)?;
        let flows: Option<Vec<usize>> = match &probe.scope {
            Scope::Run if probe.metric.needs_series() && self.has_background() => {
                Some(self.everyone())
            }
            Scope::Run => None,
            Scope::Flow(Which::Number(n)) => Some(self.seen.times.get(*n).map(|_| vec![*n])?),
            Scope::Flow(Which::Name(name)) => {
                let flows = self.scenario.flows.iter().enumerate();
                Some(flows.filter(|(_, f)| f.name == *name).map(|(i, _)| i).collect())
            }
            Scope::Link(n) => return span.of_link(probe.metric, *n),
        };
        match flows {
            flows if probe.metric.needs_series() => span.of_series(probe.metric, flows.as_deref()),
            None => span.of_run(probe.metric),
            Some(flows) => span.of_flows(probe.metric, &flows),
        }
    }

    /// The round trip of the empty path for a full packet, in milliseconds; in a graph that of the
    /// first flow. The first flow's own link is in it.
    fn empty_rtt_ms(&self) -> f64 {
        let config = &self.scenario.config;
        let uplink = config.links.len();
        let route = config.flows.first().map(|flow| config.route(flow).into_owned());
        let route =
            route.filter(|route| !route.there.iter().chain(&route.back).any(|i| *i == uplink));
        let route = route.unwrap_or(Route { there: (0..uplink).collect(), back: vec![uplink] });
        let passed = route.there.iter().chain(&route.back);
        let delays = passed.map(|i| config.link(*i).least_delay());
        let delay = delays.fold(Duration::ZERO, |sum, d| sum + d);
        let own = config.flows.first().and_then(|flow| flow.access).map(|access| access.link());
        let delay = own.iter().fold(delay, |sum, own| sum + own.least_delay() + own.least_delay());
        let there = route.there.iter().flat_map(|i| &config.link(*i).row);
        let there = there.chain(own.iter().flat_map(|own| &own.row));
        let wires = there.filter_map(|e| match e {
            ElementConfig::Bottleneck { rate: RateConfig::Constant(rate), .. } => Some(rate),
            _ => None,
        });
        let bytes = u64::from(MTU_BYTES);
        let sent = wires.fold(Duration::ZERO, |sum, rate| sum + rate.time_for(bytes));
        millis_of((delay + sent).as_nanos() as f64)
    }

    /// Start and end of a flow, in seconds.
    fn life_s(&self, flow: usize) -> (f64, f64) {
        let life = self.seen.times[flow];
        (seconds(life.start), seconds(life.end))
    }

    fn has_background(&self) -> bool {
        self.scenario.flows.iter().any(|flow| flow.background)
    }

    /// The flows of which the figures of the run are.
    fn everyone(&self) -> Vec<usize> {
        let flows = self.scenario.flows.iter().enumerate();
        flows.filter(|(_, flow)| !flow.background).map(|(i, _)| i).collect()
    }

    fn span(&self, window: Window) -> Option<Span<'_>> {
        let from = window.from.unwrap_or(Duration::ZERO);
        let to = window.to.unwrap_or(self.seen.end).min(self.seen.end);
        let a = self.seen.marks.iter().rfind(|m| m.at <= from)?;
        let b = self.seen.marks.iter().find(|m| m.at >= to).or(self.seen.marks.last())?;
        let from = from.max(a.taken);
        let to = if b.at == to { b.taken } else { to };
        (from < to).then_some(Span { all: self, a, b, from, to })
    }
}

/// Nothing counted.
static NONE: Tally = Tally::new();

/// Interval between two marks.
struct Span<'a> {
    all: &'a Measurement<'a>,
    a: &'a Checkpoint,
    b: &'a Checkpoint,
    from: Duration,
    to: Duration,
}

impl Span<'_> {
    fn of_run(&self, metric: Metric) -> Option<f64> {
        let everyone = self.all.everyone();
        match metric {
            Metric::Goodput => Some(mbps(self.received(&everyone), self.time())),
            Metric::Jain => Some(self.jain()),
            Metric::Utilization | Metric::Queue(_) | Metric::LossRate => self.of_link(metric, 0),
            Metric::Elapsed => Some(seconds(self.time())),
            Metric::Power => {
                let rtt = self.of_run(Metric::Rtt(Stat::Mean)).filter(|rtt| *rtt > 0.0)?;
                Some(self.of_link(Metric::Utilization, 0)? * self.all.empty_rtt_ms() / rtt)
            }
            _ => self.of_flows(metric, &everyone),
        }
    }

    fn of_series(&self, metric: Metric, flows: Option<&[usize]>) -> Option<f64> {
        let (from, to) = (seconds(self.from), seconds(self.to));
        let lives: Vec<_> = (0..self.all.seen.times.len()).map(|i| self.all.life_s(i)).collect();
        let series = SeriesValues::of(&self.all.seen.series, &lives, flows, from, to);
        series.value(metric, self.all.empty_rtt_ms() / 1e3)
    }

    fn of_flows(&self, metric: Metric, flows: &[usize]) -> Option<f64> {
        let sum = |count: fn(&SenderStats) -> u64| -> u64 {
            flows.iter().map(|&i| count(&self.b.sent[i]) - count(&self.a.sent[i])).sum()
        };
        match metric {
            Metric::Goodput => {
                let (start, end) = self.life(flows)?;
                Some(mbps(self.received_alive(flows), end - start))
            }
            Metric::Share => {
                let all = self.received(&self.all.everyone());
                (all > 0).then(|| ratio(self.received(flows), all))
            }
            Metric::Rtt(stat) => self.millis(stat, Subject::Rtt(flows.to_vec())),
            Metric::Latency(stat) => self.millis(stat, Subject::Latency(flows.to_vec())),
            Metric::Completion(stat) => self.millis(stat, Subject::Completion(flows.to_vec())),
            Metric::Completions => {
                let done = |of: &Option<Tally>| of.as_ref().map(Tally::len);
                let each = flows.iter().filter_map(|&i| {
                    Some(done(&self.b.completion_ns[i])? - done(&self.a.completion_ns[i])?)
                });
                total(each)
            }
            Metric::Censored => total(flows.iter().filter_map(|&i| self.b.incomplete[i])),
            Metric::Bitrate => {
                let (start, end) = self.life(flows)?;
                let bytes = self.of_media(flows, |media| media.frame_bytes)?;
                Some(mbps(bytes, end - start))
            }
            Metric::DroppedFrames => {
                self.of_media(flows, |media| media.dropped_frames).map(|n| n as f64)
            }
            Metric::Stalls => self.of_media(flows, |media| media.stalls).map(|n| n as f64),
            Metric::Stalled => {
                let stalled = self.of_media(flows, |media| media.stalled_ns)?;
                Some(millis_of(stalled as f64))
            }
            Metric::Padding => self.of_media(flows, |media| media.padding_bytes).map(|n| n as f64),
            Metric::RetransmitRate => Some(ratio(sum(|s| s.lost_bytes), sum(|s| s.sent_bytes))),
            Metric::SentBytes => Some(sum(|s| s.sent_bytes) as f64),
            Metric::CompletedBytes => Some(self.received(flows) as f64),
            Metric::Elapsed => self.life(flows).map(|(start, end)| seconds(end - start)),
            Metric::Queue(stat) => self.millis(stat, Subject::QueueOf(flows.to_vec())),
            Metric::Burst(stat) => {
                self.distribution(Subject::Burst(flows.to_vec())).and_then(|d| d.stat(stat))
            }
            Metric::LossRate => {
                let pairs = self.on_link(flows)?;
                let sum = |count: fn(&FlowOnLink) -> u64| -> u64 {
                    pairs.iter().map(|(a, b)| count(b) - count(a)).sum()
                };
                let sent = sum(|flow| flow.sent_packets);
                (sent > 0).then(|| ratio(sum(|flow| flow.dropped_packets), sent))
            }
            _ => None,
        }
    }

    /// The sum over the flows of media; nothing without any.
    fn of_media(&self, flows: &[usize], count: fn(&MediaStats) -> u64) -> Option<u64> {
        let each = flows.iter().filter_map(|&i| {
            let after = self.b.media[i].as_ref()?;
            Some(count(after) - self.a.media[i].as_ref().map_or(0, count))
        });
        each.reduce(|a, b| a + b)
    }

    fn of_link(&self, metric: Metric, link: usize) -> Option<f64> {
        let (a, b) = (self.a.links.get(link)?, self.b.links.get(link)?);
        match metric {
            Metric::Utilization => {
                let can =
                    capacity_bytes(&self.all.scenario.config.links[link], self.from, self.to)?;
                Some(ratio(b.carried.bytes - a.carried.bytes, can))
            }
            Metric::Queue(stat) => self.millis(stat, Subject::Queue(link)),
            Metric::LossRate => {
                // A copy that the link made can be dropped as well.
                let met = |s: &PathStats| s.arrived.packets + s.duplicated.packets;
                Some(ratio(b.dropped().packets - a.dropped().packets, met(b) - met(a)))
            }
            _ => None,
        }
    }

    /// The flows as the link saw them at both ends of the interval; nothing where it does not look.
    fn on_link(&self, flows: &[usize]) -> Option<Vec<(&FlowOnLink, &FlowOnLink)>> {
        flows.iter().map(|&i| Some((self.a.on_link.get(i)?, self.b.on_link.get(i)?))).collect()
    }

    fn time(&self) -> Duration {
        self.to - self.from
    }

    fn received(&self, flows: &[usize]) -> u64 {
        flows.iter().map(|&i| self.b.received[i] - self.a.received[i]).sum()
    }

    /// The same without what was read after a flow's stop, which is behind the time of its goodput.
    fn received_alive(&self, flows: &[usize]) -> u64 {
        let each = flows.iter().map(|&i| {
            let end = self.all.seen.times[i].end;
            let last = self.all.seen.marks.iter().find(|m| m.at >= end && end < self.to);
            last.unwrap_or(self.b).received[i].saturating_sub(self.a.received[i])
        });
        each.sum()
    }

    /// From the first start to the last end of these flows, as far as they are in the window.
    fn life(&self, flows: &[usize]) -> Option<(Duration, Duration)> {
        let lives = flows.iter().map(|&i| self.all.seen.times[i]);
        let start = lives.clone().map(|l| l.start).min()?.max(self.from);
        let end = lives.map(|l| l.end).max()?.min(self.to);
        (start < end).then_some((start, end))
    }

    /// A figure of times in nanoseconds; nothing where none was counted.
    fn millis(&self, stat: Stat, subject: Subject) -> Option<f64> {
        self.distribution(subject)?.stat(stat).map(millis_of)
    }

    fn distribution(&self, subject: Subject) -> Option<Distribution> {
        let key = (self.a.at, self.b.at, subject);
        let mut known = self.all.known.borrow_mut();
        match known.get(&key) {
            Some(distribution) => *distribution,
            None => {
                let found = self.tallies(&key.2).and_then(|pairs| Distribution::between(&pairs));
                known.insert(key, found);
                found
            }
        }
    }

    fn by_flow<'s>(
        &self,
        flows: &[usize],
        a: &'s ByFlow,
        b: &'s ByFlow,
    ) -> Option<Vec<(&'s Tally, &'s Tally)>> {
        let all = self.all.seen.times.len();
        Some(a.of_flows(flows, all)?.into_iter().zip(b.of_flows(flows, all)?).collect())
    }

    /// The counts at both ends of the interval; nothing where they are not counted apart.
    fn tallies(&self, subject: &Subject) -> Option<Vec<(&Tally, &Tally)>> {
        let (from, to) = (self.a, self.b);
        match subject {
            Subject::Rtt(flows) => self.by_flow(flows, &from.rtt_ns, &to.rtt_ns),
            Subject::Latency(flows) => self.by_flow(flows, &from.latency_ns, &to.latency_ns),
            Subject::Completion(flows) => {
                let each = flows.iter().filter_map(|&i| {
                    let after = to.completion_ns[i].as_ref()?;
                    Some((from.completion_ns[i].as_ref().unwrap_or(&NONE), after))
                });
                Some(each.collect())
            }
            Subject::QueueOf(flows) => {
                if let (Some(a), Some(b)) = (&from.queue_ns_by_flow, &to.queue_ns_by_flow) {
                    return self.by_flow(flows, a, b);
                }
                let each = self.on_link(flows)?;
                Some(each.into_iter().map(|(a, b)| (&a.queue_ns, &b.queue_ns)).collect())
            }
            Subject::Burst(flows) => {
                let each = self.on_link(flows)?;
                Some(each.into_iter().map(|(a, b)| (&a.burst_packets, &b.burst_packets)).collect())
            }
            Subject::Queue(link) => Some(vec![(&from.queue_ns[*link], &to.queue_ns[*link])]),
        }
    }

    /// Over the flows that were there at all in this time, without those that the file leaves out.
    fn jain(&self) -> f64 {
        let flows = self.all.everyone();
        let counts = |i: &usize| self.all.scenario.flows[*i].in_fairness;
        let there = flows.into_iter().filter(counts).filter_map(|i| {
            let (start, end) = self.life(&[i])?;
            Some(bits_per_sec(self.received_alive(&[i]), end - start))
        });
        jain(there)
    }
}

/// The sum; nothing of none.
fn total(each: impl Iterator<Item = u64>) -> Option<f64> {
    each.reduce(|a, b| a + b).map(|sum| sum as f64)
}

fn mbps(bytes: u64, time: Duration) -> f64 {
    bits_per_sec(bytes, time) as f64 / 1e6
}

/// Gives each row the capacity of the first link that its flow passes since the moment before.
fn add_capacity(rows: &mut [SeriesRow], config: &SimConfig) {
    let mut moments: Vec<f64> = rows.iter().map(|row| row.t_s).collect();
    moments.dedup();
    let times: Vec<Duration> =
        moments.iter().map(|t| Duration::from_nanos((t * 1e9).round() as u64)).collect();
    let links: Vec<usize> = config.flows.iter().map(|flow| config.first_link(flow)).collect();
    let capacities = |link: usize| {
        let rate = first_rate(config.link(link))?;
        let until = rate.bytes_until(&times);
        let (mut from, mut carried) = (Duration::ZERO, 0);
        let each = times.iter().zip(until).map(|(&to, bytes)| {
            let rate = mbps(bytes - carried, to - from);
            (from, carried) = (to, bytes);
            rate
        });
        Some(each.collect::<Vec<f64>>())
    };
    // Flows with one link share its capacities.
    let mut of_links: BTreeMap<usize, Option<Vec<f64>>> = BTreeMap::new();
    for &link in &links {
        of_links.entry(link).or_insert_with(|| capacities(link));
    }
    let mut moment = 0;
    for row in rows {
        if moments[moment] != row.t_s {
            moment += 1;
        }
        let capacities = links.get(row.flow).and_then(|link| of_links.get(link)?.as_ref());
        row.capacity_mbps = capacities.map(|capacities| capacities[moment]);
    }
}

/// Capacity of a link's first bottleneck between two moments; `None` without a bottleneck.
fn capacity_bytes(link: &PathConfig, from: Duration, to: Duration) -> Option<u64> {
    first_rate(link).map(|rate| rate.bytes_between(from, to))
}

fn first_rate(link: &PathConfig) -> Option<&RateConfig> {
    let mut rates = link.row.iter().filter_map(|element| match element {
        ElementConfig::Bottleneck { rate, .. } => Some(rate),
        _ => None,
    });
    rates.next()
}
