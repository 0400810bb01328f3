//! The response to marks that are no losses. The draft has none yet.

use core::fmt::Debug;

use super::amend::View;
use super::bounds::Bounds;
use super::rules::Rules;
use crate::algo::Marks;
use crate::config::Config;
use crate::conn::{Conn, INFINITE};
use crate::sampler::RateSample;
use crate::units::Gain;

/// A response to marks; the default methods are those of a flavour without one, to which marks are
/// losses.
pub(crate) trait MarkResponse: Clone + Debug {
    fn new(config: &Config) -> Self;

    /// True if marks have their own response, and are no losses.
    #[inline]
    fn is_there(&self) -> bool {
        false
    }

    /// True if packets should be sent with ECN.
    fn wants_ecn(&self) -> bool {
        true
    }

    /// The share of marked data of late; `None` while there is no response.
    fn alpha(&self) -> Option<Gain> {
        None
    }

    /// The marks of one ACK, before the rest of it is looked at.
    fn note(&mut self, _: &Marks<'_>) {}

    /// True if the ACK at hand says that too much of its sample was marked.
    #[inline]
    fn is_rate_too_high(&self) -> bool {
        false
    }

    /// A round begins. True if the marks of those before end Startup.
    #[inline]
    fn start_round(&mut self, _: &View<'_>) -> bool {
        false
    }

    /// inflight_shortterm as the marks of the loss round want it, infinite without any. They give
    /// it a first value, if it has none.
    #[inline]
    fn lower_bound<R: Rules>(&self, _: &Conn, _: &mut Bounds) -> u64 {
        INFINITE
    }

    /// A loss round is over.
    #[inline]
    fn end_loss_round(&mut self) {}

    /// REFILL begins a cycle of ProbeBW.
    #[inline]
    fn begin_cycle(&mut self) {}

    /// One ACK, after the state machine's steps and before the window is set.
    #[inline]
    fn follow_queue(&mut self, _: &View<'_>, _: &RateSample) {}

    /// The ACK at hand is done.
    #[inline]
    fn end_ack(&mut self) {}

    /// A bound on the volume in flight beside the model's, infinite for none, else `least` at
    /// least.
    #[inline]
    fn most_inflight(&self, _least: u64) -> u64 {
        INFINITE
    }
}

impl MarkResponse for () {
    fn new(_: &Config) {}
}
