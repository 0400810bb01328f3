//! Linux's BBRv3 (google/bbr, branch v3), as far as it is another one than the draft: in bytes
//! where that counts packets (whole packets of them), and with the draft's names.

use super::Bbr3;
use super::aggregation::TwoBuckets;
use super::amend::Amend;
use super::bounds::Bounds;
use super::ecn::Ecn;
use super::full_pipe::FullPipe;
use super::loss_round::LossRound;
use super::mark_response::MarkResponse;
use super::params::DEFAULT_CWND_GAIN;
use super::rules::Rules;
use crate::algo::Marks;
use crate::config::Config;
use crate::conn::{Conn, INFINITE, MAX_QUANTUM};
use crate::options::{FlavourOptions, StartupGains};
use crate::round::Round;
use crate::sampler::{PacketState, RateSample};
use crate::units::{Duration, Gain, Instant, Rate};

/// The most that aggregation may explain, in time at the estimated bandwidth.
const EXTRA_ACKED_TIME: Duration = Duration::from_millis(100);
/// The part of the quantum that min_rtt gives halves with each of these.
const QUANTUM_HALVING: Duration = Duration::from_nanos(512_000);

/// The rules of Linux.
#[derive(Clone, Debug)]
pub(crate) struct Linux<A> {
    pub(super) ecn: Ecn,
    amendments: A,
}

impl<A: Amend> Rules for Linux<A> {
    const NAME: &'static str = A::NAMES.linux;
    const STARTUP_GAINS: StartupGains =
        StartupGains { pacing: Gain::per_256(710), cwnd: DEFAULT_CWND_GAIN };
    /// 1 / 2.885, from the cwnd gain that Startup once had.
    const DRAIN_PACING_GAIN: Gain = Gain::per_256(88);
    /// Drain never gives up.
    const DRAIN_ROUNDS: u64 = u64::MAX;
    const PROBE_DOWN_PACING_GAIN: Gain = Gain::per_256(232);
    const LOSS_THRESH: Gain = Gain::per_256(5);
    const BETA: Gain = Gain::per_256(256 - 76);
    const HEADROOM: Gain = Gain::per_256(38);

    type ExtraAcked = TwoBuckets;
    type Marks = Ecn;
    type Amendments = A;

    fn new(config: &Config, options: &FlavourOptions) -> Self {
        Self { ecn: Ecn::new(config), amendments: A::new(options) }
    }

    #[inline]
    fn marks(&self) -> &Ecn {
        &self.ecn
    }

    #[inline]
    fn marks_mut(&mut self) -> &mut Ecn {
        &mut self.ecn
    }

    #[inline]
    fn amendments(&self) -> &A {
        &self.amendments
    }

    #[inline]
    fn amendments_mut(&mut self) -> &mut A {
        &mut self.amendments
    }

    /// Whole packets.
    #[inline]
    fn rounded_down(conn: &Conn, volume: u64) -> u64 {
        volume - volume % conn.smss
    }

    /// A window that is rounded down would deliver less than the estimate, and the next estimate
    /// would be lower.
    #[inline]
    fn rounded_up(conn: &Conn, volume: u64) -> u64 {
        match volume % conn.smss {
            0 => volume,
            part => volume.saturating_add(conn.smss - part),
        }
    }

    /// Each ACK may raise the baseline, so that a round's best sample is it.
    #[inline]
    fn asks_full_bw(_: &FullPipe) -> bool {
        true
    }

    /// Rounds are counted by their first sample.
    #[inline]
    fn counts_plateau(round: &Round) -> bool {
        round.start
    }

    /// With the offload budget, and whatever the short-term bound is.
    fn bdp_of_startup(bbr: &Bbr3<Self>, conn: &Conn) -> u64 {
        bbr.inflight(conn, bbr.bandwidth.max, Gain::ONE)
    }

    /// Forgets what was lost and delivered in Startup: the losses of a probe that is over say
    /// nothing about the rate below it.
    fn begin_drain(bbr: &mut Bbr3<Self>) {
        Self::reset_congestion_signals(bbr);
    }

    /// Congestion does not bound the target that ends Drain.
    fn bw_of_drain(bbr: &Bbr3<Self>) -> Rate {
        bbr.bandwidth.max
    }

    /// Congestion does not bound Drain's window.
    fn bound_of_drain(_: &Bounds) -> u64 {
        INFINITE
    }

    /// With the offload budget, which is more than a small BDP.
    #[inline]
    fn target(bbr: &Bbr3<Self>, conn: &Conn, bdp: u64) -> u64 {
        bbr.quantization_budget(conn, bdp)
    }

    /// Takes the long-term bound for the short-term one where that is above it: the window leaves
    /// headroom below the one, and a later cut starts from the other.
    fn begin_cruise(bounds: &mut Bounds) {
        if bounds.inflight_shortterm != INFINITE {
            bounds.inflight_shortterm = bounds.inflight_shortterm.min(bounds.inflight_longterm);
        }
    }

    /// Judges the sample of each ACK as each lost packet: a probe may end although the packets that
    /// were lost since left before it, or were only marked.
    fn judge_ack(bbr: &mut Bbr3<Self>, conn: &Conn, rs: &RateSample) {
        if !bbr.is_sample_too_high(conn, rs) {
            if bbr.has_longterm_bound() {
                bbr.raise_inflight_longterm(conn, rs);
            }
        } else if bbr.probe.is_sample {
            bbr.handle_inflight_too_high(conn, rs.into(), rs.now);
        }
    }

    /// The ACK that brings them is judged.
    fn judge_marks(_: &mut Bbr3<Self>, _: &Conn, _: &Marks<'_>, _: Instant) {}

    /// The marks of the round as well.
    fn reset_congestion_signals(bbr: &mut Bbr3<Self>) {
        bbr.rules.ecn.end_loss_round();
        bbr.loss_round.reset_signals();
    }

    /// Reports are counted.
    #[inline]
    fn count_lost_packet(_: &mut LossRound, _: &PacketState) {}

    /// loss_events_in_round, whatever the number of ranges.
    #[inline]
    fn count_loss_report(loss_round: &mut LossRound) {
        loss_round.count_event();
    }

    /// As the draft's pseudo-code has it, with the margin in it.
    fn bw_of_lossy_round(bw_latest: Rate, _: Rate) -> Rate {
        bw_latest
    }

    /// bbr_set_state(): takes the window of before the timeout for inflight_shortterm, if that has
    /// no value. The next cut starts from there, and not from the window of the timeout.
    fn begin_rto(bbr: &mut Bbr3<Self>) {
        if !bbr.is_probing_bw() && bbr.bounds.inflight_shortterm == INFINITE {
            bbr.bounds.inflight_shortterm = bbr.control.prior_cwnd;
        }
    }

    /// Window and bounds come back, and the state machine goes on.
    fn undo_transition(_: &mut Bbr3<Self>, _: &Conn) {}

    /// That of this ACK: BBR.bw follows at its end.
    #[inline]
    fn bw_of_aggregation(bbr: &Bbr3<Self>) -> Rate {
        bbr.bandwidth.max.min(bbr.bounds.bw_shortterm)
    }

    /// Aggregation explains 100 ms of data, no more.
    #[inline]
    fn extra_acked(bbr: &Bbr3<Self>, conn: &Conn) -> u64 {
        let most = Self::rounded_down(conn, bbr.bandwidth.bw.bytes_in(EXTRA_ACKED_TIME));
        Self::rounded_up(conn, bbr.aggregation.extra_acked()).min(most)
    }

    /// ProbeRTT comes all the same.
    #[inline]
    fn is_probe_rtt_needless(_: &Bbr3<Self>, _: &Conn, _: &RateSample) -> bool {
        false
    }

    /// The cycle of the max filter goes on.
    fn cut_probe(_: &mut Bbr3<Self>) {}

    /// With the margin.
    #[inline]
    fn first_pacing_rate(rate: Rate) -> Rate {
        super::params::PACING_MARGIN.of_rate(rate)
    }

    #[inline]
    fn least_pacing_rate(_: &Conn) -> Rate {
        Rate::ZERO
    }

    /// An allowance by the round trip, 64 KiB that halve every 512 us, beside a millisecond of the
    /// rate, which is 1/1024 s: bursts are what fills a short and fast path, and hurt a long one.
    #[inline]
    fn send_quantum(&self, conn: &Conn, min_rtt: Duration) -> u64 {
        let halvings = (min_rtt.as_nanos() / QUANTUM_HALVING.as_nanos()).min(63);
        (conn.pacing_rate.as_bytes_per_sec() >> 10) + (MAX_QUANTUM >> halvings)
    }

    /// Until the window has doubled.
    #[inline]
    fn grows_at_the_start(conn: &Conn) -> bool {
        conn.cwnd < conn.initial_cwnd.saturating_mul(2)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bbr3::aggregation::ExtraAckedFilter;

    /// The constants that Linux has apart, in the units of its source.
    #[test]
    fn the_constants_are_those_of_linux() {
        type L = Linux<()>;
        let gains = [
            (L::STARTUP_GAINS.pacing, 710),
            (L::STARTUP_GAINS.cwnd, 512),
            (L::DRAIN_PACING_GAIN, 88),
            (L::PROBE_DOWN_PACING_GAIN, 232),
            (L::LOSS_THRESH, 5),
            (L::BETA, 256 - 76),
            (L::HEADROOM, 38),
        ];
        for (gain, expected) in gains {
            assert_eq!(gain, Gain::per_256(expected));
        }
        assert_eq!(L::DRAIN_ROUNDS, u64::MAX);
        assert_eq!(EXTRA_ACKED_TIME, Duration::from_millis(100));
        assert_eq!(QUANTUM_HALVING, Duration::from_micros(512));
        assert_eq!(TwoBuckets::ROUNDS, 5);
        assert_eq!(TwoBuckets::MARGIN, Gain::ONE);
    }
}
