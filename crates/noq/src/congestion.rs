//! The congestion controllers of connections: ours, or those that come with noq.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use fullpipe_adapter::{CongestionControl, NoqAlgorithm};
use fullpipe_cc::{Algorithm, Config};
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
        CongestionControl::Fullpipe(algorithm) => {
            Arc::new(Factory { algorithm, next_seed: AtomicU64::new(seed) })
        }
        CongestionControl::Noq(NoqAlgorithm::Bbr3) => Arc::new(Bbr3Config::default()),
        CongestionControl::Noq(NoqAlgorithm::Cubic) => Arc::new(CubicConfig::default()),
        CongestionControl::Noq(NoqAlgorithm::NewReno) => Arc::new(NewRenoConfig::default()),
    }
}

#[derive(Debug)]
struct Factory {
    algorithm: Algorithm,
    next_seed: AtomicU64,
}

impl ControllerFactory for Factory {
    fn build(self: Arc<Self>, now: Instant, current_mtu: u16) -> Box<dyn Controller> {
        let seed = self.next_seed.fetch_add(1, Ordering::Relaxed);
        Box::new(NoqController::new(self.algorithm, seed, now, current_mtu))
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
