//! The interface that a caller drives: a row of elements, and the payloads of the packets in it.

use fullpipe_units::{Duration, Instant, Rate};

use crate::arrival::{Arrival, ArrivalLog};
use crate::element_chain::ElementChain;
use crate::packet::Header;
use crate::simple_link::SimpleLink;
use crate::stats::{Count, ElementStats, PathStats, Queue};
use crate::{ConfigError, DropReason, Ecn, PathConfig, PathSample, Probability, Selection};

/// A packet that came out at the far end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Delivered<T> {
    /// The exact time at which it leaves the path, however late it was polled.
    pub at: Instant,
    /// Queueing delay: the time between its arrival at a bottleneck and the start of its own
    /// serialisation, of all bottlenecks together.
    pub queued: Duration,
    /// The time at which its last bit left the last bottleneck that it passed; on a path without
    /// one, the time at which it entered.
    pub left_queue: Instant,
    /// Its size on the wire.
    pub wire_bytes: u32,
    /// Its ECN codepoint now.
    pub ecn: Ecn,
    /// True if bits of it were changed on the way: a receiver's checksum would refuse it.
    pub corrupted: bool,
    /// The sender's payload.
    pub payload: T,
}

/// A packet that went no further.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Dropped<T> {
    /// The exact time of the drop.
    pub at: Instant,
    /// The reason for the drop.
    pub reason: DropReason,
    /// Its size on the wire.
    pub wire_bytes: u32,
    /// The sender's payload, handed back.
    pub payload: T,
}

/// An event of a path: a packet delivered or dropped.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Event<T> {
    /// A packet at the far end.
    Delivered(Delivered<T>),
    /// A packet dropped after it had been taken in: by an element that decides later, or behind one
    /// that holds packets. A path made from a [`Link`](crate::Link) decides every drop in
    /// [`Path::send`] and never gives this.
    Dropped(Dropped<T>),
}

impl<T> Event<T> {
    /// The time of the event.
    pub fn at(&self) -> Instant {
        match self {
            Self::Delivered(d) => d.at,
            Self::Dropped(d) => d.at,
        }
    }
}

/// One direction of a network path. `T` is what the caller needs to know its packet again: a
/// number, a buffer.
///
/// Time never goes back on a path: a call with an earlier time than one before counts as made at
/// the latest time so far.
#[derive(Debug)]
pub struct Path<T> {
    way: Carrier<T>,
    now: Instant,
    /// Only what is counted by the path itself: the rest is filled in for a sample.
    stats: PathStats,
    log: Option<Box<ArrivalLog>>,
}

/// The implementation that carries the packets.
#[derive(Debug)]
enum Carrier<T> {
    SimpleLink(SimpleLink<T>),
    Row(ElementChain<T>),
}

impl<T: Clone> Path<T> {
    /// A path of the row's elements; packets pass them from first to last.
    ///
    /// # Errors
    /// As [`PathConfig::validate`].
    pub fn new(config: &PathConfig) -> Result<Self, ConfigError> {
        config.validate()?;
        let way = match SimpleLink::new(config) {
            Some(plain) => Carrier::SimpleLink(plain),
            None => Carrier::Row(ElementChain::new(config)),
        };
        Ok(Self { way, now: Instant::default(), stats: PathStats::default(), log: None })
    }

    /// A packet enters the path at `now` and meets the queue as it is at `now`: everything due
    /// until then happens first. A plain number for its `header` is its size on the wire, IP and
    /// UDP headers included.
    ///
    /// # Errors
    /// The packet itself with the reason, when it is dropped on the spot.
    #[inline]
    pub fn send(
        &mut self,
        now: Instant,
        header: impl Into<Header>,
        payload: T,
    ) -> Result<(), Dropped<T>> {
        self.now = self.now.max(now);
        let header = header.into();
        self.stats.arrived.add(header.wire_bytes);
        if let Some(log) = &mut self.log {
            log.push(Arrival { at: self.now, header });
        }
        match &mut self.way {
            Carrier::SimpleLink(plain) => plain.send(self.now, header, payload, &mut self.stats),
            Carrier::Row(row) => row.send(self.now, header, payload, &mut self.stats),
        }
    }

    /// Keeps the time and the header of each packet that enters from now on, of `most` packets at
    /// most: 24 bytes each.
    pub fn record_arrivals(&mut self, most: usize) {
        self.log = Some(Box::new(ArrivalLog { most, arrivals: Vec::new() }));
    }

    /// The records, in the order in which the packets entered; nothing remains here. Where it is
    /// less than [`PathStats::arrived`], there was no room for the rest.
    pub fn take_arrivals(&mut self) -> Vec<Arrival> {
        self.log.take().map(|log| log.arrivals).unwrap_or_default()
    }

    /// The first bottleneck's rate is `rate` from `now` on, whatever steps or trace it had; the
    /// packet on the wire leaves as it began.
    ///
    /// # Errors
    /// Fails if the rate is 0 or there is no bottleneck.
    pub fn set_rate(&mut self, now: Instant, rate: Rate) -> Result<(), ConfigError> {
        if rate == Rate::ZERO {
            return Err(ConfigError::ZeroRate);
        }
        self.advance(now);
        match &mut self.way {
            Carrier::SimpleLink(plain) => plain.set_rate(self.now, rate),
            Carrier::Row(row) => row.set_rate(self.now, rate),
        }
    }

    /// Packets that enter from `now` on are lost with `probability`, in front of all other
    /// elements: instead of the loss that the row begins with, if it does.
    pub fn set_loss(&mut self, now: Instant, probability: Probability, seed: u64) {
        self.advance(now);
        match &mut self.way {
            Carrier::SimpleLink(plain) => plain.set_loss(probability, seed),
            Carrier::Row(row) => row.set_loss(probability, seed),
        }
    }

    /// The row's first reordering holds back these packets from `now` on, for as long as before.
    ///
    /// # Errors
    /// Fails if the selection makes no sense or there is no reordering.
    pub fn set_reordered(&mut self, now: Instant, packets: Selection) -> Result<(), ConfigError> {
        packets.validate()?;
        self.advance(now);
        match &mut self.way {
            Carrier::SimpleLink(_) => Err(ConfigError::NoReordering),
            Carrier::Row(row) => row.set_reordered(packets),
        }
    }

    /// The next time to call [`Self::poll`]: nothing is delivered before. `None` while nothing is
    /// inside. A poll at this time may still find nothing; then there is a later time. A packet
    /// that is dropped inside the path makes no wake of its own: it is handed back with the next
    /// poll.
    #[inline]
    pub fn next_event(&self) -> Option<Instant> {
        match &self.way {
            Carrier::SimpleLink(plain) => plain.next_event(),
            Carrier::Row(row) => row.next_event(),
        }
    }

    /// The next packet that came out until `now`, in the order of [`Event::at`].
    #[inline]
    pub fn poll(&mut self, now: Instant) -> Option<Event<T>> {
        self.now = self.now.max(now);
        match &mut self.way {
            Carrier::SimpleLink(plain) => {
                plain.poll(self.now, &mut self.stats).map(Event::Delivered)
            }
            Carrier::Row(row) => row.poll(self.now, &mut self.stats),
        }
    }

    /// Lets everything happen that is due until `now`.
    pub fn advance(&mut self, now: Instant) {
        self.now = self.now.max(now);
        if let Carrier::Row(row) = &mut self.way {
            row.advance(self.now);
        }
    }

    /// Counters up to the last call of [`Self::send`], [`Self::poll`] or [`Self::advance`].
    pub fn stats(&self) -> PathStats {
        self.sample(self.now).stats
    }

    /// The queue and the counters at `now`, without moving the path on: a look from outside that
    /// changes no event. The queue is exact as long as no element that holds packets is before the
    /// bottleneck and its discipline drops none that waits and keeps their order, as on a
    /// [`Link`](crate::Link); else it is as it was, less what the wire has carried since.
    pub fn sample(&self, now: Instant) -> PathSample {
        let at = self.now.max(now);
        let mut stats = self.stats;
        (stats.marked, stats.duplicated) = self.marked_and_duplicated();
        stats.inside = self.inside();
        let look = match &self.way {
            Carrier::SimpleLink(plain) => plain.look(at),
            Carrier::Row(row) => row.look(at),
        };
        let queue = match look {
            Some((queue, carried, max)) => {
                stats.carried = carried;
                (stats.max_queue_packets, stats.max_queue_bytes) = (max.packets, max.bytes);
                queue
            }
            None => {
                stats.carried = stats.delivered;
                Queue::default()
            }
        };
        PathSample { at, queue, stats }
    }

    /// Counters of each element, in the order of [`PathConfig::row`], up to the last call of
    /// [`Self::send`] or [`Self::advance`]. It visits every packet inside: do not call it once per
    /// packet.
    pub fn elements(&self) -> Vec<ElementStats> {
        match &self.way {
            Carrier::SimpleLink(plain) => plain.elements(self.now, &self.stats),
            Carrier::Row(row) => row.elements(self.now, self.stats.delivered),
        }
    }

    /// The latest time so far: nothing can happen before it any more.
    pub fn now(&self) -> Instant {
        self.now
    }

    /// Packets and bytes inside the path: waiting, on the wire, propagating, or due and not polled.
    pub fn inside(&self) -> Count {
        let (_, duplicated) = self.marked_and_duplicated();
        let PathStats { arrived, delivered, .. } = self.stats;
        arrived.plus(duplicated).minus(delivered).minus(self.stats.dropped())
    }

    fn marked_and_duplicated(&self) -> (Count, Count) {
        match &self.way {
            Carrier::SimpleLink(_) => (Count::default(), Count::default()),
            Carrier::Row(row) => row.marked_and_duplicated(),
        }
    }
}
