//! Features that a scenario needs and that not every backend has.

use std::fmt;

use super::{Cc, Setting};

/// Something that a field of a scenario asks for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Feature {
    /// A congestion control.
    Algorithm(Cc),
    /// So many flows in one run.
    Flows(usize),
    /// A flow that speaks this transport, where the scenario says which.
    Transport(Protocol),
    /// No flow at the start of the run.
    LateStart,
    /// Several links in a row.
    Chain,
    /// A flow that passes some of the links.
    Route,
    /// Links between nodes, or a route over links of a chain in another order than the file's.
    Graph,
    /// Packets that are of no flow.
    CrossTraffic,
    /// A flow that other programs make.
    Program,
    /// A flow that goes up.
    Upwards,
    /// A link whose rate follows a trace.
    RateTrace,
    /// A path longer than a handshake waits for.
    LongPath,
    /// An encoder and a player of live media.
    Media,
    /// An encoder that asks its sender to probe the bandwidth.
    Probe,
    /// ECN-capable packets of a flow that ignores marks.
    IgnoredMarks,
    /// A field of a flow's transport.
    Setting(Setting),
}

/// A transport's name in a scenario.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, serde::Deserialize, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Protocol {
    /// QUIC over UDP.
    #[default]
    Quic,
    /// TCP.
    Tcp,
}

/// The TCP at a flow's receiver, by its name in a scenario.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, serde::Deserialize, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Receiver {
    /// The kernel's.
    #[default]
    Kernel,
    /// Ours.
    User,
}

/// A feature, and the field that asks for it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Need {
    /// The feature.
    pub feature: Feature,
    /// The field's path in the file.
    pub field: String,
}

impl fmt::Display for Feature {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Algorithm(cc) => write!(f, "{cc}"),
            Self::Flows(n) => write!(f, "{n} flows"),
            Self::Transport(Protocol::Quic) => f.write_str("transport = \"quic\""),
            Self::Transport(Protocol::Tcp) => f.write_str("transport = \"tcp\""),
            Self::LateStart => f.write_str("a run without a flow that starts at 0s"),
            Self::Chain => f.write_str("more than one link"),
            Self::Route => f.write_str("a route"),
            Self::Graph => f.write_str("a graph of links"),
            Self::Upwards => f.write_str("direction = \"up\""),
            Self::Program => f.write_str("a program"),
            Self::CrossTraffic => f.write_str("cross traffic"),
            Self::RateTrace => f.write_str("a rate trace"),
            Self::LongPath => f.write_str("a round trip above 25s"),
            Self::Media => f.write_str("app media"),
            Self::Probe => f.write_str("probe"),
            Self::IgnoredMarks => f.write_str("ecn = \"ignored\""),
            Self::Setting(setting) => f.write_str(setting.name()),
        }
    }
}
