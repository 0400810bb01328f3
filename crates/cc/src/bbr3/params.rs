//! The constants of BBRv3, each with the reason for its value, and what the flavours have apart.

use crate::bbr3::amended::Amended;
use crate::bbr3::ecn::Ecn;
use crate::bbr3::fallback::Fallback;
use crate::bbr3::swift::Swift;
use crate::config::{Config, StartupGains};
use crate::filter::{RoundMax, WindowedMax};
use crate::units::{Duration, Gain};
use core::fmt::Debug;

/// Parameters of a flavour of BBRv3: constants first, then behaviour.
pub(crate) struct Params {
    /// BBR.StartupPacingGain, 4 ln 2: the smallest gain that lets the rate double each round; and
    /// BBR.DefaultCwndGain.
    pub(super) startup_gains: StartupGains,
    /// BBR.DrainPacingGain: at or under 1 / (Startup's cwnd gain), so that one round drains the
    /// queue. Linux has 1 / 2.885, from the cwnd gain that Startup once had.
    pub(super) drain_pacing_gain: Gain,
    /// DOWN: the smallest cut with which flows that probe at 1.25 converge to equal shares.
    pub(super) probe_down_pacing_gain: Gain,
    /// BBR.LossThresh: the loss rate of a round that a probe may cause.
    pub(super) loss_thresh: Gain,
    /// BBR.Beta: the least share that a lossy round leaves; CUBIC's factor, to be no harsher than
    /// it.
    pub(super) beta: Gain,
    /// BBR.Headroom: the share of the long-term bound that is left to others.
    pub(super) headroom: Gain,
    /// Rounds after which Drain gives up: the bandwidth was overestimated. Linux's never does.
    pub(super) drain_rounds: u64,
    /// The filter of the maximum of extra_acked.
    pub(super) extra_acked_filter: ExtraAckedFilter,

    /// True if volumes of the model are whole packets: a BDP and a budget are rounded up, a share
    /// that is taken of a volume down.
    pub(super) counts_packets: bool,
    /// True if the target of probes, and inflight_longterm at Startup's end, have room for the
    /// offload budget.
    pub(super) targets_have_budget: bool,
    /// True if congestion bounds neither Drain's window nor the target that ends it.
    pub(super) drain_ignores_bounds: bool,
    /// True if aggregation is measured against the bandwidth of this ACK, false if against that of
    /// the one before.
    pub(super) aggregates_by_newest_bw: bool,
    /// True if the very first pacing rate has the pacing margin.
    pub(super) begins_with_margin: bool,

    /// The unit of [`STARTUP_FULL_LOSS_COUNT`]: if true the reports (ACKs, or firings of the loss
    /// timer) that bring losses, else the ranges of packets that were lost.
    pub(super) counts_loss_reports: bool,
    /// True if a timeout takes the window of before it for inflight_shortterm, if that has no
    /// value: the next cut starts from there, and not from the window of the timeout.
    pub(super) rto_keeps_inflight_shortterm: bool,
    /// True if the undo of a spurious loss takes back the transition that the loss had caused.
    pub(super) undo_restores_state: bool,
    /// True if each ACK may raise the baseline of the full-pipe estimate, false if only a round's
    /// first may.
    pub(super) full_bw_rises_on_any_ack: bool,
    /// True if the sample of an ACK may end a probe, false if only a lost packet may.
    pub(super) judges_acks: bool,
    /// True if CRUISE begins with inflight_shortterm at or below inflight_longterm.
    pub(super) cruise_clamps_shortterm: bool,
    /// True if Drain begins with the congestion signals reset.
    pub(super) drain_resets_congestion_signals: bool,
    /// True if the send quantum has a part that shrinks with min_rtt.
    pub(super) quantum_from_min_rtt: bool,
    /// The windows that grow on each ACK in Startup, whatever the model says. True (Linux): those
    /// under twice the initial window. False (the draft): all, until the initial window is
    /// delivered.
    pub(super) startup_doubles_initial_cwnd: bool,
    /// True if the short-term bound on the rate knows of the pacing margin.
    pub(super) bw_shortterm_knows_margin: bool,
    /// True if a probe that ProbeRTT cuts short ends its cycle of the max filter.
    pub(super) ends_cycle_of_cut_probe: bool,
    /// True if the pacing rate is at least one SMSS per second, however low the bandwidth is
    /// estimated.
    pub(super) least_pacing_rate_is_a_packet_per_second: bool,
    /// True if an application-limited sample near min_rtt makes ProbeRTT unnecessary for an
    /// interval.
    pub(super) app_limited_rtt_renews_probe_rtt: bool,
    /// True if marks have their own response whatever the transport says of them, and are never
    /// losses.
    pub(super) answers_ecn: bool,
    /// The longest min_rtt with which the transport's low-latency marks have their own response.
    pub(super) ecn_max_rtt: Duration,
}

/// The filter of the maximum of extra_acked.
pub(super) enum ExtraAckedFilter {
    /// Over the last [`EXTRA_ACKED_ROUNDS`] rounds, one in Startup.
    Rounds,
    /// Over two buckets of so many rounds (one in Startup), and never more than
    /// [`EXTRA_ACKED_TIME`] of data.
    TwoBuckets {
        /// Rounds of a bucket.
        rounds: u32,
    },
}

/// A flavour, chosen at compile time.
pub(crate) trait Flavour: Clone {
    /// The algorithm's name.
    const NAME: &'static str;
    /// Its parameters.
    const P: Params;
    /// Its own state.
    type Own: Clone + Debug;
    /// The filter of [`Params::extra_acked_filter`].
    type ExtraAcked: WindowedMax;

    /// `Own` at the start.
    fn own(config: &Config) -> Self::Own;

    /// The state of the response to marks, in the flavour that has one.
    #[inline]
    fn ecn(_own: &Self::Own) -> Option<&Ecn> {
        None
    }

    /// As [`Self::ecn`], to be changed.
    #[inline]
    fn ecn_mut(_own: &mut Self::Own) -> Option<&mut Ecn> {
        None
    }

    /// The state of the fallback for classic queues, in the flavour that has one.
    #[inline]
    fn fallback(_own: &Self::Own) -> Option<&Fallback> {
        None
    }

    /// As [`Self::fallback`], to be changed.
    #[inline]
    fn fallback_mut(_own: &mut Self::Own) -> Option<&mut Fallback> {
        None
    }

    /// The state of the amendments, in the flavour that has them.
    #[inline]
    fn amended(_own: &Self::Own) -> Option<&Amended> {
        None
    }

    /// As [`Self::amended`], to be changed.
    #[inline]
    fn amended_mut(_own: &mut Self::Own) -> Option<&mut Amended> {
        None
    }

    /// The state of Swift's law, in the flavour that has it.
    #[inline]
    fn swift(_own: &Self::Own) -> Option<&Swift> {
        None
    }

    /// As [`Self::swift`], to be changed.
    #[inline]
    fn swift_mut(_own: &mut Self::Own) -> Option<&mut Swift> {
        None
    }
}

/// The response of the draft's flavours to marks of L4S, in builds that have it; there while the
/// transport says that marks mean that.
#[cfg(feature = "l4s")]
mod l4s {
    use super::{Config, Ecn, Fallback};

    #[derive(Clone, Debug)]
    pub(crate) struct L4s {
        ecn: Ecn,
        fallback: Fallback,
    }

    pub(super) fn new(config: &Config) -> L4s {
        L4s { ecn: Ecn::new(config.ecn), fallback: Fallback::new() }
    }

    pub(super) fn of(own: &L4s) -> Option<&Ecn> {
        own.ecn.is_on().then_some(&own.ecn)
    }

    pub(super) fn of_mut(own: &mut L4s) -> Option<&mut Ecn> {
        own.ecn.is_on().then_some(&mut own.ecn)
    }

    pub(super) fn fallback(own: &L4s) -> Option<&Fallback> {
        own.ecn.is_on().then_some(&own.fallback)
    }

    pub(super) fn fallback_mut(own: &mut L4s) -> Option<&mut Fallback> {
        own.ecn.is_on().then_some(&mut own.fallback)
    }
}

#[cfg(not(feature = "l4s"))]
mod l4s {
    use super::{Config, Ecn, Fallback};

    pub(crate) type L4s = ();

    pub(super) const fn new(_: &Config) -> L4s {}

    pub(super) const fn of(_: &L4s) -> Option<&Ecn> {
        None
    }

    pub(super) const fn of_mut(_: &mut L4s) -> Option<&mut Ecn> {
        None
    }

    pub(super) const fn fallback(_: &L4s) -> Option<&Fallback> {
        None
    }

    pub(super) const fn fallback_mut(_: &mut L4s) -> Option<&mut Fallback> {
        None
    }
}

use l4s::L4s;

/// draft-ietf-ccwg-bbr.
#[derive(Clone, Debug)]
pub(crate) struct Draft;

impl Flavour for Draft {
    const NAME: &'static str = "bbr3";
    const P: Params = Params {
        startup_gains: StartupGains { pacing: Gain::percent(277), cwnd: DEFAULT_CWND_GAIN },
        drain_pacing_gain: Gain::percent(50),
        probe_down_pacing_gain: Gain::percent(90),
        loss_thresh: Gain::percent(2),
        beta: Gain::percent(70),
        headroom: Gain::percent(15),
        drain_rounds: 3,
        extra_acked_filter: ExtraAckedFilter::Rounds,
        counts_packets: false,
        targets_have_budget: false,
        drain_ignores_bounds: false,
        aggregates_by_newest_bw: false,
        begins_with_margin: false,
        counts_loss_reports: false,
        rto_keeps_inflight_shortterm: false,
        undo_restores_state: true,
        full_bw_rises_on_any_ack: false,
        judges_acks: false,
        cruise_clamps_shortterm: false,
        drain_resets_congestion_signals: false,
        quantum_from_min_rtt: false,
        startup_doubles_initial_cwnd: false,
        bw_shortterm_knows_margin: true,
        ends_cycle_of_cut_probe: true,
        least_pacing_rate_is_a_packet_per_second: true,
        app_limited_rtt_renews_probe_rtt: true,
        answers_ecn: false,
        ecn_max_rtt: Duration::MAX,
    };
    type Own = L4s;
    type ExtraAcked = RoundMax<EXTRA_ACKED_ROUNDS>;

    fn own(config: &Config) -> L4s {
        l4s::new(config)
    }

    #[inline]
    fn ecn(own: &L4s) -> Option<&Ecn> {
        l4s::of(own)
    }

    #[inline]
    fn ecn_mut(own: &mut L4s) -> Option<&mut Ecn> {
        l4s::of_mut(own)
    }

    #[inline]
    fn fallback(own: &L4s) -> Option<&Fallback> {
        l4s::fallback(own)
    }

    #[inline]
    fn fallback_mut(own: &mut L4s) -> Option<&mut Fallback> {
        l4s::fallback_mut(own)
    }
}

/// The draft with the amendments of [`super::amended`].
#[derive(Clone, Debug)]
pub(crate) struct DraftAmended;

impl Flavour for DraftAmended {
    const NAME: &'static str = "bbr3x";
    const P: Params = Draft::P;
    type Own = (L4s, Amended);
    type ExtraAcked = RoundMax<EXTRA_ACKED_ROUNDS>;

    fn own(config: &Config) -> Self::Own {
        (l4s::new(config), Amended::new(config.bbr3x_without))
    }

    #[inline]
    fn ecn(own: &Self::Own) -> Option<&Ecn> {
        l4s::of(&own.0)
    }

    #[inline]
    fn ecn_mut(own: &mut Self::Own) -> Option<&mut Ecn> {
        l4s::of_mut(&mut own.0)
    }

    #[inline]
    fn fallback(own: &Self::Own) -> Option<&Fallback> {
        l4s::fallback(&own.0)
    }

    #[inline]
    fn fallback_mut(own: &mut Self::Own) -> Option<&mut Fallback> {
        l4s::fallback_mut(&mut own.0)
    }

    #[inline]
    fn amended(own: &Self::Own) -> Option<&Amended> {
        Some(&own.1)
    }

    #[inline]
    fn amended_mut(own: &mut Self::Own) -> Option<&mut Amended> {
        Some(&mut own.1)
    }
}

/// The draft with the law of [`super::swift`].
#[derive(Clone, Debug)]
pub(crate) struct DraftSwift;

impl Flavour for DraftSwift {
    const NAME: &'static str = "bbr-swift";
    const P: Params = Draft::P;
    type Own = Swift;
    type ExtraAcked = RoundMax<EXTRA_ACKED_ROUNDS>;

    fn own(config: &Config) -> Swift {
        Swift::new(&config.swift)
    }

    #[inline]
    fn swift(own: &Swift) -> Option<&Swift> {
        Some(own)
    }

    #[inline]
    fn swift_mut(own: &mut Swift) -> Option<&mut Swift> {
        Some(own)
    }
}

/// Linux: google/bbr, branch v3, in bytes where that counts packets (whole packets of them), and with
/// the draft's names.
#[derive(Clone, Debug)]
pub(crate) struct Linux;

impl Flavour for Linux {
    const NAME: &'static str = "bbr3-linux";
    const P: Params = Params {
        startup_gains: StartupGains { pacing: Gain::per_256(710), cwnd: DEFAULT_CWND_GAIN },
        drain_pacing_gain: Gain::per_256(88),
        probe_down_pacing_gain: Gain::per_256(232),
        loss_thresh: Gain::per_256(5),
        beta: Gain::per_256(256 - 76),
        headroom: Gain::per_256(38),
        drain_rounds: u64::MAX,
        extra_acked_filter: ExtraAckedFilter::TwoBuckets { rounds: 5 },
        counts_packets: true,
        targets_have_budget: true,
        drain_ignores_bounds: true,
        aggregates_by_newest_bw: true,
        begins_with_margin: true,
        counts_loss_reports: true,
        rto_keeps_inflight_shortterm: true,
        undo_restores_state: false,
        full_bw_rises_on_any_ack: true,
        judges_acks: true,
        cruise_clamps_shortterm: true,
        drain_resets_congestion_signals: true,
        quantum_from_min_rtt: true,
        startup_doubles_initial_cwnd: true,
        bw_shortterm_knows_margin: false,
        ends_cycle_of_cut_probe: false,
        least_pacing_rate_is_a_packet_per_second: false,
        app_limited_rtt_renews_probe_rtt: false,
        answers_ecn: true,
        ecn_max_rtt: ECN_MAX_RTT,
    };
    type Own = Ecn;
    type ExtraAcked = RoundMax<EXTRA_ACKED_BUCKETS>;

    fn own(config: &Config) -> Ecn {
        Ecn::new(config.ecn)
    }

    #[inline]
    fn ecn(own: &Ecn) -> Option<&Ecn> {
        Some(own)
    }

    #[inline]
    fn ecn_mut(own: &mut Ecn) -> Option<&mut Ecn> {
        Some(own)
    }
}

/// Linux with the amendments of [`super::amended`].
#[derive(Clone, Debug)]
pub(crate) struct LinuxAmended;

impl Flavour for LinuxAmended {
    const NAME: &'static str = "bbr3x-linux";
    const P: Params = Linux::P;
    type Own = (Ecn, Amended);
    type ExtraAcked = RoundMax<EXTRA_ACKED_BUCKETS>;

    fn own(config: &Config) -> Self::Own {
        (Linux::own(config), Amended::new(config.bbr3x_without))
    }

    #[inline]
    fn ecn(own: &Self::Own) -> Option<&Ecn> {
        Some(&own.0)
    }

    #[inline]
    fn ecn_mut(own: &mut Self::Own) -> Option<&mut Ecn> {
        Some(&mut own.0)
    }

    #[inline]
    fn amended(own: &Self::Own) -> Option<&Amended> {
        Some(&own.1)
    }

    #[inline]
    fn amended_mut(own: &mut Self::Own) -> Option<&mut Amended> {
        Some(&mut own.1)
    }
}

/// UP: a quarter more than the path gave so far.
pub(super) const PROBE_UP_PACING_GAIN: Gain = Gain::percent(125);
/// BBR.DefaultCwndGain: the smallest gain that lets the window double each round.
pub(super) const DEFAULT_CWND_GAIN: Gain = Gain::percent(200);
/// UP: above 2, so that a window that was the limit does not stop the probe.
pub(super) const PROBE_UP_CWND_GAIN: Gain = Gain::percent(225);
/// BBR.ProbeRTTCwndGain: half a BDP leaves no queue, and the link half full.
pub(super) const PROBE_RTT_CWND_GAIN: Gain = Gain::percent(50);
/// One minus BBR.PacingMarginPercent: pace 1 % under the estimate, so that queues drain.
pub(super) const PACING_MARGIN: Gain = Gain::percent(99);

/// BBR.MinPipeCwnd in SMSS: two packets on the way there and the ACKs of two on the way back.
pub(super) const MIN_PIPE_PACKETS: u64 = 4;
/// BBRStartupFullLossCnt: this many separate losses in a round are no accident. Linux's
/// full_loss_cnt counts ACKs.
pub(super) const STARTUP_FULL_LOSS_COUNT: u32 = 6;

/// Growth that says that the pipe is not full yet.
pub(super) const FULL_BW_GROWTH: Gain = Gain::percent(125);
/// Rounds without growth that say that it is: a receiver may need as many to raise its window.
pub(super) const FULL_BW_ROUNDS: u32 = 3;
/// Linux: what aggregation may explain at most, in time at the estimated bandwidth.
pub(super) const EXTRA_ACKED_TIME: Duration = Duration::from_millis(100);
/// ACKs that are ahead of the estimate by less than this are no aggregation, unless the window was
/// full (fullpipe's): a sixteenth, which is more than an estimate of a few packets is wrong by.
pub(super) const AGGREGATION_MARGIN: Gain = Gain::per_256(272);
/// Linux: the newer bucket of extra_acked and the older.
pub(super) const EXTRA_ACKED_BUCKETS: usize = 2;
/// BBR.ExtraAckedFilterLen in round trips.
pub(super) const EXTRA_ACKED_ROUNDS: usize = 10;

/// BBR.MinRTTFilterLen: longer than a ProbeRTT cycle, shorter than a change of route lasts.
pub(super) const MIN_RTT_FILTER_LEN: Duration = Duration::from_secs(10);
/// BBR.ProbeRTTInterval.
pub(super) const PROBE_RTT_INTERVAL: Duration = Duration::from_secs(5);
/// BBR.ProbeRTTDuration: long enough for flows of different RTT to drain the queue together.
pub(super) const PROBE_RTT_DURATION: Duration = Duration::from_millis(200);

/// The shortest wait between probes: a Reno flow at 30 ms needs it to keep 25 Mbit/s.
pub(super) const PROBE_WAIT_BASE: Duration = Duration::from_secs(2);
/// The random part of that wait.
pub(super) const PROBE_WAIT_RANDOM: Duration = Duration::from_secs(1);
/// The most rounds between probes: Reno's own time scale on common paths.
pub(super) const RENO_ROUNDS: u64 = 63;
/// The cap on the doubling of inflight_longterm's growth.
pub(super) const MAX_PROBE_UP_ROUNDS: u32 = 30;

/// C.send_quantum in time at the pacing rate.
pub(super) const QUANTUM_TIME: Duration = Duration::from_millis(1);
/// Linux: the part of the quantum that min_rtt gives halves with each of these.
pub(super) const QUANTUM_HALVING: Duration = Duration::from_nanos(512_000);
/// Offload budget in quanta: for TCP one in the qdisc, one in segmentation, one at the receiver.
pub(super) const TCP_OFFLOAD_QUANTA: u64 = 3;
/// The RTT of the very first pacing rate, before there is a sample.
pub(super) const NOMINAL_RTT: Duration = Duration::from_millis(1);

/// An RTT is short if it is at most min_rtt and this binary fraction of it, 1/32: a few packets of
/// other flows, or the ends' own jitter.
pub(super) const SHORT_RTT_SHIFT: u32 = 5;
/// bbr3x: CRUISE that delivers the estimated bandwidth, less at most this binary fraction of it,
/// 1/256: less than the pacing margin, which delivers 1/100 less.
pub(super) const DELIVERED_SHIFT: u32 = 8;
/// bbr3x: ProbeRTT comes after so many of its intervals in any case: a flow that began behind
/// another one's queue takes a long RTT for the shortest.
pub(super) const PROBE_RTT_AT_LATEST: u64 = 4;
/// bbr3x: the least ProbeRTTInterval in round trips. ProbeRTT leaves the link half empty for one.
pub(super) const PROBE_RTT_INTERVAL_ROUNDS: u64 = 16;
/// bbr3x: the least wait between probes in round trips: one in which UP's queue arrives, and two in
/// which DOWN empties it.
pub(super) const PROBE_WAIT_ROUNDS: u64 = 3;
/// bbr3x: what UP wants to have in flight, in BDP, the gain at which it sends.
pub(super) const UP_TARGET: Gain = Gain::percent(125);
/// bbr3x: an RTT that is above min_rtt by this binary fraction of it, 1/8, is that of a queue:
/// jitter is often above 1/32.
pub(super) const QUEUE_SHIFT: u32 = 3;
/// bbr3x: so many ACKs in a row with an RTT that is long enough for a queue say that there is one.
/// A receiver that holds an ACK back makes one such RTT, and buffers of a few packets hold none.
pub(super) const QUEUE_ACKS: u8 = 4;
/// bbr3x: so many calm rounds in a row of CRUISE say that the path is quiet. One is also a lull of
/// a link whose rate changes. Where ProbeRTT has halved the window, one is enough.
pub(super) const CALM_ROUNDS: u8 = 2;
/// bbr3x: min_rtt has another flow's queue in it if it is above the connection's shortest RTT by
/// this binary fraction of it, 1/4.
pub(super) const COMPETITOR_QUEUE_SHIFT: u32 = 2;
/// bbr3x: UP ends after so many rounds if its packets wait longer than by this binary fraction of
/// min_rtt, 1/2: twice what a flow that is alone makes with UP_TARGET, so that other flows probe at
/// the same time.
pub(super) const UP_QUEUE_ROUNDS: u8 = 2;
pub(super) const UP_QUEUE_SHIFT: u32 = 1;
/// bbr3x: growth in UP that says that the link is faster than believed. UP itself sends 23.75 %
/// more than before, with the margin off, so that no round can show FULL_BW_GROWTH.
pub(super) const UP_GROWTH: Gain = Gain::percent(112);
/// bbr3x: DOWN sends so much slower than the estimate that a probe's queue is gone within a round
/// trip.
pub(super) const PROBE_DOWN_PACING_GAIN: Gain = Gain::percent(82);
/// bbr3x: the window in CRUISE, in BDP, and the packets that it has beside: a queue of 2 % that the
/// flows make in proportion to their rates, and one to which each adds the same. It takes more of
/// its rate from a large flow than from a small one.
pub(super) const CRUISE_CWND_GAIN: Gain = Gain::percent(102);
pub(super) const CRUISE_PACKETS: u64 = 8;
/// bbr3x: the most of that window, in BDP: of many small flows each is given a quarter more than
/// its share, and no more.
pub(super) const CRUISE_CWND_GAIN_MAX: Gain = Gain::percent(125);
/// bbr3x: CRUISE takes what it delivers for the bandwidth in the second of so many rounds: by then
/// DOWN's round is out of the samples, and in so many rounds the other flows' windows have answered
/// the last time.
pub(super) const BANDWIDTH_ROUNDS: u8 = 12;
/// bbr3x: a round that loses less does not lower the short-term bounds.
pub(super) const SMALL_LOSS: Gain = Gain::percent(3);
/// bbr3x: the most that counts as the path's own loss. Above it, flows that share a short buffer
/// take each other's losses for the path's.
pub(super) const BASELINE_LOSS_MAX: Gain = Gain::percent(6);
/// bbr3x: so many packets of a CRUISE give its share of losses.
pub(super) const BASELINE_PACKETS: u64 = 100;
/// bbr3x: the least part of the estimate that is believed of a CRUISE behind a queue. Probes of
/// 1.25 make estimates at most 1/0.8 too large.
pub(super) const LEAST_DELIVERED: Gain = Gain::percent(80);

/// Linux: the unit of ECN's arithmetic.
pub(super) const ECN_UNIT: u32 = 256;
/// Linux: how much of a round's share of marks goes into alpha, 1/16 as DCTCP has it, in ECN_UNIT.
pub(super) const ECN_ALPHA_GAIN: u32 = ECN_UNIT / 16;
/// Linux: the part of alpha by which inflight_shortterm is cut, 1/3, in ECN_UNIT.
pub(super) const ECN_FACTOR: u32 = ECN_UNIT / 3;
/// Linux: a probe in which more was marked went too high.
pub(super) const ECN_THRESH: Gain = Gain::percent(50);
/// Linux: so many rounds in succession with that much marked end Startup.
pub(super) const ECN_FULL_ROUNDS: u32 = 2;
/// What a marked round trip leaves of the window in a classic queue: CUBIC's factor (RFC 9438
/// section 4.6).
pub(super) const CLASSIC_BETA: Gain = Gain::percent(70);
/// Linux: above this min_rtt marks are not taken for those of a low-latency network.
pub(super) const ECN_MAX_RTT: Duration = Duration::from_millis(5);

/// Swift: beta_md of its law, 0.8 as simulators of it have it (csg-htsim's `swift.cpp`).
pub(super) const SWIFT_BETA: Gain = Gain::percent(80);
/// Swift: max_mdf, the most that a window loses in a round trip; 0.5 as there.
pub(super) const SWIFT_MAX_DECREASE: Gain = Gain::percent(50);
/// Swift: fs_min_cwnd in thousandths of a packet, and fs_max_cwnd in packets: the windows between
/// which the flow scaling falls from its range to nothing. 0.1 and 100 as there.
pub(super) const FLOW_SCALING_MIN_MILLIPACKETS: u64 = 100;
pub(super) const FLOW_SCALING_MAX_PACKETS: u64 = 100;
/// Swift: the least window is this part of a packet, or one packet in this time if that is more:
/// the same at 25 us. The part is that of simulators; htsim marks its own of ten bytes as a guess,
/// and so is this.
pub(super) const LEAST_WINDOW_DIVISOR: u64 = 1_000;
pub(super) const LEAST_RATE_INTERVAL: Duration = Duration::from_millis(25);
/// bbr-swift: a path is far if min_rtt is above so many of the longest target. Below, a long
/// min_rtt may be the queue of a data centre's switch: 1.35 ms with the usual options, 17 MB at 100
/// Gbit/s.
pub(super) const FAR_TARGETS: u64 = 8;
/// bbr-swift: the target of a far path is at least min_rtt and this binary fraction of it, 1/2: UP,
/// which sends a quarter more for up to three rounds, just reaches it.
pub(super) const FAR_SHIFT: u32 = 1;
/// bbr-swift: windows of a packet and more are paced so much faster than they say, so that they are
/// the limit. RFC 9002 section 7.7 has the same.
pub(super) const SWIFT_PACING_GAIN: Gain = Gain::percent(125);
/// bbr-swift: C.send_quantum is what the rate gives in this part of min_rtt: the pacer's own bound
/// for its credit.
pub(super) const QUANTUM_RTT_DIVISOR: u64 = 4;
/// bbr-swift: the receiver's delay of late falls by this binary fraction of it, 1/16, with each ACK
/// that has a shorter one.
pub(super) const RECEIVER_DELAY_SHIFT: u32 = 4;
/// bbr-swift: the network has at least this binary fraction of a round trip, 1/16, whatever the
/// receiver says of its part, or else the shortest network RTT that was seen.
pub(super) const NETWORK_RTT_SHIFT: u32 = 4;
/// bbr-swift: a wait of the receiver for more to acknowledge that is longer than this part of the
/// network RTT costs a flow that it makes wait a noticeable part of its rate.
pub(super) const ACK_DELAY_RTT_DIVISOR: u64 = 4;
/// bbr-swift: packets that make a receiver acknowledge, as long as nothing else is known of it, and
/// the most that are kept in flight for that: an initial window (RFC 9002 section 7.2).
pub(super) const DELAYED_ACK_PACKETS: u8 = 2;
pub(super) const MAX_MIN_PIPE_PACKETS: u8 = 10;
/// bbr-swift: a receiver that acknowledged so many packets one by one does so with all. Linux
/// acknowledges up to 16 packets so when a connection begins.
pub(super) const SINGLE_ACKS: u8 = 32;
/// bbr-swift: rounds between probes are up to so many fewer than [`RENO_ROUNDS`], by chance: flows
/// that began together do not probe together.
pub(super) const PROBE_ROUNDS_RANDOM: u64 = 32;

#[cfg(test)]
mod tests {
    use super::*;

    /// The constants that the flavours have apart, in the units of their texts: the draft's and
    /// Linux's.
    #[test]
    fn the_constants_are_those_of_each_flavour() {
        let apart: [fn(&Params) -> Gain; 6] = [
            |p| p.startup_gains.pacing,
            |p| p.drain_pacing_gain,
            |p| p.probe_down_pacing_gain,
            |p| p.loss_thresh,
            |p| p.beta,
            |p| p.headroom,
        ];
        assert_eq!(apart.map(|c| c(&Draft::P)), [277, 50, 90, 2, 70, 15].map(Gain::percent));
        let linux = [710, 88, 232, 5, 256 - 76, 38].map(Gain::per_256);
        assert_eq!(apart.map(|c| c(&Linux::P)), linux);
        assert_eq!((Draft::P.drain_rounds, Linux::P.drain_rounds), (3, u64::MAX));
        let two_buckets =
            |p: Params| matches!(p.extra_acked_filter, ExtraAckedFilter::TwoBuckets { rounds: 5 });
        assert!(!two_buckets(Draft::P) && two_buckets(Linux::P));
        assert_eq!((ECN_ALPHA_GAIN, ECN_FACTOR, ECN_FULL_ROUNDS), (16, 85, 2));
        assert_eq!(ECN_THRESH, Gain::per_256(128));
        assert_eq!(
            (ECN_MAX_RTT, EXTRA_ACKED_TIME),
            (Duration::from_millis(5), Duration::from_millis(100))
        );
        assert_eq!(QUANTUM_HALVING, Duration::from_micros(512));
    }

    /// What a flavour has of marks, of a classic queue and of amendments, to read and to change.
    #[cfg(feature = "l4s")]
    fn parts<F: Flavour>(ecn: bool) -> [bool; 3] {
        let mut own = F::own(&Config { ecn, ..Config::new(1) });
        let read =
            [F::ecn(&own).is_some(), F::fallback(&own).is_some(), F::amended(&own).is_some()];
        let changed = [
            F::ecn_mut(&mut own).is_some(),
            F::fallback_mut(&mut own).is_some(),
            F::amended_mut(&mut own).is_some(),
        ];
        assert_eq!(read, changed, "{}", F::NAME);
        read
    }

    /// The amendments change nothing else of what a flavour has: the draft's answer marks where they
    /// are those of L4S, and Linux's have a response that waits for that.
    #[cfg(feature = "l4s")]
    #[test]
    fn an_amended_flavour_has_the_parts_of_its_flavour() {
        for ecn in [false, true] {
            assert_eq!(parts::<Draft>(ecn), [ecn, ecn, false]);
            assert_eq!(parts::<DraftAmended>(ecn), [ecn, ecn, true]);
            assert_eq!(parts::<Linux>(ecn), [true, false, false]);
            assert_eq!(parts::<LinuxAmended>(ecn), [true, false, true]);
        }
    }

    /// Each constant of both against the draft, in the units of its text.
    #[test]
    fn the_constants_are_those_of_the_draft() {
        let percent = [
            (PROBE_UP_PACING_GAIN, 125),
            (DEFAULT_CWND_GAIN, 200),
            (PROBE_UP_CWND_GAIN, 225),
            (PROBE_RTT_CWND_GAIN, 50),
            (PACING_MARGIN, 99),
            (FULL_BW_GROWTH, 125),
        ];
        for (gain, expected) in percent {
            assert_eq!(gain, Gain::percent(expected));
        }
        let counts = [
            (MIN_PIPE_PACKETS, 4),
            (u64::from(STARTUP_FULL_LOSS_COUNT), 6),
            (u64::from(FULL_BW_ROUNDS), 3),
            (EXTRA_ACKED_ROUNDS as u64, 10),
            (RENO_ROUNDS, 63),
            (u64::from(MAX_PROBE_UP_ROUNDS), 30),
            (TCP_OFFLOAD_QUANTA, 3),
        ];
        for (count, expected) in counts {
            assert_eq!(count, expected);
        }
        let millis = [
            (MIN_RTT_FILTER_LEN, 10_000),
            (PROBE_RTT_INTERVAL, 5_000),
            (PROBE_RTT_DURATION, 200),
            (PROBE_WAIT_BASE, 2_000),
            (PROBE_WAIT_RANDOM, 1_000),
            (QUANTUM_TIME, 1),
            (NOMINAL_RTT, 1),
        ];
        for (time, expected) in millis {
            assert_eq!(time, Duration::from_millis(expected));
        }
    }
}
