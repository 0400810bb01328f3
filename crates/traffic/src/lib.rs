//! Applications of flows without I/O: when they connect, write, ask and read, and the words for
//! what a flow did.
//!
//! [`Traffic`] is one flow's applications at both ends. Whoever moves the bytes drives it: the time
//! and all events come in as arguments, and the answer is an [`Action`]. [`Supply`] keeps what the
//! sender's application has written of what it has, for a transport that takes bytes when it has
//! room.
//!
//! Beside it are the words that all who carry flows share: [`Direction`], the counters
//! [`SenderStats`], the distributions [`Tally`], and the seeds of a run, [`stream_seed`].
#![forbid(unsafe_code)]

mod application;
mod media;
mod seed;
mod stats;
mod supply;
mod tally;
mod traffic;

pub use application::{Application, Direction};
pub use media::{Adapt, Media, MediaStats, SenderView};
pub use seed::{Stream, stream_seed};
pub use stats::{SenderStats, SentPacket};
pub use supply::Supply;
pub use tally::{Counted, FlowTallies, MAX_OWN_TALLIES, Tally};
pub use traffic::{Action, Reading, Traffic};

/// The examples of README.md.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
pub struct Readme;
