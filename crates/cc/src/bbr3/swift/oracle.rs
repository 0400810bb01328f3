//! One step of Swift's law beside its formulas in the reals.

use proptest::prelude::*;

use super::*;
use crate::bbr3::{Bbr3, DraftSwift};
use crate::config::Config;

const SMSS: u64 = 1_452;
const PACKET: f64 = SMSS as f64;
const DISTANCE: f64 = 20.0;

fn micros(us: f64) -> Duration {
    Duration::from_nanos((us * 1_000.0) as u64)
}

/// A window of so many bytes.
fn window(bytes: f64) -> Window {
    Window { size: (bytes * 1_024.0) as u64, ..Window::NONE }
}

fn bytes(window: &Window) -> f64 {
    window.size as f64 / 1_024.0
}

/// A flow over a path of 20 us and 10 Gbit/s whose pipe is full, and the sample of its first ACK.
fn flow(rtt_us: f64) -> (Conn, Bbr3<DraftSwift>, RateSample) {
    let config = Config { smss: SMSS as u32, ..Config::new(1) };
    let now = Instant::from_nanos(1_000_000_000);
    let mut conn = Conn::new(&config, now);
    let mut bbr = Bbr3::new(&mut conn, now, &config, BbrSwiftOptions::new());
    bbr.rtt.min = micros(DISTANCE);
    bbr.bandwidth.max = Rate::from_bits_per_sec(10_000_000_000);
    bbr.control.max_inflight = 1 << 40;
    bbr.full_pipe.reached = true;
    bbr.state = State::ProbeBwCruise;
    let packet = conn.sampler.on_sent(now, SMSS, 10 * SMSS);
    conn.sampler.count_delivered(SMSS);
    let mut rs = conn.sample(now + micros(rtt_us), &packet, None);
    rs.newly_acked = SMSS;
    (conn, bbr, rs)
}

/// The flow scaling of the paper between windows of 0.1 and 100 packets, in us.
fn scaling(packets: f64) -> f64 {
    125.0 * ((packets.powf(-0.5) - 0.1) / (0.1f64.powf(-0.5) - 0.1)).clamp(0.0, 1.0)
}

/// A window after an ACK of `acked` bytes with a delay below its target.
fn grown(size: f64, acked: f64, doubles: bool) -> f64 {
    size + if size < PACKET {
        size * acked.min(PACKET) / PACKET
    } else if doubles {
        acked
    } else {
        PACKET * acked / size
    }
}

/// A window after a delay above its target, no less than `least`.
fn cut(size: f64, flight: f64, delay: f64, target: f64, least: f64) -> f64 {
    let factor = (1.0 - 0.8 * (delay - target) / delay).max(0.5);
    (size.min(flight) * factor).max(least)
}

/// The least window in a round trip: a thousandth of a packet, or a packet in 25 ms.
fn least_rate(time_us: f64) -> f64 {
    PACKET * (1_000.0 / time_us).max(40.0)
}

/// Bandwidths in bytes per second: that of the path, and such as the least windows give.
fn bandwidths() -> impl Strategy<Value = f64> {
    prop_oneof![Just(1.25e9), 10_000.0f64..150_000.0]
}

fn near(real: f64, expected: f64) -> bool {
    (real - expected).abs() <= 0.01 * expected + 2.0
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// Each window grows below its target and shrinks above it, at most once a round trip of what
    /// the sender sees.
    #[test]
    fn each_step_is_that_of_the_law(
        state in prop::sample::select(&[
            State::ProbeBwCruise, State::ProbeBwRefill, State::ProbeBwUp, State::ProbeBwDown,
        ][..]),
        (fabric, endpoint) in (0.01f64..200.0, 0.01f64..200.0),
        (acked, flight) in (0.1f64..4.0, 1u64..200),
        (rtt_us, host_us, wait_us) in (20.0f64..400.0, 0.0f64..250.0, 0.0f64..250.0),
        before_us in 0.0f64..400.0,
        (may_cut_fabric, may_cut_endpoint) in any::<(bool, bool)>(),
        bandwidth in bandwidths(),
    ) {
        let (conn, mut bbr, mut rs) = flow(rtt_us);
        bbr.bandwidth.max = Rate::from_bytes_per_sec(bandwidth as u64);
        let least = least_rate(rtt_us + host_us);
        prop_assume!((bandwidth / least - 1.0).abs() > 0.01);
        let (fabric, endpoint) = (fabric * PACKET, endpoint * PACKET);
        let (acked, in_flight) = (acked * PACKET, flight as f64 * PACKET);
        (rs.newly_acked, rs.tx_in_flight) = (acked as u64, flight * SMSS);
        rs.set_delays_at_receiver(micros(host_us), micros(wait_us));
        bbr.state = state;
        let next_cut = |may_cut| if may_cut { rs.now } else { rs.now + Duration::from_nanos(1) };
        bbr.rules.receiver_delay = nanos(micros(before_us));
        bbr.rules.fabric = Window { next_cut: next_cut(may_cut_fabric), ..window(fabric) };
        bbr.rules.endpoint = Window { next_cut: next_cut(may_cut_endpoint), ..window(endpoint) };
        let target = 44.0 + scaling(fabric.min(in_flight) / PACKET);
        prop_assume!((rtt_us - target).abs() > 0.5 && (host_us - 100.0).abs() > 0.5);

        let has_ended = bbr.judge_delay(&conn, &rs);
        let (is_fabric_cut, is_endpoint_cut) =
            (rtt_us > target && may_cut_fabric, host_us > 100.0 && may_cut_endpoint);
        let ends = is_fabric_cut && bandwidth > least && state == State::ProbeBwUp;
        prop_assert_eq!(has_ended, ends);
        prop_assert_eq!(bbr.state == State::ProbeBwDown, has_ended || state == State::ProbeBwDown);
        let doubles = matches!(state, State::ProbeBwRefill | State::ProbeBwUp);
        let then = rs.now + micros(rtt_us) + micros(host_us) + micros(wait_us.min(100.0));
        for (real, size, delay, target, is_cut) in [
            (&bbr.rules.fabric, fabric, rtt_us, target, is_fabric_cut),
            (&bbr.rules.endpoint, endpoint, host_us, 100.0, is_endpoint_cut),
        ] {
            let expected = if is_cut {
                cut(size, in_flight, delay, target, least / 1e6 * (rtt_us + host_us))
            } else if delay < target {
                grown(size, acked, doubles)
            } else {
                size
            };
            let real_size = bytes(real);
            prop_assert!(near(real_size, expected), "{real_size} bytes, expected {expected}");
            let apart = real.next_cut.since(then) + then.since(real.next_cut);
            prop_assert!(!is_cut || apart <= Duration::from_nanos(5), "{apart}");
        }
        let of_late = (before_us * 15.0 / 16.0).max(host_us + wait_us);
        prop_assert!((f64::from(bbr.rules.receiver_delay) / 1e3 - of_late).abs() < 0.01);
    }

    /// A round of Startup whose shortest delay is above the target ends it with the BDP, and what
    /// the receiver holds, for a window; nothing else does, and no flow below the least is ended.
    #[test]
    fn startup_ends_where_each_packet_of_a_round_waited(
        rtt_us in 20.0f64..400.0,
        least_us in prop_oneof![Just(None), (20.0f64..400.0).prop_map(Some)],
        host_us in 0.0f64..250.0,
        round_start: bool,
        bandwidth in bandwidths(),
    ) {
        let (conn, mut bbr, mut rs) = flow(rtt_us);
        bbr.bandwidth.max = Rate::from_bytes_per_sec(bandwidth as u64);
        let least = least_rate(rtt_us + host_us);
        prop_assume!((bandwidth / least - 1.0).abs() > 0.01);
        rs.tx_in_flight = 100 * SMSS;
        rs.set_delays_at_receiver(micros(host_us), Duration::ZERO);
        (bbr.state, bbr.full_pipe.reached, bbr.round.start) = (State::Startup, false, round_start);
        bbr.rules.least_rtt = least_us.map_or(u32::MAX, |us| nanos(micros(us)));
        prop_assume!([Some(rtt_us), least_us].iter().flatten().all(|us| (us - 44.0).abs() > 0.5));
        bbr.judge_delay(&conn, &rs);
        let each_waited = round_start && rtt_us > 44.0 && least_us.is_some_and(|us| us > 44.0);
        let is_over = each_waited && bandwidth > least;
        prop_assert_eq!(bbr.full_pipe.reached, is_over);
        prop_assert_eq!(bbr.rules.fabric.is_in_force(), is_over);
        if is_over {
            let bdp = bandwidth / 1e6 * (DISTANCE + host_us.min(100.0));
            let expected = bdp.max(least_rate(rtt_us) / 1e6 * rtt_us);
            let size = bytes(&bbr.rules.fabric);
            prop_assert!(near(size, expected), "{size} bytes, expected {expected}");
            prop_assert_eq!(bbr.rules.fabric.next_cut, rs.now + rs.rtt);
        }
        let least = least_us.filter(|_| !round_start).map_or(rtt_us, |us| us.min(rtt_us));
        prop_assert!((f64::from(bbr.rules.least_rtt) / 1e3 - least).abs() < 0.01);
    }

    /// Windows below BBR.MinPipeCwnd are kept by pacing at what they are in a round trip; others
    /// are paced a quarter faster, so that they are the limit. The receiver's wait is no part of
    /// it.
    #[test]
    fn the_rate_is_the_window_in_a_round_trip(
        packets in prop_oneof![0.01f64..4.0, 0.01f64..200.0],
        (rtt_us, wait_us) in (20.0f64..400.0, 0.0f64..19.0),
    ) {
        prop_assume!((packets - 2.0).abs() > 0.01);
        let (conn, mut bbr, _) = flow(rtt_us);
        bbr.rules.fabric = window(packets * PACKET);
        bbr.rules.ack_delay = nanos(micros(wait_us));
        let rate = bbr.rules.most_pacing_rate(&conn).as_bytes_per_sec() as f64;
        let faster = if packets < 2.0 { 1.0 } else { 1.25 };
        let expected = faster * packets * PACKET / (rtt_us - wait_us) * 1e6;
        prop_assert!((rate / expected - 1.0).abs() < 0.01, "{rate}, expected {expected}");
    }

    /// The flow scaling of large windows, of which little is left.
    #[test]
    fn the_flow_scaling_is_exact_for_large_windows(packets in 50u64..100) {
        let scaled = flow_scaling((packets * SMSS) << UNIT_SHIFT, SMSS, 125_000) as f64 / 1_000.0;
        let expected = scaling(packets as f64);
        prop_assert!((scaled - expected).abs() < 0.002 + 0.005 * expected, "{scaled}, {expected}");
    }
}

/// REFILL begins with the estimated BDP at least: 20 us at 10 Gbit/s are 25 kB.
#[test]
fn refill_raises_the_window_to_the_bdp() {
    let (_, mut bbr, _) = flow(20.0);
    for (before, expected) in [(1_000.0, 25_000.0), (30_000.0, 30_000.0)] {
        bbr.rules.fabric = window(before);
        bbr.rules.begin_refill(bbr.bandwidth.max, bbr.rtt.min);
        assert!(near(bytes(&bbr.rules.fabric), expected), "{}", bytes(&bbr.rules.fabric));
    }
}

/// Each rule of the draft that is kept is the draft's, and the others are not.
#[test]
fn each_rule_of_the_draft_is_kept_by_itself() {
    for rules in 0..8 {
        let [min_pipe_cwnd, pacing_margin, probe_rounds] = [1, 2, 4].map(|bit| rules & bit != 0);
        let keeps = DraftRules { min_pipe_cwnd, pacing_margin, probe_rounds };
        let (config, options) = (Config::new(1), BbrSwiftOptions::new().keeping(keeps));
        let mut conn = Conn::new(&config, Instant::default());
        let bbr = Bbr3::<DraftSwift>::new(&mut conn, Instant::default(), &config, options);
        let swift = &bbr.rules;
        assert_eq!(swift.min_pipe_packets(), if min_pipe_cwnd { 4 } else { 2 }, "{keeps:?}");
        let margin = swift.pacing_margin(&bbr.view(&conn));
        assert_eq!(margin, Gain::percent(if pacing_margin { 99 } else { 100 }), "{keeps:?}");
        assert_eq!(swift.probes_by_bdp(), probe_rounds, "{keeps:?}");
        assert_eq!(swift.random_probe_rounds(), if probe_rounds { 2 } else { 32 }, "{keeps:?}");
    }
}

/// A quantum is what leaves in a quarter of the round trip, where two packets are less.
#[test]
fn a_quantum_is_a_part_of_the_round_trip() {
    let (mut conn, bbr, _) = flow(20.0);
    conn.pacing_rate = Rate::from_bytes_per_sec(1_000_000_000);
    assert_eq!(bbr.rules.send_quantum(&conn, micros(20.0)), 5_000);
}
