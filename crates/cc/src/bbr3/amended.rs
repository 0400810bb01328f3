//! The amendments of `bbr3x`: where the draft leaves bandwidth unused or a queue standing, and what
//! this flavour does instead. Each can be switched off by itself ([`Amendments`]). `docs/bbr3x.md`
//! has the measurements.

use super::Bbr3;
use super::params::{
    BANDWIDTH_ROUNDS, BASELINE_LOSS_MAX, BASELINE_PACKETS, CALM_ROUNDS, COMPETITOR_QUEUE_SHIFT,
    CRUISE_CWND_GAIN, CRUISE_CWND_GAIN_MAX, CRUISE_PACKETS, DELIVERED_SHIFT, Flavour,
    LEAST_DELIVERED, PACING_MARGIN, PROBE_RTT_AT_LATEST, PROBE_RTT_INTERVAL,
    PROBE_RTT_INTERVAL_ROUNDS, PROBE_WAIT_BASE, PROBE_WAIT_ROUNDS, QUEUE_ACKS, QUEUE_SHIFT,
    SHORT_RTT_SHIFT, SMALL_LOSS, UP_QUEUE_ROUNDS, UP_QUEUE_SHIFT, UP_TARGET,
};
use super::swift::Swift;
use crate::config::{Amendment, Amendments};
use crate::conn::Conn;
use crate::sampler::RateSample;
use crate::snapshot::State;
use crate::units::{Duration, Gain, Instant, Rate};

/// Amendments that conclude nothing from an RTT above min_rtt. The others act on a quiet path
/// alone.
const ON_ANY_PATH: Amendments = Amendments::NONE
    .with(Amendment::IgnoreSmallLoss)
    .with(Amendment::BaselineLoss)
    .with(Amendment::TimersInRoundTrips)
    .with(Amendment::ProbeRttEmptiesQueue);

/// State of the amendments.
#[derive(Clone, Debug)]
pub(crate) struct Amended {
    /// The amendments that are on.
    on: Amendments,
    /// This probe had [`UP_TARGET`] in flight.
    has_reached_target: bool,
    /// Rounds of this UP, or of this CRUISE.
    rounds: u8,
    /// This CRUISE has no queue that the pacing margin would drain.
    is_without_margin: bool,
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
    /// The path is quiet: the mean RTT of a round in which this flow keeps no queue is short. There
    /// an RTT above min_rtt is a queue. Elsewhere it may be jitter, an ACK that was held back or
    /// data on the way back.
    is_quiet: bool,
    /// Calm rounds of this ProbeRTT, or the newest in a row of this CRUISE.
    calm_rounds: u8,
    /// Sum of what the RTTs of this round of CRUISE or ProbeRTT are above the longest that is
    /// short, less what others are below it, in units of 1024 ns. One more, so that a round without
    /// RTTs is not calm.
    excess: i32,
}

impl Amended {
    pub(super) const fn new(without: Amendments) -> Self {
        Self {
            on: without.complement(),
            has_reached_target: false,
            rounds: 0,
            is_without_margin: false,
            queueing_acks: 0,
            baseline_loss: Gain::percent(0),
            least_rtt: Duration::MAX,
            probe_rtt_at_latest: Instant::MAX,
            cruise_lost: 0,
            cruise_delivered: 0,
            is_quiet: false,
            calm_rounds: 0,
            excess: 1,
        }
    }
}

impl Amended {
    /// True if `amendment` is on, and may act on this path.
    fn acts(&self, amendment: Amendment) -> bool {
        self.on.contains(amendment) && (self.is_quiet || ON_ANY_PATH.contains(amendment))
    }

    fn has_seen_queue(&self) -> bool {
        self.queueing_acks == QUEUE_ACKS
    }

    /// Begins to look for calm rounds.
    fn begin_calm(&mut self) {
        (self.calm_rounds, self.excess) = (0, 1);
    }

    /// True if the mean RTT of the round that ends here is short. Where min_rtt is far above the
    /// connection's shortest RTT, it may have another flow's queue in it.
    fn is_round_calm(&self, rtt: &Rtts) -> bool {
        self.excess <= 0 && !is_queueing(rtt.min, rtt.shortest, COMPETITOR_QUEUE_SHIFT)
    }

    /// A round of CRUISE or ProbeRTT ends. True if it shows that the path is quiet. Both begin
    /// within a round, of which the rest counts as one.
    #[cold]
    fn end_round(&mut self, state: State, rtt: &Rtts) -> bool {
        let is_calm = self.is_round_calm(rtt);
        self.excess = 1;
        self.calm_rounds = match (is_calm, state) {
            (true, _) => self.calm_rounds.saturating_add(1),
            (false, State::ProbeRtt) => self.calm_rounds,
            (false, _) => 0,
        };
        let was_quiet = self.is_quiet;
        self.is_quiet |= state == State::ProbeBwCruise && self.calm_rounds >= CALM_ROUNDS;
        self.is_quiet != was_quiet
    }

    /// Adds the RTT of an ACK to its round of CRUISE or ProbeRTT. True if it is short.
    #[inline]
    fn add_to_round(&mut self, rtt: Duration, min_rtt: Duration) -> bool {
        // Exact below 2^63 ns. The shift rounds down: an RTT that is no longer is at most 0.
        let excess = rtt.as_nanos().wrapping_sub(longest_short(min_rtt)) as i64;
        let sum = i64::from(self.excess) + (excess >> 10);
        self.excess = sum.clamp(i32::MIN.into(), i32::MAX.into()) as i32;
        excess <= 0
    }

    /// The share of `bytes` that the path may lose by itself: the baseline and two standard
    /// deviations.
    fn expected_loss(&self, conn: &Conn, bytes: u64) -> Gain {
        let lost = self.baseline_loss.of(bytes).saturating_mul(conn.smss);
        self.baseline_loss.plus(Gain::ratio(2 * lost.isqrt(), bytes))
    }
}

/// RTTs that say if a path is quiet.
struct Rtts {
    /// BBR.min_rtt.
    min: Duration,
    /// The connection's.
    shortest: Duration,
}

/// True if `rtt` is as good as `least`: at most 1/32 above it.
pub(super) fn is_short(rtt: Duration, least: Duration) -> bool {
    rtt.as_nanos() <= longest_short(least)
}

/// The longest RTT in nanoseconds that is short.
const fn longest_short(least: Duration) -> u64 {
    let least = least.as_nanos();
    least.saturating_add(least >> SHORT_RTT_SHIFT)
}

/// True if `rtt` was measured and is above `least` by more than its binary fraction 2^-`shift`: the
/// packet waited in a queue.
fn is_queueing(rtt: Duration, least: Duration, shift: u32) -> bool {
    let (rtt, least) = (rtt.as_nanos(), least.as_nanos());
    rtt != u64::MAX && rtt > least.saturating_add(least >> shift)
}

impl<F: Flavour> Bbr3<F> {
    /// The state of the amendments, if `amendment` acts on this path. In the other flavours the
    /// compiler knows that it does not.
    #[inline]
    pub(super) fn amended(&self, amendment: Amendment) -> Option<&Amended> {
        F::amended(&self.own).filter(|amended| amended.acts(amendment))
    }

    /// Notes the RTT of each ACK where an amendment asks for it later.
    #[inline]
    pub(super) fn note_rtt(&mut self, conn: &Conn, rs: &RateSample) {
        let (state, min_rtt) = (self.state, self.rtt.min);
        let Some(amended) = F::amended_mut(&mut self.own) else { return };
        // A single long RTT may be a delayed ACK.
        if !amended.has_seen_queue() {
            amended.queueing_acks = match is_queueing(rs.rtt, min_rtt, QUEUE_SHIFT) {
                true => amended.queueing_acks + 1,
                false => 0,
            };
        }
        let is_short = match state {
            State::ProbeBwCruise => self.note_rtt_of_cruise(conn, rs),
            State::ProbeRtt => {
                self.note_rtt_without_queue(conn, rs);
                false
            }
            _ => is_short(rs.rtt, min_rtt),
        };
        if rs.rtt < self.rtt.probe_min_delay {
            self.put_off_probe_rtt(conn, rs.now);
        }
        // ProbeRTT only when needed: this sample is what ProbeRTT would find.
        if is_short
            && let Some(amended) = self.amended(Amendment::ProbeRttWhenNeeded)
            && rs.now < amended.probe_rtt_at_latest
        {
            self.renew_probe_rtt_expiry(conn, rs.now);
        }
    }

    /// The RTT of an ACK in a state in which this flow keeps no queue: DOWN has emptied it. True if
    /// it is short.
    #[inline]
    fn note_rtt_without_queue(&mut self, conn: &Conn, rs: &RateSample) -> bool {
        let (state, min_rtt) = (self.state, self.rtt.min);
        let Some(amended) = F::amended_mut(&mut self.own) else { return false };
        if self.round.start {
            let rtts = Rtts { min: min_rtt, shortest: conn.sampler.min_rtt() };
            self.is_model_new |= amended.end_round(state, &rtts);
        }
        rs.rtt != Duration::MAX && amended.add_to_round(rs.rtt, min_rtt)
    }

    /// The queue of a round after DOWN is another flow's. True if the RTT is short.
    #[inline]
    fn note_rtt_of_cruise(&mut self, conn: &Conn, rs: &RateSample) -> bool {
        let is_short = self.note_rtt_without_queue(conn, rs);
        let Some(amended) = F::amended_mut(&mut self.own) else { return false };
        let is_least = self.round.start || rs.rtt < amended.least_rtt;
        if is_least {
            amended.least_rtt = rs.rtt;
        }
        if is_least || self.is_model_new {
            self.renew_margin(conn);
        }
        is_short
    }

    #[cold]
    fn put_off_probe_rtt(&mut self, conn: &Conn, now: Instant) {
        let at_latest = self.probe_rtt_at_latest(conn, now);
        if let Some(amended) = F::amended_mut(&mut self.own) {
            amended.probe_rtt_at_latest = at_latest;
        }
    }

    /// CRUISE needs no pacing margin where it keeps no queue. The pacing rate follows.
    #[cold]
    fn renew_margin(&mut self, conn: &Conn) {
        let delivers = self.delivers_what_it_estimates();
        let Some(amended) = F::amended_mut(&mut self.own) else { return };
        let is_without_margin = delivers
            && amended.acts(Amendment::MarginWithQueue)
            && is_short(amended.least_rtt, conn.sampler.min_rtt());
        self.is_model_new |= amended.is_without_margin != is_without_margin;
        amended.is_without_margin = is_without_margin;
    }

    /// True if the bandwidth that this cycle measured is that of the cycle before, less at most
    /// 1/256: nothing was lost, and no other flow took a part of the link.
    fn delivers_what_it_estimates(&self) -> bool {
        let [before, now] = self.bandwidth.filter.map(Rate::as_bytes_per_sec);
        now >= before - (before >> DELIVERED_SHIFT)
    }

    /// True in a Startup that may show by application-limited samples that it needs no ProbeRTT.
    /// That asks for no quiet path: such a flow keeps no queue.
    pub(super) fn needs_no_probe_rtt_in_startup(&self) -> bool {
        self.state == State::Startup
            && F::amended(&self.own)
                .is_some_and(|amended| amended.on.contains(Amendment::ProbeRttWhenNeeded))
    }

    /// C.pacing_rate over the estimated bandwidth: the margin is there to drain queues, and CRUISE
    /// may have none.
    #[inline]
    pub(super) fn pacing_margin(&self) -> Gain {
        match F::amended(&self.own) {
            Some(Amended { is_without_margin: true, .. }) if self.state == State::ProbeBwCruise => {
                Gain::ONE
            }
            // Swift's law drains queues.
            _ if F::swift(&self.own).is_some_and(Swift::is_without_margin) => Gain::ONE,
            _ => PACING_MARGIN,
        }
    }

    /// A ProbeRTT begins.
    pub(super) fn begin_probe_rtt_for_amendments(&mut self) {
        if let Some(amended) = F::amended_mut(&mut self.own) {
            amended.begin_calm();
        }
    }

    /// A CRUISE begins: what it sees is counted anew.
    pub(super) fn begin_cruise_for_amendments(&mut self, conn: &Conn) {
        if let Some(amended) = F::amended_mut(&mut self.own) {
            amended.least_rtt = Duration::MAX;
            amended.rounds = 0;
            amended.is_without_margin = false;
            amended.begin_calm();
            amended.cruise_lost = conn.sampler.lost();
            amended.cruise_delivered = conn.sampler.delivered;
        }
    }

    /// A CRUISE ends, and REFILL begins: the losses of a CRUISE without a queue are the path's own.
    /// Few packets say little, and CRUISE may have been cut short. Where no queue was ever seen,
    /// the buffer may be too short for one, and losses without a queue are congestion.
    pub(super) fn end_cruise_for_amendments(&mut self, conn: &Conn) {
        let (min_rtt, state) = (self.rtt.min, self.state);
        let Some(amended) = F::amended_mut(&mut self.own) else { return };
        amended.has_reached_target = false;
        amended.rounds = 0;
        if state != State::ProbeBwCruise {
            return;
        }
        let lost = conn.sampler.lost().saturating_sub(amended.cruise_lost);
        let delivered = conn.sampler.delivered.saturating_sub(amended.cruise_delivered);
        let all = lost.saturating_add(delivered);
        if all < BASELINE_PACKETS * conn.smss {
            return;
        }
        amended.baseline_loss = if amended.has_seen_queue() && is_short(amended.least_rtt, min_rtt)
        {
            Gain::ratio(lost, all).min(BASELINE_LOSS_MAX)
        } else {
            Gain::percent(0)
        };
    }

    /// A round of CRUISE ends, and CRUISE goes on.
    pub(super) fn end_round_of_cruise(&mut self, conn: &Conn, rs: &RateSample) {
        let Some(amended) = F::amended_mut(&mut self.own) else { return };
        amended.rounds = amended.rounds.wrapping_add(1);
        if amended.rounds % BANDWIDTH_ROUNDS == 2 {
            self.take_bandwidth_of_cruise(conn, rs);
        }
    }

    /// In CRUISE, and at its end. Where a queue stands on a quiet path, flows of this kind believe
    /// in more bandwidth together than the link has: what CRUISE delivers is this one's share of
    /// it. From there a probe of a small flow gains more than one of a large flow. As CRUISE goes
    /// on, the window that follows this estimate empties the queue, but for CRUISE_PACKETS of each
    /// flow, which even the rates out. Probes of 1.25 make the estimates at most a quarter too
    /// large: where less than LEAST_DELIVERED is delivered, the link itself is slower for a time.
    pub(super) fn take_bandwidth_of_cruise(&mut self, conn: &Conn, rs: &RateSample) {
        let min_rtt = self.rtt.min;
        let is_shared = self
            .amended(Amendment::BandwidthOfCruise)
            .is_some_and(|amended| is_queueing(amended.least_rtt, min_rtt, QUEUE_SHIFT));
        let delivered = self.loss_round.bw_latest.min(self.bandwidth.max);
        if is_shared
            && self.state == State::ProbeBwCruise
            && !rs.is_app_limited
            && !self.is_below_least_window(conn)
            && delivered > Rate::ZERO
            && delivered >= LEAST_DELIVERED.of_rate(self.bandwidth.max)
        {
            self.bandwidth.restart_filter(delivered);
            // The room for packets whose ACK waits follows the maximum, also where BBR.bw stays.
            self.is_model_new = true;
        }
    }

    /// BBR.LossThresh of a probe with `bytes` in flight: above what the path loses by itself. Few
    /// packets lose more or fewer than that by chance, by the square root of their number.
    #[inline]
    pub(super) fn loss_thresh(&self, conn: &Conn, bytes: u64) -> Gain {
        match self.amended(Amendment::BaselineLoss) {
            Some(amended) if amended.baseline_loss > Gain::percent(0) => {
                F::P.loss_thresh.plus(amended.expected_loss(conn, bytes))
            }
            _ => F::P.loss_thresh,
        }
    }

    /// True if Startup's losses may be the path's own, of which it knows nothing yet: there is no
    /// queue, and they are no more than the path is believed to lose at most. Startup that fills a
    /// short buffer loses far more.
    pub(super) fn is_loss_of_path_in_startup(&self, rs: &RateSample) -> bool {
        self.amended(Amendment::BaselineLoss).is_some()
            && is_short(rs.rtt, self.rtt.min)
            && rs.lost <= F::P.loss_thresh.plus(BASELINE_LOSS_MAX).of(rs.tx_in_flight)
    }

    /// True if the losses of the round that `rs` ends are too few to lower the short-term bounds.
    pub(super) fn is_small_loss(&self, conn: &Conn, rs: &RateSample) -> bool {
        self.amended(Amendment::IgnoreSmallLoss).is_some_and(|amended| {
            let all = rs.lost.saturating_add(rs.delivered);
            let limit = match self.amended(Amendment::BaselineLoss) {
                Some(_) => SMALL_LOSS.plus(amended.expected_loss(conn, all)),
                None => SMALL_LOSS,
            };
            rs.lost <= limit.of(all)
        })
    }

    /// True if UP may end before a plateau of three rounds: the target was in flight, and it made a
    /// queue. On a link that is faster than believed no queue is made, and UP goes on. Either one
    /// round did not deliver more, and in the last CRUISE nobody else was queueing; or the queue is
    /// longer than this flow's probe makes it. A flow among many grows by UP's gain in each round,
    /// and with it only the queue. Where
    /// BBR.MinPipeCwnd keeps a queue by itself, a queue says nothing.
    pub(super) fn is_up_at_target(&mut self, conn: &Conn, rs: &RateSample) -> bool {
        let reached =
            rs.prior_inflight.saturating_add(conn.smss) >= UP_TARGET.of(self.bandwidth.bdp);
        let (min_rtt, plateau, round_start) =
            (self.rtt.min, self.full_pipe.count, self.round.start);
        let is_below_least_window = self.is_below_least_window(conn);
        F::amended_mut(&mut self.own).is_some_and(|amended| {
            amended.has_reached_target |= reached;
            amended.rounds = UP_QUEUE_ROUNDS.min(amended.rounds + u8::from(round_start));
            let ends_at_target = amended.acts(Amendment::UpEndsAtTarget)
                && !is_short(rs.rtt, min_rtt)
                && plateau >= 1
                && is_short(amended.least_rtt, min_rtt);
            let ends_in_queue = amended.acts(Amendment::UpEndsInQueue)
                && !is_below_least_window
                && amended.rounds >= UP_QUEUE_ROUNDS
                && is_queueing(rs.rtt, min_rtt, UP_QUEUE_SHIFT);
            amended.has_reached_target && (ends_at_target || ends_in_queue)
        })
    }

    /// The window of CRUISE but for extra_acked: packets that do not grow with the bandwidth are a
    /// larger part of a small flow's window, and a queue takes rate from flows by their windows.
    pub(super) fn inflight_of_cruise(&self, conn: &Conn) -> Option<u64> {
        (self.state == State::ProbeBwCruise
            && self.amended(Amendment::SmallerCruiseWindow).is_some())
        .then(|| {
            let most = self.bdp_multiple(conn, self.bandwidth.bw, CRUISE_CWND_GAIN_MAX);
            let window = self.bdp_multiple(conn, self.bandwidth.bw, CRUISE_CWND_GAIN);
            window.saturating_add(CRUISE_PACKETS * conn.smss).min(most)
        })
    }

    /// True if the path holds less than BBR.MinPipeCwnd: then this window keeps a queue by itself,
    /// in ProbeRTT as well, and a queue says nothing of other flows.
    fn is_below_least_window(&self, conn: &Conn) -> bool {
        self.bandwidth.max.bytes_in(conn.sampler.min_rtt()) <= self.min_pipe_cwnd(conn)
    }

    /// A ProbeRTT ends. The rounds that ended in it say if the path is quiet, because this flow
    /// keeps no queue there.
    pub(super) fn end_probe_rtt_for_amendments(&mut self, conn: &Conn, now: Instant) {
        let at_latest = self.probe_rtt_at_latest(conn, now);
        if let Some(amended) = F::amended_mut(&mut self.own) {
            amended.is_quiet = amended.calm_rounds > 0;
            amended.probe_rtt_at_latest = at_latest;
        }
    }

    /// BBR.ProbeRTTInterval: so many round trips where these are longer. The connection's shortest
    /// RTT counts them, because min_rtt may have a queue in it.
    #[inline]
    pub(super) fn probe_rtt_interval(&self, conn: &Conn) -> Duration {
        let least = conn.sampler.min_rtt();
        match self.amended(Amendment::TimersInRoundTrips) {
            Some(_) if least != Duration::MAX => {
                PROBE_RTT_INTERVAL.max(least.times(PROBE_RTT_INTERVAL_ROUNDS))
            }
            _ => PROBE_RTT_INTERVAL,
        }
    }

    /// The time at which ProbeRTT comes in any case.
    fn probe_rtt_at_latest(&self, conn: &Conn, now: Instant) -> Instant {
        now + self.probe_rtt_interval(conn).times(PROBE_RTT_AT_LATEST)
    }

    /// The shortest wait between probes: so many round trips where these are longer, or DOWN ends
    /// before its queue.
    pub(super) fn probe_wait_base(&self) -> Duration {
        match self.amended(Amendment::TimersInRoundTrips) {
            Some(_) if self.rtt.min != Duration::MAX => {
                PROBE_WAIT_BASE.max(self.rtt.min.times(PROBE_WAIT_ROUNDS))
            }
            _ => PROBE_WAIT_BASE,
        }
    }

    /// The most that ProbeRTTCwnd may be. If a queue has stood for MinRTTFilterLen, half of a BDP
    /// by min_rtt keeps it. Where the path holds less than BBR.MinPipeCwnd, that window is enough.
    pub(super) fn most_of_probe_rtt(&self, conn: &Conn) -> u64 {
        match self.amended(Amendment::ProbeRttEmptiesQueue) {
            Some(_) if self.is_below_least_window(conn) => self.min_pipe_cwnd(conn),
            _ => u64::MAX,
        }
    }
}
