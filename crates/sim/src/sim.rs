//! The simulator: a world whose ends are its own.

use fullpipe_traffic::{SenderStats, Stream, stream_seed};

use crate::config::{SimConfig, SimError};
use crate::flow::{Flow, Seeds};
use crate::world::World;

/// A running simulation.
pub type Sim = World<Flow>;

impl World<Flow> {
    /// A simulation at time zero.
    ///
    /// # Errors
    /// Fails if a path can't be built, or if a flow or cross traffic makes no sense.
    pub fn new(config: &SimConfig) -> Result<Self, SimError> {
        Self::with_ends(config, |i, flow| {
            let seed = |stream| stream_seed(config.seed, stream, i as u64);
            let seeds = Seeds {
                starts: seed(Stream::Starts),
                jitter: seed(Stream::Jitter),
                receiver: seed(Stream::Receiver),
            };
            Ok(Flow::new(*flow, seeds))
        })
    }

    /// Statistics of a flow's sender so far; for [`Application::ShortFlows`] those of all its
    /// connections.
    ///
    /// [`Application::ShortFlows`]: fullpipe_traffic::Application::ShortFlows
    pub fn sender_stats(&self, flow: usize) -> SenderStats {
        let mut stats = self.flow(flow).stats();
        self.connections_of(flow).for_each(|open| stats.add(open.stats()));
        stats
    }

    /// Requests, connections and frames of a flow that have begun and are not complete; `None` for
    /// applications that have none.
    pub fn incomplete(&self, flow: usize) -> Option<u64> {
        let of = self.flow(flow);
        let connections = self.connections_of(flow).filter(|open| open.end().is_none()).count();
        let begun = u64::from(of.awaits_answer()) + of.frames_under_way() + connections as u64;
        of.completion_ns.is_some().then_some(begun)
    }
}
