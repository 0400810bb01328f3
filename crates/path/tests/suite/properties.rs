//! Properties of any path under any traffic.

use fullpipe_path::{
    CoDelConfig, Distribution, DualPi2Config, Ecn, ElementConfig, Event, FqCoDelConfig, Header,
    JitterConfig, Link, LossConfig, Path, PathConfig, PathStats, PieConfig, Probability,
    QueueConfig, QueueLimit, RateConfig, RedConfig, Selection, Series, StepConfig,
};
use fullpipe_units::{Duration, Instant, Rate};
use proptest::prelude::*;

/// Packets: the time since the one before, and the size.
fn traffic() -> impl Strategy<Value = Vec<(u64, u32)>> {
    prop::collection::vec((prop_oneof![Just(0), 0..5_000_000_u64], 28..=1500_u32), 1..200)
}

fn queue() -> impl Strategy<Value = QueueLimit> {
    prop_oneof![
        (1500..50_000_u64).prop_map(QueueLimit::Bytes),
        (1..40_u64).prop_map(QueueLimit::Packets),
    ]
}

fn probability() -> impl Strategy<Value = Probability> {
    (0..=10_u32).prop_map(|p| Probability::new(f64::from(p) / 20.0).expect("at most a half"))
}

fn config() -> impl Strategy<Value = Link> {
    let rate = prop::option::of((1_000..100_000_000_u64).prop_map(Rate::from_bytes_per_sec));
    (rate, 0..50_000_000_u64, queue(), probability(), any::<u64>()).prop_map(
        |(rate, delay, queue, loss, seed)| Link {
            rate,
            delay: Duration::from_nanos(delay),
            queue,
            loss,
            seed,
        },
    )
}

fn rate() -> impl Strategy<Value = Rate> {
    (1_000..100_000_000_u64).prop_map(Rate::from_bytes_per_sec)
}

fn delay() -> impl Strategy<Value = Duration> {
    (0..50_000_000_u64).prop_map(Duration::from_nanos)
}

fn selection() -> impl Strategy<Value = Selection> {
    prop_oneof![probability().prop_map(Selection::Random), (1..9_u64).prop_map(Selection::Every)]
}

fn rate_config() -> impl Strategy<Value = RateConfig> {
    let times = || prop::collection::btree_set(1..500_000_000_u64, 0..5);
    let steps = (rate(), times(), rate()).prop_map(|(first, times, other)| {
        let rates = [other, Rate::ZERO, first].into_iter().cycle();
        let steps = times.into_iter().map(Duration::from_nanos).zip(rates);
        let mut steps: Vec<_> = [(Duration::ZERO, first)].into_iter().chain(steps).collect();
        if steps.last().is_some_and(|(_, rate)| *rate == Rate::ZERO) {
            steps.pop();
        }
        RateConfig::Steps(steps)
    });
    let trace = (times(), 1..100_000_000_u64).prop_map(|(times, more)| {
        let last = times.last().map_or(more, |last| last + more);
        let times = times.into_iter().chain([last, last]).map(Duration::from_nanos);
        RateConfig::Trace(times.collect())
    });
    let series = (rate(), times(), 1..100_000_000_u64).prop_map(|(first, times, more)| {
        let rates = [Rate::ZERO, first].into_iter().cycle();
        let period = times.last().map_or(more, |last| last + more);
        let steps = times.into_iter().map(Duration::from_nanos).zip(rates);
        let steps: Vec<_> = [(Duration::ZERO, first)].into_iter().chain(steps).collect();
        RateConfig::Series(Series::new(steps, Some(Duration::from_nanos(period))).expect("valid"))
    });
    prop_oneof![4 => rate().prop_map(RateConfig::from), 1 => steps, 1 => trace, 1 => series]
}

fn codel() -> impl Strategy<Value = CoDelConfig> {
    (queue(), delay(), 1..99_000_000_u64, any::<bool>(), prop::option::of(delay())).prop_map(
        |(limit, target, interval, ecn, ce_threshold)| CoDelConfig {
            limit,
            target,
            interval: Duration::from_nanos(interval),
            ecn,
            ce_threshold,
        },
    )
}

fn discipline() -> impl Strategy<Value = QueueConfig> {
    prop_oneof![
        3 => queue().prop_map(QueueConfig::from),
        1 => (queue(), queue())
            .prop_map(|(limit, mark_above)| QueueConfig::Step(StepConfig { limit, mark_above })),
        1 => codel().prop_map(QueueConfig::CoDel),
        1 => (codel(), 1..4_u32, 1..3_000_u32).prop_map(|(codel, queues, quantum_bytes)| {
            QueueConfig::FqCoDel(FqCoDelConfig { codel, queues, quantum_bytes })
        }),
        1 => (queue(), 1..20_000_000_u64, any::<bool>()).prop_map(|(limit, target, ecn)| {
            let target = Duration::from_nanos(target);
            QueueConfig::Pie(PieConfig {
                ecn, target, max_burst: target, update: target, ..PieConfig::new(limit)
            })
        }),
        1 => (queue(), probability(), probability(), any::<bool>()).prop_map(
            |(limit, max_probability, weight, ecn)| QueueConfig::Red(RedConfig {
                limit,
                min_bytes: 2_000,
                max_bytes: 9_000,
                max_probability,
                weight,
                packet_time: Duration::from_micros(100),
                ecn,
            })
        ),
        1 => (queue(), 1..20_000_000_u64).prop_map(|(limit, target)| {
            let target = Duration::from_nanos(target);
            QueueConfig::DualPi2(DualPi2Config { target, ..DualPi2Config::new(limit) })
        }),
    ]
}

fn loss() -> impl Strategy<Value = LossConfig> {
    let chain = (probability(), probability(), probability(), probability()).prop_map(
        |(to_bad, to_good, loss_in_good, loss_in_bad)| LossConfig::GilbertElliott {
            to_bad,
            to_good,
            loss_in_good,
            loss_in_bad,
        },
    );
    prop_oneof![
        probability().prop_map(LossConfig::from),
        chain,
        prop::collection::btree_set(0..200_u64, 0..20)
            .prop_map(|numbers| LossConfig::Listed(numbers.into_iter().collect())),
        (2..20_u64, 1..2_u64).prop_map(|(every, length)| LossConfig::Bursts { every, length }),
        (probability(), probability(), 1..400_000_000_u64).prop_map(|(a, b, step)| {
            let steps = [(Duration::ZERO, a), (Duration::from_nanos(step), b)];
            let period = Some(Duration::from_nanos(2 * step));
            LossConfig::Series(Series::new(steps, period).expect("valid"))
        }),
        (probability(), 1..9_000_000_u64).prop_map(|(begins, lasts)| LossConfig::Overflows {
            begins,
            lasts: Duration::from_nanos(lasts),
        }),
    ]
}

fn distribution() -> impl Strategy<Value = Distribution> {
    prop_oneof![
        Just(Distribution::Uniform),
        Just(Distribution::Normal),
        Just(Distribution::Pareto),
        Just(Distribution::Wifi),
    ]
}

fn element() -> impl Strategy<Value = ElementConfig> {
    let bucket = || (rate(), 1500..9_000_u64);
    prop_oneof![
        loss().prop_map(ElementConfig::Loss),
        (0..300_000_000_u64, 1..90_000_000_u64).prop_map(|(start, length)| {
            let times = (Duration::from_nanos(start), Duration::from_nanos(start + length));
            ElementConfig::Blackhole(vec![times])
        }),
        probability().prop_map(ElementConfig::Corruption),
        probability().prop_map(ElementConfig::Duplication),
        (bucket(), 0..=100_u64).prop_map(|((rate, bucket_bytes), percent)| {
            let initial_bytes = bucket_bytes * percent / 100;
            ElementConfig::Policer { rate, bucket_bytes, initial_bytes }
        }),
        (bucket(), queue()).prop_map(|((rate, bucket_bytes), queue)| ElementConfig::Shaper {
            rate,
            bucket_bytes,
            queue
        }),
        (rate_config(), discipline())
            .prop_map(|(rate, queue)| ElementConfig::Bottleneck { rate, queue }),
        (rate_config(), discipline(), 2..9_u64).prop_map(|(rate, queue, s)| {
            let queue = queue.with_limit(QueueLimit::Time(Duration::from_secs(s)));
            ElementConfig::Bottleneck { rate, queue }
        }),
        delay().prop_map(ElementConfig::Delay),
        (delay(), delay(), 1..400_000_000_u64).prop_map(|(a, b, step)| {
            ElementConfig::DelaySteps(vec![(Duration::ZERO, a), (Duration::from_nanos(step), b)])
        }),
        (delay(), delay(), 1..400_000_000_u64).prop_map(|(a, b, step)| {
            let steps = [(Duration::ZERO, a), (Duration::from_nanos(step), b)];
            let period = Some(Duration::from_nanos(2 * step));
            ElementConfig::DelaySeries(Series::new(steps, period).expect("valid"))
        }),
        (0..300_000_000_u64, 1..90_000_000_u64).prop_map(|(start, length)| {
            let [from, to] = [start + 1, start + 1 + length].map(Duration::from_nanos);
            let steps = [(Duration::ZERO, false), (from, true), (to, false)];
            let period = Some(to + Duration::from_nanos(length));
            ElementConfig::BlackholeSeries(Series::new(steps, period).expect("valid"))
        }),
        (delay(), distribution(), probability()).prop_map(|(spread, distribution, correlation)| {
            ElementConfig::Jitter(JitterConfig { spread, distribution, correlation })
        }),
        (delay(), distribution(), probability(), 1..400_000_000_u64).prop_map(
            |(spread, distribution, correlation, step)| {
                let first = JitterConfig { spread, distribution, correlation };
                let step = Duration::from_nanos(step);
                let steps = [(Duration::ZERO, first), (step, (spread + spread).into())];
                let series = Series::new(steps, Some(step + step)).expect("valid");
                ElementConfig::JitterSeries(series)
            }
        ),
        (selection(), delay())
            .prop_map(|(packets, delay)| ElementConfig::Reordering { packets, delay }),
        (delay(), queue(), 1..5_u32).prop_map(|(interval, burst, keep_one_in)| {
            ElementConfig::Aggregation { interval, burst, keep_one_in }
        }),
    ]
}

/// Up to five elements in any order.
fn row() -> impl Strategy<Value = Vec<ElementConfig>> {
    prop::collection::vec(element(), 0..=5)
}

/// The packets belong to three flows with all codepoints.
fn header(i: usize, wire_bytes: u32) -> Header {
    let ecn = [Ecn::NotEct, Ecn::Ect0, Ecn::Ect1, Ecn::Ce, Ecn::Ect1][i % 5];
    Header { flow: (i / 3 % 3) as u32, ecn, wire_bytes }
}

fn times(traffic: &[(u64, u32)]) -> impl Iterator<Item = (Instant, u32)> {
    traffic.iter().scan(0, |now, (gap, bytes)| {
        *now += gap;
        Some((Instant::from_nanos(*now), *bytes))
    })
}

fn assert_conserved(stats: &PathStats) {
    let dropped = stats.dropped();
    let packets = stats.delivered.packets + dropped.packets + stats.inside.packets;
    let bytes = stats.delivered.bytes + dropped.bytes + stats.inside.bytes;
    let (arrived, more) = (stats.arrived, stats.duplicated);
    let into = (arrived.packets + more.packets, arrived.bytes + more.bytes);
    assert_eq!(into, (packets, bytes), "{stats:?}");
}

/// Packets that leave one element enter the next, and the elements' counters agree with the path's.
fn assert_elements_agree(path: &Path<usize>) {
    let (elements, stats) = (path.elements(), path.stats());
    if let (Some(first), Some(last)) = (elements.first(), elements.last()) {
        assert_eq!(first.entered, stats.arrived, "{elements:?}");
        assert!(last.left.packets >= stats.delivered.packets, "{elements:?}");
    }
    for pair in elements.windows(2) {
        assert_eq!(pair[0].left, pair[1].entered);
    }
    let dropped: u64 = elements.iter().map(|e| e.dropped.packets).sum();
    assert!(dropped >= stats.dropped().packets, "{elements:?}");
}

/// Exact arithmetic, in units of 1/rate nanoseconds, with nothing carried from packet to packet but
/// the time at which the wire is free. Gives each accepted packet's number, the time at which it
/// leaves the wire and its wait, and the number of each dropped one.
fn reference(
    rate: u64,
    limit: QueueLimit,
    traffic: &[(u64, u32)],
) -> (Vec<(usize, u64, u64)>, Vec<usize>) {
    let rate = u128::from(rate);
    let (mut free, mut inside) = (0_u128, Vec::<(u64, u32)>::new());
    let (mut carried, mut dropped) = (Vec::new(), Vec::new());
    for (i, (now, bytes)) in times(traffic).enumerate() {
        let now = now.as_nanos();
        inside.retain(|(leaves, _)| *leaves > now);
        let held: u64 = inside.iter().map(|(_, b)| u64::from(*b)).sum();
        let fits = match limit {
            QueueLimit::Bytes(b) => held + u64::from(bytes) <= b,
            QueueLimit::Packets(p) => (inside.len() as u64) < p,
            QueueLimit::Time(_) => unreachable!("not drawn"),
        };
        if !fits {
            dropped.push(i);
            continue;
        }
        let start = free.max(u128::from(now) * rate);
        free = start + u128::from(bytes) * 1_000_000_000;
        let leaves = free.div_ceil(rate) as u64;
        inside.push((leaves, bytes));
        carried.push((i, leaves, start.div_ceil(rate) as u64 - now));
    }
    (carried, dropped)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, failure_persistence: None, ..<_>::default() })]

    /// The short way of a plain link is the row of elements, but faster: an element that does
    /// nothing keeps the other path from taking it.
    #[test]
    fn the_short_way_is_the_row(
        link in config(),
        traffic in traffic(),
        rates in prop::collection::vec((0..200usize, rate(), probability()), 0..4),
    ) {
        let plain = PathConfig::from(link);
        let mut row = plain.clone();
        row.row.push(ElementConfig::Corruption(Probability::ZERO));
        let mut paths = [&plain, &row].map(|c| Path::new(c).expect("a sound path"));
        let mut now = Instant::from_nanos(9);
        for (i, (gap, bytes)) in traffic.iter().enumerate() {
            now += Duration::from_nanos(*gap);
            if let Some((_, rate, loss)) = rates.iter().find(|(at, ..)| *at == i) {
                let changed = paths.each_mut().map(|p| p.set_rate(now, *rate).is_ok());
                prop_assert_eq!(changed[0], changed[1]);
                paths.iter_mut().for_each(|p| p.set_loss(now, *loss, i as u64));
            }
            let sent = paths.each_mut().map(|p| p.send(now, *bytes, i).is_ok());
            prop_assert_eq!(sent[0], sent[1]);
            let later = now + Duration::from_nanos(gap / 2);
            prop_assert_eq!(paths[0].sample(later), paths[1].sample(later));
            if i % 3 == 0 {
                let polled = paths.each_mut().map(|p| p.poll(now));
                prop_assert_eq!(polled[0], polled[1]);
            }
            let mut elements = paths.each_mut().map(|p| p.elements());
            elements[1].pop();
            prop_assert_eq!(&elements[0], &elements[1]);
        }
        let end = now + Duration::from_secs(1_000);
        loop {
            let polled = paths.each_mut().map(|p| p.poll(end));
            prop_assert_eq!(polled[0], polled[1]);
            if polled[0].is_none() {
                break;
            }
        }
        prop_assert_eq!(paths[0].sample(end), paths[1].sample(end));
    }


    #[test]
    fn the_bottleneck_is_the_exact_one(
        rate in 1_000..100_000_000_u64, limit in queue(), traffic in traffic(),
        delay in 0..50_000_000_u64,
    ) {
        let config = Link {
            rate: Some(Rate::from_bytes_per_sec(rate)),
            queue: limit,
            delay: Duration::from_nanos(delay),
            ..Link::default()
        };
        let mut path = Path::new(&config.into()).expect("makes sense");
        let dropped: Vec<usize> = times(&traffic)
            .enumerate()
            .filter_map(|(i, (now, bytes))| path.send(now, bytes, i).err())
            .map(|d| d.payload)
            .collect();
        let mut carried = Vec::new();
        while let Some(Event::Delivered(d)) = path.poll(Instant::from_nanos(u64::MAX)) {
            carried.push((d.payload, d.at.as_nanos() - delay, d.queued.as_nanos()));
        }
        prop_assert_eq!((carried, dropped), reference(rate, limit, &traffic));
    }

    #[test]
    fn no_packet_is_made_or_forgotten(
        row in row(), seed: u64, traffic in traffic(), looks in 0..5_000_000_u64,
    ) {
        let mut path = Path::new(&PathConfig { row: row.clone(), seed }).expect("makes sense");
        let mut seen = vec![0; traffic.len()];
        for (i, (now, bytes)) in times(&traffic).enumerate() {
            if let Err(d) = path.send(now, header(i, bytes), i) {
                seen[d.payload] += 1;
            }
            assert_conserved(&path.stats());
            assert_elements_agree(&path);
            while let Some(event) = path.poll(now + Duration::from_nanos(looks)) {
                match event {
                    Event::Delivered(d) => seen[d.payload] += 1,
                    Event::Dropped(d) => seen[d.payload] += 1,
                }
                assert_conserved(&path.stats());
            }
        }
        while let Some(event) = path.poll(Instant::from_nanos(u64::MAX)) {
            match event {
                Event::Delivered(d) => seen[d.payload] += 1,
                Event::Dropped(d) => seen[d.payload] += 1,
            }
        }
        assert_conserved(&path.stats());
        prop_assert_eq!(path.inside().packets, 0);
        let copies = path.stats().duplicated.packets as usize;
        prop_assert!(seen.iter().all(|n| *n >= 1), "{:?}", seen);
        prop_assert_eq!(seen.iter().sum::<usize>(), traffic.len() + copies);
    }

    #[test]
    fn when_a_path_is_polled_changes_nothing(row in row(), seed: u64, traffic in traffic()) {
        // One is polled at each time that it asks for, the other once at the end.
        let mut prompt = Path::new(&PathConfig { row: row.clone(), seed }).expect("makes sense");
        let mut late = Path::new(&PathConfig { row: row.clone(), seed }).expect("makes sense");
        let (mut a, mut b) = (Vec::new(), Vec::new());
        let end = Instant::from_nanos(u64::MAX);
        for (i, (now, bytes)) in times(&traffic).map(Some).chain([None]).enumerate()
            .map(|(i, t)| (i, t.unwrap_or((end, 0))))
        {
            while let Some(next) = prompt.next_event().filter(|t| *t <= now) {
                match prompt.poll(next) {
                    Some(event) => {
                        // The path never asks to be polled too late for a delivery.
                        let late = matches!(event, Event::Dropped(_)) && event.at() < next;
                        prop_assert!(event.at() == next || late, "{:?} at {:?}", event, next);
                        a.push(event);
                    }
                    // Nothing yet, but then a later time.
                    None => prop_assert!(prompt.next_event().is_none_or(|t| t > next)),
                }
            }
            if now < end {
                let packet = header(i, bytes);
                let (x, y) = (prompt.send(now, packet, i), late.send(now, packet, i));
                prop_assert_eq!(x, y);
            }
        }
        b.extend(std::iter::from_fn(|| late.poll(end)));
        prop_assert!(a.is_sorted_by_key(|e| e.at()));
        prop_assert_eq!(a, b);
    }

    #[test]
    fn a_look_sees_what_moving_on_would_bring(
        config in config(), traffic in traffic(), ahead in 0..20_000_000_u64,
    ) {
        let mut path = Path::new(&config.into()).expect("makes sense");
        for (i, (now, bytes)) in times(&traffic).enumerate() {
            let _ = path.send(now, bytes, i);
        }
        let last = times(&traffic).last().map_or(Instant::default(), |(t, _)| t);
        let then = last + Duration::from_nanos(ahead);
        let look = path.sample(then);
        path.advance(then);
        prop_assert_eq!(look, path.sample(then));
    }

    #[test]
    fn the_queues_delay_is_what_the_next_packet_waits(
        config in config(), traffic in traffic(), ahead in 0..20_000_000_u64,
    ) {
        let open = Link { queue: QueueLimit::Packets(1000), loss: Probability::ZERO, ..config };
        let mut path = Path::new(&open.into()).expect("makes sense");
        for (i, (now, bytes)) in times(&traffic).enumerate() {
            prop_assert!(path.send(now, bytes, i).is_ok());
        }
        let last = times(&traffic).last().map_or(Instant::default(), |(t, _)| t);
        let then = last + Duration::from_nanos(ahead);
        let look = path.sample(then);
        prop_assert!(path.send(then, 1500, traffic.len()).is_ok());
        let waited = std::iter::from_fn(|| path.poll(Instant::from_nanos(u64::MAX)))
            .find_map(|e| match e {
                Event::Delivered(d) if d.payload == traffic.len() => Some(d.queued),
                _ => None,
            });
        prop_assert_eq!(Some(look.queue.delay), waited);
    }
}
