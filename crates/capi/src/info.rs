//! The model of a flow at one moment.

use core::ffi::{CStr, c_char};
use core::mem::{offset_of, size_of};

use fullpipe_cc::{Controller, Duration, Rate};

use crate::controller::answer;
use crate::handle::Handle;
use crate::status::Status;
use crate::versioned::Versioned;
use crate::{ALGORITHMS, FULLPIPE_NONE};

/// The state of an algorithm. BBR's states carry the draft's names.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(C)]
pub enum State {
    /// BBR: doubling the rate each round.
    Startup,
    /// BBR: emptying the queue that Startup built.
    Drain,
    /// BBR: sending a little slower than the path delivers.
    ProbeBwDown,
    /// BBR: sending at the delivery rate.
    ProbeBwCruise,
    /// BBR: one round at the full rate before the probe.
    ProbeBwRefill,
    /// BBR: sending faster than the path delivered so far.
    ProbeBwUp,
    /// BBRv1: its cycle of eight phases.
    ProbeBw,
    /// BBR: little in flight, to see the path without a queue.
    ProbeRtt,
    /// CUBIC and Reno: doubling the window each round.
    SlowStart,
    /// CUBIC and Reno: slow start at a quarter of its growth (RFC 9406).
    ConservativeSlowStart,
    /// CUBIC and Reno: the window has a slow-start threshold behind it.
    CongestionAvoidance,
    /// CUBIC and Reno: the round after a congestion event.
    Recovery,
    /// A state that this interface has no name for.
    Other,
}

impl State {
    const ALL: [Self; 13] = [
        Self::Startup,
        Self::Drain,
        Self::ProbeBwDown,
        Self::ProbeBwCruise,
        Self::ProbeBwRefill,
        Self::ProbeBwUp,
        Self::ProbeBw,
        Self::ProbeRtt,
        Self::SlowStart,
        Self::ConservativeSlowStart,
        Self::CongestionAvoidance,
        Self::Recovery,
        Self::Other,
    ];

    const fn name(self) -> &'static CStr {
        match self {
            Self::Startup => c"Startup",
            Self::Drain => c"Drain",
            Self::ProbeBwDown => c"ProbeBW_DOWN",
            Self::ProbeBwCruise => c"ProbeBW_CRUISE",
            Self::ProbeBwRefill => c"ProbeBW_REFILL",
            Self::ProbeBwUp => c"ProbeBW_UP",
            Self::ProbeBw => c"ProbeBW",
            Self::ProbeRtt => c"ProbeRTT",
            Self::SlowStart => c"SlowStart",
            Self::ConservativeSlowStart => c"ConservativeSlowStart",
            Self::CongestionAvoidance => c"CongestionAvoidance",
            Self::Recovery => c"Recovery",
            Self::Other => c"Other",
        }
    }
}

impl From<fullpipe_cc::State> for State {
    fn from(state: fullpipe_cc::State) -> Self {
        use fullpipe_cc::State as Core;
        match state {
            Core::Startup => Self::Startup,
            Core::Drain => Self::Drain,
            Core::ProbeBwDown => Self::ProbeBwDown,
            Core::ProbeBwCruise => Self::ProbeBwCruise,
            Core::ProbeBwRefill => Self::ProbeBwRefill,
            Core::ProbeBwUp => Self::ProbeBwUp,
            Core::ProbeBw => Self::ProbeBw,
            Core::ProbeRtt => Self::ProbeRtt,
            Core::SlowStart => Self::SlowStart,
            Core::ConservativeSlowStart => Self::ConservativeSlowStart,
            Core::CongestionAvoidance => Self::CongestionAvoidance,
            Core::Recovery => Self::Recovery,
            _ => Self::Other,
        }
    }
}

/// Returns the name of a state in the draft's spelling, never NULL. The string is static.
#[unsafe(no_mangle)]
pub extern "C" fn fullpipe_state_name(state: i32) -> *const c_char {
    let known = State::ALL.into_iter().find(|known| *known as i32 == state);
    known.unwrap_or(State::Other).name().as_ptr()
}

/// The model of a flow. FULLPIPE_NONE stands for what the algorithm does not have, what is not
/// measured yet, and what the draft calls infinite. An older program may have fewer fields, down to
/// those before `max_bw`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Info {
    /// The size of this struct in the library. A program's field beyond it is 0.
    pub known: usize,
    /// The algorithm's name. The string is static.
    pub algorithm: *const c_char,
    /// The algorithm's state.
    pub state: State,
    /// 1 if the window was fully used at any point of the last round trip, else 0.
    pub is_cwnd_limited: u8,
    /// 1 while the newest rate samples are limited by the application, else 0.
    pub app_limited: u8,
    /// 1 if the algorithm answers CE marks, else 0. With 0 the transport must not mark its packets
    /// as ECN-capable.
    pub wants_ecn: u8,
    /// BBR: 1 if the pipe was ever estimated full, else 0.
    pub full_bw_reached: u8,
    /// Bytes delivered so far.
    pub delivered: u64,
    /// Bytes marked lost so far.
    pub lost: u64,
    /// Smoothed round-trip time of RFC 9002.
    pub srtt: u64,
    /// The newest round-trip sample.
    pub latest_rtt: u64,
    /// Slow-start threshold in bytes, for CUBIC and Reno.
    pub ssthresh: u64,
    /// Initial window in bytes.
    pub initial_cwnd: u64,
    /// The largest burst in bytes that the pacer lets pass.
    pub burst_bound: u64,
    /// The size of the transport's send buffer, in windows, with which it never runs empty.
    pub send_buffer_windows: u64,
    /// BBR: windowed maximum of the delivery-rate samples.
    pub max_bw: u64,
    /// BBR: estimated bandwidth, with its short-term bound.
    pub bw: u64,
    /// BBR: short-term bound on the rate.
    pub bw_shortterm: u64,
    /// BBR: short-term bound on the bytes in flight.
    pub inflight_shortterm: u64,
    /// BBR: long-term bound on the bytes in flight.
    pub inflight_longterm: u64,
    /// BBR: windowed minimum of the round-trip samples.
    pub min_rtt: u64,
    /// BBR: `bw` times `min_rtt`, in bytes.
    pub bdp: u64,
    /// BBR: estimated aggregation of ACKs in bytes.
    pub extra_acked: u64,
    /// BBR: the volume in bytes that fully uses the path.
    pub max_inflight: u64,
    /// BBR: packet-timed round trips so far.
    pub round_count: u64,
    /// BBR: gain of the pacing rate in hundredths; 0 for other algorithms.
    pub pacing_gain_percent: u32,
    /// BBR: gain of the window in hundredths; 0 for other algorithms.
    pub cwnd_gain_percent: u32,
}

impl Versioned for Info {
    const FIRST: usize = offset_of!(Self, max_bw);
}

const _: () = assert!(offset_of!(Info, cwnd_gain_percent) + size_of::<u32>() == size_of::<Info>());

impl Info {
    fn of(cc: &Controller) -> Self {
        let snapshot = cc.snapshot();
        let volume = |bytes: Option<u64>| bytes.unwrap_or(FULLPIPE_NONE);
        let span = |time: Option<Duration>| volume(time.map(Duration::as_nanos));
        let rate = |rate: Option<Rate>| volume(rate.map(Rate::as_bytes_per_sec));
        let name = snapshot.algorithm.as_bytes();
        let known = ALGORITHMS.into_iter().find(|known| known.to_bytes() == name);
        let bbr = snapshot.bbr.as_ref();
        Self {
            known: size_of::<Self>(),
            algorithm: known.unwrap_or(c"other").as_ptr(),
            state: snapshot.state.into(),
            is_cwnd_limited: snapshot.is_cwnd_limited.into(),
            app_limited: snapshot.app_limited.into(),
            wants_ecn: cc.wants_ecn().into(),
            full_bw_reached: bbr.is_some_and(|bbr| bbr.full_bw_reached).into(),
            delivered: snapshot.delivered,
            lost: snapshot.lost,
            srtt: span(snapshot.srtt),
            latest_rtt: span(snapshot.latest_rtt),
            ssthresh: volume(snapshot.ssthresh),
            initial_cwnd: cc.initial_cwnd(),
            burst_bound: cc.burst_bound(),
            send_buffer_windows: cc.send_buffer_windows(),
            max_bw: rate(bbr.map(|bbr| bbr.max_bw)),
            bw: rate(bbr.map(|bbr| bbr.bw)),
            bw_shortterm: rate(bbr.and_then(|bbr| bbr.bw_shortterm)),
            inflight_shortterm: volume(bbr.and_then(|bbr| bbr.inflight_shortterm)),
            inflight_longterm: volume(bbr.and_then(|bbr| bbr.inflight_longterm)),
            min_rtt: span(bbr.and_then(|bbr| bbr.min_rtt)),
            bdp: volume(bbr.map(|bbr| bbr.bdp)),
            extra_acked: volume(bbr.map(|bbr| bbr.extra_acked)),
            max_inflight: volume(bbr.map(|bbr| bbr.max_inflight)),
            round_count: volume(bbr.map(|bbr| bbr.round_count)),
            pacing_gain_percent: bbr.map_or(0, |bbr| bbr.pacing_gain.as_percent()),
            cwnd_gain_percent: bbr.map_or(0, |bbr| bbr.cwnd_gain.as_percent()),
        }
    }
}

/// Writes the model of the flow. `size` is `sizeof(struct fullpipe_info)`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fullpipe_get_info(cc: *mut Handle, out: *mut Info, size: usize) -> Status {
    // SAFETY: the caller's guarantee for both.
    unsafe { answer(cc, out, size, |cc| Info::of(cc)) }
}
