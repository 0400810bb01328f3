//! The rest of a connection in TIME-WAIT that nobody has any more: enough to answer late segments
//! as the connection would (RFC 9293 section 3.10.7.4), and to tell the SYN of a new one.

use fullpipe_cc::{Duration, Instant};

use super::timers::clock_at;
use super::{Connection, State};
use crate::acks::Limit;
use crate::endpoint::Ends;
use crate::receiver::Span;
use crate::recovery::before;
use crate::seq;
use crate::wire::{Control, Header, Segment, Timestamp};

/// A connection in TIME-WAIT.
#[derive(Debug)]
pub(crate) struct Late {
    ends: Ends,
    /// SND.NXT and MAX.SND.WND.
    sent: u32,
    max_window: u32,
    /// RCV.NXT, and the right edge of the window.
    next: u64,
    edge: u64,
    /// The window on the wire.
    window: u16,
    sack: bool,
    timestamps: Option<Clocks>,
    limit: Limit,
    close_at: Instant,
    time_wait: Duration,
}

/// This end's clock at time 0, and TS.Recent.
#[derive(Debug)]
struct Clocks {
    own: u32,
    recent: super::Recent,
}

impl Connection {
    /// What stays of a connection in TIME-WAIT that nobody has any more, when it has nothing to
    /// send.
    pub(crate) fn retire(&mut self) -> Option<Late> {
        let may_retire = self.state == State::TimeWait && self.detached && !self.acks.is_due();
        let close_at = self.close_at.filter(|_| may_retire)?;
        let window = self.receive.window(self.options.mss) >> self.options.receive_scale;
        Some(Late {
            ends: self.ends(),
            sent: self.send.nxt as u32,
            max_window: u32::try_from(self.send.max_window).unwrap_or(u32::MAX),
            next: self.receive.next(),
            edge: self.receive.edge(),
            window: u16::try_from(window).unwrap_or(u16::MAX),
            sack: self.options.sack,
            timestamps: self
                .options
                .timestamps
                .then_some(Clocks { own: self.clock, recent: self.recent }),
            limit: self.acks.limit(),
            close_at,
            time_wait: self.config.time_wait,
        })
    }
}

impl Late {
    pub(crate) fn ends(&self) -> Ends {
        self.ends
    }

    /// The end of TIME-WAIT.
    pub(crate) fn close_at(&self) -> Instant {
        self.close_at
    }

    /// As [`Connection::may_begin_anew`].
    pub(crate) fn may_begin_anew(&self, syn: &Header) -> bool {
        begins_anew(syn, self.next, self.timestamps.as_ref().map(|clocks| clocks.recent.value))
    }

    /// Takes in a segment; the header of the answer, if there is one.
    pub(crate) fn on_segment(&mut self, now: Instant, segment: &Segment<'_>) -> Option<Header> {
        let header = &segment.header;
        let is_reset = header.control == Control::Rst;
        let start = seq::place(self.next, header.seq);
        let end = start + u64::from(segment.len());
        if let Some(clocks) = self.timestamps.as_ref().filter(|_| !is_reset) {
            let timestamp = header.timestamp?;
            if clocks.recent.refuses(now, timestamp.value) {
                return self.challenge(now);
            }
        }
        if !super::arrive::is_acceptable(start, end, self.next, self.edge) {
            return if is_reset { None } else { self.answer_unacceptable(now, segment, start) };
        }
        if is_reset {
            return if start == self.next { None } else { self.challenge(now) };
        }
        if header.control == Control::Syn {
            return self.challenge(now);
        }
        let behind = self.sent.wrapping_sub(header.ack?);
        if behind > self.max_window {
            return self.challenge(now);
        }
        if let Some((clocks, timestamp)) = self.timestamps.as_mut().zip(header.timestamp) {
            clocks.recent.note(now, timestamp.value, start);
        }
        if segment.payload.is_empty() && header.control != Control::Fin {
            return None;
        }
        self.close_at = now + self.time_wait;
        self.answer(now, None)
    }

    fn answer_unacceptable(
        &mut self,
        now: Instant,
        segment: &Segment<'_>,
        start: u64,
    ) -> Option<Header> {
        if segment.header.control == Control::Fin {
            self.close_at = now + self.time_wait;
        }
        if segment.payload.is_empty() {
            return self.challenge(now);
        }
        let end = start + segment.payload.len() as u64;
        self.answer(now, (end <= self.next).then_some(Span { start, end }))
    }

    fn challenge(&mut self, now: Instant) -> Option<Header> {
        self.limit.allows(now).then(|| self.answer(now, None)).flatten()
    }

    /// An ACK; `duplicate` is data that was here before (RFC 2883).
    fn answer(&self, now: Instant, duplicate: Option<Span>) -> Option<Header> {
        let duplicate = duplicate.filter(|_| self.sack);
        let timestamp = self.timestamps.as_ref().map(|clocks| Timestamp {
            value: clock_at(clocks.own, now),
            echo: clocks.recent.value,
        });
        Some(Header {
            seq: self.sent,
            ack: Some(self.next as u32),
            window: self.window,
            sack: [duplicate.map(|span| (span.start as u32, span.end as u32)), None, None],
            timestamp,
            ..Header::default()
        })
    }
}

/// True if a SYN for a connection in TIME-WAIT opens a new one (RFC 9293 section 3.10.7.4): its
/// timestamp is beyond TS.Recent, or is equal and the sequence number is beyond RCV.NXT (RFC 6191
/// section 2); without timestamps the sequence number is.
pub(super) fn begins_anew(syn: &Header, next: u64, recent: Option<u32>) -> bool {
    let is_beyond = seq::place(next, syn.seq) > next;
    let is_newer = match syn.timestamp.zip(recent) {
        Some((timestamp, recent)) if timestamp.value == recent => is_beyond,
        Some((timestamp, recent)) => before(recent, timestamp.value),
        None => is_beyond,
    };
    syn.ack.is_none() && is_newer
}
