//! The places at which a flavour may do otherwise than its text, and what it sees there.

use core::fmt::Debug;

use super::bandwidth::Bandwidth;
use super::control::Control;
use super::full_pipe::FullPipe;
use super::loss_round::LossRound;
use super::min_rtt::MinRtt;
use super::params::{
    DEFAULT_CWND_GAIN, FULL_BW_GROWTH, PACING_MARGIN, PROBE_RTT_INTERVAL, PROBE_WAIT_BASE,
};
use crate::conn::{Conn, INFINITE};
use crate::options::FlavourOptions;
use crate::round::Round;
use crate::sampler::RateSample;
use crate::snapshot::State;
use crate::units::{Duration, Gain, Instant, Rate};

/// The model, to be read.
#[derive(Clone, Copy)]
pub(crate) struct View<'a> {
    pub(super) conn: &'a Conn,
    pub(super) state: State,
    pub(super) control: &'a Control,
    pub(super) round: &'a Round,
    pub(super) bandwidth: &'a Bandwidth,
    pub(super) rtt: &'a MinRtt,
    pub(super) full_pipe: &'a FullPipe,
    pub(super) loss_round: &'a LossRound,
}

/// The names of the flavours of the draft and of Linux.
pub(crate) struct Names {
    pub(super) draft: &'static str,
    pub(super) linux: &'static str,
}

/// When ProbeRTT is to come.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Need {
    /// An interval from now: the RTT at hand is what it would find.
    None,
    /// In its time.
    InTime,
    Now,
}

/// The result of a ProbeRTT.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Found {
    /// An RTT.
    Rtt,
    /// The path has become longer: the RTT at hand is min_rtt from now on.
    LongerPath,
    /// The link has become slower: it has this bandwidth.
    SlowerLink(Rate),
}

/// Amendments of a flavour: they see the model, keep what they learn, and say what is to be. The
/// default methods amend nothing.
pub(crate) trait Amend: Clone + Debug {
    const NAMES: Names;

    fn new(options: &FlavourOptions) -> Self;

    /// The pacing gain of DOWN.
    #[inline]
    fn down_pacing_gain(&self, gain: Gain) -> Gain {
        gain
    }

    /// The volume that the path holds without a queue of this flow, of `bytes` by min_rtt.
    #[inline]
    fn held(&self, _min_rtt: Duration, bytes: u64) -> u64 {
        bytes
    }

    /// True if the marks of a Startup say that the pipe is full.
    #[inline]
    fn ends_startup(&self, _: &View<'_>) -> bool {
        false
    }

    /// The gain of CRUISE's window.
    #[inline]
    fn cruise_cwnd_gain(&self) -> Gain {
        DEFAULT_CWND_GAIN
    }

    /// CRUISE's window but for extra_acked, where `bdp` gives multiples of the BDP.
    #[inline]
    fn cruise_inflight(&self, _smss: u64, _min_rtt: Duration, bdp: impl Fn(Gain) -> u64) -> u64 {
        bdp(DEFAULT_CWND_GAIN)
    }

    /// The growth in UP that says that the pipe is not full yet.
    #[inline]
    fn up_growth(&self) -> Gain {
        FULL_BW_GROWTH
    }

    /// True if UP has shown enough; `bdp` is the estimated one.
    #[inline]
    fn ends_up(&mut self, _: &View<'_>, _: &RateSample, _bdp: u64) -> bool {
        false
    }

    /// CRUISE begins.
    #[inline]
    fn begin_cruise(&mut self, _: &View<'_>) {}

    /// A round of CRUISE ends, and CRUISE goes on. A rate is the bandwidth from now on.
    #[inline]
    fn end_round_of_cruise(&mut self, _: &View<'_>, _: &RateSample) -> Option<Rate> {
        None
    }

    /// CRUISE ends in time. A rate is the bandwidth from now on.
    #[inline]
    fn end_cruise(&self, _: &View<'_>, _: &RateSample) -> Option<Rate> {
        None
    }

    /// REFILL begins, and with it a probe.
    #[inline]
    fn begin_refill(&mut self, _: &View<'_>) {}

    /// The RTT of each ACK, and what it means to ProbeRTT.
    #[inline]
    fn note_rtt(&mut self, _: &View<'_>, _: &RateSample) -> Need {
        Need::InTime
    }

    /// True if an application-limited Startup may show that it needs no ProbeRTT.
    #[inline]
    fn may_leave_out_first_probe_rtt(&self) -> bool {
        false
    }

    /// ProbeRTT begins.
    #[inline]
    fn begin_probe_rtt(&mut self) {}

    /// True if a probe that ProbeRTT cuts short ends its cycle of the max filter.
    #[inline]
    fn is_probe_cut(&self) -> bool {
        true
    }

    /// ProbeRTT ends.
    #[inline]
    fn end_probe_rtt(&mut self, _: &View<'_>, _now: Instant) -> Found {
        Found::Rtt
    }

    /// The most that ProbeRTTCwnd may be.
    #[inline]
    fn most_probe_rtt_cwnd(&self, _: &View<'_>) -> u64 {
        u64::MAX
    }

    /// BBR.ProbeRTTInterval.
    #[inline]
    fn probe_rtt_interval(&self, _: &Conn) -> Duration {
        PROBE_RTT_INTERVAL
    }

    /// The shortest wait between probes.
    #[inline]
    fn probe_wait_base(&self, _min_rtt: Duration) -> Duration {
        PROBE_WAIT_BASE
    }

    /// The share of `bytes` that is lost without congestion.
    #[inline]
    fn expected_loss(&self, _: &Conn, _bytes: u64) -> Gain {
        Gain::percent(0)
    }

    /// True if Startup's losses, which are above `loss_thresh`, may be the path's own.
    #[inline]
    fn is_loss_of_path_in_startup(&self, _: &View<'_>, _: &RateSample, _loss_thresh: Gain) -> bool {
        false
    }

    /// True if the losses of the round that a sample ends do not lower the short-term bounds.
    #[inline]
    fn is_small_loss(&self, _: &Conn, _: &RateSample) -> bool {
        false
    }

    /// True if marks are answered as those of a classic queue.
    #[inline]
    fn answers_classic_marks(&self) -> bool {
        false
    }

    /// The ACK of a sample brought marks.
    fn answer_marks(&mut self, _: &View<'_>, _: &RateSample) {}

    /// A bound on the volume in flight beside the model's, infinite for none, else `least` at
    /// least.
    #[inline]
    fn most_inflight(&self, _least: u64) -> u64 {
        INFINITE
    }

    /// The pacing rate over the estimated bandwidth: the margin is there to drain queues.
    #[inline]
    fn pacing_margin(&self, _: &View<'_>) -> Gain {
        PACING_MARGIN
    }
}

impl Amend for () {
    const NAMES: Names = Names { draft: "bbr3", linux: "bbr3-linux" };

    fn new(_: &FlavourOptions) {}
}
