//! The notes of what was in flight when a packet left, against a sender that knows it exactly.

use std::collections::VecDeque;

use super::native::{Native, Note, Notes};

const SMSS: u32 = 1_448;

/// The sender's state when a packet left, in packets.
struct Sent {
    end_seq: u32,
    at_us: u32,
    is_retrans: bool,
    /// Itself included.
    flight: u32,
    lost: u32,
    /// The flight when its burst began; a note may be wrong by a share of it.
    of_burst: u32,
}

/// A TCP sender without a path: its packets are acknowledged or lost in the order of their sending.
struct Sender {
    notes: Notes,
    flight: VecDeque<Sent>,
    /// Ends of lost packets that are to be sent again.
    waiting: VecDeque<u32>,
    next_seq: u32,
    now_us: u32,
    sent: u32,
    lost: u32,
    random: u64,
    looked_up: u32,
    inexact: u32,
}

impl Sender {
    fn random(&mut self, below: u64) -> u64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        self.random % below
    }

    fn in_flight(&self) -> u32 {
        self.flight.len() as u32
    }

    /// As min_tso_segs(), or at the end of an ACK.
    fn note(&mut self) {
        let (seq, sent_us) = (self.next_seq, self.now_us);
        let now = Note { seq, sent_us, in_flight: self.in_flight(), lost: self.lost };
        self.notes.make(&now, self.sent, SMSS);
    }

    fn send(&mut self, end_seq: u32, is_retrans: bool, of_burst: u32) {
        let (at_us, flight, lost) = (self.now_us, self.in_flight() + 1, self.lost);
        self.flight.push_back(Sent { end_seq, at_us, is_retrans, flight, lost, of_burst });
        self.sent += 1;
    }

    /// Sends up to a window: first what was lost, then new packets.
    fn fill(&mut self, window: u32) {
        self.note();
        let of_burst = self.in_flight();
        while self.in_flight() < window {
            let Some(end_seq) = self.waiting.pop_front() else { break };
            self.send(end_seq, true, of_burst);
        }
        self.note();
        let of_burst = self.in_flight();
        while self.in_flight() < window && self.waiting.is_empty() {
            self.next_seq = self.next_seq.wrapping_add(SMSS);
            self.send(self.next_seq, false, of_burst);
        }
    }

    /// The oldest packets arrive or are lost; each is looked up.
    fn ack(&mut self, packets: u64, loss_per_mille: u64) {
        for _ in 0..packets {
            let Some(packet) = self.flight.pop_front() else { break };
            self.look_up(&packet);
            if self.random(1_000) < loss_per_mille {
                self.lost += 1;
                self.waiting.push_back(packet.end_seq);
            }
        }
    }

    fn look_up(&mut self, packet: &Sent) {
        let note = self.notes.find(packet.end_seq, packet.at_us, packet.is_retrans);
        let note = note.expect("a flight needs fewer notes than there are");
        self.looked_up += 1;
        let lost_too_much = packet.lost.wrapping_sub(note.lost);
        assert!(lost_too_much <= packet.of_burst / 256, "{lost_too_much} of {}", packet.of_burst);
        if packet.is_retrans {
            return; // its flight is that of the note, and one
        }
        let flight = self.notes.flight(&note, packet.end_seq, SMSS);
        let error = flight.abs_diff(packet.flight);
        assert!(error <= packet.of_burst / 128, "{flight} for {}", packet.flight);
        self.inexact += u32::from(error > 0);
    }
}

fn run(native: &Native, seed: u64) -> Sender {
    let mut sender = Sender {
        notes: Notes::new(native),
        flight: VecDeque::new(),
        waiting: VecDeque::new(),
        // Close before the wrap.
        next_seq: 0u32.wrapping_sub(3_000_000),
        now_us: 0u32.wrapping_sub(50_000),
        sent: 0u32.wrapping_sub(1_000),
        lost: 0u32.wrapping_sub(100),
        random: seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1,
        looked_up: 0,
        inexact: 0,
    };
    for _ in 0..3 {
        let window = [2, 10, 100, 127, 300, 2_000, 6_000][sender.random(7) as usize];
        let loss = [0, 1, 10, 20, 100, 500][sender.random(6) as usize];
        let of_an_ack = 1 + sender.random(8);
        for _ in 0..4 * window {
            sender.now_us = sender.now_us.wrapping_add(10);
            sender.ack(of_an_ack, loss);
            sender.fill(window);
            if sender.random(10_000) == 0 {
                // A timeout: all is lost, and the first packet is sent again.
                sender.ack(u64::MAX, 1_000);
                sender.now_us = sender.now_us.wrapping_add(300_000);
                sender.fill(1);
            }
        }
    }
    sender
}

/// Of every packet that arrives or is lost there is a note, in a flight of any size, with losses of
/// up to a half, retransmissions that are lost again, and timeouts.
pub(crate) fn hold(native: &Native) {
    let (mut looked_up, mut inexact) = (0u64, 0u64);
    for seed in 1..100 {
        let sender = run(native, seed);
        looked_up += u64::from(sender.looked_up);
        inexact += u64::from(sender.inexact);
    }
    println!("{looked_up} packets looked up, {inexact} with a note that another flight shares");
    assert!(looked_up > 100_000 && inexact > 0 && inexact < looked_up, "{inexact} of {looked_up}");
}
