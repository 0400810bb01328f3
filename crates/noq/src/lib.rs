#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

mod batch;
mod congestion;
mod controller;
mod not_ect;
#[cfg(feature = "qlog")]
mod qlog;
mod runtime;
mod transport;

pub use congestion::Controllers;
pub use controller::NoqController;
pub use fullpipe_adapter::{CongestionControl, Marks, NoqAlgorithm, Unsent, Writer};
pub use fullpipe_cc::{Algorithm, BandwidthProbe, NotNow, Rate, Snapshot};
#[cfg(feature = "careful-resume")]
pub use fullpipe_cc::{ResumePhase, SavedParameters};
#[cfg(feature = "qlog")]
pub use qlog::QlogFiles;
pub use runtime::runtime;
pub use transport::TransportSettings;
