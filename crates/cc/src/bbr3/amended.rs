//! The amendments of `bbr3x`: where the draft leaves bandwidth unused or a queue standing, and what
//! this flavour does instead. Each can be switched off by itself ([`Amendments`]). `docs/bbr3x.md`
//! has the measurements.

use super::Bbr3;
use super::params::{
    BANDWIDTH_ROUNDS, BASELINE_LOSS_MAX, BASELINE_PACKETS, COMPETITOR_CWND_GAIN,
    COMPETITOR_QUEUE_SHIFT, CRUISE_CWND_GAIN, CRUISE_CWND_GAIN_MAX, CRUISE_PACKETS,
    DELIVERED_SHIFT, Flavour, PACING_MARGIN, PROBE_RTT_AT_LATEST, PROBE_RTT_CWND_GAIN,
    PROBE_RTT_INTERVAL, PROBE_RTT_INTERVAL_ROUNDS, PROBE_WAIT_BASE, PROBE_WAIT_ROUNDS, QUEUE_ACKS,
    QUEUE_SHIFT, SHORT_RTT_SHIFT, SMALL_LOSS, STARTUP_QUEUE_SHIFT, UP_QUEUE_ROUNDS, UP_QUEUE_SHIFT,
    UP_TARGET,
};
use crate::config::{Amendment, Amendments};
use crate::conn::Conn;
use crate::sampler::RateSample;
use crate::snapshot::State;
use crate::units::{Duration, Gain, Instant, Rate};

/// Queues that were seen on the path.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Queue {
    /// No RTT was long enough for one: the path's buffer may hold none.
    Unseen,
    /// An RTT was long enough for one.
    Seen,
    /// Another flow kept one through the last ProbeRTT.
    OfCompetitor,
}

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
    /// The queues that were seen on this path.
    queue: Queue,
    /// Until one was seen: the newest ACKs in a row whose RTT was long enough for one.
    queueing_acks: u8,
    /// The share that is lost when this flow does not queue.
    baseline_loss: Gain,
    /// The shortest RTT of the last round of Startup or of the newest CRUISE, or of the ProbeRTT
    /// that lasts; [`Duration::MAX`] before its first sample.
    least_rtt: Duration,
    /// ProbeRTT is due then, however short the RTT is.
    probe_rtt_at_latest: Instant,
    /// C.lost and C.delivered in bytes when the newest CRUISE began.
    cruise_lost: u64,
    cruise_delivered: u64,
}

impl Amended {
    pub(super) const fn new(without: Amendments) -> Self {
        Self {
            on: without.complement(),
            has_reached_target: false,
            rounds: 0,
            is_without_margin: false,
            queue: Queue::Unseen,
            queueing_acks: 0,
            baseline_loss: Gain::percent(0),
            least_rtt: Duration::MAX,
            probe_rtt_at_latest: Instant::MAX,
            cruise_lost: 0,
            cruise_delivered: 0,
        }
    }
}

impl Amended {
    /// True if another flow kept a queue through the last ProbeRTT.
    fn has_competitor(&self) -> bool {
        self.queue == Queue::OfCompetitor
    }

    /// The share of `bytes` that the path may lose by itself: the baseline and two standard
    /// deviations.
    fn expected_loss(&self, conn: &Conn, bytes: u64) -> Gain {
        let lost = self.baseline_loss.of(bytes).saturating_mul(conn.smss);
        self.baseline_loss.plus(Gain::ratio(2 * lost.isqrt(), bytes))
    }
}

/// True if `rtt` is as good as `least`: at most 1/32 above it.
pub(super) fn is_short(rtt: Duration, least: Duration) -> bool {
    let (rtt, least) = (rtt.as_nanos(), least.as_nanos());
    rtt <= least.saturating_add(least >> SHORT_RTT_SHIFT)
}

/// True if `rtt` was measured and is above `least` by more than its binary fraction 2^-`shift`: the
/// packet waited in a queue.
fn is_queueing(rtt: Duration, least: Duration, shift: u32) -> bool {
    let (rtt, least) = (rtt.as_nanos(), least.as_nanos());
    rtt != u64::MAX && rtt > least.saturating_add(least >> shift)
}

impl<F: Flavour> Bbr3<F> {
    /// The state of the amendments, if `amendment` is on. In the other flavours the compiler knows
    /// that it is not.
    #[inline]
    pub(super) fn amended(&self, amendment: Amendment) -> Option<&Amended> {
        F::amended(&self.own).filter(|amended| amended.on.contains(amendment))
    }

    /// Notes the RTT of each ACK where an amendment asks for it later.
    #[inline]
    pub(super) fn note_rtt(&mut self, conn: &Conn, rs: &RateSample) {
        let (state, round_start) = (self.state, self.round_start);
        let (min_rtt, min_delay) = (self.min_rtt, self.probe_rtt_min_delay);
        let delivers = self.delivers_what_it_estimates();
        let at_latest = (rs.rtt < min_delay).then(|| self.probe_rtt_at_latest(conn, rs.now));
        let Some(amended) = F::amended_mut(&mut self.own) else { return };
        let before = amended.least_rtt;
        match state {
            // DOWN has emptied the queue: what stands there a round later is another flow's.
            State::ProbeBwCruise | State::Startup if round_start => amended.least_rtt = rs.rtt,
            State::ProbeBwCruise | State::Startup | State::ProbeRtt => {
                amended.least_rtt = amended.least_rtt.min(rs.rtt);
            }
            _ => {}
        }
        let is_without_margin = amended.on.contains(Amendment::MarginWithQueue)
            && state == State::ProbeBwCruise
            && delivers
            && is_short(amended.least_rtt, conn.sampler.min_rtt());
        // The pacing rate follows the one, the window beside a competitor the other.
        self.is_model_new |= amended.is_without_margin != is_without_margin
            || (amended.has_competitor() && amended.least_rtt != before);
        amended.is_without_margin = is_without_margin;
        // A single long RTT may be a delayed ACK.
        if amended.queue == Queue::Unseen {
            amended.queueing_acks = match is_queueing(rs.rtt, min_rtt, QUEUE_SHIFT) {
                true => amended.queueing_acks + 1,
                false => 0,
            };
            if amended.queueing_acks == QUEUE_ACKS {
                amended.queue = Queue::Seen;
            }
        }
        if let Some(at_latest) = at_latest {
            amended.probe_rtt_at_latest = at_latest;
        }
        // ProbeRTT only when needed: this sample is what ProbeRTT would find.
        if amended.on.contains(Amendment::ProbeRttWhenNeeded)
            && state != State::ProbeRtt
            && is_short(rs.rtt, min_delay.min(min_rtt))
            && rs.now < amended.probe_rtt_at_latest
        {
            self.renew_probe_rtt_expiry(conn, rs.now);
        }
    }

    /// True if the bandwidth that this cycle measured is that of the cycle before, less at most
    /// 1/256: nothing was lost, and no other flow took a part of the link.
    fn delivers_what_it_estimates(&self) -> bool {
        let [before, now] = self.max_bw_filter.map(Rate::as_bytes_per_sec);
        now >= before - (before >> DELIVERED_SHIFT)
    }

    /// C.pacing_rate over the estimated bandwidth: the margin is there to drain queues, and CRUISE
    /// may have none.
    #[inline]
    pub(super) fn pacing_margin(&self) -> Gain {
        match F::amended(&self.own) {
            Some(Amended { is_without_margin: true, .. }) if self.state == State::ProbeBwCruise => {
                Gain::ONE
            }
            _ => PACING_MARGIN,
        }
    }

    /// A ProbeRTT begins.
    pub(super) fn begin_probe_rtt_for_amendments(&mut self) {
        if let Some(amended) = F::amended_mut(&mut self.own) {
            amended.least_rtt = Duration::MAX;
        }
    }

    /// A CRUISE begins: what it sees is counted anew.
    pub(super) fn begin_cruise_for_amendments(&mut self, conn: &Conn) {
        if let Some(amended) = F::amended_mut(&mut self.own) {
            amended.least_rtt = Duration::MAX;
            amended.rounds = 0;
            amended.cruise_lost = conn.sampler.lost();
            amended.cruise_delivered = conn.sampler.delivered;
        }
    }

    /// A CRUISE ends, and REFILL begins: the losses of a CRUISE without a queue are the path's own.
    /// Few packets say little, and CRUISE may have been cut short. Where no queue was ever seen,
    /// the buffer may be too short for one, and losses without a queue are congestion.
    pub(super) fn end_cruise_for_amendments(&mut self, conn: &Conn) {
        let (min_rtt, state) = (self.min_rtt, self.state);
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
        amended.baseline_loss =
            if amended.queue != Queue::Unseen && is_short(amended.least_rtt, min_rtt) {
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

    /// In CRUISE, and at its end. Where a queue stands that ProbeRTT empties, flows of this kind
    /// believe in more bandwidth together than the link has: what CRUISE delivers is this one's
    /// share of it. From there a probe of a small flow gains more than one of a large flow. As
    /// CRUISE goes on, the window that follows this estimate empties the queue, but for
    /// CRUISE_PACKETS of each flow, which even the rates out.
    pub(super) fn take_bandwidth_of_cruise(&mut self, conn: &Conn, rs: &RateSample) {
        let min_rtt = self.min_rtt;
        let is_shared = self.amended(Amendment::BandwidthOfCruise).is_some_and(|amended| {
            !amended.has_competitor() && is_queueing(amended.least_rtt, min_rtt, QUEUE_SHIFT)
        });
        let delivered = self.bw_latest.min(self.max_bw);
        if is_shared
            && self.state == State::ProbeBwCruise
            && !rs.is_app_limited
            && !self.is_below_least_window(conn)
            && delivered > Rate::ZERO
        {
            self.max_bw_filter = [delivered, Rate::ZERO];
            self.max_bw = delivered;
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
            && is_short(rs.rtt, self.min_rtt)
            && rs.lost <= F::P.loss_thresh.plus(BASELINE_LOSS_MAX).of(rs.tx_in_flight)
    }

    /// True if Startup may end with a round that did not grow, before a plateau of three: each of
    /// its packets stood in a queue, so the link is full. Without a queue something else held the
    /// round up, as a receiver that raises its window. ACKs that come in bursts make RTTs as long
    /// without a queue: extra_acked, which they explain, is taken off.
    pub(super) fn is_startup_queueing(&self, rs: &RateSample) -> bool {
        self.state == State::Startup
            && self.amended(Amendment::StartupEndsWithQueue).is_some_and(|amended| {
                let least = self.min_rtt.as_nanos();
                let least = least.saturating_add(least >> STARTUP_QUEUE_SHIFT);
                amended.least_rtt != Duration::MAX
                    && amended.least_rtt.as_nanos() > least
                    && rs
                        .delivery_rate
                        .bytes_in(Duration::from_nanos(amended.least_rtt.as_nanos() - least))
                        > self.extra_acked
            })
    }

    /// True if a mark in Startup is ProbeRTT's, not the application's: each packet stood in a queue
    /// that is longer than ProbeRTTInterval, so that the link had something to send all the time.
    pub(super) fn is_mark_of_probe_rtt(&self, rs: &RateSample) -> bool {
        self.is_startup_queueing(rs)
            && F::amended(&self.own).is_some_and(|amended| amended.least_rtt > PROBE_RTT_INTERVAL)
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
    /// and with it only the queue. Beside a flow that fills the buffer the queue says nothing, nor
    /// where the least window is one.
    pub(super) fn is_up_at_target(&mut self, conn: &Conn, rs: &RateSample) -> bool {
        let reached = rs.prior_inflight.saturating_add(conn.smss) >= UP_TARGET.of(self.bdp);
        let (min_rtt, plateau, round_start) = (self.min_rtt, self.full_bw_count, self.round_start);
        let is_below_least_window = self.is_below_least_window(conn);
        F::amended_mut(&mut self.own).is_some_and(|amended| {
            amended.has_reached_target |= reached;
            amended.rounds = UP_QUEUE_ROUNDS.min(amended.rounds + u8::from(round_start));
            let ends_at_target = amended.on.contains(Amendment::UpEndsAtTarget)
                && !is_short(rs.rtt, min_rtt)
                && plateau >= 1
                && is_short(amended.least_rtt, min_rtt);
            let ends_in_queue = amended.on.contains(Amendment::UpEndsInQueue)
                && !amended.has_competitor()
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
            let most = self.bdp_multiple(conn, self.bw, CRUISE_CWND_GAIN_MAX);
            let window = self.bdp_multiple(conn, self.bw, CRUISE_CWND_GAIN);
            window.saturating_add(CRUISE_PACKETS * conn.smss).min(most)
        })
    }

    /// True if the path holds less than BBR.MinPipeCwnd: then this window keeps a queue by itself,
    /// in ProbeRTT as well, and a queue says nothing of other flows.
    fn is_below_least_window(&self, conn: &Conn) -> bool {
        self.max_bw.bytes_in(conn.sampler.min_rtt()) <= self.min_pipe_cwnd(conn)
    }

    /// A ProbeRTT ends: the queue that was there without ours is another flow's.
    pub(super) fn end_probe_rtt_for_amendments(&mut self, conn: &Conn, now: Instant) {
        let least = conn.sampler.min_rtt();
        let is_below_least_window = self.is_below_least_window(conn);
        let at_latest = self.probe_rtt_at_latest(conn, now);
        if let Some(amended) = F::amended_mut(&mut self.own) {
            if !is_below_least_window
                && is_queueing(amended.least_rtt, least, COMPETITOR_QUEUE_SHIFT)
            {
                amended.queue = Queue::OfCompetitor;
            } else if amended.has_competitor() {
                amended.queue = Queue::Seen;
            }
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
            Some(_) if self.min_rtt != Duration::MAX => {
                PROBE_WAIT_BASE.max(self.min_rtt.times(PROBE_WAIT_ROUNDS))
            }
            _ => PROBE_WAIT_BASE,
        }
    }

    /// The most that ProbeRTTCwnd may be. If a queue has stood for MinRTTFilterLen, half of a BDP
    /// by min_rtt keeps it.
    pub(super) fn most_of_probe_rtt(&self, conn: &Conn) -> u64 {
        let least = conn.sampler.min_rtt();
        match self.amended(Amendment::ProbeRttEmptiesQueue) {
            Some(_) if least != Duration::MAX => PROBE_RTT_CWND_GAIN.of(self.bw.bytes_in(least)),
            _ => u64::MAX,
        }
    }

    /// The window that a flow beside one that fills the buffer needs to keep its share: 0 where
    /// there is none.
    pub(super) fn inflight_beside_competitor(&self) -> u64 {
        match self.amended(Amendment::KeepShareBesideQueue) {
            Some(amended) if amended.has_competitor() && amended.least_rtt != Duration::MAX => {
                COMPETITOR_CWND_GAIN.of(self.bw.bytes_in(amended.least_rtt))
            }
            _ => 0,
        }
    }
}
