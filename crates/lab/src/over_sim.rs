//! Runs a scenario in the simulator: one bulk flow under a virtual clock.

use std::sync::atomic::AtomicBool;

use fullpipe_quic::CongestionControl;

use crate::results::AlgorithmResult;
use crate::run::{RunError, Tick};
use crate::scenario::Scenario;

pub(crate) fn run(
    _scenario: &Scenario,
    _cc: CongestionControl,
    _stop: &AtomicBool,
    _watch: &mut dyn FnMut(Tick),
) -> Result<AlgorithmResult, RunError> {
    Err(RunError::Lost)
}
