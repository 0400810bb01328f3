//! Numbers at the ends of their range. Links of 10 Gbit/s and more carry aggregates, so that the
//! tests stay short.

use fullpipe_cc::{Rate, RttSample};

use super::{
    Algorithm, BBRS, Config, Controller, Duration, Instant, Link, MS, SMSS, START, State,
    acknowledge, bbr, controller, send,
};

fn with_packets_of(smss: u32, algorithm: Algorithm, mbit: u64, rtt: Duration) -> Link {
    Link::with(algorithm, mbit, rtt, Config { smss, ..Config::new(1) })
}

/// Share of the link's rate that is delivered within `time`, in per mille.
fn per_mille(link: &mut Link, time: Duration) -> u64 {
    let before = link.delivered;
    link.run(time);
    (link.delivered - before) * 1_000 / link.rate.bytes_in(time)
}

/// A1: a round counter of 32 bits wrapped after 4.3 GB (xquic #552). Past that rounds are still
/// round trips: no more of them, and no fewer but for ProbeRTT, with its half a BDP.
#[test]
fn rounds_are_round_trips_after_four_gigabytes_too() {
    for algorithm in BBRS {
        let mut link = with_packets_of(131_071, algorithm, 10_000, MS.times(40));
        link.run(Duration::from_secs(2));
        while link.delivered < u64::from(u32::MAX) + 2_000_000_000 {
            let before = link.bbr().round_count;
            link.run(MS.times(250));
            let rounds = link.bbr().round_count - before;
            assert!((2..=8).contains(&rounds), "{rounds} after {} bytes", link.delivered);
        }
        assert!(per_mille(&mut link, Duration::from_secs(2)) > 800);
    }
}

/// A2: the BDP overflowed (quiche 46bfa4a8): 2.5 GB need all of 32 bits, and twice
/// that, which is the window, more.
#[test]
fn ten_gigabits_and_two_seconds_have_a_bdp() {
    for algorithm in BBRS {
        let mut link = with_packets_of(65_000, algorithm, 10_000, Duration::from_secs(2));
        link.run(Duration::from_secs(80));
        let bdp = link.bbr().bdp;
        assert!((2_450_000_000..2_510_000_000).contains(&bdp), "{algorithm}: {bdp}");
        assert!(link.cc.cwnd() >= bdp, "{algorithm}: {}", link.cc.cwnd());
        // ProbeRTT comes every two and a half of these round trips, and takes its share.
        let share = per_mille(&mut link, Duration::from_secs(10));
        assert!(share > 750, "{algorithm}: {share}");
    }
}

/// A3: bandwidth and gain changed places, and the rate was cut to 32 bits (F-Stack #1032). Here
/// they have types of their own; 400 Gbit/s are 50 GB/s.
#[test]
fn the_pacing_rate_is_gain_times_bandwidth_at_any_bandwidth() {
    for algorithm in BBRS {
        for (mbit, smss) in [(1, 1_200), (1_000, 1_200), (400_000, 131_071)] {
            let mut link = with_packets_of(smss, algorithm, mbit, MS.times(10));
            for _ in 0..40 {
                link.run(MS.times(10));
                let bbr = link.bbr();
                // Before that the rate only rises, whatever the samples say.
                if bbr.full_bw_reached {
                    let rate = link.cc.pacing_rate().expect("paced").as_bytes_per_sec();
                    let gain = u64::from(bbr.pacing_gain.as_percent());
                    let expected = bbr.bw.as_bytes_per_sec() / 100 * gain / 100 * 99;
                    let slack = expected / 50 + 200;
                    assert!(
                        rate.abs_diff(expected) <= slack,
                        "{algorithm}: {rate}, not {expected}"
                    );
                }
            }
            let (bw, rate) = (link.bbr().max_bw.as_bytes_per_sec(), link.rate.as_bytes_per_sec());
            assert!(
                link.bbr().full_bw_reached && bw <= rate && bw > rate * 9 / 10,
                "{algorithm}: {bw}"
            );
        }
    }
}

/// A4: a round trip under 128 us froze the window near five packets (picoquic #2118).
#[test]
fn microseconds_of_round_trip_fill_the_link() {
    for algorithm in BBRS {
        for rtt_us in [1, 20, 60, 127] {
            let mut link = Link::new(algorithm, 10_000, Duration::from_micros(rtt_us));
            link.run(MS.times(100));
            let share = per_mille(&mut link, MS.times(50));
            assert!(share > 900, "{algorithm} {rtt_us} us: {share}");
        }
    }
}

/// A5: a negative round trip was taken for one (QUICHE a8fc39f2). A clock that steps back by more
/// than a round trip measures none: neither 584 years nor a microsecond, which would be the model's
/// minimum for ten seconds and the connection's for good.
#[test]
fn a_clock_that_steps_back_measures_no_round_trip() {
    for name in ["bbr3", "bbr3x", "bbr3-linux", "bbr3x-linux", "bbr-swift", "bbr1"] {
        let algorithm: Algorithm = name.parse().expect("an algorithm");
        let mut cc = controller(algorithm);
        let packets = send(&mut cc, START + MS.times(10), 10);
        acknowledge(&mut cc, START + MS.times(9), &packets[..5]);
        let snapshot = cc.snapshot();
        assert_eq!((snapshot.latest_rtt, snapshot.srtt, bbr(&cc).min_rtt), (None, None, None));
        assert_eq!(snapshot.delivered, 5 * SMSS);
        acknowledge(&mut cc, START + MS.times(50), &packets[5..]);
        assert_eq!(cc.snapshot().latest_rtt, Some(MS.times(40)));
        let mut link = Link::new(algorithm, 20, MS.times(20));
        link.run(Duration::from_secs(8));
        let before = link.bbr().min_rtt;
        let early = link.flight.pop_front().expect("in flight");
        acknowledge(&mut link.cc, Instant::default(), &[early.packet]);
        assert_eq!(link.bbr().min_rtt, before, "{name}");
        assert!(per_mille(&mut link, Duration::from_secs(4)) > 900, "{name}");
    }
}

/// A6: an empty filter gave an unbounded window (quinn #2798). The transport's own round trip can
/// be longer than the interval of every sample, which then has no rate.
#[test]
fn without_a_bandwidth_the_window_is_bounded() {
    for algorithm in BBRS {
        let mut cc = controller(algorithm);
        let (mut now, initial) = (START, cc.cwnd());
        for _ in 0..200 {
            let packets = send(&mut cc, now, 10);
            now += MS.times(10);
            let mut batch = cc.ack(now);
            packets.iter().for_each(|p| batch.acked(p));
            batch.rtt(RttSample::Exact(MS.times(500)));
            batch.finish();
        }
        assert_eq!(bbr(&cc).max_bw.as_bytes_per_sec(), 0, "{algorithm}");
        assert!(cc.cwnd() <= 2 * initial, "{algorithm}: {} from {initial}", cc.cwnd());
        assert!(cc.pacing_rate().is_some_and(|rate| rate.as_bytes_per_sec() > 0));
    }
}

/// A9: a hard cap of 2000 packets (lsquic 4.4.1).
#[test]
fn the_window_holds_whatever_the_path_does() {
    for algorithm in BBRS {
        let mut link = Link::new(algorithm, 1_000, MS.times(200));
        link.run(Duration::from_secs(4));
        assert!(link.cc.cwnd() >= 20_000 * SMSS, "{algorithm}: {} packets", link.cc.cwnd() / SMSS);
        let share = per_mille(&mut link, Duration::from_secs(1));
        assert!(share > 900, "{algorithm}: {share}");
    }
}

/// A round trip counts in its own time: a controller of any age and any clock starts alike.
#[test]
fn a_start_near_the_end_of_the_clock_is_a_start() {
    for start in [0, 1, u64::MAX - 2_000_000_000] {
        let mut link = Link::new(Algorithm::BBR3, 20, MS.times(20));
        link.now = Instant::from_nanos(start);
        link.free = link.now;
        link.cc = Controller::new(Algorithm::BBR3, Config::new(1), link.now);
        link.run(MS.times(900));
        assert_eq!(link.state(), State::ProbeBwCruise, "{start}");
    }
}

/// A larger initial window makes no flow slower, up to the largest number: products of it neither
/// wrap nor panic.
#[test]
fn an_absurd_initial_window_is_a_large_one() {
    for algorithm in crate::events::algorithms().into_iter().chain([crate::events::LINUX_CUBIC]) {
        for smss in [1, 1_200] {
            let mut last = (0, Rate::ZERO);
            for window in [1 << 33, 1 << 62, 1 << 63, u64::MAX] {
                let initial_cwnd = Some(window);
                let config = Config { initial_cwnd, smss, ..Config::new(1) };
                let mut cc = Controller::new(algorithm, config, START);
                let mut rate = cc.pacing_rate().unwrap_or(Rate::MAX);
                let mut now = START;
                for round in 0..20 {
                    let packets = [0; 2].map(|_| cc.on_sent(now, smss));
                    _ = cc.can_send(now);
                    now += MS;
                    let mut ack = cc.ack(now);
                    ack.acked(&packets[0]);
                    if round == 10 {
                        ack.lost(&packets[1]);
                    } else {
                        ack.acked(&packets[1]);
                    }
                    ack.finish();
                    _ = (cc.snapshot(), cc.send_rate_estimate(), cc.saved_parameters());
                    rate = rate.min(cc.pacing_rate().unwrap_or(Rate::MAX));
                }
                let this = (cc.cwnd(), rate);
                assert!(
                    this.0 >= last.0 && this.1 >= last.1,
                    "{algorithm:?}, a window of {window}: {this:?} after {last:?}"
                );
                last = this;
            }
        }
    }
}
