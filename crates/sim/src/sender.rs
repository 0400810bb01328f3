//! The sending side of a flow: data, timers, and the calls to the controller.

use fullpipe_cc::{Controller, Instant, Send, Snapshot};

use crate::OVERHEAD_BYTES;
use crate::flight::{Flight, Losses};
use crate::flow::{FlowConfig, SenderStats};
use crate::receiver::{Ack, Chunk, Receiver};

/// The most doublings of the probe timeout.
const MAX_BACKOFF: u32 = 10;

/// A packet that leaves.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Transmit {
    pub(crate) pn: u64,
    pub(crate) chunk: Chunk,
    /// Size of the datagram, without IP and UDP.
    pub(crate) bytes: u32,
}

#[derive(Debug)]
pub(crate) struct Sender {
    cc: Controller,
    payload: u32,
    /// Application bytes that were never sent; `None` for a source without an end.
    unsent: Option<u64>,
    next_chunk: u64,
    flight: Flight,
    pto_count: u32,
    last_sent: Instant,
    /// When the pacer lets the next packet go, if that is what holds it.
    paced_until: Option<Instant>,
    pub(crate) stats: SenderStats,
}

impl Sender {
    pub(crate) fn new(config: &FlowConfig, now: Instant) -> Self {
        Self {
            cc: Controller::new(config.algorithm, config.cc, now),
            payload: config.cc.smss.saturating_sub(OVERHEAD_BYTES).max(1),
            unsent: config.bytes,
            next_chunk: 0,
            flight: Flight::default(),
            pto_count: 0,
            last_sent: now,
            paced_until: None,
            stats: SenderStats::default(),
        }
    }

    pub(crate) fn snapshot(&self) -> Snapshot {
        self.cc.snapshot()
    }

    fn has_data(&self) -> bool {
        !self.flight.retransmit.is_empty() || self.unsent != Some(0)
    }

    /// draft-ietf-ccwg-bbr, "Detecting application-limited phases": asked at the start of ACK and
    /// timer processing and when there is nothing to send.
    fn check_if_application_limited(&mut self) {
        if !self.has_data() {
            self.cc.on_app_limited();
        }
    }

    pub(crate) fn pause(&mut self) {
        self.unsent = Some(0);
    }

    pub(crate) fn write(&mut self, bytes: u64) {
        // Before the new data is queued: then there is still nothing to send.
        self.check_if_application_limited();
        self.unsent = Some(self.unsent.unwrap_or(0).saturating_add(bytes));
    }

    pub(crate) fn resume(&mut self) {
        self.check_if_application_limited();
        self.unsent = None;
    }

    fn next_chunk(&mut self) -> Option<Chunk> {
        if let Some(chunk) = self.flight.retransmit.pop_front() {
            return Some(chunk);
        }
        let bytes = match &mut self.unsent {
            None => self.payload,
            Some(0) => return None,
            Some(left) => {
                let bytes = u64::from(self.payload).min(*left);
                *left -= bytes;
                bytes as u32
            }
        };
        self.next_chunk += 1;
        Some(Chunk { id: self.next_chunk - 1, bytes })
    }

    /// The next packet that may leave now.
    pub(crate) fn poll_transmit(&mut self, now: Instant) -> Option<Transmit> {
        self.paced_until = None;
        self.check_if_application_limited();
        if !self.has_data() {
            return None;
        }
        match self.cc.can_send(now) {
            Send::CwndLimited => None,
            Send::At(at) => {
                self.paced_until = Some(at);
                None
            }
            Send::Now { .. } => self.next_chunk().map(|chunk| self.transmit(now, chunk)),
        }
    }

    fn transmit(&mut self, now: Instant, chunk: Chunk) -> Transmit {
        let bytes = chunk.bytes + OVERHEAD_BYTES;
        let pn = self.flight.next_pn();
        let state = self.cc.on_sent(now, bytes);
        self.flight.push(state, chunk);
        self.last_sent = now;
        self.stats.sent_packets += 1;
        self.stats.sent_bytes += u64::from(bytes);
        Transmit { pn, chunk, bytes }
    }

    fn pto(&self) -> Option<Instant> {
        let armed = self.flight.loss_time.is_none() && self.flight.in_flight > 0;
        armed.then(|| self.last_sent + self.flight.rtt.pto().times(1 << self.pto_count))
    }

    /// When to call [`Self::on_timer`].
    pub(crate) fn deadline(&self) -> Option<Instant> {
        [self.flight.loss_time, self.pto(), self.paced_until].into_iter().flatten().min()
    }

    /// Fires what is due; returns a probe, which leaves whatever the window says.
    pub(crate) fn on_timer(&mut self, now: Instant) -> Option<Transmit> {
        self.check_if_application_limited();
        if self.flight.loss_time.is_some_and(|at| at <= now) {
            let mut batch = self.cc.ack(now);
            let losses = self.flight.detect_losses(now, &mut batch);
            batch.finish();
            self.count(now, losses);
        } else if self.pto().is_some_and(|at| at <= now) {
            self.pto_count = (self.pto_count + 1).min(MAX_BACKOFF);
            let chunk = self.next_chunk().or_else(|| self.flight.oldest_chunk())?;
            return Some(self.transmit(now, chunk));
        }
        None
    }

    /// Takes in an ACK.
    pub(crate) fn on_ack(&mut self, now: Instant, ack: Ack, receiver: &mut Receiver) {
        self.check_if_application_limited();
        let (news, spurious) = self.flight.on_ack(now, ack, receiver);
        if !news {
            return;
        }
        self.pto_count = 0;
        if spurious {
            self.cc.on_spurious_loss(now);
        }
        let mut batch = self.cc.ack(now);
        self.flight.tell_acked(&mut batch);
        let losses = self.flight.detect_losses(now, &mut batch);
        batch.finish();
        self.count(now, losses);
        self.flight.forget(now);
        self.stats.latest_rtt = self.cc.snapshot().latest_rtt;
    }

    fn count(&mut self, now: Instant, losses: Losses) {
        self.stats.lost_packets += losses.packets;
        self.stats.lost_bytes += losses.bytes;
        if losses.persistent_congestion {
            self.cc.on_rto(now);
        }
    }
}
