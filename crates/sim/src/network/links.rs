//! The links of a running network, as its user sees and changes them.

use fullpipe_cc::Rate;
use fullpipe_path::{Arrival, ConfigError, PathSample, Probability, Selection};
use fullpipe_traffic::Tally;

use super::{Network, nanos};

/// Runs an expression with a link: one of the graph, or the only one.
macro_rules! with_link {
    ($network:expr, $index:expr, |$link:ident| $do:expr) => {
        match &$network.graph {
            Some(graph) => {
                let $link = &graph.links[$index];
                $do
            }
            None => {
                let $link = &std::slice::from_ref(&$network.down)[$index];
                $do
            }
        }
    };
}

/// The same, of a path that is changed; then it is looked at when it next has something to do.
macro_rules! change {
    ($network:expr, $index:expr, |$link:ident| $do:expr) => {{
        let index = $index;
        match &mut $network.graph {
            Some(graph) => {
                let $link = &mut graph.links[index];
                let done = $do;
                $network.timers.set(index, nanos($link.path.next_event()));
                done
            }
            None => {
                let $link = &mut std::slice::from_mut(&mut $network.down)[index];
                let done = $do;
                $network.due[0] = nanos($link.path.next_event());
                done
            }
        }
    }};
}

impl<D: Clone, A: Clone> Network<D, A> {
    /// The number of links of the configuration.
    pub(crate) fn links(&self) -> usize {
        self.links
    }

    /// A link's queue and counters now; the index is that of the configuration.
    pub(crate) fn link(&self, i: usize) -> PathSample {
        with_link!(self, i, |link| link.path.sample(self.now))
    }

    /// The uplink: its counters now.
    pub(crate) fn uplink(&self) -> PathSample {
        match &self.graph {
            Some(graph) => graph.links[self.links].path.sample(self.now),
            None => self.uplink.sample(self.now),
        }
    }

    /// Keeps the time and the header of each packet that enters a link or the uplink from now on,
    /// of `most` packets of each at most.
    pub(crate) fn record_arrivals(&mut self, most: usize) {
        match &mut self.graph {
            Some(graph) => {
                let links = graph.links.iter_mut().take(self.links + 1);
                links.for_each(|link| link.path.record_arrivals(most));
            }
            None => {
                self.down.path.record_arrivals(most);
                self.uplink.record_arrivals(most);
            }
        }
    }

    /// The arrivals that were recorded: of each link, and last of the uplink.
    pub(crate) fn take_arrivals(&mut self) -> Vec<Vec<Arrival>> {
        match &mut self.graph {
            Some(graph) => {
                let links = graph.links.iter_mut().take(self.links + 1);
                links.map(|link| link.path.take_arrivals()).collect()
            }
            None => vec![self.down.path.take_arrivals(), self.uplink.take_arrivals()],
        }
    }

    /// Queueing delays by part, see [`crate::World::queue_delays_so_far_ns`].
    pub(crate) fn queue_delays_so_far_ns(
        &self,
        link: usize,
    ) -> Box<dyn Iterator<Item = Tally> + '_> {
        with_link!(self, link, |link| Box::new(link.queue_delays_so_far_ns()))
    }

    /// Queueing delays by flow, see [`crate::World::queue_delays_by_flow_ns`].
    pub(crate) fn queue_delays_by_flow_ns(&self) -> Option<&[Tally]> {
        with_link!(self, 0, |link| link.queue_delays_by_flow_ns())
    }

    /// A part of the run begins, see [`crate::World::begin_part`].
    pub(crate) fn begin_part(&mut self) {
        match &mut self.graph {
            Some(graph) => {
                for (i, link) in graph.links.iter_mut().enumerate() {
                    link.begin_part(self.now);
                    self.timers.set(i, nanos(link.path.next_event()));
                }
            }
            None => {
                self.down.begin_part(self.now);
                self.due[0] = nanos(self.down.path.next_event());
            }
        }
    }

    /// A link's rate from now on.
    ///
    /// # Errors
    /// Fails if the rate is 0 or the link has no bottleneck.
    pub(crate) fn set_rate(&mut self, link: usize, rate: Rate) -> Result<(), ConfigError> {
        change!(self, link, |link| link.path.set_rate(self.now, rate))
    }

    /// The random loss of a link's data from now on.
    pub(crate) fn set_loss(&mut self, link: usize, probability: Probability, seed: u64) {
        change!(self, link, |link| link.path.set_loss(self.now, probability, seed));
    }

    /// Sets the data packets that the reordering of a link holds back from now on.
    ///
    /// # Errors
    /// Fails if the selection makes no sense or the link has no reordering.
    pub(crate) fn set_reordered(
        &mut self,
        link: usize,
        packets: Selection,
    ) -> Result<(), ConfigError> {
        change!(self, link, |link| link.path.set_reordered(self.now, packets))
    }
}
