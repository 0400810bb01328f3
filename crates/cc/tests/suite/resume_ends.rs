//! The ends of a jump of Careful Resume but its validation: nothing of it is left.

use std::collections::VecDeque;

use fullpipe_cc::{
    Algorithm, Config, Controller, Duration, Instant, Rate, ResumePhase, SavedParameters, Snapshot,
};

use crate::events::LINUX_CUBIC;
use crate::test_link::{Link, MS, SMSS, TokenBucket};

const RTT: Duration = Duration::from_millis(600);
/// 50 Mbit/s over 600 ms.
const SAVED: SavedParameters = SavedParameters { cwnd: 3_750_000, rtt: RTT };
const INITIAL_CWND: u64 = 10 * SMSS;

/// Every algorithm that has a window, `cubic` by both rules.
fn configs() -> impl Iterator<Item = (Algorithm, Config)> {
    let named = Algorithm::NAMES.iter().filter_map(|name| name.parse().ok());
    named.chain([LINUX_CUBIC]).map(|algorithm| (algorithm, Config::new(1)))
}

fn link(algorithm: Algorithm, config: Config, resume: Option<SavedParameters>) -> Link {
    Link::with(algorithm, 50, RTT, Config { resume, ..config })
}

/// The part of a snapshot in which two flows of the same history are one.
fn control(s: &Snapshot) -> impl PartialEq + std::fmt::Debug + use<> {
    (s.state, s.cwnd, s.pacing_rate, s.ssthresh, s.bbr.map(|bbr| (bbr.bw, bbr.max_inflight)))
}

/// Runs until the initial window was delivered: a connection that resumes jumps then.
fn run_to_jump(link: &mut Link) {
    while link.delivered < INITIAL_CWND {
        link.step(&mut || false);
    }
}

/// Everything in flight is lost, and the timeout says so 3 s later.
fn time_out(link: &mut Link) {
    link.now += Duration::from_secs(3);
    let lost: Vec<_> = link.flight.drain(..).collect();
    let mut batch = link.cc.ack(link.now);
    lost.iter().for_each(|f| batch.lost(&f.packet));
    batch.timeout();
    batch.finish();
    link.free = link.now;
}

/// The path has 1 Mbit/s and 30 kB of buffer from now on.
fn become_slow(link: &mut Link) {
    let (rate, depth) = (Rate::from_bits_per_sec(1_000_000), 30_000);
    link.policer = Some(TokenBucket { rate, depth, tokens: depth, filled: link.now });
    link.lost = 0;
}

/// A jump that was lost as a whole does not come back with the ACK of the next packet, nor as a
/// threshold: on a path that became slow no more is lost than without saved parameters. The lost
/// share was 72 to 83 % of what BBR sent, for 8 to 19 %.
#[test]
fn a_jump_that_timed_out_does_not_come_back() {
    for (algorithm, config) in configs() {
        let [resumed, anew] = [Some(SAVED), None].map(|resume| {
            let mut link = link(algorithm, config, resume);
            run_to_jump(&mut link);
            assert_eq!(link.cc.resume_phase(), resume.map(|_| ResumePhase::Unvalidated));
            link.run(MS.times(300));
            time_out(&mut link);
            assert_eq!(link.cc.saved_parameters_failed(), resume.is_some(), "{algorithm}");
            let at_timeout = link.cc.snapshot();
            become_slow(&mut link);
            link.run(Duration::from_secs(10));
            (at_timeout, link.lost)
        });
        assert_eq!(resumed.0.cwnd, anew.0.cwnd, "{algorithm}");
        assert!(resumed.0.ssthresh <= anew.0.ssthresh, "{algorithm}: {resumed:?}, {anew:?}");
        assert!(resumed.0.pacing_rate <= anew.0.pacing_rate, "{algorithm}: {resumed:?}, {anew:?}");
        let (resumed, anew) = (resumed.1, anew.1);
        assert!(resumed <= anew + anew / 10 + 10 * SMSS, "{algorithm}: {resumed} and {anew}");
    }
}

/// An application that has a packet now and then, when the connection jumps and after: window and
/// rate are those of a connection without saved parameters, then and when there is more to send.
#[test]
fn a_jump_that_is_not_used_leaves_no_rate() {
    for (algorithm, config) in configs() {
        let mut links = [Some(SAVED), None].map(|resume| link(algorithm, config, resume));
        for link in &mut links {
            run_to_jump(link);
            link.busy = false;
            for _ in 0..4 {
                link.run(MS.times(300));
                link.cc.on_app_limited();
                link.send_packet();
            }
            link.run(MS.times(300));
            link.busy = true;
        }
        let [resumed, anew] = &mut links;
        assert_eq!(resumed.cc.resume_phase(), None, "{algorithm}");
        assert!(!resumed.cc.saved_parameters_failed(), "{algorithm}");
        let [has, own] = [resumed.cc.snapshot(), anew.cc.snapshot()];
        assert_eq!(control(&has), control(&own), "{algorithm}");
        for link in [&mut *resumed, &mut *anew] {
            become_slow(link);
            link.run(Duration::from_secs(6));
        }
        assert_eq!((resumed.delivered, resumed.lost), (anew.delivered, anew.lost), "{algorithm}");
    }
}

/// A jump of which a packet is lost, and which then ends in another way: the window and the
/// threshold are no more than half of what arrived.
#[test]
fn a_safe_retreat_ends_whatever_happens() {
    for (algorithm, config) in configs() {
        for end in 0..4 {
            let mut link = link(algorithm, config, Some(SAVED));
            run_to_jump(&mut link);
            while link.cc.resume_phase() != Some(ResumePhase::Validating) {
                link.step(&mut || false);
            }
            link.step(&mut || true);
            while link.cc.resume_phase() == Some(ResumePhase::Validating) {
                link.step(&mut || true);
            }
            assert_eq!(link.cc.resume_phase(), Some(ResumePhase::SafeRetreat), "{algorithm}");
            // What was in flight when the jump began counts as well.
            let half = ((link.delivered + 2 * INITIAL_CWND) / 2).max(4 * SMSS);
            match end {
                0 => link.cc.forget_flight(),
                1 => time_out(&mut link),
                2 => {
                    link.cc.on_spurious_loss(link.now);
                    assert!(link.cc.cwnd() <= half, "{algorithm}: {:?}", link.cc);
                    time_out(&mut link);
                }
                _ => link.cc.on_idle(link.now, INITIAL_CWND),
            }
            let snapshot = link.cc.snapshot();
            assert_eq!(link.cc.resume_phase(), None, "{algorithm}, {end}");
            assert!(link.cc.saved_parameters_failed(), "{algorithm}, {end}");
            assert!(snapshot.cwnd <= half, "{algorithm}, {end}: {snapshot:?}");
            if snapshot.bbr.is_none() {
                let is_low = snapshot.ssthresh.is_some_and(|bytes| bytes <= half);
                assert!(is_low, "{algorithm}, {end}: {snapshot:?}");
            }
        }
    }
}

/// A connection that has little to send for longer than `resume_within` does not jump any more:
/// the parameters have aged with it.
#[test]
fn parameters_age_in_a_long_reconnaissance() {
    for (algorithm, config) in configs() {
        for (within, waits, jumps) in [
            (None, Duration::from_secs(30), true),
            (None, Duration::from_secs(5 * 3600), false),
            (Some(Duration::from_secs(30)), Duration::from_secs(30), false),
        ] {
            let resume_within = within.unwrap_or(config.resume_within);
            let mut link = link(algorithm, Config { resume_within, ..config }, Some(SAVED));
            link.busy = false;
            let end = link.now + waits;
            while link.now < end {
                link.now += Duration::from_secs(20); // the last one after 40 s
                link.cc.on_app_limited();
                link.send_packet();
                while !link.flight.is_empty() {
                    link.step(&mut || false);
                }
            }
            link.busy = true;
            let (mut has_jumped, end) = (false, link.now + RTT.times(4));
            while link.now < end {
                link.step(&mut || false);
                has_jumped |= link.cc.resume_phase() == Some(ResumePhase::Unvalidated);
            }
            assert_eq!(has_jumped, jumps, "{algorithm}, {within:?} after {waits:?}");
            assert!(!link.cc.saved_parameters_failed(), "{algorithm}");
        }
    }
}

/// Parameters that no path has are not used, and nobody may use them again. A jump is no larger
/// than the user of the crate allows.
#[test]
fn absurd_parameters_are_not_believed() {
    let rtt = Duration::from_millis(4);
    for (algorithm, config) in configs() {
        for saved in [
            SavedParameters { cwnd: u64::MAX / 2, rtt },
            SavedParameters { cwnd: 1 << 40, rtt },
            SavedParameters { cwnd: 480_000, rtt: Duration::ZERO },
        ] {
            let config = Config { resume: Some(saved), ..config };
            let cc = Controller::new(algorithm, config, Instant::default());
            assert_eq!(cc.resume_phase(), None, "{algorithm}: {saved:?}");
            assert!(cc.saved_parameters_failed(), "{algorithm}: {saved:?}");
        }
        for (cwnd, max_jump, jump) in [
            (1 << 33, config.max_jump, 16 << 20),
            (SAVED.cwnd, 100_000, 100_000),
            (SAVED.cwnd, u64::MAX, SAVED.cwnd / 2),
        ] {
            let saved = SavedParameters { cwnd, rtt: RTT };
            let mut link = link(algorithm, Config { max_jump, ..config }, Some(saved));
            run_to_jump(&mut link);
            assert_eq!(link.cc.resume_phase(), Some(ResumePhase::Unvalidated), "{algorithm}");
            assert_eq!(link.cc.cwnd(), jump, "{algorithm}");
        }
    }
}

/// What a connection leaves is at most twice what the path delivered in a round trip, whatever its
/// window is: where another limit than the window holds, the window can be anything.
#[test]
fn nothing_is_saved_that_was_not_delivered() {
    let fixed = [Rate::from_bits_per_sec(10_000_000), Rate::ZERO, Rate::MAX].map(Algorithm::Fixed);
    let all = configs().chain(fixed.map(|fixed| (fixed, Config::new(1))));
    for (algorithm, config) in all {
        for (mbit, capped, clump) in
            [(100, false, 1), (100, true, 1), (10, false, 20), (2, true, 5)]
        {
            let rtt = MS.times(40);
            let max_pacing_rate = capped.then_some(Rate::from_bits_per_sec(5_000_000));
            let config = Config { max_pacing_rate, ..config };
            let mut link = Link::with(algorithm, mbit, rtt, config);
            link.clump = MS.times(clump);
            if algorithm == Algorithm::Fixed(Rate::MAX) {
                link.busy = false; // nothing would hold it
            }
            // What was delivered by then, in the order of time.
            let mut history = VecDeque::from([(link.now, 0)]);
            let (mut most, end) = (0, link.now + Duration::from_secs(4));
            while link.now < end {
                link.step(&mut || false);
                history.push_back((link.now, link.delivered));
                let latest = link.cc.snapshot().latest_rtt.unwrap_or(rtt);
                let begin = history.iter().rposition(|(at, _)| link.now.since(*at) >= latest);
                let begin = begin.unwrap_or(0);
                most = most.max(link.delivered - history[begin].1);
                if let Some(saved) = link.cc.saved_parameters() {
                    let cwnd = saved.cwnd;
                    assert!(cwnd <= 2 * most, "{algorithm} {mbit} {capped}: {cwnd} for {most}");
                }
                while history.len() > 20_000 {
                    history.pop_front();
                }
            }
        }
    }
}
