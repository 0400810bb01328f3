//! The packets of a flow, each once: a file may have copies, and its clock may have been set
//! meanwhile.
//!
//! Of copies at one place the first one is told. Of those at several places that one is told which
//! is next to the sender: it has the most hops left or comes first, and of acknowledgements the
//! least hops left, or comes last. Where the handshake shows that their clocks differ by more than
//! the packets' way, one of the clocks is told. A packet that is whole is told in place of one that
//! is cut.

use std::collections::{BTreeMap, HashMap};

use super::copies::{Copies, NEAR_NS, Place, Sighting};
use super::file::Frame;
use super::packet::Packet;

/// A step back in the times of an interface that is the clock's: packets of several queues are in
/// the wrong order by less.
const STEP_NS: u64 = 500_000_000;

/// The choice among the sightings of a packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Rule {
    /// The first of one place, or of the place whose clock is behind.
    First,
    /// That of the place whose clock is ahead.
    Last,
    /// By hops; where they are equal, the first of data and the last of acknowledgements.
    NextToSender,
}

/// The longest time in which TSval goes up by one (RFC 7323 section 5.4). A host's clock that shows
/// more than twice that is one that was set forward.
const TICK_NS: u64 = 1_000_000_000;

/// All packets of a flow in the order of the file.
#[derive(Default)]
pub(super) struct Sightings {
    all: Vec<Sighting>,
    newest_ns: HashMap<u32, u64>,
    /// The last time and TSval of an interface and a direction.
    stamps: HashMap<(u32, bool), (u64, u32)>,
    part: u32,
    /// The largest steps back and forward.
    back_ns: u64,
    forward_ns: u64,
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

impl Sightings {
    pub(super) fn len(&self) -> usize {
        self.all.len()
    }

    pub(super) fn add(&mut self, frame: &Frame<'_>, packet: &Packet<'_>, is_data_way: bool) {
        let newest_ns = self.newest_ns.entry(frame.interface).or_default();
        if frame.at_ns.saturating_add(STEP_NS) < *newest_ns {
            self.back_ns = self.back_ns.max(*newest_ns - frame.at_ns);
            self.part += 1;
            *newest_ns = 0;
        }
        *newest_ns = frame.at_ns.max(*newest_ns);
        let (at_ns, interface) = (frame.at_ns, frame.interface);
        let mut seen = Sighting::of(at_ns, interface, self.part, packet, is_data_way);
        if let Some(tsval) = seen.tsval
            && let Some((last_ns, last)) =
                self.stamps.insert((interface, is_data_way), (at_ns, tsval))
            && let Ok(ticks) = u64::try_from(tsval.wrapping_sub(last).cast_signed())
        {
            let gap_ns = at_ns.saturating_sub(last_ns);
            if gap_ns > 2 * TICK_NS * (ticks + 1) {
                self.forward_ns = self.forward_ns.max(gap_ns);
                self.part += 1;
                // The other direction goes on across the same step.
                self.stamps.remove(&(interface, !is_data_way));
            }
        }
        seen.part = self.part;
        self.all.push(seen);
    }

    /// The packets that are told, and why the others are not.
    pub(super) fn told(&self) -> Told {
        let copies = Copies::of(&self.all);
        let mut is_told = vec![true; self.all.len()];
        let mut remarks = Vec::new();
        self.leave_out_copies(&copies, &mut is_told, &mut remarks);
        if self.part > 0 && !self.is_put_together(&copies.packets) {
            self.leave_out_parts(&mut is_told, &mut remarks);
        }
        // Fewer were sent again, as a rule.
        if copies.doubtful * 10 >= copies.data.max(1) {
            remarks.push(format!(
                "{} packets of data are like others, and nothing shows if they are copies; they count as sent again",
                copies.doubtful
            ));
        }
        Told { is_told, remarks }
    }

    /// The sighting of a packet that is told, of those in the order of time.
    fn one_of(&self, packet: &[usize], rule: Rule) -> usize {
        let hops = |i: &&usize| self.all[**i].place.1;
        let one = match (rule, self.all[packet[0]].is_data_way) {
            (Rule::First, _) => packet.first(),
            (Rule::Last, _) => packet.last(),
            (Rule::NextToSender, true) => packet.iter().min_by_key(|i| u8::MAX - hops(i)),
            (Rule::NextToSender, false) => packet.iter().rev().min_by_key(hops),
        };
        let one = one.copied().unwrap_or(packet[0]);
        let at_ns = |i: usize| self.all[i].at_ns;
        let is_whole =
            |i: &&usize| !self.all[**i].is_cut && at_ns(**i).abs_diff(at_ns(one)) <= NEAR_NS;
        match self.all[one].is_cut {
            true => packet.iter().find(is_whole).copied().unwrap_or(one),
            false => one,
        }
    }

    /// The rule by which one clock is told. The times of two clocks have an answer in the handshake
    /// before what it answers, if they differ by more than the packets' way.
    fn rule(&self, copies: &Copies) -> Rule {
        let answers = |rule: Rule| {
            let answers = self.answers(&copies.packets, rule)?;
            Some((rule, answers))
        };
        let is_told = |(_, [ahead, behind]): &(Rule, [i128; 2])| {
            (*ahead).min(*behind) >= -i128::from(NEAR_NS)
        };
        match answers(Rule::NextToSender) {
            None if copies.apart_ns > 0 => Rule::First,
            Some(both) if !is_told(&both) => {
                let one = [Rule::First, Rule::Last].into_iter().filter_map(answers).filter(is_told);
                // The receiver's answer takes longest next to the sender.
                one.max_by_key(|(_, [ahead, _])| *ahead).map_or(Rule::NextToSender, |one| one.0)
            }
            _ => Rule::NextToSender,
        }
    }

    /// The times that the receiver and the sender of the data take to answer in the handshake, as a
    /// rule tells them, in nanoseconds.
    fn answers(&self, packets: &[Vec<usize>], rule: Rule) -> Option<[i128; 2]> {
        let mut is_told = vec![true; self.all.len()];
        for packet in packets {
            packet.iter().for_each(|i| is_told[*i] = false);
            is_told[self.one_of(packet, rule)] = true;
        }
        let first = |is_it: &dyn Fn(&Sighting) -> bool| {
            let told = self.all.iter().zip(&is_told).filter(|(s, is_told)| **is_told && is_it(s));
            told.map(|(s, _)| s).min_by_key(|s| s.at_ns)
        };
        let answer = first(&|s| s.syn == Some(true))?;
        let is_client = |s: &Sighting| s.is_data_way != answer.is_data_way;
        let syn = first(&|s| is_client(s) && s.syn == Some(false))?;
        let last = first(&|s| is_client(s) && s.syn.is_none())?;
        let between = |a: &Sighting, b: &Sighting| i128::from(b.at_ns) - i128::from(a.at_ns);
        let (to_server, to_client) = (between(syn, answer), between(answer, last));
        Some(if syn.is_data_way { [to_server, to_client] } else { [to_client, to_server] })
    }

    fn leave_out_copies(&self, copies: &Copies, is_told: &mut [bool], remarks: &mut Vec<String>) {
        let Some(most) = copies.packets.iter().map(Vec::len).max() else { return };
        let are_near = self.are_near(&copies.packets);
        let rule = if are_near { Rule::First } else { self.rule(copies) };
        // By direction and place: told, and left out.
        let mut places: BTreeMap<(bool, Place), [u64; 2]> = BTreeMap::new();
        let mut is_copied = vec![false; self.all.len()];
        for packet in &copies.packets {
            let one = self.one_of(packet, rule);
            for i in packet {
                is_told[*i] = *i == one;
                is_copied[*i] = true;
                let seen = &self.all[*i];
                let place = places.entry((seen.is_data_way, seen.place)).or_default();
                place[usize::from(!is_told[*i])] += 1;
            }
        }
        let times = if most == 2 { "twice".to_owned() } else { format!("up to {most} times") };
        let which = if are_near { "" } else { ", as the place next to the sender has it" };
        let packets = copies.packets.len();
        remarks.push(format!("{packets} packets were captured {times}; each is told once{which}"));
        if !are_near && rule != Rule::NextToSender {
            let is_data = |packet: &&Vec<usize>| self.all[packet[0]].is_data();
            let least =
                copies.packets.iter().filter(is_data).map(|packet| self.span_ns(packet)).min();
            // Behind a queue the later clock may show some packets first.
            let order = match least.is_some_and(|least_ns| least_ns <= 10 * NEAR_NS) {
                true => ", but about as much as the way between them: round trips may be wrong",
                false => "",
            };
            remarks.push(format!(
                "the clocks of its places differ; all is told by one of them{order}"
            ));
        }
        if are_near || !copies.are_usual {
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

    /// The time from the first of copies to the last one.
    fn span_ns(&self, packet: &[usize]) -> u64 {
        self.all[packet[packet.len() - 1]].at_ns - self.all[packet[0]].at_ns
    }

    /// True if as a rule all copies of a packet come within a time in which it is at one place.
    fn are_near(&self, packets: &[Vec<usize>]) -> bool {
        let mut spans: Vec<u64> = packets.iter().map(|packet| self.span_ns(packet)).collect();
        spans.sort_unstable();
        spans.get(spans.len() / 2).is_some_and(|span| *span <= NEAR_NS)
    }

    /// True if the times step back because captures of several places follow one another.
    fn is_put_together(&self, packets: &[Vec<usize>]) -> bool {
        let part = |i: usize| self.all[i].part;
        let later = self.all.iter().filter(|s| s.part > 0).count();
        let again = packets.iter().flatten().filter(|i| part(**i) > 0).count();
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
        let by_s = self.back_ns.max(self.forward_ns) as f64 / 1e9;
        let steps = match (self.part, self.back_ns) {
            (1, 0) => format!("forward by {by_s:.2} s"),
            (1, _) => format!("back by {by_s:.2} s"),
            (n, _) => format!("{n} times, by up to {by_s:.2} s"),
        };
        remarks.push(format!(
            "the clock of the capture was set {steps}; nothing is told across such a step, and of the parts \
             between them only that with most packets, {packets} of {}",
            self.all.len()
        ));
    }
}
