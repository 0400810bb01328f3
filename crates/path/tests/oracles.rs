//! Each queue discipline beside a second, literal transcription of its source, over 10^5 random arrivals: both drop,
//! mark and carry the same packets at the same times.
//!
//! Sources: RFC 8289 section 5 (CoDel), RFC 8290 section 4 (FQ-CoDel), RFC 8033 appendices A and B (PIE), RFC 9332
//! appendix A (DualPI2), and for RED the algorithm of Floyd and Jacobson (1993) with ns-3's estimator.
//! Nothing here is fast: queues are vectors, times are compared one by one.

mod common;

use std::collections::VecDeque;

use common::at;
use fullpipe_cc::{Duration, Rate};
use fullpipe_path::{
    CoDelConfig, DualPi2Config, Ecn, ElementConfig, Event, FqCoDelConfig, Header, Path, PathConfig,
    PieConfig, Probability, QueueConfig, QueueLimit, RedConfig,
};
use rand_pcg::Pcg64Mcg;
use rand_pcg::rand_core::{Rng, SeedableRng};

const SEED: u64 = 11;
const ARRIVALS: u64 = 100_000;
/// A microsecond a byte.
const RATE: Rate = Rate::from_bytes_per_sec(1_000_000);
const NS_PER_BYTE: u64 = 1_000;
const MS: u64 = 1_000_000;
/// What the queues may hold, the packet on the wire included.
const LIMIT: u64 = 150;

#[derive(Clone, Copy, Debug)]
struct Packet {
    id: u64,
    came: u64,
    bytes: u64,
    flow: u32,
    ecn: Ecn,
}

/// What a discipline does, with all times in nanoseconds. Dropped packets are put into `dropped`.
trait Oracle {
    /// `on_wire` bytes are being sent: they count as part of the queue.
    fn enqueue(&mut self, now: u64, packet: Packet, on_wire: u64, dropped: &mut Vec<u64>);
    fn dequeue(&mut self, now: u64, dropped: &mut Vec<u64>) -> Option<Packet>;
}

/// What happened: (time, packet, whether it carries CE) for each that left, and the sorted numbers of the others.
type Outcome = (Vec<(u64, u64, bool)>, Vec<u64>);

/// Phases of little and of too much traffic, packets of all sizes, eight flows, three codepoints.
fn arrivals() -> Vec<Packet> {
    let mut random = Pcg64Mcg::seed_from_u64(99);
    let mut below = |n: u64| random.next_u64() % n;
    let (mut now, mut load) = (0, 100);
    (0..ARRIVALS)
        .map(|id| {
            if id % 1_500 == 0 {
                load = [20, 90, 105, 130, 250, 5][below(6) as usize];
            }
            let bytes = 100 + below(1_401);
            now += below(2 * 800 * NS_PER_BYTE * 100 / load);
            let ecn = [Ecn::NotEct, Ecn::Ect0, Ecn::Ect1][below(3) as usize];
            Packet { id, came: now, bytes, flow: below(8) as u32, ecn }
        })
        .collect()
}

fn by_oracle(oracle: &mut dyn Oracle) -> Outcome {
    let (mut left, mut dropped) = (Vec::new(), Vec::new());
    let mut wire: Option<(u64, Packet)> = None;
    let all = arrivals();
    for packet in all.iter().copied().map(Some).chain([None]) {
        let now = packet.map_or(u64::MAX / 2, |p| p.came);
        while let Some((free, sent)) = wire.filter(|(free, _)| *free <= now) {
            left.push((free, sent.id, sent.ecn == Ecn::Ce));
            wire = oracle.dequeue(free, &mut dropped).map(|p| (free + p.bytes * NS_PER_BYTE, p));
        }
        let Some(packet) = packet else { break };
        oracle.enqueue(now, packet, wire.map_or(0, |(_, p)| p.bytes), &mut dropped);
        if wire.is_none() {
            wire = oracle.dequeue(now, &mut dropped).map(|p| (now + p.bytes * NS_PER_BYTE, p));
        }
    }
    dropped.sort_unstable();
    (left, dropped)
}

fn by_path(queue: QueueConfig) -> Outcome {
    let row = vec![ElementConfig::Bottleneck { rate: RATE.into(), queue }];
    let mut path = Path::new(&PathConfig { row, seed: SEED }).expect("a path");
    let (mut left, mut dropped) = (Vec::new(), Vec::new());
    let mut take = |event| match event {
        Event::Delivered(d) => left.push((d.at.as_nanos(), d.payload, d.ecn == Ecn::Ce)),
        Event::Dropped(d) => dropped.push(d.payload),
    };
    for Packet { id, came, bytes, flow, ecn } in arrivals() {
        let header = Header { wire_bytes: bytes as u32, flow, ecn };
        if let Err(d) = path.send(at(came), header, id) {
            take(Event::Dropped(d));
        }
        while let Some(event) = path.poll(at(came)) {
            take(event);
        }
    }
    while let Some(event) = path.poll(at(u64::MAX / 2)) {
        take(event);
    }
    dropped.sort_unstable();
    (left, dropped)
}

/// Compares, and asks for enough of each kind of decision to have been made.
fn assert_equal(queue: QueueConfig, oracle: &mut dyn Oracle, drops: usize, marks: usize) {
    let (ours, theirs) = (by_path(queue), by_oracle(oracle));
    for (a, b) in ours.0.iter().zip(&theirs.0) {
        assert_eq!(a, b, "(time, packet, marked): ours, the oracle's");
    }
    assert_eq!(ours.1, theirs.1, "dropped packets");
    assert_eq!(ours.0.len(), theirs.0.len());
    let marked = ours.0.iter().filter(|(_, _, ce)| *ce).count();
    assert!(ours.1.len() >= drops && marked >= marks, "{} {marked}", ours.1.len());
}

/// The random numbers of the first element of a row: 53 bits of 63.
struct Random(Pcg64Mcg);

impl Random {
    fn new() -> Self {
        Self(Pcg64Mcg::seed_from_u64(SEED))
    }

    fn next(&mut self) -> f64 {
        (self.0.next_u64() >> 11) as f64 / (1_u64 << 53) as f64
    }
}

fn bytes(queue: &VecDeque<Packet>) -> u64 {
    queue.iter().map(|p| p.bytes).sum()
}

/// Whether there is room for one packet more.
fn full(queued: usize, on_wire: u64) -> bool {
    queued as u64 + u64::from(on_wire > 0) >= LIMIT
}

/// RFC 8289 sections 5.2 to 5.6; a packet that understands a mark takes it instead of the drop and goes out.
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

/// RFC 8290 sections 4.1 and 4.2, one queue for each of the flows but the last two, which share one.
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

/// RFC 8033 appendix A with the derandomisation of appendix B. Of a packet that leaves nothing behind it the delay
/// is 0, and a probability below 10^-12 is none: Linux's rule, and a bound for the decay.
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

/// Floyd and Jacobson's figure 2, in bytes. The average is that of ns-3, which counts the arrival after an idle
/// time too; an idle time that ends with a dropped packet goes on, as in Linux and ns-3.
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

/// RFC 9332 appendix A.1 with the overload of A.2. The controller looks at the longer delay of the two queues and
/// the scheduler is a weighted round robin of 1 to 15 whose credit is kept while one queue is empty: both as in
/// Linux, as the appendix leaves the scheduler open. The native ramp is over the delay of the packet that leaves.
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
fn dualpi2_decides_as_its_rfc() {
    let config = DualPi2Config::new(QueueLimit::Packets(LIMIT));
    let mut oracle = DualPi2 { next: TUPDATE, ..DualPi2::default() };
    assert_equal(QueueConfig::DualPi2(config), &mut oracle, 5_000, 5_000);
}
