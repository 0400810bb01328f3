//! The places where `bbr3` follows another rule than the draft's pseudo-code, on purpose:
//! docs/draft.md, "All differences from the pseudo-code", has their sections and reasons.

/// A correction of the pseudo-code.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Ours {
    /// A lost byte is taken off C.app_limited: it will not be delivered.
    LostDataEndsAppLimit,
    /// A restart from idle marks the connection anew, with nothing in flight.
    RestartMarksEmptyPath,
    /// A sample without a rate is no round of the plateau and no volume of inflight_latest.
    RatelessSampleSaysNothing,
    /// The first sample of a round that is not application-limited judges its growth.
    FirstUnlimitedSample,
    /// The losses of Startup are judged at the end of a loss round, with and without selective
    /// ACKs.
    StartupLossByLossRound,
    /// They are judged in a ProbeRTT that interrupts it, too.
    ProbeRttOfStartupEndsByLoss,
    /// An end of Startup by loss sets full_bw_now, too.
    LossFillsPipe,
    /// The precautionary test takes the inflight before the ACK, and asks for a full packet's room.
    PrecautionByPriorInflight,
    /// AdvanceMaxBwFilter() takes the maximum of what is left.
    MaxIsTakenAtOnce,
    /// A cycle without samples does not end.
    EmptyCycleGoesOn,
    /// ProbeRTT ends the cycle of a probe that it cuts.
    CutProbeEndsCycle,
    /// A limited sample near min_rtt puts ProbeRTT off.
    LimitedFlowNeedsNoProbeRtt,
    /// min_rtt does not rise on the ACK that calls for ProbeRTT, nor within it.
    MinRttWaitsForProbeRtt,
    /// min_rtt does not rise on an ACK without a round trip.
    MinRttWaitsForSample,
    /// SaveCwnd() comes before the state is ProbeRTT.
    WindowIsSavedBeforeProbeRtt,
    /// A restart from idle sets extra_acked_delivered to 0.
    RestartResetsExtraAcked,
    /// An interval of extra_acked also ends near the estimate.
    ExtraAckedEnds,
    /// The window of extra_acked changes with a round.
    ExtraAckedWindowByRound,
    /// NoteLoss() is called once for the losses of an ACK or timer, before HandleInflightTooHigh().
    LossesOfAnAckAreOneEvent,
    /// lost_prefix is at least 0.
    PrefixIsNotNegative,
    /// Up to bw_shortterm, bw_latest counts without the pacing margin.
    MarginIsNoLoss,
    /// SaveStateUponLoss() is called once for an episode of recovery.
    SaveOncePerEpisode,
    /// An undo resets the full-pipe estimate if the episode ended Startup or UP.
    UndoResetsOwnEpisode,
    /// A timeout resets the full-pipe estimate.
    TimeoutResetsFullBw,
    /// One SMSS a second is the least pacing rate.
    LeastPacingRate,
    /// inflight_longterm bounds the window of Drain.
    DrainIsBoundByLongterm,
}

impl Ours {
    pub(crate) const ALL: [Self; 26] = [
        Self::LostDataEndsAppLimit,
        Self::RestartMarksEmptyPath,
        Self::RatelessSampleSaysNothing,
        Self::FirstUnlimitedSample,
        Self::StartupLossByLossRound,
        Self::ProbeRttOfStartupEndsByLoss,
        Self::LossFillsPipe,
        Self::PrecautionByPriorInflight,
        Self::MaxIsTakenAtOnce,
        Self::EmptyCycleGoesOn,
        Self::CutProbeEndsCycle,
        Self::LimitedFlowNeedsNoProbeRtt,
        Self::MinRttWaitsForProbeRtt,
        Self::MinRttWaitsForSample,
        Self::WindowIsSavedBeforeProbeRtt,
        Self::RestartResetsExtraAcked,
        Self::ExtraAckedEnds,
        Self::ExtraAckedWindowByRound,
        Self::LossesOfAnAckAreOneEvent,
        Self::PrefixIsNotNegative,
        Self::MarginIsNoLoss,
        Self::SaveOncePerEpisode,
        Self::UndoResetsOwnEpisode,
        Self::TimeoutResetsFullBw,
        Self::LeastPacingRate,
        Self::DrainIsBoundByLongterm,
    ];
}
