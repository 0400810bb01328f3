//! Rapid Start and SEARCH in whole flows.

use crate::test_link::{Link, MS, SMSS};
use crate::{Algorithm, Config, Gain, RttSample, Start, State};

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

/// The pacing rate of the standard Startup for the same bandwidth, with its margin; before there is
/// one, that of the initial window.
fn startup_rate(link: &Link) -> u64 {
    let snapshot = link.cc.snapshot();
    let srtt = snapshot.srtt.expect("measured");
    let initial = crate::Rate::from_volume(link.cc.initial_cwnd(), srtt);
    let found = Gain::percent(99).of_rate(link.bbr().max_bw);
    Gain::percent(277).of_rate(initial.max(found)).as_bytes_per_sec()
}

/// A timeout ends the tripling as well: the first ACK after it ends the recovery already.
#[test]
fn a_timeout_ends_the_tripling() {
    for algorithm in [Algorithm::BBR3, Algorithm::BBR3X, Algorithm::BBR3_LINUX] {
        let mut link = Link::with(algorithm, 10_000, MS.times(200), RAPID());
        link.run(MS.times(500));
        link.now += MS.times(1_000);
        let mut batch = link.cc.ack(link.now);
        link.flight.drain(..).for_each(|f| batch.lost(&f.packet));
        batch.timeout();
        batch.finish();
        link.run(MS.times(250));
        let cwnd_gain = link.bbr().cwnd_gain.as_percent();
        assert_eq!((link.state(), link.gain(), cwnd_gain), (State::Startup, 277, 200));
    }
}

/// After the recovery the window is the standard Startup's, as the rate is from the first loss on.
#[test]
fn rate_and_window_of_the_tripling_do_not_come_back_with_the_end_of_a_recovery() {
    for algorithm in [Algorithm::BBR3, Algorithm::BBR3X] {
        let mut link = Link::with(algorithm, 10_000, MS.times(200), RAPID());
        link.run(MS.times(700));
        let mut losses = 1;
        while link.lost == 0 {
            link.step(&mut || core::mem::take(&mut losses) == 1);
        }
        let bdp = link.bbr().max_bw.bytes_in(MS.times(200));
        assert!(link.cc.cwnd() <= 2 * bdp + 20 * SMSS, "{algorithm}: {} of {bdp}", link.cc.cwnd());
        let rate = link.cc.pacing_rate().expect("paced").as_bytes_per_sec();
        assert!(rate.abs_diff(startup_rate(&link)) < rate / 50, "{algorithm}: {rate}");
        link.run(MS.times(250));
        let bdp = link.bbr().max_bw.bytes_in(MS.times(200));
        assert!(link.cc.cwnd() <= 2 * bdp + 20 * SMSS, "{algorithm}: {} of {bdp}", link.cc.cwnd());
    }
}

/// Before there is a bandwidth, or where the application was the limit, the rate is still what the
/// standard Startup begins with.
#[test]
fn the_end_of_the_tripling_leaves_the_rate_of_the_initial_window() {
    for algorithm in [Algorithm::BBR3, Algorithm::BBR3X, Algorithm::BBR3_LINUX] {
        let mut link = Link::with(algorithm, 50, MS.times(100), RAPID());
        (0..5).for_each(|_| link.send_packet());
        link.now += MS.times(100);
        let mut batch = link.cc.ack(link.now);
        link.flight.drain(..1).for_each(|f| batch.lost(&f.packet));
        link.flight.drain(..1).for_each(|f| batch.acked(&f.packet));
        batch.rtt(RttSample::Ambiguous);
        batch.finish();
        let rate = link.cc.pacing_rate().expect("paced");
        assert!(rate >= Gain::percent(270).of_rate(crate::Rate::from_volume(12_000, MS)));

        let mut link = Link::with(algorithm, 50, MS.times(100), RAPID());
        link.busy = false;
        for rtt in [100, 100, 120, 120, 120, 120] {
            link.rtt = MS.times(rtt);
            link.cc.on_app_limited();
            link.send_packet();
            link.run(MS.times(130));
        }
        assert_eq!(link.gain(), 277, "{algorithm}");
        let rate = link.cc.pacing_rate().expect("paced").as_bytes_per_sec();
        assert!(rate.abs_diff(startup_rate(&link)) < rate / 5, "{algorithm}: {rate}");
    }
}

/// Everything of the first flights was lost: the threshold is a third of beta of the window, as the
/// window of a recovery would be.
#[test]
fn a_timeout_after_the_tripling_leaves_what_the_losses_leave() {
    for (algorithm, beta) in [(Algorithm::CUBIC, 70), (Algorithm::RENO, 50)] {
        let mut link = Link::with(algorithm, 10_000, MS.times(200), RAPID());
        link.run(MS.times(500));
        let before = link.cc.cwnd();
        while link.cc.inflight() + SMSS <= before {
            link.send_packet();
        }
        link.now += MS.times(1_000);
        let mut batch = link.cc.ack(link.now);
        link.flight.drain(..).for_each(|f| batch.lost(&f.packet));
        batch.timeout();
        batch.finish();
        let snapshot = link.cc.snapshot();
        let ssthresh = snapshot.ssthresh.expect("congestion");
        assert_eq!(snapshot.cwnd, 2 * SMSS);
        assert!(ssthresh.abs_diff(before * beta / 300) < SMSS, "{algorithm}: {ssthresh} {before}");
        // Slow start doubles from here on.
        link.run(MS.times(210));
        assert_eq!(link.cc.cwnd(), 4 * SMSS, "{algorithm}");
    }
}

/// The loss timer finds the last losses, and the ACK that ends the recovery acknowledges what was
/// sent before it.
#[test]
fn the_last_ack_of_a_recovery_counts() {
    for (algorithm, beta) in [(Algorithm::CUBIC, 70), (Algorithm::RENO, 50)] {
        let mut link = Link::with(algorithm, 10_000, MS.times(200), RAPID());
        link.run(MS.times(500));
        let before = link.cc.cwnd();
        let lost = link.flight.len() / 2;
        let flight = link.cc.inflight();
        let mut batch = link.cc.ack(link.now);
        link.flight.drain(..lost).for_each(|f| batch.lost(&f.packet));
        batch.finish();
        link.send_packet();
        link.now += MS.times(200);
        let mut batch = link.cc.ack(link.now);
        link.flight.drain(..).for_each(|f| batch.acked(&f.packet));
        batch.finish();
        let unused = before - flight;
        let silence = beta + (100 - beta) * 2 / 3;
        let expected = (flight - lost as u64 * SMSS) * beta / 100 + unused * silence / 100;
        let cwnd = link.cc.cwnd();
        assert!(cwnd.abs_diff(expected) < cwnd / 20, "{algorithm}: {cwnd} for {expected}");
    }
}

/// Beta of the window is left at most, also of one that was not used.
#[test]
fn a_window_that_was_not_full_is_reduced_as_well() {
    for (algorithm, beta) in [(Algorithm::CUBIC, 70), (Algorithm::RENO, 50)] {
        let mut link = Link::with(algorithm, 10_000, MS.times(200), RAPID());
        link.run(MS.times(700));
        link.busy = false;
        link.run(MS.times(300));
        let before = link.cc.cwnd();
        (0..3).for_each(|_| link.send_packet());
        let mut losses = 1;
        while link.lost == 0 {
            link.step(&mut || core::mem::take(&mut losses) == 1);
        }
        link.send_packet();
        link.run(MS.times(250));
        assert_eq!(link.cc.cwnd(), before * beta / 100, "{algorithm}");
    }
}

/// A larger packet has a larger least window, or none would leave again.
#[test]
fn the_least_window_of_the_recovery_follows_the_packet_size() {
    for algorithm in [Algorithm::CUBIC, Algorithm::RENO] {
        let mut link = Link::with(algorithm, 10, MS.times(100), RAPID());
        (0..20).for_each(|_| link.send_packet());
        link.now += MS.times(100);
        let mut batch = link.cc.ack(link.now);
        link.flight.drain(..1).for_each(|f| batch.acked(&f.packet));
        link.flight.drain(..1).for_each(|f| batch.lost(&f.packet));
        batch.finish();
        link.cc.on_mtu_update(link.now, 9_000, None);
        let mut batch = link.cc.ack(link.now);
        link.flight.drain(..1).for_each(|f| batch.acked(&f.packet));
        link.flight.drain(..).for_each(|f| batch.lost(&f.packet));
        batch.finish();
        assert_eq!(link.cc.cwnd(), 18_000, "{algorithm}");
        link.size = 9_000;
        link.run(MS.times(300));
        assert!(link.cc.cwnd() >= 18_000 && link.delivered > 0, "{algorithm}");
    }
}

/// What was in flight over another address is neither delivered nor lost, and no sign of a full
/// path.
#[test]
fn search_does_not_miss_what_was_forgotten() {
    let mut link = Link::with(Algorithm::CUBIC, 10_000, MS.times(100), SEARCH());
    link.run(MS.times(620));
    link.cc.forget_flight();
    link.flight.clear();
    link.run(MS.times(500));
    assert_eq!(link.state(), State::SlowStart);
}

/// Nor what was discarded: a flow that then sends little has sent less than nothing.
#[test]
fn search_does_not_miss_what_was_discarded() {
    let mut link = Link::with(Algorithm::CUBIC, 10_000, MS.times(100), SEARCH());
    for i in 0..30 {
        link.send_packet();
        link.now += MS.times(100);
        let mut batch = link.cc.ack(link.now);
        link.flight.drain(..1).for_each(|f| batch.acked(&f.packet));
        batch.finish();
        assert_eq!(link.state(), State::SlowStart, "{i}");
        link.flight.drain(..).for_each(|f| link.cc.on_discarded(&f.packet));
        link.now += MS.times(50);
        if i == 10 {
            (0..6).for_each(|_| link.send_packet());
        }
    }
}

/// A long answer after a pause, and after another pause a short one.
#[test]
fn search_does_not_take_a_short_answer_after_a_long_one_for_a_full_path() {
    for pause in (10..35).map(|n| n * 10) {
        let mut link = Link::with(Algorithm::CUBIC, 10_000, MS.times(100), SEARCH());
        link.run(MS.times(650));
        link.busy = false;
        link.run(MS.times(110));
        link.now += MS.times(200);
        link.busy = true;
        link.run(MS.times(40));
        link.busy = false;
        link.run(MS.times(110));
        link.now += MS.times(pause);
        link.send_packet();
        link.run(MS.times(110));
        assert_eq!(link.state(), State::SlowStart, "{pause}");
    }
}

/// What was lost and arrived after all has not been sent twice.
#[test]
fn search_does_not_count_late_packets_twice() {
    let mut link = Link::with(Algorithm::CUBIC, 10_000, MS.times(100), SEARCH());
    link.run(MS.times(620));
    let count = link.flight.len() * 9 / 10;
    let late: std::vec::Vec<_> = link.flight.drain(..count).map(|f| f.packet).collect();
    let mut batch = link.cc.ack(link.now);
    late.iter().for_each(|packet| batch.lost(packet));
    batch.finish();
    link.now += MS.times(20);
    let mut batch = link.cc.ack(link.now);
    late.iter().for_each(|packet| batch.acked_after_loss(packet));
    batch.finish();
    link.cc.on_spurious_loss(link.now);
    link.run(MS.times(400));
    assert_eq!(link.state(), State::SlowStart);
}
