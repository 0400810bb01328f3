//! A network path under the real clock: a UDP link on loopback, inside the process; and on Linux,
//! for root, between two network namespaces either a TUN link (`tun`), which is the same path, or
//! the kernel's own netem (`netem`), which is not.
//!
//! ```text
//! client A ──┐                  uplink path                  ┌── socket A' ──┐
//! client B ──┼── Emulator::addr ═══════════════════════════> ┼── socket B' ──┼── target
//! client C ──┘                 <═══════════════════════════  └── socket C' ──┘
//!                                downlink path
//! ```
//!
//! Clients send to [`Emulator::addr`] as if it were the server. Each new source address is a flow
//! with its own socket towards the target, so the server sees as many peers as there are clients.
//! All flows share one [`Path`](fullpipe_path::Path) in each direction: one bottleneck, one queue,
//! as on a real link. Nothing needs root or a network namespace, nothing leaves the machine unless
//! [`EmulatorConfig::listen`] makes it a relay, and everything ends when the [`Emulator`] is
//! dropped.
//!
//! ```no_run
//! use fullpipe_cc::{Duration, Rate};
//! use fullpipe_emu::{Emulator, EmulatorConfig};
//! use fullpipe_path::{Link, QueueLimit};
//!
//! let half = Link { delay: Duration::from_millis(20), ..Link::default() };
//! let link = Emulator::start(EmulatorConfig {
//!     uplink: half.into(),
//!     downlink: Link {
//!         rate: Some(Rate::from_bits_per_sec(100_000_000)),
//!         queue: QueueLimit::Bytes(500_000),
//!         ..half
//!     }
//!     .into(),
//!     ..EmulatorConfig::new("127.0.0.1:4433".parse()?)
//! })?;
//! println!("connect to {}", link.addr());
//! // ... run the transfer; meanwhile, from any thread:
//! println!("{} bytes in the queue", link.sample().downlink.queue.bytes);
//! let report = link.finish()?;
//! println!("queue p95: {} ns", report.downlink.queue_delay.value_at_quantile(0.95));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # What is true and how true it is
//!
//! The model is exact and the clock is not. The path computes the nanosecond at which each packet
//! leaves, and the link's thread sends it then or a little later, with others and as the machine
//! lets it. Therefore:
//!
//! - **Queue, drops, bytes and queueing delay are the model's** and do not depend on how late the
//!   thread was: a late wake delays what comes out, never what the bottleneck does.
//! - **Arrival is when the kernel received the packet** on Linux (`SO_TIMESTAMPNS`), also when the
//!   thread reads it later; packets of several flows enter the model in the order of these times.
//!   Elsewhere arrival is when the thread read the packet from its socket, which is later by as
//!   much as the thread was busy. [`LinkReport::host`] says which it was.
//! - **Lateness is measured**, for every packet in both directions: the time after the system call
//!   that sent it, minus the time at which the model let it go.
//! - **A packet that the kernel dropped before the model saw it is counted** on Linux
//!   ([`LinkReport::kernel_drops`]), and so is one that the link delivered and the endpoint's own
//!   full socket dropped ([`LinkReport::endpoint_drops`]). Elsewhere the kernel does not tell.
//! - **[`LinkReport::trusted`] is the verdict**: false when the p99 of the lateness is over
//!   [`LATENESS_BOUND`] or its p99.9 over [`STALL_BOUND`], or when a packet was lost anywhere
//!   outside the model. [`LinkReport::warning`] says it in a sentence.
//!
//! On Linux the link carries the ECN bits of the IP header, and a mark of the path arrives;
//! elsewhere every packet leaves as not ECN-capable. It has no MTU: a datagram of any size up to
//! 65507 bytes is one packet on it.
//!
//! # The thread
//!
//! One thread does everything. It sleeps in `ppoll` (`kevent` on macOS) until the next packet
//! leaves or arrives, with a timer slack of 1 ns where there is such a thing, and never spins. It
//! asks for the real-time class SCHED_FIFO and goes on without it when that is not permitted: on a
//! loaded machine that is the difference between a p99 lateness of 0.1 ms and of several. UDP GRO
//! lets it take a burst from a sender that uses GSO in one system call, and a packet whose arrival
//! the kernel has stamped is read when the next one leaves, if that is within a millisecond and
//! within the delay of both directions. At a bottleneck each packet has its own time to leave. A
//! packet whose time comes within 0.1 ms after others left, or within a hundredth of the fixed
//! delays of both directions where that is less, waits until that is over and leaves with those
//! behind it: a wake-up costs more than a packet. None leaves before its time, and the wait counts
//! as lateness. Those to one client go in one system call (UDP GSO) where they are of one size and
//! codepoint and the kernel can. The example `lateness` measures all this on the machine at hand.
#![forbid(unsafe_code)]

mod capture;
mod clients;
mod clock;
mod config;
mod cross;
mod emulator;
mod endpoints;
mod flows;
mod link;
mod model;
#[cfg(target_os = "linux")]
pub mod namespace;
#[cfg(target_os = "linux")]
pub mod netem;
#[cfg(target_os = "linux")]
mod netlink;
mod os;
mod outcome;
mod report;
#[cfg(target_os = "linux")]
pub mod tun;
#[cfg(target_os = "linux")]
pub mod user_namespace;
mod wake;
mod way_back;

pub use capture::CaptureReport;
pub use clients::Clients;
pub use config::{EmuError, EmulatorConfig, MAX_FLOWS, Rebinding, Rebound};
pub use emulator::{Emulator, LinkSample};
pub use fullpipe_path::{Arrival, Link, PathConfig, PathSample, PathStats, QueueLimit};
pub use report::{
    ArrivalTime, DirectionReport, HostReport, LATENESS_BOUND, LinkReport, STALL_BOUND,
};
