//! Parts that the adapters of fullpipe's congestion control to QUIC stacks share: the batch of one
//! ACK, the marks that it counts, the data that the application has and the stack has not taken,
//! the stack's clock, names of algorithms, what a connection's controllers begin with and what they
//! tell, and (feature `timers`) timers that are finer than tokio's.
#![forbid(unsafe_code)]

mod batch;
mod clock;
pub mod frames;
mod marks;
mod names;
mod paths;
#[cfg(feature = "timers")]
mod timer;
mod unsent;
mod view;

pub use batch::Batch;
pub use clock::Clock;
pub use marks::{EcnCounts, Marks};
pub use names::{
    CongestionControl, NoqAlgorithm, UnknownCongestionControl, algorithm_by_name,
    register_algorithms,
};
pub use paths::PathConfigs;
#[cfg(feature = "timers")]
pub use timer::{Timer, Timers};
pub use unsent::{Unsent, Writer};
pub use view::View;
