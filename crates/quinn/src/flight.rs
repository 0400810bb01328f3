//! The states of the packets in flight, found again by what quinn says of them: the time at which
//! they were made, and a size.

use std::collections::VecDeque;

use fullpipe_cc::{Instant, PacketState};

/// Largest datagram, in bytes, that counts as an ACK alone. quinn does not say which packets those
/// are; they are in flight nowhere (RFC 9002 section 2), nobody acknowledges them, and no
/// congestion control delays them.
pub(crate) const SMALL: u64 = 128;

/// Number of small datagrams whose states are kept. More are in flight only where a sender writes
/// very little at a time.
const MAX_SMALL: usize = 512;

/// Bytes in larger datagrams whose states are kept beyond the largest window. quinn lets no more
/// leave than the window has room for, but for a few probes and for ACKs, which are this large if
/// they have many ranges: whoever leaves gaps between its packets' numbers has us send them, and
/// need acknowledge none.
const BEYOND_WINDOW: u64 = 256 << 10;

/// A state with the time at which quinn made its packet, which is before it left.
type Made = (Instant, PacketState);

#[derive(Clone, Debug, Default)]
pub(crate) struct Flight {
    full: VecDeque<Group>,
    /// Bytes of all packets in `full`.
    full_bytes: u64,
    /// The largest window so far.
    window: u64,
    small: VecDeque<Made>,
}

/// The packets that quinn made at one time.
#[derive(Clone, Debug)]
struct Group {
    made: Instant,
    packets: VecDeque<PacketState>,
    /// Bytes of datagrams that were taken with the first of several packets in them, as in a
    /// handshake, and of which the others are still to come.
    rest: u64,
}

impl Group {
    fn take_acked(&mut self, bytes: u64) -> Option<PacketState> {
        if let Some(i) = self.packets.iter().position(|packet| packet.size() == bytes) {
            return self.packets.remove(i);
        }
        if self.rest >= bytes {
            self.rest -= bytes;
            return None;
        }
        // The first packet that is acknowledged has to take the datagram: the others may be of a
        // number space whose keys are gone, and the next packet of the size of this datagram would
        // be taken for it.
        let first = self.packets.pop_front()?;
        self.rest = (self.rest + first.size()).saturating_sub(bytes);
        Some(first)
    }
}

impl Flight {
    /// Keeps the state of a datagram that quinn made at `made`, which is not before that of the one
    /// before.
    pub(crate) fn insert(&mut self, made: Instant, packet: PacketState) {
        if packet.size() <= SMALL {
            if self.small.len() == MAX_SMALL {
                self.small.pop_front();
            }
            self.small.push_back((made, packet));
            return;
        }
        self.full_bytes += packet.size();
        match self.full.back_mut().filter(|group| group.made == made) {
            Some(group) => group.packets.push_back(packet),
            None => self.full.push_back(Group { made, packets: [packet].into(), rest: 0 }),
        }
    }

    /// The state of an acknowledged packet of so many bytes.
    pub(crate) fn take_acked(&mut self, made: Instant, bytes: u64) -> Option<PacketState> {
        let is_it = |(at, packet): &Made| *at == made && packet.size() == bytes;
        if let Some(i) = self.small.iter().position(is_it) {
            return self.small.remove(i).map(|(_, packet)| packet);
        }
        let i = self.full.binary_search_by_key(&made, |group| group.made).ok()?;
        let packet = self.full.get_mut(i)?.take_acked(bytes)?;
        self.full_bytes -= packet.size();
        while self.full.front().is_some_and(|group| group.packets.is_empty()) {
            self.full.pop_front();
        }
        Some(packet)
    }

    /// Lets go of the oldest beyond what can be in flight while the window is `window`. Returns an
    /// upper bound of the bytes in flight, if there was anything to let go of.
    pub(crate) fn trim(&mut self, window: u64) -> Option<u64> {
        self.window = self.window.max(window);
        let most = self.window.saturating_add(BEYOND_WINDOW);
        if self.full_bytes <= most {
            return None;
        }
        while let Some(oldest) = self.full.front_mut().filter(|_| self.full_bytes > most) {
            match oldest.packets.pop_front() {
                Some(packet) => self.full_bytes -= packet.size(),
                None => drop(self.full.pop_front()),
            }
        }
        Some(self.full_bytes)
    }

    /// Lets go of all packets in `full` that were made first.
    fn forget_first(&mut self) {
        if let Some(group) = self.full.pop_front() {
            self.full_bytes -= group.packets.iter().map(PacketState::size).sum::<u64>();
        }
    }

    /// The states of the packets that were lost together, in the order in which they were sent.
    /// quinn gives the sum of their bytes and the time of the newest. RFC 9002 section 6.1 declares
    /// each unacknowledged packet lost that was sent before a lost one, so they are all that are
    /// left up to that time; the bytes say how many of that very time.
    pub(crate) fn take_lost(&mut self, newest: Instant, bytes: u64) -> Vec<PacketState> {
        let mut lost = Vec::new();
        // A mark, which quinn reports as a loss of nothing: what is left is in flight.
        if bytes == 0 {
            return lost;
        }
        self.forget_older_than_lost(newest, bytes);
        let mut left = bytes;
        let mut fits = |packet: &PacketState| {
            let fits = packet.size() <= left;
            if fits {
                left -= packet.size();
                lost.push(*packet);
            }
            fits
        };
        while let Some(group) = self.full.front_mut().filter(|group| group.made <= newest) {
            while let Some(packet) = group.packets.front().filter(|packet| fits(packet)) {
                self.full_bytes -= packet.size();
                group.packets.pop_front();
            }
            if !group.packets.is_empty() && group.made == newest {
                break;
            }
            // What is left before that time is of another number space, and found no more.
            self.forget_first();
        }
        self.small.retain(|(made, packet)| *made > newest || !fits(packet));
        lost
    }

    /// Lets go of the oldest that cannot be among so many lost bytes, of which the newest packet
    /// was made at `newest`: quinn no longer knows them, as those of a number space whose keys are
    /// gone. Else each would be taken for a lost packet, and the lost one for the next.
    fn forget_older_than_lost(&mut self, newest: Instant, bytes: u64) {
        let older = self.full.iter().take_while(|group| group.made < newest);
        let mut older: u64 = older.flat_map(|group| &group.packets).map(PacketState::size).sum();
        let place = self.full.binary_search_by_key(&newest, |group| group.made);
        let lost = place.ok().and_then(|i| self.full.get(i)?.packets.front());
        let room = bytes.saturating_sub(lost.map_or(0, PacketState::size));
        while let Some(oldest) = self.full.front_mut().filter(|_| older > room) {
            match oldest.packets.pop_front() {
                Some(packet) => {
                    older -= packet.size();
                    self.full_bytes -= packet.size();
                }
                None => drop(self.full.pop_front()),
            }
        }
    }

    /// Lets go of what was made before `time`: nobody will ask for it.
    pub(crate) fn forget_before(&mut self, time: Instant) {
        while self.full.front().is_some_and(|group| group.made < time) {
            self.forget_first();
        }
        while self.small.front().is_some_and(|(made, _)| *made < time) {
            self.small.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fullpipe_cc::{Algorithm, Config, Controller, Duration};

    fn at(ms: u64) -> Instant {
        Instant::default() + Duration::from_millis(ms)
    }

    /// Three datagrams of 1200 bytes at each of 1, 2 and 3 ms, with an ACK alone at 2 ms.
    fn flight() -> Flight {
        let mut core = Controller::new(Algorithm::BBR3, Config::new(1), at(0));
        let mut flight = Flight::default();
        for ms in 1..=3 {
            for _ in 0..3 {
                flight.insert(at(ms), core.on_sent(at(ms), 1200));
            }
        }
        flight.insert(at(3), core.on_sent(at(3), 40));
        flight
    }

    #[test]
    fn a_packet_is_found_by_time_and_size_once() {
        let mut flight = flight();
        for _ in 0..3 {
            assert_eq!(flight.take_acked(at(2), 1200).map(|p| p.send_time()), Some(at(2)));
        }
        assert!(flight.take_acked(at(2), 1200).is_none());
        assert!(flight.take_acked(at(4), 1200).is_none());
        assert_eq!(flight.take_acked(at(3), 40).map(|p| p.size()), Some(40));
    }

    #[test]
    fn packets_that_share_a_datagram_are_one() {
        let mut flight = flight();
        assert!(flight.take_acked(at(1), 200).is_some());
        assert!(flight.take_acked(at(1), 1000).is_none());
        assert_eq!(flight.take_lost(at(1), 9999).len(), 2);
    }

    /// A client's first data shares a datagram with its Finished, whose keys are gone before it is
    /// acknowledged. The pacer lets what was made together leave one after the other.
    #[test]
    fn a_packet_that_is_never_acknowledged_delays_no_other_of_its_batch() {
        let mut core = Controller::new(Algorithm::BBR3, Config::new(1), at(0));
        let mut flight = Flight::default();
        for left in [0, 30, 60] {
            flight.insert(at(0), core.on_sent(at(left), 1200));
        }
        let sent = [1074, 1200, 1200].map(|bytes| flight.take_acked(at(0), bytes));
        let sent = sent.map(|packet| packet.map(|packet| packet.send_time()));
        assert_eq!(sent, [0, 30, 60].map(|left| Some(at(left))));
    }

    #[test]
    fn lost_are_the_oldest_that_are_left_and_no_more_than_the_bytes() {
        let mut flight = flight();
        let _ = flight.take_acked(at(1), 1200);
        let times: Vec<_> =
            flight.take_lost(at(2), 4 * 1200).iter().map(PacketState::send_time).collect();
        assert_eq!(times, [at(1), at(1), at(2), at(2)]);
        assert!(flight.take_acked(at(1), 1200).is_none());
        assert!(flight.take_acked(at(2), 1200).is_some());
        assert_eq!(flight.take_lost(at(3), 3 * 1200 + 40).len(), 4);
    }

    #[test]
    fn what_quinn_no_longer_knows_is_not_taken_for_what_was_lost() {
        let mut flight = flight();
        // Of those of 1 ms nobody hears any more.
        for ms in [2, 2, 3, 3] {
            assert!(flight.take_acked(at(ms), 1200).is_some());
        }
        let times =
            |lost: Vec<PacketState>| lost.iter().map(PacketState::send_time).collect::<Vec<_>>();
        assert_eq!(times(flight.take_lost(at(2), 1200)), [at(2)]);
        assert_eq!(times(flight.take_lost(at(3), 1200)), [at(3)]);
        assert_eq!(flight.full_bytes, 0);
    }

    #[test]
    fn a_mark_leaves_what_is_in_flight() {
        let mut flight = flight();
        assert_eq!(flight.take_lost(at(3), 0), []);
        for ms in 1..=3 {
            assert!(flight.take_acked(at(ms), 1200).is_some(), "of {ms} ms");
        }
    }

    #[test]
    fn a_receiver_that_sends_nothing_but_acks_keeps_few_states() {
        let mut core = Controller::new(Algorithm::BBR3, Config::new(1), at(0));
        let mut flight = Flight::default();
        for ms in 0..10_000 {
            flight.insert(at(ms), core.on_sent(at(ms), 40));
        }
        assert_eq!(flight.small.len(), MAX_SMALL);
        flight.forget_before(at(9_999));
        assert_eq!(flight.small.len(), 1);
    }
}
