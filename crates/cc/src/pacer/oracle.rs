//! The pacer beside a bucket in exact fractions: credit in billionths of a byte.

use proptest::prelude::*;

use super::{BurstLimits, Pacer};
use crate::units::{Duration, Instant, Rate};

const NANOS: i128 = 1_000_000_000;
const SMSS: u64 = 1_200;

/// A bucket that fills at `rate` up to `depth`.
struct Bucket {
    rate: u64,
    depth: u64,
    /// In billionths of a byte.
    credit: i128,
    updated: Instant,
}

impl Bucket {
    fn fill(&mut self, now: Instant) {
        if now == self.updated {
            return;
        }
        let earned = i128::from(self.rate) * i128::from(now.since(self.updated).as_nanos());
        self.credit = (self.credit + earned).min(i128::from(self.depth) * NANOS);
        self.updated = now;
    }

    /// A bucket that becomes less deep keeps its fraction of a byte.
    fn keep_within(&mut self) {
        let part = self.credit.rem_euclid(NANOS);
        self.credit = self.credit.min(i128::from(self.depth) * NANOS + part);
    }

    fn whole(&self) -> u64 {
        u64::try_from(self.credit.div_euclid(NANOS)).unwrap_or(0)
    }

    /// A packet that is larger than the bucket leaves when that is full.
    fn has(&self, packet: u64) -> bool {
        self.credit >= i128::from(packet.min(self.depth)) * NANOS
    }
}

#[derive(Clone, Debug)]
enum Step {
    /// So many ns pass.
    Wait(u64),
    /// A packet of so many bytes wants to leave, and waits until it may.
    Send(u64),
    /// One leaves without asking.
    Force(u64),
    /// Another rate in bytes a second, and another quantum.
    Rate(u64, u64),
    /// The transport comes so many ns after the time that it was told for a packet.
    Late(u64),
}

/// As many low as high ones: a fraction of a byte is longer than a nanosecond at the low ones alone.
fn rate() -> impl Strategy<Value = u64> {
    (0..36u32).prop_flat_map(|bits| 1u64 << bits..2 << bits)
}

fn step() -> impl Strategy<Value = Step> {
    let bytes = || prop_oneof![Just(SMSS), 1..70_000u64];
    prop_oneof![
        2 => (0..40_000_000u64).prop_map(Step::Wait),
        6 => bytes().prop_map(Step::Send),
        1 => bytes().prop_map(Step::Force),
        1 => (rate(), SMSS..66_000).prop_map(|(rate, quantum)| Step::Rate(rate, quantum)),
        2 => (0..60_000_000u64).prop_map(Step::Late),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 100, failure_persistence: None, ..ProptestConfig::default() })]

    /// Credit, the time of a departure and what may leave then are the bucket's to the nanosecond
    /// and the byte, at any rate, with packets larger than the bucket and with debts. A late host
    /// only makes the bucket deeper.
    #[test]
    fn credit_and_departures_are_those_of_an_exact_bucket(
        rate in rate(),
        granularity_us in 0..5_000u64,
        min_rtt_us in 1..1_000_000u64,
        steps in prop::collection::vec(step(), 1..100),
    ) {
        let mut now = Instant::from_nanos(5);
        let granularity = Duration::from_micros(granularity_us);
        let limits = BurstLimits {
            min_rtt: Duration::from_micros(min_rtt_us),
            smss: SMSS,
            granularity: granularity.as_nanos() as u32,
        };
        let rate = Rate::from_bytes_per_sec(rate);
        let mut pacer = Pacer::new(now, rate, 2 * SMSS, limits);
        let depth = pacer.burst_bound();
        let rate = rate.as_bytes_per_sec();
        let mut bucket =
            Bucket { rate, depth, credit: i128::from(depth) * NANOS, updated: now };
        for step in steps {
            match step {
                Step::Wait(nanos) => now += Duration::from_nanos(nanos),
                Step::Send(bytes) => {
                    bucket.fill(now);
                    let available = pacer.available(now, bytes);
                    prop_assert_eq!(available.is_some(), bucket.has(bytes));
                    if !bucket.has(bytes) {
                        let at = pacer.ready_at(bytes);
                        bucket.fill(at - Duration::from_nanos(1));
                        prop_assert!(!bucket.has(bytes), "{at:?} is late");
                        bucket.fill(at);
                        prop_assert!(bucket.has(bytes), "{at:?} is early");
                        prop_assert!(pacer.available(at, bytes).is_some());
                        now = at;
                    } else {
                        prop_assert!(pacer.ready_at(bytes) <= now);
                        prop_assert_eq!(available, Some(bucket.whole()));
                    }
                    pacer.on_sent(now, bytes);
                    bucket.credit -= i128::from(bytes) * NANOS;
                }
                Step::Force(bytes) => {
                    bucket.fill(now);
                    pacer.on_sent(now, bytes);
                    bucket.credit -= i128::from(bytes) * NANOS;
                }
                Step::Rate(rate, quantum) => {
                    bucket.fill(now);
                    pacer.set_rate(now, Rate::from_bytes_per_sec(rate), quantum, limits);
                    bucket.rate = rate;
                    bucket.depth = pacer.burst_bound();
                    let exact = limits.min_rtt.as_nanos().min(4 * granularity.as_nanos()) / 4;
                    let least = Rate::from_bytes_per_sec(rate).bytes_in(Duration::from_nanos(exact));
                    prop_assert!(bucket.depth >= least.max(quantum), "a bucket of {}", bucket.depth);
                }
                Step::Late(nanos) => {
                    let due = now;
                    now += Duration::from_nanos(nanos);
                    pacer.expect(due);
                    pacer.note_arrival(now, || limits);
                    _ = pacer.available(now, 1);
                    // Deeper, or less deep, before it is filled.
                    bucket.depth = pacer.burst_bound();
                    bucket.keep_within();
                    bucket.fill(now);
                }
            }
            bucket.keep_within();
        }
    }
}
