//! What the connection's own state says of a window.

use super::*;
use crate::test_link::{MS, SMSS};

fn conn() -> Conn {
    Conn::new(&Config::new(1), Instant::default())
}

/// An ACK of `newly_acked` bytes that met a flight of `prior_inflight` bytes.
fn ack(conn: &mut Conn, newly_acked: u64, prior_inflight: u64) -> RateSample {
    let packet = conn.sampler.on_sent(Instant::default(), SMSS, 0);
    conn.sampler.count_delivered(newly_acked);
    let sample = conn.sample(Instant::default() + MS, &packet, None);
    RateSample { newly_acked, prior_inflight, ..sample }
}

/// A full window counts for one packet-timed round trip, to the byte: for the ACK of the last of
/// what was in flight, and for none after it.
#[test]
fn a_full_window_counts_until_what_was_in_flight_has_left() {
    let mut conn = conn();
    conn.inflight = 10 * SMSS;
    conn.mark_cwnd_limited();
    let last = ack(&mut conn, 10 * SMSS, 10 * SMSS);
    assert!(conn.is_cwnd_limited() && conn.may_grow(&last));
    let next = ack(&mut conn, 1, 1);
    assert!(!conn.is_cwnd_limited() && !conn.may_grow(&next));
}

/// In slow start a window that is not full may be twice the largest flight of a round trip.
#[test]
fn a_window_of_slow_start_is_at_most_twice_the_flight() {
    let mut conn = conn();
    conn.cwnd = SMSS;
    let windows = [10, 12, 8, 6, 2, 2].map(|packets| {
        let rs = ack(&mut conn, 5 * SMSS, packets * SMSS);
        conn.grown_in_slow_start(&rs, 100 * SMSS) / SMSS
    });
    // The round trip of the flight of 12 packets is over after 12 packets.
    assert_eq!(windows, [20, 24, 24, 24, 4, 4]);
    conn.inflight = SMSS;
    conn.mark_cwnd_limited();
    let rs = ack(&mut conn, SMSS, SMSS);
    assert_eq!(conn.grown_in_slow_start(&rs, 100 * SMSS), 101 * SMSS, "it was full");
}

/// C.srtt is seven eighths of what it was and an eighth of the sample, RFC 9002 section 5.3.
#[test]
fn the_smoothed_round_trip_is_that_of_the_formula() {
    let mut conn = conn();
    let mut expected = None;
    for ms in [40, 80, 20, 400, 1] {
        let packet = conn.sampler.on_sent(Instant::default(), SMSS, SMSS);
        _ = conn.sample(Instant::default() + MS.times(ms), &packet, None);
        let ms = ms as f64;
        let srtt = expected.map_or(ms, |srtt: f64| 0.875 * srtt + 0.125 * ms);
        expected = Some(srtt);
        let real = conn.srtt().expect("a sample").as_nanos() as f64 / 1e6;
        assert!((real - srtt).abs() < 1e-5, "{real} ms, expected {srtt}");
    }
}
