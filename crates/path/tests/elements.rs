//! Each element against its formula.

use fullpipe_cc::{Duration, Instant, Rate};
use fullpipe_path::{
    ConfigError, DropReason, ElementConfig, Event, Header, Path, PathConfig, Probability,
    QueueLimit, Selection,
};

const LATE: Instant = Instant::from_nanos(u64::MAX);

fn at(nanos: u64) -> Instant {
    Instant::from_nanos(nanos)
}

fn ns(nanos: u64) -> Duration {
    Duration::from_nanos(nanos)
}

fn path(row: Vec<ElementConfig>) -> Path<u64> {
    Path::new(&PathConfig { row, seed: 5 }).expect("a row that makes sense")
}

/// The payload, and why.
type Drop = (u64, DropReason);

/// Everything that comes out until the end: (time, payload), and the dropped with their reason.
fn drain(path: &mut Path<u64>) -> (Vec<(u64, u64)>, Vec<Drop>) {
    let (mut out, mut dropped) = (Vec::new(), Vec::new());
    while let Some(event) = path.poll(LATE) {
        match event {
            Event::Delivered(d) => out.push((d.at.as_nanos(), d.payload)),
            Event::Dropped(d) => dropped.push((d.payload, d.reason)),
        }
    }
    (out, dropped)
}

#[test]
fn a_policer_passes_the_bucket_and_then_its_rate_exactly() {
    // 1 byte in 3 ns, less a little: credit that was rounded would add up.
    let rate = Rate::from_bytes_per_sec(333_333_333);
    let mut path = path(vec![ElementConfig::Policer { rate, bucket_bytes: 6_000 }]);
    let passed = (0..4).filter(|i| path.send(at(0), 1_500, *i).is_ok()).count();
    assert_eq!(passed, 4, "the bucket is full at the start");
    let dropped = path.send(at(0), 1_500, 4).expect_err("and empty now");
    assert_eq!(dropped.reason, DropReason::Policed);
    // 1500 bytes take 4500 ns and a trifle.
    assert!(path.send(at(4_500), 1_500, 5).is_err());
    assert!(path.send(at(4_501), 1_500, 6).is_ok());
    // Four times its rate for a second: what passes is the rate, to the packet.
    let (start, mut passed) = (10_000_000_000, 0_u64);
    for i in 0..888_888_u64 {
        passed += u64::from(path.send(at(start + i * 1_125), 1_500, i).is_ok());
    }
    let earned = 6_000 + (u128::from(888_887 * 1_125_u64) * 333_333_333 / 1_000_000_000) as u64;
    assert_eq!(passed, earned / 1_500);
    assert_eq!(path.stats().policed.packets, 888_888 - passed + 2);
    let (out, _) = drain(&mut path);
    assert_eq!(out.last().map(|(t, i)| *t - start == i * 1_125), Some(true), "nothing waits");
}

#[test]
fn every_nth_packet_is_overtaken() {
    let packets = Selection::Every(3);
    let mut path = path(vec![ElementConfig::Reordering { packets, delay: ns(25) }]);
    for i in 0..7 {
        path.send(at(i * 10), 100, i).expect("nothing is dropped");
    }
    let (out, _) = drain(&mut path);
    assert_eq!(out, [(0, 0), (10, 1), (30, 3), (40, 4), (45, 2), (60, 6), (75, 5)]);
}

#[test]
fn what_is_held_back_can_change_and_what_was_held_back_stays_so() {
    let [all, none] = [Probability::ONE, Probability::ZERO].map(Selection::Random);
    let mut path = path(vec![ElementConfig::Reordering { packets: none, delay: ns(25) }]);
    for (now, packets) in [(0, all), (10, none), (20, all)] {
        path.set_reordered(at(now), packets).expect("there is a reordering");
        path.send(at(now), 100, now).expect("nothing is dropped");
    }
    assert_eq!(drain(&mut path).0, [(10, 10), (25, 0), (45, 20)]);
    assert_eq!(path.set_reordered(at(99), Selection::Every(0)), Err(ConfigError::EveryZeroth));
    let mut bare = Path::<u64>::new(&PathConfig::default()).expect("a wire");
    assert_eq!(bare.set_reordered(at(0), all), Err(ConfigError::NoReordering));
}

#[test]
fn random_reordering_has_its_probability() {
    let packets = Selection::Random(Probability::new(0.1).expect("a probability"));
    let mut path = path(vec![ElementConfig::Reordering { packets, delay: ns(1_000_000_000) }]);
    for i in 0..100_000 {
        path.send(at(i), 100, i).expect("nothing is dropped");
    }
    let back = path.inside().packets - path.elements()[0].left.packets;
    assert!((9_500..10_500).contains(&back), "{back}: binomial, 5 sigma are 474");
    assert_eq!(back, path.elements()[0].inside.packets);
}

fn aggregation(interval: u64, burst: QueueLimit, keep_one_in: u32) -> Path<u64> {
    path(vec![ElementConfig::Aggregation { interval: ns(interval), burst, keep_one_in }])
}

#[test]
fn a_batch_leaves_an_interval_after_its_first_packet() {
    let mut path = aggregation(100, QueueLimit::Packets(99), 1);
    for now in [0, 30, 99, 100, 150, 500] {
        path.send(at(now), 100, now).expect("nothing is dropped");
    }
    let (out, _) = drain(&mut path);
    // The batch that closes at 100 is closed before the packet of that moment comes.
    assert_eq!(out, [(100, 0), (100, 30), (100, 99), (200, 100), (200, 150), (600, 500)]);
}

#[test]
fn a_full_batch_leaves_at_once() {
    let mut path = aggregation(100, QueueLimit::Packets(2), 1);
    for now in [0, 30, 40, 170] {
        path.send(at(now), 100, now).expect("nothing is dropped");
    }
    assert_eq!(drain(&mut path).0, [(30, 0), (30, 30), (140, 40), (270, 170)]);
    let mut path = aggregation(100, QueueLimit::Bytes(1_500), 1);
    for (now, bytes) in [(0, 1_000), (10, 499), (20, 1), (30, 1)] {
        path.send(at(now), bytes, now).expect("nothing is dropped");
    }
    assert_eq!(drain(&mut path).0, [(20, 0), (20, 10), (20, 20), (130, 30)]);
}

#[test]
fn of_a_batch_one_ack_in_n_and_the_last_of_each_flow_go_on() {
    let mut path = aggregation(100, QueueLimit::Packets(99), 3);
    for (i, flow) in [0, 0, 0, 0, 0, 1, 1, 0].into_iter().enumerate() {
        let header = Header { flow, ..Header::from(52) };
        path.send(at(i as u64), header, i as u64).expect("decided later");
    }
    let (out, dropped) = drain(&mut path);
    assert_eq!(out, [(100, 2), (100, 4), (100, 6), (100, 7)]);
    assert_eq!(dropped, [0, 1, 3, 5].map(|i| (i, DropReason::Thinned)));
}

#[test]
fn several_bottlenecks_stand_in_a_row_and_each_says_what_happened() {
    let wire = |rate, packets| ElementConfig::Bottleneck {
        rate: Rate::from_bytes_per_sec(rate),
        queue: QueueLimit::Packets(packets),
    };
    // 1 us and then 2 us for a packet of 1000 bytes, and a short queue in between.
    let mut path = path(vec![wire(1_000_000_000, 10), wire(500_000_000, 2)]);
    for i in 0..6 {
        path.send(at(0), 1_000, i).expect("ten fit");
    }
    path.advance(at(3_500));
    let [first, second] = path.elements()[..] else { panic!("two elements") };
    assert_eq!((first.entered.packets, first.left.packets, first.inside.packets), (6, 3, 3));
    assert_eq!((second.entered.packets, second.left.packets, second.inside.packets), (3, 1, 2));
    assert_eq!((first.queue.delay, second.queue.delay), (ns(2_500), ns(3_500)));
    let (out, dropped) = drain(&mut path);
    assert_eq!(out, [(3_000, 0), (5_000, 1), (7_000, 2), (9_000, 4)]);
    assert_eq!(dropped, [3, 5].map(|i| (i, DropReason::TailDrop)));
    let [first, second] = path.elements()[..] else { panic!("two elements") };
    assert_eq!((first.max_packets, second.max_packets, second.dropped.packets), (6, 2, 2));
}
