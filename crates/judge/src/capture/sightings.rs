//! The packets of a flow, each once: a file may have the same one at several places of its way, or
//! twice at one of them, and its clock may have been set meanwhile.
//!
//! Copies are alike in all that only the packet itself has: IPv4's identification, and the fields of
//! its TCP header or the beginning of its UDP payload, within [`TWICE_NS`]. What TCP sends again has
//! another identification. Where there is none (IPv6, or 0), what is alike counts as copies only if
//! at least half of the packets of data are there twice: no sender repeats that much.
//!
//! Of copies at one place the first one is told. Of those at several places that one is told which
//! is next to the sender: it has the most hops left or comes first, and of acknowledgements the
//! least hops left, or comes last.

use std::collections::{BTreeMap, HashMap};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use super::file::Frame;
use super::packet::{Packet, Transport};

/// The most time between two copies: the longest way of a packet through full queues, and less than
/// the time in which identifications repeat in a flow with its sequence numbers.
const TWICE_NS: u64 = 3_000_000_000;

/// The most time between copies of one host or switch. Half a round trip between two machines is
/// longer.
const NEAR_NS: u64 = 100_000;

/// The most copies of a packet. What is alike more often has nothing that tells packets apart.
const MOST_COPIES: usize = 16;

/// The least of a payload that tells datagrams apart: behind QUIC's connection ID, which has up to 20
/// bytes.
const TELLING: usize = 32;

/// A step back in the times of an interface that is the clock's: packets of several queues are in
/// the wrong order by less.
const STEP_NS: u64 = 500_000_000;

/// The place at which a packet was seen: interfaces, and hops that it had left.
type Place = (u32, u8);

/// A packet as it was seen.
#[derive(Clone, Copy, Debug)]
struct Sighting {
    at_ns: u64,
    /// Equal for copies; nothing where too little of the packet is there.
    print: Option<u64>,
    is_data_way: bool,
    has_data: bool,
    /// True if nothing but a copy is alike.
    is_certain: bool,
    place: Place,
    /// The part between two steps of the clock.
    part: u32,
}

/// The first of packets that are alike, and the place of their list where there are several.
struct First {
    at_ns: u64,
    number: usize,
    group: Option<usize>,
}

/// All packets of a flow in the order of the file.
#[derive(Default)]
pub(super) struct Sightings {
    all: Vec<Sighting>,
    newest_ns: HashMap<u32, u64>,
    part: u32,
    /// The largest step back.
    step_ns: u64,
}

/// The packets that are told.
pub(super) struct Told {
    is_told: Vec<bool>,
    pub(super) remarks: Vec<String>,
}

impl Told {
    /// True if the packet of this number in the file is told.
    pub(super) fn has(&self, number: usize) -> bool {
        self.is_told.get(number).copied().unwrap_or(false)
    }
}

fn print(packet: &Packet<'_>, is_data_way: bool) -> Option<u64> {
    let mut hasher = DefaultHasher::new();
    (is_data_way, packet.id).hash(&mut hasher);
    match packet.transport {
        Transport::Tcp(tcp) => tcp.hash(&mut hasher),
        Transport::Udp(payload, length) => {
            if payload.len() < TELLING.min(length as usize) {
                return None;
            }
            (length, &payload[..payload.len().min(64)]).hash(&mut hasher);
        }
    }
    Some(hasher.finish())
}

impl Sightings {
    pub(super) fn len(&self) -> usize {
        self.all.len()
    }

    pub(super) fn add(&mut self, frame: &Frame<'_>, packet: &Packet<'_>, is_data_way: bool) {
        let newest_ns = self.newest_ns.entry(frame.interface).or_default();
        if frame.at_ns.saturating_add(STEP_NS) < *newest_ns {
            self.step_ns = self.step_ns.max(*newest_ns - frame.at_ns);
            self.part += 1;
            *newest_ns = 0;
        }
        *newest_ns = frame.at_ns.max(*newest_ns);
        let has_data = match packet.transport {
            Transport::Tcp(tcp) => tcp.payload > 0,
            Transport::Udp(_, length) => length > 0,
        };
        self.all.push(Sighting {
            at_ns: frame.at_ns,
            print: print(packet, is_data_way),
            is_data_way,
            has_data,
            is_certain: packet.id.is_some(),
            place: (frame.interface, packet.hops),
            part: self.part,
        });
    }

    /// The packets that are told, and why the others are not.
    pub(super) fn told(&self) -> Told {
        let groups = self.groups();
        let mut is_told = vec![true; self.all.len()];
        let mut remarks = Vec::new();
        self.leave_out_copies(&groups, &mut is_told, &mut remarks);
        if self.part > 0 && !self.is_put_together(&groups) {
            self.leave_out_parts(&mut is_told, &mut remarks);
        }
        Told { is_told, remarks }
    }

    /// Packets that are alike, in the order of time.
    fn groups(&self) -> Vec<Vec<usize>> {
        let mut order: Vec<usize> = (0..self.all.len()).collect();
        order.sort_by_key(|i| self.all[*i].at_ns);
        let mut groups: Vec<Vec<usize>> = Vec::new();
        // Those of the last times, so that a print that comes again much later finds nothing.
        let mut recent: [HashMap<u64, First>; 2] = Default::default();
        let mut since_ns = 0;
        for i in order {
            let Sighting { at_ns, print: Some(print), .. } = self.all[i] else { continue };
            if at_ns - since_ns > TWICE_NS {
                recent.swap(0, 1);
                recent[0].clear();
                since_ns = at_ns;
            }
            let [new, old] = &mut recent;
            let found = new.get_mut(&print).or_else(|| old.get_mut(&print));
            match found.filter(|first| at_ns - first.at_ns <= TWICE_NS) {
                Some(First { group: Some(group), .. }) => groups[*group].push(i),
                Some(first) => {
                    first.group = Some(groups.len());
                    groups.push(vec![first.number, i]);
                }
                None => {
                    new.insert(print, First { at_ns, number: i, group: None });
                }
            }
        }
        groups.retain(|group| group.len() <= MOST_COPIES);
        groups
    }

    /// True if at least half of the data is there twice.
    fn are_usual(&self, groups: &[Vec<usize>]) -> bool {
        let is_data = |s: &&Sighting| s.is_data_way && s.has_data;
        let all = self.all.iter().filter(is_data).count();
        let again = groups.iter().filter(|g| is_data(&&self.all[g[0]])).map(|g| g.len() - 1);
        let again: usize = again.sum();
        // The packets are those that are no copies.
        again > 0 && again * 2 >= all - again
    }

    fn leave_out_copies(
        &self,
        groups: &[Vec<usize>],
        is_told: &mut [bool],
        remarks: &mut Vec<String>,
    ) {
        let are_usual = self.are_usual(groups);
        let is_copy = |group: &&Vec<usize>| are_usual || self.all[group[0]].is_certain;
        let copied: Vec<&Vec<usize>> = groups.iter().filter(is_copy).collect();
        let Some(most) = copied.iter().map(|group| group.len()).max() else { return };
        let are_near = self.are_near(&copied);
        // By direction and place: told, and left out.
        let mut places: BTreeMap<(bool, Place), [u64; 2]> = BTreeMap::new();
        let mut is_copied = vec![false; self.all.len()];
        for group in &copied {
            // They are in the order of time.
            let hops = |i: &&usize| self.all[**i].place.1;
            let one = match self.all[group[0]].is_data_way {
                _ if are_near => group.first(),
                true => group.iter().min_by_key(|i| u8::MAX - hops(i)),
                false => group.iter().rev().min_by_key(hops),
            };
            for i in *group {
                is_told[*i] = Some(i) == one;
                is_copied[*i] = true;
                let seen = &self.all[*i];
                let place = places.entry((seen.is_data_way, seen.place)).or_default();
                place[usize::from(!is_told[*i])] += 1;
            }
        }
        let times = if most == 2 { "twice".to_owned() } else { format!("up to {most} times") };
        let which = if are_near { "" } else { ", as the place next to the sender has it" };
        let packets = copied.len();
        remarks.push(format!("{packets} packets were captured {times}; each is told once{which}"));
        if are_near || !are_usual {
            return;
        }
        // What was lost between two places is at one of them alone. Where they look alike, an
        // acknowledgement that is there once has not come to the sender.
        let is_farther = |s: &Sighting| {
            let place = places.get(&(s.is_data_way, s.place));
            place.is_some_and(|[told, out]| out > told || !s.is_data_way && out == told)
        };
        let mut alone = 0_u64;
        for (i, seen) in self.all.iter().enumerate().filter(|(i, _)| !is_copied[*i]) {
            if is_farther(seen) {
                is_told[i] = false;
                alone += 1;
            }
        }
        if alone > 0 {
            remarks.push(format!(
                "{alone} packets that only a place farther from the sender has are left out"
            ));
        }
    }

    /// True if as a rule all copies of a packet come within a time in which it is at one place.
    fn are_near(&self, groups: &[&Vec<usize>]) -> bool {
        let at = |i: Option<&usize>| i.map_or(0, |i| self.all[*i].at_ns);
        let mut spans: Vec<u64> = groups.iter().map(|g| at(g.last()) - at(g.first())).collect();
        spans.sort_unstable();
        spans.get(spans.len() / 2).is_some_and(|span| *span <= NEAR_NS)
    }

    /// True if the times step back because captures of several places follow one another.
    fn is_put_together(&self, groups: &[Vec<usize>]) -> bool {
        let part = |i: usize| self.all[i].part;
        let later = self.all.iter().filter(|s| s.part > 0).count();
        let again = groups.iter().flatten().filter(|i| part(**i) > 0).count();
        again * 2 >= later.min(self.all.len() - later)
    }

    /// Leaves the part between two steps of the clock that has most packets.
    fn leave_out_parts(&self, is_told: &mut [bool], remarks: &mut Vec<String>) {
        let mut counts: BTreeMap<u32, u64> = BTreeMap::new();
        self.all.iter().for_each(|s| *counts.entry(s.part).or_default() += 1);
        let largest = counts.iter().max_by_key(|(_, n)| **n).map(|(part, n)| (*part, *n));
        let Some((largest, packets)) = largest else { return };
        for (told, seen) in is_told.iter_mut().zip(&self.all) {
            *told &= seen.part == largest;
        }
        let steps = match self.part {
            1 => format!("by {:.2} s", self.step_ns as f64 / 1e9),
            n => format!("{n} times, by up to {:.2} s", self.step_ns as f64 / 1e9),
        };
        remarks.push(format!(
            "the clock of the capture was set back {steps}; nothing is told across such a step, and of the parts \
             between them only that with most packets, {packets} of {}",
            self.all.len()
        ));
    }
}

#[cfg(test)]
mod tests {
    use super::super::packet::Tcp;
    use super::*;

    /// The packets that are told of segments of data, each with its time, number and
    /// identification.
    fn told(segments: &[(u64, u32, Option<u16>)]) -> Vec<bool> {
        let mut sightings = Sightings::default();
        for (at_ms, seq, id) in segments {
            let at_ns = at_ms * 1_000_000;
            let frame = Frame { at_ns, interface: 0, link: 1, bytes: &[], length: 1500 };
            let tcp = Tcp { seq: *seq, payload: 1000, ..Tcp::default() };
            let [from, to] = [1, 2].map(|n| ([10, 0, 0, n], 80).into());
            let transport = Transport::Tcp(tcp);
            let packet = Packet { from, to, ecn: 0, hops: 64, id: *id, transport };
            sightings.add(&frame, &packet, true);
        }
        let told = sightings.told();
        (0..segments.len()).map(|n| told.has(n)).collect()
    }

    /// What is sent again has another identification, also where all of it is, and at once.
    #[test]
    fn what_is_sent_again_is_no_copy() {
        let again = |id: fn(u16) -> Option<u16>| -> Vec<(u64, u32, Option<u16>)> {
            let pairs = (1..20_u16).map(|n| {
                let (at_ms, seq) = (10 * u64::from(n), 1000 * u32::from(n));
                [(at_ms, seq, Some(2 * n)), (at_ms, seq, id(n))]
            });
            pairs.flatten().collect()
        };
        assert_eq!(told(&again(|n| Some(2 * n + 1))), [true; 38]);
        assert_eq!(told(&again(|n| Some(2 * n))), [true, false].repeat(19));
    }

    /// Without identifications a few packets that are alike were sent again, and most were captured
    /// twice.
    #[test]
    fn without_identifications_the_share_tells() {
        let alike = |of: u32| -> Vec<(u64, u32, Option<u16>)> {
            let all = (0..100_u32).flat_map(|n| {
                let one = (10 * u64::from(n), 1000 * n, None);
                std::iter::once(one).chain((n % of == 0).then_some((one.0 + 1, one.1, None)))
            });
            all.collect()
        };
        assert_eq!(told(&alike(3)), [true; 134]);
        assert_eq!(told(&alike(1)), [true, false].repeat(100));
        // Much later it is no copy, and neither where nothing tells packets apart.
        let late: Vec<_> = (0..20_u64).map(|n| (n * 4000, 1000, Some(1))).collect();
        assert_eq!(told(&late), [true; 20]);
        let same: Vec<_> = (0..20).map(|n| (n, 1000, None)).collect();
        assert_eq!(told(&same), [true; 20]);
    }
}
