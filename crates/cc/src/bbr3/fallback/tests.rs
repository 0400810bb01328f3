//! The bound of the window beside a plain model of its text.

use super::*;
use crate::bbr3::flavour_tests::{BDP, cruising, sample};
use crate::bbr3::{Bbr3, Draft, MarkResponse, Rules};
use crate::config::Config;
use crate::conn::Conn;
use crate::test_link::{MS, SMSS};
use crate::units::Rate;
use proptest::prelude::*;

fn follow(bbr: &mut Bbr3<Draft>, conn: &Conn, rs: &RateSample) {
    let (rules, view) = bbr.rules_and_view(conn);
    rules.marks_mut().follow_queue(&view, rs);
}

/// Round trips of a flow that the bound limits, each with its marks; the bound after each.
fn bounds(marks: &[bool]) -> std::vec::Vec<u64> {
    let config = Config { ecn: true, ..Config::new(1) };
    let (mut bbr, mut conn) = cruising::<Draft>(&config);
    let fallback = &mut bbr.rules.marks_mut().fallback;
    // Nothing is judged here.
    (fallback.window.bound, fallback.cruise_began) = (100 * SMSS, u64::MAX);
    marks
        .iter()
        .map(|is_marked| {
            conn.cwnd = bbr.rules.most_inflight(4 * SMSS);
            conn.inflight = conn.cwnd;
            conn.mark_cwnd_limited();
            let left_at = conn.sampler.delivered;
            conn.sampler.delivered += conn.cwnd;
            // The first ACK of the round trip, and one more.
            for round_start in [true, false] {
                let rs = RateSample { prior_delivered: left_at, ..sample(Rate::ZERO) };
                bbr.round.start = round_start;
                if *is_marked {
                    bbr.rules.marks_mut().fallback.note_marks();
                }
                follow(&mut bbr, &conn, &rs);
            }
            bbr.rules.most_inflight(4 * SMSS) / SMSS
        })
        .collect()
}

#[test]
fn a_marked_round_trip_leaves_seven_tenths_and_another_adds_a_packet() {
    assert_eq!(bounds(&[false, false, true, false, true]), [101, 102, 71, 72, 50]);
}

/// BBR.MinPipeCwnd stays, however much is marked.
#[test]
fn the_bound_is_at_least_four_packets() {
    assert_eq!(bounds(&[true; 30]).last(), Some(&4));
}

/// The text of the module above as a plain model, which shares the test for the queue.
struct Plain {
    queue: ClassicQueue,
    bound: Option<u64>,
    /// C.delivered at the newest reduction, and when CRUISE began.
    reduced: u64,
    cruise_began: u64,
    is_cycle_marked: bool,
}

impl Plain {
    fn on_ack(&mut self, conn: &Conn, rs: &RateSample, ack: &Ack) {
        self.is_cycle_marked |= ack.is_marked;
        if !ack.is_in_cruise {
            self.cruise_began = conn.delivered();
        }
        let left_in_cruise = rs.prior_delivered >= self.cruise_began && !ack.is_app_limited;
        if ack.is_in_cruise && left_in_cruise {
            self.queue.observe(conn, rs);
        } else {
            self.queue.note_least(rs);
        }
        if ack.round_start && left_in_cruise {
            self.queue.judge_by_mean(self.is_cycle_marked);
            let sure = self.queue.certainty() == SURE;
            if self.bound.is_none() && sure {
                self.bound = Some(conn.cwnd.min(rs.prior_inflight.max(BDP)));
            } else if self.queue.certainty() == 0 {
                self.bound = None;
            }
        }
        let Some(bound) = &mut self.bound else { return };
        if rs.prior_delivered < self.reduced {
            return;
        }
        if ack.is_marked {
            *bound = (*bound * 7 / 10).max(4 * SMSS);
            self.reduced = conn.delivered();
        } else if ack.round_start && conn.is_cwnd_limited() && conn.cwnd >= *bound {
            *bound += SMSS;
        }
    }
}

#[derive(Clone, Debug)]
struct Ack {
    is_in_cruise: bool,
    round_start: bool,
    is_marked: bool,
    is_limited: bool,
    is_app_limited: bool,
    /// Packets in flight before it.
    flight: u64,
    cwnd: u64,
    /// Packets that were delivered since the newest one left.
    packets: u64,
}

fn ack() -> impl Strategy<Value = Ack> {
    let weighted = prop::bool::weighted;
    // The memory of the test for the queue is as long as the window.
    let windows = prop_oneof![1u64..8, 1u64..200];
    let flags = (weighted(0.9), weighted(0.4), weighted(0.3), any::<bool>(), weighted(0.2));
    (flags, windows, 1u64..200, 0u64..20).prop_map(|(flags, cwnd, flight, packets)| {
        let (is_in_cruise, round_start, is_marked, is_limited, is_app_limited) = flags;
        Ack {
            is_in_cruise,
            round_start,
            is_marked,
            is_limited,
            is_app_limited,
            flight: flight * SMSS,
            cwnd: cwnd * SMSS,
            packets,
        }
    })
}

proptest! {
    /// Queues that are long or short for a time, with marks or without.
    #[test]
    fn the_bound_is_that_of_the_text(
        phases in prop::collection::vec(
            (prop::sample::select(&[0u64, 1, 4, 60][..]), prop::bool::weighted(0.2),
             prop::collection::vec(ack(), 1..80)),
            1..8,
        ),
    ) {
        let config = Config { ecn: true, ..Config::new(1) };
        let (mut bbr, mut conn) = cruising::<Draft>(&config);
        let base = RateSample { rtt: MS.times(20), ..sample(Rate::ZERO) };
        let fallback = &mut bbr.rules.marks_mut().fallback;
        fallback.queue.note_least(&base);
        let queue = fallback.queue.clone();
        let mut plain =
            Plain { queue, bound: None, reduced: 0, cruise_began: 0, is_cycle_marked: false };
        for (queue_ms, begins_cycle, acks) in phases {
            if begins_cycle {
                bbr.rules.marks_mut().fallback.begin_cycle();
                plain.is_cycle_marked = false;
            }
            for ack in acks {
                conn.sampler.delivered += SMSS;
                let delivered = conn.delivered();
                (conn.cwnd, conn.inflight) = (ack.cwnd, 0);
                if ack.is_limited {
                    conn.mark_cwnd_limited();
                }
                let rs = RateSample {
                    rtt: MS.times(20 + queue_ms * (1 + ack.packets % 2)),
                    prior_delivered: delivered.saturating_sub(ack.packets * SMSS),
                    prior_inflight: ack.flight,
                    is_app_limited: ack.is_app_limited,
                    ..sample(Rate::ZERO)
                };
                let other = State::ProbeBwUp;
                bbr.state = if ack.is_in_cruise { State::ProbeBwCruise } else { other };
                bbr.round.start = ack.round_start;
                if ack.is_marked {
                    bbr.rules.marks_mut().fallback.note_marks();
                }
                follow(&mut bbr, &conn, &rs);
                plain.on_ack(&conn, &rs, &ack);
                prop_assert_eq!(bbr.rules.marks().fallback.is_classic(), plain.bound.is_some());
                let bound = plain.bound.map_or(INFINITE, |bound| bound.max(4 * SMSS));
                prop_assert_eq!(bbr.rules.most_inflight(4 * SMSS), bound);
            }
        }
    }
}
