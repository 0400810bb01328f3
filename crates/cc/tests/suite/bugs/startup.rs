//! Startup ends when the pipe is full, no sooner and no later; Drain ends.

use fullpipe_cc::RttSample;

use super::{
    Algorithm, BBRS, Config, Duration, Link, MS, Rate, SMSS, START, State, acknowledge, bbr,
    controller, send,
};

/// U1: the plateau was called in under three rounds (mvfst 8ceacfce, ngtcp2 98993595). Three rounds
/// pass between the last growth and the end of Startup, and each counts once.
#[test]
fn a_plateau_is_three_rounds_without_growth() {
    for algorithm in BBRS {
        for (mbit, rtt_ms) in [(5, 10), (100, 40), (50, 300)] {
            let mut link = Link::new(algorithm, mbit, MS.times(rtt_ms));
            let (mut baseline, mut grew) = (Rate::ZERO, 0);
            while link.state() == State::Startup {
                link.step(&mut || false);
                let bbr = link.bbr();
                if bbr.full_bw > baseline {
                    (baseline, grew) = (bbr.full_bw, bbr.round_count);
                }
            }
            assert_eq!(link.bbr().round_count - grew, 3, "{algorithm} {mbit} Mbit/s {rtt_ms} ms");
        }
    }
}

/// U2: samples without a rate counted as rounds without growth (quiche 884fa0b9). Those of an
/// application that sends little are a test of their own beside the code.
#[test]
fn an_ack_without_a_rate_is_no_round_without_growth() {
    for algorithm in BBRS {
        let mut cc = controller(algorithm);
        let mut now = START;
        for round in 0..20 {
            let packets = send(&mut cc, now, 10);
            now += MS.times(if round == 0 { 20 } else { 10 });
            let mut batch = cc.ack(now);
            packets.iter().for_each(|p| batch.acked(p));
            batch.rtt(RttSample::Exact(MS.times(20))); // longer than the interval: no reliable rate
            batch.finish();
        }
        let bbr = bbr(&cc);
        assert!(bbr.full_bw_count == 0 && !bbr.full_bw_reached, "{algorithm}: {bbr:?}");
    }
}

fn rounds_in_drain(link: &mut Link) -> u64 {
    while link.state() == State::Startup {
        link.step(&mut || false);
    }
    let began = link.bbr().round_count;
    while link.state() == State::Drain {
        link.step(&mut || false);
    }
    link.bbr().round_count - began
}

/// U5: a flow stayed in Drain (draft issue 90). It ends within four rounds, whatever the BDP.
#[test]
fn drain_ends() {
    for algorithm in BBRS {
        for (mbit, rtt_us) in [(1, 2_000), (1, 40_000), (10, 100), (20, 40_000), (1_000, 10_000)] {
            let rtt = Duration::from_micros(rtt_us);
            let mut link = Link::new(algorithm, mbit, rtt);
            let rounds = rounds_in_drain(&mut link);
            assert!(rounds <= 4, "{algorithm} {mbit} Mbit/s {rtt}: {rounds} rounds");
        }
    }
}

/// U5: its end compared the inflight from before the ACK (our forerunner). Where an ACK covers six
/// round trips there is always more than a BDP in flight before it, and nearly nothing after it.
#[test]
fn drain_looks_at_what_is_in_flight_after_the_ack() {
    let mut link = Link::new(Algorithm::BBR3, 50, MS.times(40));
    link.clump = MS.times(240);
    let rounds = rounds_in_drain(&mut link);
    assert!(rounds <= 2, "{rounds} rounds");
}

/// U6: the first rate was too low, and slow pacing made low samples made slow pacing (our
/// forerunner). A first round trip of a second is left behind at once.
#[test]
fn startup_outgrows_a_slow_first_round_trip() {
    for algorithm in BBRS {
        let mut link = Link::new(algorithm, 100, MS.times(10));
        link.rtt = Duration::from_secs(1);
        let sent = send(&mut link.cc, link.now, 1);
        link.now += link.rtt;
        acknowledge(&mut link.cc, link.now, &sent);
        link.rtt = MS.times(10);
        link.free = link.now;
        let began = link.now;
        while link.bbr().max_bw.as_bytes_per_sec() < link.rate.as_bytes_per_sec() * 9 / 10 {
            link.step(&mut || false);
            assert!(link.now.since(began) < Duration::from_secs(1), "{:?}", link.bbr());
        }
    }
}

/// U7: fifteen times the initial window was needed to get going (quinn #2156). Two packets find any
/// rate, in a round trip more for each halving of the window.
#[test]
fn any_initial_window_finds_the_rate() {
    for algorithm in BBRS {
        for (packets, rounds) in [(1, 12), (2, 11), (10, 9), (32, 8)] {
            let config = Config { initial_cwnd: Some(packets * SMSS), ..Config::new(1) };
            let mut link = Link::with(algorithm, 100, MS.times(40), config);
            while link.bbr().max_bw.as_bytes_per_sec() < link.rate.as_bytes_per_sec() * 9 / 10 {
                link.step(&mut || false);
                assert!(
                    link.bbr().round_count <= rounds,
                    "{algorithm} {packets}: {:?}",
                    link.bbr()
                );
            }
        }
    }
}

/// R3 (cloudflare/quiche #2496): idleness in the middle of Startup is no plateau. After it the flow
/// goes on growing, and leaves Startup with the whole rate.
#[test]
fn idleness_in_startup_is_no_plateau() {
    for algorithm in BBRS {
        let mut link = Link::new(algorithm, 100, MS.times(40));
        link.run(MS.times(130));
        for _ in 0..5 {
            assert!(link.bbr().max_bw < Rate::from_bits_per_sec(60_000_000), "too late");
            link.busy = false;
            link.run(Duration::from_secs(3));
            assert_eq!((link.state(), link.bbr().full_bw_reached), (State::Startup, false));
            link.busy = true;
            link.send();
            link.busy = false;
            link.run(MS.times(100));
        }
        link.busy = true;
        link.run_to(State::Drain);
        let (found, rate) = (link.bbr().max_bw.as_bytes_per_sec(), link.rate.as_bytes_per_sec());
        assert!(found > rate * 95 / 100, "{algorithm}: {found} of {rate}");
    }
}
