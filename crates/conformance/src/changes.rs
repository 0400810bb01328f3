//! Cases of the draft that a rule of `bbr3x` or of `bbr-swift` changes.

use std::fmt;

use fullpipe_cc::{Amendment, Amendments, DraftRules};

use super::{CaseResult, Subject};

/// A case that asks for what a rule of the subject's own replaces.
#[derive(Debug)]
pub struct Change {
    /// The number of the case.
    pub case: u32,
    /// The rules. Without them the case passes.
    pub rules: Replaced,
    /// The step that they change, and the reason.
    pub reason: &'static str,
}

/// Rules of the draft that a subject replaces by its own.
#[derive(Clone, Copy, Debug)]
pub enum Replaced {
    /// By these amendments of `bbr3x`.
    By(&'static [Amendment]),
    /// These, by `bbr-swift`.
    InSwift(DraftRules),
}

/// By name, with `+` between them: of `bbr3x` the amendments, of `bbr-swift` the draft's rules.
impl fmt::Display for Replaced {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rules = match self {
            Self::By(amendments) => return with(Amendments::NONE, amendments).fmt(f),
            Self::InSwift(rules) => rules,
        };
        let names = [
            (rules.min_pipe_cwnd, "min_pipe_cwnd"),
            (rules.pacing_margin, "pacing_margin"),
            (rules.probe_rounds, "probe_rounds"),
        ];
        let names = names.into_iter().filter(|(is_there, _)| *is_there).map(|(_, name)| name);
        f.write_str(&names.collect::<Vec<_>>().join("+"))
    }
}

fn with(set: Amendments, amendments: &[Amendment]) -> Amendments {
    amendments.iter().fold(set, |set, amendment| set.with(*amendment))
}

impl Replaced {
    /// The subject with the draft's rules in place of these; another subject as it is.
    pub fn put_back(&self, subject: Subject) -> Subject {
        match (self, subject) {
            (Self::By(amendments), Subject::Bbr3x(without)) => {
                Subject::Bbr3x(with(without, amendments))
            }
            (Self::InSwift(rules), Subject::BbrSwift(keeps)) => Subject::BbrSwift(DraftRules {
                min_pipe_cwnd: keeps.min_pipe_cwnd || rules.min_pipe_cwnd,
                pacing_margin: keeps.pacing_margin || rules.pacing_margin,
                probe_rounds: keeps.probe_rounds || rules.probe_rounds,
            }),
            (_, other) => other,
        }
    }
}

/// The cases that the subject does not pass by intention, in their order.
pub fn changes(subject: Subject) -> &'static [Change] {
    match subject {
        Subject::Bbr3x(_) => &IN_BBR3X,
        Subject::BbrSwift(_) => &IN_SWIFT,
        _ => &[],
    }
}

static IN_BBR3X: [Change; 10] = [
    amended(
        5,
        &[Amendment::ShortProbe],
        "UP ends with the queue that its target makes, not after three rounds: a flow that is alone needs no longer queue, and \
         one among many after two, where others probe with it",
    ),
    amended(
        8,
        &[Amendment::ShortProbe],
        "DOWN paces at 0.82 and not at 0.9: the queue of UP is gone sooner",
    ),
    amended(
        9,
        &[Amendment::ShortProbe],
        "at 0.82 DOWN empties the queue of a link that lost 15 %, where 0.9 does not: it ends by inflight",
    ),
    amended(
        10,
        &[Amendment::ProbeRttOnDemand, Amendment::TimersInRoundTrips],
        "ProbeRTT waits for 20 s while samples show the shortest RTT, and 16 round trips where these take longer",
    ),
    amended(
        11,
        &[Amendment::SmallCruiseQueue],
        "CRUISE without a queue is paced at the bandwidth, with no margin off",
    ),
    amended(
        13,
        &[Amendment::SmallCruiseQueue],
        "the window of CRUISE is 1.02 BDP and eight packets, at most 1.25 BDP, and not 2",
    ),
    amended(
        16,
        &[Amendment::SmallCruiseQueue],
        "max_bw is what CRUISE delivers behind its queue, so that the short-term bound is not needed",
    ),
    amended(
        18,
        &[Amendment::PathLoss],
        "losses that are no more than a path's do not end Startup while the rate grows: there is no such end to undo",
    ),
    amended(
        19,
        &[Amendment::ShortProbe],
        "packets that are held back until a timeout are a queue, which ends UP before they are lost: no loss ended it, and \
         there is no such end to undo",
    ),
    amended(
        20,
        &[Amendment::ProbeRttOnDemand],
        "no ProbeRTT comes in a Startup whose application-limited samples show the shortest RTT",
    ),
];

const MIN_PIPE_CWND: DraftRules = DraftRules { min_pipe_cwnd: true, ..DraftRules::NONE };
const PACING_MARGIN: DraftRules = DraftRules { pacing_margin: true, ..DraftRules::NONE };
const PROBE_ROUNDS: DraftRules = DraftRules { probe_rounds: true, ..DraftRules::NONE };

static IN_SWIFT: [Change; 6] = [
    in_swift(3, MIN_PIPE_CWND, "Inflight(1.0) may be less than four packets"),
    in_swift(8, MIN_PIPE_CWND, "Inflight(1.0) may be less than four packets"),
    in_swift(
        9,
        PROBE_ROUNDS,
        "a probe waits for 32 to 63 rounds, also where the BDP has fewer packets",
    ),
    in_swift(11, PACING_MARGIN, "paces at bw, without a margin: the law drains queues"),
    in_swift(
        13,
        MIN_PIPE_CWND,
        "in a ProbeRTT of one packet nothing is in flight between two packets, which is a restart from idle: extra_acked \
         begins anew with each",
    ),
    in_swift(14, MIN_PIPE_CWND, "the window may be less than four packets"),
];

const fn amended(case: u32, amendments: &'static [Amendment], reason: &'static str) -> Change {
    Change { case, rules: Replaced::By(amendments), reason }
}

const fn in_swift(case: u32, rules: DraftRules, reason: &'static str) -> Change {
    Change { case, rules: Replaced::InSwift(rules), reason }
}

impl Change {
    /// The verdict on the case by its result with the rules, and by its outcome without them.
    pub(super) fn judge(&self, with: CaseResult, without: (bool, String)) -> CaseResult {
        let rules = self.rules.to_string();
        let (passes_without, seen_without) = without;
        let (changed_by, detail) = if with.passed {
            (None, format!("passes with {rules}, said to change it"))
        } else if passes_without {
            (Some(rules), self.reason.to_owned())
        } else {
            (None, format!("{}; without {rules}: {seen_without}", with.detail))
        };
        CaseResult { passed: false, changed_by, detail, ..with }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_case_is_changed_only_if_it_fails_with_the_rules_and_passes_without() {
        let judge = |with: bool, without: bool| {
            let result = CaseResult {
                id: 8,
                name: "x",
                passed: with,
                undecided: None,
                changed_by: None,
                detail: "a".into(),
            };
            IN_BBR3X[1].judge(result, (without, "b".into()))
        };
        let changed = judge(false, true);
        assert_eq!((changed.passed, changed.changed_by.as_deref()), (false, Some("short_probe")));
        assert!(changed.is_in_order() && changed.detail == IN_BBR3X[1].reason);
        for (with, without, words) in
            [(true, true, "said to"), (true, false, "said to"), (false, false, "a; without")]
        {
            let result = judge(with, without);
            assert!(!result.is_in_order() && result.detail.contains(words), "{result:?}");
        }
    }
}
