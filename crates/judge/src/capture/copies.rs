//! Copies among the packets of a flow: a file may have the same one at several places of its way,
//! or several times at one of them.
//!
//! Copies are alike in all that only the packet itself has, within [`TWICE_NS`]: IPv4's
//! identification, and the fields of its TCP header or the beginning of its UDP payload. What TCP
//! sends again has another identification, and where there is none (IPv6, or the same one in each
//! packet), another time stamp if its clock has moved on.
//!
//! Where neither tells, data that is alike within [`NEAR_NS`] is a copy, because no sender repeats
//! so soon. Acknowledgements may be repeated, and each of them has as many copies as data has. What
//! is farther apart is a copy only if at least half of the data is there twice, because no sender
//! repeats that much.

use std::collections::{BTreeMap, HashMap};
use std::hash::{DefaultHasher, Hasher as _};

use super::packet::{Packet, Transport};

/// The most time between two copies: the longest way of a packet through full queues, and less than
/// the time in which identifications repeat in a flow with its sequence numbers.
const TWICE_NS: u64 = 3_000_000_000;

/// The most time between copies of one host or switch. Half a round trip between two machines is
/// longer.
pub(super) const NEAR_NS: u64 = 100_000;

/// The most copies of a packet. What is alike more often has nothing that tells packets apart.
const MOST_COPIES: usize = 16;

/// The first packets of data that are looked for at a clock that is much later.
const MOST_COMPARED: usize = 10_000;

/// The least of a payload that tells datagrams apart: behind QUIC's connection ID, which has up to 20
/// bytes.
const TELLING: usize = 32;

/// The place at which a packet was seen: interfaces, and hops that it had left.
pub(super) type Place = (u32, u8);

/// A packet as it was seen.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sighting {
    pub(super) at_ns: u64,
    /// Equal for copies, also where one of them is cut; nothing where too little of the packet is
    /// there.
    print: Option<u64>,
    /// The same of what may be cut: TCP's options, and more of a UDP payload.
    rest: u64,
    pub(super) is_cut: bool,
    id: Option<u16>,
    pub(super) tsval: Option<u32>,
    pub(super) is_data_way: bool,
    pub(super) has_data: bool,
    /// A SYN; true if it acknowledges another one.
    pub(super) syn: Option<bool>,
    pub(super) place: Place,
    /// The part between two steps of the clock.
    pub(super) part: u32,
}

fn hashed(value: impl std::hash::Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}

impl Sighting {
    pub(super) fn of(
        at_ns: u64,
        interface: u32,
        part: u32,
        packet: &Packet<'_>,
        is_data_way: bool,
    ) -> Self {
        let one = Self {
            at_ns,
            print: None,
            rest: 0,
            is_cut: false,
            id: packet.id,
            tsval: None,
            is_data_way,
            has_data: false,
            syn: None,
            place: (interface, packet.hops),
            part,
        };
        let start = (is_data_way, packet.id);
        match packet.transport {
            Transport::Tcp(tcp) => {
                let flags = (tcp.syn, tcp.fin, tcp.rst, tcp.ecn_flags);
                let fixed = (tcp.seq, tcp.ack, tcp.window, flags, tcp.payload, tcp.options_len);
                Self {
                    print: Some(hashed((start, fixed))),
                    rest: hashed(tcp),
                    is_cut: tcp.are_options_cut,
                    tsval: tcp.timestamps.map(|stamps| stamps.0),
                    has_data: tcp.payload > 0,
                    syn: tcp.syn.then_some(tcp.ack.is_some()),
                    ..one
                }
            }
            Transport::Udp(payload, length) => {
                let first = |n: usize| &payload[..payload.len().min(n)];
                let is_enough = payload.len() >= TELLING.min(length as usize);
                Self {
                    print: is_enough.then(|| hashed((start, length, first(TELLING)))),
                    rest: hashed(first(2 * TELLING)),
                    is_cut: payload.len() < length as usize,
                    has_data: length > 0,
                    ..one
                }
            }
        }
    }

    pub(super) fn is_data(&self) -> bool {
        self.is_data_way && self.has_data
    }
}

/// The first of sightings that are alike, and the place of their list where there are several.
struct First {
    at_ns: u64,
    number: usize,
    group: Option<usize>,
}

/// The copies of a flow.
pub(super) struct Copies {
    /// The numbers of the sightings of each packet that was seen several times, in the order of
    /// time.
    pub(super) packets: Vec<Vec<usize>>,
    /// True if at least half of the data is there twice, and the copies are not near.
    pub(super) are_usual: bool,
    /// The difference of two clocks, if it is more than [`TWICE_NS`]; otherwise 0.
    pub(super) apart_ns: u64,
    /// Packets of data, and those of them that are like another one without a sign that they are
    /// copies.
    pub(super) data: usize,
    pub(super) doubtful: usize,
}

/// The signs of copies in a flow, by direction.
struct Signs<'a> {
    all: &'a [Sighting],
    /// True if identifications tell packets apart.
    have_ids: [bool; 2],
    /// True if some packets are cut, so that copies may differ in their ends.
    are_cut: [bool; 2],
    /// The time in which TSval goes up by one.
    tick_ns: [Option<u64>; 2],
}

impl Copies {
    /// The copies among all packets of a flow, which are in the order of the file.
    pub(super) fn of(all: &[Sighting]) -> Self {
        let signs = Signs {
            all,
            have_ids: [false, true].map(|way| have_ids(all, way)),
            are_cut: [false, true].map(|way| all.iter().any(|s| s.is_data_way == way && s.is_cut)),
            tick_ns: [false, true].map(|way| tick_ns(all, way)),
        };
        let order = signs.order();
        let apart_ns = signs.apart_ns(&order);
        let groups = signs.groups(&order, apart_ns.saturating_add(TWICE_NS));
        let data_groups = || groups.iter().filter(|group| all[group[0]].is_data());
        let far: usize = data_groups().map(|group| signs.far_gaps(group)).sum();
        let near = data_groups().map(|group| group.len() - 1).sum::<usize>() - far;
        let data = all.iter().filter(|s| s.is_data()).count() - near;
        let are_usual = far > 0 && far * 2 >= data - far;
        // The places at which a packet is seen as a rule, and how often it is at one of them.
        let places = usual(data_groups().map(|group| 1 + signs.far_gaps(group)));
        let most = if are_usual { places } else { 1 };
        let of_place = usual(data_groups().flat_map(|group| signs.at_one_place(group)));
        let doubts = |group: &Vec<usize>| signs.parts(group, of_place).len() - 1;
        let doubtful = if are_usual { 0 } else { data_groups().map(doubts).sum() };
        let mut copies = Self { packets: Vec::new(), are_usual, apart_ns, data, doubtful };
        for group in groups {
            let parts = signs.parts(&group, of_place);
            if parts.len() == 1 {
                copies.packets.push(group);
                continue;
            }
            let mut from = 0;
            for end in ends(&signs.gaps(&parts), most) {
                let packet = parts[from..end].concat();
                from = end;
                if packet.len() > 1 {
                    copies.packets.push(packet);
                }
            }
        }
        copies
    }
}

/// The number that comes most often of those above 1; 1 if there is none.
fn usual(numbers: impl Iterator<Item = usize>) -> usize {
    let mut counts: BTreeMap<usize, usize> = BTreeMap::new();
    numbers.filter(|n| *n > 1).for_each(|n| *counts.entry(n).or_default() += 1);
    counts.into_iter().max_by_key(|(_, count)| *count).map_or(1, |(n, _)| n)
}

/// True if no identification is in more than half of the packets of a direction.
fn have_ids(all: &[Sighting], is_data_way: bool) -> bool {
    let mut counts: HashMap<u16, usize> = HashMap::new();
    let ids = all.iter().filter(|s| s.is_data_way == is_data_way).filter_map(|s| s.id);
    ids.for_each(|id| *counts.entry(id).or_default() += 1);
    let most = counts.values().max().copied().unwrap_or(0);
    most * 2 <= counts.values().sum()
}

/// The time in which TSval goes up by one, from the first and the last packet of a direction.
fn tick_ns(all: &[Sighting], is_data_way: bool) -> Option<u64> {
    let way = || all.iter().filter(|s| s.is_data_way == is_data_way && s.tsval.is_some());
    let (first, last) = (way().next()?, way().next_back()?);
    let ticks = last.tsval?.wrapping_sub(first.tsval?);
    let ticks = u64::try_from(ticks.cast_signed()).ok().filter(|ticks| *ticks > 0)?;
    Some(last.at_ns.checked_sub(first.at_ns)? / ticks)
}

/// The ends of the packets of parts with these gaps between them: as few packets as there can be,
/// each of at most so many parts, and between them the largest gaps.
fn ends(gaps: &[u64], most: usize) -> Vec<usize> {
    let parts = gaps.len() + 1;
    let mut best: Vec<Option<(u64, Vec<usize>)>> = vec![None; parts + 1];
    best[0] = Some((0, Vec::new()));
    for _ in 0..parts.div_ceil(most) {
        let longer = |end: usize| {
            let begins = end.saturating_sub(most)..end;
            let all = begins.filter_map(|begin| {
                let (sum, ends) = best[begin].as_ref()?;
                let gap = begin.checked_sub(1).map_or(0, |before| gaps[before]);
                Some((sum.saturating_add(gap), [ends.as_slice(), &[end]].concat()))
            });
            all.max()
        };
        best = (0..=parts).map(longer).collect();
    }
    best.pop().flatten().map_or_else(|| vec![parts], |(_, ends)| ends)
}

impl Signs<'_> {
    fn has_id(&self, one: &Sighting) -> bool {
        one.id.is_some() && self.have_ids[usize::from(one.is_data_way)]
    }

    /// Equal for packets that are alike.
    fn key(&self, one: &Sighting) -> Option<(u64, u64)> {
        let is_beginning = self.has_id(one) && self.are_cut[usize::from(one.is_data_way)];
        Some((one.print?, if is_beginning { 0 } else { one.rest }))
    }

    /// All of them in the order of time.
    fn order(&self) -> Vec<usize> {
        let mut order: Vec<usize> = (0..self.all.len()).collect();
        order.sort_by_key(|i| self.all[*i].at_ns);
        order
    }

    /// The difference of two clocks, of which one shows most of the data much later. Clocks that
    /// are nearer to each other need no search for it, and it is 0.
    fn apart_ns(&self, order: &[usize]) -> u64 {
        let mut firsts: HashMap<(u64, u64), u64> = HashMap::new();
        let mut gaps_ns: Vec<u64> = Vec::new();
        for one in order.iter().map(|i| &self.all[*i]).filter(|s| s.is_data()) {
            let Some(key) = self.key(one) else { continue };
            if let Some(first_ns) = firsts.get(&key) {
                let gap_ns = one.at_ns - first_ns;
                gaps_ns.extend((gap_ns > TWICE_NS).then_some(gap_ns));
            } else if firsts.len() < MOST_COMPARED && (self.has_id(one) || one.tsval.is_some()) {
                firsts.insert(key, one.at_ns);
            }
        }
        gaps_ns.sort_unstable();
        let Some(usual_ns) = gaps_ns.get(gaps_ns.len() / 2).copied() else { return 0 };
        let is_usual = |gap_ns: &&u64| gap_ns.abs_diff(usual_ns) <= TWICE_NS / 2;
        let are_usual = gaps_ns.iter().filter(is_usual).count() * 2 >= firsts.len();
        if are_usual { usual_ns } else { 0 }
    }

    /// Packets that are alike within a time, in the order of time.
    fn groups(&self, order: &[usize], within_ns: u64) -> Vec<Vec<usize>> {
        let mut groups: Vec<Vec<usize>> = Vec::new();
        // Those of the last times, so that a key that comes again much later finds nothing.
        let mut recent: [HashMap<(u64, u64), First>; 2] = Default::default();
        let mut since_ns = 0;
        for i in order.iter().copied() {
            let at_ns = self.all[i].at_ns;
            let Some(key) = self.key(&self.all[i]) else { continue };
            if at_ns - since_ns > within_ns {
                recent.swap(0, 1);
                recent[0].clear();
                since_ns = at_ns;
            }
            let [new, old] = &mut recent;
            let found = new.get_mut(&key).or_else(|| old.get_mut(&key));
            match found.filter(|first| at_ns - first.at_ns <= within_ns) {
                Some(First { group: Some(group), .. }) => groups[*group].push(i),
                Some(first) => {
                    first.group = Some(groups.len());
                    groups.push(vec![first.number, i]);
                }
                None => {
                    new.insert(key, First { at_ns, number: i, group: None });
                }
            }
        }
        groups.retain(|group| group.len() <= MOST_COPIES);
        groups
    }

    fn gap_ns(&self, two: &[usize]) -> u64 {
        self.all[two[1]].at_ns - self.all[two[0]].at_ns
    }

    /// The gaps in which a packet goes from one place to another, or is sent again.
    fn far_gaps(&self, group: &[usize]) -> usize {
        group.windows(2).filter(|two| self.gap_ns(two) > NEAR_NS).count()
    }

    /// The numbers of copies at each place.
    fn at_one_place(&self, group: &[usize]) -> Vec<usize> {
        let near = group.chunk_by(|a, b| self.gap_ns(&[*a, *b]) <= NEAR_NS);
        near.map(<[usize]>::len).collect()
    }

    /// The gaps between parts.
    fn gaps(&self, parts: &[&[usize]]) -> Vec<u64> {
        let first = |part: &[usize]| self.all[part[0]].at_ns;
        let last = |part: &[usize]| self.all[part[part.len() - 1]].at_ns;
        parts.windows(2).map(|two| first(two[1]) - last(two[0])).collect()
    }

    /// The parts of alike packets, each of them copies of one.
    fn parts<'g>(&self, group: &'g [usize], of_place: usize) -> Vec<&'g [usize]> {
        let first = &self.all[group[0]];
        let tick_ns =
            self.tick_ns[usize::from(first.is_data_way)].filter(|_| first.tsval.is_some());
        let is_certain =
            |gap_ns: u64| self.has_id(first) || tick_ns.is_some_and(|tick_ns| gap_ns / 2 > tick_ns);
        let are_copies = |a: &usize, b: &usize| {
            let gap_ns = self.gap_ns(&[*a, *b]);
            is_certain(gap_ns) || gap_ns <= NEAR_NS && (first.has_data || of_place > 1)
        };
        let mut parts = Vec::new();
        for part in group.chunk_by(are_copies) {
            let gaps: Vec<u64> = part.windows(2).map(|two| self.gap_ns(two)).collect();
            let are_several = part.len() > of_place && !first.has_data;
            if !are_several || gaps.iter().any(|gap_ns| is_certain(*gap_ns)) {
                parts.push(part);
                continue;
            }
            let mut from = 0;
            for end in ends(&gaps, of_place) {
                parts.push(&part[from..end]);
                from = end;
            }
        }
        parts
    }
}
