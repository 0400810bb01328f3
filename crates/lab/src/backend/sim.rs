//! The simulator: a virtual clock, as fast as the machine can.

use fullpipe_cc::{Duration, Instant};
use fullpipe_report::observe::{FlowSample, Observations};
use fullpipe_scenario::{Cc, Clock, LinkKind, Scenario, Stack};
use fullpipe_sim::{Flow, Sim};
use fullpipe_traffic::{Application, MediaStats, SenderStats, Tally};

use super::virtual_time::{self, Observed};
use super::{Backend, Request, RunError};

/// The simulator as a backend.
pub(super) struct Simulator;

impl Backend for Simulator {
    fn stack(&self) -> Stack {
        Stack::Sim
    }

    fn clock(&self) -> Clock {
        Clock::Virtual
    }

    fn links(&self) -> &'static [LinkKind] {
        &[]
    }

    fn algorithm(&self, cc: Cc) -> Option<Cc> {
        cc.algorithm().map(|_| cc)
    }

    fn times_writes_of(&self, _: &Application) -> bool {
        true
    }

    fn sees_each_link(&self) -> bool {
        true
    }

    fn check(&self, _: &Scenario, _: Option<LinkKind>) -> Result<(), RunError> {
        Ok(())
    }

    fn run(&self, scenario: &Scenario, request: Request<'_>) -> Result<Observations, RunError> {
        virtual_time::run(scenario, &mut Sim::new(&scenario.config)?, request)
    }
}

impl Observed for Flow {
    fn latest_rtt(&self) -> Option<Duration> {
        self.latest_rtt()
    }

    fn sample(&mut self) -> FlowSample {
        FlowSample {
            received: self.received(),
            rtt: self.latest_rtt(),
            sender: self.stats(),
            newest_packet: self.newest_packet(),
            ..FlowSample::of_model(self.snapshot())
        }
    }

    fn completion_ns(&self) -> Option<&Tally> {
        self.completion_ns()
    }

    fn media(&self, now: Instant) -> Option<MediaStats> {
        self.media_stats(now)
    }

    fn sent(world: &mut Sim, flow: usize) -> SenderStats {
        world.sender_stats(flow)
    }

    fn incomplete(world: &Sim, flow: usize) -> Option<u64> {
        world.incomplete(flow)
    }
}
