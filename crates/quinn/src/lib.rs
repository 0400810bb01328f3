#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

mod controller;
mod flight;
mod l4s;
mod pacing;
mod path;
mod runtime;
mod socket;

pub use controller::{Controllers, QuinnController};
pub use fullpipe_adapter::{Marks, Unsent, Writer};
pub use fullpipe_cc::{Algorithm, BandwidthProbe, NotNow, Rate, Snapshot};
#[cfg(feature = "careful-resume")]
pub use fullpipe_cc::{ResumePhase, SavedParameters};
pub use l4s::l4s_client;
pub use pacing::{Grant, Pacing, Permit};
pub use runtime::runtime;
