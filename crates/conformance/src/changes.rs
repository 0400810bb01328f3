//! Cases of the draft that an amendment of `bbr3x` changes.

use fullpipe_cc::{Amendment, Amendments};

use super::CaseResult;

/// A case that asks for what an amendment replaces.
#[derive(Debug)]
pub struct Change {
    /// The number of the case.
    pub case: u32,
    /// The amendments. Without them the case passes.
    pub amendments: &'static [Amendment],
    /// The step that it changes, and the reason.
    pub reason: &'static str,
}

/// The cases that `bbr3x` does not pass by intention, in their order.
pub static CHANGES: [Change; 6] = [
    change(
        5,
        &[Amendment::UpEndsAtTarget, Amendment::UpEndsInQueue],
        "UP ends with the queue that its target makes, not after three rounds: a flow that is alone needs no longer queue, and \
         one among many after two, where others probe with it",
    ),
    change(
        8,
        &[Amendment::DeeperDown],
        "DOWN paces at 0.82 and not at 0.9: the queue of UP is gone sooner",
    ),
    change(
        9,
        &[Amendment::DeeperDown],
        "at 0.82 DOWN empties the queue of a link that lost 15 %, where 0.9 does not: it ends by inflight",
    ),
    change(
        10,
        &[Amendment::ProbeRttWhenNeeded, Amendment::TimersInRoundTrips],
        "ProbeRTT waits for 20 s while samples show the shortest RTT, and 16 round trips where these take longer",
    ),
    change(
        19,
        &[Amendment::UpEndsInQueue],
        "packets that are held back until a timeout are a queue, which ends UP before they are lost: no loss ended it, and \
         there is no such end to undo",
    ),
    change(
        20,
        &[Amendment::ProbeRttWhenNeeded],
        "no ProbeRTT comes in a Startup whose application-limited samples show the shortest RTT",
    ),
];

const fn change(case: u32, amendments: &'static [Amendment], reason: &'static str) -> Change {
    Change { case, amendments, reason }
}

impl Change {
    /// `without` and the amendments of this change.
    pub(super) fn also_without(&self, without: Amendments) -> Amendments {
        self.amendments.iter().fold(without, |set, amendment| set.with(*amendment))
    }

    /// The verdict on the case by its result with the amendments, and by its outcome without them.
    pub(super) fn judge(&self, with: CaseResult, without: (bool, String)) -> CaseResult {
        let amendments = self.also_without(Amendments::NONE).to_string();
        let (passes_without, seen_without) = without;
        let (changed_by, detail) = if with.passed {
            (None, format!("passes with {amendments}, said to change it"))
        } else if passes_without {
            (Some(amendments), self.reason.to_owned())
        } else {
            (None, format!("{}; without {amendments}: {seen_without}", with.detail))
        };
        CaseResult { passed: false, changed_by, detail, ..with }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_case_is_changed_only_if_it_fails_with_the_amendment_and_passes_without() {
        let judge = |with: bool, without: bool| {
            let result = CaseResult {
                id: 8,
                name: "x",
                passed: with,
                undecided: None,
                changed_by: None,
                detail: "a".into(),
            };
            CHANGES[1].judge(result, (without, "b".into()))
        };
        let changed = judge(false, true);
        assert_eq!((changed.passed, changed.changed_by.as_deref()), (false, Some("deeper_down")));
        assert!(changed.is_in_order() && changed.detail == CHANGES[1].reason);
        for (with, without, words) in
            [(true, true, "said to"), (true, false, "said to"), (false, false, "a; without")]
        {
            let result = judge(with, without);
            assert!(!result.is_in_order() && result.detail.contains(words), "{result:?}");
        }
    }
}
