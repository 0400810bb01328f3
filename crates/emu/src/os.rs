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
    own_drops, prepare_thread, send, sends_together, socket_table,
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

/// Largest size of datagrams that go together, after those of `segment` bytes were refused. Some
/// errors say nothing about the next time.
pub(crate) fn largest_together(now: usize, segment: usize, refusal: &io::Error) -> usize {
    match refusal.raw_os_error().map(Errno::from_raw) {
        // They are larger than the MTU, or the device does not complete checksums.
        Some(Errno::EINVAL | Errno::EMSGSIZE | Errno::EIO) => now.min(segment.saturating_sub(1)),
        _ => now,
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_size_that_was_refused_is_not_tried_again() {
        let after = |now, segment, errno: Errno| largest_together(now, segment, &errno.into());
        for refusal in [Errno::EINVAL, Errno::EMSGSIZE, Errno::EIO] {
            assert_eq!(after(usize::MAX, 1200, refusal), 1199);
            assert_eq!(after(1000, 1200, refusal), 1000);
            assert_eq!(after(usize::MAX, 1, refusal), 0);
        }
        assert_eq!(after(usize::MAX, 1200, Errno::ENOBUFS), usize::MAX);
        assert_eq!(after(usize::MAX, 1200, Errno::EAGAIN), usize::MAX);
    }
}
