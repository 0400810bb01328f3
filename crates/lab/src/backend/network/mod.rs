//! Flows of real stacks under a virtual clock: both ends of a flow are a stack that makes and reads
//! real packets, and between them are the links of the simulator.
//!
//! [`flow`] is what its applications do when and what happens to its ends, and [`transport`] what a
//! stack has to be able to do. A stack is a file of its own.

mod connection;
mod flow;
mod parcel;
mod transport;

use fullpipe_sim::{FlowConfig, SimConfig, World};
use fullpipe_traffic::{Stream, stream_seed};

use super::RunError;
pub(super) use flow::Flow;
use flow::Seeds;
pub(super) use transport::{Departure, RECEIVER, Read, RttSample, SENDER, Seen, Stamp, Transport};

/// Flows of real stacks on a network of links.
pub(super) type Stacks<T> = World<Flow<T>>;

/// Flows that have the stacks that `stack` makes of a flow's number and settings.
///
/// # Errors
/// Fails for paths, flows and cross traffic that make no sense, and as `stack`.
pub(super) fn stacks<T: Transport>(
    config: &SimConfig,
    mut stack: impl FnMut(usize, &FlowConfig) -> Result<T, RunError>,
) -> Result<Stacks<T>, RunError> {
    World::with_ends(config, |i, flow| {
        let seed = |stream| stream_seed(config.seed, stream, i as u64);
        let seeds = Seeds {
            starts: seed(Stream::Starts),
            jitter: seed(Stream::Jitter),
            receiver: seed(Stream::Receiver),
        };
        Ok(Flow::new(flow, stack(i, flow)?, seeds))
    })
}
