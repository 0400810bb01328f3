//! Model of one direction of a network path.
//!
//! A [`Path`] is a row of elements that a packet passes one after the other: random loss, a
//! bottleneck with a tail-drop queue, propagation delay. It does no I/O and reads no clock. Whoever
//! holds the clock drives it, the simulator in virtual time and the emulator in real time, so one
//! description of a path means the same in both:
//!
//! ```
//! use fullpipe_units::{Duration, Instant, Rate};
//! use fullpipe_path::{Event, Link, Path, QueueLimit};
//!
//! let link = Link {
//!     rate: Some(Rate::from_bits_per_sec(100_000_000)),
//!     delay: Duration::from_millis(20),
//!     queue: QueueLimit::Bytes(500_000),
//!     ..Link::default()
//! };
//! let mut path = Path::new(&link.into())?;
//! let now = Instant::from_nanos(0);
//! assert!(path.send(now, 1_250, "first").is_ok()); // on the wire for 100 us
//! assert!(path.send(now, 1_250, "second").is_ok()); // waits for the first
//!
//! // Nothing leaves before `next_event`; however late the clock's holder comes, `at` is exact.
//! assert_eq!(path.next_event(), Some(now + Duration::from_micros(20_100)));
//! let late = now + Duration::from_millis(50);
//! let Some(Event::Delivered(first)) = path.poll(late) else { panic!("it is due") };
//! assert_eq!((first.payload, first.at.as_nanos()), ("first", 20_100_000));
//! let Some(Event::Delivered(second)) = path.poll(late) else { panic!("it is due") };
//! assert_eq!((second.payload, second.queued), ("second", Duration::from_micros(100)));
//! # Ok::<(), fullpipe_path::ConfigError>(())
//! ```
//!
//! # What is exact
//!
//! - Times are whole nanoseconds of the caller's clock. The end of a serialisation that falls
//!   between two nanoseconds is carried on exactly and reported as the later one: the rate is never
//!   exceeded, and a million packets drift by less than a nanosecond together.
//! - The same configuration and seed, sent the same packets at the same times, give the same
//!   events. How often or how late the path is polled changes nothing.
//! - Every packet that arrived has been delivered, dropped for a reason, or is still inside;
//!   [`PathStats`] says how many of each.
//!
//! # The order of things
//!
//! A [`PathConfig`] is a row of elements in any order, and [`Link`] a short way to write the one
//! that a link in the real world has: random loss first, then the bottleneck and its queue, then
//! the delay. A randomly lost packet therefore never reaches the queue and takes no share of the
//! rate.
//!
//! Of two things due in the same nanosecond, the one further down the path happens first: a packet
//! that leaves the bottleneck makes room for the one that arrives at that moment.
//!
//! # The elements
//!
//! | [`ElementConfig`] | what a packet meets | source |
//! |---|---|---|
//! | `Loss` | loss with one probability, by Gilbert and Elliott's chain (in the bad state `to_bad / (to_bad + to_good)` of the time), by number, in bursts, up to so many in a row | Gilbert 1960, Elliott 1963 |
//! | `Blackhole` | nothing passes from a start to an end | |
//! | `Corruption`, `Duplication` | a probability each; what is corrupted is delivered and says so | |
//! | `Marking` | a probability; what is ECN-capable is marked as having met congestion | RFC 3168 |
//! | `Mangling` | a probability; congestion experienced is written into any packet | RFC 9768 section 3.2.2.3 |
//! | `Bleaching` | a probability; the ECN field is cleared | RFC 9000 section 13.4.2 |
//! | `Policer` | passes while `bucket + rate x time` suffices, else is dropped | |
//! | `Shaper` | the same, but waits | |
//! | `Bottleneck` | serialisation for `bytes / rate`, and a queue | |
//! | `Delay`, `DelaySteps`, `Jitter` | propagation: fixed, in steps, uniform; in order always | |
//! | `Reordering` | every n-th or random packets held back | |
//! | `Aggregation` | batches by time and size, and ACK decimation | |
//!
//! A bottleneck's rate is constant, changes in steps, or follows a trace of delivery opportunities
//! ([`RateConfig`]; [`RateConfig::mahimahi`] reads one). Its queue ([`QueueConfig`]) is one of:
//!
//! | discipline | signal | source |
//! |---|---|---|
//! | `TailDrop` | drops what finds no room | |
//! | `Step` | marks above a threshold | RFC 8257 section 3.1 |
//! | `CoDel` | after an interval above the target, then each `interval / sqrt(n)` | RFC 8289 |
//! | `FqCoDel` | CoDel in each flow's queue, deficit round robin | RFC 8290 |
//! | `Pie` | `p += 0.125 (delay - target) + 1.25 (delay - before)`, scaled | RFC 8033 |
//! | `Red` | `p = max_p (average - min) / (max - min)`, spread evenly | Floyd and Jacobson 1993 |
//! | `DualPi2` | `p^2` for classic, `2p` and a ramp for low-latency packets | RFC 9332 appendix A |
//!
//! Times are integers everywhere. Where a discipline's formula needs fractions it is computed with
//! addition, multiplication, division and square root alone, which IEEE 754 makes the same on every
//! machine.
//!
//! # Adding an element
//!
//! An element holds packets' keys and says when it next does something with one (`element.rs`).
//! It decides at that moment what happens, so an element can mark or drop a packet that it takes
//! out of its queue, change its rate, or let packets overtake each other. Add the element's
//! module, its variant in `Element` and in [`ElementConfig`]; nothing else changes. A queue
//! discipline goes to `queue` and [`QueueConfig`] in the same way.
#![forbid(unsafe_code)]

mod aggregation;
mod arrival;
mod bottleneck;
mod config;
mod cross;
mod delay;
mod element;
mod element_chain;
mod exponential;
mod jitter;
mod line;
mod loss;
mod packet;
mod path;
mod pool;
mod probability;
mod queue;
mod queue_config;
mod rate_config;
mod reordering;
mod row;
mod schedule;
mod series;
mod shaper;
mod simple_link;
mod stats;
mod token_bucket;
mod wire;

pub use arrival::Arrival;
pub use config::{ConfigError, ElementConfig, Link, LossConfig, PathConfig, QueueLimit, Selection};
pub use cross::{Arrivals, CrossSource, CrossTraffic};
pub use exponential::Exponential;
pub use jitter::{Distribution, JitterConfig};
pub use packet::{Ecn, Header};
pub use path::{Delivered, Dropped, Event, Path};
pub use probability::Probability;
pub use queue_config::{
    CoDelConfig, DualPi2Config, FqCoDelConfig, PieConfig, QueueConfig, RedConfig, StepConfig,
};
pub use rate_config::{MahimahiReader, RateConfig, TraceError};
pub use series::Series;
pub use stats::{Count, DropReason, ElementStats, PathSample, PathStats, Queue};

/// Bytes that IPv4 (20) and UDP (8) add to a UDP payload. On the link a packet counts with them.
pub const IPV4_UDP_HEADER_BYTES: u32 = 28;

/// Bytes that IPv6 (40) and UDP (8) add to a UDP payload.
pub const IPV6_UDP_HEADER_BYTES: u32 = 48;

/// A full-sized packet on the wire: Ethernet's MTU. No queue may be smaller.
pub const MTU_BYTES: u32 = 1500;

/// The examples of README.md.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
pub struct Readme;
