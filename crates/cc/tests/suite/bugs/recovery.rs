//! ProbeRTT, idleness, loss and what comes after.

use super::{Algorithm, BBRS, Duration, Link, MS, PacketState, Rate, SMSS, State, lose, time_out};

/// R1: ProbeRTT took two rounds for one (mvfst 38a0ea21). On a path longer than its 200 ms it lasts
/// until the window is down, a round trip, and one round after that.
#[test]
fn probe_rtt_lasts_one_round_and_not_two() {
    for rtt_ms in [300, 500] {
        let mut link = Link::new(Algorithm::BBR3, 10, MS.times(rtt_ms));
        link.run_to(State::ProbeRtt);
        let (entered, queued) = (link.now, link.cc.snapshot().latest_rtt.expect("a sample"));
        while link.state() == State::ProbeRtt {
            link.step(&mut || false);
        }
        let (lasted, most) = (link.now.since(entered), queued + link.rtt + MS.times(30));
        assert!(lasted >= link.rtt && lasted < most, "{rtt_ms} ms: {lasted}, not {most}");
    }
}

/// R2: half a BDP lay under the floor of four packets, inflight never came down to it, and ProbeRTT
/// never ended (quiche #2698).
#[test]
fn probe_rtt_ends_where_half_a_bdp_is_below_the_floor() {
    for algorithm in BBRS {
        for (kbit, rtt_us) in [(64, 500), (500, 20_000), (1_000, 40_000)] {
            let mut link = Link::new(algorithm, 1, Duration::from_micros(rtt_us));
            link.rate = Rate::from_bits_per_sec(kbit * 1_000);
            link.run_to(State::ProbeRtt);
            let entered = link.now;
            while link.state() == State::ProbeRtt {
                link.step(&mut || false);
                let longest = MS.times(500) + link.rate.time_for(20 * SMSS);
                assert!(link.now.since(entered) < longest, "{algorithm} {kbit} kbit/s");
            }
        }
    }
}

/// The whole flight is gone, and the transport says so a second later.
fn black_hole(link: &mut Link) {
    link.now += Duration::from_secs(1);
    let flight: Vec<PacketState> = link.flight.drain(..).map(|f| f.packet).collect();
    time_out(&mut link.cc, link.now, &flight);
    link.free = link.now;
}

/// R7: after a black hole, or persistent congestion, the flow is back at its rate within a few
/// round trips (our forerunner), from every state.
#[test]
fn a_flow_is_back_at_its_rate_soon_after_a_black_hole() {
    for algorithm in BBRS {
        let states = match algorithm {
            Algorithm::BBR3 => &[
                State::Drain,
                State::ProbeBwDown,
                State::ProbeBwCruise,
                State::ProbeBwRefill,
                State::ProbeBwUp,
                State::ProbeRtt,
            ][..],
            _ => &[State::Drain, State::ProbeBw, State::ProbeRtt][..],
        };
        for state in states {
            for times in 1..=3 {
                let mut link = Link::new(algorithm, 50, MS.times(40));
                link.run_to(*state);
                link.run(MS.times(10));
                for _ in 0..times {
                    black_hole(&mut link);
                    link.send();
                }
                link.run(MS.times(400));
                let before = link.delivered;
                link.run(MS.times(400));
                let share = (link.delivered - before) * 100 / link.rate.bytes_in(MS.times(400));
                assert!(share > 75, "{algorithm} {state:?}: {share} % ten round trips later");
            }
        }
    }
}

/// R6: the undo was missing, or gave part of it back (ngtcp2 #1935, picoquic #1488). Losses that
/// are found in two rounds cut the bounds twice; undone, both cuts are.
#[test]
fn a_recovery_of_two_rounds_is_undone_in_full() {
    let mut link = Link::new(Algorithm::BBR3, 50, MS.times(40));
    link.run_to(State::ProbeBwCruise);
    link.run(MS.times(200));
    let (before, cwnd) = (link.bbr(), link.cc.cwnd());
    let mut late = link.flight.drain(..8).map(|f| f.packet).collect::<Vec<PacketState>>();
    let later = late.split_off(4);
    lose(&mut link.cc, link.now, &late);
    link.run(MS.times(60));
    let first = link.bbr();
    assert!(first.bw_shortterm.is_some() && first.inflight_shortterm.is_some_and(|v| v < cwnd));
    lose(&mut link.cc, link.now, &later);
    link.run(MS.times(60));
    let second = link.bbr();
    assert!(second.bw_shortterm.is_some() && link.cc.cwnd() < cwnd);
    link.cc.on_spurious_loss(link.now);
    let after = link.bbr();
    assert_eq!((after.bw_shortterm, after.inflight_shortterm), (None, None));
    assert_eq!(after.inflight_longterm, before.inflight_longterm);
    assert!(link.cc.cwnd() >= cwnd, "{} of {cwnd}", link.cc.cwnd());
}

/// The share in per cent of a link on which every ACK is late by up to `jitter`, in order.
fn share_through_jitter(algorithm: Algorithm, jitter: Duration) -> u64 {
    let mut link = Link::new(algorithm, 50, MS.times(40));
    let (mut random, mut last) = (1u64, link.now);
    let span = Duration::from_secs(12);
    let end = link.now + span;
    while link.now < end {
        link.step(&mut || false);
        let new = link.flight.iter().rev().take_while(|f| f.ack > last).count();
        let known = link.flight.len() - new;
        for f in link.flight.range_mut(known..) {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let late = Duration::from_nanos((random >> 33) % (jitter.as_nanos() + 1));
            f.ack = (f.ack + late).max(last);
            last = f.ack;
        }
    }
    link.delivered * 100 / link.rate.bytes_in(span)
}

/// R8: with jitter noq's BBRv3 lost to CUBIC (noq #819). Jitter as large as the round trip.
#[test]
fn jitter_takes_little_from_the_rate() {
    for jitter_ms in [5, 20, 40] {
        let share = |algorithm| share_through_jitter(algorithm, MS.times(jitter_ms));
        let cubic = share(Algorithm::CUBIC);
        for algorithm in BBRS {
            let bbr = share(algorithm);
            assert!(bbr >= 93 && bbr + 4 >= cubic, "{jitter_ms} ms: {bbr} beside {cubic} per cent");
        }
    }
}

/// A path that reorders all the time and loses nothing: each episode of losses is undone. The undo
/// began the search for a full pipe anew, and the flow stayed in Startup with a full queue.
#[test]
fn startup_ends_although_each_loss_is_spurious() {
    for algorithm in [Algorithm::BBR3, Algorithm::BBR3X, Algorithm::BBR3_LINUX, Algorithm::BBR1] {
        let mut link = Link::new(algorithm, 20, MS.times(50));
        let mut late: Option<(PacketState, u32)> = None;
        let mut packets = 0u32;
        while link.state() == State::Startup {
            link.step(&mut || false);
            assert!(link.now.since(super::START) < Duration::from_secs(5), "{algorithm}");
            packets += 1;
            late = match late {
                // It arrives 5 ms after it was taken for lost.
                Some((packet, at)) if packets == at + 10 => {
                    link.cc.on_spurious_loss(link.now);
                    let mut batch = link.cc.ack(link.now);
                    batch.acked(&packet);
                    batch.finish();
                    None
                }
                None if packets.is_multiple_of(40) => {
                    let flight = link.flight.pop_front();
                    flight.map(|flight| {
                        lose(&mut link.cc, link.now, &[flight.packet]);
                        (flight.packet, packets)
                    })
                }
                other => other,
            };
        }
    }
}
