//! The adapter to noq, without a clock and without sockets.

mod adapter;
mod virtual_clock;
