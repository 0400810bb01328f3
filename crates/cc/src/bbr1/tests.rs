//! BBRv1 on a link that is simple enough to say what must come out of it.

use std::vec::Vec;

use super::Bbr1;
use super::aggregation::Aggregation;
use crate::conn::Conn;
use crate::options::Bbr1Options;
use crate::sampler::RateSample;
use crate::test_link::{Link, MS, SMSS, TokenBucket};
use crate::{Algorithm, Config, Duration, Gain, Instant, Rate, State};

#[test]
fn the_states_come_in_order_and_the_model_is_the_link() {
    for (mbit, rtt_us) in [(1, 1_000), (10, 40_000), (1_000, 500), (100, 300_000)] {
        let rtt = Duration::from_micros(rtt_us);
        let mut link = Link::new(Algorithm::BBR1, mbit, rtt);
        link.run(Duration::from_secs(9));
        let case = std::format!("{mbit} Mbit/s {rtt}");
        assert_eq!(link.states, [State::Startup, State::Drain, State::ProbeBw], "{case}");
        let bbr = link.bbr();
        let (bw, rate) = (bbr.max_bw.as_bytes_per_sec(), link.rate.as_bytes_per_sec());
        assert!(bw <= rate && bw > rate - rate / 50, "{case}: {bw} of {rate}");
        let least = rtt + link.rate.time_for(SMSS);
        let min_rtt = bbr.min_rtt.expect("a sample");
        assert!(min_rtt >= least && min_rtt <= least + MS.times(2), "{case}: {min_rtt}");
    }
}

#[test]
fn every_state_has_its_gains() {
    let mut link = Link::new(Algorithm::BBR1, 20, MS.times(30));
    let end = link.now + Duration::from_secs(12);
    while link.now < end {
        link.step(&mut || false);
        let bbr = link.bbr();
        let gains = (bbr.pacing_gain, bbr.cwnd_gain);
        let high = Gain::per_256(739);
        match link.state() {
            State::Startup => assert_eq!(gains, (high, high)),
            State::Drain => assert_eq!(gains, (Gain::per_256(88), high)),
            State::ProbeBw => {
                assert!([125, 75, 100].contains(&bbr.pacing_gain.as_percent()));
                assert_eq!(bbr.cwnd_gain, Gain::percent(200));
            }
            State::ProbeRtt => assert_eq!(gains, (Gain::ONE, Gain::ONE)),
            other => panic!("{other:?} is no state of bbr1"),
        }
    }
    assert!(link.states.contains(&State::ProbeRtt));
}

/// 5/4, then 3/4, then six times 1, each phase about one min_rtt: the probe at least that, the
/// drain at most.
#[test]
fn the_cycle_is_faster_slower_and_six_times_level() {
    let mut link = Link::new(Algorithm::BBR1, 10, MS.times(40));
    link.run_to(State::ProbeBw);
    let (mut phases, mut since) = (Vec::new(), link.now);
    let mut gain = link.gain();
    let end = link.now + Duration::from_secs(7);
    while link.now < end {
        link.step(&mut || false);
        if link.gain() != gain {
            phases.push((gain, link.now.since(since).as_nanos() / 1_000_000));
            (gain, since) = (link.gain(), link.now);
        }
    }
    assert!(phases.len() > 30);
    for pair in phases[1..].windows(2) {
        let follows = matches!((pair[0].0, pair[1].0), (125, 75) | (75, 100) | (100, 125));
        assert!(follows, "{phases:?}");
    }
    for (gain, ms) in &phases[1..] {
        let range = match gain {
            125 => 40..90,
            75 => 0..50,
            _ => 240..270,
        };
        assert!(range.contains(ms), "{gain} % for {ms} ms: {phases:?}");
    }
}

/// Seven of the eight phases can be the first; that of 3/4 is not among them.
#[test]
fn probe_bw_begins_anywhere_but_with_the_drain() {
    let mut first = [0; 2];
    for seed in 0..64 {
        let mut link =
            Link::with(Algorithm::BBR1, 10, MS.times(10), Config { seed, ..Config::new(1) });
        link.run_to(State::ProbeBw);
        match link.gain() {
            125 => first[0] += 1,
            100 => first[1] += 1,
            other => panic!("began with {other} %"),
        }
    }
    assert!(first[0] > 1 && first[1] > 4 * first[0] / 2, "{first:?}");
}

#[test]
fn probe_rtt_comes_every_ten_seconds_with_four_packets_for_200_ms() {
    let mut link = Link::new(Algorithm::BBR1, 10, MS.times(40));
    link.run_to(State::ProbeRtt);
    let first = link.now.since(Instant::from_nanos(77));
    assert!((10_000..10_500).contains(&(first.as_nanos() / 1_000_000)), "{first}");
    for _ in 0..2 {
        let entered = link.now;
        assert_eq!(link.cc.cwnd(), 4 * SMSS);
        link.run_to(State::ProbeBw);
        let lasted = link.now.since(entered);
        assert!(lasted >= MS.times(200) && lasted < MS.times(340), "{lasted}");
        assert!(link.cc.cwnd() > 80_000, "{} after ProbeRTT", link.cc.cwnd());
        let left = link.now;
        link.run_to(State::ProbeRtt);
        let between = link.now.since(left);
        // The queue is gone after ProbeRTT, and the drain of a cycle may meet min_rtt once more.
        assert!(between >= Duration::from_secs(10), "{between}");
    }
}

/// Loss is no signal: neither bandwidth nor, after one round of packet conservation, the window.
#[test]
fn a_loss_conserves_packets_for_a_round_and_then_the_window_is_back() {
    let mut link = Link::new(Algorithm::BBR1, 20, MS.times(40));
    link.run_to(State::ProbeBw);
    link.run(MS.times(500));
    let (before, cwnd, inflight) = (link.bbr(), link.cc.cwnd(), link.cc.inflight());
    let mut lost = false;
    while !lost {
        link.step(&mut || !core::mem::replace(&mut lost, true));
    }
    link.run(MS);
    let conserved = link.cc.cwnd();
    assert!(conserved <= inflight + 2 * SMSS && conserved < cwnd, "{conserved} of {cwnd}");
    link.run(MS.times(20));
    assert!(link.cc.inflight() <= inflight + 2 * SMSS, "more left than arrived");
    link.run(MS.times(80));
    assert!(link.cc.cwnd() >= cwnd * 19 / 20, "{} of {cwnd}", link.cc.cwnd());
    assert_eq!(link.bbr().max_bw, before.max_bw);
}

/// The paper: up to 1 in 20 the flow holds the rate, less what is lost. No policer is seen in it.
#[test]
fn one_loss_in_twenty_takes_no_bandwidth() {
    let mut link = Link::new(Algorithm::BBR1, 20, MS.times(40));
    link.run_to(State::ProbeBw);
    let (before, start) = (link.delivered, link.now);
    link.run_losing(Duration::from_secs(9), 20);
    let rate = Rate::from_volume(link.delivered - before, link.now.since(start));
    let share = rate.as_bytes_per_sec() * 100 / link.rate.as_bytes_per_sec();
    assert!(share >= 90, "{share} %");
    assert_eq!(link.bbr().bw, link.bbr().max_bw);
}

/// A marked packet has arrived, and BBRv1 reads no marks.
#[test]
fn a_mark_changes_nothing() {
    let mut link = Link::new(Algorithm::BBR1, 20, MS.times(40));
    link.run_to(State::ProbeBw);
    link.run(MS.times(300));
    let f = link.flight.pop_front().expect("in flight");
    let mut marked = link.cc.clone();
    for (cc, ce) in [(&mut link.cc, 0), (&mut marked, 1)] {
        let mut batch = cc.ack(f.ack);
        batch.acked(&f.packet);
        batch.ce(ce);
        batch.finish();
    }
    assert_eq!((marked.cwnd(), marked.snapshot().bbr), (link.cc.cwnd(), link.cc.snapshot().bbr));
}

/// 100 Mbit/s behind a token bucket of 10: the rate of the bucket is found, paced at without
/// probing, and the losses all but end; after 48 rounds the flow asks again.
#[test]
fn a_policer_is_recognised_and_obeyed_for_48_rounds() {
    let mut link = Link::new(Algorithm::BBR1, 100, MS.times(20));
    let rate = Rate::from_bits_per_sec(10_000_000);
    link.policer =
        Some(TokenBucket { rate, depth: 50_000, tokens: 50_000, filled: Instant::default() });
    let is_policed = |link: &Link| {
        let bbr = link.bbr();
        link.state() == State::ProbeBw && bbr.bw != bbr.max_bw
    };
    while !is_policed(&link) {
        assert!(link.now < Instant::default() + Duration::from_secs(5), "no policer seen");
        link.step(&mut || false);
    }
    let bbr = link.bbr();
    let share = bbr.bw.as_bytes_per_sec() * 100 / rate.as_bytes_per_sec();
    assert!((90..=110).contains(&share), "{share} % of the policer's rate");
    assert_eq!(link.cc.pacing_rate(), Some(Gain::percent(99).of_rate(bbr.bw)));
    let round = bbr.round_count;
    link.run(MS.times(400));
    let (delivered, lost) = (link.delivered, link.lost);
    while is_policed(&link) {
        assert_eq!(link.gain(), 100);
        link.step(&mut || false);
    }
    let rounds = link.bbr().round_count - round;
    assert!((47..=49).contains(&rounds), "{rounds} rounds");
    let (delivered, lost) = (link.delivered - delivered, link.lost - lost);
    assert!(lost * 20 < delivered, "{lost} lost beside {delivered}");
    assert_eq!(link.bbr().bw, link.bbr().max_bw);
}

/// ACKs that come every 60 ms on a path of 10 ms: two BDP run out long before the next clump.
#[test]
fn the_window_bridges_the_silence_between_clumps_of_acks() {
    let run = |has_estimate| {
        let options = Bbr1Options::new().with_ack_aggregation(has_estimate);
        let mut link = Link::new(Algorithm::Bbr1(options), 50, MS.times(10));
        link.run(Duration::from_secs(1));
        link.clump = MS.times(60);
        link.run(Duration::from_secs(2));
        let before = link.delivered;
        link.run(Duration::from_secs(4));
        let bbr = link.bbr();
        assert!(bbr.extra_acked <= bbr.bw.bytes_in(MS.times(100)));
        (link.delivered - before, bbr.extra_acked)
    };
    let ((with, extra), (without, none)) = (run(true), run(false));
    assert!(extra > 0 && none == 0);
    assert!(with * 2 > without * 3, "{with} with, {without} bytes without");
}

#[test]
fn a_restart_from_idle_is_paced_at_the_bandwidth_and_skips_probe_rtt() {
    let mut link = Link::new(Algorithm::BBR1, 10, MS.times(40));
    link.run_to(State::ProbeBw);
    link.run(MS.times(300));
    link.busy = false;
    link.run(Duration::from_secs(12));
    assert_eq!(link.cc.inflight(), 0);
    let max_bw = link.bbr().max_bw;
    link.busy = true;
    link.send();
    assert!(link.bbr().idle_restart);
    assert_eq!(link.cc.pacing_rate(), Some(Gain::percent(99).of_rate(max_bw)));
    let before = link.states.len();
    link.run(MS.times(500));
    assert!(!link.states[before..].contains(&State::ProbeRtt), "{:?}", link.states);
    assert_eq!(link.bbr().max_bw, max_bw, "idleness taught nothing about the path");
}

/// A timeout lets one packet out and forgets nothing; with the repair the window is back.
#[test]
fn a_timeout_keeps_the_model_and_gives_the_window_back() {
    let mut link = Link::new(Algorithm::BBR1, 20, MS.times(40));
    link.run_to(State::ProbeBw);
    link.run(MS.times(300));
    let (before, cwnd) = (link.bbr(), link.cc.cwnd());
    link.now += Duration::from_secs(1);
    let mut batch = link.cc.ack(link.now);
    batch.timeout();
    link.flight.drain(..).for_each(|f| batch.lost(&f.packet));
    batch.finish();
    assert_eq!((link.cc.inflight(), link.cc.cwnd()), (0, SMSS));
    assert_eq!((link.bbr().max_bw, link.bbr().min_rtt), (before.max_bw, before.min_rtt));
    link.run(MS.times(130));
    assert!(link.cc.cwnd() >= cwnd * 9 / 10, "{} of {cwnd} after three rounds", link.cc.cwnd());
}

/// An undone loss brings the window back at once.
#[test]
fn a_spurious_loss_is_undone() {
    let mut link = Link::new(Algorithm::BBR1, 20, MS.times(40));
    link.run_to(State::ProbeBw);
    link.run(MS.times(300));
    let cwnd = link.cc.cwnd();
    let mut lost = false;
    while !lost {
        link.step(&mut || !core::mem::replace(&mut lost, true));
    }
    link.run(MS);
    assert!(link.cc.cwnd() < cwnd);
    link.cc.on_spurious_loss(link.now);
    assert_eq!((link.cc.cwnd(), link.bbr().full_bw_count), (cwnd, 3));
}

/// Four packets are the floor, also where the BDP is a fraction of one.
#[test]
fn a_path_of_less_than_a_packet_still_flows() {
    let mut link = Link::new(Algorithm::BBR1, 1, Duration::from_micros(500));
    link.rate = Rate::from_bits_per_sec(64_000);
    link.run(Duration::from_secs(30));
    let snapshot = link.cc.snapshot();
    assert!(snapshot.cwnd >= 4 * SMSS, "{}", snapshot.cwnd);
    let pace = snapshot.pacing_rate.expect("paced").as_bytes_per_sec();
    assert!((5_000..=10_000).contains(&pace), "{pace} B/s on a link of 8000");
    let served = link.delivered * 100 / (8_000 * 30);
    assert!(served >= 95, "{served} %");
}

/// A flow after its first ACK, and the sample of that.
fn sampled() -> (Conn, Bbr1, RateSample) {
    let (config, now) = (Config::new(1), Instant::default());
    let mut conn = Conn::new(&config, now);
    let bbr = Bbr1::new(&mut conn, now, &config, Bbr1Options::new());
    let packet = conn.sampler.on_sent(now, SMSS, 0);
    conn.sampler.count_delivered(SMSS);
    let rs = conn.sample(now + MS, &packet, None);
    let rs = RateSample { newly_acked: SMSS, delivery_rate: Rate::MAX, ..rs };
    (conn, bbr, rs)
}

/// Not that the path carries nothing, nor that its ACKs come in clumps.
#[test]
fn a_sample_without_a_rate_says_nothing() {
    let (conn, mut bbr, rs) = sampled();
    let known = Rate::from_bytes_per_sec(1_000);
    let none = RateSample { delivery_rate: Rate::ZERO, is_app_limited: false, ..rs };
    bbr.update_bw(&RateSample { delivery_rate: known, ..none });
    bbr.round.count += 100;
    bbr.update_bw(&none);
    assert_eq!(bbr.max_bw(), known);
    let mut aggregation = Aggregation::new(rs.now);
    aggregation.update(&conn, &none, known, true);
    assert_eq!(aggregation.max(), 0);
    aggregation.update(&conn, &rs, known, true);
    assert_eq!(aggregation.max(), SMSS);
}

/// The shortest round trip is believed for ten seconds to the end.
#[test]
fn a_round_trip_expires_after_ten_seconds() {
    let (_, mut bbr, rs) = sampled();
    assert!(!bbr.update_min_rtt(&RateSample { rtt: MS, ..rs }));
    let end = rs.now + Duration::from_secs(10);
    for (now, expected) in [(end, MS), (end + Duration::from_nanos(1), MS.times(2))] {
        let has_expired = bbr.update_min_rtt(&RateSample { now, rtt: MS.times(2), ..rs });
        assert_eq!((has_expired, bbr.min_rtt), (now > end, expected));
    }
}
