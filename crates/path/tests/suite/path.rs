//! Guarantees of a path, in exact numbers.

use fullpipe_path::{
    ConfigError, Delivered, DropReason, ElementConfig, Event, Link, Path, PathConfig, Probability,
    Queue, QueueLimit,
};
use fullpipe_units::{Duration, Instant, Rate};

fn at(nanos: u64) -> Instant {
    Instant::from_nanos(nanos)
}

fn ns(nanos: u64) -> Duration {
    Duration::from_nanos(nanos)
}

/// 1000 bytes in 1 us: arithmetic that can be done in the head.
const FAST: Rate = Rate::from_bytes_per_sec(1_000_000_000);

fn fast(queue: QueueLimit) -> Link {
    Link { rate: Some(FAST), queue, ..Link::default() }
}

fn build(link: &Link) -> Path<u64> {
    Path::new(&(*link).into()).expect("a path that makes sense")
}

fn row<T: Clone>(row: Vec<ElementConfig>, seed: u64) -> Result<Path<T>, ConfigError> {
    Path::new(&PathConfig { row, seed })
}

fn delivered<T>(event: Option<Event<T>>) -> Delivered<T> {
    match event {
        Some(Event::Delivered(d)) => d,
        Some(Event::Dropped(d)) => panic!("dropped: {}", d.reason),
        None => panic!("nothing came out"),
    }
}

#[test]
fn the_delay_of_an_empty_path_is_exact() {
    let delay = ns(19_999_999);
    let mut path = build(&Link { delay, ..Link::default() });
    assert_eq!(path.next_event(), None);
    path.send(at(7), 1500, 1).expect("no queue, no loss");
    assert_eq!(path.next_event(), Some(at(7) + delay));
    assert_eq!(path.poll(at(20_000_005)), None, "a nanosecond too early");
    let packet = delivered(path.poll(at(20_000_006)));
    assert_eq!((packet.at, packet.queued, packet.payload), (at(20_000_006), Duration::ZERO, 1));

    let mut path = build(&Link { delay, ..fast(QueueLimit::Packets(1)) });
    path.send(at(7), 1500, 1).expect("an empty queue");
    // The bottleneck's own time comes first, and costs the clock's holder no extra wake.
    assert_eq!(path.next_event(), Some(at(7 + 1500) + delay));
    assert_eq!(delivered(path.poll(at(u64::MAX))).at, at(7 + 1500) + delay);
    assert_eq!(path.next_event(), None);
}

#[test]
fn a_perfect_wire_delivers_at_once() {
    let mut path = build(&Link::default());
    path.send(at(5), 100, 1).expect("a perfect wire");
    assert_eq!(path.next_event(), Some(at(5)));
    assert_eq!(delivered(path.poll(at(5))).at, at(5));
    assert_eq!(path.stats().carried, path.stats().delivered);
}

#[test]
fn a_million_packets_do_not_drift_by_a_nanosecond() {
    // 1481 bytes at this rate take 118470.52... ns, so every packet leaves a fraction behind.
    let (rate, bytes) = (12_500_999, 1481);
    let config = Link {
        rate: Some(Rate::from_bytes_per_sec(rate)),
        queue: QueueLimit::Packets(10),
        ..Link::default()
    };
    let mut path = build(&config);
    let start = 1_000_003;
    for i in 0..10 {
        path.send(at(start), bytes, i).expect("ten fit");
    }
    for k in 1..=1_000_000_u128 {
        let exact = (k * u128::from(bytes) * 1_000_000_000).div_ceil(u128::from(rate)) as u64;
        let left = path.next_event().expect("the queue is never empty");
        assert_eq!(delivered(path.poll(left)).at, at(start + exact), "packet {k}");
        path.send(left, bytes, 0).expect("one has just left");
    }
}

#[test]
fn bytes_over_the_limit_are_dropped_and_handed_back() {
    let mut path = build(&fast(QueueLimit::Bytes(3000)));
    path.send(at(0), 1500, 1).expect("on the wire");
    path.send(at(0), 1499, 2).expect("2999 bytes");
    let dropped = path.send(at(0), 2, 3).expect_err("3001 bytes");
    assert_eq!((dropped.reason, dropped.payload, dropped.wire_bytes), (DropReason::TailDrop, 3, 2));
    path.send(at(0), 1, 4).expect("3000 bytes");
    assert_eq!(path.sample(at(0)).queue, Queue { bytes: 3000, packets: 3, delay: ns(3000) });

    // The packet on the wire counts whole until its last bit has left, then not at all.
    assert_eq!(path.sample(at(1499)).queue, Queue { bytes: 3000, packets: 3, delay: ns(1501) });
    path.send(at(1499), 1, 5).expect_err("still full");
    assert_eq!(path.sample(at(1500)).queue, Queue { bytes: 1500, packets: 2, delay: ns(1500) });
    path.send(at(1500), 1500, 6).expect("there is room in the same nanosecond");
    assert_eq!(path.sample(at(1500)).queue, Queue { bytes: 3000, packets: 3, delay: ns(3000) });
    let stats = path.stats();
    assert_eq!((stats.max_queue_bytes, stats.max_queue_packets), (3000, 3));
    assert_eq!((stats.tail_dropped.packets, stats.tail_dropped.bytes), (2, 3));
}

#[test]
fn packets_over_the_limit_are_dropped() {
    let mut path = build(&fast(QueueLimit::Packets(2)));
    path.send(at(0), 9000, 1).expect("on the wire");
    path.send(at(0), 1, 2).expect("waits");
    path.send(at(8999), 1, 3).expect_err("full");
    path.send(at(9000), 9000, 4).expect("one has left");
    path.send(at(9000), 1, 5).expect_err("full again");
}

#[test]
fn a_packet_above_the_limit_never_fits() {
    let mut path = build(&fast(QueueLimit::Bytes(1500)));
    path.send(at(0), 1501, 1).expect_err("also when the queue is empty");
    assert_eq!(path.next_event(), None);
}

#[test]
fn queueing_delay_is_the_wait_before_the_own_serialisation() {
    let mut path = build(&fast(QueueLimit::Packets(10)));
    for (now, bytes) in [(0, 1000), (400, 500), (400, 100), (2000, 100)] {
        path.send(at(now), bytes, now).expect("fits");
    }
    let out: Vec<_> = std::iter::from_fn(|| path.poll(at(10_000)))
        .map(|e| delivered(Some(e)))
        .map(|d| (d.at.as_nanos(), d.queued.as_nanos()))
        .collect();
    assert_eq!(out, [(1000, 0), (1500, 600), (1600, 1100), (2100, 0)]);
}

#[test]
fn loss_is_within_the_binomial_bounds_and_repeats_with_its_seed() {
    let lost = |p: f64, seed: u64| -> Vec<u64> {
        let loss = Probability::new(p).expect("a probability");
        let mut path = build(&Link { loss, seed, ..Link::default() });
        (0..N).filter(|i| path.send(at(*i), 1500, *i).is_err()).collect()
    };
    const N: u64 = 1_000_000;
    for p in [0.001, 0.01, 0.5] {
        let expected = N as f64 * p;
        let sigma = (expected * (1.0 - p)).sqrt();
        let drops = lost(p, 42);
        let off = (drops.len() as f64 - expected).abs() / sigma;
        assert!(off < 5.0, "{p}: {} lost, {off:.1} sigma off", drops.len());
        assert_eq!(drops, lost(p, 42), "the same seed");
        assert_ne!(drops, lost(p, 43), "another seed");
        // Independent: a loss makes the next one no likelier.
        let pairs = drops.windows(2).filter(|w| w[0] + 1 == w[1]).count() as f64;
        let expected = N as f64 * p * p;
        assert!((pairs - expected).abs() < 6.0 * expected.sqrt().max(1.0), "{p}: {pairs} pairs");
    }
    assert_eq!(lost(0.0, 1).len(), 0);
    assert_eq!(lost(1.0, 1).len() as u64, N);
}

#[test]
fn a_lost_packet_takes_no_share_of_the_rate() {
    let mut path = build(&Link { loss: Probability::ONE, ..fast(QueueLimit::Packets(1)) });
    let dropped = path.send(at(3), 1500, 9).expect_err("certain");
    assert_eq!((dropped.reason, dropped.payload), (DropReason::RandomLoss, 9));
    assert_eq!(path.sample(at(3)).queue, Queue::default());
    let stats = path.stats();
    assert_eq!((stats.arrived, stats.carried.packets), (stats.random_lost, 0));
}

#[test]
fn elements_stand_in_any_order() {
    let wire =
        ElementConfig::Bottleneck { rate: FAST.into(), queue: QueueLimit::Packets(1).into() };
    // Behind a delay the queue drops what the sender has already handed over.
    let mut path = row(vec![ElementConfig::Delay(ns(100)), wire.clone()], 1).expect("a row");
    for payload in [1, 2] {
        path.send(at(0), 1500, payload).expect("the delay takes both");
    }
    let dropped = match path.poll(at(5000)) {
        Some(Event::Dropped(d)) => (d.at, d.reason, d.payload),
        other => panic!("{other:?}"),
    };
    assert_eq!(dropped, (at(100), DropReason::TailDrop, 2));
    assert_eq!(delivered(path.poll(at(5000))).at, at(1600));
    assert_eq!(path.inside().packets, 0);

    let mut path = row(vec![wire, ElementConfig::Loss(Probability::ONE.into())], 1).expect("a row");
    path.send(at(0), 1500, 1).expect("the wire takes it");
    assert!(matches!(path.poll(at(1500)), Some(Event::Dropped(d)) if d.at == at(1500)));
    assert_eq!(path.stats().carried.packets, 1, "it was lost behind the bottleneck");
}

#[test]
fn what_leaves_makes_room_for_what_arrives_at_that_moment() {
    let wire =
        ElementConfig::Bottleneck { rate: FAST.into(), queue: QueueLimit::Packets(1).into() };
    let mut path = row(vec![ElementConfig::Delay(ns(100)), wire.clone()], 1).expect("a row");
    // The first leaves the wire at 1100, when the second comes out of the delay.
    for now in [0, 1000] {
        path.send(at(now), 1000, now).expect("the delay takes both");
    }
    let out: Vec<_> =
        std::iter::from_fn(|| path.poll(at(9999))).map(|e| delivered(Some(e)).at).collect();
    assert_eq!(out, [at(1100), at(2100)]);
}

#[test]
fn equal_elements_of_a_row_draw_their_own_numbers() {
    let half = ElementConfig::Loss(Probability::new(0.5).expect("a probability").into());
    let never = ElementConfig::Loss(Probability::ZERO.into());
    let drops = |row: &[ElementConfig]| -> Vec<u64> {
        let mut path = self::row(row.to_vec(), 7).expect("a row");
        (0..1000).filter(|i| path.send(at(*i), 1, *i).is_err()).collect()
    };
    assert_ne!(drops(&[half.clone(), never.clone()]), drops(&[never, half]));
}

#[test]
fn time_that_goes_back_counts_as_the_latest() {
    let mut path = build(&fast(QueueLimit::Packets(9)));
    path.send(at(1000), 100, 1).expect("fits");
    path.send(at(500), 100, 2).expect("fits");
    assert_eq!(path.now(), at(1000));
    assert_eq!(path.poll(at(0)), None);
    assert_eq!(delivered(path.poll(at(1100))).at, at(1100));
    let second = delivered(path.poll(at(1200)));
    assert_eq!((second.at, second.queued), (at(1200), ns(100)), "it arrived at 1000, not at 500");
}

#[test]
fn the_ends_of_the_number_ranges_do_no_harm() {
    for rate in [1, u64::MAX] {
        let rate = Some(Rate::from_bytes_per_sec(rate));
        let config = Link { rate, delay: Duration::MAX, ..Link::default() };
        let mut path = build(&config);
        for now in [0, 1, u64::MAX - 1, u64::MAX] {
            path.send(at(now), u32::MAX, now).expect("an unlimited queue");
            let _ = (path.sample(at(now)), path.next_event());
        }
        let out = std::iter::from_fn(|| path.poll(at(u64::MAX))).count();
        assert_eq!(out, 4);
    }
}

#[test]
fn what_makes_no_sense_is_refused_in_a_clear_line() {
    let line = |link: Link| Path::<()>::new(&link.into()).expect_err("nonsense").to_string();
    let good = fast(QueueLimit::Bytes(1500));
    assert!(PathConfig::from(good).validate().is_ok());
    assert_eq!(
        line(Link { rate: Some(Rate::ZERO), ..good }),
        "a rate of 0 carries nothing: give a rate above 0, or none for an unlimited link"
    );
    assert_eq!(
        line(Link { queue: QueueLimit::Bytes(1499), ..good }),
        "a queue of 1499 bytes is below one packet: give at least 1500 bytes"
    );
    assert_eq!(
        line(Link { queue: QueueLimit::Packets(0), ..good }),
        "a queue of 0 packets holds nothing: give at least 1 packet"
    );
    for p in [-0.1, 1.1, f64::NAN, f64::INFINITY] {
        let e = Probability::new(p).expect_err("no probability").to_string();
        assert_eq!(e, format!("a loss of {p} is no probability: give a number from 0 to 1"));
    }
    for p in [0.0, 1e-9, 0.001, 0.5, 1.0] {
        let held = Probability::new(p).expect("a probability").as_f64();
        assert!((held - p).abs() < 1e-18 + p * 1e-15, "{p} became {held}");
    }
}

/// The packet on the wire leaves as it began; those behind it at the new rate.
#[test]
fn a_change_of_rate_holds_from_the_next_packet_on() {
    let config = Link { rate: Some(Rate::from_bytes_per_sec(1_000_000)), ..Link::default() };
    let mut path = Path::new(&config.into()).expect("a path");
    let start = Instant::from_nanos(1_000);
    for i in 0..4 {
        path.send(start, 1_000, i).expect("room");
    }
    // The first takes 1 ms, the second began when the rate changes.
    let change = start + Duration::from_micros(1_500);
    path.set_rate(change, Rate::from_bytes_per_sec(4_000_000)).expect("a rate");
    let end = start + Duration::from_secs(1);
    let us = Duration::from_micros;
    let out: Vec<_> = std::iter::from_fn(|| path.poll(end))
        .map(|e| delivered(Some(e)))
        .map(|d| (d.at, d.queued))
        .collect();
    let micros = [(1_000, 0), (2_000, 1_000), (2_250, 2_000), (2_500, 2_250)];
    assert_eq!(out, micros.map(|(at, queued)| (start + us(at), us(queued))));
    assert!(path.set_rate(end, Rate::ZERO).is_err());
    let mut wire = Path::<u8>::new(&PathConfig::default()).expect("a path");
    assert!(wire.set_rate(end, Rate::from_bytes_per_sec(1)).is_err(), "there is no bottleneck");
}

#[test]
fn loss_can_begin_and_end_on_any_path() {
    let config = Link { rate: Some(Rate::from_bytes_per_sec(1_000_000)), ..Link::default() };
    let mut path = Path::new(&config.into()).expect("a path");
    let now = Instant::from_nanos(1);
    assert!(path.send(now, 100, 0).is_ok());
    path.set_loss(now, Probability::ONE, 1);
    assert!(path.send(now, 100, 1).is_err());
    path.set_loss(now, Probability::ZERO, 1);
    assert!(path.send(now, 100, 2).is_ok());
    // The bottleneck is still where it was thought to be.
    assert_eq!(path.sample(now).queue.packets, 2);
    assert!(path.set_rate(now, Rate::from_bytes_per_sec(5)).is_ok());
}
