//! A controller of the core, fed by single calls.

use fullpipe_adapter::Unsent;
use fullpipe_cc::{
    Algorithm, Config, Controller, Duration, Instant, PacketState, RttSample, Snapshot,
};
use s2n_quic::provider::congestion_controller::Timestamp;

/// The core, its clock, and the losses that s2n-quic has told and the core has not heard.
///
/// s2n-quic tells the losses of an ACK one by one before the ACK itself, and those of its loss
/// timer without one. The core wants them in one batch. So they are kept until the ACK, or until
/// s2n-quic asks for anything.
#[derive(Clone, Debug)]
pub(crate) struct Flow {
    core: Controller,
    /// C.SMSS in bytes.
    smss: u32,
    /// The time of the first event, which is the core's zero.
    zero: Option<Timestamp>,
    /// The time of the newest event.
    now: Instant,
    /// The departure time that s2n-quic waits for.
    due: Option<Instant>,
    /// The packet that was sent last, without those that are not in flight.
    last: Option<PacketState>,
    lost: Vec<PacketState>,
    ce_packets: u64,
    persistent_congestion: bool,
    /// Bytes that were discarded and that the core still counts as in flight.
    discarded: u64,
    /// The application's data that s2n-quic has not taken.
    unsent: Unsent,
}

/// Packets that an ACK acknowledged.
#[derive(Clone, Copy, Debug)]
struct Acked {
    newest: PacketState,
    /// The round trip of the newest.
    rtt: Duration,
    bytes: u64,
}

impl Flow {
    pub(crate) fn new(algorithm: Algorithm, config: Config, smss: u16) -> Self {
        let config = Config { smss: smss.into(), ..config };
        let now = Instant::default();
        Self {
            core: Controller::new(algorithm, config, now),
            smss: config.smss,
            zero: None,
            now,
            due: None,
            last: None,
            lost: Vec::new(),
            ce_packets: 0,
            persistent_congestion: false,
            discarded: 0,
            unsent: Unsent::default(),
        }
    }

    pub(crate) fn set_unsent(&mut self, unsent: &Unsent) {
        self.unsent = unsent.clone();
    }

    /// Takes the time of an event. Time that seems to run backwards stands still.
    fn at(&mut self, time: Timestamp) -> Instant {
        let zero = *self.zero.get_or_insert(time);
        let since = Duration::from(time.saturating_duration_since(zero));
        self.now = self.now.max(Instant::default() + since);
        self.now
    }

    /// `has_sent_all`: after this packet s2n-quic has nothing to send.
    ///
    /// The state of a packet; of an ACK alone, a state of no bytes that stands for what was sent
    /// before it. `None` if nothing was.
    pub(crate) fn sent(
        &mut self,
        time: Timestamp,
        bytes: u32,
        has_sent_all: bool,
    ) -> Option<PacketState> {
        self.flush();
        let now = self.at(time);
        let is_app_limited = has_sent_all && self.unsent.is_none();
        // An ACK alone is not in flight (RFC 9002 section 2).
        if bytes == 0 {
            return self.last.map(|last| last.split(0).0);
        }
        // Where the application was late, the wait says nothing about the timer.
        if let Some(due) = self.due.take().filter(|_| !is_app_limited) {
            self.core.on_pacing_timer(now, due);
        }
        let packet = self.core.on_sent(now, bytes);
        self.last = Some(packet);
        if is_app_limited {
            self.core.on_app_limited();
        }
        Some(packet)
    }

    pub(crate) fn lost(&mut self, time: Timestamp, packet: PacketState, is_persistent: bool) {
        self.at(time);
        self.lost.push(packet);
        self.persistent_congestion |= is_persistent;
    }

    pub(crate) fn ce(&mut self, time: Timestamp, packets: u64) {
        self.at(time);
        self.ce_packets += packets;
    }

    /// The newest of the acknowledged packets, the time at which it was sent, and the bytes of all.
    pub(crate) fn acked(
        &mut self,
        time: Timestamp,
        newest: PacketState,
        newest_sent: Timestamp,
        bytes: u64,
    ) {
        self.at(time);
        let rtt = time.saturating_duration_since(newest_sent).into();
        self.close(Some(Acked { newest, rtt, bytes: bytes.max(newest.size()) }));
    }

    pub(crate) fn discarded(&mut self, bytes: u64) {
        self.flush();
        self.discarded += bytes;
    }

    pub(crate) fn mtu(&mut self, smss: u16) {
        self.flush();
        self.smss = smss.into();
        self.core.on_mtu_update(self.now, self.smss, None);
    }

    /// Tells the core what it has not heard.
    fn flush(&mut self) {
        if !self.lost.is_empty() || self.ce_packets > 0 {
            self.close(None);
        }
    }

    fn close(&mut self, acked: Option<Acked>) {
        let discarded = std::mem::take(&mut self.discarded);
        let lost: u64 = self.lost.iter().map(PacketState::size).sum();
        let gone = discarded + lost + acked.map_or(0, |acked| acked.bytes);
        let left = self.core.inflight().saturating_sub(gone);
        let mut batch = self.core.ack(self.now);
        if let Some(Acked { newest, rtt, bytes }) = acked {
            batch.acked_bytes(&newest, bytes);
            // The state that stands for an ACK alone is older than it.
            batch.rtt(RttSample::Exact(rtt));
        }
        for packet in self.lost.drain(..) {
            batch.lost(&packet);
        }
        batch.ce(std::mem::take(&mut self.ce_packets));
        if discarded > 0 {
            batch.resync_inflight(left);
        }
        if std::mem::take(&mut self.persistent_congestion) {
            batch.timeout();
        }
        batch.finish();
    }

    pub(crate) fn cwnd(&mut self) -> u64 {
        self.flush();
        self.core.cwnd()
    }

    pub(crate) fn inflight(&mut self) -> u64 {
        self.flush();
        self.core.inflight().saturating_sub(self.discarded)
    }

    pub(crate) fn is_limited(&mut self) -> bool {
        let room = self.cwnd().saturating_sub(self.inflight());
        let is_limited = room < self.smss.into();
        if is_limited {
            self.core.on_cwnd_limited();
        }
        is_limited
    }

    /// The time at which a full packet may leave; `None` before the first event.
    pub(crate) fn departure(&mut self) -> Option<Timestamp> {
        self.flush();
        let ready = self.core.ready_at(self.now, self.smss.into());
        self.due = (ready > self.now).then_some(ready);
        Some(self.zero? + ready.since(Instant::default()).into())
    }

    pub(crate) fn send_quantum(&mut self) -> u64 {
        self.flush();
        self.core.send_quantum()
    }

    /// The core's estimates, which may be asked for at any time: losses that it has not heard
    /// wait for their ACK.
    pub(crate) fn snapshot(&self) -> Snapshot {
        self.core.snapshot()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fullpipe_cc::Rate;
    use s2n_quic_core::time::{Clock, NoopClock};

    fn ms(ms: u64) -> Timestamp {
        NoopClock.get_time() + std::time::Duration::from_millis(ms)
    }

    /// Ten packets of 1200 bytes, one each millisecond.
    fn flow(algorithm: Algorithm) -> (Flow, Vec<PacketState>) {
        let mut flow = Flow::new(algorithm, Config::new(1), 1200);
        let packets = (0..10).filter_map(|i| flow.sent(ms(i), 1200, false)).collect();
        (flow, packets)
    }

    #[test]
    fn what_left_and_what_is_gone_is_counted() {
        let (mut flow, packets) = flow(Algorithm::BBR3);
        assert_eq!(flow.inflight(), 12_000);
        flow.acked(ms(40), packets[2], ms(2), 3600);
        assert_eq!(flow.inflight(), 8400);
        assert_eq!(flow.snapshot().srtt, Some(Duration::from_millis(38)));
        flow.lost(ms(45), packets[3], false);
        flow.lost(ms(45), packets[4], false);
        assert_eq!(flow.inflight(), 6000);
        flow.discarded(1200);
        assert_eq!(flow.inflight(), 4800);
        flow.acked(ms(50), packets[9], ms(9), 1200);
        assert_eq!((flow.inflight(), flow.core.inflight()), (3600, 3600));
    }

    /// An end that sends and receives: the newest packet that the peer acknowledges is often an
    /// ACK.
    #[test]
    fn data_and_marks_count_when_the_newest_that_is_acknowledged_is_an_ack_alone() {
        assert_eq!(Flow::new(Algorithm::RENO, Config::new(1), 1200).sent(ms(0), 0, false), None);
        let (mut flow, _) = flow(Algorithm::RENO);
        let ack = flow.sent(ms(15), 0, false).expect("data was sent before it");
        assert_eq!((ack.size(), flow.inflight()), (0, 12_000), "it is not in flight");
        flow.acked(ms(55), ack, ms(15), 6000);
        let snapshot = flow.snapshot();
        assert_eq!((flow.inflight(), snapshot.delivered), (6000, 6000));
        assert_eq!(snapshot.srtt, Some(Duration::from_millis(40)), "from the ACK to its own");
        let before = flow.cwnd();
        flow.ce(ms(60), 1);
        flow.acked(ms(60), ack, ms(15), 1200);
        assert_eq!(flow.cwnd(), before / 2, "a mark is a congestion event");
    }

    /// The peer's window leaves s2n-quic without data after each packet.
    #[test]
    fn a_sender_whose_application_has_data_is_not_application_limited() {
        let mut flow = Flow::new(Algorithm::BBR3, Config::new(1), 1200);
        let unsent = Unsent::default();
        flow.set_unsent(&unsent);
        let writer = unsent.writer();
        let _ = flow.sent(ms(0), 1200, true);
        assert!(!flow.snapshot().app_limited);
        drop(writer);
        let _ = flow.sent(ms(1), 1200, true);
        assert!(flow.snapshot().app_limited);
    }

    /// A response to losses that came one by one would be one for each.
    #[test]
    fn losses_of_one_ack_are_one_event() {
        let (mut flow, packets) = flow(Algorithm::RENO);
        let before = flow.cwnd();
        for packet in &packets[..4] {
            flow.lost(ms(50), *packet, false);
            // Somebody looks from outside.
            let _ = flow.snapshot();
        }
        assert_eq!(flow.lost.len(), 4, "they wait for their ACK");
        flow.acked(ms(50), packets[9], ms(9), 1200);
        assert_eq!(flow.cwnd(), before / 2);
        // Another one of the same round trip changes nothing.
        flow.lost(ms(51), packets[4], false);
        assert_eq!(flow.cwnd(), before / 2);
    }

    /// The loss timer has no ACK: whoever asks for the window hears of it.
    #[test]
    fn losses_without_an_ack_are_told_when_somebody_asks() {
        let (mut flow, packets) = flow(Algorithm::RENO);
        let before = flow.cwnd();
        flow.lost(ms(900), packets[0], true);
        assert!(flow.cwnd() < before / 2, "persistent congestion: {}", flow.cwnd());
    }

    #[test]
    fn packets_leave_at_the_rate() {
        let mut flow =
            Flow::new(Algorithm::Fixed(Rate::from_bytes_per_sec(1_200_000)), Config::new(1), 1200);
        assert_eq!(flow.departure(), None, "at once");
        let mut at = ms(0);
        for _ in 0..100 {
            let _ = flow.sent(at, 1200, false);
            at = at.max(flow.departure().expect("it has begun"));
        }
        let took = at.saturating_duration_since(ms(0));
        // What may leave at once at the start is the credit.
        assert!(
            (85..=100).contains(&took.as_millis()),
            "100 packets at one a millisecond: {took:?}"
        );
    }

    #[test]
    fn the_window_stops_the_sender() {
        let mut flow = Flow::new(Algorithm::CUBIC, Config::new(1), 1200);
        let mut sent = 0;
        while !flow.is_limited() {
            let _ = flow.sent(ms(0), 1200, false);
            sent += 1;
        }
        assert_eq!(sent, 10);
        flow.mtu(1400);
        assert_eq!(flow.smss, 1400);
    }
}
