//! The timers of a connection.

use fullpipe_cc::{Duration, Instant};

use super::transmit::Probe;
use super::{Connection, State};
use crate::config::Error;
use crate::rack::Rack;
use crate::rtt::MAX_RTO;

/// The time between two keep-alives, if the idle time is not shorter: Linux's tcp_keepalive_intvl.
const KEEP_ALIVE_INTERVAL: Duration = Duration::from_secs(75);
/// The least idle time: that of Linux's sockets.
const LEAST_IDLE: Duration = Duration::from_secs(1);
/// Time after the last segment in which memory waits for the next transfer.
const TIDY_AFTER: Duration = Duration::from_secs(1);
/// The step of the clock of timestamps.
pub(super) const TICK: Duration = Duration::from_millis(1);

/// The purpose of the timer that watches over what was sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Alarm {
    /// A SYN is sent again.
    Handshake,
    /// RACK's reordering window is over.
    Reordering,
    /// A tail loss probe leaves.
    Tail,
    /// Everything is lost.
    Timeout,
    /// A zero-window probe leaves.
    Window,
}

impl Connection {
    /// The next time at which [`Self::on_timer`] and [`Self::transmit`] have something to do, after
    /// `transmit` gave no packet. It may be in the past.
    pub fn poll_at(&self) -> Option<Instant> {
        if self.state == State::Closed {
            return None;
        }
        let times = [
            self.alarm().map(|(at, _)| at),
            self.acks.at(),
            self.paced_until,
            self.close_at,
            self.keep_alive_at(),
            self.cork_until,
            self.tidy_at(),
        ];
        times.into_iter().flatten().min()
    }

    /// Does what is due.
    pub fn on_timer(&mut self, now: Instant) {
        if self.state == State::Closed {
            return;
        }
        if self.close_at.is_some_and(|at| at <= now) {
            return self.end(None);
        }
        self.acks.on_timer(now);
        self.cork_until = self.cork_until.filter(|at| *at > now);
        if self.tidy_at().is_some_and(|at| at <= now) {
            self.tidy();
        }
        if let Some((_, alarm)) = self.alarm().filter(|(at, _)| *at <= now) {
            self.fire(now, alarm);
        }
        if self.keep_alive_at().is_some_and(|at| at <= now) {
            if self.keep_alives >= self.config.keep_alive_probes {
                return self.give_up();
            }
            (self.keep_alives, self.probed) = (self.keep_alives + 1, now);
            self.probe_due = Some(Probe::KeepAlive);
        }
    }

    fn alarm(&self) -> Option<(Instant, Alarm)> {
        // RFC 9293 section 3.8.3: R2 comes in its time, and not with the timeout after it.
        let timeout = self.started + self.rtt.timeout();
        let timeout = timeout.min(self.patient_since() + self.patience());
        if matches!(self.state, State::SynSent | State::SynReceived) {
            return Some((timeout, Alarm::Handshake));
        }
        if self.flight.is_empty() {
            let is_closed = self.send.edge <= self.send.nxt && self.has_unsent();
            return is_closed.then_some((timeout, Alarm::Window));
        }
        if let Some(at) = self.reorder_at {
            // It replaces the timeout (RFC 8985 section 8), and is no longer than the longest one.
            return Some((at.min(self.started + MAX_RTO), Alarm::Reordering));
        }
        // RFC 8985 section 7.2, and Linux: one probe a flight, and none while anything else repairs
        // it.
        let may_probe = self.options.sack
            && !self.rack.has_probe()
            && !self.recovery.is_active()
            && self.rtt.backoff() == 0
            // A peer that took its window back gets no more than its first segment again.
            && self.send.edge >= self.send.nxt
            && self.flight.sacked() == 0;
        if may_probe {
            let at = self.advanced + Rack::probe_timeout(&self.rtt, self.flight.open());
            // Section 7.2: at the timeout's time if that is sooner.
            return Some((at.min(timeout), Alarm::Tail));
        }
        Some((timeout, Alarm::Timeout))
    }

    fn fire(&mut self, now: Instant, alarm: Alarm) {
        if alarm != Alarm::Handshake {
            self.check_app_limited();
        }
        match alarm {
            Alarm::Handshake => {
                if self.is_given_up(now) {
                    return;
                }
                self.rtt.back_off();
                (self.syn_due, self.started) = (true, now);
            }
            Alarm::Reordering => {
                let active = self.recovery.is_active();
                let reo_wnd = self.rack.reo_wnd(&self.rtt, active, self.flight.sacked());
                let flight = self.cc.inflight();
                let mut batch = self.cc.ack(now);
                let (losses, next) = self.flight.detect(now, &self.rack, reo_wnd, &mut batch);
                batch.finish();
                self.reorder_at = next;
                self.note_losses(now, flight, 0, losses, false);
            }
            Alarm::Tail => {
                self.note_lost_question();
                self.probe_due = Some(Probe::Tail);
            }
            Alarm::Timeout => self.time_out(now),
            Alarm::Window => {
                if self.is_given_up(now) {
                    return;
                }
                self.rtt.back_off();
                self.started = now;
                self.probe_due = Some(Probe::Window);
            }
        }
    }

    /// RFC 6298 section 5.4 to 5.7, RFC 8985 section 6.3.
    fn time_out(&mut self, now: Instant) {
        let is_closed = self.send.edge <= self.send.una;
        if self.is_given_up(now) {
            return;
        }
        self.note_lost_question();
        if self.mtu.probe() == Some(self.send.una) && self.lose_probe(now) {
            return;
        }
        // A segment beyond the window is not taken for another reason.
        let first = self.flight.first().filter(|first| first.end <= self.send.edge);
        self.timeouts += 1;
        if let Some(first) = first.filter(|_| self.config.mtu_discovery)
            && self.mtu.on_timeout(now, self.timeouts, (first.end - first.start) as u32)
        {
            self.on_mtu(now);
        }
        // Section 6.3: what left less than a round trip and the reordering window ago may be on its
        // way.
        let recently = self.options.sack.then(|| {
            let active = self.recovery.is_active();
            let reo_wnd = self.rack.reo_wnd(&self.rtt, active, self.flight.sacked());
            self.rack.rtt() + reo_wnd
        });
        let mut batch = self.cc.ack(now);
        self.flight.lose_all(now, recently, &mut batch);
        if !is_closed {
            batch.timeout();
        }
        batch.finish();
        self.counts.timeouts += 1;
        self.rtt.back_off();
        self.rack.on_timeout();
        self.recovery.begin(self.send.nxt, true);
        self.head_due = true;
        // Timestamps decide by the first ACK; and without SACK the second may be a mere duplicate.
        if self.options.sack && !self.options.timestamps && !is_closed {
            self.recovery.examine();
        }
        (self.started, self.reorder_at, self.duplicates) = (now, None, 0);
        self.timed_out = Some(now);
        self.prr = None;
    }

    /// The timer fired for a probe of a larger size alone: it is likely too large, which is neither
    /// congestion nor a reason to wait for longer (RFC 8899 section 3, RFC 4821 section 7.6). Its
    /// data leaves again in segments of the usual size, and if these are not acknowledged either,
    /// the next timeout is an ordinary one.
    fn lose_probe(&mut self, now: Instant) -> bool {
        let mut batch = self.cc.ack(now);
        let is_probe = self.flight.lose_first_probe(&mut batch);
        batch.finish();
        if is_probe {
            self.mtu.on_lost();
            (self.started, self.head_due, self.duplicates) = (now, true, 0);
        }
        is_probe
    }

    /// The time from which on the peer owes an answer. RFC 9293 section 3.8.6.1: with a closed
    /// window the connection stays as long as the peer answers; but once nobody has it any more, a
    /// peer that takes nothing keeps it no longer (RFC 6429).
    fn patient_since(&self) -> Instant {
        let is_closed = self.send.edge <= self.send.una && self.state.is_synchronized();
        if is_closed && !self.detached { self.heard.max(self.waiting) } else { self.waiting }
    }

    /// R2 of RFC 9293 section 3.8.3.
    fn patience(&self) -> Duration {
        match self.state {
            State::SynSent | State::SynReceived => {
                self.config.connect_timeout.min(self.config.user_timeout)
            }
            _ => self.config.user_timeout,
        }
    }

    /// Ends the connection if nothing was answered for too long.
    fn is_given_up(&mut self, now: Instant) -> bool {
        let is_over = now.since(self.patient_since()) >= self.patience();
        if is_over {
            self.give_up();
        }
        is_over
    }

    /// The peer does not answer. The application hears what a router said, if one did (RFC 9293
    /// section 3.9.2.2).
    fn give_up(&mut self) {
        self.note_no_answer();
        self.end(Some(self.soft_error.unwrap_or(Error::TimedOut)));
    }

    /// Memory that is not in use is given back then.
    fn tidy_at(&self) -> Option<Instant> {
        self.has_spare_memory().then(|| self.heard.max(self.last_sent) + TIDY_AFTER)
    }

    fn keep_alive_at(&self) -> Option<Instant> {
        let idle = self.config.keep_alive?.max(LEAST_IDLE);
        let is_idle = self.state.is_synchronized()
            && self.state != State::TimeWait
            && self.flight.is_empty()
            && !self.has_unsent();
        let at = match self.keep_alives {
            0 => self.heard.max(self.last_sent) + idle,
            _ => {
                let interval = self.config.keep_alive_interval;
                self.probed + interval.unwrap_or(KEEP_ALIVE_INTERVAL.min(idle)).max(LEAST_IDLE)
            }
        };
        is_idle.then_some(at)
    }
}

/// This end's clock of timestamps, which was at `clock` at time 0: milliseconds (RFC 7323 section
/// 5.4).
pub(crate) fn clock_at(clock: u32, now: Instant) -> u32 {
    clock.wrapping_add((now.as_nanos() / TICK.as_nanos()) as u32)
}
