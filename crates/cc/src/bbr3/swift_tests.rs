//! `bbr-swift` over a link, and what of BBR it changes.

use super::State;
use crate::test_link::{Link, MS};
use crate::{Algorithm, BbrSwiftOptions, Config, Duration, SendDecision};

const RTT: Duration = Duration::from_micros(25);
/// Of [`BbrSwiftOptions::new`], with its hops.
const TARGET: Duration = Duration::from_micros(44);

fn data_center(mbit: u64) -> Link {
    let config = Config { smss: 1_452, handshake_rtt: Some(RTT), ..Config::new(1) };
    Link::with(Algorithm::BBR_SWIFT, mbit, RTT, config)
}

/// The share of the link that is carried in `time`, and the longest queue.
fn measure(link: &mut Link, time: Duration) -> (u64, Duration) {
    let (end, before, mut longest) = (link.now + time, link.delivered, Duration::ZERO);
    while link.now < end {
        link.step(&mut || false);
        longest = longest.max(link.free.since(link.now));
    }
    ((link.delivered - before) * 1_000 / link.rate.bytes_in(time), longest)
}

#[test]
fn one_flow_fills_the_link_and_keeps_its_target() {
    for mbit in [1_000, 10_000, 100_000] {
        let mut link = data_center(mbit);
        link.run(MS.times(5));
        let (permille, longest) = measure(&mut link, MS.times(20));
        assert!(permille >= 970, "{mbit} Mbit/s: {permille}");
        let most = TARGET + link.rate.time_for(link.cc.burst_bound());
        assert!(longest <= most, "{mbit} Mbit/s: {longest}");
    }
}

/// Startup ends when a round's shortest network RTT is above the target, and not after three rounds
/// of a plateau.
#[test]
fn startup_ends_with_a_round_above_the_target() {
    let mut link = data_center(1_000);
    link.run_to(State::Drain);
    let drained = link.bbr();
    assert!(drained.full_bw_count < 3, "{drained:?}");
    let window = drained.inflight_shortterm.expect("the fabric window");
    let bdp = link.rate.bytes_in(RTT);
    assert!((bdp / 2..=2 * bdp).contains(&window), "{window} of {bdp}");
}

/// The queue of others alone is ten times the target: the window shrinks to its least, which is a
/// packet in 25 ms, and no further, and packets leave all the same. When the others are gone the
/// flow has the link again.
#[test]
fn a_window_below_one_packet_is_kept_by_pacing() {
    let mut link = data_center(10_000);
    link.run(MS.times(5));
    let end = link.now + Duration::from_secs(1);
    let (mut packets, mut least) = (0, u64::MAX);
    while link.now < end {
        link.free = link.free.max(link.now + TARGET.times(10));
        let before = link.delivered;
        link.step(&mut || false);
        packets += (link.delivered - before) / link.size;
        least = least.min(link.bbr().inflight_shortterm.unwrap_or(u64::MAX));
        assert!(link.cc.cwnd() >= link.size);
    }
    assert!(least <= 1_452 / 50, "{least} bytes");
    // A packet in 25 ms is the least; probes let a few more pass.
    assert!((30..600).contains(&packets), "{packets} packets");
    link.run(MS.times(100));
    let (permille, _) = measure(&mut link, MS.times(20));
    assert!(permille >= 900, "{permille}");
}

/// However small the window, a packet leaves at the time that the pacer names.
#[test]
fn a_flow_with_the_least_window_is_never_stuck() {
    let mut link = data_center(10_000);
    for _ in 0..3_000 {
        link.free = link.now + TARGET.times(20);
        link.step(&mut || false);
    }
    while !link.flight.is_empty() {
        link.busy = false;
        link.step(&mut || false);
    }
    match link.cc.can_send(link.now) {
        SendDecision::Now { .. } => {}
        SendDecision::At(at) => {
            assert!(at.since(link.now) <= MS.times(30), "{}", at.since(link.now));
            assert!(matches!(link.cc.can_send(at), SendDecision::Now { .. }));
        }
        SendDecision::CwndLimited => panic!("nothing is in flight: {:?}", link.cc),
    }
}

/// A receiver that takes three times the round trip and says so makes no difference to the network
/// window, and with room for what it holds none to the rate; whether it calls that its host or ACK
/// Delay. No shorter round trip was ever measured: not by a handshake either.
#[test]
fn a_busy_receiver_does_not_slow_the_network_window() {
    for is_host in [true, false] {
        let mut link = Link::with(Algorithm::BBR_SWIFT, 10_000, RTT, Config::new(1));
        link.receiver_delay = RTT.times(3);
        if !is_host {
            (link.told_delay, link.told_wait) = (Some(Duration::ZERO), link.receiver_delay);
        }
        link.run(MS.times(5));
        let (permille, longest) = measure(&mut link, MS.times(20));
        assert!(permille >= 970, "{permille}");
        assert!(longest <= TARGET, "{longest}");
        let min_rtt = link.bbr().min_rtt.expect("measured");
        assert!(min_rtt <= RTT + Duration::from_micros(2), "{min_rtt}");
    }
}

/// Packets that stay in the receiver's host longer than its target shrink the endpoint window.
#[test]
fn a_receiver_above_its_target_shrinks_the_endpoint_window() {
    let cwnd_of = |endpoint_target| {
        let options = BbrSwiftOptions::new().with_endpoint_target(endpoint_target);
        let config = Config { handshake_rtt: Some(RTT), ..Config::new(1) };
        let mut link = Link::with(Algorithm::BbrSwift(options), 10_000, RTT, config);
        link.receiver_delay = Duration::from_micros(200);
        link.run(MS.times(20));
        link.cc.cwnd()
    };
    let (below, above) = (cwnd_of(Duration::from_micros(300)), cwnd_of(Duration::from_micros(100)));
    assert!(above * 4 < below, "{above} and {below}");
}

/// More delay than there was does not make the path shorter than a sixteenth, and the queue that it
/// hides is the endpoint's target at most: above it a host shrinks the endpoint window, and a wait
/// gets no more room.
#[test]
fn a_receiver_that_exaggerates_hides_a_bounded_queue() {
    let (second, none) = (Duration::from_secs(1), Duration::ZERO);
    for (told, wait) in [(second, none), (none, second), (none, RTT), (second, second)] {
        for mbit in [1_000, 10_000, 100_000] {
            let mut link = data_center(mbit);
            (link.told_delay, link.told_wait) = (Some(told), wait);
            link.run(MS.times(5));
            let (_, longest) = measure(&mut link, MS.times(20));
            let most = BbrSwiftOptions::new().endpoint_target() + link.rate.time_for(1_452);
            assert!(longest <= most, "{told} and {wait}, {mbit} Mbit/s: {longest}");
            let min_rtt = link.bbr().min_rtt.expect("measured");
            assert!(min_rtt.as_nanos() >= RTT.as_nanos() / 16, "{min_rtt}");
        }
    }
}

/// A wait for more to acknowledge is no slow host: the endpoint window stays out of force.
#[test]
fn a_wait_does_not_shrink_the_endpoint_window() {
    let cwnd_of = |host, wait| {
        let mut link = data_center(10_000);
        link.receiver_delay = host + wait;
        (link.told_delay, link.told_wait) = (Some(host), wait);
        link.run(MS.times(20));
        link.cc.cwnd()
    };
    let wait = Duration::from_micros(200);
    let (busy, waiting) = (cwnd_of(wait, Duration::ZERO), cwnd_of(Duration::ZERO, wait));
    assert!(busy * 4 < waiting, "{busy} and {waiting}");
}

/// The other algorithms do the same whatever the receiver's delay is.
#[test]
fn others_ignore_the_receivers_delay() {
    for algorithm in [Algorithm::BBR3, Algorithm::BBR3X, Algorithm::BBR3_LINUX, Algorithm::BBR1] {
        let sent = |told: Option<Duration>| {
            let mut link = Link::new(algorithm, 50, MS.times(10));
            link.told_delay = told;
            link.told_wait = told.unwrap_or_default();
            link.run(Duration::from_secs(2));
            (link.delivered, link.states, link.cc.snapshot())
        };
        let (silent, told) = (sent(None), sent(Some(MS.times(3))));
        assert_eq!(silent.0, told.0, "{algorithm}");
        assert_eq!(silent.1, told.1, "{algorithm}");
        assert_eq!(std::format!("{:?}", silent.2), std::format!("{:?}", told.2), "{algorithm}");
    }
}

/// A probe that the law ends on the first ACK of a round ends no cycle of the filter with the same
/// ACK: the probe's own samples come in for a round more.
#[test]
fn a_cycle_of_the_filter_ends_a_round_after_the_probe() {
    let mut ended = 0;
    for (mbit, rtt_us) in [(100, 30), (1_000, 30), (10_000, 50)] {
        let config = Config { smss: 1_452, ..Config::new(3) };
        let mut link =
            Link::with(Algorithm::BBR_SWIFT, mbit, Duration::from_micros(rtt_us), config);
        let (mut before, mut last) = (link.now, (link.state(), link.bbr()));
        for step in 0..100_000 {
            // Others have a share of the link, which changes.
            let share = 2 + step / 7_000 % 6;
            link.free = link.free.max(link.now)
                + Duration::from_nanos(link.now.since(before).as_nanos() / share);
            before = link.now;
            link.step(&mut || false);
            let (state, bbr) = (link.state(), link.bbr());
            if last.0 == State::ProbeBwUp && state != State::ProbeBwUp && bbr.prev_probe_too_high {
                assert!(bbr.max_bw >= last.1.max_bw, "{mbit} Mbit/s: the cycle ended with UP");
                ended += u32::from(bbr.round_start);
            }
            last = (state, bbr);
        }
    }
    assert!(ended > 20, "{ended} probes ended with a round");
}
