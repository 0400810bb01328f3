//! A probe of a run: a metric of a flow, a link or the whole run, in a window of time.

use fullpipe_cc::Duration;

use super::metric::Metric;

/// Comparison of two sides.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[allow(missing_docs)]
pub enum Comparison {
    AtLeast,
    AtMost,
    More,
    Less,
    Equal,
}

impl Comparison {
    /// True if `left` is so against `right`.
    pub(crate) fn holds(self, left: f64, right: f64) -> bool {
        match self {
            Self::AtLeast => left >= right,
            Self::AtMost => left <= right,
            Self::More => left > right,
            Self::Less => left < right,
            Self::Equal => left == right,
        }
    }

    /// As it is written.
    pub const fn sign(self) -> &'static str {
        match self {
            Self::AtLeast => ">=",
            Self::AtMost => "<=",
            Self::More => ">",
            Self::Less => "<",
            Self::Equal => "==",
        }
    }
}

/// Subject of a figure.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Scope {
    /// All flows, and the first link.
    Run,
    /// A flow, or several.
    Flow(Which),
    /// A link, by its number in the scenario.
    Link(usize),
}

/// The flows that are meant.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Which {
    /// The flow of this number.
    Number(usize),
    /// All flows of this name together.
    Name(String),
}

/// The time that counts: all of it where nothing is said.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Window {
    /// Its begin.
    pub from: Option<Duration>,
    /// Its end.
    pub to: Option<Duration>,
}

/// A value that a run has to bring for the expectations.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Probe {
    /// Whose it is.
    pub scope: Scope,
    /// The metric.
    pub metric: Metric,
    /// The time that counts.
    pub window: Window,
}
