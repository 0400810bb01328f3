//! Identifications of IPv4 packets that routers may cut into fragments.

use alloc::vec::Vec;

/// Counters, which pairs of addresses share, as in Linux: memory does not grow with the peers.
const COUNTERS: usize = 256;

/// RFC 6864 section 4.3: no number comes twice within the lifetime of a datagram between the same
/// addresses with the same protocol, so all connections between two addresses count together. Where
/// a pair's numbers begin is a secret, so that one peer learns nothing of the packets to another
/// (RFC 7739 section 5.3 has the same for IPv6).
#[derive(Debug, Default)]
pub(super) struct Idents {
    /// Empty before the first packet.
    counters: Vec<u16>,
}

impl Idents {
    /// The next number of the pair of addresses with the secret number `pair`.
    pub(super) fn get(&self, pair: u64) -> u16 {
        let count = self.counters.get(pair as usize % COUNTERS).copied().unwrap_or(0);
        count.wrapping_add((pair >> 48) as u16)
    }

    /// It was used.
    pub(super) fn advance(&mut self, pair: u64) {
        if self.counters.is_empty() {
            self.counters.resize(COUNTERS, 0);
        }
        let count = &mut self.counters[pair as usize % COUNTERS];
        *count = count.wrapping_add(1);
    }

    /// Bytes of memory.
    pub(super) fn memory(&self) -> usize {
        2 * self.counters.capacity()
    }
}
