//! The plain link by a short way: random loss, one rate with a tail-drop queue, one delay.
//!
//! The time at which a packet leaves such a link is known as soon as the packet enters. So nothing
//! happens inside but counting, and a packet costs a tenth of what the row of elements needs. The
//! output is the same, to the nanosecond; a property test compares the two.

use std::collections::VecDeque;

use fullpipe_units::{Duration, Instant, Rate};

use crate::packet::Header;
use crate::path::{Delivered, Dropped};
use crate::probability::RandomSource;
use crate::row::LAST;
use crate::stats::{ElementStats, PathStats};
use crate::wire::Wire;
use crate::{
    ConfigError, Count, DropReason, Ecn, ElementConfig, LossConfig, PathConfig, Probability, Queue,
    QueueConfig, QueueLimit, RateConfig,
};

/// A packet on its way to the far end. A payload of 40 bytes makes it a cache line: the flow's
/// number is not kept, because nothing asks for it any more.
#[derive(Debug)]
struct Coming<T> {
    at: Instant,
    queued: Duration,
    wire_bytes: u32,
    ecn: Ecn,
    payload: T,
}

/// A packet that the wire has not carried yet, the first one being on it.
#[derive(Clone, Copy, Debug)]
struct PendingPacket {
    arrived: Instant,
    /// The time at which its last bit leaves.
    free: Instant,
    bytes: u32,
}

/// The state of a wire and the queue in front of it.
#[derive(Debug)]
struct Bottleneck {
    wire: Wire,
    limit: QueueLimit,
    waiting: VecDeque<PendingPacket>,
    held: Count,
    carried: Count,
    max: Count,
}

impl Bottleneck {
    /// Lets go of what has left until `now`.
    #[inline]
    fn advance(&mut self, now: Instant) {
        while let Some(first) = self.waiting.front().filter(|first| first.free <= now) {
            self.held.remove(first.bytes);
            self.carried.add(first.bytes);
            self.waiting.pop_front();
        }
    }

    /// Takes a packet in; when it leaves, and how long it waits.
    #[inline]
    fn enter(&mut self, now: Instant, bytes: u32) -> Option<(Instant, Duration)> {
        self.advance(now);
        if !self.limit.has_room(self.held, bytes) {
            return None;
        }
        self.held.add(bytes);
        self.max.bytes = self.max.bytes.max(self.held.bytes);
        self.max.packets = self.max.packets.max(self.held.packets);
        let start = match self.waiting.back() {
            Some(ahead) => ahead.free,
            None => {
                self.wire.restart(now);
                now
            }
        };
        self.wire.carry(u64::from(bytes));
        let free = self.wire.free_at().min(LAST);
        self.waiting.push_back(PendingPacket { arrived: now, free, bytes });
        Some((free, start.since(now)))
    }

    fn look(&self, now: Instant) -> (Queue, Count) {
        let (mut held, mut carried) = (self.held, self.carried);
        for gone in self.waiting.iter().take_while(|w| w.free <= now) {
            held.remove(gone.bytes);
            carried.add(gone.bytes);
        }
        let delay = self.waiting.back().map_or(Duration::ZERO, |last| last.free.since(now));
        (Queue { bytes: held.bytes, packets: held.packets, delay }, carried)
    }
}

#[derive(Debug)]
pub(crate) struct SimpleLink<T> {
    loss: Option<(Probability, RandomSource)>,
    /// True if the configuration had a loss.
    has_loss: bool,
    bottleneck: Option<Bottleneck>,
    delay: Duration,
    coming: VecDeque<Coming<T>>,
}

impl<T> SimpleLink<T> {
    /// The link that a valid `config` describes, if it is a plain one.
    pub(crate) fn new(config: &PathConfig) -> Option<Self> {
        let mut plain = Self {
            loss: None,
            has_loss: false,
            bottleneck: None,
            delay: Duration::ZERO,
            coming: VecDeque::new(),
        };
        let mut row = config.row.iter().peekable();
        if let Some(ElementConfig::Loss(LossConfig::Independent(p))) = row.peek() {
            (plain.loss, plain.has_loss) = (Some((*p, RandomSource::new(config.seed, 0))), true);
            row.next();
        }
        if let Some(ElementConfig::Bottleneck { rate, queue: QueueConfig::TailDrop(limit) }) =
            row.peek()
            && let (RateConfig::Constant(_), false) = (rate, matches!(limit, QueueLimit::Time(_)))
        {
            plain.bottleneck = Some(Bottleneck {
                wire: Wire::new(rate),
                limit: *limit,
                waiting: VecDeque::new(),
                held: Count::default(),
                carried: Count::default(),
                max: Count::default(),
            });
            row.next();
        }
        if let Some(ElementConfig::Delay(delay)) = row.peek() {
            plain.delay = *delay;
            row.next();
        }
        row.next().is_none().then_some(plain)
    }

    #[inline]
    pub(crate) fn send(
        &mut self,
        now: Instant,
        header: Header,
        payload: T,
        stats: &mut PathStats,
    ) -> Result<(), Dropped<T>> {
        let Header { wire_bytes, ecn, .. } = header;
        let dropped = |reason, payload| Dropped { at: now, reason, wire_bytes, payload };
        if let Some((probability, dice)) = &mut self.loss
            && dice.says(*probability)
        {
            stats.random_lost.add(wire_bytes);
            return Err(dropped(DropReason::RandomLoss, payload));
        }
        let (free, queued) = match &mut self.bottleneck {
            None => (now, Duration::ZERO),
            Some(bottleneck) => match bottleneck.enter(now, wire_bytes) {
                Some(settled) => settled,
                None => {
                    stats.tail_dropped.add(wire_bytes);
                    return Err(dropped(DropReason::TailDrop, payload));
                }
            },
        };
        let at = (free + self.delay).min(LAST);
        self.coming.push_back(Coming { at, queued, wire_bytes, ecn, payload });
        Ok(())
    }

    #[inline]
    pub(crate) fn poll(&mut self, now: Instant, stats: &mut PathStats) -> Option<Delivered<T>> {
        if self.coming.front()?.at > now.min(LAST) {
            return None;
        }
        let Coming { at, queued, wire_bytes, ecn, payload } = self.coming.pop_front()?;
        stats.delivered.add(wire_bytes);
        let left_queue = at - self.delay;
        Some(Delivered { at, queued, left_queue, wire_bytes, ecn, corrupted: false, payload })
    }

    #[inline]
    pub(crate) fn next_event(&self) -> Option<Instant> {
        self.coming.front().map(|first| first.at)
    }

    /// Another rate from the next packet on: those that wait are settled anew.
    pub(crate) fn set_rate(&mut self, now: Instant, rate: Rate) -> Result<(), ConfigError> {
        let bottleneck = self.bottleneck.as_mut().ok_or(ConfigError::NoBottleneck)?;
        bottleneck.advance(now);
        let mut wire = Wire::new(&RateConfig::Constant(rate));
        let waiting = &mut bottleneck.waiting;
        // The last of those to come are those that wait.
        let gone = self.coming.len() - waiting.len();
        let mut start = None;
        for (packet, coming) in waiting.iter_mut().zip(self.coming.range_mut(gone..)) {
            match start {
                // The packet on the wire leaves as it began.
                None => wire.restart(packet.free),
                Some(start) => {
                    wire.carry(u64::from(packet.bytes));
                    coming.queued = Instant::since(start, packet.arrived);
                    packet.free = wire.free_at().min(LAST);
                    coming.at = (packet.free + self.delay).min(LAST);
                }
            }
            start = Some(packet.free);
        }
        bottleneck.wire = wire;
        Ok(())
    }

    pub(crate) fn set_loss(&mut self, probability: Probability, seed: u64) {
        self.loss = Some((probability, RandomSource::new(seed, 0)));
    }

    /// The queue, what was carried, and the most that was ever held; `None` without a bottleneck.
    pub(crate) fn look(&self, now: Instant) -> Option<(Queue, Count, Count)> {
        let bottleneck = self.bottleneck.as_ref()?;
        let (queue, carried) = bottleneck.look(now);
        Some((queue, carried, bottleneck.max))
    }

    /// Counters of each element.
    pub(crate) fn elements(&self, now: Instant, stats: &PathStats) -> Vec<ElementStats> {
        let mut all = Vec::new();
        let PathStats { arrived, random_lost, tail_dropped, delivered, .. } = *stats;
        let mut reached = arrived.minus(random_lost);
        if self.has_loss {
            let loss = ElementStats { entered: arrived, left: reached, ..<_>::default() };
            all.push(ElementStats { dropped: random_lost, ..loss });
        }
        if let Some((queue, carried, max)) = self.look(now) {
            let inside = Count { packets: queue.packets, bytes: queue.bytes };
            all.push(ElementStats {
                entered: reached,
                left: carried,
                dropped: tail_dropped,
                inside,
                max_bytes: max.bytes,
                max_packets: max.packets,
                queue,
                ..<_>::default()
            });
            reached = carried;
        }
        if self.delay > Duration::ZERO {
            let mut left = delivered;
            let due = self.coming.iter().take_while(|c| c.at <= now);
            due.for_each(|c| left.add(c.wire_bytes));
            let inside = reached.minus(left);
            all.push(ElementStats { entered: reached, left, inside, ..<_>::default() });
        }
        all
    }
}
