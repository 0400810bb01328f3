//! The pacer: turns a rate into departure times.
//!
//! A bucket of credit in bytes that fills at the pacing rate. Its depth is the stated bound on a
//! burst: the send quantum, or what the rate gives in 2 ms or a quarter of the shortest round trip,
//! whichever of the two is shorter, if that is more than the quantum. A timer that comes
//! late by less than that loses nothing; one that comes later loses rate rather than sending a
//! larger burst. Fractions of a byte are carried over, so the long-run rate is never exceeded, and
//! a packet that was sent without credit (a probe, say) is paid for by those after it.
//!
//! draft-ietf-ccwg-bbr, "Pacing Rate: C.pacing_rate". The draft keeps a departure time instead of
//! credit, which is the same with a depth of zero: then every late timer lowers the rate.

use crate::units::{Duration, Instant, NANOS_PER_SEC, Rate};

/// A burst is no longer than this part of the shortest round trip. A window's worth of credit would
/// let the whole window leave at once, however exact the timers are.
///
/// Measured with the simulator, 1 Gbit/s, 1 ms, data for 20 ms and none for 5 ms, bbr3 with 2 ms of credit and with this
/// bound: 1.8 and 0.2 % lost behind a buffer of one BDP, 5.2 and 1.1 % behind 0.4 BDP. Behind two BDP, where a window
/// fits, the bound costs 5 % of goodput.
const MIN_RTT_DIVISOR: u64 = 4;

#[derive(Clone, Debug)]
pub(crate) struct Pacer {
    rate: Rate,
    /// The most credit that can be kept, in bytes: the largest burst.
    depth: u64,
    /// The send quantum that `depth` was made with.
    quantum: u64,
    /// Bytes that may leave now; negative after a packet that was not waited for.
    credit: i64,
    updated: Instant,
    /// Credit under one byte, in bytes times nanoseconds per second.
    fraction: u32,
    /// Largest timer delay without loss of rate, in nanoseconds.
    granularity: u32,
}

impl Pacer {
    pub(crate) fn new(now: Instant, granularity: Duration, rate: Rate, quantum: u64) -> Self {
        let mut pacer = Self {
            rate: Rate::ZERO,
            depth: 0,
            quantum: 0,
            credit: i64::MAX,
            fraction: 0,
            updated: now,
            granularity: u32::try_from(granularity.as_nanos()).unwrap_or(u32::MAX),
        };
        pacer.set_rate(now, rate, quantum, || Duration::MAX);
        pacer
    }

    /// The largest burst that can pass, in bytes.
    pub(crate) fn burst_bound(&self) -> u64 {
        self.depth
    }

    /// Paces at `rate` from now on. Credit earned so far stays, up to the new depth. A new `min_rtt`
    /// alone, the shortest round trip, changes nothing before the rate or the quantum do.
    #[inline]
    pub(crate) fn set_rate(
        &mut self,
        now: Instant,
        rate: Rate,
        quantum: u64,
        min_rtt: impl FnOnce() -> Duration,
    ) {
        let rate = rate.max(Rate::from_bytes_per_sec(1));
        // The depth follows from the two, and the credit is within it.
        if rate != self.rate || quantum != self.quantum {
            self.change_rate(now, rate, quantum, min_rtt());
        }
    }

    fn change_rate(&mut self, now: Instant, rate: Rate, quantum: u64, min_rtt: Duration) {
        if rate != self.rate {
            self.refill(now);
            self.rate = rate;
        }
        self.quantum = quantum;
        let part = Duration::from_nanos(min_rtt.as_nanos() / MIN_RTT_DIVISOR);
        let credit = self.rate.bytes_in(part.min(Duration::from_nanos(self.granularity.into())));
        self.depth = credit.max(quantum).min(i64::MAX as u64);
        self.credit = self.credit.min(self.depth as i64);
    }

    #[inline]
    fn refill(&mut self, now: Instant) {
        let elapsed = now.since(self.updated);
        if elapsed == Duration::ZERO {
            return;
        }
        self.updated = now;
        // The credit is never above the depth, so that the difference is exact in 64 bits.
        let missing = self.depth.wrapping_sub(self.credit as u64);
        let rate = self.rate.as_bytes_per_sec();
        match rate.checked_mul(elapsed.as_nanos()).and_then(|p| p.checked_add(self.fraction.into()))
        {
            Some(earned) if earned / NANOS_PER_SEC < missing => {
                self.credit += (earned / NANOS_PER_SEC) as i64;
                self.fraction = (earned % NANOS_PER_SEC) as u32;
            }
            // Full. The product overflows only after more than the time that fills any bucket.
            _ => {
                self.credit = self.depth as i64;
                self.fraction = 0;
            }
        }
    }

    /// Bytes that may leave now; zero when not even `packet` bytes may.
    #[inline]
    pub(crate) fn available(&mut self, now: Instant, packet: u64) -> u64 {
        self.refill(now);
        let credit = self.credit.max(0) as u64;
        // A packet larger than the bucket leaves when the bucket is full.
        if credit >= packet.min(self.depth) { credit.max(packet) } else { 0 }
    }

    /// The time at which the credit will reach `packet` bytes, as of the newest call of [`Self::available`].
    pub(crate) fn ready_at(&self, packet: u64) -> Instant {
        let wanted = packet.min(self.depth) as i64;
        let missing = wanted.saturating_sub(self.credit).max(0) as u64;
        let rate = self.rate.as_bytes_per_sec();
        let wait = match missing.checked_mul(NANOS_PER_SEC) {
            Some(p) => Duration::from_nanos(p.saturating_sub(self.fraction.into()).div_ceil(rate)),
            None => self.rate.time_for(missing),
        };
        self.updated + wait
    }

    /// Takes the credit of a packet that leaves now.
    #[inline]
    pub(crate) fn on_sent(&mut self, now: Instant, bytes: u64) {
        self.refill(now);
        self.credit = self.credit.saturating_sub(i64::try_from(bytes).unwrap_or(i64::MAX));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::CREDIT_TIME;
    use proptest::prelude::*;

    const PACKET: u64 = 1_200;

    fn sent_by(rate: Rate, lateness: impl Fn(u64) -> Duration, span: Duration) -> u64 {
        let start = Instant::from_nanos(3);
        let mut pacer = Pacer::new(start, CREDIT_TIME, rate, 2 * PACKET);
        let (mut now, mut sent, mut n) = (start, 0, 0);
        while now.since(start) < span {
            while pacer.available(now, PACKET) >= PACKET {
                pacer.on_sent(now, PACKET);
                sent += PACKET;
            }
            n += 1;
            now = pacer.ready_at(PACKET) + lateness(n);
        }
        sent
    }

    /// W3: a pacer that keeps no credit lets a late timer cap the rate.
    #[test]
    fn a_timer_late_by_less_than_the_credit_costs_no_rate() {
        let (rate, span) = (Rate::from_bits_per_sec(100_000_000), Duration::from_secs(2));
        for late_us in [0, 50, 500, 1_500] {
            let sent = sent_by(rate, |n| Duration::from_micros(late_us * (n % 2)), span);
            let allowed = rate.bytes_in(span);
            assert!(sent > allowed - allowed / 1000, "{late_us} us late: {sent} of {allowed}");
        }
    }

    /// Later than the credit: rate is lost, and no burst makes up for it.
    #[test]
    fn a_timer_late_by_more_than_the_credit_loses_rate() {
        let (rate, span) = (Rate::from_bits_per_sec(100_000_000), Duration::from_secs(2));
        let sent = sent_by(rate, |_| Duration::from_millis(4), span);
        assert!(sent < rate.bytes_in(span) * 3 / 5, "{sent}");
    }

    #[test]
    fn a_small_packet_costs_its_own_size() {
        let start = Instant::from_nanos(1);
        let mut pacer =
            Pacer::new(start, CREDIT_TIME, Rate::from_bytes_per_sec(1_000_000), 2 * PACKET);
        let burst = pacer.burst_bound();
        let mut sent = 0;
        while pacer.available(start, 40) >= 40 && sent < 10 * burst {
            pacer.on_sent(start, 40);
            sent += 40;
        }
        assert_eq!(sent, burst / 40 * 40);
    }

    proptest! {
        /// Over any window that starts anywhere, what leaves is at most the bound plus the rate.
        #[test]
        fn no_window_passes_more_than_the_bound_and_the_rate(
            rate in 1_000u64..50_000_000_000,
            steps in prop::collection::vec((0u64..5_000_000, 1u64..3_000), 1..200),
        ) {
            let rate = Rate::from_bytes_per_sec(rate);
            let mut now = Instant::from_nanos(1_000);
            let mut pacer = Pacer::new(now, CREDIT_TIME, rate, 2 * PACKET);
            let bound = pacer.burst_bound();
            let mut log: std::vec::Vec<(Instant, u64)> = std::vec::Vec::new();
            for (gap, bytes) in steps {
                now += Duration::from_nanos(gap);
                let packet = bytes.min(bound);
                if pacer.available(now, packet) >= packet {
                    pacer.on_sent(now, packet);
                    log.push((now, packet));
                }
            }
            for (i, (start, _)) in log.iter().enumerate() {
                let mut total = 0;
                for (at, bytes) in &log[i..] {
                    total += bytes;
                    let allowed = bound + rate.bytes_in(at.since(*start)) + 1;
                    prop_assert!(total <= allowed, "{total} in {:?}, allowed {allowed}", at.since(*start));
                }
            }
        }
    }
}
