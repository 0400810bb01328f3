//! A token bucket that delays.

use fullpipe_units::{Instant, Rate};

use crate::pool::{Key, Pool};
use crate::queue::Fifo;
use crate::token_bucket::TokenBucket;
use crate::{Count, QueueLimit};

/// Holds packets back until the bucket has their bytes.
#[derive(Debug)]
pub(crate) struct Shaper {
    bucket: TokenBucket,
    bucket_bytes: u64,
    limit: QueueLimit,
    fifo: Fifo,
    /// The earliest time at which the first packet may leave.
    ready: Instant,
}

/// A shaper's decision on a packet.
pub(crate) enum Shaped {
    Passed,
    Held,
    NoRoom,
}

impl Shaper {
    pub(crate) fn new(rate: Rate, bucket_bytes: u64, limit: QueueLimit) -> Self {
        Self {
            bucket: TokenBucket::new(rate, bucket_bytes),
            bucket_bytes,
            limit,
            fifo: Fifo::default(),
            ready: Instant::default(),
        }
    }

    /// A packet larger than the bucket never has its tokens, and is dropped as one without room.
    pub(crate) fn enter(&mut self, pool: &Pool, now: Instant, key: Key) -> Shaped {
        let bytes = pool.bytes(key);
        if self.fifo.is_empty() && self.bucket.take(now, bytes) {
            return Shaped::Passed;
        }
        let fits = self.limit.has_room(self.fifo.size(), bytes);
        if !fits || u64::from(bytes) > self.bucket_bytes {
            return Shaped::NoRoom;
        }
        self.fifo.push(now, key, bytes);
        self.wait();
        Shaped::Held
    }

    fn wait(&mut self) {
        if let Some(front) = self.fifo.front() {
            self.ready = self.bucket.ready_at(front.bytes);
        }
    }

    pub(crate) fn next_exit(&self) -> Option<Instant> {
        if self.fifo.is_empty() { None } else { Some(self.ready) }
    }

    pub(crate) fn exit(&mut self, pool: &mut Pool) -> Option<Key> {
        let front = self.fifo.pop()?;
        let ready = self.ready;
        self.bucket.take(ready, front.bytes);
        let packet = &mut pool[front.key];
        packet.queued = packet.queued + ready.since(front.arrived);
        self.wait();
        Some(front.key)
    }

    pub(crate) fn held(&self) -> Count {
        self.fifo.size()
    }
}
