//! Wrong calls by a transport: each is rejected or does no harm. Those that do not compile are
//! shown beside `Controller` and `AckBatch`.

use fullpipe_cc::{AckFrequency, Bbr1Options, BbrSwiftOptions, RttSample};

use super::{
    Algorithm, Config, Controller, Duration, Link, MS, Rate, SMSS, START, SendDecision, State,
    acknowledge, bbr, controller, lose, send,
};

const PACED: [Algorithm; 4] = [Algorithm::BBR3, Algorithm::BBR1, Algorithm::CUBIC, Algorithm::RENO];

/// W9: after a change of path the packets of the old one left the flight of the new one. Whatever
/// is said of them later, nothing changes.
#[test]
fn packets_of_the_path_before_change_nothing() {
    for algorithm in PACED {
        for is_new_path in [false, true] {
            let mut cc = controller(algorithm);
            let old = send(&mut cc, START, 9);
            acknowledge(&mut cc, START + MS.times(40), &old[..1]);
            let now = START + MS.times(50);
            if is_new_path {
                cc.on_migration(now, 7, &Config::new(1));
            } else {
                cc.forget_flight();
            }
            let new = send(&mut cc, now, 5);
            let before = cc.snapshot();
            assert_eq!(before.inflight, 5 * SMSS);
            let mut batch = cc.ack(now + MS.times(30));
            batch.acked(&old[1]);
            batch.lost(&old[2]);
            batch.acked_after_loss(&old[3]);
            batch.acked_bytes(&old[4], 2 * SMSS);
            batch.finish();
            cc.on_discarded(&old[6]);
            assert_eq!(cc.snapshot(), before, "{algorithm}, a new path: {is_new_path}");
            acknowledge(&mut cc, now + MS.times(60), &new);
            let after = cc.snapshot();
            assert_eq!((after.inflight, after.delivered), (0, before.delivered + 5 * SMSS));
        }
    }
}

/// RFC 9000 section 9.4: a path to another host begins with nothing that was learnt on the old one.
#[test]
fn a_migration_begins_anew() {
    for algorithm in PACED {
        let mut link = Link::new(algorithm, 50, MS.times(40));
        link.run(Duration::from_secs(3));
        let config = Config::new(1);
        link.cc.on_migration(link.now, 9, &config);
        let fresh = Controller::new(algorithm, Config::new(9), link.now);
        assert_eq!(link.cc.snapshot(), fresh.snapshot(), "{algorithm}");
        assert_eq!(link.cc.burst_bound(), fresh.burst_bound(), "{algorithm}");
    }
}

/// What the handshake measured is the round trip of the old path. Over a path of 100 ms the flow is
/// as fast as a new one, whichever round trip the old path had.
#[test]
fn a_migration_takes_no_round_trip_along() {
    for algorithm in crate::events::algorithms() {
        if matches!(algorithm, Algorithm::Fixed(_)) {
            continue;
        }
        let delivered = |old_rtt: Option<Duration>, handshake_rtt: Option<Duration>| {
            let config = Config { handshake_rtt, ..Config::new(1) };
            let mut link = Link::with(algorithm, 100, old_rtt.unwrap_or(MS), config);
            if old_rtt.is_some() {
                link.run(Duration::from_secs(1));
                link.cc.on_migration(link.now, 1, &config);
                link.flight.clear();
                assert_eq!(link.cc.snapshot().srtt, None);
            }
            (link.rtt, link.free, link.delivered) = (MS.times(100), link.now, 0);
            link.run(Duration::from_secs(4));
            link.delivered
        };
        let new = delivered(None, None);
        for old_rtt in [MS.times(5), MS.times(300)].map(Some) {
            for handshake_rtt in [None, old_rtt] {
                let moved = delivered(old_rtt, handshake_rtt);
                assert!(
                    moved.abs_diff(new) <= new / 10,
                    "{algorithm}, {old_rtt:?} before, {handshake_rtt:?} by the handshake: {moved}, \
                     and {new} of a new flow"
                );
            }
        }
    }
}

/// The seed of a migration is another one, so that flows which move together do not probe together.
#[test]
fn a_migration_takes_its_seed() {
    let wait_after = |seed| {
        let mut link = Link::new(Algorithm::BBR3, 50, MS.times(40));
        link.flight.clear();
        link.cc.on_migration(link.now, seed, &Config::new(1));
        link.run_to(State::ProbeBwCruise);
        link.bbr().bw_probe_wait
    };
    assert_eq!(wait_after(5), wait_after(5));
    assert_ne!(wait_after(5), wait_after(6));
}

/// The figures that stay are those of the snapshot, whose names may change.
#[test]
fn metrics_are_the_figures_of_the_snapshot() {
    for name in Algorithm::NAMES {
        let mut link = Link::new(name.parse().expect("a name"), 20, MS.times(40));
        link.run_losing(Duration::from_secs(2), 100);
        let (metrics, snapshot) = (link.cc.metrics(), link.cc.snapshot());
        assert_eq!((metrics.state, metrics.cwnd), (snapshot.state, snapshot.cwnd), "{name}");
        assert_eq!((metrics.inflight, metrics.lost), (snapshot.inflight, snapshot.lost), "{name}");
        assert_eq!(metrics.delivered, snapshot.delivered, "{name}");
        assert_eq!((metrics.pacing_rate, metrics.srtt), (snapshot.pacing_rate, snapshot.srtt));
        assert_eq!(metrics.bandwidth, snapshot.bbr.map(|bbr| bbr.bw), "{name}");
        assert_eq!(metrics.ssthresh, snapshot.ssthresh, "{name}");
        let min_rtt = metrics.min_rtt.expect("measured");
        assert!((MS.times(40)..MS.times(42)).contains(&min_rtt), "{name}: {min_rtt}");
    }
}

/// The options are the algorithm's, which stays.
#[test]
fn a_migration_keeps_the_options() {
    for algorithm in [
        crate::events::LINUX_CUBIC,
        Algorithm::Bbr1(Bbr1Options::new().with_ack_aggregation(false)),
        Algorithm::BbrSwift(BbrSwiftOptions::new().with_hops(3)),
        Algorithm::Fixed(Rate::ZERO),
    ] {
        let mut link = Link::new(algorithm, 50, MS.times(40));
        link.cc.on_migration(link.now, 9, &Config::new(1));
        assert_eq!(link.cc.algorithm(), algorithm);
    }
}

/// A timeout said before its losses is the same as one that is said after them.
#[test]
fn a_timeout_and_its_losses_have_no_order() {
    for algorithm in PACED {
        let after = |first: bool| {
            let mut cc = controller(algorithm);
            let packets = send(&mut cc, START, 10);
            let mut batch = cc.ack(START + MS.times(900));
            if first {
                batch.timeout();
            }
            packets.iter().for_each(|p| batch.lost(p));
            if !first {
                batch.timeout();
            }
            batch.finish();
            cc.snapshot()
        };
        assert_eq!(after(true), after(false), "{algorithm}");
        assert!(after(true).cwnd <= 2 * SMSS, "{algorithm}");
    }
}

/// A transport that keeps the newest packet alone gets what one gets that keeps them all.
#[test]
fn bytes_and_the_newest_packet_say_as_much_as_all_packets() {
    for algorithm in PACED {
        let after = |all: bool| {
            let mut cc = controller(algorithm);
            for flight in 0..5 {
                let now = START + MS.times(40 * flight);
                let packets = send(&mut cc, now, 8);
                if all {
                    acknowledge(&mut cc, now + MS.times(40), &packets);
                } else {
                    let mut batch = cc.ack(now + MS.times(40));
                    batch.acked_bytes(&packets[7], 8 * SMSS);
                    batch.finish();
                }
            }
            cc.snapshot()
        };
        assert_eq!(after(true), after(false), "{algorithm}");
    }
}

/// In recovery only what was surely sent within it grows the window.
#[test]
fn bytes_from_before_the_recovery_do_not_grow_the_window() {
    let mut cc = controller(Algorithm::RENO);
    let packets = send(&mut cc, START, 10);
    let now = START + MS.times(40);
    lose(&mut cc, now, &packets[..1]);
    let (reduced, repair) = (cc.cwnd(), send(&mut cc, now, 1));
    let mut batch = cc.ack(now + MS.times(40));
    batch.acked_bytes(&repair[0], 10 * SMSS);
    batch.finish();
    let grown = cc.cwnd() - reduced;
    assert!((1..SMSS).contains(&grown), "one packet's share, not ten: {grown}");
}

/// Karn's algorithm: an ACK of a packet that was sent twice delivers, and measures nothing.
#[test]
fn an_ambiguous_ack_delivers_and_measures_no_round_trip() {
    for algorithm in PACED {
        let mut cc = controller(algorithm);
        let packets = send(&mut cc, START, 4);
        acknowledge(&mut cc, START + MS.times(40), &packets[..1]);
        let before = cc.snapshot();
        for (i, packet) in packets[1..].iter().enumerate() {
            let mut batch = cc.ack(START + MS.times(60 + i as u64));
            batch.acked(packet);
            batch.rtt(RttSample::Ambiguous);
            batch.finish();
        }
        let after = cc.snapshot();
        assert_eq!((after.srtt, after.latest_rtt), (before.srtt, before.latest_rtt));
        assert_eq!(after.bbr.map(|b| b.min_rtt), before.bbr.map(|b| b.min_rtt), "{algorithm}");
        assert_eq!(after.delivered, 4 * SMSS, "{algorithm}");
    }
}

/// A clock of 4 ms on a path of 1.2 ms: every interval is shorter than the shortest sample.
#[test]
fn a_coarse_clock_does_not_make_rates_unreliable() {
    let max_bw = |sample: fn() -> RttSample| {
        let mut cc = controller(Algorithm::BBR3);
        for flight in 0..10 {
            let now = START + Duration::from_micros(1_200 * flight);
            let packets = send(&mut cc, now, 4);
            let mut batch = cc.ack(now + Duration::from_micros(1_200));
            packets.iter().for_each(|p| batch.acked(p));
            batch.rtt(sample());
            batch.finish();
        }
        bbr(&cc).max_bw
    };
    let coarse = || RttSample::Coarse { rtt: MS.times(4), granularity: MS.times(4) };
    assert_eq!(max_bw(coarse), Rate::from_bytes_per_sec(4_000_000));
    assert_eq!(max_bw(|| RttSample::Exact(MS.times(4))), Rate::ZERO, "no path is that fast");
}

/// An aggregate of which a part arrived and a part was lost.
#[test]
fn an_aggregate_can_be_told_of_in_parts() {
    let mut cc = controller(Algorithm::BBR3);
    let aggregate = cc.on_sent(START, 10 * SMSS as u32);
    let (arrived, lost) = aggregate.split(7 * SMSS as u32);
    assert_eq!((arrived.size(), lost.size()), (7 * SMSS, 3 * SMSS));
    assert_eq!((arrived.send_time(), arrived.tx_in_flight()), (START, 10 * SMSS));
    let mut batch = cc.ack(START + MS.times(40));
    batch.acked(&arrived);
    batch.lost(&lost);
    batch.finish();
    let s = cc.snapshot();
    assert_eq!((s.delivered, s.lost, s.inflight), (7 * SMSS, 3 * SMSS, 0));
}

/// A lost aggregate is one range, in however many parts it is told of, and six ranges are six.
#[test]
fn a_lost_aggregate_in_parts_is_one_range() {
    let full_bw_reached = |ranges: usize, parts: u32| {
        let mut cc = controller(Algorithm::BBR3);
        let mut now = START;
        for round in 0..7 {
            let (mut acked, mut lost) = (Vec::new(), Vec::new());
            for n in 0..10 << round {
                let at = now + Duration::from_micros(n);
                // In the sixth round trip, of 320 packets: enough to lose 2 % by.
                if round == 5 && (60..60 + 2 * ranges as u64).contains(&n) && n % 2 == 0 {
                    lost.push(cc.on_sent(at, 12_000));
                }
                acked.push(cc.on_sent(at, SMSS as u32));
            }
            // The episode begins a round trip before.
            if round == 4 {
                lost.push(acked.remove(80));
            }
            now += MS.times(50);
            let mut batch = cc.ack(now);
            for packet in &lost {
                let mut rest = *packet;
                for _ in 1..parts {
                    let (part, others) = rest.split(packet.size() as u32 / parts);
                    batch.lost(&part);
                    rest = others;
                }
                batch.lost(&rest);
            }
            acked.iter().for_each(|packet| batch.acked(packet));
            batch.finish();
            now += MS;
        }
        bbr(&cc).full_bw_reached
    };
    assert!(!full_bw_reached(1, 1) && !full_bw_reached(1, 6));
    assert!(full_bw_reached(6, 1) && full_bw_reached(6, 6));
}

/// "Exiting Startup Based on Packet Loss": a transport that sees one loss a round trip cannot see
/// six.
#[test]
fn without_selective_acks_one_loss_in_recovery_ends_startup() {
    for has_selective_acks in [true, false] {
        let config = Config { has_selective_acks, ..Config::new(1) };
        let mut link = Link::with(Algorithm::BBR3, 200, MS.times(40), config);
        link.run(MS.times(130));
        let mut losses = 0;
        let end = link.now + MS.times(110);
        while link.now < end {
            let (before, round) = (link.lost, link.bbr().round_count);
            let mut lose_one = losses < 3 && round % 2 == 0;
            link.step(&mut || core::mem::take(&mut lose_one));
            losses += link.lost - before;
        }
        assert!(losses > 0);
        assert_eq!(link.bbr().full_bw_reached, !has_selective_acks);
    }
}

/// "BBR.min_rtt = C.srtt ? C.srtt : Infinity", and the pacing rate is that of the handshake's round
/// trip.
#[test]
fn the_first_rate_follows_from_the_handshake() {
    for (algorithm, gain) in [(Algorithm::BBR3, 277), (Algorithm::BBR1, 286)] {
        let config = Config { handshake_rtt: Some(MS.times(100)), ..Config::new(1) };
        let cc = Controller::new(algorithm, config, START);
        let rate = cc.pacing_rate().expect("paced").as_bytes_per_sec();
        let expected = 12_000 * 10 * gain / 100;
        assert!(rate.abs_diff(expected) <= expected / 50, "{algorithm}: {rate}, {expected}");
        assert_eq!(
            (bbr(&cc).min_rtt, cc.snapshot().srtt),
            (Some(MS.times(100)), Some(MS.times(100)))
        );
        let delivered = |config| {
            let mut link = Link::with(algorithm, 50, MS.times(100), config);
            link.run(Duration::from_secs(3));
            link.delivered
        };
        let (with, without) = (delivered(config), delivered(Config::new(1)));
        assert!(with > without * 95 / 100, "{algorithm}: {with}, {without} without");
    }
    let config = Config { handshake_rtt: Some(MS.times(100)), ..Config::new(1) };
    assert_eq!(
        Controller::new(Algorithm::RENO, config, START).snapshot().srtt,
        Some(MS.times(100))
    );
}

/// "QUIC Offload Budget": min(Ack-Eliciting Threshold, Requested Max Ack Delay * BBR.max_bw) more.
#[test]
fn rarer_acks_widen_the_offload_budget() {
    // The BDP of 6 kB is below the budget, which is what counts then.
    let max_inflight = |ack_frequency| {
        let mut link = Link::new(Algorithm::BBR3, 50, MS);
        link.cc.on_ack_frequency(ack_frequency);
        link.run_to(State::ProbeBwCruise);
        (link.bbr().max_inflight, link.cc.send_quantum(), link.bbr().max_bw)
    };
    let frequency =
        |threshold_packets, ms| Some(AckFrequency { threshold_packets, max_delay: MS.times(ms) });
    let (inflight, quantum, _) = max_inflight(frequency(20, 1_000));
    assert_eq!(inflight, quantum + 20 * SMSS);
    let (inflight, quantum, bw) = max_inflight(frequency(1_000, 5));
    assert_eq!(inflight, quantum + bw.bytes_in(MS.times(5)));
    assert!(max_inflight(None).0 < inflight);
}

/// A transport that fills aggregates waits until the whole of one may leave, and no longer.
#[test]
fn an_aggregate_is_ready_when_its_last_byte_is() {
    let rate = Rate::from_bits_per_sec(100_000_000);
    let mut cc = Controller::new(Algorithm::Fixed(rate), Config::new(1), START);
    let burst = cc.burst_bound();
    _ = cc.on_sent(START, burst as u32);
    for packets in [1, 2, 5, 10] {
        let bytes = packets * SMSS;
        let at = cc.ready_at(START, bytes);
        assert_eq!(at, START + rate.time_for(bytes));
        let quantum = |at| match cc.clone().can_send(at) {
            SendDecision::Now { quantum } => quantum,
            _ => 0,
        };
        assert!(quantum(at) >= bytes && quantum(at - Duration::from_nanos(100)) < bytes);
    }
    assert!(cc.ready_at(START, u64::MAX) <= START + rate.time_for(burst));
    assert_eq!(cc.ready_at(START + MS.times(50), SMSS), START + MS.times(50));
}

#[test]
fn no_rate_is_above_the_maximum() {
    let max = Rate::from_bits_per_sec(8_000_000);
    for algorithm in PACED {
        for paced in [true, false] {
            let config = Config { max_pacing_rate: Some(max), paced, ..Config::new(1) };
            let mut link = Link::with(algorithm, 50, MS.times(40), config);
            let (start, burst) = (link.now, link.cc.burst_bound());
            link.run(Duration::from_secs(6));
            assert!(link.cc.pacing_rate().is_some_and(|rate| rate <= max), "{algorithm}");
            let sent = link.delivered + link.cc.inflight();
            let allowed = max.bytes_in(link.now.since(start)) + burst;
            assert!(sent <= allowed, "{algorithm}: {sent} of {allowed}");
            assert!(sent > allowed * 85 / 100, "{algorithm}: {sent} of {allowed}");
        }
    }
}

/// A burst is what the rate gives in the granularity, but no more than a quarter of the round trip.
#[test]
fn a_burst_is_bounded_by_granularity_and_round_trip() {
    for (granularity_us, rtt_us, expected_us) in
        [(2_000, 100_000, 2_000), (500, 100_000, 500), (2_000, 4_000, 1_000), (2_000, 1_000, 250)]
    {
        let pacing_granularity = Duration::from_micros(granularity_us);
        let config = Config { pacing_granularity, ..Config::new(1) };
        let mut link = Link::with(Algorithm::BBR3, 1_000, Duration::from_micros(rtt_us), config);
        link.run_to(State::ProbeBwCruise);
        let rate = link.cc.pacing_rate().expect("paced");
        let bound = rate.bytes_in(Duration::from_micros(expected_us)).max(link.cc.send_quantum());
        // The round trip includes the packet's own transmission.
        let burst = link.cc.burst_bound();
        assert!(burst.abs_diff(bound) <= bound / 20, "{granularity_us} {rtt_us}: {burst}, {bound}");
    }
}

/// Also where the rate never changes.
#[test]
fn a_burst_at_a_fixed_rate_follows_the_round_trip() {
    let rate = Rate::from_bits_per_sec(2_000_000_000);
    for rtt_us in [1_000, 4_000, 20_000] {
        let rtt = Duration::from_micros(rtt_us);
        let mut link = Link::new(Algorithm::Fixed(rate), 4_000, rtt);
        link.run(MS.times(60));
        let expected = rate.bytes_in(Duration::from_micros((rtt_us / 4).min(2_000)));
        let burst = link.cc.burst_bound();
        assert!(burst.abs_diff(expected) <= expected / 20, "{rtt}: {burst}, {expected}");
    }
}

/// A transport that asks for marks must get an answer to them.
#[test]
fn an_algorithm_that_wants_ecn_answers_marks() {
    for (algorithm, ecn, wants) in [
        (Algorithm::BBR3, false, true),
        (Algorithm::BBR3_LINUX, false, false),
        (Algorithm::BBR3_LINUX, true, true),
        (Algorithm::BBR3X_LINUX, false, false),
        (Algorithm::BBR3X_LINUX, true, true),
        (Algorithm::BBR_SWIFT, false, true),
        (Algorithm::PRAGUE, false, true),
        (Algorithm::PRAGUE, true, true),
        (Algorithm::BBR1, false, false),
        (Algorithm::CUBIC, false, true),
        (Algorithm::RENO, false, true),
        (Algorithm::Fixed(Rate::MAX), false, false),
    ] {
        let config = Config { ecn, ..Config::new(1) };
        assert_eq!(Controller::new(algorithm, config, START).wants_ecn(), wants, "{algorithm}");
        if matches!(algorithm, Algorithm::Fixed(_)) {
            continue;
        }
        let delivered = |mark_above| {
            let mut link = Link::with(algorithm, 50, MS.times(4), config);
            link.mark_above = mark_above;
            link.run(Duration::from_secs(4));
            // A queue shows in the round trip.
            link.cc.snapshot().srtt.expect("measured")
        };
        if !wants {
            assert_eq!(delivered(MS), delivered(Duration::MAX), "{algorithm}");
        } else if [Algorithm::RENO, Algorithm::CUBIC, Algorithm::PRAGUE].contains(&algorithm) {
            assert!(delivered(MS) < delivered(Duration::MAX), "{algorithm}");
        }
    }
}

#[test]
fn a_send_buffer_holds_three_windows_for_bbr_and_two_for_the_others() {
    for (algorithm, windows) in
        [(Algorithm::BBR3, 3), (Algorithm::BBR1, 3), (Algorithm::CUBIC, 2), (Algorithm::RENO, 2)]
    {
        assert_eq!(controller(algorithm).send_buffer_windows(), windows);
    }
}

#[test]
fn the_state_is_that_of_the_snapshot() {
    for name in Algorithm::NAMES {
        let algorithm = name.parse().expect("a name");
        let (mut link, mut states) = (Link::new(algorithm, 50, MS.times(40)), vec![]);
        while link.now < START + Duration::from_secs(12) {
            link.step(&mut || false);
            assert_eq!(link.cc.state(), link.cc.snapshot().state, "{name}");
            if states.last() != Some(&link.cc.state()) {
                states.push(link.cc.state());
            }
        }
        assert!(states.len() > 1, "{name}: {states:?}");
    }
}

/// A probe that was lost for its size leaves the flight within a batch as it does outside of one.
#[test]
fn a_packet_that_is_discarded_in_a_batch_leaves_the_flight_alone() {
    for algorithm in PACED {
        let after = |is_in_batch: bool| {
            let mut cc = controller(algorithm);
            let packets = send(&mut cc, START, 3);
            if !is_in_batch {
                cc.on_discarded(&packets[0]);
            }
            let mut batch = cc.ack(START + MS.times(40));
            if is_in_batch {
                batch.discarded(&packets[0]);
            }
            batch.finish();
            (cc.inflight(), cc.snapshot())
        };
        assert_eq!(after(true), after(false), "{algorithm}");
        assert_eq!(after(true).0, 2 * SMSS, "{algorithm}");
    }
}

#[cfg(debug_assertions)]
mod assertions {
    use fullpipe_cc::PacketState;

    use super::*;

    fn sent(n: usize) -> (Controller, Vec<PacketState>) {
        let mut cc = controller(Algorithm::BBR3);
        let packets = send(&mut cc, START, n);
        (cc, packets)
    }

    #[test]
    #[should_panic(expected = "acknowledged or lost twice")]
    fn a_packet_is_not_acknowledged_twice() {
        let (mut cc, packets) = sent(1);
        acknowledge(&mut cc, START + MS, &packets);
        acknowledge(&mut cc, START + MS, &packets);
    }

    #[test]
    #[should_panic(expected = "acknowledged or lost twice")]
    fn a_packet_is_not_lost_after_it_was_acknowledged() {
        let (mut cc, packets) = sent(1);
        acknowledge(&mut cc, START + MS, &packets);
        lose(&mut cc, START + MS, &packets);
    }

    #[test]
    #[should_panic(expected = "split beyond the end")]
    fn an_aggregate_is_not_split_beyond_its_end() {
        _ = sent(1).1[0].split(SMSS as u32 + 1);
    }

    #[test]
    #[should_panic(expected = "the newest packet is more than all")]
    fn the_newest_packet_is_among_the_bytes() {
        let (mut cc, packets) = sent(2);
        cc.ack(START + MS).acked_bytes(&packets[1], SMSS - 1);
    }
}
