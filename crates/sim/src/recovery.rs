//! When is a packet lost? RFC 9002 section 6, as far as it is arithmetic.

use fullpipe_cc::Duration;

use crate::{MAX_ACK_DELAY, TIMER_GRANULARITY};

/// kPacketThreshold, section 6.1.1.
pub(crate) const PACKET_THRESHOLD: u64 = 3;
/// kPersistentCongestionThreshold, section 7.6.1.
const PERSISTENT_CONGESTION_THRESHOLD: u64 = 3;
/// kInitialRtt, section 6.2.2.
const INITIAL_RTT: Duration = Duration::from_millis(333);

/// The round-trip estimator, section 5.
#[derive(Clone, Debug, Default)]
pub(crate) struct Rtt {
    latest: Duration,
    smoothed: Option<Duration>,
    variation: Duration,
    min: Duration,
}

impl Rtt {
    pub(crate) fn update(&mut self, latest: Duration, ack_delay: Duration) {
        self.latest = latest;
        let Some(smoothed) = self.smoothed else {
            self.smoothed = Some(latest);
            self.variation = Duration::from_nanos(latest.as_nanos() / 2);
            self.min = latest;
            return;
        };
        self.min = self.min.min(latest);
        let ack_delay = ack_delay.min(MAX_ACK_DELAY);
        let adjusted = if latest >= self.min + ack_delay { latest - ack_delay } else { latest };
        let off = smoothed.as_nanos().abs_diff(adjusted.as_nanos());
        self.variation = Duration::from_nanos((3 * self.variation.as_nanos() + off) / 4);
        self.smoothed =
            Some(Duration::from_nanos((7 * smoothed.as_nanos() + adjusted.as_nanos()) / 8));
    }

    /// The time threshold of section 6.1.2: 9/8 of the larger of smoothed and latest RTT.
    pub(crate) fn loss_delay(&self) -> Duration {
        let rtt = self.smoothed.unwrap_or(INITIAL_RTT).max(self.latest);
        Duration::from_nanos(rtt.as_nanos() / 8 * 9).max(TIMER_GRANULARITY)
    }

    /// The probe timeout of section 6.2.1.
    pub(crate) fn pto(&self) -> Duration {
        match self.smoothed {
            Some(smoothed) => {
                smoothed + self.variation.times(4).max(TIMER_GRANULARITY) + MAX_ACK_DELAY
            }
            None => INITIAL_RTT.times(2) + MAX_ACK_DELAY,
        }
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
        let mut rtt = Rtt::default();
        assert_eq!(rtt.pto(), Duration::from_millis(691));
        for _ in 0..200 {
            rtt.update(Duration::from_millis(40), Duration::ZERO);
        }
        assert_eq!(rtt.loss_delay(), Duration::from_millis(45));
        assert_eq!(rtt.pto(), Duration::from_millis(40 + 1 + 25));
    }

    #[test]
    fn the_acknowledgement_delay_is_taken_off_but_never_below_the_minimum() {
        let mut rtt = Rtt::default();
        rtt.update(Duration::from_millis(40), Duration::ZERO);
        rtt.update(Duration::from_millis(48), Duration::from_millis(8));
        assert_eq!(rtt.smoothed, Some(Duration::from_millis(40)));
        rtt.update(Duration::from_millis(48), Duration::from_millis(20));
        assert_eq!(rtt.smoothed, Some(Duration::from_millis(41)), "48 - 20 would be below 40");
    }
}
