//! Careful Resume (RFC 9959): a connection over a path that an earlier one knew.

use fullpipe_cc::{Algorithm, Config, Duration, Rate, ResumePhase, SavedParameters, State};

use crate::events::LINUX_CUBIC;
use crate::test_link::{Link, MS, SMSS};

const ALL: [Algorithm; 7] = [
    Algorithm::BBR3,
    Algorithm::BBR3X,
    Algorithm::BBR3_LINUX,
    Algorithm::BBR3X_LINUX,
    Algorithm::BBR1,
    Algorithm::CUBIC,
    Algorithm::RENO,
];

const RTT: Duration = Duration::from_millis(600);
/// 50 Mbit/s over 600 ms.
const BDP: u64 = 3_750_000;
const SAVED: SavedParameters = SavedParameters { cwnd: BDP, rtt: RTT };
const INITIAL_CWND: u64 = 10 * SMSS;

fn link(algorithm: Algorithm, resume: Option<SavedParameters>) -> Link {
    Link::with(algorithm, 50, RTT, Config { resume, ..Config::new(1) })
}

/// Runs to a phase, or to the end of all of them, and asserts what holds in each on the way.
fn run_to(link: &mut Link, phase: Option<ResumePhase>) {
    let end = link.now + Duration::from_secs(20);
    let allowed = Rate::from_volume(BDP / 2, RTT).as_bytes_per_sec();
    while link.cc.resume_phase() != phase {
        assert!(link.now < end, "never in {phase:?}: {:?}", link.cc);
        link.step(&mut || false);
        if link.cc.resume_phase() == Some(ResumePhase::Unvalidated) {
            assert_eq!(link.cc.cwnd(), BDP / 2);
            let rate = link.cc.pacing_rate().expect("a rate").as_bytes_per_sec();
            assert!(rate <= allowed + allowed / 100, "{rate} above {allowed}");
        }
    }
}

/// A connection leaves half of a BDP to one and a half; too little is not worth it.
#[test]
fn a_connection_leaves_what_the_path_carried() {
    for algorithm in ALL {
        let mut link = link(algorithm, None);
        assert_eq!(link.cc.saved_parameters(), None, "{algorithm}: nothing is known");
        link.run(MS.times(700));
        assert_eq!(link.cc.saved_parameters(), None, "{algorithm}: slow start is as fast");
        link.run(MS.times(6_000));
        let saved = link.cc.saved_parameters().expect("parameters");
        assert!((RTT..RTT + MS).contains(&saved.rtt), "{algorithm}: {saved:?}");
        assert!((BDP / 2..BDP * 3 / 2).contains(&saved.cwnd), "{algorithm}: {saved:?}");
    }
}

/// Half of the saved window leaves in the second round trip, paced over it, and everything goes on
/// from there when it has arrived.
#[test]
fn a_known_path_is_filled_in_two_round_trips() {
    for algorithm in ALL.into_iter().chain([LINUX_CUBIC]) {
        let config = Config { resume: Some(SAVED), ..Config::new(1) };
        let mut link = Link::with(algorithm, 50, RTT, config);
        run_to(&mut link, Some(ResumePhase::Unvalidated));
        assert!(link.delivered <= INITIAL_CWND, "{algorithm}: {}", link.delivered);
        run_to(&mut link, Some(ResumePhase::Validating));
        // All of it is under way, but for what the pacer's last step left.
        assert_eq!(link.cc.saved_parameters(), None, "{algorithm}: not validated");
        let inflight = link.cc.inflight();
        assert!(inflight >= BDP / 2 - BDP / 20, "{algorithm}: {inflight}");
        run_to(&mut link, None);
        assert!(!link.cc.saved_parameters_failed(), "{algorithm}");
        assert!(link.cc.cwnd() >= BDP / 2 - BDP / 20, "{algorithm}: {:?}", link.cc);

        let mut resumed = Link::with(algorithm, 50, RTT, config);
        let mut anew = self::link(algorithm, None);
        for link in [&mut resumed, &mut anew] {
            link.run(RTT.times(4));
        }
        let (resumed, anew) = (resumed.delivered, anew.delivered);
        assert!(resumed > 10 * anew, "{algorithm}: {resumed} and {anew}");
    }
}

/// The first loss of what was sent beyond the usual brings the window to half of what arrived. It
/// does not grow until all of that is gone; BBR has left Startup, and the threshold of the others
/// is half of what arrived in all.
#[test]
fn a_path_that_carries_less_is_left_alone() {
    for algorithm in ALL {
        let mut link = link(algorithm, Some(SAVED));
        run_to(&mut link, Some(ResumePhase::Validating));
        let before = link.delivered;
        let mut count = 0;
        link.step(&mut || false);
        while link.cc.resume_phase() == Some(ResumePhase::Validating) {
            link.step(&mut || {
                count += 1;
                count == 50
            });
        }
        assert_eq!(link.cc.resume_phase(), Some(ResumePhase::SafeRetreat), "{algorithm}");
        let arrived = link.delivered - before + 2 * INITIAL_CWND;
        let mut cwnd = link.cc.cwnd();
        assert!(cwnd <= arrived / 2 + SMSS, "{algorithm}: {cwnd} of {arrived}");
        while link.cc.resume_phase().is_some() {
            if link.cc.snapshot().bbr.is_some() {
                assert_ne!(link.state(), State::Startup, "{algorithm}");
            }
            assert!(link.cc.cwnd() <= cwnd, "{algorithm}: it grew");
            cwnd = link.cc.cwnd();
            link.step(&mut || false);
        }
        assert!(link.cc.saved_parameters_failed(), "{algorithm}");
        // Nor does the end of the recovery bring the jump's window back.
        let end = link.now + RTT.times(2);
        while link.now < end {
            let (cwnd, before) = (link.cc.cwnd(), link.delivered);
            link.step(&mut || false);
            let most = cwnd + (link.delivered - before) + SMSS;
            assert!(link.cc.cwnd() <= most, "{algorithm}: {cwnd} before {:?}", link.cc);
        }
        let (ssthresh, arrived) = (link.cc.snapshot().ssthresh, link.delivered);
        if link.cc.snapshot().bbr.is_none() {
            assert!(
                ssthresh.is_some_and(|bytes| bytes <= arrived / 2),
                "{algorithm}: {ssthresh:?}"
            );
        }
    }
}

/// A policer with a tenth of the path's rate: what is lost is less than a tenth of what Startup and
/// slow start lose there without the parameters, or no more than the jump.
#[test]
fn a_path_that_became_slower_loses_no_more_than_without() {
    for algorithm in ALL {
        let lost = |resume| {
            let mut link = link(algorithm, resume);
            link.rate = Rate::from_bits_per_sec(5_000_000);
            let depth = link.rate.bytes_in(RTT);
            link.policer = Some(crate::test_link::TokenBucket {
                rate: link.rate,
                depth,
                tokens: depth,
                filled: link.now,
            });
            link.run(RTT.times(12));
            link.lost
        };
        let (resumed, anew) = (lost(Some(SAVED)), lost(None));
        assert!(resumed <= anew.max(BDP / 2), "{algorithm}: {resumed} and {anew}");
    }
}

/// Nothing differs from a connection without the parameters where the path is not the one that is
/// known: a round trip of half, of more than ten times; a loss before the jump; a timeout.
#[test]
fn another_path_is_a_new_one() {
    let known = |rtt| Some(SavedParameters { cwnd: BDP, rtt });
    for algorithm in ALL {
        for (resume, loses) in [
            (known(RTT.times(2) + MS), false),
            (known(Duration::from_nanos(RTT.as_nanos() / 11)), false),
            (known(RTT), true),
            (Some(SavedParameters { cwnd: 2 * INITIAL_CWND, rtt: RTT }), false),
        ] {
            let (mut resumed, mut anew) = (link(algorithm, resume), link(algorithm, None));
            for _ in 0..2_000 {
                for link in [&mut resumed, &mut anew] {
                    let is_first = link.delivered == 0 && link.lost == 0;
                    link.step(&mut || loses && is_first);
                }
                assert_ne!(resumed.cc.resume_phase(), Some(ResumePhase::Unvalidated));
                assert_eq!(resumed.cc.snapshot(), anew.cc.snapshot(), "{algorithm}");
            }
            assert_eq!(resumed.cc.resume_phase(), None, "{algorithm}");
        }
        let mut link = link(algorithm, Some(SAVED));
        run_to(&mut link, Some(ResumePhase::Unvalidated));
        link.cc.ack(link.now).timeout();
        assert_eq!(link.cc.resume_phase(), None, "{algorithm}: a timeout");
    }
}

/// A sender that has nothing to send beyond its first packets waits, and jumps when it has.
#[test]
fn an_application_that_waits_jumps_later() {
    for algorithm in ALL {
        let mut link = link(algorithm, Some(SAVED));
        link.send();
        link.busy = false;
        link.run(Duration::from_secs(2));
        assert_eq!(link.cc.resume_phase(), Some(ResumePhase::Reconnaissance), "{algorithm}");
        link.busy = true;
        run_to(&mut link, Some(ResumePhase::Unvalidated));
        run_to(&mut link, None);
        assert!(link.cc.cwnd() >= BDP / 3, "{algorithm}: {:?}", link.cc);
    }
}

/// A part that was hardly used is not kept: the window is the validated one.
#[test]
fn a_jump_that_is_not_used_leaves_no_window() {
    for algorithm in ALL {
        let mut link = link(algorithm, Some(SAVED));
        run_to(&mut link, Some(ResumePhase::Unvalidated));
        link.busy = false;
        link.run(RTT.times(3));
        link.busy = true;
        run_to(&mut link, None);
        assert!(link.cc.cwnd() <= 4 * INITIAL_CWND, "{algorithm}: {:?}", link.cc);
    }
}

/// A flow that goes on from another port in the middle of its jump has no more than what was
/// validated, and one whose jump ends in a timeout says that the parameters are of no use.
#[test]
fn a_jump_that_is_broken_off_leaves_no_window() {
    for algorithm in ALL {
        for phase in [ResumePhase::Unvalidated, ResumePhase::Validating] {
            let mut moved = link(algorithm, Some(SAVED));
            run_to(&mut moved, Some(phase));
            moved.step(&mut || false);
            let slow_started = INITIAL_CWND + moved.delivered;
            moved.cc.forget_flight();
            assert!(moved.cc.cwnd() <= slow_started, "{algorithm}: {:?}", moved.cc);
            assert_eq!(moved.cc.resume_phase(), None, "{algorithm}");
            assert!(moved.cc.saved_parameters_failed(), "{algorithm}: they are not proven");

            let mut timed_out = link(algorithm, Some(SAVED));
            run_to(&mut timed_out, Some(phase));
            let mut batch = timed_out.cc.ack(timed_out.now);
            batch.timeout();
            batch.finish();
            assert!(timed_out.cc.saved_parameters_failed(), "{algorithm}");
            assert_eq!(timed_out.cc.resume_phase(), None, "{algorithm}");
        }
        // Before the jump neither says anything of the parameters.
        let mut early = link(algorithm, Some(SAVED));
        early.step(&mut || false);
        let mut batch = early.cc.ack(early.now);
        batch.timeout();
        batch.finish();
        assert!(!early.cc.saved_parameters_failed(), "{algorithm}");
    }
}
