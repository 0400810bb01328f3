//! The draft's constants, each with the reason for its value; those for which a flavour has another
//! one are in [`super::rules`].

use crate::units::{Duration, Gain};

/// UP: a quarter more than the path gave so far.
pub(super) const PROBE_UP_PACING_GAIN: Gain = Gain::percent(125);
/// BBR.DefaultCwndGain: the smallest gain that lets the window double each round.
pub(super) const DEFAULT_CWND_GAIN: Gain = Gain::percent(200);
/// UP: above 2, so that a window that was the limit does not stop the probe.
pub(super) const PROBE_UP_CWND_GAIN: Gain = Gain::percent(225);
/// Startup under Rapid Start (draft-kazuho-ccwg-rapid-start-02), pacing and window: 9/2 ln 3, the
/// smallest gain that lets the rate triple each round, as 4 ln 2 is for twice; and three.
pub(super) const RAPID_START_GAINS: (Gain, Gain) = (Gain::percent(495), Gain::percent(300));
/// BBR.ProbeRTTCwndGain: half a BDP leaves no queue, and the link half full.
pub(super) const PROBE_RTT_CWND_GAIN: Gain = Gain::percent(50);
/// One minus BBR.PacingMarginPercent: pace 1 % under the estimate, so that queues drain.
pub(super) const PACING_MARGIN: Gain = Gain::percent(99);

/// BBR.MinPipeCwnd in SMSS: two packets on the way there and the ACKs of two on the way back.
pub(super) const MIN_PIPE_PACKETS: u64 = 4;
/// BBRStartupFullLossCnt: this many separate losses in a round are no accident.
pub(super) const STARTUP_FULL_LOSS_COUNT: u16 = 6;

/// Growth that says that the pipe is not full yet.
pub(super) const FULL_BW_GROWTH: Gain = Gain::percent(125);
/// Rounds without growth that say that it is: a receiver may need as many to raise its window.
pub(super) const FULL_BW_ROUNDS: u32 = 3;
/// ACKs that are ahead of the estimate by less than this are no aggregation, unless the window was
/// full (fullpipe's): a sixteenth, which is more than an estimate of a few packets is wrong by.
pub(super) const AGGREGATION_MARGIN: Gain = Gain::per_256(272);
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
pub(super) const MAX_PROBE_UP_ROUNDS: u8 = 30;

/// C.send_quantum in time at the pacing rate.
pub(super) const QUANTUM_TIME: Duration = Duration::from_millis(1);
/// Offload budget in quanta: for TCP one in the qdisc, one in segmentation, one at the receiver.
pub(super) const TCP_OFFLOAD_QUANTA: u64 = 3;
/// The RTT of the very first pacing rate, before there is a sample.
pub(super) const NOMINAL_RTT: Duration = Duration::from_millis(1);

/// An RTT is short if it is at most min_rtt and this binary fraction of it, 1/32: a few packets of
/// other flows, or the ends' own jitter.
pub(super) const SHORT_RTT_SHIFT: u32 = 5;
#[cfg(test)]
mod tests {
    use super::*;
    use crate::bbr3::{Draft, Rules};

    /// Each constant against the draft, in the units of its text.
    #[test]
    fn the_constants_are_those_of_the_draft() {
        let percent = [
            (PROBE_UP_PACING_GAIN, 125),
            (DEFAULT_CWND_GAIN, 200),
            (PROBE_UP_CWND_GAIN, 225),
            (PROBE_RTT_CWND_GAIN, 50),
            (PACING_MARGIN, 99),
            (FULL_BW_GROWTH, 125),
            (Draft::STARTUP_GAINS.pacing, 277),
            (Draft::STARTUP_GAINS.cwnd, 200),
            (Draft::DRAIN_PACING_GAIN, 50),
            (Draft::PROBE_DOWN_PACING_GAIN, 90),
            (Draft::LOSS_THRESH, 2),
            (Draft::BETA, 70),
            (Draft::HEADROOM, 15),
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
            (Draft::DRAIN_ROUNDS, 3),
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
