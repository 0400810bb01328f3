//! Benchmarks in a crate of their own, so that neither the core nor the simulator depends on the
//! stacks that they are compared with.
//!
//! `cargo bench -p fullpipe-bench --bench cost` counts instructions of an ACK and of a send,
//! `--bench speed` those of a simulated packet.
#![forbid(unsafe_code)]

pub mod peers;
pub mod report;
pub mod trace;
