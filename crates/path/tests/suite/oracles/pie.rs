use super::*;

/// RFC 8033 appendix A with the derandomisation of appendix B. Of a packet that leaves nothing
/// behind it the delay is 0, and a probability below 10^-12 is none: Linux's rule, and a bound for
/// the decay.
struct Pie {
    queue: VecDeque<Packet>,
    random: Random,
    t_update: u64,
    alpha: f64,
    beta: f64,
    next: u64,
    current_qdelay: u64,
    qdelay_old: u64,
    drop_prob: f64,
    accu_prob: f64,
    burst_allowance: u64,
}

const QDELAY_REF: u64 = 15 * MS;
const MAX_BURST: u64 = 150 * MS;

impl Pie {
    fn timer(&mut self, now: u64) {
        while self.next <= now {
            self.next += self.t_update;
            let seconds = |ns: u64| ns as f64 / 1e9;
            let (delay, old) = (seconds(self.current_qdelay), seconds(self.qdelay_old));
            let mut p = self.alpha * (delay - seconds(QDELAY_REF)) + self.beta * (delay - old);
            if self.drop_prob < 0.000_001 {
                p /= 2048.0;
            } else if self.drop_prob < 0.000_01 {
                p /= 512.0;
            } else if self.drop_prob < 0.000_1 {
                p /= 128.0;
            } else if self.drop_prob < 0.001 {
                p /= 32.0;
            } else if self.drop_prob < 0.01 {
                p /= 8.0;
            } else if self.drop_prob < 0.1 {
                p /= 2.0;
            }
            if self.drop_prob >= 0.1 && p > 0.02 {
                p = 0.02;
            }
            self.drop_prob += p;
            if self.current_qdelay == 0 && self.qdelay_old == 0 {
                self.drop_prob *= 0.98;
            }
            self.drop_prob = self.drop_prob.clamp(0.0, 1.0);
            if self.drop_prob < 1e-12 {
                self.drop_prob = 0.0;
            }
            self.qdelay_old = self.current_qdelay;
            self.burst_allowance = self.burst_allowance.saturating_sub(self.t_update);
        }
    }

    fn drop_early(&mut self, length: u64) -> bool {
        if (self.qdelay_old < QDELAY_REF / 2 && self.drop_prob < 0.2) || length <= 2 * 1_024 {
            return false;
        }
        if self.drop_prob == 0.0 {
            self.accu_prob = 0.0;
        }
        self.accu_prob += self.drop_prob;
        if self.accu_prob < 0.85 {
            return false;
        }
        if self.accu_prob >= 8.5 || self.random.next() < self.drop_prob {
            self.accu_prob = 0.0;
            return true;
        }
        false
    }
}

impl Oracle for Pie {
    fn enqueue(&mut self, now: u64, mut packet: Packet, on_wire: u64, dropped: &mut Vec<u64>) {
        self.timer(now);
        if full(self.queue.len(), on_wire) {
            self.accu_prob = 0.0;
            dropped.push(packet.id);
            return;
        }
        let half = QDELAY_REF / 2;
        if self.drop_prob == 0.0 && self.current_qdelay < half && self.qdelay_old < half {
            self.burst_allowance = MAX_BURST;
        }
        let length = bytes(&self.queue) + on_wire;
        if self.burst_allowance == 0 && self.drop_early(length) {
            if self.drop_prob < 0.1 && packet.ecn != Ecn::NotEct {
                packet.ecn = Ecn::Ce;
            } else {
                dropped.push(packet.id);
                return;
            }
        }
        self.queue.push_back(packet);
    }

    fn dequeue(&mut self, now: u64, _: &mut Vec<u64>) -> Option<Packet> {
        self.timer(now);
        let packet = self.queue.pop_front();
        self.current_qdelay = match packet {
            Some(p) if !self.queue.is_empty() => now - p.came,
            _ => 0,
        };
        packet
    }
}

/// The gains beside each period are section 4.2's rule, by hand.
#[test]
fn pie_decides_as_its_rfc() {
    for (t_update, alpha, beta) in [(15 * MS, 0.125, 1.25), (30 * MS, 0.25, 1.1875)] {
        let config = PieConfig::new(QueueLimit::Packets(LIMIT));
        let config = PieConfig { update: Duration::from_nanos(t_update), ..config };
        let mut oracle = Pie {
            queue: VecDeque::new(),
            random: Random::new(),
            t_update,
            alpha,
            beta,
            next: t_update,
            current_qdelay: 0,
            qdelay_old: 0,
            drop_prob: 0.0,
            accu_prob: 0.0,
            burst_allowance: MAX_BURST,
        };
        assert_equal(QueueConfig::Pie(config), &mut oracle, 5_000, 30);
    }
}
