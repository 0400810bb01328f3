//! The receiving side of a flow: counts what the application can read, and decides when to
//! acknowledge (RFC 9000 section 13.2).

use std::collections::VecDeque;

use fullpipe_cc::{Duration, Instant};

use crate::MAX_ACK_DELAY;

/// An acknowledgement: everything in the receiver's log up to here. Like a QUIC ACK it repeats what
/// earlier ones said, so that the loss of one costs nothing.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ack {
    pub(crate) log_end: u64,
    /// Time between the arrival of the largest packet and this ACK.
    pub(crate) delay: Duration,
}

/// A piece of the application's data: the same in every packet that carries it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Chunk {
    pub(crate) id: u64,
    pub(crate) bytes: u32,
}

/// Packets that may arrive before an ACK is due, section 13.2.2.
const ACK_EVERY: u32 = 2;

#[derive(Debug, Default)]
pub(crate) struct Receiver {
    /// Numbers of the packets that arrived and that no ACK that reached the sender named.
    log: VecDeque<u64>,
    log_start: u64,
    largest: Option<(u64, Instant)>,
    unacked: u32,
    ack_deadline: Option<Instant>,
    /// Chunks from `next_chunk` on that arrived; the first one did not.
    ahead: VecDeque<Option<u32>>,
    next_chunk: u64,
    /// Bytes that the application could read in order so far.
    pub(crate) readable: u64,
}

impl Receiver {
    /// Takes a packet in; returns the ACK that it causes at once.
    pub(crate) fn on_packet(&mut self, now: Instant, pn: u64, chunk: Chunk) -> Option<Ack> {
        self.log.push_back(pn);
        self.read(chunk);
        let expected = self.largest.map_or(0, |(largest, _)| largest + 1);
        if pn >= expected {
            self.largest = Some((pn, now));
        }
        self.unacked += 1;
        // Out of order: the sender wants to know of the gap at once.
        if pn != expected || self.unacked >= ACK_EVERY {
            return Some(self.acknowledge(now));
        }
        self.ack_deadline = Some(now + MAX_ACK_DELAY);
        None
    }

    fn read(&mut self, chunk: Chunk) {
        let Some(i) = chunk.id.checked_sub(self.next_chunk) else { return };
        let i = i as usize;
        if self.ahead.len() <= i {
            self.ahead.resize(i + 1, None);
        }
        self.ahead[i] = Some(chunk.bytes);
        while let Some(Some(bytes)) = self.ahead.front() {
            self.readable += u64::from(*bytes);
            self.next_chunk += 1;
            self.ahead.pop_front();
        }
    }

    /// When a delayed ACK is due.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        self.ack_deadline
    }

    /// The ACK for everything so far.
    pub(crate) fn acknowledge(&mut self, now: Instant) -> Ack {
        self.unacked = 0;
        self.ack_deadline = None;
        Ack {
            log_end: self.log_start + self.log.len() as u64,
            delay: self.largest.map_or(Duration::ZERO, |(_, at)| now.since(at)),
        }
    }

    /// The next packet number that an ACK up to `log_end` tells and that was not told yet.
    pub(crate) fn next_acked(&mut self, log_end: u64) -> Option<u64> {
        if self.log_start >= log_end {
            return None;
        }
        self.log_start += 1;
        self.log.pop_front()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chunk(id: u64) -> Chunk {
        Chunk { id, bytes: 10 }
    }

    #[test]
    fn every_second_packet_is_acknowledged_and_a_gap_at_once() {
        let mut r = Receiver::default();
        let now = Instant::from_nanos(5);
        assert!(r.on_packet(now, 0, chunk(0)).is_none());
        assert_eq!(r.deadline(), Some(now + MAX_ACK_DELAY));
        assert_eq!(r.on_packet(now, 1, chunk(1)).map(|a| a.log_end), Some(2));
        assert_eq!(r.deadline(), None);
        assert_eq!(r.on_packet(now, 3, chunk(3)).map(|a| a.log_end), Some(3), "2 is missing");
        assert_eq!(r.on_packet(now, 2, chunk(2)).map(|a| a.log_end), Some(4), "the gap closes");
        assert!(r.on_packet(now, 4, chunk(4)).is_none());
    }

    #[test]
    fn an_ack_tells_what_a_lost_one_before_it_told() {
        let mut r = Receiver::default();
        for pn in 0..4 {
            r.on_packet(Instant::default(), pn, chunk(pn));
        }
        let told: Vec<u64> = std::iter::from_fn(|| r.next_acked(4)).collect();
        assert_eq!(told, [0, 1, 2, 3]);
        assert_eq!(r.next_acked(2), None, "an older ACK has nothing new");
    }

    #[test]
    fn the_application_reads_each_chunk_once_and_in_order() {
        let mut r = Receiver::default();
        for (pn, id, readable) in [(0, 0, 10), (1, 2, 10), (2, 2, 10), (3, 1, 30), (4, 0, 30)] {
            r.on_packet(Instant::default(), pn, chunk(id));
            assert_eq!(r.readable, readable, "after packet {pn}");
        }
    }
}
