//! Hosts that take in many packets before they send, as a busy one does.

use std::collections::VecDeque;

use fullpipe_cc::{Algorithm, Duration, Instant};
use fullpipe_tcp::{Config, Endpoint, Handle, wire};

use crate::common::{MS, ends};

/// A sender that always has more to send, and a receiver that takes in a batch of packets, some of
/// them marked, before anything leaves.
struct Batches {
    now: Instant,
    ends: [Endpoint; 2],
    handles: [Handle; 2],
    wire: VecDeque<Vec<u8>>,
    data: u64,
    data_without_ecn: u64,
    marked: u64,
}

impl Batches {
    fn new(config: &Config) -> Self {
        let mut all = [Endpoint::new([1; 16], 10), Endpoint::new([2; 16], 10)];
        let [a, b] = ends();
        let now = Instant::default() + MS;
        let listener = all[1].listen(b, 4, config).expect("nobody listens");
        let sender = all[0].connect(now, a, b, config).expect("a connection");
        let mut buffer = Vec::new();
        while let Some(i) = (0..2).find(|&i| all[i].transmit(now, &mut buffer)) {
            all[1 - i].receive(now, &buffer);
        }
        let receiver = all[1].accept(listener).expect("a connection");
        let (handles, wire) = ([sender, receiver], VecDeque::new());
        Self { now, ends: all, handles, wire, data: 0, data_without_ecn: 0, marked: 0 }
    }

    fn step(&mut self, batch: usize, is_marked: impl Fn(usize) -> bool) {
        let (mut buffer, mut to) = (Vec::new(), vec![0; 1 << 20]);
        let _ = self.ends[0].write(self.now, self.handles[0], &[7; 100_000]);
        while self.ends[0].transmit(self.now, &mut buffer) {
            self.wire.push_back(buffer.clone());
        }
        self.now += Duration::from_micros(100);
        if self.wire.is_empty() {
            self.now = self.ends[0].poll_at().unwrap_or(self.now).max(self.now);
        }
        for i in 0..batch.min(self.wire.len()) {
            let mut packet = self.wire.pop_front().expect("so many");
            let is_capable = packet[1] & 3 != 0;
            self.data += u64::from(packet.len() > 200);
            self.data_without_ecn += u64::from(packet.len() > 200 && !is_capable);
            if is_capable && is_marked(i) {
                wire::set_ce(&mut packet);
                self.marked += 1;
            }
            self.ends[1].receive(self.now, &packet);
        }
        while self.ends[1].read(self.handles[1], &mut to).is_ok_and(|count| count > 0) {}
        while self.ends[1].transmit(self.now, &mut buffer) {
            self.ends[0].receive(self.now, &buffer);
        }
        self.ends.iter_mut().for_each(|end| end.on_timer(self.now));
    }

    /// Marks that the sender has heard of.
    fn told(&self) -> u64 {
        self.ends[0].connection(self.handles[0]).expect("open").info().delivered_ce
    }
}

fn config() -> Config {
    Config { ecn: true, accurate_ecn: true, algorithm: Algorithm::CUBIC, ..Config::default() }
}

/// RFC 9768 section 3.2.2.5.1: whatever the batches are and whichever packets are marked, the
/// sender hears of each mark. Where one ACK is for many packets it may hear of more, as others
/// could have been lost (section 3.2.2.5.2).
#[test]
fn each_mark_is_heard() {
    for batch in [1, 2, 7, 8, 16, 40, 64] {
        for (every, of) in [(8, 1), (8, 5), (3, 1), (1, 1), (50, 16)] {
            let mut batches = Batches::new(&config());
            for round in 0..800 {
                // All packets of some batches, and some packets of all.
                batches.step(batch, |i| round % every == 0 || (round + i) % 64 < of);
            }
            let (told, marked) = (batches.told(), batches.marked);
            let case = format!("batches of {batch}, {of} of 64 and one batch of {every}");
            println!("{told} of {marked} marks, {case}");
            assert!(marked >= 100 && told >= marked, "{told} of {marked} marks, {case}");
            assert!(told <= marked * 3 / 2, "{told} of {marked} marks, {case}");
        }
    }
}

/// Marks in the first batch of a connection leave ECN on (section 3.2.2.4).
#[test]
fn marks_in_the_first_batch_leave_ecn_on() {
    for marks in 1..10 {
        let mut batches = Batches::new(&config());
        batches.step(10, |i| i < marks);
        for _ in 0..300 {
            batches.step(4, |i| i == 0);
        }
        assert_eq!(batches.told(), batches.marked, "{marks} marks");
        assert!(batches.data_without_ecn < batches.data / 20, "{marks} marks");
    }
}
