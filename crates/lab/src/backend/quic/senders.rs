//! Samples from the sender's ends of connections.

use fullpipe_report::observe::FlowSample;
use fullpipe_traffic::SenderStats;

use super::stack::Connection;

/// The sender's ends of one flow's connections.
#[derive(Clone, Debug)]
pub(in crate::backend) struct Senders<C> {
    /// Those that may still send, the newest last. Only a flow of short connections has several.
    open: Vec<C>,
    /// Counters of those that are closed.
    over: SenderStats,
}

impl<C> Default for Senders<C> {
    fn default() -> Self {
        Self { open: Vec::new(), over: SenderStats::default() }
    }
}

impl<C: Connection> Senders<C> {
    pub(super) fn add(&mut self, connection: C) {
        self.open.push(connection);
    }

    /// The newest connection, with the counters of all.
    pub(super) fn sample(&mut self) -> Option<FlowSample> {
        let last = self.open.len().checked_sub(1)?;
        let newest = self.open[last].sample();
        let mut others = SenderStats::default();
        let over = &mut self.over;
        let mut place = 0;
        self.open.retain(|connection| {
            place += 1;
            if place > last {
                return true;
            }
            let stats = connection.sample().map_or(SenderStats::default(), |s| s.sender);
            let is_open = connection.is_open();
            if is_open {
                others.add(stats)
            } else {
                over.add(stats)
            }
            is_open
        });
        others.add(self.over);
        let mut sample = newest?;
        sample.sender.add(others);
        Some(sample)
    }
}
