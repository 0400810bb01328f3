//! One end of a WireGuard tunnel, as a device that carries IP packets.

use std::io;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::{Mutex, MutexGuard, PoisonError};

use boringtun::noise::{Tunn, TunnResult};
use boringtun::x25519::{PublicKey, StaticSecret};

/// Bytes of the largest datagram, and room for what WireGuard adds.
const LARGEST: usize = 65_536 + 32;

/// A tunnel to one peer over a UDP socket. A socket that does not block makes a device that does
/// not.
pub(crate) struct Tunnel {
    socket: UdpSocket,
    /// The address of this end in the tunnel.
    address: IpAddr,
    state: Mutex<State>,
    /// The datagram that has come last.
    arrived: Mutex<Vec<u8>>,
}

struct State {
    noise: Tunn,
    /// The address from which the last packet of the peer came. It may change: the keys say who the
    /// peer is.
    peer: Option<SocketAddr>,
    /// Packets that leave, and packets that have come.
    sealed: Vec<u8>,
    packet: Vec<u8>,
}

impl Tunnel {
    /// A tunnel with this end's private key to the peer with that public one. Without an address of
    /// the peer this end waits for it to call.
    pub(crate) fn new(
        socket: UdpSocket,
        keys: (StaticSecret, PublicKey),
        peer: Option<SocketAddr>,
        address: IpAddr,
    ) -> Self {
        // Who calls keeps the way through NATs open, as WireGuard's guides advise.
        let keep_alive = peer.map(|_| 25);
        let noise = Tunn::new(keys.0, keys.1, None, keep_alive, 1, None);
        let buffer = || vec![0; LARGEST];
        let state = State { noise, peer, sealed: buffer(), packet: buffer() };
        Self { socket, address, arrived: Mutex::new(buffer()), state: Mutex::new(state) }
    }

    /// [`Self::open`] and [`Self::seal`] wait for nothing from now on.
    pub(crate) fn set_nonblocking(&self) -> io::Result<()> {
        self.socket.set_nonblocking(true)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Encrypts a packet and sends it. While there is no session it is kept, and a handshake
    /// begins.
    pub(crate) fn seal(&self, packet: &[u8]) -> io::Result<()> {
        let state = &mut *self.lock();
        let sealed = state.noise.encapsulate(packet, &mut state.sealed);
        send(&self.socket, state.peer, &sealed)
    }

    /// Takes datagrams until one has a packet for this end, and copies that into `to`; its size.
    /// Answers handshakes.
    pub(crate) fn open(&self, to: &mut [u8]) -> io::Result<usize> {
        let arrived = &mut *self.arrived.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            let (count, from) = self.socket.recv_from(arrived)?;
            let state = &mut *self.lock();
            let mut input = &arrived[..count];
            loop {
                match state.noise.decapsulate(Some(from.ip()), input, &mut state.packet) {
                    TunnResult::WriteToTunnelV4(packet, _)
                    | TunnResult::WriteToTunnelV6(packet, _) => {
                        state.peer = Some(from);
                        if Tunn::dst_address(packet) == Some(self.address)
                            && packet.len() <= to.len()
                        {
                            to[..packet.len()].copy_from_slice(packet);
                            return Ok(packet.len());
                        }
                    }
                    answer @ TunnResult::WriteToNetwork(_) => {
                        // What could not leave is lost, as on any network.
                        let _ = send(&self.socket, Some(from), &answer);
                        // There may be more: packets that have waited for the session.
                        input = &[];
                        continue;
                    }
                    // A keep-alive, or a datagram of nobody who has the keys.
                    TunnResult::Done if !input.is_empty() => state.peer = Some(from),
                    TunnResult::Done | TunnResult::Err(_) => {}
                }
                break;
            }
        }
    }

    /// Does what is due: handshakes, keep-alives. To be called several times a second.
    pub(crate) fn tick(&self) {
        let state = &mut *self.lock();
        let due = state.noise.update_timers(&mut state.sealed);
        let _ = send(&self.socket, state.peer, &due);
    }
}

fn send(socket: &UdpSocket, to: Option<SocketAddr>, what: &TunnResult<'_>) -> io::Result<()> {
    if let (TunnResult::WriteToNetwork(datagram), Some(to)) = (what, to) {
        socket.send_to(datagram, to)?;
    }
    Ok(())
}

impl AsFd for Tunnel {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}
