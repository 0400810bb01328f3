//! SEGMENT ARRIVES (RFC 9293 section 3.10.7), with the protections of RFC 5961 and RFC 7323.

use fullpipe_cc::Instant;

use super::acknowledge::echo_age;
use super::{Connection, State};
use crate::config::Error;
use crate::receiver::Span;
use crate::seq;
use crate::wire::{Control, Header, Segment};

impl Connection {
    /// Takes in a segment that is for this connection.
    pub fn on_segment(&mut self, now: Instant, segment: &Segment<'_>) {
        self.take_apart(now, segment);
    }

    pub(super) fn take_segment(&mut self, now: Instant, segment: &Segment<'_>) {
        self.keep_ack(now, segment);
        match self.state {
            State::Closed => {}
            State::SynSent => self.arrive_in_syn_sent(now, segment),
            _ => self.arrive_synchronized(now, segment),
        }
        self.acks.note_time(now);
    }

    /// Section 3.10.7.3.
    fn arrive_in_syn_sent(&mut self, now: Instant, segment: &Segment<'_>) {
        let header = &segment.header;
        let place = header.ack.map(|ack| seq::place(self.send.una, ack));
        let acked =
            place.filter(|&ack| self.send.nxt > self.send.iss && self.acknowledges_syn(ack));
        let is_ours = acked.is_some();
        if let Some(ack) = header.ack.filter(|_| !is_ours) {
            if header.control != Control::Rst {
                self.reset = Some((ack, None));
            }
            return;
        }
        match header.control {
            Control::Rst if is_ours => self.end(Some(Error::Refused)),
            Control::Syn => {
                self.heard = now;
                self.counts.segs_in += 1;
                self.take_syn(now, header);
                if let Some(ack) = acked {
                    self.note_syn_acked(ack);
                    self.note_syn_ack(header);
                    self.set_window(header, ack, u64::from(header.window));
                    self.establish(now);
                    self.acks.demand();
                    self.take_data(now, segment, self.receive.next());
                } else {
                    // Both ends open at the same time: section 3.5, figure 7.
                    (self.state, self.syn_due) = (State::SynReceived, true);
                }
            }
            _ => {}
        }
    }

    fn arrive_synchronized(&mut self, now: Instant, segment: &Segment<'_>) {
        let header = &segment.header;
        let is_reset = header.control == Control::Rst;
        let start = seq::place(self.receive.next(), header.seq);
        if self.state == State::SynReceived
            && header.control == Control::Syn
            && start + 1 + self.opening.taken == self.receive.next()
        {
            return self.arrive_again(now, header);
        }
        if self.state == State::SynReceived && !is_reset && self.refuses_ack(header) {
            return;
        }
        if !is_reset && !self.passes_paws(now, header) {
            return;
        }
        let end = start + u64::from(segment.len());
        if !is_acceptable(start, end, self.receive.next(), self.receive.edge()) {
            if !is_reset {
                self.answer_unacceptable(now, segment, start);
            }
            return;
        }
        if is_reset {
            return self.arrive_reset(now, start);
        }
        if header.control == Control::Syn {
            // RFC 5961 section 4.
            return self.acks.challenge(now);
        }
        let Some(ack) = header.ack.map(|ack| seq::place(self.send.una, ack)) else { return };
        if self.state == State::SynReceived {
            self.send.una = self.send.iss + 1;
            self.set_window(header, ack, u64::from(header.window) << self.options.send_scale);
            self.establish(now);
            self.note_handshake_ack(header, segment.payload.is_empty());
        }
        if !self.is_acceptable_ack(ack) {
            return self.acks.challenge(now);
        }
        if let Some(timestamp) = header.timestamp.filter(|_| self.options.timestamps) {
            self.recent.note(now, timestamp.value, start);
        }
        (self.heard, self.keep_alives) = (now, 0);
        self.counts.segs_in += 1;
        self.on_ack(now, ack, segment, start);
        if self.state == State::Closed {
            return;
        }
        self.note_marks(segment);
        self.take_data(now, segment, start);
    }

    /// In SYN-RECEIVED: true if the ACK is not one of this end's SYN, which a reset answers. It is
    /// looked at before the window, as in Linux and other than by RFC 9293 section 3.10.7.4: the
    /// peer may have another connection between the same ends, whose segments are outside of the
    /// window. An ACK would be answered by another one, for as long as both ends go on, and the
    /// peer would never hear that they do not have the same connection.
    fn refuses_ack(&mut self, header: &Header) -> bool {
        let ack = header.ack.map(|ack| seq::place(self.send.una, ack));
        let refused = ack.filter(|&ack| ack <= self.send.una || !self.acknowledges_syn(ack));
        if let Some(ack) = refused {
            self.reset = Some((ack as u32, None));
        }
        refused.is_some()
    }

    /// A SYN or SYN-ACK once more, in SYN-RECEIVED.
    fn arrive_again(&mut self, now: Instant, header: &Header) {
        let ack = header.ack.map(|ack| seq::place(self.send.una, ack));
        let acked = ack.filter(|&ack| ack > self.send.una && self.acknowledges_syn(ack));
        if let Some(ack) = acked {
            // The SYN-ACK of a peer that opens at the same time.
            self.note_syn_acked(ack);
            self.set_window(header, ack, u64::from(header.window));
            self.establish(now);
            self.acks.demand();
        } else if header.ack.is_none() && !self.accepts_syn_again(header) {
            self.abort();
        } else if header.ack.is_none() {
            self.acks.challenge(now);
            self.syn_due |= self.acks.is_due();
        }
    }

    /// R1 of RFC 7323 section 5.3, and section 3.2 for a segment without the option.
    fn passes_paws(&mut self, now: Instant, header: &Header) -> bool {
        if !self.options.timestamps {
            return true;
        }
        let Some(timestamp) = header.timestamp else { return false };
        if self.recent.refuses(now, timestamp.value) {
            self.acks.challenge(now);
            return false;
        }
        true
    }

    /// The segment is outside of the window: it is answered, and data that was here before is
    /// reported (RFC 2883). The ACK counts nevertheless in two cases: with a window of zero; and if
    /// the segment begins one before RCV.NXT. There the peer is that does not know yet that this
    /// end has taken the byte of its window probe, and when both ends have, neither would ever hear
    /// of it (section 3.10.7.4 on the validation of sequence numbers).
    fn answer_unacceptable(&mut self, now: Instant, segment: &Segment<'_>, start: u64) {
        let next = self.receive.next();
        if self.state == State::TimeWait && segment.header.control == Control::Fin {
            self.close_at = Some(now + self.config.time_wait);
        }
        let counts = start + 1 == next || start == next && self.receive.edge() <= next;
        let ack = segment.header.ack.map(|ack| seq::place(self.send.una, ack));
        let is_syn = segment.header.control == Control::Syn;
        if is_syn && ack.is_some() {
            self.note_syn_ack_again(&segment.header);
        }
        if let Some(ack) = ack.filter(|&ack| counts && !is_syn && self.is_acceptable_ack(ack)) {
            (self.heard, self.keep_alives) = (now, 0);
            if self.state.is_synchronized() && self.state != State::TimeWait {
                self.on_ack(now, ack, segment, start);
            }
        }
        if segment.payload.is_empty() {
            return self.acks.challenge(now);
        }
        let end = start + segment.payload.len() as u64;
        if end <= next {
            self.acks.duplicate = Some(Span { start, end });
        }
        self.acks.demand();
    }

    /// RFC 5961 section 3; TIME-WAIT ignores resets (RFC 1337).
    fn arrive_reset(&mut self, now: Instant, start: u64) {
        if start != self.receive.next() {
            return self.acks.challenge(now);
        }
        match self.state {
            State::TimeWait => {}
            State::SynReceived if !self.is_early() => self.end(Some(Error::Refused)),
            State::Closing | State::LastAck => self.end(None),
            _ => self.end(Some(Error::Reset)),
        }
    }

    /// RFC 5961 section 5.2.
    fn is_acceptable_ack(&self, ack: u64) -> bool {
        let most = self.send.nxt.max(self.send.probe_end);
        self.send.una.saturating_sub(self.send.max_window) <= ack && ack <= most
    }

    /// The data and the FIN of an acceptable segment.
    fn take_data(&mut self, now: Instant, segment: &Segment<'_>, start: u64) {
        let mut fin = segment.header.control == Control::Fin;
        if segment.payload.is_empty() && !fin {
            return;
        }
        match self.state {
            State::Established | State::FinWait1 | State::FinWait2 => {}
            State::TimeWait => {
                // The peer's FIN once more: section 3.10.7.4.
                self.close_at = Some(now + self.config.time_wait);
                return self.acks.demand();
            }
            _ => return self.acks.demand(),
        }
        let room = self.receive.edge().saturating_sub(start) as usize;
        let mut data = segment.payload;
        if data.len() > room {
            (data, fin) = (&data[..room], false);
        }
        if self.detached && !data.is_empty() && start + data.len() as u64 > self.receive.next() {
            // Nobody will read it: RFC 2525 section 2.17.
            return self.abort();
        }
        if self.is_memory_short {
            let room = self.receive.short_room(start);
            if data.len() > room {
                (data, fin) = (&data[..room], false);
                self.counts.data_dropped += 1;
                self.give_memory();
            }
            if data.is_empty() && !fin || start > self.receive.next() {
                return self.acks.demand();
            }
        }
        let (before, was_finished) = (self.receive.next(), self.receive.is_finished());
        let taken = self.receive.take(start, data, fin);
        let end = start + data.len() as u64 + u64::from(fin);
        self.acks.on_arrival(now, end, segment.in_host);
        self.tune_buffer(now, &segment.header);
        let finished = self.receive.is_finished() && !was_finished;
        self.counts.bytes_received += self.receive.next() - before - u64::from(finished);
        if taken.duplicate.is_some() && self.options.sack {
            self.acks.duplicate = taken.duplicate;
        }
        if taken.out_of_order {
            self.acks.demand_for_disorder();
        } else if finished || taken.duplicate.is_some() || !taken.advanced {
            self.acks.demand();
        } else {
            self.acks.on_data(now, data.len(), self.options.payload());
        }
        if finished {
            self.on_fin(now);
        }
    }

    /// The buffer grows with what the application reads.
    fn tune_buffer(&mut self, now: Instant, header: &Header) {
        let most = self.largest_buffer();
        if self.receive.limit() >= most || self.is_memory_short {
            return;
        }
        let echo = header.timestamp.filter(|t| self.options.timestamps && t.echo != 0);
        let age = echo.and_then(|t| echo_age(now, self.clock, t.echo));
        if let Some(wanted) = self.tune.on_data(now, self.receive.places(), age) {
            self.receive.grow(most.min(usize::try_from(wanted).unwrap_or(most)));
        }
    }

    /// The peer sends no more: section 3.10.7.4, eighth.
    fn on_fin(&mut self, now: Instant) {
        match self.state {
            State::Established => self.state = State::CloseWait,
            State::FinWait1 => self.state = State::Closing,
            State::FinWait2 => self.wait_for_late_segments(now),
            _ => {}
        }
    }

    /// TIME-WAIT begins.
    pub(super) fn wait_for_late_segments(&mut self, now: Instant) {
        self.state = State::TimeWait;
        self.close_at = Some(now + self.config.time_wait);
        self.data.discard();
        self.tidy();
    }
}

/// The test of section 3.10.7.4 for RCV.NXT and the window's right edge. What has no data may begin
/// at the edge, as in Linux: when both ends have lost whole windows, their ACKs do, and by the
/// RFC's letter neither would ever hear of the other's.
pub(super) fn is_acceptable(start: u64, end: u64, next: u64, edge: u64) -> bool {
    if start == end {
        return next <= start && start <= edge.max(next);
    }
    let is_inside = |place| next <= place && place < edge;
    is_inside(start) || end > start && is_inside(end - 1)
}
