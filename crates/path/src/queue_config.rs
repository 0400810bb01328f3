//! Configuration of queue disciplines. The defaults are those of the RFC, or of the paper.

use fullpipe_units::Duration;

use crate::{ConfigError, Probability, QueueLimit};

/// A queue discipline.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum QueueConfig {
    /// First in, first out; what finds no room is dropped.
    TailDrop(QueueLimit),
    /// A tail-drop queue that marks above a threshold: RFC 8257 section 3.1.
    Step(StepConfig),
    /// RFC 8289.
    CoDel(CoDelConfig),
    /// RFC 8290.
    FqCoDel(FqCoDelConfig),
    /// RFC 8033.
    Pie(PieConfig),
    /// Floyd and Jacobson, 1993.
    Red(RedConfig),
    /// RFC 9332, appendix A.
    DualPi2(DualPi2Config),
}

impl From<QueueLimit> for QueueConfig {
    fn from(limit: QueueLimit) -> Self {
        Self::TailDrop(limit)
    }
}

/// A tail-drop queue that marks: what does not understand a mark is dropped by the limit alone.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct StepConfig {
    /// The queue's capacity.
    pub limit: QueueLimit,
    /// A packet is marked if it finds more than this in the queue, the packet on the wire included.
    pub mark_above: QueueLimit,
}

/// CoDel's parameters (RFC 8289).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CoDelConfig {
    /// The queue's capacity.
    pub limit: QueueLimit,
    /// The delay of a queue that stands and does no harm: TARGET.
    pub target: Duration,
    /// The time in which a burst has to be gone, about the longest RTT: INTERVAL.
    pub interval: Duration,
    /// True if a packet that understands it is marked instead of dropped.
    pub ecn: bool,
    /// Packets that waited longer than this are marked besides, as Linux offers it for DCTCP and
    /// L4S.
    pub ce_threshold: Option<Duration>,
}

impl CoDelConfig {
    /// 5 ms, 100 ms, with ECN.
    pub const fn new(limit: QueueLimit) -> Self {
        let (target, interval) = (Duration::from_millis(5), Duration::from_millis(100));
        Self { limit, target, interval, ecn: true, ce_threshold: None }
    }
}

/// FQ-CoDel's parameters (RFC 8290 section 5.2).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FqCoDelConfig {
    /// CoDel's in each queue; its limit is that of all queues together.
    pub codel: CoDelConfig,
    /// The number of queues.
    pub queues: u32,
    /// Bytes that one queue sends in its turn: an MTU with its Ethernet header.
    pub quantum_bytes: u32,
}

impl FqCoDelConfig {
    /// 10240 packets in 1024 queues, a quantum of 1514 bytes.
    pub const fn new() -> Self {
        let codel = CoDelConfig::new(QueueLimit::Packets(10_240));
        Self { codel, queues: 1024, quantum_bytes: 1514 }
    }
}

impl Default for FqCoDelConfig {
    fn default() -> Self {
        Self::new()
    }
}

/// PIE's parameters (RFC 8033 section 4).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PieConfig {
    /// The queue's capacity.
    pub limit: QueueLimit,
    /// QDELAY_REF.
    pub target: Duration,
    /// T_UPDATE, above 0 and at most 300 ms. The gains are scaled to it (RFC 8033 section 4.2):
    /// beyond 21 times the 15 ms that they are given for, none would hold the queue.
    pub update: Duration,
    /// MAX_BURST: nothing is dropped so long after the queue was calm.
    pub max_burst: Duration,
    /// True if a packet that understands it is marked instead of dropped, up to a probability of
    /// 10 % (section 5.1).
    pub ecn: bool,
}

impl PieConfig {
    /// 15 ms, every 15 ms, 150 ms, with ECN.
    pub const fn new(limit: QueueLimit) -> Self {
        let (target, max_burst) = (Duration::from_millis(15), Duration::from_millis(150));
        Self { limit, target, update: target, max_burst, ecn: true }
    }
}

/// RED's parameters, thresholds in bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RedConfig {
    /// The queue's capacity.
    pub limit: QueueLimit,
    /// Below this average nothing happens.
    pub min_bytes: u64,
    /// From this average on everything is dropped; above `min_bytes`.
    pub max_bytes: u64,
    /// The probability just below `max_bytes`.
    pub max_probability: Probability,
    /// The weight of the newest packet's queue in the average, w_q.
    pub weight: Probability,
    /// Serialisation time of a packet, above 0: an idle time counts as so many packets of this time
    /// when the average decays. See [`RateConfig::packet_time`](crate::RateConfig::packet_time).
    pub packet_time: Duration,
    /// True if a packet that understands it is marked instead of dropped, below `max_bytes`.
    pub ecn: bool,
}

/// DualPI2's parameters (RFC 9332 appendix A.1).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DualPi2Config {
    /// The capacity of both queues together.
    pub limit: QueueLimit,
    /// The classic queue's delay.
    pub target: Duration,
    /// The longest RTT expected, above 0: the gains and the period of the controller follow from
    /// it.
    pub rtt_max: Duration,
    /// From this delay on the low-latency queue marks by itself: minTh.
    pub ramp_from: Duration,
    /// So much later it marks everything: range.
    pub ramp_range: Duration,
}

impl DualPi2Config {
    /// 15 ms, 100 ms, 0.8 ms and 0.4 ms.
    pub const fn new(limit: QueueLimit) -> Self {
        Self {
            limit,
            target: Duration::from_millis(15),
            rtt_max: Duration::from_millis(100),
            ramp_from: Duration::from_micros(800),
            ramp_range: Duration::from_micros(400),
        }
    }
}

impl QueueConfig {
    /// The queue's capacity; of [`FqCoDelConfig`] that of all queues together.
    pub fn limit(&self) -> QueueLimit {
        match self {
            Self::TailDrop(limit) => *limit,
            Self::Step(c) => c.limit,
            Self::CoDel(c) => c.limit,
            Self::FqCoDel(c) => c.codel.limit,
            Self::Pie(c) => c.limit,
            Self::Red(c) => c.limit,
            Self::DualPi2(c) => c.limit,
        }
    }

    /// The same discipline with this capacity.
    #[must_use]
    pub fn with_limit(mut self, limit: QueueLimit) -> Self {
        *match &mut self {
            Self::TailDrop(limit) => limit,
            Self::Step(c) => &mut c.limit,
            Self::CoDel(c) => &mut c.limit,
            Self::FqCoDel(c) => &mut c.codel.limit,
            Self::Pie(c) => &mut c.limit,
            Self::Red(c) => &mut c.limit,
            Self::DualPi2(c) => &mut c.limit,
        } = limit;
        self
    }

    pub(crate) fn validate(&self) -> Result<(), ConfigError> {
        let rule = |discipline, holds: bool, rule| {
            if holds { Ok(()) } else { Err(ConfigError::Queue { discipline, rule }) }
        };
        let above_0 = |d: Duration| d > Duration::ZERO;
        match self {
            Self::TailDrop(limit) => limit.validate(),
            Self::Step(StepConfig { mark_above: QueueLimit::Time(_), .. }) => {
                Err(ConfigError::NoRateOfQueue)
            }
            Self::Step(c) => c.limit.validate(),
            Self::CoDel(c) => {
                rule("codel", above_0(c.interval), "give an interval above 0")?;
                c.limit.validate()
            }
            Self::FqCoDel(c) => {
                rule("fq_codel", above_0(c.codel.interval), "give an interval above 0")?;
                rule("fq_codel", c.queues > 0, "give at least 1 queue")?;
                rule("fq_codel", c.quantum_bytes > 0, "give a quantum of at least 1 byte")?;
                c.codel.limit.validate()
            }
            Self::Pie(c) => {
                let update = above_0(c.update) && c.update <= Duration::from_millis(300);
                rule("pie", update, "give an update period above 0 and of at most 300ms")?;
                c.limit.validate()
            }
            Self::Red(c) => {
                rule("red", c.min_bytes < c.max_bytes, "give a max above min")?;
                rule("red", above_0(c.packet_time), "give a packet time above 0")?;
                c.limit.validate()
            }
            Self::DualPi2(c) => {
                let (target, rtt) = (above_0(c.target), above_0(c.rtt_max));
                rule("dualpi2", target && rtt, "give a target and an rtt_max above 0")?;
                c.limit.validate()
            }
        }
    }
}
