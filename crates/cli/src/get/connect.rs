//! The connection to a server.

use std::net::SocketAddr;

use fullpipe_quic::noq::PathId;
use fullpipe_quic::{
    Client, ClientError, ClientOptions, Connector, TlsError, TransportSettings, Verify,
};

use super::Args;
use super::target::Target;
use crate::INITIAL_RTT;
use crate::failure::Failure;

/// A pipe that nobody reads for a while stops the flow; this keeps the connection. It is short, because a client that only
/// receives sends nothing when its server is gone, and hears of a server that was started anew only by an answer to what
/// it sends.
const KEEP_ALIVE: fullpipe_cc::Duration = fullpipe_cc::Duration::from_secs(2);

/// Another connection to a server that was reached before.
#[derive(Clone, Copy)]
pub(super) struct Again {
    pub(super) address: SocketAddr,
    /// Requests go in the first packets.
    pub(super) early: bool,
}

pub(super) fn connector(args: &Args) -> Result<Connector, Failure> {
    let verify = match &args.ca {
        Some(file) => Verify::Ca(file.clone()),
        None if args.insecure => Verify::Insecure,
        None => args.fingerprint.map_or(Verify::SystemRoots, Verify::Fingerprint),
    };
    let options = ClientOptions {
        congestion: args.cc,
        transport: TransportSettings {
            keep_alive: Some(KEEP_ALIVE),
            initial_rtt: Some(INITIAL_RTT),
            ..TransportSettings::default()
        },
        handshake_timeout: args.connect_timeout,
        cipher: args.ciphers,
        versions: args.quic_versions,
        alpn: args.alpn,
        migration: !args.no_migration,
        ..ClientOptions::default()
    };
    let connector = Connector::new(&verify, options).map_err(refused)?;
    Ok(match &args.qlog {
        Some(directory) => connector.with_qlog(directory),
        None => connector,
    })
}

pub(super) async fn connect(
    connector: &Connector,
    target: &Target,
    again: Option<Again>,
) -> Result<Client, Failure> {
    let host = &target.host;
    let client = match again {
        Some(Again { address, early: true }) => connector.connect_early(address, host).await,
        Some(Again { address, early: false }) => connector.connect(address, host).await,
        None => {
            let addresses: Vec<SocketAddr> = tokio::net::lookup_host((host.as_str(), target.port))
                .await
                .map_err(|error| Failure::run(format!("cannot find {host}: {error}")))?
                .collect();
            connector.connect_to_any(&addresses, host).await
        }
    };
    client.map_err(refused)
}

/// The address at which the server was reached.
pub(super) fn address(client: &Client) -> Option<SocketAddr> {
    client.connection().path(PathId::ZERO)?.remote_address().ok()
}

/// Bad input is what cannot work with any server.
fn refused(error: ClientError) -> Failure {
    const WAYS_OUT: &str = "--fingerprint or --ca says whom to trust, --insecure trusts anybody";
    match error {
        ClientError::Tls(error @ TlsError::NoSystemRoots) => {
            Failure::bad_input(format!("{error}; {WAYS_OUT}"))
        }
        ClientError::Tls(error) => Failure::bad_input(error),
        error @ ClientError::Untrusted { .. } => Failure::run(format!("{error}; {WAYS_OUT}")),
        error => Failure::run(error),
    }
}
