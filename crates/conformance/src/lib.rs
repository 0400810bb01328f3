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
mod model;
mod outcome;
mod policer;
mod probe_bw;
mod probe_rtt;
mod startup;
pub mod suites;
mod undo;
mod version;

use std::sync::atomic::AtomicBool;

use fullpipe_adapter::{CongestionControl, NoqAlgorithm};
use fullpipe_cc::{Algorithm, Amendments, Bbr3xOptions, DraftRules};
use fullpipe_lab::backend::{Gap, GapReason};
use fullpipe_scenario::Cc;
#[cfg(feature = "quinn")]
use fullpipe_scenario::StackAlgorithm;
use serde::Serialize;

pub use changes::{Change, Replaced, changes};

use fixture::{Broken, Lab, Outcome};
use model::{Gaps, in_words};
use version::Version;

/// The algorithm that runs in the cases.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Subject {
    /// The draft.
    Bbr3,
    /// The draft with amendments, without those of the set.
    Bbr3x(Amendments),
    /// The draft with Swift's law, which keeps these rules of the draft. Its target is one that few
    /// delays reach: with that of a data centre the law is in force on all paths of the cases.
    BbrSwift(DraftRules),
    /// noq's own BBRv3, over noq.
    NoqBbr3,
    /// quinn's own BBR, over quinn. It is of version 1, and the cases ask for the numbers of that.
    #[cfg(feature = "quinn")]
    QuinnBbr,
}

impl Subject {
    /// True if this stack has it. `bbr3x` and `bbr-swift` run in the simulator alone: the cases that
    /// their rules change need controllers without these, which a stack does not make.
    pub const fn runs_over(self, stack: Stack) -> bool {
        match self {
            Self::Bbr3 => true,
            Self::Bbr3x(_) | Self::BbrSwift(_) => matches!(stack, Stack::Sim),
            Self::NoqBbr3 => matches!(stack, Stack::Noq),
            #[cfg(feature = "quinn")]
            Self::QuinnBbr => matches!(stack, Stack::Quinn),
        }
    }

    /// The algorithm with its options, if it is one of ours.
    fn algorithm(self) -> Option<Algorithm> {
        match self {
            Self::Bbr3x(off) => Some(Algorithm::Bbr3x(Bbr3xOptions::new().without(off))),
            Self::BbrSwift(keeps) => Some(Algorithm::BbrSwift(fixture::out_of_reach(keeps))),
            others => others.cc().algorithm(),
        }
    }

    const fn cc(self) -> Cc {
        Cc::Program(match self {
            Self::Bbr3 => CongestionControl::Fullpipe(Algorithm::BBR3),
            Self::Bbr3x(_) => CongestionControl::Fullpipe(Algorithm::BBR3X),
            Self::BbrSwift(_) => CongestionControl::Fullpipe(Algorithm::BBR_SWIFT),
            Self::NoqBbr3 => CongestionControl::Noq(NoqAlgorithm::Bbr3),
            #[cfg(feature = "quinn")]
            Self::QuinnBbr => return Cc::Stack(StackAlgorithm::QuinnBbr),
        })
    }

    const fn version(self) -> &'static Version {
        match self {
            #[cfg(feature = "quinn")]
            Self::QuinnBbr => &version::ONE,
            _ => &version::THREE,
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
    /// The case was not decided: the reason.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub undecided: Option<Undecided>,
    /// The subject's own rules that change what the case asks for, by name: with them the case
    /// fails, and without these it passes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub changed_by: Option<String>,
    /// The figures seen, or the step that failed: where, what was expected, and what was seen. Of a
    /// changed case the reason for the change.
    pub detail: String,
}

/// The reason for which a case neither passes nor fails. Steps that were checked came true.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Undecided {
    /// A step asks for a variable that the algorithm does not have.
    NotApplicable,
    /// A step asks for something that the algorithm has and does not show.
    Unseen,
}

impl Undecided {
    fn by(gaps: &[(u32, Gap)]) -> Self {
        match gaps.iter().all(|(_, gap)| gap.reason == GapReason::Absent) {
            true => Self::NotApplicable,
            false => Self::Unseen,
        }
    }
}

impl CaseResult {
    /// True if the case passes, or a rule of the subject's own changes what it asks for.
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

    /// Runs it; `None` when `stop` was set before it was through. A case of [`changes`] runs twice:
    /// with the subject's own rules, and without those that change it. A subject that is without
    /// these already has to pass.
    pub fn run(&self, subject: Subject, stack: Stack, stop: &AtomicBool) -> Option<CaseResult> {
        let result = self.result(subject, stack, stop)?;
        let Some(change) = changes(subject).iter().find(|change| change.case == self.id) else {
            return Some(result);
        };
        let draft = change.rules.put_back(subject);
        if draft == subject {
            return Some(result);
        }
        let CaseResult { passed, detail, .. } = self.result(draft, stack, stop)?;
        Some(change.judge(result, (passed, detail)))
    }

    /// The result with the figures seen, the step that failed, or the variables that were missing.
    fn result(&self, subject: Subject, stack: Stack, stop: &AtomicBool) -> Option<CaseResult> {
        let gaps = Gaps::default();
        let outcome = (self.run)(&Lab { stop, subject, stack, gaps: &gaps });
        let mut left_out = gaps.left_out();
        let (passed, undecided, detail) = match outcome {
            Ok(detail) if left_out.is_empty() => (true, None, detail),
            Ok(_) => {
                let words = format!("{}; every other step came true", in_words(&left_out));
                (false, Some(Undecided::by(&left_out)), words)
            }
            Err(Broken::Stopped) => return None,
            Err(Broken::Unseen { step, gaps }) => {
                let decisive: Vec<_> = gaps.into_iter().map(|gap| (step, gap)).collect();
                let undecided = Undecided::by(&decisive);
                left_out.extend(decisive);
                (false, Some(undecided), in_words(&left_out))
            }
            Err(broken) => (false, None, broken.to_string()),
        };
        let Self { id, name, .. } = *self;
        Some(CaseResult { id, name, passed, undecided, changed_by: None, detail })
    }
}
