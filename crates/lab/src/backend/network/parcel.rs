//! Packets on their way.

use fullpipe_path::Ecn;
use fullpipe_sim::{CrossPacket, Packet};

/// The numbers that queues tell flows and connections apart by are below this.
const NUMBERS: u32 = 1 << 30;

/// A packet of a flow on its way.
#[derive(Clone, Debug)]
pub(super) struct Parcel {
    flow: u32,
    number: u32,
    /// The packet; cross traffic has no bytes.
    pub(super) bytes: Vec<u8>,
}

/// The bytes of a packet that has arrived, and its field.
pub(super) type Arrived = (Vec<u8>, Ecn);

impl Parcel {
    /// A packet of this connection of a flow.
    pub(super) fn new(flow: u32, connection: u32, bytes: Vec<u8>) -> Self {
        Self { flow, number: (flow << 16 | connection & 0xFFFF) % NUMBERS, bytes }
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
