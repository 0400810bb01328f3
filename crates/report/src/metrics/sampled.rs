//! Metrics of the series: its columns, and conditions on them.

use std::fmt;

use fullpipe_cc::State;

use super::probe::Comparison;

/// Every state that an algorithm can be in.
pub(crate) const STATES: [State; 13] = [
    State::Startup,
    State::Drain,
    State::ProbeBwDown,
    State::ProbeBwCruise,
    State::ProbeBwRefill,
    State::ProbeBwUp,
    State::ProbeBw,
    State::ProbeRtt,
    State::SlowStart,
    State::ConservativeSlowStart,
    State::CongestionAvoidance,
    State::Recovery,
    State::Fixed,
];

/// A column of the series that is a number.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[allow(missing_docs)]
pub enum Column {
    Goodput,
    Rtt,
    Queue,
    Srtt,
    Cwnd,
    Inflight,
    Pacing,
    MaxBw,
    MinRtt,
    PacingGain,
    CwndGain,
    BwShortterm,
    InflightShortterm,
    InflightLongterm,
    ExtraAcked,
    FullBwCount,
    AppLimited,
}

impl Column {
    /// Those that have figures of their own: of the others the truth is known, packet by packet.
    pub(super) const ASKED: [Self; 14] = [
        Self::Srtt,
        Self::Cwnd,
        Self::Inflight,
        Self::Pacing,
        Self::MaxBw,
        Self::MinRtt,
        Self::PacingGain,
        Self::CwndGain,
        Self::BwShortterm,
        Self::InflightShortterm,
        Self::InflightLongterm,
        Self::ExtraAcked,
        Self::FullBwCount,
        Self::AppLimited,
    ];

    const ALL: [Self; 17] = [
        Self::Goodput,
        Self::Rtt,
        Self::Queue,
        Self::Srtt,
        Self::Cwnd,
        Self::Inflight,
        Self::Pacing,
        Self::MaxBw,
        Self::MinRtt,
        Self::PacingGain,
        Self::CwndGain,
        Self::BwShortterm,
        Self::InflightShortterm,
        Self::InflightLongterm,
        Self::ExtraAcked,
        Self::FullBwCount,
        Self::AppLimited,
    ];

    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Goodput => "goodput_mbps",
            Self::Rtt => "rtt_ms",
            Self::Queue => "queue_ms",
            Self::Srtt => "srtt_ms",
            Self::Cwnd => "cwnd_bytes",
            Self::Inflight => "inflight_bytes",
            Self::Pacing => "pacing_mbps",
            Self::MaxBw => "max_bw_mbps",
            Self::MinRtt => "min_rtt_ms",
            Self::PacingGain => "pacing_gain",
            Self::CwndGain => "cwnd_gain",
            Self::BwShortterm => "bw_shortterm_mbps",
            Self::InflightShortterm => "inflight_shortterm_bytes",
            Self::InflightLongterm => "inflight_longterm_bytes",
            Self::ExtraAcked => "extra_acked_bytes",
            Self::FullBwCount => "full_bw_count",
            Self::AppLimited => "is_app_limited",
        }
    }

    pub(crate) fn named(name: &str) -> Result<Self, String> {
        Self::ALL.into_iter().find(|c| c.name() == name).ok_or_else(|| {
            let names: Vec<_> = Self::ALL.iter().map(|c| c.name()).collect();
            let name = name.escape_debug();
            format!("'{name}' is no column of the series; there are {}, state", names.join(", "))
        })
    }
}

/// Unit of the count until a condition holds.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Count {
    /// Seconds.
    Seconds,
    /// Round trips as BBR counts them.
    Rounds,
    /// Probes for bandwidth that were begun: times at which the pacing gain rose above 1.
    Cycles,
}

impl Count {
    const ALL: [Self; 3] = [Self::Seconds, Self::Rounds, Self::Cycles];

    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Seconds => "until_s",
            Self::Rounds => "until_rounds",
            Self::Cycles => "until_cycles",
        }
    }

    pub(crate) fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|c| c.name() == name)
    }
}

/// Condition on a row of the series.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Condition {
    /// A number of it against another, whose bits these are: conditions are looked up by what they
    /// say.
    #[doc(hidden)]
    Number(Column, Comparison, u64),
    /// A state in which it is, or is not.
    State(&'static str, bool),
}

impl Condition {
    pub(crate) fn number(column: Column, comparison: Comparison, bound: f64) -> Self {
        Self::Number(column, comparison, bound.to_bits())
    }

    pub(crate) fn state(name: &str, is: bool) -> Result<Self, String> {
        let state = STATES.iter().map(|s| s.name()).find(|s| *s == name).ok_or_else(|| {
            let names: Vec<_> = STATES.iter().map(|s| s.name()).collect();
            format!("'{}' is no state; there are {}", name.escape_debug(), names.join(", "))
        })?;
        Ok(Self::State(state, is))
    }
}

impl fmt::Display for Condition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(column, comparison, bits) => {
                write!(f, "{} {} {}", column.name(), comparison.sign(), f64::from_bits(*bits))
            }
            Self::State(name, is) => {
                write!(f, "state {} {name}", if *is { "==" } else { "!=" })
            }
        }
    }
}
