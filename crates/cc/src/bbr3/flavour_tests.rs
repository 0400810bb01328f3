//! The differences between Linux's flavour and the draft's: each by itself, both flavours in
//! the same situation; then the response to ECN, also over a link that marks.

use super::aggregation::ExtraAckedFilter as _;
use super::*;
use crate::Algorithm;
use crate::algo::Marks;
use crate::options::Bbr3Options;
use crate::test_link::{Link, MS, SMSS};

const MBIT: Rate = Rate::from_bytes_per_sec(125_000);
pub(super) const BDP: u64 = 100 * SMSS;

/// A flow in ProbeBW_CRUISE that believes in 100 packets of BDP: 24 Mbit/s and 40 ms.
pub(super) fn cruising<R: Rules>(config: &Config) -> (Bbr3<R>, Conn) {
    let mut conn = Conn::new(config, Instant::default());
    let mut bbr = Bbr3::<R>::new(&mut conn, Instant::default(), config, Bbr3Options::new());
    bbr.bandwidth.max = Rate::from_volume(BDP, MS.times(40));
    bbr.bandwidth.filter = [bbr.bandwidth.max; 2];
    bbr.bandwidth.bw = bbr.bandwidth.max;
    bbr.rtt.min = MS.times(40);
    bbr.rtt.is_measured = true;
    bbr.full_pipe.reached = true;
    bbr.full_pipe.now = true;
    bbr.probe.time = Instant::MAX;
    bbr.enter(State::ProbeBwCruise);
    bbr.update_bdp(&conn);
    (conn.cwnd, conn.inflight) = (2 * BDP, 2 * BDP);
    // No ACK here begins a round unless a test says so.
    (bbr.round.next_delivered, bbr.loss_round.delivered) = (u64::MAX, u64::MAX);
    (bbr, conn)
}

pub(super) fn plain<R: Rules>() -> (Bbr3<R>, Conn) {
    cruising(&Config::new(1))
}

/// The control parameters follow the model, without an ACK.
pub(super) fn make_control_parameters<R: Rules>(bbr: &mut Bbr3<R>, conn: &mut Conn) {
    bbr.set_pacing_rate(conn);
    bbr.set_send_quantum(conn);
    bbr.update_max_inflight(conn);
}

/// An ACK of one packet in the middle of a round.
pub(super) fn sample(rate: Rate) -> RateSample {
    RateSample {
        now: Instant::default() + MS,
        rtt: MS.times(40),
        delivery_rate: rate,
        is_app_limited: false,
        delivered: BDP,
        prior_delivered: 0,
        newly_acked: SMSS,
        newly_acked_after_recovery: SMSS,
        tx_in_flight: BDP,
        lost: 0,
        prior_inflight: BDP,
        #[cfg(feature = "bbr-swift")]
        receiver_delay: Duration::ZERO,
        #[cfg(feature = "bbr-swift")]
        ack_delay: Duration::ZERO,
    }
}

#[test]
fn the_gains_of_startup_drain_and_down() {
    fn gains<R: Rules>() -> [Gain; 3] {
        [State::Startup, State::Drain, State::ProbeBwDown].map(|state| {
            let mut bbr = plain::<R>().0;
            bbr.enter(state);
            bbr.control.pacing_gain
        })
    }
    assert_eq!(gains::<Draft>(), [277, 50, 90].map(Gain::percent));
    assert_eq!(gains::<Linux>(), [710, 88, 232].map(Gain::per_256));
}

#[test]
fn linux_drains_until_the_queue_is_gone() {
    fn after_rounds<R: Rules>(rounds: u64) -> State {
        let (mut bbr, conn) = plain::<R>();
        bbr.enter(State::Drain);
        bbr.round.count = rounds;
        bbr.check_drain_done(&conn, &sample(MBIT));
        bbr.state
    }
    assert_eq!(after_rounds::<Draft>(3), State::Drain);
    assert_eq!(after_rounds::<Draft>(4), State::ProbeBwDown);
    assert_eq!(after_rounds::<Linux>(1_000), State::Drain);
}

#[test]
fn linux_forgets_startups_losses_when_drain_begins() {
    fn latest<R: Rules>() -> (u64, bool) {
        let mut bbr = plain::<R>().0;
        bbr.enter(State::Startup);
        (bbr.loss_round.inflight_latest, bbr.loss_round.has_loss) = (BDP, true);
        bbr.check_startup_done();
        (bbr.loss_round.inflight_latest, bbr.loss_round.has_loss)
    }
    assert_eq!(latest::<Draft>(), (BDP, true));
    assert_eq!(latest::<Linux>(), (0, false));
}

/// Linux's stopped_risky_probe: after a probe that went too high the next one stops at the bound
/// that it left, and where that brought no losses another one follows at once.
#[test]
fn both_flavours_stop_at_the_bound_of_a_probe_that_went_too_high() {
    fn goes_down<R: Rules>() -> State {
        let (mut bbr, mut conn) = plain::<R>();
        bbr.enter(State::ProbeBwUp);
        bbr.full_pipe.now = false;
        bbr.probe.prev_too_high = true;
        bbr.bounds.inflight_longterm = BDP;
        bbr.on_ack(&mut conn, &sample(MBIT));
        bbr.state
    }
    assert_eq!(goes_down::<Draft>(), State::ProbeBwDown);
    assert_eq!(goes_down::<Linux>(), State::ProbeBwDown);
}

#[test]
fn a_precautionary_probe_that_went_well_is_followed_by_another() {
    fn next<R: Rules>() -> (State, bool) {
        let (mut bbr, mut conn) = plain::<R>();
        bbr.enter(State::ProbeBwUp);
        (bbr.full_pipe.now, bbr.probe.prev_too_high) = (false, true);
        bbr.bounds.inflight_longterm = BDP;
        bbr.on_ack(&mut conn, &sample(MBIT));
        assert!(bbr.probe.prev_precautionary);
        // The first ACK of the round after it: all that was sent in the probe has been
        // acknowledged.
        bbr.on_ack(&mut conn, &sample(MBIT));
        (bbr.state, bbr.probe.prev_precautionary)
    }
    assert_eq!(next::<Draft>(), (State::ProbeBwRefill, false));
    assert_eq!(next::<Linux>(), (State::ProbeBwRefill, false));
}

/// Twelve packets lost in one report, in six ranges or in one; or six reports of two neighbours
/// each.
#[test]
fn linux_counts_the_reports_that_bring_losses_and_not_the_ranges() {
    fn ends<R: Rules>(reports: &[&[usize]]) -> bool {
        let (mut bbr, mut conn) = plain::<R>();
        bbr.enter(State::Startup);
        (bbr.full_pipe.reached, bbr.full_pipe.now) = (false, false);
        let now = Instant::default();
        let sent: [PacketState; 24] =
            core::array::from_fn(|_| conn.sampler.on_sent(now, SMSS, BDP));
        for report in reports {
            report.iter().for_each(|i| bbr.on_packet_lost(&conn, &sent[*i]));
            let congestion = Congestion { now, new_episode: false, has_losses: true, marks: None };
            bbr.on_congestion(&mut conn, &congestion);
        }
        bbr.loss_round.delivered = 0;
        bbr.on_ack(&mut conn, &RateSample { lost: 12 * SMSS, ..sample(MBIT) });
        bbr.full_pipe.reached
    }
    let six_ranges: &[usize] = &[0, 1, 4, 5, 8, 9, 12, 13, 16, 17, 20, 21];
    let six_reports: &[&[usize]] = &[&[0, 1], &[2, 3], &[4, 5], &[6, 7], &[8, 9], &[10, 11]];
    let both: &[&[usize]] = &[&[0, 1], &[4, 5], &[8, 9], &[12, 13], &[16, 17], &[20, 21]];
    assert_eq!([&[six_ranges], six_reports, both].map(ends::<Draft>), [true, false, true]);
    assert_eq!([&[six_ranges], six_reports, both].map(ends::<Linux>), [false, true, true]);
    assert_eq!([&both[..5]].map(ends::<Linux>), [false]);
}

/// Linux's bbr_set_state(): a cut after a timeout starts from the window before it. In a probe
/// there is no cut, and so no bound.
#[test]
fn linux_takes_the_window_before_a_timeout_for_the_short_term_bound() {
    fn bound<R: Rules>(state: State) -> u64 {
        let (mut bbr, mut conn) = plain::<R>();
        bbr.enter(state);
        bbr.on_enter_recovery(&mut conn);
        conn.inflight = 0;
        bbr.on_rto(&mut conn);
        assert_eq!(conn.cwnd, SMSS);
        bbr.bounds.inflight_shortterm
    }
    assert_eq!(bound::<Draft>(State::ProbeBwCruise), INFINITE);
    assert_eq!(bound::<Linux>(State::ProbeBwCruise), 2 * BDP);
    assert_eq!(bound::<Linux>(State::ProbeBwUp), INFINITE);
}

/// A timeout begins the search for a plateau anew, and its losses do not end Startup.
#[test]
fn a_timeout_forgets_the_baseline_of_the_full_pipe_estimate() {
    fn after<R: Rules>() -> (Rate, u32, bool, u16) {
        let (mut bbr, mut conn) = plain::<R>();
        bbr.enter(State::Startup);
        (bbr.full_pipe.reached, bbr.full_pipe.now) = (false, false);
        (bbr.full_pipe.bw, bbr.full_pipe.count, bbr.loss_round.events) = (MBIT, 2, 5);
        bbr.on_rto(&mut conn);
        (bbr.full_pipe.bw, bbr.full_pipe.count, bbr.full_pipe.now, bbr.loss_round.events)
    }
    assert_eq!(after::<Draft>(), (Rate::ZERO, 0, false, 0));
    assert_eq!(after::<Linux>(), (Rate::ZERO, 0, false, 0));
}

#[test]
fn linux_undoes_bounds_and_window_but_not_the_state() {
    fn undone<R: Rules>() -> (State, bool, u64, u64) {
        let (mut bbr, mut conn) = plain::<R>();
        bbr.on_enter_recovery(&mut conn);
        bbr.undo.state = Some(State::Startup);
        (bbr.bounds.inflight_longterm, bbr.bounds.inflight_shortterm) = (BDP / 2, BDP / 2);
        conn.cwnd = SMSS;
        bbr.on_spurious_loss(&mut conn);
        assert_eq!(conn.cwnd, 2 * BDP);
        (
            bbr.state,
            bbr.full_pipe.reached,
            bbr.bounds.inflight_longterm,
            bbr.bounds.inflight_shortterm,
        )
    }
    assert_eq!(undone::<Draft>(), (State::Startup, false, INFINITE, INFINITE));
    assert_eq!(undone::<Linux>(), (State::ProbeBwCruise, true, INFINITE, INFINITE));
}

#[test]
fn linux_raises_the_full_pipe_baseline_within_a_round() {
    fn baseline<R: Rules>() -> (Rate, u32) {
        let (mut bbr, mut conn) = plain::<R>();
        bbr.enter(State::ProbeBwUp);
        bbr.full_pipe.now = false;
        (bbr.full_pipe.bw, bbr.full_pipe.count) = (MBIT, 2);
        bbr.on_ack(&mut conn, &sample(Gain::percent(150).of_rate(MBIT)));
        // Without growth no ACK but a round's first counts, in either flavour.
        bbr.on_ack(&mut conn, &sample(MBIT));
        (bbr.full_pipe.bw, bbr.full_pipe.count)
    }
    assert_eq!(baseline::<Draft>(), (MBIT, 2));
    assert_eq!(baseline::<Linux>(), (Gain::percent(150).of_rate(MBIT), 0));
}

/// Three packets lost since a packet of 100 in flight was sent: more than 5/256 or 2 % of them.
#[test]
fn in_linux_an_ack_can_end_a_probe_that_went_too_high() {
    fn judged<R: Rules>() -> (State, u64) {
        let (mut bbr, mut conn) = plain::<R>();
        bbr.enter(State::ProbeBwUp);
        (bbr.full_pipe.now, bbr.probe.is_sample) = (false, true);
        bbr.on_ack(&mut conn, &RateSample { lost: 3 * SMSS, ..sample(MBIT) });
        assert_eq!(bbr.probe.prev_too_high, bbr.state == State::ProbeBwDown);
        (bbr.state, bbr.bounds.inflight_longterm)
    }
    assert_eq!(judged::<Draft>(), (State::ProbeBwUp, INFINITE));
    assert_eq!(judged::<Linux>(), (State::ProbeBwDown, BDP));
}

#[test]
fn linux_cruises_with_the_short_term_bound_under_the_long_term_one() {
    fn bound<R: Rules>(inflight_shortterm: u64) -> u64 {
        let (mut bbr, conn) = plain::<R>();
        (bbr.bounds.inflight_longterm, bbr.bounds.inflight_shortterm) = (BDP, inflight_shortterm);
        bbr.start_probe_bw_cruise(&conn);
        bbr.bounds.inflight_shortterm
    }
    assert_eq!(bound::<Draft>(2 * BDP), 2 * BDP);
    assert_eq!([2 * BDP, BDP / 2, INFINITE].map(bound::<Linux>), [BDP, BDP / 2, INFINITE]);
}

/// One large excess, and the rounds in which it is remembered: ten; five to ten in Linux's buckets,
/// by when the bucket began.
#[test]
fn linux_remembers_aggregation_in_two_buckets_of_five_rounds() {
    fn rounds_remembered<R: Rules>(phase: u64) -> u64 {
        let (mut bbr, mut conn) = plain::<R>();
        conn.cwnd = INFINITE / 2;
        let mut ack = |bbr: &mut Bbr3<R>, newly_acked| {
            bbr.round.next_delivered = 0;
            bbr.on_ack(&mut conn, &RateSample { newly_acked, ..sample(MBIT) });
            conn.cwnd = INFINITE / 2;
        };
        (0..phase).for_each(|_| ack(&mut bbr, 0));
        ack(&mut bbr, BDP);
        let large = bbr.aggregation.extra_acked();
        assert!(large >= BDP);
        // The ACKs fall behind: from here on nothing is extra.
        (1..=20)
            .find(|_| {
                bbr.aggregation.delivered = 0;
                ack(&mut bbr, 0);
                bbr.aggregation.extra_acked() < large
            })
            .expect("forgotten")
    }
    assert_eq!([0, 1, 2, 3, 4].map(rounds_remembered::<Draft>), [10; 5]);
    assert_eq!([0, 1, 2, 3, 4].map(rounds_remembered::<Linux>), [9, 8, 7, 6, 10]);
}

/// 100 ms of the bandwidth are 2.5 BDP of 40 ms.
#[test]
fn linux_takes_no_more_than_100_ms_of_data_for_aggregation() {
    fn beside_two_bdp<R: Rules>() -> u64 {
        let (mut bbr, mut conn) = plain::<R>();
        bbr.aggregation.filter.update(10 * BDP, bbr.round.count, true);
        make_control_parameters(&mut bbr, &mut conn);
        bbr.control.max_inflight - 2 * BDP
    }
    assert_eq!(beside_two_bdp::<Draft>(), 10 * BDP);
    assert_eq!(beside_two_bdp::<Linux>(), 5 * BDP / 2);
}

/// rate / 1024 s, and 64 KiB halved for each 512 us of min_rtt, in whole packets; two SMSS at
/// least, 64 KiB at most.
#[test]
fn linux_sends_larger_quanta_on_shorter_paths() {
    fn quantum<R: Rules>(min_rtt_us: u64, mbit: u64) -> u64 {
        let (mut bbr, mut conn) = plain::<R>();
        bbr.rtt.min = Duration::from_micros(min_rtt_us);
        bbr.bandwidth.bw = Rate::from_bits_per_sec(mbit * 1_000_000);
        make_control_parameters(&mut bbr, &mut conn);
        conn.send_quantum
    }
    assert_eq!(quantum::<Draft>(600, 8), 2 * SMSS);
    let rate = |mbit: u64| mbit * 125_000 * 99 / 100;
    let by_rtt = [(0, 65_536), (511, 65_536), (512, 32_768), (1_024, 16_384), (2_048, 4_096)];
    for (us, allowance) in by_rtt {
        let bytes = (allowance + rate(8) / 1024).min(65_536);
        assert_eq!(quantum::<Linux>(us, 8), (bytes / SMSS).max(2) * SMSS, "{us} us");
    }
    assert_eq!(quantum::<Linux>(40_000, 8), 2 * SMSS);
    assert_eq!(quantum::<Linux>(40_000, 200), rate(200) / 1024 / SMSS * SMSS);
}

/// The model asks for less than the window, and the initial window was delivered: the draft's
/// window stays, and Linux's grows until it has doubled.
#[test]
fn linux_doubles_the_initial_window_whatever_the_model_says() {
    fn grown<R: Rules>(cwnd: u64) -> bool {
        let (mut bbr, mut conn) = plain::<R>();
        bbr.full_pipe.reached = false;
        bbr.control.max_inflight = SMSS;
        conn.sampler.count_delivered(conn.initial_cwnd);
        conn.cwnd = cwnd;
        bbr.grow_cwnd(&mut conn, &sample(MBIT));
        conn.cwnd > cwnd
    }
    assert_eq!([12 * SMSS, 19 * SMSS, 20 * SMSS].map(grown::<Draft>), [false; 3]);
    assert_eq!([12 * SMSS, 19 * SMSS, 20 * SMSS].map(grown::<Linux>), [true, true, false]);
}

/// A lossy round that delivered 98 % of the bound, of which 1 % is the margin. Linux's cut is at
/// least to 180/256.
#[test]
fn linux_takes_the_margin_for_lost_bandwidth() {
    fn per_mille<R: Rules>(delivered: u32) -> u64 {
        let (mut bbr, mut conn) = plain::<R>();
        bbr.loss_round.has_loss = true;
        bbr.loss_round.delivered = 0;
        bbr.on_ack(&mut conn, &sample(Gain::percent(delivered).of_rate(bbr.bandwidth.max)));
        bbr.bounds.bw_shortterm.as_bytes_per_sec() * 1_000 / bbr.bandwidth.max.as_bytes_per_sec()
    }
    assert_eq!([per_mille::<Draft>(98), per_mille::<Linux>(98)], [989, 980]);
    assert_eq!([per_mille::<Draft>(10), per_mille::<Linux>(10)], [700, 703]);
}

/// A cruising flow of Linux's flavour on a path of 2 ms whose marks mean something.
fn marked_path() -> (Bbr3<Linux>, Conn) {
    let (mut bbr, conn) = cruising::<Linux>(&Config { ecn: true, ..Config::new(1) });
    bbr.rtt.min = MS.times(2);
    (bbr, conn)
}

fn mark(bbr: &mut Bbr3<Linux>, conn: &mut Conn, newly_marked: u64, marked: u64) {
    let marks = Marks { sample: &sample(MBIT), newly_marked, marked };
    let congestion = Congestion {
        now: Instant::default(),
        new_episode: false,
        has_losses: false,
        marks: Some(marks),
    };
    bbr.on_congestion(conn, &congestion);
}

/// A round of 100 packets, of which so many are marked; returns alpha in 256ths after it.
fn round(bbr: &mut Bbr3<Linux>, conn: &mut Conn, marked: u64) -> u32 {
    mark(bbr, conn, marked * SMSS, 0);
    conn.sampler.count_delivered(BDP);
    bbr.round.next_delivered = 0;
    bbr.update_round(conn, &sample(MBIT));
    bbr.round.next_delivered = u64::MAX;
    bbr.rules.ecn.alpha().map_or(0, |alpha| (alpha.of(25_600) / 100) as u32)
}

/// alpha = 15/16 alpha + 1/16 share, in 256ths and rounded down as in Linux, from 1.0 on.
#[test]
fn alpha_follows_the_share_of_marks() {
    let (mut bbr, mut conn) = marked_path();
    let mut alpha = [0; 6];
    for (alpha, marked) in alpha.iter_mut().zip([100, 100, 0, 0, 50, 100]) {
        *alpha = round(&mut bbr, &mut conn, marked);
    }
    // 240 x 225 / 256 is 210.9; half of the marks add 8, all of them 16.
    assert_eq!(alpha, [256, 256, 240, 225, 210 + 8, 204 + 16]);
    assert_eq!(bbr.snapshot(&conn).bbr.and_then(|b| b.ecn_alpha), Some(Gain::per_256(220)));
}

/// At most 5 ms, and only where the transport says that marks are those of such a network. A flow
/// that was on such a path once stays with it.
#[test]
fn marks_count_on_short_paths_that_have_them() {
    for (ecn, min_rtt, answers) in [
        (true, MS.times(5), true),
        (true, MS.times(5) + Duration::from_nanos(1), false),
        (false, MS, false),
    ] {
        let (mut bbr, mut conn) = cruising::<Linux>(&Config { ecn, ..Config::new(1) });
        bbr.rtt.min = min_rtt;
        round(&mut bbr, &mut conn, 100);
        mark(&mut bbr, &mut conn, SMSS, BDP);
        assert_eq!(bbr.rules.ecn.alpha().is_some(), answers, "{ecn} {min_rtt}");
        assert_eq!(bbr.rules.ecn.is_in_round && bbr.rules.ecn.is_mark_rate_too_high, answers);
        assert!(!bbr.loss_round.has_loss, "a mark is no loss");
    }
}

/// 1 - alpha / 3 in 256ths: 171 with alpha at 1.0, 182 at 225/256. The rate has no bound from
/// marks.
#[test]
fn a_marked_round_lowers_the_short_term_inflight() {
    for (clean_rounds, kept) in [(0, 171), (2, 256 - 225 * 85 / 256)] {
        let (mut bbr, mut conn) = marked_path();
        round(&mut bbr, &mut conn, 100);
        (0..clean_rounds).for_each(|_| _ = round(&mut bbr, &mut conn, 0));
        conn.cwnd = 64 * SMSS;
        mark(&mut bbr, &mut conn, SMSS, SMSS);
        bbr.loss_round.delivered = 0;
        bbr.on_ack(&mut conn, &sample(MBIT));
        assert_eq!(bbr.bounds.inflight_shortterm, SMSS * (64 * kept / 256));
        assert_eq!(bbr.bounds.bw_shortterm, Rate::MAX);
        // The next round without marks lowers nothing.
        bbr.loss_round.delivered = 0;
        bbr.on_ack(&mut conn, &sample(MBIT));
        assert_eq!(bbr.bounds.inflight_shortterm, SMSS * (64 * kept / 256));
    }
}

/// More than half of the sample: the probe is over, as it is on loss.
#[test]
fn a_probe_of_which_more_than_half_is_marked_went_too_high() {
    for (marked, state) in [(50 * SMSS, State::ProbeBwUp), (51 * SMSS, State::ProbeBwDown)] {
        let (mut bbr, mut conn) = marked_path();
        round(&mut bbr, &mut conn, 0);
        bbr.enter(State::ProbeBwUp);
        (bbr.full_pipe.now, bbr.probe.is_sample) = (false, true);
        mark(&mut bbr, &mut conn, SMSS, marked);
        bbr.on_ack(&mut conn, &sample(MBIT));
        assert_eq!(bbr.state, state);
        assert!(!bbr.rules.ecn.is_mark_rate_too_high, "only this ACK said so");
    }
}

/// Two rounds in succession with at least half marked.
#[test]
fn two_marked_rounds_end_startup() {
    for (shares, ends) in [([50, 50], true), ([100, 49], false), ([49, 100], false)] {
        let (mut bbr, mut conn) = marked_path();
        bbr.full_pipe.reached = false;
        bbr.loss_round.inflight_latest = 3 * BDP;
        for marked in shares {
            _ = round(&mut bbr, &mut conn, marked);
        }
        assert_eq!(bbr.full_pipe.reached, ends, "{shares:?}");
        let bound = if ends { 3 * BDP } else { INFINITE };
        assert_eq!(bbr.bounds.inflight_longterm, bound);
    }
}

/// 100 Mbit/s and 1 ms, marks above 200 us of queue: the flow that answers them keeps the link busy
/// and the queue shorter than the one that is not told what they mean.
#[test]
fn the_response_to_marks_shortens_the_queue() {
    let mean_queue_us = |ecn| {
        let config = Config { ecn, ..Config::new(1) };
        let mut link = Link::with(Algorithm::BBR3_LINUX, 100, MS, config);
        link.mark_above = Duration::from_micros(200);
        let (mut sum, mut count, end) = (0, 0, link.now + Duration::from_secs(20));
        while link.now < end {
            link.step(&mut || false);
            sum += link.free.since(link.now).as_nanos() / 1_000;
            count += 1;
        }
        assert_eq!(link.bbr().ecn_alpha.is_some(), ecn);
        assert_eq!(link.cc.snapshot().lost, 0);
        let goodput = link.delivered / (20 * 12_500);
        assert!(goodput >= 930, "{goodput} per mille of the link, ECN {ecn}");
        sum / count
    };
    let (deaf, told) = (mean_queue_us(false), mean_queue_us(true));
    assert!(told * 10 < deaf * 9, "{told} us of queue beside {deaf}");
}

/// Both flavours over one plain link: the same bandwidth, the same round trip, and the names apart.
#[test]
fn both_flavours_find_the_link() {
    for algorithm in [Algorithm::BBR3, Algorithm::BBR3_LINUX, Algorithm::BBR3X_LINUX] {
        let mut link = Link::new(algorithm, 20, MS.times(40));
        link.run(Duration::from_secs(12));
        let bw = link.bbr().max_bw.as_bits_per_sec() / 20_000;
        assert!((985..=1_010).contains(&bw), "{algorithm}: {bw} per mille");
        assert_eq!(link.cc.snapshot().algorithm, algorithm.name());
        assert!(link.bbr().min_rtt.is_some_and(|rtt| rtt < MS.times(41)), "{algorithm}");
        let possible = link.rate.bytes_in(Duration::from_secs(12));
        assert!(link.delivered * 100 > possible * 94, "{algorithm}: {}", link.delivered);
    }
}

#[test]
fn the_draft_pays_nothing_for_the_other_flavours() {
    // What the other flavours keep of their own costs the draft nothing.
    assert!(size_of::<Bbr3<Draft>>() < size_of::<Bbr3<DraftAmended>>());
}
