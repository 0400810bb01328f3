//! Configuration of a controller: the few numbers that belong to the transport, and the options of
//! algorithms.

use crate::amendments::Amendments;
use crate::sampler::MAX_TX_IN_FLIGHT;
use crate::units::{Duration, Gain, Rate};

/// The transport that carries the flow, where the draft makes a difference ("BBR.offload_budget").
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize),
    serde(rename_all = "snake_case")
)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub enum Transport {
    /// One quantum of offload budget.
    #[default]
    Quic,
    /// Three quanta: one in the qdisc, one in segmentation, one unacknowledged at the receiver.
    Tcp,
}

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
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize),
    serde(rename_all = "snake_case")
)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub enum CubicRules {
    /// RFC 9438, with the slow start of HyStart++ (RFC 9406).
    #[default]
    Rfc9438,
    /// Linux's, with HyStart; `cubic_linux.rs` lists what differs.
    Linux,
}

/// The options of [`crate::Algorithm::BbrSwift`]: its delays' targets. Each, and the base target
/// with its hops, counts up to 4.29 s, which 32 bits of nanoseconds hold; more counts as that.
///
/// Swift's paper gives the meaning of each and few values. Those here are for a data centre with
/// round trips of some 25 us and are guesses; an operator sets them by the distances in the
/// network.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct SwiftOptions {
    /// The network RTT at which a flow with a large window is content, over one hop: the distance,
    /// and a queue that keeps the link busy.
    pub base_target: Duration,
    /// The part of the target for each hop, Swift's h.
    pub hop_delay: Duration,
    /// The switches between the ends. Swift takes them from each packet's TTL.
    pub hops: u8,
    /// The most that the flow scaling adds to the target, for windows of 0.1 packets and less.
    pub flow_scaling_range: Duration,
    /// The delay in the receiver's host at which a flow is content.
    pub endpoint_target: Duration,
    /// The longest delay at the receiver, in its host and on purpose together, that is believed: at
    /// least the peer's max_ack_delay (RFC 9000 section 18.2), or the longest wait of its TCP.
    pub max_receiver_delay: Duration,
    /// The draft's rules that stay in force.
    pub keeps: DraftRules,
}

/// Rules of the draft that `bbr-swift` replaces whatever the delays are; true keeps the draft's.
/// With all three, and a target that no delay reaches, what is left is `bbr3`: so a measurement
/// says what each of them does.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
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

impl SwiftOptions {
    /// For round trips of some 25 us: a base target of 25 us, five hops (three tiers of switches)
    /// of 3.8 us, which is the base over 6.55 as in csg-htsim, a range of five bases as there, 100
    /// us in the receiver's host, and the 0.5 s that a TCP may hold an ACK back at most (RFC 9293
    /// section 3.8.6.3); Linux does so for 40 to 200 ms, and QUIC for 25.
    pub const DATA_CENTER: Self = Self {
        base_target: Duration::from_micros(25),
        hop_delay: Duration::from_nanos(3_800),
        hops: 5,
        flow_scaling_range: Duration::from_micros(125),
        endpoint_target: Duration::from_micros(100),
        max_receiver_delay: Duration::from_millis(500),
        keeps: DraftRules::NONE,
    };
}

/// The receiver's ACK frequency, where it was asked to acknowledge less often than RFC 9000 section
/// 13.2 recommends (draft-ietf-quic-ack-frequency). `bbr3` keeps that much more in flight.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct AckFrequency {
    /// Ack-Eliciting Threshold: packets that may arrive without an ACK.
    pub threshold_packets: u32,
    /// Requested Max Ack Delay: an ACK comes after this at the latest. In whole microseconds, as
    /// the frame has it.
    pub max_delay: Duration,
}

/// Timer delay that costs no rate before any was measured, unless [`Config::pacing_granularity`]
/// says otherwise.
pub const CREDIT_TIME: Duration = Duration::from_millis(2);

/// The numbers that belong to the transport and not to the algorithm. Made by [`Config::new`];
/// there is no default, because flows must not share a seed:
///
/// ```compile_fail
/// let config = fullpipe_cc::Config::default();
/// ```
///
/// Minor versions may add fields. Write `..Config::new(seed)` at the end of a literal.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Config {
    /// C.SMSS in bytes: QUIC's maximum datagram size, TCP's effective MSS. At least 1.
    pub smss: u32,
    /// C.InitialCwnd in bytes. `None`: ten SMSS, but no more than 14720 bytes or two SMSS if that
    /// is larger (RFC 9002 section 7.2, RFC 6928). More than 16 GiB, the largest flight that is
    /// counted, is taken for 16 GiB.
    pub initial_cwnd: Option<u64>,
    /// Seed of the randomised probe times; two flows that should not probe together need two seeds.
    pub seed: u64,
    /// Decides the offload budget.
    pub transport: Transport,
    /// The receiver's ACK frequency; `None`: as in RFC 9000 section 13.2, or TCP.
    pub ack_frequency: Option<AckFrequency>,
    /// C.has_selective_acks: whether the transport sees more than one loss per round trip. Without,
    /// one loss ends a probe of `bbr3` and, in recovery, its Startup.
    pub has_selective_acks: bool,
    /// The round trip that the handshake measured (SYN and SYN-ACK, or Initial and Handshake), if
    /// there was one before the flow starts: the first pacing rate follows from it.
    pub handshake_rtt: Option<Duration>,
    /// Delay of the transport's timer that costs no rate before any delay was measured: the pacer
    /// lets that much of its rate pass at once, but no more than a quarter of the shortest round
    /// trip. It measures how late this host comes, and gives credit for up to 20 ms of that. At low
    /// rates the bound is [`crate::Controller::send_quantum`], which is at least two packets and so
    /// more than this time gives. [`crate::Controller::burst_bound`] is the bound in bytes. At most
    /// 4.29 s, which 32 bits of nanoseconds hold.
    pub pacing_granularity: Duration,
    /// The most that the pacing rate may be, in bytes per second (SO_MAX_PACING_RATE of Linux). A
    /// flow that would not be paced is paced at this. At least 1.
    pub max_pacing_rate: Option<Rate>,
    /// True if `bbr1` widens its window by the aggregation that it sees in the ACKs, as Linux does
    /// since 5.0; without it, it is the BBR of before, whose window is two BDP. Others ignore it.
    pub bbr1_ack_aggregation: bool,
    /// Startup's gains of `bbr3` and `bbr3-linux`. `None`: their own, 2.77 and 2.0.
    pub startup_gains: Option<StartupGains>,
    /// The amendments of `bbr3x` that are off; the draft's own rule is in force for them. Others
    /// ignore it.
    pub bbr3x_without: Amendments,
    /// True if `cubic` and `reno` are paced, from the first round-trip sample on: at 1.25 windows
    /// in a smoothed round trip (RFC 9002 section 7.7; Linux's `cubic` at 1.2), and at 2 in slow
    /// start, which doubles its window within one (as Linux does). Without pacing there is no
    /// pacing rate, [`crate::Controller::can_send`] looks at the window only, and one ACK adds at
    /// most 8 SMSS to it in slow start (L of RFC 9406); RFC 9002 wants one or the other. The BBRs
    /// are always paced: the rate is what they control.
    pub paced: bool,
    /// The rules of CUBIC that `cubic` follows. Others ignore it.
    pub cubic: CubicRules,
    /// True if CE marks on this path mean low-latency ECN: a queue that is marked when it is well
    /// under a millisecond, and a receiver that reports each mark. `bbr3-linux` then answers them
    /// with its own response where min_rtt is at most 5 ms, and ignores them otherwise, `prague`
    /// by the share that is marked, and, in a build with the feature `l4s`, `bbr3` and `bbr3x` as
    /// `bbr3-linux`, whatever min_rtt is, and where the queue shows itself to be a classic one as
    /// Reno. To the other algorithms a mark is congestion in any case.
    pub ecn: bool,
    /// The targets of `bbr-swift`. Others ignore it.
    pub swift: SwiftOptions,
    /// True if `prague` looks for a queue that marks by RFC 3168, and gives way there to the flows
    /// that such marks are for, as CUBIC does (arXiv:1911.00710). Others ignore it.
    #[cfg(feature = "prague")]
    pub prague_classic_fallback: bool,
    /// The parameters that an earlier connection over the same path left, to go on with a part of
    /// them (Careful Resume, RFC 9959). See [`crate::Controller::saved_parameters`].
    #[cfg(feature = "careful-resume")]
    pub resume: Option<crate::SavedParameters>,
    /// The time after the start of the flow within which it may jump to a part of
    /// [`Self::resume`]: an application that has little to send at first jumps later. No longer
    /// than the rest of the parameters' lifetime. One minute, unless it is said otherwise.
    #[cfg(feature = "careful-resume")]
    pub resume_within: Duration,
    /// The most in bytes that a flow jumps to, whatever was saved (RFC 9959's max_jump). 16 MiB,
    /// unless it is said otherwise.
    #[cfg(feature = "careful-resume")]
    pub max_jump: u64,
}

impl Config {
    /// The configuration of a QUIC flow with datagrams of 1200 bytes. `seed` is the flow's own: two
    /// flows with one seed probe for bandwidth at the same moments.
    pub const fn new(seed: u64) -> Self {
        Self {
            smss: 1200,
            initial_cwnd: None,
            seed,
            transport: Transport::Quic,
            ack_frequency: None,
            has_selective_acks: true,
            handshake_rtt: None,
            pacing_granularity: CREDIT_TIME,
            max_pacing_rate: None,
            bbr1_ack_aggregation: true,
            startup_gains: None,
            bbr3x_without: Amendments::NONE,
            paced: true,
            cubic: CubicRules::Rfc9438,
            ecn: false,
            swift: SwiftOptions::DATA_CENTER,
            #[cfg(feature = "prague")]
            prague_classic_fallback: true,
            #[cfg(feature = "careful-resume")]
            resume: None,
            #[cfg(feature = "careful-resume")]
            resume_within: crate::resume::RESUME_WITHIN,
            #[cfg(feature = "careful-resume")]
            max_jump: crate::resume::MAX_JUMP,
        }
    }

    /// C.InitialCwnd in bytes for a given SMSS.
    pub(crate) fn initial_cwnd(&self, smss: u64) -> u64 {
        let standard = (10 * smss).min(14_720.max(2 * smss));
        self.initial_cwnd.unwrap_or(standard).min(MAX_TX_IN_FLIGHT).max(smss)
    }
}
