//! One flow on one path, which its owner drives event by event: its application is its owner.

use fullpipe_cc::{Instant, Rate, Snapshot};
use fullpipe_path::{ConfigError, PathConfig, Probability, Selection};
use fullpipe_sim::{Flow, FlowConfig, Io, Sim, SimConfig, World};
use fullpipe_traffic::Application;

use super::quic_virtual::Gap;
use super::virtual_time::Observed;
use super::{RunError, quic_virtual};

pub use super::quic_virtual::QuicFlowConfig;

/// The flow: there is one.
pub(super) const FLOW: usize = 0;

/// A flow that its owner drives event by event, with changes of its path and its application in
/// between. Its application has data without an end with the first event after the handshake,
/// unless its owner says otherwise before.
pub trait DrivenFlow {
    /// The virtual time.
    fn now(&self) -> Instant;
    /// The time of the next event.
    fn next_event(&self) -> Option<Instant>;
    /// Lets the next thing happen.
    fn step(&mut self);
    /// Lets everything happen until `time`.
    fn run_until(&mut self, time: Instant);
    /// True once application data may leave.
    fn is_connected(&self) -> bool;
    /// The sender's model of the path after the last event.
    fn snapshot(&self) -> &Snapshot;
    /// The variables that the snapshot does not have.
    fn gaps(&self) -> &'static [Gap];
    /// The error of the last look at a controller of the stack's own, once: the snapshot is older.
    fn take_error(&mut self) -> Option<RunError>;
    /// Application bytes that the receiver has read.
    fn received(&self) -> u64;
    /// Packets that the sender took for lost.
    fn lost_packets(&self) -> u64;
    /// The application has nothing more to send: what has not left is forgotten.
    fn pause(&mut self);
    /// The application has data without an end.
    fn resume(&mut self);
    /// The application writes `bytes`; the largest number is data without an end.
    fn write(&mut self, bytes: u64);
    /// The bottleneck's rate from now on.
    ///
    /// # Errors
    /// Fails for a rate of zero.
    fn set_rate(&mut self, rate: Rate) -> Result<(), ConfigError>;
    /// The data's random loss from now on.
    fn set_loss(&mut self, probability: Probability, seed: u64);
    /// The packets that the data's reordering holds back from now on.
    ///
    /// # Errors
    /// Fails if the selection makes no sense, or the path has no reordering.
    fn set_reordered(&mut self, packets: Selection) -> Result<(), ConfigError>;
}

/// A flow whose sender shows its model, and whose application does as its owner says.
pub(super) trait Steered: Observed {
    /// The state of whoever looks at the sender.
    type Look;

    /// True once application data may leave.
    fn is_connected(&self) -> bool;
    /// The sender's model; `None` if its connection is gone.
    ///
    /// # Errors
    /// Fails for a controller of the stack's own whose state is not as expected.
    fn model(world: &mut World<Self>, look: &mut Self::Look) -> Result<Option<Snapshot>, RunError>;
    /// The application has nothing more to send, and what has not left is forgotten.
    fn withhold(&mut self);
    /// The application has so many bytes more to send; the largest number is data without an end.
    fn offer(&mut self, io: &mut Io<'_, Self>, bytes: u64);
}

/// A world of one flow.
pub(super) struct Driven<E: Steered> {
    world: World<E>,
    look: E::Look,
    gaps: &'static [Gap],
    snapshot: Snapshot,
    lost_packets: u64,
    error: Option<RunError>,
    /// The application has not begun.
    is_waiting: bool,
}

impl<E: Steered> Driven<E> {
    /// A flow whose application begins with the first event after the handshake, or has begun.
    ///
    /// # Errors
    /// As [`Steered::model`], and if there is no connection.
    pub(super) fn new(
        mut world: World<E>,
        mut look: E::Look,
        gaps: &'static [Gap],
        is_waiting: bool,
    ) -> Result<Self, RunError> {
        let snapshot = E::model(&mut world, &mut look)?.ok_or(RunError::Lost)?;
        Ok(Self { world, look, gaps, snapshot, lost_packets: 0, error: None, is_waiting })
    }

    /// Takes over what an event made of the sender.
    fn look(&mut self) {
        match E::model(&mut self.world, &mut self.look) {
            Ok(Some(now)) => self.snapshot = now,
            Ok(None) => {}
            Err(error) => self.error = Some(error),
        }
        self.lost_packets = E::sent(&mut self.world, FLOW).lost_packets;
    }

    fn offer(&mut self, bytes: u64) {
        self.is_waiting = false;
        self.world.with(FLOW as u32, |flow, io| flow.offer(io, bytes));
        self.look();
    }

    fn is_about_to_begin(&self) -> bool {
        self.is_waiting && self.is_connected()
    }
}

impl<E: Steered> DrivenFlow for Driven<E> {
    fn now(&self) -> Instant {
        self.world.now()
    }

    fn next_event(&self) -> Option<Instant> {
        if self.is_about_to_begin() { Some(self.now()) } else { self.world.next_event() }
    }

    fn step(&mut self) {
        if self.is_about_to_begin() {
            return self.resume();
        }
        self.world.step();
        self.look();
    }

    fn run_until(&mut self, time: Instant) {
        if self.is_about_to_begin() {
            self.resume();
        }
        self.world.run_until(time);
        self.look();
    }

    fn is_connected(&self) -> bool {
        self.world.flow(FLOW).is_connected()
    }

    fn snapshot(&self) -> &Snapshot {
        &self.snapshot
    }

    fn gaps(&self) -> &'static [Gap] {
        self.gaps
    }

    fn take_error(&mut self) -> Option<RunError> {
        self.error.take()
    }

    fn received(&self) -> u64 {
        self.world.flow(FLOW).received()
    }

    fn lost_packets(&self) -> u64 {
        self.lost_packets
    }

    fn pause(&mut self) {
        self.is_waiting = false;
        self.world.flow_mut(FLOW).withhold();
        self.look();
    }

    fn resume(&mut self) {
        self.offer(u64::MAX);
    }

    fn write(&mut self, bytes: u64) {
        self.offer(bytes);
    }

    fn set_rate(&mut self, rate: Rate) -> Result<(), ConfigError> {
        self.world.set_rate(0, rate)
    }

    fn set_loss(&mut self, probability: Probability, seed: u64) {
        self.world.set_loss(0, probability, seed);
    }

    fn set_reordered(&mut self, packets: Selection) -> Result<(), ConfigError> {
        self.world.set_reordered(0, packets)
    }
}

impl Steered for Flow {
    type Look = ();

    fn is_connected(&self) -> bool {
        true
    }

    fn model(world: &mut Sim, (): &mut ()) -> Result<Option<Snapshot>, RunError> {
        Ok(Some(world.flow(FLOW).snapshot()))
    }

    fn withhold(&mut self) {
        self.pause();
    }

    fn offer(&mut self, io: &mut Io<'_, Self>, bytes: u64) {
        if bytes == u64::MAX { self.resume(io) } else { self.write(io, bytes) }
    }
}

/// A bulk flow in the simulator, whose connection is there.
///
/// # Errors
/// Fails for a path or a flow that makes no sense.
pub fn over_sim(
    downlink: PathConfig,
    uplink: PathConfig,
    flow: FlowConfig,
) -> Result<Box<dyn DrivenFlow>, RunError> {
    let flow = FlowConfig { handshake: false, application: Application::Bulk, ..flow };
    let sim = Sim::new(&SimConfig::new(downlink, uplink, vec![flow]))?;
    Ok(Box::new(Driven::new(sim, (), &[], false)?))
}

/// A flow of noq that has just begun its handshake.
///
/// # Errors
/// Fails for a path that makes no sense, without an identity for TLS, and for a controller of the
/// stack's own that is no BBR, or whose text is not as expected.
pub fn over_noq(
    downlink: PathConfig,
    uplink: PathConfig,
    config: QuicFlowConfig,
) -> Result<Box<dyn DrivenFlow>, RunError> {
    quic_virtual::drive::<quic_virtual::Noq>(downlink, uplink, config)
}

/// The same of quinn.
///
/// # Errors
/// As [`over_noq`].
#[cfg(feature = "quinn")]
pub fn over_quinn(
    downlink: PathConfig,
    uplink: PathConfig,
    config: QuicFlowConfig,
) -> Result<Box<dyn DrivenFlow>, RunError> {
    quic_virtual::drive::<quic_virtual::Quinn>(downlink, uplink, config)
}
