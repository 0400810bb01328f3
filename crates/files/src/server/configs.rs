//! The configuration with which a connection is accepted.

use std::net::SocketAddr;
#[cfg(feature = "qlog")]
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use fullpipe_noq::{CongestionControl, Controllers, TransportSettings};
use noq::congestion::{Controller, ControllerFactory};
use noq::{Incoming, ServerConfig, TransportConfig, VarInt};

use super::admission::Kept;
use super::by_name::ByName;
use super::known_paths::{KnownPaths, Taken, Usable};
use super::unacknowledged::Acknowledged;
use super::{Choose, ChooseByName, Limits};
use crate::http3::{self, server::UNI_STREAMS};
#[cfg(feature = "qlog")]
use crate::transport::log_to;

/// A client as its first packet shows it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Arrival {
    /// The address that it comes from.
    pub address: SocketAddr,
}

/// The parts of which transport configurations are made.
pub(super) struct Transports {
    pub(super) congestion: CongestionControl,
    pub(super) seed: u64,
    pub(super) settings: TransportSettings,
    pub(super) limits: Limits,
    #[cfg(feature = "qlog")]
    pub(super) qlog: Option<PathBuf>,
}

impl Transports {
    fn make(&self, congestion: CongestionControl, seed: u64, http3: bool) -> TransportConfig {
        let mut transport = self.settings.noq(congestion, seed);
        self.limits.apply_to(&mut transport);
        if http3 {
            transport.max_concurrent_uni_streams(VarInt::from_u32(UNI_STREAMS));
        }
        #[cfg(feature = "qlog")]
        log_to(&mut transport, self.qlog.as_deref());
        transport
    }
}

/// Makes the controllers of a connection.
pub(super) type Factory = Arc<dyn ControllerFactory + Send + Sync>;

/// Makes controllers, and is dropped when noq forgets their connection.
struct Keeping {
    inner: Factory,
    _kept: Arc<Kept>,
}

impl ControllerFactory for Keeping {
    fn build(self: Arc<Self>, now: Instant, mtu: u16) -> Box<dyn Controller> {
        self.inner.clone().build(now, mtu)
    }
}

fn controllers(congestion: CongestionControl, seed: u64, saved: Option<Usable>) -> Factory {
    let controllers = Controllers::new(congestion).with_seed(seed);
    Arc::new(match saved {
        Some(Usable { parameters, lifetime }) => {
            controllers.resuming(parameters).for_lifetime(lifetime.into())
        }
        None => controllers,
    })
}

/// The configurations of a server.
pub(super) struct Configs {
    hq: Arc<ServerConfig>,
    http3: Arc<ServerConfig>,
    transports: Transports,
    /// For all connections without a choice and without an earlier one, which probe at different
    /// times.
    usual: Factory,
    choose: Option<Choose>,
    choose_by_name: Option<ChooseByName>,
    known_paths: Option<Arc<KnownPaths>>,
    /// Connections that began with what an earlier one had.
    resumed: AtomicU64,
}

/// Seeds of those that resume begin so far from those of the others.
const FIRST_RESUMED: u64 = 1 << 32;

impl Configs {
    /// `server` has everything but the transport.
    pub(super) fn new(
        server: ServerConfig,
        transports: Transports,
        choose: Option<Choose>,
        choose_by_name: Option<ChooseByName>,
        known_paths: Option<Arc<KnownPaths>>,
    ) -> Self {
        let (congestion, seed) = (transports.congestion, transports.seed);
        let with = |http3| {
            let mut config = server.clone();
            config.transport_config(Arc::new(transports.make(congestion, seed, http3)));
            Arc::new(config)
        };
        let (hq, http3) = (with(false), with(true));
        let (usual, resumed) = (controllers(congestion, seed, None), AtomicU64::new(0));
        Self { hq, http3, transports, usual, choose, choose_by_name, known_paths, resumed }
    }

    /// The one with which the endpoint starts.
    pub(super) fn first(&self) -> ServerConfig {
        (*self.hq).clone()
    }

    /// The one for this client, its path with Careful Resume, and what it acknowledges. The first
    /// lives as long as noq keeps the connection. Whoever does not offer HTTP/3 may open no
    /// unidirectional streams.
    pub(super) fn of(
        &self,
        incoming: &Incoming,
        kept: &Arc<Kept>,
    ) -> (ServerConfig, Option<Taken>, Acknowledged) {
        let client = incoming.remote_address().ip();
        let now = Instant::now();
        let path = self.known_paths.as_ref().map(|paths| paths.take(client, now));
        let (saved, acknowledged) =
            (path.as_ref().and_then(|path| path.usable(now)), Default::default());
        let config = self.with(incoming, saved, &acknowledged, kept.clone());
        (config, path, acknowledged)
    }

    /// The one for a client to which a path leads that has left these parameters.
    fn with(
        &self,
        incoming: &Incoming,
        saved: Option<Usable>,
        acknowledged: &Acknowledged,
        kept: Arc<Kept>,
    ) -> ServerConfig {
        let http3 = may_speak_http3(incoming);
        let usual = if http3 { &self.http3 } else { &self.hq };
        let arrival = Arrival { address: incoming.remote_address() };
        let chosen = self.choose.as_ref().and_then(|choose| choose(&arrival));
        let mut config = ServerConfig::clone(usual);
        let Transports { mut congestion, seed, .. } = self.transports;
        let factory = if let Some((chosen, seed)) = chosen {
            log_choice(&arrival, chosen);
            congestion = chosen;
            controllers(chosen, seed, saved)
        } else if let Some(choose) = self.choose_by_name.clone() {
            let by_name = ByName::new(
                controllers(congestion, seed, saved),
                Arc::new(move |name| {
                    let (congestion, seed) = choose(&arrival, name)?;
                    log_choice(&arrival, congestion);
                    Some(controllers(congestion, seed, saved))
                }),
            );
            config.crypto = by_name.watch(config.crypto.clone());
            Arc::new(by_name)
        } else if saved.is_some() {
            // Factories that begin at one seed would let connections probe at the same times.
            let number = self.resumed.fetch_add(1, Ordering::Relaxed);
            let seed = seed.wrapping_add(FIRST_RESUMED).wrapping_add(number);
            controllers(congestion, seed, saved)
        } else {
            self.usual.clone()
        };
        let mut transport = self.transports.make(congestion, seed, http3);
        let inner = acknowledged.heard_by(factory);
        transport.congestion_controller_factory(Arc::new(Keeping { inner, _kept: kept }));
        config.transport_config(Arc::new(transport));
        config
    }
}

fn log_choice(arrival: &Arrival, congestion: CongestionControl) {
    tracing::debug!(peer = %arrival.address, %congestion, "congestion control of its own");
}

/// True if a client offers HTTP/3, as far as its first packet shows.
fn may_speak_http3(incoming: &Incoming) -> bool {
    let Some(mut offered) = incoming.decrypt().and_then(|packet| packet.alpns()) else {
        // The list is in a packet behind it.
        return true;
    };
    offered.any(|name| name.is_ok_and(|name| name == http3::ALPN))
}
