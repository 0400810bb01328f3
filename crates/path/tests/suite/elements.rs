//! Each element against its formula.

use crate::common::{at, drain, ns, path, times};
use fullpipe_path::{
    ConfigError, DropReason, Ecn, ElementConfig, Event, Header, LossConfig, Path, PathConfig,
    Probability, QueueLimit, RateConfig, Selection, TraceError,
};
use fullpipe_units::{Duration, Rate};

#[test]
fn a_policer_passes_the_bucket_and_then_its_rate_exactly() {
    // 1 byte in 3 ns, less a little: credit that was rounded would add up.
    let rate = Rate::from_bytes_per_sec(333_333_333);
    let mut path =
        path(vec![ElementConfig::Policer { rate, bucket_bytes: 6_000, initial_bytes: 6_000 }]);
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
fn a_policer_begins_with_what_is_in_its_bucket() {
    let rate = Rate::from_bytes_per_sec(1_000_000_000);
    let passed = |initial_bytes| {
        let mut path =
            path(vec![ElementConfig::Policer { rate, bucket_bytes: 6_000, initial_bytes }]);
        // A byte comes in each nanosecond, up to the bucket's 6000.
        [0, 1_500, 20_000]
            .map(|now| (0..9).filter(|i| path.send(at(now), 1_500, now + i).is_ok()).count())
    };
    assert_eq!(passed(0), [0, 1, 4]);
    assert_eq!(passed(3_000), [2, 1, 4]);
    assert_eq!(passed(6_000), [4, 1, 4]);
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
        rate: Rate::from_bytes_per_sec(rate).into(),
        queue: QueueLimit::Packets(packets).into(),
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

fn p(probability: f64) -> Probability {
    Probability::new(probability).expect("a probability")
}

/// The numbers of the packets that are dropped, of `n` sent a nanosecond apart.
fn lost(loss: LossConfig, n: u64) -> Vec<u64> {
    let mut path = path(vec![ElementConfig::Loss(loss)]);
    (0..n).filter(|i| path.send(at(*i), 100, *i).is_err()).collect()
}

#[test]
fn gilbert_elliott_has_its_rate_and_its_bursts() {
    const N: u64 = 2_000_000;
    let (to_bad, to_good) = (p(0.002), p(0.1));
    let simple = LossConfig::GilbertElliott {
        to_bad,
        to_good,
        loss_in_good: Probability::ZERO,
        loss_in_bad: Probability::ONE,
    };
    let drops = lost(simple, N);
    let rate = drops.len() as f64 / N as f64;
    let expected = 0.002 / (0.002 + 0.1);
    assert!((rate / expected - 1.0).abs() < 0.05, "{rate} for {expected}");
    let bursts = 1 + drops.windows(2).filter(|w| w[0] + 1 != w[1]).count();
    let length = drops.len() as f64 / bursts as f64;
    assert!((length / 10.0 - 1.0).abs() < 0.05, "{length} for 10 in a burst");
    // Both states lose, each its own share.
    let loss_in_good = p(0.01);
    let both = LossConfig::GilbertElliott { to_bad, to_good, loss_in_good, loss_in_bad: p(0.5) };
    let rate = lost(both, N).len() as f64 / N as f64;
    let expected = 0.5 * expected + 0.01 * (1.0 - expected);
    assert!((rate / expected - 1.0).abs() < 0.05, "{rate} for {expected}");
}

#[test]
fn listed_packets_and_bursts_are_lost_by_their_number() {
    assert_eq!(lost(LossConfig::Listed(vec![0, 3, 4, 9]), 8), [0, 3, 4]);
    assert_eq!(lost(LossConfig::Bursts { every: 5, length: 2 }, 12), [3, 4, 8, 9]);
}

#[test]
fn an_overflow_lasts_its_time_however_many_packets_meet_it() {
    const N: u64 = 1_000_000;
    let overflows = || LossConfig::Overflows { begins: p(0.001), lasts: ns(20) };
    // Packets a nanosecond apart: 20 in a row are lost, one burst for each 1000 that pass.
    let drops = lost(overflows(), N);
    let bursts = 1 + drops.windows(2).filter(|w| w[0] + 1 != w[1]).count();
    assert!(drops.len() >= 20 * (bursts - 1) && drops.len() <= 21 * bursts, "{}", drops.len());
    let rate = drops.len() as f64 / N as f64;
    assert!((rate / (20.0 / 1020.0) - 1.0).abs() < 0.1, "{rate}");
    // Packets that are further apart than it lasts meet one each at the most.
    let mut path = path(vec![ElementConfig::Loss(overflows())]);
    let gone: Vec<bool> = (0..N).map(|i| path.send(at(20 * i), 100, i).is_err()).collect();
    let rate = gone.iter().filter(|gone| **gone).count() as f64 / N as f64;
    assert!((rate / 0.001 - 1.0).abs() < 0.1, "{rate}");
}

#[test]
fn a_blackhole_swallows_from_its_start_to_its_end() {
    let outages = vec![(ns(10), ns(20)), (ns(20), ns(30)), (ns(50), ns(51))];
    let mut path = path(vec![ElementConfig::Blackhole(outages)]);
    let mut gone = Vec::new();
    for now in [0, 9, 10, 19, 20, 29, 30, 50, 51, 99] {
        if let Err(dropped) = path.send(at(now), 100, now) {
            assert_eq!(dropped.reason, DropReason::Blackhole);
            gone.push(now);
        }
    }
    assert_eq!(gone, [10, 19, 20, 29, 50]);
    assert_eq!(path.stats().blackholed.packets, 5);
}

#[test]
fn limited_losses_are_never_more_in_a_row() {
    const N: u64 = 100_000;
    let loss = |in_a_row| {
        let loss = LossConfig::Limited { probability: p(0.5), in_a_row };
        path(vec![ElementConfig::Loss(loss)])
    };
    let runs = |path: &mut Path<u64>| {
        let lost: Vec<bool> = (0..N).map(|i| path.send(at(i), 100, i).is_err()).collect();
        let all = lost.iter().filter(|lost| **lost).count() as f64;
        (lost.split(|lost| !lost).map(<[bool]>::len).max(), all / N as f64)
    };
    // Of a chain whose states are how many were lost right before: with 1/2 and three, 7 of 15
    // packets are lost.
    let (longest, share) = runs(&mut loss(3));
    assert_eq!(longest, Some(3));
    assert!((share - 7.0 / 15.0).abs() < 0.01, "{share}");
    assert!(runs(&mut loss(1000)).0 > Some(8), "without a limit there are longer ones");
    let none = LossConfig::Limited { probability: p(0.5), in_a_row: 0 };
    let row = vec![ElementConfig::Loss(none)];
    assert_eq!(PathConfig { row, seed: 1 }.validate(), Err(ConfigError::NoneInARow));
}

#[test]
fn a_path_marks_what_can_be_marked_and_keeps_what_it_was_given() {
    const N: u64 = 10_000;
    let mut path = path(vec![ElementConfig::Marking(p(0.25))]);
    let given = [Ecn::NotEct, Ecn::Ect0, Ecn::Ect1, Ecn::Ce];
    let mut marked = [0; 4];
    for i in 0..N {
        for ecn in given {
            let header = Header { ecn, ..Header::from(100) };
            path.send(at(i), header, i).expect("nothing is dropped");
            let Some(Event::Delivered(out)) = path.poll(at(i)) else { panic!("it passes at once") };
            if out.ecn == ecn {
                continue;
            }
            assert_eq!(out.ecn, Ecn::Ce);
            marked[ecn as usize] += 1;
        }
    }
    assert_eq!((marked[Ecn::NotEct as usize], marked[Ecn::Ce as usize]), (0, 0));
    for ecn in [Ecn::Ect0, Ecn::Ect1] {
        let share = f64::from(marked[ecn as usize]) / N as f64;
        assert!((share - 0.25).abs() < 0.03, "{ecn:?}: {share}");
    }
    assert_eq!(path.stats().marked.packets, marked.iter().sum::<u32>().into());
}

/// RFC 9000 section 13.4.2: what a sender looks for.
#[test]
fn a_path_clears_the_ecn_field_with_its_probability() {
    const N: u64 = 10_000;
    let mut path = path(vec![ElementConfig::Bleaching(p(0.25))]);
    for ecn in [Ecn::Ect0, Ecn::Ect1, Ecn::Ce] {
        let cleared = (0..N).filter(|i| {
            let header = Header { ecn, ..Header::from(100) };
            path.send(at(*i), header, *i).expect("nothing is dropped");
            let Some(Event::Delivered(out)) = path.poll(at(*i)) else {
                panic!("it passes at once")
            };
            assert!([ecn, Ecn::NotEct].contains(&out.ecn));
            out.ecn == Ecn::NotEct
        });
        let share = cleared.count() as f64 / N as f64;
        assert!((share - 0.25).abs() < 0.03, "{ecn:?}: {share}");
    }
    assert_eq!(path.stats().marked.packets, 0);
}

/// RFC 9768 section 3.2.2.3: what no queue does.
#[test]
fn a_path_writes_ce_into_any_packet_with_its_probability() {
    const N: u64 = 10_000;
    let mut path = path(vec![ElementConfig::Mangling(p(0.25))]);
    for ecn in [Ecn::NotEct, Ecn::Ect0, Ecn::Ect1] {
        let written = (0..N).filter(|i| {
            let header = Header { ecn, ..Header::from(100) };
            path.send(at(*i), header, *i).expect("nothing is dropped");
            let Some(Event::Delivered(out)) = path.poll(at(*i)) else {
                panic!("it passes at once")
            };
            assert!([ecn, Ecn::Ce].contains(&out.ecn));
            out.ecn == Ecn::Ce
        });
        let share = written.count() as f64 / N as f64;
        assert!((share - 0.25).abs() < 0.03, "{ecn:?}: {share}");
    }
    assert_eq!(path.stats().marked.packets, 0, "no queue's marks");
}

#[test]
fn corruption_and_duplication_have_their_probability() {
    const N: u64 = 100_000;
    let row = vec![ElementConfig::Duplication(p(0.1)), ElementConfig::Corruption(p(0.2))];
    let mut path = path(row);
    let (mut seen, mut corrupted) = (vec![0_u64; N as usize], 0);
    for i in 0..N {
        path.send(at(i), 100, i).expect("nothing is lost");
        while let Some(Event::Delivered(d)) = path.poll(at(i)) {
            seen[d.payload as usize] += 1;
            corrupted += u64::from(d.corrupted);
        }
    }
    let twice = seen.iter().filter(|n| **n == 2).count() as u64;
    assert!(seen.iter().all(|n| (1..=2).contains(n)));
    assert!((9_500..10_500).contains(&twice), "{twice}: 5 sigma are 474");
    assert_eq!(
        (path.stats().duplicated.packets, path.stats().delivered.packets),
        (twice, N + twice)
    );
    assert!((21_300..22_700).contains(&corrupted), "{corrupted}: 5 sigma are 663");
}

#[test]
fn a_copy_waits_and_is_dropped_like_any_packet() {
    let wire = ElementConfig::Bottleneck {
        rate: Rate::from_bytes_per_sec(1_000_000_000).into(),
        queue: QueueLimit::Packets(3).into(),
    };
    let mut path = path(vec![ElementConfig::Duplication(Probability::ONE), wire]);
    path.send(at(0), 1_000, 1).expect("room");
    let dropped = path.send(at(0), 1_000, 2).expect_err("its copy took the last place");
    assert_eq!((dropped.payload, dropped.reason), (2, DropReason::TailDrop));
    assert_eq!(drain(&mut path).0, [(1_000, 1), (2_000, 1), (3_000, 2)]);
}

#[test]
fn a_shaper_lets_the_bucket_through_and_then_its_rate_exactly() {
    let (rate, queue) = (Rate::from_bytes_per_sec(1_000_000_000), QueueLimit::Packets(3));
    let mut path = path(vec![ElementConfig::Shaper { rate, bucket_bytes: 3_000, queue }]);
    for i in 0..5 {
        path.send(at(0), 1_500, i).expect("the bucket, then the queue");
    }
    path.send(at(0), 1_501, 5).expect_err("no room for a fourth");
    let late = path.send(at(10_000), 3_001, 6).expect_err("it can never have tokens");
    assert_eq!(late.reason, DropReason::TailDrop);
    path.send(at(10_000), 3_000, 7).expect("5500 ns have filled the bucket");
    let (out, _) = drain(&mut path);
    assert_eq!(out, [(0, 0), (0, 1), (1_500, 2), (3_000, 3), (4_500, 4), (10_000, 7)]);
}

#[test]
fn a_packet_is_carried_over_a_step_of_the_rate() {
    // 1000 bytes/us until 1.5 us, nothing until 3 us, then 500 bytes/us.
    let (fast, slow) =
        (Rate::from_bytes_per_sec(1_000_000_000), Rate::from_bytes_per_sec(500_000_000));
    let steps = vec![(ns(0), fast), (ns(1_500), Rate::ZERO), (ns(3_000), slow)];
    let rate = RateConfig::Steps(steps);
    let queue = QueueLimit::Packets(10).into();
    let mut path = path(vec![ElementConfig::Bottleneck { rate, queue }]);
    for i in 0..3 {
        path.send(at(0), 1_000, i).expect("room");
    }
    // Half of the second is done before the outage.
    assert_eq!(path.sample(at(0)).queue.delay, ns(6_000));
    assert_eq!(times(&drain(&mut path).0), [1_000, 4_000, 6_000]);
    // Longer than from one step to the next but one.
    let rate = RateConfig::Steps(vec![(ns(0), slow), (ns(100), fast), (ns(200), slow)]);
    let mut path = self::path(vec![ElementConfig::Bottleneck { rate, queue }]);
    path.send(at(50), 1_000, 0).expect("room");
    assert_eq!(times(&drain(&mut path).0), [200 + 2 * (1_000 - 25 - 100)]);
}

#[test]
fn a_trace_delivers_1500_bytes_at_each_of_its_times_and_begins_again() {
    let rate = RateConfig::mahimahi("# two at once\n2\n2\n\n5\n").expect("a trace");
    let queue = QueueLimit::Packets(100).into();
    let mut path = path(vec![ElementConfig::Bottleneck { rate, queue }]);
    for (i, bytes) in [1_500, 700, 800, 1_500, 1_501, 1_499].into_iter().enumerate() {
        path.send(at(0), bytes, i as u64).expect("room");
    }
    // One that comes when nothing waits does not get what was left over before, but may use the
    // very moment at which it comes: 15 ms are the end of the third round.
    path.send(at(15_000_000), 1_500, 6).expect("room");
    path.send(at(15_000_001), 1_500, 7).expect("room");
    let ms: Vec<f64> = times(&drain(&mut path).0).iter().map(|t| *t as f64 / 1e6).collect();
    assert_eq!(ms, [2.0, 2.0, 2.0, 5.0, 7.0, 7.0, 15.0, 17.0]);
}

#[test]
fn what_a_trace_leaves_over_is_lost_when_nothing_waits() {
    let rate = RateConfig::mahimahi("2\n").expect("a trace");
    let queue = QueueLimit::Packets(100).into();
    let mut path = path(vec![ElementConfig::Bottleneck { rate, queue }]);
    for now in [0, 3_000_000] {
        path.send(at(now), 100, now).expect("room");
    }
    assert_eq!(times(&drain(&mut path).0), [2_000_000, 4_000_000]);
}

/// A packet's wait on a trace, and its sojourn time in a discipline, last until an opportunity.
#[test]
fn a_packet_stays_in_the_queue_until_the_opportunity_that_carries_it() {
    let rate = RateConfig::mahimahi("100\n").expect("a trace");
    let queue = QueueLimit::Packets(100).into();
    let mut path = path(vec![ElementConfig::Bottleneck { rate, queue }]);
    let ms = 1_000_000;
    // The third fits in what the second leaves over; the fourth begins with the rest of that one.
    for (i, bytes) in [1_500, 1_000, 400, 200, 1_300].into_iter().enumerate() {
        path.send(at(ms), bytes, i as u64).expect("room");
    }
    assert_eq!(path.sample(at(ms)).queue.delay, ns(299 * ms), "4400 bytes end in the third");
    let mut seen = Vec::new();
    while let Some(Event::Delivered(d)) = path.poll(at(500 * ms)) {
        seen.push((d.payload, d.queued.as_nanos() / ms, d.at.as_nanos() / ms));
    }
    assert_eq!(seen, [(0, 99, 100), (1, 199, 200), (2, 199, 200), (3, 199, 300), (4, 299, 300)]);
    // One that comes to an empty queue waits for the next opportunity.
    assert_eq!(path.sample(at(510 * ms)).queue.delay, ns(90 * ms));
    path.send(at(510 * ms), 1_500, 5).expect("room");
    assert_eq!(path.sample(at(520 * ms)).queue.delay, ns(180 * ms));
    path.advance(at(550 * ms));
    // A new rate carries it from now on.
    path.set_rate(at(550 * ms), Rate::from_bytes_per_sec(1_500_000)).expect("a rate");
    let Some(Event::Delivered(d)) = path.poll(at(600 * ms)) else { panic!("it leaves") };
    assert_eq!((d.queued, d.at), (ns(40 * ms), at(551 * ms)));
}

#[test]
fn a_packet_stays_in_the_queue_while_the_rate_is_0() {
    let ms = 1_000_000;
    let rate = Rate::from_bytes_per_sec(1_500_000);
    let steps = vec![(ns(0), rate), (ns(10 * ms), Rate::ZERO), (ns(110 * ms), rate)];
    let queue = QueueLimit::Packets(100).into();
    let rate = RateConfig::Steps(steps);
    let mut path = path(vec![ElementConfig::Bottleneck { rate, queue }]);
    // The first is on the wire when the outage begins, and stays there; the last finds it empty.
    path.send(at(9 * ms + ms / 2), 1_500, 0).expect("room");
    path.send(at(9 * ms + ms / 2), 1_500, 1).expect("room");
    let mut seen = Vec::new();
    while let Some(Event::Delivered(d)) = path.poll(at(115 * ms)) {
        seen.push((d.payload, d.queued.as_nanos() / 1_000, d.at.as_nanos() / 1_000));
    }
    assert_eq!(seen, [(0, 0, 110_500), (1, 101_000, 111_500)]);
    // One leaves the queue empty just when the outage begins; the next comes in the middle of it.
    let rate = Rate::from_bytes_per_sec(1_500_000);
    let steps = vec![(ns(0), rate), (ns(10 * ms), Rate::ZERO), (ns(110 * ms), rate)];
    let rate = RateConfig::Steps(steps);
    let mut path = self::path(vec![ElementConfig::Bottleneck { rate, queue }]);
    path.send(at(9 * ms), 1_500, 0).expect("room");
    path.send(at(50 * ms), 1_500, 1).expect("room");
    let mut seen = Vec::new();
    while let Some(Event::Delivered(d)) = path.poll(at(115 * ms)) {
        seen.push((d.payload, d.queued.as_nanos() / ms, d.at.as_nanos() / ms));
    }
    assert_eq!(seen, [(0, 0, 10), (1, 60, 111)]);
    let steps = vec![(ns(0), Rate::from_bytes_per_sec(1)), (ns(1), Rate::ZERO)];
    let back = [(ns(90 * ms), Rate::from_bytes_per_sec(1_500_000))];
    let rate = RateConfig::Steps(steps.into_iter().chain(back).collect());
    let mut path = self::path(vec![ElementConfig::Bottleneck { rate, queue }]);
    path.send(at(20 * ms), 1_500, 0).expect("room");
    assert_eq!(path.sample(at(20 * ms)).queue.delay, ns(71 * ms));
    let Some(Event::Delivered(d)) = path.poll(at(115 * ms)) else { panic!("it leaves") };
    assert_eq!((d.queued, d.at), (ns(70 * ms), at(91 * ms)));
}

#[test]
fn a_trace_that_makes_no_sense_is_refused_with_its_line() {
    let line = |text| RateConfig::mahimahi(text).expect_err("nonsense").to_string();
    assert_eq!(
        line("1\nx\n"),
        "line 2: \"x\" is no time: give whole milliseconds, one time a line"
    );
    assert_eq!(
        line("1\n\u{1b}[31mred\n"),
        "line 2: \"\\u{1b}[31mred\" is no time: give whole milliseconds, one time a line"
    );
    assert_eq!(line("5\n4\n"), "line 2: 4 ms is before the line above: times never decrease");
    let empty = TraceError::Config(ConfigError::EmptyTrace);
    assert_eq!(RateConfig::mahimahi("# nothing\n").expect_err("empty"), empty);
    assert_eq!(RateConfig::mahimahi("0\n").expect_err("endlessly fast"), empty);
}

#[test]
fn a_shorter_delay_lets_nothing_overtake() {
    let steps = vec![(ns(0), ns(100)), (ns(50), ns(10)), (ns(200), ns(30))];
    let mut path = path(vec![ElementConfig::DelaySteps(steps)]);
    for now in [0, 49, 50, 60, 140, 199, 200] {
        path.send(at(now), 100, now).expect("nothing is lost");
    }
    assert_eq!(times(&drain(&mut path).0), [100, 149, 149, 149, 150, 209, 230]);
}

#[test]
fn jitter_is_uniform_and_keeps_the_order() {
    const N: u64 = 100_000;
    let mut path = path(vec![ElementConfig::Jitter(ns(1_000).into())]);
    // Far enough apart that no packet holds up another.
    for i in 0..N {
        path.send(at(i * 10_000), 100, i).expect("nothing is lost");
    }
    let extra: Vec<u64> = drain(&mut path).0.iter().map(|(t, i)| t - i * 10_000).collect();
    assert_eq!((extra.iter().min(), extra.iter().max()), (Some(&0), Some(&1_000)));
    let mean = extra.iter().sum::<u64>() as f64 / N as f64;
    assert!((mean - 500.0).abs() < 5.0, "{mean}: 5 sigma are 4.6");
    // So close that almost each would overtake another.
    let mut path = self::path(vec![ElementConfig::Jitter(ns(1_000).into())]);
    for i in 0..1_000 {
        path.send(at(i), 100, i).expect("nothing is lost");
    }
    let (out, _) = drain(&mut path);
    assert!(out.is_sorted_by_key(|(_, i)| *i) && out.is_sorted_by_key(|(t, _)| *t));
}

#[test]
fn what_makes_no_sense_is_refused_in_a_clear_line() {
    let refused = |element| {
        let config = PathConfig { row: vec![element], seed: 1 };
        Path::<()>::new(&config).expect_err("nonsense").to_string()
    };
    let rate = Rate::from_bytes_per_sec(1);
    let bucket_bytes = 1_499;
    assert_eq!(
        refused(ElementConfig::Policer { rate, bucket_bytes, initial_bytes: 0 }),
        "a bucket of 1499 bytes lets no full packet pass: give at least 1500 bytes"
    );
    assert_eq!(
        refused(ElementConfig::Policer { rate, bucket_bytes: 1_500, initial_bytes: 1_501 }),
        "a bucket of 1500 bytes cannot hold 1501 at the start: give at most as many"
    );
    assert_eq!(
        refused(ElementConfig::Reordering { packets: Selection::Every(0), delay: ns(1) }),
        "every 0th packet is none: give at least 1"
    );
    assert_eq!(
        refused(ElementConfig::Blackhole(vec![(ns(5), ns(9)), (ns(8), ns(10))])),
        "outages have to ascend: put them in order, each once"
    );
    assert_eq!(
        refused(ElementConfig::DelaySteps(vec![(ns(5), ns(9))])),
        "the first step has to be at 0: say what holds from the beginning"
    );
    assert_eq!(
        refused(ElementConfig::Loss(LossConfig::Bursts { every: 3, length: 3 })),
        "3 of every 3 packets are no burst: lose at least 1, and fewer than all"
    );
    let rate = RateConfig::Steps(vec![(Duration::ZERO, rate), (ns(1), Rate::ZERO)]);
    let queue = QueueLimit::Packets(1).into();
    assert!(
        refused(ElementConfig::Bottleneck { rate, queue })
            .starts_with("the last step is a rate of 0")
    );
}
