//! Flows of real stacks under a virtual clock: both ends of a flow are a stack that makes and reads
//! real packets, and between them are the links of the simulator.
//!
//! [`world`] has the flows on their network, [`flow`] is what an application does when, and
//! [`transport`] what a stack has to be able to do. A stack is a file of its own.

mod connection;
mod flow;
mod parcel;
mod steps;
mod transport;
mod world;

pub(super) use transport::{Departure, RECEIVER, Read, RttSample, SENDER, Seen, Stamp, Transport};
pub(super) use world::Stacks;
