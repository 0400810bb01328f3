//! Answers to an application that chooses its own rate: how much it may plan with, and whether the
//! path carries more. The draft has neither; both are ours, made of what the algorithms know.

use super::Controller;
use crate::algo::NotNow;
use crate::snapshot::State;
use crate::units::{Instant, Rate};

/// The answer to an application that would send at a higher rate: [`Controller::probe_bandwidth`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
#[cfg_attr(feature = "serde", derive(serde::Serialize), serde(rename_all = "snake_case"))]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum BandwidthProbe {
    /// [`Controller::send_rate_estimate`] is at the target already.
    Reached,
    /// The algorithm takes more data now, and learns from it. The application offers what fills the
    /// target up: padding, redundant data, or the higher quality itself. It asks again from time to
    /// time, a few times in a round trip, and stops at another answer.
    Probing,
    /// No probe now, for this reason; the application stays at its rate and asks later.
    NotNow(NotNow),
}

impl Controller {
    /// The rate that an application may plan with: what a video encoder, a relay of Media over QUIC
    /// or an application of WebTransport asks for. [`Rate::as_bits_per_sec`] gives it in bits per
    /// second. It is the whole flow's, with the headers and retransmissions that count in C.SMSS,
    /// so payload should stay below it. `None` before the first round trip.
    ///
    /// - BBR (`bbr3`, `bbr3x`, their Linux flavours, `bbr-swift`, `bbr1`): BBR.bw, the bandwidth of
    ///   the model with its short-term bound (draft-ietf-ccwg-bbr, "BBR.bw"). It is not the pacing
    ///   rate: gains and probes do not move it, nor does ProbeRTT.
    /// - `cubic`, `reno`, `prague`: window over smoothed round-trip time; in slow start half of it.
    /// - A fixed rate: that rate.
    ///
    /// Nobody can know what the path would carry beyond what was sent. While the application is the
    /// limit, the estimate is what the path has carried so far: see [`Self::probe_bandwidth`].
    ///
    /// ```
    /// use fullpipe_cc::{Algorithm, Config, Controller, Duration, Instant};
    ///
    /// let now = Instant::default();
    /// let mut cc = Controller::new(Algorithm::BBR3, Config::new(17), now);
    /// assert_eq!(cc.send_rate_estimate(), None);
    /// let packet = cc.on_sent(now, 1200);
    /// let mut ack = cc.ack(now + Duration::from_millis(40));
    /// ack.acked(&packet);
    /// ack.finish();
    /// let rate = cc.send_rate_estimate().expect("a round trip");
    /// assert_eq!(rate.as_bits_per_sec(), 240_000); // 1200 bytes in 40 ms
    /// ```
    pub fn send_rate_estimate(&self) -> Option<Rate> {
        let rate = self.snapshot().send_rate_estimate()?;
        Some(self.conn().possible_pacing_rate(rate))
    }

    /// Asks whether the path carries `target`, for an application that sends less and would send
    /// more. The draft probes at its own times, and a flow that its application limits learns
    /// nothing from that; this is ours, and keeps the draft's rules.
    ///
    /// - BBRv3 in ProbeBW_CRUISE: the wait before the next probe ends, and with the next ACK the
    ///   flow goes on to REFILL and UP ("Time Scale for Bandwidth Probing"). Not within half of the
    ///   draft's wait since the last probe, and not within the whole wait if that one met too much
    ///   loss. In Startup, REFILL and UP it probes already. What the probe finds is judged as ever.
    /// - BBRv1 has a probe in every eight round trips, which cannot be moved; in ProbeRTT and Drain
    ///   the answer is no.
    /// - `cubic`, `reno`, `prague` grow whenever the window is full, so that the data is the probe;
    ///   the answer is no while they recover.
    ///
    /// [`BandwidthProbe::Probing`] is no promise: the estimate may stay below the target.
    pub fn probe_bandwidth(&mut self, now: Instant, target: Rate) -> BandwidthProbe {
        if self.conn().possible_pacing_rate(target) < target {
            return BandwidthProbe::NotNow(NotNow::Limit);
        }
        let estimate = self.snapshot().send_rate_estimate();
        if estimate.is_some_and(|estimate| estimate >= target) {
            return BandwidthProbe::Reached;
        }
        let is_fixed = self.state() == State::Fixed;
        if self.conn().srtt().is_none() && !is_fixed {
            return BandwidthProbe::NotNow(NotNow::NoRoundTrip);
        }
        match self.request_probe(now) {
            Ok(()) => BandwidthProbe::Probing,
            Err(reason) => BandwidthProbe::NotNow(reason),
        }
    }
}
