//! Jitter against the formulas of its distributions.

use crate::common::{at, drain, ns, path};
use fullpipe_path::{Distribution, ElementConfig, JitterConfig, PathConfig, Probability, Series};
use fullpipe_units::Duration;

/// Packets, far enough apart that none holds up another.
const N: u64 = 200_000;
const SPREAD: u64 = 1_000_000;

/// The delays of packets in spreads.
fn delays(distribution: Distribution, correlation: f64) -> Vec<f64> {
    let correlation = Probability::new(correlation).expect("a share");
    let jitter = JitterConfig { spread: ns(SPREAD), distribution, correlation };
    let mut path = path(vec![ElementConfig::Jitter(jitter)]);
    for i in 0..N {
        path.send(at(i * 10 * SPREAD), 100, i).expect("nothing is lost");
    }
    let (out, _) = drain(&mut path);
    assert_eq!(out.len() as u64, N);
    let delays: Vec<u64> = out.iter().map(|(time, i)| time - i * 10 * SPREAD).collect();
    assert!(delays.iter().all(|delay| *delay <= jitter.most().as_nanos()));
    delays.iter().map(|delay| *delay as f64 / SPREAD as f64).collect()
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

fn variance(values: &[f64]) -> f64 {
    let mean = mean(values);
    values.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / values.len() as f64
}

/// Correlation of each value with the next one.
fn of_neighbours(values: &[f64]) -> f64 {
    let mean = mean(values);
    let products = values.windows(2).map(|w| (w[0] - mean) * (w[1] - mean)).sum::<f64>();
    products / values.len() as f64 / variance(values)
}

/// Five standard deviations of a share of the packets.
fn allowance(share: f64) -> f64 {
    5.0 * (share * (1.0 - share) / N as f64).sqrt()
}

#[test]
fn a_normal_jitter_has_the_shares_of_a_normal_distribution() {
    let delays = delays(Distribution::Normal, 0.0);
    // 4 deviations are below the mean, so that the least is 0.
    assert!((mean(&delays) - 4.0).abs() < 0.012, "{}", mean(&delays));
    assert!((variance(&delays) - 1.0).abs() < 0.02, "{}", variance(&delays));
    assert!(of_neighbours(&delays).abs() < 0.012);
    for (z, below) in [
        (-3.0, 0.001_350),
        (-2.0, 0.022_750),
        (-1.0, 0.158_655),
        (-0.5, 0.308_538),
        (0.0, 0.5),
        (0.674_49, 0.75),
        (1.644_85, 0.95),
        (3.0, 0.998_650),
    ] {
        let share = delays.iter().filter(|x| **x - 4.0 <= z).count() as f64 / N as f64;
        assert!((share - below).abs() < allowance(below), "{share} below {z}, and not {below}");
    }
}

#[test]
fn a_pareto_jitter_has_the_tail_of_the_formula_and_its_end() {
    let delays = delays(Distribution::Pareto, 0.0);
    for beyond in [0.05_f64, 0.2, 0.5, 1.0, 2.0, 3.0, 4.0, 4.6] {
        let tail = (1.0 + 0.75 * beyond).powi(-3);
        let share = delays.iter().filter(|x| **x > beyond).count() as f64 / N as f64;
        assert!((share - tail).abs() < allowance(tail), "{share} beyond {beyond}, and not {tail}");
    }
    let most = delays.iter().copied().fold(0.0, f64::max);
    assert!((most - 14.0 / 3.0).abs() < 1e-4, "{most}");
    // The integral of the quantiles: 2/3 but for the tail that is cut.
    assert!((mean(&delays) - 0.633_7).abs() < 0.01, "{}", mean(&delays));
}

/// The figures of C4's model: slots of 1 ms, and collisions of 7.5 ms of a share of the packets.
#[test]
fn a_wifi_jitter_has_slots_and_a_share_of_collisions() {
    let delays = |spread_ms| {
        let spread = Duration::from_millis(spread_ms);
        let distribution = Distribution::Wifi;
        let jitter = JitterConfig { spread, distribution, correlation: Probability::ZERO };
        let mut path = path(vec![ElementConfig::Jitter(jitter)]);
        // A packet that came within another one's delay would wait for it.
        let apart = jitter.most().as_nanos();
        for i in 0..N {
            path.send(at(i * apart), 100, i).expect("nothing is lost");
        }
        let (out, _) = drain(&mut path);
        out.iter().map(|(time, i)| (time - i * apart) as f64 / 1e6).collect::<Vec<_>>()
    };
    let share = |delays: &[f64], holds: fn(f64) -> bool| {
        delays.iter().filter(|ms| holds(**ms)).count() as f64 / N as f64
    };
    let slots = delays(1);
    // Of a Poisson number n of slots the last lasts half as long on average, where there is one.
    let none = (-1.0_f64).exp();
    assert!((mean(&slots) - (1.0 - (1.0 - none) / 2.0)).abs() < 0.01, "{}", mean(&slots));
    assert!((share(&slots, |ms| ms == 0.0) - none).abs() < allowance(none));
    let one_slot = none;
    assert!((share(&slots, |ms| ms > 0.0 && ms < 1.0) - one_slot).abs() < allowance(one_slot));
    for (spread_ms, collide) in [(7, 6.0 / 84.0), (12, 11.0 / 84.0)] {
        let delays = delays(spread_ms);
        let long = share(&delays, |ms| ms > 15.0);
        assert!((long - collide).abs() < allowance(collide) + 2e-4, "{long} and not {collide}");
        let wanted = 0.684 + collide * (90.0 - 3.75);
        assert!((mean(&delays) - wanted).abs() < 0.3, "{} and not {wanted}", mean(&delays));
    }
}

/// The sum of a share of the last number and the rest of a new one, as netem has it.
#[test]
fn a_correlation_is_that_of_neighbours_and_narrows_the_distribution() {
    let usual = variance(&delays(Distribution::Uniform, 0.0));
    assert!((usual - 1.0 / 12.0).abs() < 0.001, "{usual}");
    for r in [0.25, 0.8] {
        let delays = delays(Distribution::Uniform, r);
        let (found, spread) = (of_neighbours(&delays), variance(&delays) / usual);
        assert!((found - r).abs() < 0.01, "{found} and not {r}");
        assert!((spread - (1.0 - r) / (1.0 + r)).abs() < 0.015, "{spread} at {r}");
        assert!((mean(&delays) - 0.5).abs() < 0.01);
    }
    // One number for all.
    let one = delays(Distribution::Normal, 1.0);
    assert!(one.iter().all(|x| *x == one[0]));
}

#[test]
fn a_jitter_is_the_seeds_and_without_a_spread_it_is_nothing() {
    let jitter = |seed, spread: Duration| {
        let distribution = Distribution::Pareto;
        let jitter = JitterConfig { spread, distribution, correlation: Probability::ZERO };
        let config = PathConfig { row: vec![ElementConfig::Jitter(jitter)], seed };
        let mut path = fullpipe_path::Path::new(&config).expect("a path");
        for i in 0..100 {
            path.send(at(i * 100), 100, i).expect("nothing is lost");
        }
        drain(&mut path).0
    };
    assert_eq!(jitter(1, ns(50)), jitter(1, ns(50)));
    assert_ne!(jitter(1, ns(50)), jitter(2, ns(50)));
    assert!(jitter(1, Duration::ZERO).iter().all(|(t, i)| *t == i * 100));
    // As long as time itself.
    assert_eq!(jitter(1, Duration::MAX).len(), 100);
}

/// Each packet has the jitter of its time, and waits for those in front of it.
#[test]
fn a_jitter_that_changes_is_that_of_the_moment() {
    let of = |spread, distribution| JitterConfig {
        spread: ns(spread),
        distribution,
        correlation: Probability::ZERO,
    };
    let steps = [
        (ns(0), of(0, Distribution::Uniform)),
        (ns(1_000 * SPREAD), of(SPREAD, Distribution::Normal)),
        (ns(2_000 * SPREAD), of(2 * SPREAD, Distribution::Uniform)),
    ];
    let period = 3_000 * SPREAD;
    let series = Series::new(steps, Some(ns(period))).expect("a series");
    let mut path = path(vec![ElementConfig::JitterSeries(series)]);
    for i in 0..N {
        path.send(at(i * 10 * SPREAD), 100, i).expect("nothing is lost");
    }
    let (out, _) = drain(&mut path);
    let mut delays = [const { Vec::new() }; 3];
    for (time, i) in out {
        let sent = i * 10 * SPREAD;
        delays[(sent % period / (1_000 * SPREAD)) as usize].push((time - sent) as f64);
    }
    let spreads = |n: usize| mean(&delays[n]) / SPREAD as f64;
    assert_eq!(spreads(0), 0.0);
    assert!((spreads(1) - 4.0).abs() < 0.05, "{}", spreads(1));
    assert!((spreads(2) - 1.0).abs() < 0.02, "{}", spreads(2));
    // What was drawn for the last packet before a change holds up those behind it.
    let steps = [(ns(0), of(SPREAD, Distribution::Normal)), (ns(10), of(0, Distribution::Uniform))];
    let mut path =
        self::path(vec![ElementConfig::JitterSeries(Series::new(steps, None).expect("a series"))]);
    for now in [9, 10, 20 * SPREAD] {
        path.send(at(now), 100, now).expect("nothing is lost");
    }
    let (out, _) = drain(&mut path);
    assert!(out[0].0 > 9 && out[1].0 == out[0].0 && out[2].0 == 20 * SPREAD, "{out:?}");
}
