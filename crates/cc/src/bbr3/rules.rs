//! What flavours of BBRv3 have apart. The constants and the default methods are the draft's, with
//! what this crate does otherwise than its pseudo-code; a flavour overrides what it has of its own.

use core::fmt::Debug;

use super::Bbr3;
use super::aggregation::{ExtraAckedFilter, MaxOfRounds};
use super::amend::{Amend, View};
use super::bounds::Bounds;
use super::full_pipe::FullPipe;
use super::loss_round::LossRound;
use super::mark_response::MarkResponse;
use super::params::{DEFAULT_CWND_GAIN, MIN_PIPE_PACKETS, PACING_MARGIN, QUANTUM_TIME};
use crate::algo::Marks;
use crate::config::Config;
use crate::conn::Conn;
use crate::options::{FlavourOptions, StartupGains};
use crate::round::Round;
use crate::sampler::{PacketState, RateSample};
use crate::units::{Duration, Gain, Instant, Rate};

/// The rules of a flavour, and what it keeps for them.
pub(crate) trait Rules: Clone + Debug + Sized {
    /// The algorithm's name.
    const NAME: &'static str;
    /// BBR.StartupPacingGain, 4 ln 2: the smallest gain that lets the rate double each round; and
    /// BBR.DefaultCwndGain.
    const STARTUP_GAINS: StartupGains =
        StartupGains { pacing: Gain::percent(277), cwnd: DEFAULT_CWND_GAIN };
    /// BBR.DrainPacingGain: at or under 1 / (Startup's cwnd gain), so that one round drains the
    /// queue.
    const DRAIN_PACING_GAIN: Gain = Gain::percent(50);
    /// Rounds after which Drain gives up: the bandwidth was overestimated.
    const DRAIN_ROUNDS: u64 = 3;
    /// DOWN: the smallest cut with which flows that probe at 1.25 converge to equal shares.
    const PROBE_DOWN_PACING_GAIN: Gain = Gain::percent(90);
    /// BBR.LossThresh: the loss rate of a round that a probe may cause.
    const LOSS_THRESH: Gain = Gain::percent(2);
    /// BBR.Beta: the least share that a lossy round leaves; CUBIC's factor, to be no harsher than
    /// it.
    const BETA: Gain = Gain::percent(70);
    /// BBR.Headroom: the share of the long-term bound that is left to others.
    const HEADROOM: Gain = Gain::percent(15);

    /// True if pacing rate, quantum and max_inflight follow from `control::Basis` between the starts
    /// of rounds.
    const FOLLOWS_BASIS: bool = true;

    /// The filter of the maximum of extra_acked.
    type ExtraAcked: ExtraAckedFilter;
    /// The response to marks.
    type Marks: MarkResponse;
    /// The amendments, none for most flavours.
    type Amendments: Amend;

    /// The state at the start.
    fn new(config: &Config, options: &FlavourOptions) -> Self;
    fn marks(&self) -> &Self::Marks;
    fn marks_mut(&mut self) -> &mut Self::Marks;
    fn amendments(&self) -> &Self::Amendments;
    fn amendments_mut(&mut self) -> &mut Self::Amendments;

    /// A volume from which a share was taken, in the unit in which the flavour counts.
    #[inline]
    fn rounded_down(_: &Conn, volume: u64) -> u64 {
        volume
    }

    /// A volume that a flow may have, in the unit in which the flavour counts.
    #[inline]
    fn rounded_up(_: &Conn, volume: u64) -> u64 {
        volume
    }

    /// BBR.MinPipeCwnd in packets: two on the way there and the ACKs of two on the way back.
    #[inline]
    fn min_pipe_packets(&self) -> u64 {
        MIN_PIPE_PACKETS
    }

    /// The sample that the model is made of; `own` has room for another one than the sampler's.
    #[inline]
    fn sample<'a>(
        &self,
        rs: &'a RateSample,
        _min_rtt: Duration,
        _own: &'a mut Option<RateSample>,
    ) -> &'a RateSample {
        rs
    }

    /// The delays of an ACK judge the state, before the state machine looks at it.
    #[inline]
    fn judge_delay(&mut self, _view: &View<'_>, _rs: &RateSample) -> Verdict {
        Verdict::Nothing
    }

    /// True if CheckFullBWReached() asks the sample of this ACK.
    #[inline]
    fn asks_full_bw(full_pipe: &FullPipe) -> bool {
        full_pipe.awaits_sample
    }

    /// True if a sample without growth counts as a round of the plateau.
    #[inline]
    fn counts_plateau(_: &Round) -> bool {
        true
    }

    /// The BDP that inflight_longterm begins with at Startup's end.
    fn bdp_of_startup(bbr: &Bbr3<Self>, conn: &Conn) -> u64 {
        bbr.bdp_multiple(conn, bbr.bandwidth.bw, Gain::ONE)
    }

    /// Drain begins.
    fn begin_drain(_: &mut Bbr3<Self>) {}

    /// The bandwidth whose BDP ends Drain.
    fn bw_of_drain(bbr: &Bbr3<Self>) -> Rate {
        bbr.bandwidth.bw
    }

    /// The long-term bound of Drain's window: the table of control behaviour has one, and the
    /// pseudo-code none.
    fn bound_of_drain(bounds: &Bounds) -> u64 {
        bounds.inflight_longterm
    }

    /// The volume that TargetInflight() aims at, of the estimated BDP, and no less than that.
    #[inline]
    fn target(_: &Bbr3<Self>, _: &Conn, bdp: u64) -> u64 {
        bdp
    }

    /// True if a probe may be due by the rounds that a small BDP asks for.
    #[inline]
    fn probes_by_bdp(&self) -> bool {
        true
    }

    /// The wait between probes is shortened by chance, by fewer rounds than these.
    #[inline]
    fn random_probe_rounds(&self) -> u64 {
        2
    }

    /// CRUISE begins.
    fn begin_cruise(_: &mut Bounds) {}

    /// REFILL begins.
    fn begin_refill(&mut self, _max_bw: Rate, _min_rtt: Duration) {}

    /// The last part of AdaptLongTermModel(): what the sample of an ACK says of the long-term
    /// bound.
    #[inline]
    fn judge_ack(bbr: &mut Bbr3<Self>, conn: &Conn, rs: &RateSample) {
        if bbr.has_longterm_bound() && !bbr.is_sample_too_high(conn, rs) {
            bbr.raise_inflight_longterm(conn, rs);
        }
    }

    /// An ACK with too many marks ends a probe at once, as a lost packet that crosses the threshold
    /// does.
    fn judge_marks(bbr: &mut Bbr3<Self>, conn: &Conn, marks: &Marks<'_>, now: Instant) {
        if bbr.rules.marks().is_rate_too_high() && bbr.probe.is_sample {
            bbr.handle_inflight_too_high(conn, marks.sample.into(), now);
        }
    }

    /// ResetCongestionSignals().
    fn reset_congestion_signals(bbr: &mut Bbr3<Self>) {
        bbr.loss_round.reset_signals();
    }

    /// A packet was lost. BBRStartupFullLossCnt counts ranges of such packets.
    #[inline]
    fn count_lost_packet(loss_round: &mut LossRound, packet: &PacketState) {
        loss_round.count_range(packet.index());
    }

    /// An ACK, or the loss timer, brought losses. BBRStartupFullLossCnt does not count them.
    #[inline]
    fn count_loss_report(_: &mut LossRound) {}

    /// The rate that a lossy round delivered, for the short-term bound.
    ///
    /// The draft contradicts itself here. Its text wants a loss of X % answered by a rate X % lower
    /// ("Time Scale for Bandwidth Probing", the choice of T_reno); its pseudo-code sets the bound
    /// to bw_latest, which a flow that paces 1 % under its bound can never measure above 99 % of
    /// it. So every lossy round would cost the margin on top of the loss: at 0.5 % of random loss
    /// three times what was lost. We follow the text: up to the bound itself, bw_latest is taken
    /// for what it would have been without the margin.
    fn bw_of_lossy_round(bw_latest: Rate, bw_shortterm: Rate) -> Rate {
        bw_latest.max(PACING_MARGIN.divide_rate(bw_latest).min(bw_shortterm))
    }

    /// A timeout, before the window is cut.
    fn begin_rto(_: &mut Bbr3<Self>) {}

    /// The losses that ended a state were spurious: it comes back.
    fn undo_transition(bbr: &mut Bbr3<Self>, conn: &Conn) {
        bbr.undo_transition(conn);
    }

    /// The bandwidth against which aggregation is measured.
    #[inline]
    fn bw_of_aggregation(bbr: &Bbr3<Self>) -> Rate {
        bbr.bandwidth.bw
    }

    /// The part of the window that is for aggregation.
    #[inline]
    fn extra_acked(bbr: &Bbr3<Self>, _: &Conn) -> u64 {
        bbr.aggregation.extra_acked()
    }

    /// Bytes in flight that are not in the network.
    #[inline]
    fn volume_at_receiver(&self, _bw: Rate) -> u64 {
        0
    }

    /// True if this sample says what ProbeRTT would find.
    ///
    /// "ProbeRTT Design Rationale" wants no ProbeRTT for a flow that is idle or slow often enough
    /// to drain the queue by itself. The pseudo-code asks for a sample below probe_rtt_min_delay,
    /// and a flow of frames, whose every frame finds an empty queue, has none: it holds frames back
    /// for 200 ms in every 5 s. Here an application-limited sample in ProbeBW that is near min_rtt
    /// says as much. Once the route is longer, no sample is near min_rtt, and ProbeRTT comes.
    /// In Startup the draft's test 20 wants a ProbeRTT.
    #[inline]
    fn is_probe_rtt_needless(bbr: &Bbr3<Self>, conn: &Conn, rs: &RateSample) -> bool {
        rs.is_app_limited && conn.was_application_limited && bbr.shows_no_queue(rs)
    }

    /// ProbeRTT cuts a probe short, or comes before the probe's last samples do.
    ///
    /// The probe ends its cycle of the max filter here. In the draft it ends none, and where a
    /// probe and the round after it take longer than ProbeRTTInterval leaves (round trips of more
    /// than half a second, or a path that became slower behind a deep buffer) none is ever
    /// completed: the old maximum stays, so does the queue, and min_rtt grows by it. Whether this
    /// ACK's sample is application-limited does not count: where a round trip takes longer than
    /// the 5 s, every sample of this moment bears the mark of the ProbeRTT before. A cycle in which
    /// all samples were limited does not end here either.
    fn cut_probe(bbr: &mut Bbr3<Self>) {
        bbr.bandwidth.advance_filter();
    }

    /// The very first pacing rate.
    #[inline]
    fn first_pacing_rate(rate: Rate) -> Rate {
        rate
    }

    /// The lower bound of the pacing rate: one SMSS per second.
    ///
    /// The draft has none, and there an estimate that one ACK after a long outage made lasts for
    /// hours: where packets leave further apart than ProbeRTTInterval, each ACK begins or ends a
    /// ProbeRTT, and no UP is reached; at few bytes per second a probe's quarter more is lost in
    /// rounding. On a path that is in fact so slow, the window of BBR.MinPipeCwnd is the limit,
    /// which the draft grants in each round trip.
    #[inline]
    fn least_pacing_rate(conn: &Conn) -> Rate {
        Rate::from_bytes_per_sec(conn.smss)
    }

    /// The upper bound of the pacing rate.
    #[inline]
    fn most_pacing_rate(&self, _: &Conn) -> Rate {
        Rate::MAX
    }

    /// C.pacing_rate over the estimated bandwidth: one minus BBR.PacingMarginPercent.
    #[inline]
    fn pacing_margin(&self, view: &View<'_>) -> Gain {
        self.amendments().pacing_margin(view)
    }

    /// SetSendQuantum(), before it is bounded.
    #[inline]
    fn send_quantum(&self, conn: &Conn, _min_rtt: Duration) -> u64 {
        conn.pacing_rate.bytes_in(QUANTUM_TIME)
    }

    /// True if marks are answered as those of a classic queue, where no other answer is there.
    #[inline]
    fn answers_classic_marks(&self) -> bool {
        false
    }

    /// The window grows whatever the model says: until the initial window is delivered.
    #[inline]
    fn grows_at_the_start(conn: &Conn) -> bool {
        conn.sampler.delivered < conn.initial_cwnd
    }

    /// A bound of the window in bytes beside those of the model, infinite for none, else `least` at
    /// least; a snapshot shows it as short-term.
    #[inline]
    fn most_inflight(&self, least: u64) -> u64 {
        self.marks().most_inflight(least).min(self.amendments().most_inflight(least))
    }
}

/// The judgement of a rule on the state.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Verdict {
    Nothing,
    /// Startup has filled the pipe.
    PipeIsFull,
    /// The probe went too high.
    ProbeTooHigh,
}

/// draft-ietf-ccwg-bbr.
#[derive(Clone, Debug)]
pub(crate) struct Draft<A> {
    marks: DraftMarks,
    amendments: A,
}

/// The draft has no response to marks yet. With the feature `l4s` there is one where the transport
/// says that marks are those of L4S.
#[cfg(feature = "l4s")]
type DraftMarks = super::ecn::L4s;
#[cfg(not(feature = "l4s"))]
type DraftMarks = ();

impl<A: Amend> Rules for Draft<A> {
    const NAME: &'static str = A::NAMES.draft;
    type ExtraAcked = MaxOfRounds;
    type Marks = DraftMarks;
    type Amendments = A;

    fn new(config: &Config, options: &FlavourOptions) -> Self {
        Self { marks: MarkResponse::new(config), amendments: A::new(options) }
    }

    #[inline]
    fn marks(&self) -> &DraftMarks {
        &self.marks
    }

    #[inline]
    fn marks_mut(&mut self) -> &mut DraftMarks {
        &mut self.marks
    }

    #[inline]
    fn amendments(&self) -> &A {
        &self.amendments
    }

    #[inline]
    fn amendments_mut(&mut self) -> &mut A {
        &mut self.amendments
    }

    #[inline]
    fn answers_classic_marks(&self) -> bool {
        self.amendments.answers_classic_marks()
    }
}
