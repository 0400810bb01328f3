//! QUIC packets of a capture, opened with the secrets that an end wrote down
//! (`SSLKEYLOGFILE`; RFC 9000, 9001 and 9369).

mod decrypt;
mod handshake;
mod trace;
mod wire;

pub use decrypt::KeyLog;
pub use handshake::Known;
pub(crate) use trace::Tracker;
pub use trace::{Datagram, Opened, Packet, Seen, Trace};
pub use wire::{Close, Frames, PacketType, Reader, V1, V2};
