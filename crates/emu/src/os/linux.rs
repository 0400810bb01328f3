//! Linux: `ppoll` in nanoseconds, the kernel's stamps, its drop counters, and GRO.

use std::fs;
use std::io::{self, IoSlice, IoSliceMut};
use std::net::{IpAddr, SocketAddr, SocketAddrV4, SocketAddrV6, UdpSocket};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::os::unix::fs::MetadataExt;
use std::time::{Duration, SystemTime};

use fullpipe_path::Ecn;
use nix::cmsg_space;
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, ppoll};
use nix::sys::prctl::set_timerslack;
use nix::sys::socket::{
    ControlMessage, ControlMessageOwned, MsgFlags, SockaddrLike, SockaddrStorage, getsockopt,
    recvmsg, sendmsg, setsockopt, sockopt,
};
use nix::sys::time::TimeSpec;

use super::{BUFFER_BYTES, RECEIVE_BUFFER_BYTES, Received};
use crate::ArrivalTime;

pub(crate) const ARRIVAL_TIME: ArrivalTime = ArrivalTime::Kernel;
pub(crate) const SEES_KERNEL_DROPS: bool = true;

/// Largest number of datagrams that one call sends: all kernels with UDP GSO take so many.
pub(crate) const MOST_DATAGRAMS: usize = 64;

/// True if the kernel has UDP GSO (4.18). One without it ignores the control message, and sends all
/// as a single datagram.
pub(crate) fn sends_together(socket: impl AsFd) -> bool {
    getsockopt(&socket, sockopt::UdpGsoSegment).is_ok()
}

/// Sets up a socket of the link; the receive buffer that it got. Every option improves the
/// measurement and none is needed to carry packets, so a kernel without one is no error.
pub(crate) fn configure(socket: &UdpSocket) -> usize {
    // Root may pass the system's limit.
    if setsockopt(socket, sockopt::RcvBufForce, &RECEIVE_BUFFER_BYTES).is_err() {
        let _ = setsockopt(socket, sockopt::RcvBuf, &RECEIVE_BUFFER_BYTES);
    }
    let _ = setsockopt(socket, sockopt::ReceiveTimestampns, &true);
    let _ = setsockopt(socket, sockopt::RxqOvfl, &1);
    let _ = setsockopt(socket, sockopt::UdpGroSegment, &true);
    let _ = setsockopt(socket, sockopt::IpRecvTos, &true);
    let _ = setsockopt(socket, sockopt::Ipv6RecvTClass, &true);
    getsockopt(socket, sockopt::RcvBuf).unwrap_or(0)
}

/// Prepares the thread, once at its start.
pub(crate) fn prepare_thread() {
    // The default of 50 us would be half a packet's time at 100 Mbit/s.
    let _ = set_timerslack(1);
}

/// The buffers of one reading thread.
pub(crate) struct Receiver {
    data: Vec<u8>,
    control: Vec<u8>,
}

impl Receiver {
    pub(crate) fn new() -> Self {
        Self { data: vec![0; BUFFER_BYTES], control: cmsg_space!(TimeSpec, u32, i32, i32) }
    }

    /// Reads once, without waiting.
    pub(crate) fn receive(&mut self, socket: &UdpSocket) -> io::Result<Received> {
        let mut slices = [IoSliceMut::new(&mut self.data)];
        let message = recvmsg::<SockaddrStorage>(
            socket.as_raw_fd(),
            &mut slices,
            Some(&mut self.control),
            MsgFlags::MSG_DONTWAIT,
        )?;
        let bytes = message.bytes;
        let from = message.address.as_ref().and_then(socket_addr);
        let mut received =
            Received { bytes, segment: bytes, from, stamp: None, dropped: None, ecn: Ecn::NotEct };
        for control in message.cmsgs().into_iter().flatten() {
            match control {
                ControlMessageOwned::ScmTimestampns(t) => {
                    received.stamp = SystemTime::UNIX_EPOCH.checked_add(Duration::from(t));
                }
                ControlMessageOwned::RxqOvfl(n) => received.dropped = Some(n),
                ControlMessageOwned::UdpGroSegments(n) => {
                    received.segment = usize::try_from(n).unwrap_or(bytes);
                }
                ControlMessageOwned::Ipv4Tos(bits) => received.ecn = codepoint(bits),
                ControlMessageOwned::Ipv6TClass(bits) => received.ecn = codepoint(bits as u8),
                _ => {}
            }
        }
        Ok(received)
    }

    /// The bytes of `range` in the data that the last call read.
    pub(crate) fn data(&self, range: std::ops::Range<usize>) -> &[u8] {
        self.data.get(range).unwrap_or_default()
    }
}

/// The codepoint in a type of service or traffic class.
fn codepoint(bits: u8) -> Ecn {
    match bits & 3 {
        0 => Ecn::NotEct,
        1 => Ecn::Ect1,
        2 => Ecn::Ect0,
        _ => Ecn::Ce,
    }
}

/// Sends datagrams with their ECN bits, to the socket's peer where none is named: all of the size of
/// the first but the last, which may be smaller, and at most [`MOST_DATAGRAMS`].
pub(crate) fn send(
    socket: &UdpSocket,
    datagrams: &[IoSlice<'_>],
    ecn: Ecn,
    to: Option<SocketAddr>,
) -> io::Result<()> {
    let bits = match ecn {
        Ecn::NotEct => 0,
        Ecn::Ect1 => 1,
        Ecn::Ect0 => 2,
        Ecn::Ce => 3,
    };
    let (tos, class) = (bits, i32::from(bits));
    let mut control = Vec::with_capacity(2);
    // The usual case of one datagram needs no control message.
    if bits != 0 {
        let is_v4 = to.map_or_else(|| socket.local_addr(), Ok)?.is_ipv4();
        control.push(match is_v4 {
            true => ControlMessage::Ipv4Tos(&tos),
            false => ControlMessage::Ipv6TClass(&class),
        });
    }
    let segment = datagrams.first().map_or(0, |first| first.len()) as u16;
    if datagrams.len() > 1 {
        control.push(ControlMessage::UdpGsoSegments(&segment));
    }
    let to = to.map(SockaddrStorage::from);
    sendmsg(socket.as_raw_fd(), datagrams, &control, MsgFlags::empty(), to.as_ref())?;
    Ok(())
}

fn socket_addr(storage: &SockaddrStorage) -> Option<SocketAddr> {
    let v4 = || storage.as_sockaddr_in().map(|a| SocketAddrV4::from(*a).into());
    let v6 = || storage.as_sockaddr_in6().map(|a| SocketAddrV6::from(*a).into());
    storage.family().and(v4().or_else(v6))
}

/// Waits for sockets and for a time, to the nanosecond.
pub(crate) struct Waiter;

impl Waiter {
    pub(crate) fn new() -> io::Result<Self> {
        Ok(Self)
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
        let mut fds: Vec<PollFd<'a>> =
            sockets.map(|fd| PollFd::new(fd, PollFlags::POLLIN)).collect();
        match ppoll(&mut fds, timeout.map(TimeSpec::from_duration), None) {
            Ok(_) => {}
            Err(Errno::EINTR) => return Ok(()),
            Err(e) => return Err(e.into()),
        }
        let happened = |fd: &PollFd<'_>| fd.any().unwrap_or(true);
        ready.extend(fds.iter().enumerate().filter(|(_, fd)| happened(fd)).map(|(i, _)| i));
        Ok(())
    }
}

/// One UDP socket of the system.
pub(crate) struct SocketRow {
    local: SocketAddr,
    inode: u64,
    dropped: u64,
}

/// Every UDP socket of this network namespace. Reading takes up to some milliseconds: the kernel
/// walks its whole table.
pub(crate) fn socket_table() -> Option<Vec<SocketRow>> {
    let v4 = fs::read_to_string("/proc/self/net/udp").ok()?;
    // A system without IPv6 has no such file.
    let v6 = fs::read_to_string("/proc/self/net/udp6").unwrap_or_default();
    Some(v4.lines().chain(v6.lines()).filter_map(parse_row).collect())
}

/// `sl local remote st queues timer retransmits uid timeout inode references pointer drops`
fn parse_row(line: &str) -> Option<SocketRow> {
    let fields: Vec<&str> = line.split_ascii_whitespace().collect();
    let (ip, port) = fields.get(1)?.split_once(':')?;
    Some(SocketRow {
        local: SocketAddr::new(parse_ip(ip)?, u16::from_str_radix(port, 16).ok()?),
        inode: fields.get(9)?.parse().ok()?,
        dropped: fields.get(12)?.parse().ok()?,
    })
}

/// The kernel prints an address as numbers of 32 bits whose bytes lie as in memory.
fn parse_ip(hex: &str) -> Option<IpAddr> {
    let word = |i: usize| {
        let word = u32::from_str_radix(hex.get(8 * i..8 * i + 8)?, 16).ok()?;
        Some(word.to_ne_bytes())
    };
    if hex.len() == 8 {
        return Some(IpAddr::from(word(0)?));
    }
    let mut bytes = [0; 16];
    for (i, four) in bytes.chunks_exact_mut(4).enumerate() {
        four.copy_from_slice(&word(i)?);
    }
    Some(IpAddr::from(bytes))
}

/// Number of datagrams that the kernel has dropped on a socket of this process since it was made.
/// Unlike the counter that comes with each packet, this includes drops after the last packet that
/// was read.
pub(crate) fn own_drops(table: &[SocketRow], socket: &UdpSocket) -> Option<u32> {
    let inode = fs::metadata(format!("/proc/self/fd/{}", socket.as_raw_fd())).ok()?.ino();
    // The counter in the packets has 32 bits; this is the same one.
    table.iter().find(|row| row.inode == inode).map(|row| row.dropped as u32)
}

/// Number of datagrams that the kernel has dropped on the sockets that receive packets sent to
/// `peer`.
pub(crate) fn drops_at(table: &[SocketRow], peer: SocketAddr) -> u64 {
    let receives = |row: &&SocketRow| {
        let ip = row.local.ip();
        row.local.port() == peer.port() && (ip == peer.ip() || ip.is_unspecified())
    };
    table.iter().filter(receives).map(|row| row.dropped).sum()
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixDatagram;

    use super::*;

    #[test]
    fn only_a_socket_that_knows_how_sends_datagrams_together() {
        assert!(sends_together(UdpSocket::bind("127.0.0.1:0").expect("a socket")));
        assert!(!sends_together(UnixDatagram::unbound().expect("a socket")));
    }
}
