//! Rates, delays and losses over time that begin again.

use crate::common::{at, drain, ns, path, times};
use fullpipe_path::{
    ConfigError, ElementConfig, LossConfig, PathConfig, Probability, QueueLimit, RateConfig, Series,
};
use fullpipe_units::{Duration, Rate};

fn series<V>(steps: Vec<(u64, V)>, period: u64) -> Series<V> {
    let steps: Vec<_> = steps.into_iter().map(|(at, value)| (ns(at), value)).collect();
    Series::new(steps, Some(ns(period))).expect("a series")
}

fn bottleneck(rate: RateConfig) -> Vec<ElementConfig> {
    vec![ElementConfig::Bottleneck { rate, queue: QueueLimit::Packets(1_000).into() }]
}

/// Zeros at both ends of the series: the outage lasts over its end.
#[test]
fn a_rate_that_begins_again_is_what_its_rounds_are_one_after_the_other() {
    let (fast, slow) =
        (Rate::from_bytes_per_sec(1_000_000_000), Rate::from_bytes_per_sec(300_000_000));
    let round = [(0, Rate::ZERO), (700, fast), (2_000, slow), (4_000, Rate::ZERO)];
    let period = 5_000;
    let unrolled = (0..30_u64).flat_map(|n| round.map(|(t, rate)| (ns(n * period + t), rate)));
    let unrolled: Vec<_> = unrolled.chain([(ns(30 * period), fast)]).collect();
    let looped = RateConfig::Series(series(round.to_vec(), period));
    let mut each = [looped.clone(), RateConfig::Steps(unrolled.clone())].map(|rate| {
        let mut path = path(bottleneck(rate));
        // Bursts, pauses longer than a round, and a packet in the middle of an outage.
        for (i, now) in [0, 0, 10, 1_200, 4_100, 4_500, 21_000, 44_100, 90_000].iter().enumerate() {
            let _ = path.poll(at(*now));
            path.send(at(*now), 1_400, i as u64).expect("room");
        }
        drain(&mut path).0
    });
    assert!(!each[0].is_empty());
    let steps = std::mem::take(&mut each[1]);
    assert_eq!(each[0], steps);
    let (from, to) = (ns(1_700), ns(17_300));
    let counted = RateConfig::Steps(unrolled).bytes_between(from, to);
    assert_eq!(looped.bytes_between(from, to), counted);
    // 1300 ns of 1 byte/ns and 2000 of 0.3 in 5000.
    assert_eq!(looped.nominal(), Rate::from_bytes_per_sec(380_000_000));
}

/// Rounds of two nanoseconds with 1 and 2 bytes a second: a packet takes half a million of millions
/// of them.
#[test]
fn a_packet_passes_any_number_of_rounds_at_once() {
    let rates = [1, 2].map(Rate::from_bytes_per_sec);
    let looped = series(vec![(0, rates[0]), (1, rates[1])], 2);
    let mut path = path(bottleneck(RateConfig::Series(looped)));
    path.send(at(0), 1_500, 0).expect("room");
    assert_eq!(times(&drain(&mut path).0), [1_000_000_000_000]);
}

#[test]
fn a_delay_that_begins_again_lets_nothing_overtake() {
    let delays = series(vec![(0, ns(100)), (50, ns(10))], 200);
    let mut path = path(vec![ElementConfig::DelaySeries(delays.clone())]);
    for now in [0, 49, 50, 60, 140, 199, 200, 1_040, 1_060] {
        path.send(at(now), 100, now).expect("nothing is lost");
    }
    let out = times(&drain(&mut path).0);
    assert_eq!(out, [100, 149, 149, 149, 150, 209, 300, 1_140, 1_140]);
    let config = PathConfig { row: vec![ElementConfig::DelaySeries(delays.clone())], seed: 1 };
    assert_eq!((config.least_delay(), delays.mean_time()), (ns(10), ns(32)));
}

#[test]
fn a_loss_over_time_is_that_of_its_time() {
    let [all, none] = [Probability::ONE, Probability::ZERO];
    let losses = series(vec![(0, none), (30, all), (60, none)], 100);
    let mut path = path(vec![ElementConfig::Loss(LossConfig::Series(losses))]);
    let passes = |now: &u64| path.send(at(*now), 100, *now).is_ok();
    let passed: Vec<u64> =
        [0, 29, 30, 59, 60, 99, 130, 159, 160, 7_045, 7_060].into_iter().filter(passes).collect();
    assert_eq!(passed, [0, 29, 60, 99, 160, 7_060]);
}

#[test]
fn a_series_under_which_nothing_more_arrives_is_refused() {
    let rate = Rate::from_bytes_per_sec(1_000);
    let refused = |steps: Vec<(u64, Rate)>, period: Option<u64>| {
        let steps: Vec<_> = steps.into_iter().map(|(at, value)| (ns(at), value)).collect();
        let rate = RateConfig::Series(Series::new(steps, period.map(ns)).expect("a series"));
        PathConfig { row: bottleneck(rate), seed: 1 }.validate()
    };
    assert_eq!(refused(vec![(0, rate), (1, Rate::ZERO)], None), Err(ConfigError::EndlessOutage));
    assert_eq!(refused(vec![(0, Rate::ZERO)], Some(9)), Err(ConfigError::EndlessOutage));
    assert_eq!(refused(vec![(0, rate), (1, Rate::ZERO)], Some(9)), Ok(()));
}

#[test]
fn a_trace_carries_1500_bytes_at_each_of_its_times() {
    let ms = Duration::from_millis;
    let trace = RateConfig::mahimahi("1\n1\n").expect("a trace");
    assert_eq!(trace.nominal(), Rate::from_bits_per_sec(24_000_000));
    assert_eq!(trace.bytes_between(ms(0), ms(10)), 30_000);
    assert_eq!(trace.bytes_between(ms(10), ms(12)), 6_000);
}

#[test]
fn an_outage_comes_back_in_every_round() {
    let outages = series(vec![(0, false), (30, true), (60, false)], 100);
    let mut path = path(vec![ElementConfig::BlackholeSeries(outages)]);
    let passes = |now: &u64| path.send(at(*now), 100, *now).is_ok();
    let passed: Vec<u64> =
        [0, 29, 30, 59, 60, 99, 130, 159, 160, 7_045, 7_060].into_iter().filter(passes).collect();
    assert_eq!(passed, [0, 29, 60, 99, 160, 7_060]);
    assert!(drain(&mut path).1.is_empty(), "told when they were sent");
}

#[test]
fn an_outage_at_the_beginning_of_a_series_waits_for_its_start() {
    let outages = series(vec![(0, true), (30, false)], 100).later(ns(200));
    let mut path = path(vec![ElementConfig::BlackholeSeries(outages)]);
    let passes = |now: &u64| path.send(at(*now), 100, *now).is_ok();
    let passed: Vec<u64> =
        [0, 199, 200, 229, 230, 299, 300, 330].into_iter().filter(passes).collect();
    assert_eq!(passed, [0, 199, 230, 299, 330]);
}

/// One walk for many times, beside a sum for each of them.
#[test]
fn bytes_until_many_times_are_those_until_each() {
    let rates = [7_000_000_000, 0, 3_000_000_000, 11].map(Rate::from_bytes_per_sec);
    let steps: Vec<_> = [0, 700, 701, 4_000].into_iter().zip(rates).collect();
    let endless = steps.iter().map(|(at, rate)| (ns(*at), *rate)).collect::<Vec<_>>();
    let looped = series(steps, 5_000);
    for rate in [
        RateConfig::Series(looped.clone()),
        RateConfig::Series(looped.later(ns(333))),
        RateConfig::Series(Series::new(endless.clone(), None).expect("a series")),
        RateConfig::Steps(endless),
        RateConfig::Constant(rates[0]),
        RateConfig::Trace([ns(3), ns(900), ns(5_000)].into()),
    ] {
        let mut times = vec![ns(0)];
        let mut seed = 1_u64;
        for _ in 0..2_000 {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let step = [0, 1, 40, 333, 5_000, 17_001, 90_000][(seed >> 33) as usize % 7];
            times.push(*times.last().expect("a time") + ns(step));
        }
        let each: Vec<u64> = times.iter().map(|to| rate.bytes_between(ns(0), *to)).collect();
        assert!(rate.bytes_until(&times) == each, "{rate:?}");
    }
}

/// Packets of 500 bytes of a burst that a queue takes, in each rate and in an outage.
#[test]
fn a_capacity_in_time_follows_the_rate() {
    let rates = [1_000_000_000, 500_000_000, 0, 2_000_000_000, 500_000_000];
    let steps: Vec<_> = [0, 5_000, 20_000, 30_000, 60_000].map(ns).into_iter().collect();
    let steps: Vec<_> =
        steps.into_iter().zip(rates.map(Rate::from_bytes_per_sec)).collect::<Vec<_>>();
    let endless = Series::new(steps.clone(), None).expect("a series");
    for rate in [RateConfig::Steps(steps.clone()), RateConfig::Series(endless)] {
        let mut path = path(vec![ElementConfig::Bottleneck {
            rate,
            queue: QueueLimit::Time(ns(3_000)).into(),
        }]);
        let mut taken =
            |now: u64| (0..30).filter(|i| path.send(at(now), 500, now + i).is_ok()).count();
        // The last burst but one fills 6000 bytes, of which 4000 wait when 1500 may.
        let times = [0, 5_000, 21_000, 40_000, 59_000, 60_000, 90_000];
        assert_eq!(times.map(&mut taken), [6, 3, 3, 12, 12, 0, 3]);
        assert_eq!(drain(&mut path).0.len(), 39, "what waits stays");
    }
    let refused = |element| PathConfig { row: vec![element], seed: 1 }.validate();
    let queue = QueueLimit::Time(ns(2_999));
    let short = ElementConfig::Bottleneck { rate: RateConfig::Steps(steps), queue: queue.into() };
    assert_eq!(refused(short), Err(ConfigError::QueueBelowOnePacket(1_499)));
    let (rate, bucket_bytes) = (Rate::from_bytes_per_sec(1_000_000_000), 9_000);
    let shaper = ElementConfig::Shaper { rate, bucket_bytes, queue };
    assert_eq!(refused(shaper), Err(ConfigError::NoRateOfQueue));
}
