//! The one door: what a transport calls, in the order in which it happens.

use core::fmt;

use crate::algo::{CongestionControl, NotNow};
use crate::algorithm::Algorithm;
use crate::config::{self, AckFrequency, Config};
use crate::conn::{Conn, MAX_QUANTUM};
use crate::pacer::{BurstLimits, Pacer};
#[cfg(feature = "careful-resume")]
use crate::resume::Resume;
use crate::sampler::{MAX_SIZE, PacketState};
use crate::snapshot::{Metrics, Snapshot, State};
use crate::units::{Instant, Rate};

/// The answer to a transport that wants to send a packet now.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize), serde(rename_all = "snake_case"))]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
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

mod bandwidth;
mod batch;
mod built_in;
mod resuming;

pub use bandwidth::BandwidthProbe;
pub use batch::AckBatch;
#[cfg(feature = "custom")]
pub use built_in::built_in;
use built_in::{Algo, each, each_of};

/// Congestion control of one flow on one path.
///
/// ```
/// use fullpipe_cc::{Algorithm, Config, Controller, Duration, Instant, SendDecision};
///
/// let mut now = Instant::from_nanos(1_000);
/// let seed = 17; // another one for each flow
/// let mut cc = Controller::new(Algorithm::BBR3, Config::new(seed), now);
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
/// A transport's mistakes do not compile, or fail a debug assertion. While a batch is open, nothing
/// else can be called:
///
/// ```compile_fail
/// # use fullpipe_cc::{Algorithm, Config, Controller, Instant};
/// # let now = Instant::default();
/// # let mut cc = Controller::new(Algorithm::BBR3, Config::new(17), now);
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
/// # let mut cc = Controller::new(Algorithm::BBR3, Config::new(17), now);
/// cc.on_sent(now, 1200);
/// ```
///
/// A timeout is a part of a batch, as its losses are, so it comes neither before nor after them:
///
/// ```compile_fail
/// # use fullpipe_cc::{Algorithm, Config, Controller, Instant};
/// # let now = Instant::default();
/// # let mut cc = Controller::new(Algorithm::BBR3, Config::new(17), now);
/// cc.on_rto(now);
/// ```
///
/// A migration needs a new seed, and a rate its unit:
///
/// ```compile_fail
/// # use fullpipe_cc::{Algorithm, Config, Controller, Instant};
/// # let now = Instant::default();
/// # let mut cc = Controller::new(Algorithm::BBR3, Config::new(17), now);
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
    /// As it was asked for.
    algorithm: Algorithm,
    #[cfg(feature = "careful-resume")]
    resume: Option<Resume>,
    /// Nobody may use the saved parameters again.
    #[cfg(feature = "careful-resume")]
    has_saved_failed: bool,
    /// The most that was delivered in the round trip of a packet, in bytes.
    #[cfg(feature = "careful-resume")]
    most_in_round_trip: u64,
}

impl Controller {
    /// A controller for a flow that starts `now`.
    pub fn new(algorithm: Algorithm, config: Config, now: Instant) -> Self {
        let mut conn = Conn::new(&config, now);
        let algo = Algo::new(algorithm, &mut conn, now, &config);
        let Conn { pacing_rate, send_quantum, .. } = conn;
        let pacer = Pacer::new(now, pacing_rate, send_quantum, burst_limits(&conn));
        #[cfg(feature = "careful-resume")]
        let resume = config.resume.and_then(|saved| {
            Resume::new(saved, config.max_jump, now + config.resume_within, &conn)
        });
        Self {
            conn,
            pacer,
            algo,
            algorithm,
            #[cfg(feature = "careful-resume")]
            resume,
            #[cfg(feature = "careful-resume")]
            has_saved_failed: config.resume.is_some() && resume.is_none(),
            #[cfg(feature = "careful-resume")]
            most_in_round_trip: 0,
        }
    }

    /// The algorithm that was chosen, with its options.
    pub fn algorithm(&self) -> Algorithm {
        self.algorithm
    }

    /// Tells if a full packet may leave now.
    // Always: left to itself the compiler calls it, for 12 of 131 instructions.
    #[inline(always)]
    pub fn can_send(&mut self, now: Instant) -> SendDecision {
        if self.conn.is_window_full() {
            self.conn.mark_cwnd_limited();
            self.pacer.expect_nothing();
            return SendDecision::CwndLimited;
        }
        self.pacer.note_arrival(now, || burst_limits(&self.conn));
        let Some(credit) = self.pacer.available(now, self.conn.smss) else {
            let at = self.pacer.ready_at(self.conn.smss);
            self.pacer.expect(at);
            return SendDecision::At(at);
        };
        let room = self.conn.cwnd - self.conn.inflight;
        let quantum = credit.min(self.conn.send_quantum).min(room).max(self.conn.smss);
        SendDecision::Now { quantum }
    }

    /// The time at which the pacer allows `bytes` to leave at once: for a transport that waits
    /// until it can fill an aggregate instead of sending packet by packet. Never later than `now`
    /// if they may leave now; the time for [`Self::burst_bound`] if they are more than that.
    pub fn ready_at(&mut self, now: Instant, bytes: u64) -> Instant {
        self.pacer.available(now, bytes);
        self.pacer.ready_at(bytes).max(now)
    }

    /// A timer that was to fire at `due`, for a packet that the pacer held back, fired `now`.
    ///
    /// The pacer gives credit for the lateness of this host. [`Self::can_send`] measures it by
    /// itself; this is for transports that ask [`Self::ready_at`] instead and keep the time.
    pub fn on_pacing_timer(&mut self, now: Instant, due: Instant) {
        self.pacer.expect(due);
        self.pacer.note_arrival(now, || burst_limits(&self.conn));
    }

    /// True if the algorithm answers CE marks. Where it does not, the transport must not mark its
    /// packets as ECN-capable: a queue would mark instead of dropping, to no effect (RFC 3168
    /// section 5).
    pub fn wants_ecn(&self) -> bool {
        each!(&self.algo, a => a.wants_ecn())
    }

    /// True if [`crate::Prr`] (RFC 9937) governs the recoveries of TCP: for `cubic` and `reno`,
    /// whose window is halved at once, and not for those that have a model of the path.
    pub fn wants_prr(&self) -> bool {
        each!(&self.algo, a => a.wants_prr())
    }

    /// The size of the transport's send buffer, in windows, with which it never runs empty: Linux's
    /// `sndbuf_expand`.
    pub fn send_buffer_windows(&self) -> u64 {
        each!(&self.algo, a => a.send_buffer_windows())
    }

    /// A packet of `bytes` left `now`; an aggregate that leaves as one counts as one packet, of up
    /// to 131071 bytes (more counts as that). Bytes count as the transport counts C.SMSS: QUIC's
    /// datagram without IP and UDP, TCP's payload.
    ///
    /// Keep the returned state until the packet is acknowledged, lost or given up.
    // Always: left to itself the compiler calls it, for 10 of 114 instructions.
    #[inline(always)]
    pub fn on_sent(&mut self, now: Instant, bytes: u32) -> PacketState {
        // More than the packet's state can hold would never leave C.inflight again.
        let bytes = u64::from(bytes).min(MAX_SIZE);
        // All three tests come before the packet is in flight. HandleRestartFromIdle() wants
        // C.app_limited, too: a flow that the receiver's window stopped until nothing was in flight
        // had data all the time, and goes on in its state. Its samples begin anew, so that the
        // pause is in none of them.
        if self.conn.is_idle() {
            self.go_on_after_pause(now);
            self.conn.sampler.begin_flight(now);
        }
        self.conn.inflight += bytes;
        self.pacer.on_sent(now, bytes);
        if self.conn.is_window_full() {
            self.conn.mark_cwnd_limited();
        }
        self.conn.sampler.on_sent(now, bytes, self.conn.inflight)
    }

    /// Opens the batch of one ACK, or of one firing of the loss timer.
    #[inline]
    pub fn ack(&mut self, now: Instant) -> AckBatch<'_> {
        let prior_inflight = self.conn.inflight;
        if self.conn.is_window_full() {
            self.conn.mark_cwnd_limited();
        }
        AckBatch::new(self, now, prior_inflight)
    }

    /// The application is the limit: window and pacer would let data leave, and there is none.
    ///
    /// CheckIfApplicationLimited() of draft-ietf-ccwg-bbr, "Detecting application-limited phases":
    /// call it when the application writes (before the new data is queued), at the start of ACK
    /// processing, at the start of timer processing, and when sending ends, each time that nothing
    /// is unsent and nothing waits to be sent again. The part of the test that is the controller's
    /// (C.inflight below C.cwnd) is made here.
    ///
    /// Do **not** call it for data that exists and may not leave, whatever holds it back: the
    /// receiver's window for the connection or a stream, a full send buffer before which the
    /// application waits with more, the limit against amplification, keys that are not there yet.
    /// Then call nothing. The draft treats such a limit as a bottleneck of the network
    /// ("Considerations Related to Receiver Flow Control Limits"): its samples are the path's. With
    /// the mark they would not count, and Startup would last, with the queue that such a window
    /// allows, as long as the limit.
    pub fn on_app_limited(&mut self) {
        self.conn.note_nothing_to_send();
        self.pacer.expect_nothing();
        if self.conn.inflight < self.conn.cwnd {
            self.conn.sampler.mark_app_limited(self.conn.inflight);
        }
    }

    /// The transport was stopped by the window: for transports that test it themselves instead of
    /// asking [`Self::can_send`].
    pub fn on_cwnd_limited(&mut self) {
        self.conn.mark_cwnd_limited();
    }

    /// The flow was idle for so long that its transport trusts no more than `cwnd` bytes of the
    /// window (RFC 5681 section 4.1, RFC 2861). `cubic` and `reno` obey, and keep three quarters of
    /// the window as threshold; the others pace, and have their own rules for a restart.
    pub fn on_idle(&mut self, now: Instant, cwnd: u64) {
        self.lift_jump();
        each!(&mut self.algo, a => a.on_idle(&mut self.conn, cwnd));
        self.resume_after_pause(now);
        self.update_pacer(now);
    }

    /// Every packet of the recent recovery episode that was marked lost has arrived after all. An
    /// episode that answered CE marks as well stays as it is: those were no error.
    pub fn on_spurious_loss(&mut self, now: Instant) {
        if self.conn.episode_has_marks() {
            return;
        }
        self.lift_jump();
        self.conn.end_recovery(false);
        each!(&mut self.algo, a => a.on_spurious_loss(&mut self.conn));
        self.resume_after_spurious_loss(now);
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
    /// section 9.4: only the port changed): the model stays, and nothing is in flight there yet.
    /// Later reports of the transport on packets from before are ignored.
    pub fn forget_flight(&mut self) {
        self.lift_jump();
        self.conn.begin_path();
        self.resume_without_flight();
    }

    /// The flow goes on over another path (RFC 9000 section 9.4): everything begins anew, with a
    /// seed that no other flow has. `config`'s seed and `handshake_rtt` are not used: the handshake
    /// measured the old path. Later reports of the transport on packets from before are ignored.
    pub fn on_migration(&mut self, now: Instant, seed: u64, config: &Config) {
        let config = Config { seed, handshake_rtt: None, ..*config };
        self.begin_anew(self.algorithm, now, &config);
    }

    /// Another algorithm takes the connection over, in the middle of it (Linux: the socket option
    /// TCP_CONGESTION). It begins as on a new connection, and with `config`'s `handshake_rtt` if
    /// that has one; nothing of the old model fits. What is under way is not counted as in flight,
    /// and what the transport still says of it is ignored.
    pub fn set_algorithm(&mut self, algorithm: Algorithm, now: Instant, config: &Config) {
        self.begin_anew(algorithm, now, config);
    }

    fn begin_anew(&mut self, algorithm: Algorithm, now: Instant, config: &Config) {
        let mut fresh = Self::new(algorithm, *config, now);
        fresh.conn.sampler.begin_path_after(&self.conn.sampler);
        fresh.stop_resuming_after(self);
        *self = fresh;
        self.update_pacer(now);
    }

    /// The receiver was asked to acknowledge more or less often; `None`: as RFC 9000 section 13.2
    /// has it.
    pub fn on_ack_frequency(&mut self, ack_frequency: Option<AckFrequency>) {
        self.conn.set_ack_frequency(ack_frequency);
    }

    /// C.SMSS is `smss` bytes from now on.
    ///
    /// Before the first delivery the initial window is made anew from it (RFC 9002 section 7.2),
    /// unless `initial_cwnd` says what it is, as [`Config::initial_cwnd`] did; later only what is
    /// counted in packets follows: rates and windows are bytes, and stay true.
    pub fn on_mtu_update(&mut self, now: Instant, smss: u32, initial_cwnd: Option<u64>) {
        self.lift_jump();
        let conn = &mut self.conn;
        conn.smss = u64::from(smss.max(1));
        if conn.sampler.delivered == 0 {
            let before = conn.initial_cwnd;
            conn.initial_cwnd = config::initial_cwnd(initial_cwnd, conn.smss);
            if conn.cwnd == before {
                conn.cwnd = conn.initial_cwnd;
            }
        }
        conn.send_quantum = conn.send_quantum.min(MAX_QUANTUM).max(2 * conn.smss);
        each!(&mut self.algo, a => a.on_mtu_update(conn));
        self.lay_jump(now);
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

    pub(crate) fn conn(&self) -> &Conn {
        &self.conn
    }

    #[cold]
    pub(crate) fn request_probe(&mut self, now: Instant) -> Result<(), NotNow> {
        each!(&mut self.algo, a => a.request_probe(&self.conn, now))
    }

    /// The algorithm's state, for logs like qlog: another one than before a call is a change. A
    /// call that passes through several shows the last one.
    pub fn state(&self) -> State {
        each!(&self.algo, a => a.state(&self.conn))
    }

    /// The figures that a program may depend on.
    pub fn metrics(&self) -> Metrics {
        let min_rtt = self.conn.min_rtt();
        Metrics { min_rtt, ..Metrics::of(&self.snapshot()) }
    }

    /// Every model variable, by the draft's name; see [`Snapshot`] for how long it has that name.
    pub fn snapshot(&self) -> Snapshot {
        each!(&self.algo, a => a.snapshot(&self.conn))
    }

    // Apart and cold, so that a send is short enough to be inlined.
    #[cold]
    fn go_on_after_pause(&mut self, now: Instant) {
        each!(&mut self.algo, a => a.on_pause(&mut self.conn, now));
        if self.conn.sampler.is_app_limited() {
            self.restart_from_idle(now);
        }
    }

    fn restart_from_idle(&mut self, now: Instant) {
        self.lift_jump();
        each!(&mut self.algo, a => a.on_restart_from_idle(&mut self.conn, now));
        // Nothing is in flight: whatever the mark counted on was delivered, lost or discarded.
        self.conn.sampler.mark_app_limited(0);
        self.resume_after_pause(now);
        self.update_pacer(now);
    }

    #[inline]
    fn update_pacer(&mut self, now: Instant) {
        let conn = &self.conn;
        self.pacer.set_rate(now, conn.pacing_rate, conn.send_quantum, burst_limits(conn));
    }
}

#[inline]
fn burst_limits(conn: &Conn) -> BurstLimits {
    BurstLimits {
        min_rtt: conn.sampler.min_rtt(),
        smss: conn.smss,
        granularity: conn.pacing_granularity,
    }
}

impl fmt::Debug for Controller {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Controller").field("snapshot", &self.snapshot()).finish_non_exhaustive()
    }
}
