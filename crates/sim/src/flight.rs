//! The packets of a flow between their departure and the end of all doubt about them.

use std::collections::VecDeque;

use fullpipe_cc::{AckBatch, Instant, PacketState};

use crate::MAX_ACK_DELAY;
use crate::receiver::{Ack, Chunk, Receiver};
use crate::recovery::{PACKET_THRESHOLD, Rtt};

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Fate {
    InFlight,
    Acked,
    Lost,
}

#[derive(Debug)]
struct Sent {
    state: PacketState,
    chunk: Chunk,
    fate: Fate,
}

/// What the losses of one detection came to.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Losses {
    pub(crate) packets: u64,
    pub(crate) bytes: u64,
    /// RFC 9002 section 7.6.2.
    pub(crate) persistent_congestion: bool,
}

#[derive(Debug, Default)]
pub(crate) struct Flight {
    /// Packets from `first` on, each with its fate.
    packets: VecDeque<Sent>,
    first: u64,
    /// No packet below this number is in flight.
    oldest_in_flight: u64,
    pub(crate) in_flight: u64,
    largest_acked: Option<u64>,
    pub(crate) rtt: Rtt,
    pub(crate) loss_time: Option<Instant>,
    /// Chunks to send again.
    pub(crate) retransmit: VecDeque<Chunk>,
    /// Recent packets marked lost that did not turn up.
    missing: VecDeque<u64>,
    /// The newly acknowledged of the ACK at hand; kept for its capacity.
    acked: Vec<(PacketState, Fate)>,
}

impl Flight {
    pub(crate) fn next_pn(&self) -> u64 {
        self.first + self.packets.len() as u64
    }

    pub(crate) fn push(&mut self, state: PacketState, chunk: Chunk) {
        self.packets.push_back(Sent { state, chunk, fate: Fate::InFlight });
        self.in_flight += 1;
    }

    /// What a probe repeats when there is nothing new to send, RFC 9002 section 6.2.4.
    pub(crate) fn oldest_chunk(&self) -> Option<Chunk> {
        self.packets.iter().find(|p| p.fate == Fate::InFlight).map(|p| p.chunk)
    }

    /// Marks what an ACK tells. True when it was news; the second value when all that was lost of
    /// late has arrived after all.
    pub(crate) fn on_ack(
        &mut self,
        now: Instant,
        ack: Ack,
        receiver: &mut Receiver,
    ) -> (bool, bool) {
        self.acked.clear();
        let mut late = false;
        while let Some(pn) = receiver.next_acked(ack.log_end) {
            let Some(i) = pn.checked_sub(self.first) else { continue };
            let Some(packet) = self.packets.get_mut(i as usize) else { continue };
            match core::mem::replace(&mut packet.fate, Fate::Acked) {
                Fate::Acked => continue,
                Fate::InFlight => {
                    self.in_flight -= 1;
                    self.acked.push((packet.state, Fate::InFlight));
                }
                Fate::Lost => {
                    late = true;
                    self.missing.retain(|missing| *missing != pn);
                    self.acked.push((packet.state, Fate::Lost));
                }
            }
            if self.largest_acked.is_none_or(|largest| pn > largest) {
                self.largest_acked = Some(pn);
                self.rtt.update(now.since(packet.state.send_time()), ack.delay);
            }
        }
        (!self.acked.is_empty(), late && self.missing.is_empty())
    }

    /// Tells the controller what [`Self::on_ack`] marked.
    pub(crate) fn tell_acked(&self, batch: &mut AckBatch<'_>) {
        for (state, fate) in &self.acked {
            match fate {
                Fate::Lost => batch.acked_after_loss(state),
                _ => batch.acked(state),
            }
        }
    }

    /// Finds losses by the thresholds of RFC 9002 section 6.1 and tells the controller.
    pub(crate) fn detect_losses(&mut self, now: Instant, batch: &mut AckBatch<'_>) -> Losses {
        self.loss_time = None;
        let mut losses = Losses::default();
        let Some(largest) = self.largest_acked else { return losses };
        let loss_delay = self.rtt.loss_delay();
        let persistent = self.rtt.persistent_congestion();
        let mut run_start: Option<Instant> = None;
        for pn in self.oldest_in_flight.max(self.first)..largest {
            let packet = &mut self.packets[(pn - self.first) as usize];
            let sent = packet.state.send_time();
            match packet.fate {
                Fate::Acked => run_start = None,
                Fate::Lost => {}
                Fate::InFlight => {
                    if largest - pn < PACKET_THRESHOLD && now < sent + loss_delay {
                        // Send times rise with the numbers: this is the earliest.
                        self.loss_time = Some(sent + loss_delay);
                        self.oldest_in_flight = pn;
                        return losses;
                    }
                    packet.fate = Fate::Lost;
                    batch.lost(&packet.state);
                    self.in_flight -= 1;
                    self.retransmit.push_back(packet.chunk);
                    self.missing.push_back(pn);
                    losses.packets += 1;
                    losses.bytes += packet.state.size();
                    let start = *run_start.get_or_insert(sent);
                    losses.persistent_congestion |= sent.since(start) > persistent;
                }
            }
        }
        self.oldest_in_flight = largest;
        losses
    }

    /// Lets go of the packets whose fate can't change any more: a lost one may still turn up for
    /// two probe timeouts.
    pub(crate) fn forget(&mut self, now: Instant) {
        let horizon = self.rtt.pto().times(2) - MAX_ACK_DELAY;
        while let Some(packet) = self.packets.front() {
            let old = now.since(packet.state.send_time()) > horizon;
            if packet.fate == Fate::InFlight || (packet.fate == Fate::Lost && !old) {
                break;
            }
            self.packets.pop_front();
            self.first += 1;
        }
        while self.missing.front().is_some_and(|pn| *pn < self.first) {
            self.missing.pop_front();
        }
    }
}
