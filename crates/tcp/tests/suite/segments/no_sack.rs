//! Recovery without SACK: RFC 6582.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use fullpipe_cc::Algorithm;
use fullpipe_tcp::Config;
use fullpipe_tcp::wire::Header;

use super::lab::{Lab, config};

fn lab(algorithm: Algorithm) -> Lab {
    let syn = Header { sack_permitted: false, ..Lab::syn() };
    Lab::established_with(&Config { algorithm, ..config() }, syn)
}

/// Everything from `acked` to `end` that left is lost; the peer answers each copy after 100 ms. The
/// number of copies of each segment.
fn repair(lab: &mut Lab, mut acked: u32, end: u32) -> BTreeMap<u32, u32> {
    let mut copies = BTreeMap::new();
    let mut under_way = VecDeque::new();
    let mut there = BTreeSet::new();
    for ms in 0..60_000_u64 {
        while under_way.front().is_some_and(|&(at, _)| at <= ms) {
            let (_, start) = under_way.pop_front().expect("the first");
            there.insert(start);
            while there.contains(&acked) {
                acked += 1000;
            }
            lab.ack(0, acked);
        }
        for out in lab.after(1) {
            let (start, bytes) = out.range(lab);
            if bytes > 0 {
                *copies.entry(start).or_default() += 1;
                under_way.push_back((ms + 100, start));
            }
        }
        if acked == end && under_way.is_empty() {
            return copies;
        }
    }
    panic!("{acked} of {end} arrived");
}

/// RFC 6582 sections 3.2 and 4: after a timeout partial ACKs and duplicates begin nothing, so each
/// segment leaves once more.
#[test]
fn a_timeout_repeats_each_segment_once() {
    for algorithm in [Algorithm::RENO, Algorithm::BBR3, Algorithm::CUBIC] {
        let mut lab = lab(algorithm);
        lab.fly(10);
        let copies = repair(&mut lab, 0, 10_000);
        assert_eq!(lab.tcp.info().total_retrans, 10, "{algorithm}: {copies:?}");
    }
}

/// The same with 40 segments, of which some had not left.
#[test]
fn a_timeout_of_a_larger_flight_repeats_each_segment_once() {
    for algorithm in [Algorithm::RENO, Algorithm::BBR3, Algorithm::CUBIC] {
        let mut lab = lab(algorithm);
        let mut acked = 0;
        for _ in 0..2 {
            lab.write(20);
            lab.after(260);
            let sent = lab.tcp.info().data_segs_out as u32 * 1000;
            while acked < sent {
                acked += 1000;
                lab.ack(0, acked);
                lab.after(2);
            }
        }
        lab.write(40);
        lab.after(95);
        let sent = lab.tcp.info().data_segs_out as u32 - acked / 1000;
        assert!(sent >= 20, "{sent} are under way");
        let copies = repair(&mut lab, acked, 80_000);
        let info = lab.tcp.info();
        assert_eq!(info.total_retrans, u64::from(sent), "{algorithm}: {copies:?}");
        assert_eq!(info.timeouts, 1, "{algorithm}");
    }
}

/// RFC 6582 section 3.2, step 3: duplicates during a recovery are no loss.
#[test]
fn duplicates_in_a_recovery_are_no_loss() {
    let mut lab = lab(Algorithm::BBR3);
    lab.fly(10);
    lab.after(40);
    for _ in 0..3 {
        lab.ack(0, 0);
    }
    let out = lab.after(50);
    assert_eq!(lab.ranges(&out), [(0, 1000)]);
    lab.write(6);
    lab.after(30);
    // 5000 is lost too.
    lab.ack(0, 5000);
    let out = lab.after(50);
    assert!(lab.ranges(&out).contains(&(5000, 1000)), "{:?}", lab.ranges(&out));
    // What left later arrives, while the copy of 5000 is on its way.
    for _ in 0..3 {
        lab.ack(0, 5000);
    }
    let out = lab.after(30);
    let again = lab.ranges(&out).iter().filter(|range| range.0 == 5000).count();
    assert_eq!(again, 0, "sent again within a round trip");
}

/// RFC 6582 section 3.2, step 2: duplicates that the copies of a recovery made begin none.
#[test]
fn duplicates_after_a_recovery_are_its_own() {
    let mut lab = lab(Algorithm::RENO);
    lab.fly(10);
    let out = lab.after(1000);
    assert_eq!(lab.ranges(&out)[0], (0, 1000), "a timeout");
    // All originals were late; the copies make duplicates.
    lab.ack(0, 10_000);
    lab.write(4);
    lab.after(20);
    let before = lab.tcp.info();
    for _ in 0..3 {
        lab.ack(0, 10_000);
    }
    let after = lab.tcp.info();
    assert_eq!((after.lost_bytes, after.total_retrans), (0, before.total_retrans));
}

/// RFC 3042 section 2: the first two duplicates let a new segment leave each, beyond the congestion
/// window and within the peer's; none follows without another duplicate.
#[test]
fn two_duplicates_let_a_segment_leave_each() {
    let mut lab = lab(Algorithm::RENO);
    lab.write(30);
    lab.after(95);
    let window = (lab.tcp.info().snd_cwnd / 1000) as u32;
    assert_eq!(lab.tcp.info().data_segs_out as u32, window, "the window is full");
    for i in 0..2 {
        lab.ack(0, 0);
        let out = lab.all();
        assert_eq!(lab.ranges(&out), [((window + i) * 1000, 1000)]);
    }
    assert_eq!(lab.tcp.info().snd_cwnd, u64::from(window) * 1000, "it does not change");
    lab.ack(0, 0);
    let out = lab.all();
    assert_eq!(lab.ranges(&out), [(0, 1000)], "three tell of a loss");
}

/// RFC 5681 section 4.2: each segment out of order has a duplicate ACK, and the one that fills the
/// gap an ACK, however many are taken in together. With SACK one ACK tells of all.
#[test]
fn segments_out_of_order_that_come_together_have_an_ack_each() {
    let mut lab = lab(Algorithm::RENO);
    lab.data(0, &[7; 100]);
    for offset in [200, 300, 500, 100] {
        lab.data(offset, &[7; 100]);
    }
    let acks: Vec<_> = lab.all().iter().map(|out| out.header.ack).collect();
    assert_eq!(acks, [100, 100, 100, 100, 400].map(|at| Some(lab.their(at))));
    lab.quiet();
    let mut lab = Lab::established(&config());
    for offset in [0, 200, 300, 500] {
        lab.data(offset, &[7; 100]);
    }
    assert_eq!(lab.all().len(), 1);
}

/// Nothing is kept without bound for a peer whose segments come together.
#[test]
fn few_acks_wait_to_leave() {
    let mut lab = lab(Algorithm::RENO);
    for i in 0..1000 {
        lab.data(200 * i % 60_000 + 100, &[7; 100]);
    }
    let acks = lab.all().len();
    assert!((32..=100).contains(&acks), "{acks}");
}
