//! The congestion controller of a connection: one of ours, or one that comes with noq.

use std::sync::Arc;

use fullpipe_adapter::{CongestionControl, NoqAlgorithm};
use fullpipe_cc::{Config, Controller, Instant};
use noq::congestion::{Bbr3Config, ControllerFactory, CubicConfig, NewRenoConfig};

use crate::adapter::controller_factory;

/// True if CE marks have an answer. Where they have none, packets must not ask for them.
pub(crate) fn wants_ecn(cc: CongestionControl) -> bool {
    match cc {
        CongestionControl::Fullpipe(algorithm) => {
            Controller::new(algorithm, Config::new(0), Instant::default()).wants_ecn()
        }
        CongestionControl::Noq(_) => true,
    }
}

/// The factory that builds a controller for each path of each connection. `seed` determines the
/// randomised probe times of our algorithms; noq seeds its own.
pub(crate) fn factory(
    cc: CongestionControl,
    seed: u64,
) -> Arc<dyn ControllerFactory + Send + Sync> {
    match cc {
        CongestionControl::Fullpipe(algorithm) => controller_factory(algorithm, seed),
        CongestionControl::Noq(NoqAlgorithm::Bbr3) => Arc::new(Bbr3Config::default()),
        CongestionControl::Noq(NoqAlgorithm::Cubic) => Arc::new(CubicConfig::default()),
        CongestionControl::Noq(NoqAlgorithm::NewReno) => Arc::new(NewRenoConfig::default()),
    }
}
