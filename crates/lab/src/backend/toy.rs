//! A link without queue, loss or control, in no time: the smallest backend there could be. It
//! proves that to add one takes a file and a line of the registry.

use std::cell::Cell;

use fullpipe_cc::Duration;
use fullpipe_path::{ElementConfig, PathStats, RateConfig};
use fullpipe_report::observe::{ByFlow, Checkpoint, FlowTimes, Observations};
use fullpipe_scenario::{Cc, Clock, Feature, LinkKind, Scenario, Stack};
use fullpipe_traffic::{Application, SenderStats, Tally};

use super::{Backend, Request, RunError};

pub(super) struct Toy;

thread_local! {
    /// So many of this thread's next starts come too late.
    pub(super) static LATE_STARTS: Cell<usize> = const { Cell::new(0) };
}

impl Backend for Toy {
    fn stack(&self) -> Stack {
        Stack::Sim
    }

    fn clock(&self) -> Clock {
        Clock::Real
    }

    fn links(&self) -> &'static [LinkKind] {
        &[]
    }

    fn algorithm(&self, cc: Cc) -> Option<Cc> {
        Some(cc)
    }

    fn has(&self, feature: Feature) -> bool {
        matches!(feature, Feature::Algorithm(_) | Feature::Flows(_))
    }

    fn times_writes_of(&self, _: &Application) -> bool {
        false
    }

    fn sees_each_link(&self) -> bool {
        false
    }

    fn check(&self, _: &Scenario, _: Option<LinkKind>) -> Result<(), RunError> {
        Ok(())
    }

    /// Every flow has its share of the rate all the time.
    fn run(&self, scenario: &Scenario, request: Request<'_>) -> Result<Observations, RunError> {
        if LATE_STARTS.with(|left| left.replace(left.get().saturating_sub(1)) > 0) {
            return Err(RunError::LateStart(Duration::from_secs(1)));
        }
        let end = scenario.duration.ok_or(RunError::Lost)?;
        let rate = scenario.config.links[0].row.iter().find_map(|element| match element {
            ElementConfig::Bottleneck { rate: RateConfig::Constant(rate), .. } => Some(*rate),
            _ => None,
        });
        let rate = rate.ok_or(RunError::Lost)?;
        let flows = scenario.flows.len();
        let mark = |t: Duration| {
            let each = rate.bytes_in(t) / flows as u64;
            let sent = SenderStats { sent_bytes: each, ..SenderStats::default() };
            let mut link = PathStats::default();
            link.carried.bytes = rate.bytes_in(t);
            Checkpoint {
                at: t,
                taken: t,
                received: vec![each; flows],
                sent: vec![sent; flows],
                links: vec![link],
                queue_ns: vec![Tally::new()],
                queue_ns_by_flow: None,
                rtt_ns: ByFlow::new(flows),
                latency_ns: ByFlow::new(flows),
                completion_ns: vec![None; flows],
                incomplete: vec![None; flows],
                media: vec![None; flows],
                on_link: Vec::new(),
            }
        };
        let moments = request.moments.iter().copied().chain([end]);
        Ok(Observations {
            marks: std::iter::once(Duration::ZERO).chain(moments).map(mark).collect(),
            times: vec![FlowTimes { start: Duration::ZERO, end }; flows],
            end,
            series: Vec::new(),
            emulator: None,
            interrupted: false,
            late_starts: 0,
            arrivals: None,
        })
    }
}
