//! A connection segment by segment in virtual time, written from the RFCs: each test names the
//! section.

mod attacks;
mod closing;
mod data;
mod ecn;
mod endpoint;
mod handshake;
mod lab;
mod options;
mod recovery;
mod window;
