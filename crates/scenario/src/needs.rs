//! Features that the fields of a scenario need and that not every backend has.

use fullpipe_cc::Duration;
use fullpipe_path::{ElementConfig, PathConfig};
use fullpipe_sim::{Route, SimConfig};
use fullpipe_traffic::Direction;

use super::build_net::Net;
use super::elements::Element;
use super::schema::{App, Document, EcnMode, FlowTable};
use super::{Feature, Need};

/// A handshake gives up on a longer round trip.
const LONGEST_REAL_RTT: Duration = Duration::from_secs(25);

pub(super) fn needs_of_path(doc: &Document, net: &Net) -> Vec<Need> {
    let of_path =
        if doc.path.as_ref().is_some_and(|p| p.trace.is_some()) { "path" } else { "link[0]" };
    let path = doc.path.iter().map(|path| (path.trace.is_some(), &path.down));
    let links = doc.link.iter().map(|link| (link.trace.is_some(), &link.down));
    let has_trace = path.chain(links).any(|(own, down)| own || down.iter().any(Element::has_trace));
    let all = [
        (net.nodes.is_some(), Feature::Graph, graph_field(doc)),
        (net.nodes.is_none() && net.links.len() > 1, Feature::Chain, "link[1]".to_owned()),
        (!doc.cross.is_empty(), Feature::CrossTraffic, "cross".to_owned()),
        (has_trace, Feature::RateTrace, format!("{of_path}.trace")),
    ];
    let there = all.into_iter().filter(|(is_there, ..)| *is_there);
    let routes = doc.cross.iter().enumerate().filter(|(_, cross)| cross.route.is_some());
    let routes = routes.map(|(i, cross)| {
        let feature = feature_of_route(cross.route.as_deref().unwrap_or_default());
        Need { feature, field: format!("cross[{i}].route") }
    });
    there.map(|(_, feature, field)| Need { feature, field }).chain(routes).collect()
}

/// The first field of a file that asks for a graph.
fn graph_field(doc: &Document) -> String {
    if doc.network.is_some() { "network".to_owned() } else { "node".to_owned() }
}

/// A part of a chain in the file's order is more common than any other route.
fn feature_of_route(route: &str) -> Feature {
    let numbers = route.split_once('-').unwrap_or((route, route));
    match (numbers.0.trim().parse::<usize>(), numbers.1.trim().parse::<usize>()) {
        (Ok(first), Ok(last)) if first <= last => Feature::Route,
        _ => Feature::Graph,
    }
}

/// Makes [`Setting`] of the fields of a flow that not every backend has.
macro_rules! settings {
    ($($setting:ident: $field:ident),+ $(,)?) => {
        /// A field of a flow's transport that not every backend has.
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        pub enum Setting {
            $(
                #[doc = concat!("The field `", stringify!($field), "`.")]
                $setting
            ),+
        }

        impl Setting {
            /// All of them.
            pub const ALL: &[Self] = &[$(Self::$setting),+];

            /// The field's name in a file.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$setting => stringify!($field)),+
                }
            }

            /// True if a flow's table has it.
            pub(super) fn is_in(self, flow: &FlowTable) -> bool {
                match self {
                    $(Self::$setting => flow.$field.is_set()),+
                }
            }
        }
    };
}

settings! {
    Receiver: receiver,
    Mss: mss,
    InitialCwnd: initial_cwnd,
    Startup: startup,
    Resume: resume,
    Paced: paced,
    AckAggregation: ack_aggregation,
    Cubic: cubic,
    Bbr3xWithout: bbr3x_without,
    StartupPacingGain: startup_pacing_gain,
    StartupCwndGain: startup_cwnd_gain,
    AckEvery: ack_every,
    AckDelay: ack_delay,
    Ecn: ecn,
    SendBuffer: send_buffer,
    ReceiveWindow: receive_window,
    ReceiveWindowInitial: receive_window_initial,
    ExtraRtt: extra_rtt,
    Jitter: jitter,
    ReceiverDelay: receiver_delay,
    SwiftTarget: swift_target,
    SwiftRange: swift_range,
    SwiftEndpoint: swift_endpoint,
    Pacer: pacer,
    Handshake: handshake,
    QuickAcks: quick_acks,
    Reordering: reordering,
    RtoMin: rto_min,
    IdleRestart: idle_restart,
    Prr: prr,
    Access: access,
}

/// A field that asks for something, or does not.
trait IsSet {
    fn is_set(&self) -> bool;
}

impl<T> IsSet for Option<T> {
    fn is_set(&self) -> bool {
        self.is_some()
    }
}

impl IsSet for EcnMode {
    fn is_set(&self) -> bool {
        *self != Self::Off
    }
}

pub(super) fn needs_of_flow(flow: &FlowTable, place: &str, needs: &mut Vec<Need>) {
    let mut need = |feature, name: &str| {
        needs.push(Need { feature, field: format!("{place}.{name}") });
    };
    for setting in Setting::ALL.iter().filter(|setting| setting.is_in(flow)) {
        need(Feature::Setting(*setting), setting.name());
    }
    if let Some(protocol) = flow.transport {
        need(Feature::Transport(protocol), "transport");
    }
    if let Some(route) = &flow.route {
        need(feature_of_route(route), "route");
    }
    if !flow.reroute.is_empty() {
        need(Feature::Graph, "reroute");
    }
    if flow.direction == Direction::Up {
        need(Feature::Upwards, "direction");
    }
    if flow.ecn == EcnMode::Ignored {
        need(Feature::IgnoredMarks, "ecn");
    }
    if let Some(App::Media(table)) = &flow.app {
        need(Feature::Media, "app");
        if table.probe {
            need(Feature::Probe, "app.media.probe");
        }
    }
}

/// The first flow whose handshake, or whose recovery on a later route, has a longer round trip than
/// a real stack waits for: the field that makes it so long. `tables` has the table of each flow.
pub(super) fn need_of_long_path(
    doc: &Document,
    config: &SimConfig,
    tables: &[usize],
) -> Option<Need> {
    let delays: Vec<Duration> = config.links.iter().chain([&config.uplink]).map(delay_of).collect();
    let of = |route: &Route| {
        let links = route.there.iter().chain(&route.back);
        links.fold(Duration::ZERO, |sum, link| sum + delays[*link])
    };
    let is_long = |rtt: Duration| rtt > LONGEST_REAL_RTT;
    let mut later = vec![Duration::ZERO; config.flows.len()];
    for change in &config.reroutes {
        later[change.flow] = later[change.flow].max(of(&config.routes[change.route]));
    }
    let long = config.flows.iter().enumerate().find_map(|(i, flow)| {
        let first = of(&config.route(flow));
        let own = flow.access.map_or(Duration::ZERO, |access| access.delay.times(2));
        let field = match first.max(later[i]) {
            rtt if !is_long(rtt + own + flow.extra_rtt) => return None,
            _ if is_long(first) => return Some(path_field(doc, tables[i])),
            rtt if is_long(rtt) => "reroute",
            rtt if is_long(rtt + own) => "access.delay",
            _ => "extra_rtt",
        };
        Some(format!("flow[{}].{field}", tables[i]))
    });
    long.map(|field| Need { feature: Feature::LongPath, field })
}

/// The longest that a link's delays keep a packet.
fn delay_of(link: &PathConfig) -> Duration {
    let longest = |steps: &[(Duration, Duration)]| steps.iter().map(|(_, delay)| *delay).max();
    let delays = link.row.iter().map(|element| match element {
        ElementConfig::Delay(delay) => *delay,
        ElementConfig::DelaySteps(steps) => longest(steps).unwrap_or_default(),
        ElementConfig::DelaySeries(series) => longest(series.steps()).unwrap_or_default(),
        _ => Duration::ZERO,
    });
    delays.fold(Duration::ZERO, |sum, delay| sum + delay)
}

/// The field that says how long the first route of a flow is.
fn path_field(doc: &Document, table: usize) -> String {
    match (&doc.path, doc.node.is_empty() && doc.network.is_none()) {
        (Some(_), _) => "path.rtt".to_owned(),
        (None, true) => "link[0].delay".to_owned(),
        (None, false) => format!("flow[{table}]"),
    }
}
