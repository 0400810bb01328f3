//! The options of the algorithms: one type for each, which the variant of [`crate::Algorithm`]
//! carries.
//!
//! All of them are here whatever features are on, so that code which sets them builds with any.

use crate::amendments::Amendments;
use crate::config::Transport;
use crate::units::{Duration, Gain};

/// Gains of Startup for the pacing rate and the window, to measure what others would do. BBRv2 had
/// 2.89 for both: 2 / ln 2, which more than doubles the rate each round.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct StartupGains {
    /// BBR.StartupPacingGain. Below 2 the rate does not double each round.
    pub pacing: Gain,
    /// The window's, kept through Drain; the draft has BBR.DefaultCwndGain for it.
    pub cwnd: Gain,
}

/// The rules of CUBIC that [`crate::Algorithm::Cubic`] follows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize),
    serde(rename_all = "snake_case")
)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub enum CubicRules {
    /// RFC 9438, with the slow start of HyStart++ (RFC 9406).
    Rfc9438,
    /// Linux's, with HyStart; `cubic_linux.rs` lists what differs.
    Linux,
}

/// Rules of the draft that `bbr-swift` replaces whatever the delays are; true keeps the draft's.
/// With all three, and a target that no delay reaches, what is left is `bbr3`: so a measurement
/// says what each of them does. Minor versions may add fields. Write `..DraftRules::NONE` at the
/// end of a literal.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(default))]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct DraftRules {
    /// BBR.MinPipeCwnd is four packets, and not as few as make the receiver acknowledge.
    pub min_pipe_cwnd: bool,
    /// BBR.PacingMarginPercent: the pacing rate is 1 % below the estimated bandwidth.
    pub pacing_margin: bool,
    /// A probe comes after as many rounds as the estimated BDP has packets, 63 at most ("Time Scale
    /// for Bandwidth Probing"), and not after 32 to 63 whatever the BDP is.
    pub probe_rounds: bool,
}

impl DraftRules {
    /// None of them: `bbr-swift` has its own.
    pub const NONE: Self = Self { min_pipe_cwnd: false, pacing_margin: false, probe_rounds: false };
}

/// Makes the options of algorithms, with the values that `new` and `Default` give their fields.
macro_rules! options {
    ($(
        $(#[$comment:meta])*
        $name:ident { $($field:ident: $type:ty = $usual:expr),* $(,)? }
    )*) => {$(
        $(#[$comment])*
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        #[cfg_attr(
            feature = "serde",
            derive(serde::Serialize, serde::Deserialize),
            serde(default)
        )]
        #[cfg_attr(feature = "defmt", derive(defmt::Format))]
        pub struct $name {
            $($field: $type,)*
        }

        impl $name {
            /// The usual ones.
            pub const fn new() -> Self {
                Self { $($field: $usual,)* }
            }
        }

        impl Default for $name {
            fn default() -> Self {
                Self::new()
            }
        }
    )*};
}

options! {
    /// The options of [`crate::Algorithm::Bbr3`].
    Bbr3Options { startup_gains: Option<StartupGains> = None }

    /// The options of [`crate::Algorithm::Bbr3Linux`].
    Bbr3LinuxOptions { startup_gains: Option<StartupGains> = None }

    /// The options of [`crate::Algorithm::Bbr3x`].
    ///
    /// ```
    /// use fullpipe_cc::{Algorithm, Amendment, Amendments, Bbr3xOptions};
    ///
    /// const OFF: Amendments = Amendments::NONE.with(Amendment::ShortProbe);
    /// let algorithm = Algorithm::Bbr3x(Bbr3xOptions::new().without(OFF));
    /// assert_ne!(algorithm, Algorithm::BBR3X);
    /// ```
    Bbr3xOptions {
        startup_gains: Option<StartupGains> = None,
        without: Amendments = Amendments::NONE,
    }

    /// The options of [`crate::Algorithm::Bbr3xLinux`].
    Bbr3xLinuxOptions {
        startup_gains: Option<StartupGains> = None,
        without: Amendments = Amendments::NONE,
    }

    /// The options of [`crate::Algorithm::BbrSwift`]: its delays' targets. Each, and the base
    /// target with its hops, counts up to 4.29 s, which 32 bits of nanoseconds hold; more counts as
    /// that.
    ///
    /// Swift's paper gives the meaning of each and few values. The usual ones here are for a data
    /// centre with round trips of some 25 us and are guesses: a base target of 25 us, five hops
    /// (three tiers of switches) of 3.8 us, which is the base over 6.55 as in csg-htsim, a range of
    /// five bases as there, 100 us in the receiver's host, and the 0.5 s that a TCP may hold an ACK
    /// back at most (RFC 9293 section 3.8.6.3); Linux does so for 40 to 200 ms, and QUIC for 25. An
    /// operator sets them by the distances in the network.
    BbrSwiftOptions {
        startup_gains: Option<StartupGains> = None,
        base_target: u32 = 25_000,
        hop_delay: u32 = 3_800,
        flow_scaling_range: u32 = 125_000,
        endpoint_target: u32 = 100_000,
        max_receiver_delay: u32 = 500_000_000,
        hops: u8 = 5,
        keeps: DraftRules = DraftRules::NONE,
    }

    /// The options of [`crate::Algorithm::Prague`].
    PragueOptions { classic_fallback: bool = true }

    /// The options of [`crate::Algorithm::Bbr1`].
    Bbr1Options { ack_aggregation: bool = true }

    /// The options of [`crate::Algorithm::Cubic`].
    CubicOptions { rules: Option<CubicRules> = None }

    /// The options of [`crate::Algorithm::Reno`]: none yet.
    RenoOptions {}
}

/// Gains of Startup, which every flavour of BBRv3 has.
macro_rules! startup_gains {
    ($($name:ident)*) => {$(
        impl $name {
            /// The same with these gains of Startup.
            #[must_use]
            pub const fn with_startup_gains(mut self, gains: StartupGains) -> Self {
                self.startup_gains = Some(gains);
                self
            }

            /// Startup's gains. `None`: the algorithm's own, 2.77 and 2.0.
            pub const fn startup_gains(self) -> Option<StartupGains> {
                self.startup_gains
            }
        }
    )*};
}

startup_gains! { Bbr3Options Bbr3LinuxOptions Bbr3xOptions Bbr3xLinuxOptions BbrSwiftOptions }

macro_rules! amended {
    ($($name:ident)*) => {$(
        impl $name {
            /// The same with these amendments off, and no others: the rule that each of them changes
            /// is in force.
            #[must_use]
            pub const fn without(mut self, amendments: Amendments) -> Self {
                self.without = amendments;
                self
            }

            /// The amendments that are off. Usually none is.
            pub const fn amendments_off(self) -> Amendments {
                self.without
            }
        }
    )*};
}

amended! { Bbr3xOptions Bbr3xLinuxOptions }

/// Times in whole nanoseconds of 32 bits.
macro_rules! targets {
    ($($(#[$comment:meta])* $field:ident $setter:ident)*) => {
        impl BbrSwiftOptions {
            $(
                $(#[$comment])*
                pub const fn $field(self) -> Duration {
                    Duration::from_nanos(self.$field as u64)
                }

                #[doc = concat!("The same with this [`Self::", stringify!($field), "`].")]
                #[must_use]
                pub const fn $setter(mut self, time: Duration) -> Self {
                    let nanos = time.as_nanos();
                    self.$field = if nanos < u32::MAX as u64 { nanos as u32 } else { u32::MAX };
                    self
                }
            )*
        }
    };
}

targets! {
    /// The network RTT at which a flow with a large window is content, over one hop: the distance,
    /// and a queue that keeps the link busy.
    base_target with_base_target
    /// The part of the target for each hop, Swift's h.
    hop_delay with_hop_delay
    /// The most that the flow scaling adds to the target, for windows of 0.1 packets and less.
    flow_scaling_range with_flow_scaling_range
    /// The delay in the receiver's host at which a flow is content.
    endpoint_target with_endpoint_target
    /// The longest delay at the receiver, in its host and on purpose together, that is believed: at
    /// least the peer's max_ack_delay (RFC 9000 section 18.2), or the longest wait of its TCP.
    max_receiver_delay with_max_receiver_delay
}

impl BbrSwiftOptions {
    /// The switches between the ends. Swift takes them from each packet's TTL.
    pub const fn hops(self) -> u8 {
        self.hops
    }

    /// The same with these [`Self::hops`].
    #[must_use]
    pub const fn with_hops(mut self, hops: u8) -> Self {
        self.hops = hops;
        self
    }

    /// The draft's rules that stay in force. Usually none does.
    pub const fn keeps(self) -> DraftRules {
        self.keeps
    }

    /// The same with the draft's own rules for these, and for no others.
    #[must_use]
    pub const fn keeping(mut self, rules: DraftRules) -> Self {
        self.keeps = rules;
        self
    }
}

impl PragueOptions {
    /// True, as usual, if the flow looks for a queue that marks by RFC 3168, and gives way there to
    /// the flows that such marks are for, as CUBIC does (arXiv:1911.00710).
    pub const fn classic_fallback(self) -> bool {
        self.classic_fallback
    }

    /// The same with or without [`Self::classic_fallback`].
    #[must_use]
    pub const fn with_classic_fallback(mut self, is_on: bool) -> Self {
        self.classic_fallback = is_on;
        self
    }
}

impl Bbr1Options {
    /// True, as usual, if the window is widened by the aggregation that shows in the ACKs, as Linux
    /// does since 5.0; without it, it is the BBR of before, whose window is two BDP.
    pub const fn ack_aggregation(self) -> bool {
        self.ack_aggregation
    }

    /// The same with or without [`Self::ack_aggregation`].
    #[must_use]
    pub const fn with_ack_aggregation(mut self, is_on: bool) -> Self {
        self.ack_aggregation = is_on;
        self
    }
}

impl CubicOptions {
    /// The rules over `transport`: those that were set, or else the ones that its flows usually
    /// have, Linux's over TCP and the RFC's over QUIC.
    pub const fn rules(self, transport: Transport) -> CubicRules {
        match (self.rules, transport) {
            (Some(rules), _) => rules,
            (None, Transport::Quic) => CubicRules::Rfc9438,
            (None, Transport::Tcp) => CubicRules::Linux,
        }
    }

    /// The same with these rules over any transport.
    #[must_use]
    pub const fn with_rules(mut self, rules: CubicRules) -> Self {
        self.rules = Some(rules);
        self
    }
}

/// The options of all flavours of BBRv3, which are one implementation: a flavour leaves those of
/// others at their usual values.
#[derive(Clone, Copy, Default)]
pub(crate) struct FlavourOptions {
    pub(crate) startup_gains: Option<StartupGains>,
    pub(crate) without: Amendments,
    pub(crate) swift: BbrSwiftOptions,
}

impl From<Bbr3Options> for FlavourOptions {
    fn from(options: Bbr3Options) -> Self {
        Self { startup_gains: options.startup_gains, ..Self::default() }
    }
}

impl From<Bbr3LinuxOptions> for FlavourOptions {
    fn from(options: Bbr3LinuxOptions) -> Self {
        Self { startup_gains: options.startup_gains, ..Self::default() }
    }
}

impl From<Bbr3xOptions> for FlavourOptions {
    fn from(options: Bbr3xOptions) -> Self {
        let Bbr3xOptions { startup_gains, without } = options;
        Self { startup_gains, without, ..Self::default() }
    }
}

impl From<Bbr3xLinuxOptions> for FlavourOptions {
    fn from(options: Bbr3xLinuxOptions) -> Self {
        let Bbr3xLinuxOptions { startup_gains, without } = options;
        Self { startup_gains, without, ..Self::default() }
    }
}

impl From<BbrSwiftOptions> for FlavourOptions {
    fn from(options: BbrSwiftOptions) -> Self {
        Self { startup_gains: options.startup_gains, swift: options, ..Self::default() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_longer_target_counts_as_the_longest() {
        let longest = Duration::from_nanos(u32::MAX.into());
        for time in [longest, longest + Duration::from_nanos(1), Duration::MAX] {
            let options = BbrSwiftOptions::new().with_hop_delay(time).with_base_target(time);
            assert_eq!((options.hop_delay(), options.base_target()), (longest, longest));
        }
    }

    #[test]
    fn cubic_follows_its_transport_until_it_is_told_otherwise() {
        let (rfc, linux) = (CubicRules::Rfc9438, CubicRules::Linux);
        let rules =
            |options: CubicOptions| [Transport::Quic, Transport::Tcp].map(|t| options.rules(t));
        assert_eq!(rules(CubicOptions::new()), [rfc, linux]);
        assert_eq!(rules(CubicOptions::new().with_rules(rfc)), [rfc, rfc]);
        assert_eq!(rules(CubicOptions::new().with_rules(linux)), [linux, linux]);
    }
}
