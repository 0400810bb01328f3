//! The rest of a connection in TIME-WAIT that nobody has any more: enough to answer late segments
//! as the connection would (RFC 9293 section 3.10.7.4), and to tell the SYN of a new one.

use fullpipe_cc::{Duration, Instant};

use super::timers::{TICK, clock_at};
use super::{Connection, State};
use crate::acks::Limit;
use crate::receiver::Span;
use crate::recovery::before;
use crate::seq;
use crate::wire::{Control, Header, Segment, Timestamp};

/// Time in TIME-WAIT after which this end's clock is beyond all that the peer knows of it, so that
/// a new connection may have the same ends: Linux's (tcp_tw_reuse).
pub(super) const REUSE_AFTER: Duration = Duration::from_secs(1);

/// A connection in TIME-WAIT. Sequence numbers are those of the wire: nothing is left that counts
/// on from them.
#[derive(Debug)]
pub(crate) struct Late {
    /// SND.NXT and MAX.SND.WND.
    sent: u32,
    max_window: u32,
    /// RCV.NXT.
    next: u32,
    clocks: Clocks,
    timestamps: bool,
    sack: bool,
    /// The window on the wire, and its scale.
    window: u16,
    scale: u8,
    /// Feedback about marks in ACKs.
    flags: u8,
    /// Its port is a chosen one.
    pub(crate) has_port: bool,
    limit: Limit,
    close_at: Instant,
    /// In milliseconds.
    time_wait: u32,
}

/// This end's clock at time 0, and TS.Recent, which counts for longer than TIME-WAIT lasts.
#[derive(Clone, Copy, Debug)]
struct Clocks {
    own: u32,
    recent: u32,
}

impl Connection {
    /// The remains of a connection in TIME-WAIT that nobody has any more, when it has nothing to
    /// send.
    pub(crate) fn retire(&mut self) -> Option<Late> {
        let has_ack = self.acks.is_due() || self.acks.has_kept();
        let may_retire = self.state == State::TimeWait && self.detached && !has_ack;
        let close_at = self.close_at.filter(|_| may_retire)?;
        let window = self.receive.window(self.options.mss) >> self.options.receive_scale;
        let time_wait = self.config.time_wait.as_nanos() / TICK.as_nanos();
        let mut header = Header::default();
        self.put_marks(&mut header, false);
        Some(Late {
            sent: self.send.nxt as u32,
            max_window: u32::try_from(self.send.max_window).unwrap_or(u32::MAX),
            next: self.receive.next() as u32,
            clocks: Clocks { own: self.clock, recent: self.recent.value },
            timestamps: self.options.timestamps,
            sack: self.options.sack,
            window: u16::try_from(window).unwrap_or(u16::MAX),
            scale: self.options.receive_scale,
            flags: header.flags(),
            has_port: false,
            limit: self.acks.limit(),
            close_at,
            time_wait: u32::try_from(time_wait).unwrap_or(u32::MAX),
        })
    }
}

impl Late {
    /// The end of TIME-WAIT.
    pub(crate) fn close_at(&self) -> Instant {
        self.close_at
    }

    fn time_wait(&self) -> Duration {
        TICK.times(self.time_wait.into())
    }

    /// As [`Connection::may_begin_anew`].
    pub(crate) fn may_begin_anew(&self, syn: &Header) -> bool {
        begins_anew(syn, self.next, self.timestamps.then_some(self.clocks.recent))
    }

    /// As [`Connection::may_open_anew`].
    pub(crate) fn may_open_anew(&self, now: Instant) -> bool {
        self.timestamps && now + self.time_wait() >= self.close_at + REUSE_AFTER
    }

    /// As [`Connection::last_numbers`].
    pub(crate) fn last_numbers(&self) -> (u32, Instant) {
        let waited = self.time_wait().as_nanos();
        (self.sent, Instant::from_nanos(self.close_at.as_nanos().saturating_sub(waited)))
    }

    /// Takes in a segment; the header of the answer, if there is one.
    pub(crate) fn on_segment(&mut self, now: Instant, segment: &Segment<'_>) -> Option<Header> {
        let header = &segment.header;
        let is_reset = header.control == Control::Rst;
        // As if RCV.NXT were in the middle of all places, so that what is before it has one.
        let next = seq::first(self.next);
        let edge = next + (u64::from(self.window) << self.scale);
        let start = seq::place(next, header.seq);
        let end = start + u64::from(segment.len());
        if self.timestamps && !is_reset && before(header.timestamp?.value, self.clocks.recent) {
            return self.challenge(now);
        }
        if !super::arrive::is_acceptable(start, end, next, edge) {
            return if is_reset { None } else { self.answer_unacceptable(now, segment, start) };
        }
        if is_reset {
            return if start == next { None } else { self.challenge(now) };
        }
        if header.control == Control::Syn {
            return self.challenge(now);
        }
        let behind = self.sent.wrapping_sub(header.ack?);
        if behind > self.max_window {
            return self.challenge(now);
        }
        // All was acknowledged: Last.ACK.sent is RCV.NXT (RFC 7323 section 5.3).
        if let Some(timestamp) = header.timestamp.filter(|_| start <= next) {
            self.clocks.recent = timestamp.value;
        }
        if segment.payload.is_empty() && header.control != Control::Fin {
            return None;
        }
        self.close_at = now + self.time_wait();
        self.answer(now, None)
    }

    fn answer_unacceptable(
        &mut self,
        now: Instant,
        segment: &Segment<'_>,
        start: u64,
    ) -> Option<Header> {
        if segment.header.control == Control::Fin {
            self.close_at = now + self.time_wait();
        }
        if segment.payload.is_empty() {
            return self.challenge(now);
        }
        let end = start + segment.payload.len() as u64;
        let is_known = end <= seq::first(self.next);
        self.answer(now, is_known.then_some(Span { start, end }))
    }

    fn challenge(&mut self, now: Instant) -> Option<Header> {
        self.limit.allows(now).then(|| self.answer(now, None)).flatten()
    }

    /// An ACK; `duplicate` is data that was here before (RFC 2883).
    fn answer(&self, now: Instant, duplicate: Option<Span>) -> Option<Header> {
        let duplicate = duplicate.filter(|_| self.sack);
        let Clocks { own, recent } = self.clocks;
        let timestamp =
            self.timestamps.then(|| Timestamp { value: clock_at(own, now), echo: recent });
        let mut header = Header {
            seq: self.sent,
            ack: Some(self.next),
            window: self.window,
            sack: [duplicate.map(|span| (span.start as u32, span.end as u32)), None, None],
            timestamp,
            ..Header::default()
        };
        header.set_flags(self.flags);
        Some(header)
    }
}

/// True if a SYN for a connection in TIME-WAIT opens a new one (RFC 9293 section 3.10.7.4): its
/// timestamp is beyond TS.Recent, or is equal and the sequence number is beyond RCV.NXT (RFC 6191
/// section 2); without timestamps the sequence number is.
pub(super) fn begins_anew(syn: &Header, next: u32, recent: Option<u32>) -> bool {
    let is_beyond = before(next, syn.seq);
    let is_newer = match syn.timestamp.zip(recent) {
        Some((timestamp, recent)) if timestamp.value == recent => is_beyond,
        Some((timestamp, recent)) => before(recent, timestamp.value),
        None => is_beyond,
    };
    syn.ack.is_none() && is_newer
}
