//! What limits a flow beside its window, and what changes under it: pauses of the application, the
//! receiver's credit, a cap on the rate, a clock that steps, another path or algorithm.

use fullpipe_cc::{Duration, Rate};

use super::flow::{Flow, Last};
use super::{Limit, algorithms};

/// The round trip of the paths here.
const ROUND_TRIP: Duration = Duration::from_millis(20);

impl Flow {
    pub(super) fn limit(&mut self, limit: Limit) {
        match limit {
            Limit::Answers { count, packets } => self.answer_requests(count, packets),
            Limit::Credit { packets } => {
                self.credit =
                    if packets == 255 { u64::MAX } else { self.smss * u64::from(packets) };
            }
            Limit::StepClock { exponent, how } => self.step_clock(exponent, how),
            Limit::Migrate { rtt, cap } => self.migrate(rtt, cap),
            Limit::TakeOver { algorithm, cap } => self.take_over(algorithm, cap),
            Limit::Marks { exponent } => self.mark_many(exponent),
            Limit::MtuInFlight { size, count } => self.change_mtu_in_flight(size, count),
        }
    }

    /// True if the receiver's credit lets a packet of `bytes` leave.
    pub(super) fn has_credit(&self, bytes: u64) -> bool {
        self.cc.inflight().saturating_add(bytes) <= self.credit
    }

    /// Requests and answers: each answer is acknowledged by one ACK, then there is a pause.
    fn answer_requests(&mut self, count: u8, packets: u8) {
        for n in 0..=count % 16 {
            for _ in 0..=packets % 8 {
                self.send_allowed(0, 7, 1);
            }
            self.cc.on_app_limited();
            self.now += ROUND_TRIP;
            let packets = core::mem::take(&mut self.outstanding);
            self.report(&packets, Vec::new());
            self.now += Duration::from_millis(1 << (n % 9));
        }
    }

    /// The clock steps back by 1 ns to some minutes, and perhaps forth again, with an ACK or a
    /// packet in between.
    fn step_clock(&mut self, exponent: u8, how: u8) {
        let step = Duration::from_nanos(1 << (exponent % 38));
        let before = self.now;
        self.now = self.now - step;
        if how & 1 == 1 {
            self.send_allowed(0, how >> 4, 0);
        }
        if how & 2 == 2 && !self.outstanding.is_empty() {
            let oldest = self.outstanding.remove(0);
            self.report(&[oldest], Vec::new());
            self.last = Last::Ack;
        }
        if how & 4 == 4 {
            self.now = before;
        }
    }

    /// Another path, of which the handshake's or a probe's round trip is known or none is.
    fn migrate(&mut self, rtt: u8, cap: u8) {
        self.config.handshake_rtt =
            (rtt.is_multiple_of(2)).then(|| Duration::from_nanos(1 << (rtt % 36)));
        self.cap(cap);
        self.change_path(true);
    }

    /// Another algorithm goes on with the connection.
    fn take_over(&mut self, algorithm: u8, cap: u8) {
        self.cap(cap);
        let algorithms = algorithms();
        let algorithm = self.options.of(algorithms[usize::from(algorithm) % algorithms.len()]);
        self.leave_path();
        self.cc.set_algorithm(algorithm, self.now, &self.config);
        self.begin_path();
    }

    /// A cap on the rate from 8 kbit/s on, or none.
    fn cap(&mut self, exponent: u8) {
        let cap = Rate::from_bytes_per_sec(1 << (10 + exponent % 30));
        self.config.max_pacing_rate = (exponent < 200).then_some(cap);
    }

    /// All arrives, and the peer's counter of marks comes after a long time: up to a million of
    /// them at once.
    fn mark_many(&mut self, exponent: u8) {
        self.now += ROUND_TRIP;
        let packets = core::mem::take(&mut self.outstanding);
        self.note_round_trip(&packets);
        self.batch(|ack| {
            packets.iter().for_each(|p| ack.acked(p));
            ack.ce(1 << (exponent % 21));
        });
        self.count_acked(&packets);
        if !packets.is_empty() {
            self.last = Last::Ack;
        }
    }

    /// The size of a packet changes while packets of the old size are lost, arrive and leave.
    fn change_mtu_in_flight(&mut self, size: u8, count: u8) {
        self.lose(usize::from(count % 4));
        self.change_mtu(super::mtu(size));
        self.send_allowed(0, count >> 4, 1);
        self.now += ROUND_TRIP;
        let half = self.outstanding.len() / 2;
        let packets: Vec<_> = self.outstanding.drain(..half).collect();
        self.report(&packets, Vec::new());
        self.last = if packets.is_empty() { Last::Other } else { Last::Ack };
    }
}
