//! The draft's own test cases, "BBR Example Test Cases", as something that can be run: the command
//! shows them to whoever wants to believe us, the tests run the same.
//!
//! A case runs real controllers in the simulator at the corners of rate and round trip that it
//! allows, and checks the numbered steps of the text event by event, on what the snapshot shows.
#![forbid(unsafe_code)]

mod adapt;
mod aggregation;
mod changes;
mod drain;
mod fixture;
mod flow;
mod policer;
mod probe_bw;
mod probe_rtt;
mod startup;
mod undo;

use std::sync::atomic::AtomicBool;

use fullpipe_cc::{Algorithm, Amendments};
use serde::Serialize;

pub use changes::{CHANGES, Change};

use fixture::{Broken, Lab, Outcome};

/// The algorithm that runs in the cases.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Subject {
    /// The draft.
    Bbr3,
    /// The draft with amendments, without those of the set.
    Bbr3x(Amendments),
}

impl Subject {
    const fn algorithm(self) -> Algorithm {
        match self {
            Self::Bbr3 => Algorithm::Bbr3,
            Self::Bbr3x(_) => Algorithm::Bbr3x,
        }
    }

    const fn without(self) -> Amendments {
        match self {
            Self::Bbr3 => Amendments::NONE,
            Self::Bbr3x(without) => without,
        }
    }
}

/// The stack that carries the controller.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Stack {
    /// The simulator's sender.
    #[default]
    Sim,
    /// noq, both ends of it, under a virtual clock. Paths of more than 1 Gbit/s have that rate and
    /// a round trip that is as much longer, or are left out if more than 12.5 MB are in flight.
    Noq,
    /// quinn, as noq.
    #[cfg(feature = "quinn")]
    Quinn,
}

/// A case of the draft.
#[derive(Debug)]
pub struct Case {
    /// Its number in the order of the text, from 1.
    pub id: u32,
    /// The requirement.
    pub name: &'static str,
    run: fn(&Lab<'_>) -> Outcome,
}

/// The result of a case.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct CaseResult {
    /// The case's number.
    pub id: u32,
    /// The case's name.
    pub name: &'static str,
    /// True if every step came true.
    pub passed: bool,
    /// The amendments that change what the case asks for: with all amendments the case fails, and
    /// without these it passes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub changed_by: Option<String>,
    /// The figures seen, or the step that failed: where, what was expected, and what was seen. Of a
    /// changed case the reason for the change.
    pub detail: String,
}

impl CaseResult {
    /// True if the case passes, or an amendment changes what it asks for.
    pub const fn is_in_order(&self) -> bool {
        self.passed || self.changed_by.is_some()
    }
}

/// Every case, in the order of the text.
pub static CASES: [Case; 22] = [
    case(1, "startup_ends_on_a_plateau", startup::plateau),
    case(
        2,
        "startup_ends_on_loss_when_application_limited",
        startup::loss_when_application_limited,
    ),
    case(3, "drain_ends_on_inflight", drain::on_inflight),
    case(4, "drain_ends_on_time", drain::on_time),
    case(5, "up_ends_on_a_plateau", probe_bw::up_ends_on_a_plateau),
    case(
        6,
        "up_ends_on_loss_when_application_limited",
        probe_bw::up_ends_on_loss_when_application_limited,
    ),
    case(7, "an_application_limited_flow_probes_for_ever", startup::never_when_application_limited),
    case(8, "down_ends_on_inflight", probe_bw::down_ends_on_inflight),
    case(9, "down_ends_after_its_longest_time", probe_bw::down_ends_after_its_longest_time),
    case(10, "probe_rtt_comes_and_goes", probe_rtt::comes_and_goes),
    case(11, "idleness_is_as_good_as_probe_rtt", probe_rtt::idleness_is_as_good),
    case(12, "startup_on_a_link_with_aggregation", aggregation::startup),
    case(13, "cruise_on_a_link_with_aggregation", aggregation::cruise),
    case(14, "a_bdp_below_a_packet", adapt::sub_packet_bdp),
    case(15, "ten_times_the_bandwidth", adapt::ten_times_the_bandwidth),
    case(16, "a_tenth_of_the_bandwidth", adapt::a_tenth_of_the_bandwidth),
    case(17, "a_token_bucket_policer", policer::token_bucket),
    case(18, "a_spurious_fast_recovery_is_undone", undo::fast_recovery),
    case(19, "a_spurious_rto_recovery_is_undone", undo::rto_recovery),
    case(20, "probe_rtt_within_startup_gives_startup_back", startup::probe_rtt_within_startup),
    case(21, "loss_in_up_cuts_the_long_term_bound", adapt::loss_in_up),
    case(22, "application_limited_in_refill", adapt::limited_in_refill),
];

const fn case(id: u32, name: &'static str, run: fn(&Lab<'_>) -> Outcome) -> Case {
    Case { id, name, run }
}

impl Case {
    /// The name of its test, and another way to ask for it: `appendix_01_...`.
    pub fn test_name(&self) -> String {
        format!("appendix_{:02}_{}", self.id, self.name)
    }

    /// Runs it; `None` when `stop` was set before it was through. A case of [`CHANGES`] runs twice
    /// with `bbr3x`: with the amendments that are on, and without those that change it.
    pub fn run(&self, subject: Subject, stack: Stack, stop: &AtomicBool) -> Option<CaseResult> {
        let (passed, detail) = self.outcome(subject, stack, stop)?;
        let result = CaseResult { id: self.id, name: self.name, passed, changed_by: None, detail };
        let change = CHANGES.iter().find(|change| change.case == self.id);
        match (change, subject) {
            (Some(change), Subject::Bbr3x(without)) => {
                let draft = Subject::Bbr3x(change.also_without(without));
                Some(change.judge(result, self.outcome(draft, stack, stop)?))
            }
            _ => Some(result),
        }
    }

    /// True if every step came true, with the figures seen or the step that failed.
    fn outcome(&self, subject: Subject, stack: Stack, stop: &AtomicBool) -> Option<(bool, String)> {
        match (self.run)(&Lab { stop, subject, stack }) {
            Ok(detail) => Some((true, detail)),
            Err(Broken::Stopped) => None,
            Err(broken) => Some((false, broken.to_string())),
        }
    }
}
