//! TCP's loss recovery above the packets: RACK's reordering window and the tail loss probe
//! (RFC 8985), the retransmission timeout (RFC 6298, with Linux's minimum).

use fullpipe_cc::{Duration, Instant, Prr};

use crate::config::{Reordering, TcpConfig};
use crate::recovery::{Rtt, Wait};

/// DupThresh, RFC 5681 section 3.2.
const DUP_THRESH: u64 = 3;
/// Recoveries without a DSACK after which a widened reordering window is given up (RFC 8985
/// section 6.2, step 4).
const REO_WND_PERSIST: u32 = 16;
/// The timeout before the first round-trip sample, RFC 6298 section 2.1.
const INITIAL_RTO: Duration = Duration::from_secs(1);
/// The longest timeout: Linux's TCP_RTO_MAX.
const MAX_RTO: Duration = Duration::from_secs(120);
/// Time that a probe allows for the delayed ACK of a single segment (RFC 8985 section 7.2,
/// WCDelAckT).
const WORST_DELAYED_ACK: Duration = Duration::from_millis(200);
/// The most doublings of the timeout.
const MAX_BACKOFF: u32 = 16;

/// A tail loss probe that was sent and whose end is open.
#[derive(Clone, Copy, Debug)]
struct Probe {
    /// The first chunk that had not been sent when the probe was: TLP.end_seq.
    end: u64,
    /// True if it repeated a segment, and did not bring a new one: TLP.is_retrans.
    is_copy: bool,
}

/// The result that an ACK gives for a probe.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum ProbeResult {
    /// Nothing new.
    Open,
    /// The probe repaired a loss that no other sign shows: congestion control has to answer it.
    RepairedLoss,
}

/// The purpose of the timer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Alarm {
    Probe,
    Timeout,
}

#[derive(Debug)]
pub(crate) struct Tcp {
    config: TcpConfig,
    /// One past the highest chunk that was acknowledged: RACK.fack.
    fack: u64,
    reordering_seen: bool,
    reo_wnd_mult: u32,
    reo_wnd_persist: u32,
    /// The round in which a DSACK widened the window ends at this chunk.
    dsack_round: Option<u64>,
    /// Fast or RTO recovery lasts until everything before this chunk is acknowledged.
    recovery: Option<u64>,
    probe: Option<Probe>,
    timeouts: u32,
    /// The time of the last start of the timeout.
    started: Instant,
    /// The time at which new data was last sent or acknowledged; a probe's delay counts from it.
    advanced: Instant,
    /// PRR of the recovery at hand.
    pub(crate) prr: Option<Prr>,
}

impl Tcp {
    pub(crate) fn new(config: TcpConfig, now: Instant) -> Self {
        Self {
            prr: None,
            config,
            fack: 0,
            reordering_seen: false,
            reo_wnd_mult: 1,
            reo_wnd_persist: REO_WND_PERSIST,
            dsack_round: None,
            recovery: None,
            probe: None,
            timeouts: 0,
            started: now,
            advanced: now,
        }
    }

    pub(crate) fn config(&self) -> &TcpConfig {
        &self.config
    }

    /// False where the flow is to recover without PRR.
    pub(crate) const fn has_prr(&self) -> bool {
        self.config.prr
    }

    pub(crate) fn in_recovery(&self) -> bool {
        self.recovery.is_some()
    }

    /// A segment was sent. The timeout starts with the first that is unacknowledged.
    pub(crate) fn on_sent(&mut self, now: Instant, is_first: bool) {
        self.advanced = now;
        if is_first {
            self.started = now;
        }
    }

    /// A chunk is newly acknowledged (RFC 8985 section 6.2, step 3).
    #[inline]
    pub(crate) fn on_segment(&mut self, id: u64, has_copies: bool) {
        if id >= self.fack {
            self.fack = id + 1;
        } else if !has_copies {
            self.reordering_seen = true;
        }
    }

    /// The original of a segment arrived after its copy had left, seen by its time: it was late and
    /// not lost. RFC 8985 leaves retransmitted segments aside; Linux takes this for reordering too
    /// (`tcp_try_undo_partial`).
    pub(crate) fn on_original(&mut self) {
        self.reordering_seen = true;
    }

    /// An ACK advances: everything before `cumulative` is here.
    pub(crate) fn on_advance(&mut self, now: Instant, cumulative: u64) {
        (self.started, self.advanced, self.timeouts) = (now, now, 0);
        if self.recovery.is_some_and(|end| cumulative >= end) {
            self.recovery = None;
            self.reo_wnd_persist = self.reo_wnd_persist.saturating_sub(1);
            if self.reo_wnd_persist == 0 {
                self.reo_wnd_mult = 1;
            }
        }
        if self.dsack_round.is_some_and(|end| cumulative >= end) {
            self.dsack_round = None;
        }
    }

    /// A DSACK: the receiver had this chunk already. `next` is the next chunk to send.
    pub(crate) fn on_dsack(&mut self, next: u64) {
        if self.dsack_round.is_none() {
            self.dsack_round = Some(next);
            self.reo_wnd_mult += 1;
            self.reo_wnd_persist = REO_WND_PERSIST;
        }
    }

    /// TLP_process_ack() of RFC 8985 section 7.4.2.
    pub(crate) fn on_probe_ack(&mut self, cumulative: u64, dsack: Option<u64>) -> ProbeResult {
        let Some(probe) = self.probe.filter(|probe| cumulative >= probe.end) else {
            return ProbeResult::Open;
        };
        let was_there = dsack.is_some_and(|id| id + 1 == probe.end);
        if !probe.is_copy || was_there {
            self.probe = None;
        } else if cumulative > probe.end {
            self.probe = None;
            return ProbeResult::RepairedLoss;
        }
        ProbeResult::Open
    }

    /// The reordering window, RFC 8985 section 6.2, step 4; `sacked` segments are acknowledged
    /// above the first hole.
    fn reo_wnd(&self, rtt: &Rtt, sacked: u64) -> Duration {
        if !self.reordering_seen && (self.in_recovery() || sacked >= DUP_THRESH) {
            return Duration::ZERO;
        }
        let quarter = Duration::from_nanos(rtt.min().as_nanos() / 4);
        quarter.times(u64::from(self.reo_wnd_mult)).min(rtt.smoothed())
    }

    /// The delay after its departure at which a segment counts as lost if a later one was
    /// acknowledged first. `newest` is the round trip of the newest segment that arrived: RACK.rtt.
    pub(crate) fn wait(&self, rtt: &Rtt, newest: Duration, sacked: u64) -> Wait {
        match self.config.reordering {
            Reordering::Threshold => rtt.threshold(),
            Reordering::Rack => {
                Wait { packets: u64::MAX, time: newest + self.reo_wnd(rtt, sacked) }
            }
        }
    }

    /// Losses were found: a recovery begins unless one is under way; whether it did.
    pub(crate) fn on_losses(&mut self, next: u64) -> bool {
        let begins = self.recovery.is_none();
        if begins {
            self.recovery = Some(next);
        }
        begins
    }

    /// Data that was marked lost has arrived after all.
    pub(crate) fn on_spurious_loss(&mut self) {
        self.recovery = None;
    }

    /// The timeout of RFC 6298 section 2.3; Linux bounds the variance's part from below.
    pub(crate) fn rto(&self, rtt: &Rtt) -> Duration {
        let Some((smoothed, variation)) = rtt.estimate() else { return INITIAL_RTO };
        smoothed + variation.times(4).max(self.config.rto_min)
    }

    /// The time at which the timer of a flight fires, and its purpose.
    pub(crate) fn alarm(&self, rtt: &Rtt, in_flight: u64, sacked: u64) -> (Instant, Alarm) {
        let rto = self.rto(rtt).times(1 << self.timeouts).min(MAX_RTO);
        let timeout = self.started + rto;
        // Section 7.2, and Linux: one probe a flight, and none while anything else repairs it.
        let may_probe = self.probe.is_none()
            && self.recovery.is_none()
            && self.timeouts == 0
            && sacked == 0
            && rtt.latest.is_some();
        if may_probe {
            let more = if in_flight == 1 { WORST_DELAYED_ACK } else { Duration::ZERO };
            let at = self.advanced + rtt.smoothed().times(2) + more;
            if at < timeout {
                return (at, Alarm::Probe);
            }
        }
        (timeout, Alarm::Timeout)
    }

    /// The timeout starts anew when the probe leaves (section 7.3).
    pub(crate) fn on_probe(&mut self, now: Instant, next: u64, is_copy: bool) {
        self.probe = Some(Probe { end: next, is_copy });
        self.started = now;
    }

    pub(crate) fn on_timeout(&mut self, now: Instant, next: u64) {
        self.timeouts = (self.timeouts + 1).min(MAX_BACKOFF);
        (self.probe, self.recovery, self.started) = (None, Some(next), now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    fn tcp() -> (Tcp, Rtt) {
        let mut rtt = Rtt::new(MS.times(40));
        rtt.update(Instant::default(), MS.times(40), Duration::ZERO);
        (Tcp::new(TcpConfig::default(), Instant::default()), rtt)
    }

    /// RFC 8985 section 6.2, step 4, case by case.
    #[test]
    fn the_reordering_window_follows_the_rfc() {
        let (mut tcp, rtt) = tcp();
        assert_eq!(tcp.reo_wnd(&rtt, 2), MS.times(10), "a quarter of min_RTT");
        assert_eq!(tcp.reo_wnd(&rtt, 3), Duration::ZERO, "three duplicates are enough");
        tcp.on_segment(5, false);
        tcp.on_segment(4, true);
        assert!(!tcp.reordering_seen, "a retransmission is no reordering");
        tcp.on_segment(3, false);
        assert_eq!(tcp.reo_wnd(&rtt, 3), MS.times(10), "reordering was seen");
        // Each round with a DSACK widens it by a quarter, up to SRTT.
        for (next, quarters) in [(10, 2), (10, 2), (20, 3), (30, 4), (40, 4)] {
            tcp.on_advance(Instant::default(), next - 1);
            tcp.on_advance(Instant::default(), next);
            tcp.on_dsack(next + 1);
            tcp.on_dsack(next + 5);
            let _ = quarters;
        }
        assert_eq!(tcp.reo_wnd(&rtt, 3), MS.times(40));
        // After 16 recoveries without one it is as before.
        for i in 0..REO_WND_PERSIST {
            assert_eq!(tcp.reo_wnd(&rtt, 3), MS.times(40), "after {i} recoveries");
            assert!(tcp.on_losses(100));
            tcp.on_advance(Instant::default(), 100);
        }
        assert_eq!(tcp.reo_wnd(&rtt, 3), MS.times(10));
    }

    /// RFC 8985 section 7.4: a probe that was a copy, and whose end was passed without a DSACK, has
    /// repaired a loss; one with a DSACK, or with new data, has not.
    #[test]
    fn a_probe_tells_a_repaired_loss_from_a_lost_ack() {
        use ProbeResult::{Open, RepairedLoss};
        let probed = |is_copy| {
            let (mut tcp, _) = tcp();
            tcp.on_probe(Instant::default(), 10, is_copy);
            tcp
        };
        let mut loss = probed(true);
        assert_eq!(loss.on_probe_ack(9, None), Open);
        assert_eq!(loss.on_probe_ack(10, None), Open, "it may still have been a copy");
        assert_eq!(loss.on_probe_ack(11, None), RepairedLoss);
        assert_eq!(loss.on_probe_ack(12, None), Open, "once");
        let mut copy = probed(true);
        assert_eq!(copy.on_probe_ack(10, Some(9)), Open);
        assert_eq!(copy.on_probe_ack(11, None), Open);
        assert_eq!(probed(false).on_probe_ack(11, None), Open, "new data");
    }

    /// SRTT + max(200 ms, 4 RTTVAR), doubled by each timeout; a second before the first sample.
    #[test]
    fn the_timeout_is_linuxs() {
        let (mut tcp, mut rtt) = tcp();
        assert_eq!(tcp.rto(&Rtt::new(MS)), INITIAL_RTO);
        assert_eq!(tcp.rto(&rtt), MS.times(240));
        rtt.update(Instant::default(), MS.times(440), Duration::ZERO);
        // RTTVAR = (3 x 20 + 400) / 4 = 115 ms, SRTT = (7 x 40 + 440) / 8 = 90 ms.
        assert_eq!(tcp.rto(&rtt), MS.times(90 + 4 * 115));
        let at = |tcp: &Tcp| tcp.alarm(&rtt, 5, 1).0.since(Instant::default());
        tcp.on_timeout(Instant::default(), 5);
        assert_eq!(at(&tcp), MS.times(2 * 550));
        tcp.on_timeout(Instant::default(), 5);
        assert_eq!(at(&tcp), MS.times(4 * 550));
    }

    #[test]
    fn a_probe_comes_before_the_timeout_and_once_a_flight() {
        let (mut tcp, rtt) = tcp();
        let ms = |ms| Instant::default() + MS.times(ms);
        assert_eq!(tcp.alarm(&rtt, 5, 0), (ms(80), Alarm::Probe));
        assert_eq!(tcp.alarm(&rtt, 1, 0), (ms(240), Alarm::Timeout), "80 + 200 ms would be later");
        assert_eq!(tcp.alarm(&rtt, 5, 1), (ms(240), Alarm::Timeout), "SACKs repair it");
        tcp.on_probe(ms(80), 5, true);
        assert_eq!(tcp.alarm(&rtt, 5, 0), (ms(320), Alarm::Timeout));
    }
}
