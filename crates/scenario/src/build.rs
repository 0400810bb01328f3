//! From a point of a file's grid to a simulation.

use std::cell::Cell;
use std::sync::Arc;

use fullpipe_cc::Duration;
use fullpipe_path::{ElementConfig, PathConfig};
use fullpipe_sim::{FlowConfig, Reroute, Route, SimConfig};
use fullpipe_traffic::{Application, MAX_OWN_TALLIES, Stream, stream_seed};

use super::build_flow::{check_connections, check_times, cross, flow_config};
use super::build_net::Net;
use super::error::Wrong;
use super::input::Traces;
use super::needs::{need_of_long_path, needs_of_flow, needs_of_path};
use super::program::ProgramFlow;
use super::routes::{Routes, ends};
use super::schema::{Document, FlowSender, FlowTable};
use super::{Cc, Feature, MAX_FLOWS, MAX_NAME, MAX_ROWS, Need, Receiver};

/// A run to carry out: links and flows, and its duration.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// The network and the flows. A flow's algorithm counts only where it is one of the simulator's
    /// ([`Flow::cc`]).
    pub config: SimConfig,
    /// Its length; none where it ends when every flow has all its bytes.
    pub duration: Option<Duration>,
    /// Time between two rows of the series, where the file says one.
    pub interval: Option<Duration>,
    /// Seed of everything random.
    pub seed: u64,
    /// One for each flow.
    pub flows: Vec<Flow>,
    /// Features that it needs and that not every backend has.
    pub needs: Vec<Need>,
}

impl Scenario {
    /// Memory that it takes, about: that of flows, links and routes, which a short file can have
    /// many of.
    pub(super) fn bytes(&self) -> usize {
        let SimConfig { links, routes, reroutes, flows, .. } = &self.config;
        let of_link = |link: &PathConfig| {
            size_of::<PathConfig>() + link.row.len() * size_of::<ElementConfig>()
        };
        let of_route = |route: &Route| {
            size_of::<Route>() + size_of::<usize>() * (route.there.len() + route.back.len())
        };
        flows.len() * (size_of::<FlowConfig>() + size_of::<Flow>() + NAME_BYTES)
            + links.iter().map(of_link).sum::<usize>()
            + routes.iter().map(of_route).sum::<usize>()
            + reroutes.len() * size_of::<Reroute>()
    }
}

/// The allocation of a flow's name.
const NAME_BYTES: usize = 32;

thread_local! {
    static BUILDS: Cell<u64> = const { Cell::new(0) };
}

/// Number of scenarios that this thread has built, for tests: that of a run is built once.
#[doc(hidden)]
pub fn builds() -> u64 {
    BUILDS.get()
}

/// Name and congestion control of a flow.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Flow {
    /// Its name.
    pub name: String,
    /// Its congestion control.
    pub cc: Cc,
    /// The programs that make it, if it is not one of ours.
    pub program: Option<Arc<ProgramFlow>>,
    /// The TCP at its receiver.
    pub receiver: Receiver,
    /// True if Jain's index counts it.
    pub in_fairness: bool,
    /// True if it is there for the others alone: no figure of the run counts it.
    pub background: bool,
}

impl Flow {
    /// Whose congestion control it has: an algorithm, or a program.
    pub fn algorithm(&self) -> String {
        self.program.as_ref().map_or_else(|| self.cc.to_string(), |program| program.name())
    }
}

pub(super) fn scenario(doc: &Document, traces: &Traces) -> Result<Scenario, Wrong> {
    BUILDS.set(BUILDS.get() + 1);
    let duration = doc.duration();
    if duration == Some(Duration::ZERO) {
        return Err(Wrong::new("duration", "must be greater than 0; write a time like 10s"));
    }
    check_name(doc.name.as_deref(), "name")?;
    let net = Net::of(doc, traces)?;
    let mut flows = Vec::new();
    let mut named = Vec::new();
    let mut table_of = Vec::new();
    let mut routes = Routes::default();
    let mut needs = needs_of_path(doc, &net);
    let only = [FlowTable::default()];
    let tables = match (doc.flow.as_slice(), &doc.cc) {
        ([], None) => {
            let why = "no flows; write cc = \"bbr3\", or a [[flow]] table for each kind of them";
            return Err(Wrong::new("", why));
        }
        ([], Some(_)) => &only,
        (tables, _) => tables,
    };
    for (i, table) in tables.iter().enumerate() {
        let field = format!("flow[{i}]");
        let program = ProgramFlow::of(doc, table, &field)?.map(Arc::new);
        let cc = match (&program, table.cc.as_ref().or(doc.cc.as_ref())) {
            (Some(_), _) => Cc::Foreign,
            (None, Some(FlowSender::Cc(cc))) => *cc,
            (None, _) => {
                let why = "no algorithm; write cc = \"bbr3\" here or at the top";
                return Err(Wrong::new(&field, why));
            }
        };
        let cc_field = if table.cc.is_some() { format!("{field}.cc") } else { "cc".to_owned() };
        match &program {
            Some(program) => {
                needs.push(Need { feature: Feature::Program, field: program.field.clone() });
            }
            None => needs.push(Need { feature: Feature::Algorithm(cc), field: cc_field }),
        }
        needs_of_flow(table, &field, &mut needs);
        check_name(table.name.as_deref(), &format!("{field}.name"))?;
        let seed = stream_seed(doc.seed(), Stream::Route, i as u64);
        let pairs = ends(net.nodes.as_ref(), table, seed, &field)?;
        let count = table.count().saturating_mul(pairs.len() as u64);
        check_times(table, count, &field, duration)?;
        let all = (flows.len() as u64).saturating_add(count);
        if all > MAX_FLOWS {
            let why =
                format!("{all} flows are more than a run can have; write {MAX_FLOWS} or fewer");
            return Err(Wrong::new(format!("{field}.count"), why));
        }
        let template = flow_config(table, cc, &field, &net)?;
        check_connections(&template, count, duration, &field)?;
        let first = table.start.map_or(Duration::ZERO, |t| t.0);
        let every = table.every.map_or(Duration::ZERO, |t| t.0);
        for k in 0..count {
            let mut flow = FlowConfig { start: first + every.times(k), ..template };
            // All of a pair, and then those of the next one.
            let pair = pairs[(k / table.count()) as usize];
            let number = flows.len();
            flow.route = match (&net.nodes, pair) {
                (Some(nodes), Some(pair)) => {
                    Some(routes.over_nodes(nodes, pair, table, (number, doc.seed()), &field)?)
                }
                _ => {
                    let text = table.route.as_deref();
                    routes.over_chain(text, flow.direction, net.links.len(), &field)?
                }
            };
            let ends = (pair, flow.direction);
            routes.reroute(net.nodes.as_ref(), net.links.len(), table, ends, number, &field)?;
            // Flows that probed at the same times would be no test of how they share.
            flow.cc.seed = stream_seed(doc.seed(), Stream::Controller, flows.len() as u64);
            flows.push(flow);
            table_of.push(i);
            let mut named_flow = Flow {
                name: String::new(),
                cc,
                program: program.clone(),
                receiver: table.receiver.unwrap_or_default(),
                in_fairness: table.in_fairness.unwrap_or(true) && !table.background,
                background: table.background,
            };
            named_flow.name = table.name.clone().unwrap_or_else(|| named_flow.algorithm());
            named.push(named_flow);
        }
    }
    check_background(tables, flows.len())?;
    if duration.is_none()
        && let Some(i) = flows.iter().zip(&named).position(|(flow, named)| {
            // A program ends when it has done what it does.
            named.program.is_none() && !matches!(flow.application, Application::Bytes(_))
        })
    {
        let why =
            format!("flow {i} has no end; write a time like 10s, or app = {{ bytes = \"10MB\" }}");
        return Err(Wrong::new("duration", why));
    }
    needs.push(Need { feature: Feature::Flows(flows.len()), field: "flow".to_owned() });
    if flows.iter().all(|flow| flow.start > Duration::ZERO) {
        needs.push(Need { feature: Feature::LateStart, field: "flow[0].start".to_owned() });
    }
    let interval = doc.interval.map(|t| t.0);
    check_rows(interval, duration, flows.len())?;
    let sources = doc.cross.iter().enumerate();
    let sources = sources.map(|(i, table)| cross(table, i, &net, &mut routes));
    let config = SimConfig {
        cross: sources.collect::<Result<_, _>>()?,
        routes: routes.list,
        reroutes: routes.changes,
        links: net.links,
        uplink: net.uplink,
        flows,
        seed: doc.seed(),
    };
    needs.extend(need_of_long_path(doc, &config, &table_of));
    Ok(Scenario { config, duration, interval, seed: doc.seed(), flows: named, needs })
}

/// Names stand in tables and in the names of files.
fn check_name(name: Option<&str>, field: &str) -> Result<(), Wrong> {
    let length = name.map_or(0, |name| name.chars().count());
    if length > MAX_NAME {
        let why = format!("has {length} characters, the most is {MAX_NAME}; write a shorter one");
        return Err(Wrong::new(field, why));
    }
    Ok(())
}

/// Something must be left of which the figures of the run are, and what is not counted must be
/// known apart.
fn check_background(tables: &[FlowTable], flows: usize) -> Result<(), Wrong> {
    let Some(i) = tables.iter().position(|table| table.background) else { return Ok(()) };
    let why = if tables.iter().all(|table| table.background) {
        "every flow is in the background, and no figure would count any; leave it out of one"
            .to_owned()
    } else if flows > MAX_OWN_TALLIES {
        format!(
            "a run with flows in the background has at most {MAX_OWN_TALLIES} flows, and here are {flows}"
        )
    } else {
        return Ok(());
    };
    Err(Wrong::new(format!("flow[{i}].background"), why))
}

fn check_rows(
    interval: Option<Duration>,
    end: Option<Duration>,
    flows: usize,
) -> Result<(), Wrong> {
    let Some(interval) = interval else { return Ok(()) };
    let Some(end) = end else {
        return Err(Wrong::new("interval", "needs a duration; write a time like 10s"));
    };
    if interval < Duration::from_micros(1) {
        return Err(Wrong::new("interval", "below 1us; write a time like 20ms"));
    }
    let rows = (end.as_nanos() / interval.as_nanos()).saturating_mul(flows as u64);
    if rows > MAX_ROWS {
        let why =
            format!("makes {rows} rows of one run, the most is {MAX_ROWS}; write a longer one");
        return Err(Wrong::new("interval", why));
    }
    Ok(())
}
