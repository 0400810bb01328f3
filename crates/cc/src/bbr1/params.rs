//! The constants of BBRv1, as Linux has them.

use crate::units::{Duration, Gain};

/// Startup, 2/ln 2: the smallest gain on both rate and window with which the rate doubles each
/// round trip.
pub(super) const HIGH_GAIN: Gain = Gain::per_256(739);
/// Drain: the inverse of the above, so that the queue goes in the time in which it came.
pub(super) const DRAIN_GAIN: Gain = Gain::per_256(88);
/// Window in ProbeBW: two BDP, because ACKs come late and in clumps.
pub(super) const CWND_GAIN: Gain = Gain::percent(200);
/// ProbeBW: a quarter more, a quarter less to drain what that queued, then six times level. Each
/// phase lasts about one min_rtt.
pub(super) const CYCLE: [Gain; 8] = [
    Gain::percent(125),
    Gain::percent(75),
    Gain::ONE,
    Gain::ONE,
    Gain::ONE,
    Gain::ONE,
    Gain::ONE,
    Gain::ONE,
];
/// One minus the margin of 1 %: paced a little under the estimate, queues drain.
pub(super) const PACING_MARGIN: Gain = Gain::percent(99);

/// The window of the bandwidth filter in round trips: a whole cycle, and two more.
pub(super) const BW_ROUNDS: usize = 10;
/// The window of the min_rtt filter, and so the time between two ProbeRTTs.
pub(super) const MIN_RTT_WINDOW: Duration = Duration::from_secs(10);
/// Time at the small window in ProbeRTT.
pub(super) const PROBE_RTT_DURATION: Duration = Duration::from_millis(200);
/// The smallest window in packets, and the one of ProbeRTT: two there, the ACKs of two back.
pub(super) const MIN_CWND_PACKETS: u64 = 4;

/// Growth that says that the pipe is not full yet.
pub(super) const FULL_BW_GROWTH: Gain = Gain::percent(125);
/// Rounds without it that say that it is.
pub(super) const FULL_BW_ROUNDS: u32 = 3;

/// Policer: the shortest interval in round trips.
pub(super) const LT_MIN_ROUNDS: u32 = 4;
/// Policer: an interval that lasts longer is dropped.
pub(super) const LT_MAX_ROUNDS: u32 = 16;
/// Policer: the least share of loss, lost to delivered.
pub(super) const LT_LOSS: Gain = Gain::per_256(50);
/// Policer: two intervals agree when they differ by no more than this share of the first,
pub(super) const LT_AGREE: Gain = Gain::per_256(32);
/// or by no more than this: 4 kbit/s in bytes per second.
pub(super) const LT_AGREE_RATE: u64 = 500;
/// Policer: rounds in ProbeBW for which the rate is believed.
pub(super) const LT_USE_ROUNDS: u32 = 48;

/// Aggregation: age in rounds at which a bucket is replaced; two buckets see five to ten.
pub(super) const EXTRA_ACKED_ROUNDS: u32 = 5;
/// Aggregation: an epoch that grew to this many packets begins anew.
pub(super) const EXTRA_ACKED_EPOCH_PACKETS: u64 = 1 << 20;
/// Aggregation: no more window for it than what the bandwidth carries in this time.
pub(super) const EXTRA_ACKED_TIME: Duration = Duration::from_millis(100);

/// C.send_quantum in time at the pacing rate.
pub(super) const QUANTUM_TIME: Duration = Duration::from_millis(1);
/// Under this rate (1.2 Mbit/s, in bytes per second) a quantum may be a single packet.
pub(super) const LOW_RATE: u64 = 150_000;
/// TCP's quanta in flight beside the BDP: in the qdisc, in segmentation, at the receiver.
pub(super) const TCP_OFFLOAD_QUANTA: u64 = 3;
/// The RTT of the very first pacing rate, before there is a sample.
pub(super) const NOMINAL_RTT: Duration = Duration::from_millis(1);
