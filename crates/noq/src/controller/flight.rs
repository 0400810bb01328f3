//! The states of the packets in flight, found again by what noq says of them.
//!
//! Initial, Handshake and application packets are numbered apart, and noq names a packet by its
//! number alone; for an ACK it adds the send time, for a loss the size. Within one number space
//! numbers rise, so three queues suffice in which they rise: a packet goes to the queue whose last
//! number is the nearest below its own. A queue may then mix spaces, which does no harm: it is only
//! an index, and number with send time says which packet is meant.

use std::collections::VecDeque;

use fullpipe_cc::{Instant, PacketState};

/// Initial, Handshake, and application data with 0-RTT (RFC 9000 section 12.3).
const NUMBER_SPACES: usize = 3;

#[derive(Clone, Debug, Default)]
pub(super) struct Flight {
    queues: [Queue; NUMBER_SPACES],
}

#[derive(Clone, Debug, Default)]
struct Queue {
    last_pn: Option<u64>,
    /// By rising number; a state that was taken leaves a hole until it reaches the front.
    packets: VecDeque<(u64, Option<PacketState>)>,
}

impl Queue {
    fn find(&self, pn: u64) -> Option<(usize, &PacketState)> {
        let i = self.packets.binary_search_by_key(&pn, |(n, _)| *n).ok()?;
        Some((i, self.packets.get(i)?.1.as_ref()?))
    }

    fn take(&mut self, i: usize) -> Option<PacketState> {
        let state = self.packets.get_mut(i)?.1.take();
        while matches!(self.packets.front(), Some((_, None))) {
            self.packets.pop_front();
        }
        state
    }
}

impl Flight {
    /// Keeps the state of packet `pn`.
    pub(super) fn insert(&mut self, pn: u64, state: PacketState) {
        let fits = |q: &&mut Queue| q.last_pn.is_none_or(|last| last < pn);
        // `None` sorts below every number: an unused queue is taken last.
        if let Some(queue) = self.queues.iter_mut().filter(fits).max_by_key(|q| q.last_pn) {
            queue.last_pn = Some(pn);
            queue.packets.push_back((pn, Some(state)));
        }
    }

    /// The state of packet `pn` that left at `sent`.
    pub(super) fn take_acked(&mut self, pn: u64, sent: Instant) -> Option<PacketState> {
        self.queues.iter_mut().find_map(|queue| {
            let (i, state) = queue.find(pn)?;
            if state.send_time() == sent { queue.take(i) } else { None }
        })
    }

    /// The state of packet `pn` of `size` bytes; the oldest, if two spaces have such a packet.
    pub(super) fn take_lost(&mut self, pn: u64, size: u64) -> Option<PacketState> {
        let found = self.queues.iter_mut().filter_map(|queue| {
            let (i, state) = queue.find(pn)?;
            let (size_found, sent) = (state.size(), state.send_time());
            (size_found == size).then_some((sent, i, queue))
        });
        let (_, i, queue) = found.min_by_key(|(sent, ..)| *sent)?;
        queue.take(i)
    }

    /// Lets go of what left before `time`: nobody will ask for it.
    pub(super) fn forget_before(&mut self, time: Instant) {
        for queue in &mut self.queues {
            while queue.packets.front().is_some_and(|(_, s)| s.is_none_or(|s| s.send_time() < time))
            {
                queue.packets.pop_front();
            }
        }
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.queues.iter().map(|q| q.packets.len()).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fullpipe_cc::{Algorithm, Config, Controller, Duration};

    fn states(n: u64) -> Vec<PacketState> {
        let mut now = Instant::from_nanos(10);
        let mut core = Controller::new(Algorithm::RENO, Config::new(1), now);
        let mut next = |i: u64| {
            now += Duration::from_millis(1);
            core.on_sent(now, 100 + i as u32)
        };
        (0..n).map(&mut next).collect()
    }

    /// W6: samples must not pair with the packet of the same number in another space.
    #[test]
    fn a_number_in_three_spaces_names_three_packets() {
        let s = states(6);
        let mut flight = Flight::default();
        for (pn, state) in [(0, s[0]), (0, s[1]), (0, s[2]), (1, s[3]), (1, s[4]), (1, s[5])] {
            flight.insert(pn, state);
        }
        for (pn, state) in [(1, s[4]), (0, s[2]), (0, s[0]), (1, s[5])] {
            assert_eq!(flight.take_acked(pn, state.send_time()), Some(state));
            assert_eq!(flight.take_acked(pn, state.send_time()), None, "taken twice");
        }
        assert_eq!(flight.take_lost(0, s[1].size()), Some(s[1]));
        assert_eq!(flight.take_lost(1, s[3].size()), Some(s[3]));
        assert_eq!(flight.len(), 0);
    }

    #[test]
    fn numbers_may_be_skipped_and_come_back_in_any_order() {
        let s = states(4);
        let mut flight = Flight::default();
        for (pn, state) in [3, 9, 10, 700].into_iter().zip(&s) {
            flight.insert(pn, *state);
        }
        assert_eq!(flight.take_acked(700, s[3].send_time()), Some(s[3]));
        assert_eq!(flight.take_acked(10, s[0].send_time()), None, "another packet's time");
        assert_eq!(flight.take_acked(11, s[2].send_time()), None);
        assert_eq!(flight.take_acked(3, s[0].send_time()), Some(s[0]));
        assert_eq!(flight.take_acked(10, s[2].send_time()), Some(s[2]));
    }

    /// A state that nobody asks for does not stay for ever.
    #[test]
    fn what_noq_never_mentions_again_is_let_go() {
        let s = states(100);
        let mut flight = Flight::default();
        for (pn, state) in s.iter().enumerate() {
            flight.insert(pn as u64, *state);
        }
        flight.forget_before(s[60].send_time());
        assert_eq!(flight.len(), 40);
    }
}
