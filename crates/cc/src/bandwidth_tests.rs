//! The rate that an application is told, on a link that is simple enough to say what must come out.

use crate::test_link::{Link, MS, TokenBucket};
use crate::{Algorithm, BandwidthProbe, Config, Controller, Duration, NotNow, Rate, State};

const MBIT_RATE: Rate = Rate::from_bits_per_sec(10_000_000);
const FAST: Rate = Rate::from_bits_per_sec(1_000_000_000);

fn link(algorithm: Algorithm) -> Link {
    Link::new(algorithm, 10, MS.times(40))
}

/// Mbit/s, in thousandths.
fn kbit(cc: &Controller) -> u64 {
    cc.send_rate_estimate().expect("a round trip").as_bits_per_sec() / 1_000
}

fn ask(link: &mut Link) -> BandwidthProbe {
    link.cc.probe_bandwidth(link.now, FAST)
}

#[test]
fn the_estimate_is_the_links_rate_in_every_state() {
    for algorithm in [Algorithm::BBR3, Algorithm::BBR3X, Algorithm::BBR3_LINUX, Algorithm::BBR1] {
        let mut link = link(algorithm);
        link.run(Duration::from_secs(2));
        let end = link.now + Duration::from_secs(12);
        while link.now < end {
            link.step(&mut || false);
            let kbit = kbit(&link.cc);
            assert!((9_800..=10_000).contains(&kbit), "{algorithm}, {:?}: {kbit}", link.state());
        }
        // bbr3x has none here.
        let probed = link.states.contains(&State::ProbeRtt) || algorithm == Algorithm::BBR3X;
        assert!(probed, "{algorithm}: {:?}", link.states);
    }
    for algorithm in [Algorithm::CUBIC, Algorithm::RENO, Algorithm::PRAGUE] {
        let mut link = link(algorithm);
        link.run(Duration::from_secs(3));
        let kbit = kbit(&link.cc);
        // Window and smoothed time are not of one moment while the queue grows.
        assert!((9_000..=10_500).contains(&kbit), "{algorithm}: {kbit}");
    }
}

#[test]
fn there_is_no_estimate_before_a_round_trip_and_none_above_what_is_allowed() {
    for name in Algorithm::NAMES {
        let algorithm: Algorithm = name.parse().expect("a name");
        let mut link = link(algorithm);
        assert_eq!(link.cc.send_rate_estimate(), None, "{algorithm}");
        let answer = link.cc.probe_bandwidth(link.now, MBIT_RATE);
        assert_eq!(answer, BandwidthProbe::NotNow(NotNow::NoRoundTrip), "{algorithm}");
        let most = Rate::from_bits_per_sec(1_000_000);
        let config = Config { max_pacing_rate: Some(most), ..Config::new(1) };
        let mut link = Link::with(algorithm, 10, MS.times(40), config);
        link.run(Duration::from_secs(2));
        assert!(link.cc.send_rate_estimate().expect("a rate") <= most, "{algorithm}");
        let answer = link.cc.probe_bandwidth(link.now, MBIT_RATE);
        assert_eq!(answer, BandwidthProbe::NotNow(NotNow::Limit), "{algorithm}");
    }
    let mut link = link(Algorithm::Fixed(MBIT_RATE));
    assert_eq!(link.cc.send_rate_estimate(), Some(MBIT_RATE));
    let answer = link.cc.probe_bandwidth(link.now, MBIT_RATE);
    assert_eq!(answer, BandwidthProbe::Reached);
    link.run(MS.times(100));
    assert_eq!(ask(&mut link), BandwidthProbe::NotNow(NotNow::Limit));
}

/// The window doubles in a round trip, so that half of it is what arrived in the last one.
#[test]
fn in_slow_start_the_estimate_is_what_arrives() {
    for algorithm in [Algorithm::CUBIC, Algorithm::RENO, Algorithm::PRAGUE] {
        let mut link = Link::new(algorithm, 1_000, MS.times(40));
        link.run(MS.times(210));
        let before = link.delivered;
        link.run(MS.times(40));
        assert_eq!(link.state(), State::SlowStart, "{algorithm}");
        let arrived = (link.delivered - before) as f64;
        let estimate = link.cc.send_rate_estimate().expect("a round trip");
        let share = estimate.bytes_in(MS.times(40)) as f64 / arrived;
        assert!((0.7..1.3).contains(&share), "{algorithm}: {share} of {arrived} bytes");
    }
}

/// A rate of nothing is no rate to plan with.
#[test]
fn the_estimate_is_never_zero() {
    for name in Algorithm::NAMES {
        let algorithm: Algorithm = name.parse().expect("a name");
        let mut link = Link::with(algorithm, 10, MS, Config { smss: 1, ..Config::new(1) });
        let packet = link.cc.on_sent(link.now, 1);
        let mut batch = link.cc.ack(link.now + Duration::from_secs(100));
        batch.acked(&packet);
        batch.finish();
        let estimate = link.cc.snapshot().send_rate_estimate();
        assert_ne!(estimate, Some(Rate::ZERO), "{algorithm}");
    }
}

/// The time from the begin of a CRUISE to REFILL, in ms, where an application asks or not.
fn cruise_ms(asks: bool) -> u64 {
    // A path on which the coexistence with Reno asks for no earlier probe.
    let mut link = Link::new(Algorithm::BBR3, 100, MS.times(60));
    link.run_to(State::ProbeBwCruise);
    let begun = link.now;
    while link.state() == State::ProbeBwCruise {
        if asks {
            ask(&mut link);
        }
        link.step(&mut || false);
    }
    assert_eq!(link.state(), State::ProbeBwRefill);
    link.now.since(begun).as_nanos() / 1_000_000
}

#[test]
fn a_request_halves_the_wait_and_no_more() {
    let (natural, asked) = (cruise_ms(false), cruise_ms(true));
    // The draft's wait begins with DOWN, a little before CRUISE.
    assert!((1_500..=3_000).contains(&natural), "{natural}");
    assert!(asked * 10 >= natural * 4 && asked * 10 <= natural * 6, "{asked} of {natural}");
}

#[test]
fn the_answer_is_the_states() {
    let mut link = link(Algorithm::BBR3);
    link.run(MS.times(90));
    assert_eq!(ask(&mut link), BandwidthProbe::Probing, "Startup probes");
    let not_now = BandwidthProbe::NotNow;
    for (state, answer) in [
        (State::Drain, not_now(NotNow::Draining)),
        (State::ProbeBwCruise, not_now(NotNow::TooSoon)),
        (State::ProbeBwRefill, BandwidthProbe::Probing),
        (State::ProbeBwUp, BandwidthProbe::Probing),
        (State::ProbeBwDown, not_now(NotNow::Draining)),
        (State::ProbeRtt, not_now(NotNow::ProbeRtt)),
    ] {
        link.run_to(state);
        assert_eq!(ask(&mut link), answer, "{state:?}");
        assert_eq!(link.state(), state, "a question changes no state");
    }
    let slow = Rate::from_bits_per_sec(9_000_000);
    assert_eq!(link.cc.probe_bandwidth(link.now, slow), BandwidthProbe::Reached);
}

/// BBRv1 probes in a phase of eight: the answer is no where its state looks for something else.
#[test]
fn bbr1_says_no_in_drain_and_in_probe_rtt() {
    let mut link = link(Algorithm::BBR1);
    for (state, answer) in [
        (State::Drain, BandwidthProbe::NotNow(NotNow::Draining)),
        (State::ProbeBw, BandwidthProbe::Probing),
        (State::ProbeRtt, BandwidthProbe::NotNow(NotNow::ProbeRtt)),
    ] {
        link.run_to(state);
        assert_eq!(ask(&mut link), answer, "{state:?}");
    }
}

#[test]
fn after_too_much_loss_the_whole_wait_stays() {
    let mut link = link(Algorithm::BBR3);
    let rate = Rate::from_bits_per_sec(4_000_000);
    let (depth, filled) = (30_000, link.now);
    link.policer = Some(TokenBucket { rate, depth, tokens: depth, filled });
    let end = link.now + Duration::from_secs(30);
    let (mut begun, mut seen) = (None, 0);
    while link.now < end {
        let bbr = link.bbr();
        let in_cruise = link.state() == State::ProbeBwCruise && bbr.prev_probe_too_high;
        if in_cruise {
            let begun = *begun.get_or_insert(link.now);
            let is_early = link.now.since(begun) < bbr.bw_probe_wait - MS.times(300);
            let answer = ask(&mut link);
            assert!(!is_early || answer == BandwidthProbe::NotNow(NotNow::TooSoon), "{answer:?}");
            seen += u32::from(is_early);
        } else {
            begun = None;
        }
        link.step(&mut || false);
    }
    assert!(seen > 100, "{seen} questions after a probe with losses");
}

#[test]
fn a_loss_based_algorithm_says_no_while_it_recovers() {
    for algorithm in [Algorithm::CUBIC, Algorithm::RENO, Algorithm::PRAGUE] {
        let mut link = link(algorithm);
        link.run(MS.times(500));
        assert_eq!(ask(&mut link), BandwidthProbe::Probing, "{algorithm}");
        let mut count = 0;
        link.step(&mut || true);
        while !matches!(ask(&mut link), BandwidthProbe::NotNow(_)) {
            link.step(&mut || true);
            count += 1;
            assert!(count < 100, "{algorithm}");
        }
        assert_eq!(ask(&mut link), BandwidthProbe::NotNow(NotNow::Congestion), "{algorithm}");
        link.run(MS.times(2_000));
        assert_eq!(ask(&mut link), BandwidthProbe::Probing, "{algorithm}");
    }
}
