//! The connection's own state (the draft's C): what every algorithm shares.

use crate::config::{Config, Transport};
use crate::sampler::{PacketState, RateSample, Sampler};
use crate::units::{Duration, Gain, Instant, Rate};

/// The largest send quantum in bytes: what one segmentation offload takes.
pub(crate) const MAX_QUANTUM: u64 = 65_536;

/// "Infinity" of a volume in bytes.
pub(crate) const INFINITE: u64 = u64::MAX;

/// An RTT below this counts as this: a zero would make every rate infinite.
const MIN_RTT_SAMPLE: Duration = Duration::from_micros(1);

#[derive(Clone, Debug)]
pub(crate) struct Conn {
    /// C.SMSS in bytes.
    pub(crate) smss: u64,
    /// C.InitialCwnd in bytes.
    pub(crate) initial_cwnd: u64,
    pub(crate) transport: Transport,
    /// Whether a window-based algorithm is paced.
    pub(crate) is_paced: bool,
    /// C.cwnd in bytes.
    pub(crate) cwnd: u64,
    /// C.inflight in bytes.
    pub(crate) inflight: u64,
    /// The transport has overwritten C.inflight. It need not be the sum of what is outstanding from
    /// then on: packets that the transport no longer counts may be acknowledged all the same.
    inflight_was_set: bool,
    /// C.pacing_rate; [`Rate::MAX`] holds nothing back.
    pub(crate) pacing_rate: Rate,
    /// C.send_quantum in bytes.
    pub(crate) send_quantum: u64,
    pub(crate) sampler: Sampler,
    /// C.srtt, RFC 9002 section 5.3 without the ACK delay, which not every transport knows.
    /// Zero before the first sample, as `latest_rtt`: no sample is.
    srtt: Duration,
    latest_rtt: Duration,
    /// The first instant after the newest recovery episode began, RFC 9002 section 7.3.2; zero, which
    /// is before any packet, when there was none. Stays after the episode's end: packets sent before
    /// this still belong to it.
    after_recovery_start: Instant,
    in_recovery: bool,
    /// Whether a CE mark counts as the loss of a packet.
    pub(crate) marks_are_losses: bool,
    /// C.is_cwnd_limited holds until this much has left the path: see [`Self::mark_cwnd_limited`].
    cwnd_limited_until: Option<u64>,
}

impl Conn {
    pub(crate) fn new(config: &Config, now: Instant) -> Self {
        let smss = u64::from(config.smss.max(1));
        let initial_cwnd = config.initial_cwnd(smss);
        Self {
            smss,
            initial_cwnd,
            transport: config.transport,
            is_paced: config.paced,
            cwnd: initial_cwnd,
            inflight: 0,
            inflight_was_set: false,
            pacing_rate: Rate::MAX,
            send_quantum: 2 * smss,
            sampler: Sampler::new(now),
            srtt: Duration::ZERO,
            latest_rtt: Duration::ZERO,
            after_recovery_start: Instant::default(),
            in_recovery: false,
            marks_are_losses: true,
            cwnd_limited_until: None,
        }
    }

    /// C.pacing_rate; `None` before the first estimate of an algorithm that needs one.
    pub(crate) fn pacing_rate(&self) -> Option<Rate> {
        (self.pacing_rate != Rate::MAX).then_some(self.pacing_rate)
    }

    /// Takes acknowledged or lost packets out of C.inflight.
    #[inline]
    pub(crate) fn leave_flight(&mut self, bytes: u64) {
        debug_assert!(
            self.inflight_was_set || self.inflight >= bytes,
            "acknowledged or lost twice, or not told of its sending"
        );
        self.inflight = self.inflight.saturating_sub(bytes);
    }

    /// Overwrites C.inflight with the transport's own count.
    pub(crate) fn set_inflight(&mut self, bytes: u64) {
        self.inflight = bytes;
        self.inflight_was_set = true;
    }

    pub(crate) const fn in_recovery(&self) -> bool {
        self.in_recovery
    }

    pub(crate) fn begin_recovery(&mut self, now: Instant) {
        self.after_recovery_start = now + Duration::from_nanos(1);
        self.in_recovery = true;
    }

    pub(crate) fn end_recovery(&mut self) {
        self.in_recovery = false;
    }

    /// Whether what left at `sent` left after the newest recovery episode began, or there was none.
    pub(crate) fn sent_after_recovery_start(&self, sent: Instant) -> bool {
        sent >= self.after_recovery_start
    }

    /// A mark is the loss of a packet that arrived all the same ("ECN": CE is congestion), if the
    /// algorithm has no other answer.
    #[cold]
    pub(crate) fn count_marks(&mut self, packets: u64) {
        self.sampler.count_marks(packets);
        if self.marks_are_losses {
            self.sampler.count_lost(packets.saturating_mul(self.smss));
        }
    }

    /// Nothing is unacknowledged. C.inflight of 0 alone does not say so: loss marking brings it to
    /// 0 while the data is still to be repaired, which is no idleness of the application.
    pub(crate) fn is_idle(&self) -> bool {
        self.inflight == 0 && !self.in_recovery()
    }

    /// Whether another full packet does not fit into the window.
    pub(crate) fn is_window_full(&self) -> bool {
        self.inflight.saturating_add(self.smss) > self.cwnd
    }

    /// What has left the path, delivered or lost: the clock of a packet-timed round trip.
    fn departed(&self) -> u64 {
        self.sampler.delivered.saturating_add(self.sampler.lost())
    }

    /// Notes that the window is full now. Like the app-limited mark it holds for one packet-timed
    /// round trip: until all that is now in flight has left the path.
    pub(crate) fn mark_cwnd_limited(&mut self) {
        self.cwnd_limited_until = Some(self.departed().saturating_add(self.inflight));
    }

    /// C.is_cwnd_limited: whether C.cwnd was fully used at any point of the last round trip.
    pub(crate) fn is_cwnd_limited(&self) -> bool {
        self.cwnd_limited_until.is_some_and(|until| self.departed() <= until)
    }

    /// Paces a window-based algorithm: `gain` windows in a smoothed round trip. Above one, so that
    /// the window stays the limit (RFC 9002 section 7.7). Without pacing the window is all there is.
    pub(crate) fn pace_by_window(&mut self, gain: Gain) {
        if !self.is_paced {
            self.send_quantum = MAX_QUANTUM.max(2 * self.smss);
        } else if let Some(srtt) = self.srtt() {
            let rate = gain.of_rate(Rate::from_volume(self.cwnd, srtt));
            self.pacing_rate = rate.max(Rate::from_bytes_per_sec(1));
            let quantum = rate.bytes_in(Duration::from_millis(1));
            self.send_quantum = quantum.min(MAX_QUANTUM).max(2 * self.smss);
        }
    }

    /// Whether the newest ACK may raise a loss-based window: RFC 9002 section 7.8 forbids it when
    /// the window was not used. A flow that only its pacer held back did use it.
    pub(crate) fn may_grow(&self, rs: &RateSample) -> bool {
        !rs.is_app_limited || self.is_cwnd_limited()
    }

    /// The smallest window of a loss-based algorithm, RFC 9002 section 7.2.
    pub(crate) fn min_window(&self) -> u64 {
        2 * self.smss
    }

    /// C.srtt, after the first sample.
    pub(crate) fn srtt(&self) -> Option<Duration> {
        (self.srtt != Duration::ZERO).then_some(self.srtt)
    }

    /// The newest round-trip sample.
    pub(crate) fn latest_rtt(&self) -> Option<Duration> {
        (self.latest_rtt != Duration::ZERO).then_some(self.latest_rtt)
    }

    /// The sample of an ACK whose newest packet is `p`; `rtt` is the transport's own, if it has one.
    #[inline]
    pub(crate) fn sample(
        &mut self,
        now: Instant,
        p: &PacketState,
        rtt: Option<Duration>,
    ) -> RateSample {
        let rtt = rtt.unwrap_or(now.since(p.send_time())).max(MIN_RTT_SAMPLE);
        self.update_srtt(rtt);
        self.sampler.generate(now, p, rtt)
    }

    #[inline]
    fn update_srtt(&mut self, rtt: Duration) {
        // 7/8 old, 1/8 new, ordered so that no product can overflow.
        let (old, new) = (self.srtt.as_nanos(), rtt.as_nanos());
        let mean = Duration::from_nanos(old - old / 8 + new / 8);
        self.srtt = if self.srtt == Duration::ZERO { rtt } else { mean };
        self.latest_rtt = rtt;
    }
}
