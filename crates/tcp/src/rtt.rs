//! The round-trip estimator and the retransmission timeout of RFC 6298.

use fullpipe_cc::Duration;

/// The timeout before the first sample, section 2.1.
const INITIAL_RTO: Duration = Duration::from_secs(1);
/// The timeout for data after a SYN was repeated, section 5.7.
const RTO_AFTER_LOST_SYN: Duration = Duration::from_secs(3);
/// The longest timeout: Linux's TCP_RTO_MAX; section 2.5 allows 60 s and more.
pub(crate) const MAX_RTO: Duration = Duration::from_secs(120);
/// True if an answer may have taken so long. What has waited for longer than the longest timeout
/// was sent again meanwhile, unless the clock has jumped or the host has slept.
pub(crate) fn is_round_trip(time: Duration) -> bool {
    time <= MAX_RTO
}

/// The most doublings of a timeout.
const MAX_BACKOFF: u32 = 16;

#[derive(Debug)]
pub(crate) struct Rtt {
    /// SRTT and RTTVAR, after the first sample.
    estimate: Option<(Duration, Duration)>,
    min: Option<Duration>,
    latest: Option<Duration>,
    samples: u64,
    rto_min: Duration,
    initial: Duration,
    backoff: u32,
}

impl Rtt {
    /// `rto_min` is the least that RTTVAR's part of the timeout may be, as Linux bounds it.
    pub(crate) fn new(rto_min: Duration) -> Self {
        Self {
            estimate: None,
            min: None,
            latest: None,
            samples: 0,
            rto_min,
            initial: INITIAL_RTO,
            backoff: 0,
        }
    }

    pub(crate) fn smoothed(&self) -> Option<Duration> {
        self.estimate.map(|(smoothed, _)| smoothed)
    }

    pub(crate) fn variation(&self) -> Option<Duration> {
        self.estimate.map(|(_, variation)| variation)
    }

    /// The shortest round trip so far.
    pub(crate) fn min(&self) -> Option<Duration> {
        self.min
    }

    /// The newest sample, and how many there were.
    pub(crate) fn newest(&self) -> (Option<Duration>, u64) {
        (self.latest, self.samples)
    }

    /// The sample of one ACK.
    pub(crate) fn on_ack(&mut self, sample: Duration) {
        self.latest = Some(sample);
        self.samples += 1;
    }

    /// A sample for SRTT and RTTVAR, section 2.
    pub(crate) fn update(&mut self, sample: Duration) {
        if !is_round_trip(sample) {
            return;
        }
        self.note(sample);
        self.estimate = Some(match self.estimate {
            None => (sample, Duration::from_nanos(sample.as_nanos() / 2)),
            Some((smoothed, variation)) => {
                let off = smoothed.as_nanos().abs_diff(sample.as_nanos());
                let variation = Duration::from_nanos(
                    (variation.as_nanos().saturating_mul(3).saturating_add(off)) / 4,
                );
                let sum = smoothed.as_nanos().saturating_mul(7).saturating_add(sample.as_nanos());
                (Duration::from_nanos(sum / 8), variation)
            }
        });
    }

    /// A sample that only the shortest round trip follows.
    pub(crate) fn note(&mut self, sample: Duration) {
        self.min = Some(self.min.map_or(sample, |min| min.min(sample)));
    }

    /// A SYN was repeated: section 5.7.
    pub(crate) fn on_lost_syn(&mut self) {
        self.initial = RTO_AFTER_LOST_SYN;
    }

    /// RTO without its doublings, section 2.3.
    pub(crate) fn base(&self) -> Duration {
        let Some((smoothed, variation)) = self.estimate else { return self.initial };
        (smoothed + variation.times(4).max(self.rto_min)).min(MAX_RTO)
    }

    /// RTO.
    pub(crate) fn timeout(&self) -> Duration {
        self.base().times(1 << self.backoff).min(MAX_RTO)
    }

    /// The number of times that RTO was doubled since a sample.
    pub(crate) fn backoff(&self) -> u32 {
        self.backoff
    }

    /// The timer fired: section 5.5.
    pub(crate) fn back_off(&mut self) {
        self.backoff = (self.backoff + 1).min(MAX_BACKOFF);
    }

    /// There is a sample: the timeout follows it.
    pub(crate) fn reset_backoff(&mut self) {
        self.backoff = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    /// RFC 6298 sections 2.1 to 2.5 and 5.5.
    #[test]
    fn the_timeout_follows_the_rfc() {
        let mut rtt = Rtt::new(MS.times(200));
        assert_eq!(rtt.timeout(), MS.times(1000));
        rtt.update(MS.times(40));
        assert_eq!((rtt.smoothed(), rtt.variation()), (Some(MS.times(40)), Some(MS.times(20))));
        assert_eq!(rtt.timeout(), MS.times(240), "four variations are below the minimum");
        rtt.update(MS.times(440));
        // RTTVAR = (3 x 20 + 400) / 4 = 115 ms, SRTT = (7 x 40 + 440) / 8 = 90 ms.
        assert_eq!(rtt.timeout(), MS.times(90 + 4 * 115));
        rtt.back_off();
        rtt.back_off();
        assert_eq!(rtt.timeout(), MS.times(4 * 550));
        for _ in 0..40 {
            rtt.back_off();
        }
        assert_eq!(rtt.timeout(), MAX_RTO);
        rtt.reset_backoff();
        assert_eq!(rtt.timeout(), MS.times(550));
    }

    /// RFC 6298 section 5.7.
    #[test]
    fn a_repeated_syn_makes_the_first_timeout_longer() {
        let mut rtt = Rtt::new(MS.times(200));
        rtt.on_lost_syn();
        assert_eq!(rtt.timeout(), MS.times(3000));
    }
}
