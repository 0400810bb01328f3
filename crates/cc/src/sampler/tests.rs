//! The states of packets, and the samples that are made of them.

use super::*;

const MS: Duration = Duration::from_millis(1);
const RTT: Measured = Measured::exactly(MS);

#[test]
fn packet_state_is_six_words_and_keeps_what_it_was_given() {
    assert_eq!(core::mem::size_of::<PacketState>(), 48);
    let mut s = Sampler::new(Instant::from_nanos(7), Duration::MAX);
    s.mark_app_limited(0);
    let p = s.on_sent(Instant::from_nanos(9), 65_535, 123_456_789);
    assert_eq!((p.size(), p.tx_in_flight(), p.index()), (65_535, 123_456_789, PacketIndex(0)));
    assert!(p.is_app_limited() && p.send_time() == Instant::from_nanos(9));
    let huge = s.on_sent(Instant::from_nanos(9), u64::MAX, u64::MAX);
    assert_eq!(
        (huge.size(), huge.tx_in_flight(), huge.index()),
        (MAX_SIZE, MAX_TX_IN_FLIGHT, PacketIndex(1))
    );
    assert!(huge.index().continues(p.index()) && huge.is_newer_than(&p) && !p.is_newer_than(&huge));
}

/// Losses and marks share a word; neither is seen in the other, also where one begins anew.
#[test]
fn what_was_lost_and_marked_since_is_exact_across_the_wrap() {
    let mut s = Sampler::new(Instant::default(), Duration::MAX);
    for (lost, marks) in [(0, 0), ((1 << 36) - 1, (1 << 22) - 1), (1 << 40, 65_536)] {
        (s.lost, s.losses) = (lost, Losses(0).on_next_path().add(lost, marks));
        let p = s.on_sent(Instant::default(), 1, 1);
        assert_eq!((s.lost_since(&p), s.marks_since(&p)), (0, 0));
        s.count_marks(3, 0);
        assert_eq!((s.lost_since(&p), s.marks_since(&p)), (0, 3));
        s.count_lost(7_000);
        s.count_marks(1, 100);
        assert_eq!((s.lost_since(&p), s.marks_since(&p)), (7_100, 4));
        let rs = s.generate(Instant::default(), &p, RTT);
        assert_eq!((rs.lost, s.lost()), (7_100, lost + 7_000));
        // 400 Gbit/s at 100 ms, all of it marked.
        s.count_marks(4_000_000, 0);
        assert_eq!((s.lost_since(&p), s.marks_since(&p)), (7_100, 4_000_004));
        assert!(s.is_of_this_path(&p));
    }
}

#[test]
fn neighbours_are_seen_across_the_wrap_of_the_index() {
    let mut s = Sampler::new(Instant::default(), Duration::MAX);
    let mut last = s.on_sent(Instant::default(), 1, 1);
    for _ in 0..10_000 {
        let next = s.on_sent(Instant::default(), 1, 1);
        assert!(
            next.index().continues(last.index())
                && !last.index().continues(next.index())
                && next.is_newer_than(&last)
        );
        last = next;
    }
}

/// Ten packets a millisecond apart, acknowledged a millisecond apart 40 ms later: the rate is
/// one packet a millisecond, whichever of the two intervals is the longer one.
#[test]
fn the_longer_interval_gives_the_rate() {
    for (send_gap, ack_gap) in [(1, 1), (1, 2), (2, 1)] {
        let t0 = Instant::from_nanos(1);
        let mut s = Sampler::new(t0, Duration::MAX);
        let sent: [PacketState; 10] = core::array::from_fn(|i| {
            s.on_sent(t0 + MS.times(send_gap * i as u64), 1000, 1000 * (i as u64 + 1))
        });
        let mut rate = Rate::ZERO;
        for (i, p) in sent.iter().enumerate() {
            let now = t0 + MS.times(40 + ack_gap * i as u64);
            s.count_delivered(p.size());
            rate = s.generate(now, p, Measured::exactly(now.since(p.send_time()))).delivery_rate;
        }
        // Nothing had been delivered when the last packet left: its sample is all ten packets
        // over the time since the first one left.
        let ack_elapsed = 40 + 9 * ack_gap;
        assert_eq!(rate, Rate::from_volume(10_000, MS.times(ack_elapsed)), "{send_gap} {ack_gap}");
    }
}

#[test]
fn a_sample_shorter_than_the_shortest_round_trip_has_no_rate() {
    let t0 = Instant::from_nanos(5);
    let mut s = Sampler::new(t0, Duration::MAX);
    let p = s.on_sent(t0, 1000, 1000);
    s.count_delivered(p.size());
    let rs = s.generate(t0 + MS, &p, Measured::exactly(MS.times(2)));
    assert_eq!(rs.delivery_rate, Rate::ZERO);
}

#[test]
fn the_app_limited_mark_of_an_empty_connection_still_limits() {
    let mut s = Sampler::new(Instant::default(), Duration::MAX);
    s.mark_app_limited(0);
    assert!(s.on_sent(Instant::default(), 1, 1).is_app_limited());
    // Nor does the largest count stand for no mark.
    s.delivered = u64::MAX;
    s.mark_app_limited(1);
    assert!(s.is_app_limited());
}

/// A minimum of a microsecond would call every later sample reliable, for the life of the
/// connection.
#[test]
fn an_ack_before_its_packet_leaves_the_shortest_round_trip_alone() {
    let mut conn = crate::conn::Conn::new(&crate::Config::new(1), Instant::default());
    let sent = Instant::default() + MS.times(100);
    conn.sampler.begin_flight(sent);
    let p = conn.sampler.on_sent(sent, 1_200, 1_200);
    let rs = conn.sample(sent + MS.times(40), &p, None);
    assert_eq!((rs.rtt(), conn.min_rtt()), (Some(MS.times(40)), Some(MS.times(40))));
    let rs = conn.sample(sent - MS, &p, None);
    assert_eq!(
        (rs.rtt(), conn.min_rtt(), conn.srtt()),
        (None, Some(MS.times(40)), Some(MS.times(40)))
    );
    // A clock that only stood still is a coarse one.
    let rs = conn.sample(sent, &p, None);
    assert_eq!(rs.rtt(), Some(Duration::from_micros(1)));
}
