//! The amendments of `bbr3x`, by their names.

use core::fmt;
use core::str::FromStr;

/// A rule in which [`crate::Algorithm::Bbr3x`] differs from the draft (docs/bbr3x.md). A queue is
/// this flow's own if it goes up and down with its rate: UP, DOWN, and the window, bandwidth and
/// losses of CRUISE are judged by the base of the RTT, the least mean of a round of CRUISE or ProbeRTT
/// in this cycle of probes and the last.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Amendment {
    /// UP ends when its own queue is seen, and DOWN removes that within a round trip.
    ShortProbe,
    /// ProbeRTT comes when there is something to find: not while the RTT is short, and at once where
    /// a flow starves, which asks if the path has become longer or the link slower. It empties the
    /// queue of paths of a few packets.
    ProbeRttOnDemand,
    /// ProbeRTTInterval and the wait between probes are numbers of round trips if the RTT is long.
    TimersInRoundTrips,
    /// CRUISE has a window of little more than what the path holds, takes what it delivers behind a
    /// queue for the bandwidth, and needs no pacing margin without one.
    SmallCruiseQueue,
    /// Losses without a queue of this flow are the path's own, and so are few of any round.
    PathLoss,
    /// Marks of a classic queue that is shared are answered as CUBIC answers them.
    ClassicMarks,
}

impl Amendment {
    /// All of them.
    pub const ALL: [Self; 6] = [
        Self::ShortProbe,
        Self::ProbeRttOnDemand,
        Self::TimersInRoundTrips,
        Self::SmallCruiseQueue,
        Self::PathLoss,
        Self::ClassicMarks,
    ];

    /// The name, as in a scenario file.
    pub const fn name(self) -> &'static str {
        match self {
            Self::ShortProbe => "short_probe",
            Self::ProbeRttOnDemand => "probe_rtt_on_demand",
            Self::TimersInRoundTrips => "timers_in_round_trips",
            Self::SmallCruiseQueue => "small_cruise_queue",
            Self::PathLoss => "path_loss",
            Self::ClassicMarks => "classic_marks",
        }
    }
}

/// A set of [`Amendment`]s.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Amendments(u8);

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
