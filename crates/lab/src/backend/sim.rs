//! The simulator: a virtual clock, as fast as the machine can.

use fullpipe_cc::{Duration, Instant};
use fullpipe_path::{Arrival, PathSample, Queue};
use fullpipe_report::observe::{FlowSample, Observations};
use fullpipe_scenario::{Cc, Clock, Feature, LinkKind, Scenario, Stack};
use fullpipe_sim as sim;
use fullpipe_traffic::{Application, MediaStats, SenderStats, Tally};

use super::virtual_time::{self, World};
use super::{Backend, Request, RunError};

/// The simulator as a backend.
pub(super) struct Sim;

impl Backend for Sim {
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

    fn has(&self, feature: &Feature) -> bool {
        !matches!(feature, Feature::Program | Feature::Setting("receiver"))
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
        let sim = sim::Sim::new(&scenario.config)?;
        virtual_time::run(scenario, &mut Simulated { sim, scenario }, request)
    }
}

/// A simulation, and what it was made of.
struct Simulated<'a> {
    sim: sim::Sim,
    scenario: &'a Scenario,
}

impl World for Simulated<'_> {
    fn now(&self) -> Instant {
        self.sim.now()
    }

    fn is_done(&self) -> bool {
        self.sim.is_done()
    }

    fn advance(&mut self, time: Instant, events: u64) -> bool {
        self.sim.run_until_done_within(time, events)
    }

    fn begin_part(&mut self) {
        self.sim.begin_part();
    }

    fn links(&self) -> usize {
        self.sim.links()
    }

    fn link(&self, i: usize) -> PathSample {
        self.sim.link(i)
    }

    fn queue_delays_so_far_ns(&self, link: usize) -> Box<dyn Iterator<Item = Tally> + '_> {
        self.sim.queue_delays_so_far_ns(link)
    }

    fn queue_delays_by_flow_ns(&self) -> Option<&[Tally]> {
        self.sim.queue_delays_by_flow_ns()
    }

    fn flows(&self) -> usize {
        self.sim.flows().len()
    }

    fn received(&self, flow: usize) -> u64 {
        self.sim.flow(flow).received()
    }

    fn latest_rtt(&self, flow: usize) -> Option<Duration> {
        self.sim.flow(flow).latest_rtt()
    }

    fn times(&self, flow: usize) -> (Instant, Option<Instant>) {
        let flow = self.sim.flow(flow);
        (flow.start(), flow.end())
    }

    fn queues(&self) -> Vec<Queue> {
        let links = (0..self.sim.links()).map(|i| self.sim.link(i));
        links.chain([self.sim.uplink()]).map(|sample| sample.queue).collect()
    }

    fn sample(&mut self, i: usize, queues: &[Queue]) -> FlowSample {
        let (flow, config) = (self.sim.flow(i), &self.scenario.config.flows[i]);
        FlowSample {
            received: flow.received(),
            rtt: flow.latest_rtt(),
            sender: flow.stats(),
            newest_packet: flow.newest_packet(),
            queue: queues[self.scenario.config.first_link(config)],
            ..FlowSample::of_model(flow.snapshot())
        }
    }

    fn sent(&mut self, flow: usize) -> SenderStats {
        self.sim.sender_stats(flow)
    }

    fn rtt_ns(&self) -> &[Tally] {
        self.sim.rtt_ns_by_flow()
    }

    fn latency_ns(&self) -> &[Tally] {
        self.sim.latency_ns_by_flow()
    }

    fn completion_ns(&self, flow: usize) -> Option<&Tally> {
        self.sim.flow(flow).completion_ns()
    }

    fn incomplete(&self, flow: usize) -> Option<u64> {
        self.sim.incomplete(flow)
    }

    fn media(&self, flow: usize) -> Option<MediaStats> {
        self.sim.flow(flow).media_stats(self.sim.now())
    }

    fn record_arrivals(&mut self, most: usize) {
        self.sim.record_arrivals(most);
    }

    fn take_arrivals(&mut self) -> Vec<Vec<Arrival>> {
        self.sim.take_arrivals()
    }
}
