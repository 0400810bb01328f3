//! BBRv3 on a link that is simple enough to say what must come out of it.

use std::vec::Vec;

use super::flavour_tests::{plain, sample};
use super::{Draft, DraftAmended, Linux, Rules};
use crate::algo::CongestionControl;
use crate::sampler::RateSample;
use crate::test_link::{Link, MS, SMSS};
use crate::{Algorithm, Config, Controller, Duration, Gain, Instant, PacketState, Rate, State};

#[test]
fn the_states_come_in_the_order_of_the_diagram() {
    let mut link = Link::new(Algorithm::BBR3, 10, MS.times(40));
    link.run(Duration::from_secs(9));
    use State::*;
    // Drain leaves nothing to bring down: the first DOWN is over within its own ACK.
    let first = [Startup, Drain, ProbeBwCruise, ProbeBwRefill, ProbeBwUp, ProbeBwDown];
    assert_eq!(link.states[..6], first);
    for pair in link.states[5..].windows(2) {
        let follows = matches!(
            (pair[0], pair[1]),
            (ProbeBwDown, ProbeBwCruise | ProbeBwRefill)
                | (ProbeBwCruise, ProbeBwRefill)
                | (ProbeBwRefill, ProbeBwUp)
                | (ProbeBwUp, ProbeBwDown)
                | (_, ProbeRtt)
                | (ProbeRtt, ProbeBwCruise)
        );
        assert!(follows, "{pair:?}");
    }
    assert!(link.states.contains(&ProbeRtt));
}

#[test]
fn the_model_is_the_link() {
    for (mbit, rtt_us) in [(1, 1_000), (10, 40_000), (1_000, 500), (100, 300_000)] {
        let rtt = Duration::from_micros(rtt_us);
        let mut link = Link::new(Algorithm::BBR3, mbit, rtt);
        link.run(Duration::from_secs(4));
        let bbr = link.bbr();
        let (bw, rate) = (bbr.max_bw.as_bytes_per_sec(), link.rate.as_bytes_per_sec());
        assert!(bw <= rate && bw > rate - rate / 50, "{mbit} Mbit/s {rtt}: {bw} of {rate}");
        let least = rtt + link.rate.time_for(SMSS);
        let min_rtt = bbr.min_rtt.expect("a sample");
        assert!(min_rtt >= least && min_rtt <= least + MS.times(2), "{mbit} Mbit/s {rtt}");
    }
}

/// Each state has the gains of the draft's table, however it was entered.
#[test]
fn every_state_has_its_gains() {
    let mut link = Link::new(Algorithm::BBR3, 20, MS.times(30));
    let mut seen = Vec::new();
    let end = link.now + Duration::from_secs(12);
    while link.now < end {
        link.step(&mut || false);
        let gains = match link.state() {
            State::Startup => (277, 200),
            State::Drain => (50, 200),
            State::ProbeBwDown => (90, 200),
            State::ProbeBwCruise | State::ProbeBwRefill => (100, 200),
            State::ProbeBwUp => (125, 225),
            State::ProbeRtt => (100, 50),
            other => panic!("{other:?} is no state of BBR"),
        };
        let bbr = link.bbr();
        assert_eq!((bbr.pacing_gain.as_percent(), bbr.cwnd_gain.as_percent()), gains);
        if !seen.contains(&link.state()) {
            seen.push(link.state());
        }
    }
    assert_eq!(seen.len(), 7);
}

/// A clock may start anywhere: the first ACK must not find that a stamp of zero has expired.
#[test]
fn a_late_start_of_the_clock_is_no_reason_for_probe_rtt() {
    let mut link = Link::new(Algorithm::BBR3, 10, MS.times(20));
    link.now = Instant::from_nanos(1 << 60);
    link.cc = Controller::new(Algorithm::BBR3, Config::new(1), link.now);
    link.run(Duration::from_secs(1));
    assert!(!link.states.contains(&State::ProbeRtt), "{:?}", link.states);
}

#[test]
fn probe_rtt_comes_every_five_seconds_lasts_200_ms_and_gives_the_window_back() {
    let mut link = Link::new(Algorithm::BBR3, 10, MS.times(40));
    link.run_to(State::ProbeRtt);
    let (entered, before) = (link.now, link.cc.cwnd());
    assert!(link.cc.cwnd() <= link.bbr().bdp / 2 + 4 * SMSS);
    link.run_to(State::ProbeBwCruise);
    let lasted = link.now.since(entered);
    assert!(lasted >= MS.times(200) && lasted < MS.times(340), "{lasted}");
    assert!(link.cc.cwnd() > 2 * before, "{} after, {before} in ProbeRTT", link.cc.cwnd());
    let left = link.now;
    link.run_to(State::ProbeRtt);
    assert!(link.now.since(left) >= Duration::from_secs(5));
}

/// Draft issue 109: a path whose round trip has grown. min_rtt may rise only to what ProbeRTT
/// found, and never to a sample with our own queue in it.
#[test]
fn min_rtt_rises_to_the_new_path_and_not_to_the_queue() {
    let mut link = Link::new(Algorithm::BBR3, 10, MS.times(20));
    link.run(Duration::from_secs(3));
    link.rtt = MS.times(60);
    let longest = link.rtt + link.rate.time_for(5 * SMSS);
    for _ in 0..2_000 {
        link.run(MS.times(10));
        let min_rtt = link.bbr().min_rtt.expect("a sample");
        assert!(min_rtt <= longest, "{min_rtt} has a queue in it");
    }
    assert!(link.bbr().min_rtt >= Some(link.rtt), "the old path was forgotten");
}

/// Draft issue 109 at its worst: after eleven seconds without an ACK both filters expire on one and
/// the same sample, which is all queue. It calls for ProbeRTT; it is no round trip of the path.
#[test]
fn one_late_sample_does_not_expire_both_filters() {
    let mut link = Link::new(Algorithm::BBR3, 10, MS.times(40));
    link.run_to(State::ProbeBwCruise);
    let before = link.bbr().min_rtt;
    for late in &mut link.flight {
        late.ack += Duration::from_secs(11);
    }
    link.run_to(State::ProbeRtt);
    assert_eq!(link.bbr().min_rtt, before);
}

#[test]
fn a_restart_from_idle_is_paced_at_the_bandwidth_and_skips_probe_rtt() {
    let mut link = Link::new(Algorithm::BBR3, 10, MS.times(40));
    link.run_to(State::ProbeBwCruise);
    link.busy = false;
    link.run(Duration::from_secs(6));
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

/// An application that always has too little: no plateau is seen, whatever the samples say.
#[test]
fn an_application_limited_flow_stays_in_startup_while_nothing_is_lost() {
    let mut link = Link::new(Algorithm::BBR3, 100, MS.times(40));
    for _ in 0..200 {
        link.busy = true;
        link.send();
        link.busy = false;
        link.run(MS.times(50));
    }
    assert_eq!(link.states, [State::Startup]);
}

fn startup_with_losses(ranges: u64) -> Link {
    let mut link = Link::new(Algorithm::BBR3, 100, MS.times(40));
    while link.cc.inflight() < 200 * SMSS {
        link.step(&mut || false);
    }
    // Every eighth packet of one flight is lost: separate ranges, and far above 2 %.
    let (mut n, mut lost) = (0, 0);
    let end = link.now + MS.times(150);
    while link.now < end && link.state() == State::Startup {
        link.step(&mut || {
            n += 1;
            let lose = n % 8 == 0 && lost < ranges;
            lost += u64::from(lose);
            lose
        });
    }
    link
}

/// "At least 6 discontiguous ranges": the sixth counts, the fifth does not.
#[test]
fn startup_ends_at_six_lost_ranges_in_a_round() {
    assert_eq!(startup_with_losses(5).states, [State::Startup]);
    let link = startup_with_losses(6);
    assert_eq!(link.state(), State::Drain);
    let bbr = link.bbr();
    assert!(bbr.full_bw_reached && bbr.inflight_longterm.is_some());
}

/// A spurious loss brings back what it took: the state, the bounds, the window.
#[test]
fn startup_goes_on_when_its_losses_were_none() {
    let mut link = startup_with_losses(6);
    link.cc.on_spurious_loss(link.now);
    let bbr = link.bbr();
    assert_eq!(link.state(), State::Startup);
    assert!(!bbr.full_bw_reached && bbr.inflight_longterm.is_none());
    assert!(bbr.bw_shortterm.is_none() && bbr.inflight_shortterm.is_none());
}

#[test]
fn excess_loss_ends_a_probe_and_bounds_the_next() {
    let mut link = Link::new(Algorithm::BBR3, 20, MS.times(40));
    link.run_to(State::ProbeBwUp);
    link.run(MS.times(30));
    let before = link.bbr();
    assert!(before.inflight_longterm.is_none());
    let mut n = 0;
    while link.state() == State::ProbeBwUp && n < 200 {
        link.step(&mut || {
            n += 1;
            n % 5 == 0
        });
    }
    assert_eq!(link.state(), State::ProbeBwDown);
    let after = link.bbr();
    assert!(after.prev_probe_too_high);
    let bound = after.inflight_longterm.expect("a bound");
    assert!(bound >= before.bdp * 7 / 10 && bound < before.bdp * 2, "{bound} of {}", before.bdp);
    // Undone, the probe starts again.
    link.cc.on_spurious_loss(link.now);
    assert_eq!(link.state(), State::ProbeBwRefill);
    assert!(link.bbr().inflight_longterm.is_none());
}

#[test]
fn losses_while_cruising_cut_the_short_term_model_only() {
    let mut link = Link::new(Algorithm::BBR3, 20, MS.times(40));
    link.run_to(State::ProbeBwCruise);
    link.run(MS.times(200));
    let max_bw = link.bbr().max_bw;
    link.run_losing(MS.times(300), 10);
    let bbr = link.bbr();
    assert_eq!((bbr.max_bw, bbr.inflight_longterm), (max_bw, None));
    assert!(bbr.bw_shortterm.is_some_and(|bw| bw < max_bw), "{bbr:?}");
    link.run_to(State::ProbeBwRefill);
    assert_eq!((link.bbr().bw_shortterm, link.bbr().inflight_shortterm), (None, None));
}

/// The recent delivery of a flow that sends little is a poor estimate of the path: a lossy round
/// leaves at least 0.7 of the previous bound, or of the window if there is no bound yet
/// (LossLowerBounds).
#[test]
fn a_lossy_round_takes_three_tenths_of_the_window_at_most() {
    let (mut bbr, mut conn) = plain::<Draft>();
    let rs = sample(bbr.bandwidth.max);
    conn.cwnd = 1_000_000;
    for (latest, left) in [(1_000, 700_000), (1_000, 490_000), (450_000, 450_000)] {
        bbr.loss_round.has_loss = true;
        bbr.loss_round.start = true;
        bbr.loss_round.inflight_latest = latest;
        bbr.update_congestion_signals(&conn, &rs);
        assert_eq!(bbr.bounds.inflight_shortterm, left);
    }
}

/// An episode that ends no state has none to give back, whatever the one before it ended.
#[test]
fn an_undo_gives_back_the_state_of_its_own_episode_only() {
    let (mut bbr, mut conn) = plain::<Draft>();
    bbr.undo.state = Some(State::ProbeBwUp);
    bbr.on_enter_recovery(&mut conn);
    bbr.on_spurious_loss(&mut conn);
    assert_eq!(bbr.state, State::ProbeBwCruise);
}

/// Nor does an undo begin a probe anew that has begun already, or leave ProbeRTT.
#[test]
fn an_undo_ends_no_state_that_came_since() {
    for state in [State::ProbeBwUp, State::ProbeRtt] {
        let (mut bbr, mut conn) = plain::<Draft>();
        bbr.undo.state = Some(State::ProbeBwUp);
        bbr.state = state;
        bbr.on_spurious_loss(&mut conn);
        assert_eq!(bbr.state, state);
    }
}

/// AdaptLongTermModel(): what was in flight without losses fits.
#[test]
fn a_flight_without_losses_raises_the_long_term_bound() {
    fn raised<R: Rules>() -> (u64, u64) {
        let (mut bbr, mut conn) = plain::<R>();
        let rs = sample(bbr.bandwidth.max);
        bbr.bounds.inflight_longterm = rs.tx_in_flight / 2;
        bbr.on_ack(&mut conn, &rs);
        (bbr.bounds.inflight_longterm, rs.tx_in_flight)
    }
    for (bound, in_flight) in [raised::<Draft>(), raised::<Linux>()] {
        assert_eq!(bound, in_flight);
    }
}

/// With a BDP of a few packets, a quarter of it rounds to nothing, so UP adds two packets
/// (QuantizationBudget).
#[test]
fn up_has_room_for_two_packets_more() {
    let (mut bbr, conn) = plain::<Draft>();
    let cruising = bbr.inflight(&conn, bbr.bandwidth.bw, Gain::ONE);
    bbr.state = State::ProbeBwUp;
    assert_eq!(bbr.inflight(&conn, bbr.bandwidth.bw, Gain::ONE), cruising + 2 * SMSS);
}

/// The plateau of UP is three rounds of UP. The round in which it began is one of REFILL, also
/// where its first samples were application-limited and a later one could be judged.
#[test]
fn up_is_not_judged_in_the_round_in_which_it_began() {
    fn rounds_without_growth<R: Rules>() -> u32 {
        let (mut bbr, mut conn) = plain::<R>();
        bbr.state = State::ProbeBwRefill;
        (bbr.round.next_delivered, conn.sampler.delivered) = (0, 100 * SMSS);
        let rate = bbr.bandwidth.max;
        bbr.on_ack(&mut conn, &RateSample { is_app_limited: true, ..sample(rate) });
        assert_eq!(bbr.state, State::ProbeBwUp);
        bbr.on_ack(&mut conn, &sample(rate));
        bbr.full_pipe.count
    }
    assert_eq!((rounds_without_growth::<Draft>(), rounds_without_growth::<DraftAmended>()), (0, 0));
}

/// "Restarting From Idle" is over with the first delivery, whatever limited the flow then.
#[test]
fn a_restart_from_idle_ends_with_a_delivery() {
    fn restarts<R: Rules>() -> (bool, bool) {
        let (mut bbr, mut conn) = plain::<R>();
        bbr.rtt.probe_min_delay = bbr.rtt.min;
        bbr.on_restart_from_idle(&mut conn, Instant::default());
        let delivered_nothing = RateSample { delivered: 0, ..sample(bbr.bandwidth.max) };
        bbr.on_ack(&mut conn, &delivered_nothing);
        let before = bbr.probe_rtt.idle_restart;
        bbr.on_ack(&mut conn, &sample(Rate::from_bits_per_sec(1_000_000)));
        (before, bbr.probe_rtt.idle_restart)
    }
    assert_eq!((restarts::<Draft>(), restarts::<Linux>()), ((true, false), (true, false)));
}

/// A rate of 0 would never end, and a sample without a rate says nothing of the volume that the
/// path delivers.
#[test]
fn what_is_not_known_changes_nothing() {
    let (mut bbr, mut conn) = plain::<Draft>();
    let (rate, inflight) = (conn.pacing_rate, bbr.loss_round.inflight_latest);
    bbr.loss_round.update_latest(conn.sampler.delivered, &sample(Rate::ZERO));
    assert_eq!(bbr.loss_round.inflight_latest, inflight);
    bbr.bandwidth.bw = Rate::ZERO;
    bbr.set_pacing_rate_with_gain(&mut conn, Gain::ONE);
    assert_eq!(conn.pacing_rate, rate);
}

/// Silence is no slow delivery: what comes after it is measured from the restart on.
#[test]
fn an_interval_of_aggregation_begins_with_the_restart_from_idle() {
    let (mut bbr, mut conn) = plain::<Draft>();
    let later = Instant::default() + MS.times(900);
    bbr.on_restart_from_idle(&mut conn, later);
    assert_eq!(bbr.aggregation.interval_start, later);
}

/// "(1 - loss_rate)^N", as the draft's text has it: N rounds of a loss that a flow bears cost N
/// times that loss and not the pacing margin as well, which would make it three times as much here.
#[test]
fn the_response_to_a_small_loss_is_that_loss() {
    let mut link = Link::new(Algorithm::BBR3, 100, MS.times(40));
    link.run_to(State::ProbeBwCruise);
    link.run(MS.times(100));
    let before = link.bbr();
    let mut n = 0;
    while link.bbr().round_count < before.round_count + 40 {
        link.step(&mut || {
            n += 1;
            n % 400 == 0
        });
    }
    assert_eq!(link.state(), State::ProbeBwCruise);
    let left = link.bbr().bw.as_bytes_per_sec() * 1000 / before.bw.as_bytes_per_sec();
    // 0.9975^40 = 0.905 is the most that the losses may cost; the margin on top would go below it.
    assert!((905..1000).contains(&left), "{left} per mille of the rate after 40 rounds");
}

/// A timeout lets one packet out and forgets nothing. With the repair the window is back, as far as
/// the losses allow: they cut inflight_shortterm to BBR.Beta of it, until the next probe.
#[test]
fn a_timeout_keeps_the_model_and_gives_the_window_back() {
    let mut link = Link::new(Algorithm::BBR3, 20, MS.times(40));
    link.run_to(State::ProbeBwCruise);
    link.run(MS.times(100));
    let (before, cwnd) = (link.bbr(), link.cc.cwnd());
    link.now += Duration::from_secs(1);
    let flight: Vec<PacketState> = link.flight.drain(..).map(|f| f.packet).collect();
    let mut batch = link.cc.ack(link.now);
    batch.timeout();
    flight.iter().for_each(|p| batch.lost(p));
    batch.finish();
    assert_eq!((link.cc.inflight(), link.cc.cwnd()), (0, SMSS));
    assert_eq!((link.bbr().max_bw, link.bbr().min_rtt), (before.max_bw, before.min_rtt));
    link.run(MS.times(130));
    let bound = cwnd * 7 / 10;
    assert_eq!((link.cc.cwnd(), link.bbr().inflight_shortterm), (bound, Some(bound)));
}

/// The result of an ACK does not depend on the order in which the caller reports its packets.
#[test]
fn the_order_within_a_batch_is_not_the_callers_business() {
    let mut link = Link::new(Algorithm::BBR3, 20, MS.times(40));
    link.run_to(State::ProbeBwUp);
    link.run(MS.times(60));
    let packets: Vec<PacketState> = link.flight.drain(..12).map(|f| f.packet).collect();
    let (lost, acked) = packets.split_at(6);
    let now = link.now + MS;
    let mut first = link.cc.clone();
    let mut batch = first.ack(now);
    lost.iter().for_each(|p| batch.lost(p));
    acked.iter().for_each(|p| batch.acked(p));
    batch.finish();
    let mut second = link.cc.clone();
    let mut batch = second.ack(now);
    acked.iter().rev().for_each(|p| batch.acked(p));
    lost.iter().for_each(|p| batch.lost(p));
    drop(batch);
    assert_eq!(first.snapshot(), second.snapshot());
    assert_ne!(first.snapshot(), link.cc.snapshot());
}

/// Four packets are the floor, also where the BDP is a fraction of one.
#[test]
fn a_path_of_less_than_a_packet_still_flows() {
    let mut link = Link::new(Algorithm::BBR3, 1, Duration::from_micros(500));
    link.rate = Rate::from_bits_per_sec(64_000);
    link.run(Duration::from_secs(30));
    let snapshot = link.cc.snapshot();
    assert!(snapshot.cwnd >= 4 * SMSS, "{}", snapshot.cwnd);
    let pace = snapshot.pacing_rate.expect("paced").as_bytes_per_sec();
    assert!((7_000..=10_000).contains(&pace), "{pace} B/s on a link of 8000");
}

#[test]
fn a_controller_fits_944_bytes() {
    let of = |is_on: bool, bytes| if is_on { bytes } else { 0 };
    let swift = of(cfg!(feature = "bbr-swift"), 24);
    let l4s = of(cfg!(feature = "l4s"), 120);
    let resume = of(cfg!(feature = "careful-resume"), 112);
    // A controller keeps its algorithm's options: bbr-swift has targets.
    let targets = of(cfg!(feature = "bbr-swift"), 24);
    // Of the algorithms the largest counts.
    let most = 944 + swift.max(l4s) + resume + targets;
    assert!(size_of::<Controller>() <= most, "{}", size_of::<Controller>());
}
