//! State of a packet, which the transport keeps beside it.

use core::mem::{align_of, size_of, transmute};

use fullpipe_cc::PacketState;

use crate::handle::{guard, read, write};
use crate::status::Status;

/// The largest packet or aggregate in bytes.
pub(crate) const MAX_BYTES: u32 = 131_071;

/// State of a packet. Keep it beside the packet from `fullpipe_on_sent` until the packet is
/// acknowledged, lost or discarded, and do not change it. It can be copied. Its size is the same in
/// all versions of this interface.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Packet {
    /// Private to the library.
    pub opaque: [u64; 6],
}

const _: () = assert!(size_of::<Packet>() == size_of::<PacketState>());
const _: () = assert!(align_of::<Packet>() == align_of::<PacketState>());

impl Packet {
    pub(crate) fn new(state: PacketState) -> Self {
        // SAFETY: both have the same size, and all six words of a PacketState are integers of 64
        // bits, so that none of its bytes is padding.
        Self { opaque: unsafe { transmute::<PacketState, [u64; 6]>(state) } }
    }

    /// The core's state. A packet of no bytes is none: `fullpipe_on_sent` makes no such packet.
    pub(crate) fn state(self) -> Result<PacketState, Status> {
        // SAFETY: both have the same size, and all six words of a PacketState are integers of 64
        // bits, of which every value is valid.
        let state = unsafe { transmute::<[u64; 6], PacketState>(self.opaque) };
        if state.size() == 0 { Err(Status::BadPacket) } else { Ok(state) }
    }
}

/// Splits the state of an aggregate that was sent as one packet: `first` gets its first `bytes`,
/// `rest` gets the others. Both must be at least 1. Use the parts from then on, and the whole no
/// more.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fullpipe_packet_split(
    packet: *const Packet,
    bytes: u32,
    first: *mut Packet,
    rest: *mut Packet,
) -> Status {
    guard(|| {
        // SAFETY: the caller's guarantee for `packet`.
        let whole = unsafe { read(packet) }?.state()?;
        if first.is_null() || rest.is_null() {
            return Err(Status::Null);
        }
        if bytes == 0 || u64::from(bytes) >= whole.size() {
            return Err(Status::BadArgument);
        }
        let parts = whole.split(bytes);
        // SAFETY: the caller's guarantee for `first` and `rest`.
        unsafe {
            write(first, Packet::new(parts.0))?;
            write(rest, Packet::new(parts.1))
        }
    })
}
