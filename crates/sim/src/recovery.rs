//! Loss detection: the arithmetic of RFC 9002 section 6.

use fullpipe_cc::{Duration, Instant};

use crate::TIMER_GRANULARITY;

/// kPacketThreshold, section 6.1.1.
const PACKET_THRESHOLD: u64 = 3;
/// kPersistentCongestionThreshold, section 7.6.1.
const PERSISTENT_CONGESTION_THRESHOLD: u64 = 3;
/// kInitialRtt, section 6.2.2.
const INITIAL_RTT: Duration = Duration::from_millis(333);

/// Thresholds for the loss of a packet when a later one was acknowledged first: a number of
/// packets, or a time since its departure.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Wait {
    pub(crate) packets: u64,
    pub(crate) time: Duration,
}

/// The round-trip estimator, section 5.
///
/// The order in memory is that of use, as in [`crate::Flow`].
#[derive(Clone, Debug)]
#[repr(C)]
pub(crate) struct Rtt {
    /// Made anew with each sample, asked for with each packet.
    pto: Duration,
    pub(crate) latest: Option<Duration>,
    smoothed: Option<Duration>,
    variation: Duration,
    min: Duration,
    /// The peer's max_ack_delay.
    max_ack_delay: Duration,
    /// The time of the first sample.
    pub(crate) first_sample: Option<Instant>,
}

impl Rtt {
    pub(crate) fn new(max_ack_delay: Duration) -> Self {
        Self {
            latest: None,
            first_sample: None,
            smoothed: None,
            variation: Duration::ZERO,
            min: Duration::ZERO,
            max_ack_delay,
            // Section 6.2.2: half of it is the variation, which makes the first timeout a second.
            pto: INITIAL_RTT.times(3) + max_ack_delay,
        }
    }

    /// The shortest round trip so far; zero before the first.
    pub(crate) fn min(&self) -> Duration {
        self.min
    }

    /// The smoothed round-trip time, or what stands for it before the first sample.
    #[inline]
    pub(crate) fn smoothed(&self) -> Duration {
        self.smoothed.unwrap_or(INITIAL_RTT)
    }

    /// The smoothed round-trip time and its variation, after the first sample.
    pub(crate) fn estimate(&self) -> Option<(Duration, Duration)> {
        self.smoothed.map(|smoothed| (smoothed, self.variation))
    }

    /// A new sample, and how long its ACK was held back. The probe timeout follows section 6.2.1.
    pub(crate) fn update(&mut self, now: Instant, latest: Duration, ack_delay: Duration) {
        self.latest = Some(latest);
        let smoothed = match self.smoothed {
            None => {
                self.first_sample = Some(now);
                self.variation = Duration::from_nanos(latest.as_nanos() / 2);
                self.min = latest;
                latest
            }
            Some(smoothed) => {
                self.min = self.min.min(latest);
                let ack_delay = ack_delay.min(self.max_ack_delay);
                let adjusted =
                    if latest >= self.min + ack_delay { latest - ack_delay } else { latest };
                let off = smoothed.as_nanos().abs_diff(adjusted.as_nanos());
                self.variation = Duration::from_nanos((3 * self.variation.as_nanos() + off) / 4);
                Duration::from_nanos((7 * smoothed.as_nanos() + adjusted.as_nanos()) / 8)
            }
        };
        self.smoothed = Some(smoothed);
        self.pto = smoothed + self.variation.times(4).max(TIMER_GRANULARITY) + self.max_ack_delay;
    }

    /// The samples of a TCP ACK: the round trip of its oldest segment, which the smoothed one and
    /// the timeout are made of, and that of its newest, which is the latest and the shortest.
    pub(crate) fn update_of_ack(&mut self, now: Instant, oldest: Duration, newest: Duration) {
        self.update(now, oldest, Duration::ZERO);
        self.latest = Some(newest);
        self.min = self.min.min(newest);
    }

    /// The time threshold of section 6.1.2: 9/8 of the larger of smoothed and latest RTT.
    fn loss_delay(&self) -> Duration {
        let smoothed = self.smoothed();
        let rtt = self.latest.map_or(smoothed, |latest| latest.max(smoothed));
        Duration::from_nanos(rtt.as_nanos() / 8 * 9).max(TIMER_GRANULARITY)
    }

    /// The thresholds of section 6.1.
    pub(crate) fn threshold(&self) -> Wait {
        Wait { packets: PACKET_THRESHOLD, time: self.loss_delay() }
    }

    /// The probe timeout of section 6.2.1.
    #[inline]
    pub(crate) fn pto(&self) -> Duration {
        self.pto
    }

    /// The time after its departure for which a packet marked lost may still arrive: longer than
    /// the span of losses that is persistent congestion, so that a false verdict of it can be
    /// detected.
    pub(crate) fn horizon(&self) -> Duration {
        self.pto().times(2 * PERSISTENT_CONGESTION_THRESHOLD + 2)
    }

    /// The span of losses that is persistent congestion, section 7.6.1.
    pub(crate) fn persistent_congestion(&self) -> Duration {
        self.pto().times(PERSISTENT_CONGESTION_THRESHOLD)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_steady_rtt_is_its_own_estimate() {
        let mut rtt = Rtt::new(crate::MAX_ACK_DELAY);
        assert_eq!(rtt.pto(), Duration::from_millis(999 + 25));
        for _ in 0..200 {
            rtt.update(Instant::default(), Duration::from_millis(40), Duration::ZERO);
        }
        assert_eq!(rtt.loss_delay(), Duration::from_millis(45));
        assert_eq!(rtt.pto(), Duration::from_millis(40 + 1 + 25));
    }

    #[test]
    fn the_acknowledgement_delay_is_taken_off_but_never_below_the_minimum() {
        let mut rtt = Rtt::new(crate::MAX_ACK_DELAY);
        rtt.update(Instant::default(), Duration::from_millis(40), Duration::ZERO);
        rtt.update(Instant::default(), Duration::from_millis(48), Duration::from_millis(8));
        assert_eq!(rtt.smoothed, Some(Duration::from_millis(40)));
        rtt.update(Instant::default(), Duration::from_millis(48), Duration::from_millis(20));
        assert_eq!(rtt.smoothed, Some(Duration::from_millis(41)), "48 - 20 would be below 40");
    }
}
