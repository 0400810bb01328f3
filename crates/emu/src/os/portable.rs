//! macOS and the BSDs: `kevent` in nanoseconds, and one datagram a call.

use std::io::{self, IoSlice};
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::{AsRawFd, BorrowedFd};
use std::time::Duration;

use fullpipe_path::Ecn;
use nix::errno::Errno;
use nix::sys::event::{EvFlags, EventFilter, FilterFlag, KEvent, Kqueue};
use nix::sys::socket::{setsockopt, sockopt};
use nix::sys::time::TimeSpec;

use super::{BUFFER_BYTES, RECEIVE_BUFFER_BYTES, Received};
use crate::ArrivalTime;

pub(crate) const ARRIVAL_TIME: ArrivalTime = ArrivalTime::Read;
pub(crate) const SEES_KERNEL_DROPS: bool = false;

/// Largest number of datagrams that one call sends.
pub(crate) const MOST_DATAGRAMS: usize = 1;

/// Nothing of the kind is used here.
pub(crate) fn sends_together(_: &UdpSocket) -> bool {
    false
}

/// Sets up a socket of the link; the receive buffer that it got. These systems refuse a buffer
/// over their limit instead of giving what they can, so ask for less until they agree.
pub(crate) fn configure(socket: &UdpSocket) -> usize {
    let mut bytes = RECEIVE_BUFFER_BYTES;
    while bytes > BUFFER_BYTES && setsockopt(socket, sockopt::RcvBuf, &bytes).is_err() {
        bytes /= 2;
    }
    // The default is below the largest datagram.
    let _ = setsockopt(socket, sockopt::SndBuf, &(4 * BUFFER_BYTES));
    nix::sys::socket::getsockopt(socket, sockopt::RcvBuf).unwrap_or(0)
}

/// Prepares the thread, once at its start.
pub(crate) fn prepare_thread() {}

/// The buffer of one reading thread.
pub(crate) struct Receiver {
    data: Vec<u8>,
}

impl Receiver {
    pub(crate) fn new() -> Self {
        Self { data: vec![0; BUFFER_BYTES] }
    }

    /// Reads once, without waiting: the socket is non-blocking.
    pub(crate) fn receive(&mut self, socket: &UdpSocket) -> io::Result<Received> {
        let (bytes, from) = socket.recv_from(&mut self.data)?;
        Ok(Received {
            bytes,
            segment: bytes,
            from: Some(from),
            stamp: None,
            dropped: None,
            ecn: Ecn::NotEct,
        })
    }

    /// The bytes of `range` in the data that the last call read.
    pub(crate) fn data(&self, range: std::ops::Range<usize>) -> &[u8] {
        self.data.get(range).unwrap_or_default()
    }
}

/// Sends a datagram, without its ECN bits.
pub(crate) fn send(
    socket: &UdpSocket,
    datagrams: &[IoSlice<'_>],
    _: Ecn,
    to: Option<SocketAddr>,
) -> io::Result<()> {
    for data in datagrams {
        match to {
            Some(to) => socket.send_to(data, to)?,
            None => socket.send(data)?,
        };
    }
    Ok(())
}

/// Waits for sockets and for a time, to the nanosecond.
pub(crate) struct Waiter {
    queue: Kqueue,
    /// Number of registered sockets; further ones are only ever appended behind them.
    known: usize,
    events: Vec<KEvent>,
}

impl Waiter {
    pub(crate) fn new() -> io::Result<Self> {
        Ok(Self { queue: Kqueue::new()?, known: 0, events: vec![event(0, 0); 64] })
    }

    /// Waits until a socket is readable, closed at the other end, or in error, or until `timeout`
    /// has passed; puts the positions of such sockets into `ready`.
    pub(crate) fn wait<'a>(
        &mut self,
        sockets: impl Iterator<Item = BorrowedFd<'a>>,
        timeout: Option<Duration>,
        ready: &mut Vec<usize>,
    ) -> io::Result<()> {
        ready.clear();
        for (i, fd) in sockets.enumerate().skip(self.known) {
            self.queue.kevent(&[event(fd.as_raw_fd(), i)], &mut [], None)?;
            self.known = i + 1;
        }
        let timeout = timeout.map(|t| *TimeSpec::from_duration(t).as_ref());
        let happened = match self.queue.kevent(&[], &mut self.events, timeout) {
            Ok(n) => n,
            Err(Errno::EINTR) => 0,
            Err(e) => return Err(e.into()),
        };
        ready.extend(self.events.iter().take(happened).map(|e| e.udata() as usize));
        Ok(())
    }
}

/// A wish to hear of everything readable on `fd`, under the name `position`.
fn event(fd: i32, position: usize) -> KEvent {
    KEvent::new(
        fd as usize,
        EventFilter::EVFILT_READ,
        EvFlags::EV_ADD,
        FilterFlag::empty(),
        0,
        position as isize,
    )
}

/// One UDP socket of the system: nothing is told about any.
pub(crate) enum SocketRow {}

/// The kernel does not tell.
pub(crate) fn socket_table() -> Option<Vec<SocketRow>> {
    None
}

/// The kernel does not tell.
pub(crate) fn own_drops(_: &[SocketRow], _: &UdpSocket) -> Option<u32> {
    None
}

/// The kernel does not tell.
pub(crate) fn drops_at(_: &[SocketRow], _: SocketAddr) -> u64 {
    0
}
