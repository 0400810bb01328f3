//! Numbers in which the versions of BBR differ.

use fullpipe_cc::Duration;

/// Pacing and window, in per cent.
pub(super) type Gains = (u32, u32);

/// A version of BBR.
#[derive(Debug)]
pub(super) struct Version {
    pub(super) number: u32,
    pub(super) startup: Gains,
    pub(super) drain_pacing_percent: u32,
    pub(super) up: Gains,
    pub(super) down_pacing_percent: u32,
    /// The window in ProbeRTT, in per cent of the BDP; not under four packets.
    pub(super) probe_rtt_bdp_percent: u64,
    /// BBR.ProbeRTTInterval.
    pub(super) probe_rtt_interval: Duration,
    /// The pacing rate by gain and bandwidth: BBR.PacingMarginPercent off.
    pub(super) paced: f64,
}

/// draft-ietf-ccwg-bbr.
pub(super) static THREE: Version = Version {
    number: 3,
    startup: (277, 200),
    drain_pacing_percent: 50,
    up: (125, 225),
    down_pacing_percent: 90,
    probe_rtt_bdp_percent: 50,
    probe_rtt_interval: Duration::from_secs(5),
    paced: 0.99,
};

/// draft-cardwell-iccrg-bbr-congestion-control-00, section 4.
#[cfg(feature = "quinn")]
pub(super) static ONE: Version = Version {
    number: 1,
    startup: (288, 288),
    drain_pacing_percent: 34,
    up: (125, 200),
    down_pacing_percent: 75,
    probe_rtt_bdp_percent: 0,
    probe_rtt_interval: Duration::from_secs(10),
    paced: 1.0,
};
