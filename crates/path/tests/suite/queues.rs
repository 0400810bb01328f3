//! Queue disciplines against their RFCs, from outside.

use crate::common::{LATE, at, drain, ns, path};
use fullpipe_path::{
    CoDelConfig, DropReason, DualPi2Config, Ecn, ElementConfig, Event, FqCoDelConfig, Header, Path,
    PieConfig, Probability, QueueConfig, QueueLimit, RateConfig, RedConfig, StepConfig,
};
use fullpipe_units::{Duration, Instant, Rate};

/// A millisecond for a packet of 1200 bytes.
const RATE: Rate = Rate::from_bytes_per_sec(1_200_000);
const MS: u64 = 1_000_000;

fn wire(queue: QueueConfig) -> Path<u64> {
    path(vec![ElementConfig::Bottleneck { rate: RATE.into(), queue }])
}

fn packet(flow: u32, ecn: Ecn) -> Header {
    Header { wire_bytes: 1_200, flow, ecn }
}

/// Observations of a steady load of one flow.
#[derive(Default)]
struct Seen {
    dropped: Vec<Instant>,
    marked: Vec<Instant>,
    waits: Vec<(Instant, Duration)>,
}

/// Sends a packet every `gap` until `end`.
fn load(path: &mut Path<u64>, ecn: Ecn, gap: u64, end: u64) -> Seen {
    let mut seen = Seen::default();
    for i in 0..end / gap {
        let now = at(i * gap);
        if let Err(dropped) = path.send(now, packet(1, ecn), i) {
            seen.dropped.push(dropped.at);
        }
        while let Some(event) = path.poll(now) {
            match event {
                Event::Dropped(d) => seen.dropped.push(d.at),
                Event::Delivered(d) => {
                    seen.waits.push((d.at, d.queued));
                    if d.ecn == Ecn::Ce {
                        // It was marked when it went on the wire.
                        seen.marked.push(d.at - ns(MS));
                    }
                }
            }
        }
    }
    seen
}

/// The mean wait in ms of what left from `from` on.
fn mean_wait(seen: &Seen, from: u64) -> f64 {
    let late: Vec<u64> =
        seen.waits.iter().filter(|(t, _)| *t >= at(from)).map(|(_, w)| w.as_nanos()).collect();
    late.iter().sum::<u64>() as f64 / late.len() as f64 / MS as f64
}

#[test]
fn a_step_marks_what_finds_more_than_the_threshold() {
    let limit = QueueLimit::Packets(5);
    let config = StepConfig { limit, mark_above: QueueLimit::Packets(2) };
    let mut path = wire(QueueConfig::Step(config));
    for (i, ecn) in
        [Ecn::Ect0, Ecn::Ect0, Ecn::Ect1, Ecn::Ect0, Ecn::NotEct].into_iter().enumerate()
    {
        path.send(at(0), packet(1, ecn), i as u64).expect("room");
    }
    path.send(at(0), packet(1, Ecn::Ect0), 5).expect_err("no room for a sixth");
    let ecn: Vec<Ecn> = std::iter::from_fn(|| path.poll(LATE))
        .filter_map(|e| if let Event::Delivered(d) = e { Some(d.ecn) } else { None })
        .collect();
    // The fourth finds three before it; the fifth does too and does not understand a mark.
    assert_eq!(ecn, [Ecn::Ect0, Ecn::Ect0, Ecn::Ect1, Ecn::Ce, Ecn::NotEct]);
    assert_eq!((path.stats().marked.packets, path.elements()[0].marked.packets), (1, 1));
}

fn codel(ecn: bool) -> QueueConfig {
    QueueConfig::CoDel(CoDelConfig { ecn, ..CoDelConfig::new(QueueLimit::Packets(100_000)) })
}

/// RFC 8289's `control_law`: the n-th signal follows the one before it after interval / sqrt(n), on
/// the grid of the packets that leave.
fn assert_control_law(signals: &[Instant]) {
    let (first, mut expected) = (signals[0], signals[0].as_nanos() as f64);
    // Double the rate: a packet waits half as long as the load lasts, 5 ms after 10; then an
    // interval.
    let ms = first.as_nanos() / MS;
    assert!((109..=111).contains(&ms), "the first after {ms} ms");
    for (n, signal) in signals.iter().enumerate() {
        let off = signal.as_nanos() as f64 - expected;
        assert!((-1_000.0..=1.001e6).contains(&off), "signal {n} is {off} ns off");
        expected += 100e6 / ((n + 1) as f64).sqrt();
    }
}

#[test]
fn codel_drops_by_its_control_law() {
    let mut path = wire(codel(false));
    let seen = load(&mut path, Ecn::Ect0, MS / 2, 5_000 * MS);
    assert_control_law(&seen.dropped);
    // The sum of 100 / sqrt(n) ms, about 200 sqrt(n) - 146, reaches the 4.89 s that are left at
    // 634.
    assert!((632..=636).contains(&seen.dropped.len()), "{}", seen.dropped.len());
    assert!(seen.marked.is_empty());
    assert_eq!(path.stats().aqm_dropped.packets, seen.dropped.len() as u64);
}

#[test]
fn codel_marks_instead_where_it_is_understood() {
    let seen = load(&mut wire(codel(true)), Ecn::Ect0, MS / 2, 3_000 * MS);
    assert!(seen.dropped.is_empty());
    // A packet that was marked before the end of the load may not have left by then.
    assert_control_law(&seen.marked);
    let seen = load(&mut wire(codel(true)), Ecn::NotEct, MS / 2, 3_000 * MS);
    assert!(seen.marked.is_empty());
    assert_control_law(&seen.dropped);
}

#[test]
fn codel_lets_a_good_queue_be() {
    // Bursts of 80 ms that drain are gone before an interval is over.
    let mut path = wire(codel(false));
    for burst in 0..50 {
        for i in 0..80 {
            path.send(at(burst * 100 * MS), packet(1, Ecn::NotEct), i).expect("room");
        }
    }
    assert_eq!(drain(&mut path).1, []);
}

/// RFC 8289's `dodequeue`: a slow wire with no more than a packet behind the one on it is left
/// alone.
#[test]
fn codel_drops_nothing_when_no_more_than_a_packet_waits() {
    let mut path = wire(codel(false));
    path.set_rate(at(0), Rate::from_bytes_per_sec(12_000)).expect("a rate");
    path.send(at(0), packet(1, Ecn::NotEct), 0).expect("on the wire");
    let seen = load(&mut path, Ecn::NotEct, 100 * MS, 10_000 * MS);
    assert!(seen.waits.iter().skip(2).all(|(_, wait)| *wait >= ns(100 * MS)), "one always waits");
    assert!(seen.dropped.is_empty());
}

#[test]
fn codel_marks_besides_what_waited_longer_than_the_threshold() {
    let limit = QueueLimit::Packets(100);
    let ce_threshold = Some(Duration::from_millis(3));
    let config = CoDelConfig { ce_threshold, ..CoDelConfig::new(limit) };
    let mut path = wire(QueueConfig::CoDel(config));
    for i in 0..6 {
        path.send(at(0), packet(1, Ecn::Ect1), i).expect("room");
    }
    let ce = std::iter::from_fn(|| path.poll(LATE))
        .map(|e| matches!(e, Event::Delivered(d) if d.ecn == Ecn::Ce));
    assert_eq!(ce.collect::<Vec<_>>(), [false, false, false, false, true, true]);
}

/// RFC 8290: a flow that builds no queue is not held up by one that does.
#[test]
fn fq_codel_serves_a_new_flow_first_and_shares_by_bytes() {
    let mut path = wire(QueueConfig::FqCoDel(FqCoDelConfig::new()));
    for i in 0..10 {
        path.send(at(0), packet(1, Ecn::NotEct), i).expect("room");
    }
    path.send(at(1), packet(2, Ecn::NotEct), 100).expect("room");
    let order: Vec<u64> = drain(&mut path).0.iter().map(|(_, i)| *i).collect();
    assert_eq!(order[..4], [0, 1, 100, 2], "flow 1 has credit for a second one: {order:?}");

    let mut path = wire(QueueConfig::FqCoDel(FqCoDelConfig::new()));
    for i in 0..300 {
        for (flow, wire_bytes) in [(1, 1_500), (2, 500), (3, 100)] {
            let header = Header { flow, ..Header::from(wire_bytes) };
            path.send(at(0), header, u64::from(flow) * 1_000 + i).expect("room");
        }
    }
    let mut bytes = [0; 4];
    for _ in 0..250 {
        let Some(Event::Delivered(d)) = path.poll(LATE) else { panic!("packets are waiting") };
        bytes[(d.payload / 1_000) as usize] += d.wire_bytes;
    }
    let (least, most) = (bytes[1..].iter().min().expect("3"), bytes[1..].iter().max().expect("3"));
    assert!(most - least <= 3_100, "within two packets: {bytes:?}");
}

/// RFC 8290 section 4.2: those of the old list wait for those of the new one.
#[test]
fn fq_codel_puts_a_sparse_flow_before_all_that_have_had_a_turn() {
    let mut path = wire(QueueConfig::FqCoDel(FqCoDelConfig::new()));
    for i in 0..30 {
        path.send(at(0), packet(i as u32 % 3, Ecn::NotEct), i).expect("room");
    }
    path.send(at(9 * MS + 1), packet(4, Ecn::NotEct), 100).expect("room");
    let order: Vec<u64> = drain(&mut path).0.iter().map(|(_, i)| *i).collect();
    assert_eq!(order[10], 100, "the next after the one on the wire: {order:?}");
}

#[test]
fn fq_codel_drops_from_the_head_of_the_longest_queue() {
    let codel = CoDelConfig::new(QueueLimit::Packets(20));
    let mut path = wire(QueueConfig::FqCoDel(FqCoDelConfig { codel, ..FqCoDelConfig::new() }));
    path.send(at(0), packet(2, Ecn::NotEct), 100).expect("on the wire");
    path.send(at(0), packet(2, Ecn::NotEct), 101).expect("room");
    for i in 0..19 {
        path.send(at(0), packet(1, Ecn::NotEct), i).expect("another one has to go");
    }
    // At the 21st flow 1 had 19 waiting: half of its bytes went.
    let (out, dropped) = drain(&mut path);
    assert_eq!(dropped, (0..10).map(|i| (i, DropReason::TailDrop)).collect::<Vec<_>>());
    assert_eq!(out.len(), 11);
}

/// RFC 8033: an unresponsive load of 125 % loses a fifth, at about the target's delay.
#[test]
fn pie_holds_its_target_and_drops_what_is_too_much() {
    let config = PieConfig::new(QueueLimit::Packets(10_000));
    let mut path = wire(QueueConfig::Pie(config));
    let seen = load(&mut path, Ecn::NotEct, MS * 4 / 5, 120_000 * MS);
    assert!(seen.dropped[0] >= at(150 * MS), "the burst allowance: {}", seen.dropped[0].as_nanos());
    let late = seen.dropped.iter().filter(|t| **t >= at(60_000 * MS)).count();
    assert!((14_250..15_750).contains(&late), "{late} of 75000 for a fifth");
    let wait = mean_wait(&seen, 60_000 * MS);
    assert!((wait / 15.0 - 1.0).abs() < 0.15, "{wait} ms for 15");
}

/// RFC 8033 section 5.1: above 10 % it drops also what understands a mark.
#[test]
fn pie_marks_up_to_a_tenth() {
    let config = PieConfig::new(QueueLimit::Packets(10_000));
    let mut path = wire(QueueConfig::Pie(config));
    let seen = load(&mut path, Ecn::Ect0, MS * 4 / 5, 60_000 * MS);
    assert!(!seen.marked.is_empty() && seen.marked[0] < seen.dropped[0]);
    assert!(path.stats().aqm_dropped.packets > 0 && path.stats().tail_dropped.packets == 0);
    let config = PieConfig { ecn: false, ..config };
    let seen = load(&mut wire(QueueConfig::Pie(config)), Ecn::Ect0, MS * 4 / 5, 9_000 * MS);
    assert!(seen.marked.is_empty() && !seen.dropped.is_empty());
}

/// RFC 9332: the classic queue settles at its target, and a scalable flow beside it waits for no
/// more than a packet.
#[test]
fn dualpi2_holds_its_target_and_keeps_the_other_queue_short() {
    let config = DualPi2Config::new(QueueLimit::Packets(10_000));
    let mut path = wire(QueueConfig::DualPi2(config));
    let (mut classic, mut low_latency, mut dropped, mut marked) = (Vec::new(), Vec::new(), 0, 0);
    for i in 0..75_000 {
        let now = at(i * MS * 4 / 5);
        path.send(now, packet(1, Ecn::NotEct), i).expect("room");
        if i % 20 == 0 {
            path.send(now, packet(2, Ecn::Ect1), 1_000_000).expect("room");
        }
        while let Some(event) = path.poll(now) {
            match event {
                Event::Dropped(_) => dropped += u64::from(i > 37_500),
                Event::Delivered(d) if d.at < at(30_000 * MS) => {}
                Event::Delivered(d) if d.payload == 1_000_000 => {
                    marked += u64::from(d.ecn == Ecn::Ce);
                    low_latency.push(d.queued.as_nanos());
                }
                Event::Delivered(d) => classic.push(d.queued.as_nanos()),
            }
        }
    }
    let mean = |v: &[u64]| v.iter().sum::<u64>() as f64 / v.len() as f64 / MS as f64;
    assert!((mean(&classic) / 15.0 - 1.0).abs() < 0.15, "{} ms for 15", mean(&classic));
    assert!(low_latency.iter().all(|w| *w <= 2 * MS), "{} ms", mean(&low_latency));
    // 1.25 classic and 1/16 of low latency: 5/16 of 1.25 are too many, 37500 were sent.
    assert!((8_900..9_850).contains(&dropped), "{dropped} for 9375");
    // The coupled mark is 2 sqrt(1/4) = 1: as much as there can be.
    assert!(marked * 10 >= low_latency.len() as u64 * 9, "{marked} of {}", low_latency.len());
}

/// Thresholds of 30 and 90 packets, a small packet time of 1 ms.
fn red(ecn: bool) -> RedConfig {
    let p = |p| Probability::new(p).expect("a probability");
    RedConfig {
        limit: QueueLimit::Packets(1_000),
        min_bytes: 36_000,
        max_bytes: 108_000,
        max_probability: p(0.1),
        weight: p(0.002),
        packet_time: ns(MS),
        ecn,
    }
}

/// The average falls by (1 - w) in each packet time without a queue, also when the packets that
/// arrive meanwhile are dropped: such a packet does not end the idle time.
#[test]
fn red_forgets_its_average_while_it_drops_into_an_empty_queue() {
    let mut path = wire(QueueConfig::Red(red(true)));
    // The burst passes until the average is at the upper threshold; the rest of it raises the
    // average further.
    let held =
        (0..1_500).filter(|i| path.send(at(0), packet(1, Ecn::Ect0), *i).is_ok()).count() as f64;
    let n = 1_500.0 - held;
    // Both parts have a closed form: a ramp into the filter, then a constant.
    let w: f64 = 0.002;
    let ramp = held - (1.0 - (1.0 - w).powf(held)) / w;
    let average = held - (held - ramp) * (1.0 - w).powf(n);
    let end = held as u64 * MS;
    while path.poll(at(end)).is_some() {}
    assert_eq!(path.inside().packets, 0);
    let passed: Vec<u64> = (1..200)
        .map(|i| i * 50)
        .filter(|ms| path.send(at(end + ms * MS), packet(1, Ecn::Ect0), *ms).is_ok())
        .collect();
    // Each packet time takes 0.2 % off, and so does each arrival.
    let below = |packets: f64| (average / packets).ln() / w / (1.0 + 1.0 / 50.0);
    let (first, certain) = (below(90.0), below(30.0));
    assert!((500.0..700.0).contains(&first), "by the formula after {first} ms");
    assert!((passed[0] as f64 - first).abs() <= 55.0, "after {} ms for {first}", passed[0]);
    let late = (1..200).filter(|i| f64::from(i * 50) > certain + 50.0).count();
    let passed = passed.iter().filter(|ms| **ms as f64 > certain + 50.0).count();
    assert_eq!(passed, late, "all of those that come after {certain} ms");
}

/// The scheduler of DualPI2 keeps the credit of the classic queue while the other one is empty for
/// a moment: the classic queue gets its sixteenth although each low-latency packet leaves before
/// the next comes.
#[test]
fn dualpi2_gives_the_classic_queue_its_share_when_the_other_one_is_often_empty() {
    let mut config = DualPi2Config::new(QueueLimit::Packets(100_000));
    // No signals: the scheduler alone.
    (config.target, config.ramp_from) = (Duration::from_secs(100), Duration::from_secs(100));
    config.rtt_max = Duration::from_secs(1_000);
    let mut path = wire(QueueConfig::DualPi2(config));
    let mut classic = 0;
    for i in 0..10_000 {
        let now = at(i * MS);
        path.send(now, packet(1, Ecn::NotEct), 1).expect("room");
        // As much as the wire carries, a packet at a time.
        path.send(now, packet(2, Ecn::Ect1), 2).expect("room");
        while let Some(event) = path.poll(now) {
            let Event::Delivered(d) = event else { panic!("nothing signals") };
            classic += u64::from(d.payload == 1);
        }
    }
    assert!((600..=650).contains(&classic), "a sixteenth of 10000 is 625: {classic}");
}

/// A packet that comes with a mark is not marked once more.
#[test]
fn a_mark_is_counted_once() {
    let limit = QueueLimit::Packets(5);
    let config = StepConfig { limit, mark_above: QueueLimit::Packets(0) };
    let row = || ElementConfig::Bottleneck { rate: RATE.into(), queue: QueueConfig::Step(config) };
    let mut path = path(vec![row(), row()]);
    for (i, ecn) in [Ecn::Ect0, Ecn::Ect0, Ecn::Ce, Ecn::NotEct].into_iter().enumerate() {
        path.send(at(0), packet(1, ecn), i as u64).expect("room");
    }
    drain(&mut path);
    let [first, second] = path.elements()[..] else { panic!("two elements") };
    assert_eq!((first.marked.packets, second.marked.packets), (1, 0));
    assert_eq!(path.stats().marked.packets, 1);
}

/// CoDel on a trace sees how long a packet waits for its opportunity: one every 100 ms is a
/// standing queue from the second packet on.
#[test]
fn codel_on_a_trace_sees_the_time_until_the_opportunity() {
    let rate = RateConfig::mahimahi("100\n").expect("a trace");
    let mut path = path(vec![ElementConfig::Bottleneck { rate, queue: codel(false) }]);
    let (mut dropped, mut waits) = (0, Vec::new());
    for i in 0..100 {
        // Two packets behind the one that leaves, and each has waited 99 ms when the next comes.
        let now = at((100 * i + 1) * MS);
        for _ in 0..if i == 0 { 3 } else { 1 } {
            path.send(now, Header::from(1_500), i).expect("room");
        }
        while let Some(event) = path.poll(now) {
            match event {
                Event::Dropped(_) => dropped += 1,
                Event::Delivered(d) => waits.push(d.queued.as_nanos() / MS),
            }
        }
    }
    assert_eq!(waits[..2], [99, 199]);
    // After an interval the queue is cut down to the one packet that CoDel leaves alone.
    assert_eq!((dropped, waits.last()), (1, Some(&199)), "{waits:?}");
}

/// RFC 8289 section 4.4: what waits in all queues for the link keeps it busy. A hundred flows with
/// a packet each are a standing queue of 98 ms, although none of them has another packet behind it.
#[test]
fn fq_codel_signals_a_queue_that_many_flows_make_together() {
    let mut path = wire(QueueConfig::FqCoDel(FqCoDelConfig::new()));
    let (mut marked, mut waits) = (0_usize, Vec::new());
    for flow in 0..100 {
        path.send(at(0), packet(flow, Ecn::Ect0), u64::from(flow)).expect("room");
    }
    for _ in 0..20_000 {
        let next = path.next_event().expect("one is always inside");
        let Some(Event::Delivered(d)) = path.poll(next) else { panic!("marks, no drops") };
        marked += usize::from(d.ecn == Ecn::Ce);
        waits.push(d.queued.as_nanos() / MS);
        path.send(next, packet(d.payload as u32, Ecn::Ect0), d.payload).expect("room");
    }
    let mean = waits.iter().sum::<u64>() as f64 / waits.len() as f64;
    assert!((97.0..100.0).contains(&mean), "{mean} ms");
    // A flow that was found empty comes back as a new one, and waits little once. In all other
    // turns it is above the target, and a signal is due.
    let above = waits.iter().filter(|ms| **ms >= 5).count();
    assert!(marked > 10_000 && marked <= above, "{marked} of {above} that waited for 5 ms");
}

/// Linux: what overflow drops counts for the next signals of that queue.
#[test]
fn fq_codel_signals_more_often_after_an_overflow() {
    let signals = |limit| {
        let config = CoDelConfig::new(QueueLimit::Packets(limit));
        let mut path =
            wire(QueueConfig::FqCoDel(FqCoDelConfig { codel: config, ..<_>::default() }));
        load(&mut path, Ecn::Ect0, MS / 2, 1_500 * MS);
        (path.stats().marked.packets, path.stats().tail_dropped.packets)
    };
    let (calm, none) = signals(100_000);
    let (full, dropped) = signals(200);
    assert!(none == 0 && dropped > 500, "{none} {dropped}");
    assert!(full > 4 * calm, "{full} marks after overflows, {calm} without");
}

/// The figures of ns-3's test of CoDel: of 20 packets that came at once one is taken after 10 ms,
/// two after 210 ms and one after 420 ms. The first takes none with it, the second one, the third
/// none; by the control law drops are due 100 and 100 + 71 ms after the first, so that the last
/// takes two.
#[test]
fn codel_drops_what_ns_3_says() {
    let rate = RateConfig::mahimahi("10\n210\n210\n420\n").expect("a trace");
    let mut path = path(vec![ElementConfig::Bottleneck { rate, queue: codel(false) }]);
    for i in 0..20 {
        path.send(at(0), Header::from(1_500), i).expect("room");
    }
    let mut events = Vec::new();
    while let Some(event) = path.poll(at(420 * MS)) {
        events.push(match event {
            Event::Dropped(d) => (d.at.as_nanos() / MS, d.payload, false),
            Event::Delivered(d) => (d.at.as_nanos() / MS, d.payload, true),
        });
    }
    events.sort_unstable();
    let wanted = [(10, 0), (210, 2), (210, 3), (420, 6)].map(|(ms, i)| (ms, i, true));
    let dropped = [(210, 1), (420, 4), (420, 5)].map(|(ms, i)| (ms, i, false));
    let mut all = [&wanted[..], &dropped[..]].concat();
    all.sort_unstable();
    assert_eq!(events, all);
}
