//! The amendments of `bbr3x`: without them it is the draft, and each does what it is for.

use crate::amendments::{Amendment, Amendments};
use crate::test_link::{Link, MS, TokenBucket};
use crate::{Algorithm, Config, Duration, State};

/// `algorithm` without these amendments, if it has any.
fn but_for(algorithm: Algorithm, without: Amendments) -> Algorithm {
    match algorithm {
        Algorithm::Bbr3x(options) => Algorithm::Bbr3x(options.without(without)),
        Algorithm::Bbr3xLinux(options) => Algorithm::Bbr3xLinux(options.without(without)),
        other => other,
    }
}

pub(super) fn link(algorithm: Algorithm, without: Amendments) -> Link {
    Link::new(but_for(algorithm, without), 20, MS.times(40))
}

pub(super) fn all() -> Amendments {
    Amendment::ALL.into_iter().fold(Amendments::NONE, Amendments::with)
}

/// All amendments but `amendment`.
pub(super) fn but(amendment: Amendment) -> Amendments {
    let others = Amendment::ALL.into_iter().filter(|other| *other != amendment);
    others.fold(Amendments::NONE, Amendments::with)
}

#[test]
fn without_its_amendments_it_is_the_flavour_that_they_amend() {
    let pairs =
        [(Algorithm::BBR3, Algorithm::BBR3X), (Algorithm::BBR3_LINUX, Algorithm::BBR3X_LINUX)];
    for ((plain, amended), every) in
        pairs.map(|pair| [0, 10, 40, 300].map(|n| (pair, n))).as_flattened()
    {
        let (mut draft, mut none) = (link(*plain, Amendments::NONE), link(*amended, all()));
        for _ in 0..300 {
            for link in [&mut draft, &mut none] {
                match *every {
                    0 => link.run(MS.times(100)),
                    n => link.run_losing(MS.times(100), n),
                }
            }
            let of = |link: &Link| (link.now, link.cc.cwnd(), link.cc.pacing_rate(), link.bbr());
            assert_eq!(of(&draft), of(&none), "{amended}, every {every}");
        }
        assert_eq!(draft.states, none.states);
        assert!(draft.states.len() > 10 && draft.delivered == none.delivered);
    }
}

/// The longest queue after Startup, in time at the link's rate.
fn longest_queue(link: &mut Link) -> Duration {
    link.run_to(State::ProbeBwCruise);
    let end = link.now + Duration::from_secs(20);
    let mut longest = Duration::ZERO;
    while link.now < end {
        link.step(&mut || false);
        longest = longest.max(link.free.since(link.now));
    }
    longest
}

#[test]
fn a_probe_of_a_flow_that_is_alone_makes_half_the_queue() {
    let draft = longest_queue(&mut link(Algorithm::BBR3, Amendments::NONE));
    let mut amended = link(Algorithm::BBR3X, but(Amendment::ShortProbe));
    let queue = longest_queue(&mut amended);
    assert!(queue.times(2) < draft && queue > MS, "{queue}, draft {draft}");
    assert!(amended.states.contains(&State::ProbeBwUp));
}

#[test]
fn a_probe_of_a_faster_link_goes_on() {
    let mut link = link(Algorithm::BBR3X, Amendments::NONE);
    link.run(Duration::from_secs(10));
    link.rate = crate::Rate::from_bits_per_sec(60_000_000);
    link.run(Duration::from_secs(5));
    assert!(link.bbr().max_bw > crate::Rate::from_bits_per_sec(55_000_000), "{:?}", link.bbr());
}

/// The times at which ProbeRTT was entered in 30 s.
fn probe_rtts(algorithm: Algorithm, without: Amendments) -> usize {
    let mut link = link(algorithm, without);
    link.run(Duration::from_secs(30));
    link.states.iter().filter(|state| **state == State::ProbeRtt).count()
}

#[test]
fn a_flow_that_is_alone_needs_one_probe_rtt_in_twenty_seconds() {
    let draft = probe_rtts(Algorithm::BBR3, Amendments::NONE);
    let amended = probe_rtts(Algorithm::BBR3X, but(Amendment::ProbeRttOnDemand));
    assert!(draft >= 5 && amended == 1, "{amended}, draft {draft}");
}

#[test]
fn the_path_s_own_losses_are_no_congestion() {
    let delivered = |algorithm, without| {
        let mut link = link(algorithm, without);
        link.run_losing(Duration::from_secs(30), 33);
        link.delivered
    };
    let draft = delivered(Algorithm::BBR3, Amendments::NONE);
    let without = delivered(Algorithm::BBR3X, Amendments::NONE.with(Amendment::PathLoss));
    let amended = delivered(Algorithm::BBR3X, Amendments::NONE);
    let link = 30 * 20_000_000 / 8;
    assert!(amended > link * 8 / 10, "{amended} of {link}, draft {draft}");
    assert!(draft < link / 2 && without < link * 7 / 10, "draft {draft}, without {without}");
}

/// Bytes delivered in 30 s by a path that loses 3 % and never queues, on which `long` ACKs came 10
/// ms late.
fn delivered_after_late_acks(long: usize) -> u64 {
    let mut link = link(Algorithm::BBR3X, Amendments::NONE);
    link.rate = crate::Rate::from_bits_per_sec(1_000_000_000);
    let (rate, filled) = (crate::Rate::from_bits_per_sec(20_000_000), link.now);
    link.policer = Some(TokenBucket { rate, depth: 12_000, tokens: 12_000, filled });
    link.run_to(State::ProbeBwCruise);
    // ACKs that the receiver held back, each for itself.
    for flight in link.flight.iter_mut().take(long) {
        flight.ack += MS.times(10);
    }
    let late = link.flight.get(long.max(1) - 1).map_or(link.now, |flight| flight.ack);
    for flight in link.flight.iter_mut().skip(long) {
        flight.ack = flight.ack.max(late + MS);
    }
    let before = link.delivered;
    link.run_losing(Duration::from_secs(30), 33);
    link.delivered - before
}

#[test]
fn a_delayed_ack_is_no_queue_and_several_are() {
    let sent = 30 * 20_000_000 / 8;
    for long in [0, 1, 3] {
        assert!(delivered_after_late_acks(long) < sent * 6 / 10, "{long} late ACKs");
    }
    assert!(delivered_after_late_acks(12) > sent * 8 / 10);
}

/// The share of CRUISE's ACKs, in percent, after which the flow was paced at the estimated
/// bandwidth itself; the RTT is `longer` than the shortest one.
fn paced_without_margin(without: Amendments, longer: Duration) -> u64 {
    let mut link = link(Algorithm::BBR3X, without);
    link.run(Duration::from_secs(8));
    link.rtt = link.rtt + longer;
    let (mut acks, mut at_bw, end) = (0, 0, link.now + Duration::from_secs(20));
    while link.now < end {
        link.step(&mut || false);
        if link.state() == State::ProbeBwCruise {
            acks += 1;
            at_bw += u64::from(link.cc.pacing_rate() == Some(link.bbr().bw));
        }
    }
    at_bw * 100 / acks
}

#[test]
fn a_cruise_without_a_queue_needs_no_pacing_margin() {
    assert!(paced_without_margin(Amendments::NONE, Duration::ZERO) > 90);
    let queue = MS.times(3);
    assert!(paced_without_margin(Amendments::NONE, queue) < 5, "an RTT above the shortest");
    let off = Amendments::NONE.with(Amendment::SmallCruiseQueue);
    assert_eq!(paced_without_margin(off, Duration::ZERO), 0);
}

#[test]
fn a_long_round_trip_has_fewer_probe_rtts_and_empty_queues_before_probes() {
    let count = |algorithm, without| {
        let mut link = Link::new(but_for(algorithm, without), 1, Duration::from_secs(2));
        link.run(Duration::from_secs(100));
        let probe_rtts = link.states.iter().filter(|state| **state == State::ProbeRtt).count();
        (probe_rtts, link.delivered)
    };
    let draft = count(Algorithm::BBR3, Amendments::NONE);
    let amended = count(Algorithm::BBR3X, but(Amendment::TimersInRoundTrips));
    assert!(amended.0 <= 3 && draft.0 >= 7, "{amended:?}, draft {draft:?}");
    assert!(amended.1 * 100 > draft.1 * 107, "{amended:?}, draft {draft:?}");
}

#[test]
fn probe_rtt_has_the_least_window_where_the_path_holds_no_more() {
    let packets = |mbps, algorithm, without| {
        let mut link = Link::new(but_for(algorithm, without), mbps, MS.times(20));
        link.run(Duration::from_secs(8));
        // A queue that others keep until min_rtt has it.
        link.rtt = MS.times(400);
        link.run(Duration::from_secs(25));
        assert!(link.bbr().min_rtt.is_some_and(|rtt| rtt >= MS.times(400)));
        link.run_to(State::ProbeRtt);
        link.cc.cwnd() / crate::test_link::SMSS
    };
    let amended = but(Amendment::ProbeRttOnDemand);
    for (mbps, draft, least) in [(1, 20..=22, 4..=4), (20, 400..=430, 400..=430)] {
        let of_draft = packets(mbps, Algorithm::BBR3, Amendments::NONE);
        let of_amended = packets(mbps, Algorithm::BBR3X, amended);
        assert!(draft.contains(&of_draft), "{of_draft} at {mbps} Mbit/s");
        assert!(least.contains(&of_amended), "{of_amended} at {mbps} Mbit/s");
    }
}

/// A flow in a CRUISE that has had some rounds.
fn cruising_link(without: Amendments) -> Link {
    let mut link = link(Algorithm::BBR3X, without);
    link.run_to(State::ProbeBwCruise);
    link.run(MS.times(200));
    assert_eq!(link.state(), State::ProbeBwCruise);
    link
}

/// The duration of UP behind a queue of 40 ms that others made.
fn up_behind_a_queue(without: Amendments) -> Duration {
    let mut link = cruising_link(without);
    link.rtt = MS.times(80);
    link.run_to(State::ProbeBwUp);
    let start = link.now;
    link.run_to(State::ProbeBwDown);
    link.now.since(start)
}

#[test]
fn up_behind_a_queue_of_others_ends_after_two_rounds() {
    let draft = up_behind_a_queue(all());
    let amended = up_behind_a_queue(but(Amendment::ShortProbe));
    assert!(amended >= MS.times(150) && amended <= MS.times(200), "{amended}");
    assert!(draft >= amended + MS.times(70), "{amended}, draft {draft}");
}

/// BBR.max_inflight of CRUISE over the estimated BDP, in percent, at a rate in Mbit/s.
fn window_of_cruise(rate: u64, without: Amendments) -> u64 {
    let mut link = Link::new(but_for(Algorithm::BBR3X, without), rate, MS.times(40));
    link.run(Duration::from_secs(8));
    link.run_to(State::ProbeBwCruise);
    link.run(MS.times(500));
    let bbr = link.bbr();
    (bbr.max_inflight - bbr.extra_acked) * 100 / bbr.bdp
}

#[test]
fn a_small_flow_has_a_larger_part_of_the_queue_in_cruise() {
    let amended = but(Amendment::SmallCruiseQueue);
    let of = |rate| window_of_cruise(rate, amended);
    // Eight packets are 24 % of 10 Mbit/s x 40 ms, and 1 % of the BDP of 200 Mbit/s.
    let (slow, middle, fast) = (of(3), of(10), of(200));
    assert!(slow > middle && middle > fast + 15, "{slow}, {middle}, {fast}");
    assert!((102..=106).contains(&fast), "{fast}");
    assert!(window_of_cruise(10, all()) > 195);
}

#[test]
fn cruise_believes_what_it_delivers_behind_a_queue() {
    let believed = |mbps: u64, without| {
        let mut link = cruising_link(without);
        link.rate = crate::Rate::from_bits_per_sec(mbps * 1_000_000);
        link.run(MS.times(1500));
        assert_eq!(link.state(), State::ProbeBwCruise);
        link.bbr().max_bw.as_bits_per_sec() / 100_000
    };
    let amended = but(Amendment::SmallCruiseQueue);
    assert!((165..=175).contains(&believed(17, amended)), "{}", believed(17, amended));
    assert!(believed(17, all()) > 190);
    // Several flows believe in at most 1.25 times the link: this link itself has become slower.
    assert!(believed(14, amended) > 190);
}

#[test]
fn names_are_read_and_unknown_ones_refused() {
    for amendment in Amendment::ALL {
        let set: Amendments = amendment.name().parse().expect("its name");
        assert!(Amendment::ALL.iter().all(|a| set.contains(*a) == (*a == amendment)));
    }
    assert_eq!("none".parse(), Ok(Amendments::NONE));
    let two = Amendments::NONE.with(Amendment::ShortProbe).with(Amendment::PathLoss);
    assert_eq!("short_probe+path_loss".parse(), Ok(two));
    for wrong in ["", "short", "short_probe+", "none+short_probe"] {
        assert!(wrong.parse::<Amendments>().is_err(), "{wrong}");
    }
}

/// Where a receiver leaves much unacknowledged, the room for it follows the bandwidth that CRUISE
/// takes, also where the short-term bound holds BBR.bw below both.
#[test]
fn the_window_of_rare_acks_follows_the_bandwidth_that_cruise_takes() {
    let max_delay = Duration::from_millis(800);
    let ack_frequency = Some(crate::AckFrequency { threshold_packets: 5_000, max_delay });
    let (mut taken, mut seed) = (0, 1_u64);
    for algorithm in [Algorithm::BBR3X, Algorithm::BBR3X_LINUX] {
        for rtt_ms in [20, 30, 40, 50] {
            let config = Config { ack_frequency, ..Config::new(rtt_ms) };
            let mut link = Link::with(algorithm, 30, MS.times(rtt_ms), config);
            link.run(Duration::from_secs(6));
            let (mut before, mut last, mut losing) = (link.now, link.bbr(), 3);
            let end = link.now + Duration::from_secs(15);
            while link.now < end {
                // Another flow's packets, and a queue that stands.
                let share = link.now.since(before).as_nanos() / (3 + rtt_ms % 12);
                before = link.now;
                link.free = link.free.max(link.now) + Duration::from_nanos(share);
                if link.free.since(link.now) < Duration::from_nanos(link.rtt.as_nanos() / 4) {
                    link.free += Duration::from_nanos(link.rtt.as_nanos() / 200);
                }
                let mut below = |n: u64| {
                    seed ^= seed << 13;
                    seed ^= seed >> 7;
                    seed ^= seed << 17;
                    seed % n
                };
                if below(3_000) == 0 {
                    losing = [0, 2, 6, 10][below(4) as usize];
                }
                link.step(&mut || below(100) < losing);
                let bbr = link.bbr();
                taken += u32::from(bbr.max_bw < last.max_bw && bbr.bw == last.bw);
                let delayed = (5_000 * link.size).min(bbr.max_bw.bytes_in(max_delay));
                let most = 3 * link.cc.send_quantum() + delayed + 2 * link.size;
                let model = bbr.bdp * 9 / 4 + bbr.extra_acked + 2 * link.size;
                assert!(bbr.max_inflight <= most.max(model), "{algorithm} {rtt_ms} ms: {bbr:?}");
                last = bbr;
            }
        }
    }
    assert!(taken > 0, "no maximum fell under a short-term bound");
}
