//! From a point of a file's grid to a simulation.

use std::path::Path;

use fullpipe_cc::{Algorithm, Duration, Rate, StartupGains};
use fullpipe_path::{ConfigError, Ecn, ElementConfig, MTU_BYTES, PathConfig, RateConfig};
use fullpipe_sim::{
    AckPolicy, Application, Arrivals, CrossTraffic, FlowConfig, ReceiveWindow, Reordering, Route,
    SimConfig, Stream, TcpConfig, stream_seed,
};

use super::elements::{Element, Frame, Wire};
use super::error::Wrong;
use super::quantity::{Chance, Room};
use super::schema::{
    App, CrossTable, Document, FlowTable, Late, LinkTable, Marks, PathTable, Spacing,
};
use super::{Cc, Feature, MAX_FLOWS, MAX_ROWS, Need, Protocol};
use crate::observe::Extent;
use crate::units::{Buffer, show_duration};

/// What runs: links and flows, and for how long.
#[derive(Clone, Debug)]
pub(crate) struct Scenario {
    /// The network and the flows. A flow's algorithm counts only where it is one of the simulator's
    /// ([`Flow::cc`]).
    pub(crate) config: SimConfig,
    /// Nothing: until every flow has all its bytes.
    pub(crate) duration: Option<Duration>,
    pub(crate) interval: Option<Duration>,
    pub(crate) seed: u64,
    /// One for each flow.
    pub(crate) flows: Vec<Flow>,
    /// What it asks for that not every backend has.
    pub(crate) needs: Vec<Need>,
}

/// What a flow is called, and its congestion control.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Flow {
    pub(crate) name: String,
    pub(crate) cc: Cc,
}

impl Scenario {
    /// How much there is of a run.
    pub(crate) fn extent(&self) -> Extent {
        let bytes = self.config.flows.iter().map(|flow| match flow.application {
            Application::Bytes(n) => n,
            _ => 0,
        });
        let bytes = bytes.fold(0, u64::saturating_add);
        Extent { flows: self.flows.len(), duration: self.duration, bytes }
    }
}

/// An application writes so much at a time when nothing else is said: a disk's or a codec's block.
const WRITE_BYTES: u64 = 4096;

/// More connections than these are no experiment: each has a controller and a sender of its own.
const MAX_CONNECTIONS: u64 = 1_000_000;

/// More packets of cross traffic than a run could ever get through.
const MAX_CROSS_PACKETS_PER_SEC: u64 = 10_000_000;

pub(super) fn scenario(doc: &Document, dir: &Path) -> Result<Scenario, Wrong> {
    let duration = doc.duration.0;
    if duration == Some(Duration::ZERO) {
        return Err(Wrong::new("duration", "0 and nothing could happen; write a time like 10s"));
    }
    let net = Net::of(doc, dir)?;
    let mut flows = Vec::new();
    let mut named = Vec::new();
    let mut needs = needs_of_path(doc, &net);
    let only = [FlowTable::default()];
    let tables = match (doc.flow.as_slice(), doc.cc) {
        ([], None) => {
            let why = "no flows; write cc = \"bbr3\", or a [[flow]] table for each kind of them";
            return Err(Wrong::new("", why));
        }
        ([], Some(_)) => &only,
        (tables, _) => tables,
    };
    for (i, table) in tables.iter().enumerate() {
        let field = format!("flow[{i}]");
        let cc = table.cc.or(doc.cc).ok_or_else(|| {
            Wrong::new(&field, "no algorithm; write cc = \"bbr3\" here or at the top")
        })?;
        let cc_field = if table.cc.is_some() { format!("{field}.cc") } else { "cc".to_owned() };
        needs.push(Need { feature: Feature::Algorithm(cc), field: cc_field });
        needs_of_flow(table, &field, &mut needs);
        check_times(table, &field, duration)?;
        if flows.len() as u64 + table.count > MAX_FLOWS {
            let why = format!("{} and the flows before are more than {MAX_FLOWS}", table.count);
            return Err(Wrong::new(format!("{field}.count"), why));
        }
        let template = flow_config(table, cc, &field, &net)?;
        check_connections(&template, table.count, duration, &field)?;
        let first = table.start.map_or(Duration::ZERO, |t| t.0);
        let every = table.every.map_or(Duration::ZERO, |t| t.0);
        for k in 0..table.count {
            let mut flow = FlowConfig { start: first + every.times(k), ..template };
            // Flows that probed at the same times would be no test of how they share.
            flow.cc.seed = stream_seed(doc.seed, Stream::Controller, flows.len() as u64);
            flows.push(flow);
            let name = table.name.clone().unwrap_or_else(|| cc.to_string());
            named.push(Flow { name, cc });
        }
    }
    if duration.is_none()
        && let Some(i) = flows.iter().position(|f| !matches!(f.application, Application::Bytes(_)))
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
    let cross = doc.cross.iter().enumerate().map(|(i, table)| cross(table, i, &net));
    let config = SimConfig {
        cross: cross.collect::<Result<_, _>>()?,
        links: net.links,
        uplink: net.uplink,
        flows,
        seed: doc.seed,
    };
    Ok(Scenario { config, duration, interval, seed: doc.seed, flows: named, needs })
}

/// A handshake gives up on a longer round trip.
const LONGEST_REAL_RTT: Duration = Duration::from_secs(25);

fn needs_of_path(doc: &Document, net: &Net) -> Vec<Need> {
    let of_path =
        if doc.path.as_ref().is_some_and(|p| p.trace.is_some()) { "path" } else { "link[0]" };
    let is_trace = |e: &ElementConfig| {
        matches!(e, ElementConfig::Bottleneck { rate: RateConfig::Trace(_), .. })
    };
    let all = [
        (net.links.len() > 1, Feature::Chain, "link[1]".to_owned()),
        (!doc.cross.is_empty(), Feature::CrossTraffic, "cross".to_owned()),
        (
            net.links.iter().flat_map(|link| &link.row).any(is_trace),
            Feature::RateTrace,
            format!("{of_path}.trace"),
        ),
        (net.rtt > LONGEST_REAL_RTT, Feature::LongPath, "path.rtt".to_owned()),
    ];
    let there = all.into_iter().filter(|(is_there, ..)| *is_there);
    there.map(|(_, feature, field)| Need { feature, field }).collect()
}

fn needs_of_flow(flow: &FlowTable, place: &str, needs: &mut Vec<Need>) {
    let settings = [
        ("mss", flow.mss.is_some()),
        ("initial_cwnd", flow.initial_cwnd.is_some()),
        ("paced", flow.paced.is_some()),
        ("ack_aggregation", flow.ack_aggregation.is_some()),
        ("startup_pacing_gain", flow.startup_pacing_gain.is_some()),
        ("startup_cwnd_gain", flow.startup_cwnd_gain.is_some()),
        ("ack_every", flow.ack_every.is_some()),
        ("ack_delay", flow.ack_delay.is_some()),
        ("ecn", flow.ecn != Marks::Off),
        ("send_buffer", flow.send_buffer.is_some()),
        ("receive_window", flow.receive_window.is_some()),
        ("extra_rtt", flow.extra_rtt.is_some()),
        ("jitter", flow.jitter.is_some()),
        ("handshake", flow.handshake.is_some()),
        ("quick_acks", flow.quick_acks.is_some()),
        ("reordering", flow.reordering.is_some()),
        ("rto_min", flow.rto_min.is_some()),
        ("idle_restart", flow.idle_restart.is_some()),
        ("prr", flow.prr.is_some()),
    ];
    let mut need = |feature, name: &str| {
        needs.push(Need { feature, field: format!("{place}.{name}") });
    };
    for (name, _) in settings.into_iter().filter(|(_, is_there)| *is_there) {
        need(Feature::Setting(name), name);
    }
    if let Some(protocol) = flow.transport {
        need(Feature::Transport(protocol), "transport");
    }
    if flow.route.is_some() {
        need(Feature::Route, "route");
    }
    if let Some(app) = &flow.app {
        need(Feature::Application(app.name()), "app");
    }
}

/// Where the path is too slow for them, all connections of short flows are there at the end.
fn check_connections(
    flow: &FlowConfig,
    count: u64,
    end: Option<Duration>,
    field: &str,
) -> Result<(), Wrong> {
    let end = end.unwrap_or(Duration::MAX);
    let Application::ShortFlows { mean_interval, .. } = flow.application else { return Ok(()) };
    let each = end.as_nanos() / mean_interval.as_nanos().max(1);
    let connections = each.saturating_mul(count);
    if connections > MAX_CONNECTIONS {
        let why = format!(
            "makes some {connections} connections, the most is {MAX_CONNECTIONS}; write a longer every"
        );
        return Err(Wrong::new(format!("{field}.app"), why));
    }
    Ok(())
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

/// The links, and what quantities in BDP refer to.
struct Net {
    links: Vec<PathConfig>,
    uplink: PathConfig,
    rate: Option<Rate>,
    rtt: Duration,
}

impl Net {
    fn of(doc: &Document, dir: &Path) -> Result<Self, Wrong> {
        match (&doc.path, doc.link.as_slice()) {
            (None, []) => Err(Wrong::new(
                "",
                "no path; write path = { rate = \"100mbit\", rtt = \"40ms\" }, or [[link]] tables",
            )),
            (Some(path), []) => Self::one(path, doc.seed, dir),
            (None, links) => Self::chain(links, Duration::ZERO, &[], doc.seed, dir),
            (Some(path), links) => {
                if path.rate.is_some() || path.trace.is_some() || !path.down.is_empty() {
                    let why = "describes a link, and there are [[link]] tables too; beside those \
                               write only rtt and up here";
                    return Err(Wrong::new("path", why));
                }
                let rtt = path.rtt.map_or(Duration::ZERO, |t| t.0);
                Self::chain(links, rtt, &path.up, doc.seed, dir)
            }
        }
    }

    fn one(path: &PathTable, seed: u64, dir: &Path) -> Result<Self, Wrong> {
        if path.rtt.is_none() && !path.down.iter().any(Element::is_delay) {
            let why = "no rtt; write rtt = \"40ms\" (\"0ms\" for none)";
            return Err(Wrong::new("path", why));
        }
        let frame = Frame { rtt: path.rtt.map_or(Duration::ZERO, |t| t.0), dir };
        let wire = Wire {
            rate: path.rate,
            steps: path.steps.clone(),
            trace: path.trace.clone(),
            buffer: path.buffer,
            queue: path.queue,
        };
        let half = Duration::from_nanos(frame.rtt.as_nanos() / 2);
        let row = row(&path.down, path.loss, &wire, half, "path", frame)?;
        let links = vec![PathConfig { row, seed: stream_seed(seed, Stream::Link, 0) }];
        let uplink = uplink(&path.up, frame.rtt - half, seed, frame)?;
        Ok(Self { links, uplink, rate: wire.nominal(), rtt: frame.rtt })
    }

    fn chain(
        tables: &[LinkTable],
        rtt: Duration,
        up: &[Element],
        seed: u64,
        dir: &Path,
    ) -> Result<Self, Wrong> {
        let delay_of = |l: &LinkTable| l.delay.map_or(Duration::ZERO, |t| t.0);
        let there = tables.iter().fold(Duration::ZERO, |sum, link| sum + delay_of(link));
        let rtt = if rtt == Duration::ZERO { there.times(2) } else { rtt };
        if rtt < there {
            let why = format!("shorter than the links' delays of {}", show_duration(there));
            return Err(Wrong::new("path.rtt", why));
        }
        let frame = Frame { rtt, dir };
        let mut links = Vec::with_capacity(tables.len());
        let mut first_rate = None;
        for (i, link) in tables.iter().enumerate() {
            let wire = Wire {
                rate: link.rate,
                steps: link.steps.clone(),
                trace: link.trace.clone(),
                buffer: link.buffer,
                queue: link.queue,
            };
            let field = format!("link[{i}]");
            let row = row(&link.down, link.loss, &wire, delay_of(link), &field, frame)?;
            first_rate = first_rate.or(wire.nominal());
            links.push(PathConfig { row, seed: stream_seed(seed, Stream::Link, i as u64) });
        }
        let uplink = uplink(up, rtt - there, seed, frame)?;
        Ok(Self { links, uplink, rate: first_rate, rtt })
    }

    /// A volume of a flow in bytes.
    fn bytes(&self, room: Room, field: &str) -> Result<u64, Wrong> {
        let bytes = match room.0 {
            Buffer::Bytes(n) => Some(n),
            Buffer::Packets(n) => Some(n * u64::from(MTU_BYTES)),
            Buffer::Bdp(_) => self.rate.and_then(|rate| room.0.bytes_on(rate, self.rtt)),
        };
        let wrong = |why: &str| Wrong::new(field, format!("'{}' {why}; write 4MB", room.0));
        match bytes {
            None => Err(wrong("needs a path with a constant rate")),
            Some(0) => Err(wrong("is nothing")),
            Some(bytes) => Ok(bytes),
        }
    }

    fn route(&self, text: Option<&String>, field: &str) -> Result<Option<Route>, Wrong> {
        let Some(text) = text else { return Ok(None) };
        let n = self.links.len();
        let numbers = text.split_once('-').unwrap_or((text, text));
        match (numbers.0.trim().parse(), numbers.1.trim().parse()) {
            (Ok(first), Ok(last)) if first <= last && last < n => Ok(Some(Route { first, last })),
            _ => {
                let why = match n {
                    1 => "there is one link; leave it out".to_owned(),
                    n => format!("links count from 0 to {}; write \"0-{}\" or \"1\"", n - 1, n - 1),
                };
                let text = text.escape_debug();
                Err(Wrong::new(format!("{field}.route"), format!("'{text}' is no route: {why}")))
            }
        }
    }
}

/// Whether nothing gets past it faster than at a rate.
fn is_limit(element: &ElementConfig) -> bool {
    matches!(
        element,
        ElementConfig::Bottleneck { .. }
            | ElementConfig::Shaper { .. }
            | ElementConfig::Policer { .. }
    )
}

/// A link's elements: those of `down`, the random loss, the bottleneck, the delay.
fn row(
    down: &[Element],
    loss: Option<Chance>,
    wire: &Wire,
    delay: Duration,
    field: &str,
    frame: Frame<'_>,
) -> Result<Vec<ElementConfig>, Wrong> {
    let mut row = Vec::with_capacity(down.len() + 3);
    for (i, element) in down.iter().enumerate() {
        row.push(checked(element.config(&format!("{field}.down[{i}]"), frame)?, field, Some(i))?);
    }
    if let Some(loss) = loss {
        row.push(ElementConfig::Loss(loss.0.into()));
    }
    let is_bare = wire.buffer.is_none() && wire.queue.is_none() && wire.steps.is_empty();
    let own = wire.rate.is_some() || wire.trace.is_some();
    if own || !is_bare || !row.iter().any(is_limit) {
        row.push(checked(wire.config(field, frame)?, field, None)?);
    }
    if delay > Duration::ZERO {
        row.push(ElementConfig::Delay(delay));
    }
    Ok(row)
}

fn uplink(
    up: &[Element],
    delay: Duration,
    seed: u64,
    frame: Frame<'_>,
) -> Result<PathConfig, Wrong> {
    let mut row = Vec::with_capacity(up.len() + 1);
    for (i, element) in up.iter().enumerate() {
        let field = format!("path.up[{i}]");
        let element = element.config(&field, frame)?;
        validate(&element).map_err(|e| Wrong::new(field, e))?;
        row.push(element);
    }
    if delay > Duration::ZERO {
        row.push(ElementConfig::Delay(delay));
    }
    Ok(PathConfig { row, seed: stream_seed(seed, Stream::Uplink, 0) })
}

fn checked(
    element: ElementConfig,
    field: &str,
    down: Option<usize>,
) -> Result<ElementConfig, Wrong> {
    validate(&element).map_err(|error| {
        let place = match (down, error, &element) {
            (Some(i), _, _) => format!(".down[{i}]"),
            (_, ConfigError::QueueBelowOnePacket(_) | ConfigError::EmptyQueue, _) => {
                ".buffer".to_owned()
            }
            (_, ConfigError::Queue { .. }, _) => ".queue".to_owned(),
            (_, _, ElementConfig::Bottleneck { rate: RateConfig::Steps(_), .. }) => {
                ".steps".to_owned()
            }
            _ => String::new(),
        };
        Wrong::new(format!("{field}{place}"), error)
    })?;
    Ok(element)
}

/// The path's own rules.
fn validate(element: &ElementConfig) -> Result<(), ConfigError> {
    PathConfig { row: vec![element.clone()], seed: 0 }.validate()
}

fn check_times(table: &FlowTable, field: &str, end: Option<Duration>) -> Result<(), Wrong> {
    let end = end.unwrap_or(Duration::MAX);
    let start = table.start.map_or(Duration::ZERO, |t| t.0);
    let every = table.every.map_or(Duration::ZERO, |t| t.0);
    if table.count == 0 {
        return Err(Wrong::new(format!("{field}.count"), "0 flows are none; write at least 1"));
    }
    let last = start + every.times(table.count - 1);
    if last >= end {
        let place = if start >= end { "start" } else { "every" };
        let why = format!(
            "a flow starts at {}, and the run ends at {}; write a longer duration",
            show_duration(last),
            show_duration(end)
        );
        return Err(Wrong::new(format!("{field}.{place}"), why));
    }
    match table.stop {
        Some(stop) if stop.0 <= last => Err(Wrong::new(
            format!("{field}.stop"),
            format!(
                "{} is not after the start at {}; write a later time",
                show_duration(stop.0),
                show_duration(last)
            ),
        )),
        _ => Ok(()),
    }
}

fn flow_config(table: &FlowTable, cc: Cc, field: &str, net: &Net) -> Result<FlowConfig, Wrong> {
    // Of an algorithm that is not ours nobody looks at this one: the simulator refuses the flow.
    let algorithm = cc.algorithm().unwrap_or(Algorithm::Reno);
    let seed = 0; // each flow made of this one has its own
    let mut flow = match table.transport.unwrap_or_default() {
        Protocol::Quic => FlowConfig::bulk(algorithm, seed),
        Protocol::Tcp => FlowConfig::tcp_bulk(algorithm, seed),
    };
    if let Some(mss) = table.mss {
        if !(100..=65_000).contains(&mss) {
            let why = format!("{mss} bytes are no packet; write 100 to 65000, like 1200");
            return Err(Wrong::new(format!("{field}.mss"), why));
        }
        flow.cc.smss = mss;
    }
    flow.cc.initial_cwnd = table.initial_cwnd.map(|n| n.0);
    if flow.cc.initial_cwnd == Some(0) {
        let why = "0 and nothing could be sent; write a volume like 15kB";
        return Err(Wrong::new(format!("{field}.initial_cwnd"), why));
    }
    flow.cc.paced = table.paced.unwrap_or(flow.cc.paced);
    flow.cc.bbr1_ack_aggregation = table.ack_aggregation.unwrap_or(flow.cc.bbr1_ack_aggregation);
    flow.cc.startup_gains = match (table.startup_pacing_gain, table.startup_cwnd_gain) {
        (Some(pacing), Some(cwnd)) => Some(StartupGains { pacing: pacing.0, cwnd: cwnd.0 }),
        (None, None) => None,
        _ => {
            let why = "write startup_pacing_gain and startup_cwnd_gain, or neither";
            return Err(Wrong::new(format!("{field}.startup_cwnd_gain"), why));
        }
    };
    flow.acks = AckPolicy {
        every: table.ack_every.unwrap_or(flow.acks.every),
        max_delay: table.ack_delay.map_or(flow.acks.max_delay, |t| t.0),
        quick: table.quick_acks.unwrap_or(flow.acks.quick),
    };
    flow.jitter = table.jitter.map_or(flow.jitter, |t| t.0);
    flow.handshake = table.handshake.unwrap_or(flow.handshake);
    flow.tcp = tcp_config(table, field)?;
    if flow.acks.every == 0 {
        return Err(Wrong::new(format!("{field}.ack_every"), "0 is never; write at least 1"));
    }
    (flow.ecn, flow.cc.ecn) = match table.ecn {
        Marks::Off => (Ecn::NotEct, false),
        Marks::Classic => (Ecn::Ect0, false),
        Marks::L4s => (Ecn::Ect1, true),
    };
    flow.stop = table.stop.map(|t| t.0);
    flow.extra_rtt = table.extra_rtt.map_or(Duration::ZERO, |t| t.0);
    flow.route = net.route(table.route.as_ref(), field)?;
    flow.application = table.app.map_or(Ok(Application::Bulk), |app| application(app, field))?;
    let bytes = |room: Option<Room>, name: &str| {
        room.map(|room| net.bytes(room, &format!("{field}.{name}"))).transpose()
    };
    flow.send_buffer = bytes(table.send_buffer, "send_buffer")?;
    let window = bytes(table.receive_window, "receive_window")?;
    let initial = bytes(table.receive_window_initial, "receive_window_initial")?;
    flow.receive_window = match (initial, window) {
        (None, None) => ReceiveWindow::Unlimited,
        (None, Some(bytes)) => ReceiveWindow::Fixed(bytes),
        (Some(initial), Some(max)) if initial <= max => ReceiveWindow::Auto { initial, max },
        (Some(_), _) => {
            let why = "grows to receive_window; write that too, and larger";
            return Err(Wrong::new(format!("{field}.receive_window_initial"), why));
        }
    };
    Ok(flow)
}

/// What only TCP has.
fn tcp_config(table: &FlowTable, field: &str) -> Result<TcpConfig, Wrong> {
    let fields = [
        ("reordering", table.reordering.is_some()),
        ("rto_min", table.rto_min.is_some()),
        ("idle_restart", table.idle_restart.is_some()),
        ("prr", table.prr.is_some()),
    ];
    if let Some((name, _)) = fields.iter().find(|(_, is_there)| *is_there)
        && table.transport != Some(Protocol::Tcp)
    {
        let why = "only tcp has it; write transport = \"tcp\" too, or leave it out";
        return Err(Wrong::new(format!("{field}.{name}"), why));
    }
    let standard = TcpConfig::default();
    Ok(TcpConfig {
        reordering: match table.reordering {
            None => standard.reordering,
            Some(Late::Rack) => Reordering::Rack,
            Some(Late::Threshold) => Reordering::Threshold,
        },
        rto_min: table.rto_min.map_or(standard.rto_min, |t| t.0),
        idle_restart: table.idle_restart.unwrap_or(standard.idle_restart),
        prr: table.prr.unwrap_or(standard.prr),
    })
}

fn application(app: App, field: &str) -> Result<Application, Wrong> {
    let zero = |what: &str| {
        Err(Wrong::new(format!("{field}.app"), format!("{what} of 0 would never get on")))
    };
    Ok(match app {
        App::Bulk {} => Application::Bulk,
        App::Bytes(bytes) if bytes.0 == 0 => return zero("bytes"),
        App::Bytes(bytes) => Application::Bytes(bytes.0),
        App::RateLimited { rate, write } => {
            let write_bytes = write.map_or(WRITE_BYTES, |n| n.0);
            if write_bytes == 0 {
                return zero("writes");
            }
            Application::RateLimited { rate: rate.0, write_bytes }
        }
        App::OnOff { on, .. } if on.0 == Duration::ZERO => return zero("an on"),
        App::OnOff { on, off } => Application::OnOff { on: on.0, off: off.0 },
        App::RequestResponse { response, .. } if response.0 == 0 => return zero("a response"),
        App::RequestResponse { response, think } => {
            Application::RequestResponse { response_bytes: response.0, think: think.0 }
        }
        App::ShortFlows { bytes, every } if bytes.0 == 0 || every.0 == Duration::ZERO => {
            return zero("bytes or every");
        }
        App::ShortFlows { bytes, every } => {
            Application::ShortFlows { bytes: bytes.0, mean_interval: every.0 }
        }
    })
}

fn cross(table: &CrossTable, i: usize, net: &Net) -> Result<CrossTraffic, Wrong> {
    let field = format!("cross[{i}]");
    let packet = table.packet.map_or(u64::from(MTU_BYTES), |n| n.0);
    let packet_bytes = u32::try_from(packet).ok().filter(|n| (1..=65_000).contains(n));
    let packets_per_sec = table.rate.0.as_bytes_per_sec() / packet.max(1);
    if packets_per_sec > MAX_CROSS_PACKETS_PER_SEC {
        let why = format!(
            "makes {packets_per_sec} packets a second, the most is {MAX_CROSS_PACKETS_PER_SEC}; write a \
             lower rate or larger packets"
        );
        return Err(Wrong::new(format!("{field}.rate"), why));
    }
    let start = table.start.map_or(Duration::ZERO, |t| t.0);
    if table.stop.is_some_and(|stop| stop.0 <= start) {
        return Err(Wrong::new(format!("{field}.stop"), "not after the start; write a later time"));
    }
    Ok(CrossTraffic {
        rate: table.rate.0,
        packet_bytes: packet_bytes.ok_or_else(|| {
            Wrong::new(format!("{field}.packet"), "no packet; write 1B to 65000B, like 1500B")
        })?,
        arrivals: match table.arrivals {
            Spacing::Constant => Arrivals::Constant,
            Spacing::Poisson => Arrivals::Poisson,
        },
        start,
        stop: table.stop.map(|t| t.0),
        route: net.route(table.route.as_ref(), &field)?,
    })
}
