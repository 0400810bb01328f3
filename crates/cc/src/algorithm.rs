//! The algorithms, by their names.

use core::fmt;
use core::str::FromStr;

use crate::registry::algorithms;
use crate::units::Rate;

/// A congestion control algorithm. Names carry their version: `bbr3`, never `bbr`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Algorithm {
    /// BBR version 3, draft-ietf-ccwg-bbr.
    #[cfg(feature = "bbr3")]
    Bbr3,
    /// BBR version 3 as Linux has it (google/bbr, branch v3): other constants, no Drain timeout, a
    /// response to low-latency ECN ([`crate::Config::ecn`]), and more that is in `bbr3/linux.rs`.
    #[cfg(feature = "bbr3-linux")]
    Bbr3Linux,
    /// BBR version 3 with amendments to the draft, each of which
    /// [`crate::Config::bbr3x_without`] switches off.
    #[cfg(feature = "bbr3x")]
    Bbr3x,
    /// BBR version 3 as Linux has it, with the same amendments: what the kernel program of `bbr3x`
    /// computes.
    #[cfg(feature = "bbr3x-linux")]
    Bbr3xLinux,
    /// BBR version 3 of the draft with Swift's law (SIGCOMM 2020): delays against targets, the
    /// receiver's apart from the network's ([`crate::AckBatch::receiver_delay`]), and windows below
    /// one packet. For data centres; [`crate::Config::swift`] has their distances.
    #[cfg(feature = "bbr-swift")]
    BbrSwift,
    /// Prague, for L4S (RFC 9330, draft-briscoe-iccrg-prague-congestion-control): where
    /// [`crate::Config::ecn`] says that marks are low-latency ones, it reduces its window by the
    /// share that is marked; otherwise a mark is a loss.
    #[cfg(feature = "prague")]
    Prague,
    /// BBR version 1 as Linux has it, with its policer model and its estimate of ACK aggregation.
    #[cfg(feature = "bbr1")]
    Bbr1,
    /// CUBIC, RFC 9438.
    #[cfg(feature = "cubic")]
    Cubic,
    /// NewReno as QUIC has it, RFC 9002 section 7.
    #[cfg(feature = "reno")]
    Reno,
    /// No control at all: this pacing rate, and a window that never limits. It measures pacers and
    /// paths; it is no choice for a network that anybody else uses.
    Fixed(Rate),
    /// One of another crate.
    #[cfg(feature = "custom")]
    Custom(&'static crate::CustomAlgorithm),
}

macro_rules! names {
    ([] { $($name:tt $variant:ident $type:tt)* } $others:tt) => {
        &[$(#[cfg(feature = $name)] $name,)*]
    };
}

macro_rules! name_of {
    ([$algorithm:ident] { $($name:tt $variant:ident $type:tt)* } $others:tt) => {
        match $algorithm {
            $(#[cfg(feature = $name)] Self::$variant => $name,)*
            Self::Fixed(_) => "fixed",
            #[cfg(feature = "custom")]
            Self::Custom(algorithm) => algorithm.name,
        }
    };
}

macro_rules! algorithm_of {
    ([$text:ident] { $($name:tt $variant:ident $type:tt)* } $others:tt) => {
        match $text {
            $(#[cfg(feature = $name)] $name => Ok(Self::$variant),)*
            _ => Err(UnknownAlgorithm),
        }
    };
}

impl Algorithm {
    /// The algorithms that react to the network, by the names that [`FromStr`] takes: those of the
    /// features that are on.
    pub const NAMES: &'static [&'static str] = algorithms!(names);

    /// The name, as in [`Self::NAMES`].
    pub const fn name(self) -> &'static str {
        algorithms!(name_of, self)
    }
}

impl fmt::Display for Algorithm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The name is none of [`Algorithm::NAMES`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct UnknownAlgorithm;

impl fmt::Display for UnknownAlgorithm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some((last, others)) = Algorithm::NAMES.split_last() else {
            return f.write_str("unknown algorithm; none is built in");
        };
        f.write_str("unknown algorithm; there are ")?;
        for (number, name) in others.iter().enumerate() {
            write!(f, "{}{name}", if number == 0 { "" } else { ", " })?;
        }
        write!(f, "{}{last}", if others.is_empty() { "" } else { " and " })
    }
}

impl core::error::Error for UnknownAlgorithm {}

impl FromStr for Algorithm {
    type Err = UnknownAlgorithm;

    fn from_str(name: &str) -> Result<Self, UnknownAlgorithm> {
        algorithms!(algorithm_of, name)
    }
}
