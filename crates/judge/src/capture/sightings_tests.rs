//! Packets that were seen several times, made by hand.

use super::file::Frame;
use super::packet::{Packet, Tcp, Transport};
use super::sightings::{Sightings, Told};

/// A packet as it was seen, of data where nothing else is said.
#[derive(Clone, Copy, Debug)]
struct Seen {
    at_us: u64,
    is_ack: bool,
    id: Option<u16>,
    tcp: Tcp,
}

fn data(at_us: u64, seq: u32, id: Option<u16>) -> Seen {
    Seen { at_us, is_ack: false, id, tcp: Tcp { seq, payload: 1000, ..Tcp::default() } }
}

impl Seen {
    fn later(self, by_us: u64) -> Self {
        Self { at_us: self.at_us + by_us, ..self }
    }

    fn stamped(mut self, tsval: u32) -> Self {
        self.tcp.timestamps = Some((tsval, 1));
        self.tcp.options_len = 12;
        self
    }

    /// Captured up to its options.
    fn cut(mut self) -> Self {
        self.tcp.timestamps = None;
        self.tcp.are_options_cut = true;
        self
    }
}

fn all_told(all: &[Seen]) -> Told {
    let mut sightings = Sightings::default();
    for Seen { at_us, is_ack, id, tcp } in all.iter().copied() {
        let at_ns = at_us.saturating_mul(1000);
        let frame = Frame { at_ns, interface: 0, link: 1, bytes: &[], length: 1500 };
        let [from, to] = [1, 2].map(|n| ([10, 0, 0, n], 80).into());
        let packet = Packet { from, to, ecn: 0, hops: 64, id, transport: Transport::Tcp(tcp) };
        sightings.add(&frame, &packet, !is_ack);
    }
    sightings.told()
}

fn told(all: &[Seen]) -> Vec<bool> {
    let told = all_told(all);
    (0..all.len()).map(|n| told.has(n)).collect()
}

/// What is sent again has another identification, also where all of it is, and at once.
#[test]
fn what_is_sent_again_is_no_copy() {
    let again = |id: fn(u16) -> u16| -> Vec<Seen> {
        let pairs = (1..20_u16).map(|n| {
            let one = data(10_000 * u64::from(n), 1000 * u32::from(n), Some(2 * n));
            [one, Seen { id: Some(id(n)), ..one }]
        });
        pairs.flatten().collect()
    };
    assert_eq!(told(&again(|n| 2 * n + 1)), [true; 38]);
    assert_eq!(told(&again(|n| 2 * n)), [true, false].repeat(19));
}

/// Without identifications a few packets that are alike were sent again, and most were captured
/// twice.
#[test]
fn without_identifications_the_share_tells() {
    let alike = |of: u32| -> Vec<Seen> {
        let all = (0..100_u32).flat_map(|n| {
            let one = data(10_000 * u64::from(n), 1000 * n, None);
            std::iter::once(one).chain((n % of == 0).then_some(one.later(1000)))
        });
        all.collect()
    };
    assert_eq!(told(&alike(3)), [true; 134]);
    let said = all_told(&alike(3)).remarks.join("\n");
    assert!(said.starts_with("34 packets of data are like others"), "{said}");
    assert_eq!(told(&alike(1)), [true, false].repeat(100));
    // Much later it is no copy, and neither where nothing tells packets apart.
    let late: Vec<_> = (0..20_u64).map(|n| data(n * 4_000_000, 1000, Some(1))).collect();
    assert_eq!(told(&late), [true; 20]);
    let same: Vec<_> = (0..20).map(|n| data(1000 * n, 1000, None)).collect();
    assert_eq!(told(&same), [true; 20]);
}

/// No sender repeats within microseconds, also where few packets are alike.
#[test]
fn what_is_alike_at_once_is_a_copy() {
    let all: Vec<Seen> = (0..100_u32)
        .flat_map(|n| {
            let one = data(10_000 * u64::from(n), 1000 * n, None);
            std::iter::once(one).chain((n % 10 == 0).then_some(one.later(2)))
        })
        .collect();
    let one_of_ten: Vec<bool> = [true, false].into_iter().chain([true; 9]).collect();
    assert_eq!(told(&all), one_of_ten.repeat(10));
}

/// Acknowledgements may be alike: each has as many copies as data.
#[test]
fn acknowledgements_that_are_alike_have_copies_of_their_own() {
    for times in [2, 3] {
        let mut all: Vec<(Seen, bool)> = Vec::new();
        for n in 0..100_u32 {
            let one = data(10_000 * u64::from(n), 1000 * n, None);
            let tcp = Tcp { ack: Some(1000 * n), ..Tcp::default() };
            let answer = Seen { is_ack: true, tcp, ..one.later(5000) };
            let several = if n % 10 == 0 { 2 } else { 1 };
            all.extend((0..times).map(|copy| (one, copy == 0)));
            all.extend((0..several * times).map(|copy| (answer, copy % times == 0)));
        }
        let (seen, are_told): (Vec<Seen>, Vec<bool>) = all.into_iter().unzip();
        assert_eq!(told(&seen), are_told);
    }
}

/// A file that begins late has few copies. Time stamps show what was sent again.
#[test]
fn the_same_time_stamp_later_is_a_copy() {
    let mut all: Vec<(Seen, bool)> = Vec::new();
    for n in 0..100_u32 {
        let one = data(10_000 * u64::from(n), 1000 * n, None).stamped(10 * n + 1);
        all.push((one, true));
        if n >= 80 {
            all.push((one.later(20_000), false));
        }
        if n % 10 == 0 {
            all.push((one.later(45_000).stamped(10 * n + 46), true));
        }
    }
    all.sort_by_key(|(seen, _)| seen.at_us);
    let (seen, are_told): (Vec<Seen>, Vec<bool>) = all.into_iter().unzip();
    assert_eq!(told(&seen), are_told);
}

/// Two captures of a flow may keep other lengths of each packet. The whole one is told.
#[test]
fn copies_that_are_cut_are_copies() {
    for (is_cut_first, says) in [(false, [true, false]), (true, [false, true])] {
        let pairs = (1..20_u16).map(|n| {
            let at_us = 10_000 * u64::from(n);
            let one = data(at_us, 1000 * u32::from(n), Some(n)).stamped(u32::from(n));
            match is_cut_first {
                true => [one.cut(), one.later(2)],
                false => [one, one.cut().later(2)],
            }
        });
        assert_eq!(told(&pairs.flatten().collect::<Vec<_>>()), says.repeat(19));
    }
}

/// Without identifications and time stamps, what is sent again is there as often as all else.
#[test]
fn what_is_sent_again_has_copies_of_its_own() {
    let flow = |later_us: u64, lost: &[(u64, bool)]| -> (Vec<Seen>, Vec<bool>) {
        let mut all: Vec<(Seen, bool)> = Vec::new();
        for n in 0..100_u32 {
            let one = data(10_000 * u64::from(n), 1000 * n, None);
            match n % 20 {
                7 => all.extend(lost.iter().map(|(by_us, is_told)| (one.later(*by_us), *is_told))),
                _ => all.extend([(one, true), (one.later(later_us), false)]),
            }
        }
        all.sort_by_key(|(seen, _)| seen.at_us);
        all.into_iter().unzip()
    };
    // At one place, and at both ends, where the first one did not come to the other end.
    for (later_us, lost) in [
        (2, &[(0, true), (2, false), (45_000, true), (45_002, false)][..]),
        (20_000, &[(0, true), (45_000, true), (65_000, false)]),
        (20_000, &[(0, true), (20_000, false), (45_000, true), (65_000, false)]),
    ] {
        let (seen, are_told) = flow(later_us, lost);
        assert_eq!(told(&seen), are_told, "{later_us} {lost:?}");
    }
}

/// Some hosts have the same identification in each packet.
#[test]
fn one_identification_in_all_packets_is_none() {
    let all = (0..100_u32).flat_map(|n| {
        let one = data(10_000 * u64::from(n), 1000 * n, Some(7));
        std::iter::once(one).chain((n % 20 == 0).then_some(one.later(45_000)))
    });
    let mut all: Vec<Seen> = all.collect();
    all.sort_by_key(|seen| seen.at_us);
    assert_eq!(told(&all), [true; 105]);
}

/// A damaged time is as late as any.
#[test]
fn the_latest_time_is_no_step_back() {
    let last = data(u64::MAX, 1000, None);
    let all = [last, Seen { tcp: Tcp { seq: 2000, ..last.tcp }, ..last }];
    let told = all_told(&all);
    assert!(told.remarks.is_empty(), "{:?}", told.remarks);
}

/// Captures of both ends in a file, whose clocks differ by more than the way between them.
#[test]
fn of_two_clocks_one_is_told() {
    for ahead_us in [0_i64, 100_000, -100_000, 5_000_000, -5_000_000] {
        // Times at the sender and at the receiver, the latter by its own clock.
        let mut all: Vec<(Seen, bool)> = Vec::new();
        let mut id = 0;
        let mut pass = |sender_us: u64, receiver_us: u64, is_ack: bool, tcp: Tcp| {
            id += 1;
            let at = |at_us: u64| Seen { at_us: 10_000_000 + at_us, is_ack, id: Some(id), tcp };
            let receiver = at(receiver_us);
            let at_us = receiver.at_us.saturating_add_signed(ahead_us);
            all.extend([(at(sender_us), true), (Seen { at_us, ..receiver }, false)]);
        };
        let syn = Tcp { syn: true, ..Tcp::default() };
        pass(0, 20_000, false, syn);
        pass(40_000, 20_010, true, Tcp { ack: Some(1), ..syn });
        pass(40_010, 60_010, false, Tcp { seq: 1, ack: Some(1), ..Tcp::default() });
        for n in 0..200 {
            let at_us = 50_000 + 10_000 * u64::from(n);
            let tcp = Tcp { seq: 1 + 1000 * n, payload: 1000, ack: Some(1), ..Tcp::default() };
            pass(at_us, at_us + 20_000, false, tcp);
            let tcp = Tcp { seq: 1, ack: Some(1001 + 1000 * n), ..Tcp::default() };
            pass(at_us + 40_010, at_us + 20_010, true, tcp);
        }
        all.sort_by_key(|(seen, _)| seen.at_us);
        let (seen, are_told): (Vec<Seen>, Vec<bool>) = all.into_iter().unzip();
        assert_eq!(told(&seen), are_told, "{ahead_us}");
        let said = all_told(&seen).remarks.join("\n");
        let is_said = said.contains("the clocks of its places differ");
        assert_eq!(is_said, ahead_us != 0, "{ahead_us}: {said}");
        assert!(!said.contains("round trips may be wrong"), "{ahead_us}: {said}");
    }
}

/// A clock that is late by about the packets' way, which a queue makes longer.
#[test]
fn of_two_clocks_that_differ_by_the_way_the_order_is_not_known() {
    let mut all: Vec<Seen> = Vec::new();
    let mut pass = |sender_us: u64, receiver_us: u64, is_ack: bool, tcp: Tcp| {
        let id = Some(1 + all.len() as u16);
        let at = |at_us: u64| Seen { at_us: 10_000_000 + at_us, is_ack, id, tcp };
        all.extend([at(sender_us), at(receiver_us - 30_000)]);
    };
    let syn = Tcp { syn: true, ..Tcp::default() };
    pass(30_000, 50_000, false, syn);
    pass(70_000, 50_010, true, Tcp { ack: Some(1), ..syn });
    pass(70_010, 90_010, false, Tcp { seq: 1, ack: Some(1), ..Tcp::default() });
    for n in 0..200 {
        let at_us = 80_000 + 10_000 * u64::from(n);
        let queue_us = 100 * u64::from(n);
        let tcp = Tcp { seq: 1 + 1000 * n, payload: 1000, ack: Some(1), ..Tcp::default() };
        pass(at_us, at_us + 20_000 + queue_us, false, tcp);
        let tcp = Tcp { seq: 1, ack: Some(1001 + 1000 * n), ..Tcp::default() };
        pass(at_us + 40_010 + queue_us, at_us + 20_010 + queue_us, true, tcp);
    }
    all.sort_by_key(|seen| seen.at_us);
    let said = all_told(&all).remarks.join("\n");
    assert!(said.contains("round trips may be wrong"), "{said}");
}

/// A clock that is set forward goes on by more than time stamps do, and an idle flow does not. Both
/// directions are in each part.
#[test]
fn a_clock_that_is_set_forward_makes_two_parts() {
    let flow = |ticks: u32| -> Vec<Seen> {
        let pair = |n: u32, later: u32| {
            let one = data(10_000 * u64::from(n), 1000 * n, Some(n as u16));
            let one = one.later(1000 * u64::from(later)).stamped(10 * n + ticks.min(later));
            [one, Seen { is_ack: true, ..one }.later(10)]
        };
        let early = (0..40).flat_map(|n| pair(n, 0));
        early.chain((40..100).flat_map(|n| pair(n, 3_600_000))).collect()
    };
    assert_eq!(told(&flow(3_600_000)), [true; 200]);
    assert_eq!(told(&flow(0)), [[false; 80].as_slice(), &[true; 120]].concat());
    let said = all_told(&flow(0)).remarks.join("\n");
    assert!(said.contains("was set forward by 3600.01 s"), "{said}");
}
