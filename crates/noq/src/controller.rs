//! fullpipe-cc inside noq, through noq's public `Controller` trait.
//!
//! noq tells its controllers less than a controller needs, and in an order of its own. What this
//! adapter absorbs:
//!
//! - **One ACK is several calls.** noq calls `on_ack` for each packet, `on_end_acks`, then updates
//!   its RTT, and only then marks losses. The draft wants one batch. So the calls are kept, and the
//!   batch is closed by the first call that can't belong to it; the window and the rate are read
//!   through `&self`, and these reads close it as well. Hence the mutex.
//! - **The RTT it passes is one ACK old**, so the sample is `now - sent` of the newest packet.
//! - **Packets come back by number**, and Initial, Handshake and application data count apart: the
//!   state of a packet is found by number and send time (see [`flight`]).
//! - **Some packets leave its count without a word** (discarded keys, MTU probes, padding):
//!   C.inflight is taken over from `on_end_acks`, and states that nobody asked for are let go.
//! - **`app_limited` is known at ACK time only**; the mark is set before the ACK is counted. noq says
//!   so when its last attempt to send found nothing to send, also where the peer's flow control or
//!   noq's own send window kept the application's data out. That is no reason for the draft's mark,
//!   and noq neither sends DATA_BLOCKED nor tells what it holds: the application says whether it has
//!   data ([`Unsent`]).
//! - **CE is a yes or no**, and counts as one packet, unless the number is known from elsewhere
//!   ([`crate::Controllers::with_marks`]).
//! - **A clone is taken for two ends**: noq keeps the controller when a path migrates within an
//!   address family, and hands a copy to whoever asks for `congestion_state`. Nothing is in flight
//!   on a new path, so the clone forgets the packets of the old one, whose losses noq still
//!   reports; for the onlooker it keeps what the other told at that moment, and passes requests on
//!   to it. That is what the mutex is shared for.
//!
//! Persistent congestion (RFC 9002 section 7.6) is the draft's retransmission timeout.

mod flight;

use std::any::Any;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use fullpipe_adapter::{Batch, Clock, Marks, Unsent, View};
use fullpipe_cc::{
    Algorithm, BandwidthProbe, Config, Controller as Core, Instant, Rate, Snapshot, Transport,
};
use noq::congestion::{Controller, ControllerMetrics};
// noq has it in a signature of its trait and exports it nowhere.
use noq_proto::RttEstimator;

use flight::Flight;

type NoqInstant = std::time::Instant;

/// One of our algorithms as noq sees it.
pub struct NoqController {
    inner: Arc<Mutex<Inner>>,
}

struct Inner {
    core: Core,
    clock: Clock,
    flight: Flight,
    batch: Batch,
    /// The number of packets that were marked, where it is known.
    marks: Option<Marks>,
    /// The application's data that noq has not taken.
    unsent: Unsent,
    /// For a clone: for `congestion_state`, until an event says that it is for a new path.
    at_clone: Option<Box<Cloned>>,
}

/// The controller that a clone was made from, and what it told then.
struct Cloned {
    view: View,
    of: Arc<Mutex<Inner>>,
}

impl NoqController {
    /// `config` needs no packet size, no initial window and no transport.
    pub(crate) fn new(
        algorithm: Algorithm,
        config: Config,
        base: NoqInstant,
        mtu: u16,
        marks: Option<Marks>,
    ) -> Self {
        let config = Config { smss: u32::from(mtu), transport: Transport::Quic, ..config };
        let start = Instant::default();
        Self {
            inner: share(Inner {
                core: Core::new(algorithm, config, start),
                clock: Clock::new(base),
                flight: Flight::default(),
                batch: Batch::default(),
                marks,
                unsent: Unsent::default(),
                at_clone: None,
            }),
        }
    }

    /// All that the algorithm believes. On a clone from `congestion_state`: at that moment.
    pub fn snapshot(&self) -> Snapshot {
        self.view().snapshot
    }

    /// Asks whether the path carries `target` at `now`: see
    /// [`fullpipe_cc::Controller::probe_bandwidth`]. A clone from `congestion_state` passes it on
    /// to the controller that the connection sends with, from any thread; a probe begins with the
    /// next ACK. [`Snapshot::send_rate_estimate`] is the rate to plan with.
    ///
    /// ```
    /// use std::time::Instant;
    ///
    /// use fullpipe_noq::{BandwidthProbe, NoqController, Rate};
    /// use noq::PathId;
    ///
    /// /// True if padding, or a higher quality, is to fill the flow up to `target` now.
    /// fn wants_padding(connection: &noq::Connection, target: Rate) -> bool {
    ///     let Some(controller) = connection.congestion_state(PathId::ZERO) else { return false };
    ///     let answer = match controller.into_any().downcast::<NoqController>() {
    ///         Ok(ours) => ours.probe_bandwidth(Instant::now(), target),
    ///         Err(_) => return false, // one of noq's own
    ///     };
    ///     answer == BandwidthProbe::Probing
    /// }
    /// ```
    pub fn probe_bandwidth(&self, now: NoqInstant, target: Rate) -> BandwidthProbe {
        let inner = self.of_the_connection();
        let mut inner = lock(&inner);
        // An ACK may be half told; what is kept of it is noq's to end.
        let now = inner.clock.of(now).max(inner.clock.latest());
        inner.core.probe_bandwidth(now, target)
    }

    /// From now on the connection is application-limited only while no writer of `unsent` has data.
    /// Without this it is whenever noq has nothing to send, and a BBR whose peer's window, or whose
    /// send window, is below its own does not leave Startup. A clone from `congestion_state` passes
    /// it on to the controller that the connection sends with. noq keeps that for as long as the
    /// peer's IPv4 address is the same; for another address it makes a new one, which is to be told
    /// again.
    ///
    /// ```
    /// use fullpipe_noq::{NoqController, Unsent};
    /// use noq::{PathId, WriteError};
    ///
    /// /// Sends blocks that come from somewhere else.
    /// async fn send(
    ///     connection: &noq::Connection,
    ///     stream: &mut noq::SendStream,
    ///     mut blocks: impl AsyncFnMut() -> Option<bytes::Bytes>,
    /// ) -> Result<(), WriteError> {
    ///     // One for all streams of the connection.
    ///     let unsent = Unsent::default();
    ///     let controller = connection.congestion_state(PathId::ZERO);
    ///     if let Some(Ok(ours)) = controller.map(|c| c.into_any().downcast::<NoqController>()) {
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
        lock(&self.of_the_connection()).unsent = unsent.clone();
    }

    /// The controller itself, or the one that it is an onlooker's clone of.
    fn of_the_connection(&self) -> Arc<Mutex<Inner>> {
        let mut inner = self.inner.clone();
        loop {
            let of = lock(&inner).at_clone.as_ref().map(|cloned| cloned.of.clone());
            match of {
                Some(of) => inner = of,
                None => return inner,
            }
        }
    }

    /// The parameters of this path for a later connection: see
    /// [`fullpipe_cc::Controller::saved_parameters`].
    #[cfg(feature = "careful-resume")]
    pub fn saved_parameters(&self) -> Option<fullpipe_cc::SavedParameters> {
        self.view().saved
    }

    /// True if the path did not carry what it began with: see
    /// [`fullpipe_cc::Controller::saved_parameters_failed`].
    #[cfg(feature = "careful-resume")]
    pub fn saved_parameters_failed(&self) -> bool {
        self.view().has_failed
    }

    /// The phase of Careful Resume: see [`fullpipe_cc::Controller::resume_phase`].
    #[cfg(feature = "careful-resume")]
    pub fn resume_phase(&self) -> Option<fullpipe_cc::ResumePhase> {
        self.view().phase
    }

    fn view(&self) -> View {
        let mut inner = self.lock();
        inner.close_batch();
        inner.view()
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        lock(&self.inner)
    }

    /// For an event.
    fn inner(&mut self) -> MutexGuard<'_, Inner> {
        let mut inner = self.lock();
        inner.at_clone = None;
        inner
    }
}

fn share(inner: Inner) -> Arc<Mutex<Inner>> {
    Arc::new(Mutex::new(inner))
}

/// A panic while the lock was held leaves a model that is merely out of date.
fn lock(inner: &Mutex<Inner>) -> MutexGuard<'_, Inner> {
    inner.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Inner {
    fn view(&self) -> View {
        self.at_clone.as_ref().map_or_else(|| View::of(&self.core), |cloned| cloned.view)
    }

    /// The batch that an event at `now` belongs to: the open one, or a new one.
    fn batch_at(&mut self, now: Instant) -> &mut Batch {
        if !self.batch.is_at(now) {
            self.close_batch();
        }
        self.batch.open(now)
    }

    /// Gives the core what is kept, in one batch.
    fn close_batch(&mut self) {
        if let Some(old) = self.batch.close(&mut self.core) {
            self.flight.forget_before(old);
        }
    }
}

impl Controller for NoqController {
    fn on_packet_sent(&mut self, now: NoqInstant, bytes: u16, pn: u64) {
        let mut inner = self.inner();
        inner.close_batch();
        let now = inner.clock.at(now);
        let state = inner.core.on_sent(now, u32::from(bytes));
        inner.flight.insert(pn, state);
    }

    fn on_cwnd_limited(&mut self) {
        let mut inner = self.inner();
        inner.close_batch();
        inner.core.on_cwnd_limited();
    }

    fn on_ack(
        &mut self,
        now: NoqInstant,
        sent: NoqInstant,
        _bytes: u64,
        pn: u64,
        app_limited: bool,
        _rtt: &RttEstimator,
    ) {
        let mut inner = self.inner();
        let (now, sent) = (inner.clock.at(now), inner.clock.of(sent));
        if !inner.batch.takes_acked(now) {
            inner.close_batch();
            if app_limited && inner.unsent.is_none() {
                inner.core.on_app_limited();
            }
        }
        if let Some(state) = inner.flight.take_acked(pn, sent) {
            inner.batch_at(now).acked(state);
        }
    }

    fn on_end_acks(
        &mut self,
        now: NoqInstant,
        in_flight: u64,
        _app_limited: bool,
        _largest_packet_num_acked: Option<u64>,
    ) {
        let mut inner = self.inner();
        let now = inner.clock.at(now);
        inner.batch_at(now).acks_ended(in_flight);
    }

    fn on_packet_lost(&mut self, lost_bytes: u16, pn: u64, now: NoqInstant) {
        let mut inner = self.inner();
        let now = inner.clock.at(now);
        // Not found: a packet of the path before a migration, which is no news about this one.
        if let Some(state) = inner.flight.take_lost(pn, u64::from(lost_bytes)) {
            inner.batch_at(now).lost(state);
        }
    }

    fn on_congestion_event(
        &mut self,
        now: NoqInstant,
        _sent: NoqInstant,
        is_persistent_congestion: bool,
        is_ecn: bool,
        _lost_bytes: u64,
        _largest_lost_pn: u64,
    ) {
        let mut inner = self.inner();
        let now = inner.clock.at(now);
        // At least one: noq says so.
        let heard = || inner.marks.as_ref().map_or(1, |marks| marks.take().max(1));
        let marked = if is_ecn { heard() } else { 0 };
        let batch = inner.batch_at(now);
        batch.ce(marked);
        if is_persistent_congestion {
            batch.persistent_congestion();
        }
    }

    fn on_spurious_congestion_event(&mut self) {
        let mut inner = self.inner();
        inner.close_batch();
        let now = inner.clock.latest();
        inner.core.on_spurious_loss(now);
    }

    fn on_mtu_update(&mut self, new_mtu: u16) {
        let mut inner = self.inner();
        inner.close_batch();
        let now = inner.clock.latest();
        inner.core.on_mtu_update(now, u32::from(new_mtu), None);
    }

    fn window(&self) -> u64 {
        let mut inner = self.lock();
        inner.close_batch();
        inner.core.cwnd()
    }

    fn metrics(&self) -> ControllerMetrics {
        let mut inner = self.lock();
        inner.close_batch();
        let core = &inner.core;
        let ours = core.metrics();
        // The struct can't be built by name outside noq.
        let mut metrics = ControllerMetrics::default();
        metrics.congestion_window = ours.cwnd;
        metrics.ssthresh = ours.ssthresh;
        metrics.pacing_rate = ours.pacing_rate.map(|rate| rate.as_bytes_per_sec());
        metrics.send_quantum = Some(core.send_quantum());
        metrics.bandwidth_estimate = ours.bandwidth.map(|rate| rate.as_bits_per_sec());
        metrics
    }

    fn clone_box(&self) -> Box<dyn Controller> {
        let mut inner = self.lock();
        inner.close_batch();
        let cloned = Cloned { view: inner.view(), of: self.inner.clone() };
        let mut core = inner.core.clone();
        core.forget_flight();
        let clone = Inner {
            core,
            flight: Flight::default(),
            batch: Batch::default(),
            marks: inner.marks.clone(),
            unsent: inner.unsent.clone(),
            at_clone: Some(Box::new(cloned)),
            clock: inner.clock,
        };
        Box::new(Self { inner: share(clone) })
    }

    fn initial_window(&self) -> u64 {
        self.lock().core.initial_cwnd()
    }

    fn into_any(self: Box<Self>) -> Box<dyn Any> {
        self
    }
}

impl fmt::Debug for NoqController {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("NoqController").field(&self.lock().core).finish()
    }
}
