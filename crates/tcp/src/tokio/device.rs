//! Devices that carry IP packets.

use std::io;
use std::os::fd::AsFd;

use tun_rs::SyncDevice;

/// A device that gives and takes one IP packet a call and does not block: its file descriptor tells
/// when it has one, or room for one.
pub trait Device: AsFd + Send + Sync + 'static {
    /// Reads a packet into `to`; its size, or 0 when the device has ended, and the stack with it.
    /// One over datagrams passes by empty ones itself.
    ///
    /// # Errors
    /// [`io::ErrorKind::WouldBlock`] when there is none. Others end the stack.
    fn receive(&self, to: &mut [u8]) -> io::Result<usize>;

    /// Sends a packet.
    ///
    /// # Errors
    /// [`io::ErrorKind::WouldBlock`] when there is no room. [`io::ErrorKind::BrokenPipe`] ends the
    /// stack; after any other the packet is lost.
    fn send(&self, packet: &[u8]) -> io::Result<usize>;

    /// True if each packet that it gives and takes has a virtio network header in front and may
    /// stand for many segments: see [`crate::Endpoint::receive_virtio`]. It costs several times
    /// less then.
    fn has_virtio_header(&self) -> bool {
        false
    }
}

/// With the virtio network header if it was built with `offload`.
impl Device for SyncDevice {
    fn receive(&self, to: &mut [u8]) -> io::Result<usize> {
        self.recv(to)
    }

    fn send(&self, packet: &[u8]) -> io::Result<usize> {
        Self::send(self, packet)
    }
    #[cfg(target_os = "linux")]
    fn has_virtio_header(&self) -> bool {
        self.tcp_gso()
    }
}
