//! A flow's sender: a socket of the kernel's, or a stream of fullpipe-tcp over a TUN device.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::pin::pin;
use std::sync::Arc;
use std::time;

use fullpipe_emu::tun::Host;
use fullpipe_sim::{Direction, FlowConfig, SenderStats};
use fullpipe_tcp::Config;
use fullpipe_tcp::tokio::{Stack, TcpStream as UserStream};
use nix::poll::PollFlags;
use socket2::Socket;
use tokio::runtime::{Builder, Runtime};
use tokio::time::timeout;

use super::flow::{NAP_MS, TcpFlow, wait};
use super::info::TcpInfo;
use super::testbed::{port, way};
use crate::backend::RunError;
use crate::backend::link::Link;
use crate::backend::tcp_user::settings;
use crate::observe::FlowSample;

/// Connections of a stack: one a flow.
const MAX_CONNECTIONS: usize = 1024;

/// A TCP in user space at one end of the link, which runs until this is dropped.
pub(super) struct UserStack {
    stack: Stack,
    address: Ipv4Addr,
    /// Its driver's.
    runtime: Runtime,
}

impl UserStack {
    pub(super) fn start(host: Host) -> Result<Arc<Self>, RunError> {
        let runtime = Builder::new_multi_thread()
            .worker_threads(1)
            .thread_name("fullpipe-tcp")
            .enable_all()
            .build()
            .map_err(RunError::Runtime)?;
        let stack = runtime.block_on(async { Stack::start(host.device, MAX_CONNECTIONS) });
        let stack = stack.map_err(RunError::Socket)?;
        Ok(Arc::new(Self { stack, address: host.address, runtime }))
    }
}

/// The stacks of a run, each made when a flow needs it.
#[derive(Default)]
pub(super) struct UserStacks {
    /// Behind the server's namespace, and behind the client's.
    all: [Option<Arc<UserStack>>; 2],
}

impl UserStacks {
    /// The sender of flow `i`.
    pub(super) fn sender(
        &mut self,
        link: &Link,
        i: usize,
        flow: &FlowConfig,
        unsent: usize,
    ) -> Result<Unconnected, RunError> {
        let (server, client) = link.namespaces().ok_or(RunError::Lost)?;
        let place = &mut self.all[way(flow.direction)];
        let stack = match place {
            Some(stack) => stack,
            None => place.insert(UserStack::start(match flow.direction {
                Direction::Down => Host::behind_server(server)?,
                Direction::Up => Host::behind_client(client)?,
            })?),
        };
        let config = Config { unsent, ..settings::of_flow(&settings::over_tcp(flow)) };
        // By this port the link knows whose the packets are.
        let port = if flow.direction == Direction::Up { port(i) } else { 0 };
        Ok(Unconnected::User { stack: Arc::clone(stack), port, config: Box::new(config) })
    }
}

/// A sender that is not connected yet.
pub(super) enum Unconnected {
    Kernel(Socket),
    /// The port is the sender's; 0 for any.
    User {
        stack: Arc<UserStack>,
        port: u16,
        config: Box<Config>,
    },
}

impl Unconnected {
    /// Connects it to the flow's receiver; nothing when the run ended first.
    pub(super) fn connect(self, flow: &TcpFlow) -> io::Result<Option<Sender>> {
        match self {
            Self::Kernel(socket) => {
                flow.prepare(&socket)?;
                let is_connected = flow.connect(&socket)?;
                Ok(is_connected.then(|| Sender::Kernel(TcpStream::from(socket))))
            }
            Self::User { stack, port, config } => {
                let local = SocketAddr::from((stack.address, port));
                let stream = stack.runtime.block_on(async {
                    let mut connecting =
                        pin!(UserStream::connect(&stack.stack, local, flow.to, &config));
                    let deadline = time::Instant::now() + flow.connect_timeout;
                    while !flow.has_ended() {
                        match timeout(NAP, &mut connecting).await {
                            Ok(done) => return done.map(Some),
                            Err(_) if time::Instant::now() > deadline => {
                                return Err(ErrorKind::TimedOut.into());
                            }
                            Err(_) => {}
                        }
                    }
                    Ok(None)
                })?;
                Ok(stream.map(|stream| Sender::User(stream, stack)))
            }
        }
    }
}

/// A connected sender.
pub(super) enum Sender {
    Kernel(TcpStream),
    User(UserStream, Arc<UserStack>),
}

/// Longest wait of one call.
const NAP: time::Duration = time::Duration::from_millis(NAP_MS as u64);

impl Sender {
    /// True if it takes data within a nap.
    pub(super) fn is_writable(&self) -> io::Result<bool> {
        match self {
            Self::Kernel(stream) => wait(stream, PollFlags::POLLOUT),
            Self::User(stream, stack) => in_a_nap(stack, stream.writable()),
        }
    }

    /// True if there is something to read within a nap.
    pub(super) fn is_readable(&self) -> io::Result<bool> {
        match self {
            Self::Kernel(stream) => wait(stream, PollFlags::POLLIN),
            Self::User(stream, stack) => in_a_nap(stack, stream.readable()),
        }
    }

    /// Writes what the transport takes now.
    pub(super) fn write(&self, data: &[u8]) -> io::Result<usize> {
        match self {
            Self::Kernel(stream) => (&mut &*stream).write(data),
            Self::User(stream, _) => stream.try_write(data),
        }
    }

    /// Reads what is there.
    pub(super) fn read(&self, to: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Kernel(stream) => (&mut &*stream).read(to),
            Self::User(stream, _) => stream.try_read(to),
        }
    }

    /// True if the other end has everything that was written.
    pub(super) fn is_all_acknowledged(&self) -> io::Result<bool> {
        Ok(match self {
            Self::Kernel(stream) => TcpInfo::of(stream)?.is_all_acknowledged(),
            Self::User(stream, _) => {
                let info = stream.info()?;
                info.unacked == 0 && info.notsent_bytes == 0
            }
        })
    }

    /// The sender now; nothing before its first round trip.
    pub(super) fn sample(&self) -> Option<FlowSample> {
        match self {
            Self::Kernel(stream) => TcpInfo::of(stream).ok()?.sample(),
            Self::User(stream, _) => {
                let info = stream.info().ok()?;
                Some(FlowSample {
                    rtt: Some(info.latest_rtt?),
                    srtt: info.rtt,
                    sender: SenderStats {
                        sent_packets: info.data_segs_out,
                        sent_bytes: info.bytes_sent,
                        // Every retransmission counts as a loss, as with the kernel's.
                        lost_packets: info.total_retrans,
                        lost_bytes: info.bytes_retrans,
                    },
                    ..FlowSample::of_model(stream.congestion().ok()?)
                })
            }
        }
    }
}

/// True if it happened within a nap.
fn in_a_nap(stack: &UserStack, event: impl Future<Output = io::Result<()>>) -> io::Result<bool> {
    let happened = stack.runtime.block_on(async { timeout(NAP, event).await });
    happened.map_or(Ok(false), |done| done.map(|()| true))
}
