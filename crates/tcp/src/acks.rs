//! The decision to acknowledge now, later or not at all (RFC 9293 section 3.8.6.3, RFC 5681 section
//! 4.2).

use fullpipe_cc::{Duration, Instant};

use crate::config::Config;
use crate::receiver::Span;

/// Challenge ACKs and answers to what is outside of the window, in [`LIMIT_TIME`] (RFC 5961 section
/// 7).
const LIMIT: u64 = 10;
/// See [`LIMIT`].
const LIMIT_TIME: Duration = Duration::from_secs(1);

#[derive(Debug)]
pub(crate) struct Acks {
    delay: Duration,
    every: u32,
    is_due: bool,
    at: Option<Instant>,
    /// Bytes of data that no ACK covers.
    bytes: u32,
    quick: u32,
    /// A duplicate that the next ACK reports.
    pub(crate) duplicate: Option<Span>,
    limit: Limit,
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
            bytes: 0,
            quick: config.quick_acks,
            duplicate: None,
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

    /// The next segment has to leave at once.
    pub(crate) fn demand(&mut self) {
        self.is_due = true;
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
        if self.at.is_some_and(|at| at <= now) {
            self.is_due = true;
        }
    }

    /// A segment with an ACK left.
    pub(crate) fn on_sent(&mut self) {
        (self.is_due, self.at, self.bytes, self.duplicate) = (false, None, 0, None);
    }
}
