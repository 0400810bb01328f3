//! Programs and stacks of other people's on a path.
//!
//! [`program`] runs any command behind a link and sees its packets alone; [`program::judge`] gives
//! a verdict on its congestion control. [`capture`] tells the story of a flow from a file of
//! packets or a sender's log, on a path that is not known. [`quic`] opens packets of QUIC with
//! their keys. [`peers`] installs other stacks by recipes and runs them.
#![forbid(unsafe_code)]

pub mod capture;
pub mod peers;
pub mod program;
pub mod quic;
