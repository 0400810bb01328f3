//! The path and the congestion control under a virtual clock.
//!
//! Each flow is a sender and a receiver with a whole transport between them and a real
//! [`fullpipe_cc::Controller`] inside. Flows share a link there and one back, a chain of links, or
//! any graph of them ([`topology`]); each link is a [`fullpipe_path::Path`]. No I/O, no clock but
//! the virtual one: the same configuration gives the same run, to the nanosecond.
//!
//! ```
//! use fullpipe_cc::{Algorithm, Duration, Instant, Rate};
//! use fullpipe_path::{Link, QueueLimit};
//! use fullpipe_sim::{FlowConfig, Sim, SimConfig};
//!
//! let delay = Duration::from_millis(20);
//! let downlink = Link {
//!     rate: Some(Rate::from_bits_per_sec(10_000_000)),
//!     queue: QueueLimit::Bytes(50_000),
//!     delay,
//!     ..Link::default()
//! };
//! let uplink = Link { delay, ..Link::default() };
//! let flows = vec![FlowConfig::bulk(Algorithm::BBR3, 1)];
//! let config = SimConfig::new(downlink.into(), uplink.into(), flows);
//! let mut sim = Sim::new(&config).expect("a sound path");
//! sim.run_until(Instant::default() + Duration::from_secs(3));
//! assert!(sim.flow(0).received() > 2_500_000);
//! ```
//!
//! # The transport
//!
//! - QUIC: packet numbers that are never used twice, ACKs with as many ranges as there are; loss by
//!   packet and time threshold, probe timeout, persistent congestion (RFC 9002); a loss that turns
//!   out to be none is told to the controller when the whole episode was none.
//! - TCP ([`FlowConfig::tcp_bulk`]): cumulative ACKs and the three newest SACK blocks (RFC 2018),
//!   round trips of the newest segment of an ACK, by timestamps (RFC 7323) where copies make that
//!   ambiguous; RACK-TLP (RFC 8985) with DSACK (RFC 2883), and a retransmission timeout (RFC 6298)
//!   with Linux's minimum. The window after idleness, PRR (RFC 9937) and quick ACKs are Linux's.
//! - Both: a handshake of one round trip, a host that is late by a random part of 0.1 ms, delayed
//!   ACKs, flow control with a fixed or a growing window, a send buffer.
#![forbid(unsafe_code)]

mod config;
mod ends;
mod flight;
mod flow;
mod host;
mod network;
mod outstanding;
mod pacer;
mod packet;
mod random;
mod receiver;
mod recovery;
mod reports;
mod scoreboard;
mod sender;
mod sim;
mod tcp;
mod timers;
pub mod topology;
mod window;
mod world;

pub use config::{
    Access, AckPolicy, DEFAULT_JITTER, FlowConfig, IPV4_TCP_HEADER_BYTES, PacedBy, ReceiveWindow,
    Reordering, Reroute, Route, RoutedTraffic, SimConfig, SimError, TcpConfig,
};
pub use ends::{Arrived, Ends, Io, Timer};
pub use flow::Flow;
pub use host::Host;
pub use network::{CrossPacket, Packet};
pub use random::Jitter;
pub use sim::Sim;
pub use world::World;

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

/// Size of a datagram that asks for an answer.
pub const REQUEST_BYTES: u32 = 100;

/// The examples of README.md.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
pub struct Readme;
