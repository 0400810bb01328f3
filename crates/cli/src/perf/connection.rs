//! Connections of the kernel's TCP, and of ours behind a TUN device.

use std::io;
use std::net::{IpAddr, SocketAddr};

use fullpipe_cc::Algorithm;
use fullpipe_lab::{Cc, KernelCc};
use fullpipe_tcp::Config;
use fullpipe_tcp::tokio::{self as own, Stack};
use socket2::SockRef;
use tokio::net::{TcpListener, TcpSocket, TcpStream};

use super::Args;
use crate::failure::Failure;
use crate::tun::{Tun, algorithm};

/// Connections at one time of our TCP.
const CONNECTIONS: usize = 64;
/// Bytes of our TCP's largest buffers: more than most paths can hold.
const BUFFER_BYTES: usize = 64 << 20;
/// Connections that wait to be accepted.
const BACKLOG: u32 = 16;
/// The names of the kernel's algorithms.
const AVAILABLE: &str = "/proc/sys/net/ipv4/tcp_available_congestion_control";

/// A TCP to connect and to listen with.
pub(super) enum Transport {
    Kernel { cc: Option<KernelCc>, unsent: u32 },
    Own { stack: Stack, config: Box<Config>, name: String },
}

impl Transport {
    pub(super) fn of(args: &Args) -> Result<Self, Failure> {
        match (&args.tun, args.cc) {
            (None, None) => Ok(Self::Kernel { cc: None, unsent: args.unsent }),
            (None, Some(Cc::Kernel(cc))) => {
                check(cc)?;
                Ok(Self::Kernel { cc: Some(cc), unsent: args.unsent })
            }
            (None, Some(other)) => Err(Failure::bad_input(format!(
                "{other} is not the kernel's; write --cc linux:cubic, or --tun for this program's own TCP"
            ))),
            (Some(tun), None) => Self::own(tun, Algorithm::Bbr3, args.unsent),
            (Some(tun), Some(Cc::Program(cc))) => Self::own(tun, algorithm(cc)?, args.unsent),
            (Some(_), Some(other)) => Err(Failure::bad_input(format!(
                "{other} is not there over --tun: bbr3, bbr3x, bbr3-linux, bbr3x-linux, bbr1, cubic or reno"
            ))),
        }
    }

    fn own(tun: &Tun, algorithm: Algorithm, unsent: u32) -> Result<Self, Failure> {
        let (stack, mtu) = tun.start(CONNECTIONS)?;
        let config = Config {
            algorithm,
            mtu,
            unsent: unsent as usize,
            send_buffer: BUFFER_BYTES,
            receive_buffer: BUFFER_BYTES,
            nagle: false,
            ..Config::default()
        };
        let name = format!("{} over {}", algorithm.name(), tun.name());
        Ok(Self::Own { stack, config: Box::new(config), name })
    }

    /// Its name, in words.
    pub(super) fn name(&self) -> String {
        match self {
            Self::Kernel { cc: None, .. } => "the kernel's TCP".to_owned(),
            Self::Kernel { cc: Some(cc), .. } => format!("the kernel's TCP with {}", cc.name()),
            Self::Own { name, .. } => name.clone(),
        }
    }

    /// Connects to `to`; our TCP does so from an address of its own.
    pub(super) async fn connect(
        &self,
        from: Option<IpAddr>,
        to: SocketAddr,
    ) -> io::Result<Connection> {
        match self {
            Self::Kernel { cc, unsent } => {
                let socket = if to.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
                prepare(SockRef::from(&socket), *cc, *unsent)?;
                Ok(Connection::Kernel(socket.connect(to).await?))
            }
            Self::Own { stack, config, .. } => {
                let from = from.ok_or(io::ErrorKind::AddrNotAvailable)?;
                let from = SocketAddr::new(from, 0);
                Ok(Connection::Own(own::TcpStream::connect(stack, from, to, config).await?))
            }
        }
    }

    pub(super) fn listen(&self, at: SocketAddr) -> io::Result<Listener> {
        match self {
            Self::Kernel { cc, unsent } => {
                let socket = if at.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
                socket.set_reuseaddr(true)?;
                // What it accepts inherits these.
                prepare(SockRef::from(&socket), *cc, *unsent)?;
                socket.bind(at)?;
                Ok(Listener::Kernel(socket.listen(BACKLOG)?))
            }
            Self::Own { stack, config, .. } => {
                let listener = own::TcpListener::bind(stack, at, BACKLOG as usize, config)?;
                Ok(Listener::Own(listener, at))
            }
        }
    }

    /// Waits until what was written has arrived, but no longer than `grace`.
    pub(super) async fn shutdown(&self, grace: std::time::Duration) {
        if let Self::Own { stack, .. } = self {
            stack.shutdown(grace).await;
        }
    }
}

fn prepare(socket: SockRef<'_>, cc: Option<KernelCc>, unsent: u32) -> io::Result<()> {
    if let Some(cc) = cc {
        socket.set_tcp_congestion(cc.name().as_bytes())?;
    }
    socket.set_tcp_nodelay(true)?;
    socket.set_tcp_notsent_lowat(unsent)
}

/// Refuses an algorithm that the kernel does not have.
fn check(cc: KernelCc) -> Result<(), Failure> {
    let available = std::fs::read_to_string(AVAILABLE)
        .map_err(|error| Failure::run(format!("cannot read {AVAILABLE}: {error}")))?;
    if available.split_ascii_whitespace().any(|name| name == cc.name()) {
        return Ok(());
    }
    let there_are: Vec<_> =
        available.split_ascii_whitespace().map(|name| format!("linux:{name}")).collect();
    Err(Failure::bad_input(format!(
        "this kernel has no linux:{}; it has {}",
        cc.name(),
        there_are.join(", ")
    )))
}

pub(super) enum Listener {
    Kernel(TcpListener),
    Own(own::TcpListener, SocketAddr),
}

impl Listener {
    pub(super) fn address(&self) -> io::Result<SocketAddr> {
        match self {
            Self::Kernel(listener) => listener.local_addr(),
            Self::Own(_, address) => Ok(*address),
        }
    }

    pub(super) async fn accept(&self) -> io::Result<(Connection, SocketAddr)> {
        match self {
            Self::Kernel(listener) => {
                let (stream, peer) = listener.accept().await?;
                Ok((Connection::Kernel(stream), peer))
            }
            Self::Own(listener, _) => {
                let (stream, peer) = listener.accept().await?;
                Ok((Connection::Own(stream), peer))
            }
        }
    }
}

pub(super) enum Connection {
    Kernel(TcpStream),
    Own(own::TcpStream),
}

impl Connection {
    pub(super) async fn readable(&self) -> io::Result<()> {
        match self {
            Self::Kernel(stream) => stream.readable().await,
            Self::Own(stream) => stream.readable().await,
        }
    }

    pub(super) async fn writable(&self) -> io::Result<()> {
        match self {
            Self::Kernel(stream) => stream.writable().await,
            Self::Own(stream) => stream.writable().await,
        }
    }

    pub(super) fn try_read(&self, to: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Kernel(stream) => stream.try_read(to),
            Self::Own(stream) => stream.try_read(to),
        }
    }

    pub(super) fn try_write(&self, data: &[u8]) -> io::Result<usize> {
        match self {
            Self::Kernel(stream) => stream.try_write(data),
            Self::Own(stream) => stream.try_write(data),
        }
    }

    pub(super) async fn write_all(&self, mut data: &[u8]) -> io::Result<()> {
        while !data.is_empty() {
            self.writable().await?;
            match self.try_write(data) {
                Ok(count) => data = &data[count..],
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Segments that were sent again.
    pub(super) fn retransmitted_segments(&self) -> io::Result<u64> {
        match self {
            Self::Kernel(stream) => fullpipe_lab::retransmitted_segments(stream),
            Self::Own(stream) => Ok(stream.info()?.total_retrans),
        }
    }
}
