//! The congestion controllers of connections: ours, or those that come with noq.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::Arc;
use std::time::Instant;

use fullpipe_adapter::{CongestionControl, Marks, NoqAlgorithm, PathConfigs};
use fullpipe_cc::{Algorithm, Config};
#[cfg(feature = "careful-resume")]
use fullpipe_cc::{Duration, SavedParameters};
use noq::congestion::{Bbr3Config, Controller, ControllerFactory, CubicConfig, NewRenoConfig};

use crate::controller::NoqController;

/// A factory for noq's `TransportConfig` that builds a controller for each path of each connection.
pub fn controllers(
    congestion: impl Into<CongestionControl>,
) -> Arc<dyn ControllerFactory + Send + Sync> {
    controllers_with_seed(congestion, RandomState::new().build_hasher().finish())
}

/// As [`controllers`], with a seed of the randomised probe times. Each path gets one of its own,
/// made from `seed` in the order in which they are built. noq's own algorithms take no seed.
pub fn controllers_with_seed(
    congestion: impl Into<CongestionControl>,
    seed: u64,
) -> Arc<dyn ControllerFactory + Send + Sync> {
    match congestion.into() {
        CongestionControl::Fullpipe(algorithm) => Arc::new(Controllers::new(algorithm, seed)),
        CongestionControl::Noq(NoqAlgorithm::Bbr3) => Arc::new(Bbr3Config::default()),
        CongestionControl::Noq(NoqAlgorithm::Cubic) => Arc::new(CubicConfig::default()),
        CongestionControl::Noq(NoqAlgorithm::NewReno) => Arc::new(NewRenoConfig::default()),
    }
}

/// As [`controllers_with_seed`], for one connection over a path whose parameters an earlier one has
/// left ([`NoqController::saved_parameters`]): Careful Resume, RFC 9959. The connection's first
/// path alone begins with them, within the rest of their `lifetime` and a minute. noq's own
/// algorithms take none.
#[cfg(feature = "careful-resume")]
pub fn controllers_resuming(
    congestion: impl Into<CongestionControl>,
    seed: u64,
    saved: SavedParameters,
    lifetime: Duration,
) -> Arc<dyn ControllerFactory + Send + Sync> {
    match congestion.into() {
        CongestionControl::Fullpipe(algorithm) => {
            let configs = PathConfigs::new(algorithm, seed).resuming(saved);
            Arc::new(Controllers(configs.for_lifetime(lifetime)))
        }
        of_noq @ CongestionControl::Noq(_) => controllers_with_seed(of_noq, seed),
    }
}

/// A factory of one connection's controllers, of one of our algorithms, with more than a seed.
#[derive(Debug)]
pub struct Controllers(PathConfigs);

impl Controllers {
    /// Those of an algorithm. Each path gets a seed of its randomised probe times, made from `seed`
    /// in the order in which they are built.
    pub fn new(algorithm: Algorithm, seed: u64) -> Self {
        Self(PathConfigs::new(algorithm, seed))
    }

    /// The same over a path whose parameters an earlier connection has left: Careful Resume, RFC
    /// 9959. The connection's first path alone begins with them.
    #[cfg(feature = "careful-resume")]
    #[must_use]
    pub fn resuming(self, saved: SavedParameters) -> Self {
        Self(self.0.resuming(saved))
    }

    /// The same where marks are those of L4S ([`fullpipe_cc::Config::ecn`]), whose number is in
    /// `marks`: the connection's packets leave as ECT(1), and its TLS is that of `l4s_client` of
    /// fullpipe-noq-repairs.
    #[must_use]
    pub fn hearing(self, marks: Marks) -> Self {
        Self(self.0.hearing(marks))
    }
}

impl ControllerFactory for Controllers {
    fn build(self: Arc<Self>, now: Instant, current_mtu: u16) -> Box<dyn Controller> {
        let (algorithm, config) = (self.0.algorithm(), self.0.next_config());
        let marks = self.0.marks();
        Box::new(NoqController::new(algorithm, config, now, current_mtu, marks))
    }
}

/// True if CE marks have an answer. Where they have none, packets must not ask for them.
pub(crate) fn wants_ecn(congestion: CongestionControl) -> bool {
    match congestion {
        CongestionControl::Fullpipe(algorithm) => {
            let start = fullpipe_cc::Instant::default();
            fullpipe_cc::Controller::new(algorithm, Config::new(0), start).wants_ecn()
        }
        CongestionControl::Noq(_) => true,
    }
}
