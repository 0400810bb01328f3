//! The round trip without a queue, and when ProbeRTT is due, "ProbeRTT Logic".

use super::params::{MIN_RTT_FILTER_LEN, PROBE_RTT_INTERVAL, SHORT_RTT_SHIFT};
use crate::units::{Duration, Instant};

/// BBR.min_rtt and BBR.probe_rtt_min_delay, with the ends of their windows.
#[derive(Clone, Debug)]
pub(crate) struct MinRtt {
    /// BBR.min_rtt; [`Duration::MAX`] before a sample.
    pub(super) min: Duration,
    /// BBR.min_rtt_stamp + BBR.MinRTTFilterLen: the moment is compared with each ACK's.
    pub(super) min_expiry: Instant,
    /// BBR.probe_rtt_min_delay.
    pub(super) probe_min_delay: Duration,
    /// BBR.probe_rtt_min_stamp + BBR.ProbeRTTInterval; never before the first sample.
    pub(super) probe_expiry: Instant,
    /// BBR.probe_rtt_expired: that moment was past at the newest ACK.
    pub(super) probe_expired: bool,
    /// A round trip is measured, and the initial pacing rate is made of it.
    pub(super) is_measured: bool,
}

impl MinRtt {
    /// "BBR.min_rtt = C.srtt ? C.srtt : Infinity", where `srtt` is the handshake's.
    pub(super) fn new(now: Instant, srtt: Option<Duration>) -> Self {
        let rtt = srtt.unwrap_or(Duration::MAX);
        Self {
            min: rtt,
            min_expiry: now + MIN_RTT_FILTER_LEN,
            probe_min_delay: rtt,
            probe_expiry: srtt.map_or(Instant::MAX, |_| now + PROBE_RTT_INTERVAL),
            probe_expired: false,
            is_measured: srtt.is_some(),
        }
    }
}

/// True if `rtt` is as good as `least`: at most 1/32 above it.
pub(super) const fn is_short(rtt: Duration, least: Duration) -> bool {
    rtt.as_nanos() <= longest_short(least)
}

/// The longest RTT in nanoseconds that is short.
pub(super) const fn longest_short(least: Duration) -> u64 {
    let least = least.as_nanos();
    least.saturating_add(least >> SHORT_RTT_SHIFT)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_round_trip_is_short_up_to_a_thirty_second_more() {
        let us = Duration::from_micros;
        assert!(is_short(us(33_000), us(32_000)) && !is_short(us(33_001), us(32_000)));
        assert!(is_short(us(1), us(32_000)));
    }

    /// ProbeRTT measures nothing before there is something to compare with.
    #[test]
    fn no_probe_rtt_is_due_before_the_first_sample() {
        let now = Instant::from_nanos(5);
        let of = |srtt| MinRtt::new(now, srtt);
        let (none, some) = (of(None), of(Some(Duration::from_millis(40))));
        assert_eq!((none.min, none.probe_expiry), (Duration::MAX, Instant::MAX));
        assert!(!none.is_measured && some.is_measured);
        assert_eq!(some.probe_expiry, now + PROBE_RTT_INTERVAL);
        assert_eq!(some.min_expiry, now + MIN_RTT_FILTER_LEN);
    }
}
