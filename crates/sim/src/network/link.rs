//! A link whose packets' queueing delays are counted, part by part of a run.

use fullpipe_cc::Instant;
use fullpipe_path::{ConfigError, Delivered, ElementConfig, Path, PathConfig, QueueConfig};
use fullpipe_traffic::{FlowTallies, MAX_OWN_TALLIES, Tally};

/// A path, and the queueing delay of what came through it.
#[derive(Debug)]
pub(super) struct Link<T> {
    /// The path.
    pub(super) path: Path<T>,
    /// The start of each part of the run but the first.
    parts: Vec<Instant>,
    /// One for each part.
    queue_delay_ns: Vec<Tally>,
    /// The same of each flow, in one part, where the queue tells flows apart.
    by_flow_ns: Option<FlowTallies>,
}

impl<T: Clone> Link<T> {
    /// A link of these elements.
    ///
    /// # Errors
    /// As [`PathConfig::validate`].
    pub(super) fn new(config: &PathConfig) -> Result<Self, ConfigError> {
        let path = Path::new(config)?;
        let queue_delay_ns = vec![Tally::new()];
        Ok(Self { path, parts: Vec::new(), queue_delay_ns, by_flow_ns: None })
    }

    /// Counts the delays of so many flows apart from now on, if a queue of `config` has more than
    /// one line: in any other one all flows wait alike.
    pub(super) fn count_by_flow(&mut self, config: &PathConfig, flows: usize) {
        let has_lines = |element: &ElementConfig| match element {
            ElementConfig::Bottleneck { queue, .. } => {
                matches!(queue, QueueConfig::FqCoDel(_) | QueueConfig::DualPi2(_))
            }
            _ => false,
        };
        let counts = flows <= MAX_OWN_TALLIES && config.row.iter().any(has_lines);
        self.by_flow_ns = counts.then(|| FlowTallies::new(flows));
    }

    /// Counts a packet that came out for its flow, if the flows count apart.
    #[inline]
    pub(super) fn count_of(&mut self, flow: impl FnOnce() -> Option<usize>, packet: &Delivered<T>) {
        if let Some(tallies) = &mut self.by_flow_ns
            && let Some(flow) = flow()
        {
            tallies.of(flow).record(packet.queued.as_nanos());
        }
    }

    /// Queueing delays in nanoseconds of the packets of each flow that came out so far; `None`
    /// where they do not count apart.
    pub(super) fn queue_delays_by_flow_ns(&self) -> Option<&[Tally]> {
        self.by_flow_ns.as_ref().map(FlowTallies::tallies)
    }

    /// Counts a packet that came out, in the part in which it left the queue.
    #[inline]
    pub(super) fn count(&mut self, packet: &Delivered<T>) {
        let later = self.parts.iter().rev().take_while(|begun| packet.left_queue <= **begun);
        let part = self.queue_delay_ns.len() - 1 - later.count();
        self.queue_delay_ns[part].record(packet.queued.as_nanos());
    }

    /// From now on packets that leave a bottleneck are counted apart from those before. What is due
    /// until now happens first, so that the counters are exact, whatever the disciplines.
    pub(super) fn begin_part(&mut self, now: Instant) {
        self.parts.push(now);
        self.path.advance(now);
        self.queue_delay_ns.push(Tally::new());
    }

    /// Queueing delays in nanoseconds of the packets that had left the bottleneck at the start
    /// (none), at each call of [`Self::begin_part`], and until now. A packet counts when it comes
    /// out of the link: one that is under way now is missing from all of them.
    pub(super) fn queue_delays_so_far_ns(&self) -> impl Iterator<Item = Tally> {
        let mut sum = Tally::new();
        let later = self.queue_delay_ns.iter().map(move |part| {
            sum.add(part);
            sum.clone()
        });
        std::iter::once(Tally::new()).chain(later)
    }
}
