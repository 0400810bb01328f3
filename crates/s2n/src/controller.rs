//! The core as s2n-quic's congestion controller.

use std::cell::RefCell;

use fullpipe_adapter::Unsent;
use fullpipe_cc::{Algorithm, Config, PacketState, Snapshot};
use s2n_quic::provider::congestion_controller::{
    CongestionController, Publisher, RandomGenerator, RttEstimator, Timestamp,
};

use crate::flow::Flow;

/// One of our algorithms as s2n-quic sees it: the controller of one path.
#[derive(Clone, Debug)]
pub struct S2nController {
    /// s2n-quic asks by shared reference, and an answer needs what it has told so far.
    flow: RefCell<Flow>,
}

impl S2nController {
    pub(crate) fn new(algorithm: Algorithm, config: Config, max_datagram_size: u16) -> Self {
        Self { flow: RefCell::new(Flow::new(algorithm, config, max_datagram_size)) }
    }

    /// All that the algorithm believes.
    pub fn snapshot(&self) -> Snapshot {
        self.flow.borrow().snapshot()
    }

    /// From now on the connection is application-limited only while no writer of `unsent` has data.
    /// Without this it is whenever s2n-quic has nothing to send, and a BBR whose peer's window is
    /// below its own does not leave Startup.
    pub fn set_unsent(&mut self, unsent: &Unsent) {
        self.flow.get_mut().set_unsent(unsent);
    }
}

/// Bytes as s2n-quic counts them.
fn small(bytes: u64) -> u32 {
    u32::try_from(bytes).unwrap_or(u32::MAX)
}

impl CongestionController for S2nController {
    /// Nothing for an ACK alone before anything else was sent.
    type PacketInfo = Option<PacketState>;

    fn congestion_window(&self) -> u32 {
        small(self.flow.borrow_mut().cwnd())
    }

    fn bytes_in_flight(&self) -> u32 {
        small(self.flow.borrow_mut().inflight())
    }

    fn is_congestion_limited(&self) -> bool {
        self.flow.borrow_mut().is_limited()
    }

    /// Never: the core's window has room for a retransmission, and the draft sends none past it.
    fn requires_fast_retransmission(&self) -> bool {
        false
    }

    fn on_packet_sent<Pub: Publisher>(
        &mut self,
        time_sent: Timestamp,
        sent_bytes: usize,
        app_limited: Option<bool>,
        _rtt_estimator: &RttEstimator,
        _publisher: &mut Pub,
    ) -> Self::PacketInfo {
        // A handshake's packets are all that there is to send.
        let is_app_limited = app_limited.unwrap_or(true);
        self.flow.get_mut().sent(time_sent, small(sent_bytes as u64), is_app_limited)
    }

    fn on_rtt_update<Pub: Publisher>(
        &mut self,
        _time_sent: Timestamp,
        _now: Timestamp,
        _rtt_estimator: &RttEstimator,
        _publisher: &mut Pub,
    ) {
        // The core takes the round trip from the newest acknowledged packet.
    }

    fn on_ack<Pub: Publisher>(
        &mut self,
        newest_acked_time_sent: Timestamp,
        bytes_acknowledged: usize,
        newest_acked_packet_info: Self::PacketInfo,
        _rtt_estimator: &RttEstimator,
        _random_generator: &mut dyn RandomGenerator,
        ack_receive_time: Timestamp,
        _publisher: &mut Pub,
    ) {
        // Without a newest nothing was sent on this path that could be acknowledged.
        if let Some(newest) = newest_acked_packet_info {
            let bytes = bytes_acknowledged as u64;
            self.flow.get_mut().acked(ack_receive_time, newest, newest_acked_time_sent, bytes);
        }
    }

    fn on_packet_lost<Pub: Publisher>(
        &mut self,
        _lost_bytes: u32,
        packet_info: Self::PacketInfo,
        persistent_congestion: bool,
        _new_loss_burst: bool,
        _random_generator: &mut dyn RandomGenerator,
        timestamp: Timestamp,
        _publisher: &mut Pub,
    ) {
        if let Some(packet) = packet_info {
            self.flow.get_mut().lost(timestamp, packet, persistent_congestion);
        }
    }

    fn on_explicit_congestion<Pub: Publisher>(
        &mut self,
        ce_count: u64,
        event_time: Timestamp,
        _publisher: &mut Pub,
    ) {
        self.flow.get_mut().ce(event_time, ce_count);
    }

    fn on_mtu_update<Pub: Publisher>(&mut self, max_data_size: u16, _publisher: &mut Pub) {
        self.flow.get_mut().mtu(max_data_size);
    }

    fn on_packet_discarded<Pub: Publisher>(&mut self, bytes_sent: usize, _publisher: &mut Pub) {
        self.flow.get_mut().discarded(bytes_sent as u64);
    }

    fn earliest_departure_time(&self) -> Option<Timestamp> {
        self.flow.borrow_mut().departure()
    }

    fn send_quantum(&self) -> Option<usize> {
        usize::try_from(self.flow.borrow_mut().send_quantum()).ok()
    }
}
