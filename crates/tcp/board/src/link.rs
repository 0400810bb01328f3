//! A link in memory, in place of a board's network.

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use fullpipe_cc::{Duration, Instant, Rate};

const RATE: Rate = Rate::from_bits_per_sec(10_000_000);
const DELAY: Duration = Duration::from_millis(10);
/// Packets that are under way or wait.
const LIMIT: usize = 32;
/// One packet of as many is lost.
const LOSS: u32 = 100;

/// One direction: a rate, a delay, a limit of packets, and loss.
#[derive(Default)]
pub(crate) struct Link {
    packets: VecDeque<(Instant, Vec<u8>)>,
    /// The time at which the last packet has left.
    free: Instant,
    dice: u32,
    pub(crate) sent: u32,
    pub(crate) lost: u32,
}

impl Link {
    pub(crate) fn send(&mut self, now: Instant, packet: &[u8]) {
        self.sent += 1;
        self.dice = self.dice.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        if (self.dice >> 8).is_multiple_of(LOSS) || self.packets.len() >= LIMIT {
            self.lost += 1;
            return;
        }
        self.free = self.free.max(now) + RATE.time_for(packet.len() as u64);
        self.packets.push_back((self.free + DELAY, packet.to_vec()));
    }

    /// The time at which the next packet arrives.
    pub(crate) fn next(&self) -> Option<Instant> {
        self.packets.front().map(|(at, _)| *at)
    }

    /// The next packet that has arrived.
    pub(crate) fn receive(&mut self, now: Instant) -> Option<Vec<u8>> {
        self.packets.pop_front_if(|(at, _)| *at <= now).map(|(_, packet)| packet)
    }
}
