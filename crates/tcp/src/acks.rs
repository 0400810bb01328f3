//! The decision to acknowledge now, later or not at all (RFC 9293 section 3.8.6.3, RFC 5681 section
//! 4.2).

use alloc::collections::VecDeque;

use fullpipe_cc::{Duration, Instant};

use crate::config::Config;
use crate::receiver::Span;
use crate::wire::{Header, ReceiverDelay};

/// Challenge ACKs and answers to what is outside of the window, in [`LIMIT_TIME`] (RFC 5961 section
/// 7).
const LIMIT: u64 = 10;
/// See [`LIMIT`].
const LIMIT_TIME: Duration = Duration::from_secs(1);
/// ACKs that are kept at most. Beyond that one covers more, as if others had been lost.
const MAX_KEPT: usize = 64;

#[derive(Debug)]
pub(crate) struct Acks {
    delay: Duration,
    every: u32,
    is_due: bool,
    at: Option<Instant>,
    /// The time from which on the next segment was to leave at once.
    due_at: Option<Instant>,
    /// The newest data since an ACK left.
    newest: Option<Arrival>,
    /// Bytes of data that no ACK covers.
    bytes: u32,
    quick: u32,
    /// A duplicate that the next ACK reports.
    pub(crate) duplicate: Option<Span>,
    /// The ACK that is due answers a segment out of order, or one that filled a gap.
    is_of_disorder: bool,
    /// ACKs that leave before the one that is due, and the times since when they wait.
    kept: VecDeque<(Instant, Header)>,
    limit: Limit,
}

/// Data that came.
#[derive(Clone, Copy, Debug)]
struct Arrival {
    /// The place after it.
    end: u64,
    /// The time at which it was taken in, and the time that it had been in this host before.
    at: Instant,
    in_host: Duration,
}

/// The limit to what strangers can make this end send: a token bucket.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Limit {
    /// The time at which all tokens are there.
    full_at: Instant,
}

impl Limit {
    /// True if one more may leave now.
    pub(crate) fn allows(&mut self, now: Instant) -> bool {
        let full_at = self.full_at.max(now) + Duration::from_nanos(LIMIT_TIME.as_nanos() / LIMIT);
        let allows = full_at <= now + LIMIT_TIME;
        if allows {
            self.full_at = full_at;
        }
        allows
    }
}

impl Acks {
    pub(crate) fn new(config: &Config) -> Self {
        Self {
            delay: config.ack_delay,
            every: config.ack_every,
            is_due: false,
            at: None,
            due_at: None,
            newest: None,
            bytes: 0,
            quick: config.quick_acks,
            duplicate: None,
            is_of_disorder: false,
            kept: VecDeque::new(),
            limit: Limit::default(),
        }
    }

    /// Data arrived in order: after so many full segments an ACK leaves at once.
    pub(crate) fn on_data(&mut self, now: Instant, bytes: usize, mss: u32) {
        self.bytes = self.bytes.saturating_add(bytes as u32);
        if self.quick > 0 || self.bytes >= mss.saturating_mul(self.every) {
            self.quick = self.quick.saturating_sub(1);
            self.is_due = true;
        } else if self.at.is_none() {
            self.at = Some(now + self.delay);
        }
    }

    /// A segment whose data ends at `end` was taken in, which had been in this host for `in_host`.
    /// The newest data is that of the highest place, as it was sent last: by it a sender measures
    /// the round trip.
    pub(crate) fn on_arrival(&mut self, now: Instant, end: u64, in_host: Duration) {
        if self.newest.is_none_or(|newest| newest.end < end) {
            self.newest = Some(Arrival { end, at: now, in_host });
        }
    }

    /// True if data has come since an ACK left.
    pub(crate) fn has_news(&self) -> bool {
        self.newest.is_some()
    }

    /// The receiver's part of the round trip that an ACK ends which leaves now. It is held back on
    /// purpose until it is due.
    pub(crate) fn receiver_delay(&self, now: Instant) -> Option<ReceiverDelay> {
        let Arrival { at, in_host, .. } = self.newest?;
        let due = self.due_at.map_or(now, |due| due.max(at));
        Some(ReceiverDelay { host: in_host + now.since(due), wait: due.since(at) })
    }

    /// What came or was done by now may have made an ACK due.
    pub(crate) fn note_time(&mut self, now: Instant) {
        if self.is_due && self.due_at.is_none() {
            self.due_at = Some(now);
        }
    }

    /// The next segment has to leave at once.
    pub(crate) fn demand(&mut self) {
        self.is_due = true;
    }

    /// As [`Self::demand`], for a segment out of order or one that filled a gap.
    pub(crate) fn demand_for_disorder(&mut self) {
        (self.is_due, self.is_of_disorder) = (true, true);
    }

    /// True if the ACK that is due answers such a segment.
    pub(crate) fn is_of_disorder(&self) -> bool {
        self.is_of_disorder
    }

    /// True if an ACK is due that can be kept.
    pub(crate) fn may_keep(&self) -> bool {
        self.is_due && self.kept.len() < MAX_KEPT
    }

    /// The ACK that is due will leave by itself, as `header` says.
    pub(crate) fn keep(&mut self, now: Instant, header: Header) {
        self.kept.push_back((now, header));
        self.on_sent();
    }

    /// The next of the kept ACKs, for now.
    pub(crate) fn take_kept(&mut self, now: Instant) -> Option<Header> {
        let (since, mut header) = self.kept.pop_front()?;
        if self.kept.is_empty() {
            self.kept = VecDeque::new();
        }
        if let Some(delay) = &mut header.receiver_delay {
            delay.host = delay.host + now.since(since);
        }
        Some(header)
    }

    /// True if ACKs are kept.
    pub(crate) fn has_kept(&self) -> bool {
        !self.kept.is_empty()
    }

    /// Bytes of memory that the kept ACKs take up.
    pub(crate) fn memory(&self) -> usize {
        self.kept.capacity() * size_of::<(Instant, Header)>()
    }

    /// As [`Self::demand`], but only so often: a stranger must not make two ends talk for ever.
    pub(crate) fn challenge(&mut self, now: Instant) {
        self.is_due |= self.limit.allows(now);
    }

    pub(crate) fn limit(&self) -> Limit {
        self.limit
    }

    pub(crate) fn is_due(&self) -> bool {
        self.is_due
    }

    pub(crate) fn at(&self) -> Option<Instant> {
        self.at
    }

    pub(crate) fn on_timer(&mut self, now: Instant) {
        if let Some(at) = self.at.filter(|at| *at <= now) {
            self.is_due = true;
            // The host comes to it late.
            self.note_time(at);
        }
    }

    /// A segment with an ACK left.
    pub(crate) fn on_sent(&mut self) {
        (self.is_due, self.at, self.bytes, self.duplicate) = (false, None, 0, None);
        (self.due_at, self.newest, self.is_of_disorder) = (None, None, false);
    }
}
