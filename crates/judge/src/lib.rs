//! Programs and stacks of other people's on a path.
//!
//! [`program`] runs any command behind a link and sees its packets alone; [`program::judge`] gives
//! a verdict on its congestion control. [`peers`] installs other stacks by recipes and runs them.
#![forbid(unsafe_code)]

pub mod peers;
pub mod program;
