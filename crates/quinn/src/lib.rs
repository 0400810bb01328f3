#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

mod controller;
mod flight;
mod pacing;
mod path;
mod runtime;
mod socket;

pub use controller::{QuinnController, controllers, controllers_with_seed};
pub use fullpipe_cc::{Algorithm, Snapshot};
pub use pacing::{Grant, Pacing, Permit};
pub use runtime::runtime;
