//! What a caller chooses, and what makes no sense.

use std::fmt;

use fullpipe_cc::{Duration, Rate};

use crate::MTU_BYTES;

/// A description that no path can be built from.
#[derive(Clone, Copy, PartialEq, Debug, thiserror::Error)]
pub enum ConfigError {
    /// The rate is zero.
    #[error("a rate of 0 carries nothing: give a rate above 0, or none for an unlimited link")]
    ZeroRate,
    /// The byte limit is below one full-sized packet.
    #[error("a queue of {0} bytes is below one packet: give at least {MTU_BYTES} bytes")]
    QueueBelowOnePacket(u64),
    /// The packet limit is zero.
    #[error("a queue of 0 packets holds nothing: give at least 1 packet")]
    EmptyQueue,
    /// The probability is not a number from 0 to 1.
    #[error("a loss of {0} is no probability: give a number from 0 to 1")]
    LossOutOfRange(f64),
    /// A row names two bottlenecks.
    #[error("a path has one bottleneck: put a second path behind this one for another")]
    SecondBottleneck,
    /// A rate for a path that has none.
    #[error("this path has no bottleneck whose rate could change: give it a rate to begin with")]
    NoBottleneck,
}

/// A probability from 0 to 1, held as an integer so that every draw is an exact comparison.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Probability(u64);

impl Probability {
    /// Never.
    pub const ZERO: Self = Self(0);
    /// Always.
    pub const ONE: Self = Self(1 << 63);

    /// `p` in steps of 2^-63.
    ///
    /// # Errors
    /// [`ConfigError::LossOutOfRange`] unless `p` is a number from 0 to 1.
    pub fn new(p: f64) -> Result<Self, ConfigError> {
        if !(0.0..=1.0).contains(&p) {
            return Err(ConfigError::LossOutOfRange(p));
        }
        Ok(Self((p * Self::ONE.0 as f64) as u64))
    }

    /// The probability as a number from 0 to 1.
    pub fn as_f64(self) -> f64 {
        self.0 as f64 / Self::ONE.0 as f64
    }

    /// How many of the 2^63 values that a draw can have mean yes.
    pub(crate) const fn threshold(self) -> u64 {
        self.0
    }
}

impl fmt::Display for Probability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.as_f64())
    }
}

/// How much a bottleneck's queue holds. The packet on the wire counts until its last bit has left.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum QueueLimit {
    /// This many bytes on the wire, headers included: at least 1500 ([`MTU_BYTES`]). A packet
    /// that would pass the limit is dropped, also when the queue is empty.
    Bytes(u64),
    /// This many packets of any size: at least 1.
    Packets(u64),
}

impl QueueLimit {
    fn validate(self) -> Result<(), ConfigError> {
        match self {
            Self::Bytes(b) if b < u64::from(MTU_BYTES) => Err(ConfigError::QueueBelowOnePacket(b)),
            Self::Packets(0) => Err(ConfigError::EmptyQueue),
            _ => Ok(()),
        }
    }
}

/// One element of a path.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum ElementConfig {
    /// Each packet is lost with this probability, independently of all others.
    Loss(Probability),
    /// Packets leave one at a time at `rate`, and wait in a tail-drop queue meanwhile.
    Bottleneck {
        /// The rate in wire bytes per second, above 0.
        rate: Rate,
        /// What the queue holds.
        queue: QueueLimit,
    },
    /// Packets leave this much later than they came.
    Delay(Duration),
}

impl ElementConfig {
    pub(crate) fn validate(&self) -> Result<(), ConfigError> {
        match self {
            Self::Bottleneck { rate: Rate::ZERO, .. } => Err(ConfigError::ZeroRate),
            Self::Bottleneck { queue, .. } => queue.validate(),
            Self::Loss(_) | Self::Delay(_) => Ok(()),
        }
    }
}

/// One direction of a link: random loss, then the bottleneck, then the delay.
///
/// The default is a perfect wire: no loss, no limit, no delay.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PathConfig {
    /// The bottleneck's rate in wire bytes per second; `None` for no bottleneck and no queue.
    pub rate: Option<Rate>,
    /// Propagation delay in this direction: half of the path's RTT when it is symmetric.
    pub delay: Duration,
    /// What the bottleneck's queue holds; nothing waits when `rate` is `None`.
    pub queue: QueueLimit,
    /// The probability that a packet is lost before it reaches the queue.
    pub loss: Probability,
    /// Seed of everything random. Two directions of one link should have two seeds.
    pub seed: u64,
}

impl Default for PathConfig {
    fn default() -> Self {
        Self {
            rate: None,
            delay: Duration::ZERO,
            queue: QueueLimit::Bytes(u64::MAX),
            loss: Probability::ZERO,
            seed: 1,
        }
    }
}

impl PathConfig {
    /// Whether a path can be built from this.
    ///
    /// # Errors
    /// What was wrong and what would be right: a rate of 0, or a queue that cannot hold one packet.
    pub fn validate(&self) -> Result<(), ConfigError> {
        self.queue.validate()?;
        self.row().iter().try_for_each(ElementConfig::validate)
    }

    /// The elements in the order in which a packet passes them.
    pub fn row(&self) -> Vec<ElementConfig> {
        let mut row = Vec::with_capacity(3);
        if self.loss > Probability::ZERO {
            row.push(ElementConfig::Loss(self.loss));
        }
        if let Some(rate) = self.rate {
            row.push(ElementConfig::Bottleneck { rate, queue: self.queue });
        }
        if self.delay > Duration::ZERO {
            row.push(ElementConfig::Delay(self.delay));
        }
        row
    }
}
