//! HTTP/1.1 over TCP: the kernel's, or ours behind a TUN device.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use fullpipe_files::{CongestionControl, Limits, Server};
use fullpipe_tcp::tokio::Stack;
use fullpipe_tcp::{Config, tokio as own};
use tokio::net::{TcpListener, TcpStream};

use super::congestion;
use super::congestion::Rule;
use crate::failure::Failure;
use crate::tun::{Tun, algorithm};

/// Connections whose handshake is not over, and as many that wait to be accepted.
const BACKLOG: usize = 256;
/// Bytes that each connection may have written and not acknowledged, besides its part of the limit
/// for all.
const OWN_BYTES: u64 = 256 << 10;
/// Requests are small.
const RECEIVE_BUFFER: usize = 64 << 10;
/// Bytes that wait in the kernel before more is written to a connection of its TCP. Its send buffer,
/// which grows to megabytes, would else be full of what a client never reads.
const WAITING_BYTES: u32 = 256 << 10;
/// Pause after the system gave no connection, for want of descriptors.
const PAUSE: Duration = Duration::from_millis(200);

/// The switches of TCP.
#[derive(clap::Args)]
#[command(next_help_heading = "TCP")]
pub(super) struct TcpArgs {
    /// Serve over TCP as well, by HTTP/1.1 without TLS
    #[arg(long, value_name = "ADDRESS:PORT", value_parser = crate::parse_address)]
    tcp: Option<SocketAddr>,
    /// Take this program's own TCP with --cc in place of the kernel's, behind this TUN device; with
    /// the kernel's address on it, the device is made (root). ADDRESS of --tcp is one of the
    /// device's network, and not the kernel's
    #[arg(long, value_name = "NAME[=ADDRESS/PREFIX]", requires = "tcp")]
    tun: Option<Tun>,
}

/// A listener that serves as long as the runtime runs.
pub(super) struct TcpServer {
    address: SocketAddr,
    /// Name of its TCP, in words.
    over: String,
    stack: Option<Stack>,
}

impl TcpArgs {
    /// True if connections are the kernel's, each with a descriptor.
    pub(super) fn is_the_kernels(&self) -> bool {
        self.tcp.is_some() && self.tun.is_none()
    }

    /// Listens as the switches say; `None` without them.
    pub(super) async fn start(
        &self,
        server: &Arc<Server>,
        limits: &Limits,
        congestion: CongestionControl,
        rules: &[Rule],
    ) -> Result<Option<TcpServer>, Failure> {
        let Some(address) = self.tcp else { return Ok(None) };
        let cannot =
            |error| Failure::bad_input(format!("cannot listen on {address} over TCP: {error}"));
        let Some(tun) = &self.tun else {
            let listener = TcpListener::bind(address).await.map_err(cannot)?;
            let address = listener.local_addr().map_err(cannot)?;
            tokio::spawn(accept(listener, server.clone()));
            return Ok(Some(TcpServer {
                address,
                over: "the kernel's TCP".to_owned(),
                stack: None,
            }));
        };
        if address.port() == 0 || address.ip().is_unspecified() {
            return Err(Failure::bad_input(format!(
                "behind a TUN device --tcp needs an address and a port of its own, not {address}"
            )));
        }
        let rules = rules.to_vec();
        for rule in rules.iter().map(Rule::congestion).chain([congestion]) {
            algorithm(rule)?;
        }
        let (stack, mtu) = tun.start(limits.tcp_connections.saturating_add(BACKLOG))?;
        let config = Config { algorithm: algorithm(congestion)?, mtu, ..config(limits) };
        let listener = own::TcpListener::bind(&stack, address, BACKLOG, &config).map_err(cannot)?;
        tokio::spawn(accept_own(listener, server.clone(), rules));
        let over = format!("{} over {}", config.algorithm.name(), tun.name());
        Ok(Some(TcpServer { address, over, stack: Some(stack) }))
    }
}

impl TcpServer {
    /// Its place, for the line that announces the server.
    pub(super) fn name(&self) -> String {
        format!("tcp://{} ({})", self.address, self.over)
    }

    /// Waits until what was written has arrived, but no longer than `grace`, and ends the
    /// connections.
    pub(super) async fn shutdown(&self, grace: Duration) {
        if let Some(stack) = &self.stack {
            stack.shutdown(grace).await;
        }
    }
}

/// All connections over TCP together hold no more than those over QUIC may.
fn config(limits: &Limits) -> Config {
    let part = limits.send_memory / limits.tcp_connections.max(1) as u64;
    Config {
        send_buffer: usize::try_from(OWN_BYTES.saturating_add(part)).unwrap_or(usize::MAX),
        receive_buffer: RECEIVE_BUFFER,
        initial_receive_buffer: RECEIVE_BUFFER,
        nagle: false,
        ..Config::default()
    }
}

async fn accept(listener: TcpListener, server: Arc<Server>) {
    loop {
        match listener.accept().await {
            Ok((stream, peer)) => {
                // Answers leave in large writes.
                let _ = stream.set_nodelay(true);
                // What has no such option has a buffer that is bounded in any case.
                #[cfg(target_os = "linux")]
                let _ = socket2::SockRef::from(&stream).set_tcp_notsent_lowat(WAITING_BYTES);
                let own = stream.into_std();
                server.converse_apart(|| own.and_then(TcpStream::from_std), peer);
            }
            Err(error) => {
                tracing::debug!(%error, "no connection over TCP");
                tokio::time::sleep(PAUSE).await;
            }
        }
    }
}

async fn accept_own(listener: own::TcpListener, server: Arc<Server>, rules: Vec<Rule>) {
    loop {
        let (stream, peer) = match listener.accept().await {
            Ok(accepted) => accepted,
            Err(error) => return tracing::error!(%error, "no more connections over TCP"),
        };
        if let Some(Ok(algorithm)) = congestion::of_network(&rules, peer).map(algorithm) {
            stream.set_congestion(algorithm);
        }
        server.converse_apart(|| Ok(stream), peer);
    }
}
