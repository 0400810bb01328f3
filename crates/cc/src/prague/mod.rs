//! Prague, a scalable congestion control for L4S (RFC 9330, RFC 9331):
//! draft-briscoe-iccrg-prague-congestion-control-04, in bytes and integers.
//!
//! A queue of L4S marks early and often, and a window is reduced by the share that was marked: by
//! half of `alpha`, at most once in a *virtual round trip*. That is the smoothed round trip, but at
//! least 25 ms: a flow over a shorter path grows and shrinks in its rate as one over 25 ms does,
//! and does not push it aside ("Reduced RTT-Dependence").
//!
//! Marks have this meaning where the transport says so ([`crate::Config::ecn`]): packets leave as
//! ECT(1), and the receiver reports each mark. Otherwise a mark is a loss, as RFC 3168 has it. A
//! queue that marks by RFC 3168 cannot be told from another by its marks; [`ClassicQueue`] tells it
//! by the delays that come with them.
//!
//! Choices that the draft leaves: losses are answered as Reno does;
//! alpha is 1 at first (RFC 8257 section 3.3), so that the first mark halves the window of slow
//! start; slow start has HyStart++ (RFC 9406); virtual round trips count from the end of slow start
//! on; the initial window is paced as over 25 ms.

use crate::algo::{Congestion, CongestionControl};
use crate::classic_queue::{ClassicQueue, SURE};
use crate::config::Config;
use crate::config::Start;
use crate::conn::{Conn, INFINITE, MarksAre};
use crate::hystart::SlowStart;
use crate::options::PragueOptions;
use crate::sampler::RateSample;
use crate::snapshot::Snapshot;
use crate::units::{Duration, Gain, Instant, Rate, mul_div};

/// RTT_virt_min: the round trip over which shorter ones are as fair as the usual ones.
const LEAST_VIRTUAL_RTT: Duration = Duration::from_millis(25);
/// The gain of the moving average, g = 1/16, as a shift.
const ALPHA_GAIN_SHIFT: u32 = 4;
/// An alpha of one. With this many bits beyond the gain's shift one mark in a million packets
/// counts.
const ALPHA_ONE: u32 = 1 << 24;
/// The least alpha where the queue is a classic one: 0.7 of the window stay, which is CUBIC's
/// factor (RFC 9438 section 4.6).
const CLASSIC_ALPHA: u32 = ALPHA_ONE / 5 * 3;
/// The window after a loss, as Reno's (RFC 9002 appendix B.1).
const LOSS_REDUCTION: Gain = Gain::percent(50);
/// The longest burst, in time at the pacing rate: a quarter of a millisecond is a quarter of the
/// delay at which queues of L4S begin to mark (RFC 9332 appendix A.1).
const BURST: Duration = Duration::from_micros(250);
/// Pacing in slow start: 2 ln 2, with which the window doubles in a round trip and the packets are
/// spread over all of it. At two windows a round trip they would leave in the first half of each, a
/// queue would mark them when the window is half of a BDP, and the flow would go on with half of
/// the link, whose other half takes 10 s of 50 ms to come.
const SLOW_START_PACING: Gain = Gain::percent(139);
/// Pacing afterwards.
const AVOIDANCE_PACING: Gain = Gain::ONE;

#[derive(Clone, Debug)]
pub(crate) struct Prague {
    slow_start: SlowStart,
    /// A packet was marked; alpha counts from then on.
    has_marks: bool,
    /// The ACK at hand brought marks that may reduce the window.
    is_marked: bool,
    /// The moving average of the share that was marked, of [`ALPHA_ONE`].
    alpha: u32,
    /// The window's bytes below one, of 2^32.
    cwnd_part: u32,
    /// Bytes that the ACK at hand says were marked, and those since alpha was updated.
    newly_marked: u64,
    marked: u64,
    /// The update of alpha is due in a virtual round trip, and not before the packets that are in
    /// flight now have left the path: C.delivered and the time when it was updated.
    alpha_updated: Mark,
    /// The same of the newest reduction; `None` before one.
    reduced: Option<Mark>,
    classic: ClassicQueue,
    undo: Option<Undo>,
}

/// A moment of the connection.
#[derive(Clone, Copy, Debug)]
struct Mark {
    delivered: u64,
    at: Instant,
}

#[derive(Clone, Copy, Debug)]
struct Undo {
    cwnd: u64,
    ssthresh: u64,
}

impl Mark {
    fn now(conn: &Conn, now: Instant) -> Self {
        Self { delivered: conn.sampler.delivered, at: now }
    }

    /// True if a round trip is over since then, and a virtual one as well.
    fn is_over(self, rs: &RateSample, virtual_rtt: Duration) -> bool {
        rs.prior_delivered >= self.delivered && rs.now.since(self.at) >= virtual_rtt
    }
}

impl Prague {
    pub(crate) fn new(
        conn: &mut Conn,
        now: Instant,
        config: &Config,
        options: PragueOptions,
    ) -> Self {
        if config.ecn {
            conn.marks = MarksAre::Apart;
        }
        let prague = Self {
            slow_start: SlowStart::new(Start::Standard),
            has_marks: false,
            is_marked: false,
            alpha: ALPHA_ONE,
            cwnd_part: 0,
            newly_marked: 0,
            marked: 0,
            alpha_updated: Mark::now(conn, now),
            reduced: None,
            classic: ClassicQueue::new(options.classic_fallback()),
            undo: None,
        };
        if conn.is_paced && conn.srtt().is_none() {
            // An initial window that left at once would be marked, and slow start be over.
            conn.set_pacing_rate(Self::first_rate(conn));
        }
        prague.pace(conn);
        prague
    }

    /// The pacing rate of the initial window.
    fn first_rate(conn: &Conn) -> Rate {
        Rate::from_volume(conn.initial_cwnd, LEAST_VIRTUAL_RTT)
    }

    /// RTT_virt.
    fn virtual_rtt(conn: &Conn) -> Duration {
        conn.srtt().unwrap_or(LEAST_VIRTUAL_RTT).max(LEAST_VIRTUAL_RTT)
    }

    /// Once a virtual round trip: alpha moves by 1/16 towards the share that was marked.
    #[cold]
    fn update_alpha(&mut self, conn: &Conn, now: Instant) {
        let delivered = conn.sampler.delivered.saturating_sub(self.alpha_updated.delivered);
        self.alpha_updated = Mark::now(conn, now);
        let marked = core::mem::take(&mut self.marked);
        if !self.has_marks {
            return; // nobody has shown yet that a queue on the path marks
        }
        // Marks are counted in full packets, and may seem more than what small ones delivered.
        let share = mul_div(marked, ALPHA_ONE.into(), delivered).min(ALPHA_ONE.into()) as u32;
        self.alpha = self.alpha - (self.alpha >> ALPHA_GAIN_SHIFT) + (share >> ALPHA_GAIN_SHIFT);
        if marked > 0 {
            self.classic.judge();
        }
    }

    /// Additive increase: a packet for each window that arrived without marks, in round trips of
    /// 25 ms and more. In shorter ones it is less by the square of their part: there are more of
    /// them, and a packet more in a shorter one is more rate.
    fn increase(&mut self, conn: &mut Conn, acked: u64) {
        let part = mul_div(
            conn.srtt().unwrap_or(LEAST_VIRTUAL_RTT).as_nanos(),
            1 << 24,
            Self::virtual_rtt(conn).as_nanos(),
        );
        // Of 2^32.
        let square = (part * part) >> 16;
        let grown = mul_div(acked.saturating_mul(conn.smss), square, conn.cwnd);
        let grown = grown.saturating_add(self.cwnd_part.into());
        conn.cwnd = conn.cwnd.saturating_add((grown >> 32).min(acked));
        self.cwnd_part = grown as u32;
    }

    /// Multiplicative decrease: half of alpha, or what a classic queue asks for.
    #[cold]
    fn reduce(&mut self, conn: &mut Conn, now: Instant) {
        let least = mul_div(CLASSIC_ALPHA.into(), self.classic.certainty().into(), SURE.into());
        let alpha = u64::from(self.alpha).max(least);
        let cut = mul_div(conn.cwnd, alpha, 2 * u64::from(ALPHA_ONE));
        conn.cwnd = conn.cwnd.saturating_sub(cut).max(conn.min_window());
        self.slow_start.set_ssthresh(conn.cwnd);
        self.reduced = Some(Mark::now(conn, now));
        // A loss that turns out to be none does not take this back.
        self.undo = None;
    }

    /// Paces at one window in a round trip, as the draft has it, and in short bursts. The initial
    /// window leaves at the same rate whether a handshake has shown the round trip or not: on a
    /// long path its packets would be so far apart that each waits for a delayed ACK.
    fn pace(&self, conn: &mut Conn) {
        let doubles = self.slow_start.is_in(conn) && !self.slow_start.is_conservative();
        conn.pace_by_window(if doubles { SLOW_START_PACING } else { AVOIDANCE_PACING });
        if doubles && conn.is_paced && conn.sampler.delivered < conn.initial_cwnd {
            conn.set_pacing_rate(conn.pacing_rate.max(Self::first_rate(conn)));
        }
        if conn.is_paced
            && let Some(rate) = conn.pacing_rate()
        {
            conn.set_send_quantum(rate.bytes_in(BURST));
        }
    }
}

impl CongestionControl for Prague {
    fn on_ack(&mut self, conn: &mut Conn, rs: &RateSample) {
        let virtual_rtt = Self::virtual_rtt(conn);
        let marked = core::mem::take(&mut self.newly_marked);
        self.slow_start.observe(conn, rs);
        self.classic.observe(conn, rs);
        if self.alpha_updated.is_over(rs, virtual_rtt) {
            self.update_alpha(conn, rs.now);
        }
        let acked = rs.newly_acked_after_recovery.saturating_sub(marked);
        if self.slow_start.is_in(conn) {
            self.slow_start.grow(conn, rs, acked);
        } else if acked > 0 && conn.may_grow(rs) {
            self.increase(conn, acked);
        }
        if core::mem::take(&mut self.is_marked)
            && !conn.in_recovery()
            && self.reduced.is_none_or(|reduced| reduced.is_over(rs, virtual_rtt))
        {
            self.reduce(conn, rs.now);
        }
        self.pace(conn);
    }

    /// Losses at once, as Reno; what marks ask for waits for the ACK that brought them, whose bytes
    /// count before.
    fn on_congestion(&mut self, conn: &mut Conn, congestion: &Congestion<'_>) {
        if let Some(marks) = congestion.marks.as_ref().filter(|_| conn.marks_are_apart()) {
            if !self.has_marks {
                // What came before says nothing of a queue that marks.
                self.has_marks = true;
                self.alpha_updated = Mark::now(conn, congestion.now);
            }
            self.is_marked = true;
            self.newly_marked = marks.newly_marked;
            self.marked = self.marked.saturating_add(marks.newly_marked);
        }
        if !congestion.new_episode {
            return;
        }
        self.undo = Some(Undo { cwnd: conn.cwnd, ssthresh: self.slow_start.ssthresh() });
        conn.cwnd = LOSS_REDUCTION.of(conn.cwnd).max(conn.min_window());
        self.slow_start.set_ssthresh(conn.cwnd);
        self.cwnd_part = 0;
        self.pace(conn);
    }

    /// Persistent congestion, RFC 9002 section 7.6.2.
    fn on_rto(&mut self, conn: &mut Conn) {
        conn.note_timeout_answered();
        conn.cwnd = conn.timeout_window();
        self.cwnd_part = 0;
        self.pace(conn);
    }

    fn on_safe_retreat(&mut self, conn: &mut Conn) {
        self.undo = None;
        self.pace(conn);
    }

    fn on_retreated(&mut self, conn: &mut Conn, half_of_pipe: u64) {
        self.slow_start.set_ssthresh(half_of_pipe);
        self.pace(conn);
    }

    /// The window before the episode, as Reno's here.
    fn on_spurious_loss(&mut self, conn: &mut Conn) {
        if let Some(undo) = self.undo.take().filter(|undo| conn.cwnd < undo.cwnd) {
            conn.cwnd = undo.cwnd;
            self.slow_start.set_ssthresh(undo.ssthresh);
            self.pace(conn);
        }
    }

    /// RFC 5681 section 4.1, and the threshold of RFC 2861: three quarters of the window stay
    /// known.
    fn on_idle(&mut self, conn: &mut Conn, cwnd: u64) {
        if cwnd < conn.cwnd {
            let known = conn.cwnd - conn.cwnd / 4;
            self.slow_start.set_ssthresh(self.slow_start.ssthresh().max(known));
            conn.cwnd = cwnd.max(conn.smss);
            self.pace(conn);
        }
    }

    fn on_mtu_update(&mut self, conn: &mut Conn) {
        conn.cwnd = conn.cwnd.max(conn.min_window());
        // The rate of a smaller window would hold this one back.
        self.pace(conn);
    }

    fn snapshot(&self, conn: &Conn) -> Snapshot {
        let ssthresh = self.slow_start.ssthresh();
        Snapshot {
            ssthresh: (ssthresh != INFINITE).then_some(ssthresh),
            ecn_alpha: self.has_marks.then(|| share(self.alpha)),
            ..Snapshot::of(conn, "prague", self.slow_start.state(conn))
        }
    }
}

/// `alpha` as a factor.
fn share(alpha: u32) -> Gain {
    Gain::ratio(alpha.into(), ALPHA_ONE.into())
}

#[cfg(all(test, feature = "custom"))]
mod oracle;
#[cfg(test)]
mod tests;
