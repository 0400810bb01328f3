//! Metrics of a run: their names are the columns of the results.

use std::fmt;

use fullpipe_scenario::suggest::did_you_mean;

use super::sampled::{Column, Condition, Count, STATES};

/// A figure of a distribution.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[allow(missing_docs)]
pub enum Stat {
    Min,
    Mean,
    P50,
    P95,
    P99,
    Max,
    /// The last value: of samples alone, which have an order.
    Last,
}

impl Stat {
    /// The statistics of a distribution.
    const ALL: [Self; 6] = [Self::Min, Self::Mean, Self::P50, Self::P95, Self::P99, Self::Max];

    /// The statistics of a time series.
    const SAMPLED: [Self; 7] =
        [Self::Min, Self::Mean, Self::P50, Self::P95, Self::P99, Self::Max, Self::Last];

    const fn name(self) -> &'static str {
        match self {
            Self::Min => "min",
            Self::Mean => "mean",
            Self::P50 => "p50",
            Self::P95 => "p95",
            Self::P99 => "p99",
            Self::Max => "max",
            Self::Last => "last",
        }
    }
}

/// A figure of a run, of a link or of flows; docs/results.md has the formulas.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Metric {
    /// Application bits that receivers read, over time.
    Goodput,
    /// A flow's goodput over that of all flows.
    Share,
    /// Jain's index of the flows' goodputs.
    Jain,
    /// Wire bytes that a link carried over what it could.
    Utilization,
    /// Queueing delay of the packets that passed a link: of all, or of a flow where the link looks
    /// at each packet.
    Queue(Stat),
    /// Packets of a flow that came to the link in one burst.
    Burst(Stat),
    /// Round-trip samples of the senders. Of some flows of a run they are known up to 64 flows.
    Rtt(Stat),
    /// Time from the write of data to its being read.
    Latency(Stat),
    /// Time from a request to the last byte of its answer or of a short connection, or from a
    /// frame's capture to its last byte.
    Completion(Stat),
    /// Answers, short connections and frames of which the last byte was read.
    Completions,
    /// Answers, short connections and frames that had begun and were not complete at the end.
    Censored,
    /// Bits of the frames that encoders made, over time.
    Bitrate,
    /// Frames that encoders did not make, because too much waited at the sender.
    DroppedFrames,
    /// Times at which a player stood still, because the next frame was late.
    Stalls,
    /// The time for which players stood still.
    Stalled,
    /// Padding that applications offered for probes of the bandwidth.
    Padding,
    /// Packets that a link dropped over those that arrived: of all, or of a flow where it looks at
    /// each packet.
    LossRate,
    /// Bytes that senders declared lost over those that they sent.
    RetransmitRate,
    /// Bytes that senders sent.
    SentBytes,
    /// Application bytes that receivers read.
    CompletedBytes,
    /// Time from the start to the end.
    Elapsed,
    /// Rate over delay, as a share of Kleinrock's optimum.
    Power,
    /// Time until all flows stay near their share.
    Convergence,
    /// Share of the periods with some flow in ProbeRTT that have a moment with all flows in it.
    ProbeRttShared,
    /// The share of the time in a state, by its name.
    StateShare(&'static str),
    /// A value that the sender reports, at the moments of the series.
    Sampled(Column, Stat),
    /// Amount counted until a sample meets the condition.
    Until(Count, Condition),
}

/// Subject of a metric.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Level {
    /// All flows, and of the links the first.
    Run,
    /// A flow, or all of one name.
    Flow,
    /// A link.
    Link,
}

impl Metric {
    /// The metrics of frames.
    const OF_MEDIA: [Self; 5] =
        [Self::Bitrate, Self::DroppedFrames, Self::Stalls, Self::Stalled, Self::Padding];

    /// Every metric of a level, in the order of the columns.
    pub fn of(level: Level) -> Vec<Self> {
        let all = |family: fn(Stat) -> Self| Stat::ALL.map(family);
        let mut metrics = Vec::new();
        match level {
            Level::Run => {
                metrics.extend([Self::Goodput, Self::Jain, Self::Utilization]);
                metrics.extend(all(Self::Queue));
                metrics.extend(all(Self::Rtt));
                metrics.extend(all(Self::Latency));
                metrics.extend(all(Self::Completion));
                metrics.extend([Self::Completions, Self::Censored]);
                metrics.extend(Self::OF_MEDIA);
                metrics.extend([Self::LossRate, Self::RetransmitRate, Self::SentBytes]);
                metrics.extend([Self::CompletedBytes, Self::Elapsed, Self::Power]);
            }
            Level::Flow => {
                metrics.extend([Self::Goodput, Self::Share]);
                metrics.extend(all(Self::Rtt));
                metrics.extend(all(Self::Latency));
                metrics.extend(all(Self::Completion));
                metrics.extend([Self::Completions, Self::Censored]);
                metrics.extend(Self::OF_MEDIA);
                metrics.extend([Self::RetransmitRate, Self::SentBytes]);
                metrics.extend([Self::CompletedBytes, Self::Elapsed]);
                metrics.extend(all(Self::Queue));
                metrics.push(Self::LossRate);
                metrics.extend([Stat::P50, Stat::P95, Stat::Max].map(Self::Burst));
            }
            Level::Link => {
                metrics.push(Self::Utilization);
                metrics.extend(all(Self::Queue));
                metrics.push(Self::LossRate);
            }
        }
        metrics
    }

    /// Every metric of a level that is known by samples, and is no column of the results: only an
    /// expectation can ask for it. Those with a condition have no end and are not among them.
    pub fn sampled(level: Level) -> Vec<Self> {
        let mut metrics = Vec::new();
        if level == Level::Link {
            return metrics;
        }
        for column in Column::ASKED {
            metrics.extend(Stat::SAMPLED.map(|stat| Self::Sampled(column, stat)));
        }
        metrics.extend(STATES.map(|state| Self::StateShare(state.name())));
        if level == Level::Run {
            metrics.extend([Self::Convergence, Self::ProbeRttShared]);
        }
        metrics
    }

    /// True if it is made of the rows of the series.
    pub(crate) const fn needs_series(self) -> bool {
        matches!(
            self,
            Self::Convergence
                | Self::ProbeRttShared
                | Self::StateShare(_)
                | Self::Sampled(..)
                | Self::Until(..)
        )
    }

    /// The metric of a level that has this name; or what there is.
    pub(crate) fn named(name: &str, level: Level) -> Result<Self, String> {
        let mut all = Self::of(level);
        all.extend(Self::sampled(level));
        all.iter().copied().find(|m| m.to_string() == name).ok_or_else(|| {
            let mut names: Vec<&str> = Vec::new();
            for metric in &all {
                if !names.contains(&metric.family()) {
                    names.push(metric.family());
                }
            }
            let of = match level {
                Level::Run => "",
                Level::Flow => " of a flow",
                Level::Link => " of a link",
            };
            let shown = name.escape_debug();
            if names.contains(&name) {
                let whole: Vec<String> = all.iter().map(ToString::to_string).collect();
                let like = |end: &str| {
                    let mut of_it = whole.iter().filter(|w| w.starts_with(&format!("{name}.")));
                    of_it.find(|w| w.ends_with(end)).cloned()
                };
                // The usual one of a distribution, or else the first.
                if let Some(like) = like(".p95").or_else(|| like("")) {
                    return format!("'{shown}' is no metric{of} by itself; write {like}");
                }
            }
            let whole: Vec<String> = all.iter().map(ToString::to_string).collect();
            let meant = did_you_mean(name, whole.iter().map(String::as_str));
            let names = names.join(", ");
            format!("'{shown}' is no metric{of}; there are {names}; those in ms have .p50, .p95 …{meant}")
        })
    }

    const fn family(self) -> &'static str {
        match self {
            Self::Goodput => "goodput_mbps",
            Self::Share => "share",
            Self::Jain => "jain",
            Self::Utilization => "utilization",
            Self::Queue(_) => "queue_ms",
            Self::Burst(_) => "burst_packets",
            Self::Rtt(_) => "rtt_ms",
            Self::Latency(_) => "latency_ms",
            Self::Completion(_) => "completion_ms",
            Self::Completions => "completions",
            Self::Censored => "censored",
            Self::Bitrate => "bitrate_mbps",
            Self::DroppedFrames => "dropped_frames",
            Self::Stalls => "stalls",
            Self::Stalled => "stalled_ms",
            Self::Padding => "padding_bytes",
            Self::LossRate => "loss_rate",
            Self::RetransmitRate => "retransmit_rate",
            Self::SentBytes => "sent_bytes",
            Self::CompletedBytes => "completed_bytes",
            Self::Elapsed => "elapsed_s",
            Self::Power => "power",
            Self::Convergence => "convergence_s",
            Self::ProbeRttShared => "probe_rtt_shared",
            Self::StateShare(_) => "state_share",
            Self::Sampled(column, _) => column.name(),
            Self::Until(count, _) => count.name(),
        }
    }
}

impl fmt::Display for Metric {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.family())?;
        match self {
            Self::Queue(s)
            | Self::Burst(s)
            | Self::Rtt(s)
            | Self::Latency(s)
            | Self::Completion(s) => {
                write!(f, ".{}", s.name())
            }
            Self::Sampled(_, s) => write!(f, ".{}", s.name()),
            Self::StateShare(state) => write!(f, ".{state}"),
            Self::Until(_, condition) => write!(f, "({condition})"),
            _ => Ok(()),
        }
    }
}
