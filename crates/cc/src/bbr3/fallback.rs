//! The fallback of the draft's flavours for a classic queue, which marks by RFC 3168 (RFC 9331
//! section 4.3). One of its marks means to CUBIC and Reno what a loss means. It marks a few packets
//! in a thousand, and what [`super::ecn`] takes for that from the window is next to nothing.
//!
//! While [`ClassicQueue`] is sure that the queue is such a one, the window has a bound that does
//! what Reno's window does, with CUBIC's factor. A mark takes it to 0.7 at once, and so does no
//! other one before a packet has arrived that left after that. A round trip in which it was the
//! limit, and in which nothing was marked, adds a packet. BBR's model goes on below the bound.
//!
//! Startup, UP and the round trips after them make a queue themselves, in a queue of L4S as well.
//! So only round trips of packets that left in CRUISE are looked at. But CRUISE may have no marks
//! where the queue marks what a probe adds: the marks of a whole cycle of ProbeBW count for its
//! CRUISE.

use super::Bbr3;
use super::params::{CLASSIC_BETA, Flavour};
use crate::classic_queue::{ClassicQueue, SURE};
use crate::conn::{Conn, INFINITE};
use crate::sampler::RateSample;
use crate::snapshot::State;

#[derive(Clone, Debug)]
pub(crate) struct Fallback {
    queue: ClassicQueue,
    /// The bound; infinite while the queue is taken for one of L4S.
    window: u64,
    /// C.delivered at the newest reduction: the marks of packets that left before are answered.
    reduced: u64,
    /// C.delivered when the newest CRUISE began.
    cruise_began: u64,
    /// The ACK at hand brought marks; an ACK since REFILL did.
    is_marked: bool,
    is_cycle_marked: bool,
}

impl Fallback {
    pub(super) const fn new() -> Self {
        Self {
            queue: ClassicQueue::new(true),
            window: INFINITE,
            reduced: 0,
            cruise_began: 0,
            is_marked: false,
            is_cycle_marked: false,
        }
    }

    pub(super) const fn is_classic(&self) -> bool {
        self.window != INFINITE
    }

    pub(super) const fn note_marks(&mut self) {
        self.is_marked = true;
        self.is_cycle_marked = true;
    }

    /// A cycle of ProbeBW begins, with REFILL.
    pub(super) const fn begin_cycle(&mut self) {
        self.is_cycle_marked = false;
    }
}

impl<F: Flavour> Bbr3<F> {
    /// One ACK, after the state machine's steps and before the window is set.
    #[inline]
    pub(super) fn follow_classic_queue(&mut self, conn: &Conn, rs: &RateSample) {
        let (state, round_start) = (self.state, self.round_start);
        let Some(fallback) = F::fallback_mut(&mut self.own) else { return };
        if state != State::ProbeBwCruise {
            fallback.cruise_began = conn.sampler.delivered;
        } else if rs.prior_delivered >= fallback.cruise_began
            && let Some(rtt) = rs.rtt()
        {
            fallback.queue.observe(conn, rtt);
        }
        if round_start | fallback.is_marked {
            self.renew_fallback(conn, rs);
        }
    }

    /// Once a round, and with each ACK that brings marks.
    #[cold]
    fn renew_fallback(&mut self, conn: &Conn, rs: &RateSample) {
        let (least, round_start) = (self.min_pipe_cwnd(conn), self.round_start);
        let Some(fallback) = F::fallback_mut(&mut self.own) else { return };
        if round_start && rs.prior_delivered >= fallback.cruise_began {
            fallback.queue.judge_by_mean(conn, fallback.is_cycle_marked);
            match fallback.queue.certainty() {
                0 => fallback.window = INFINITE,
                SURE if !fallback.is_classic() => {
                    fallback.window = conn.cwnd.min(rs.prior_inflight);
                }
                _ => {}
            }
        }
        let is_marked = core::mem::take(&mut fallback.is_marked);
        if !fallback.is_classic() || rs.prior_delivered < fallback.reduced {
            return;
        }
        if is_marked {
            fallback.window = CLASSIC_BETA.of(fallback.window).max(least);
            fallback.reduced = conn.sampler.delivered;
        } else if round_start && conn.cwnd >= fallback.window && conn.is_cwnd_limited() {
            fallback.window = fallback.window.saturating_add(conn.smss);
        }
    }

    /// True while the queue is taken for a classic one.
    #[inline]
    pub(super) fn is_queue_classic(&self) -> bool {
        F::fallback(&self.own).is_some_and(Fallback::is_classic)
    }

    /// The bound of the window, infinite without one.
    #[inline]
    pub(super) fn classic_inflight(&self, conn: &Conn) -> u64 {
        F::fallback(&self.own)
            .map_or(INFINITE, |fallback| fallback.window.max(self.min_pipe_cwnd(conn)))
    }
}

#[cfg(all(test, feature = "l4s"))]
mod tests {
    use super::*;
    use crate::bbr3::flavour_tests::{cruising, sample};
    use crate::bbr3::params::Draft;
    use crate::config::Config;
    use crate::test_link::{MS, SMSS};
    use crate::units::{Instant, Rate};
    use proptest::prelude::*;

    /// Round trips of a flow that the bound limits, each with its marks; the bound after each.
    fn bounds(marks: &[bool]) -> std::vec::Vec<u64> {
        let config = Config { ecn: true, ..Config::new(1) };
        let (mut bbr, mut conn) = cruising::<Draft>(&config);
        let fallback = Draft::fallback_mut(&mut bbr.own).expect("ECN is on");
        // Nothing is judged here.
        (fallback.window, fallback.cruise_began) = (100 * SMSS, u64::MAX);
        marks
            .iter()
            .map(|is_marked| {
                conn.cwnd = bbr.classic_inflight(&conn);
                conn.inflight = conn.cwnd;
                conn.mark_cwnd_limited();
                let left_at = conn.sampler.delivered;
                conn.sampler.delivered += conn.cwnd;
                // The first ACK of the round trip, and one more.
                for round_start in [true, false] {
                    let rs = RateSample { prior_delivered: left_at, ..sample(Rate::ZERO) };
                    bbr.round_start = round_start;
                    if *is_marked {
                        Draft::fallback_mut(&mut bbr.own).expect("ECN is on").note_marks();
                    }
                    bbr.follow_classic_queue(&conn, &rs);
                }
                bbr.classic_inflight(&conn) / SMSS
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

    /// The text above this module as a plain model, which shares the test for the queue.
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
            let left_in_cruise = rs.prior_delivered >= self.cruise_began;
            if ack.is_in_cruise && left_in_cruise {
                self.queue.observe(conn, rs.rtt);
            }
            if ack.round_start && left_in_cruise {
                self.queue.judge_by_mean(conn, self.is_cycle_marked);
                let sure = self.queue.certainty() == SURE;
                if self.bound.is_none() && sure {
                    self.bound = Some(conn.cwnd.min(rs.prior_inflight));
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
        cwnd: u64,
        /// Packets that were delivered since the newest one left.
        packets: u64,
    }

    fn ack() -> impl Strategy<Value = Ack> {
        let weighted = prop::bool::weighted;
        (weighted(0.9), weighted(0.4), weighted(0.3), any::<bool>(), 1u64..200, 1u64..20).prop_map(
            |(is_in_cruise, round_start, is_marked, is_limited, cwnd, packets)| Ack {
                is_in_cruise,
                round_start,
                is_marked,
                is_limited,
                cwnd: cwnd * SMSS,
                packets,
            },
        )
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
            let p = conn.sampler.on_sent(Instant::default(), SMSS, false, SMSS);
            _ = conn.sample(Instant::default() + MS.times(20), &p, None);
            let queue = ClassicQueue::new(true);
            let mut plain =
                Plain { queue, bound: None, reduced: 0, cruise_began: 0, is_cycle_marked: false };
            for (queue_ms, begins_cycle, acks) in phases {
                if begins_cycle {
                    Draft::fallback_mut(&mut bbr.own).expect("ECN is on").begin_cycle();
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
                        prior_inflight: 100 * SMSS,
                        ..sample(Rate::ZERO)
                    };
                    let other = State::ProbeBwUp;
                    bbr.state = if ack.is_in_cruise { State::ProbeBwCruise } else { other };
                    bbr.round_start = ack.round_start;
                    if ack.is_marked {
                        Draft::fallback_mut(&mut bbr.own).expect("ECN is on").note_marks();
                    }
                    bbr.follow_classic_queue(&conn, &rs);
                    plain.on_ack(&conn, &rs, &ack);
                    prop_assert_eq!(bbr.is_queue_classic(), plain.bound.is_some());
                    let bound = plain.bound.map_or(INFINITE, |bound| bound.max(4 * SMSS));
                    prop_assert_eq!(bbr.classic_inflight(&conn), bound);
                }
            }
        }
    }
}
