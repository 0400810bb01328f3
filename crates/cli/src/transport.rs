//! Connections of the kernel's TCP, and of ours behind a TUN device, with one interface.

use std::future::pending;
use std::io;
use std::net::{IpAddr, Shutdown, SocketAddr};

use fullpipe_cc::{Algorithm, Duration};
use fullpipe_scenario::units::parse_bytes;
use fullpipe_scenario::{Cc, KernelCc};
use fullpipe_tcp::Config;
use fullpipe_tcp::tokio::{self as own, Stack};
use socket2::{SockRef, TcpKeepalive};
use tokio::io::Interest;
use tokio::net::{TcpListener, TcpSocket, TcpStream};

use crate::failure::Failure;
use crate::tun::{Tun, algorithm};

/// The names of the kernel's algorithms.
const AVAILABLE: &str = "/proc/sys/net/ipv4/tcp_available_congestion_control";

/// Bytes that may wait unsent, of an argument.
pub(crate) fn unsent(text: &str) -> Result<u32, String> {
    let bytes = parse_bytes(text).map_err(|error| error.to_string())?;
    match u32::try_from(bytes).ok().filter(|bytes| (1..=1 << 30).contains(bytes)) {
        Some(bytes) => Ok(bytes),
        None => Err("it is from 1B to 1GiB, like 128KiB".to_owned()),
    }
}

/// Settings of connections.
#[derive(Clone, Copy)]
pub(crate) struct Settings {
    /// Bytes that wait unsent at most (TCP_NOTSENT_LOWAT).
    pub(crate) unsent: u32,
    /// Bytes of each buffer of our TCP at most. The kernel's are the system's.
    pub(crate) buffer: usize,
    /// Bytes of all connections of our TCP together at most.
    pub(crate) memory: Option<usize>,
    /// Connections at one time of our TCP.
    pub(crate) connections: usize,
    /// Connections that wait to be accepted.
    pub(crate) backlog: u32,
    /// Silence after which a probe asks whether the peer is there.
    pub(crate) keep_alive: Option<Duration>,
}

/// A TCP to connect and to listen with.
pub(crate) enum Transport {
    Kernel { cc: Option<KernelCc>, settings: Settings },
    Own { stack: Stack, config: Box<Config>, settings: Settings, name: String },
}

impl Transport {
    /// The kernel's with this congestion control, or ours behind a device.
    pub(crate) fn of(
        tun: Option<&Tun>,
        cc: Option<Cc>,
        settings: Settings,
    ) -> Result<Self, Failure> {
        match (tun, cc) {
            (None, None) => Ok(Self::Kernel { cc: None, settings }),
            (None, Some(Cc::Kernel(cc))) => {
                check(cc)?;
                Ok(Self::Kernel { cc: Some(cc), settings })
            }
            (None, Some(other)) => Err(Failure::bad_input(format!(
                "{other} is not the kernel's; write --cc linux:cubic, or --tun for this program's own TCP"
            ))),
            (Some(tun), None) => Self::own(tun, Algorithm::BBR3, settings),
            (Some(tun), Some(Cc::Program(cc))) => Self::own(tun, algorithm(cc)?, settings),
            (Some(_), Some(other)) => Err(Failure::bad_input(format!(
                "{other} is not there over --tun: bbr3, bbr3x, bbr3-linux, bbr3x-linux, bbr-swift, prague, bbr1, cubic or reno"
            ))),
        }
    }

    fn own(tun: &Tun, algorithm: Algorithm, settings: Settings) -> Result<Self, Failure> {
        let (stack, mtu) = tun.start(settings.connections)?;
        if let Some(bytes) = settings.memory {
            stack.set_memory_limit(bytes);
        }
        let config = Config {
            algorithm,
            mtu,
            unsent: settings.unsent as usize,
            send_buffer: settings.buffer,
            receive_buffer: settings.buffer,
            keep_alive: settings.keep_alive,
            nagle: false,
            ..Config::default()
        };
        let name = format!("{} over {}", algorithm.name(), tun.name());
        Ok(Self::Own { stack, config: Box::new(config), settings, name })
    }

    /// Its name, in words.
    pub(crate) fn name(&self) -> String {
        match self {
            Self::Kernel { cc: None, .. } => "the kernel's TCP".to_owned(),
            Self::Kernel { cc: Some(cc), .. } => format!("the kernel's TCP with {}", cc.name()),
            Self::Own { name, .. } => name.clone(),
        }
    }

    /// Connects to `to`; our TCP does so from an address of its own.
    pub(crate) async fn connect(
        &self,
        from: Option<IpAddr>,
        to: SocketAddr,
    ) -> io::Result<Connection> {
        match self {
            Self::Kernel { cc, settings } => {
                let socket = if to.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
                prepare(SockRef::from(&socket), *cc, settings)?;
                Ok(Connection::Kernel(socket.connect(to).await?))
            }
            Self::Own { stack, config, .. } => {
                let from = from.ok_or(io::ErrorKind::AddrNotAvailable)?;
                let from = SocketAddr::new(from, 0);
                Ok(Connection::Own(own::TcpStream::connect(stack, from, to, config).await?))
            }
        }
    }

    pub(crate) fn listen(&self, at: SocketAddr) -> io::Result<Listener> {
        match self {
            Self::Kernel { cc, settings } => {
                let socket = if at.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
                socket.set_reuseaddr(true)?;
                // What it accepts inherits these.
                prepare(SockRef::from(&socket), *cc, settings)?;
                socket.bind(at)?;
                Ok(Listener::Kernel(socket.listen(settings.backlog)?))
            }
            Self::Own { stack, config, settings, .. } => {
                let backlog = settings.backlog as usize;
                let listener = own::TcpListener::bind(stack, at, backlog, config)?;
                Ok(Listener::Own(listener, at))
            }
        }
    }

    /// Ends when our TCP has, whose device is gone. The kernel's does not end.
    pub(crate) async fn ended(&self) -> io::Error {
        match self {
            Self::Kernel { .. } => pending().await,
            Self::Own { stack, .. } => stack.ended().await,
        }
    }

    /// Waits until the peers have all of the connections, which are all over. The kernel sees to
    /// that by itself.
    pub(crate) async fn delivered(&self) {
        if let Self::Own { stack, .. } = self {
            stack.delivered().await;
        }
    }

    /// Waits until what was written has arrived, but no longer than `grace`.
    pub(crate) async fn shutdown(&self, grace: std::time::Duration) {
        if let Self::Own { stack, .. } = self {
            stack.shutdown(grace).await;
        }
    }
}

fn prepare(socket: SockRef<'_>, cc: Option<KernelCc>, settings: &Settings) -> io::Result<()> {
    if let Some(cc) = cc {
        socket.set_tcp_congestion(cc.name().as_bytes())?;
    }
    if let Some(idle) = settings.keep_alive {
        socket.set_tcp_keepalive(&TcpKeepalive::new().with_time(idle.into()))?;
    }
    socket.set_tcp_nodelay(true)?;
    socket.set_tcp_notsent_lowat(settings.unsent)
}

/// Refuses an algorithm that the kernel does not have.
pub(crate) fn check(cc: KernelCc) -> Result<(), Failure> {
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

pub(crate) enum Listener {
    Kernel(TcpListener),
    Own(own::TcpListener, SocketAddr),
}

impl Listener {
    pub(crate) fn address(&self) -> io::Result<SocketAddr> {
        match self {
            Self::Kernel(listener) => listener.local_addr(),
            Self::Own(_, address) => Ok(*address),
        }
    }

    pub(crate) async fn accept(&self) -> io::Result<(Connection, SocketAddr)> {
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

pub(crate) enum Connection {
    Kernel(TcpStream),
    Own(own::TcpStream),
}

impl Connection {
    pub(crate) async fn readable(&self) -> io::Result<()> {
        match self {
            Self::Kernel(stream) => stream.readable().await,
            Self::Own(stream) => stream.readable().await,
        }
    }

    pub(crate) async fn writable(&self) -> io::Result<()> {
        match self {
            Self::Kernel(stream) => stream.writable().await,
            Self::Own(stream) => stream.writable().await,
        }
    }

    pub(crate) fn try_read(&self, to: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Kernel(stream) => stream.try_read(to),
            Self::Own(stream) => stream.try_read(to),
        }
    }

    pub(crate) fn try_write(&self, data: &[u8]) -> io::Result<usize> {
        match self {
            Self::Kernel(stream) => stream.try_write(data),
            Self::Own(stream) => stream.try_write(data),
        }
    }

    pub(crate) async fn write_all(&self, mut data: &[u8]) -> io::Result<()> {
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

    /// No more is written; what was still arrives, and its end after it.
    pub(crate) fn close_write(&self) -> io::Result<()> {
        match self {
            Self::Kernel(stream) => SockRef::from(stream).shutdown(Shutdown::Write),
            Self::Own(stream) => stream.shutdown_write(),
        }
    }

    /// Ends when the connection was broken: it was reset, or its peer is gone.
    pub(crate) async fn broken(&self) -> io::Error {
        match self {
            Self::Kernel(stream) => match stream.ready(Interest::ERROR).await {
                Ok(_) => stream.take_error().ok().flatten().unwrap_or_else(broken),
                Err(error) => error,
            },
            Self::Own(stream) => stream.broken().await,
        }
    }

    /// Dropping it resets it.
    pub(crate) fn reset_on_drop(&self) -> io::Result<()> {
        match self {
            Self::Kernel(stream) => stream.set_zero_linger(),
            Self::Own(stream) => {
                stream.set_zero_linger();
                Ok(())
            }
        }
    }

    /// Segments that were sent again.
    pub(crate) fn retransmitted_segments(&self) -> io::Result<u64> {
        match self {
            Self::Kernel(stream) => fullpipe_lab::retransmitted_segments(stream),
            Self::Own(stream) => Ok(stream.info()?.total_retrans),
        }
    }
}

/// The reason of an end whose error somebody else has read.
fn broken() -> io::Error {
    io::ErrorKind::ConnectionReset.into()
}
