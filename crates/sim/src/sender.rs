//! The sending side of a flow: data, timers, and the calls to the controller.

mod acknowledge;
mod source;

use std::collections::VecDeque;

use fullpipe_cc::{
    BandwidthProbe, Config, Controller, Duration, EcnValidation, Instant, Prr, Rate, SendDecision,
    Snapshot,
};
use fullpipe_traffic::{Application, SenderStats, SenderView, SentPacket};

use crate::config::{FlowConfig, PacedBy, ReceiveWindow};
use crate::flight::{Flight, Losses, News};
use crate::pacer::NoqPacer;
use crate::packet::Chunk;
use crate::tcp::{Alarm, Tcp};
use source::{Source, Writes};

/// The most doublings of the probe timeout.
const MAX_BACKOFF: u32 = 10;

/// The order in memory is that of use, as in [`crate::Flow`].
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Sender {
    source: Source,
    payload: u32,
    overhead: u32,
    pto_count: u32,
    last_sent_bytes: u32,
    last_sent: Instant,
    /// The alarm when packets were sent last; ACKs since may have moved it.
    alarm_at: Option<Instant>,
    next_chunk: u64,
    /// The receiver takes application data up to this offset.
    max_data: u64,
    /// The transport's own pacer, in place of the core's.
    pacer: Option<Box<NoqPacer>>,
    /// The validation of ECN; `None` for packets that are not ECN-capable.
    ecn: Option<Box<EcnValidation>>,
    /// Packets that arrived with CE, as far as ACKs said: all there will ever be, where marks are
    /// ignored.
    ce_packets: u64,
    pub(crate) stats: SenderStats,
    flight: Flight,
    cc: Controller,
}

impl Sender {
    pub(crate) fn new(config: &FlowConfig, now: Instant) -> Self {
        let payload = config.payload_bytes();
        let overhead = config.cc.smss.saturating_sub(payload);
        let buffer = config.send_buffer.and_then(|size| match config.application {
            Application::Bulk => Some((size, None)),
            Application::Bytes(bytes) => Some((size, Some(bytes))),
            _ => None,
        });
        Self {
            cc: Controller::new(config.algorithm, config.cc, now),
            payload,
            overhead,
            source: Source {
                unsent: Some(0),
                sent: 0,
                writes: Box::new(Writes { times: VecDeque::new(), buffer, bytes: 0, waits: false }),
            },
            next_chunk: 0,
            max_data: match config.receive_window {
                ReceiveWindow::Unlimited => u64::MAX,
                ReceiveWindow::Fixed(bytes) | ReceiveWindow::Auto { initial: bytes, .. } => bytes,
            },
            ce_packets: if config.ignores_marks { u64::MAX } else { 0 },
            ecn: config.ecn.is_capable().then(Box::default),
            flight: Flight::new(
                config.acks.max_delay,
                overhead,
                config.is_tcp() || buffer.is_some(),
                config.is_tcp().then(|| Tcp::new(config.tcp, now)),
            ),
            pto_count: 0,
            alarm_at: None,
            last_sent: now,
            last_sent_bytes: 0,
            pacer: match config.pacer {
                PacedBy::Core => None,
                PacedBy::Noq => Some(Box::new(NoqPacer::new(config.cc.smss, now))),
            },
            stats: SenderStats::default(),
        }
    }

    /// True if packets leave, for now or for good, as not ECN-capable: see [`Validation`].
    #[inline]
    pub(crate) fn is_without_ecn(&self) -> bool {
        self.ecn.as_ref().is_none_or(|ecn| ecn.is_silent())
    }

    /// True if the ECN field is changed on the way.
    pub(crate) fn has_no_ecn(&self) -> bool {
        self.ecn.as_ref().is_none_or(|ecn| ecn.has_failed())
    }

    /// The sender as its application sees it.
    pub(crate) fn view(&self) -> SenderView {
        let backlog = self.source.unsent.unwrap_or(0);
        SenderView { estimate: self.cc.send_rate_estimate(), backlog }
    }

    pub(crate) fn probe_bandwidth(&mut self, now: Instant, target: Rate) -> BandwidthProbe {
        self.cc.probe_bandwidth(now, target)
    }

    pub(crate) fn snapshot(&self) -> Snapshot {
        self.cc.snapshot()
    }

    pub(crate) fn newest_packet(&self) -> Option<SentPacket> {
        let number = self.flight.next_pn().checked_sub(1)?;
        Some(SentPacket { number, bytes: self.last_sent_bytes, sent: self.last_sent })
    }

    pub(crate) fn latest_rtt(&self) -> Option<Duration> {
        self.flight.rtt.latest
    }

    pub(crate) fn smoothed_rtt(&self) -> Duration {
        self.flight.rtt.smoothed()
    }

    /// True if everything was sent and has arrived.
    pub(crate) fn is_idle(&self) -> bool {
        self.flight.in_flight == 0
            && self.flight.retransmit.is_empty()
            && self.source.unsent == Some(0)
    }

    /// True if there is data, and the receiver's window has room for less than a packet or for less
    /// than a sixteenth of itself: as full as a sender keeps it that paces at what it lets through.
    pub(crate) fn fills_window(&self) -> bool {
        let room = self.max_data.saturating_sub(self.source.sent);
        let is_full =
            room < u64::from(self.payload) || room.saturating_mul(15) < self.cc.inflight();
        is_full && self.source.unsent != Some(0)
    }

    /// New data that may be sent, as far as the receiver's window goes: the size of the next
    /// packet's payload, 0 for nothing. A packet that is not full waits for more room, unless it is
    /// the last or nothing is under way (RFC 9293 section 3.8.6.2.1).
    #[inline]
    fn next_payload(&self) -> u32 {
        let unsent = self.source.unsent.unwrap_or(u64::MAX);
        let wanted = u64::from(self.payload).min(unsent);
        let room = self.max_data.saturating_sub(self.source.sent);
        if room >= wanted {
            wanted as u32
        } else if self.flight.in_flight == 0 {
            room as u32
        } else {
            0
        }
    }

    /// draft-ietf-ccwg-bbr, "Detecting application-limited phases": asked at the start of ACK and
    /// timer processing and when nothing can be sent.
    ///
    /// Data that waits for the receiver's window is unsent data. So is what the application holds
    /// back while the send buffer is full: NoUnsentData() is about the application, and the buffer
    /// is the transport's, as the window is.
    #[inline]
    fn check_if_application_limited(&mut self) {
        if self.source.is_out_of_data() && self.flight.retransmit.is_empty() {
            self.cc.on_app_limited();
        }
    }

    /// The handshake is over, and measured this round trip.
    pub(crate) fn connect(&mut self, config: &FlowConfig, now: Instant, rtt: Option<Duration>) {
        let cc = Config { handshake_rtt: rtt, ..config.cc };
        self.cc = Controller::new(config.algorithm, cc, now);
        if let Some(rtt) = rtt {
            self.flight.rtt.update(now, rtt, Duration::ZERO);
        }
        self.last_sent = now;
    }

    /// The application writes after a pause: Linux's `tcp_cwnd_restart` halves the window for each
    /// timeout that passed, down to the initial one.
    fn restart_after_idle(&mut self, now: Instant) {
        let Some(tcp) = self.flight.tcp.as_ref().filter(|tcp| tcp.config().idle_restart) else {
            return;
        };
        if self.flight.in_flight > 0 || !self.flight.retransmit.is_empty() {
            return;
        }
        let rto = tcp.rto(&self.flight.rtt).as_nanos();
        let timeouts = now.since(self.last_sent).as_nanos() / rto.max(1);
        if timeouts > 0 {
            let cwnd = self.cc.cwnd() >> timeouts.min(63);
            self.cc.on_idle(now, cwnd.max(self.cc.initial_cwnd().min(self.cc.cwnd())));
        }
    }

    pub(crate) fn pause(&mut self) {
        self.source.unsent = Some(0);
        let sent = self.source.sent;
        *self.source.writes =
            Writes { times: VecDeque::new(), buffer: None, bytes: sent, waits: false };
    }

    pub(crate) fn write(&mut self, now: Instant, bytes: u64) {
        self.restart_after_idle(now);
        // Before the new data is queued: then there is still nothing to send.
        self.check_if_application_limited();
        if self.source.writes.buffer.is_some() {
            self.source.fill(now, 0);
        } else {
            self.source.write(now, bytes);
        }
    }

    pub(crate) fn resume(&mut self, now: Instant) {
        self.restart_after_idle(now);
        self.check_if_application_limited();
        if self.source.writes.buffer.is_some() {
            self.source.fill(now, 0);
        } else {
            self.source.unsent = None;
        }
    }

    /// The next chunk to send: a retransmission, or new data of at most `payload` bytes.
    #[inline]
    fn next_chunk(&mut self, now: Instant, payload: u32) -> Option<Chunk> {
        if !self.flight.retransmit.is_empty()
            && let Some(chunk) = self.flight.next_retransmit()
        {
            return Some(chunk);
        }
        if payload == 0 {
            return None;
        }
        let (bytes, written) = self.source.take(now, payload);
        self.next_chunk += 1;
        Some(Chunk { id: self.next_chunk - 1, bytes, written })
    }

    /// Sends what may leave now, after a probe if one is due; returns when to look again.
    #[inline]
    pub(crate) fn pump(
        &mut self,
        now: Instant,
        probe: bool,
        mut send: impl FnMut(u64, Chunk, u32),
    ) -> Option<Instant> {
        if probe {
            self.probe(now, &mut send);
        }
        let paced_until = loop {
            let payload = self.next_payload();
            if payload == 0 && self.flight.retransmit.is_empty() {
                self.check_if_application_limited();
                break None;
            }
            let decision = match self.cc.can_send(now) {
                SendDecision::CwndLimited => SendDecision::CwndLimited,
                decision => self.paced(now, decision),
            };
            let may_send = match decision {
                // What PRR allows goes by what arrives, and is not paced.
                SendDecision::CwndLimited => self.prr_allows(),
                SendDecision::Now { .. } => self.prr().is_none() || self.prr_allows(),
                SendDecision::At(at) => break Some(at),
            };
            if !may_send {
                break None;
            }
            let Some(chunk) = self.next_chunk(now, payload) else { break None };
            self.transmit(now, chunk, &mut send);
        };
        self.alarm_at = self.alarm();
        match (paced_until, self.alarm_at) {
            (Some(paced), Some(alarm)) => Some(paced.min(alarm)),
            (paced, alarm) => paced.or(alarm),
        }
    }

    /// The pacer's decision on a packet that the window allows.
    #[inline]
    fn paced(&mut self, now: Instant, of_core: SendDecision) -> SendDecision {
        let (Some(pacer), Some(rate)) = (&mut self.pacer, self.cc.pacing_rate()) else {
            return of_core;
        };
        let quantum = u64::from(self.payload + self.overhead);
        pacer.wait(now, rate).map_or(SendDecision::Now { quantum }, SendDecision::At)
    }

    /// The rate reduction of the recovery at hand.
    #[inline]
    fn prr(&self) -> Option<&Prr> {
        self.flight.tcp.as_ref()?.prr.as_ref()
    }

    fn prr_allows(&self) -> bool {
        self.prr().is_some_and(|prr| prr.may_send(self.cc.inflight()))
    }

    /// Sends a packet whatever window and pacer say: something new, or a repetition.
    #[cold]
    fn probe(&mut self, now: Instant, send: &mut impl FnMut(u64, Chunk, u32)) {
        let new = self.next_chunk(now, self.next_payload());
        let Some(chunk) = new.or_else(|| self.flight.probe_chunk()) else { return };
        self.transmit(now, chunk, send);
        if let Some(tcp) = &mut self.flight.tcp {
            tcp.on_probe(now, self.next_chunk, new.is_none());
            if new.is_none() {
                self.flight.replace(chunk, &mut self.cc);
            }
        }
    }

    #[inline]
    fn transmit(&mut self, now: Instant, chunk: Chunk, send: &mut impl FnMut(u64, Chunk, u32)) {
        let bytes = chunk.bytes + self.overhead;
        let pn = self.flight.next_pn();
        let state = self.cc.on_sent(now, bytes);
        self.flight.push(state, chunk);
        self.last_sent = now;
        self.last_sent_bytes = bytes;
        if let Some(prr) = self.flight.tcp.as_mut().and_then(|tcp| tcp.prr.as_mut()) {
            prr.on_sent(u64::from(bytes));
        }
        if let Some(pacer) = &mut self.pacer {
            pacer.on_sent(bytes);
        }
        self.stats.sent_packets += 1;
        self.stats.sent_bytes += u64::from(bytes);
        send(pn, chunk, bytes);
    }

    /// The loss-detection deadline: the time at which a packet counts as lost, or else the next
    /// probe.
    #[inline]
    fn alarm(&self) -> Option<Instant> {
        if self.flight.loss_time.is_some() || self.flight.in_flight == 0 {
            return self.flight.loss_time;
        }
        match &self.flight.tcp {
            None => Some(self.last_sent + self.flight.rtt.pto().times(1 << self.pto_count)),
            Some(tcp) => Some(self.tcp_alarm(tcp).0),
        }
    }

    fn tcp_alarm(&self, tcp: &Tcp) -> (Instant, Alarm) {
        tcp.alarm(&self.flight.rtt, self.flight.in_flight, self.flight.sacked())
    }

    /// Fires what is due; whether that is a probe.
    pub(crate) fn on_timer(&mut self, now: Instant) -> bool {
        if self.alarm_at.is_none_or(|at| at > now) {
            // The pacer's time has come, or an ACK's, and nothing else.
            return false;
        }
        if self.alarm().is_none_or(|at| at > now) {
            // ACKs have moved it since.
            return false;
        }
        self.check_if_application_limited();
        if self.flight.loss_time.is_none() {
            if let Some(ecn) = &mut self.ecn {
                ecn.on_probe(self.flight.next_pn());
            }
            if self.flight.tcp.as_ref().is_some_and(|tcp| self.tcp_alarm(tcp).1 == Alarm::Timeout) {
                self.time_out(now);
                return false;
            }
            self.pto_count = (self.pto_count + 1).min(MAX_BACKOFF);
            return true;
        }
        let flight = self.cc.inflight();
        let mut batch = self.cc.ack(now);
        let losses = self.flight.detect_losses(now, &mut batch);
        batch.finish();
        self.reduce(flight, &News::default(), losses);
        self.count(losses);
        false
    }

    #[cold]
    fn time_out(&mut self, now: Instant) {
        let mut batch = self.cc.ack(now);
        let losses = self.flight.time_out(now, &mut batch);
        batch.timeout();
        batch.finish();
        self.stats.lost_packets += losses.packets;
        self.stats.lost_bytes += losses.bytes;
        if let Some(tcp) = &mut self.flight.tcp {
            tcp.on_timeout(now, self.next_chunk);
            tcp.prr = None;
        }
    }

    /// Time without an answer after which a request is sent again.
    pub(crate) fn request_timeout(&self) -> Duration {
        let rtt = &self.flight.rtt;
        self.flight.tcp.as_ref().map_or(rtt.pto(), |tcp| tcp.rto(rtt))
    }

    /// Proportional rate reduction, before the losses of an ACK with this news are counted:
    /// `flight` was in flight before it.
    fn reduce(&mut self, flight: u64, news: &News, losses: Losses) {
        let Some(tcp) = self.flight.tcp.as_mut().filter(|tcp| tcp.has_prr()) else { return };
        if !self.cc.wants_prr() {
            return;
        }
        let (inflight, smss) = (self.cc.inflight(), u64::from(self.payload));
        if !tcp.in_recovery() {
            let is_new = losses.packets > 0;
            tcp.prr = is_new.then(|| Prr::new(self.cc.cwnd(), flight, inflight, smss));
        }
        if let Some(prr) = &mut tcp.prr {
            let is_safe = news.advances && losses.packets == 0;
            prr.on_ack(news.delivered_bytes, is_safe, inflight, smss);
        }
    }

    fn count(&mut self, losses: Losses) {
        self.stats.lost_packets += losses.packets;
        self.stats.lost_bytes += losses.bytes;
        if let Some(tcp) = &mut self.flight.tcp
            && losses.packets > 0
        {
            tcp.on_losses(self.next_chunk);
        }
    }
}
