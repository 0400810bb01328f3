//! A connection segment by segment in virtual time, written from the RFCs: each test names the
//! section.

mod accurate_ecn;
mod acknowledge;
mod attacks;
mod closing;
mod data;
mod ecn;
mod endpoint;
mod fast_open;
mod handshake;
mod icmp;
mod lab;
mod no_sack;
mod options;
mod rack;
mod receiver_delay;
mod recovery;
mod small;
mod spurious;
mod time_wait;
mod timers;
mod window;
