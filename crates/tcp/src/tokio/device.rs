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
}

impl Device for SyncDevice {
    fn receive(&self, to: &mut [u8]) -> io::Result<usize> {
        self.recv(to)
    }

    fn send(&self, packet: &[u8]) -> io::Result<usize> {
        Self::send(self, packet)
    }
}
