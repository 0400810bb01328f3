//! Step marking: everything above a threshold is marked (DCTCP's, RFC 8257 section 3.1).

use fullpipe_units::Instant;

use crate::pool::{Key, Pool};
use crate::queue::Fifo;
use crate::{Count, DropReason, QueueLimit, StepConfig};

/// A tail-drop queue that marks a packet which finds more than the threshold before it.
#[derive(Debug)]
pub(crate) struct Step {
    pub(super) config: StepConfig,
    pub(crate) fifo: Fifo,
}

impl Step {
    pub(crate) fn new(config: StepConfig) -> Self {
        Self { config, fifo: Fifo::default() }
    }

    pub(crate) fn enqueue(
        &mut self,
        pool: &mut Pool,
        now: Instant,
        key: Key,
        held: Count,
    ) -> Result<(), DropReason> {
        let bytes = pool.bytes(key);
        if !self.config.limit.has_room(held, bytes) {
            return Err(DropReason::TailDrop);
        }
        let above = match self.config.mark_above {
            QueueLimit::Bytes(b) => held.bytes > b,
            QueueLimit::Packets(p) => held.packets > p,
            // Refused.
            QueueLimit::Time(_) => false,
        };
        if above {
            pool.mark(key);
        }
        self.fifo.push(now, key, bytes);
        Ok(())
    }
}
