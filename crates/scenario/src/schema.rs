//! Schema of a scenario file; docs/scenarios.md describes it for people.

#![allow(missing_docs, reason = "docs/scenarios.md has the meaning of each field")]

use std::collections::BTreeMap;
use std::str::FromStr;

use fullpipe_cc::{Amendments, Duration};
use fullpipe_traffic::Direction;
use serde::de::{Deserialize, Deserializer, Error, IgnoredAny};
use serde::ser::{Serialize, Serializer};

use super::elements::{Element, Queue};
use super::nodes::{NetworkTable, NodeTable, Pairs, Reroute};
use super::program::ProgramTable;
use super::quantity::{
    Chance, Factor, Length, Room, Saved, Size, Speed, SpeedOrNone, Time, by_name,
};
use super::repeated::Repeated;
use super::trace_field::TraceField;
use super::{Cc, Protocol, Receiver, UnknownCc};

/// One point of a file's grid: every list is one value by now.
#[derive(Default, Clone, Debug, serde::Deserialize, serde::Serialize)]
#[serde(deny_unknown_fields)]
pub struct Document {
    /// The name of the scenario; by default the name of the file.
    pub name: Option<String>,
    /// For people.
    pub about: Option<String>,
    /// Read from the tree, because the tables of a stack depend on it.
    #[serde(skip_serializing)]
    pub stack: Option<IgnoredAny>,
    #[serde(skip_serializing)]
    pub clock: Option<IgnoredAny>,
    #[serde(skip_serializing)]
    pub real_link: Option<IgnoredAny>,
    /// The algorithm of flows that name none.
    pub cc: Option<FlowSender>,
    /// Programs that flows name instead of an algorithm.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub program: BTreeMap<String, ProgramTable>,
    pub duration: Option<Length>,
    pub seed: Option<u64>,
    /// Time between two rows of the series.
    pub interval: Option<Time>,
    pub path: Option<PathTable>,
    /// Nodes of a graph; links are between two of them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub node: Vec<NodeTable>,
    /// A graph of a usual shape, and how routes over nodes are found.
    pub network: Option<NetworkTable>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub link: Vec<LinkTable>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub flow: Vec<FlowTable>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cross: Vec<CrossTable>,
    /// Read once for all points, from the tree.
    #[serde(skip_serializing)]
    pub expect: Option<IgnoredAny>,
    /// Taken out of the tree before it comes here; they stand here for the list of what there is.
    #[serde(skip_serializing)]
    pub variant: Option<AtTheTop>,
    #[serde(skip_serializing)]
    pub full: Option<AtTheTop>,
    #[serde(skip_serializing)]
    pub over_noq: Option<AtTheTop>,
    #[serde(skip_serializing)]
    pub over_linux: Option<AtTheTop>,
}

/// A table of the file that cannot stand in another one.
#[derive(Clone, Copy, Debug)]
pub struct AtTheTop;

impl<'de> Deserialize<'de> for AtTheTop {
    fn deserialize<D: Deserializer<'de>>(_: D) -> Result<Self, D::Error> {
        Err(D::Error::custom("not inside another table; write it at the top of the file"))
    }
}

/// Sender of a flow's data.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum FlowSender {
    /// An algorithm.
    Cc(Cc),
    /// One of the file's programs, written `program:NAME`.
    Program(String),
}

impl FromStr for FlowSender {
    type Err = UnknownCc;

    fn from_str(text: &str) -> Result<Self, UnknownCc> {
        match text.strip_prefix("program:") {
            Some(name) => Ok(Self::Program(name.to_owned())),
            None => text.parse().map(Self::Cc),
        }
    }
}

impl<'de> Deserialize<'de> for FlowSender {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        String::deserialize(from)?.parse().map_err(D::Error::custom)
    }
}

impl Serialize for FlowSender {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Cc(cc) => to.collect_str(cc),
            Self::Program(name) => to.collect_str(&format_args!("program:{name}")),
        }
    }
}

impl Document {
    /// The longest time that a run lasts; none where it ends when every flow has all its bytes.
    pub(super) fn duration(&self) -> Option<Duration> {
        self.duration.map_or(Some(TEN_SECONDS), |length| length.0)
    }

    /// The seed of everything random.
    pub(super) fn seed(&self) -> u64 {
        self.seed.unwrap_or(1)
    }
}

/// The duration of a run when a file says none.
const TEN_SECONDS: Duration = Duration::from_secs(10);

impl FlowTable {
    /// Number of flows.
    pub(super) fn count(&self) -> u64 {
        self.count.unwrap_or(1)
    }
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

fn is_down(direction: &Direction) -> bool {
    *direction == Direction::Down
}

/// One link there and a way back.
#[derive(Default, Clone, Debug, serde::Deserialize, serde::Serialize)]
#[serde(deny_unknown_fields)]
pub struct PathTable {
    #[serde(default)]
    pub rtt: Option<Time>,
    pub rate: Option<Speed>,
    #[serde(default, skip_serializing_if = "Repeated::is_empty")]
    pub steps: Repeated<RateStep>,
    pub trace: Option<TraceField>,
    pub buffer: Option<Room>,
    #[serde(default, deserialize_with = "some_by_name")]
    pub queue: Option<Queue>,
    pub loss: Option<Chance>,
    /// Elements that data passes before the link's own.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub down: Vec<Element>,
    /// Elements that ACKs pass before the way back's own delay.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub up: Vec<Element>,
}

impl PathTable {
    /// A field that is there and that a link of a chain has for itself.
    pub fn field_of_a_link(&self) -> Option<&'static str> {
        let all = [
            ("rate", self.rate.is_some()),
            ("steps", !self.steps.is_empty()),
            ("trace", self.trace.is_some()),
            ("buffer", self.buffer.is_some()),
            ("queue", self.queue.is_some()),
            ("loss", self.loss.is_some()),
            ("down", !self.down.is_empty()),
        ];
        all.into_iter().find_map(|(name, is_there)| is_there.then_some(name))
    }
}

/// One link of a chain, or a cable between two nodes.
#[derive(Clone, Debug, serde::Deserialize, serde::Serialize)]
#[serde(deny_unknown_fields)]
pub struct LinkTable {
    /// The node at which it begins, and the one at which it ends.
    pub from: Option<String>,
    pub to: Option<String>,
    #[serde(default)]
    pub delay: Option<Time>,
    pub rate: Option<Speed>,
    #[serde(default, skip_serializing_if = "Repeated::is_empty")]
    pub steps: Repeated<RateStep>,
    pub trace: Option<TraceField>,
    pub buffer: Option<Room>,
    #[serde(default, deserialize_with = "some_by_name")]
    pub queue: Option<Queue>,
    pub loss: Option<Chance>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub down: Vec<Element>,
    /// Times in which what leaves its queue is lost.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub fails: Vec<Failure>,
}

/// From this time on a link carries nothing, until another one.
#[derive(Clone, Copy, Debug, serde::Deserialize, serde::Serialize)]
#[serde(deny_unknown_fields)]
pub struct Failure {
    pub at: Time,
    pub until: Option<Time>,
}

/// A sender's own link.
#[derive(Clone, Copy, Debug, serde::Deserialize, serde::Serialize)]
#[serde(deny_unknown_fields)]
pub struct AccessTable {
    pub rate: Option<Speed>,
    pub delay: Option<Time>,
    pub buffer: Option<Room>,
}

/// From this time on, this rate.
#[derive(Clone, Copy, Debug, serde::Deserialize, serde::Serialize)]
#[serde(deny_unknown_fields)]
pub struct RateStep {
    pub at: Time,
    pub rate: SpeedOrNone,
}

/// One flow, or several that differ in nothing but their start.
#[derive(Default, Clone, Debug, serde::Deserialize, serde::Serialize)]
#[serde(deny_unknown_fields)]
pub struct FlowTable {
    /// The name of the group in expectations and results; the algorithm's when it is not said.
    pub name: Option<String>,
    pub cc: Option<FlowSender>,
    pub count: Option<u64>,
    pub start: Option<Time>,
    /// Time between the starts of two of the `count`.
    pub every: Option<Time>,
    pub stop: Option<Time>,
    #[serde(default, deserialize_with = "some_by_name")]
    pub app: Option<App>,
    /// Commands of other programs that make the flow.
    pub program: Option<ProgramTable>,
    pub transport: Option<Protocol>,
    pub receiver: Option<Receiver>,
    /// Bytes of a full packet as congestion control counts them.
    pub mss: Option<u32>,
    pub initial_cwnd: Option<Size>,
    /// The parameters that an earlier connection over the path left.
    pub resume: Option<Resume>,
    pub startup: Option<Startup>,
    pub paced: Option<bool>,
    pub ack_aggregation: Option<bool>,
    pub cubic: Option<Cubic>,
    pub bbr3x_without: Option<Without>,
    pub startup_pacing_gain: Option<Factor>,
    pub startup_cwnd_gain: Option<Factor>,
    pub ack_every: Option<u32>,
    pub ack_delay: Option<Time>,
    #[serde(default, skip_serializing_if = "is_default")]
    pub ecn: EcnMode,
    pub send_buffer: Option<Room>,
    pub receive_window: Option<Room>,
    /// The window's start, from which it grows to `receive_window`.
    pub receive_window_initial: Option<Room>,
    pub extra_rtt: Option<Time>,
    /// Largest delay by the sender's host.
    pub jitter: Option<Time>,
    /// Largest delay by the receiver's host.
    pub receiver_delay: Option<Time>,
    /// bbr-swift's targets: network RTT of a large window, what the flow scaling adds at most, and
    /// the receiver's delay.
    pub swift_target: Option<Time>,
    pub swift_range: Option<Time>,
    pub swift_endpoint: Option<Time>,
    pub pacer: Option<Pacer>,
    pub handshake: Option<bool>,
    pub quick_acks: Option<u32>,
    pub reordering: Option<LossDetection>,
    pub rto_min: Option<Time>,
    pub idle_restart: Option<bool>,
    pub prr: Option<bool>,
    /// The links that it passes, `"1-2"`, or the nodes.
    pub route: Option<String>,
    /// Later routes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub reroute: Vec<Reroute>,
    /// The nodes of its sender and its receiver, or several of each.
    pub from: Option<String>,
    pub to: Option<String>,
    /// The assignment of several receivers to several senders.
    pub pairs: Option<Pairs>,
    /// The sender's own link.
    pub access: Option<AccessTable>,
    #[serde(default, with = "DirectionName", skip_serializing_if = "is_down")]
    pub direction: Direction,
    /// True if Jain's index counts it.
    pub in_fairness: Option<bool>,
    /// True if it is there for the others alone: no figure of the run counts it.
    #[serde(default, skip_serializing_if = "is_default")]
    pub background: bool,
}

/// The names of [`Direction`] in a file.
#[derive(serde::Deserialize, serde::Serialize)]
#[serde(remote = "Direction", rename_all = "snake_case")]
enum DirectionName {
    Down,
    Up,
}

/// Parameters of Careful Resume, RFC 9959: saved_cwnd, which is off in a row of an axis, and
/// saved_rtt.
#[derive(Clone, Copy, Debug, serde::Deserialize, serde::Serialize)]
#[serde(deny_unknown_fields)]
pub struct Resume {
    pub cwnd: Saved,
    pub rtt: Time,
}

/// The pacer of a QUIC flow.
#[derive(Clone, Copy, PartialEq, Eq, Debug, serde::Deserialize, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Pacer {
    Core,
    Noq,
}

/// TCP's method to distinguish lost packets from late ones.
#[derive(Clone, Copy, PartialEq, Eq, Debug, serde::Deserialize, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum LossDetection {
    Rack,
    Threshold,
}

/// Amendments of `bbr3x` that are off, as in [`Amendments`]'s `FromStr`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Without(pub Amendments);

impl<'de> Deserialize<'de> for Without {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        String::deserialize(from)?.parse().map(Self).map_err(D::Error::custom)
    }
}

impl Serialize for Without {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(&self.0)
    }
}

/// The CUBIC that `cubic` stands for.
#[derive(Clone, Copy, PartialEq, Eq, Debug, serde::Deserialize, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Cubic {
    Rfc9438,
    Linux,
}

/// The way in which a flow finds the volume of its path at the start.
#[derive(Clone, Copy, PartialEq, Eq, Debug, serde::Deserialize, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Startup {
    Standard,
    RapidStart,
    Search,
}

/// A flow's understanding of marks, and its response.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, serde::Deserialize, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum EcnMode {
    #[default]
    Off,
    /// As a loss, where the algorithm has an answer.
    Classic,
    /// Not at all.
    Ignored,
    /// As low-latency ones.
    L4s,
}

/// Data that an application sends, and their times.
#[derive(Clone, Copy, Debug, serde::Deserialize, serde::Serialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum App {
    Bulk {},
    Bytes(Size),
    RateLimited(RateLimited),
    OnOff(OnOff),
    RequestResponse(RequestResponse),
    ShortFlows(ShortFlows),
    Media(MediaTable),
}

#[derive(Clone, Copy, Debug, serde::Deserialize, serde::Serialize)]
#[serde(deny_unknown_fields, expecting = "{ bitrate = \"4mbit\", fps = 30 }")]
pub struct MediaTable {
    pub bitrate: Speed,
    pub fps: Option<u32>,
    /// Time from keyframe to keyframe.
    pub keyframes: Option<Time>,
    /// The size of a keyframe in other frames.
    pub keyframe_size: Option<u32>,
    #[serde(default, skip_serializing_if = "is_default")]
    pub adapt: bool,
    /// The bitrates between which it adapts.
    pub min: Option<Speed>,
    pub max: Option<Speed>,
    #[serde(default, skip_serializing_if = "is_default")]
    pub probe: bool,
    /// Time from a frame's capture to its turn in the player.
    pub playout: Option<Time>,
}

#[derive(Clone, Copy, Debug, serde::Deserialize, serde::Serialize)]
#[serde(deny_unknown_fields, expecting = "{ rate = \"5mbit\" }")]
pub struct RateLimited {
    pub rate: Speed,
    pub write: Option<Size>,
}

#[derive(Clone, Copy, Debug, serde::Deserialize, serde::Serialize)]
#[serde(deny_unknown_fields, expecting = "{ on = \"1s\", off = \"2s\" }")]
pub struct OnOff {
    pub on: Time,
    pub off: Time,
}

#[derive(Clone, Copy, Debug, serde::Deserialize, serde::Serialize)]
#[serde(deny_unknown_fields, expecting = "{ response = \"8MB\", think = \"1s\" }")]
pub struct RequestResponse {
    pub response: Size,
    pub think: Time,
}

#[derive(Clone, Copy, Debug, serde::Deserialize, serde::Serialize)]
#[serde(deny_unknown_fields, expecting = "{ bytes = \"100kB\", every = \"200ms\" }")]
pub struct ShortFlows {
    pub bytes: Size,
    pub every: Time,
}

/// Traffic that reacts to nothing.
#[derive(Clone, Debug, serde::Deserialize, serde::Serialize)]
#[serde(deny_unknown_fields)]
pub struct CrossTable {
    pub rate: Speed,
    pub packet: Option<Size>,
    #[serde(default, skip_serializing_if = "is_default")]
    pub arrivals: Spacing,
    pub start: Option<Time>,
    pub stop: Option<Time>,
    pub route: Option<String>,
    pub from: Option<String>,
    pub to: Option<String>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, serde::Deserialize, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Spacing {
    #[default]
    Constant,
    Poisson,
}

fn some_by_name<'de, T, D>(from: D) -> Result<Option<T>, D::Error>
where
    T: Deserialize<'de>,
    D: Deserializer<'de>,
{
    by_name(from).map(Some)
}
