//! The path and the congestion control under a virtual clock.
//!
//! Each flow is a sender and a receiver that recover from loss as QUIC does (RFC 9002: packet and
//! time threshold, probe timeout, persistent congestion; RFC 9000 section 13.2: delayed ACKs), with
//! a real [`fullpipe_cc::Controller`] in between. They share one downlink [`fullpipe_path::Path`],
//! the bottleneck, and one uplink for the ACKs. No I/O, no clock but the virtual one: the same
//! configuration gives the same run, to the nanosecond.
//!
//! ```
//! use fullpipe_cc::{Algorithm, Duration, Instant, Rate};
//! use fullpipe_path::{Link, QueueLimit};
//! use fullpipe_sim::{FlowConfig, Sim, SimConfig};
//!
//! let delay = Duration::from_millis(20);
//! let mut sim = Sim::new(&SimConfig {
//!     downlink: Link {
//!         rate: Some(Rate::from_bits_per_sec(10_000_000)),
//!         queue: QueueLimit::Bytes(50_000),
//!         delay,
//!         ..Link::default()
//!     }
//!     .into(),
//!     uplink: Link { delay, ..Link::default() }.into(),
//!     flows: vec![FlowConfig::bulk(Algorithm::Bbr3)],
//! })
//! .expect("a sound path");
//! sim.run_until(Instant::default() + Duration::from_secs(3));
//! assert!(sim.flow(0).received() > 2_500_000);
//! ```
#![forbid(unsafe_code)]

mod flight;
mod flow;
mod receiver;
mod recovery;
mod sender;
mod sim;

pub use flow::{Flow, FlowConfig, SenderStats};
pub use sim::{Sim, SimConfig};

/// Bytes of a datagram that are no application data: short header with an 8-byte connection ID and
/// a 4-byte packet number, AEAD tag, and the header of one STREAM frame (RFC 9000 sections 17.3.1
/// and 19.8, RFC 9001 section 5.3).
pub const OVERHEAD_BYTES: u32 = 1 + 8 + 4 + 16 + 8;

/// Size of a datagram that carries an ACK frame and nothing else.
pub const ACK_BYTES: u32 = 45;

/// kGranularity, RFC 9002 section 6.1.2.
pub const TIMER_GRANULARITY: fullpipe_cc::Duration = fullpipe_cc::Duration::from_millis(1);

/// The default max_ack_delay, RFC 9000 section 18.2.
pub const MAX_ACK_DELAY: fullpipe_cc::Duration = fullpipe_cc::Duration::from_millis(25);
