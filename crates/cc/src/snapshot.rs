//! Everything that an algorithm believes, in one struct: logs, plots, qlog and tests read this and
//! nothing else.

use crate::conn::Conn;
use crate::units::{Duration, Gain, Rate};

/// The state of an algorithm. BBR's states carry the draft's names.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum State {
    /// BBR: doubling the rate each round to find the bandwidth.
    Startup,
    /// BBR: emptying the queue that Startup built.
    Drain,
    /// BBR: sending a little slower than the path delivers, to leave room.
    ProbeBwDown,
    /// BBR: sending at the delivery rate.
    ProbeBwCruise,
    /// BBR: one round at the full rate before the probe.
    ProbeBwRefill,
    /// BBR: sending faster than the path delivered so far, to see whether it can.
    ProbeBwUp,
    /// BBRv1: a cycle of eight phases, faster, slower, and six times level; the gain tells which.
    ProbeBw,
    /// BBR: half a BDP in flight (BBRv1: four packets), to see the path without a queue.
    ProbeRtt,
    /// CUBIC, Reno and Prague: doubling the window each round.
    SlowStart,
    /// CUBIC, Reno and Prague: the RTT rose in slow start, which goes on at a quarter of its growth
    /// to see whether that was a queue (RFC 9406).
    ConservativeSlowStart,
    /// CUBIC, Reno and Prague: the window has a slow-start threshold behind it.
    CongestionAvoidance,
    /// CUBIC, Reno and Prague: the round after a congestion event.
    Recovery,
    /// A fixed rate, which has no states.
    Fixed,
}

impl State {
    /// The name in the draft's spelling.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Startup => "Startup",
            Self::Drain => "Drain",
            Self::ProbeBwDown => "ProbeBW_DOWN",
            Self::ProbeBwCruise => "ProbeBW_CRUISE",
            Self::ProbeBwRefill => "ProbeBW_REFILL",
            Self::ProbeBwUp => "ProbeBW_UP",
            Self::ProbeBw => "ProbeBW",
            Self::ProbeRtt => "ProbeRTT",
            Self::SlowStart => "SlowStart",
            Self::ConservativeSlowStart => "ConservativeSlowStart",
            Self::CongestionAvoidance => "CongestionAvoidance",
            Self::Recovery => "Recovery",
            Self::Fixed => "Fixed",
        }
    }
}

/// Figures of one flow at one moment that every algorithm has in some way and that keep their names
/// and meanings: for a transport's statistics and an application's decisions. Volumes are bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub struct Metrics {
    /// The algorithm's state.
    pub state: State,
    /// The window.
    pub cwnd: u64,
    /// What is in flight.
    pub inflight: u64,
    /// The rate at which packets leave; `None` when the algorithm leaves pacing to the transport.
    pub pacing_rate: Option<Rate>,
    /// The rate that the model of the path has; `None` for an algorithm without one, and before
    /// there is one. [`crate::Controller::send_rate_estimate`] has a rate for every algorithm.
    pub bandwidth: Option<Rate>,
    /// The slow-start threshold of an algorithm that has one.
    pub ssthresh: Option<u64>,
    /// The shortest round trip of the connection.
    pub min_rtt: Option<Duration>,
    /// The smoothed round trip.
    pub srtt: Option<Duration>,
    /// Delivered so far.
    pub delivered: u64,
    /// Marked lost so far.
    pub lost: u64,
}

impl Metrics {
    /// All but the shortest round trip.
    pub(crate) fn of(snapshot: &Snapshot) -> Self {
        Self {
            state: snapshot.state,
            cwnd: snapshot.cwnd,
            inflight: snapshot.inflight,
            pacing_rate: snapshot.pacing_rate,
            bandwidth: snapshot.bbr.map(|bbr| bbr.bw),
            ssthresh: snapshot.ssthresh,
            min_rtt: None,
            srtt: snapshot.srtt,
            delivered: snapshot.delivered,
            lost: snapshot.lost,
        }
    }
}

/// The model of one flow at one moment. Its variables are those of a draft, and any minor version
/// may add, rename or remove some: it is for logs, plots and tests. A program that is to build with
/// later versions reads [`Metrics`]. Volumes are bytes. What an algorithm does not have, and
/// what the draft calls infinite, is `None`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub struct Snapshot {
    /// The algorithm's name.
    pub algorithm: &'static str,
    /// The algorithm's state.
    pub state: State,
    /// C.cwnd in bytes.
    pub cwnd: u64,
    /// C.inflight in bytes.
    pub inflight: u64,
    /// C.pacing_rate; `None` when the algorithm leaves pacing to the transport.
    pub pacing_rate: Option<Rate>,
    /// C.send_quantum in bytes.
    pub send_quantum: u64,
    /// C.delivered: bytes delivered so far.
    pub delivered: u64,
    /// C.lost: bytes marked lost so far. What was marked with CE is not in it.
    pub lost: u64,
    /// True if C.cwnd was fully used at any point of the last round trip.
    pub is_cwnd_limited: bool,
    /// True if C.app_limited is set.
    pub app_limited: bool,
    /// The slow-start threshold in bytes, for CUBIC, Reno and Prague.
    pub ssthresh: Option<u64>,
    /// C.srtt, the smoothed round-trip time of RFC 9002.
    pub srtt: Option<Duration>,
    /// The newest round-trip sample.
    pub latest_rtt: Option<Duration>,
    /// The smoothed share of data that was marked with CE (Prague), from the first mark on; `None`
    /// for others.
    pub ecn_alpha: Option<Gain>,
    /// The BBR model; `None` for algorithms without one.
    pub bbr: Option<BbrSnapshot>,
}

impl Snapshot {
    /// The part that every algorithm shares.
    pub fn of(conn: &Conn, algorithm: &'static str, state: State) -> Self {
        Self {
            algorithm,
            state,
            cwnd: conn.cwnd,
            inflight: conn.inflight,
            pacing_rate: conn.pacing_rate(),
            send_quantum: conn.send_quantum,
            delivered: conn.sampler.delivered,
            lost: conn.sampler.lost(),
            is_cwnd_limited: conn.is_cwnd_limited(),
            app_limited: conn.sampler.is_app_limited(),
            ssthresh: None,
            srtt: conn.srtt(),
            latest_rtt: conn.latest_rtt(),
            ecn_alpha: None,
            bbr: None,
        }
    }

    /// The rate that an application may plan with, as [`crate::Controller::send_rate_estimate`]
    /// says, but without [`Config::max_pacing_rate`](crate::Config::max_pacing_rate).
    pub fn send_rate_estimate(&self) -> Option<Rate> {
        if self.state == State::Fixed {
            return self.pacing_rate;
        }
        // A round trip can be known from the handshake, before anything was delivered.
        let srtt = self.srtt.filter(|_| self.delivered > 0)?;
        // The jump of Careful Resume is no window that the path is known to carry.
        let cwnd = self.cwnd.min(self.delivered.saturating_mul(2));
        let rate = match (&self.bbr, self.state) {
            (Some(bbr), _) => bbr.bw,
            // The window doubles in each round trip, and half of it is known to have arrived.
            (None, State::SlowStart | State::ConservativeSlowStart) => {
                Rate::from_volume(cwnd / 2, srtt)
            }
            (None, _) => Rate::from_volume(cwnd, srtt),
        };
        (rate > Rate::ZERO).then_some(rate)
    }
}

/// The model variables of BBR, by the draft's names without the prefix; as unstable as [`Snapshot`].
///
/// BBRv1 has no bounds on rate and inflight, and no account of its probes: there the bounds are
/// `None`, `prev_probe_*` false, `bw_probe_wait`, `rounds_since_probe_up`, `bw_probe_up_rounds`,
/// `bw_latest` and `inflight_latest` zero, `drain_start_round` zero, `probe_rtt_min_delay` and all
/// that is kept for an undo `None`, and `full_bw_now` is `full_bw_reached`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub struct BbrSnapshot {
    /// Windowed maximum of the delivery-rate samples.
    pub max_bw: Rate,
    /// min(max_bw, bw_shortterm); in BBRv1 `max_bw`, or the rate of a policer while it sees one.
    pub bw: Rate,
    /// Short-term bound on the rate.
    pub bw_shortterm: Option<Rate>,
    /// Short-term bound on the inflight.
    pub inflight_shortterm: Option<u64>,
    /// Long-term bound on the inflight.
    pub inflight_longterm: Option<u64>,
    /// Windowed minimum of the round-trip samples.
    pub min_rtt: Option<Duration>,
    /// bw times min_rtt, in bytes; the initial window before the first sample.
    pub bdp: u64,
    /// Estimated aggregation in bytes.
    pub extra_acked: u64,
    /// The volume that fully uses the path: gain, aggregation and offload included.
    pub max_inflight: u64,
    /// Gain on bw that gives the pacing rate.
    pub pacing_gain: Gain,
    /// Gain on the BDP that gives the window.
    pub cwnd_gain: Gain,
    /// Packet-timed round trips so far.
    pub round_count: u64,
    /// True if the last ACK began a round trip.
    pub round_start: bool,
    /// True if the pipe was ever estimated full.
    pub full_bw_reached: bool,
    /// True if the pipe is estimated full since the last look.
    pub full_bw_now: bool,
    /// Baseline of the full-pipe estimator.
    pub full_bw: Rate,
    /// Rounds without growth from that baseline.
    pub full_bw_count: u32,
    /// True if a flow is restarting from idle.
    pub idle_restart: bool,
    /// True if the most recent probe for bandwidth met excess loss.
    pub prev_probe_too_high: bool,
    /// True if the most recent probe was stopped early, at the bound of the one before.
    pub prev_probe_precautionary: bool,
    /// Longest wall-clock wait before the next probe for bandwidth.
    pub bw_probe_wait: Duration,
    /// Rounds since the last probe for bandwidth.
    pub rounds_since_probe_up: u64,
    /// The lowest round-trip sample of the current ProbeRTT interval.
    pub probe_rtt_min_delay: Option<Duration>,
    /// The smoothed share of data that was marked with CE (Linux's flavour of BBRv3); `None` while
    /// marks have no such response.
    pub ecn_alpha: Option<Gain>,
    /// The round in which Drain began.
    pub drain_start_round: u64,
    /// The highest delivery rate of the last loss round.
    pub bw_latest: Rate,
    /// The largest volume delivered of the last loss round, in bytes.
    pub inflight_latest: u64,
    /// Number of doublings of the growth of `inflight_longterm` in this probe.
    pub bw_probe_up_rounds: u32,
    /// Bytes to acknowledge for each packet by which `inflight_longterm` grows.
    pub probe_up_acked_per_inc: Option<u64>,
    /// The state to return to when the losses turn out to be none.
    pub undo_state: Option<State>,
    /// `bw_shortterm` to return to then.
    pub undo_bw_shortterm: Option<Rate>,
    /// `inflight_shortterm` to return to then.
    pub undo_inflight_shortterm: Option<u64>,
    /// `inflight_longterm` to return to then.
    pub undo_inflight_longterm: Option<u64>,
}
