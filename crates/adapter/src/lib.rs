//! Parts that the adapters of fullpipe's congestion control to QUIC stacks share: the batch of one ACK, the
//! stack's clock, and timers that are finer than tokio's.
#![forbid(unsafe_code)]

mod batch;
mod clock;
mod timer;

pub use batch::Batch;
pub use clock::Clock;
pub use timer::{Timer, Timers};
