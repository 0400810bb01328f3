//! The congestion controllers of connections: ours, or those that come with noq.

use std::sync::Arc;
use std::time::Instant;

use fullpipe_adapter::{CongestionControl, Marks, NoqAlgorithm, PathConfigs};
use fullpipe_cc::Config;
#[cfg(feature = "careful-resume")]
use fullpipe_cc::{Duration, SavedParameters};
use noq::congestion::{Bbr3Config, Controller, ControllerFactory, CubicConfig, NewRenoConfig};

use crate::controller::NoqController;

/// A factory for noq's `TransportConfig`, which builds a controller for each path of each
/// connection. noq's own algorithms take none of what the methods set.
#[derive(Debug)]
pub struct Controllers(Kind);

#[derive(Debug)]
enum Kind {
    Ours(PathConfigs),
    Noq(NoqAlgorithm),
}

impl Controllers {
    /// Those of an algorithm. The seed of the randomised probe times is drawn.
    pub fn new(congestion: impl Into<CongestionControl>) -> Self {
        Self(match congestion.into() {
            CongestionControl::Fullpipe(algorithm) => Kind::Ours(PathConfigs::new(algorithm)),
            CongestionControl::Noq(algorithm) => Kind::Noq(algorithm),
        })
    }

    fn map(self, change: impl FnOnce(PathConfigs) -> PathConfigs) -> Self {
        match self.0 {
            Kind::Ours(configs) => Self(Kind::Ours(change(configs))),
            of_noq @ Kind::Noq(_) => Self(of_noq),
        }
    }

    /// The same with a seed, for runs that repeat. Each path gets one of its own, made from `seed`
    /// in the order in which they are built.
    #[must_use]
    pub fn with_seed(self, seed: u64) -> Self {
        self.map(|configs| configs.with_seed(seed))
    }

    /// The same for one connection over a path whose parameters an earlier one has left
    /// ([`NoqController::saved_parameters`]): Careful Resume, RFC 9959. The connection's first path
    /// alone begins with them.
    #[cfg(feature = "careful-resume")]
    #[must_use]
    pub fn resuming(self, saved: SavedParameters) -> Self {
        self.map(|configs| configs.resuming(saved))
    }

    /// The same for parameters that live for no more than `lifetime` from now on, and a minute at
    /// most.
    #[cfg(feature = "careful-resume")]
    #[must_use]
    pub fn for_lifetime(self, lifetime: Duration) -> Self {
        self.map(|configs| configs.for_lifetime(lifetime))
    }

    /// The same for one connection on which marks are those of L4S ([`fullpipe_cc::Config::ecn`]),
    /// whose number is in `marks`: the connection's packets leave as ECT(1), and its TLS is that of
    /// `l4s_client` of fullpipe-noq-repairs.
    #[must_use]
    pub fn with_marks(self, marks: Marks) -> Self {
        self.map(|configs| configs.with_marks(marks))
    }
}

impl ControllerFactory for Controllers {
    fn build(self: Arc<Self>, now: Instant, current_mtu: u16) -> Box<dyn Controller> {
        match &self.0 {
            Kind::Ours(configs) => {
                let (algorithm, config) = (configs.algorithm(), configs.next_config());
                let marks = configs.marks();
                Box::new(NoqController::new(algorithm, config, now, current_mtu, marks))
            }
            Kind::Noq(NoqAlgorithm::Bbr3) => {
                Arc::new(Bbr3Config::default()).build(now, current_mtu)
            }
            Kind::Noq(NoqAlgorithm::Cubic) => {
                Arc::new(CubicConfig::default()).build(now, current_mtu)
            }
            Kind::Noq(NoqAlgorithm::NewReno) => {
                Arc::new(NewRenoConfig::default()).build(now, current_mtu)
            }
        }
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
