//! The algorithms, by their names.

use core::fmt;
use core::str::FromStr;

use crate::options::{
    Bbr1Options, Bbr3LinuxOptions, Bbr3Options, Bbr3xLinuxOptions, Bbr3xOptions, BbrSwiftOptions,
    CubicOptions, PragueOptions, RenoOptions,
};
use crate::registry::algorithms;
use crate::units::Rate;

/// A congestion control algorithm and its options. Names carry their version: `bbr3`, never `bbr`.
///
/// Every algorithm that reacts to the network carries options of its own, also where there is none
/// yet: so a minor version can add one. The constants have the usual ones, and so has what is read
/// from a name.
///
/// ```
/// use fullpipe_cc::{Algorithm, CubicOptions, CubicRules};
///
/// assert_eq!("cubic".parse(), Ok(Algorithm::CUBIC));
/// let linux = Algorithm::Cubic(CubicOptions::new().with_rules(CubicRules::Linux));
/// assert_eq!(linux.name(), "cubic");
/// ```
///
/// With `serde` it is its name, without the options, which are to be kept beside it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Algorithm {
    /// BBR version 3, draft-ietf-ccwg-bbr.
    #[cfg(feature = "bbr3")]
    Bbr3(Bbr3Options),
    /// BBR version 3 as Linux has it (google/bbr, branch v3): other constants, no Drain timeout, a
    /// response to low-latency ECN ([`crate::Config::ecn`]), and more that is in `bbr3/linux.rs`.
    #[cfg(feature = "bbr3-linux")]
    Bbr3Linux(Bbr3LinuxOptions),
    /// BBR version 3 with amendments to the draft, each of which [`Bbr3xOptions::without`] switches
    /// off.
    #[cfg(feature = "bbr3x")]
    Bbr3x(Bbr3xOptions),
    /// BBR version 3 as Linux has it, with the same amendments: what the kernel program of `bbr3x`
    /// computes.
    #[cfg(feature = "bbr3x-linux")]
    Bbr3xLinux(Bbr3xLinuxOptions),
    /// BBR version 3 of the draft with Swift's law (SIGCOMM 2020): delays against targets, the
    /// receiver's apart from the network's ([`crate::AckBatch::receiver_delay`]), and windows below
    /// one packet. For data centres; the options have their distances.
    #[cfg(feature = "bbr-swift")]
    BbrSwift(BbrSwiftOptions),
    /// Prague, for L4S (RFC 9330, draft-briscoe-iccrg-prague-congestion-control): where
    /// [`crate::Config::ecn`] says that marks are low-latency ones, it reduces its window by the
    /// share that is marked; otherwise a mark is a loss.
    #[cfg(feature = "prague")]
    Prague(PragueOptions),
    /// BBR version 1 as Linux has it, with its policer model and its estimate of ACK aggregation.
    #[cfg(feature = "bbr1")]
    Bbr1(Bbr1Options),
    /// CUBIC, RFC 9438 or as Linux has it ([`CubicOptions::rules`]).
    #[cfg(feature = "cubic")]
    Cubic(CubicOptions),
    /// NewReno as QUIC has it, RFC 9002 section 7.
    #[cfg(feature = "reno")]
    Reno(RenoOptions),
    /// No control at all: this pacing rate, and a window that never limits. It measures pacers and
    /// paths; it is no choice for a network that anybody else uses.
    Fixed(Rate),
    /// One of another crate.
    #[cfg(feature = "custom")]
    Custom(&'static crate::CustomAlgorithm),
}

macro_rules! names {
    ([] { $($name:tt $variant:ident $constant:ident $options:ident $type:tt)* } $others:tt) => {
        &[$(#[cfg(feature = $name)] $name,)*]
    };
}

macro_rules! name_of {
    ([$algorithm:ident] { $($name:tt $variant:ident $constant:ident $options:ident $type:tt)* } $others:tt) => {
        match $algorithm {
            $(#[cfg(feature = $name)] Self::$variant(_) => $name,)*
            Self::Fixed(_) => "fixed",
            #[cfg(feature = "custom")]
            Self::Custom(algorithm) => algorithm.name,
        }
    };
}

macro_rules! algorithm_of {
    ([$text:ident] { $($name:tt $variant:ident $constant:ident $options:ident $type:tt)* } $others:tt) => {
        match $text {
            $(#[cfg(feature = $name)] $name => Ok(Self::$constant),)*
            _ => Err(UnknownAlgorithm),
        }
    };
}

macro_rules! constants {
    ([] { $($name:tt $variant:ident $constant:ident $options:ident $type:tt)* } $others:tt) => {
        /// Each algorithm with the usual options.
        impl Algorithm {
            $(
                #[doc = concat!("`", $name, "` with the usual options.")]
                #[cfg(feature = $name)]
                pub const $constant: Self = Self::$variant($options::new());
            )*
        }
    };
}
algorithms!(constants);

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
