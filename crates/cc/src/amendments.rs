//! The amendments of `bbr3x`, by their names.

use core::fmt;
use core::str::FromStr;

/// A rule in which [`crate::Algorithm::Bbr3x`] differs from the draft. Those that take a long RTT
/// for a queue act on a quiet path alone: where the mean RTT of a round without a queue of the flow
/// is short (docs/bbr3x.md).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Amendment {
    /// UP ends when 1.25 BDP are in flight and one round delivered no more, if nobody else queues.
    UpEndsAtTarget,
    /// An RTT sample near the shortest one makes ProbeRTT unnecessary for another interval.
    ProbeRttWhenNeeded,
    /// DOWN sends at 0.82 of the estimated bandwidth.
    DeeperDown,
    /// The window in CRUISE is 1.02 BDP and eight packets, at most 1.25 BDP.
    SmallerCruiseWindow,
    /// In a CRUISE with a queue the bandwidth is what CRUISE delivers, if that is at least 80 %.
    BandwidthOfCruise,
    /// A round with little loss does not lower the short-term bounds.
    IgnoreSmallLoss,
    /// A probe's threshold counts from the loss rate that the path has without a queue.
    BaselineLoss,
    /// ProbeRTTInterval and the wait between probes are numbers of round trips if the RTT is long.
    TimersInRoundTrips,
    /// ProbeRTT has the least window, BBR.MinPipeCwnd, where the path holds less than that.
    ProbeRttEmptiesQueue,
    /// CRUISE is paced at the estimated bandwidth, without the margin, where it has no queue.
    MarginWithQueue,
    /// UP ends after two rounds if its packets wait for half of the shortest RTT.
    UpEndsInQueue,
    /// A flow that gets far less than its bandwidth at a long RTT asks by ProbeRTT if the path has
    /// become longer or the link slower.
    ProbeRttWhenStarved,
}

impl Amendment {
    /// All of them.
    pub const ALL: [Self; 12] = [
        Self::UpEndsAtTarget,
        Self::ProbeRttWhenNeeded,
        Self::DeeperDown,
        Self::SmallerCruiseWindow,
        Self::BandwidthOfCruise,
        Self::IgnoreSmallLoss,
        Self::BaselineLoss,
        Self::TimersInRoundTrips,
        Self::ProbeRttEmptiesQueue,
        Self::MarginWithQueue,
        Self::UpEndsInQueue,
        Self::ProbeRttWhenStarved,
    ];

    /// The name, as in a scenario file.
    pub const fn name(self) -> &'static str {
        match self {
            Self::UpEndsAtTarget => "up_ends_at_target",
            Self::ProbeRttWhenNeeded => "probe_rtt_when_needed",
            Self::DeeperDown => "deeper_down",
            Self::SmallerCruiseWindow => "smaller_cruise_window",
            Self::BandwidthOfCruise => "bandwidth_of_cruise",
            Self::IgnoreSmallLoss => "ignore_small_loss",
            Self::BaselineLoss => "baseline_loss",
            Self::TimersInRoundTrips => "timers_in_round_trips",
            Self::ProbeRttEmptiesQueue => "probe_rtt_empties_queue",
            Self::MarginWithQueue => "margin_with_queue",
            Self::UpEndsInQueue => "up_ends_in_queue",
            Self::ProbeRttWhenStarved => "probe_rtt_when_starved",
        }
    }
}

/// A set of [`Amendment`]s.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Amendments(u16);

impl Amendments {
    /// No amendment.
    pub const NONE: Self = Self(0);

    /// This set with `amendment`.
    pub const fn with(self, amendment: Amendment) -> Self {
        Self(self.0 | 1 << amendment as u8)
    }

    /// True if `amendment` is in this set.
    #[inline]
    pub const fn contains(self, amendment: Amendment) -> bool {
        self.0 >> amendment as u8 & 1 == 1
    }

    /// The amendments that are not in this set.
    pub(crate) const fn complement(self) -> Self {
        Self(!self.0)
    }
}

/// A name is none of [`Amendment::ALL`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct UnknownAmendment;

impl fmt::Display for UnknownAmendment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("unknown amendment of bbr3x; write none, or of these one or several with + between them:")?;
        Amendment::ALL.iter().try_for_each(|amendment| write!(f, " {}", amendment.name()))
    }
}

impl core::error::Error for UnknownAmendment {}

/// `none`, or names with `+` between them.
impl fmt::Display for Amendments {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut names = Amendment::ALL.into_iter().filter(|amendment| self.contains(*amendment));
        f.write_str(names.next().map_or("none", Amendment::name))?;
        names.try_for_each(|amendment| write!(f, "+{}", amendment.name()))
    }
}

/// `none`, or names with `+` between them.
impl FromStr for Amendments {
    type Err = UnknownAmendment;

    fn from_str(names: &str) -> Result<Self, UnknownAmendment> {
        if names == "none" {
            return Ok(Self::NONE);
        }
        names.split('+').try_fold(Self::NONE, |set, name| {
            let amendment = Amendment::ALL.into_iter().find(|amendment| amendment.name() == name);
            Ok(set.with(amendment.ok_or(UnknownAmendment)?))
        })
    }
}
