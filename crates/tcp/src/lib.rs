//! TCP in user space, sans-IO, with the congestion control of fullpipe-cc.
//!
//! `no_std` with `alloc`, no `unsafe`, no clock and no socket: packets and time come in as
//! arguments, so every behaviour can be repeated exactly. smoltcp reads and writes the packets;
//! states, buffers, loss recovery and pacing are this crate's.
//!
//! An [`Endpoint`] holds connections and listeners behind one or more addresses. Whoever has the
//! clock and the device drives it:
//!
//! 1. [`Endpoint::receive`] for each IP packet that arrives.
//! 2. [`Endpoint::transmit`] until it gives no packet any more.
//! 3. Sleep until a packet arrives or [`Endpoint::poll_at`]; then [`Endpoint::on_timer`], and from
//!    the start.
//!
//! ```
//! use fullpipe_cc::{Duration, Instant};
//! use fullpipe_tcp::{Config, Endpoint, Error};
//!
//! let (here, there) = ("10.0.0.1:0".parse().unwrap(), "10.0.0.2:80".parse().unwrap());
//! // Keys have to be random and secret where there are strangers.
//! let mut ends = [Endpoint::new([1; 16], 100), Endpoint::new([2; 16], 100)];
//! let mut now = Instant::default();
//! let listener = ends[1].listen(there, 16, &Config::default())?;
//! let client = ends[0].connect(now, here, there, &Config::default())?;
//!
//! let (mut packet, mut server, mut got) = (Vec::new(), None, [0; 16]);
//! loop {
//!     // A wire without a delay: what leaves one end arrives at the other one, until both are quiet.
//!     while let Some(i) = (0..2).find(|&i| ends[i].transmit(now, &mut packet)) {
//!         ends[1 - i].receive(now, &packet);
//!     }
//!     match server {
//!         None => {
//!             server = ends[1].accept(listener);
//!             if server.is_some() {
//!                 ends[0].write(now, client, b"hello")?;
//!             }
//!         }
//!         Some(handle) => match ends[1].read(handle, &mut got) {
//!             Err(Error::WouldBlock) => {}
//!             count => break assert_eq!(&got[..count?], b"hello"),
//!         },
//!     }
//!     // A real loop would sleep until then.
//!     now = ends.iter().filter_map(Endpoint::poll_at).min().unwrap_or(now).max(now);
//!     ends.iter_mut().for_each(|end| end.on_timer(now));
//!     assert!(now < Instant::default() + Duration::from_secs(1));
//! }
//! # Ok::<(), Error>(())
//! ```
//!
//! A [`Connection`] is one end of one connection by itself, driven in the same way. With the
//! feature `tokio` the module `tokio` does all this over a TUN device, and with the feature
//! `interface` the module `interface` over Ethernet and whatever else smoltcp has a device for,
//! without a standard library.
//!
//! # What is there
//!
//! The states of RFC 9293 with half-close, window scaling, timestamps and PAWS (RFC 7323), SACK and
//! DSACK (RFC 2018, 2883), RACK-TLP (RFC 8985), limited transmit (RFC 3042), the retransmission
//! timeout (RFC 6298), proportional rate reduction for `cubic` and `reno` (RFC 9937), spurious
//! retransmissions seen by timestamps (RFC 3522), DSACK (RFC 3708) and new data (F-RTO, RFC 5682),
//! a receive buffer that grows with what is read, delayed ACKs, zero-window probes, keep-alive,
//! Nagle's algorithm and corks, ECN (RFC 3168) and accurate ECN without its option (RFC 9768),
//! protection from blind attacks (RFC 5961), initial sequence numbers that cannot be guessed (RFC
//! 6528), data in SYNs (TCP Fast Open, RFC 7413), SYN cookies that keep options in timestamps (RFC
//! 4987), connections in place of those in TIME-WAIT (RFC 6191), path MTU discovery by probes and
//! by ICMP (RFC 8899), answers to what else ICMP says (RFC 5927), and the receiver's part of round
//! trips in an experimental option ([`Config::receiver_delay`]).
//!
//! There is no urgent data (RFC 6093 advises against it; it is read as any other). Fragments of IP
//! packets are not put together: this end's segments are no larger than the path carries, and a
//! peer's should not be, either. IPv6 extension headers are passed over ([`wire::parse`]).
//!
//! # Memory
//!
//! Is bounded by the configuration: [`Config::send_buffer`] and [`Config::receive_buffer`] for each
//! connection, a number of connections for the endpoint, a backlog for each listener, and
//! [`Endpoint::set_memory_limit`] for all connections together. Buffers grow with what is in them,
//! and a connection that is idle gives back what it does not use; one in TIME-WAIT that was
//! released keeps less than 200 bytes. The window of a peer begins with
//! [`Config::initial_receive_buffer`] and grows with what the application reads.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;
#[cfg(any(test, feature = "tokio"))]
extern crate std;

mod acks;
mod autotune;
mod config;
mod connection;
mod endpoint;
mod flight;
#[cfg(test)]
mod flight_tests;
#[cfg(feature = "interface")]
pub mod interface;
mod options;
mod path_mtu;
mod pieces;
mod rack;
mod receiver;
mod recovery;
mod rtt;
mod send_buffer;
mod sent;
mod seq;
mod spans;
#[cfg(all(feature = "tokio", unix))]
pub mod tokio;
mod virtio;
pub mod wire;

pub use config::{Config, Error};
pub use connection::{Connection, Info, Seeds, State};
pub use endpoint::{Counters, Endpoint, Handle, ListenerHandle};

/// The examples of README.md.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
pub struct Readme;
