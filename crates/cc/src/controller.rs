//! The one door: what a transport calls, in the order in which it happens.

use core::fmt;

use crate::algo::{Congestion, CongestionControl, Marks};
use crate::bbr1::Bbr1;
use crate::bbr3::{Bbr3, Draft, DraftAmended, Linux};
use crate::config::{AckFrequency, Algorithm, Config, CubicRules};
use crate::conn::{Conn, MAX_QUANTUM};
use crate::cubic::Cubic;
use crate::cubic_linux::LinuxCubic;
#[cfg(feature = "custom")]
use crate::custom::Custom;
use crate::fixed::Fixed;
use crate::pacer::Pacer;
use crate::reno::Reno;
use crate::sampler::{MAX_SIZE, MAX_TX_IN_FLIGHT, PacketState, RateSample, RttSample, SendOrder};
use crate::snapshot::{Snapshot, State, StateChange, StateHook};
use crate::units::{Instant, Rate};

/// Whether a packet may leave now.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SendDecision {
    /// Up to `quantum` bytes may leave at once; at least one full packet.
    Now {
        /// Bytes, bounded by the pacer's credit, C.send_quantum and the window.
        quantum: u64,
    },
    /// The pacer has no credit for a full packet before this instant.
    At(Instant),
    /// The window is full: wait for an ACK or a loss.
    CwndLimited,
}

/// The algorithms, in one size and without a table of pointers.
#[derive(Clone, Debug)]
// One controller lives beside each connection: an indirection for the small ones would cost every
// ACK of the large one a cache miss.
#[allow(clippy::large_enum_variant)]
enum Algo {
    Bbr3(Bbr3<Draft>),
    Bbr3x(Bbr3<DraftAmended>),
    Bbr3Linux(Bbr3<Linux>),
    Bbr1(Bbr1),
    Cubic(Cubic),
    LinuxCubic(LinuxCubic),
    Reno(Reno),
    Fixed(Fixed),
    #[cfg(feature = "custom")]
    Custom(Custom),
}

/// Runs the same call on whichever algorithm is inside.
macro_rules! each {
    ($algo:expr, $a:ident => $call:expr) => {
        match $algo {
            Algo::Bbr3($a) => $call,
            Algo::Bbr3x($a) => $call,
            Algo::Bbr3Linux($a) => $call,
            Algo::Bbr1($a) => $call,
            Algo::Cubic($a) => $call,
            Algo::LinuxCubic($a) => $call,
            Algo::Reno($a) => $call,
            Algo::Fixed($a) => $call,
            #[cfg(feature = "custom")]
            Algo::Custom($a) => $call,
        }
    };
}

/// Congestion control of one flow on one path.
///
/// ```
/// use fullpipe_cc::{Algorithm, Config, Controller, Duration, Instant, SendDecision};
///
/// let mut now = Instant::from_nanos(1_000);
/// let seed = 17; // another one for each flow
/// let mut cc = Controller::new(Algorithm::Bbr3, Config::new(seed), now);
/// assert!(matches!(cc.can_send(now), SendDecision::Now { .. }));
/// let packet = cc.on_sent(now, 1200); // keep this beside the packet
///
/// now += Duration::from_millis(40);
/// let mut ack = cc.ack(now); // borrows `cc`: nothing else can be called meanwhile
/// ack.acked(&packet);
/// ack.finish();
/// assert_eq!(cc.snapshot().srtt, Some(Duration::from_millis(40)));
/// ```
///
/// A transport's mistakes do not compile, or fail a debug assertion. While a batch is open, nothing else
/// can be called:
///
/// ```compile_fail
/// # use fullpipe_cc::{Algorithm, Config, Controller, Instant};
/// # let now = Instant::default();
/// # let mut cc = Controller::new(Algorithm::Bbr3, Config::new(17), now);
/// let mut ack = cc.ack(now);
/// cc.can_send(now);
/// ack.finish();
/// ```
///
/// Nothing but [`Controller::on_sent`] makes the state of a packet, so none can be invented:
///
/// ```compile_fail
/// let packet = fullpipe_cc::PacketState::default();
/// ```
///
/// and it can't be thrown away without a word:
///
/// ```compile_fail
/// #![deny(unused_must_use)]
/// # use fullpipe_cc::{Algorithm, Config, Controller, Instant};
/// # let now = Instant::default();
/// # let mut cc = Controller::new(Algorithm::Bbr3, Config::new(17), now);
/// cc.on_sent(now, 1200);
/// ```
///
/// A timeout is a part of a batch, as its losses are, so it comes neither before nor after them:
///
/// ```compile_fail
/// # use fullpipe_cc::{Algorithm, Config, Controller, Instant};
/// # let now = Instant::default();
/// # let mut cc = Controller::new(Algorithm::Bbr3, Config::new(17), now);
/// cc.on_rto(now);
/// ```
///
/// A migration needs a new seed, and a rate its unit:
///
/// ```compile_fail
/// # use fullpipe_cc::{Algorithm, Config, Controller, Instant};
/// # let now = Instant::default();
/// # let mut cc = Controller::new(Algorithm::Bbr3, Config::new(17), now);
/// cc.on_migration(now, &Config::new(17));
/// ```
/// ```compile_fail
/// # use fullpipe_cc::Config;
/// let config = Config { max_pacing_rate: Some(1_000_000), ..Config::new(17) };
/// ```
#[derive(Clone)]
pub struct Controller {
    conn: Conn,
    pacer: Pacer,
    algo: Algo,
    hook: Option<StateHook>,
    /// The state when `hook` was last asked for.
    last_state: State,
}

impl Controller {
    /// A controller for a flow that starts `now`.
    pub fn new(algorithm: Algorithm, config: Config, now: Instant) -> Self {
        let mut conn = Conn::new(&config, now);
        let algo = match algorithm {
            Algorithm::Bbr3 => Algo::Bbr3(Bbr3::new(&mut conn, now, &config)),
            Algorithm::Bbr3x => Algo::Bbr3x(Bbr3::new(&mut conn, now, &config)),
            Algorithm::Bbr3Linux => Algo::Bbr3Linux(Bbr3::new(&mut conn, now, &config)),
            Algorithm::Bbr1 => Algo::Bbr1(Bbr1::new(&mut conn, now, &config)),
            Algorithm::Cubic if config.cubic == CubicRules::Linux => {
                Algo::LinuxCubic(LinuxCubic::new(now))
            }
            Algorithm::Cubic => Algo::Cubic(Cubic::new(&mut conn)),
            Algorithm::Reno => Algo::Reno(Reno::new(&mut conn)),
            Algorithm::Fixed(rate) => Algo::Fixed(Fixed::new(&mut conn, rate)),
            #[cfg(feature = "custom")]
            Algorithm::Custom(algorithm) => {
                Algo::Custom(Custom::new(algorithm, &mut conn, now, &config))
            }
        };
        let pacer = Pacer::new(now, config.pacing_granularity, conn.pacing_rate, conn.send_quantum);
        let last_state = each!(&algo, a => a.snapshot(&conn)).state;
        Self { conn, pacer, algo, hook: config.on_state_change, last_state }
    }

    /// The algorithm that was chosen.
    pub fn algorithm(&self) -> Algorithm {
        match &self.algo {
            Algo::Bbr3(_) => Algorithm::Bbr3,
            Algo::Bbr3x(_) => Algorithm::Bbr3x,
            Algo::Bbr3Linux(_) => Algorithm::Bbr3Linux,
            Algo::Bbr1(_) => Algorithm::Bbr1,
            Algo::Cubic(_) | Algo::LinuxCubic(_) => Algorithm::Cubic,
            Algo::Reno(_) => Algorithm::Reno,
            Algo::Fixed(fixed) => Algorithm::Fixed(fixed.rate()),
            #[cfg(feature = "custom")]
            Algo::Custom(custom) => Algorithm::Custom(custom.algorithm),
        }
    }

    /// Whether a full packet may leave now.
    #[inline]
    pub fn can_send(&mut self, now: Instant) -> SendDecision {
        if self.conn.is_window_full() {
            self.conn.mark_cwnd_limited();
            return SendDecision::CwndLimited;
        }
        let credit = self.pacer.available(now, self.conn.smss);
        if credit == 0 {
            return SendDecision::At(self.pacer.ready_at(self.conn.smss));
        }
        let room = self.conn.cwnd - self.conn.inflight;
        let quantum = credit.min(self.conn.send_quantum).min(room).max(self.conn.smss);
        SendDecision::Now { quantum }
    }

    /// The time at which the pacer allows `bytes` to leave at once: for a transport that waits until it can
    /// fill an aggregate instead of sending packet by packet. Never later than `now` if they may leave now;
    /// the time for [`Self::burst_bound`] if they are more than that.
    pub fn ready_at(&mut self, now: Instant, bytes: u64) -> Instant {
        self.pacer.available(now, bytes);
        self.pacer.ready_at(bytes).max(now)
    }

    /// True if the algorithm answers CE marks. Where it does not, the transport must not mark its packets
    /// as ECN-capable: a queue would mark instead of dropping, to no effect (RFC 3168 section 5).
    pub fn wants_ecn(&self) -> bool {
        each!(&self.algo, a => a.wants_ecn())
    }

    /// The size of the transport's send buffer, in windows, with which it never runs empty: Linux's
    /// `sndbuf_expand`.
    pub fn send_buffer_windows(&self) -> u64 {
        each!(&self.algo, a => a.send_buffer_windows())
    }

    /// A packet of `bytes` left `now`; an aggregate that leaves as one counts as one packet, of up
    /// to 131071 bytes (more counts as that). Bytes count as the transport counts C.SMSS: QUIC's datagram without IP and
    /// UDP, TCP's payload.
    ///
    /// Keep the returned state until the packet is acknowledged, lost or given up.
    // Always: left to itself the compiler calls it, for 10 of 114 instructions.
    #[inline(always)]
    pub fn on_sent(&mut self, now: Instant, bytes: u32) -> PacketState {
        // More than the packet's state can hold would never leave C.inflight again.
        let bytes = u64::from(bytes).min(MAX_SIZE);
        // All three tests come before the packet is in flight.
        let idle = self.conn.is_idle();
        if idle && self.conn.sampler.is_app_limited() {
            self.restart_from_idle(now);
        }
        self.conn.inflight += bytes;
        self.pacer.on_sent(now, bytes);
        if self.conn.is_window_full() {
            self.conn.mark_cwnd_limited();
        }
        self.conn.sampler.on_sent(now, bytes, idle, self.conn.inflight)
    }

    /// Opens the batch of one ACK, or of one firing of the loss timer.
    #[inline]
    pub fn ack(&mut self, now: Instant) -> AckBatch<'_> {
        let prior_inflight = self.conn.inflight;
        if self.conn.is_window_full() {
            self.conn.mark_cwnd_limited();
        }
        let said = Said {
            now,
            prior_inflight,
            newest: None,
            newest_lost: None,
            newly_acked: 0,
            acked_late: 0,
            acked_before_recovery: 0,
            ce_packets: 0,
            rtt: None,
            inflight: None,
            timeout: false,
            has_more: false,
        };
        AckBatch { cc: self, said }
    }

    /// The sender has nothing to send although window and pacer would let it: the application, or
    /// the receiver's flow control, is the limit.
    ///
    /// CheckIfApplicationLimited() of draft-ietf-ccwg-bbr, "Detecting application-limited phases":
    /// call it when the application
    /// writes (before the new data is queued), at the start of ACK processing, and at the start of
    /// timer processing, each time that there is no unsent data. The part of the test that is the
    /// controller's (C.inflight below C.cwnd) is made here.
    pub fn on_app_limited(&mut self) {
        self.conn.note_nothing_to_send();
        if self.conn.inflight < self.conn.cwnd {
            self.conn.sampler.mark_app_limited(self.conn.inflight);
        }
    }

    /// The transport was stopped by the window: for transports that test it themselves instead of
    /// asking [`Self::can_send`].
    pub fn on_cwnd_limited(&mut self) {
        self.conn.mark_cwnd_limited();
    }

    /// The flow was idle for so long that its transport trusts no more than `cwnd` bytes of the window
    /// (RFC 5681 section 4.1, RFC 2861). `cubic` and `reno` obey, and keep three quarters of the window as
    /// threshold; the others pace, and have their own rules for a restart.
    pub fn on_idle(&mut self, now: Instant, cwnd: u64) {
        each!(&mut self.algo, a => a.on_idle(&mut self.conn, cwnd));
        self.update_pacer(now);
    }

    /// Every packet of the recent recovery episode that was marked lost has arrived after all. An
    /// episode that answered CE marks as well stays as it is: those were no error.
    pub fn on_spurious_loss(&mut self, now: Instant) {
        if self.conn.episode_has_marks() {
            return;
        }
        self.conn.end_recovery();
        each!(&mut self.algo, a => a.on_spurious_loss(&mut self.conn));
        self.update_pacer(now);
    }

    /// `packet` is out of the transport's sight, neither acknowledged nor lost: its keys were
    /// discarded, or it was a probe that is not repeated.
    pub fn on_discarded(&mut self, packet: &PacketState) {
        if !self.conn.sampler.is_of_this_path(packet) {
            return;
        }
        self.conn.inflight = self.conn.inflight.saturating_sub(packet.size());
    }

    /// The flow goes on from or to another address, and the path is held to be the same (RFC 9000
    /// section 9.4: only the port changed): the model stays, and nothing is in flight there yet. What
    /// the transport still says of packets from before is ignored.
    pub fn forget_flight(&mut self) {
        self.conn.begin_path();
    }

    /// The flow goes on over another path (RFC 9000 section 9.4): everything begins anew, with a seed that
    /// no other flow has; that of `config` is not used. What the transport still says of packets from
    /// before is ignored.
    pub fn on_migration(&mut self, now: Instant, seed: u64, config: &Config) {
        let mut fresh = Self::new(self.algorithm(), Config { seed, ..*config }, now);
        fresh.conn.sampler.begin_path_after(&self.conn.sampler);
        fresh.last_state = self.last_state;
        *self = fresh;
        self.update_pacer(now);
    }

    /// The receiver was asked to acknowledge more or less often; `None`: as RFC 9000 section 13.2 has it.
    pub fn on_ack_frequency(&mut self, ack_frequency: Option<AckFrequency>) {
        self.conn.set_ack_frequency(ack_frequency);
    }

    /// C.SMSS is `smss` bytes from now on.
    ///
    /// Before the first delivery the initial window is made anew from it (RFC 9002 section 7.2);
    /// later only what is counted in packets follows: rates and windows are bytes, and stay true.
    pub fn on_mtu_update(&mut self, now: Instant, smss: u32, config: &Config) {
        let conn = &mut self.conn;
        conn.smss = u64::from(smss.max(1));
        if conn.sampler.delivered == 0 {
            let before = conn.initial_cwnd;
            conn.initial_cwnd = config.initial_cwnd(conn.smss);
            if conn.cwnd == before {
                conn.cwnd = conn.initial_cwnd;
            }
        }
        conn.send_quantum = conn.send_quantum.min(MAX_QUANTUM).max(2 * conn.smss);
        each!(&mut self.algo, a => a.on_mtu_update(conn));
        self.update_pacer(now);
    }

    /// C.cwnd in bytes.
    pub fn cwnd(&self) -> u64 {
        self.conn.cwnd
    }

    /// C.inflight in bytes.
    pub fn inflight(&self) -> u64 {
        self.conn.inflight
    }

    /// C.pacing_rate.
    pub fn pacing_rate(&self) -> Option<Rate> {
        self.conn.pacing_rate()
    }

    /// C.send_quantum in bytes: the largest aggregate to hand to the network as one.
    pub fn send_quantum(&self) -> u64 {
        self.conn.send_quantum
    }

    /// C.InitialCwnd in bytes.
    pub fn initial_cwnd(&self) -> u64 {
        self.conn.initial_cwnd
    }

    /// The largest burst in bytes that this controller's own pacer lets pass.
    pub fn burst_bound(&self) -> u64 {
        self.pacer.burst_bound()
    }

    /// Every model variable, by the draft's name.
    pub fn snapshot(&self) -> Snapshot {
        each!(&self.algo, a => a.snapshot(&self.conn))
    }

    // Apart and cold, so that a send is short enough to be inlined.
    #[cold]
    fn restart_from_idle(&mut self, now: Instant) {
        each!(&mut self.algo, a => a.on_restart_from_idle(&mut self.conn, now));
        // Nothing is in flight: whatever the mark counted on was delivered, lost or discarded.
        self.conn.sampler.mark_app_limited(0);
        self.update_pacer(now);
    }

    #[inline]
    fn update_pacer(&mut self, now: Instant) {
        let Conn { sampler, pacing_rate, send_quantum, .. } = &self.conn;
        self.pacer.set_rate(now, *pacing_rate, *send_quantum, || sampler.min_rtt());
        if self.hook.is_some() {
            self.call_hook(now);
        }
    }

    /// Tells whoever asked for it that the state is another one.
    #[cold]
    fn call_hook(&mut self, now: Instant) {
        let snapshot = self.snapshot();
        let (from, to) = (self.last_state, snapshot.state);
        if let Some(hook) = self.hook.filter(|_| from != to) {
            self.last_state = to;
            (hook.call)(hook.flow, &StateChange { now, from, to, snapshot });
        }
    }

    #[cold]
    fn time_out(&mut self, now: Instant) {
        self.enter_recovery(now);
        each!(&mut self.algo, a => a.on_rto(&mut self.conn));
    }

    /// Opens a recovery episode at its first loss, before the algorithm hears of the loss; does
    /// nothing within an episode, so that what was saved at its start survives a second round.
    #[cold]
    fn enter_recovery(&mut self, now: Instant) {
        if self.conn.in_recovery() {
            return;
        }
        each!(&mut self.algo, a => a.on_enter_recovery(&mut self.conn));
        self.conn.begin_recovery(now);
    }

    /// An episode ends with the first packet acknowledged that left after it began (RFC 9002 section
    /// 7.3.2); a loss of the same ACK may begin the next one.
    #[cold]
    fn check_recovery_done(&mut self, newest: Option<&PacketState>) {
        if newest.is_some_and(|newest| self.conn.sent_after_recovery_start(newest)) {
            self.conn.end_recovery();
            each!(&mut self.algo, a => a.on_exit_recovery(&mut self.conn));
        }
    }

    #[inline(always)]
    fn sample(&mut self, said: &Said, newest: &PacketState) -> RateSample {
        let mut rs = self.conn.sample(said.now, newest, said.rtt);
        rs.newly_acked = said.newly_acked;
        rs.newly_acked_after_recovery = said.newly_acked - said.acked_before_recovery;
        rs.prior_inflight = said.prior_inflight;
        rs
    }

    /// Closes a batch in which more was said than which packets are acknowledged, or that may end a
    /// recovery.
    #[cold]
    fn close_with_more(&mut self, said: Said) {
        self.conn.leave_flight(said.newly_acked - said.acked_late);
        self.conn.sampler.count_delivered(said.newly_acked);
        if let Some(inflight) = said.inflight {
            self.conn.set_inflight(inflight);
        }
        if self.conn.in_recovery() {
            self.check_recovery_done(said.newest.as_ref());
        }
        if said.ce_packets > 0 {
            self.conn.count_marks(said.ce_packets);
        }
        if let Some(newest) = &said.newest {
            let mut rs = self.sample(&said, newest);
            if self.answer_congestion(&said, newest, &rs) {
                // All of it was sent before the episode that this ACK has begun.
                rs.newly_acked_after_recovery = 0;
            }
            each!(&mut self.algo, a => a.on_ack(&mut self.conn, &rs));
        } else if let Some(sent) = said.newest_lost {
            self.on_congestion(said.now, sent, true, None);
        }
        if said.timeout {
            self.time_out(said.now);
        }
        self.update_pacer(said.now);
    }

    /// The losses and marks of an ACK, if there are any; whether they began an episode.
    fn answer_congestion(&mut self, said: &Said, newest: &PacketState, rs: &RateSample) -> bool {
        // RFC 9002 appendix B.7 has marks be those of the newest packet of the ACK.
        let marked = (said.ce_packets > 0).then_some(newest.order());
        let sent = match (said.newest_lost, marked) {
            (Some(lost), Some(marked)) => lost.latest(marked),
            (Some(sent), None) | (None, Some(sent)) => sent,
            (None, None) => return false,
        };
        let smss = self.conn.smss;
        let marks = marked.map(|_| Marks {
            sample: rs,
            newly_marked: said.ce_packets.saturating_mul(smss),
            marked: self.conn.sampler.marks_since(newest).saturating_mul(smss),
        });
        self.on_congestion(said.now, sent, said.newest_lost.is_some(), marks)
    }

    /// All losses and marks of one ACK or timer; `sent` is the newest of the packets. Returns whether
    /// it began an episode.
    #[cold]
    fn on_congestion(
        &mut self,
        now: Instant,
        sent: SendOrder,
        has_losses: bool,
        marks: Option<Marks<'_>>,
    ) -> bool {
        let new_episode = !self.conn.in_recovery() && self.conn.is_in_recovery_order(sent);
        if new_episode {
            self.enter_recovery(now);
        }
        if marks.is_some() {
            self.conn.note_marks_in_episode();
        }
        let congestion = Congestion { now, new_episode, has_losses, marks };
        each!(&mut self.algo, a => a.on_congestion(&mut self.conn, &congestion));
        new_episode
    }
}

impl fmt::Debug for Controller {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Controller").field("snapshot", &self.snapshot()).finish_non_exhaustive()
    }
}

/// One ACK, or one firing of the loss timer: say everything that it said, in any order, then
/// [`finish`](Self::finish). The order in which the draft wants it is made here.
#[must_use = "what an ACK said takes effect when the batch is finished"]
pub struct AckBatch<'a> {
    cc: &'a mut Controller,
    said: Said,
}

/// All that was said in a batch.
#[derive(Clone, Copy)]
struct Said {
    now: Instant,
    prior_inflight: u64,
    newest: Option<PacketState>,
    /// The newest of the packets that were lost.
    newest_lost: Option<SendOrder>,
    newly_acked: u64,
    /// The part of `newly_acked` that was marked lost before, and was not in flight.
    acked_late: u64,
    /// The part of `newly_acked` that was sent before the newest recovery episode began.
    acked_before_recovery: u64,
    ce_packets: u64,
    rtt: Option<RttSample>,
    inflight: Option<u64>,
    timeout: bool,
    /// More was said than which packets are acknowledged.
    has_more: bool,
}

impl AckBatch<'_> {
    /// `packet` is newly acknowledged.
    #[inline]
    pub fn acked(&mut self, packet: &PacketState) {
        if self.cc.conn.sampler.is_of_this_path(packet) {
            self.count_acked(packet);
        }
    }

    /// `total` bytes are newly acknowledged; `newest` is the packet among them that was sent last. For
    /// transports that keep no state of the others. Debug builds assert that `newest` is among them.
    ///
    /// While an episode of recovery lasts, `newest` alone is taken to be sent after it began: that is what
    /// ends it, and RFC 9002 section 7.3.2 grants no growth for the others.
    pub fn acked_bytes(&mut self, newest: &PacketState, total: u64) {
        debug_assert!(total >= newest.size(), "the newest packet is more than all of them");
        if self.cc.conn.sampler.is_of_this_path(newest) {
            let others = total.saturating_sub(newest.size());
            // No flight is larger, and so no counter of 64 bits comes to its end.
            let others = others.min(MAX_TX_IN_FLIGHT);
            self.said.newly_acked = self.said.newly_acked.saturating_add(others);
            if self.cc.conn.in_recovery() || !self.cc.conn.sent_after_recovery_start(newest) {
                self.said.acked_before_recovery =
                    self.said.acked_before_recovery.saturating_add(others);
            }
            self.count_acked(newest);
        }
    }

    /// `packet` was marked lost, and is now acknowledged after all: it counts as delivered, and
    /// takes nothing out of flight a second time.
    #[inline]
    pub fn acked_after_loss(&mut self, packet: &PacketState) {
        if self.cc.conn.sampler.is_of_this_path(packet) {
            self.said.acked_late += packet.size();
            self.count_acked(packet);
        }
    }

    #[inline]
    fn count_acked(&mut self, packet: &PacketState) {
        if self.said.newest.as_ref().is_none_or(|newest| packet.is_newer_than(newest)) {
            self.said.newest = Some(*packet);
        }
        self.said.newly_acked += packet.size();
        if !self.cc.conn.sent_after_recovery_start(packet) {
            self.said.acked_before_recovery += packet.size();
        }
    }

    /// `packet` is newly marked lost. Report losses in the order in which the packets were sent.
    pub fn lost(&mut self, packet: &PacketState) {
        let conn = &mut self.cc.conn;
        if !conn.sampler.is_of_this_path(packet) {
            return;
        }
        conn.leave_flight(packet.size());
        conn.count_lost(packet.size());
        each!(&mut self.cc.algo, a => a.on_packet_lost(conn, packet));
        let sent = packet.order();
        self.said.has_more = true;
        self.said.newest_lost =
            Some(self.said.newest_lost.map_or(sent, |newest| newest.latest(sent)));
    }

    /// A retransmission timeout that declares everything lost; in QUIC, persistent congestion
    /// (RFC 9002 section 7.6). Report the lost packets in the same batch; the order is no matter.
    #[inline]
    pub fn timeout(&mut self) {
        self.said.timeout = true;
        self.said.has_more = true;
    }

    /// The transport's own round-trip sample for this ACK, where it knows better than the time
    /// since the newest acknowledged packet was sent (TCP timestamps, for one), or knows that this
    /// time is none. It says how exact the sample is:
    ///
    /// ```compile_fail
    /// # use fullpipe_cc::{Algorithm, Config, Controller, Duration, Instant};
    /// # let mut cc = Controller::new(Algorithm::Bbr3, Config::new(17), Instant::default());
    /// cc.ack(Instant::default()).rtt(Duration::from_millis(40));
    /// ```
    #[inline]
    pub fn rtt(&mut self, rtt: RttSample) {
        self.said.rtt = Some(rtt);
    }

    /// `packets` more packets were marked with CE (RFC 3168).
    #[inline]
    pub fn ce(&mut self, packets: u64) {
        self.said.ce_packets = self.said.ce_packets.saturating_add(packets);
        self.said.has_more |= packets > 0;
    }

    /// Sets the bytes in flight to the transport's own count after this ACK and its losses: for
    /// transports that drop packets from their count without saying so.
    #[inline]
    pub fn resync_inflight(&mut self, bytes: u64) {
        self.said.inflight = Some(bytes);
        self.said.has_more = true;
    }

    /// Everything is said: updates the model, the state and the control parameters. Dropping the
    /// batch does the same.
    #[inline]
    pub fn finish(self) {
        core::mem::ManuallyDrop::new(self).close();
    }

    // Inlined into the transport's handling of an ACK, so that the batch need not exist in memory;
    // what is rare is apart.
    #[inline(always)]
    fn close(&mut self) {
        let (cc, said) = (&mut *self.cc, &self.said);
        if said.has_more || cc.conn.in_recovery() {
            return cc.close_with_more(*said);
        }
        cc.conn.leave_flight(said.newly_acked - said.acked_late);
        cc.conn.sampler.count_delivered(said.newly_acked);
        if let Some(newest) = &said.newest {
            let rs = cc.sample(said, newest);
            each!(&mut cc.algo, a => a.on_ack(&mut cc.conn, &rs));
        }
        cc.update_pacer(said.now);
    }
}

impl Drop for AckBatch<'_> {
    fn drop(&mut self) {
        self.close();
    }
}
