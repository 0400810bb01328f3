//! BBRv3, BBRv1, CUBIC and NewReno for any transport.
//!
//! `no_std`, no allocation, no `unsafe`, integers only. The crate knows no transport, no clock and
//! no socket: time and bytes come in as arguments, so every behaviour can be repeated exactly.
//!
//! A transport calls a [`Controller`] in the order in which things happen:
//!
//! 1. [`Controller::can_send`] before a packet, [`Controller::on_sent`] after it; the returned
//!    [`PacketState`] stays beside the packet.
//! 2. [`Controller::ack`] for each ACK and each firing of the loss timer; in the batch
//!    [`AckBatch::acked`], [`AckBatch::lost`], [`AckBatch::timeout`] and the rest in any order, then [`AckBatch::finish`].
//! 3. [`Controller::on_app_limited`], [`Controller::on_spurious_loss`], [`Controller::on_mtu_update`] and
//!    [`Controller::on_migration`] when they happen.
//!
//! [`Controller::snapshot`] returns all that the algorithm believes, by the draft's names.
//!
//! "The draft" is draft-ietf-ccwg-bbr throughout, in its edition of August 2026; a doc comment on
//! each function names the section, and a comment stands where we read it otherwise than it is
//! written.
#![no_std]
#![forbid(unsafe_code)]

#[cfg(feature = "custom")]
extern crate alloc;
#[cfg(test)]
extern crate std;

mod algo;
mod bbr1;
mod bbr3;
mod config;
mod conn;
mod controller;
mod cubic;
mod cubic_linux;
#[cfg(feature = "custom")]
mod custom;
mod filter;
mod fixed;
mod hystart;
#[cfg(test)]
mod loss_based_tests;
mod pacer;
mod prr;
mod reno;
mod rng;
mod sampler;
mod snapshot;
#[cfg(test)]
mod test_link;
pub mod units;

pub use algo::{Congestion, CongestionControl, Marks};
pub use config::{
    AckFrequency, Algorithm, Amendment, Amendments, CREDIT_TIME, Config, CubicRules, StartupGains,
    Transport, UnknownAlgorithm, UnknownAmendment,
};
pub use conn::Conn;
pub use controller::{AckBatch, Controller, SendDecision};
#[cfg(feature = "custom")]
pub use custom::{CustomAlgorithm, CustomControl, built_in};
pub use prr::Prr;
pub use sampler::{PacketState, RateSample, RttSample};
pub use snapshot::{BbrSnapshot, Snapshot, State, StateChange, StateHook};
pub use units::{Duration, Gain, Instant, Rate};
