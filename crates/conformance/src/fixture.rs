//! One flow on one path, watched event by event.

use std::fmt::Display;
use std::sync::atomic::{AtomicBool, Ordering};

use fullpipe_cc::{Algorithm, BbrSwiftOptions, DraftRules, Duration, Instant, Rate, State};
use fullpipe_lab::backend::driven::{self, DrivenFlow, QuicFlowConfig};
use fullpipe_lab::backend::{Gap, GapReason};
use fullpipe_path::{ElementConfig, Link, PathConfig, Probability, QueueLimit, Selection};
use fullpipe_sim::{FlowConfig, OVERHEAD_BYTES};

use super::model::{Gaps, Model, Seen};
pub(super) use super::outcome::{Broken, Outcome, Span, Step};
use super::version::{Gains, Version};
use super::{Stack, Subject};

/// Full datagrams without and with IP and UDP.
pub(super) const DATAGRAM: u64 = 1452;
const ON_THE_WIRE: u64 = 1480;

/// Rates in bit/s.
pub(super) const KBIT: u64 = 1_000;
pub(super) const MBIT: u64 = 1_000_000;
pub(super) const GBIT: u64 = 1_000_000_000;
/// Times in microseconds.
pub(super) const US: u64 = 1;
pub(super) const MS: u64 = 1_000;
pub(super) const S: u64 = 1_000_000;

/// The seed of the randomised probe times.
const SEED: u64 = 1;

/// A path: bit/s, and microseconds of round trip.
pub(super) type Corner = (u64, u64);

/// The four corners of the draft's ranges, 64 kbit/s to 10 Gbit/s and half a millisecond to a
/// second, and two paths from the middle.
pub(super) const CORNERS: [Corner; 6] = [
    (64 * KBIT, 500 * US),
    (64 * KBIT, S),
    (10 * GBIT, 500 * US),
    (10 * GBIT, S),
    (GBIT, 100 * MS),
    (10 * MBIT, 40 * MS),
];

/// The highest rate of a case over a real stack, which encrypts each packet: at 10 Gbit/s the 22
/// cases would take hours.
const MOST_OF_STACK: u64 = GBIT;
/// And the most bytes that such a path holds.
const MOST_BDP: u64 = 12_500_000;

/// The environment of the cases.
pub(super) struct Lab<'a> {
    pub(super) stop: &'a AtomicBool,
    pub(super) subject: Subject,
    pub(super) stack: Stack,
    pub(super) gaps: &'a Gaps,
}

impl<'a> Lab<'a> {
    /// A path of a case as the stack can run it: all in the simulator; over a real stack with at
    /// most 1 Gbit/s, and as many bytes in flight as without this bound, if those are not too many.
    pub(super) fn corner(&self, (rate, rtt): Corner) -> Option<Corner> {
        if self.stack == Stack::Sim || rate <= MOST_OF_STACK {
            return Some((rate, rtt));
        }
        let longer = rate / MOST_OF_STACK * rtt;
        (MOST_OF_STACK / 8 * longer / S <= MOST_BDP).then_some((MOST_OF_STACK, longer))
    }

    /// The paths of a case that the stack can run, each once: see [`Self::corner`]. At least one,
    /// or nothing is shown.
    pub(super) fn corners(&self, all: &[Corner]) -> Result<Vec<Corner>, Broken> {
        let mut corners: Vec<Corner> = Vec::new();
        for corner in all.iter().filter_map(|corner| self.corner(*corner)) {
            if !corners.contains(&corner) {
                corners.push(corner);
            }
        }
        if corners.is_empty() { Err(Broken::NoPath) } else { Ok(corners) }
    }

    /// A bulk flow on a path whose bottleneck queues `buffer_bdp` times rate and round trip, and 40
    /// packets at least.
    pub(super) fn fixture(&self, corner: Corner, buffer_bdp: u64) -> Result<Fixture<'a>, Broken> {
        self.bed_with(corner, buffer_bdp, None, None)
    }

    /// The same with an element in front of the bottleneck, and one on the way of the ACKs.
    pub(super) fn bed_with(
        &self,
        corner: Corner,
        buffer_bdp: u64,
        data: Option<ElementConfig>,
        acks: Option<ElementConfig>,
    ) -> Result<Fixture<'a>, Broken> {
        let (rate, rtt) = (Rate::from_bits_per_sec(corner.0), Duration::from_micros(corner.1));
        let delay = Duration::from_nanos(rtt.as_nanos() / 2);
        let queue = QueueLimit::Bytes((rate.bytes_in(rtt) * buffer_bdp).max(40 * ON_THE_WIRE));
        let mut downlink =
            PathConfig::from(Link { rate: Some(rate), delay, queue, ..Link::default() });
        downlink.row.splice(0..0, data);
        let mut uplink = PathConfig::from(Link { delay, ..Link::default() });
        uplink.row.splice(0..0, acks);
        let flow = match self.stack {
            Stack::Sim => driven::over_sim(downlink, uplink, self.flow())?,
            _ => {
                let config = QuicFlowConfig {
                    cc: self.subject.cc(),
                    seed: SEED,
                    datagram_bytes: DATAGRAM as u16,
                    // No packet of the handshake is to be sent again for an answer that is on its
                    // way.
                    initial_rtt: rtt + rate.time_for(4 * ON_THE_WIRE),
                };
                match self.stack {
                    #[cfg(feature = "quinn")]
                    Stack::Quinn => driven::over_quinn(downlink, uplink, config)?,
                    _ => driven::over_noq(downlink, uplink, config)?,
                }
            }
        };
        self.gaps.set(flow.gaps());
        let (now, at) = (Seen::new(flow.snapshot(), self.gaps), flow.now());
        let mut fixture = Fixture {
            flow,
            gaps: self.gaps,
            version: self.subject.version(),
            is_exact: self.subject != Subject::NoqBbr3,
            rate,
            rtt,
            before: now,
            after: now,
            handshake: Vec::new(),
            lowered: at,
            steps: 0,
            stop: self.stop,
        };
        fixture.connect()?;
        Ok(fixture)
    }

    /// The case is the controller's: its host is exact.
    fn flow(&self) -> FlowConfig {
        FlowConfig {
            jitter: Duration::ZERO,
            ..FlowConfig::bulk(self.subject.algorithm().unwrap_or(Algorithm::BBR3), SEED)
        }
    }
}

/// The longest target of `bbr-swift`: the most that 32 bits of nanoseconds hold. Few delays of the
/// cases reach it (at 64 kbit/s, and in cases 12 and 16). Without hops, whose delays would be added.
pub(super) const fn out_of_reach(keeps: DraftRules) -> BbrSwiftOptions {
    BbrSwiftOptions::new().with_base_target(Duration::from_secs(5)).with_hops(0).keeping(keeps)
}

/// One flow on one path.
pub(super) struct Fixture<'a> {
    flow: Box<dyn DrivenFlow>,
    gaps: &'a Gaps,
    /// The numbers of the subject's version.
    pub(super) version: &'static Version,
    /// True if its variables are the draft's to the last value. noq's BBR.undo_state is never
    /// `None`, and its BBR.probe_up_acked_per_inc counts whole packets.
    pub(super) is_exact: bool,
    pub(super) rate: Rate,
    pub(super) rtt: Duration,
    /// The flow before and after the last event.
    pub(super) before: Seen<'a>,
    pub(super) after: Seen<'a>,
    /// The events of the handshake: the time, and the flow after it. None in the simulator.
    pub(super) handshake: Vec<(Instant, Seen<'a>)>,
    /// The time of the last event that lowered the delay of [`Self::lowest_delay`], or of the
    /// beginning.
    pub(super) lowered: Instant,
    steps: u64,
    stop: &'a AtomicBool,
}

impl<'a> Fixture<'a> {
    /// Until the connection is there: data leaves with the next event.
    fn connect(&mut self) -> Step {
        while !self.flow.is_connected() {
            self.check(0, self.flow.next_event().is_some(), "a connection", "silence")?;
            if self.handshake.is_empty() {
                self.handshake.push((self.now(), self.after));
            }
            self.flow.step();
            self.look();
            self.handshake.push((self.now(), self.after));
        }
        Ok(())
    }

    /// True once the rounds are over that the end of the handshake has a part in: packets of the
    /// first data left before there was any, so to speak, and their samples count as limited.
    pub(super) fn is_past_handshake(&self) -> bool {
        let rounds = |at: &(Instant, Seen<'_>)| at.1.bbr().round_count() + 2;
        self.handshake.last().is_none_or(|end| self.bbr().round_count() > rounds(end))
    }

    /// Checks that a step of the text came true. The case ends if the controller does not show a
    /// variable that was read since the last check.
    pub(super) fn check(&self, step: u32, ok: bool, expected: &str, seen: impl Display) -> Step {
        self.gaps.stop_at(step)?;
        self.require(step, ok, expected, seen)
    }

    /// The same of a check on which nothing afterwards depends: without its variables it is left
    /// out, the case goes on, and does not pass.
    pub(super) fn check_seen(&self, step: u32, ok: bool, what: &str, seen: impl Display) -> Step {
        if self.gaps.leave_out(step) { Ok(()) } else { self.require(step, ok, what, seen) }
    }

    /// True if the controller has this variable and shows it; if not, the step is left out.
    pub(super) fn shows(&self, step: u32, variable: &str) -> bool {
        let shows = self.gaps.shows(variable);
        if !shows {
            self.gaps.leave_out_for(step, variable);
        }
        shows
    }

    /// The case ends if the controller does not show this variable.
    pub(super) fn need(&self, step: u32, variable: &str) -> Step {
        self.gaps.need(step, variable)
    }

    /// Checks that the flow is application-limited.
    pub(super) fn check_limited(&self, step: u32) -> Step {
        let limited = self.after.app_limited();
        self.check_seen(step, limited, "an application-limited flow", "one that is not")
    }

    /// Checks the gains on bandwidth and on BDP.
    pub(super) fn check_gains(&self, step: u32, expected: Gains) -> Step {
        let bbr = self.bbr();
        let seen = (bbr.pacing_gain().as_percent(), bbr.cwnd_gain().as_percent());
        if seen == expected {
            return self.gaps.stop_at(step);
        }
        let words = format!("gains of {} and {} %", expected.0, expected.1);
        self.check(step, false, &words, format_args!("{seen:?}"))
    }

    /// Checks the gain on bandwidth.
    pub(super) fn check_pacing_gain(&self, step: u32, expected: u32) -> Step {
        let seen = self.bbr().pacing_gain().as_percent();
        if seen == expected {
            return self.gaps.stop_at(step);
        }
        self.check(step, false, &format!("a pacing gain of {expected} %"), seen)
    }

    fn require(&self, step: u32, ok: bool, expected: &str, seen: impl Display) -> Step {
        if ok {
            return Ok(());
        }
        Err(Broken::Step {
            step,
            corner: format!("{}, {}, after {}", self.rate, self.rtt, self.age()),
            expected: expected.to_owned(),
            seen: format!("{seen} in {}", self.state().name()),
        })
    }

    fn age(&self) -> Duration {
        self.now().since(Instant::default())
    }

    pub(super) fn now(&self) -> Instant {
        self.flow.now()
    }

    pub(super) fn state(&self) -> State {
        self.after.state
    }

    /// The model after the last event.
    pub(super) fn bbr(&self) -> Model<'a> {
        self.after.bbr()
    }

    /// The model before the last event.
    pub(super) fn bbr_before(&self) -> Model<'a> {
        self.before.bbr()
    }

    /// The delay that keeps ProbeRTT away: BBR.probe_rtt_min_delay, or what version 1 has for it.
    pub(super) fn lowest_delay(&self, bbr: Model<'_>) -> Duration {
        let delay =
            if self.version.number == 1 { bbr.min_rtt() } else { bbr.probe_rtt_min_delay() };
        delay.unwrap_or(Duration::MAX)
    }

    pub(super) fn inflight(&self) -> u64 {
        self.after.inflight
    }

    /// C.inflight as the algorithm saw it in the last event: without what that ACK told, and before
    /// anything left in its wake.
    pub(super) fn inflight_on_ack(&self) -> u64 {
        let delivered = self.after.delivered - self.before.delivered;
        let lost = self.after.lost - self.before.lost;
        self.before.inflight.saturating_sub(delivered + lost)
    }

    /// True if the last event was an ACK that delivered.
    pub(super) fn is_ack(&self) -> bool {
        self.after.delivered > self.before.delivered
    }

    /// True if the last event began a round trip.
    pub(super) fn is_new_round(&self) -> bool {
        self.bbr().round_count() > self.bbr_before().round_count()
    }

    /// Inflight(1.0) of the draft for an ACK: the BDP, and not under the offload budget or
    /// MinPipeCwnd.
    pub(super) fn inflight_1(&self, bw: Rate) -> u64 {
        let bdp = self.bbr_before().min_rtt().map_or(u64::MAX, |rtt| bw.bytes_in(rtt));
        bdp.max(self.before.send_quantum).max(4 * DATAGRAM)
    }

    /// Application and link: what the bottleneck carries of full datagrams, as the sender counts.
    pub(super) fn carries(&self, rate: Rate) -> f64 {
        rate.as_bytes_per_sec() as f64 * DATAGRAM as f64 / ON_THE_WIRE as f64
    }

    /// BBR.max_bw as a share of what the bottleneck carries.
    pub(super) fn max_bw_share(&self) -> f64 {
        self.bbr().max_bw().as_bytes_per_sec() as f64 / self.carries(self.rate)
    }

    pub(super) fn received(&self) -> u64 {
        self.flow.received()
    }

    pub(super) fn lost_packets(&self) -> u64 {
        self.flow.lost_packets()
    }

    /// A round trip when the queue is as long as BBR's probing makes it.
    fn long_round(&self) -> Duration {
        self.rtt.times(4).max(self.rate.time_for(80 * ON_THE_WIRE))
    }

    /// The moment after `rounds` such round trips and ten seconds: waiting ends there.
    pub(super) fn limit(&self, rounds: u64) -> Instant {
        self.now() + Duration::from_secs(10) + self.long_round().times(rounds)
    }

    /// Lets the next thing happen; past `limit` the step of the text that was waited for has
    /// failed.
    pub(super) fn step(&mut self, step: u32, waiting_for: &str, limit: Instant) -> Step {
        self.steps += 1;
        if self.steps.is_multiple_of(1024) && self.stop.load(Ordering::Relaxed) {
            return Err(Broken::Stopped);
        }
        let bbr = self.bbr();
        self.check(step, self.now() < limit, waiting_for, format_args!("{bbr:?}"))?;
        let is_alive = self.next_event().is_some();
        self.check(step, is_alive, "a flow in which something happens", format_args!("{bbr:?}"))?;
        self.flow.step();
        self.look();
        self.flow.take_error().map_or(Ok(()), |error| Err(error.into()))
    }

    fn look(&mut self) {
        let now = Seen::new(self.flow.snapshot(), self.gaps);
        self.before = std::mem::replace(&mut self.after, now);
        if self.lowest_delay(self.bbr()) < self.lowest_delay(self.bbr_before()) {
            self.lowered = self.now();
        }
    }

    /// Lets things happen until `reached`, for `rounds` long round trips and ten seconds at most.
    pub(super) fn until(
        &mut self,
        step: u32,
        waiting_for: &str,
        rounds: u64,
        reached: impl Fn(&Self) -> bool,
    ) -> Step {
        let limit = self.limit(rounds);
        while !reached(self) {
            self.step(step, waiting_for, limit)?;
        }
        Ok(())
    }

    /// Until `state` comes.
    pub(super) fn to(&mut self, step: u32, state: State) -> Step {
        if self.version.number == 1 && state == State::ProbeBwRefill {
            let refill = Gap { variable: state.name(), reason: GapReason::Absent };
            return Err(Broken::Unseen { step, gaps: vec![refill] });
        }
        self.until(step, state.name(), 300, |fixture| fixture.state() == state)
    }

    /// Until the pipe was full once and Drain and ProbeRTT are over.
    pub(super) fn reach_probe_bw(&mut self, step: u32) -> Step {
        self.until(step, "ProbeBW", 300, |fixture| fixture.is_in_probe_bw())
    }

    pub(super) fn is_in_probe_bw(&self) -> bool {
        use State::*;
        matches!(self.state(), ProbeBwDown | ProbeBwCruise | ProbeBwRefill | ProbeBwUp)
    }

    /// Lets `time` pass, without a look at every event.
    pub(super) fn pass(&mut self, time: Duration) -> Step {
        let end = self.now() + time;
        let slice = Duration::from_nanos(time.as_nanos() / 50 + 1);
        while self.now() < end {
            if self.stop.load(Ordering::Relaxed) {
                return Err(Broken::Stopped);
            }
            self.flow.run_until(end.min(self.now() + slice));
        }
        self.look();
        Ok(())
    }

    /// Lets `time` pass, and looks at every event.
    pub(super) fn step_for(
        &mut self,
        step: u32,
        time: Duration,
        mut each: impl FnMut(&Self) -> Step,
    ) -> Step {
        let end = self.now() + time;
        while self.next_event().is_some_and(|at| at <= end) {
            self.step(step, "the end of the wait", end + time)?;
            each(self)?;
        }
        self.flow.run_until(end);
        Ok(())
    }

    /// The link's rate from now on.
    pub(super) fn set_rate(&mut self, bits_per_sec: u64) -> Step {
        self.rate = Rate::from_bits_per_sec(bits_per_sec);
        Ok(self.flow.set_rate(self.rate)?)
    }

    /// The data's random loss from now on.
    pub(super) fn set_loss(&mut self, probability: f64, seed: u64) -> Step {
        self.flow.set_loss(Probability::new(probability)?, seed);
        Ok(())
    }

    /// Sets the packets that the data's reordering holds back from now on.
    pub(super) fn set_reordered(&mut self, packets: Selection) -> Step {
        Ok(self.flow.set_reordered(packets)?)
    }

    /// The application has nothing more to send.
    pub(super) fn pause(&mut self) {
        self.flow.pause();
        self.look();
    }

    /// The application has data without an end again.
    pub(super) fn resume(&mut self) {
        self.flow.resume();
        self.look();
    }

    /// The application writes `bytes`.
    pub(super) fn write(&mut self, bytes: u64) {
        self.flow.write(bytes);
        self.look();
    }

    /// The time of the next event.
    pub(super) fn next_event(&self) -> Option<Instant> {
        self.flow.next_event()
    }

    /// A round trip in which the application, which is paused, writes a little.
    pub(super) fn trickle(&mut self, step: u32) -> Step {
        self.write_a_little(step, self.rtt.max(self.rate.time_for(8 * ON_THE_WIRE)))
    }

    /// The same, but so often that something is in flight all the time: the flow is limited and
    /// never idle.
    pub(super) fn trickle_on(&mut self, step: u32) -> Step {
        let third = Duration::from_nanos(self.rtt.as_nanos() / 3);
        self.write_a_little(step, third.max(self.rate.time_for(ON_THE_WIRE * 21 / 20)))
    }

    /// One write of a twentieth of what `time` carries, a packet at least and 200 at most, and the
    /// wait for the next; it ends with a change of state.
    fn write_a_little(&mut self, step: u32, time: Duration) -> Step {
        let packet = DATAGRAM - u64::from(OVERHEAD_BYTES);
        self.write((self.rate.bytes_in(time) / 20).clamp(packet, 200 * packet));
        let (state, end) = (self.state(), self.now() + time);
        while self.next_event().is_some_and(|at| at <= end) {
            self.step(step, "the application's next write", end + time)?;
            if self.state() != state {
                return Ok(());
            }
        }
        self.flow.run_until(end);
        Ok(())
    }
}
