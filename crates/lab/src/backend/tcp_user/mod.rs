//! TCP in user space under a virtual clock: both ends are endpoints of fullpipe-tcp, which make and
//! read real packets, and between them are the links of the simulator. The same seed gives the same
//! bytes.

mod ends;
pub(super) mod settings;
#[cfg(test)]
mod tests;

use fullpipe_cc::{Controller, Instant};
use fullpipe_report::observe::Observations;
use fullpipe_scenario::{Cc, Clock, LinkKind, Scenario, Stack};
use fullpipe_traffic::Application;

use super::network::stacks;
use super::{Backend, Request, RunError, virtual_time};
use ends::TcpEnds;

/// TCP in user space as a backend.
pub(super) struct TcpUser;

impl Backend for TcpUser {
    fn stack(&self) -> Stack {
        Stack::Tcp
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

    fn check(&self, scenario: &Scenario, _: Option<LinkKind>) -> Result<(), RunError> {
        let flows = scenario.flows.iter().zip(&scenario.config.flows);
        let mut capable = flows.filter(|(_, config)| config.ecn.is_capable());
        let silent = capable.find(|(flow, config)| {
            let controller = |algorithm| Controller::new(algorithm, config.cc, Instant::default());
            flow.cc.algorithm().is_some_and(|algorithm| !controller(algorithm).wants_ecn())
        });
        silent.map_or(Ok(()), |(flow, _)| {
            let why = "answers no such marks, and tcp then sends no packets that can be marked";
            Err(RunError::Scenario(format!(
                "{} {why}; write --stack sim, or leave ecn out",
                flow.cc
            )))
        })
    }

    fn run(&self, scenario: &Scenario, request: Request<'_>) -> Result<Observations, RunError> {
        let mut world = stacks(&scenario.config, |_, flow| TcpEnds::new(flow))?;
        virtual_time::run(scenario, &mut world, request)
    }
}
