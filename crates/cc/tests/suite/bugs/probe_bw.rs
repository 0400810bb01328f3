//! The cycle of ProbeBW, which only BBRv3 has in this form: what a probe may change, when, and how
//! often.

use super::{Algorithm, Duration, Link, MS, Rate, SMSS, State, acknowledge, send};

fn link(mbit: u64, rtt_ms: u64) -> Link {
    Link::new(Algorithm::BBR3, mbit, MS.times(rtt_ms))
}

/// Loses every fifth packet until the probe is given up.
fn until_too_high(link: &mut Link) {
    link.run_to(State::ProbeBwUp);
    let mut n = 0;
    while link.state() == State::ProbeBwUp {
        link.step(&mut || {
            n += 1;
            n % 5 == 0
        });
    }
    assert!(link.bbr().prev_probe_too_high);
}

/// P1: losses while probing cut the short-term bounds, and with them the probe (s2n-quic #1510).
#[test]
fn losses_within_a_probe_leave_the_short_term_bounds_alone() {
    for state in [State::ProbeBwRefill, State::ProbeBwUp] {
        let mut link = link(100, 40);
        link.run_to(state);
        let mut n = 0;
        while link.state() == state {
            link.step(&mut || {
                n += 1;
                n % 200 == 0 // half a per cent is not too high
            });
            let bbr = link.bbr();
            assert_eq!((bbr.bw_shortterm, bbr.inflight_shortterm), (None, None), "{state:?}");
        }
        assert!(link.lost > 0, "{state:?}");
    }
}

/// P2: the long-term bound was cut by a sample that was no probe (mvfst 19b71986), P8: because the
/// phase in which the last samples of the probe come in was never entered or left (s2n-quic #1452).
/// Two rounds after a probe its samples are over.
#[test]
fn the_samples_of_a_probe_end_a_round_after_it() {
    let mut link = link(20, 40);
    link.run_to(State::ProbeBwUp);
    link.run_to(State::ProbeBwDown);
    let round = link.bbr().round_count;
    while link.bbr().round_count < round + 2 {
        link.step(&mut || false);
    }
    link.run_losing(MS.times(200), 5);
    assert!(link.lost > 20 * SMSS && link.bbr().bw_shortterm.is_some());
    assert_eq!(link.bbr().inflight_longterm, None);
    assert!(!link.bbr().prev_probe_too_high);
}

/// P3: whether the window was the limit was read when the ACK had lowered the inflight already, and
/// so was never true (s2n-quic #1539).
#[test]
fn a_full_window_is_seen_after_the_ack_that_opened_it() {
    let mut cc = super::controller(Algorithm::BBR3);
    let packets = send(&mut cc, super::START, 10);
    assert_eq!(cc.inflight(), cc.cwnd());
    acknowledge(&mut cc, super::START + MS.times(20), &packets[..8]);
    assert!(cc.inflight() < cc.cwnd() / 2 && cc.snapshot().is_cwnd_limited);
    // And it is over with the round.
    acknowledge(&mut cc, super::START + MS.times(20), &packets[8..]);
    let few = send(&mut cc, super::START + MS.times(20), 2);
    acknowledge(&mut cc, super::START + MS.times(40), &few);
    assert!(!cc.snapshot().is_cwnd_limited);
}

/// P4: the growth of the long-term bound was multiplied by the packet size twice (tquic bff6aec,
/// ngtcp2 172673d8). A packet in the first round of a probe, two in the second, four in the third:
/// one for each `cwnd / 2^round` bytes acknowledged.
#[test]
fn the_long_term_bound_grows_by_packets() {
    let mut link = link(20, 40);
    until_too_high(&mut link);
    // The next probe is a precaution; the one after it goes on.
    loop {
        link.run_to(State::ProbeBwRefill);
        link.run_to(State::ProbeBwUp);
        if !link.bbr().prev_probe_precautionary && !link.bbr().prev_probe_too_high {
            break;
        }
        link.run_to(State::ProbeBwDown);
    }
    let (mut within, mut grown) = (0, Vec::new());
    let mut last = link.bbr();
    while grown.len() < 6 {
        link.step(&mut || false);
        assert_eq!(link.state(), State::ProbeBwUp);
        let bbr = link.bbr();
        let bound = bbr.inflight_longterm.expect("a bound");
        within += bound - last.inflight_longterm.expect("a bound");
        if bbr.round_count > last.round_count {
            grown.push(within / SMSS);
            within = 0;
        }
        last = bbr;
    }
    for (round, packets) in grown.iter().enumerate().skip(1) {
        assert!(packets.abs_diff(1 << round) <= 1, "{grown:?}");
    }
}

/// P5: the filter of the maximum was advanced more than once a cycle (s2n-quic #1698), or all its
/// slots expired together (our forerunner). A maximum outlives the first probe that does not see it
/// again, and P8 (s2n-quic #1452): not the second.
#[test]
fn a_maximum_lasts_for_two_cycles() {
    let mut link = link(50, 40);
    link.run_to(State::ProbeBwUp);
    link.run_to(State::ProbeBwDown);
    link.run_to(State::ProbeBwCruise);
    link.run(MS.times(200));
    let max_bw = link.bbr().max_bw;
    link.rate = Rate::from_bits_per_sec(35_000_000);
    let mut probes = 0;
    let end = link.now + Duration::from_secs(25);
    let mut state = link.state();
    while link.bbr().max_bw >= max_bw {
        link.step(&mut || false);
        if state == State::ProbeBwUp && link.state() != state {
            probes += 1;
        }
        state = link.state();
        assert!(link.now < end, "after {probes} probes: {:?}", link.states);
    }
    assert_eq!(probes, 2, "{:?}", link.states);
    let (found, rate) = (link.bbr().max_bw.as_bytes_per_sec(), link.rate.as_bytes_per_sec());
    assert!(found <= rate + rate / 100 && found > rate * 95 / 100, "{found}, not {rate}");
}

/// P5, P8: where ProbeRTT cuts every probe short, the filter was never advanced, which the draft
/// does not prevent: its 5 s pass before a probe of long round trips is over. A path that becomes
/// slower behind a buffer without end is noticed, and the queue goes; also where the queue takes
/// longer than the 5 s, so that the samples of every probe bear the mark of the ProbeRTT before.
#[test]
fn a_slower_path_is_noticed_where_no_probe_is_completed() {
    for (mbit, rtt_ms, kbit) in
        [(50, 40, 5_000), (50, 40, 15_000), (50, 600, 25_000), (10, 60, 100)]
    {
        let mut link = link(mbit, rtt_ms);
        link.run(Duration::from_secs(20));
        link.rate = Rate::from_bits_per_sec(kbit * 1_000);
        link.run(Duration::from_secs(200));
        let bbr = link.bbr();
        assert!(bbr.max_bw <= link.rate, "{rtt_ms} ms, {kbit} kbit/s: {bbr:?}");
        // Four packets at the least stay in flight.
        let least = link.rtt + link.rate.time_for(4 * SMSS) + MS.times(20);
        assert!(bbr.min_rtt < Some(least), "{rtt_ms} ms, {kbit} kbit/s: {bbr:?}");
    }
}

/// P6: every congestion event cut the window (ngtcp2 b120069a): a round of losses cuts it once, and
/// to no less than 0.7.
#[test]
fn many_losses_of_one_round_cut_the_window_once() {
    let mut link = link(50, 40);
    link.run_to(State::ProbeBwCruise);
    link.run(MS.times(200));
    let (before, round) = (link.cc.cwnd(), link.bbr().round_count);
    let (mut n, mut cuts, mut last) = (0, 0, link.bbr().bw_shortterm);
    while link.bbr().round_count < round + 2 {
        link.step(&mut || {
            n += 1;
            n % 3 == 0
        });
        cuts += u32::from(link.bbr().bw_shortterm != last);
        last = link.bbr().bw_shortterm;
    }
    assert!(link.lost > 30 * SMSS && (1..=2).contains(&cuts), "{cuts} cuts");
    let bound = link.bbr().inflight_shortterm.expect("cut");
    assert!(bound >= before * 49 / 100, "{bound} of {before} after two rounds");
    assert!(link.bbr().bw >= Rate::from_bits_per_sec(24_000_000), "{:?}", link.bbr());
}

/// P7: a flow whose inflight sat a packet above the BDP stayed in DOWN (our forerunner). However
/// few packets the BDP has, DOWN ends with the queue, in CRUISE, and not by its longest time.
#[test]
fn down_ends_with_the_queue_however_small_the_bdp() {
    // Below that the next probe, a round a packet away, comes as soon as the queue is gone.
    for packets in 7..=40 {
        let mut link = link(10, 1);
        link.rtt = link.rate.time_for(packets * SMSS);
        for _ in 0..4 {
            link.run_to(State::ProbeBwDown);
            let since = link.now;
            while link.state() == State::ProbeBwDown {
                link.step(&mut || false);
            }
            // The time for ProbeRTT may come here as anywhere.
            let next = [State::ProbeBwCruise, State::ProbeRtt];
            assert!(next.contains(&link.state()), "{packets} packets: {:?}", link.state());
            let rounds = link.now.since(since).as_nanos() / link.rtt.as_nanos();
            assert!(rounds < 20, "{packets} packets: {rounds} rounds");
        }
    }
}
