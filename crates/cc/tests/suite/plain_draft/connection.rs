//! The transport's variables (C), a packet's (P) and a rate sample's (RS): "Delivery Rate Samples".

use fullpipe_cc::{AckFrequency, Config, Duration, Transport};

use super::ours::Ours;

/// No bound, or no value yet.
pub(crate) const INFINITY: u64 = u64::MAX;
pub(crate) const SECOND: u64 = 1_000_000_000;
pub(crate) const MILLISECOND: u64 = 1_000_000;

/// `value` times `part / whole`, rounded down.
pub(crate) fn scale(value: u64, part: u64, whole: u64) -> u64 {
    let exact = u128::from(value) * u128::from(part) / u128::from(whole);
    u64::try_from(exact).unwrap_or(INFINITY)
}

/// P. Times are nanoseconds, volumes bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Packet {
    pub(crate) id: u64,
    pub(crate) size: u64,
    pub(crate) send_time: u64,
    pub(crate) is_app_limited: bool,
    pub(crate) tx_in_flight: u64,
    pub(crate) lost: u64,
    delivered: u64,
    delivered_time: u64,
    first_send_time: u64,
}

/// RS. A rate is bytes a second.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct RateSample {
    pub(crate) rtt: Option<u64>,
    pub(crate) delivery_rate: u64,
    pub(crate) is_app_limited: bool,
    pub(crate) delivered: u64,
    pub(crate) prior_delivered: u64,
    pub(crate) newly_acked: u64,
    pub(crate) tx_in_flight: u64,
    pub(crate) lost: u64,
    /// C.inflight before the ACK.
    pub(crate) prior_inflight: u64,
}

/// C.
#[derive(Clone, Debug)]
pub(crate) struct Connection {
    pub(crate) smss: u64,
    pub(crate) initial_cwnd: u64,
    pub(crate) has_selective_acks: bool,
    pub(crate) is_tcp: bool,
    pub(crate) ack_frequency: Option<AckFrequency>,
    pub(crate) cwnd: u64,
    pub(crate) inflight: u64,
    pub(crate) pacing_rate: u64,
    pub(crate) send_quantum: u64,
    pub(crate) delivered: u64,
    pub(crate) lost: u64,
    pub(crate) app_limited: u64,
    pub(crate) is_in_recovery: bool,
    delivered_time: u64,
    first_send_time: u64,
    min_rtt: u64,
    next_id: u64,
    /// The first packet that leaves after the newest recovery began.
    recovery_start: u64,
    /// Lost data may wait to be sent again: C.inflight of 0 is then no idleness.
    awaits_repair: bool,
    /// The application had nothing to send since the last ProbeRTT, whose samples bear its mark
    /// too.
    pub(crate) was_application_limited: bool,
    /// C.is_cwnd_limited holds until this has left the path.
    cwnd_limited_until: u64,
    /// The correction that is left out.
    pub(crate) without: Option<Ours>,
}

impl Connection {
    pub(crate) fn has(&self, correction: Ours) -> bool {
        self.without != Some(correction)
    }

    pub(crate) fn new(config: &Config, initial_cwnd: u64, without: Option<Ours>) -> Self {
        let smss = u64::from(config.smss);
        Self {
            smss,
            initial_cwnd,
            has_selective_acks: config.has_selective_acks,
            is_tcp: config.transport == Transport::Tcp,
            ack_frequency: config.ack_frequency,
            cwnd: initial_cwnd,
            inflight: 0,
            pacing_rate: 0,
            send_quantum: 2 * smss,
            delivered: 0,
            lost: 0,
            app_limited: 0,
            is_in_recovery: false,
            delivered_time: 0,
            first_send_time: 0,
            min_rtt: config.handshake_rtt.map_or(INFINITY, Duration::as_nanos),
            next_id: 0,
            recovery_start: 0,
            awaits_repair: false,
            was_application_limited: false,
            cwnd_limited_until: 0,
            without,
        }
    }

    fn has_left(&self) -> u64 {
        self.delivered + self.lost
    }

    /// Notes a full window, which counts for as long as what is in flight takes to leave.
    pub(crate) fn note_window(&mut self) {
        if self.inflight + self.smss > self.cwnd {
            self.cwnd_limited_until = self.has_left() + self.inflight + 1;
        }
    }

    pub(crate) fn is_cwnd_limited(&self) -> bool {
        self.has_left() < self.cwnd_limited_until
    }

    pub(crate) fn is_idle(&self) -> bool {
        self.inflight == 0 && !self.awaits_repair
    }

    pub(crate) fn mark_connection_app_limited(&mut self) {
        self.app_limited = (self.delivered + self.inflight).max(1);
    }

    /// The application has nothing to send, and nothing waits to be sent again.
    pub(crate) fn check_if_application_limited(&mut self) {
        self.awaits_repair = false;
        self.was_application_limited = true;
        if self.inflight < self.cwnd {
            self.mark_connection_app_limited();
        }
    }

    /// A flight begins with a packet that leaves `now`: its sample has no time before.
    pub(crate) fn begin_flight(&mut self, now: u64) {
        self.first_send_time = now;
        self.delivered_time = now;
    }

    pub(crate) fn on_packet_sent(&mut self, now: u64, size: u64) -> Packet {
        self.inflight += size;
        self.note_window();
        let id = self.next_id;
        self.next_id += 1;
        Packet {
            id,
            size,
            send_time: now,
            is_app_limited: self.app_limited != 0,
            tx_in_flight: self.inflight,
            lost: self.lost,
            delivered: self.delivered,
            delivered_time: self.delivered_time,
            first_send_time: self.first_send_time,
        }
    }

    pub(crate) fn count_lost(&mut self, packet: &Packet) {
        self.lost += packet.size;
        self.awaits_repair = true;
        if self.app_limited != 0 && self.has(Ours::LostDataEndsAppLimit) {
            self.app_limited = self.app_limited.saturating_sub(packet.size).max(1);
        }
    }

    pub(crate) fn begin_recovery(&mut self) {
        self.is_in_recovery = true;
        self.recovery_start = self.next_id;
    }

    pub(crate) fn end_recovery(&mut self, awaits_repair: bool) {
        self.is_in_recovery = false;
        self.awaits_repair = awaits_repair;
    }

    /// True if `packet` belongs to no earlier recovery.
    pub(crate) fn is_after_recovery_start(&self, packet: &Packet) -> bool {
        packet.id >= self.recovery_start
    }

    /// The sample of an ACK for `acked`, which is not empty. C.delivered has them afterwards.
    pub(crate) fn sample(
        &mut self,
        now: u64,
        acked: &[Packet],
        prior_inflight: u64,
        has_rtt: bool,
    ) -> RateSample {
        let newest = *acked.iter().max_by_key(|p| (p.send_time, p.id)).expect("not empty");
        let newly_acked: u64 = acked.iter().map(|p| p.size).sum();
        self.delivered += newly_acked;
        self.delivered_time = now;
        self.first_send_time = newest.send_time;
        if self.delivered > self.app_limited {
            self.app_limited = 0;
        }
        let rtt = has_rtt.then(|| (now - newest.send_time).max(1_000));
        self.min_rtt = self.min_rtt.min(rtt.unwrap_or(INFINITY));
        let send_elapsed = newest.send_time - newest.first_send_time;
        let interval = send_elapsed.max(now - newest.delivered_time);
        let delivered = self.delivered - newest.delivered;
        let is_reliable = interval >= self.min_rtt && interval > 0;
        RateSample {
            rtt,
            delivery_rate: if is_reliable { scale(delivered, SECOND, interval) } else { 0 },
            is_app_limited: newest.is_app_limited,
            delivered,
            prior_delivered: newest.delivered,
            newly_acked,
            tx_in_flight: newest.tx_in_flight,
            lost: self.lost - newest.lost,
            prior_inflight,
        }
    }
}

/// The volume of a rate over a time.
pub(crate) fn bytes_in(rate: u64, time: u64) -> u64 {
    scale(rate, time, SECOND)
}
