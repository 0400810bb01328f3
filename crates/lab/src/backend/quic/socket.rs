//! Sockets of the two ends, with room for what arrives while their threads wait for a processor. A
//! datagram that is dropped there was lost by the machine and not by the path.

use std::io;
use std::net::{Ipv4Addr, UdpSocket};

use nix::sys::socket::{setsockopt, sockopt};

/// A third of a second at 100 Mbit/s.
const WANTED_BYTES: usize = 4 << 20;
/// Every system gives this much.
const LEAST_BYTES: usize = 64 << 10;

/// A socket on a free port of this address.
pub(super) fn open(at: Ipv4Addr) -> io::Result<UdpSocket> {
    let socket = UdpSocket::bind((at, 0))?;
    // Root may pass the system's limit.
    #[cfg(target_os = "linux")]
    if setsockopt(&socket, sockopt::RcvBufForce, &WANTED_BYTES).is_ok() {
        return Ok(socket);
    }
    // Linux gives what it can; macOS refuses, so ask for less until it agrees. With the default it
    // works as well, only not on a busy machine, and the link sees what is dropped.
    let mut bytes = WANTED_BYTES;
    while bytes > LEAST_BYTES && setsockopt(&socket, sockopt::RcvBuf, &bytes).is_err() {
        bytes /= 2;
    }
    Ok(socket)
}
