//! The interface of an algorithm. The controller calls these methods in the draft's order; each may
//! change the control parameters in [`Conn`]: cwnd, pacing rate, send quantum.
//!
//! The algorithms of this crate are written against it, and so are those of others: see
//! `CustomAlgorithm` (feature `custom`).

use crate::conn::Conn;
use crate::sampler::{PacketState, RateSample};
use crate::snapshot::{Snapshot, State};
use crate::units::Instant;

/// A congestion that the transport detected, whatever the number of packets.
#[non_exhaustive]
pub struct Congestion<'a> {
    /// The time of its detection.
    pub now: Instant,
    /// True if it opened a recovery episode: loss-based algorithms react once an episode.
    pub new_episode: bool,
    /// True if packets were lost.
    pub has_losses: bool,
    /// The CE marks, if there were any.
    pub marks: Option<Marks<'a>>,
}

/// The CE marks that an ACK brought. Volumes are bytes, each mark one SMSS.
#[non_exhaustive]
pub struct Marks<'a> {
    /// The sample of that ACK.
    pub sample: &'a RateSample,
    /// Marked by this ACK.
    pub newly_marked: u64,
    /// Marked over the sample: since the newest acknowledged packet was sent.
    pub marked: u64,
}

/// A congestion control algorithm.
///
/// A method may do anything to the control parameters of [`Conn`]. It must leave a window of at
/// least one SMSS, a quantum of at least one SMSS, and, if it paces, a rate above 0. It must not
/// allocate or panic.
pub trait CongestionControl {
    /// A packet is about to leave and nothing is in flight, whatever the limit was: the
    /// application, or the receiver's flow control.
    fn on_pause(&mut self, _conn: &mut Conn, _now: Instant) {}
    /// A packet is about to leave, nothing is in flight, and the application was the limit. Comes
    /// after [`Self::on_pause`].
    fn on_restart_from_idle(&mut self, _conn: &mut Conn, _now: Instant) {}
    /// One packet was marked lost; C.lost counts it, C.inflight no longer does.
    fn on_packet_lost(&mut self, _conn: &Conn, _packet: &PacketState) {}
    /// A recovery episode begins; its first loss has not been handled.
    fn on_enter_recovery(&mut self, _conn: &mut Conn) {}
    /// A packet sent within the episode was acknowledged.
    fn on_exit_recovery(&mut self, _conn: &mut Conn) {}
    /// All losses and marks of one ACK or timer are counted.
    fn on_congestion(&mut self, _conn: &mut Conn, _congestion: &Congestion<'_>) {}
    /// An ACK that acknowledged new data.
    fn on_ack(&mut self, _conn: &mut Conn, _rs: &RateSample) {}
    /// Retransmission timeout, or persistent congestion. The losses were handled before.
    fn on_rto(&mut self, _conn: &mut Conn) {}
    /// The transport lowers the window to `cwnd` after idleness.
    fn on_idle(&mut self, _conn: &mut Conn, _cwnd: u64) {}
    /// The last episode's losses were none.
    fn on_spurious_loss(&mut self, _conn: &mut Conn) {}
    /// Safe Retreat of Careful Resume begins (RFC 9959): what was sent beyond the usual met
    /// congestion, which was handled before. That response stands, also where the losses turn out
    /// to be none.
    fn on_safe_retreat(&mut self, _conn: &mut Conn) {}
    /// Safe Retreat is over, and ssthresh becomes half of what was delivered since the jump began.
    fn on_retreated(&mut self, _conn: &mut Conn, _half_of_pipe: u64) {}
    /// C.SMSS changed. One that wraps another tells it: a BBR keeps what it made by the old one.
    fn on_mtu_update(&mut self, _conn: &mut Conn) {}
    /// True if CE marks have an answer; without one the transport does not ask for them.
    fn wants_ecn(&self) -> bool {
        true
    }
    /// True if [`crate::Prr`] governs recoveries in a transport that has it.
    fn wants_prr(&self) -> bool {
        false
    }
    /// Windows that the transport's send buffer should hold. Two: one in flight, and one for what
    /// is written meanwhile.
    fn send_buffer_windows(&self) -> u64 {
        2
    }
    /// An application would send more than it does, and asks for a probe of the bandwidth; or the
    /// reason why there is none now. A window that grows when it is full needs nothing but the
    /// data.
    fn request_probe(&mut self, conn: &Conn, _now: Instant) -> Result<(), NotNow> {
        if conn.in_recovery() { Err(NotNow::Congestion) } else { Ok(()) }
    }
    /// The state of [`Self::snapshot`].
    fn state(&self, conn: &Conn) -> State {
        self.snapshot(conn).state
    }
    /// All that the algorithm believes; [`Snapshot::of`] has what all share.
    fn snapshot(&self, conn: &Conn) -> Snapshot;
}

/// Reason why the bandwidth is not probed now.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
#[cfg_attr(feature = "serde", derive(serde::Serialize), serde(rename_all = "snake_case"))]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum NotNow {
    /// No round trip is measured yet.
    NoRoundTrip,
    /// The queue of an earlier probe, or of Startup, is not empty yet.
    Draining,
    /// BBR measures the round trip of the empty path.
    ProbeRtt,
    /// A loss-based algorithm recovers from a loss or a mark.
    Congestion,
    /// The newest probe was too short a time ago.
    TooSoon,
    /// The target is above [`Config::max_pacing_rate`](crate::Config::max_pacing_rate), or the rate
    /// is fixed.
    Limit,
}

impl NotNow {
    /// The reason in one word, as in logs and other languages.
    pub const fn name(self) -> &'static str {
        match self {
            Self::NoRoundTrip => "no_round_trip",
            Self::Draining => "draining",
            Self::ProbeRtt => "probe_rtt",
            Self::Congestion => "congestion",
            Self::TooSoon => "too_soon",
            Self::Limit => "limit",
        }
    }
}
