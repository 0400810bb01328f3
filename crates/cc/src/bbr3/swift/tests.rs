//! Swift's law by itself, without a path.

use super::*;
use proptest::prelude::*;

const SMSS: u64 = 1_452;
const PACKET: u64 = SMSS << UNIT_SHIFT;

fn micros(us: u64) -> Duration {
    Duration::from_micros(us)
}

fn window(size: u64) -> Window {
    Window { size, ..Window::NONE }
}

/// Against the formula in the reals: alpha / sqrt(w) + beta, in thousandths of the range.
#[test]
fn the_flow_scaling_is_that_of_the_formula() {
    // 1/sqrt(0.1) = 3.16228, 1/sqrt(100) = 0.1; (1/sqrt(w) - 0.1) / 3.06228.
    let known = [
        (1u64, 1_000), // 0.001 packets: the range is the most
        (100, 1_000),  // 0.1
        (200, 698),    // 2.23607
        (500, 429),    // 1.41421
        (1_000, 294),  // 1
        (2_150, 190),  // 0.68199
        (10_000, 71),  // 0.31623
        (100_000, 0),  // 100
        (10_000_000, 0),
    ];
    for (millipackets, expected) in known {
        let size = PACKET * millipackets / 1_000;
        let scaled = flow_scaling(size, SMSS, 1_000_000).div_ceil(1_000);
        assert!(scaled.abs_diff(expected) <= 2, "{millipackets}: {scaled}, {expected}");
    }
}

#[test]
fn a_target_follows_the_distance_on_long_paths_alone() {
    let swift = Swift::with(BbrSwiftOptions::new());
    let far = |distance| swift.fabric_target(200 * PACKET, SMSS, distance);
    assert_eq!(far(micros(20)), micros(44));
    assert_eq!(far(micros(1_000)), micros(44), "a queue, or options of another network");
    assert_eq!(far(micros(40_000)), micros(60_000));
    let many = swift.fabric_target(PACKET / 20, SMSS, micros(20));
    assert_eq!(many, micros(44 + 125));
}

#[test]
fn a_window_grows_by_a_packet_a_round_trip() {
    let mut w = window(10 * PACKET);
    (0..10).for_each(|_| w.grow(SMSS, SMSS, false, u64::MAX));
    assert!(w.size.abs_diff(11 * PACKET) < PACKET / 20, "{}", w.size);
    w.grow(11 * SMSS, SMSS, true, u64::MAX);
    assert!(w.size.abs_diff(22 * PACKET) < PACKET / 10, "twice in REFILL and UP");
    w.grow(SMSS, SMSS, false, 20 * SMSS);
    assert_eq!(w.size, INFINITE, "the model allows less");
}

#[test]
fn a_window_below_one_packet_is_doubled_at_most() {
    for size in [PACKET / 1_000, PACKET / 20, PACKET / 2, PACKET - 1] {
        let mut w = window(size);
        w.grow(SMSS, SMSS, true, u64::MAX);
        assert_eq!(w.size, 2 * size);
    }
}

#[test]
fn a_window_shrinks_by_the_excess_and_by_no_more_than_half() {
    let shrunk = |delay, flight| {
        let mut w = window(100 * PACKET);
        w.shrink(flight, micros(delay), micros(100), 1);
        w.size
    };
    // 1 - 0.8 * 25 / 125 = 0.84.
    assert_eq!(shrunk(125, u64::MAX), 84 * PACKET);
    assert_eq!(shrunk(100, u64::MAX), 100 * PACKET);
    assert_eq!(shrunk(1_000_000, u64::MAX), 50 * PACKET);
    assert_eq!(shrunk(1_000_000, 10 * SMSS), 5 * PACKET, "half of what was in flight");
}

#[test]
fn the_least_window_is_a_packet_in_25_ms_and_at_most_a_packet() {
    assert_eq!(least_window(SMSS, micros(25)), PACKET / 1_000);
    assert_eq!(least_window(SMSS, micros(1)), PACKET / 1_000);
    assert_eq!(least_window(SMSS, micros(5_000)), PACKET / 5);
    assert_eq!(least_window(SMSS, micros(80_000)), PACKET);
    assert_eq!(least_window(1, micros(1)), 1);
}

#[test]
fn as_many_packets_as_make_the_receiver_acknowledge_may_be_in_flight() {
    let mut swift = Swift::with(BbrSwiftOptions::new());
    let mut after = |wait, packets, acks| {
        (0..acks).for_each(|_| swift.note_ack(micros(wait), micros(25), packets * SMSS, SMSS));
        swift.min_pipe_packets()
    };
    assert_eq!(after(0, 1, 16), 2, "quick ACKs of a TCP");
    assert_eq!(after(0, 2, 1), 2);
    assert_eq!(after(0, 1, 31), 2);
    assert_eq!(after(6, 1, 1), 1, "a stack that takes a moment");
    assert_eq!(after(0, 9, 9), 1, "lost ACKs");
    assert_eq!(after(7, 1, 1), 2, "a wait of more than a quarter of the round trip");
    assert_eq!(after(25_000, 1, 1), 2);
    assert_eq!(after(0, 1, 99), 2, "it waits, when it can");
    assert_eq!(after(1_000, 2, 1), 4);
    assert_eq!(after(25_000, 90, 1), 10);
    assert_eq!(after(25_000, 1, 1), 10);
}

proptest! {
    /// Nothing overflows, and a window in force is never below its least one nor zero.
    #[test]
    fn the_law_keeps_its_bounds(
        size in prop_oneof![1u64..1 << 20, any::<u64>()],
        smss in 1u64..65_536,
        (acked, flight, most) in any::<(u64, u64, u64)>(),
        (delay, target) in any::<(u64, u64)>(),
        range in any::<u32>(),
    ) {
        let scaled = flow_scaling(size, smss, range.into());
        prop_assert!(scaled <= u64::from(range));
        prop_assert!(flow_scaling(size / 2, smss, range.into()) >= scaled, "smaller is more");
        let (mut grown, mut cut) = (window(size), window(size));
        grown.grow(acked, smss, acked % 2 == 0, most);
        prop_assert!(grown.size >= size);
        let (delay, target) = (Duration::from_nanos(delay), Duration::from_nanos(target));
        let least = least_window(smss, delay);
        cut.shrink(flight, delay, target.min(delay), least);
        prop_assert!(cut.size >= least && least > 0);
        prop_assert!(cut.size <= size.max(least));
    }

    #[test]
    fn the_square_root_is_exact(n in any::<u64>()) {
        let root = u128::from(n.isqrt());
        prop_assert!(root * root <= u128::from(n) && (root + 1) * (root + 1) > u128::from(n));
    }
}
