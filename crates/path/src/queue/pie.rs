//! PIE: proportional integral controller enhanced (RFC 8033).

use fullpipe_units::{Duration, Instant};

use crate::pool::{Key, Pool};
use crate::probability::RandomSource;
use crate::queue::{Fifo, QueuedPacket};
use crate::{Count, DropReason, PieConfig};

/// Section 4.2, in Hz, for an update every 15 ms.
const ALPHA: f64 = 0.125;
const BETA: f64 = 1.25;
const UPDATE: Duration = Duration::from_millis(15);
/// Section 5.1: marks above this probability would no longer be heard.
const MARK_BELOW: f64 = 0.1;
/// Below this a probability is none: decay alone would never get there.
const NONE: f64 = 1e-12;
/// Section 4.1, MEAN_PKTSIZE.
const MEAN_PACKET_BYTES: u64 = 1024;

/// One queue with PIE, whose delay is taken from the packets' own times (section 4.3).
#[derive(Debug)]
pub(crate) struct Pie {
    pub(super) config: PieConfig,
    dice: RandomSource,
    pub(crate) fifo: Fifo,
    /// Of the packet that left last; nothing when the queue is empty.
    delay: Duration,
    delay_before: Duration,
    probability: f64,
    /// Derandomisation (section 5.4).
    accumulated: f64,
    burst_allowance: Duration,
    next_update: Instant,
    /// The gains for the configured period, in Hz.
    alpha: f64,
    beta: f64,
}

impl Pie {
    /// Section 4.2: with half the period alpha is half as large, and beta larger by alpha / 4. So
    /// alpha is proportional to the period, and beta + alpha / 2 stays what it is.
    pub(crate) fn new(config: PieConfig, dice: RandomSource) -> Self {
        let periods = config.update.as_nanos() as f64 / UPDATE.as_nanos() as f64;
        let alpha = ALPHA * periods;
        Self {
            alpha,
            beta: BETA + (ALPHA - alpha) / 2.0,
            config,
            dice,
            fifo: Fifo::default(),
            delay: Duration::ZERO,
            delay_before: Duration::ZERO,
            probability: 0.0,
            accumulated: 0.0,
            burst_allowance: config.max_burst,
            next_update: Instant::default() + config.update,
        }
    }

    /// The timer of section 4.2: every update that was due until `now`. Nothing happened since the
    /// last packet, so doing it late changes nothing.
    fn catch_up(&mut self, now: Instant) {
        while self.next_update <= now {
            self.update_probability();
            self.next_update += self.config.update;
            let idle = self.probability == 0.0 && self.burst_allowance == Duration::ZERO;
            if idle && self.delay == Duration::ZERO && self.delay_before == Duration::ZERO {
                // All further ones would find and leave the same.
                let behind = now.since(self.next_update).as_nanos() / self.config.update.as_nanos();
                self.next_update += self.config.update.times(behind);
                if self.next_update <= now {
                    self.next_update += self.config.update;
                }
                return;
            }
        }
    }

    /// Section 4.2 with section 5.5's cap, `calculate_drop_prob`.
    fn update_probability(&mut self) {
        let seconds = |d: Duration| d.as_nanos() as f64 / 1e9;
        let (delay, before) = (seconds(self.delay), seconds(self.delay_before));
        let error = delay - seconds(self.config.target);
        let step = self.alpha * error + self.beta * (delay - before);
        let mut step = step / tuning(self.probability);
        if self.probability >= 0.1 && step > 0.02 {
            step = 0.02;
        }
        self.probability += step;
        if self.delay == Duration::ZERO && self.delay_before == Duration::ZERO {
            self.probability *= 0.98;
        }
        self.probability = self.probability.clamp(0.0, 1.0);
        if self.probability < NONE {
            self.probability = 0.0;
        }
        self.delay_before = self.delay;
        let left = self.burst_allowance.as_nanos().saturating_sub(self.config.update.as_nanos());
        self.burst_allowance = Duration::from_nanos(left);
    }

    pub(crate) fn enqueue(
        &mut self,
        pool: &mut Pool,
        now: Instant,
        key: Key,
        held: Count,
    ) -> Result<(), DropReason> {
        self.catch_up(now);
        let bytes = pool.bytes(key);
        if !self.config.limit.has_room(held, bytes) {
            self.accumulated = 0.0;
            return Err(DropReason::TailDrop);
        }
        if self.burst_allowance == Duration::ZERO && self.signals(held.bytes) {
            let marks = self.config.ecn && self.probability < MARK_BELOW;
            if !(marks && pool.mark(key)) {
                return Err(DropReason::Aqm);
            }
        }
        let half = self.config.target.as_nanos() / 2;
        let calm = self.delay.as_nanos() < half && self.delay_before.as_nanos() < half;
        if self.probability == 0.0 && calm {
            self.burst_allowance = self.config.max_burst;
        }
        self.fifo.push(now, key, bytes);
        Ok(())
    }

    /// Section 4.1, `drop_early`, with derandomisation (section 5.4).
    fn signals(&mut self, held_bytes: u64) -> bool {
        let calm = self.delay_before.as_nanos() < self.config.target.as_nanos() / 2;
        if (calm && self.probability < 0.2) || held_bytes <= 2 * MEAN_PACKET_BYTES {
            return false;
        }
        if self.probability == 0.0 {
            self.accumulated = 0.0;
        }
        self.accumulated += self.probability;
        if self.accumulated < 0.85 {
            return false;
        }
        let hit = self.accumulated >= 8.5 || self.dice.fraction() < self.probability;
        if hit {
            self.accumulated = 0.0;
        }
        hit
    }

    pub(crate) fn dequeue(&mut self, now: Instant) -> Option<QueuedPacket> {
        self.catch_up(now);
        let packet = self.fifo.pop();
        // With nothing behind it the next packet will not wait.
        self.delay = match packet {
            Some(packet) if !self.fifo.is_empty() => now.since(packet.arrived),
            _ => Duration::ZERO,
        };
        packet
    }
}

/// Section 4.2: small probabilities change in small steps.
fn tuning(probability: f64) -> f64 {
    const STEPS: [(f64, f64); 6] = [
        (0.000_001, 2048.0),
        (0.000_01, 512.0),
        (0.000_1, 128.0),
        (0.001, 32.0),
        (0.01, 8.0),
        (0.1, 2.0),
    ];
    STEPS.iter().find(|(below, _)| probability < *below).map_or(1.0, |(_, divisor)| *divisor)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::QueueLimit;

    fn pie() -> Pie {
        Pie::new(PieConfig::new(QueueLimit::Packets(1000)), RandomSource::new(1, 0))
    }

    fn update(pie: &mut Pie, delay_ms: u64) -> f64 {
        pie.delay = Duration::from_millis(delay_ms);
        pie.update_probability();
        pie.probability
    }

    /// Section 4.2's formula, by hand.
    #[test]
    fn the_probability_follows_the_formula_in_steps_that_fit_it() {
        let mut pie = pie();
        let close = |a: f64, b: f64| assert!((a - b).abs() < 1e-12, "{a} {b}");
        // alpha x (30 - 15) ms + beta x 30 ms = 0.039375, from nothing by 1/2048.
        close(update(&mut pie, 30), 0.039_375 / 2048.0);
        // No change of the delay: alpha x 15 ms = 0.001875; from 1.9e-5 by 1/128.
        close(update(&mut pie, 30), 0.039_375 / 2048.0 + 0.001_875 / 128.0);
        pie.probability = 0.05;
        close(update(&mut pie, 20), 0.05 + (0.125 * 0.005 - 1.25 * 0.010) / 2.0);
        pie.probability = 0.2;
        close(update(&mut pie, 520), 0.22);
        (pie.delay_before, pie.probability) = (Duration::ZERO, 0.5);
        close(update(&mut pie, 0), (0.5 - 0.125 * 0.015) * 0.98);
    }

    /// The rule of section 4.2, by hand: half the period, half of alpha, and beta + alpha / 4.
    #[test]
    fn the_gains_follow_the_period() {
        let of = |ms| {
            let config = PieConfig::new(QueueLimit::Packets(1000));
            let config = PieConfig { update: Duration::from_micros(ms), ..config };
            let pie = Pie::new(config, RandomSource::new(1, 0));
            (pie.alpha, pie.beta)
        };
        assert_eq!(of(15_000), (0.125, 1.25));
        assert_eq!(of(7_500), (0.0625, 1.25 + 0.125 / 4.0));
        assert_eq!(of(3_750), (0.03125, 1.25 + 0.125 / 4.0 + 0.0625 / 4.0));
        assert_eq!(of(30_000), (0.25, 1.25 - 0.25 / 4.0));
    }

    #[test]
    fn a_probability_decays_to_nothing_and_a_long_silence_costs_nothing() {
        let mut pie = pie();
        pie.probability = 0.5;
        pie.catch_up(Instant::default() + Duration::from_secs(60));
        assert_eq!(pie.probability, 0.0);
        let late = Instant::from_nanos(u64::MAX - 1_000_000_000);
        pie.catch_up(late);
        assert!(pie.next_update > late && pie.next_update <= late + pie.config.update);
        let periods = pie.next_update.as_nanos() % pie.config.update.as_nanos();
        assert_eq!(periods, 0, "the timer keeps its beat");
    }
}
