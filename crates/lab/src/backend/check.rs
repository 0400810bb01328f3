//! The check of a plan before anything runs.

use fullpipe_report::metrics::{Metric, Probe, Scope};
use fullpipe_report::plan::Plan;
use fullpipe_scenario::{FileError, Wrong, locate};
use fullpipe_sim::FlowConfig;

use super::BackendChoice;

impl BackendChoice {
    /// Checks that it can run all of a plan, expectations included. This is the one place that
    /// refuses what a backend does not have. `file` is the name of the plan's file in the error.
    ///
    /// # Errors
    /// The first field that it cannot serve, with its line, and which backend can.
    pub fn check_plan(self, plan: &Plan, file: &str) -> Result<(), FileError> {
        let wrong = plan.grid.runs.iter().find_map(|run| {
            let lacks = |need| self.lacks(need).map(|why| Wrong::new(&need.field, why));
            run.scenario().needs.iter().find_map(lacks)
        });
        let wrong = wrong.or_else(|| self.unmeasured(plan));
        wrong.map_or(Ok(()), |wrong| Err(locate(&plan.text, file, &wrong)))
    }

    /// An expectation of something that it does not see in any run of the plan.
    fn unmeasured(self, plan: &Plan) -> Option<Wrong> {
        let is_seen = |probe: &Probe| match (&probe.scope, probe.metric) {
            (Scope::Link(n), _) if *n > 0 => self.get().sees_each_link(),
            (_, Metric::Latency(_)) => {
                let times = |flow: &FlowConfig| self.get().times_writes_of(&flow.application);
                plan.grid.runs.iter().any(|run| run.scenario().config.flows.iter().any(times))
            }
            _ => true,
        };
        let each = plan.expectations.iter().enumerate();
        each.flat_map(|(i, e)| e.probes().into_iter().map(move |p| (i, p))).find_map(
            |(i, probe)| {
                let probe = &plan.probes[probe];
                (!is_seen(probe)).then(|| {
                    let metric = probe.metric;
                    let why = format!(
                        "{metric} is not measured over {self}; leave it out, or write --stack sim"
                    );
                    Wrong::new(format!("expect[{i}]"), why)
                })
            },
        )
    }
}
