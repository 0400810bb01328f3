//! Packets on their way.

use fullpipe_cc::Instant;
use fullpipe_path::{Ecn, Header};
use fullpipe_sim::Link;

/// A packet on its way.
#[derive(Clone, Debug)]
pub(super) struct Parcel {
    pub(super) to: To,
    /// The packet; cross traffic has no bytes.
    pub(super) bytes: Vec<u8>,
    /// See [`super::Departure::connection`].
    pub(super) connection: u32,
}

/// The bytes of a packet that has arrived, and its field.
pub(super) type Arrived = (Vec<u8>, Ecn);

/// The receiver of a packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum To {
    Receiver(u32),
    Sender(u32),
    /// Of cross traffic, which nobody reads.
    Nobody(u32),
}

/// The header of a packet as the links see it: queues tell connections apart, and their directions.
pub(super) fn header(parcel: &Parcel, wire_bytes: u32) -> Header {
    let connection = parcel.connection & 0xFFFF;
    let flow = match parcel.to {
        To::Receiver(i) => i << 16 | connection,
        To::Sender(i) => (i << 16 | connection) ^ 1 << 31,
        To::Nobody(i) => u32::MAX - i,
    };
    Header { flow, wire_bytes, ecn: Ecn::NotEct }
}

/// Sends, and leaves what is dropped.
pub(super) trait SendOn {
    fn send_on(&mut self, now: Instant, header: Header, parcel: Parcel);
}

impl SendOn for Link<Parcel> {
    fn send_on(&mut self, now: Instant, header: Header, parcel: Parcel) {
        let _ = self.path.send(now, header, parcel);
    }
}
