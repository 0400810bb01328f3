//! Schema of a scenario file; docs/scenarios.md describes it for people.

use std::collections::BTreeMap;

use fullpipe_cc::{Amendments, Duration};
use fullpipe_traffic::Direction;
use serde::de::{Deserialize, Deserializer, Error, IgnoredAny};

use super::elements::{Element, Queue};
use super::nodes::{NetworkTable, NodeTable, Pairs, Reroute};
use super::program::ProgramTable;
use super::quantity::{
    Chance, Factor, Length, Room, Saved, Size, Speed, SpeedOrNone, Time, by_name,
};
use super::repeated::Repeated;
use super::trace_field::TraceField;
use super::{Cc, Protocol, Receiver};

/// One point of a file's grid: every list is one value by now.
#[derive(Clone, Debug, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Document {
    /// The name of the scenario; by default the name of the file.
    pub(super) name: Option<String>,
    /// For people.
    pub(super) about: Option<String>,
    /// Read from the tree, because the tables of a stack depend on it.
    #[serde(rename = "stack")]
    pub(super) _stack: Option<IgnoredAny>,
    #[serde(rename = "clock")]
    pub(super) _clock: Option<IgnoredAny>,
    #[serde(rename = "real_link")]
    pub(super) _real_link: Option<IgnoredAny>,
    /// The algorithm of flows that name none.
    pub(super) cc: Option<FlowSender>,
    /// Programs that flows name instead of an algorithm.
    #[serde(default)]
    pub(super) program: BTreeMap<String, ProgramTable>,
    #[serde(default = "ten_seconds")]
    pub(super) duration: Length,
    #[serde(default = "one")]
    pub(super) seed: u64,
    /// Time between two rows of the series.
    pub(super) interval: Option<Time>,
    pub(super) path: Option<PathTable>,
    /// Nodes of a graph; links are between two of them.
    #[serde(default)]
    pub(super) node: Vec<NodeTable>,
    /// A graph of a usual shape, and how routes over nodes are found.
    pub(super) network: Option<NetworkTable>,
    #[serde(default)]
    pub(super) link: Vec<LinkTable>,
    #[serde(default)]
    pub(super) flow: Vec<FlowTable>,
    #[serde(default)]
    pub(super) cross: Vec<CrossTable>,
    /// Read once for all points, from the tree.
    #[serde(rename = "expect")]
    pub(super) _expect: Option<IgnoredAny>,
    /// Taken out of the tree before it comes here; they stand here for the list of what there is.
    #[serde(rename = "variant")]
    pub(super) _variant: Option<AtTheTop>,
    #[serde(rename = "full")]
    pub(super) _full: Option<AtTheTop>,
    #[serde(rename = "over_noq")]
    pub(super) _over_noq: Option<AtTheTop>,
    #[serde(rename = "over_linux")]
    pub(super) _over_linux: Option<AtTheTop>,
}

/// A table of the file that cannot stand in another one.
#[derive(Clone, Copy, Debug)]
pub(super) struct AtTheTop;

impl<'de> Deserialize<'de> for AtTheTop {
    fn deserialize<D: Deserializer<'de>>(_: D) -> Result<Self, D::Error> {
        Err(D::Error::custom("not inside another table; write it at the top of the file"))
    }
}

/// Sender of a flow's data.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum FlowSender {
    /// An algorithm.
    Cc(Cc),
    /// One of the file's programs, written `program:NAME`.
    Program(String),
}

impl<'de> Deserialize<'de> for FlowSender {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let text = String::deserialize(from)?;
        match text.strip_prefix("program:") {
            Some(name) => Ok(Self::Program(name.to_owned())),
            None => text.parse().map(Self::Cc).map_err(D::Error::custom),
        }
    }
}

fn ten_seconds() -> Length {
    Length(Some(Duration::from_secs(10)))
}

fn one() -> u64 {
    1
}

/// One link there and a way back.
#[derive(Clone, Debug, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct PathTable {
    #[serde(default)]
    pub(super) rtt: Option<Time>,
    pub(super) rate: Option<Speed>,
    #[serde(default)]
    pub(super) steps: Repeated<RateStep>,
    pub(super) trace: Option<TraceField>,
    pub(super) buffer: Option<Room>,
    #[serde(default, deserialize_with = "some_by_name")]
    pub(super) queue: Option<Queue>,
    pub(super) loss: Option<Chance>,
    /// Elements that data passes before the link's own.
    #[serde(default)]
    pub(super) down: Vec<Element>,
    /// Elements that ACKs pass before the way back's own delay.
    #[serde(default)]
    pub(super) up: Vec<Element>,
}

impl PathTable {
    /// A field that is there and that a link of a chain has for itself.
    pub(super) fn field_of_a_link(&self) -> Option<&'static str> {
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
#[derive(Clone, Debug, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct LinkTable {
    /// The node at which it begins, and the one at which it ends.
    pub(super) from: Option<String>,
    pub(super) to: Option<String>,
    #[serde(default)]
    pub(super) delay: Option<Time>,
    pub(super) rate: Option<Speed>,
    #[serde(default)]
    pub(super) steps: Repeated<RateStep>,
    pub(super) trace: Option<TraceField>,
    pub(super) buffer: Option<Room>,
    #[serde(default, deserialize_with = "some_by_name")]
    pub(super) queue: Option<Queue>,
    pub(super) loss: Option<Chance>,
    #[serde(default)]
    pub(super) down: Vec<Element>,
    /// Times in which what leaves its queue is lost.
    #[serde(default)]
    pub(super) fails: Vec<Failure>,
}

/// From this time on a link carries nothing, until another one.
#[derive(Clone, Copy, Debug, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Failure {
    pub(super) at: Time,
    pub(super) until: Option<Time>,
}

/// A sender's own link.
#[derive(Clone, Copy, Debug, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct AccessTable {
    pub(super) rate: Option<Speed>,
    pub(super) delay: Option<Time>,
    pub(super) buffer: Option<Room>,
}

/// From this time on, this rate.
#[derive(Clone, Copy, Debug, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RateStep {
    pub(super) at: Time,
    pub(super) rate: SpeedOrNone,
}

/// One flow, or several that differ in nothing but their start.
#[derive(Clone, Debug, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct FlowTable {
    /// The name of the group in expectations and results; the algorithm's when it is not said.
    pub(super) name: Option<String>,
    pub(super) cc: Option<FlowSender>,
    #[serde(default = "one")]
    pub(super) count: u64,
    pub(super) start: Option<Time>,
    /// Time between the starts of two of the `count`.
    pub(super) every: Option<Time>,
    pub(super) stop: Option<Time>,
    #[serde(default, deserialize_with = "some_by_name")]
    pub(super) app: Option<App>,
    /// Commands of other programs that make the flow.
    pub(super) program: Option<ProgramTable>,
    pub(super) transport: Option<Protocol>,
    pub(super) receiver: Option<Receiver>,
    /// Bytes of a full packet as congestion control counts them.
    pub(super) mss: Option<u32>,
    pub(super) initial_cwnd: Option<Size>,
    /// The parameters that an earlier connection over the path left.
    pub(super) resume: Option<Resume>,
    pub(super) paced: Option<bool>,
    pub(super) ack_aggregation: Option<bool>,
    pub(super) cubic: Option<Cubic>,
    pub(super) bbr3x_without: Option<Without>,
    pub(super) startup_pacing_gain: Option<Factor>,
    pub(super) startup_cwnd_gain: Option<Factor>,
    pub(super) ack_every: Option<u32>,
    pub(super) ack_delay: Option<Time>,
    #[serde(default)]
    pub(super) ecn: EcnMode,
    pub(super) send_buffer: Option<Room>,
    pub(super) receive_window: Option<Room>,
    /// The window's start, from which it grows to `receive_window`.
    pub(super) receive_window_initial: Option<Room>,
    pub(super) extra_rtt: Option<Time>,
    /// Largest delay by the sender's host.
    pub(super) jitter: Option<Time>,
    /// Largest delay by the receiver's host.
    pub(super) receiver_delay: Option<Time>,
    /// bbr-swift's targets: network RTT of a large window, what the flow scaling adds at most, and
    /// the receiver's delay.
    pub(super) swift_target: Option<Time>,
    pub(super) swift_range: Option<Time>,
    pub(super) swift_endpoint: Option<Time>,
    pub(super) pacer: Option<Pacer>,
    pub(super) handshake: Option<bool>,
    pub(super) quick_acks: Option<u32>,
    pub(super) reordering: Option<LossDetection>,
    pub(super) rto_min: Option<Time>,
    pub(super) idle_restart: Option<bool>,
    pub(super) prr: Option<bool>,
    /// The links that it passes, `"1-2"`, or the nodes.
    pub(super) route: Option<String>,
    /// Later routes.
    #[serde(default)]
    pub(super) reroute: Vec<Reroute>,
    /// The nodes of its sender and its receiver, or several of each.
    pub(super) from: Option<String>,
    pub(super) to: Option<String>,
    /// The assignment of several receivers to several senders.
    pub(super) pairs: Option<Pairs>,
    /// The sender's own link.
    pub(super) access: Option<AccessTable>,
    #[serde(default, with = "DirectionName")]
    pub(super) direction: Direction,
    /// True if Jain's index counts it.
    #[serde(default = "yes")]
    pub(super) in_fairness: bool,
    /// True if it is there for the others alone: no figure of the run counts it.
    #[serde(default)]
    pub(super) background: bool,
}

fn yes() -> bool {
    true
}

impl Default for FlowTable {
    /// One bulk flow from the start to the end.
    fn default() -> Self {
        Self {
            name: None,
            cc: None,
            count: 1,
            start: None,
            every: None,
            stop: None,
            app: None,
            program: None,
            transport: None,
            receiver: None,
            mss: None,
            initial_cwnd: None,
            resume: None,
            paced: None,
            ack_aggregation: None,
            cubic: None,
            bbr3x_without: None,
            startup_pacing_gain: None,
            startup_cwnd_gain: None,
            ack_every: None,
            ack_delay: None,
            ecn: EcnMode::Off,
            send_buffer: None,
            receive_window: None,
            receive_window_initial: None,
            extra_rtt: None,
            jitter: None,
            receiver_delay: None,
            swift_target: None,
            swift_range: None,
            swift_endpoint: None,
            pacer: None,
            handshake: None,
            quick_acks: None,
            reordering: None,
            rto_min: None,
            idle_restart: None,
            prr: None,
            route: None,
            reroute: Vec::new(),
            from: None,
            to: None,
            pairs: None,
            access: None,
            direction: Direction::Down,
            in_fairness: true,
            background: false,
        }
    }
}

/// The names of [`Direction`] in a file.
#[derive(serde::Deserialize)]
#[serde(remote = "Direction", rename_all = "snake_case")]
enum DirectionName {
    Down,
    Up,
}

/// Parameters of Careful Resume, RFC 9959: saved_cwnd, which is off in a row of an axis, and
/// saved_rtt.
#[derive(Clone, Copy, Debug, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Resume {
    pub(super) cwnd: Saved,
    pub(super) rtt: Time,
}

/// The pacer of a QUIC flow.
#[derive(Clone, Copy, PartialEq, Eq, Debug, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Pacer {
    Core,
    Noq,
}

/// TCP's method to distinguish lost packets from late ones.
#[derive(Clone, Copy, PartialEq, Eq, Debug, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum LossDetection {
    Rack,
    Threshold,
}

/// Amendments of `bbr3x` that are off, as in [`Amendments`]'s `FromStr`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Without(pub(super) Amendments);

impl<'de> Deserialize<'de> for Without {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        String::deserialize(from)?.parse().map(Self).map_err(D::Error::custom)
    }
}

/// The CUBIC that `cubic` stands for.
#[derive(Clone, Copy, PartialEq, Eq, Debug, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Cubic {
    Rfc9438,
    Linux,
}

/// A flow's understanding of marks, and its response.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum EcnMode {
    #[default]
    Off,
    /// As a loss.
    Classic,
    /// As low-latency ones.
    L4s,
}

/// Data that an application sends, and their times.
#[derive(Clone, Copy, Debug, serde::Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub(super) enum App {
    Bulk {},
    Bytes(Size),
    RateLimited(RateLimited),
    OnOff(OnOff),
    RequestResponse(RequestResponse),
    ShortFlows(ShortFlows),
    Media(MediaTable),
}

#[derive(Clone, Copy, Debug, serde::Deserialize)]
#[serde(deny_unknown_fields, expecting = "{ bitrate = \"4mbit\", fps = 30 }")]
pub(super) struct MediaTable {
    pub(super) bitrate: Speed,
    pub(super) fps: Option<u32>,
    /// Time from keyframe to keyframe.
    pub(super) keyframes: Option<Time>,
    /// The size of a keyframe in other frames.
    pub(super) keyframe_size: Option<u32>,
    #[serde(default)]
    pub(super) adapt: bool,
    /// The bitrates between which it adapts.
    pub(super) min: Option<Speed>,
    pub(super) max: Option<Speed>,
    #[serde(default)]
    pub(super) probe: bool,
    /// Time from a frame's capture to its turn in the player.
    pub(super) playout: Option<Time>,
}

#[derive(Clone, Copy, Debug, serde::Deserialize)]
#[serde(deny_unknown_fields, expecting = "{ rate = \"5mbit\" }")]
pub(super) struct RateLimited {
    pub(super) rate: Speed,
    pub(super) write: Option<Size>,
}

#[derive(Clone, Copy, Debug, serde::Deserialize)]
#[serde(deny_unknown_fields, expecting = "{ on = \"1s\", off = \"2s\" }")]
pub(super) struct OnOff {
    pub(super) on: Time,
    pub(super) off: Time,
}

#[derive(Clone, Copy, Debug, serde::Deserialize)]
#[serde(deny_unknown_fields, expecting = "{ response = \"8MB\", think = \"1s\" }")]
pub(super) struct RequestResponse {
    pub(super) response: Size,
    pub(super) think: Time,
}

#[derive(Clone, Copy, Debug, serde::Deserialize)]
#[serde(deny_unknown_fields, expecting = "{ bytes = \"100kB\", every = \"200ms\" }")]
pub(super) struct ShortFlows {
    pub(super) bytes: Size,
    pub(super) every: Time,
}

/// Traffic that reacts to nothing.
#[derive(Clone, Debug, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct CrossTable {
    pub(super) rate: Speed,
    pub(super) packet: Option<Size>,
    #[serde(default)]
    pub(super) arrivals: Spacing,
    pub(super) start: Option<Time>,
    pub(super) stop: Option<Time>,
    pub(super) route: Option<String>,
    pub(super) from: Option<String>,
    pub(super) to: Option<String>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Spacing {
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
