//! The draft's own test cases: `fullpipe conformance` as tests, each by its number and name.

use std::sync::atomic::AtomicBool;

use fullpipe_cc::{Amendments, DraftRules};
use fullpipe_conformance::{CASES, Stack, Subject, Undecided};

macro_rules! cases {
    ($($test:ident)*) => {
        $(#[test]
        fn $test() {
            passes(stringify!($test));
        })*

        #[test]
        fn every_case_is_a_test() {
            let tests = [$(stringify!($test)),*];
            let cases: Vec<String> = CASES.iter().map(|case| case.test_name()).collect();
            assert_eq!(cases, tests);
        }
    };
}

cases! {
    appendix_01_startup_ends_on_a_plateau
    appendix_02_startup_ends_on_loss_when_application_limited
    appendix_03_drain_ends_on_inflight
    appendix_04_drain_ends_on_time
    appendix_05_up_ends_on_a_plateau
    appendix_06_up_ends_on_loss_when_application_limited
    appendix_07_an_application_limited_flow_probes_for_ever
    appendix_08_down_ends_on_inflight
    appendix_09_down_ends_after_its_longest_time
    appendix_10_probe_rtt_comes_and_goes
    appendix_11_idleness_is_as_good_as_probe_rtt
    appendix_12_startup_on_a_link_with_aggregation
    appendix_13_cruise_on_a_link_with_aggregation
    appendix_14_a_bdp_below_a_packet
    appendix_15_ten_times_the_bandwidth
    appendix_16_a_tenth_of_the_bandwidth
    appendix_17_a_token_bucket_policer
    appendix_18_a_spurious_fast_recovery_is_undone
    appendix_19_a_spurious_rto_recovery_is_undone
    appendix_20_probe_rtt_within_startup_gives_startup_back
    appendix_21_loss_in_up_cuts_the_long_term_bound
    appendix_22_application_limited_in_refill
}

fn passes(test: &str) {
    let case = CASES.iter().find(|case| case.test_name() == test).expect("a case");
    let run =
        |subject| case.run(subject, Stack::Sim, &AtomicBool::new(false)).expect("nobody stops it");
    let result = run(Subject::Bbr3);
    println!("{test}: {}", result.detail);
    assert!(result.passed, "{}", result.detail);
    let amended = run(Subject::Bbr3x(Amendments::NONE));
    println!("{test}, bbr3x: {:?}, {}", amended.changed_by, amended.detail);
    assert!(amended.is_in_order(), "bbr3x: {}", amended.detail);
    let swift = run(Subject::BbrSwift(DraftRules::NONE));
    println!("{test}, bbr-swift: {:?}, {}", swift.changed_by, swift.detail);
    assert!(swift.is_in_order(), "bbr-swift: {}", swift.detail);
}

/// Results of other stacks' controllers, each by a case that is quick: a failing one is told by its
/// step, and one without its variables does not pass.
fn of_others(subject: Subject, stack: Stack, expected: &[(u32, Option<Undecided>, &str)]) {
    for (id, undecided, words) in expected {
        let case = CASES.iter().find(|case| case.id == *id).expect("a case");
        let result = case.run(subject, stack, &AtomicBool::new(false)).expect("nobody stops it");
        println!("{id}: {}", result.detail);
        assert!(!result.passed && result.changed_by.is_none());
        assert_eq!(result.undecided, *undecided, "{id}: {}", result.detail);
        assert!(result.detail.contains(words), "{id}: {}", result.detail);
    }
}

/// docs/noq.md has the causes.
#[test]
fn noqs_own_counts_inflight_an_ack_late_and_is_limited_every_other_round() {
    let expected = [
        (7, None, "expected no round without growth counted"),
        (8, None, "expected CRUISE on the ACK that reaches both bounds"),
    ];
    of_others(Subject::NoqBbr3, Stack::Noq, &expected);
}

#[cfg(feature = "quinn")]
#[test]
fn quinns_own_begins_with_probe_rtt_and_has_no_variables_of_version_3() {
    let expected = [
        (10, None, "expected ProbeRTT when the interval since the last lower RTT is over"),
        (4, Some(Undecided::NotApplicable), "no such variable: drain_start_round (step 4)"),
        (22, Some(Undecided::NotApplicable), "no such variable: ProbeBW_REFILL (step 1)"),
    ];
    of_others(Subject::QuinnBbr, Stack::Quinn, &expected);
}

/// Three that are quick, over a real stack.
fn passes_over(stack: Stack) {
    for test in [
        "appendix_03_drain_ends_on_inflight",
        "appendix_14_a_bdp_below_a_packet",
        "appendix_20_probe_rtt_within_startup_gives_startup_back",
    ] {
        let case = CASES.iter().find(|case| case.test_name() == test).expect("a case");
        let result = case.run(Subject::Bbr3, stack, &AtomicBool::new(false));
        let result = result.expect("nobody stops it");
        println!("{test}: {}", result.detail);
        assert!(result.passed, "{test}: {}", result.detail);
    }
}

/// `fullpipe conformance --stack noq` runs all, in two minutes of CPU.
#[test]
fn noq_passes_too() {
    passes_over(Stack::Noq);
}

/// `--stack quinn`.
#[cfg(feature = "quinn")]
#[test]
fn quinn_passes_too() {
    passes_over(Stack::Quinn);
}
