//! The elements of a path as they stand in a file: a variant here and an arm below make a new one.

#![allow(missing_docs, reason = "docs/scenarios.md has the meaning of each field")]

use std::sync::Arc;

use fullpipe_cc::{Duration, Rate};
use fullpipe_path::{
    CoDelConfig, ConfigError, DualPi2Config, ElementConfig, FqCoDelConfig, LossConfig, MTU_BYTES,
    PathConfig, PieConfig, QueueConfig, QueueLimit, RateConfig, RedConfig, Selection, StepConfig,
};

use super::error::Wrong;
use super::input::Traces;
use super::jitter::JitterField;
use super::quantity::{Chance, Room, Share, Size, Speed, Time, by_name};
use super::repeated::Repeated;
use super::schema::RateStep;
use super::trace_field::TraceField;
use crate::trace::Trace;
use crate::units::Buffer;

/// One element: a table of one name, `{ delay = "20ms" }`.
#[derive(Clone, Debug, serde::Deserialize, serde::Serialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Element {
    Loss(Chance),
    GilbertElliott { to_bad: Share, to_good: Share, good: Option<Share>, bad: Option<Share> },
    LossList { listed: Vec<u64> },
    LossBursts { every: u64, length: u64 },
    LossLimited { chance: Share, in_a_row: u32 },
    LossOverflows { begins: Share, lasts: Time },
    LossSteps(Repeated<LossStep>),
    Blackhole(Repeated<Outage>),
    Corruption(Share),
    Marking(Share),
    Mangling(Share),
    Bleaching(Share),
    Duplication(Share),
    Policer { rate: Speed, bucket: Size, tokens: Option<Size> },
    Shaper { rate: Speed, bucket: Size, buffer: Room },
    Bottleneck(Box<Wire>),
    Delay(Time),
    DelaySteps(Repeated<DelayStep>),
    Jitter(JitterField),
    JitterSteps(Repeated<JitterStep>),
    Reordering { chance: Option<Share>, every: Option<u64>, delay: Time },
    Aggregation { interval: Time, burst: Option<Room>, keep_one_in: Option<u32> },
}

#[derive(Clone, Copy, Debug, serde::Deserialize, serde::Serialize)]
#[serde(deny_unknown_fields)]
pub struct Outage {
    pub from: Time,
    pub to: Time,
}

#[derive(Clone, Copy, Debug, serde::Deserialize, serde::Serialize)]
#[serde(deny_unknown_fields)]
pub struct DelayStep {
    pub at: Time,
    pub delay: Time,
}

#[derive(Clone, Copy, Debug, serde::Deserialize, serde::Serialize)]
#[serde(deny_unknown_fields)]
pub struct JitterStep {
    pub at: Time,
    pub jitter: JitterField,
}

#[derive(Clone, Copy, Debug, serde::Deserialize, serde::Serialize)]
#[serde(deny_unknown_fields)]
pub struct LossStep {
    pub at: Time,
    pub loss: Share,
}

/// A rate and the queue in front of it.
#[derive(Default, Clone, Debug, serde::Deserialize, serde::Serialize)]
#[serde(deny_unknown_fields)]
pub struct Wire {
    pub rate: Option<Speed>,
    #[serde(default, skip_serializing_if = "Repeated::is_empty")]
    pub steps: Repeated<RateStep>,
    pub trace: Option<TraceField>,
    pub buffer: Option<Room>,
    #[serde(default, deserialize_with = "some_queue")]
    pub queue: Option<Queue>,
}

fn some_queue<'de, D: serde::Deserializer<'de>>(from: D) -> Result<Option<Queue>, D::Error> {
    by_name(from).map(Some)
}

/// A queue discipline. What is left out is as the RFC has it.
#[derive(Clone, Copy, Debug, serde::Deserialize, serde::Serialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Queue {
    TailDrop {},
    Step {
        mark_above: Room,
    },
    #[serde(rename = "codel")]
    CoDel(CoDel),
    #[serde(rename = "fq_codel")]
    FqCoDel {
        queues: Option<u32>,
        quantum: Option<u32>,
        target: Option<Time>,
        interval: Option<Time>,
        ecn: Option<bool>,
        ce_threshold: Option<Time>,
    },
    Pie {
        target: Option<Time>,
        update: Option<Time>,
        max_burst: Option<Time>,
        ecn: Option<bool>,
    },
    Red {
        min: Room,
        max: Room,
        max_probability: Option<Share>,
        weight: Option<Share>,
        ecn: Option<bool>,
    },
    #[serde(rename = "dualpi2")]
    DualPi2 {
        target: Option<Time>,
        rtt_max: Option<Time>,
        ramp_from: Option<Time>,
        ramp_range: Option<Time>,
    },
}

#[derive(Default, Clone, Copy, Debug, serde::Deserialize, serde::Serialize)]
#[serde(deny_unknown_fields)]
pub struct CoDel {
    pub target: Option<Time>,
    pub interval: Option<Time>,
    pub ecn: Option<bool>,
    pub ce_threshold: Option<Time>,
}

/// Reference for quantities in BDP, and for names of files.
#[derive(Clone, Copy, Debug)]
pub(super) struct Frame<'a> {
    /// The round-trip time of the path without queues.
    pub(super) rtt: Duration,
    pub(super) traces: &'a Traces,
}

impl Element {
    /// True if it is a distance, so that a path needs no rtt beside it.
    pub(super) fn is_delay(&self) -> bool {
        matches!(self, Self::Delay(_) | Self::DelaySteps(_))
    }

    /// True if its rate is that of a trace.
    pub(super) fn has_trace(&self) -> bool {
        matches!(self, Self::Bottleneck(wire) if wire.trace.is_some())
    }

    /// The element as the path takes it.
    pub(super) fn config(&self, field: &str, frame: Frame<'_>) -> Result<ElementConfig, Wrong> {
        Ok(match self {
            Self::Loss(p) => ElementConfig::Loss(p.0.into()),
            Self::GilbertElliott { to_bad, to_good, good, bad } => {
                ElementConfig::Loss(LossConfig::GilbertElliott {
                    to_bad: to_bad.0,
                    to_good: to_good.0,
                    loss_in_good: good.unwrap_or(Share::of(0.0)).0,
                    loss_in_bad: bad.unwrap_or(Share::of(1.0)).0,
                })
            }
            Self::LossList { listed } => ElementConfig::Loss(LossConfig::Listed(listed.clone())),
            Self::LossBursts { every, length } => {
                ElementConfig::Loss(LossConfig::Bursts { every: *every, length: *length })
            }
            Self::LossLimited { chance, in_a_row } => ElementConfig::Loss(LossConfig::Limited {
                probability: chance.0,
                in_a_row: *in_a_row,
            }),
            Self::LossOverflows { begins, lasts } => {
                ElementConfig::Loss(LossConfig::Overflows { begins: begins.0, lasts: lasts.0 })
            }
            Self::LossSteps(steps) => {
                let losses: Vec<_> = steps.list.iter().map(|s| (s.at.0, s.loss.0)).collect();
                let series = steps.values(losses, &format!("{field}.loss_steps"))?;
                ElementConfig::Loss(LossConfig::Series(series))
            }
            Self::Blackhole(outages) => blackhole(outages, &format!("{field}.blackhole"))?,
            Self::Corruption(p) => ElementConfig::Corruption(p.0),
            Self::Marking(p) => ElementConfig::Marking(p.0),
            Self::Mangling(p) => ElementConfig::Mangling(p.0),
            Self::Bleaching(p) => ElementConfig::Bleaching(p.0),
            Self::Duplication(p) => ElementConfig::Duplication(p.0),
            Self::Policer { rate, bucket, tokens } => ElementConfig::Policer {
                rate: rate.0,
                bucket_bytes: bucket.0,
                initial_bytes: tokens.unwrap_or(*bucket).0,
            },
            Self::Shaper { rate, bucket, buffer } => ElementConfig::Shaper {
                rate: rate.0,
                bucket_bytes: bucket.0,
                queue: buffer_limit(
                    *buffer,
                    Some(rate.0),
                    frame,
                    &format!("{field}.shaper.buffer"),
                )?,
            },
            Self::Bottleneck(wire) => wire.alone(&format!("{field}.bottleneck"), frame)?,
            Self::Delay(time) => ElementConfig::Delay(time.0),
            Self::DelaySteps(steps) => {
                let delays: Vec<_> = steps.list.iter().map(|s| (s.at.0, s.delay.0)).collect();
                match steps.series(&delays, None, &format!("{field}.delay_steps"))? {
                    Some(series) => ElementConfig::DelaySeries(series),
                    None => ElementConfig::DelaySteps(delays),
                }
            }
            Self::Jitter(jitter) => ElementConfig::Jitter(jitter.0),
            Self::JitterSteps(steps) => {
                let jitters: Vec<_> = steps.list.iter().map(|s| (s.at.0, s.jitter.0)).collect();
                let series = steps.values(jitters, &format!("{field}.jitter_steps"))?;
                ElementConfig::JitterSeries(series)
            }
            Self::Reordering { chance, every, delay } => {
                let packets = match (chance, every) {
                    (Some(p), None) => Selection::Random(p.0),
                    (None, Some(n)) => Selection::Every(*n),
                    _ => {
                        let field = format!("{field}.reordering");
                        return Err(Wrong::new(field, "write either chance or every"));
                    }
                };
                ElementConfig::Reordering { packets, delay: delay.0 }
            }
            Self::Aggregation { interval, burst, keep_one_in } => ElementConfig::Aggregation {
                interval: interval.0,
                burst: match burst {
                    None => QueueLimit::Bytes(u64::MAX),
                    Some(room) => {
                        in_bytes_or_packets(*room, &format!("{field}.aggregation.burst"))?
                    }
                },
                keep_one_in: keep_one_in.unwrap_or(1),
            },
        })
    }
}

/// Outages, each from a time to another.
fn blackhole(outages: &Repeated<Outage>, field: &str) -> Result<ElementConfig, Wrong> {
    let mut steps = vec![(Duration::ZERO, false)];
    for outage in &outages.list {
        // One that begins at 0, or where the one before it ends.
        steps.pop_if(|(at, _)| *at == outage.from.0);
        steps.extend([(outage.from.0, true), (outage.to.0, false)]);
    }
    // It ends with the round, and the next one begins without.
    steps.pop_if(|(at, _)| outages.every() == Some(*at));
    let list = outages.list.iter().map(|o| (o.from.0, o.to.0)).collect();
    let listed = ElementConfig::Blackhole(list);
    validate(&listed).map_err(|error| Wrong::new(field, error))?;
    Ok(outages.series(&steps, Some(false), field)?.map_or(listed, ElementConfig::BlackholeSeries))
}

/// A limit where there is no rate that a BDP could be computed from.
fn in_bytes_or_packets(room: Room, field: &str) -> Result<QueueLimit, Wrong> {
    match room.0 {
        Buffer::Bytes(n) => Ok(QueueLimit::Bytes(n)),
        Buffer::Packets(n) => Ok(QueueLimit::Packets(n)),
        Buffer::Bdp(_) | Buffer::Time(_) => {
            Err(Wrong::new(field, format!("'{}' needs a rate; write 64kB or 40pkts", room.0)))
        }
    }
}

/// A buffer, which holds at least a packet: what it was computed from is said when it does not.
fn buffer_limit(
    room: Room,
    rate: Option<Rate>,
    frame: Frame<'_>,
    field: &str,
) -> Result<QueueLimit, Wrong> {
    let Some(rate) = rate else { return in_bytes_or_packets(room, field) };
    let limit = room.0.limit_on(rate, frame.rtt);
    match (room.0, limit) {
        (Buffer::Bdp(_) | Buffer::Time(_), QueueLimit::Bytes(bytes))
            if bytes < u64::from(MTU_BYTES) =>
        {
            let why = format!(
                "'{}' is {bytes} bytes here{}, below one packet of {MTU_BYTES}; write a higher rate, a longer \
                 rtt, or a buffer like 64kB or 40pkts",
                room.0,
                room.0.origin(rate, frame.rtt)
            );
            Err(Wrong::new(field, why))
        }
        _ => Ok(limit),
    }
}

impl Wire {
    /// The rate that a BDP is computed from: the first one, or the mean of a trace.
    pub(super) fn nominal(&self, traces: &Traces) -> Option<Rate> {
        // What is wrong with a trace is told by who makes a wire of it.
        let trace = self.trace.as_ref().and_then(|field| traces.get(field).ok());
        let of_trace = trace.and_then(|trace| trace.rate.as_ref().map(RateConfig::nominal));
        of_trace.or(self.rate.map(|r| r.0))
    }

    /// The trace, which is there.
    pub(super) fn traced(&self, field: &str, traces: &Traces) -> Result<Arc<Trace>, Wrong> {
        let Some(trace) = &self.trace else { return Err(Wrong::new(field, "no trace")) };
        let name: String = trace.file.escape_debug().collect();
        traces.get(trace).map_err(|e| Wrong::new(format!("{field}.trace"), format!("{name}: {e}")))
    }

    /// A bottleneck among other elements, whose trace may have nothing but a rate.
    fn alone(&self, field: &str, frame: Frame<'_>) -> Result<ElementConfig, Wrong> {
        if self.trace.is_some() {
            let trace = self.traced(field, frame.traces)?;
            let other = [("rtt", trace.rtt.is_some()), ("loss", trace.loss.is_some())];
            if let Some((name, _)) = other.into_iter().find(|(_, is_there)| *is_there) {
                let why = format!(
                    "it has a column of {name} too, which a bottleneck has not; name the others: {{ file = \"…\", \
                     columns = {{ time = \"…\", rate = \"…\" }} }}"
                );
                return Err(Wrong::new(format!("{field}.trace"), why));
            }
        }
        self.config(field, frame)
    }

    /// The bottleneck as the path takes it.
    pub(super) fn config(&self, field: &str, frame: Frame<'_>) -> Result<ElementConfig, Wrong> {
        let rate = self.rate_config(field, frame.traces)?;
        let queue = self.queue_config(field, frame, &rate)?;
        Ok(ElementConfig::Bottleneck { rate, queue })
    }

    fn rate_config(&self, field: &str, traces: &Traces) -> Result<RateConfig, Wrong> {
        let traced = match &self.trace {
            Some(_) => self.traced(field, traces)?.rate.clone(),
            None => None,
        };
        match (traced, self.rate) {
            (Some(_), Some(_)) => {
                Err(Wrong::new(format!("{field}.trace"), "there is a rate too; write one of them"))
            }
            (Some(_), None) if !self.steps.is_empty() => {
                let why = "they change a rate, and there is a trace; write one of them";
                Err(Wrong::new(format!("{field}.steps"), why))
            }
            (Some(rate), None) => Ok(rate),
            (None, None) if self.trace.is_some() => Err(Wrong::new(
                format!("{field}.trace"),
                "it has no rate, and nothing would limit the flows; write a rate beside it",
            )),
            (None, None) => Err(Wrong::new(
                field,
                "no rate, and nothing would limit the flows; write a rate like 100mbit",
            )),
            (None, Some(rate)) if self.steps.is_empty() => Ok(RateConfig::Constant(rate.0)),
            (None, Some(rate)) => {
                let first = (Duration::ZERO, rate.0);
                let steps = self.steps.list.iter().map(|s| (s.at.0, s.rate.0));
                let steps: Vec<_> = std::iter::once(first).chain(steps).collect();
                Ok(match self.steps.series(&steps, None, &format!("{field}.steps"))? {
                    Some(series) => RateConfig::Series(series),
                    None => RateConfig::Steps(steps),
                })
            }
        }
    }

    fn queue_config(
        &self,
        field: &str,
        frame: Frame<'_>,
        rate: &RateConfig,
    ) -> Result<QueueConfig, Wrong> {
        let limit_of = |room: Room, name: &str| match self.nominal(frame.traces) {
            Some(rate) => Ok(room.0.limit_on(rate, frame.rtt)),
            None => in_bytes_or_packets(room, &format!("{field}.{name}")),
        };
        let bytes_of = |room: Room, name: &str| match limit_of(room, name)? {
            QueueLimit::Bytes(n) => Ok(n),
            QueueLimit::Packets(n) => Ok(n * u64::from(MTU_BYTES)),
            QueueLimit::Time(time) => Ok(rate.nominal().bytes_in(time)),
        };
        let buffer = self.buffer.unwrap_or(Room(Buffer::Bdp(1.0)));
        let of_rate = |rate| buffer_limit(buffer, rate, frame, &format!("{field}.buffer"));
        let mut limit = of_rate(self.nominal(frame.traces))?;
        if let Buffer::Time(time) = buffer.0
            && !self.steps.is_empty()
        {
            let later = self.steps.list.iter().map(|step| step.rate.0);
            if let Some(slowest) = later.filter(|rate| *rate > Rate::ZERO).min() {
                of_rate(Some(slowest))?;
            }
            limit = QueueLimit::Time(time);
        }
        let queue = self.queue.unwrap_or(Queue::TailDrop {});
        Ok(match queue {
            Queue::TailDrop {} => limit.into(),
            Queue::Step { mark_above } => QueueConfig::Step(StepConfig {
                limit,
                mark_above: limit_of(mark_above, "queue.step.mark_above")?,
            }),
            Queue::CoDel(codel) => QueueConfig::CoDel(codel.over(CoDelConfig::new(limit))),
            Queue::FqCoDel { queues, quantum, target, interval, ecn, ce_threshold } => {
                let mut c = FqCoDelConfig::new();
                if self.buffer.is_some() {
                    c.codel.limit = limit;
                }
                c.codel = CoDel { target, interval, ecn, ce_threshold }.over(c.codel);
                set(&mut c.queues, queues);
                set(&mut c.quantum_bytes, quantum);
                QueueConfig::FqCoDel(c)
            }
            Queue::Pie { target, update, max_burst, ecn } => {
                let mut c = PieConfig::new(limit);
                set(&mut c.target, target.map(|t| t.0));
                set(&mut c.update, update.map(|t| t.0));
                set(&mut c.max_burst, max_burst.map(|t| t.0));
                set(&mut c.ecn, ecn);
                QueueConfig::Pie(c)
            }
            Queue::Red { min, max, max_probability, weight, ecn } => QueueConfig::Red(RedConfig {
                limit,
                min_bytes: bytes_of(min, "queue.red.min")?,
                max_bytes: bytes_of(max, "queue.red.max")?,
                max_probability: max_probability.unwrap_or(Share::of(0.1)).0,
                weight: weight.unwrap_or(Share::of(0.002)).0,
                packet_time: rate.packet_time(),
                ecn: ecn.unwrap_or(true),
            }),
            Queue::DualPi2 { target, rtt_max, ramp_from, ramp_range } => {
                let mut c = DualPi2Config::new(limit);
                set(&mut c.target, target.map(|t| t.0));
                set(&mut c.rtt_max, rtt_max.map(|t| t.0));
                set(&mut c.ramp_from, ramp_from.map(|t| t.0));
                set(&mut c.ramp_range, ramp_range.map(|t| t.0));
                QueueConfig::DualPi2(c)
            }
        })
    }
}

impl CoDel {
    fn over(self, mut c: CoDelConfig) -> CoDelConfig {
        set(&mut c.target, self.target.map(|t| t.0));
        set(&mut c.interval, self.interval.map(|t| t.0));
        set(&mut c.ecn, self.ecn);
        c.ce_threshold = self.ce_threshold.map(|t| t.0);
        c
    }
}

fn set<T>(place: &mut T, value: Option<T>) {
    if let Some(value) = value {
        *place = value;
    }
}

/// The path's own rules.
pub(super) fn validate(element: &ElementConfig) -> Result<(), ConfigError> {
    PathConfig { row: vec![element.clone()], seed: 0 }.validate()
}
