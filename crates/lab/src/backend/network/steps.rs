//! Flows that their owner drives event by event, and changes in between.

use fullpipe_cc::{Instant, Rate};
use fullpipe_path::{ConfigError, Probability, Selection};
use fullpipe_sim::NEVER;

use super::transport::{SENDER, Transport};
use super::world::Stacks;

impl<T: Transport> Stacks<T> {
    /// The time of the next event.
    pub(in crate::backend) fn next_event(&self) -> Option<Instant> {
        let due = self.network.due();
        (due < NEVER).then(|| Instant::from_nanos(due))
    }

    /// A link's rate from now on.
    pub(in crate::backend) fn set_rate(
        &mut self,
        link: usize,
        rate: Rate,
    ) -> Result<(), ConfigError> {
        self.network.set_rate(link, rate)
    }

    /// The random loss of a link's data from now on.
    pub(in crate::backend) fn set_loss(
        &mut self,
        link: usize,
        probability: Probability,
        seed: u64,
    ) {
        self.network.set_loss(link, probability, seed);
    }

    /// The data packets that a link's reordering holds back from now on.
    pub(in crate::backend) fn set_reordered(
        &mut self,
        link: usize,
        packets: Selection,
    ) -> Result<(), ConfigError> {
        self.network.set_reordered(link, packets)
    }

    /// A flow's application has nothing more to send. What its stack has already stays there.
    pub(in crate::backend) fn withhold(&mut self, flow: usize) {
        self.flows[flow].withhold();
    }

    /// A flow's application has so many bytes more to send; the largest number is data without an
    /// end.
    pub(in crate::backend) fn offer(&mut self, flow: usize, bytes: u64) {
        self.flows[flow].offer(self.network.now(), bytes);
        self.pump(flow, SENDER);
    }

    /// A flow's stack.
    pub(in crate::backend) fn peek(&self, flow: usize) -> &T {
        self.flows[flow].peek()
    }

    /// A flow's stack, to be changed.
    pub(in crate::backend) fn transport(&mut self, flow: usize) -> &mut T {
        self.flows[flow].transport()
    }
}
