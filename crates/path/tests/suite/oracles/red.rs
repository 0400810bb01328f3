use super::*;

/// The algorithm of Floyd and Jacobson (1993) in bytes, as it is known: neither the paper nor
/// ns-3's source was at hand.
///
/// The average counts the arrival after an idle time too. An idle time that ends with a dropped
/// packet goes on, as in Linux.
struct Red {
    queue: VecDeque<Packet>,
    random: Random,
    weight: f64,
    avg: f64,
    count: i64,
    q_time: Option<u64>,
}

const MIN_TH: f64 = 15_000.0;
const MAX_TH: f64 = 60_000.0;
const MAX_P: f64 = 0.125;

impl Oracle for Red {
    fn enqueue(&mut self, now: u64, mut packet: Packet, on_wire: u64, dropped: &mut Vec<u64>) {
        let q = bytes(&self.queue) + on_wire;
        if let Some(q_time) = self.q_time.take() {
            for _ in 0..(now - q_time) / MS {
                self.avg *= 1.0 - self.weight;
            }
        }
        self.avg += self.weight * (q as f64 - self.avg);
        let mut drop = false;
        if MIN_TH <= self.avg && self.avg < MAX_TH {
            self.count += 1;
            let p_b = MAX_P * (self.avg - MIN_TH) / (MAX_TH - MIN_TH);
            let uniform = 1.0 - self.count as f64 * p_b;
            if uniform <= 0.0 || self.random.next() < p_b / uniform {
                self.count = 0;
                drop = packet.ecn == Ecn::NotEct;
                if !drop {
                    packet.ecn = Ecn::Ce;
                }
            }
        } else if MAX_TH <= self.avg {
            self.count = 0;
            drop = true;
        } else {
            self.count = -1;
        }
        if drop || full(self.queue.len(), on_wire) {
            dropped.push(packet.id);
            if q == 0 {
                self.q_time = Some(now);
            }
        } else {
            self.queue.push_back(packet);
        }
    }

    fn dequeue(&mut self, now: u64, _: &mut Vec<u64>) -> Option<Packet> {
        let packet = self.queue.pop_front();
        if packet.is_none() && self.q_time.is_none() {
            self.q_time = Some(now);
        }
        packet
    }
}

#[test]
fn red_decides_as_its_paper() {
    let p = |p| Probability::new(p).expect("a probability");
    let config = RedConfig {
        limit: QueueLimit::Packets(LIMIT),
        min_bytes: MIN_TH as u64,
        max_bytes: MAX_TH as u64,
        max_probability: p(MAX_P),
        weight: p(0.002),
        packet_time: Duration::from_millis(1),
        ecn: true,
    };
    let (queue, random) = (VecDeque::new(), Random::new());
    let weight = p(0.002).as_f64();
    let mut oracle = Red { queue, random, weight, avg: 0.0, count: -1, q_time: Some(0) };
    assert_equal(QueueConfig::Red(config), &mut oracle, 5_000, 1_000);
}
