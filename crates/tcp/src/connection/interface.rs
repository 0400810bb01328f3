//! The application's side of a connection.

use core::net::SocketAddr;

use fullpipe_cc::{Algorithm, Duration, Instant};

use super::late::{REUSE_AFTER, begins_anew};
use super::{Connection, State};
use crate::config::Error;
use crate::receiver::SMALL_WINDOW;
use crate::wire::Header;

/// The longest that a small segment waits for more data: Linux's limit.
const CORK_LIMIT: Duration = Duration::from_millis(200);

/// Bytes that wait unsent at most for a peer that takes nothing. An application would write on for
/// one that is gone.
const UNSENT_FOR_SILENT: usize = 64 << 10;

impl Connection {
    /// This end's address.
    pub fn local(&self) -> SocketAddr {
        self.local
    }

    /// The peer's address.
    pub fn remote(&self) -> SocketAddr {
        self.remote
    }

    /// The state.
    pub fn state(&self) -> State {
        self.state
    }

    /// The reason for which the connection ended before both ends had closed it.
    pub fn error(&self) -> Option<Error> {
        self.error
    }

    /// Bytes that [`Self::read`] would give.
    pub fn readable(&self) -> usize {
        self.receive.readable()
    }

    /// True if [`Self::read`] would give something: data, the end, or an error.
    pub fn is_readable(&self) -> bool {
        self.readable() > 0 || self.receive.is_finished() || self.state == State::Closed
    }

    /// Bytes that [`Self::write`] would take.
    pub fn writable(&self) -> usize {
        let is_open = matches!(self.state, State::Established | State::CloseWait);
        if self.closing || !is_open && !self.writes_early() {
            return 0;
        }
        if self.is_memory_short {
            let most = if self.data.len() == 0 { SMALL_WINDOW } else { 0 };
            return most.min(self.data.room());
        }
        let silent = if self.takes_nothing() { UNSENT_FOR_SILENT } else { usize::MAX };
        let most = self.config.unsent.max(1).min(silent);
        self.data.room().min(most.saturating_sub(self.unsent()))
    }

    /// True if a timer has fired since the peer has acknowledged something or opened its window.
    fn takes_nothing(&self) -> bool {
        self.state.is_synchronized() && self.rtt.backoff() > 0
    }

    /// True if an application that waits to write should go on: a third of what the bounds allow is
    /// free, as with Linux's sockets, so that it does not wake for each segment. After
    /// [`Self::close`], too: [`Self::write`] says at once that it is not possible.
    pub fn is_writable(&self) -> bool {
        let bound = self.config.send_buffer.min(self.config.unsent.max(1));
        let may_be_little = self.is_memory_short || self.takes_nothing();
        let least = if may_be_little { 0 } else { bound / 3 };
        self.state == State::Closed || self.closing || self.writable() > least
    }

    /// Bytes that were written and never sent.
    pub fn unsent(&self) -> usize {
        (self.data.end().saturating_sub(self.send.nxt.max(self.send.iss + 1))) as usize
    }

    /// Reads data in its order; the number of bytes, 0 for the end of the stream.
    ///
    /// # Errors
    /// [`Error::WouldBlock`] when there is nothing yet; the reason of the connection's end after a
    /// reset or a timeout.
    pub fn read(&mut self, to: &mut [u8]) -> Result<usize, Error> {
        self.check_readable()?;
        let count = self.receive.read(to);
        let may_come = matches!(self.state, State::Established | State::FinWait1 | State::FinWait2);
        if may_come && self.receive.has_news_of_room(self.options.mss) {
            self.acks.demand();
        }
        Ok(count)
    }

    /// Copies what [`Self::read`] would give, and leaves it there.
    ///
    /// # Errors
    /// As [`Self::read`].
    pub fn peek(&self, to: &mut [u8]) -> Result<usize, Error> {
        self.check_readable()?;
        Ok(self.receive.peek(to))
    }

    fn check_readable(&self) -> Result<(), Error> {
        match self.state {
            _ if self.readable() > 0 || self.receive.is_finished() => Ok(()),
            State::Closed => Err(self.error.unwrap_or(Error::Closed)),
            _ => Err(Error::WouldBlock),
        }
    }

    /// Writes as much of `data` as the buffer has room for; the number of bytes.
    ///
    /// # Errors
    /// [`Error::WouldBlock`] when there is no room or the handshake is not over, unless
    /// [`fast_open`](crate::Config::fast_open) lets data go before; [`Error::Closed`]
    /// after [`Self::close`]; the reason of the connection's end.
    pub fn write(&mut self, now: Instant, data: &[u8]) -> Result<usize, Error> {
        if self.state == State::Closed {
            return Err(self.error.unwrap_or(Error::Closed));
        }
        if self.closing {
            return Err(Error::Closed);
        }
        let room = self.writable();
        if room == 0 {
            self.writer_waits = true;
            return Err(Error::WouldBlock);
        }
        if data.is_empty() {
            return Ok(0);
        }
        if !self.has_unsent() && self.flight.is_empty() {
            // Whoever waited for room has it, and did not come back before now.
            self.writer_waits = false;
            self.restart_after_idle(now);
        }
        // Before the new data is queued: then there is still nothing to send.
        self.check_app_limited();
        let waited = self.unsent();
        let count = self.data.write(&data[..data.len().min(room)]);
        self.writer_waits = count < data.len() || self.writable() < self.options.payload() as usize;
        self.note_corked(now, waited);
        Ok(count)
    }

    /// Data was written behind `waited` bytes that were never sent. If the last segment is another
    /// one than before, its time to wait for more begins.
    fn note_corked(&mut self, now: Instant, waited: usize) {
        let full = self.options.payload() as usize;
        let is_new = waited.is_multiple_of(full) || self.unsent() / full > waited / full;
        if self.is_corked && is_new {
            self.cork_until = Some(now + CORK_LIMIT);
        }
    }

    /// Nothing was in flight, and data is about to be written.
    fn restart_after_idle(&mut self, now: Instant) {
        if !self.state.is_synchronized() {
            // The SYN's time counts.
            return;
        }
        (self.started, self.waiting) = (now, now);
        // RFC 5681 section 4.1, halved for each timeout that passed as Linux does.
        let idle = now.since(self.last_sent).as_nanos();
        let timeouts = idle / self.rtt.base().as_nanos().max(1);
        if timeouts > 0 {
            let cwnd = self.cc.cwnd() >> timeouts.min(63);
            self.cc.on_idle(now, cwnd.max(self.cc.initial_cwnd().min(self.cc.cwnd())));
        }
    }

    /// No more is written: what was, is sent, and then a FIN (RFC 9293 section 3.10.4). Reading
    /// goes on.
    pub fn close(&mut self, now: Instant) {
        if self.closing {
            return;
        }
        match self.state {
            // What was written already leaves nevertheless.
            State::SynSent if self.data.len() == 0 => self.end(None),
            State::Established => self.state = State::FinWait1,
            State::CloseWait => self.state = State::LastAck,
            // After the handshake, in `establish`.
            _ => {}
        }
        if !self.has_unsent() && self.flight.is_empty() && self.state.is_synchronized() {
            (self.started, self.waiting) = (now, now);
        }
        (self.closing, self.writer_waits) = (true, false);
    }

    /// Resets the connection (RFC 9293 section 3.10.5).
    pub fn abort(&mut self) {
        if self.state == State::Closed {
            return;
        }
        if self.state >= State::SynReceived && self.state < State::TimeWait {
            self.reset = Some((self.send.nxt as u32, Some(self.receive.next() as u32)));
        }
        self.end(Some(Error::Aborted));
    }

    /// Nobody reads from now on, and this end is closed. Data that still arrives, or that nobody
    /// has read, resets the connection, so that the peer learns that it was lost (RFC 9293 section
    /// 3.6.1, RFC 2525 section 2.17).
    pub fn detach(&mut self, now: Instant) {
        if self.detached {
            return;
        }
        self.detached = true;
        if self.readable() > 0 && self.state < State::TimeWait {
            self.abort();
        } else {
            self.close(now);
            if self.state == State::FinWait2 {
                self.close_at = Some(now + self.config.time_wait);
            }
        }
        self.receive.discard();
    }

    /// True if a SYN opens a new connection in place of this one, which is in TIME-WAIT.
    pub(crate) fn may_begin_anew(&self, syn: &Header) -> bool {
        let recent = self.options.timestamps.then_some(self.recent.value);
        self.state == State::TimeWait && begins_anew(syn, self.receive.next() as u32, recent)
    }

    /// True if this connection is in TIME-WAIT and this end may open another one between the same
    /// ends: timestamps tell the segments of the two apart (RFC 6191 section 3).
    pub(crate) fn may_open_anew(&self, now: Instant) -> bool {
        let close_at = self.close_at.filter(|_| self.state == State::TimeWait);
        let is_long_ago = |at| now + self.config.time_wait >= at + REUSE_AFTER;
        self.may_be_followed() && close_at.is_some_and(is_long_ago)
    }

    /// True if it may be so once this connection is in TIME-WAIT.
    pub(crate) fn may_be_followed(&self) -> bool {
        self.options.timestamps
    }

    /// The number after the last one that left, and the time of the newest segment of either end,
    /// if the peer ever acknowledged anything.
    pub(crate) fn last_numbers(&self) -> Option<(u32, Instant)> {
        let sent = self.send.nxt.max(self.send.probe_end);
        (self.send.una > self.send.iss).then(|| (sent as u32, self.last_sent.max(self.heard)))
    }

    /// TIME-WAIT ends before its time. What was not read stays readable.
    pub(crate) fn end_waiting(&mut self) {
        if self.state == State::TimeWait {
            self.end(None);
        }
    }

    /// True if the peer has acknowledged this end's FIN, or the connection is over.
    pub(crate) fn is_delivered(&self) -> bool {
        matches!(self.state, State::FinWait2 | State::TimeWait | State::Closed)
    }

    /// True if the peer has not acknowledged all that was written, and its end after
    /// [`Self::close`].
    pub fn has_undelivered(&self) -> bool {
        self.data.len() > 0 || self.closing && !self.is_delivered()
    }

    /// If something waits for the peer: the times since when it has not answered, and since when it
    /// has acknowledged nothing.
    pub(crate) fn undelivered_since(&self) -> Option<(Instant, Instant)> {
        let waits = self.data.len() > 0 && self.state.is_synchronized();
        waits.then_some((self.heard.max(self.waiting), self.waiting))
    }

    /// True if nothing will leave and nothing is taken in any more.
    pub(crate) fn is_over(&self) -> bool {
        self.state == State::Closed && self.reset.is_none()
    }

    /// True if [`Self::detach`] was called.
    pub fn is_detached(&self) -> bool {
        self.detached
    }

    /// Another congestion control from now on (Linux: TCP_CONGESTION). It begins as on a new
    /// connection, with what is known of the round trip; what is under way is not counted against
    /// its window.
    pub fn set_congestion(&mut self, now: Instant, algorithm: Algorithm) {
        self.config.algorithm = algorithm;
        if !self.state.is_synchronized() && !self.is_early() {
            // `establish` begins with it.
            return;
        }
        self.cc_config.handshake_rtt = self.rtt.min();
        self.cc.set_algorithm(algorithm, now, &self.cc_config);
        self.flight.on_other_algorithm();
        self.prr = None;
    }

    /// Lets small segments wait while others are unacknowledged, or not: see
    /// [`nagle`](crate::Config::nagle).
    pub fn set_nagle(&mut self, nagle: bool) {
        self.config.nagle = nagle;
    }

    /// Lets the last segment wait until it is full, or ends that: for an application that writes
    /// one thing in several pieces (Linux: TCP_CORK). What waits already is held as well. A segment
    /// waits for at most 200 ms from its first byte or the cork on, and not for the end of the
    /// stream.
    pub fn set_cork(&mut self, now: Instant, is_corked: bool) {
        if is_corked && !self.is_corked && self.unsent() > 0 {
            self.cork_until = Some(now + CORK_LIMIT);
        }
        self.is_corked = is_corked;
        self.cork_until = self.cork_until.filter(|_| is_corked);
    }

    /// As [`keep_alive`](crate::Config::keep_alive),
    /// [`keep_alive_interval`](crate::Config::keep_alive_interval) and
    /// [`keep_alive_probes`](crate::Config::keep_alive_probes).
    pub fn set_keep_alive(
        &mut self,
        idle: Option<Duration>,
        interval: Option<Duration>,
        probes: u32,
    ) {
        self.config.keep_alive = idle;
        self.config.keep_alive_interval = interval;
        self.config.keep_alive_probes = probes;
    }

    /// As [`user_timeout`](crate::Config::user_timeout), for what is already waiting as well
    /// (Linux: TCP_USER_TIMEOUT). The peer is not told (RFC 5482 section 3 lets it be).
    pub fn set_user_timeout(&mut self, timeout: Duration) {
        self.config.user_timeout = timeout;
    }
}
