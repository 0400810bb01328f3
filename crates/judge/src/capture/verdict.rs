//! The kind of algorithm and its defects, as far as a flow shows them on a path that is not known.

use serde::Serialize;

use super::figures::Figures;
use super::flow::Unknown;
use super::measure::View;
use crate::program::judge::{Defect, Looks, at_quantile, is_flat};

/// A defect that something else would explain as well.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Suspicion {
    /// The defect's name.
    pub name: String,
    /// The observation.
    pub about: String,
    /// The other explanation.
    pub or_else: String,
}

/// The congestion control of a flow, as far as the flow shows it.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct FlowVerdict {
    /// The kind, and whether it paces.
    pub looks: Looks,
    /// That in words.
    pub looks_like: String,
    /// The observations that it rests on.
    pub because: Vec<String>,
    /// Defects that the flow proves, on whatever path it was.
    pub defects: Vec<Defect>,
    /// Defects that it hints at.
    pub suspicions: Vec<Suspicion>,
    /// Things that cannot be known from it.
    pub cannot_tell: Vec<Unknown>,
}

/// The share of the time from which on a full window of the receiver is the limit.
pub(super) const WINDOW_LIMITED: f64 = 0.3;

/// ProbeRTT of BBRv3 leaves half of a BDP in flight, and that of BBRv1 four packets.
pub(super) const HALF: f64 = 0.35;

/// Defects that need a path whose rate, delay or company are known.
const NEED_A_PATH: &str = "too much headroom after a loss, collapses under jitter or ACK aggregation, does not forget \
                           an old min_rtt or an old bandwidth, starves a flow like itself";

/// A flow's view with its figures and the rates that several rules ask for.
pub(super) struct Facts<'a> {
    pub(super) view: &'a View<'a>,
    pub(super) figures: &'a Figures,
    /// From here on the sender has found its rate.
    pub(super) from: f64,
    pub(super) loss: f64,
    /// Round trips with a loss over packets: what a loss-based algorithm answers to.
    pub(super) events: f64,
    /// The sending rate from slice to slice differs by no more than a twentieth.
    pub(super) is_flat: bool,
    /// The usual data in flight, in packets.
    pub(super) packets: f64,
    pub(super) because: Vec<String>,
    pub(super) cannot_tell: Vec<Unknown>,
}

impl FlowVerdict {
    pub(super) fn of(view: &View<'_>, figures: &Figures) -> Self {
        let from = view.settled_s();
        let levels = view.levels_in(from, view.end_s).to_vec();
        let slice = 0.5_f64.max(4.0 * view.usual_rtt_s.unwrap_or(0.0));
        let mut facts = Facts {
            view,
            figures,
            from,
            loss: view.loss(from, view.end_s),
            events: view.loss_events(from),
            is_flat: is_flat(&view.sending(from, view.end_s, slice), 0.05),
            packets: at_quantile(levels, 0.5).unwrap_or(0.0) / figures.packet_bytes,
            because: Vec::new(),
            cannot_tell: view.flow.unknown.clone(),
        };
        let kind = facts.kind();
        let looks = Looks { kind, paced: facts.paced(kind) };
        let defects = facts.defects(&looks);
        let suspicions = if defects.is_empty() { facts.suspicions(&looks) } else { Vec::new() };
        facts.cannot(
            NEED_A_PATH,
            "these show on a path whose rate, delays and company are known: fullpipe judge runs a sender on such",
        );
        Self {
            looks,
            looks_like: looks.to_string(),
            because: facts.because,
            defects,
            suspicions,
            cannot_tell: facts.cannot_tell,
        }
    }
}

impl Facts<'_> {
    pub(super) fn cannot(&mut self, what: &str, why: impl Into<String>) {
        self.cannot_tell.push(Unknown { what: what.to_owned(), why: why.into() });
    }

    pub(super) fn because(&mut self, why: String) {
        self.because.push(why);
    }

    /// The usual round trip from three seconds on over the shortest one.
    pub(super) fn stretch(&self, quantile: f64) -> Option<f64> {
        Some(self.view.rtt(self.from, self.view.end_s, quantile)? / self.view.min_rtt_s?)
    }
}
