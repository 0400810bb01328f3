//! The phases beside a plain model of RFC 9959, written from its sections: what a batch is to a
//! phase, and which window and rate are in force after it. Round trips, times, flights and windows
//! are drawn at the bounds of the phases, and beside them.

use std::vec::Vec;

use proptest::prelude::*;

use super::machine::{News, Resume};
use super::*;
use crate::config::Config;
use crate::conn::Conn;
use crate::sampler::{PacketState, RttSample};
use crate::snapshot::State;
use crate::test_link::{MS, SMSS};
use crate::units::{Instant, Rate};

const START: Instant = Instant::from_nanos(77);

/// One batch. Values near a bound are a number of units away from it.
#[derive(Clone, Debug)]
struct Batch {
    /// What the algorithm has set before it.
    own_cwnd: u64,
    own_mbit: Option<u64>,
    state: State,
    is_paced: bool,
    /// The application has no more to send.
    is_app_limited: bool,
    /// Packets that leave before it.
    sent: usize,
    /// The bytes in flight: a bound, and so many bytes above it.
    inflight: (Bound, i64),
    /// It comes so many ns after the phase's time is over, or so many ms after the last batch.
    time: Result<i64, u64>,
    /// Its newest packet is that at the mark, so many later; or it has none.
    newest: Option<i64>,
    newly_acked: u64,
    rtt: Option<Rtt>,
    is_congested: bool,
    has_timed_out: bool,
}

/// What a flight is compared with.
#[derive(Clone, Copy, Debug)]
enum Bound {
    Nothing,
    InitialWindow,
    Pipe,
    Window,
}

/// A round trip: a part of the saved one and so many ns.
#[derive(Clone, Copy, Debug)]
enum Rtt {
    Half(i64),
    Same,
    Ten(i64),
}

impl Batch {
    /// A value tree of each field costs more than all that is tested: they are drawn from a seed.
    fn drawn(seed: u64) -> Self {
        let mut word = seed;
        let mut below = |n: u64| {
            word = word.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (word >> 33) % n
        };
        let range = if below(5) == 0 { 400_000 } else { 40_000 };
        let states = [State::ConservativeSlowStart, State::CongestionAvoidance, State::Recovery];
        let bounds = [Bound::InitialWindow, Bound::Pipe, Bound::Window];
        let smss = SMSS as i64;
        Self {
            own_cwnd: 12_000 + below(range),
            own_mbit: (below(5) > 0).then(|| 1 + below(100)),
            state: match below(12) {
                0 => State::Drain,
                i @ 1..4 => states[i as usize - 1],
                4..8 => State::Startup,
                _ => State::SlowStart,
            },
            is_paced: below(20) > 0,
            is_app_limited: below(8) == 0,
            sent: below(6) as usize,
            inflight: match below(8) {
                0 => (Bound::Nothing, 0),
                i => {
                    let beside = [-smss, 1 - smss, -1, 0, 1, below(400_000) as i64];
                    (bounds[i as usize % 3], beside[below(6) as usize])
                }
            },
            time: if below(8) == 0 { Ok(below(3) as i64 - 1) } else { Err(below(40)) },
            newest: (below(6) > 0).then(|| below(5) as i64 - 3),
            newly_acked: below(30_000),
            rtt: match below(14) {
                0 => Some(Rtt::Half(below(2) as i64)),
                1 => Some(Rtt::Ten(below(2) as i64)),
                2..8 => Some(Rtt::Same),
                _ => None,
            },
            is_congested: below(13) == 0,
            has_timed_out: below(30) == 0,
        }
    }
}

/// The model.
struct Model {
    saved: SavedParameters,
    initial_cwnd: u64,
    phase: ResumePhase,
    pipe: u64,
    /// The number of the first packet that counts for the phase's end.
    mark: usize,
    all_departed: u64,
    until: Instant,
    window: u64,
    jump_rate: f64,
    last_own: u64,
}

impl Model {
    fn jump(&self) -> u64 {
        self.saved.cwnd / 2
    }

    fn half_of_pipe(&self) -> u64 {
        (self.pipe / 2).max(4 * SMSS)
    }

    /// Section 3.2, and section 4.2.1 for the round trip: more than half of the saved one, and not
    /// beyond ten of them.
    fn event(&mut self, conn: &Conn, b: &Batch, now: Instant, newest: Option<usize>) -> Event {
        let rtt = conn.min_rtt().map(|rtt| rtt.as_nanos());
        let saved = self.saved.rtt.as_nanos();
        let is_short = rtt.is_some_and(|rtt| 2 * rtt <= saved);
        let is_long = rtt.is_some_and(|rtt| rtt > 10 * saved);
        // A queue of ten saved round trips is not that of half of what they carried.
        let is_queue = conn.srtt().is_some_and(|rtt| rtt.as_nanos() > 10 * saved);
        let is_slow_start = b.state == State::Startup || b.state == State::SlowStart;
        let has_arrived = newest.is_some_and(|n| n >= self.mark);
        if self.phase != ResumePhase::Reconnaissance {
            self.pipe += b.newly_acked;
        }
        match self.phase {
            _ if b.has_timed_out => Event::Timeout,
            _ if b.is_congested => Event::Congestion,
            ResumePhase::Reconnaissance => {
                let may_jump = is_slow_start && b.is_paced && self.jump() > conn.cwnd;
                let is_confirmed = conn.delivered() + SMSS > self.initial_cwnd;
                match () {
                    () if now > self.until => Event::Deadline,
                    () if rtt.is_none() => Event::Nothing,
                    () if !may_jump => Event::CannotJump,
                    () if is_short || is_long => Event::OtherRtt,
                    () if is_confirmed && !b.is_app_limited => Event::InitialWindowDelivered,
                    () => Event::Nothing,
                }
            }
            ResumePhase::Unvalidated | ResumePhase::Validating if is_short || is_queue => {
                Event::OtherRtt
            }
            ResumePhase::Unvalidated => {
                let has_left_start = !is_slow_start && b.state != State::ConservativeSlowStart;
                let is_full = self.window < conn.inflight + SMSS;
                let end = match () {
                    () if has_arrived => Event::MarkAcked,
                    () if is_full || has_left_start => Event::WindowUsed,
                    () if now >= self.until => Event::RoundOver,
                    () => return Event::Nothing,
                };
                // What is in flight beyond the validated part is the jump.
                let usual = self.pipe.max(self.initial_cwnd.saturating_sub(1));
                if conn.inflight > usual { end } else { Event::LittleSent }
            }
            ResumePhase::Validating if has_arrived || conn.departed() >= self.all_departed => {
                Event::MarkAcked
            }
            ResumePhase::SafeRetreat if has_arrived || conn.inflight == 0 => Event::MarkAcked,
            _ => Event::Nothing,
        }
    }

    /// The window and the rate in bytes a second in force after an event, if that one is limited
    /// by another than the algorithm.
    fn take(
        &mut self,
        conn: &Conn,
        b: &Batch,
        now: Instant,
        step: &Step,
        count: usize,
    ) -> (u64, Option<f64>) {
        let own = conn.cwnd;
        let is_start =
            matches!(b.state, State::Startup | State::SlowStart | State::ConservativeSlowStart);
        let before = self.phase;
        if step.phase == Some(before) {
            // A window of slow start grows by what arrives, BBR's follows its model.
            if step.window == Window::Flight && b.state != State::Startup {
                self.window += own.saturating_sub(self.last_own).min(b.newly_acked);
            }
        } else if let Some(phase) = step.phase {
            self.phase = phase;
            match phase {
                ResumePhase::Unvalidated => {
                    let rtt = conn.srtt().unwrap_or(self.saved.rtt);
                    self.pipe = own.min(conn.inflight);
                    (self.mark, self.until, self.window) = (count, now + rtt, self.jump());
                    self.jump_rate = self.jump() as f64 * 1e9 / rtt.as_nanos() as f64;
                }
                ResumePhase::Validating => {
                    self.window = self.window.min(conn.inflight).max(4 * SMSS);
                    (self.mark, self.all_departed) = (count, conn.departed() + conn.inflight);
                }
                ResumePhase::SafeRetreat => {
                    if before == ResumePhase::Unvalidated {
                        self.mark = count;
                    }
                    self.window = self.half_of_pipe();
                }
                ResumePhase::Reconnaissance => unreachable!("nothing leads back"),
            }
        }
        self.last_own = own;
        let cwnd = match step.window {
            Window::Own => own,
            Window::Jump => own.max(self.window),
            Window::Flight | Window::Carried => {
                if is_start {
                    own.max(self.window)
                } else {
                    own
                }
            }
            Window::HalfOfPipe => {
                self.window = self.window.max(4 * SMSS).min(own);
                self.window
            }
        };
        let own_rate = b.own_mbit.map_or(f64::INFINITY, |mbit| mbit as f64 * 125_000.0);
        let by_window = !matches!(b.state, State::Startup | State::Drain);
        // A rate that follows from the window follows from the one in force.
        let paces = by_window && self.phase != ResumePhase::Unvalidated;
        let rate = if paces { own_rate * cwnd as f64 / own as f64 } else { own_rate };
        match step.pace {
            Pace::Jump => (cwnd, Some(rate.max(self.jump_rate))),
            Pace::Own => (cwnd, Some(rate)),
        }
    }
}

/// A connection whose algorithm, path and application are the drawn ones.
struct Real {
    conn: Conn,
    resume: Resume,
    packets: Vec<PacketState>,
    now: Instant,
}

impl Real {
    /// A batch, for both. True if the connection goes on with a phase.
    fn live(&mut self, model: &mut Model, b: &Batch) -> bool {
        self.resume.lift(&mut self.conn);
        let conn = &mut self.conn;
        let bound = match b.inflight.0 {
            Bound::Nothing => 0,
            Bound::InitialWindow => model.initial_cwnd,
            Bound::Pipe => model.pipe,
            Bound::Window => model.window,
        };
        conn.inflight = bound.saturating_add_signed(b.inflight.1);
        for _ in 0..b.sent {
            self.packets.push(conn.sampler.on_sent(self.now, SMSS, conn.inflight));
        }
        self.now = match b.time {
            Ok(ns) => {
                let at = model.until.as_nanos().saturating_add_signed(ns);
                Instant::from_nanos(at.max(self.now.as_nanos()))
            }
            Err(ms) => self.now + MS.times(ms),
        };
        let last = self.packets.len().checked_sub(1);
        let newest = b.newest.zip(last).map(|(later, last)| {
            let at = (model.mark as u64).saturating_add_signed(later);
            (at as usize).min(last)
        });
        conn.sampler.count_delivered(b.newly_acked);
        let saved = model.saved.rtt.as_nanos();
        let rtt = b.rtt.map(|rtt| match rtt {
            Rtt::Half(ns) => (saved / 2).saturating_add_signed(ns),
            Rtt::Same => saved,
            Rtt::Ten(ns) => (saved * 10).saturating_add_signed(ns),
        });
        if let (Some(newest), Some(rtt)) = (newest, rtt) {
            let rtt = RttSample::Exact(Duration::from_nanos(rtt));
            conn.sample(self.now, &self.packets[newest], Some(rtt));
        }
        (conn.cwnd, conn.is_paced) = (b.own_cwnd, b.is_paced);
        conn.pacing_rate =
            b.own_mbit.map_or(Rate::MAX, |mbit| Rate::from_bits_per_sec(mbit * 1_000_000));
        if b.is_app_limited {
            conn.sampler.mark_app_limited(conn.inflight);
        }
        let b = Batch { is_app_limited: conn.sampler.is_app_limited(), ..b.clone() };
        let news = News {
            now: self.now,
            newest: newest.map(|n| &self.packets[n]),
            newly_acked: b.newly_acked,
            is_congested: b.is_congested,
            has_timed_out: b.has_timed_out,
        };
        let event = self.resume.event(conn, b.state, &news);
        assert_eq!(event, model.event(conn, &b, self.now, newest), "{b:?}");
        let own = conn.clone();
        let step = self.resume.take(conn, b.state, self.now, event, b.newly_acked);
        let (cwnd, rate) = model.take(&own, &b, self.now, &step, self.packets.len());
        assert_eq!(conn.cwnd, cwnd, "{event:?} {step:?} {b:?}");
        match rate.filter(|rate| rate.is_finite()) {
            Some(rate) => {
                let real = conn.pacing_rate.as_bytes_per_sec() as f64;
                assert!((real - rate).abs() <= 1.0, "{real} for {rate}: {event:?} {b:?}");
            }
            None => assert_eq!(conn.pacing_rate, Rate::MAX),
        }
        if conn.pacing_rate != own.pacing_rate {
            let quantum = (conn.pacing_rate.bytes_in(MS)).clamp(2 * SMSS, 65_536);
            assert_eq!(conn.send_quantum, quantum, "{event:?} {b:?}");
        }
        if step.phase.is_some() {
            assert_eq!(step.phase, Some(self.resume.phase()));
        }
        assert_eq!(self.resume.half_of_pipe(conn), model.half_of_pipe());
        step.phase.is_some()
    }
}

/// A connection from its begin to its end; `seed` is all that is drawn of it.
fn resume(seed: u64) {
    let mut word = seed;
    let mut next = || {
        word = word.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        word >> 11
    };
    let saved = SavedParameters {
        cwnd: 40_000 + next() % 560_000,
        rtt: Duration::from_micros(1_000 + next() % 99_000),
    };
    let has_handshake = next() % 2 == 0;
    let config = Config { handshake_rtt: has_handshake.then_some(saved.rtt), ..Config::new(1) };
    let mut conn = Conn::new(&config, START);
    let until = START + MS.times(300);
    let resume = Resume::new(saved, u64::MAX, until, &conn).expect("possible parameters");
    let mut model = Model {
        saved,
        initial_cwnd: conn.initial_cwnd,
        phase: ResumePhase::Reconnaissance,
        pipe: 0,
        mark: 0,
        all_departed: 0,
        until,
        window: 0,
        jump_rate: 0.0,
        last_own: conn.cwnd,
    };
    let packets = (0..10).map(|_| conn.sampler.on_sent(START, SMSS, 0)).collect();
    let mut real = Real { conn, resume, packets, now: START };
    while real.live(&mut model, &Batch::drawn(next())) && real.packets.len() < 300 {}
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 20, failure_persistence: None, ..ProptestConfig::default() })]

    /// After each batch event, window, rate and quantum are those of the model.
    #[test]
    fn each_batch_is_that_of_the_rfc(seeds in prop::collection::vec(any::<u64>(), 200)) {
        seeds.into_iter().for_each(resume);
    }
}
