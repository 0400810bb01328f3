//! A survey that is stopped, and goes on.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use fullpipe_lab::run::Journal;
use fullpipe_lab::{RunOptions, run_point};
use fullpipe_report::plan::Plan;
use fullpipe_survey::{Kind, SurveyError};

use crate::{options, run, survey};

fn journal(dir: &Path) -> Vec<u8> {
    std::fs::read(dir.join(Journal::NAME)).expect("a journal")
}

#[test]
fn a_survey_that_was_stopped_comes_to_what_an_undisturbed_one_does() {
    let dir = tempfile::tempdir().expect("a directory");
    let survey = survey(options(&["bbr3", "reno"], 5, &[Kind::Policer, Kind::RttStep]));
    let (whole, stopped) = (dir.path().join("whole"), dir.path().join("stopped"));
    let all = run(&survey, &whole);
    assert!(!all.interrupted);
    let stop = AtomicBool::new(false);
    let results = survey.open(&stopped, b"this program").expect("a directory");
    let point = |plan: &Plan, i| run_point(plan, i, &RunOptions::default(), &stop, &mut |_| ());
    let part = survey.run(results, &point, |done| stop.store(done >= 3, Ordering::Relaxed));
    let part = part.expect("it is written");
    assert!(part.interrupted && (3..10).contains(&part.done.len()), "{part:?}");
    assert_eq!(run(&survey, &stopped), all);
    assert_eq!(journal(&stopped), journal(&whole));
    // Nothing is left to be run.
    assert_eq!(run(&survey, &stopped), all);
    assert_eq!(journal(&stopped), journal(&whole));
}

#[test]
fn more_paths_and_algorithms_go_on_in_the_same_directory() {
    let dir = tempfile::tempdir().expect("a directory");
    let kinds = [Kind::Policer];
    let few = run(&survey(options(&["bbr3", "reno"], 2, &kinds)), dir.path());
    let wide = survey(options(&["cubic", "reno", "bbr3"], 3, &kinds));
    let results = wide.open(dir.path(), b"this program").expect("its directory");
    assert_eq!(wide.todo(&results), [0, 3, 6, 7, 8]);
    drop(results);
    let more = run(&wide, dir.path());
    assert_eq!(more.done.len(), 9);
    assert!(few.done.iter().all(|outcome| more.done.contains(outcome)));
    // Those of before are still there for who asks for them.
    let again = run(&survey(options(&["bbr3", "reno"], 2, &kinds)), dir.path());
    assert_eq!(again, few);
}

#[test]
fn a_directory_of_other_paths_or_of_another_program_is_left_alone() {
    let dir = tempfile::tempdir().expect("a directory");
    run(&survey(options(&["bbr3", "reno"], 1, &[Kind::Policer])), dir.path());
    let before = journal(dir.path());
    let other = survey(options(&["bbr3", "reno"], 1, &[Kind::Jitter]));
    let same = survey(options(&["bbr3", "reno"], 1, &[Kind::Policer]));
    for (survey, program) in [(&other, &b"this program"[..]), (&same, b"another")] {
        let error = survey.open(dir.path(), program).expect_err("another survey's");
        assert!(error.is_of_input(), "{error}");
        assert!(matches!(error, SurveyError::Journal(_)), "{error}");
        assert!(error.to_string().contains("holds the results of another survey"), "{error}");
    }
    assert_eq!(journal(dir.path()), before);
}

#[test]
fn what_cannot_be_compared_is_refused() {
    for (names, says) in [
        (&["bbr3"][..], "'bbr3' has nothing to be compared with"),
        (&["bbr3", "cubic", "bbr3"], "'bbr3' is named twice"),
        (
            &["bbr3", "tahoe"],
            "none of the 1 paths can be run over sim (virtual clock): survey:6: cc: unknown algorithm",
        ),
    ] {
        let error = fullpipe_survey::run::Survey::new(options(names, 1, &[])).expect_err(says);
        assert!(error.is_of_input() && error.to_string().contains(says), "{error}");
    }
}
