//! RED: random early detection (Floyd and Jacobson, IEEE/ACM Transactions on Networking 1(4),
//! 1993).

use fullpipe_units::Instant;

use crate::pool::{Key, Pool};
use crate::probability::RandomSource;
use crate::queue::{Fifo, QueuedPacket};
use crate::{Count, DropReason, RedConfig};

/// One queue with RED in its byte mode.
#[derive(Debug)]
pub(crate) struct Red {
    pub(super) config: RedConfig,
    dice: RandomSource,
    pub(crate) fifo: Fifo,
    /// Bytes.
    average: f64,
    /// Packets since the last signal, `None` below the lower threshold.
    count: Option<u64>,
    /// Since when nothing waits.
    idle_since: Option<Instant>,
}

impl Red {
    pub(crate) fn new(config: RedConfig, dice: RandomSource) -> Self {
        let idle_since = Some(Instant::default());
        Self { config, dice, fifo: Fifo::default(), average: 0.0, count: None, idle_since }
    }

    /// Over an idle time the average sinks as if small packets had met an empty queue, and then by
    /// the arrival itself: ns-3's estimator. The paper leaves the arrival out, which is one part in
    /// 1/w.
    fn average(&mut self, now: Instant, held_bytes: u64) {
        let weight = self.config.weight.as_f64();
        if let Some(since) = self.idle_since.take() {
            let slot = self.config.packet_time.as_nanos();
            self.average *= power(1.0 - weight, now.since(since).as_nanos() / slot);
        }
        self.average += weight * (held_bytes as f64 - self.average);
    }

    pub(crate) fn enqueue(
        &mut self,
        pool: &mut Pool,
        now: Instant,
        key: Key,
        held: Count,
    ) -> Result<(), DropReason> {
        self.average(now, held.bytes);
        let taken = self.admit(pool, key, held);
        match taken {
            Ok(()) => self.fifo.push(now, key, pool.bytes(key)),
            // The queue is as empty as before, and nothing will leave it: the idle time goes on.
            Err(_) if held.packets == 0 => self.idle_since = Some(now),
            Err(_) => {}
        }
        taken
    }

    /// Decision on a packet: marked, dropped or neither.
    fn admit(&mut self, pool: &mut Pool, key: Key, held: Count) -> Result<(), DropReason> {
        let (low, high) = (self.config.min_bytes as f64, self.config.max_bytes as f64);
        if self.average < low {
            self.count = None;
        } else if self.average >= high {
            self.count = Some(0);
            return Err(DropReason::Aqm);
        } else if self.signals((self.average - low) / (high - low))
            && !(self.config.ecn && pool.mark(key))
        {
            return Err(DropReason::Aqm);
        }
        if self.config.limit.has_room(held, pool.bytes(key)) {
            Ok(())
        } else {
            Err(DropReason::TailDrop)
        }
    }

    /// The count spreads signals evenly.
    fn signals(&mut self, position: f64) -> bool {
        let count = self.count.map_or(0, |n| n + 1);
        self.count = Some(count);
        let base = self.config.max_probability.as_f64() * position;
        let spread = 1.0 - count as f64 * base;
        let hit = spread <= 0.0 || self.dice.fraction() < base / spread;
        if hit {
            self.count = Some(0);
        }
        hit
    }

    pub(crate) fn dequeue(&mut self, now: Instant) -> Option<QueuedPacket> {
        let packet = self.fifo.pop();
        if packet.is_none() {
            self.idle_since.get_or_insert(now);
        }
        packet
    }
}

/// By repeated squaring: products are the same on every machine, a library's power is not.
fn power(base: f64, exponent: u64) -> f64 {
    let (mut result, mut square, mut left) = (1.0, base, exponent);
    while left > 0 && result > 0.0 {
        if left & 1 == 1 {
            result *= square;
        }
        square *= square;
        left >>= 1;
    }
    result
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Probability, QueueLimit};
    use fullpipe_units::Duration;

    fn red(max_probability: f64, weight: f64) -> Red {
        let p = |p| Probability::new(p).expect("a probability");
        let config = RedConfig {
            limit: QueueLimit::Packets(1000),
            min_bytes: 5_000,
            max_bytes: 15_000,
            max_probability: p(max_probability),
            weight: p(weight),
            packet_time: Duration::from_millis(1),
            ecn: false,
        };
        Red::new(config, RandomSource::new(1, 0))
    }

    /// With the count, distances are uniform: from 1 to 1/p_b - 1, as the count is 1 for the packet
    /// after a signal.
    #[test]
    fn signals_are_spread_evenly() {
        const N: u32 = 400_000;
        let mut red = red(0.04, 0.002);
        red.count = Some(0);
        let (mut hits, mut since, mut longest) = (0_u32, 0, 0);
        for _ in 0..N {
            since += 1;
            if red.signals(0.5) {
                (hits, longest, since) = (hits + 1, longest.max(since), 0);
            }
        }
        let mean = f64::from(N) / f64::from(hits);
        assert!((mean / 25.0 - 1.0).abs() < 0.02, "{mean} for (1 + 49) / 2");
        assert_eq!(longest, 49);
    }

    #[test]
    fn the_average_is_a_filter_that_sinks_while_nothing_comes() {
        let mut red = red(0.1, 0.25);
        red.idle_since = None;
        let now = Instant::default();
        red.average(now, 1_000);
        assert_eq!(red.average, 250.0);
        red.average(now, 1_000);
        assert_eq!(red.average, 437.5);
        red.idle_since = Some(now);
        red.average(now + Duration::from_millis(3), 0);
        assert_eq!(red.average, 437.5 * 0.75_f64 * 0.75 * 0.75 * 0.75);
        assert_eq!(power(0.5, 10), 1.0 / 1024.0);
        assert_eq!(power(0.75, u64::MAX), 0.0);
    }
}
