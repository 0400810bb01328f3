//! One probe for bandwidth, "Probing for Bandwidth In ProbeBW": its feedback, its growth, and the
//! time of the next.

use super::params::{MAX_PROBE_UP_ROUNDS, PROBE_WAIT_RANDOM};
use crate::conn::INFINITE;
use crate::rng::Rng;
use crate::units::{Duration, Instant};

/// BBR.ack_phase: what the ACKs that come in now say about the probing for bandwidth.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum AckPhase {
    /// ACKS_INIT: not probing, no feedback of a probe.
    Init,
    /// ACKS_REFILLING: sending at the estimated bandwidth to fill the pipe.
    Refilling,
    /// ACKS_PROBE_STARTING: inflight rises to probe.
    ProbeStarting,
    /// ACKS_PROBE_FEEDBACK: the feedback of the probe comes in.
    ProbeFeedback,
    /// ACKS_PROBE_STOPPING: no longer probing, feedback still comes in.
    ProbeStopping,
}

/// The newest probe.
#[derive(Clone, Debug)]
pub(super) struct Probe {
    /// BBR.ack_phase.
    pub(super) ack_phase: AckPhase,
    /// BBR.is_bw_probe_sample: the losses of now may be this probe's.
    pub(super) is_sample: bool,
    /// BBR.prev_probe_too_high, and whether the probe was ended as a precaution after such a one.
    pub(super) prev_too_high: bool,
    pub(super) prev_precautionary: bool,
    /// BBR.bw_probe_up_rounds, BBR.bw_probe_up_acked and BBR.probe_up_acked_per_inc, in bytes.
    pub(super) up_rounds: u8,
    pub(super) up_acked: u64,
    pub(super) up_acked_per_inc: u64,
    /// BBR.rounds_since_probe_up.
    pub(super) rounds_since_up: u16,
    /// BBR.bw_probe_wait.
    pub(super) wait: Duration,
    /// BBR.cycle_stamp + BBR.bw_probe_wait: the moment is compared with each ACK's.
    pub(super) time: Instant,
    rng: Rng,
}

impl Probe {
    pub(super) fn new(now: Instant, seed: u64) -> Self {
        Self {
            ack_phase: AckPhase::Init,
            is_sample: false,
            prev_too_high: false,
            prev_precautionary: false,
            up_rounds: 0,
            up_acked: 0,
            up_acked_per_inc: INFINITE,
            rounds_since_up: 0,
            wait: Duration::ZERO,
            time: now,
            rng: Rng::new(seed),
        }
    }

    /// PickProbeWait(), "Design Considerations for Choosing Constant Parameters"; the random number
    /// of rounds is below `rounds`.
    pub(super) fn pick_wait(&mut self, base: Duration, rounds: u64) {
        self.rounds_since_up = self.rng.below(rounds) as u16;
        let random = self.rng.below(PROBE_WAIT_RANDOM.as_nanos() + 1);
        self.wait = base + Duration::from_nanos(random);
    }

    /// RaiseInflightLongtermSlope(): the growth of inflight_longterm doubles each round. The bytes
    /// for each packet more are `least` at least.
    pub(super) fn raise_slope(&mut self, per_inc: impl Fn(u64) -> u64, least: u64) {
        let growth_this_round = 1u64 << self.up_rounds;
        self.up_rounds = (self.up_rounds + 1).min(MAX_PROBE_UP_ROUNDS);
        self.up_acked_per_inc = per_inc(growth_this_round).max(least);
    }

    /// ProbeInflightLongtermUpward(): packets by which the bound grows with `acked` bytes more.
    pub(super) const fn growth(&mut self, acked: u64) -> u64 {
        self.up_acked = self.up_acked.saturating_add(acked);
        let packets = self.up_acked / self.up_acked_per_inc;
        self.up_acked -= packets * self.up_acked_per_inc;
        packets
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 2^n packets more in round n of a probe: the window's bytes through that for each.
    #[test]
    fn the_growth_doubles_each_round() {
        let mut probe = Probe::new(Instant::default(), 1);
        assert_eq!(probe.growth(1 << 40), 0, "no growth outside of a probe");
        probe.up_acked = 0;
        for per_packet in [32_000, 16_000, 8_000, 4_000, 2_000, 1_200, 1_200] {
            probe.raise_slope(|growth| 32_000 / growth, 1_200);
            assert_eq!(probe.up_acked_per_inc, per_packet);
        }
        assert_eq!(probe.growth(3_000), 2);
        assert_eq!(probe.growth(600), 1, "what was left counts");
        (0..100).for_each(|_| probe.raise_slope(|growth| 32_000 / growth, 1));
        assert_eq!(probe.up_rounds, MAX_PROBE_UP_ROUNDS);
    }

    /// The base and up to a second; rounds below the bound.
    #[test]
    fn the_wait_is_drawn_anew_each_time() {
        let (mut probe, base) = (Probe::new(Instant::default(), 7), Duration::from_secs(2));
        let mut waits: [Duration; 200] = core::array::from_fn(|_| {
            probe.pick_wait(base, 2);
            assert!(probe.rounds_since_up < 2);
            probe.wait
        });
        waits.sort();
        let ms = Duration::from_millis;
        assert!(waits[0] >= base && waits[199] <= base + PROBE_WAIT_RANDOM);
        assert!(waits[0] < base + ms(50) && waits[199] > base + ms(950));
    }
}
