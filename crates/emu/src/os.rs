//! Functions that differ between the systems: waiting, receiving, and the kernel's information
//! about packets.

use std::ops::Range;
use std::time::SystemTime;
use std::{io, net};

use fullpipe_path::Ecn;
use nix::errno::Errno;

#[cfg(target_os = "linux")]
mod linux;
#[cfg(target_os = "linux")]
use linux as system;
#[cfg(not(target_os = "linux"))]
mod portable;
#[cfg(not(target_os = "linux"))]
use portable as system;

pub(crate) use system::{
    ARRIVAL_TIME, MOST_DATAGRAMS, Receiver, SEES_KERNEL_DROPS, Waiter, configure, drops_at,
    own_drops, prepare_thread, send, socket_table,
};

/// The largest datagram, and the largest burst that the kernel hands over at once.
pub(crate) const BUFFER_BYTES: usize = 65_536;

/// The receive buffer that every socket of the link asks for: 300 ms at 200 Mbit/s, the longest
/// that a thread should ever be away.
pub(crate) const RECEIVE_BUFFER_BYTES: usize = 8 << 20;

/// One or more datagrams of one sender, read in one call.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Received {
    /// Bytes in the receiver's buffer.
    pub(crate) bytes: usize,
    /// The size of each datagram, the last may be shorter; `bytes` when there is one.
    pub(crate) segment: usize,
    /// The sender's address.
    pub(crate) from: Option<net::SocketAddr>,
    /// The time at which the kernel received them.
    pub(crate) stamp: Option<SystemTime>,
    /// Number of datagrams that the kernel has dropped on this socket so far.
    pub(crate) dropped: Option<u32>,
    /// Their ECN codepoint.
    pub(crate) ecn: Ecn,
}

impl Received {
    /// Position of each datagram in the receiver's buffer. A datagram may be empty.
    pub(crate) fn datagrams(&self) -> impl Iterator<Item = Range<usize>> + use<> {
        let (bytes, segment) = (self.bytes, self.segment.max(1));
        let datagrams = bytes.div_ceil(segment).max(1);
        (0..datagrams).map(move |i| i * segment..((i + 1) * segment).min(bytes))
    }
}

/// True if an error says that the peer's socket is not there (an ICMP answer to an earlier packet).
pub(crate) fn is_unreachable(e: &io::Error) -> bool {
    matches!(
        e.raw_os_error().map(Errno::from_raw),
        Some(Errno::ECONNREFUSED | Errno::EHOSTUNREACH | Errno::ENETUNREACH)
    )
}

/// Priority of a link's thread in the real-time class: above the desktop's audio, below the
/// kernel's own threads.
pub(crate) const LINK_PRIORITY: u8 = 50;

/// Asks for the real-time class with this priority, 0 to 99; whether it was given.
pub(crate) fn request_realtime(priority: u8) -> bool {
    use thread_priority::{
        RealtimeThreadSchedulePolicy, ThreadPriority, ThreadPriorityValue, ThreadSchedulePolicy,
        set_thread_priority_and_policy, thread_native_id,
    };
    let Ok(priority) = ThreadPriorityValue::try_from(priority) else { return false };
    set_thread_priority_and_policy(
        thread_native_id(),
        ThreadPriority::Crossplatform(priority),
        ThreadSchedulePolicy::Realtime(RealtimeThreadSchedulePolicy::Fifo),
    )
    .is_ok()
}
