//! One flow on one path, over the simulator or over a real stack.

use fullpipe_cc::{Instant, Rate, Snapshot};
use fullpipe_lab::RunError;
use fullpipe_lab::backend::{Gap, QuicFlow};
use fullpipe_path::{ConfigError, Probability, Selection};
use fullpipe_sim::Sim;

/// A flow as the cases drive it: event by event, with changes of its path and its application in
/// between. Its application has data without an end at first.
pub(super) trait Flow {
    fn now(&self) -> Instant;
    fn next_event(&self) -> Option<Instant>;
    /// Lets the next thing happen.
    fn step(&mut self);
    fn run_until(&mut self, time: Instant);
    /// True once application data may leave.
    fn is_connected(&self) -> bool;
    fn snapshot(&self) -> Snapshot;
    /// The variables that the snapshot does not have.
    fn gaps(&self) -> &'static [Gap];
    /// The reason for which the last snapshot could not be made, once.
    fn take_error(&mut self) -> Option<RunError>;
    /// Application bytes that have arrived.
    fn received(&self) -> u64;
    fn lost_packets(&self) -> u64;
    /// The application has nothing more to send.
    fn pause(&mut self);
    /// It has data without an end again.
    fn resume(&mut self);
    /// It writes so many bytes.
    fn write(&mut self, bytes: u64);
    fn set_rate(&mut self, rate: Rate) -> Result<(), ConfigError>;
    fn set_loss(&mut self, probability: Probability, seed: u64);
    fn set_reordered(&mut self, packets: Selection) -> Result<(), ConfigError>;
}

impl Flow for Sim {
    fn now(&self) -> Instant {
        self.now()
    }

    fn next_event(&self) -> Option<Instant> {
        self.next_event()
    }

    fn step(&mut self) {
        self.step();
    }

    fn run_until(&mut self, time: Instant) {
        self.run_until(time);
    }

    fn is_connected(&self) -> bool {
        true
    }

    fn snapshot(&self) -> Snapshot {
        self.flow(0).snapshot()
    }

    fn gaps(&self) -> &'static [Gap] {
        &[]
    }

    fn take_error(&mut self) -> Option<RunError> {
        None
    }

    fn received(&self) -> u64 {
        self.flow(0).received()
    }

    fn lost_packets(&self) -> u64 {
        self.flow(0).stats().lost_packets
    }

    fn pause(&mut self) {
        self.pause(0);
    }

    fn resume(&mut self) {
        self.resume(0);
    }

    fn write(&mut self, bytes: u64) {
        self.write(0, bytes);
    }

    fn set_rate(&mut self, rate: Rate) -> Result<(), ConfigError> {
        self.set_rate(0, rate)
    }

    fn set_loss(&mut self, probability: Probability, seed: u64) {
        self.set_loss(0, probability, seed);
    }

    fn set_reordered(&mut self, packets: Selection) -> Result<(), ConfigError> {
        self.set_reordered(0, packets)
    }
}

/// A flow of a QUIC stack, whose application begins with the first event after the handshake.
pub(super) struct OfQuic {
    flow: QuicFlow,
    is_waiting: bool,
}

impl OfQuic {
    pub(super) const fn new(flow: QuicFlow) -> Self {
        Self { flow, is_waiting: true }
    }

    fn is_about_to_begin(&self) -> bool {
        self.is_waiting && self.flow.is_connected()
    }
}

impl Flow for OfQuic {
    fn now(&self) -> Instant {
        self.flow.now()
    }

    fn next_event(&self) -> Option<Instant> {
        if self.is_about_to_begin() { Some(self.now()) } else { self.flow.next_event() }
    }

    fn step(&mut self) {
        if self.is_about_to_begin() {
            self.resume();
        } else {
            self.flow.step();
        }
    }

    fn run_until(&mut self, time: Instant) {
        if self.is_about_to_begin() {
            self.resume();
        }
        self.flow.run_until(time);
    }

    fn is_connected(&self) -> bool {
        self.flow.is_connected()
    }

    fn snapshot(&self) -> Snapshot {
        *self.flow.snapshot()
    }

    fn gaps(&self) -> &'static [Gap] {
        self.flow.gaps()
    }

    fn take_error(&mut self) -> Option<RunError> {
        self.flow.take_error()
    }

    fn received(&self) -> u64 {
        self.flow.received()
    }

    fn lost_packets(&self) -> u64 {
        self.flow.lost_packets()
    }

    fn pause(&mut self) {
        self.is_waiting = false;
        self.flow.pause();
    }

    fn resume(&mut self) {
        self.is_waiting = false;
        self.flow.resume();
    }

    fn write(&mut self, bytes: u64) {
        self.is_waiting = false;
        self.flow.write(bytes);
    }

    fn set_rate(&mut self, rate: Rate) -> Result<(), ConfigError> {
        self.flow.set_rate(rate)
    }

    fn set_loss(&mut self, probability: Probability, seed: u64) {
        self.flow.set_loss(probability, seed);
    }

    fn set_reordered(&mut self, packets: Selection) -> Result<(), ConfigError> {
        self.flow.set_reordered(packets)
    }
}
