//! What the amendments of `bbr3x` conclude from RTTs, losses and marks on paths that change, or that
//! others share.

use super::amended_tests::{all, but, link};
use crate::amendments::{Amendment, Amendments};
use crate::test_link::{Link, MS};
use crate::{Algorithm, Duration, State};

/// A flow at 20 Mbit/s and 40 ms, in CRUISE; min_rtt does not expire for some seconds.
fn in_cruise(without: Amendments) -> Link {
    let mut link = link(Algorithm::BBR3X, without);
    link.run(Duration::from_secs(2));
    link.run_to(State::ProbeBwCruise);
    link
}

/// The window of the old path would carry a fifth.
#[test]
fn a_path_that_has_become_longer_is_full_again_within_seconds() {
    let carried = |without| {
        let mut link = in_cruise(without);
        link.rtt = MS.times(200);
        link.run(Duration::from_secs(3));
        let before = link.delivered;
        link.run(Duration::from_secs(3));
        ((link.delivered - before) * 100 / (3 * 20_000_000 / 8), link.bbr().min_rtt)
    };
    let (amended, min_rtt) = carried(but(Amendment::ProbeRttOnDemand));
    assert!(amended >= 95 && min_rtt >= Some(MS.times(200)), "{amended} %, {min_rtt:?}");
    let (draft, min_rtt) = carried(all());
    assert!(draft <= 45 && min_rtt <= Some(MS.times(41)), "{draft} %, {min_rtt:?}");
}

/// The queue of the old rate would stand for a cycle of ProbeBW and longer.
#[test]
fn a_link_that_has_become_slower_has_its_queue_drained_within_seconds() {
    let queue = |without| {
        let mut link = in_cruise(without);
        link.rate = crate::Rate::from_bits_per_sec(5_000_000);
        link.run(Duration::from_secs(2));
        (link.free.since(link.now), link.bbr())
    };
    let (amended, bbr) = queue(but(Amendment::ProbeRttOnDemand));
    assert!(amended <= MS.times(60), "{amended}");
    assert!((4_900..=5_100).contains(&(bbr.max_bw.as_bits_per_sec() / 1_000)), "{}", bbr.max_bw);
    assert!(bbr.min_rtt <= Some(MS.times(42)), "the queue is no longer path");
    let (draft, _) = queue(all());
    assert!(draft >= MS.times(200), "draft {draft}");
}

/// The RTT goes down in ProbeRTT by more than a path does, and by less than this flow's queue does:
/// it is others' queue, and neither belief changes. The question comes again after a probe.
#[test]
fn a_queue_of_others_is_neither_a_longer_path_nor_a_slower_link() {
    let mut link = in_cruise(Amendments::NONE);
    let bw = link.bbr().max_bw;
    let (mut answers, mut probes) = (0, 0);
    let end = link.now + Duration::from_secs(6);
    while link.now < end {
        let state = link.state();
        link.rtt = MS.times(if state == State::ProbeRtt { 180 } else { 200 });
        link.step(&mut || false);
        match (state, link.state()) {
            (State::ProbeRtt, State::ProbeBwCruise) => {
                answers += 1;
                assert!(probes > 0 || link.bbr().max_bw == bw, "{:?}", link.bbr());
            }
            (State::ProbeBwRefill, State::ProbeBwUp) => probes += 1,
            _ => {}
        }
        assert!(link.bbr().min_rtt <= Some(MS.times(41)), "{:?}", link.bbr());
    }
    assert!(answers >= 1 && probes >= 1, "{answers} answers, {probes} probes");
    let first = |state| link.states.iter().position(|s| *s == state);
    assert!(first(State::ProbeRtt) < first(State::ProbeBwUp), "{:?}", link.states);
}

/// A path on which nothing overtakes the packet that is late most: its RTT is longer than at the
/// start, and its losses are its own all the same.
#[test]
fn losses_on_a_path_with_jitter_are_the_path_s_own() {
    let carried = |rtt| {
        let mut link = link(Algorithm::BBR3X, Amendments::NONE);
        link.run(MS.times(30));
        link.rtt = rtt;
        link.run_losing(Duration::from_secs(30), 33);
        link.delivered * 100 / (30 * 20_000_000 / 8)
    };
    let (still, late) = (carried(MS.times(40)), carried(MS.times(50)));
    assert!(still >= 80 && late >= 80, "{still} %, {late} % with jitter");
    let far = carried(MS.times(70));
    assert!(far < 75, "{far} %: rather others' queue");
}

/// Chance may lose twice of 5 % in a round of Startup, and jitter hides that there is no queue. A
/// flow whose Startup ended for that would stay at a tenth of the link: each of these 80 does not.
#[test]
fn startup_does_not_end_for_the_path_s_own_losses() {
    for (seed, late) in (1..=40_u64).flat_map(|seed| [(seed, 0), (seed, 4)]) {
        let mut link = Link::new(Algorithm::BBR3X, 50, MS.times(40));
        let mut random = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15);
        let (rtt, end) = (link.rtt, link.now + Duration::from_secs(4));
        while link.now < end {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            link.rtt = rtt + MS.times(if random % 8 < 6 { late } else { 0 });
            let is_lost = random / 8 % 20 == 0;
            link.step(&mut || is_lost);
        }
        let max_bw = link.bbr().max_bw;
        assert!(max_bw > crate::Rate::from_bits_per_sec(35_000_000), "{seed}, {late} ms: {max_bw}");
    }
}

/// Marks where packets wait for more than `above`, as a classic queue does; the window's share of
/// the estimated BDP after ten round trips of a standing queue, in percent.
fn share_of_window(algorithm: Algorithm, without: Amendments, others: Duration) -> u64 {
    let mut link = link(algorithm, without);
    link.run(Duration::from_secs(8));
    link.run_to(State::ProbeBwCruise);
    link.mark_above = MS.times(5);
    let end = link.now + MS.times(400);
    while link.now < end {
        // Others keep a queue.
        link.free = link.free.max(link.now + others);
        link.step(&mut || false);
    }
    link.cc.cwnd() * 100 / link.bbr().bdp
}

/// By 0.7 with each round trip, as CUBIC; the draft's beta takes no more than was not delivered.
#[test]
fn marks_of_a_shared_queue_are_answered_as_losses_are() {
    let shared = MS.times(8);
    let amended = share_of_window(Algorithm::BBR3X, but(Amendment::ClassicMarks), shared);
    assert!(amended <= 30, "{amended} %");
    let off = share_of_window(Algorithm::BBR3X, all(), shared);
    assert!(off >= 60, "{off} % without it");
    let none = share_of_window(Algorithm::BBR3X, but(Amendment::ClassicMarks), Duration::ZERO);
    assert!(none >= 95, "{none} % without a queue");
}

/// The queue of a probe is its own flow's: it ends the probe, and costs no bandwidth.
#[test]
fn a_flow_that_is_alone_pays_nothing_for_marks_of_its_probes() {
    let mut link = link(Algorithm::BBR3X, Amendments::NONE);
    link.run(Duration::from_secs(3));
    link.mark_above = MS.times(4);
    let before = link.delivered;
    link.run(Duration::from_secs(20));
    let percent = (link.delivered - before) * 100 / (20 * 20_000_000 / 8);
    assert!(percent >= 97, "{percent} %");
    assert!(link.states.iter().filter(|state| **state == State::ProbeBwUp).count() >= 5);
}

/// A path whose packets are late by turns holds more than its shortest RTT says.
#[test]
fn the_window_of_cruise_holds_what_a_path_with_jitter_does() {
    let window = |late: Duration| {
        let mut link = link(Algorithm::BBR3X, Amendments::NONE);
        link.run(Duration::from_secs(2));
        link.run_to(State::ProbeBwCruise);
        let rtt = link.rtt;
        let end = link.now + Duration::from_secs(9);
        for i in 0_u64.. {
            if link.now >= end && link.state() == State::ProbeBwCruise {
                break;
            }
            link.rtt = if i / 16 % 2 == 0 { rtt } else { rtt + late };
            link.step(&mut || false);
        }
        let bbr = link.bbr();
        (bbr.max_inflight - bbr.extra_acked) * 100 / bbr.bdp
    };
    let (still, late, most) = (window(Duration::ZERO), window(MS.times(8)), window(MS.times(80)));
    assert!(late >= still + 5, "{still} %, {late} % with jitter");
    assert!(most <= 190, "{most} %: two flows must not take each other's queue for the path");
}

/// Four packets in flight and less are no queue of others, but flows of this kind may queue for two
/// round trips: an RTT of three is what asks, and what is found must be as long.
#[test]
fn a_path_is_not_longer_by_less_than_flows_of_this_kind_may_queue() {
    let mut link = in_cruise(Amendments::NONE);
    let end = link.now + Duration::from_secs(2);
    while link.now < end {
        let is_asked = link.state() == State::ProbeRtt;
        link.rtt = if is_asked { MS.times(117) } else { MS.times(122) };
        link.step(&mut || false);
        assert!(link.bbr().min_rtt <= Some(MS.times(41)), "{:?}", link.bbr());
    }
    assert!(link.states.contains(&State::ProbeRtt), "{:?}", link.states);
}

/// A queue that grows through CRUISE is this flow's, or answers to it, and so are its losses.
#[test]
fn losses_behind_a_queue_that_grows_are_congestion() {
    let mut link = link(Algorithm::BBR3X, Amendments::NONE);
    let (mut since, mut n) = (link.now, 0_u64);
    let end = link.now + Duration::from_secs(30);
    while link.now < end {
        if link.state() != State::ProbeBwCruise {
            since = link.now;
        }
        let grown = Duration::from_nanos(link.now.since(since).as_nanos() / 100);
        link.rtt = MS.times(40) + grown.min(MS.times(4));
        link.step(&mut || {
            n += 1;
            n % 33 == 0
        });
    }
    let percent = link.delivered * 100 / (30 * 20_000_000 / 8);
    assert!(percent < 70, "{percent} %");
}

/// The bound of the marks goes with the others.
#[test]
fn a_flow_has_the_link_again_when_the_others_have_left() {
    let mut link = link(Algorithm::BBR3X, Amendments::NONE);
    link.run(Duration::from_secs(8));
    link.run_to(State::ProbeBwCruise);
    link.mark_above = MS.times(5);
    let end = link.now + MS.times(400);
    while link.now < end {
        link.free = link.free.max(link.now + MS.times(8));
        link.step(&mut || false);
    }
    let bound = link.cc.cwnd() * 100 / link.bbr().bdp;
    link.run(Duration::from_secs(10));
    let before = link.delivered;
    link.run(Duration::from_secs(5));
    let percent = (link.delivered - before) * 100 / (5 * 20_000_000 / 8);
    assert!(bound <= 30 && percent >= 95, "{bound} % of a BDP, later {percent} % of the link");
}

/// Losses and marks of the same round trip are answered once each, and never below four packets.
#[test]
fn marks_beside_losses_leave_four_packets() {
    let mut link = link(Algorithm::BBR3X, Amendments::NONE);
    link.run(Duration::from_secs(8));
    link.run_to(State::ProbeBwCruise);
    link.mark_above = Duration::ZERO;
    let (end, mut n) = (link.now + Duration::from_secs(2), 0_u64);
    while link.now < end {
        link.free = link.free.max(link.now + MS.times(8));
        link.step(&mut || {
            n += 1;
            n % 10 == 0
        });
        assert!(link.cc.cwnd() >= 4 * crate::test_link::SMSS, "{}", link.cc.cwnd());
    }
}

/// Each second group of 16 packets is `late`.
fn run_with_jitter(link: &mut Link, late: Duration, time: Duration) {
    let (rtt, end) = (link.rtt, link.now + time);
    for i in 0_u64.. {
        if link.now >= end {
            break;
        }
        link.rtt = if i / 16 % 2 == 0 { rtt } else { rtt + late };
        link.step(&mut || false);
    }
    link.rtt = rtt;
}

/// One long RTT is no sign of a full link where RTTs vary: UP goes on, and finds a rate three times
/// as high within a few probes.
#[test]
fn a_probe_of_a_faster_link_goes_on_with_jitter() {
    let mut link = link(Algorithm::BBR3X, Amendments::NONE);
    run_with_jitter(&mut link, MS.times(6), Duration::from_secs(10));
    link.rate = crate::Rate::from_bits_per_sec(60_000_000);
    run_with_jitter(&mut link, MS.times(6), Duration::from_secs(4));
    assert!(link.bbr().max_bw > crate::Rate::from_bits_per_sec(50_000_000), "{:?}", link.bbr());
}

/// DOWN ends where jitter keeps the mean RTT far above the shortest.
#[test]
fn down_ends_on_a_path_with_much_jitter() {
    let mut link = link(Algorithm::BBR3X, Amendments::NONE);
    link.run(Duration::from_secs(2));
    run_with_jitter(&mut link, MS.times(40), Duration::from_secs(6));
    let before = link.states.len();
    run_with_jitter(&mut link, MS.times(40), Duration::from_secs(14));
    let states = &link.states[before..];
    let count = |state| states.iter().filter(|s| **s == state).count();
    let (down, cruise) = (count(State::ProbeBwDown), count(State::ProbeBwCruise));
    assert!(down >= 3 && cruise + 1 >= down, "{states:?}");
}

/// The time until Startup ends, and that of the first UP, with marks above 2 ms or without.
fn ends(marks: bool) -> (Duration, Duration) {
    let mut link = link(Algorithm::BBR3X, but(Amendment::ClassicMarks));
    link.mark_above = if marks { MS.times(2) } else { Duration::MAX };
    link.run_to(State::Drain);
    let startup = link.now;
    link.run_to(State::ProbeBwUp);
    let up = link.now;
    link.run_to(State::ProbeBwDown);
    (startup.since(crate::Instant::from_nanos(0)), link.now.since(up))
}

#[test]
fn marks_end_startup_and_a_probe_before_three_rounds_do() {
    let (marked, none) = (ends(true), ends(false));
    assert!(marked.0 + MS.times(40) <= none.0, "Startup: {} and {}", marked.0, none.0);
    assert!(marked.1 + MS.times(40) <= none.1, "UP: {} and {}", marked.1, none.1);
}

/// The bound that others' time has left behind is not what their presence looks like.
#[test]
fn a_flow_is_not_caught_in_its_own_bound() {
    let mut link = Link::new(Algorithm::BBR3X, 200, MS.times(80));
    link.run(Duration::from_secs(3));
    link.mark_above = MS.times(5);
    link.run_to(State::ProbeBwCruise);
    let end = link.now + MS.times(300);
    while link.now < end {
        link.free = link.free.max(link.now + MS.times(8));
        link.step(&mut || false);
    }
    link.run(Duration::from_secs(15));
    let before = link.delivered;
    link.run(Duration::from_secs(15));
    let percent = (link.delivered - before) * 100 / (15 * 200_000_000 / 8);
    assert!(percent >= 96, "{percent} %");
}
