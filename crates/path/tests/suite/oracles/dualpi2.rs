use super::*;

/// RFC 9332 appendix A.1 with the overload of A.2, as Linux has them; the RFC's own text was not at
/// hand.
///
/// The controller looks at the longer delay of the two queues. The scheduler is a weighted round
/// robin of 1 to 15 whose credit is kept while one queue is empty. The native ramp takes the delay
/// of the packet that leaves.
#[derive(Default)]
struct DualPi2 {
    lq: VecDeque<Packet>,
    cq: VecDeque<Packet>,
    l_count: f64,
    c_count: f64,
    p_prime: f64,
    prevq: f64,
    next: u64,
    c_protection: i64,
}

const TUPDATE: u64 = 15 * MS;

fn recur(count: &mut f64, likelihood: f64) -> bool {
    *count += likelihood;
    if *count > 1.0 {
        *count -= 1.0;
        return true;
    }
    false
}

impl DualPi2 {
    fn dualpi2_update(&mut self, now: u64) {
        while self.next <= now {
            let time = |q: &VecDeque<Packet>| q.front().map_or(0, |p| self.next - p.came);
            let curq = time(&self.cq).max(time(&self.lq)) as f64 / 1e9;
            // alpha = 0.1 * Tupdate / RTT_max^2, beta = 0.3 / RTT_max.
            let (alpha, beta) = (0.1 * 0.015 / (0.1 * 0.1), 0.3 / 0.1);
            self.p_prime += alpha * (curq - 0.015) + beta * (curq - self.prevq);
            self.p_prime = self.p_prime.clamp(0.0, 1.0);
            self.prevq = curq;
            self.next += TUPDATE;
        }
    }
}

impl Oracle for DualPi2 {
    fn enqueue(&mut self, now: u64, packet: Packet, on_wire: u64, dropped: &mut Vec<u64>) {
        self.dualpi2_update(now);
        if full(self.lq.len() + self.cq.len(), on_wire) {
            dropped.push(packet.id);
        } else if matches!(packet.ecn, Ecn::Ect1 | Ecn::Ce) {
            self.lq.push_back(packet);
        } else {
            self.cq.push_back(packet);
        }
    }

    fn dequeue(&mut self, now: u64, dropped: &mut Vec<u64>) -> Option<Packet> {
        self.dualpi2_update(now);
        let (p_c, p_cl) = (self.p_prime * self.p_prime, 2.0 * self.p_prime);
        while !self.lq.is_empty() || !self.cq.is_empty() {
            let from_lq = !self.lq.is_empty() && (self.cq.is_empty() || self.c_protection <= 0);
            let mut packet;
            if from_lq {
                let single = self.lq.len() <= 1;
                packet = self.lq.pop_front()?;
                if p_cl < 1.0 {
                    let above = (now - packet.came).saturating_sub(MS * 8 / 10) as f64;
                    let native = if single { 0.0 } else { (above / (MS as f64 * 0.4)).min(1.0) };
                    if recur(&mut self.l_count, native.max(p_cl)) {
                        packet.ecn = Ecn::Ce;
                    }
                } else if recur(&mut self.l_count, p_c) {
                    dropped.push(packet.id);
                    continue;
                } else if recur(&mut self.l_count, p_cl.min(1.0)) {
                    packet.ecn = Ecn::Ce;
                }
                if !self.cq.is_empty() {
                    self.c_protection += packet.bytes as i64;
                }
            } else {
                packet = self.cq.pop_front()?;
                if recur(&mut self.c_count, p_c) {
                    if packet.ecn == Ecn::NotEct || p_c >= 0.25 {
                        dropped.push(packet.id);
                        continue;
                    }
                    packet.ecn = Ecn::Ce;
                }
                if !self.lq.is_empty() {
                    self.c_protection -= 15 * packet.bytes as i64;
                }
            }
            return Some(packet);
        }
        self.c_protection = 0;
        None
    }
}

#[test]
fn dualpi2_decides_as_linux() {
    let config = DualPi2Config::new(QueueLimit::Packets(LIMIT));
    let mut oracle = DualPi2 { next: TUPDATE, ..DualPi2::default() };
    assert_equal(QueueConfig::DualPi2(config), &mut oracle, 5_000, 5_000);
}
