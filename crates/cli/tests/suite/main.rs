//! What the command does without a clock, a port or rights.

#[path = "../common/mod.rs"]
mod common;
