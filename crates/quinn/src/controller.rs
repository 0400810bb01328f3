//! The core as quinn's congestion controller.

use std::any::Any;
use std::fmt;
use std::sync::Arc;
use std::time::Instant;

use fullpipe_adapter::{Marks, PathConfigs, Unsent};
use fullpipe_cc::{Algorithm, BandwidthProbe, Rate, Snapshot};
#[cfg(feature = "careful-resume")]
use fullpipe_cc::{Duration, ResumePhase, SavedParameters};
use quinn::congestion::{Controller, ControllerFactory, ControllerMetrics};
// quinn has it in a signature of its trait and exports it nowhere.
use quinn_proto::RttEstimator;

use crate::path::Path;

/// A factory for quinn's `TransportConfig`, which builds a controller for each path of each
/// connection.
#[derive(Debug)]
pub struct Controllers(PathConfigs);

impl Controllers {
    /// Those of an algorithm. The seed of the randomised probe times is drawn.
    pub fn new(algorithm: Algorithm) -> Self {
        Self(PathConfigs::new(algorithm))
    }

    /// The same with a seed, for runs that repeat. Each path gets one of its own, made from `seed`
    /// in the order in which they are built.
    #[must_use]
    pub fn with_seed(self, seed: u64) -> Self {
        Self(self.0.with_seed(seed))
    }

    /// The same for one connection over a path whose parameters an earlier one has left
    /// ([`QuinnController::saved_parameters`]): Careful Resume, RFC 9959. The connection's first
    /// path alone begins with them.
    #[cfg(feature = "careful-resume")]
    #[must_use]
    pub fn resuming(self, saved: SavedParameters) -> Self {
        Self(self.0.resuming(saved))
    }

    /// The same for parameters that live for no more than `lifetime` from now on, and a minute at
    /// most.
    #[cfg(feature = "careful-resume")]
    #[must_use]
    pub fn for_lifetime(self, lifetime: Duration) -> Self {
        Self(self.0.for_lifetime(lifetime))
    }

    /// The same for one connection on which marks are those of L4S ([`fullpipe_cc::Config::ecn`]),
    /// whose number is in `marks`: the connection's packets leave as ECT(1), and its TLS is that of
    /// [`crate::l4s_client`].
    #[must_use]
    pub fn with_marks(self, marks: Marks) -> Self {
        Self(self.0.with_marks(marks))
    }
}

impl ControllerFactory for Controllers {
    fn build(self: Arc<Self>, now: Instant, current_mtu: u16) -> Box<dyn Controller> {
        let (algorithm, config) = (self.0.algorithm(), self.0.next_config());
        let path = Path::new(algorithm, config, now, current_mtu, self.0.marks());
        Box::new(QuinnController { path })
    }
}

/// One of our algorithms as quinn sees it.
pub struct QuinnController {
    path: Arc<Path>,
}

impl QuinnController {
    /// All that the algorithm believes. On a clone from `congestion_state`: at that moment.
    pub fn snapshot(&self) -> Snapshot {
        self.path.view().snapshot
    }

    /// Asks whether the path carries `target` at `now`: see
    /// [`fullpipe_cc::Controller::probe_bandwidth`]. A clone from `congestion_state` passes it on
    /// to the controller that the connection sends with, from any thread; a probe begins with the
    /// next ACK. [`Snapshot::send_rate_estimate`] is the rate to plan with.
    ///
    /// ```
    /// use std::time::Instant;
    ///
    /// use fullpipe_quinn::{BandwidthProbe, QuinnController, Rate};
    ///
    /// /// True if padding, or a higher quality, is to fill the flow up to `target` now.
    /// fn wants_padding(connection: &quinn::Connection, target: Rate) -> bool {
    ///     let controller = connection.congestion_state().into_any();
    ///     let answer = match controller.downcast::<QuinnController>() {
    ///         Ok(ours) => ours.probe_bandwidth(Instant::now(), target),
    ///         Err(_) => return false, // one of quinn's own
    ///     };
    ///     answer == BandwidthProbe::Probing
    /// }
    /// ```
    pub fn probe_bandwidth(&self, now: Instant, target: Rate) -> BandwidthProbe {
        let path = Path::of_the_connection(&self.path);
        let mut state = path.lock();
        // An ACK may be half told; what is kept of it is the stack's to end.
        let now = state.clock.of(now).max(state.clock.latest());
        state.core.probe_bandwidth(now, target)
    }

    /// From now on the connection is application-limited only while no writer of `unsent` has data.
    /// Without this it is whenever quinn has nothing to send, and a BBR whose peer's window, or
    /// whose send window, is below its own does not leave Startup. A clone from `congestion_state`
    /// passes it on to the controller that the connection sends with. quinn keeps that for as long
    /// as the peer's IP address is the same; for another address it makes a new one, which is to be
    /// told again.
    ///
    /// ```
    /// use fullpipe_quinn::{QuinnController, Unsent};
    /// use quinn::WriteError;
    ///
    /// /// Sends blocks that come from somewhere else.
    /// async fn send(
    ///     connection: &quinn::Connection,
    ///     stream: &mut quinn::SendStream,
    ///     mut blocks: impl AsyncFnMut() -> Option<bytes::Bytes>,
    /// ) -> Result<(), WriteError> {
    ///     // One for all streams of the connection.
    ///     let unsent = Unsent::default();
    ///     let controller = connection.congestion_state().into_any();
    ///     if let Ok(ours) = controller.downcast::<QuinnController>() {
    ///         ours.set_unsent(&unsent);
    ///     }
    ///     // One for each stream.
    ///     let mut writer = unsent.writer();
    ///     while let Some(block) = writer.source(blocks()).await {
    ///         stream.write_chunk(block).await?;
    ///     }
    ///     Ok(())
    /// }
    /// ```
    pub fn set_unsent(&self, unsent: &Unsent) {
        Path::of_the_connection(&self.path).lock().unsent = unsent.clone();
    }

    /// The parameters of this path for a later connection: see
    /// [`fullpipe_cc::Controller::saved_parameters`].
    #[cfg(feature = "careful-resume")]
    pub fn saved_parameters(&self) -> Option<SavedParameters> {
        self.path.view().saved
    }

    /// True if the path did not carry what it began with: see
    /// [`fullpipe_cc::Controller::saved_parameters_failed`].
    #[cfg(feature = "careful-resume")]
    pub fn saved_parameters_failed(&self) -> bool {
        self.path.view().has_failed
    }

    /// The phase of Careful Resume: see [`fullpipe_cc::Controller::resume_phase`].
    #[cfg(feature = "careful-resume")]
    pub fn resume_phase(&self) -> Option<ResumePhase> {
        self.path.view().phase
    }
}

impl Controller for QuinnController {
    fn on_sent(&mut self, now: Instant, bytes: u64, _last_packet_number: u64) {
        self.path.made(now, bytes);
    }

    fn on_ack(
        &mut self,
        now: Instant,
        sent: Instant,
        bytes: u64,
        app_limited: bool,
        _rtt: &RttEstimator,
    ) {
        let mut state = self.path.lock();
        state.at_clone = None;
        let (now, made) = (state.clock.at(now), state.clock.of(sent));
        state.leave_unseen_at(made);
        if !state.batch.takes_acked(now) {
            state.close_batch();
            if app_limited {
                state.nothing_to_send();
            }
        }
        if let Some(packet) = state.flight.take_acked(made, bytes) {
            state.batch_at(now).acked(packet);
        }
    }

    fn on_end_acks(
        &mut self,
        now: Instant,
        in_flight: u64,
        app_limited: bool,
        _largest_packet_num_acked: Option<u64>,
    ) {
        let mut state = self.path.lock();
        state.at_clone = None;
        let now = state.clock.at(now);
        let in_flight = in_flight.saturating_sub(state.waiting());
        state.batch_at(now).acks_ended(in_flight);
        state.ends_limited = app_limited;
    }

    fn on_congestion_event(
        &mut self,
        now: Instant,
        sent: Instant,
        is_persistent_congestion: bool,
        lost_bytes: u64,
    ) {
        let mut state = self.path.lock();
        state.at_clone = None;
        let (now, newest) = (state.clock.at(now), state.clock.of(sent));
        state.leave_unseen_at(newest);
        let lost = state.flight.take_lost(newest, lost_bytes);
        // quinn reports marks in this way.
        let marked = (lost_bytes == 0).then(|| state.newly_marked());
        let batch = state.batch_at(now);
        let is_loss = !lost.is_empty();
        lost.into_iter().for_each(|packet| batch.lost(packet));
        if let Some(packets) = marked {
            batch.ce(packets);
        }
        if is_persistent_congestion {
            batch.persistent_congestion();
        }
        // What was lost is to be sent again.
        state.ends_limited &= !is_loss;
    }

    fn on_mtu_update(&mut self, new_mtu: u16) {
        let mut state = self.path.lock();
        state.close_batch();
        state.smss = u32::from(new_mtu);
        let (now, smss) = (state.clock.latest(), state.smss);
        state.core.on_mtu_update(now, smss, None);
    }

    fn window(&self) -> u64 {
        let mut state = self.path.lock();
        state.close_batch();
        // quinn 0.11 sends while a full packet stays below the window, the core while it fits. A
        // window of whole packets would never be full, and one of a single packet never open.
        state.core.cwnd().saturating_add(1)
    }

    fn metrics(&self) -> ControllerMetrics {
        let mut state = self.path.lock();
        state.close_batch();
        // The struct cannot be built by name outside quinn.
        let mut metrics = ControllerMetrics::default();
        metrics.congestion_window = state.core.cwnd();
        metrics.ssthresh = state.core.metrics().ssthresh;
        metrics.pacing_rate = state.core.pacing_rate().map(|rate| rate.as_bits_per_sec());
        metrics
    }

    fn clone_box(&self) -> Box<dyn Controller> {
        Box::new(Self { path: Path::clone_of(&self.path) })
    }

    fn initial_window(&self) -> u64 {
        self.path.lock().core.initial_cwnd()
    }

    fn into_any(self: Box<Self>) -> Box<dyn Any> {
        self
    }
}

impl fmt::Debug for QuinnController {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("QuinnController").field(&self.path.lock().core).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// quinn sends while a full packet stays below the window: all of the core's window leaves.
    #[test]
    fn a_window_of_whole_packets_is_filled() {
        const MTU: u64 = 1200;
        let now = Instant::now();
        let factory = Arc::new(Controllers::new(Algorithm::CUBIC).with_seed(1));
        let mut controller = factory.build(now, MTU as u16);
        let (window, mut in_flight) = (controller.initial_window(), 0);
        while in_flight + MTU < controller.window() {
            controller.on_sent(now, MTU, in_flight / MTU);
            in_flight += MTU;
        }
        assert_eq!(in_flight, window);
    }
}
