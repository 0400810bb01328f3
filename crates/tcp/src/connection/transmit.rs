//! Segments that leave.

use alloc::vec::Vec;

use fullpipe_cc::{Instant, SendDecision};

use super::{Connection, State};
use crate::flight::Flight;
use crate::options::TCP_HEADER;
use crate::receiver::{SACK_BLOCKS, Span};
use crate::wire::{self, Control, Ecn, Header, ReceiverDelay, Timestamp};

/// Segments that follow a probe for a larger size, so that SACKs tell of its loss.
const FOLLOWING: u64 = 3;
/// Duplicates of an ACK that each let a segment leave: one fewer than tell of a loss.
const LIMITED_TRANSMIT: usize = crate::rack::DUP_THRESH - 1;
/// SYNs that offer the experimental option.
const SYNS_THAT_OFFER: u32 = 2;
/// Segments that may be under way whatever the send buffer is.
const LEAST_SEGMENTS: usize = 32;

/// A segment that leaves whatever the window says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Probe {
    /// A tail loss probe (RFC 8985 section 7.3).
    Tail,
    /// A byte beyond a closed window (RFC 9293 section 3.8.6.1).
    Window,
    /// A segment that the peer has to answer (RFC 9293 section 3.8.4).
    KeepAlive,
}

impl Connection {
    /// Writes the next packet that may leave now into `out`; whether there is one. `out` is
    /// cleared.
    pub fn transmit(&mut self, now: Instant, out: &mut Vec<u8>) -> bool {
        out.clear();
        if let Some((seq, ack)) = self.reset.take() {
            let header = Header { seq, ack, control: Control::Rst, ..Header::default() };
            self.write_out(out, &header, Span::default());
            return true;
        }
        self.paced_until = None;
        if self.state != State::Closed && self.transmit_kept(now, out) {
            return true;
        }
        match self.state {
            State::Closed => return false,
            State::SynSent | State::SynReceived if self.syn_due => {
                self.transmit_syn(now, out);
                return true;
            }
            State::SynReceived if self.is_early() => {
                if self.transmit_data(now, out) {
                    return true;
                }
            }
            State::SynSent | State::SynReceived => {}
            _ if self.has_handshake_ack() => {}
            _ => {
                if let Some(probe) = self.probe_due.take()
                    && self.transmit_probe(now, probe, out)
                {
                    return true;
                }
                if self.transmit_data(now, out) {
                    return true;
                }
            }
        }
        if self.acks.is_due() && self.state != State::SynSent {
            let header = self.pure_ack(now);
            self.write_out(out, &header, Span::default());
            return true;
        }
        false
    }

    /// Segments with an ACK or data that left so far.
    pub(crate) fn segments_out(&self) -> u64 {
        self.counts.segs_out
    }

    /// True if the next segment is a reset.
    pub(crate) fn has_reset(&self) -> bool {
        self.reset.is_some()
    }

    /// As [`Self::transmit`], with `ident` as the identification of the packet if it has one.
    pub(crate) fn transmit_as(&mut self, now: Instant, ident: u16, out: &mut Vec<u8>) -> bool {
        self.ident = ident;
        self.transmit(now, out)
    }

    /// True if routers may cut packets, which have numbers then (RFC 6864 section 4.1).
    pub(crate) fn numbers_packets(&self) -> bool {
        self.remote.is_ipv4() && (!self.config.mtu_discovery || self.mtu.is_lowest())
    }

    fn transmit_syn(&mut self, now: Instant, out: &mut Vec<u8>) {
        let options = &self.options;
        let answers = self.state == State::SynReceived;
        let mut header = Header {
            seq: self.send.iss as u32,
            ack: answers.then(|| self.receive.next() as u32),
            control: Control::Syn,
            window: self.config.first_window(),
            mss: Some(options.own_mss),
            window_scale: options.window_scaling.then_some(options.receive_scale),
            sack_permitted: options.sack,
            // Something on the way may drop SYNs because of it.
            delay_permitted: options.receiver_delay && (answers || self.syns < SYNS_THAT_OFFER),
            timestamp: options
                .timestamps
                .then(|| Timestamp { value: self.timestamp(now), echo: self.recent.value }),
            ..Header::default()
        };
        header.set_flags(self.syn_flags(answers));
        if answers && self.has_begun_early() {
            // The SYN's data takes up a part of it.
            let window = self.receive.window(self.options.mss);
            header.window = u16::try_from(window).unwrap_or(u16::MAX);
        }
        let span = self.put_fast_open(answers, &mut header);
        self.send.nxt = self.send.nxt.max(self.send.iss + 1);
        (self.syn_due, self.started) = (false, now);
        self.syns += 1;
        if answers && span.end > span.start {
            self.count_new(now, span, false);
        }
        self.write_out(out, &header, span);
    }

    /// The header of a segment that begins at `seq`, with all that an ACK says.
    pub(super) fn header(&mut self, now: Instant, seq: u64) -> Header {
        let next = self.receive.next();
        let window = self.receive.window(self.options.mss) >> self.options.receive_scale;
        let timestamp = self
            .options
            .timestamps
            .then(|| Timestamp { value: self.timestamp(now), echo: self.recent.value });
        let tells = self.options.receiver_delay;
        let mut header = Header {
            seq: seq as u32,
            ack: Some(next as u32),
            window: u16::try_from(window).unwrap_or(u16::MAX),
            sack: self.sack_blocks(),
            timestamp,
            receiver_delay: self.acks.receiver_delay(now).filter(|_| tells),
            ..Header::default()
        };
        header.leave_out_excess();
        self.put_marks(&mut header, false);
        header
    }

    fn sack_blocks(&self) -> [Option<(u32, u32)>; SACK_BLOCKS] {
        match self.options.sack {
            true => self.receive.sack_blocks(self.acks.duplicate),
            false => [None; SACK_BLOCKS],
        }
    }

    /// Bytes of data that fit beside the options that the next new segment has.
    pub(super) fn payload(&self) -> u32 {
        self.payload_of(self.options.mss, self.tells_delay())
    }

    /// The same beside those of a segment that leaves once more. It does not tell of the receiver's
    /// delay unless it has room: it would be cut in two for that.
    fn payload_of_repeat(&self) -> u32 {
        self.payload_of(self.options.mss, false)
    }

    /// True if the next segment is to tell of the receiver's part of a round trip.
    fn tells_delay(&self) -> bool {
        self.options.receiver_delay && self.acks.has_news()
    }

    /// Bytes of data that fit into `mss` beside these options.
    fn payload_of(&self, mss: u32, tells_delay: bool) -> u32 {
        let sack = self.sack_blocks();
        if sack[0].is_none() && !tells_delay {
            return self.options.payload() + mss - self.options.mss;
        }
        let timestamp = self.options.timestamps.then_some(Timestamp { value: 0, echo: 0 });
        let receiver_delay = tells_delay.then(ReceiverDelay::default);
        let mut header = Header { sack, timestamp, receiver_delay, ..Header::default() };
        header.leave_out_excess();
        mss - (header.bytes() as u32 - TCP_HEADER).min(mss - 1)
    }

    /// The next segment of what was never sent, of up to `payload` bytes (0: a full one); whether
    /// it has a FIN.
    ///
    /// RFC 9293 section 3.8.6.2.1 against silly windows, and section 3.7.4, Nagle's algorithm.
    pub(super) fn next_new(&self, payload: u32) -> Option<(Span, bool)> {
        if self.flight.len() >= self.most_segments() {
            return None;
        }
        let full = if payload == 0 { self.options.payload() } else { payload };
        let start = self.send.nxt;
        let room = self.send.edge.saturating_sub(start);
        let unsent = self.unsent() as u64;
        // After the handshake, whatever was transferred before.
        let may_end = self.state != State::SynReceived;
        let wants_fin = self.closing && self.fin.is_none() && may_end;
        if unsent == 0 {
            let fin = Span { start, end: start + 1 };
            return (wants_fin && room > 0).then_some((fin, true));
        }
        let wanted = unsent.min(u64::from(full));
        if room < wanted {
            let is_enough = self.flight.is_empty() || room >= self.send.max_window.div_ceil(2);
            return (room > 0 && is_enough).then_some((Span { start, end: start + room }, false));
        }
        let is_small = wanted < u64::from(full);
        let waits = self.config.nagle && !self.flight.is_empty() || self.cork_until.is_some();
        if is_small && waits && !wants_fin {
            return None;
        }
        let fin = wants_fin && wanted == unsent && room > wanted;
        Some((Span { start, end: start + wanted + u64::from(fin) }, fin))
    }

    /// Segments that may be under way: their list takes up half of the send buffer at most, however
    /// small they are. Linux counts the memory of packets as well.
    fn most_segments(&self) -> usize {
        let most = self.config.send_buffer / (2 * Flight::BYTES_EACH);
        if self.is_memory_short { LEAST_SEGMENTS } else { most.max(LEAST_SEGMENTS) }
    }

    /// The next lost segment. Beyond the peer's window only the first one, as a probe.
    fn next_repeat(&self) -> Option<(Span, bool)> {
        let sent = self.flight.next_repeat()?;
        let may = sent.span.end <= self.send.edge || sent.span.start == self.send.una;
        may.then_some((sent.span, sent.fin))
    }

    fn transmit_data(&mut self, now: Instant, out: &mut Vec<u8>) -> bool {
        if self.recovery.holds_all() {
            return false;
        }
        // More options than then may stand beside the data, or the path carries less.
        self.flight.split_next_repeat(self.payload_of_repeat());
        let repeat = self.next_repeat().filter(|_| !self.recovery.holds_repeats());
        let probe = if repeat.is_none() { self.mtu_probe(now) } else { None };
        let payload = probe.unwrap_or_else(|| self.payload());
        let next = repeat.or_else(|| self.next_new(payload));
        let Some((span, fin)) = next else {
            self.check_app_limited();
            return false;
        };
        let allowed = self.prr.map(|prr| prr.may_send(self.cc.inflight()));
        // Without SACK the flight is not known well: RFC 6582 section 3.2 sends the first one
        // whatever the window is.
        let is_first = repeat.is_some_and(|(span, _)| span.start == self.send.una);
        let is_full = self.is_window_full();
        match self.cc.can_send(now) {
            SendDecision::Now { .. } | SendDecision::CwndLimited
                if is_first && (self.head_due || !self.options.sack) => {}
            SendDecision::CwndLimited if repeat.is_none() && self.is_limited_transmit(span) => {}
            // What proportional rate reduction allows goes by what arrives, and is not paced.
            SendDecision::CwndLimited if allowed == Some(true) => {}
            SendDecision::Now { .. } if is_full && allowed.is_none() => {
                self.cc.on_cwnd_limited();
                return false;
            }
            SendDecision::Now { .. } if allowed != Some(false) => {}
            SendDecision::At(at) => {
                self.paced_until = Some(at);
                return false;
            }
            _ => return false,
        }
        match repeat {
            Some(_) => {
                let clock = self.timestamp(now);
                self.recovery.on_repeat(clock, span);
                self.head_due = false;
                if is_first {
                    // As Linux: the copy has its time before the timeout.
                    self.started = now;
                }
                self.repeat(now, span, fin, out);
            }
            None => {
                if probe.is_some() {
                    self.mtu.on_probe(span.start, payload + self.options.mss - self.payload());
                }
                self.send_new(now, span, fin, out);
            }
        }
        true
    }

    /// RFC 3042 section 2: the first two duplicates of an ACK each let one more segment leave, as
    /// the packets that made them are not under way any more. With SACK the flight says so itself.
    fn is_limited_transmit(&self, span: Span) -> bool {
        let more = self.duplicates.min(LIMITED_TRANSMIT) as u64 * u64::from(self.cc_config.smss);
        let is_within = self.cc.inflight() + (span.end - span.start) <= self.cc.cwnd() + more;
        more > 0 && !self.options.sack && !self.recovery.is_active() && is_within
    }

    /// True if as many packets are under way as the window has full segments: small ones count as
    /// much as others (as in Linux, whose window is in packets).
    pub(super) fn is_window_full(&self) -> bool {
        let charged = (self.flight.under_way() as u64 + 1) * u64::from(self.cc_config.smss);
        charged > self.cc.cwnd().max(self.cc_config.smss.into())
    }

    /// Bytes of data in a probe for a larger size, if one should leave now: when nothing is to be
    /// repaired, and enough follows for its loss to be seen at once (RFC 4821 section 7.4).
    pub(super) fn mtu_probe(&mut self, now: Instant) -> Option<u32> {
        if !self.config.mtu_discovery || self.recovery.is_active() {
            return None;
        }
        if !self.options.sack && !self.recovery.may_begin(self.send.nxt) {
            // The duplicates that tell of its loss would count as those of the recovery before it.
            return None;
        }
        let mss = self.options.mss;
        let size = self.mtu.wanted(now)?;
        let needed = u64::from(size) + FOLLOWING * u64::from(mss);
        let may = self.unsent() as u64 >= needed
            && self.send.nxt + needed <= self.send.edge
            && self.cc.inflight() + needed <= self.cc.cwnd();
        may.then(|| self.payload_of(size, self.tells_delay()))
    }

    fn send_new(&mut self, now: Instant, span: Span, fin: bool, out: &mut Vec<u8>) {
        let mut header = self.header(now, span.start);
        if self.may_mark() {
            header.ecn = if self.config.congestion.ecn { Ecn::Ect1 } else { Ecn::Ect0 };
        }
        if !self.options.accurate_ecn {
            header.cwr = core::mem::take(&mut self.marks.reduced);
        }
        let is_last = span.end - u64::from(fin) == self.data.end();
        header.control = control(fin, is_last);
        self.count_new(now, span, fin);
        self.write_out(out, &header, Span { end: span.end - u64::from(fin), ..span });
    }

    /// A new segment leaves.
    pub(super) fn count_new(&mut self, now: Instant, span: Span, fin: bool) {
        // Until then the SYN-ACK's time counts.
        if self.flight.is_empty() && self.state.is_synchronized() {
            (self.started, self.waiting) = (now, now);
        }
        self.advanced = now;
        if fin {
            self.fin = Some(span.end - 1);
        }
        self.send.nxt = span.end;
        self.recovery.on_new();
        let state = self.cc.on_sent(now, (span.end - span.start) as u32);
        let is_probe = self.mtu.probe() == Some(span.start);
        self.flight.push(span, fin, is_probe, state);
        self.note_sent(now, span);
    }

    fn repeat(&mut self, now: Instant, span: Span, fin: bool, out: &mut Vec<u8>) {
        let mut header = self.header(now, span.start);
        header.control = control(fin, true);
        let bytes = span.end - span.start - u64::from(fin);
        if bytes > u64::from(self.payload()) {
            header.receiver_delay = None;
        }
        if bytes > u64::from(self.payload_of_repeat()) {
            // A tail loss probe, which is not split: SACK blocks are no duty (RFC 2018 section 4).
            header.sack = [None; SACK_BLOCKS];
        }
        // A retransmission is not ECN-capable: RFC 3168 section 6.1.5.
        self.flight.repeat(span.start, now, &mut self.cc);
        self.counts.total_retrans += 1;
        self.counts.bytes_retrans += span.end - span.start;
        self.note_sent(now, span);
        self.write_out(out, &header, Span { end: span.end - u64::from(fin), ..span });
    }

    fn note_sent(&mut self, now: Instant, span: Span) {
        self.last_sent = now;
        if let Some(prr) = &mut self.prr {
            prr.on_sent(span.end - span.start);
        }
    }

    fn transmit_probe(&mut self, now: Instant, probe: Probe, out: &mut Vec<u8>) -> bool {
        match probe {
            Probe::Tail => {
                let new = self.next_new(self.payload());
                if let Some((span, fin)) = new {
                    self.send_new(now, span, fin, out);
                } else {
                    let Some(last) = self.flight.last_open() else { return false };
                    let (span, fin) = (last.span, last.fin);
                    self.repeat(now, span, fin, out);
                }
                self.rack.on_probe(self.send.nxt, new.is_none());
                self.started = now;
            }
            Probe::Window => {
                if !self.flight.is_empty() || !self.has_unsent() || self.send.edge > self.send.nxt {
                    return false;
                }
                let span = Span { start: self.send.nxt, end: self.send.nxt + 1 };
                let fin = self.unsent() == 0;
                let mut header = self.header(now, span.start);
                header.control = control(fin, true);
                self.send.probe_end = span.end;
                self.write_out(out, &header, Span { end: span.end - u64::from(fin), ..span });
            }
            Probe::KeepAlive => {
                let header = self.header(now, self.send.nxt - 1);
                self.write_out(out, &header, Span::default());
            }
        }
        true
    }

    fn write_out(&mut self, out: &mut Vec<u8>, header: &Header, span: Span) {
        if header.ack.is_some() && header.control != Control::Rst {
            self.acks.on_sent();
            self.recent.last_ack = self.receive.next();
        }
        self.put_packet(out, header, span);
    }

    pub(super) fn put_packet(&mut self, out: &mut Vec<u8>, header: &Header, span: Span) {
        self.count_out(span);
        let fragments = self.numbers_packets().then_some(self.ident);
        self.ident = self.ident.wrapping_add(1);
        let header = Header { fragments, ..*header };
        wire::write(out, self.local, self.remote, &header, self.data.get(span));
    }

    /// Counts a packet with this data.
    pub(super) fn count_out(&mut self, span: Span) {
        self.counts.segs_out += 1;
        if span.end > span.start {
            self.counts.data_segs_out += 1;
            self.counts.bytes_sent += span.end - span.start;
        }
    }
}

const fn control(fin: bool, push: bool) -> Control {
    match (fin, push) {
        (true, _) => Control::Fin,
        (false, true) => Control::Psh,
        (false, false) => Control::None,
    }
}
