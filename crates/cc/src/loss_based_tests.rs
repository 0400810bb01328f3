//! CUBIC and Reno as whole flows: slow start, pacing and byte counting, the same for both.

use std::vec::Vec;

#[cfg(feature = "custom")]
use crate::algo::Congestion;
#[cfg(feature = "custom")]
use crate::conn::Conn;
use crate::test_link::{Link, MS, SMSS};
use crate::{
    Algorithm, Config, Controller, CubicOptions, CubicRules, Duration, Instant, PacketState, Rate,
    SendDecision, State,
};

const BOTH: [Algorithm; 2] = [Algorithm::CUBIC, Algorithm::RENO];
const UNPACED: fn() -> Config = || Config { paced: false, ..Config::new(1) };

/// The buffer of the test link never overflows: it is the rise of the round trip that ends slow
/// start. It is seen a round trip after the queue began, and the window doubles in each: CSS begins
/// at two to four BDP, and its five rounds of a quarter more are a factor of three at most.
#[test]
fn hystart_ends_slow_start_without_a_loss() {
    for algorithm in BOTH {
        let mut link = Link::new(algorithm, 50, MS.times(80));
        let bdp = link.rate.bytes_in(link.rtt);
        link.run_to(State::ConservativeSlowStart);
        let css = link.cc.cwnd();
        assert!((2 * bdp..4 * bdp).contains(&css), "{algorithm}: {css}, BDP {bdp}");
        link.run_to(State::CongestionAvoidance);
        let cwnd = link.cc.cwnd();
        assert!((2 * css..=css * 3_125 / 1_024).contains(&cwnd), "{algorithm}: {css}, then {cwnd}");
        assert_eq!((link.lost, link.cc.snapshot().ssthresh), (0, Some(cwnd)), "{algorithm}");
    }
}

/// RFC 9002 section 7.7 with N = 1.25, and 2 while the window doubles.
#[test]
fn the_pacing_rate_is_so_many_windows_in_a_round_trip() {
    for algorithm in BOTH {
        let mut link = Link::new(algorithm, 50, MS.times(40));
        let windows_percent = |link: &Link| {
            let s = link.cc.snapshot();
            let window = Rate::from_volume(s.cwnd, s.srtt.expect("measured"));
            let rate = s.pacing_rate.expect("paced").as_bytes_per_sec();
            (rate * 1_000 / window.as_bytes_per_sec() + 5) / 10
        };
        link.run(MS.times(70));
        assert_eq!((link.state(), windows_percent(&link)), (State::SlowStart, 200));
        link.run_to(State::ConservativeSlowStart);
        assert_eq!(windows_percent(&link), 125, "{algorithm}");
        link.run_to(State::CongestionAvoidance);
        assert_eq!(windows_percent(&link), 125, "{algorithm}");
    }
}

/// RFC 9438 section 5.8, RFC 9002 section 7.8: silence earns nothing, even where the first flight
/// after it fills the window. Three round trips later the window is not larger than without the
/// silence.
#[test]
fn silence_is_no_time_of_cubics_epoch() {
    let packets_after = |silence: Duration| {
        let mut link = Link::new(Algorithm::CUBIC, 100, MS.times(40));
        link.run(MS.times(250));
        let mut once = Some(true);
        link.step(&mut || once.take().is_some());
        link.run(MS.times(400));
        assert_eq!(link.state(), State::CongestionAvoidance);
        link.busy = false;
        link.run(MS.times(200));
        let before = link.cc.cwnd() / SMSS;
        link.run(silence);
        assert_eq!((link.cc.inflight(), link.cc.cwnd() / SMSS), (0, before));
        link.busy = true;
        link.run(MS.times(130));
        (before, link.cc.cwnd() / SMSS)
    };
    let (before, at_once) = packets_after(Duration::ZERO);
    let (_, late) = packets_after(Duration::from_secs(30));
    assert!(at_once > before && at_once < before * 11 / 10, "from {before} to {at_once}");
    assert!(late <= at_once, "from {before} to {late}, and {at_once} without the silence");
}

#[test]
fn without_pacing_the_window_is_all_that_holds_a_packet_back() {
    for algorithm in BOTH {
        let mut link = Link::with(algorithm, 50, MS.times(40), UNPACED());
        for _ in 0..2_000 {
            link.step(&mut || false);
            assert_eq!(link.cc.pacing_rate(), None);
            let free = link.cc.inflight() + SMSS <= link.cc.cwnd();
            let sendable = matches!(link.cc.can_send(link.now), SendDecision::Now { .. });
            assert_eq!(sendable, free, "{algorithm}: {:?}", link.cc);
        }
        assert_eq!(link.cc.send_quantum(), 65_536);
    }
}

/// The window after a flight of a full window was acknowledged, `per_ack` packets by each ACK.
fn after_one_window(algorithm: Algorithm, config: Config, ssthresh: bool, per_ack: usize) -> u64 {
    let mut now = Instant::from_nanos(1);
    let initial_cwnd = Some(64 * SMSS);
    let mut cc = Controller::new(algorithm, Config { initial_cwnd, ..config }, now);
    let flight = |cc: &mut Controller, now| -> Vec<PacketState> {
        (0..cc.cwnd() / SMSS).map(|_| cc.on_sent(now, SMSS as u32)).collect()
    };
    if ssthresh {
        let packets = flight(&mut cc, now);
        now += MS.times(40);
        let mut ack = cc.ack(now);
        packets.iter().for_each(|p| ack.lost(p));
        ack.finish();
        now += MS;
    }
    let packets = flight(&mut cc, now);
    now += MS.times(40);
    for acked in packets.chunks(per_ack) {
        let mut ack = cc.ack(now);
        acked.iter().for_each(|p| ack.acked(p));
        ack.finish();
    }
    cc.cwnd()
}

/// RFC 3465: bytes count, not ACKs. Slow start doubles, and Reno adds one SMSS a window, whether
/// each packet is acknowledged or sixteen at once; only an unpaced slow start has a limit an ACK.
#[test]
fn the_window_grows_by_bytes_and_not_by_acks() {
    for per_ack in [1, 2, 16] {
        for algorithm in BOTH {
            let paced = after_one_window(algorithm, Config::new(1), false, per_ack);
            assert_eq!(paced, 128 * SMSS, "{algorithm}, {per_ack}");
            let unpaced = after_one_window(algorithm, UNPACED(), false, per_ack);
            let limited = 64 + 64 / per_ack as u64 * per_ack.min(8) as u64;
            assert_eq!(unpaced, limited * SMSS, "{algorithm}, {per_ack}");
        }
        for config in [Config::new(1), UNPACED()] {
            let reno = after_one_window(Algorithm::RENO, config, true, per_ack);
            // Each byte counts by the window of its ACK, which grows within the round.
            assert!((32 * SMSS + SMSS - SMSS / 32..=33 * SMSS).contains(&reno), "{reno}");
        }
    }
}

/// RFC 2861: a window that was not used shrinks to what the transport trusts, and the threshold
/// remembers three quarters of it. A transport that trusts all of it changes nothing.
#[test]
fn after_idleness_three_quarters_of_the_window_stay_known() {
    for algorithm in [
        Algorithm::CUBIC,
        Algorithm::Cubic(CubicOptions::new().with_rules(CubicRules::Linux)),
        Algorithm::RENO,
        #[cfg(feature = "prague")]
        Algorithm::PRAGUE,
    ] {
        let mut link = Link::new(algorithm, 100, MS.times(40));
        link.run(MS.times(250));
        let mut once = Some(true);
        link.step(&mut || once.take().is_some());
        let ssthresh = |link: &Link| link.cc.snapshot().ssthresh.expect("a loss");
        let end = link.now + Duration::from_secs(60);
        while link.cc.cwnd() < ssthresh(&link) * 3 / 2 && link.now < end {
            link.step(&mut || false);
        }
        let (before, cwnd) = (link.cc.snapshot(), link.cc.cwnd());
        assert!(cwnd >= ssthresh(&link) * 3 / 2, "{algorithm}: {before:?}");
        link.cc.on_idle(link.now, cwnd);
        assert_eq!(link.cc.snapshot(), before, "{algorithm}");
        link.cc.on_idle(link.now, 10 * SMSS);
        assert_eq!(link.cc.cwnd(), 10 * SMSS, "{algorithm}");
        let off = ssthresh(&link).abs_diff(cwnd * 3 / 4);
        assert!(off <= SMSS, "{algorithm}: {} of {cwnd}", ssthresh(&link));
    }
}

/// An undo gives nothing back to a window that has grown as large again: the threshold of the
/// congestion stays.
#[cfg(feature = "custom")]
#[test]
fn a_window_that_is_back_needs_no_undo() {
    for algorithm in [
        Algorithm::CUBIC,
        Algorithm::RENO,
        #[cfg(feature = "prague")]
        Algorithm::PRAGUE,
    ] {
        let (now, config) = (Instant::default(), Config::new(1));
        let mut conn = Conn::new(&config, now);
        let mut control = crate::built_in(algorithm, &mut conn, now, &config);
        let before = conn.cwnd;
        let loss = Congestion { now, new_episode: true, has_losses: true, marks: None };
        control.on_congestion(&mut conn, &loss);
        let ssthresh = control.snapshot(&conn).ssthresh;
        assert!(conn.cwnd < before && ssthresh.is_some(), "{algorithm}");
        conn.cwnd = before;
        control.on_spurious_loss(&mut conn);
        assert_eq!(control.snapshot(&conn).ssthresh, ssthresh, "{algorithm}");
    }
}

/// After an outage one ACK may cover more than the window: slow start ends at its threshold all the
/// same.
#[test]
fn one_large_ack_does_not_pass_the_threshold() {
    for algorithm in BOTH {
        let mut link = Link::new(algorithm, 100, MS.times(40));
        link.run(MS.times(250));
        let lost: Vec<PacketState> = link.flight.drain(..).map(|f| f.packet).collect();
        link.now += Duration::from_secs(1);
        let mut batch = link.cc.ack(link.now);
        lost.iter().for_each(|packet| batch.lost(packet));
        batch.timeout();
        batch.finish();
        let threshold = link.cc.snapshot().ssthresh.expect("a loss");
        // More than is allowed leaves, and arrives at once.
        let sent: Vec<PacketState> =
            (0..4 * threshold / SMSS).map(|_| link.cc.on_sent(link.now, SMSS as u32)).collect();
        link.now += MS.times(40);
        let mut batch = link.cc.ack(link.now);
        sent.iter().for_each(|packet| batch.acked(packet));
        batch.finish();
        assert_eq!(link.cc.cwnd(), threshold, "{algorithm}");
    }
}
