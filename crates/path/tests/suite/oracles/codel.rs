use super::*;

/// RFC 8289 sections 5.2 to 5.6; a packet that understands a mark takes it instead of the drop and
/// goes out.
#[derive(Clone, Default)]
struct CoDel {
    queue: VecDeque<Packet>,
    first_above_time: u64,
    drop_next: u64,
    count: u64,
    lastcount: u64,
    dropping: bool,
}

const TARGET: u64 = 5 * MS;
const INTERVAL: u64 = 100 * MS;
const MAXPACKET: u64 = 1_500;

impl CoDel {
    fn control_law(t: u64, count: u64) -> u64 {
        t + (INTERVAL as f64 / (count as f64).sqrt()) as u64
    }

    /// `others`: bytes of the queues that share the link, section 4.4.
    fn dodequeue(&mut self, now: u64, others: u64) -> (Option<Packet>, bool) {
        let Some(packet) = self.queue.pop_front() else {
            self.first_above_time = 0;
            return (None, false);
        };
        let mut ok_to_drop = false;
        if now - packet.came < TARGET || bytes(&self.queue) + others <= MAXPACKET {
            self.first_above_time = 0;
        } else if self.first_above_time == 0 {
            self.first_above_time = now + INTERVAL;
        } else if now >= self.first_above_time {
            ok_to_drop = true;
        }
        (Some(packet), ok_to_drop)
    }

    fn dequeue_beside(&mut self, now: u64, others: u64, dropped: &mut Vec<u64>) -> Option<Packet> {
        let (mut packet, mut ok) = self.dodequeue(now, others);
        if self.dropping {
            if !ok {
                self.dropping = false;
            }
            while now >= self.drop_next && self.dropping {
                self.count += 1;
                if let Some(p) = packet.as_mut().filter(|p| p.ecn != Ecn::NotEct) {
                    p.ecn = Ecn::Ce;
                    self.drop_next = Self::control_law(self.drop_next, self.count);
                    return packet;
                }
                dropped.extend(packet.map(|p| p.id));
                (packet, ok) = self.dodequeue(now, others);
                if ok {
                    self.drop_next = Self::control_law(self.drop_next, self.count);
                } else {
                    self.dropping = false;
                }
            }
        } else if ok {
            if let Some(p) = packet.as_mut().filter(|p| p.ecn != Ecn::NotEct) {
                p.ecn = Ecn::Ce;
            } else {
                dropped.extend(packet.map(|p| p.id));
                (packet, _) = self.dodequeue(now, others);
            }
            self.dropping = true;
            let delta = self.count - self.lastcount;
            self.count = 1;
            if delta > 1 && (now < self.drop_next || now - self.drop_next < 16 * INTERVAL) {
                self.count = delta;
            }
            self.drop_next = Self::control_law(now, self.count);
            self.lastcount = self.count;
        }
        packet
    }
}

impl Oracle for CoDel {
    fn enqueue(&mut self, _: u64, packet: Packet, on_wire: u64, dropped: &mut Vec<u64>) {
        if full(self.queue.len(), on_wire) {
            dropped.push(packet.id);
        } else {
            self.queue.push_back(packet);
        }
    }

    fn dequeue(&mut self, now: u64, dropped: &mut Vec<u64>) -> Option<Packet> {
        self.dequeue_beside(now, 0, dropped)
    }
}

#[test]
fn codel_decides_as_its_rfc() {
    let config = CoDelConfig::new(QueueLimit::Packets(LIMIT));
    assert_equal(QueueConfig::CoDel(config), &mut CoDel::default(), 5_000, 1_000);
}

/// RFC 8290 sections 4.1 and 4.2, one queue for each of the flows but the last two, which share
/// one.
struct FqCoDel {
    flows: Vec<(CoDel, i64)>,
    new: Vec<usize>,
    old: Vec<usize>,
}

const QUANTUM: i64 = 1_514;

impl FqCoDel {
    fn waiting(&self) -> usize {
        self.flows.iter().map(|(codel, _)| codel.queue.len()).sum()
    }
}

impl Oracle for FqCoDel {
    fn enqueue(&mut self, _: u64, packet: Packet, on_wire: u64, dropped: &mut Vec<u64>) {
        let over = full(self.waiting(), on_wire);
        let i = packet.flow as usize % self.flows.len();
        self.flows[i].0.queue.push_back(packet);
        if !self.new.contains(&i) && !self.old.contains(&i) {
            self.new.push(i);
            self.flows[i].1 = QUANTUM;
        }
        if over {
            // The last of equals, and half of its bytes, as Linux counts them; then Linux's count.
            let fattest = self.flows.iter_mut().max_by_key(|(codel, _)| bytes(&codel.queue));
            let (codel, _) = fattest.expect("flows");
            let half = bytes(&codel.queue) / 2;
            let mut n = 0;
            while n < 64 && bytes(&codel.queue) > half {
                dropped.extend(codel.queue.pop_front().map(|p| p.id));
                n += 1;
            }
            codel.count += n;
        }
    }

    fn dequeue(&mut self, now: u64, dropped: &mut Vec<u64>) -> Option<Packet> {
        loop {
            let from_new = !self.new.is_empty();
            let list = if from_new { &mut self.new } else { &mut self.old };
            let i = *list.first()?;
            if self.flows[i].1 <= 0 {
                self.flows[i].1 += QUANTUM;
                list.remove(0);
                self.old.push(i);
                continue;
            }
            let all: u64 = self.flows.iter().map(|(codel, _)| bytes(&codel.queue)).sum();
            let others = all - bytes(&self.flows[i].0.queue);
            match self.flows[i].0.dequeue_beside(now, others, dropped) {
                Some(packet) => {
                    self.flows[i].1 -= packet.bytes as i64;
                    return Some(packet);
                }
                None if from_new => {
                    self.new.remove(0);
                    self.old.push(i);
                }
                None => {
                    self.old.remove(0);
                }
            }
        }
    }
}

#[test]
fn fq_codel_decides_as_its_rfc() {
    let codel = CoDelConfig::new(QueueLimit::Packets(LIMIT));
    let config = FqCoDelConfig { codel, queues: 7, ..FqCoDelConfig::new() };
    let flows = vec![(CoDel::default(), 0); 7];
    let mut oracle = FqCoDel { flows, new: Vec::new(), old: Vec::new() };
    assert_equal(QueueConfig::FqCoDel(config), &mut oracle, 5_000, 1_000);
}
