//! A drawn path: the base, and what disturbs it. The numbers have the units of a scenario file.

use std::fmt;
use std::str::FromStr;

use serde::Serialize;

/// A path with its flows. The flows under test are of one algorithm, which is no part of it.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Case {
    /// Its number in the survey, from 0.
    pub path: u64,
    /// Seed of everything random in its runs.
    pub seed: u64,
    /// Rate of the bottleneck, IP headers included.
    pub rate_mbps: f64,
    /// Round-trip propagation delay.
    pub rtt_ms: f64,
    /// Room of the bottleneck's queue. It is at least four packets.
    pub buffer_bdp: f64,
    /// Bulk flows under test.
    pub flows: u64,
    /// Time between the starts of two of them.
    pub stagger_ms: f64,
    /// True if the flows speak TCP in place of QUIC.
    pub tcp: bool,
    /// The disturbances, each of another kind.
    pub disturbances: Vec<Disturbance>,
}

/// Something that makes a path other than a link of one rate and one delay.
#[derive(Clone, PartialEq, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
#[allow(missing_docs, reason = "the names say it, with their units")]
pub enum Disturbance {
    /// Each packet is late by a distribution of this spread; order is kept.
    Jitter { jitter_ms: f64, shape: Shape },
    /// Some packets are late, and others overtake them.
    Reordering { chance_percent: f64, delay_ms: f64 },
    /// The way back holds ACKs and lets them go together; of a burst, one in so many stays.
    AckBursts { interval_ms: f64, keep_one_in: u64 },
    /// The way back loses ACKs.
    AckLoss { loss_percent: f64 },
    /// Real flows upload into a bottleneck on the way of the ACKs.
    TwoWay { rate_mbps: f64, buffer_ms: f64, flows: u64, cc: String },
    /// The propagation delay has this addition at first, and then that.
    RttStep { before_ms: f64, after_ms: f64, at_percent: f64, back_percent: Option<f64> },
    /// The rate is multiplied by a factor from a part of the run on.
    RateStep { steps: Vec<RateFactor> },
    /// The sender's host wakes up late, by up to this.
    LateHost { late_ms: f64 },
    /// A token bucket that drops.
    Policer { rate_percent: f64, bucket_ms: f64 },
    /// A token bucket that queues.
    Shaper { rate_percent: f64, bucket_ms: f64, buffer_bdp: f64 },
    /// Each packet is lost with this probability.
    RandomLoss { loss_percent: f64 },
    /// Everything is lost for a time, again and again.
    LossBursts { every_ms: f64, lasts_ms: f64 },
    /// The rate follows one of the traces in the program.
    Trace { name: &'static str },
    /// Packets that react to nothing.
    Cross { rate_percent: f64, poisson: bool },
    /// A queue discipline. With ECN it marks, and the flows under test understand that.
    Aqm { queue: &'static str, ecn: Ecn },
    /// So many flows under test in place of the base's.
    ManyFlows { flows: u64, stagger_ms: f64 },
    /// A flow under test whose receiver asks for the next answer a while after the last.
    Requests { response_kb: f64, think_ms: f64, alone: bool },
    /// A flow under test that sends frames at a rate of its own.
    Media { rate_percent: f64, alone: bool },
    /// More flows under test, farther away.
    RttMix { extra_ms: f64, flows: u64 },
    /// Flows of another algorithm beside those under test. They come so many times, and are away as
    /// long as they stay; the last time they stay until the end.
    Competitor { cc: String, flows: u64, start_percent: f64, visits: u64 },
    /// Each 15 s the propagation delay has another of these additions, and all is lost for a time.
    Handovers { more_ms: Vec<f64>, lasts_ms: f64 },
    /// Each receiver of a flow under test has so much room.
    ReceiveWindow { window_bdp: f64 },
    /// Each bulk sender under test keeps so much that is not acknowledged.
    SendBuffer { buffer_bdp: f64 },
    /// Full packets of all flows have this payload.
    PacketSize { mss: u64 },
}

/// The distribution of a jitter, by its name in a scenario file.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
#[allow(missing_docs, reason = "docs/scenarios.md has them")]
pub enum Shape {
    Uniform,
    Pareto,
    Wifi,
}

/// The ECN field of the flows under test.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
#[allow(missing_docs, reason = "docs/scenarios.md has them")]
pub enum Ecn {
    Off,
    Classic,
    L4s,
}

/// Time from one change of a path with handovers to the next: that of a satellite constellation in
/// low orbit.
pub(crate) const HANDOVER_EVERY_S: f64 = 15.0;

/// From this part of the run on, this part of the base's rate.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct RateFactor {
    /// Part of the run, in percent.
    pub at_percent: f64,
    /// Multiplies the base's rate.
    pub factor: f64,
}

macro_rules! kinds {
    ($($kind:ident $name:literal)*) => {
        /// Kinds of disturbances.
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
        #[allow(missing_docs, reason = "see Disturbance")]
        pub enum Kind { $($kind),* }

        impl Kind {
            /// All of them.
            pub const ALL: [Self; [$($name),*].len()] = [$(Self::$kind),*];

            /// Its name, as `--kind` takes it.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$kind => $name),* }
            }
        }

        impl Disturbance {
            /// Its kind.
            pub const fn kind(&self) -> Kind {
                match self { $(Self::$kind { .. } => Kind::$kind),* }
            }
        }
    };
}

kinds! {
    Jitter "jitter"
    Reordering "reordering"
    AckBursts "ack-bursts"
    AckLoss "ack-loss"
    TwoWay "two-way"
    RttStep "rtt-step"
    RateStep "rate-step"
    LateHost "late-host"
    Policer "policer"
    Shaper "shaper"
    RandomLoss "random-loss"
    LossBursts "loss-bursts"
    Trace "trace"
    Cross "cross"
    Aqm "aqm"
    ManyFlows "many-flows"
    Requests "requests"
    Media "media"
    RttMix "rtt-mix"
    Competitor "competitor"
    Handovers "handovers"
    ReceiveWindow "receive-window"
    SendBuffer "send-buffer"
    PacketSize "packet-size"
}

/// A name that no kind has.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("'{shown}' is no kind of disturbance; there are {names}", shown = .0.escape_debug(),
    names = Kind::ALL.map(Kind::name).join(", "))]
pub struct UnknownKind(String);

impl FromStr for Kind {
    type Err = UnknownKind;

    fn from_str(name: &str) -> Result<Self, UnknownKind> {
        let found = Self::ALL.into_iter().find(|kind| kind.name() == name);
        found.ok_or_else(|| UnknownKind(name.chars().take(40).collect()))
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl Serialize for Kind {
    fn serialize<S: serde::Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(self.name())
    }
}

/// Mean of the traces, about, for quantities that follow from a rate.
const TRACE_MBPS: f64 = 15.0;

/// Bytes of a full packet's payload where the path does not say it, and of the headers before it.
const MSS: u64 = 1452;
const HEADER_BYTES: u64 = 48;

/// The times that competitors are there, in percent of the run, from a start on.
pub(crate) fn visits(start_percent: f64, visits: u64) -> impl Iterator<Item = (f64, f64)> {
    let each = (100.0 - start_percent) / (2 * visits.max(1) - 1) as f64;
    (0..visits).map(move |i| {
        let from = start_percent + 2.0 * each * i as f64;
        (from, from + each)
    })
}

impl Case {
    /// The disturbance of a kind.
    pub fn disturbance(&self, kind: Kind) -> Option<&Disturbance> {
        self.disturbances.iter().find(|d| d.kind() == kind)
    }

    /// True if it has this kind of disturbance.
    pub fn has(&self, kind: Kind) -> bool {
        self.disturbance(kind).is_some()
    }

    /// The kinds of its disturbances.
    pub fn kinds(&self) -> impl Iterator<Item = Kind> + '_ {
        self.disturbances.iter().map(Disturbance::kind)
    }

    /// Rate to which others are in proportion.
    pub fn nominal_mbps(&self) -> f64 {
        if self.has(Kind::Trace) { TRACE_MBPS } else { self.rate_mbps }
    }

    /// The least rate that anything on the way of the data lets through: what reacts to nothing
    /// stays below it, or others would get nothing.
    pub fn narrowest_mbps(&self) -> f64 {
        let parts = self.disturbances.iter().map(|d| match d {
            Disturbance::Policer { rate_percent, .. }
            | Disturbance::Shaper { rate_percent, .. } => rate_percent / 100.0,
            Disturbance::RateStep { steps } => {
                steps.iter().map(|step| step.factor).fold(1.0, f64::min)
            }
            _ => 1.0,
        });
        self.nominal_mbps() * parts.product::<f64>()
    }

    /// Bytes of rate times round trip.
    pub(crate) fn bdp_bytes(&self) -> f64 {
        self.nominal_mbps() * 1e6 / 8.0 * self.rtt_ms / 1e3
    }

    /// Bytes of a full packet on the link.
    pub(crate) fn packet_bytes(&self) -> f64 {
        let mss = self.disturbances.iter().find_map(|d| match d {
            Disturbance::PacketSize { mss } => Some(*mss),
            _ => None,
        });
        (mss.unwrap_or(MSS) + HEADER_BYTES) as f64
    }

    /// Bulk flows under test beside those of a mix of round trips.
    pub(crate) fn near_flows(&self) -> u64 {
        let alone = self.disturbances.iter().any(|d| {
            matches!(
                d,
                Disturbance::Requests { alone: true, .. } | Disturbance::Media { alone: true, .. }
            )
        });
        let many = self.disturbances.iter().find_map(|d| match d {
            Disturbance::ManyFlows { flows, .. } => Some(*flows),
            _ => None,
        });
        many.unwrap_or(if alone { 0 } else { self.flows })
    }

    /// Bulk flows under test.
    pub fn bulk_flows(&self) -> u64 {
        let far = self.disturbances.iter().map(|d| match d {
            Disturbance::RttMix { flows, .. } => *flows,
            _ => 0,
        });
        self.near_flows() + far.sum::<u64>()
    }

    /// All flows under test.
    pub fn tested_flows(&self) -> u64 {
        let is_limited = |d: &&Disturbance| matches!(d.kind(), Kind::Requests | Kind::Media);
        self.bulk_flows() + self.disturbances.iter().filter(is_limited).count() as u64
    }

    /// Flows of another algorithm beside them.
    pub fn competitors(&self) -> u64 {
        let each = self.disturbances.iter().map(|d| match d {
            Disturbance::Competitor { flows, .. } => *flows,
            _ => 0,
        });
        each.sum()
    }

    /// The part of the link that flows under test have when all flows have the same, over the time
    /// that is judged.
    pub fn fair_share(&self) -> f64 {
        let (tested, others) = (self.tested_flows() as f64, self.competitors() as f64);
        1.0 - self.presence() * others / (tested + others)
    }

    /// The part of the time that is judged in which competitors are there.
    fn presence(&self) -> f64 {
        let judged_from = 100.0 * self.judged_from_s() as f64 / self.duration_s() as f64;
        let there = self.disturbances.iter().flat_map(|d| match d {
            Disturbance::Competitor { start_percent, visits: times, .. } => {
                visits(*start_percent, *times).collect()
            }
            _ => Vec::new(),
        });
        let judged = there.map(|(from, to)| (to - from.max(judged_from)).max(0.0));
        judged.sum::<f64>() / (100.0 - judged_from)
    }

    /// Goodput of one answer in the time that is judged, where there is nothing but answers: one more
    /// or less is chance.
    pub(crate) fn answer_mbps(&self) -> f64 {
        let answers = self.disturbances.iter().map(|d| match d {
            Disturbance::Requests { response_kb, alone: true, .. } => *response_kb,
            _ => 0.0,
        });
        answers.sum::<f64>() * 8e-3 / (self.duration_s() - self.judged_from_s()) as f64
    }

    /// The longest round trip of a flow on the empty path.
    fn longest_rtt_ms(&self) -> f64 {
        let more = self.disturbances.iter().map(|d| match d {
            Disturbance::RttStep { before_ms, after_ms, .. } => before_ms.max(*after_ms),
            Disturbance::RttMix { extra_ms, .. } => *extra_ms,
            Disturbance::Jitter { jitter_ms, .. } => *jitter_ms,
            Disturbance::Handovers { more_ms, .. } => more_ms.iter().copied().fold(0.0, f64::max),
            Disturbance::AckBursts { interval_ms, .. } => *interval_ms,
            _ => 0.0,
        });
        self.rtt_ms + more.sum::<f64>()
    }

    /// Duration of its runs: 30 s, 40 of the longest round trips, 4 pauses between answers, and 2
    /// handovers.
    ///
    /// Half a minute has five ProbeRTTs of BBR, or two of an algorithm that probes each ten
    /// seconds, behind the first quarter, which does not count.
    pub fn duration_s(&self) -> u64 {
        let more_ms = self.disturbances.iter().map(|d| match d {
            Disturbance::Requests { think_ms, .. } => 4.0 * think_ms,
            Disturbance::Handovers { .. } => 2e3 * HANDOVER_EVERY_S,
            _ => 0.0,
        });
        30 + ((40.0 * self.longest_rtt_ms() + more_ms.sum::<f64>()) / 1e3).ceil() as u64
    }

    /// From this time on a run is judged.
    pub fn judged_from_s(&self) -> u64 {
        self.duration_s() / 4
    }
}

impl fmt::Display for Disturbance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Jitter { jitter_ms, shape } => match shape {
                Shape::Uniform => write!(f, "jitter up to {jitter_ms} ms"),
                Shape::Pareto => write!(f, "Pareto jitter of {jitter_ms} ms"),
                Shape::Wifi => write!(f, "Wi-Fi jitter of {jitter_ms} ms"),
            },
            Self::Reordering { chance_percent, delay_ms } => {
                write!(f, "{chance_percent} % of the packets {delay_ms} ms late")
            }
            Self::AckBursts { interval_ms, keep_one_in: 1 } => {
                write!(f, "ACKs held for {interval_ms} ms")
            }
            Self::AckBursts { interval_ms, keep_one_in } => {
                write!(f, "ACKs held for {interval_ms} ms, one in {keep_one_in} kept")
            }
            Self::AckLoss { loss_percent } => write!(f, "{loss_percent} % of the ACKs lost"),
            Self::TwoWay { rate_mbps, buffer_ms, flows, cc } => write!(
                f,
                "{flows} {cc} uploading into {rate_mbps} Mbit/s with a buffer of {buffer_ms} ms"
            ),
            Self::RttStep { before_ms, after_ms, back_percent, .. } => {
                let back = if back_percent.is_some() { ", and back" } else { "" };
                write!(f, "RTT from +{before_ms} ms to +{after_ms} ms{back}")
            }
            Self::RateStep { steps } => {
                let each = steps.iter().map(|s| format!("x{}", s.factor));
                write!(f, "rate {}", each.collect::<Vec<_>>().join(", then "))
            }
            Self::LateHost { late_ms } => write!(f, "host up to {late_ms} ms late"),
            Self::Policer { rate_percent, bucket_ms } => {
                write!(f, "policer at {rate_percent} % with {bucket_ms} ms of tokens")
            }
            Self::Shaper { rate_percent, bucket_ms, .. } => {
                write!(f, "shaper at {rate_percent} % with {bucket_ms} ms of tokens")
            }
            Self::RandomLoss { loss_percent } => write!(f, "{loss_percent} % loss"),
            Self::LossBursts { every_ms, lasts_ms } => {
                write!(f, "all lost for {lasts_ms} ms each {every_ms} ms")
            }
            Self::Trace { name } => write!(f, "trace {name}"),
            Self::Cross { rate_percent, .. } => write!(f, "cross traffic of {rate_percent} %"),
            Self::Aqm { queue, ecn } => f.write_str(queue).and(f.write_str(match ecn {
                Ecn::Off => "",
                Ecn::Classic => " with ECN",
                Ecn::L4s => " with L4S",
            })),
            Self::ManyFlows { flows, .. } => write!(f, "{flows} of them"),
            Self::Requests { response_kb, think_ms, .. } => {
                write!(f, "answers of {response_kb} kB, {think_ms} ms between")
            }
            Self::Media { rate_percent, .. } => write!(f, "frames at {rate_percent} %"),
            Self::RttMix { extra_ms, flows: 1 } => write!(f, "1 flow {extra_ms} ms farther away"),
            Self::RttMix { extra_ms, flows } => {
                write!(f, "{flows} flows {extra_ms} ms farther away")
            }
            Self::Competitor { cc, flows, visits: 1, .. } => write!(f, "beside {flows} {cc}"),
            Self::Competitor { cc, flows, visits, .. } => {
                write!(f, "beside {flows} {cc} that come {visits} times")
            }
            Self::Handovers { more_ms, lasts_ms } => {
                let each = more_ms.iter().map(|ms| format!("+{ms}")).collect::<Vec<_>>().join(", ");
                write!(f, "each {HANDOVER_EVERY_S} s {each} ms of RTT and {lasts_ms} ms of loss")
            }
            Self::ReceiveWindow { window_bdp } => write!(f, "receive window of {window_bdp} BDP"),
            Self::SendBuffer { buffer_bdp } => write!(f, "send buffer of {buffer_bdp} BDP"),
            Self::PacketSize { mss } => write!(f, "packets of {mss} bytes"),
        }
    }
}

/// The path in one line.
impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let tcp = if self.tcp { ", TCP" } else { "" };
        match self.has(Kind::Trace) {
            true => write!(f, "{} ms", self.rtt_ms)?,
            false => write!(f, "{} Mbit/s, {} ms", self.rate_mbps, self.rtt_ms)?,
        }
        write!(f, ", {} BDP{tcp}", self.buffer_bdp)?;
        match self.near_flows() {
            0 => {}
            1 => f.write_str(", 1 flow")?,
            n => write!(f, ", {n} flows")?,
        }
        let others = self.disturbances.iter().filter(|d| d.kind() != Kind::ManyFlows);
        others.into_iter().try_for_each(|d| write!(f, "; {d}"))
    }
}
