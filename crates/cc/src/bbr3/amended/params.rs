//! The constants of the amendments, each with the reason for its value.

use crate::units::{Duration, Gain};

/// CRUISE that delivers the estimated bandwidth, less at most this binary fraction of it,
/// 1/256: less than the pacing margin, which delivers 1/100 less.
pub(super) const DELIVERED_SHIFT: u32 = 8;
/// ProbeRTT comes after so many of its intervals in any case: a flow that began behind
/// another one's queue takes a long RTT for the shortest.
pub(super) const PROBE_RTT_AT_LATEST: u64 = 4;
/// The least ProbeRTTInterval in round trips. ProbeRTT leaves the link half empty for one.
pub(super) const PROBE_RTT_INTERVAL_ROUNDS: u64 = 16;
/// The least wait between probes in round trips: one in which UP's queue arrives, and two in
/// which DOWN empties it.
pub(super) const PROBE_WAIT_ROUNDS: u64 = 3;
/// What UP wants to have in flight, in BDP, the gain at which it sends.
pub(super) const UP_TARGET: Gain = Gain::percent(125);
/// An RTT that is above min_rtt by this binary fraction of it, 1/8, is that of a queue:
/// jitter is often above 1/32.
pub(super) const QUEUE_SHIFT: u32 = 3;
/// So many ACKs in a row with an RTT that is long enough for a queue say that there is one.
/// A receiver that holds an ACK back makes one such RTT, and buffers of a few packets hold none.
pub(super) const QUEUE_ACKS: u8 = 4;
/// UP ends after so many rounds if its packets wait longer than by this binary fraction of
/// min_rtt, 1/2: twice what a flow that is alone makes with UP_TARGET, so that other flows probe at
/// the same time.
pub(super) const UP_QUEUE_ROUNDS: u8 = 2;
pub(super) const UP_QUEUE_SHIFT: u32 = 1;
/// Growth in UP that says that the link is faster than believed. UP itself sends 23.75 %
/// more than before, with the margin off, so that no round can show FULL_BW_GROWTH.
pub(super) const UP_GROWTH: Gain = Gain::percent(112);
/// DOWN sends so much slower than the estimate that a probe's queue is gone within a round
/// trip.
pub(super) const DEEPER_DOWN_PACING_GAIN: Gain = Gain::percent(82);
/// The window in CRUISE, in BDP, and the packets that it has beside: a queue of 2 % that the
/// flows make in proportion to their rates, and one to which each adds the same. It takes more of
/// its rate from a large flow than from a small one.
pub(super) const SMALLER_CRUISE_CWND_GAIN: Gain = Gain::percent(102);
pub(super) const CRUISE_PACKETS: u64 = 8;
/// The most of that window, in BDP: of many small flows each is given a quarter more than
/// its share, and no more.
pub(super) const SMALLER_CRUISE_CWND_GAIN_MAX: Gain = Gain::percent(125);
/// CRUISE takes what it delivers for the bandwidth in the second of so many rounds: by then
/// DOWN's round is out of the samples, and in so many rounds the other flows' windows have answered
/// the last time.
pub(super) const BANDWIDTH_ROUNDS: u8 = 12;
/// A round that loses less does not lower the short-term bounds.
pub(super) const SMALL_LOSS: Gain = Gain::percent(3);
/// The most that counts as the path's own loss. Above it, flows that share a short buffer
/// take each other's losses for the path's.
pub(super) const BASELINE_LOSS_MAX: Gain = Gain::percent(6);
/// So many packets of a CRUISE give its share of losses.
pub(super) const BASELINE_PACKETS: u64 = 100;
/// The least part of the estimate that is believed of a CRUISE behind a queue. Probes of
/// 1.25 make estimates at most 1/0.8 too large.
pub(super) const LEAST_DELIVERED: Gain = Gain::percent(80);
/// A round is starved if its shortest RTT is so many min_rtt. But for UP, flows of this kind have
/// windows of two BDP at most, of estimates that are a quarter too large at most: together 2.5 BDP.
pub(super) const STARVED_RTT: u64 = 3;
/// So many starved rounds in a row ask why. The first may have been measured in part before the
/// change.
pub(super) const STARVED_ROUNDS: u8 = 2;
/// The least time between two questions, and in round trips as long as they are now: a ProbeRTT
/// costs half of what is sent in 200 ms or a round.
pub(super) const QUESTION_INTERVAL: Duration = Duration::from_secs(2);
pub(super) const QUESTION_ROUNDS: u64 = 8;
/// An RTT that goes down by less than this binary fraction of min_rtt, 1/16, while the flow halves
/// its window, does not answer to it. The half of a flow that has an eighth of the link is as much.
pub(super) const ANSWER_SHIFT: u32 = 4;
/// The base is at most this binary fraction of min_rtt above it, 1/2, or is rather others' queue.
pub(super) const BASE_SHIFT: u32 = 1;
/// What CRUISE delivered, of what UP does, at most, where UP takes bandwidth from others: the pacing
/// margin is another hundredth.
pub(super) const CRUISE_OF_UP: Gain = Gain::percent(97);
/// RTTs of a round that differ by more than this binary fraction, 1/32, say nothing each by itself.
pub(super) const STILL_SHIFT: u32 = 5;
/// A mean of fewer RTTs may be short by chance.
pub(super) const BASE_SAMPLES: u32 = 4;
