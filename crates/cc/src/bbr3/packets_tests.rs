//! Linux's flavour counts whole packets, and its targets have room for the offload budget; the
//! draft's counts bytes. Both in the same situation.

use super::flavour_tests::{make_control_parameters, plain, sample};
use super::*;
use crate::config::Transport;
use crate::options::Bbr3Options;
use crate::rng::Rng;
use crate::test_link::{MS, SMSS};
use std::vec::Vec;

/// A flow over TCP in CRUISE that believes in this bandwidth and round trip, with packets of
/// `smss`.
fn path<R: Rules>(smss: u64, bw: u64, min_rtt: Duration) -> (Bbr3<R>, Conn) {
    let (mut bbr, mut conn) = plain::<R>();
    conn.transport = Transport::Tcp;
    conn.smss = smss;
    bbr.bandwidth.max = Rate::from_bytes_per_sec(bw);
    bbr.bandwidth.bw = bbr.bandwidth.max;
    bbr.bandwidth.filter = [bbr.bandwidth.max; 2];
    bbr.rtt.min = min_rtt;
    make_control_parameters(&mut bbr, &mut conn);
    (bbr, conn)
}

/// Paths of all sizes: SMSS, bytes a second, and microseconds.
fn paths() -> impl Iterator<Item = (u64, u64, Duration)> {
    let mut rng = Rng::new(7);
    (0..500).map(move |_| {
        let most = 1 << (10 + rng.below(24));
        let bw = 1 + rng.below(most);
        (500 + rng.below(8_500), bw, Duration::from_micros(1 + rng.below(200_000)))
    })
}

/// A window is the BDP rounded up to a packet, of which no share that is taken, for headroom or by
/// a cut, is rounded up. The numbers are those of an arithmetic in packets.
#[test]
fn linux_counts_whole_packets_and_rounds_for_the_flow() {
    for (smss, bw, min_rtt) in paths() {
        let bytes = Rate::from_bytes_per_sec(bw).bytes_in(min_rtt);
        let (bbr, conn) = path::<Linux>(smss, bw, min_rtt);
        for gain in [Gain::percent(50), Gain::ONE, Gain::percent(225)] {
            let packets = gain.of(bytes).div_ceil(smss);
            assert_eq!(
                bbr.bdp_multiple(&conn, bbr.bandwidth.bw, gain),
                packets * smss,
                "{smss} {bw}"
            );
        }
        assert_eq!(conn.send_quantum % smss, 0);
        assert_eq!(bbr.control.max_inflight % smss, 0);
        let (draft, conn) = path::<Draft>(smss, bw, min_rtt);
        assert_eq!(draft.bdp_multiple(&conn, draft.bandwidth.bw, Gain::ONE), bytes);
    }
}

/// Headroom of 38/256 and cuts to 180/256, in packets.
#[test]
fn linux_takes_whole_packets_of_a_bound() {
    for packets in 1..200 {
        let (mut bbr, mut conn) = plain::<Linux>();
        bbr.bounds.inflight_longterm = packets * SMSS;
        let left = packets - (packets * 38 / 256).max(1);
        assert_eq!(bbr.inflight_with_headroom(&conn), left.max(4) * SMSS, "{packets} packets");

        bbr.bounds.inflight_shortterm = packets * SMSS;
        bbr.loss_round.has_loss = true;
        bbr.loss_round.delivered = 0;
        (bbr.loss_round.inflight_latest, bbr.loss_round.bw_latest) = (0, Rate::ZERO);
        let rs = RateSample { delivered: SMSS, ..sample(Rate::from_bytes_per_sec(1)) };
        bbr.on_ack(&mut conn, &rs);
        assert_eq!(bbr.bounds.inflight_shortterm, (packets * 180 / 256).max(1) * SMSS);
    }
}

/// A loss of one packet after others: the budget of 5/256 is rounded up to a packet, so that one
/// more may be lost than fits in it.
#[test]
fn linux_rounds_the_budget_for_losses_up() {
    let lost_of = |flight: u64, lost: u64| {
        let (mut bbr, mut conn) = plain::<Linux>();
        (bbr.probe.is_sample, conn.inflight) = (true, 0);
        let packets: Vec<_> = (0..flight)
            .map(|_| {
                conn.inflight += SMSS;
                let inflight = conn.inflight;
                conn.sampler.on_sent(Instant::default(), SMSS, inflight)
            })
            .collect();
        for packet in &packets[packets.len() - lost as usize..] {
            conn.count_lost(SMSS);
            bbr.on_packet_lost(&conn, packet);
        }
        bbr.loss_round.too_high.map(|too_high| too_high.inflight / SMSS)
    };
    for flight in [40, 64, 100, 150, 199] {
        let lost = flight * 5 / 256 + 1;
        assert_eq!(lost_of(flight, lost - 1), None);
        let (before, lost_before) = (flight - 1, lost - 1);
        let budget = (before * 5).div_ceil(256);
        let fits = budget.saturating_sub(lost_before) * 256 / 251;
        assert_eq!(lost_of(flight, lost), Some(before + fits), "{flight} in flight");
    }
}

/// On a BDP of two packets the offload budget, three quanta of two packets each, is what a flow
/// wants in flight.
#[test]
fn linux_targets_have_room_for_the_offload_budget() {
    fn targets<R: Rules>() -> [u64; 2] {
        let (mut bbr, mut conn) = path::<R>(SMSS, 50 * SMSS, MS.times(40));
        (bbr.probe.time, bbr.probe.rounds_since_up) = (Instant::MAX, 5);
        conn.cwnd = 20 * SMSS;
        let rs = RateSample { delivered: SMSS, ..sample(Rate::from_bytes_per_sec(1)) };
        bbr.update_probe_bw_cycle_phase(&conn, &rs);
        let is_cruising = u64::from(bbr.state == State::ProbeBwCruise);
        bbr.loss_round.inflight_latest = 0;
        bbr.end_startup(&conn);
        [is_cruising, bbr.bounds.inflight_longterm / SMSS]
    }
    assert_eq!(targets::<Draft>(), [0, 2], "it probes after two rounds");
    assert_eq!(targets::<Linux>(), [1, 6], "it probes after six");
}

/// A bandwidth that losses have cut, and a long-term bound below the window.
#[test]
fn linux_drains_without_a_bound() {
    fn drained<R: Rules>() -> (State, u64) {
        let (mut bbr, mut conn) = path::<R>(SMSS, 2_500 * SMSS, MS.times(40));
        bbr.enter(State::Drain);
        (bbr.bounds.bw_shortterm, bbr.bounds.inflight_longterm) =
            (Gain::percent(50).of_rate(bbr.bandwidth.max), 20 * SMSS);
        bbr.bound_bw_for_model();
        conn.inflight = 90 * SMSS;
        bbr.set_cwnd(&mut conn, &sample(bbr.bandwidth.max));
        let cwnd = conn.cwnd / SMSS;
        bbr.check_drain_done(&conn, &sample(bbr.bandwidth.max));
        (bbr.state, cwnd)
    }
    assert_eq!(drained::<Draft>(), (State::Drain, 20));
    let (state, cwnd) = drained::<Linux>();
    assert_eq!(state, State::ProbeBwDown);
    assert!(cwnd > 20, "{cwnd}");
}

/// The bandwidth doubles with this very ACK, in Startup: what it acknowledges in 40 ms is no more
/// than expected.
#[test]
fn linux_measures_aggregation_by_the_newest_bandwidth() {
    fn extra<R: Rules>() -> u64 {
        let (mut bbr, mut conn) = path::<R>(SMSS, 1_000 * SMSS, MS.times(40));
        bbr.enter(State::Startup);
        (bbr.full_pipe.reached, bbr.full_pipe.now) = (false, false);
        bbr.aggregation.delivered = 41 * SMSS;
        let now = Instant::default() + MS.times(40);
        let rs = RateSample { now, ..sample(Rate::from_bytes_per_sec(2_000 * SMSS)) };
        bbr.on_ack(&mut conn, &rs);
        bbr.aggregation.extra_acked() / SMSS
    }
    assert_eq!(extra::<Draft>(), 2);
    assert_eq!(extra::<Linux>(), 1, "a new episode begins with this packet");
}

#[test]
fn linux_begins_with_the_pacing_margin() {
    fn margin<R: Rules>() -> [Rate; 2] {
        let config = Config::new(1);
        let mut conn = Conn::new(&config, Instant::default());
        let bbr = Bbr3::<R>::new(&mut conn, Instant::default(), &config, Bbr3Options::new());
        let bandwidth = Rate::from_volume(conn.initial_cwnd, MS);
        let startup = bbr.control.startup_gains.pacing.of_rate(bandwidth);
        [conn.pacing_rate, startup]
    }
    let ([draft, startup], [linux, startup_of_linux]) = (margin::<Draft>(), margin::<Linux>());
    assert_eq!(draft, startup);
    assert_eq!(linux, Gain::percent(99).of_rate(startup_of_linux));
}

/// A mark of UP says nothing about the window of DOWN.
#[test]
fn linux_forgets_a_probes_marks_when_it_ends() {
    let (mut bbr, conn) = plain::<Linux>();
    bbr.enter(State::ProbeBwUp);
    bbr.rules.ecn.is_in_round = true;
    bbr.start_probe_bw_down(&conn, Instant::default());
    assert!(!bbr.rules.ecn.is_in_round);
}
