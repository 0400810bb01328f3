//! Programs and stacks of other people's on a path.
//!
//! [`program`] runs any command behind a link and sees its packets alone; [`program::judge`] gives a
//! verdict on its congestion control. [`capture`] tells what a file of packets, or a sender's log,
//! shows of a flow on a path that is not known. [`peers`] installs other stacks by recipes and runs them.
#![forbid(unsafe_code)]

pub mod capture;
pub mod peers;
pub mod program;
