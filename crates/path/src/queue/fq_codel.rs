//! FQ-CoDel: a CoDel queue for each flow, served in turns (RFC 8290).

use std::collections::VecDeque;

use fullpipe_units::Instant;

use crate::pool::{Key, Pool};
use crate::queue::codel::CoDel;
use crate::queue::{Fifo, QueuedPacket};
use crate::{Count, DropReason, FqCoDelConfig};

/// The most packets that one overflow drops (RFC 8290 section 4.1).
const DROP_BATCH: u64 = 64;

/// One flow's queue.
#[derive(Debug)]
struct Flow {
    fifo: Fifo,
    codel: CoDel,
    /// Bytes that it may still send in this turn.
    credit: i64,
    /// True if it stands in one of the lists.
    listed: bool,
}

/// Queues by flow, the new ones before the old ones.
#[derive(Debug)]
pub(crate) struct FqCoDel {
    pub(super) config: FqCoDelConfig,
    flows: Vec<Flow>,
    new: VecDeque<usize>,
    old: VecDeque<usize>,
    size: Count,
}

impl FqCoDel {
    pub(crate) fn new(config: FqCoDelConfig) -> Self {
        let flow = |_| Flow {
            fifo: Fifo::default(),
            codel: CoDel::new(config.codel),
            credit: 0,
            listed: false,
        };
        Self {
            config,
            flows: (0..config.queues).map(flow).collect(),
            new: VecDeque::new(),
            old: VecDeque::new(),
            size: Count::default(),
        }
    }

    pub(crate) fn size(&self) -> Count {
        self.size
    }

    /// Section 4.1. Flow ids are numbers given in order, so the remainder spreads them better than
    /// any hash would: as long as there are fewer flows than queues, few share one.
    pub(crate) fn enqueue(
        &mut self,
        pool: &mut Pool,
        now: Instant,
        key: Key,
        held: Count,
    ) -> Result<(), DropReason> {
        let bytes = pool.bytes(key);
        let i = pool[key].header.flow as usize % self.flows.len();
        let flow = &mut self.flows[i];
        flow.fifo.push(now, key, bytes);
        self.size.add(bytes);
        if !flow.listed {
            flow.listed = true;
            flow.credit = i64::from(self.config.quantum_bytes);
            self.new.push_back(i);
        }
        if !self.config.codel.limit.has_room(held, bytes) {
            self.drop_from_the_fattest(pool);
        }
        Ok(())
    }

    /// Half of the longest queue goes, from its head, but no more than a batch. The RFC says half
    /// of its packets; Linux and ns-3 take half of its bytes, which is the same where packets are
    /// of one size.
    fn drop_from_the_fattest(&mut self, pool: &mut Pool) {
        let bytes = |flow: &Flow| flow.fifo.size().bytes;
        let Some(fattest) = self.flows.iter_mut().max_by_key(|flow| bytes(flow)) else { return };
        let enough = bytes(fattest) / 2;
        let mut dropped = 0;
        while dropped < DROP_BATCH && bytes(fattest) > enough {
            let Some(front) = fattest.fifo.pop() else { break };
            self.size.remove(front.bytes);
            pool.drop(DropReason::TailDrop, front.key);
            dropped += 1;
        }
        fattest.codel.overflowed(dropped);
    }

    /// Section 4.2.
    pub(crate) fn dequeue(&mut self, pool: &mut Pool, now: Instant) -> Option<QueuedPacket> {
        loop {
            let is_new = !self.new.is_empty();
            let i = *if is_new { self.new.front() } else { self.old.front() }?;
            let flow = &mut self.flows[i];
            if flow.credit <= 0 {
                flow.credit += i64::from(self.config.quantum_bytes);
                self.take(is_new);
                self.old.push_back(i);
                continue;
            }
            let before = flow.fifo.size();
            let others = self.size.bytes - before.bytes;
            let packet = flow.codel.dequeue(&mut flow.fifo, others, pool, now);
            self.size = self.size.minus(before).plus(flow.fifo.size());
            if let Some(packet) = packet {
                flow.credit -= i64::from(packet.bytes);
                return Some(packet);
            }
            self.take(is_new);
            // A new queue that ran empty has its turn among the old ones first, or it could come
            // back as new at once and starve them.
            if is_new {
                self.old.push_back(i);
            } else {
                self.flows[i].listed = false;
            }
        }
    }

    fn take(&mut self, is_new: bool) {
        let _ = if is_new { self.new.pop_front() } else { self.old.pop_front() };
    }
}
