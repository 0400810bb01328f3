//! Prague beside its formulas, and on a link that marks.

use std::vec::Vec;

use super::*;
use crate::test_link::{Link, MS, SMSS};
use crate::{Algorithm, Controller, PacketState, Rate, SendDecision, State};

const L4S: fn() -> Config = || Config { ecn: true, ..Config::new(1) };

/// Round trips of one full window each, acknowledged two packets at a time at the end of the round
/// trip.
struct Rounds {
    cc: Controller,
    now: Instant,
    rtt: Duration,
}

impl Rounds {
    /// In congestion avoidance with a window of so many packets and without a mark so far: a loss
    /// halves twice as many.
    fn new(packets: u64, rtt: Duration, config: Config) -> Self {
        let initial_cwnd = Some(2 * packets * SMSS);
        let now = Instant::from_nanos(1);
        let config = Config { initial_cwnd, ..config };
        let mut rounds = Self { cc: Controller::new(Algorithm::PRAGUE, config, now), now, rtt };
        let flight = rounds.flight();
        rounds.now += rtt;
        let mut ack = rounds.cc.ack(rounds.now);
        ack.acked(&flight[1]);
        ack.lost(&flight[0]);
        flight[2..].iter().for_each(|p| ack.acked(p));
        ack.finish();
        assert_eq!(rounds.cc.cwnd(), packets * SMSS);
        rounds.go(0);
        assert_eq!(rounds.cc.snapshot().state, State::CongestionAvoidance);
        rounds
    }

    fn flight(&mut self) -> Vec<PacketState> {
        let packets = self.cc.cwnd() / SMSS;
        (0..packets).map(|_| self.cc.on_sent(self.now, SMSS as u32)).collect()
    }

    /// One round trip of which the first `marked` packets are marked.
    fn go(&mut self, marked: u64) {
        let flight = self.flight();
        self.now += self.rtt;
        let mut left = marked;
        for pair in flight.chunks(2) {
            let mut ack = self.cc.ack(self.now);
            pair.iter().for_each(|p| ack.acked(p));
            let of_these = left.min(pair.len() as u64);
            ack.ce(of_these);
            left -= of_these;
            ack.finish();
        }
    }

    fn alpha_percent(&self) -> Option<u32> {
        self.cc.snapshot().ecn_alpha.map(Gain::as_percent)
    }
}

/// Alpha is 1 until it is known better, so the first mark takes half, and the next ones what alpha
/// became: (15/16)^n of it where nothing is marked.
#[test]
fn a_mark_takes_half_of_alpha() {
    let mut rounds = Rounds::new(1_000, MS.times(40), L4S());
    assert_eq!(rounds.alpha_percent(), None);
    let before = rounds.cc.cwnd();
    rounds.go(1);
    let after = rounds.cc.cwnd();
    assert!(after.abs_diff(before / 2) <= 2 * SMSS, "{before}, then {after}");
    // The round of the mark counts as one with a share of 1/1000.
    (0..16).for_each(|_| rounds.go(0));
    let alpha = rounds.alpha_percent().expect("marks were seen");
    assert!((35..=38).contains(&alpha), "(15/16)^16 = 0.356, and a little: {alpha}");
    let before = rounds.cc.cwnd();
    rounds.go(1);
    let cut = before - rounds.cc.cwnd();
    let expected = before * u64::from(alpha) / 200;
    assert!(
        cut.abs_diff(expected) <= before / 100 + 2 * SMSS,
        "{cut} of {before}, alpha {alpha} %"
    );
}

/// The moving average: after many rounds with a quarter marked alpha is a quarter, and the window
/// is the one that grows as much as it shrinks, (1 - alpha) x 2 / alpha = 6 packets.
#[test]
fn alpha_becomes_the_share_that_is_marked() {
    let mut rounds = Rounds::new(64, MS.times(40), L4S());
    let (mut packets, mut count) = (0, 0);
    for round in 0..400 {
        let window = rounds.cc.cwnd() / SMSS;
        // A quarter of all packets, whatever the window is.
        let upto = |n: u64| n / 4;
        rounds.go(upto(packets + window) - upto(packets));
        packets += window;
        count += u64::from(round >= 200);
    }
    let alpha = rounds.alpha_percent().expect("marks were seen");
    assert!((20..=30).contains(&alpha), "{alpha}");
    let window = rounds.cc.cwnd() / SMSS;
    assert!((4..=9).contains(&window), "{window} packets after {count} rounds");
}

/// A packet a round trip from 25 ms on. In a shorter one so much less that the rate grows as that
/// of a flow with 25 ms: by SMSS / 25 ms in 25 ms.
#[test]
fn a_short_round_trip_adds_no_more_rate_than_25_ms() {
    for (rtt_ms, rounds_of, tenths) in [(100, 10, 100), (25, 20, 200), (5, 100, 40), (1, 500, 8)] {
        let mut rounds = Rounds::new(100, MS.times(rtt_ms), L4S());
        let before = rounds.cc.cwnd();
        (0..rounds_of).for_each(|_| rounds.go(0));
        let (grown, wanted) = (rounds.cc.cwnd() - before, tenths * SMSS / 10);
        let is_near = grown.abs_diff(wanted) * 100 < wanted * 6;
        assert!(is_near, "{rtt_ms} ms: {grown} bytes, not {wanted}");
    }
}

/// One reduction in a virtual round trip: 25 ms, five round trips of 5 ms.
#[test]
fn the_window_shrinks_once_in_a_virtual_round_trip() {
    let mut rounds = Rounds::new(1_000, MS.times(5), L4S());
    rounds.go(1);
    let (mut before, mut cuts) = (rounds.cc.cwnd(), Vec::new());
    for round in 1..=20 {
        rounds.go(1);
        if rounds.cc.cwnd() < before {
            cuts.push(round);
        }
        before = rounds.cc.cwnd();
    }
    assert_eq!(cuts, [5, 10, 15, 20]);
}

/// Marked data adds nothing.
#[test]
fn marked_bytes_do_not_grow_the_window() {
    let mut rounds = Rounds::new(100, MS.times(40), L4S());
    rounds.go(0);
    let plain = rounds.cc.cwnd();
    let mut marked = Rounds::new(100, MS.times(40), L4S());
    marked.go(100);
    // The first ACK's marks reduce the window, and nothing is added to that.
    let half = 101 * SMSS / 2;
    assert!(marked.cc.cwnd() <= half && plain > 100 * SMSS, "{} {plain}", marked.cc.cwnd());
}

/// RFC 3168, where the transport does not say that marks are L4S: half, once an episode.
#[test]
fn without_l4s_a_mark_is_a_loss() {
    let mut rounds = Rounds::new(100, MS.times(40), Config::new(1));
    let before = rounds.cc.cwnd();
    rounds.go(50);
    assert_eq!((rounds.cc.cwnd(), rounds.alpha_percent()), (before / 2, None));
}

/// A loss takes half, also where marks came in the same round trip; it was none if the transport
/// says so, which marks do not hinder.
#[test]
fn a_loss_halves_and_can_be_undone_beside_marks() {
    let mut rounds = Rounds::new(100, MS.times(40), L4S());
    rounds.go(1);
    let before = rounds.cc.cwnd();
    let flight = rounds.flight();
    rounds.now += rounds.rtt;
    let mut ack = rounds.cc.ack(rounds.now);
    ack.ce(1);
    ack.acked(&flight[1]);
    ack.lost(&flight[0]);
    ack.finish();
    assert_eq!(rounds.cc.cwnd(), before / 2);
    rounds.cc.on_spurious_loss(rounds.now);
    assert_eq!(rounds.cc.cwnd(), before);
}

/// A loss that a probe repaired is one, and no mark, of which alpha would take next to nothing.
#[test]
fn a_loss_that_a_probe_repaired_halves_and_leaves_alpha() {
    let mut rounds = Rounds::new(100, MS.times(40), L4S());
    rounds.go(1);
    (0..60).for_each(|_| rounds.go(0));
    let (before, alpha) = (rounds.cc.cwnd(), rounds.alpha_percent());
    let flight = rounds.flight();
    rounds.now += rounds.rtt;
    let mut ack = rounds.cc.ack(rounds.now);
    flight.iter().for_each(|p| ack.acked(p));
    ack.repaired_loss();
    ack.finish();
    assert_eq!(rounds.cc.cwnd(), before / 2);
    rounds.go(0);
    assert!(rounds.alpha_percent() <= alpha && alpha < Some(10), "{alpha:?}");
}

/// A queue that marks from 1 ms on: the link is nearly full, and the queue hardly longer than that.
#[test]
fn a_step_of_one_millisecond_keeps_the_link_busy_and_the_queue_short() {
    for (mbit, rtt_ms) in [(20, 10), (50, 20), (100, 5), (100, 50)] {
        let mut link = Link::with(Algorithm::PRAGUE, mbit, MS.times(rtt_ms), L4S());
        link.mark_above = MS;
        link.run(Duration::from_secs(10));
        let before = link.delivered;
        let (mut longest, end) = (Duration::ZERO, link.now + Duration::from_secs(5));
        let start = link.now;
        while link.now < end {
            link.step(&mut || false);
            longest = longest.max(link.free.since(link.now));
        }
        let used = Rate::from_volume(link.delivered - before, link.now.since(start));
        let percent = used.as_bytes_per_sec() * 100 / link.rate.as_bytes_per_sec();
        assert!(percent >= 93, "{mbit} Mbit/s, {rtt_ms} ms: {percent} %");
        assert!(longest < MS.times(3), "{mbit} Mbit/s, {rtt_ms} ms: {longest}");
    }
}

/// At once it would wait for itself on a slow link, and be marked; over the whole of a long round
/// trip each packet would wait for a delayed ACK.
#[test]
fn the_initial_window_leaves_over_25_ms() {
    for handshake_rtt in [None, Some(MS.times(100)), Some(MS.times(600))] {
        let now = Instant::from_nanos(1);
        let config = Config { handshake_rtt, ..L4S() };
        let mut cc = Controller::new(Algorithm::PRAGUE, config, now);
        let (mut at, mut sent) = (now, 0);
        loop {
            match cc.can_send(at) {
                SendDecision::Now { .. } => {
                    let _packet = cc.on_sent(at, SMSS as u32);
                    sent += 1;
                }
                SendDecision::At(next) => at = next,
                SendDecision::CwndLimited => break,
            }
        }
        // The last of ten packets leaves a tenth before the end, and two may leave at once.
        let took = at.since(now);
        assert!(sent == 10 && took > MS.times(19) && took <= MS.times(25), "{sent}: {took}");
    }
}
