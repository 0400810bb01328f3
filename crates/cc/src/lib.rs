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
//!    [`AckBatch::acked`], [`AckBatch::lost`], [`AckBatch::timeout`] and the rest in any order,
//!    then [`AckBatch::finish`].
//! 3. [`Controller::on_app_limited`], [`Controller::on_spurious_loss`],
//!    [`Controller::on_mtu_update`] and [`Controller::on_migration`] when they happen.
//!
//! [`Controller::metrics`] returns the figures that a program may depend on,
//! [`Controller::snapshot`] all that the algorithm believes, by the draft's names.
//!
//! "The draft" is draft-ietf-ccwg-bbr throughout, in its edition of August 2026; a doc comment on
//! each function names the section, and a comment stands where we read it otherwise than it is
//! written.
//!
//! # Features
//!
//! - `bbr3`, `bbr3x`, `bbr3-linux`, `bbr3x-linux`, `bbr1`, `cubic`, `reno`: an algorithm each, all
//!   on by default. A [`Controller`] is as large as the largest that is on.
//! - `bbr-swift`: an algorithm for data centres, and [`AckBatch::receiver_delay`] with an effect.
//!   Off by default: the others' ACKs then carry no receiver's delay.
//! - `prague`: an algorithm for low-latency ECN (L4S, RFC 9330). Off by default.
//! - `l4s`: a response of `bbr3` and `bbr3x` to low-latency ECN, where [`Config::ecn`] says that
//!   marks mean that, and their fallback for queues whose marks do not. Off by default.
//! - `careful-resume`: [`Config::resume`] (RFC 9959). Off by default: controllers are then smaller.
//! - `custom`: algorithms of other crates (`CustomAlgorithm`). Needs an allocator.
//! - `serde`: serialisation of units, configuration, decisions and snapshots. An [`Instant`] and a
//!   [`Duration`] are nanoseconds, a [`Rate`] is bytes per second, a [`Gain`] is in 1/25600;
//!   algorithms, amendments and states are their names.
//! - `defmt`: `defmt::Format` for units, decisions and snapshots, for logs on microcontrollers.
#![no_std]
#![forbid(unsafe_code)]
// Some of what the algorithms share has no caller where the algorithms that need it are off.
#![cfg_attr(
    not(all(
        feature = "bbr3",
        feature = "bbr3x",
        feature = "bbr3-linux",
        feature = "bbr3x-linux",
        feature = "bbr-swift",
        feature = "prague",
        feature = "l4s",
        feature = "bbr1",
        feature = "cubic",
        feature = "reno"
    )),
    allow(dead_code, unused_imports, unused_variables)
)]

#[cfg(feature = "custom")]
extern crate alloc;
#[cfg(test)]
extern crate std;

mod algo;
mod algorithm;
mod amendments;
#[cfg(all(
    test,
    feature = "bbr3",
    feature = "bbr3x",
    feature = "bbr3-linux",
    feature = "bbr1",
    feature = "cubic",
    feature = "reno",
    feature = "prague"
))]
mod bandwidth_tests;
#[cfg(feature = "bbr1")]
mod bbr1;
#[cfg(any(
    feature = "bbr3",
    feature = "bbr3x",
    feature = "bbr3-linux",
    feature = "bbr3x-linux",
    feature = "bbr-swift"
))]
mod bbr3;
mod classic_queue;
mod config;
mod conn;
mod controller;
#[cfg(feature = "cubic")]
mod cubic;
#[cfg(feature = "cubic")]
mod cubic_linux;
#[cfg(feature = "custom")]
mod custom;
mod ecn_validation;
mod filter;
mod fixed;
#[cfg(any(feature = "serde", feature = "defmt"))]
mod formats;
mod hystart;
#[cfg(all(test, feature = "cubic", feature = "reno"))]
mod loss_based_tests;
mod options;
#[cfg(all(test, feature = "custom"))]
mod oracle;
mod pacer;
#[cfg(feature = "prague")]
mod prague;
mod prr;
mod rapid_start;
mod registry;
#[cfg(feature = "reno")]
mod reno;
#[cfg(feature = "careful-resume")]
mod resume;
mod rng;
mod round;
mod sampler;
mod search;
mod snapshot;
#[cfg(all(
    test,
    feature = "bbr3",
    feature = "bbr3x",
    feature = "bbr1",
    feature = "cubic",
    feature = "reno",
    feature = "prague"
))]
mod start_tests;
#[cfg(test)]
mod test_link;

pub use algo::{Congestion, CongestionControl, Marks, NotNow};
pub use algorithm::{Algorithm, UnknownAlgorithm};
pub use amendments::{Amendment, Amendments, UnknownAmendment};
pub use config::{AckFrequency, CREDIT_TIME, Config, Start, Transport};
pub use conn::Conn;
#[cfg(feature = "custom")]
pub use controller::built_in;
pub use controller::{AckBatch, BandwidthProbe, Controller, SendDecision};
#[cfg(feature = "custom")]
pub use custom::{CustomAlgorithm, CustomControl, NewControl};
pub use ecn_validation::EcnValidation;
pub use fullpipe_units as units;
#[doc(inline)]
pub use fullpipe_units::{Duration, Gain, Instant, Rate};
pub use options::{
    Bbr1Options, Bbr3LinuxOptions, Bbr3Options, Bbr3xLinuxOptions, Bbr3xOptions, BbrSwiftOptions,
    CubicOptions, CubicRules, DraftRules, PragueOptions, RenoOptions, StartupGains,
};
pub use prr::Prr;
#[cfg(feature = "careful-resume")]
pub use resume::{ResumePhase, SavedParameters};
pub use sampler::{PacketState, RateSample, RttSample};
pub use snapshot::{BbrSnapshot, Metrics, Snapshot, State};

/// The examples of README.md.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
pub struct Readme;
