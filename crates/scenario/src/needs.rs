//! Features that the fields of a scenario need and that not every backend has.

use fullpipe_cc::Duration;
use fullpipe_traffic::Direction;

use super::build_net::Net;
use super::elements::Element;
use super::schema::{Document, EcnMode, FlowTable};
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
        (net.rtt > LONGEST_REAL_RTT, Feature::LongPath, "path.rtt".to_owned()),
    ];
    let there = all.into_iter().filter(|(is_there, ..)| *is_there);
    let routes = doc.cross.iter().enumerate().filter(|(_, cross)| cross.route.is_some());
    let routes = routes.map(|(i, cross)| {
        let feature = feature_of_route(cross.route.as_deref().unwrap_or_default());
        Need { feature, field: format!("cross[{i}].route") }
    });
    let is_long =
        |flow: &FlowTable| flow.extra_rtt.is_some_and(|t| net.rtt + t.0 > LONGEST_REAL_RTT);
    let long = doc.flow.iter().enumerate().filter(|(_, flow)| is_long(flow));
    let long = long
        .map(|(i, _)| Need { feature: Feature::LongPath, field: format!("flow[{i}].extra_rtt") });
    there.map(|(_, feature, field)| Need { feature, field }).chain(routes).chain(long).collect()
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

/// The settings of a flow's transport, and whether a table has each.
pub(super) fn settings(flow: &FlowTable) -> [(&'static str, bool); 29] {
    [
        ("receiver", flow.receiver.is_some()),
        ("mss", flow.mss.is_some()),
        ("initial_cwnd", flow.initial_cwnd.is_some()),
        ("resume", flow.resume.is_some()),
        ("paced", flow.paced.is_some()),
        ("ack_aggregation", flow.ack_aggregation.is_some()),
        ("cubic", flow.cubic.is_some()),
        ("bbr3x_without", flow.bbr3x_without.is_some()),
        ("startup_pacing_gain", flow.startup_pacing_gain.is_some()),
        ("startup_cwnd_gain", flow.startup_cwnd_gain.is_some()),
        ("ack_every", flow.ack_every.is_some()),
        ("ack_delay", flow.ack_delay.is_some()),
        ("ecn", flow.ecn != EcnMode::Off),
        ("send_buffer", flow.send_buffer.is_some()),
        ("receive_window", flow.receive_window.is_some()),
        ("extra_rtt", flow.extra_rtt.is_some()),
        ("jitter", flow.jitter.is_some()),
        ("receiver_delay", flow.receiver_delay.is_some()),
        ("swift_target", flow.swift_target.is_some()),
        ("swift_range", flow.swift_range.is_some()),
        ("swift_endpoint", flow.swift_endpoint.is_some()),
        ("pacer", flow.pacer.is_some()),
        ("handshake", flow.handshake.is_some()),
        ("quick_acks", flow.quick_acks.is_some()),
        ("reordering", flow.reordering.is_some()),
        ("rto_min", flow.rto_min.is_some()),
        ("idle_restart", flow.idle_restart.is_some()),
        ("prr", flow.prr.is_some()),
        ("access", flow.access.is_some()),
    ]
}

pub(super) fn needs_of_flow(flow: &FlowTable, place: &str, needs: &mut Vec<Need>) {
    let mut need = |feature, name: &str| {
        needs.push(Need { feature, field: format!("{place}.{name}") });
    };
    for (name, _) in settings(flow).into_iter().filter(|(_, is_there)| *is_there) {
        need(Feature::Setting(name), name);
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
    if let Some(app) = &flow.app {
        need(Feature::Application(app.name()), "app");
        if app.probes() {
            need(Feature::Setting("probe"), "app.media.probe");
        }
    }
}
