//! The amendments of `bbr3x`: where the draft leaves bandwidth unused or a queue standing, and what
//! this flavour does instead. Each can be switched off by itself ([`Amendments`]). `docs/bbr3x.md`
//! has the measurements.

mod params;
mod questions;
mod round_trips;

use super::amend::{Amend, Found, Names, Need, View};
use super::classic_window::ClassicWindow;
use super::min_rtt::is_short;
use super::params::{
    DEFAULT_CWND_GAIN, FULL_BW_GROWTH, MIN_PIPE_PACKETS, PACING_MARGIN, PROBE_RTT_INTERVAL,
    PROBE_WAIT_BASE,
};
use crate::amendments::{Amendment, Amendments};
use crate::conn::Conn;
use crate::options::FlavourOptions;
use crate::sampler::RateSample;
use crate::snapshot::State;
use crate::units::{Duration, Gain, Instant, Rate, mul_div};
use params::*;
use questions::Questions;
use round_trips::RoundTrips;

/// State of the amendments.
#[derive(Clone, Debug)]
pub(crate) struct Amended {
    /// The amendments that are on.
    on: Amendments,
    /// This probe had [`UP_TARGET`] in flight.
    has_reached_target: bool,
    /// Rounds of this UP, or of this CRUISE.
    rounds: u8,
    /// The newest ACKs in a row whose RTT was long enough for a queue, until [`QUEUE_ACKS`] have
    /// shown one. Before that the path's buffer may hold none.
    queueing_acks: u8,
    /// The share that is lost when this flow does not queue.
    baseline_loss: Gain,
    /// The shortest RTT of the last round of the newest CRUISE; [`Duration::MAX`] before its first
    /// sample.
    least_rtt: Duration,
    /// ProbeRTT is due then, however short the RTT is.
    probe_rtt_at_latest: Instant,
    /// C.lost and C.delivered in bytes when the newest CRUISE began.
    cruise_lost: u64,
    cruise_delivered: u64,
    /// The RTTs of this round.
    round_trips: RoundTrips,
    /// The mean RTT of the newest whole round of this CRUISE or ProbeRTT; [`Duration::MAX`] before
    /// one.
    mean_rtt: Duration,
    /// The least mean RTT of a round of CRUISE or ProbeRTT: in this cycle of ProbeBW, and in the
    /// one before. DOWN has drained what is this flow's own, so that jitter, data on the way back and
    /// others' queues are in it.
    base_rtt: [Duration; 2],
    questions: Questions,
    /// The answer to the marks of a classic queue.
    classic_window: ClassicWindow,
    /// An ACK since REFILL brought marks.
    is_cycle_marked: bool,
    /// The rate that the last round of the newest CRUISE delivered.
    cruise_bw: Rate,
}

impl Amended {
    fn has(&self, amendment: Amendment) -> bool {
        self.on.contains(amendment)
    }

    fn has_seen_queue(&self) -> bool {
        self.queueing_acks == QUEUE_ACKS
    }

    /// Rounds are looked at anew.
    fn begin_rounds(&mut self) {
        self.questions.starved_rounds = 0;
        self.mean_rtt = Duration::MAX;
        self.round_trips = RoundTrips::NONE;
    }

    /// A round ends, and with it its RTTs.
    #[cold]
    fn end_round(&mut self, view: &View<'_>, rs: &RateSample) {
        let round_trips = core::mem::replace(&mut self.round_trips, RoundTrips::NONE);
        if matches!(view.state, State::ProbeBwCruise | State::ProbeRtt) {
            // Both begin within a round, of which the rest counts as one.
            self.mean_rtt = round_trips.mean();
            if round_trips.count() >= BASE_SAMPLES {
                self.base_rtt[0] = self.base_rtt[0].min(self.mean_rtt);
            }
        }
        let asks = self.has(Amendment::ProbeRttOnDemand) && !self.classic_window.is_there();
        if asks
            && matches!(view.state, State::ProbeBwCruise | State::ProbeBwRefill | State::ProbeBwUp)
        {
            self.questions.end_round(view, rs, round_trips.least());
        }
    }

    /// The RTT of the path without this flow's own queue. What is longer than 1.5 min_rtt is rather
    /// others' queue, and two flows must not take each other's for the path for ever.
    fn base(&self, min_rtt: Duration) -> Duration {
        let longest = min_rtt.as_nanos().saturating_add(min_rtt.as_nanos() >> BASE_SHIFT);
        match self.least_base() {
            Duration::MAX => min_rtt,
            least => least.min(Duration::from_nanos(longest)).max(min_rtt),
        }
    }

    /// A volume by the base in place of min_rtt.
    fn at_base(&self, min_rtt: Duration, bytes: u64) -> u64 {
        let base = self.base(min_rtt);
        if base == min_rtt { bytes } else { mul_div(bytes, base.as_nanos(), min_rtt.as_nanos()) }
    }

    fn least_base(&self) -> Duration {
        self.base_rtt[0].min(self.base_rtt[1])
    }

    /// True if the newest round of CRUISE had no queue of this flow.
    fn is_cruise_at_base(&self, min_rtt: Duration) -> bool {
        let base = self.least_base();
        self.mean_rtt != Duration::MAX
            && is_short(self.mean_rtt, base)
            && !is_queueing(base, min_rtt, BASE_SHIFT)
    }

    /// True if the ACK of a sample says that there are others in a queue that marks: a packet of
    /// CRUISE was marked, in which a flow that is alone has no queue; or UP delivers more than CRUISE
    /// did, by more than the pacing margin, and others have given that away.
    fn is_mark_of_shared_queue(&self, view: &View<'_>, rs: &RateSample) -> bool {
        match view.state {
            State::ProbeBwCruise | State::ProbeBwRefill => {
                rs.prior_delivered >= self.cruise_delivered
            }
            State::ProbeBwUp => {
                self.cruise_bw > Rate::ZERO
                    && CRUISE_OF_UP.of_rate(view.loss_round.bw_latest) > self.cruise_bw
            }
            _ => false,
        }
    }

    /// CRUISE has no queue that the pacing margin would drain.
    #[inline(always)]
    fn is_without_margin(&self, view: &View<'_>) -> bool {
        self.has(Amendment::SmallCruiseQueue)
            && is_short(self.least_rtt, view.conn.sampler.min_rtt())
            && delivers_what_it_estimates(view)
    }

    /// In CRUISE, and at its end. Where a queue stands above the base, flows of this kind believe
    /// in more bandwidth together than the link has: what CRUISE delivers is this one's share of
    /// it. From there a probe of a small flow gains more than one of a large flow. As CRUISE goes
    /// on, the window that follows this estimate empties the queue, but for CRUISE_PACKETS of each
    /// flow, which even the rates out. Probes of 1.25 make the estimates at most a quarter too
    /// large: where less than LEAST_DELIVERED is delivered, the link itself is slower for a time.
    fn bandwidth_of_cruise(&self, view: &View<'_>, rs: &RateSample) -> Option<Rate> {
        let max_bw = view.bandwidth.max;
        let delivered = view.loss_round.bw_latest.min(max_bw);
        (self.has(Amendment::SmallCruiseQueue)
            && is_queueing(self.least_rtt, self.base(view.rtt.min), QUEUE_SHIFT)
            && !rs.is_app_limited
            && !is_below_least_window(view)
            && delivered > Rate::ZERO
            && delivered >= LEAST_DELIVERED.of_rate(max_bw))
        .then_some(delivered)
    }

    /// The time at which ProbeRTT comes in any case.
    fn probe_rtt_at_latest(&self, view: &View<'_>, now: Instant) -> Instant {
        now + self.probe_rtt_interval(view.conn).times(PROBE_RTT_AT_LATEST)
    }
}

/// True if the bandwidth that this cycle measured is that of the cycle before, less at most 1/256:
/// nothing was lost, and no other flow took a part of the link.
fn delivers_what_it_estimates(view: &View<'_>) -> bool {
    let [before, now] = view.bandwidth.filter.map(Rate::as_bytes_per_sec);
    now >= before - (before >> DELIVERED_SHIFT)
}

/// BBR.MinPipeCwnd.
const fn least_window(conn: &Conn) -> u64 {
    MIN_PIPE_PACKETS * conn.smss
}

/// True if the path holds less than BBR.MinPipeCwnd: then this window keeps a queue by itself, in
/// ProbeRTT as well, and a queue says nothing of other flows.
fn is_below_least_window(view: &View<'_>) -> bool {
    view.bandwidth.max.bytes_in(view.conn.sampler.min_rtt()) <= least_window(view.conn)
}

/// True if `rtt` was measured and is above `least` by more than its binary fraction 2^-`shift`: the
/// packet waited in a queue.
fn is_queueing(rtt: Duration, least: Duration, shift: u32) -> bool {
    let (rtt, least) = (rtt.as_nanos(), least.as_nanos());
    rtt != u64::MAX && rtt > least.saturating_add(least >> shift)
}

impl Amend for Amended {
    const NAMES: Names = Names { draft: "bbr3x", linux: "bbr3x-linux" };

    fn new(options: &FlavourOptions) -> Self {
        Self {
            on: options.without.complement(),
            has_reached_target: false,
            rounds: 0,
            queueing_acks: 0,
            baseline_loss: Gain::percent(0),
            least_rtt: Duration::MAX,
            probe_rtt_at_latest: Instant::MAX,
            cruise_lost: 0,
            cruise_delivered: 0,
            round_trips: RoundTrips::NONE,
            mean_rtt: Duration::MAX,
            base_rtt: [Duration::MAX; 2],
            questions: Questions::NONE,
            classic_window: ClassicWindow::NONE,
            is_cycle_marked: false,
            cruise_bw: Rate::ZERO,
        }
    }

    fn down_pacing_gain(&self, gain: Gain) -> Gain {
        if self.has(Amendment::ShortProbe) { DEEPER_DOWN_PACING_GAIN } else { gain }
    }

    /// DOWN would never end on a path with much jitter.
    #[inline]
    fn held(&self, min_rtt: Duration, bytes: u64) -> u64 {
        if self.has(Amendment::ShortProbe) { self.at_base(min_rtt, bytes) } else { bytes }
    }

    /// A flow beside others grows by what they give away for the marks. One round without growth
    /// behind marks is enough.
    #[inline]
    fn ends_startup(&self, view: &View<'_>) -> bool {
        self.is_cycle_marked && !view.full_pipe.reached && view.full_pipe.count >= 1
    }

    fn cruise_cwnd_gain(&self) -> Gain {
        if self.has(Amendment::SmallCruiseQueue) {
            SMALLER_CRUISE_CWND_GAIN
        } else {
            DEFAULT_CWND_GAIN
        }
    }

    /// Packets that do not grow with the bandwidth are a larger part of a small flow's window, and
    /// a queue takes rate from flows by their windows. Where the base is longer than min_rtt, as with
    /// jitter, so is what the path holds.
    #[inline]
    fn cruise_inflight(&self, smss: u64, min_rtt: Duration, bdp: impl Fn(Gain) -> u64) -> u64 {
        if !self.has(Amendment::SmallCruiseQueue) {
            return bdp(DEFAULT_CWND_GAIN);
        }
        let held = |gain| self.at_base(min_rtt, bdp(gain));
        let window = held(SMALLER_CRUISE_CWND_GAIN).saturating_add(CRUISE_PACKETS * smss);
        window.min(held(SMALLER_CRUISE_CWND_GAIN_MAX))
    }

    fn up_growth(&self) -> Gain {
        if self.has(Amendment::ShortProbe) { UP_GROWTH } else { FULL_BW_GROWTH }
    }

    /// UP may end before a plateau of three rounds: the target was in flight, and it made a queue.
    /// On a link that is faster than believed no queue is made, and UP goes on. Either one round
    /// did not deliver more, and in the last CRUISE nobody else was queueing; or the queue is
    /// longer than this flow's probe makes it. A flow among many grows by UP's gain in each round,
    /// and with it only the queue. Where BBR.MinPipeCwnd keeps a queue by itself, a queue says
    /// nothing. A mark says that the queue is long enough. Where CRUISE's RTTs vary, one long RTT is
    /// no sign of a queue, and the first round of UP delivers what REFILL sent: a second one counts.
    fn ends_up(&mut self, view: &View<'_>, rs: &RateSample, bdp: u64) -> bool {
        if self.is_cycle_marked {
            return true;
        }
        let base = self.base(view.rtt.min);
        let flight = rs.prior_inflight.saturating_add(view.conn.smss);
        self.has_reached_target |= flight >= UP_TARGET.of(self.at_base(view.rtt.min, bdp));
        self.rounds = UP_QUEUE_ROUNDS.min(self.rounds + u8::from(view.round.start));
        let is_still = is_short(self.mean_rtt, self.least_rtt);
        let is_plateau = is_queueing(rs.rtt, base, STILL_SHIFT)
            && view.full_pipe.count >= if is_still { 1 } else { 2 }
            && is_short(self.least_rtt, base);
        let is_among_others = !is_below_least_window(view)
            && self.rounds >= UP_QUEUE_ROUNDS
            && is_queueing(self.round_trips.mean(), base, UP_QUEUE_SHIFT);
        self.has(Amendment::ShortProbe)
            && self.has_reached_target
            && (is_plateau || is_among_others)
    }

    /// Losses, deliveries and round trips are counted anew.
    fn begin_cruise(&mut self, view: &View<'_>) {
        self.least_rtt = Duration::MAX;
        self.rounds = 0;
        self.begin_rounds();
        self.cruise_lost = view.conn.sampler.lost();
        self.cruise_delivered = view.conn.sampler.delivered;
    }

    fn end_round_of_cruise(&mut self, view: &View<'_>, rs: &RateSample) -> Option<Rate> {
        self.rounds = self.rounds.wrapping_add(1);
        (self.rounds % BANDWIDTH_ROUNDS == 2).then(|| self.bandwidth_of_cruise(view, rs)).flatten()
    }

    fn end_cruise(&self, view: &View<'_>, rs: &RateSample) -> Option<Rate> {
        self.bandwidth_of_cruise(view, rs)
    }

    /// The losses of a CRUISE without a queue are the path's own. Few packets say little, and
    /// CRUISE may have been cut short. Where no queue was ever seen, the buffer may be too short
    /// for one, and losses without a queue are congestion.
    fn begin_refill(&mut self, view: &View<'_>) {
        self.has_reached_target = false;
        self.rounds = 0;
        self.questions.is_unanswered = false;
        let is_marked = core::mem::take(&mut self.is_cycle_marked);
        self.cruise_bw = Rate::ZERO;
        if view.state != State::ProbeBwCruise {
            self.cruise_delivered = view.conn.sampler.delivered;
            return;
        }
        // What a bound held back says nothing of others.
        if !self.classic_window.is_there() && view.bandwidth.bw == view.bandwidth.max {
            self.cruise_bw = view.loss_round.bw_latest;
        }
        if !is_marked {
            self.classic_window = ClassicWindow::NONE;
        }
        let is_at_base = self.is_cruise_at_base(view.rtt.min);
        self.base_rtt = [Duration::MAX, self.base_rtt[0]];
        let lost = view.conn.sampler.lost().saturating_sub(self.cruise_lost);
        let delivered = view.conn.sampler.delivered.saturating_sub(self.cruise_delivered);
        let all = lost.saturating_add(delivered);
        if all < BASELINE_PACKETS * view.conn.smss {
            return;
        }
        self.baseline_loss = if self.has_seen_queue() && is_at_base {
            Gain::ratio(lost, all).min(BASELINE_LOSS_MAX)
        } else {
            Gain::percent(0)
        };
    }

    /// Notes the RTT where an amendment asks for it later. ProbeRTT comes only when needed: a short
    /// one is what it would find.
    #[inline(always)]
    fn note_rtt(&mut self, view: &View<'_>, rs: &RateSample) -> Need {
        let min_rtt = view.rtt.min;
        // A single long RTT may be a delayed ACK.
        if !self.has_seen_queue() {
            self.queueing_acks = match is_queueing(rs.rtt, min_rtt, QUEUE_SHIFT) {
                true => self.queueing_acks + 1,
                false => 0,
            };
        }
        if view.round.start {
            self.end_round(view, rs);
            self.classic_window.grow(view.conn, rs);
        }
        self.round_trips.add(rs.rtt);
        if view.state == State::ProbeBwCruise && (view.round.start || rs.rtt < self.least_rtt) {
            self.least_rtt = rs.rtt;
        }
        if rs.rtt < view.rtt.probe_min_delay {
            self.probe_rtt_at_latest = self.probe_rtt_at_latest(view, rs.now);
        }
        let is_needless = view.state != State::ProbeRtt
            && is_short(rs.rtt, min_rtt)
            && self.has(Amendment::ProbeRttOnDemand)
            && rs.now < self.probe_rtt_at_latest;
        if is_needless {
            self.questions.withdraw();
            Need::None
        } else if self.questions.is_asked() && view.state != State::ProbeRtt {
            Need::Now
        } else {
            Need::InTime
        }
    }

    fn may_leave_out_first_probe_rtt(&self) -> bool {
        self.on.contains(Amendment::ProbeRttOnDemand)
    }

    fn begin_probe_rtt(&mut self) {
        self.begin_rounds();
    }

    /// Its low rate is not the link's.
    fn is_probe_cut(&self) -> bool {
        !self.questions.is_asked()
    }

    fn end_probe_rtt(&mut self, view: &View<'_>, now: Instant) -> Found {
        self.probe_rtt_at_latest = self.probe_rtt_at_latest(view, now);
        let found = self.questions.answer(view, self.round_trips.mean());
        if found == Found::LongerPath {
            self.base_rtt = [Duration::MAX; 2];
        }
        found
    }

    /// If a queue has stood for MinRTTFilterLen, half of a BDP by min_rtt keeps it. Where the path
    /// holds less than BBR.MinPipeCwnd, that window is enough.
    fn most_probe_rtt_cwnd(&self, view: &View<'_>) -> u64 {
        if self.has(Amendment::ProbeRttOnDemand) && is_below_least_window(view) {
            least_window(view.conn)
        } else {
            u64::MAX
        }
    }

    /// So many round trips where these are longer. The connection's shortest RTT counts them,
    /// because min_rtt may have a queue in it.
    #[inline]
    fn probe_rtt_interval(&self, conn: &Conn) -> Duration {
        let least = conn.sampler.min_rtt();
        if self.has(Amendment::TimersInRoundTrips) && least != Duration::MAX {
            PROBE_RTT_INTERVAL.max(least.times(PROBE_RTT_INTERVAL_ROUNDS))
        } else {
            PROBE_RTT_INTERVAL
        }
    }

    /// So many round trips where these are longer, or DOWN ends before its queue.
    fn probe_wait_base(&self, min_rtt: Duration) -> Duration {
        if self.has(Amendment::TimersInRoundTrips) && min_rtt != Duration::MAX {
            PROBE_WAIT_BASE.max(min_rtt.times(PROBE_WAIT_ROUNDS))
        } else {
            PROBE_WAIT_BASE
        }
    }

    /// Above what the path loses by itself: few packets lose more or fewer than that by chance, by
    /// the square root of their number.
    #[inline]
    fn expected_loss(&self, conn: &Conn, bytes: u64) -> Gain {
        if self.has(Amendment::PathLoss) && self.baseline_loss > Gain::percent(0) {
            let lost = self.baseline_loss.of(bytes).saturating_mul(conn.smss);
            // The baseline and two standard deviations.
            self.baseline_loss.plus(Gain::ratio(2 * lost.isqrt(), bytes))
        } else {
            Gain::percent(0)
        }
    }

    /// Startup knows nothing yet of what the path loses: the last round grew or there is no queue,
    /// and the losses are no more than the path is believed to lose at most, and two standard
    /// deviations of that. Startup that fills a short buffer loses far more. One that ends for the
    /// path's losses leaves a flow at a tenth of the link, because losses count as the path's once a
    /// queue was seen. Growth is asked because jitter makes the RTT long without a queue.
    fn is_loss_of_path_in_startup(
        &self,
        view: &View<'_>,
        rs: &RateSample,
        loss_thresh: Gain,
    ) -> bool {
        let most = loss_thresh.plus(BASELINE_LOSS_MAX).of(rs.tx_in_flight);
        let deviation = most.saturating_mul(view.conn.smss).isqrt();
        // An application that is the limit has no round that grows: there losses have to end it.
        let (grows, chance) = match rs.is_app_limited {
            true => (false, 0),
            false => (view.full_pipe.count == 0, 2 * deviation),
        };
        self.has(Amendment::PathLoss)
            && (grows || is_short(rs.rtt, view.rtt.min))
            && rs.lost <= most.saturating_add(chance)
    }

    fn is_small_loss(&self, conn: &Conn, rs: &RateSample) -> bool {
        let all = rs.lost.saturating_add(rs.delivered);
        self.has(Amendment::PathLoss)
            && rs.lost <= SMALL_LOSS.plus(self.expected_loss(conn, all)).of(all)
    }

    fn answers_classic_marks(&self) -> bool {
        self.has(Amendment::ClassicMarks)
    }

    fn answer_marks(&mut self, view: &View<'_>, rs: &RateSample) {
        if !self.classic_window.is_there() && self.is_mark_of_shared_queue(view, rs) {
            self.classic_window.begin(view, rs);
        }
        self.classic_window.reduce(view.conn, rs);
        self.is_cycle_marked = true;
    }

    fn most_inflight(&self, least: u64) -> u64 {
        self.classic_window.bound.max(least)
    }

    /// CRUISE needs no margin where it keeps no queue.
    #[inline]
    fn pacing_margin(&self, view: &View<'_>) -> Gain {
        if view.state == State::ProbeBwCruise && self.is_without_margin(view) {
            Gain::ONE
        } else {
            PACING_MARGIN
        }
    }
}
