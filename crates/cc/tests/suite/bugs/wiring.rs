//! Exchange of information between the transport and the core.

use super::{
    Algorithm, BBRS, Config, Controller, Duration, Link, MS, Rate, START, SendDecision, State,
    acknowledge, bbr, controller, send,
};

/// W2: a rate was computed and nothing held to it (quinn #2481, freenet #2674, tquic #272). ACKs in
/// clumps of half a round trip open the window for a burst that only the pacer can stop.
#[test]
fn no_burst_leaves_that_the_pacer_does_not_allow() {
    for algorithm in BBRS {
        let mut link = Link::new(algorithm, 50, MS.times(40));
        link.clump = MS.times(20);
        let (mut earned, mut sent, end) =
            (link.cc.burst_bound(), 0, link.now + Duration::from_secs(8));
        while link.now < end {
            let (before, bound) = (link.now, link.cc.burst_bound());
            let rate = link.cc.pacing_rate().expect("BBR paces");
            link.step(&mut || false);
            let now_sent = link.delivered + link.cc.inflight();
            assert!(now_sent - sent <= bound, "{} at once, {bound} may pass", now_sent - sent);
            assert!(now_sent <= earned, "{now_sent} sent, {earned} earned");
            sent = now_sent;
            earned += rate.bytes_in(link.now.since(before)) + 1;
        }
        assert!(sent > 30_000_000, "{sent}");
    }
}

/// W4: a send quantum that was larger than the burst it had to fit in (s2n-quic #1475). That a
/// small packet costs its own bytes (picoquic #1548) is a test of the pacer itself.
#[test]
fn a_quantum_is_within_the_burst_that_may_pass() {
    for (mbit, smss) in [(1, 1_200), (10, 9_000), (100, 1_200), (10_000, 1_200), (100_000, 65_000)]
    {
        let rate = Rate::from_bits_per_sec(mbit * 1_000_000);
        let config = Config { smss, ..Config::new(1) };
        let mut cc = Controller::new(Algorithm::Fixed(rate), config, START);
        let (mut now, mut sent) = (START, Vec::new());
        for _ in 0..500 {
            match cc.can_send(now) {
                SendDecision::Now { quantum } => {
                    assert!(quantum <= cc.burst_bound() && quantum <= cc.send_quantum());
                    assert!(quantum >= u64::from(smss));
                    let _unanswered = cc.on_sent(now, quantum as u32);
                    sent.push((now, quantum));
                }
                SendDecision::At(at) => {
                    now = at + Duration::from_micros(sent.len() as u64 % 7 * 100)
                }
                SendDecision::CwndLimited => panic!("a fixed rate has no window"),
            }
        }
        for (i, (start, _)) in sent.iter().enumerate() {
            let mut total = 0;
            for (at, quantum) in &sent[i..] {
                total += quantum;
                let allowed = cc.burst_bound() + rate.bytes_in(at.since(*start)) + 1;
                assert!(total <= allowed, "{mbit} Mbit/s: {total}, {allowed} may pass");
            }
        }
    }
}

/// W5: the first rate came from a made-up round trip and outlived it (noq #800, s2n-quic #1524); a
/// placeholder of 10 ms became min_rtt and Drain never ended (our forerunner).
#[test]
fn the_first_round_trip_replaces_the_nominal_one_everywhere() {
    for (algorithm, gain_256) in [(Algorithm::BBR3, 709), (Algorithm::BBR1, 739)] {
        for rtt_ms in [1, 40, 700] {
            let mut cc = controller(algorithm);
            assert!(bbr(&cc).min_rtt.is_none() && cc.snapshot().srtt.is_none());
            let (now, window) = (START + MS.times(rtt_ms), cc.cwnd());
            let packets = send(&mut cc, START, 10);
            acknowledge(&mut cc, now, &packets[..1]);
            assert_eq!(bbr(&cc).min_rtt, Some(MS.times(rtt_ms)));
            let rate = cc.pacing_rate().expect("paced").as_bytes_per_sec();
            let expected = window * 1_000 / rtt_ms * gain_256 / 256;
            assert!(
                rate.abs_diff(expected) <= expected / 50,
                "{algorithm} {rtt_ms}: {rate}, {expected}"
            );
        }
    }
}

/// W7: rounds were counted per ACK against a count of segments (smoltcp #1090), so that they came
/// several times a round trip. How many packets an ACK covers, and how large they are, is no
/// matter.
#[test]
fn a_round_is_a_round_trip_however_it_is_acknowledged() {
    for algorithm in BBRS {
        for (smss, clump_ms) in [(1_200, 0), (1_200, 10), (9_000, 0), (300, 40)] {
            let config = Config { smss, ..Config::new(1) };
            let mut link = Link::with(algorithm, 50, MS.times(40), config);
            link.clump = MS.times(clump_ms).max(Duration::from_nanos(1));
            link.run_to(if algorithm == Algorithm::BBR1 {
                State::ProbeBw
            } else {
                State::ProbeBwCruise
            });
            link.run(MS.times(400)); // the queue of Startup is gone
            let (before, srtt) =
                (link.bbr().round_count, link.cc.snapshot().srtt.expect("a sample"));
            link.run(srtt.times(20));
            let rounds = link.bbr().round_count - before;
            assert!((10..=21).contains(&rounds), "{algorithm} {smss} {clump_ms}: {rounds} rounds");
        }
    }
}

/// W10: a new datagram size left rate and window as they were counted for the old one, or panicked
/// (quiche #2138, s2n-quic #1481, hysteria #1654). Before the first delivery the initial window is
/// made anew.
#[test]
fn before_the_first_delivery_a_new_mtu_makes_window_and_rate_anew() {
    for algorithm in [Algorithm::BBR3, Algorithm::BBR1, Algorithm::CUBIC, Algorithm::RENO] {
        for mtu in [1, 576, 1_452, 9_000, u32::MAX] {
            let mut cc = controller(algorithm);
            let config = Config { smss: mtu, ..Config::new(1) };
            cc.on_mtu_update(START, mtu, config.initial_cwnd);
            let fresh = Controller::new(algorithm, config, START);
            // BBR has a floor of four packets besides, CUBIC and Reno one of two.
            let floor = if BBRS.contains(&algorithm) { 4 } else { 2 } * u64::from(mtu);
            assert_eq!(cc.initial_cwnd(), fresh.initial_cwnd(), "{algorithm} {mtu}");
            assert_eq!(cc.cwnd(), fresh.cwnd().max(floor), "{algorithm} {mtu}");
            assert_eq!(cc.pacing_rate(), fresh.pacing_rate(), "{algorithm} {mtu}");
            assert!(cc.send_quantum() >= 2 * u64::from(mtu), "{algorithm} {mtu}");
            assert!(cc.burst_bound() >= 2 * u64::from(mtu), "{algorithm} {mtu}");
        }
    }
}

/// W10, later: what is counted in bytes stays, what is counted in packets follows, and the flow
/// goes on at its rate.
#[test]
fn a_new_mtu_on_the_way_keeps_the_rate_and_scales_what_counts_in_packets() {
    for algorithm in BBRS {
        for mtu in [1_000, 1_452, 9_000] {
            let mut link = Link::new(algorithm, 20, MS.times(20));
            link.run(Duration::from_secs(2));
            let (before, cwnd) = (link.bbr(), link.cc.cwnd());
            let config = Config { smss: mtu, ..Config::new(1) };
            link.cc.on_mtu_update(link.now, mtu, config.initial_cwnd);
            link.size = u64::from(mtu);
            let after = link.bbr();
            assert_eq!(
                (after.max_bw, after.min_rtt, after.bdp),
                (before.max_bw, before.min_rtt, before.bdp)
            );
            assert!(link.cc.cwnd() >= cwnd && link.cc.cwnd() >= 4 * link.size);
            assert!(link.cc.send_quantum() >= 2 * link.size);
            let delivered = link.delivered;
            link.run(Duration::from_secs(1));
            let rate = link.delivered - delivered;
            assert!(rate > 2_300_000, "{algorithm} {mtu}: {rate} of 2500000 B/s");
        }
    }
    // A window of four small packets holds no large one.
    let mut link = Link::new(Algorithm::BBR3, 1, Duration::from_micros(500));
    link.run(Duration::from_secs(2));
    let config = Config { smss: 9_000, ..Config::new(1) };
    link.cc.on_mtu_update(link.now, 9_000, config.initial_cwnd);
    assert!(link.cc.cwnd() >= 4 * 9_000, "{}", link.cc.cwnd());
}
