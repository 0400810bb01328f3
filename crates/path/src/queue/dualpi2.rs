//! DualPI2: a classic and a low-latency queue that share a wire (RFC 9332, appendix A).

use fullpipe_units::{Duration, Instant};

use crate::pool::{Key, Pool};
use crate::queue::{Fifo, QueuedPacket};
use crate::{Count, DropReason, DualPi2Config, Ecn};

/// Appendix A.1: the coupling factor.
const K: f64 = 2.0;
/// `min(1/k^2, 1)`: from here on classic packets are dropped whatever they say about ECN.
const P_C_MAX: f64 = 0.25;
/// From here on the low-latency queue drops as well: marks alone would not be heard.
const P_CL_MAX: f64 = 1.0;
/// The scheduler is left open by the RFC: weighted round robin, in which the classic queue gets one
/// byte in 16 when both have packets.
const CLASSIC_WEIGHT: i64 = 1;
const LOW_LATENCY_WEIGHT: i64 = 15;

/// One queue, and how much of a signal has come together for it.
#[derive(Debug, Default)]
struct Half {
    fifo: Fifo,
    due: f64,
}

impl Half {
    fn time(&self, now: Instant) -> Duration {
        self.fifo.front().map_or(Duration::ZERO, |front| now.since(front.arrived))
    }

    /// `recur`: no chance in it, the signals are spread as evenly as can be.
    fn recur(&mut self, likelihood: f64) -> bool {
        self.due += likelihood;
        let hit = self.due > 1.0;
        if hit {
            self.due -= 1.0;
        }
        hit
    }
}

/// Two queues under one controller.
#[derive(Debug)]
pub(crate) struct DualPi2 {
    pub(super) config: DualPi2Config,
    low_latency: Half,
    classic: Half,
    /// Integral and proportional gain, in Hz.
    alpha: f64,
    beta: f64,
    /// The controller's output, before squaring and coupling.
    base: f64,
    delay_before: Duration,
    update: Duration,
    next_update: Instant,
    /// Bytes that the low-latency queue is ahead of its share, in 1/16.
    ahead: i64,
}

impl DualPi2 {
    pub(crate) fn new(config: DualPi2Config) -> Self {
        let seconds = |d: Duration| d.as_nanos() as f64 / 1e9;
        let rtt_max = seconds(config.rtt_max);
        let third = Duration::from_nanos(config.rtt_max.as_nanos() / 3);
        let update = config.target.min(third).max(Duration::from_nanos(1));
        Self {
            config,
            update,
            alpha: 0.1 * seconds(update) / (rtt_max * rtt_max),
            beta: 0.3 / rtt_max,
            low_latency: Half::default(),
            classic: Half::default(),
            base: 0.0,
            delay_before: Duration::ZERO,
            next_update: Instant::default() + update,
            ahead: 0,
        }
    }

    pub(crate) fn size(&self) -> Count {
        self.low_latency.fifo.size().plus(self.classic.fifo.size())
    }

    /// `dualpi2_update`: every one that was due until `now`.
    ///
    /// The pseudocode looks at the classic queue's delay alone. Here it is that of the queue that
    /// waits longer, or a low-latency sender that answers no mark would meet no drop either.
    fn catch_up(&mut self, now: Instant) {
        while self.next_update <= now {
            let at = self.next_update;
            let delay = self.classic.time(at).max(self.low_latency.time(at));
            let seconds = |d: Duration| d.as_nanos() as f64 / 1e9;
            let error = seconds(delay) - seconds(self.config.target);
            let change = seconds(delay) - seconds(self.delay_before);
            let step = self.alpha * error + self.beta * change;
            self.base = (self.base + step).clamp(0.0, 1.0);
            self.delay_before = delay;
            self.next_update += self.update;
            if self.base == 0.0 && self.size().packets == 0 && delay == Duration::ZERO {
                let behind = now.since(self.next_update).as_nanos() / self.update.as_nanos();
                self.next_update += self.update.times(behind);
                if self.next_update <= now {
                    self.next_update += self.update;
                }
                return;
            }
        }
    }

    /// `dualpi2_enqueue`: packets are told apart by the last bit of their ECN field.
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
            return Err(DropReason::TailDrop);
        }
        let half = match pool[key].header.ecn {
            Ecn::Ect1 | Ecn::Ce => &mut self.low_latency,
            Ecn::NotEct | Ecn::Ect0 => &mut self.classic,
        };
        half.fifo.push(now, key, bytes);
        Ok(())
    }

    /// `dualpi2_dequeue`, with the overload of appendix A.2.
    pub(crate) fn dequeue(&mut self, pool: &mut Pool, now: Instant) -> Option<QueuedPacket> {
        self.catch_up(now);
        loop {
            let Some(low_latency) = self.schedule() else {
                // The wire is free and both queues are empty: no share is left to make up for.
                self.ahead = 0;
                return None;
            };
            let (p_c, p_cl) = (self.base * self.base, self.base * K);
            let native = self.native(now);
            let half = if low_latency { &mut self.low_latency } else { &mut self.classic };
            let packet = half.fifo.pop()?;
            if low_latency {
                if p_cl < P_CL_MAX {
                    if half.recur(native.max(p_cl)) {
                        pool.mark(packet.key);
                    }
                } else if half.recur(p_c) {
                    pool.drop(DropReason::Aqm, packet.key);
                    continue;
                } else if half.recur(p_cl.min(1.0)) {
                    pool.mark(packet.key);
                }
            } else if half.recur(p_c) && !pool.mark_or_drop(p_c < P_C_MAX, packet.key) {
                continue;
            }
            self.take_turn(low_latency, packet.bytes);
            return Some(packet);
        }
    }

    /// The credit changes when a packet leaves while one of the other queue waits, and is kept
    /// while one of the queues is empty: otherwise a queue that is often empty would take the
    /// other's share.
    fn take_turn(&mut self, low_latency: bool, bytes: u32) {
        let (other, weight) = if low_latency {
            (&self.classic, CLASSIC_WEIGHT)
        } else {
            (&self.low_latency, -LOW_LATENCY_WEIGHT)
        };
        if !other.fifo.is_empty() {
            self.ahead += weight * i64::from(bytes);
        }
    }

    /// Weighted round robin: whether the low-latency queue is next; `None` when both are empty.
    fn schedule(&self) -> Option<bool> {
        match (self.low_latency.fifo.is_empty(), self.classic.fifo.is_empty()) {
            (true, true) => None,
            (true, false) => Some(false),
            (false, true) => Some(true),
            (false, false) => Some(self.ahead <= 0),
        }
    }

    /// `laqm`: the low-latency queue's own ramp, over its front's delay, and not for a
    /// single packet (`Th_len`).
    fn native(&self, now: Instant) -> f64 {
        if self.low_latency.fifo.size().packets <= 1 {
            return 0.0;
        }
        let (low, range) = (self.config.ramp_from.as_nanos(), self.config.ramp_range.as_nanos());
        let above = self.low_latency.time(now).as_nanos().saturating_sub(low);
        if above == 0 {
            0.0
        } else if above >= range {
            1.0
        } else {
            above as f64 / range as f64
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::QueueLimit;
    use crate::pool::Meta;

    fn queue() -> (DualPi2, Pool) {
        (DualPi2::new(DualPi2Config::new(QueueLimit::Packets(100_000))), Pool::default())
    }

    fn push(q: &mut DualPi2, pool: &mut Pool, now: Instant, ecn: Ecn) {
        let header = crate::Header { ecn, ..crate::Header::from(1_000) };
        let key = pool.add(Meta {
            header,
            corrupted: false,
            queued: Duration::ZERO,
            left_queue: Instant::default(),
        });
        q.enqueue(pool, now, key, Count::default()).expect("room");
    }

    fn ms(ms: u64) -> Instant {
        Instant::default() + Duration::from_millis(ms)
    }

    /// Appendix A.1: alpha = 0.1 x 15 ms / (100 ms)^2 = 0.15 Hz, beta = 0.3 / 100 ms = 3 Hz.
    #[test]
    fn the_controller_follows_the_formula() {
        let (mut q, mut pool) = queue();
        push(&mut q, &mut pool, ms(5), Ecn::Ect0);
        let close = |a: f64, b: f64| assert!((a - b).abs() < 1e-12, "{a} {b}");
        q.catch_up(ms(15));
        close(q.base, 3.0 * 0.010 - 0.15 * 0.005);
        q.catch_up(ms(30));
        close(q.base, 3.0 * 0.010 - 0.15 * 0.005 + 0.15 * 0.010 + 3.0 * 0.015);
    }

    #[test]
    fn the_classic_signal_is_the_square_and_the_low_latency_one_twice_the_root() {
        let (mut q, mut pool) = queue();
        q.base = 0.1;
        let now = Instant::default();
        for _ in 0..10_000 {
            push(&mut q, &mut pool, now, Ecn::Ect0);
            push(&mut q, &mut pool, now, Ecn::Ect1);
        }
        let mut marked = [0, 0];
        while let Some(packet) = q.dequeue(&mut pool, now) {
            let low_latency = usize::from(packet.key.index() % 2 == 1);
            marked[low_latency] += u32::from(pool[packet.key].header.ecn == Ecn::Ce);
        }
        assert!((99..=100).contains(&marked[0]), "0.1^2 of 10000: {marked:?}");
        assert!((1_999..=2_000).contains(&marked[1]), "2 x 0.1 of 10000: {marked:?}");
    }

    #[test]
    fn a_queue_of_each_gets_its_share_and_the_short_one_goes_first() {
        let (mut q, mut pool) = queue();
        let now = Instant::default();
        for _ in 0..1_600 {
            push(&mut q, &mut pool, now, Ecn::NotEct);
            push(&mut q, &mut pool, now, Ecn::Ect1);
        }
        let mut low_latency = 0;
        for i in 0..1_600 {
            let packet = q.dequeue(&mut pool, now).expect("packets");
            let is_low_latency = packet.key.index() % 2 == 1;
            assert!(i > 0 || is_low_latency);
            low_latency += u32::from(is_low_latency);
        }
        assert!((1_499..=1_501).contains(&low_latency), "15 of 16: {low_latency}");
    }

    #[test]
    fn the_ramp_marks_by_delay_but_not_a_single_packet() {
        let (mut q, mut pool) = queue();
        let us = |us| Instant::default() + Duration::from_micros(us);
        push(&mut q, &mut pool, us(0), Ecn::Ect1);
        assert_eq!(q.native(us(5_000)), 0.0);
        push(&mut q, &mut pool, us(0), Ecn::Ect1);
        let at = [800, 900, 1_000, 1_200, 5_000].map(|t| q.native(us(t)));
        assert_eq!(at, [0.0, 0.25, 0.5, 1.0, 1.0]);
    }

    #[test]
    fn overload_drops_from_both() {
        let (mut q, mut pool) = queue();
        q.base = 0.6;
        let now = Instant::default();
        for _ in 0..1_000 {
            push(&mut q, &mut pool, now, Ecn::Ect0);
            push(&mut q, &mut pool, now, Ecn::Ect1);
        }
        let left = std::iter::from_fn(|| q.dequeue(&mut pool, now)).count();
        assert!((1_279..=1_281).contains(&left), "0.6^2 of each are dropped: {left}");
    }
}
