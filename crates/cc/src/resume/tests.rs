//! The whole table for each algorithm. Each pair of a phase and an event is brought about in a
//! connection that resumes and, with the same packets, ACKs and losses, in one that does not: what
//! the table calls the algorithm's own is what the other one has.

use std::collections::VecDeque;
use std::vec::Vec;

use super::*;
use crate::sampler::{PacketState, RttSample};
use crate::test_link::{MS, SMSS};
use crate::{
    Algorithm, Config, Controller, CubicOptions, CubicRules, Duration, Instant, Rate, SendDecision,
};

const RTT: Duration = Duration::from_millis(100);
const SAVED: SavedParameters = SavedParameters { cwnd: 480_000, rtt: RTT };
const JUMP_CWND: u64 = SAVED.cwnd / 2;

const PHASES: [ResumePhase; 4] = [
    ResumePhase::Reconnaissance,
    ResumePhase::Unvalidated,
    ResumePhase::Validating,
    ResumePhase::SafeRetreat,
];

const EVENTS: [Event; 14] = [
    Event::Nothing,
    Event::InitialWindowDelivered,
    Event::CannotJump,
    Event::OtherRtt,
    Event::Deadline,
    Event::MarkAcked,
    Event::WindowUsed,
    Event::RoundOver,
    Event::LittleSent,
    Event::Congestion,
    Event::Timeout,
    Event::SpuriousLoss,
    Event::FlightForgotten,
    Event::BegunAnew,
];

/// Two connections over one path without a bottleneck; the first one resumes, and decides what
/// leaves.
struct Twins {
    name: std::string::String,
    config: Config,
    both: [Controller; 2],
    now: Instant,
    flight: VecDeque<(Instant, [PacketState; 2])>,
    lost: Vec<[PacketState; 2]>,
    delivered: u64,
    /// At the begin of the jump: what was delivered, and the flight.
    at_jump: (u64, u64),
}

impl Twins {
    fn new(algorithm: Algorithm) -> Self {
        let config = Config { resume: Some(SAVED), ..Config::new(1) };
        let now = Instant::from_nanos(77);
        let plain = Config { resume: None, ..config };
        Self {
            name: std::format!("{algorithm:?}"),
            config,
            both: [config, plain].map(|config| Controller::new(algorithm, config, now)),
            now,
            flight: VecDeque::new(),
            lost: Vec::new(),
            delivered: 0,
            at_jump: (0, 0),
        }
    }

    fn phase(&self) -> Option<ResumePhase> {
        self.both[0].resume_phase()
    }

    fn send(&mut self) {
        let now = self.now;
        let packets = self.both.each_mut().map(|cc| cc.on_sent(now, SMSS as u32));
        self.flight.push_back((now + RTT, packets));
    }

    /// A batch in which the oldest `acked` packets arrive, and then `lost` are lost.
    fn report(&mut self, acked: usize, lost: usize, rtt: Option<Duration>, timeout: bool) {
        let acked: Vec<_> = self.flight.drain(..acked).map(|(_, packets)| packets).collect();
        let lost: Vec<_> = self.flight.drain(..lost).map(|(_, packets)| packets).collect();
        for (i, cc) in self.both.iter_mut().enumerate() {
            let mut batch = cc.ack(self.now);
            acked.iter().for_each(|packets| batch.acked(&packets[i]));
            lost.iter().for_each(|packets| batch.lost(&packets[i]));
            if let Some(rtt) = rtt {
                batch.rtt(RttSample::Exact(rtt));
            }
            if timeout {
                batch.timeout();
            }
            batch.finish();
        }
        self.delivered += acked.len() as u64 * SMSS;
        self.lost.extend(lost);
    }

    fn tick(&mut self) {
        while matches!(self.both[0].can_send(self.now), SendDecision::Now { .. }) {
            self.send();
        }
        self.now += MS;
        let due = self.flight.iter().take_while(|(at, _)| *at <= self.now).count();
        let before = self.phase();
        if due > 0 {
            self.report(due, 0, None, false);
        }
        if before != self.phase() && self.phase() == Some(ResumePhase::Unvalidated) {
            self.at_jump = (self.delivered, self.both[0].inflight());
        }
    }

    /// Runs to a phase and a bit into it.
    fn run_to(&mut self, phase: ResumePhase) {
        let ticks = match phase {
            ResumePhase::Reconnaissance => 1,
            ResumePhase::Unvalidated => 40,
            _ => 20,
        };
        let reached =
            if phase == ResumePhase::SafeRetreat { ResumePhase::Validating } else { phase };
        while self.phase() != Some(reached) {
            assert!(self.now < Instant::from_nanos(0) + RTT.times(5), "{}: {phase:?}", self.name);
            self.tick();
        }
        (0..ticks).for_each(|_| self.tick());
        if phase == ResumePhase::SafeRetreat {
            self.report(0, 1, None, false);
            self.tick();
        }
        assert_eq!(self.phase(), Some(phase), "{}", self.name);
    }

    /// Brings an event about, or says that it does not happen in this phase.
    fn bring_about(&mut self, phase: ResumePhase, event: Event) -> bool {
        use ResumePhase::*;
        let seed = 5;
        match (phase, event) {
            (_, Event::Nothing) => self.report(0, 0, None, false),
            (_, Event::Congestion) => self.report(0, 1, None, false),
            (_, Event::Timeout) => {
                self.now += RTT.times(10);
                self.report(0, self.flight.len(), None, true);
            }
            (_, Event::SpuriousLoss) => {
                let now = self.now;
                self.both.iter_mut().for_each(|cc| cc.on_spurious_loss(now));
            }
            (_, Event::FlightForgotten) => {
                self.both.iter_mut().for_each(Controller::forget_flight);
                self.flight.clear();
            }
            (_, Event::BegunAnew) => {
                let (now, config) = (self.now, self.config);
                self.both.iter_mut().for_each(|cc| cc.on_migration(now, seed, &config));
                self.flight.clear();
            }
            (Reconnaissance, Event::InitialWindowDelivered) => {
                while self.phase() == Some(Reconnaissance) {
                    self.tick();
                }
            }
            (Reconnaissance | Unvalidated | Validating, Event::OtherRtt) => {
                let rtt = Duration::from_nanos(RTT.as_nanos() / 2);
                self.report(1, 0, Some(rtt), false);
            }
            (Reconnaissance, Event::Deadline) => {
                self.now += Config::new(1).resume_within + MS;
                self.report(1, 0, Some(RTT), false);
            }
            (Reconnaissance, Event::CannotJump) => {
                // A window of more than the jump.
                let (now, config) =
                    (self.now, Config { initial_cwnd: Some(JUMP_CWND), ..self.config });
                let algorithm = self.both[0].algorithm();
                let plain = Config { resume: None, ..config };
                self.both = [config, plain].map(|config| Controller::new(algorithm, config, now));
                self.flight.clear();
                self.send();
                self.now += RTT;
                self.report(1, 0, None, false);
            }
            (Unvalidated, Event::MarkAcked) => {
                // What was in flight at the begin, and one packet more.
                let usual = (self.at_jump.1 - (self.delivered - self.at_jump.0)) / SMSS;
                self.now += MS.times(50);
                self.report(usual as usize + 1, 0, None, false);
            }
            (Unvalidated, Event::WindowUsed) => {
                while self.both[0].inflight() + SMSS <= JUMP_CWND {
                    self.send();
                }
                self.report(0, 0, None, false);
            }
            (Unvalidated, Event::RoundOver) => {
                self.now += RTT;
                self.report(0, 0, None, false);
            }
            (Validating, Event::MarkAcked) => {
                while self.phase() == Some(Validating) {
                    self.tick();
                }
            }
            (SafeRetreat, Event::MarkAcked) => {
                while self.phase() == Some(SafeRetreat) {
                    self.tick();
                }
            }
            (Unvalidated, Event::LittleSent) => {
                // All that was sent arrives but the first packets' worth.
                self.now += RTT;
                let packets: Vec<_> = self.flight.drain(..).collect();
                for (_, [resumed, plain]) in packets {
                    self.both[0].on_discarded(&resumed);
                    self.both[1].on_discarded(&plain);
                }
                self.report(0, 0, None, false);
            }
            (Validating | SafeRetreat, Event::LittleSent) => {
                for (_, [resumed, plain]) in core::mem::take(&mut self.flight) {
                    self.both[0].on_discarded(&resumed);
                    self.both[1].on_discarded(&plain);
                }
                self.now += RTT;
                // Nothing is in flight, and nothing waits.
                self.both.iter_mut().for_each(Controller::on_app_limited);
                self.send();
            }
            _ => return false,
        }
        true
    }

    /// Half of what was delivered since the jump began, and in flight then.
    fn half_of_pipe(&self) -> u64 {
        ((self.delivered - self.at_jump.0 + self.at_jump.1) / 2).max(4 * SMSS)
    }

    /// What the table says holds.
    fn check(&self, step: &Step, context: &str) {
        let [cc, plain] = &self.both;
        let (has, own) = (cc.snapshot(), plain.snapshot());
        let context = std::format!("{} {context}: {step:?}\n{has:?}\n{own:?}", self.name);
        assert_eq!(self.phase(), step.phase, "{context}");
        let half = self.half_of_pipe();
        match step.window {
            Window::Own => assert_eq!(has.cwnd, own.cwnd, "{context}"),
            Window::Jump => assert_eq!(has.cwnd, JUMP_CWND, "{context}"),
            Window::Flight => {
                assert!(has.cwnd <= own.cwnd.max(2 * JUMP_CWND), "{context}");
                assert!(has.cwnd >= has.inflight.min(JUMP_CWND), "{context}");
            }
            Window::Carried => {
                assert!(has.cwnd >= JUMP_CWND * 9 / 10 && has.cwnd >= own.cwnd, "{context}");
            }
            Window::HalfOfPipe => assert!(has.cwnd <= half.min(own.cwnd.max(half)), "{context}"),
        }
        let (rate, own_rate) = (has.pacing_rate.unwrap_or(Rate::MAX), own.pacing_rate);
        let own_rate = own_rate.unwrap_or(Rate::MAX);
        let jump_rate = Rate::from_volume(JUMP_CWND, RTT + MS.times(2));
        match (step.pace, step.window) {
            (Pace::Jump, _) => assert!(rate >= jump_rate, "{context}"),
            (Pace::Own, Window::Own) => assert_eq!(rate, own_rate, "{context}"),
            (Pace::Own, Window::Carried) => assert!(rate >= own_rate, "{context}"),
            // A window below its threshold is paced as in slow start.
            (Pace::Own, _) => {
                let doubles = Rate::from_volume(2 * has.cwnd, RTT);
                assert!(rate <= own_rate.max(doubles), "{context}");
            }
        }
        match step.ssthresh {
            Ssthresh::Own if step.undo == Undo::None => {
                let of = |s: &crate::Snapshot| s.ssthresh.unwrap_or(u64::MAX);
                assert!(of(&has) <= of(&own), "{context}");
            }
            Ssthresh::Own => assert_eq!(has.ssthresh, own.ssthresh, "{context}"),
            Ssthresh::HalfOfPipe if has.bbr.is_some() => {}
            Ssthresh::HalfOfPipe => {
                assert!(has.ssthresh.is_some_and(|bytes| bytes <= half), "{context}");
            }
        }
        match step.saved {
            Saved::Usable => assert!(!cc.saved_parameters_failed(), "{context}"),
            Saved::Unproven => {
                assert!(!cc.saved_parameters_failed(), "{context}");
                assert_eq!(cc.saved_parameters(), None, "{context}");
            }
            Saved::Failed => assert!(cc.saved_parameters_failed(), "{context}"),
        }
    }

    /// The losses were none after all: what comes back is the algorithm's own, or nothing.
    fn check_undo(mut self, step: &Step, context: &str) {
        let before = self.both[0].snapshot();
        let now = self.now;
        self.both.iter_mut().for_each(|cc| cc.on_spurious_loss(now));
        let [has, own] = self.both.each_ref().map(Controller::snapshot);
        let context = std::format!("{} {context}: {step:?}\n{has:?}\n{own:?}", self.name);
        match (step.undo, step.window) {
            (Undo::None, _) | (_, Window::HalfOfPipe) => {
                assert!(has.cwnd <= before.cwnd.max(self.half_of_pipe()), "{context}");
                assert_eq!(has.ssthresh, before.ssthresh, "{context}");
            }
            (Undo::Own, Window::Own) => {
                let of = |s: &crate::Snapshot| (s.cwnd, s.ssthresh, s.pacing_rate);
                assert_eq!(of(&has), of(&own), "{context}");
            }
            (Undo::Own, _) => assert_eq!(has.ssthresh, own.ssthresh, "{context}"),
        }
    }

    /// Nor does a later ACK bring the jump back: for some round trips the two stay one.
    fn check_later(mut self, context: &str) {
        for _ in 0..300 {
            self.tick();
            let [has, own] = self.both.each_ref().map(Controller::snapshot);
            let of = |s: &crate::Snapshot| (s.cwnd, s.ssthresh, s.pacing_rate, s.state);
            assert_eq!(of(&has), of(&own), "{} {context}", self.name);
        }
    }
}

fn clone(twins: &Twins) -> Twins {
    Twins {
        name: twins.name.clone(),
        both: twins.both.clone(),
        flight: twins.flight.clone(),
        lost: twins.lost.clone(),
        ..*twins
    }
}

#[test]
fn the_table_holds_for_every_algorithm() {
    let named = Algorithm::NAMES.iter().filter_map(|name| name.parse().ok());
    let linux = CubicOptions::new().with_rules(CubicRules::Linux);
    for algorithm in named.chain([Algorithm::Cubic(linux)]) {
        let mut pairs = 0;
        for phase in PHASES {
            let mut at = Twins::new(algorithm);
            at.run_to(phase);
            for event in EVENTS {
                let mut twins = clone(&at);
                let step = next(Some(phase), event);
                if !twins.bring_about(phase, event) {
                    continue;
                }
                let context = std::format!("{event:?} in {phase:?}");
                twins.check(&step, &context);
                clone(&twins).check_undo(&step, &context);
                if step.phase.is_none() && step.window == Window::Own && event != Event::LittleSent
                {
                    twins.check_later(&context);
                }
                pairs += 1;
            }
        }
        assert_eq!(pairs, 38, "{algorithm}: pairs that happen");
    }
}

/// The other pairs change nothing, and Normal does not end.
#[test]
fn what_does_not_happen_in_a_phase_changes_nothing() {
    for event in EVENTS {
        assert_eq!(next(None, event), NORMAL);
    }
    for phase in PHASES {
        let stay = next(Some(phase), Event::Nothing);
        let mut twins = Twins::new(Algorithm::NAMES[0].parse().expect("a name"));
        twins.run_to(phase);
        for event in EVENTS {
            if !clone(&twins).bring_about(phase, event) {
                assert_eq!(next(Some(phase), event), stay, "{event:?} in {phase:?}");
            }
        }
    }
}

/// Half of what a path of 96 Mbit/s carried, onto one of 2 Mbit/s whose buffer takes all of it.
/// Nothing is lost: the queue alone says that this is another path.
#[test]
fn a_jump_into_a_deep_queue_is_not_validated() {
    for name in Algorithm::NAMES {
        let algorithm: Algorithm = name.parse().expect("a name");
        let saved = SavedParameters { cwnd: 1_200_000, rtt: RTT };
        // Slow start alone fills this buffer in half a second; the jump has to come before.
        let config = Config { resume: Some(saved), initial_cwnd: Some(4 * SMSS), ..Config::new(1) };
        let mut link = crate::test_link::Link::with(algorithm, 2, RTT, config);
        let mut phases = std::vec![link.cc.resume_phase()];
        for _ in 0..2_000 {
            link.step(&mut || false);
            if phases.last() != Some(&link.cc.resume_phase()) {
                phases.push(link.cc.resume_phase());
            }
        }
        assert!(phases.contains(&Some(ResumePhase::SafeRetreat)), "{name}: {phases:?}");
        assert!(link.cc.saved_parameters_failed(), "{name}");
    }
}

/// A round trip that is too short ends the jump, and stays as short as it is.
#[test]
fn a_retreat_for_a_short_round_trip_ends() {
    for name in Algorithm::NAMES {
        let mut twins = Twins::new(name.parse().expect("a name"));
        twins.run_to(ResumePhase::Unvalidated);
        assert!(twins.bring_about(ResumePhase::Unvalidated, Event::OtherRtt));
        assert_eq!(twins.phase(), Some(ResumePhase::SafeRetreat), "{name}");
        (0..300).for_each(|_| twins.tick());
        assert_eq!(twins.phase(), None, "{name}");
    }
}
