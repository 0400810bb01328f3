//! Senders with one defect each, of those that other implementations of BBR shipped: `bbr3` as it
//! is, and one thing that is done to it after each ACK.

use fullpipe_cc::{
    Algorithm, Config, Congestion, CongestionControl, Conn, CustomAlgorithm, CustomControl,
    Duration, Gain, Instant, PacketState, Rate, RateSample, Snapshot, State, built_in,
};

/// A defect.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Bug {
    /// None: the wrapper itself does no harm.
    None,
    /// A pacing rate is computed and never enforced.
    NoPacing,
    /// min_rtt is 0, so that the window is the least one.
    MinRttZero,
    /// Drain is never left.
    EndlessDrain,
    /// Startup is never left.
    EndlessStartup,
    /// 2000 packets, whatever happens.
    FixedWindow,
    /// The window is the least one after each loss.
    ResetAtLoss,
    /// ProbeRTT is never left.
    EndlessProbeRtt,
    /// ProbeRTT lasts 2 s.
    LongProbeRtt,
    /// One loss in ten counts: a threshold of 20 % for 2 %.
    LossThresh20,
    /// .85 for .15.
    Headroom85,
    /// A timeout throws away the bandwidth.
    DeathSpiral,
    /// The pacing rate stays that of the first estimate.
    FirstEstimate,
    /// Growth by an eighth a second after two rounds.
    EarlyPlateau,
    /// The window is that of the shortest round trip ever.
    OldMinRtt,
    /// The bandwidth is the largest ever.
    OldBandwidth,
    /// After idleness the rate is that of a full pipe of a few packets.
    IdlePlateau,
    /// An RTT a sixth above the shortest is taken for congestion.
    JitterIsCongestion,
    /// A window of one BDP, with no room for late ACKs.
    NoRoomForAcks,
    /// The window is 2000 packets at most.
    Cap2000,
    /// 30 Mbit/s.
    Deaf,
}

#[derive(Debug)]
struct Broken {
    bug: Bug,
    inner: Box<dyn CustomControl>,
    max_bw: Rate,
    first_rate: Option<Rate>,
    frozen: Option<(Rate, u64)>,
    until: Instant,
    began: Instant,
    losses: u64,
    is_hurt: bool,
    was_probing_rtt: bool,
    cap: u64,
}

impl Clone for Broken {
    fn clone(&self) -> Self {
        Self { inner: (*self.inner).clone_box(), ..*self }
    }
}

const FEW: u64 = 4;

impl Broken {
    fn made(bug: Bug, conn: &mut Conn, now: Instant, config: &Config) -> Box<dyn CustomControl> {
        Box::new(Self {
            bug,
            inner: built_in(Algorithm::BBR3, conn, now, config),
            max_bw: Rate::ZERO,
            first_rate: None,
            frozen: None,
            until: now,
            began: now,
            losses: 0,
            is_hurt: false,
            was_probing_rtt: false,
            cap: u64::MAX,
        })
    }

    /// Changes the control parameters after an ACK as the defect does.
    fn spoil(&mut self, conn: &mut Conn, rs: &RateSample) {
        let model = self.inner.snapshot(conn);
        let bbr = model.bbr.expect("bbr3 has a model");
        let min_rtt = conn.min_rtt().unwrap_or(Duration::from_millis(1));
        let model_rtt = bbr.min_rtt.unwrap_or(min_rtt);
        let bdp = bbr.max_bw.bytes_in(model_rtt);
        let few = FEW * conn.smss();
        match self.bug {
            Bug::None | Bug::LossThresh20 => {}
            Bug::NoPacing => {
                conn.set_pacing_rate(Rate::MAX);
                conn.set_send_quantum(u64::MAX);
            }
            Bug::MinRttZero => conn.set_cwnd(few),
            Bug::EndlessDrain if model.state == State::Drain => {
                self.frozen = Some((Gain::percent(50).of_rate(bbr.max_bw), 2 * bdp));
            }
            Bug::EndlessStartup => {
                conn.set_pacing_rate(Gain::percent(277).of_rate(self.max_bw));
                conn.set_cwnd((2 * self.max_bw.bytes_in(model_rtt)).max(conn.initial_cwnd()));
            }
            Bug::FixedWindow => {
                conn.set_pacing_rate(Rate::MAX);
                conn.set_cwnd(2000 * conn.smss());
            }
            Bug::ResetAtLoss => {
                if self.is_hurt {
                    self.is_hurt = false;
                    self.cap = few;
                }
                self.cap = self.cap.saturating_add(conn.smss() * rs.newly_acked / self.cap.max(1));
                conn.set_cwnd(conn.cwnd().min(self.cap));
            }
            Bug::EndlessProbeRtt if model.state == State::ProbeRtt => {
                self.frozen = Some((bbr.max_bw, (bdp / 2).max(few)));
            }
            Bug::LongProbeRtt => {
                let is_probing = model.state == State::ProbeRtt;
                if is_probing && !self.was_probing_rtt {
                    self.until = rs.now + Duration::from_secs(2);
                }
                self.was_probing_rtt = is_probing;
                if rs.now < self.until {
                    conn.set_cwnd(conn.cwnd().min((bdp / 2).max(few)));
                }
            }
            Bug::Headroom85
                if bbr.inflight_longterm.is_some()
                    && matches!(model.state, State::ProbeBwCruise | State::ProbeBwDown) =>
            {
                let most = bbr.inflight_longterm.unwrap_or(bdp).min(bdp);
                conn.set_cwnd((most * 15 / 100).max(few));
            }
            Bug::DeathSpiral if self.is_hurt => {
                conn.set_pacing_rate(Rate::from_volume(
                    2 * conn.smss(),
                    Duration::from_millis(100),
                ));
                conn.set_cwnd(few);
            }
            Bug::FirstEstimate => {
                let first = Rate::from_volume(conn.initial_cwnd(), Duration::from_millis(50));
                conn.set_pacing_rate(*self.first_rate.get_or_insert(first));
            }
            Bug::EarlyPlateau if bbr.round_count >= 2 => {
                let rate = *self.first_rate.get_or_insert(bbr.max_bw);
                let eighths = rs.now.since(self.began).as_nanos() / 1_000_000_000;
                let grown = (0..eighths).fold(rate, |rate, _| Gain::percent(113).of_rate(rate));
                if grown < model.pacing_rate.unwrap_or(Rate::MAX) {
                    conn.set_pacing_rate(grown);
                }
            }
            Bug::OldMinRtt => {
                conn.set_cwnd(conn.cwnd().min(2 * bbr.max_bw.bytes_in(min_rtt)).max(few))
            }
            Bug::OldBandwidth => {
                conn.set_pacing_rate(bbr.pacing_gain.of_rate(self.max_bw));
                conn.set_cwnd((2 * self.max_bw.bytes_in(model_rtt)).max(few));
            }
            Bug::IdlePlateau if self.is_hurt => {
                let rate = Gain::percent(20).of_rate(self.max_bw);
                conn.set_pacing_rate(rate);
            }
            Bug::JitterIsCongestion => {
                if rs.rtt().is_some_and(|rtt| rtt.as_nanos() > min_rtt.as_nanos() * 7 / 6)
                    && bbr.full_bw_reached
                {
                    self.until = rs.now + Duration::from_millis(100);
                }
                if rs.now < self.until {
                    conn.set_cwnd(conn.cwnd().min((self.max_bw.bytes_in(min_rtt) / 3).max(few)));
                }
            }
            Bug::NoRoomForAcks if bbr.full_bw_reached => {
                conn.set_cwnd(conn.cwnd().min(bdp).max(few));
            }
            Bug::Cap2000 => conn.set_cwnd(conn.cwnd().min(2000 * conn.smss())),
            Bug::Deaf => {
                conn.set_pacing_rate(Rate::from_bits_per_sec(30_000_000));
                conn.set_cwnd(1 << 30);
            }
            _ => {}
        }
    }
}

impl CongestionControl for Broken {
    fn on_pause(&mut self, conn: &mut Conn, now: Instant) {
        self.inner.on_pause(conn, now);
    }

    fn on_restart_from_idle(&mut self, conn: &mut Conn, now: Instant) {
        self.inner.on_restart_from_idle(conn, now);
        if self.bug == Bug::IdlePlateau && now.since(self.began) > Duration::from_secs(3) {
            self.is_hurt = true;
        }
    }
    fn on_packet_lost(&mut self, conn: &Conn, packet: &PacketState) {
        self.losses += 1;
        if self.bug == Bug::LossThresh20 && !self.losses.is_multiple_of(10) {
            return;
        }
        self.inner.on_packet_lost(conn, packet);
    }
    fn on_enter_recovery(&mut self, conn: &mut Conn) {
        self.inner.on_enter_recovery(conn);
    }
    fn on_exit_recovery(&mut self, conn: &mut Conn) {
        self.inner.on_exit_recovery(conn);
    }
    fn on_congestion(&mut self, conn: &mut Conn, congestion: &Congestion<'_>) {
        let cwnd = conn.cwnd();
        self.inner.on_congestion(conn, congestion);
        match self.bug {
            Bug::ResetAtLoss if congestion.new_episode => {
                self.is_hurt = true;
                conn.set_cwnd(FEW * conn.smss());
            }
            Bug::LossThresh20 => conn.set_cwnd(cwnd),
            _ => {}
        }
    }
    fn on_ack(&mut self, conn: &mut Conn, rs: &RateSample) {
        self.max_bw = self.max_bw.max(rs.delivery_rate);
        if let Some((rate, cwnd)) = self.frozen {
            conn.set_pacing_rate(rate);
            conn.set_cwnd(cwnd);
            return;
        }
        match self.bug {
            Bug::LossThresh20 => {
                let mut rs = *rs;
                rs.lost /= 10;
                self.inner.on_ack(conn, &rs);
            }
            _ => self.inner.on_ack(conn, rs),
        }
        self.spoil(conn, rs);
    }
    fn on_rto(&mut self, conn: &mut Conn) {
        self.inner.on_rto(conn);
        self.is_hurt |= self.bug == Bug::DeathSpiral;
    }
    fn on_idle(&mut self, conn: &mut Conn, cwnd: u64) {
        self.inner.on_idle(conn, cwnd);
    }
    fn on_spurious_loss(&mut self, conn: &mut Conn) {
        self.inner.on_spurious_loss(conn);
    }
    fn on_mtu_update(&mut self, conn: &mut Conn) {
        self.inner.on_mtu_update(conn);
    }
    fn snapshot(&self, conn: &Conn) -> Snapshot {
        self.inner.snapshot(conn)
    }
}

macro_rules! planted {
    ($($bug:ident $name:literal $defect:literal)*) => {
        /// The algorithms.
        pub(crate) static ALL: [&CustomAlgorithm; [$($name),*].len()] = [$(&CustomAlgorithm {
            name: $name,
            new: &|conn, now, config| Broken::made(Bug::$bug, conn, now, config),
        }),*];
        /// The name of each, and of the defect that it has.
        pub(crate) static NAMES: &[(&str, &str)] = &[$(($name, $defect)),*];
    };
}

planted! {
    None "wrapped" ""
    NoPacing "no-pacing" "no pacing"
    MinRttZero "min-rtt-zero" "window of a few packets"
    EndlessDrain "endless-drain" "Drain does not end"
    EndlessStartup "endless-startup" "Startup does not end"
    FixedWindow "fixed-window" "fixed window"
    ResetAtLoss "reset-at-loss" "window reset at each loss"
    EndlessProbeRtt "endless-probe-rtt" "ProbeRTT does not end"
    LongProbeRtt "long-probe-rtt" "ProbeRTT lasts too long"
    LossThresh20 "loss-thresh-20" "tolerates too much loss"
    Headroom85 "headroom-85" "too much headroom after a loss"
    DeathSpiral "death-spiral" "does not come back after an outage"
    FirstEstimate "first-estimate" "stuck at its first rate"
    EarlyPlateau "early-plateau" "leaves Startup too early"
    OldMinRtt "old-min-rtt" "does not forget an old min_rtt"
    OldBandwidth "old-bandwidth" "does not forget an old bandwidth"
    IdlePlateau "idle-plateau" "does not come back after idleness"
    JitterIsCongestion "jitter-is-congestion" "collapses under jitter"
    NoRoomForAcks "no-room-for-acks" "collapses under ACK aggregation"
    Cap2000 "cap-2000" "window is capped"
    Deaf "deaf" "does not react to losses"
}
