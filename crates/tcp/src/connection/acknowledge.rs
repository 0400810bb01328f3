//! An acceptable ACK: window, acknowledged data, losses, congestion control.

use fullpipe_cc::{Duration, Instant, Prr, RttSample};

use super::timers::{TICK, clock_at};
use super::{Connection, State};
use crate::rack::DUP_THRESH;
use crate::receiver::{SACK_BLOCKS, Span};
use crate::recovery::{EpisodeVerdict, Evidence, before};
use crate::rtt::is_round_trip;
use crate::sent::{Losses, News};
use crate::seq;
use crate::wire::{Header, Segment};

impl Connection {
    /// Takes in the ACK of `segment`, which begins at `start`.
    pub(super) fn on_ack(&mut self, now: Instant, ack: u64, segment: &Segment<'_>, start: u64) {
        let header = &segment.header;
        self.check_app_limited();
        let prior_edge = self.send.edge;
        self.update_window(now, header, ack, start);
        let (blocks, dsack) = self.read_sack(header, ack);
        if ack < self.send.una {
            return;
        }
        self.note_probe_taken(ack);
        let is_duplicate = ack == self.send.una
            && segment.is_empty()
            // A keep-alive, or an end that does not know of its probe's byte, says nothing new.
            && start >= self.receive.next()
            && self.send.edge == prior_edge
            && !self.flight.is_empty();
        if self.flight.is_empty() && ack == self.send.una && dsack.is_none() {
            return;
        }
        let una = core::mem::replace(&mut self.send.una, ack);

        self.rack.begin(now, &self.rtt);
        let flight = self.cc.inflight();
        let mut batch = self.cc.ack(now);
        let mut news = self.flight.acknowledge(ack, blocks, &mut self.rack, &mut batch);
        if ack == una && news.oldest_once < self.timed_out {
            // It may have arrived long ago: the timeout shows that its ACK was lost, or late. What
            // is acknowledged in order has a timestamp, or was sent again (RFC 6298 section 3).
            (news.oldest_once, news.newest_once) = (None, None);
        }
        let marks =
            self.marks.told(&self.options, &self.send, header, &news, self.flight.next_number());
        if let Some(sample) = sample(now, &news, header, self.clock, ack > una) {
            batch.rtt(sample);
            if let RttSample::Exact(rtt) | RttSample::Coarse { rtt, .. } = sample {
                self.rtt.on_ack(rtt);
            }
            if let RttSample::Exact(rtt) = sample
                && let Some(delay) = header.receiver_delay.filter(|d| d.sum() <= rtt)
                && self.options.receiver_delay
            {
                // That of the newest segment, as the sample is. A part that is more than the whole
                // is none; what else a peer may claim the core bounds.
                batch.receiver_delay(delay.host);
                batch.ack_delay(delay.wait);
            }
            let measured = match (sample, news.oldest_once) {
                (_, Some(oldest)) => Some(now.since(oldest)),
                (RttSample::Coarse { rtt, .. }, None) => Some(rtt),
                _ => None,
            };
            if let Some(rtt) = measured {
                self.rtt.update(rtt);
                // RFC 6298 section 5: the doubled timeout stays until a sample.
                self.rtt.reset_backoff();
            }
        }
        if let Some(newest) = news.newest_once {
            self.rtt.note(now.since(newest));
        }
        let pure = is_duplicate && blocks.iter().all(|block| block.start == block.end);
        // More duplicates than copies, or the probe's: none that a loss seen too early made.
        let is_of_copy = dsack.is_some_and(|span| {
            self.counts.dsack_dups < self.counts.total_retrans && !self.rack.is_probe(span)
        });
        let repaired = self.rack.on_probe_ack(ack, dsack, pure);
        batch.ce(marks);
        if repaired {
            batch.repaired_loss();
        }
        if is_of_copy {
            self.rack.on_dsack(self.send.nxt);
        }
        let echo = header.timestamp.filter(|_| self.options.timestamps).map(|t| t.echo);
        // The repair of the first segment left after what the ACK echoes.
        let is_before_repair = news.head_repair.zip(echo.filter(|_| ack > una));
        let is_late =
            is_before_repair.is_some_and(|(at, echo)| before(echo, clock_at(self.clock, at)));
        if (news.late_original || is_late) && !self.recovery.is_of_timeout() {
            self.rack.on_late_original();
        }
        let losses = if self.options.sack {
            let active = self.recovery.is_active();
            let reo_wnd = self.rack.reo_wnd(&self.rtt, active, self.flight.sacked());
            let (losses, next) = self.flight.detect(now, &self.rack, reo_wnd, &mut batch);
            self.reorder_at = next;
            losses
        } else {
            // Three duplicates, or in a fast recovery an ACK of a part: RFC 6582 section 3.2.
            self.duplicates = if is_duplicate { self.duplicates + 1 } else { 0 };
            let begins = self.duplicates == DUP_THRESH && self.recovery.may_begin(ack);
            let is_partial = self.recovery.is_of_losses() && ack > una;
            if begins || is_partial && !self.recovery.ends_at(ack) {
                self.flight.lose_first(&mut batch)
            } else {
                Losses::default()
            }
        };
        batch.finish();

        self.counts.delivered_ce += marks;
        let verdict = self.recovery.on_evidence(Evidence {
            una: ack,
            prior_una: una,
            original: news.first_original,
            is_duplicate: is_duplicate || ack == una && news.bytes > 0,
            has_new: self.next_new(self.payload()).is_some(),
        });
        self.apply(now, verdict);
        if ack > una {
            self.advance(now, ack, una, echo, news.repeated.is_some());
        }
        if let Some(span) = dsack {
            self.counts.dsack_dups += 1;
            let verdict = self.recovery.on_dsack(span);
            self.apply(now, verdict);
        }
        self.note_losses(now, flight, news.bytes, losses, ack > una);
    }

    /// An ACK or a timer delivered so many bytes and found these losses; `flight` was in flight
    /// before, and SND.UNA advanced or did not. The window's reduction takes effect by proportional
    /// rate reduction (RFC 9937), whose SafeACK (section 6.2) is one that advances and tells of no
    /// loss, as in Linux. Without its first half `cubic` recovers too fast: it has up to 4 % less
    /// on clean paths and sends a tenth to a quarter more again, and is 6 % off the simulator's if
    /// that alone has it.
    pub(super) fn note_losses(
        &mut self,
        now: Instant,
        flight: u64,
        delivered: u64,
        losses: Losses,
        advanced: bool,
    ) {
        self.judge_probe(now);
        let begins = losses.segments > 0 && !self.recovery.is_active();
        if losses.segments > 0 {
            self.recovery.begin(self.send.nxt, false);
        }
        let (inflight, mss) = (self.cc.inflight(), u64::from(self.options.payload()));
        if !self.recovery.is_active() {
            self.prr = None;
        } else if begins && self.cc.wants_prr() {
            self.prr = Some(Prr::new(self.cc.cwnd(), flight, inflight, mss));
        }
        if let Some(prr) = &mut self.prr {
            prr.on_ack(delivered, advanced && losses.segments == 0, inflight, mss);
        }
    }

    /// The probe for a larger size arrived or is lost, or neither is known.
    fn judge_probe(&mut self, now: Instant) {
        match self.mtu.probe().and_then(|place| self.flight.fate(place)) {
            Some(true) => self.mtu.on_arrived(),
            Some(false) => self.mtu.on_lost(),
            None => return,
        }
        self.on_mtu(now);
    }

    /// SND.UNA went from `una` to `ack`, by an ACK that echoes `echo` and, if `repeated`, covers
    /// something that was sent more than once.
    fn advance(&mut self, now: Instant, ack: u64, una: u64, echo: Option<u32>, repeated: bool) {
        let fin_acked = self.fin.is_some_and(|fin| ack > fin);
        self.counts.bytes_acked += ack - una - u64::from(fin_acked && self.fin >= Some(una));
        self.data.acknowledge(ack);
        (self.timeouts, self.soft_error) = (0, None);
        (self.started, self.advanced, self.waiting) = (now, now, now);
        self.rack.on_advance(ack);
        let (ended, verdict) = self.recovery.on_advance(ack, echo, repeated);
        if ended {
            self.rack.on_recovered();
        }
        self.apply(now, verdict);
        if !fin_acked {
            return;
        }
        match self.state {
            State::FinWait1 => {
                self.state = State::FinWait2;
                self.close_at = self.detached.then_some(now + self.config.time_wait);
            }
            State::Closing => self.wait_for_late_segments(now),
            State::LastAck => self.end(None),
            _ => {}
        }
    }

    fn apply(&mut self, now: Instant, verdict: EpisodeVerdict) {
        if verdict == EpisodeVerdict::None {
            return;
        }
        self.cc.on_spurious_loss(now);
        self.prr = None;
        if verdict == EpisodeVerdict::SpuriousTimeout {
            let flight = self.flight.undo();
            let mut batch = self.cc.ack(now);
            batch.resync_inflight(flight);
            batch.finish();
        }
    }

    /// The peer took the byte of a zero-window probe.
    fn note_probe_taken(&mut self, ack: u64) {
        if ack > self.send.nxt {
            self.send.nxt = ack;
            if self.closing && ack > self.data.end() {
                self.fin = Some(self.data.end());
            }
        }
    }

    /// The window of `header` counts if it is the newest (RFC 9293 section 3.10.7.4).
    fn update_window(&mut self, now: Instant, header: &Header, ack: u64, start: u64) {
        let send = &self.send;
        let is_newer = send.wl1 < start || send.wl1 == start && send.wl2 <= ack;
        if ack < send.una || !is_newer {
            return;
        }
        let was_closed = self.send.edge <= self.send.nxt;
        let window = u64::from(header.window) << self.options.send_scale;
        self.set_window(header, ack, window);
        self.send.wl1 = start;
        if was_closed && self.send.edge > self.send.nxt && self.flight.is_empty() {
            // The probes are over.
            self.rtt.reset_backoff();
            (self.started, self.waiting) = (now, now);
        }
    }

    pub(super) fn set_window(&mut self, header: &Header, ack: u64, window: u64) {
        self.send.edge = ack + window;
        self.send.max_window = self.send.max_window.max(window);
        self.send.wl1 = seq::place(self.receive.next(), header.seq);
        self.send.wl2 = ack;
    }

    /// The blocks of a SACK option that are inside of the flight; and a DSACK (RFC 2883 section 4:
    /// the first block, when it is below the ACK or inside of the second).
    fn read_sack(&self, header: &Header, ack: u64) -> ([Span; SACK_BLOCKS], Option<Span>) {
        let mut spans = [Span::default(); SACK_BLOCKS];
        if !self.options.sack {
            return (spans, None);
        }
        let (una, nxt) = (self.send.una, self.send.nxt);
        let mut dsack = None;
        let blocks = header.sack.iter().flatten().enumerate().map(|(i, &(start, end))| {
            (i, Span { start: seq::place(una, start), end: seq::place(una, end) })
        });
        let mut first = None;
        let mut count = 0;
        for (i, span) in blocks {
            if span.start >= span.end || span.end > nxt {
                continue;
            }
            let is_inside_of_second =
                i == 1 && first.is_some_and(|f: Span| span.start <= f.start && f.end <= span.end);
            if i == 0 && span.end <= ack {
                // Data that was never sent again cannot have arrived twice by our doing, but the
                // peer's word is all there is.
                dsack = Some(span).filter(|_| span.start > self.send.iss);
                continue;
            }
            if i == 0 {
                first = Some(span);
            }
            if is_inside_of_second {
                dsack = first;
            }
            if span.start >= ack.max(una) {
                spans[count] = span;
                count += 1;
            }
        }
        (spans, dsack)
    }
}

/// The round trip that an ACK measured (RFC 6298 section 3, RFC 7323 section 4): exact if a segment
/// arrived that was sent once, else by timestamps.
fn sample(
    now: Instant,
    news: &News,
    header: &Header,
    clock: u32,
    advanced: bool,
) -> Option<RttSample> {
    if let Some(newest) = news.newest_once {
        let rtt = now.since(newest);
        return Some(if is_round_trip(rtt) { RttSample::Exact(rtt) } else { RttSample::Ambiguous });
    }
    if news.bytes == 0 {
        return None;
    }
    // An ACK that does not advance echoes an older segment.
    let Some(timestamp) = header.timestamp.filter(|t| advanced && t.echo != 0) else {
        return Some(RttSample::Ambiguous);
    };
    // An echo from before the copy is that of the original, whose ACK may have been lost, and of a
    // duplicate, which moves no timestamp. It is as old as the timeout was long.
    let is_before_copy = |at| before(timestamp.echo, clock_at(clock, at));
    if news.repeated.is_some_and(is_before_copy) {
        return Some(RttSample::Ambiguous);
    }
    match echo_age(now, clock, timestamp.echo) {
        Some(rtt) => Some(RttSample::Coarse { rtt, granularity: TICK }),
        None => Some(RttSample::Ambiguous),
    }
}

/// The time since this end's clock of timestamps, which began at `clock`, was at `echo`, rounded
/// up.
pub(super) fn echo_age(now: Instant, clock: u32, echo: u32) -> Option<Duration> {
    let age = clock_at(clock, now).wrapping_sub(echo);
    let age = Duration::from_millis(u64::from(age) + 1);
    // Beyond it is no echo of ours, or the clock has jumped.
    is_round_trip(age).then_some(age)
}
