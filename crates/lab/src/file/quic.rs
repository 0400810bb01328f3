//! A point of a file's grid over real QUIC: a plain link and flows that are all alike, as
//! [`crate::Scenario`] has them. What it cannot say is refused with its field.

use fullpipe_path::Probability;
use fullpipe_quic::CongestionControl;

use super::error::Wrong;
use super::schema::{App, Carrier, Document, FlowTable, Marks, PathTable};
use crate::units::Buffer;
use crate::{Amount, Over, Scenario};

pub(super) fn scenario(doc: &Document) -> Result<(Scenario, CongestionControl), Wrong> {
    if !doc.link.is_empty() {
        return Err(only_sim("link", "there is one link"));
    }
    if !doc.cross.is_empty() {
        return Err(only_sim("cross", "there is no cross traffic"));
    }
    if doc.flow.len() > 1 {
        return Err(only_sim("flow[1]", "all flows are alike"));
    }
    let path = doc.path.as_ref().ok_or_else(|| Wrong::new("path", "there is none"))?;
    let usual = FlowTable::default();
    let flow = doc.flow.first().unwrap_or(&usual);
    check_path(path)?;
    check_flow(flow)?;
    let cc = flow.cc.or(doc.cc).ok_or_else(|| Wrong::new("cc", "there is none"))?;
    let scenario = Scenario {
        over: Over::Quic,
        cc: vec![CongestionControl::Fullpipe(cc.0).into()],
        rate: path.rate.ok_or_else(|| only_sim("path", "a link has one rate"))?.0,
        rtt: path.rtt.map(|t| t.0).ok_or_else(|| only_sim("path", "rtt is the delay"))?,
        buffer: path.buffer.map_or(Buffer::Bdp(1.0), |b| b.0),
        loss: path.loss.map_or(Probability::ZERO, |p| p.0),
        flows: u32::try_from(flow.count).unwrap_or(u32::MAX),
        stagger: flow.every.map_or(fullpipe_cc::Duration::ZERO, |t| t.0),
        amount: match flow.app {
            Some(App::Bytes(bytes)) => Amount::Bytes(bytes.0),
            _ => Amount::Duration(doc.duration.0),
        },
        seed: doc.seed,
    };
    scenario.validate().map_err(|e| Wrong::new("", e.to_string().replace("--", "")))?;
    let cc = CongestionControl::Fullpipe(cc.0);
    Ok((scenario, cc))
}

fn only_sim(field: &str, instead: &str) -> Wrong {
    Wrong::new(field, format!("not over quic yet, where {instead}; leave it out, or run over sim"))
}

/// The first field that is there.
fn refuse(fields: &[(&str, bool)], place: &str, instead: &str) -> Result<(), Wrong> {
    match fields.iter().find(|(_, is_there)| *is_there) {
        Some((name, _)) => Err(only_sim(&format!("{place}.{name}"), instead)),
        None => Ok(()),
    }
}

fn check_path(path: &PathTable) -> Result<(), Wrong> {
    let fields = [
        ("steps", !path.steps.is_empty()),
        ("trace", path.trace.is_some()),
        ("queue", path.queue.is_some()),
        ("down", !path.down.is_empty()),
        ("up", !path.up.is_empty()),
    ];
    refuse(&fields, "path", "a path has rate, rtt, buffer and loss")
}

fn check_flow(flow: &FlowTable) -> Result<(), Wrong> {
    let fields = [
        ("start", flow.start.is_some()),
        ("stop", flow.stop.is_some()),
        ("app", !matches!(flow.app, None | Some(App::Bulk {} | App::Bytes(_)))),
        ("transport", flow.transport != Carrier::Quic),
        ("mss", flow.mss.is_some()),
        ("initial_cwnd", flow.initial_cwnd.is_some()),
        ("paced", flow.paced.is_some()),
        ("ack_aggregation", flow.ack_aggregation.is_some()),
        ("ack_every", flow.ack_every.is_some()),
        ("ack_delay", flow.ack_delay.is_some()),
        ("ecn", flow.ecn != Marks::Off),
        ("send_buffer", flow.send_buffer.is_some()),
        ("receive_window", flow.receive_window.is_some()),
        ("extra_rtt", flow.extra_rtt.is_some()),
        ("route", flow.route.is_some()),
    ];
    refuse(&fields, "flow[0]", "a flow has name, cc, count, every, and app as bulk or bytes")
}
