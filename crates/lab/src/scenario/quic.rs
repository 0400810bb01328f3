//! A point of a file's grid over real QUIC: any one link, and flows with one algorithm that move bulk or
//! so many bytes. What it cannot say is refused with its field.

use std::path::Path;

use fullpipe_cc::Duration;
use fullpipe_path::{ElementConfig, RateConfig};
use fullpipe_quic::CongestionControl;
use fullpipe_sim::Application;

use super::build::{self, Setup};
use super::error::Wrong;
use super::schema::{App, Carrier, Document, FlowTable, Marks};
use crate::backend::quic_noq::{FlowJob, Job};
use crate::scenario::LinkKind;

/// The simulation of that point, and the same as a job over QUIC.
pub(super) fn job(doc: &Document, dir: &Path) -> Result<(Setup, Job), Wrong> {
    let setup = build::setup(doc, dir)?;
    if doc.link.len() > 1 {
        return Err(only_sim("link[1]", "there is one link"));
    }
    if !doc.cross.is_empty() {
        return Err(only_sim("cross", "there is no cross traffic"));
    }
    for (i, flow) in doc.flow.iter().enumerate() {
        check_flow(flow, &format!("flow[{i}]"))?;
    }
    check_row(&setup.config.links[0].row)?;
    check_together(doc, &setup)?;
    let algorithm = setup.config.flows[0].algorithm;
    let flow = |f: &fullpipe_sim::FlowConfig| FlowJob {
        start: f.start,
        stop: f.stop,
        bytes: match f.application {
            Application::Bytes(bytes) => Some(bytes),
            _ => None,
        },
    };
    let job = Job {
        downlink: setup.config.links[0].clone(),
        uplink: setup.config.uplink.clone(),
        link: LinkKind::Udp,
        cc: CongestionControl::Fullpipe(algorithm),
        flows: setup.config.flows.iter().map(flow).collect(),
        seed: setup.seed,
    };
    Ok((setup, job))
}

fn only_sim(field: &str, instead: &str) -> Wrong {
    Wrong::new(field, format!("not over quic yet, where {instead}; leave it out, or run over sim"))
}

/// What the flows must be together.
fn check_together(doc: &Document, setup: &Setup) -> Result<(), Wrong> {
    let flows = &setup.config.flows;
    let most = fullpipe_emu::MAX_FLOWS;
    if flows.len() > most {
        let why = format!("{} flows; over quic the most is {most}", flows.len());
        return Err(Wrong::new("flow", why));
    }
    let other = |f: &FlowTable| f.cc.or(doc.cc).is_some_and(|cc| cc.0 != flows[0].algorithm);
    if let Some(i) = doc.flow.iter().position(other) {
        return Err(only_sim(&format!("flow[{i}].cc"), "all flows have one algorithm"));
    }
    if flows.iter().all(|f| f.start > Duration::ZERO) {
        let why = "over quic the first flow starts at 0s: times count from its first request";
        return Err(Wrong::new("flow[0].start", why));
    }
    Ok(())
}

/// A trace begins with the link, and the link before the handshake.
fn check_row(row: &[ElementConfig]) -> Result<(), Wrong> {
    let is_trace = |e: &ElementConfig| {
        matches!(e, ElementConfig::Bottleneck { rate: RateConfig::Trace(_), .. })
    };
    match row.iter().any(is_trace) {
        true => Err(only_sim("path.trace", "a rate is constant or has steps")),
        false => Ok(()),
    }
}

fn check_flow(flow: &FlowTable, place: &str) -> Result<(), Wrong> {
    let fields = [
        ("app", !matches!(flow.app, None | Some(App::Bulk {} | App::Bytes(_)))),
        ("transport", flow.transport != Carrier::Quic),
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
        ("route", flow.route.is_some()),
    ];
    match fields.iter().find(|(_, is_there)| *is_there) {
        Some((name, _)) => Err(only_sim(
            &format!("{place}.{name}"),
            "a flow has name, cc, count, start, every, stop, and app as bulk or bytes",
        )),
        None => Ok(()),
    }
}
