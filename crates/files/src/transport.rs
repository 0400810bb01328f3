//! The UDP sockets of server and client, and the qlog of their connections.

use std::net::{SocketAddr, UdpSocket};
#[cfg(feature = "qlog")]
use std::path::Path;
#[cfg(feature = "qlog")]
use std::sync::Arc;

#[cfg(feature = "qlog")]
use fullpipe_noq::QlogFiles;
#[cfg(feature = "qlog")]
use noq::TransportConfig;
use socket2::{Domain, Protocol, Socket, Type};

/// Lets each connection with this configuration write its qlog into a directory.
#[cfg(feature = "qlog")]
pub(crate) fn log_to(config: &mut TransportConfig, directory: Option<&Path>) {
    if let Some(directory) = directory {
        config.qlog_factory(Arc::new(QlogFiles::new(directory)));
    }
}

/// Bytes of a socket's buffers, as far as the system allows (net.core.rmem_max, wmem_max).
const BUFFER_BYTES: usize = 4 << 20;

fn told(set: std::io::Result<()>) {
    if let Err(error) = set {
        tracing::debug!(%error, "the buffers of a socket stay as they are");
    }
}

/// A UDP socket on `address`, as noq's own helpers make it: IPv6 answers IPv4 too. Its buffer for
/// what arrives is the system's: a larger one of a server lets strangers fill memory with
/// datagrams.
pub(crate) fn udp_socket(address: SocketAddr) -> std::io::Result<UdpSocket> {
    let socket = Socket::new(Domain::for_address(address), Type::DGRAM, Some(Protocol::UDP))?;
    if address.is_ipv6()
        && let Err(error) = socket.set_only_v6(false)
    {
        tracing::debug!(%error, "IPv6 only");
    }
    // A system may give more than that without being asked.
    if socket.send_buffer_size().unwrap_or(0) < BUFFER_BYTES {
        told(socket.set_send_buffer_size(BUFFER_BYTES));
    }
    socket.bind(&address.into())?;
    Ok(socket.into())
}

/// The socket of a client on `address`: what arrives while its thread does something else is not
/// lost.
pub(crate) fn client_udp_socket(address: SocketAddr) -> std::io::Result<UdpSocket> {
    let socket = udp_socket(address)?;
    let its = socket2::SockRef::from(&socket);
    if its.recv_buffer_size().unwrap_or(0) < BUFFER_BYTES {
        told(its.set_recv_buffer_size(BUFFER_BYTES));
    }
    Ok(socket)
}
