//! A link whose packets' queueing delays are counted, part by part of a run.

use fullpipe_cc::Instant;
use fullpipe_path::{ConfigError, Delivered, Path, PathConfig};
use fullpipe_traffic::Tally;

/// A path, and the queueing delay of what came through it.
#[derive(Debug)]
pub struct Link<T> {
    /// The path.
    pub path: Path<T>,
    /// The start of each part of the run but the first.
    parts: Vec<Instant>,
    /// One for each part.
    queue_delay_ns: Vec<Tally>,
}

impl<T: Clone> Link<T> {
    /// A link of these elements.
    ///
    /// # Errors
    /// As [`PathConfig::validate`].
    pub fn new(config: &PathConfig) -> Result<Self, ConfigError> {
        let path = Path::new(config)?;
        Ok(Self { path, parts: Vec::new(), queue_delay_ns: vec![Tally::new()] })
    }

    /// Counts a packet that came out, in the part in which it left the queue.
    #[inline]
    pub fn count(&mut self, packet: &Delivered<T>) {
        let later = self.parts.iter().rev().take_while(|begun| packet.left_queue <= **begun);
        let part = self.queue_delay_ns.len() - 1 - later.count();
        self.queue_delay_ns[part].record(packet.queued.as_nanos());
    }

    /// From now on packets that leave a bottleneck are counted apart from those before. What is due
    /// until now happens first, so that the counters are exact, whatever the disciplines.
    pub fn begin_part(&mut self, now: Instant) {
        self.parts.push(now);
        self.path.advance(now);
        self.queue_delay_ns.push(Tally::new());
    }

    /// Queueing delays in nanoseconds of the packets that had left the bottleneck at the start
    /// (none), at each call of [`Self::begin_part`], and until now. A packet counts when it comes
    /// out of the link: one that is under way now is missing from all of them.
    pub fn queue_delays_so_far_ns(&self) -> impl Iterator<Item = Tally> {
        let mut sum = Tally::new();
        let later = self.queue_delay_ns.iter().map(move |part| {
            sum.add(part);
            sum.clone()
        });
        std::iter::once(Tally::new()).chain(later)
    }
}
