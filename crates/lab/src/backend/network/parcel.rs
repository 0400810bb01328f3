//! Packets on their way.

use fullpipe_sim::{CrossPacket, Packet};

/// Queues from one flow to the next. It is odd, so that the first connections of flows have queues
/// of their own in any power of two of queues up to 2^16.
const STRIDE: u32 = 641;

/// A packet of a flow on its way.
#[derive(Clone, Debug)]
pub(in crate::backend) struct Parcel {
    flow: u32,
    number: u32,
    /// The packet; cross traffic has no bytes.
    pub(super) bytes: Vec<u8>,
}

impl Parcel {
    /// A packet of this connection of a flow.
    pub(super) fn new(flow: u32, connection: u32, bytes: Vec<u8>) -> Self {
        let queue = flow.wrapping_mul(STRIDE).wrapping_add(connection) & 0xFFFF;
        // The same of another connection is another number.
        Self { flow, number: (connection & 0x1FFF) << 16 | queue, bytes }
    }
}

impl From<CrossPacket> for Parcel {
    fn from(CrossPacket(number): CrossPacket) -> Self {
        Self { flow: number, number, bytes: Vec::new() }
    }
}

impl Packet for Parcel {
    fn flow(&self) -> u32 {
        self.flow
    }

    fn number(&self) -> u32 {
        self.number
    }

    /// One bit changes, each time another one: a checksum has to find it.
    fn corrupt(&mut self, before: u64) -> bool {
        let n = before + 1;
        let Some(at) = (n as usize * 7919).checked_rem(self.bytes.len()) else { return false };
        self.bytes[at] ^= 1 << (n % 8);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// FQ-CoDel has 1024 queues, and takes the number modulo them.
    #[test]
    fn the_first_connections_of_flows_have_queues_of_their_own() {
        let queue = |flow| Parcel::new(flow, 0, Vec::new()).number() % 1024;
        let queues: std::collections::HashSet<_> = (0..1024).map(queue).collect();
        assert_eq!(queues.len(), 1024);
    }
}
