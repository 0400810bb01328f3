//! An end of a flow's connection: a socket of the kernel's, or a stream of fullpipe-tcp over a TUN
//! device.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::pin::pin;
use std::sync::Arc;
use std::time;

use fullpipe_report::observe::FlowSample;
use fullpipe_tcp::Config;
use fullpipe_tcp::tokio::{TcpListener as UserListener, TcpStream as UserStream};
use fullpipe_traffic::SenderStats;
use nix::poll::PollFlags;
use socket2::Socket;
use tokio::time::timeout;

use super::flow::{NAP_MS, TcpFlow, abort_on_close, wait};
use super::info::TcpInfo;
use super::user_stack::UserStack;

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
    pub(super) fn connect(self, flow: &TcpFlow) -> io::Result<Option<TcpEnd>> {
        match self {
            Self::Kernel(socket) => {
                flow.prepare(&socket)?;
                let is_connected = flow.connect(&socket)?;
                Ok(is_connected.then(|| TcpEnd::Kernel(TcpStream::from(socket))))
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
                Ok(stream.map(|stream| TcpEnd::User(stream, stack)))
            }
        }
    }
}

/// A listener for the connections of a flow.
pub(super) enum Listener {
    Kernel(TcpListener),
    User(UserListener, Arc<UserStack>),
}

impl Listener {
    /// The next connection, if it is there within a nap, and the sender's port.
    pub(super) fn accept(&self) -> io::Result<Option<(TcpEnd, u16)>> {
        match self {
            Self::Kernel(listener) => {
                if !wait(listener, PollFlags::POLLIN)? {
                    return Ok(None);
                }
                let (stream, from) = listener.accept()?;
                stream.set_nonblocking(true)?;
                abort_on_close(&stream)?;
                Ok(Some((TcpEnd::Kernel(stream), from.port())))
            }
            Self::User(listener, stack) => {
                let accepted =
                    stack.runtime.block_on(async { timeout(NAP, listener.accept()).await });
                let Ok(accepted) = accepted else { return Ok(None) };
                let (stream, from) = accepted?;
                Ok(Some((TcpEnd::User(stream, Arc::clone(stack)), from.port())))
            }
        }
    }
}

/// A connected end.
pub(super) enum TcpEnd {
    Kernel(TcpStream),
    User(UserStream, Arc<UserStack>),
}

/// Longest wait of one call.
const NAP: time::Duration = time::Duration::from_millis(NAP_MS as u64);

impl TcpEnd {
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
