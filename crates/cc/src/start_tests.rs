//! Rapid Start and SEARCH in whole flows.

use crate::test_link::{Link, MS, SMSS};
use crate::{Algorithm, Config, Start, State};

const RAPID: fn() -> Config = || Config { start: Start::RapidStart, ..Config::new(1) };
const SEARCH: fn() -> Config = || Config { start: Start::Search, ..Config::new(1) };
const ALL: [Algorithm; 4] = [Algorithm::BBR3, Algorithm::BBR3X, Algorithm::CUBIC, Algorithm::RENO];

/// Bytes in flight at the end of each round trip of a path with room for all of them.
fn flights(algorithm: Algorithm, config: Config, rounds: u32) -> std::vec::Vec<u64> {
    let mut link = Link::with(algorithm, 10_000, MS.times(200), config);
    (0..rounds)
        .map(|_| {
            link.run(MS.times(200));
            link.cc.inflight()
        })
        .collect()
}

/// "Increasing the Congestion Window": 3x in a round trip, where the standard start has 2x.
#[test]
fn the_flight_triples_in_a_round_trip_while_there_is_no_queue() {
    for algorithm in ALL {
        for (config, factor) in [(RAPID(), 3.0), (Config::new(1), 2.0)] {
            let flights = flights(algorithm, config, 7);
            for pair in flights[3..].windows(2) {
                let growth = pair[1] as f64 / pair[0] as f64;
                assert!((growth / factor - 1.0).abs() < 0.12, "{algorithm}: {flights:?}");
            }
        }
    }
}

/// A queue ends it: the flow then has the gains, or the growth, of the standard start, and no more
/// in flight than three BDP.
#[test]
fn a_queue_ends_the_tripling() {
    for algorithm in ALL {
        let mut link = Link::with(algorithm, 50, MS.times(80), RAPID());
        let bdp = link.rate.bytes_in(link.rtt);
        while link.cc.snapshot().latest_rtt < Some(MS.times(100)) {
            link.step(&mut || false);
        }
        // A round trip may pass until the newest samples show it.
        link.run(MS.times(20));
        if link.state() == State::Startup {
            assert_eq!((link.gain(), link.bbr().cwnd_gain.as_percent()), (277, 200), "{algorithm}");
            let rate = link.cc.snapshot().pacing_rate.expect("paced");
            assert!(rate < crate::Gain::percent(300).of_rate(link.rate), "{algorithm}: {rate}");
        }
        assert!(link.most_inflight <= 3 * bdp + 20 * SMSS, "{algorithm}: {}", link.most_inflight);
    }
}

/// "Congestion Handling": where a full buffer of one BDP drops, the window after the recovery is
/// beta of what the path held, the BDP and the buffer, although more was in flight.
#[test]
fn the_window_after_the_first_recovery_is_beta_of_what_the_path_held() {
    for (algorithm, beta) in [(Algorithm::CUBIC, 70), (Algorithm::RENO, 50)] {
        let rtt = MS.times(100);
        let mut link = Link::with(algorithm, 50, rtt, RAPID());
        link.drop_above = rtt;
        let mut most = 0;
        while link.state() != State::Recovery {
            most = link.cc.cwnd();
            link.step(&mut || false);
        }
        while link.state() == State::Recovery {
            link.step(&mut || false);
        }
        let held = 2 * link.rate.bytes_in(rtt);
        assert!(most > held + held / 4, "{algorithm}: {most} of {held}");
        let (cwnd, expected) = (link.cc.cwnd(), held * beta / 100);
        assert!(cwnd.abs_diff(expected) < expected / 10, "{algorithm}: {cwnd} for {expected}");
    }
}

/// A loss that comes before any queue ends the tripling of a BBR as well.
#[test]
fn a_loss_ends_the_tripling() {
    for algorithm in [Algorithm::BBR3, Algorithm::BBR3X] {
        let mut link = Link::with(algorithm, 10_000, MS.times(200), RAPID());
        link.run(MS.times(500));
        assert_eq!(link.gain(), 495, "{algorithm}");
        let mut losses = 1;
        link.step(&mut || core::mem::take(&mut losses) == 1);
        while link.lost == 0 {
            link.step(&mut || core::mem::take(&mut losses) == 1);
        }
        link.run(MS.times(200));
        assert_eq!((link.state(), link.gain()), (State::Startup, 277), "{algorithm}");
    }
}

/// The test link never drops: slow start ends where what arrives falls behind. By then two round
/// trips of doubling have passed since the path was full.
#[test]
fn search_ends_slow_start_once_the_path_is_full() {
    for algorithm in [Algorithm::CUBIC, Algorithm::RENO] {
        for (mbit, rtt_ms) in [(50, 80), (200, 20), (10, 300)] {
            let mut link = Link::with(algorithm, mbit, MS.times(rtt_ms), SEARCH());
            let bdp = link.rate.bytes_in(link.rtt);
            link.run_to(State::CongestionAvoidance);
            let cwnd = link.cc.cwnd();
            assert!((2 * bdp..8 * bdp).contains(&cwnd), "{algorithm} {mbit} {rtt_ms}: {cwnd}");
        }
    }
}

/// Jitter that would be a queue to HyStart++ is none to SEARCH.
#[test]
fn search_does_not_take_a_longer_round_trip_for_a_queue() {
    let mut link = Link::with(Algorithm::CUBIC, 10_000, MS.times(40), SEARCH());
    link.run(MS.times(90));
    link.rtt = MS.times(60);
    link.run(MS.times(240));
    assert_eq!(link.state(), State::SlowStart);
}

/// An algorithm without these starts has its own.
#[test]
fn other_algorithms_start_as_ever() {
    for algorithm in [Algorithm::BBR1, Algorithm::PRAGUE] {
        for config in [RAPID(), SEARCH()] {
            let standard = flights(algorithm, Config::new(1), 4);
            assert_eq!(flights(algorithm, config, 4), standard, "{algorithm}");
        }
    }
    assert_eq!(flights(Algorithm::BBR3, SEARCH(), 4), flights(Algorithm::BBR3, Config::new(1), 4));
}
