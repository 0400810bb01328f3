//! Settings of flows that no algorithm of the file has. A list of algorithms may have one that is
//! for some of them alone; what is for none of them would be dropped in silence.

use std::collections::BTreeMap;

use fullpipe_cc::{Algorithm, Amendments, CubicRules, Transport};

use super::Cc;
use super::error::Wrong;
use super::feature::Protocol;
use super::schema::{Document, FlowSender, FlowTable, Startup};

/// The settings of all runs, by their fields: whether any run uses one, and what it is for.
#[derive(Default)]
pub(super) struct Settings(BTreeMap<String, (bool, &'static str)>);

impl Settings {
    /// Notes what a run has.
    pub(super) fn note(&mut self, doc: &Document) {
        for (i, table) in doc.flow.iter().enumerate() {
            for (name, is_used, what) in of_flow(doc, table) {
                let place = self.0.entry(format!("flow[{i}].{name}")).or_insert((false, what));
                place.0 |= is_used;
            }
        }
    }

    /// The first that no run uses.
    pub(super) fn unused(self) -> Option<Wrong> {
        let (field, (_, what)) = self.0.into_iter().find(|(_, (is_used, _))| !is_used)?;
        Some(Wrong::new(field, format!("{what}, and no run here has such a flow; leave it out")))
    }
}

/// The settings that a flow has, whether its algorithm has them, and whose they are.
fn of_flow(doc: &Document, table: &FlowTable) -> Vec<(&'static str, bool, &'static str)> {
    let algorithm = match table.cc.as_ref().or(doc.cc.as_ref()) {
        Some(FlowSender::Cc(cc)) if table.program.is_none() => Cc::algorithm(*cc),
        _ => None,
    };
    // What other people's algorithms have is told by their backends.
    let Some(algorithm) = algorithm else { return Vec::new() };
    let is_custom = matches!(algorithm, Algorithm::Custom(_));
    let is_fixed = matches!(algorithm, Algorithm::Fixed(_));
    let is_cubic = matches!(algorithm, Algorithm::Cubic(_));
    let amended = table.bbr3x_without.filter(|without| without.0 != Amendments::NONE);
    let transport = match table.transport.unwrap_or_default() {
        Protocol::Quic => Transport::Quic,
        Protocol::Tcp => Transport::Tcp,
    };
    let startup = table.startup.filter(|startup| *startup != Startup::Standard);
    let has_startup = match algorithm {
        Algorithm::Bbr3(_)
        | Algorithm::Bbr3Linux(_)
        | Algorithm::Bbr3x(_)
        | Algorithm::Bbr3xLinux(_)
        | Algorithm::BbrSwift(_) => startup == Some(Startup::RapidStart),
        Algorithm::Cubic(options) => options.rules(transport) == CubicRules::Rfc9438,
        Algorithm::Reno(_) => true,
        _ => false,
    };
    let all = [
        (
            "paced",
            table.paced.is_some(),
            is_cubic || is_custom || matches!(algorithm, Algorithm::Reno(_)),
            "only cubic and reno can be without pacing",
        ),
        (
            "ack_aggregation",
            table.ack_aggregation.is_some(),
            matches!(algorithm, Algorithm::Bbr1(_)),
            "only bbr1 has this estimate",
        ),
        ("cubic", table.cubic.is_some(), is_cubic, "only cubic has these two kinds"),
        (
            "bbr3x_without",
            amended.is_some(),
            matches!(algorithm, Algorithm::Bbr3x(_) | Algorithm::Bbr3xLinux(_)),
            "only bbr3x has amendments",
        ),
        (
            "startup",
            startup.is_some(),
            has_startup,
            "the BBRv3s have \"rapid_start\", cubic by RFC 9438 and reno \"search\" too",
        ),
        ("initial_cwnd", table.initial_cwnd.is_some(), !is_fixed, "a fixed rate has no window"),
    ];
    let there = all.into_iter().filter(|(_, is_there, ..)| *is_there);
    there.map(|(name, _, has, what)| (name, has, what)).collect()
}
