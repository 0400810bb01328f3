//! The pacer: turns a rate into departure times.
//!
//! A bucket of credit in bytes that fills at the pacing rate. Its depth is the stated bound on a
//! burst, the largest of three:
//!
//! - the send quantum, at least two packets: at low rates that is more than the times below give;
//! - what the rate gives in [`crate::Config::pacing_granularity`], 2 ms unless the transport says
//!   otherwise, or in a quarter of the shortest round trip if that is shorter;
//! - what the rate gives in the lateness of this host, or in [`MAX_LATENESS`] if that is shorter:
//!   up to [`LATE_PACKETS`] whatever the round trip is, and above that in no more than half of the
//!   shortest round trip.
//!
//! A timer that comes late by less than the depth loses nothing; one that comes later loses rate
//! rather than sending a larger burst. Fractions of a byte are carried over, so the long-run rate
//! is never exceeded, and a packet that was sent without credit (a probe, say) is paid for by those
//! after it.
//!
//! The lateness is measured: the pacer knows when it allowed a packet and when the transport came
//! for it. A host with timers of 15.6 ms, or one whose CPU is busy, needs the credit of its own
//! delay, or each late timer lowers the rate; the bandwidth that BBR then measures is that lower
//! rate, the next pacing rate follows from it, and the flow ends at a few percent of the link.
//!
//! draft-ietf-ccwg-bbr, "Pacing Rate: C.pacing_rate". The draft keeps a departure time instead of
//! credit, which is the same with a depth of zero: then every late timer lowers the rate.

use crate::units::{Duration, Instant, NANOS_PER_SEC, Rate};

/// A burst is no longer than this part of the shortest round trip. A window's worth of credit would
/// let the whole window leave at once, however exact the timers are.
///
/// Measured with the simulator, 1 Gbit/s, 1 ms, data for 20 ms and none for 5 ms, bbr3 with 2 ms of
/// credit and with this bound: 1.8 and 0.2 % lost behind a buffer of one BDP, 5.2 and 1.1 % behind
/// 0.4 BDP. Behind two BDP, where a window fits, the bound costs 5 % of goodput.
const MIN_RTT_DIVISOR: u64 = 4;

/// A late host's burst is no longer than this part of the shortest round trip: half of a BDP. It
/// sends in bursts in any case, and a flow with less credit than its lateness loses rate.
const LATE_MIN_RTT_DIVISOR: u64 = 2;

/// A late host may send so many packets at once on a short path too, as RFC 9002 section 7.7 allows
/// any sender: the initial window. Half of a BDP is only as much as the flow believes, and a flow
/// that believes in too low a rate would never get the credit to see a higher one.
///
/// Measured with the simulator, 200 Mbit/s, 3 ms, a buffer of 0.2 BDP, a host up to 5 ms late:
/// bbr3x has 40.1 Mbit/s with it and 10.5 without, bbr3 40.7 and 34.2.
const LATE_PACKETS: u64 = 10;
/// And no more bytes than these, or two packets: RFC 9002 section 7.2.
const LATE_BYTES: u64 = 14_720;

/// The longest lateness that is made up for. Longer than the 15.6 ms of a coarse timer.
const MAX_LATENESS: Duration = Duration::from_millis(20);

/// The kept lateness falls by 1/2^this with each timer that comes earlier, so that the longest one
/// of about the last 64 waits counts. The mean would leave half of the waits without credit.
const LATENESS_DECAY_SHIFT: u32 = 6;

/// Of the path and its packets, as far as they bound a burst.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BurstLimits {
    /// The shortest round trip; [`Duration::MAX`] before there was one.
    pub(crate) min_rtt: Duration,
    /// A full packet, in bytes.
    pub(crate) smss: u64,
    /// Timer delay that costs no rate before any was measured, in nanoseconds.
    pub(crate) granularity: u32,
}

impl BurstLimits {
    /// The time in nanoseconds for which an exact host has credit.
    #[inline]
    fn exact(&self) -> u32 {
        (self.min_rtt.as_nanos() / MIN_RTT_DIVISOR).min(self.granularity.into()) as u32
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Pacer {
    rate: Rate,
    /// The most credit that can be kept, in bytes: the largest burst.
    depth: u64,
    /// The send quantum that `depth` was made with: 32 bits hold two of the largest packets.
    quantum: u32,
    /// Bytes that may leave now; negative after a packet that was not waited for.
    credit: i64,
    updated: Instant,
    /// Credit under one byte, in bytes times nanoseconds per second.
    fraction: u32,
    /// [`BurstLimits::exact`] that `depth` was made with.
    exact: u32,
    /// Lateness of this host, in nanoseconds: the longest of the recent waits.
    lateness: u32,
    /// The time that the transport was told to come at; [`Instant::MAX`] without one.
    due: Instant,
}

impl Pacer {
    pub(crate) fn new(now: Instant, rate: Rate, quantum: u64, limits: BurstLimits) -> Self {
        let mut pacer = Self {
            rate: Rate::ZERO,
            depth: 0,
            quantum: 0,
            credit: i64::MAX,
            fraction: 0,
            updated: now,
            exact: 0,
            lateness: 0,
            due: Instant::MAX,
        };
        pacer.set_rate(now, rate, quantum, limits);
        pacer
    }

    /// The largest burst that can pass, in bytes.
    pub(crate) fn burst_bound(&self) -> u64 {
        self.depth
    }

    /// Paces at `rate` from now on. Credit earned so far stays, up to the new depth.
    #[inline]
    pub(crate) fn set_rate(&mut self, now: Instant, rate: Rate, quantum: u64, limits: BurstLimits) {
        // The depth follows from the three, and the credit is within it.
        let is_same = rate == self.rate && quantum == u64::from(self.quantum);
        if !is_same || limits.exact() != self.exact {
            self.change_rate(now, rate, quantum, limits);
        }
    }

    fn change_rate(&mut self, now: Instant, rate: Rate, quantum: u64, limits: BurstLimits) {
        let rate = rate.max(Rate::from_bytes_per_sec(1));
        if rate != self.rate {
            self.refill(now);
            self.rate = rate;
        }
        self.quantum = u32::try_from(quantum).unwrap_or(u32::MAX);
        self.renew_depth(limits);
    }

    #[inline]
    fn renew_depth(&mut self, limits: BurstLimits) {
        self.exact = limits.exact();
        let mut credit = self.rate.bytes_in(Duration::from_nanos(self.exact.into()));
        if self.lateness != 0 {
            credit = credit.max(self.credit_for_lateness(limits));
        }
        self.depth = credit.max(self.quantum.into()).min(i64::MAX as u64);
        self.credit = self.credit.min(self.depth as i64);
    }

    #[cold]
    fn credit_for_lateness(&self, limits: BurstLimits) -> u64 {
        let min_rtt = limits.min_rtt.as_nanos();
        let late = (min_rtt / LATE_MIN_RTT_DIVISOR).min(self.lateness.into());
        let credit = self.rate.bytes_in(Duration::from_nanos(late));
        if self.lateness <= self.exact {
            return credit;
        }
        // And the packet that was waited for.
        let missed = self.rate.bytes_in(Duration::from_nanos(self.lateness.into()));
        let initial_window = (LATE_PACKETS * limits.smss).min(LATE_BYTES.max(2 * limits.smss));
        credit.max((missed + limits.smss).min(initial_window))
    }

    /// The transport was told to come back at `due` for a packet that the pacer held back.
    #[inline]
    pub(crate) fn expect(&mut self, due: Instant) {
        self.due = due;
    }

    /// Something else than the pacer holds the next packet back: its wait says nothing about
    /// timers.
    #[inline]
    pub(crate) fn expect_nothing(&mut self) {
        self.due = Instant::MAX;
    }

    /// The transport comes for a packet `now`, which may be after the time that it was told.
    #[inline]
    pub(crate) fn note_arrival(&mut self, now: Instant, limits: impl FnOnce() -> BurstLimits) {
        if now >= self.due {
            let late = now.since(self.due).min(MAX_LATENESS).as_nanos() as u32;
            self.due = Instant::MAX;
            // An exact timer on a host that never was late.
            if late | self.lateness != 0 {
                self.note_lateness(late, limits());
            }
        }
    }

    /// The depth is renewed before the bucket is filled, so that the wait that just ended gives all
    /// the credit that it earned.
    #[cold]
    fn note_lateness(&mut self, late: u32, limits: BurstLimits) {
        let kept = self.lateness - (self.lateness >> LATENESS_DECAY_SHIFT);
        let before = core::mem::replace(&mut self.lateness, kept.max(late));
        // Within the credit of an exact host the lateness decides nothing. Beyond it the shortest
        // round trip does too, which may have become another since.
        if before.max(self.lateness) > limits.exact() {
            self.renew_depth(limits);
        }
    }

    /// The clock is before the newest time. A transport may read it before it processes an ACK, and
    /// is a little behind then. More than [`MAX_LATENESS`] is a step of the clock, and the credit is
    /// counted from there.
    #[cold]
    fn step_back(&mut self, now: Instant) {
        if self.updated.since(now) > MAX_LATENESS {
            self.updated = now;
        }
    }

    #[inline]
    fn refill(&mut self, now: Instant) {
        if now <= self.updated {
            if now < self.updated {
                self.step_back(now);
            }
            return;
        }
        let elapsed = now.since(self.updated);
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

    /// The credit in bytes, if `packet` bytes may leave now. A packet larger than the bucket leaves
    /// when the bucket is full.
    #[inline]
    pub(crate) fn available(&mut self, now: Instant, packet: u64) -> Option<u64> {
        self.refill(now);
        let credit = self.credit.max(0) as u64;
        (credit >= packet.min(self.depth)).then_some(credit)
    }

    /// The time at which the credit will reach `packet` bytes, as of the newest call of
    /// [`Self::available`].
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
mod oracle;
#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::CREDIT_TIME;
    use proptest::prelude::*;

    const PACKET: u64 = 1_200;
    const LIMITS: BurstLimits = BurstLimits {
        min_rtt: Duration::MAX,
        smss: PACKET,
        granularity: CREDIT_TIME.as_nanos() as u32,
    };

    fn new(now: Instant, rate: Rate) -> Pacer {
        Pacer::new(now, rate, 2 * PACKET, LIMITS)
    }

    fn sent_by(rate: Rate, lateness: impl Fn(u64) -> Duration, span: Duration) -> u64 {
        let start = Instant::from_nanos(3);
        let mut pacer = new(start, rate);
        let (mut now, mut sent, mut n) = (start, 0, 0);
        while now.since(start) < span {
            while pacer.available(now, PACKET).is_some() {
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

    /// Bytes that leave through a pacer that sees how late its host comes, and its largest burst.
    fn sent_by_a_late_host(rate: Rate, late: Duration, min_rtt: Duration) -> (u64, u64) {
        let start = Instant::from_nanos(3);
        let mut pacer = new(start, rate);
        let limits = BurstLimits { min_rtt, ..LIMITS };
        pacer.renew_depth(limits);
        let (mut now, mut sent, mut most, mut n) = (start, 0, 0, 0u64);
        while now.since(start) < Duration::from_secs(2) {
            pacer.note_arrival(now, || limits);
            let before = sent;
            while pacer.available(now, PACKET).is_some() {
                pacer.on_sent(now, PACKET);
                sent += PACKET;
            }
            most = most.max(sent - before);
            n += 1;
            let due = pacer.ready_at(PACKET);
            pacer.expect(due);
            // From 0 to `late`, in an order without a pattern.
            now = due + Duration::from_nanos(late.as_nanos() * (n * 37 % 101) / 100);
        }
        (sent, most)
    }

    #[test]
    fn a_host_s_own_lateness_costs_no_rate_up_to_a_bound() {
        let rate = Rate::from_bits_per_sec(100_000_000);
        let allowed = rate.bytes_in(Duration::from_secs(2));
        let min_rtt = Duration::from_millis(80);
        for late_ms in [1, 4, 8, 16, 20] {
            let late = Duration::from_millis(late_ms);
            let (sent, most) = sent_by_a_late_host(rate, late, min_rtt);
            assert!(sent > allowed * 98 / 100, "{late_ms} ms late: {sent} of {allowed}");
            let bound = rate.bytes_in(late.max(CREDIT_TIME)) + PACKET;
            assert!(most <= bound, "{late_ms} ms late: {most} at once, {bound}");
        }
        // Half of the round trip, and 20 ms, are the most that a burst may hold.
        let (sent, most) =
            sent_by_a_late_host(rate, Duration::from_millis(20), Duration::from_millis(8));
        assert!(sent < allowed * 7 / 10, "{sent} of {allowed}");
        assert!(most <= rate.bytes_in(Duration::from_millis(4)), "{most}");
        let (_, most) =
            sent_by_a_late_host(rate, Duration::from_millis(90), Duration::from_secs(1));
        assert!(most <= rate.bytes_in(MAX_LATENESS), "{most}");
    }

    /// On a short path the credit is less than the granularity, and a lateness below the granularity
    /// counts all the same.
    #[test]
    fn a_late_host_on_a_fast_short_path_keeps_its_rate() {
        let rate = Rate::from_bits_per_sec(3_000_000_000);
        let allowed = rate.bytes_in(Duration::from_secs(2));
        let (late, min_rtt) = (Duration::from_micros(900), Duration::from_millis(2));
        let (sent, most) = sent_by_a_late_host(rate, late, min_rtt);
        assert!(sent > allowed * 98 / 100, "{sent} of {allowed}");
        assert!(most <= rate.bytes_in(Duration::from_millis(1)) + PACKET, "{most}");
    }

    /// A sender whose clock steps goes on at its rate: it neither waits until the clock is back nor
    /// sends what the step would have earned.
    #[test]
    fn a_clock_that_steps_does_not_stall_the_pacer() {
        let rate = Rate::from_bits_per_sec(100_000_000);
        let span = Duration::from_millis(500);
        for (is_back, step_ms) in [(true, 1), (true, 50), (true, 10_000), (false, 10_000)] {
            let start = Instant::default() + Duration::from_secs(60);
            let step = Duration::from_millis(step_ms);
            let mut pacer = new(start, rate);
            let mut sent = [0; 2];
            let mut end = start;
            for (n, sent) in sent.iter_mut().enumerate() {
                let mut now = match (n, is_back) {
                    (0, _) => start,
                    (_, true) => end - step,
                    (_, false) => end + step,
                };
                end = now + span;
                while now < end {
                    while now < end && pacer.available(now, PACKET).is_some() {
                        pacer.on_sent(now, PACKET);
                        *sent += PACKET;
                    }
                    now = pacer.ready_at(PACKET).max(now);
                }
            }
            let least = rate.bytes_in(span - MAX_LATENESS);
            let most = rate.bytes_in(span) + pacer.burst_bound();
            assert!((least..=most).contains(&sent[1]), "{is_back} {step}: {sent:?} {least} {most}");
        }
    }

    /// Half of the BDP that a flow believes in is two packets here, of which a late host never sees
    /// more; ten packets let it see the path.
    #[test]
    fn a_late_host_on_a_short_path_keeps_a_low_rate() {
        let rate = Rate::from_bits_per_sec(12_000_000);
        let allowed = rate.bytes_in(Duration::from_secs(2));
        let (sent, most) =
            sent_by_a_late_host(rate, Duration::from_millis(5), Duration::from_millis(3));
        assert!(sent > allowed * 98 / 100, "{sent} of {allowed}");
        assert!(most <= LATE_PACKETS * PACKET, "{most}");
    }

    /// RFC 9002 section 7.2: an initial window is two packets where these are larger than 14,720
    /// bytes together.
    #[test]
    fn a_late_host_may_send_two_jumbo_packets_at_once() {
        let (rate, start) = (Rate::from_bits_per_sec(12_000_000), Instant::from_nanos(3));
        let limits = BurstLimits { min_rtt: Duration::from_millis(3), smss: 9_000, ..LIMITS };
        let mut pacer = Pacer::new(start, rate, 9_000, limits);
        pacer.expect(start);
        pacer.note_arrival(start + Duration::from_millis(10), || limits);
        assert_eq!(pacer.burst_bound(), 2 * 9_000);
    }

    /// A busy moment does not make bursts for ever.
    #[test]
    fn lateness_is_forgotten() {
        let limits = LIMITS;
        let (rate, start) = (Rate::from_bits_per_sec(100_000_000), Instant::from_nanos(3));
        let mut pacer = new(start, rate);
        let exact = pacer.burst_bound();
        pacer.expect(start);
        let mut now = start + Duration::from_millis(10);
        pacer.note_arrival(now, || limits);
        assert_eq!(pacer.burst_bound(), rate.bytes_in(Duration::from_millis(10)));
        for _ in 0..200 {
            pacer.expect(now);
            pacer.note_arrival(now, || limits);
            now += Duration::from_micros(100);
        }
        assert_eq!(pacer.burst_bound(), exact);
    }

    /// A wait that the pacer did not see is no lateness: credit beyond the granularity is lost.
    #[test]
    fn a_timer_late_by_more_than_the_credit_loses_rate() {
        let (rate, span) = (Rate::from_bits_per_sec(100_000_000), Duration::from_secs(2));
        let sent = sent_by(rate, |_| Duration::from_millis(4), span);
        assert!(sent < rate.bytes_in(span) * 3 / 5, "{sent}");
    }

    #[test]
    fn a_small_packet_costs_its_own_size() {
        let start = Instant::from_nanos(1);
        let mut pacer = new(start, Rate::from_bytes_per_sec(1_000_000));
        let burst = pacer.burst_bound();
        let mut sent = 0;
        while pacer.available(start, 40).is_some() && sent < 10 * burst {
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
            let mut pacer = new(now, rate);
            let bound = pacer.burst_bound();
            let mut log: std::vec::Vec<(Instant, u64)> = std::vec::Vec::new();
            for (gap, bytes) in steps {
                now += Duration::from_nanos(gap);
                let packet = bytes.min(bound);
                if pacer.available(now, packet).is_some() {
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
