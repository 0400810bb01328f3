//! fullpipe's congestion control for s2n-quic.
//!
//! An application gives its endpoint the provider [`Controllers`]; the README has an example.
//! s2n-quic keeps the core's state of each packet, asks when the next packet may leave, and gives
//! the pacer's quantum to its GSO: nothing else is needed.
//!
//! # What s2n-quic's trait does not report
//!
//! - **Each acknowledged packet.** It gives the newest of an ACK and the bytes of all, which is
//!   what the core needs (`AckBatch::acked_bytes`).
//! - **That the application has data which s2n-quic does not take.** Its `app_limited` says that it
//!   has nothing to send, also where the peer's flow control keeps the data: the application says
//!   whether it has some ([`Unsent`]).
//! - **Losses that were none** (spurious): `Controller::on_spurious_loss` is never called.
//! - **Migration to a path that is held to be the same**: s2n-quic builds a controller for each
//!   path.
//! - **The packets that are discarded with their keys**: it gives their bytes. The core's bytes in
//!   flight are corrected by them with the next ACK or loss, and at once for the window.
//!
//! One factory serves all connections of an endpoint here. So there is none for the saved parameters
//! or the marks of one connection, which `Controllers` of the adapters for noq and quinn has.
//!
//! s2n-quic counts time in microseconds, and lets a packet leave up to a millisecond before its
//! time: a burst of that length is what its pacing adds to the core's.
#![forbid(unsafe_code)]

mod controller;
mod flow;

use fullpipe_adapter::PathConfigs;
use s2n_quic::provider::congestion_controller::{Endpoint, PathInfo};

pub use controller::S2nController;
pub use fullpipe_adapter::{Unsent, Writer};
pub use fullpipe_cc::{Algorithm, Snapshot};

/// A congestion controller for each path of each connection of an endpoint.
#[derive(Debug)]
pub struct Controllers(PathConfigs);

impl Controllers {
    /// Those of an algorithm. The seed of the randomised probe times is drawn.
    pub fn new(algorithm: Algorithm) -> Self {
        Self(PathConfigs::new(algorithm))
    }

    /// The same with a seed, for runs that repeat. Each path gets one of its own, made from `seed`
    /// in the order in which they are built.
    #[must_use]
    pub fn with_seed(self, seed: u64) -> Self {
        Self(self.0.with_seed(seed))
    }
}

impl Endpoint for Controllers {
    type CongestionController = S2nController;

    fn new_congestion_controller(&mut self, path: PathInfo<'_>) -> S2nController {
        S2nController::new(self.0.algorithm(), self.0.next_config(), path.max_datagram_size)
    }
}

/// The example of the README is compiled and run.
#[doc = include_str!("../README.md")]
#[cfg(doctest)]
struct Readme;
