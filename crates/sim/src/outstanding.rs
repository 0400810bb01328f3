//! Packets of a flow whose fate can still change: those in flight in a ring, and beside it those
//! that were marked lost and may turn up after all.

use std::collections::VecDeque;

use fullpipe_cc::{Duration, Instant, PacketState};

use crate::packet::Chunk;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Fate {
    InFlight,
    Acked,
    Lost,
    /// A TCP probe repeated its segment: the copy is in flight in its place.
    Replaced,
}

/// A packet that was sent. With many flows it is in no cache when its ACK comes, so that it fills
/// one cache line and no more.
#[derive(Debug)]
#[repr(align(64))]
pub(crate) struct Sent {
    pub(crate) state: PacketState,
    /// The chunk's number, and in the two lowest bits the fate.
    id_and_fate: u64,
    written: Instant,
}

const FATE_BITS: u32 = 2;
const FATE_MASK: u64 = (1 << FATE_BITS) - 1;

const _: () = assert!(size_of::<Sent>() == 64, "one cache line");

impl Sent {
    #[inline]
    fn new(state: PacketState, chunk: Chunk) -> Self {
        let id_and_fate = chunk.id << FATE_BITS | Fate::InFlight as u64;
        Self { state, id_and_fate, written: chunk.written }
    }

    #[inline]
    pub(crate) fn fate(&self) -> Fate {
        const ALL: [Fate; 4] = [Fate::InFlight, Fate::Acked, Fate::Lost, Fate::Replaced];
        ALL[(self.id_and_fate & FATE_MASK) as usize]
    }

    #[inline]
    pub(crate) fn set_fate(&mut self, fate: Fate) {
        self.id_and_fate = self.id_and_fate & !FATE_MASK | fate as u64;
    }

    /// The number of its chunk.
    #[inline]
    pub(crate) fn chunk_id(&self) -> u64 {
        self.id_and_fate >> FATE_BITS
    }

    /// Its chunk, which has so many bytes less than the packet as congestion control counts it.
    pub(crate) fn chunk(&self, overhead_bytes: u32) -> Chunk {
        let bytes = self.state.size() as u32 - overhead_bytes;
        Chunk { id: self.chunk_id(), written: self.written, bytes }
    }
}

/// The packets by their numbers.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Outstanding {
    /// Packets from `first` on. After [`Self::settle`] the first of them is in flight, so that the
    /// ring is as short as the flight, however long a lost packet is waited for.
    ring: VecDeque<Sent>,
    first: u64,
    /// The time at which the first packet of `aside` left; [`Instant::MAX`] without one.
    aside_since: Instant,
    /// Packets before `first` that were marked lost or replaced, by rising numbers.
    aside: VecDeque<(u64, Sent)>,
}

impl Default for Outstanding {
    fn default() -> Self {
        let (ring, aside) = (VecDeque::new(), VecDeque::new());
        Self { ring, first: 0, aside_since: Instant::MAX, aside }
    }
}

impl Outstanding {
    /// The number of the first packet in the ring: every packet before it has left the flight.
    #[inline]
    pub(crate) fn first(&self) -> u64 {
        self.first
    }

    /// The number of the next packet.
    #[inline]
    pub(crate) fn next(&self) -> u64 {
        self.first + self.ring.len() as u64
    }

    /// Takes the next packet in.
    #[inline]
    pub(crate) fn push(&mut self, state: PacketState, chunk: Chunk) {
        self.ring.push_back(Sent::new(state, chunk));
    }

    /// The packets in the ring.
    pub(crate) fn ring(&self) -> &VecDeque<Sent> {
        &self.ring
    }

    /// A packet of the ring.
    #[inline]
    pub(crate) fn in_ring(&mut self, pn: u64) -> Option<&mut Sent> {
        self.ring.get_mut(pn.checked_sub(self.first)? as usize)
    }

    /// A packet that is not forgotten.
    #[inline]
    pub(crate) fn get(&self, pn: u64) -> Option<&Sent> {
        match pn.checked_sub(self.first) {
            Some(i) => self.ring.get(i as usize),
            None => self.aside.get(self.place_aside(pn)?).map(|(_, packet)| packet),
        }
    }

    /// The same, to be changed.
    #[inline]
    pub(crate) fn get_mut(&mut self, pn: u64) -> Option<&mut Sent> {
        if pn >= self.first {
            return self.in_ring(pn);
        }
        let i = self.place_aside(pn)?;
        self.aside.get_mut(i).map(|(_, packet)| packet)
    }

    #[cold]
    fn place_aside(&self, pn: u64) -> Option<usize> {
        self.aside.binary_search_by_key(&pn, |(pn, _)| *pn).ok()
    }

    /// Takes the first packet out of the ring.
    #[inline]
    pub(crate) fn pop_first(&mut self) -> Option<Sent> {
        let packet = self.ring.pop_front()?;
        self.first += 1;
        Some(packet)
    }

    /// Takes what is no longer in flight from the front of the ring, and forgets the packets whose
    /// fate cannot change any more: those acknowledged, and those marked lost that left longer than
    /// `horizon` ago.
    pub(crate) fn settle(&mut self, now: Instant, horizon: Duration) {
        while self.ring.front().is_some_and(|packet| packet.fate() != Fate::InFlight) {
            let pn = self.first;
            if let Some(packet) = self.pop_first()
                && packet.fate() != Fate::Acked
            {
                self.aside.push_back((pn, packet));
            }
        }
        while let Some((_, packet)) = self.aside.front() {
            if packet.fate() != Fate::Acked && now.since(packet.state.send_time()) <= horizon {
                break;
            }
            self.aside.pop_front();
        }
        let aside = self.aside.front();
        self.aside_since = aside.map_or(Instant::MAX, |(_, packet)| packet.state.send_time());
    }

    /// True if [`Self::settle`] would change nothing, with so many packets of the ring in flight
    /// and no fate changed before the ring since the last time: known without a look at a packet.
    #[inline]
    pub(crate) fn is_settled(&self, in_flight: u64, now: Instant, horizon: Duration) -> bool {
        in_flight == self.ring.len() as u64 && now.since(self.aside_since) <= horizon
    }

    /// True if packets that left the flight are waited for.
    #[inline]
    pub(crate) fn has_aside(&self) -> bool {
        self.aside_since < Instant::MAX
    }

    /// The number of the first packet that is not forgotten.
    pub(crate) fn first_known(&self) -> u64 {
        self.aside.front().map_or(self.first, |(pn, _)| *pn)
    }
}

#[cfg(test)]
mod tests {
    use fullpipe_cc::{Algorithm, Config, Controller};

    use super::*;

    /// Packets that leave a millisecond after each other.
    fn sent(packets: u64) -> Outstanding {
        let mut cc = Controller::new(Algorithm::RENO, Config::new(1), Instant::default());
        let mut all = Outstanding::default();
        for id in 0..packets {
            let now = Instant::default() + Duration::from_millis(id);
            let chunk = Chunk { id: 100 + id, written: now, bytes: 900 };
            all.push(cc.on_sent(now, 1000), chunk);
        }
        all
    }

    fn mark(all: &mut Outstanding, pn: u64, fate: Fate) {
        all.get_mut(pn).expect("a known packet").set_fate(fate);
    }

    #[test]
    fn a_lost_packet_leaves_the_ring_and_is_known_until_the_horizon() {
        let mut all = sent(10);
        let (at, horizon) = (|ms| Instant::default() + Duration::from_millis(ms), 50);
        mark(&mut all, 0, Fate::Acked);
        mark(&mut all, 1, Fate::Lost);
        mark(&mut all, 2, Fate::Acked);
        mark(&mut all, 3, Fate::Replaced);
        mark(&mut all, 5, Fate::Lost);
        all.settle(at(10), Duration::from_millis(horizon));
        assert_eq!((all.first(), all.next(), all.ring().len()), (4, 10, 6));
        let known = |all: &Outstanding| (0..10).filter(|pn| all.get(*pn).is_some()).collect();
        let before: Vec<u64> = known(&all);
        assert_eq!((before, all.first_known()), (vec![1, 3, 4, 5, 6, 7, 8, 9], 1));
        assert_eq!(all.get(3).map(|p| (p.chunk_id(), p.fate())), Some((103, Fate::Replaced)));
        // The horizon of packet 1 is over, and that of 3 is not.
        all.settle(at(1 + horizon + 1), Duration::from_millis(horizon));
        assert_eq!((all.first_known(), all.first()), (3, 4));
        // One that turned up is forgotten, and the lost one in the ring is kept for the one in
        // flight before it.
        mark(&mut all, 3, Fate::Acked);
        all.settle(at(1000), Duration::from_millis(horizon));
        assert_eq!((all.first_known(), all.has_aside()), (4, false));
        assert_eq!(all.get(5).map(Sent::fate), Some(Fate::Lost));
    }

    /// Whatever became of the packets.
    #[test]
    fn where_nothing_is_due_letting_go_changes_nothing() {
        let (horizon, mut idle, mut state) = (Duration::from_millis(50), 0, 1u64);
        let mut draw = move |below: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 33) % below
        };
        for _ in 0..200 {
            let mut all = sent(30);
            for ms in 30..90 {
                let now = Instant::default() + Duration::from_millis(ms);
                if all.first() < all.next() && draw(3) == 0 {
                    let fate = [Fate::Acked, Fate::Lost, Fate::Replaced][draw(3) as usize];
                    let pn = all.first() + draw((all.next() - all.first()).min(3));
                    mark(&mut all, pn, fate);
                }
                let flight = all.ring.iter().filter(|packet| packet.fate() == Fate::InFlight);
                let is_settled = all.is_settled(flight.count() as u64, now, horizon);
                let known = |all: &Outstanding| (all.first(), all.first_known(), all.aside.len());
                let before = known(&all);
                all.settle(now, horizon);
                assert_eq!(all.has_aside(), !all.aside.is_empty());
                if is_settled {
                    assert_eq!(known(&all), before);
                    idle += u64::from(all.has_aside());
                }
            }
        }
        assert!(idle > 100, "{idle}");
    }

    #[test]
    fn a_packet_gives_its_chunk_back_whatever_its_fate() {
        let mut all = sent(3);
        for fate in [Fate::Lost, Fate::Replaced, Fate::Acked, Fate::InFlight] {
            mark(&mut all, 2, fate);
            let written = Instant::default() + Duration::from_millis(2);
            let chunk = Chunk { id: 102, written, bytes: 900 };
            let packet = all.get(2).map(|p| (p.fate(), p.chunk(100)));
            assert_eq!(packet, Some((fate, chunk)));
        }
    }
}
