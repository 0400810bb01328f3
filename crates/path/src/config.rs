//! Configuration of a path, and the errors of an invalid one.

use fullpipe_units::{Duration, Rate};

use crate::{Count, JitterConfig, MTU_BYTES, Probability, QueueConfig, RateConfig, Series};

/// A description that no path can be built from.
#[derive(Clone, Copy, PartialEq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// The rate is zero.
    #[error("a rate of 0 carries nothing: give a rate above 0, or none for an unlimited link")]
    ZeroRate,
    /// Steps that end with a rate of zero.
    #[error(
        "the last step is a rate of 0, after which nothing arrives: give a step with a rate above 0 after it"
    )]
    EndlessOutage,
    /// The byte limit is below one full-sized packet.
    #[error("a queue of {0} bytes is below one packet: give at least {MTU_BYTES} bytes")]
    QueueBelowOnePacket(u64),
    /// A time as the capacity of a queue that no bottleneck serves.
    #[error("a queue in time needs the rate of a bottleneck: give bytes or packets")]
    NoRateOfQueue,
    /// The packet limit is zero.
    #[error("a queue of 0 packets holds nothing: give at least 1 packet")]
    EmptyQueue,
    /// The probability is not a number from 0 to 1.
    #[error("a loss of {0} is no probability: give a number from 0 to 1")]
    NoProbability(f64),
    /// A token bucket that lets no full-sized packet pass.
    #[error("a bucket of {0} bytes lets no full packet pass: give at least {MTU_BYTES} bytes")]
    BucketBelowOnePacket(u64),
    /// A token bucket that begins with more than it holds.
    #[error("a bucket of {bucket} bytes cannot hold {initial} at the start: give at most as many")]
    BucketOverfull {
        /// Its capacity.
        bucket: u64,
        /// Its content at the start.
        initial: u64,
    },
    /// Every 0th packet.
    #[error("every 0th packet is none: give at least 1")]
    EveryZeroth,
    /// Times or numbers that do not ascend.
    #[error("{0} have to ascend: put them in order, each once")]
    Unordered(&'static str),
    /// Steps that leave the beginning open.
    #[error("the first step has to be at 0: say what holds from the beginning")]
    NoFirstStep,
    /// A trace in which nothing is ever delivered.
    #[error("the trace is empty or ends at 0: give at least one time above 0")]
    EmptyTrace,
    /// A burst that is none, or everything.
    #[error("{length} of every {every} packets are no burst: lose at least 1, and fewer than all")]
    BurstLength {
        /// From the end of one to the end of the next.
        every: u64,
        /// Packets lost.
        length: u64,
    },
    /// At most 0 losses in a row.
    #[error("at most 0 losses in a row are none: give at least 1")]
    NoneInARow,
    /// A series that begins again before its last value has begun.
    #[error("the period is over before the last value begins: give a longer one")]
    ShortPeriod,
    /// An overflow that is over at once.
    #[error("an overflow of 0 loses nothing: give a time above 0")]
    NoTime,
    /// A discipline's parameter that it cannot work with.
    #[error("{discipline}: {rule}")]
    Queue {
        /// The discipline's name.
        discipline: &'static str,
        /// The rule that the parameter breaks.
        rule: &'static str,
    },
    /// A rate for a path that has none.
    #[error("this path has no bottleneck whose rate could change: give it a rate to begin with")]
    NoBottleneck,
    /// Packets to hold back on a path that holds none back.
    #[error("this path has no reordering that could change: give it one to begin with")]
    NoReordering,
}

/// The queue's capacity. The packet on a wire counts until its last bit has left.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum QueueLimit {
    /// This many bytes on the wire, headers included: at least 1500 ([`MTU_BYTES`]). A packet
    /// that would pass the limit is dropped, also when the queue is empty.
    Bytes(u64),
    /// This many packets of any size: at least 1.
    Packets(u64),
    /// As many bytes as the rate of the moment carries in this time, of a bottleneck alone. While
    /// the rate is 0 it is that of before, of a trace its mean. What waits when the rate falls
    /// stays.
    Time(Duration),
}

impl QueueLimit {
    /// Checks that it holds a packet at all.
    ///
    /// # Errors
    /// [`ConfigError::QueueBelowOnePacket`], [`ConfigError::EmptyQueue`], or
    /// [`ConfigError::NoRateOfQueue`]: of itself a time holds nothing.
    pub fn validate(self) -> Result<(), ConfigError> {
        match self {
            Self::Bytes(b) if b < u64::from(MTU_BYTES) => Err(ConfigError::QueueBelowOnePacket(b)),
            Self::Packets(0) => Err(ConfigError::EmptyQueue),
            Self::Time(_) => Err(ConfigError::NoRateOfQueue),
            Self::Bytes(_) | Self::Packets(_) => Ok(()),
        }
    }

    /// The same at this rate.
    #[must_use]
    pub fn at(self, rate: Rate) -> Self {
        match self {
            Self::Time(time) => Self::Bytes(rate.bytes_in(time)),
            Self::Bytes(_) | Self::Packets(_) => self,
        }
    }

    /// True if a packet of `bytes` fits beside what is already held.
    pub(crate) fn has_room(self, held: Count, bytes: u32) -> bool {
        match self {
            Self::Bytes(b) => held.bytes + u64::from(bytes) <= b,
            Self::Packets(p) => held.packets < p,
            // Its bottleneck asks with that of the moment.
            Self::Time(_) => false,
        }
    }
}

/// Steps are there from 0 on, and ascend.
pub(crate) fn validate_steps<V>(steps: &[(Duration, V)]) -> Result<(), ConfigError> {
    if steps.first().is_none_or(|(at, _)| *at > Duration::ZERO) {
        return Err(ConfigError::NoFirstStep);
    }
    if !steps.is_sorted_by(|(a, _), (b, _)| a < b) {
        return Err(ConfigError::Unordered("the times of steps"));
    }
    Ok(())
}

/// A selection of packets.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Selection {
    /// Each with this probability, independently of all others.
    Random(Probability),
    /// Every n-th, the n-th first; at least 1, which means all.
    Every(u64),
}

impl Selection {
    pub(crate) fn validate(self) -> Result<(), ConfigError> {
        match self {
            Self::Every(0) => Err(ConfigError::EveryZeroth),
            _ => Ok(()),
        }
    }
}

/// A loss model.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum LossConfig {
    /// Each with this probability, independently of all others.
    Independent(Probability),
    /// Gilbert's and Elliott's chain of a good and a bad state, which begins in the good one. For
    /// each packet the state changes first, then the packet is lost with its state's probability.
    /// On average `to_bad / (to_bad + to_good)` of the packets meet the bad state, `1 / to_good` in
    /// a row.
    GilbertElliott {
        /// From good to bad, for each packet.
        to_bad: Probability,
        /// From bad to good, for each packet.
        to_good: Probability,
        /// Loss in the good state: 0 in Gilbert's model.
        loss_in_good: Probability,
        /// Loss in the bad state: 1 in the simplest one.
        loss_in_bad: Probability,
    },
    /// The packets with these numbers, counted from 0 at this element, in ascending order.
    Listed(Vec<u64>),
    /// The last `length` packets of every `every`.
    Bursts {
        /// Packets from one burst's end to the next one's.
        every: u64,
        /// Packets lost of these: at least 1 and fewer than `every`.
        length: u64,
    },
    /// Each with this probability, but never more than so many in a row: after them one passes. A
    /// test of recovery that is not to be one of timeouts needs that.
    Limited {
        /// The probability that a packet is lost, where fewer than `in_a_row` were lost right
        /// before it.
        probability: Probability,
        /// The most in a row, at least 1.
        in_a_row: u32,
    },
    /// Each with the probability that holds at its time.
    Series(Series<Probability>),
    /// Losses from a shallow buffer shared with other traffic: a packet may find it full, and then
    /// it stays full for a time, however many packets come. A burst counted in packets would
    /// outlast every timeout of a flow that has one packet left to send.
    Overflows {
        /// The probability that a packet is the first of a burst.
        begins: Probability,
        /// Duration of the loss of all packets from there on, above 0.
        lasts: Duration,
    },
}

impl LossConfig {
    fn validate(&self) -> Result<(), ConfigError> {
        match self {
            Self::Listed(numbers) if !numbers.is_sorted_by(|a, b| a < b) => {
                Err(ConfigError::Unordered("packet numbers"))
            }
            Self::Bursts { every, length } if *length == 0 || length >= every => {
                Err(ConfigError::BurstLength { every: *every, length: *length })
            }
            Self::Overflows { lasts: Duration::ZERO, .. } => Err(ConfigError::NoTime),
            Self::Limited { in_a_row: 0, .. } => Err(ConfigError::NoneInARow),
            _ => Ok(()),
        }
    }
}

impl From<Probability> for LossConfig {
    fn from(probability: Probability) -> Self {
        Self::Independent(probability)
    }
}

/// One element of a path. Times of steps and outages count from the zero of the caller's clock.
#[derive(Clone, PartialEq, Debug)]
#[non_exhaustive]
pub enum ElementConfig {
    /// Packets are lost.
    Loss(LossConfig),
    /// Every packet that comes from a start, inclusive, to an end, exclusive, is gone. In ascending
    /// order and not overlapping.
    Blackhole(Vec<(Duration, Duration)>),
    /// Every packet that comes while the value is true is gone; none before the series starts.
    BlackholeSeries(Series<bool>),
    /// Bits of a packet change with this probability: it goes on, and is delivered as corrupted.
    Corruption(Probability),
    /// With this probability a packet is marked with congestion experienced, if its transport is
    /// ECN-capable.
    Marking(Probability),
    /// With this probability congestion experienced is written into a packet's ECN field whether or
    /// not its transport is ECN-capable, as by a router that takes the field for a part of the type
    /// of service. It is not counted as a mark.
    Mangling(Probability),
    /// With this probability a packet's ECN field is cleared, as by a router that takes it for a
    /// part of the type of service: it goes on as one of a transport without ECN.
    Bleaching(Probability),
    /// With this probability a packet goes on twice.
    Duplication(Probability),
    /// A token bucket that drops: a packet passes at once when the bucket holds its bytes, and
    /// takes them out; else it is dropped.
    Policer {
        /// The bucket's refill rate, in wire bytes per second, above 0.
        rate: Rate,
        /// The bucket's capacity: at least 1500 ([`MTU_BYTES`]).
        bucket_bytes: u64,
        /// The bucket's content at the start, at most its capacity.
        initial_bytes: u64,
    },
    /// A token bucket that delays: a packet passes at once when nothing waits and the bucket holds
    /// its bytes; else it waits until it does. One larger than the bucket is dropped.
    Shaper {
        /// As a policer's.
        rate: Rate,
        /// As a policer's, and full at the start.
        bucket_bytes: u64,
        /// The queue's capacity.
        queue: QueueLimit,
    },
    /// Packets leave one at a time at a rate, and wait in a queue meanwhile.
    Bottleneck {
        /// The rate; a [`Rate`] becomes a constant one by `into`.
        rate: RateConfig,
        /// The queue; a [`QueueLimit`] becomes a tail-drop one by `into`.
        queue: QueueConfig,
    },
    /// Packets leave this much later than they came.
    Delay(Duration),
    /// From each of these times on, packets that come are delayed by this much; the first time is
    /// 0. A packet never overtakes one that came before it.
    DelaySteps(Vec<(Duration, Duration)>),
    /// The same with a series, which may begin again and again.
    DelaySeries(Series<Duration>),
    /// Each packet is delayed by chance, but never overtakes one that came before it: what is drawn
    /// for that one counts for those close behind it too. A [`Duration`] becomes a uniform jitter
    /// from nothing to this by `into`.
    Jitter(JitterConfig),
    /// The same with the jitter that holds at the packet's time. What was drawn before a change
    /// counts behind it too, for as long as the packets from before are under way.
    JitterSeries(Series<JitterConfig>),
    /// Chosen packets are held back, so that those behind overtake them.
    Reordering {
        /// The packets held back; the others pass at once.
        packets: Selection,
        /// The time for which they are held back.
        delay: Duration,
    },
    /// Packets are gathered and leave together, as behind a radio that waits for its turn: data
    /// when it stands on the way of the data, ACKs when on the way back.
    Aggregation {
        /// A batch leaves this much later than its first packet came.
        interval: Duration,
        /// It leaves at once when it holds as much as this.
        burst: QueueLimit,
        /// Of consecutive packets of one flow in a batch only every n-th and the last go on: ACK
        /// decimation. 1 lets all go on.
        keep_one_in: u32,
    },
}

impl ElementConfig {
    pub(crate) fn validate(&self) -> Result<(), ConfigError> {
        match self {
            Self::Loss(loss) => loss.validate(),
            Self::Blackhole(outages) => ascending(outages),
            Self::Policer { rate, bucket_bytes, initial_bytes } => {
                validate_bucket(*rate, *bucket_bytes)?;
                let (bucket, initial) = (*bucket_bytes, *initial_bytes);
                let error = ConfigError::BucketOverfull { bucket, initial };
                if initial > bucket { Err(error) } else { Ok(()) }
            }
            Self::Shaper { rate, bucket_bytes, queue } => {
                validate_bucket(*rate, *bucket_bytes)?;
                queue.validate()
            }
            Self::Bottleneck { rate, queue } => {
                rate.validate()?;
                queue.with_limit(queue.limit().at(rate.slowest())).validate()
            }
            Self::DelaySteps(steps) => validate_steps(steps),
            Self::Reordering { packets, .. } => packets.validate(),
            Self::Aggregation { keep_one_in: 0, .. } => Err(ConfigError::EveryZeroth),
            Self::Aggregation { burst, .. } => burst.validate(),
            Self::BlackholeSeries(_)
            | Self::Corruption(_)
            | Self::Marking(_)
            | Self::Mangling(_)
            | Self::Bleaching(_)
            | Self::Duplication(_)
            | Self::Delay(_)
            | Self::DelaySeries(_)
            | Self::Jitter(_)
            | Self::JitterSeries(_) => Ok(()),
        }
    }
}

fn ascending(outages: &[(Duration, Duration)]) -> Result<(), ConfigError> {
    let mut before = Duration::ZERO;
    for (start, end) in outages {
        if *start < before || end <= start {
            return Err(ConfigError::Unordered("outages"));
        }
        before = *end;
    }
    Ok(())
}

fn validate_bucket(rate: Rate, bucket_bytes: u64) -> Result<(), ConfigError> {
    if rate == Rate::ZERO {
        return Err(ConfigError::ZeroRate);
    }
    if bucket_bytes < u64::from(MTU_BYTES) {
        return Err(ConfigError::BucketBelowOnePacket(bucket_bytes));
    }
    Ok(())
}

/// One direction of a path: the elements in the order in which a packet passes them.
///
/// The default, no elements at all, is a perfect wire: no loss, no limit, no delay.
#[derive(Clone, PartialEq, Debug)]
pub struct PathConfig {
    /// The elements. Several of a kind may stand in a row, bottlenecks too.
    pub row: Vec<ElementConfig>,
    /// Seed of everything random. Two directions of one path should have two seeds.
    pub seed: u64,
}

impl Default for PathConfig {
    fn default() -> Self {
        Link::default().into()
    }
}

impl PathConfig {
    /// Checks that a path can be built from this.
    ///
    /// # Errors
    /// Names the first element that makes no sense, and the values that would be valid.
    pub fn validate(&self) -> Result<(), ConfigError> {
        self.row.iter().try_for_each(ElementConfig::validate)
    }

    /// The least time that a packet needs from end to end, without waiting and serialisation.
    pub fn least_delay(&self) -> Duration {
        self.row.iter().fold(Duration::ZERO, |sum, element| sum + element.least_delay())
    }
}

/// The plain link: random loss, then the bottleneck, then the delay.
///
/// It is a short way to write a [`PathConfig`]. The default is a perfect wire.
///
/// ```
/// use fullpipe_units::{Duration, Rate};
/// use fullpipe_path::{ElementConfig, Link, PathConfig};
///
/// let link = Link {
///     rate: Some(Rate::from_bits_per_sec(100_000_000)),
///     delay: Duration::from_millis(20),
///     ..Link::default()
/// };
/// let mut path = PathConfig::from(link);
/// path.row.insert(0, ElementConfig::Policer {
///     rate: Rate::from_bits_per_sec(25_000_000),
///     bucket_bytes: 100_000,
///     initial_bytes: 100_000,
/// });
/// assert_eq!(path.least_delay(), link.delay);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Link {
    /// The bottleneck's rate in wire bytes per second; `None` for no bottleneck and no queue.
    pub rate: Option<Rate>,
    /// Propagation delay in this direction: half of the path's RTT when it is symmetric.
    pub delay: Duration,
    /// The capacity of the bottleneck's queue; nothing waits when `rate` is `None`.
    pub queue: QueueLimit,
    /// The probability that a packet is lost before it reaches the queue.
    pub loss: Probability,
    /// Seed of everything random.
    pub seed: u64,
}

impl Default for Link {
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

impl From<Link> for PathConfig {
    fn from(link: Link) -> Self {
        let mut row = Vec::with_capacity(3);
        if link.loss > Probability::ZERO {
            row.push(ElementConfig::Loss(link.loss.into()));
        }
        if let Some(rate) = link.rate {
            let (rate, queue) = (rate.into(), link.queue.into());
            row.push(ElementConfig::Bottleneck { rate, queue });
        }
        if link.delay > Duration::ZERO {
            row.push(ElementConfig::Delay(link.delay));
        }
        Self { row, seed: link.seed }
    }
}
