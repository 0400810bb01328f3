//! Configuration of a controller: the few numbers that belong to the transport. What belongs to one
//! algorithm is in [`crate::options`].

use crate::sampler::MAX_TX_IN_FLIGHT;
use crate::units::{Duration, Rate};

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

/// The way in which a flow finds the volume of its path at the start.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize),
    serde(rename_all = "snake_case")
)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub enum Start {
    /// The algorithm's own: Startup of the BBRs, slow start with HyStart++ or HyStart.
    #[default]
    Standard,
    /// Rapid Start (draft-kazuho-ccwg-rapid-start-02): the window triples in a round trip until a
    /// queue shows. For the BBRv3s, and for `cubic` and `reno` by their RFCs.
    RapidStart,
    /// SEARCH (draft-chung-ccwg-search-09) ends slow start, in the place of HyStart++: when what
    /// arrives falls behind what was sent. For `cubic` and `reno` by their RFCs. The BBRs ask what
    /// arrives in any case, "Exiting Acceleration Based on Bandwidth Plateau".
    Search,
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
    /// The start of the flow. An algorithm without it has its own.
    pub start: Start,
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
    /// True if `cubic` and `reno` are paced, from the first round-trip sample on: at 1.25 windows
    /// in a smoothed round trip (RFC 9002 section 7.7; Linux's `cubic` at 1.2), and at 2 in slow
    /// start, which doubles its window within one (as Linux does). Without pacing there is no
    /// pacing rate, [`crate::Controller::can_send`] looks at the window only, and one ACK adds at
    /// most 8 SMSS to it in slow start (L of RFC 9406); RFC 9002 wants one or the other. The BBRs
    /// are always paced: the rate is what they control.
    pub paced: bool,
    /// True if CE marks on this path mean low-latency ECN: a queue that is marked when it is well
    /// under a millisecond, and a receiver that reports each mark. `bbr3-linux` then answers them
    /// with its own response where min_rtt is at most 5 ms, and ignores them otherwise, `prague`
    /// by the share that is marked, and, in a build with the feature `l4s`, `bbr3` and `bbr3x` as
    /// `bbr3-linux`, whatever min_rtt is, and where the queue shows itself to be a classic one as
    /// Reno. To the other algorithms a mark is congestion in any case.
    pub ecn: bool,
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
            start: Start::Standard,
            seed,
            transport: Transport::Quic,
            ack_frequency: None,
            has_selective_acks: true,
            handshake_rtt: None,
            pacing_granularity: CREDIT_TIME,
            max_pacing_rate: None,
            paced: true,
            ecn: false,
            #[cfg(feature = "careful-resume")]
            resume: None,
            #[cfg(feature = "careful-resume")]
            resume_within: crate::resume::RESUME_WITHIN,
            #[cfg(feature = "careful-resume")]
            max_jump: crate::resume::MAX_JUMP,
        }
    }
}

/// C.InitialCwnd in bytes for a given SMSS, of what [`Config::initial_cwnd`] says.
pub(crate) fn initial_cwnd(initial_cwnd: Option<u64>, smss: u64) -> u64 {
    let standard = (10 * smss).min(14_720.max(2 * smss));
    initial_cwnd.unwrap_or(standard).min(MAX_TX_IN_FLIGHT).max(smss)
}
