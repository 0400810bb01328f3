//! A clock that steps back, as a host's does after it slept or moved. A window of time that began
//! before the step would last until the clock is there again: an interval of aggregation would take
//! in all that arrives, and ProbeRTT or a recovery would not end.

use crate::units::{Duration, Instant};

/// Steps back that are none: a transport may stamp ACKs as they arrived, and sends as they leave.
/// They last no longer than that, and a round trip that seems negative is none
/// ([`crate::conn::Conn::sample`]).
const TOLERANCE: Duration = Duration::from_millis(10);
/// A clock so near to its end is taken as it is: the controller's time would end before it.
const NEAR_END: Duration = Duration::from_secs(365 * 86_400);

/// From the transport's time to the controller's, which does not step back.
#[derive(Clone, Debug)]
pub(crate) struct Clock {
    newest: Instant,
    /// The controller's time beyond the transport's: all steps back.
    ahead: Duration,
}

impl Clock {
    pub(crate) const fn new(now: Instant) -> Self {
        Self { newest: now, ahead: Duration::ZERO }
    }

    /// `now` of the transport. After a step, `pause` has passed since the newest time: how long it
    /// was is not known, and a round trip that seems too short would be believed for ten seconds.
    #[inline]
    pub(crate) fn at(&mut self, now: Instant, pause: impl Fn() -> Duration) -> Instant {
        let now = now + self.ahead;
        if now >= self.newest {
            self.newest = now;
            return now;
        }
        self.before_newest(now, pause())
    }

    #[cold]
    fn before_newest(&mut self, now: Instant, pause: Duration) -> Instant {
        let back = self.newest.since(now);
        if back <= TOLERANCE || self.newest + NEAR_END == Instant::MAX {
            return now;
        }
        self.ahead = self.ahead + back + pause;
        self.newest += pause;
        self.newest
    }

    /// The controller's time beyond the transport's.
    pub(crate) const fn ahead(&self) -> Duration {
        self.ahead
    }

    /// The transport's time of `at`.
    #[inline]
    pub(crate) fn of_transport(&self, at: Instant) -> Instant {
        at - self.ahead
    }
}

#[cfg(all(
    test,
    feature = "bbr3",
    feature = "bbr3x",
    feature = "bbr3-linux",
    feature = "bbr-swift",
    feature = "bbr1",
    feature = "cubic",
    feature = "reno",
    feature = "prague"
))]
mod tests {
    use super::*;
    use crate::test_link::Link;
    use crate::{Algorithm, State};
    use proptest::prelude::*;

    const MS: Duration = Duration::from_millis(1);

    proptest! {
        /// Steps of any length at any time: the controller's time goes on, with the transport's
        /// wherever that does not step, and comes back to it.
        #[test]
        fn time_goes_on(
            steps in prop::collection::vec((0u64..3_000, prop::option::weighted(0.2, 11u64..9_000)), 1..40),
            pause in 0u64..200,
        ) {
            let mut outside = Instant::from_nanos(1 << 50);
            let mut clock = Clock::new(outside);
            let mut before = clock.at(outside, || Duration::ZERO);
            for (forth, back) in steps {
                outside += MS.times(forth);
                let now = clock.at(outside, || MS.times(pause));
                prop_assert_eq!(now.since(before), MS.times(forth));
                prop_assert_eq!(clock.of_transport(now), outside);
                before = now;
                if let Some(back) = back {
                    outside = outside - MS.times(back);
                    let now = clock.at(outside, || MS.times(pause));
                    prop_assert_eq!(now.since(before), MS.times(pause));
                    prop_assert_eq!(clock.of_transport(now), outside);
                    before = now;
                }
            }
        }
    }

    #[test]
    fn ten_milliseconds_back_are_no_step() {
        let start = Instant::from_nanos(1 << 50);
        let mut clock = Clock::new(start);
        assert_eq!(clock.at(start - TOLERANCE, || MS), start - TOLERANCE);
        assert_eq!(clock.at(start, || MS), start);
        assert_eq!(clock.at(start - TOLERANCE - Duration::from_nanos(1), || MS), start + MS);
    }

    const BBR: [Algorithm; 5] = [
        Algorithm::Bbr3,
        Algorithm::Bbr3x,
        Algorithm::Bbr3Linux,
        Algorithm::BbrSwift,
        Algorithm::Bbr1,
    ];

    /// 50 Mbit/s and 40 ms.
    fn link(algorithm: Algorithm) -> Link {
        Link::new(algorithm, 50, MS.times(40))
    }

    #[test]
    fn a_step_back_leaves_window_and_rate() {
        for algorithm in BBR {
            for back in [11, 1_000, 10_000] {
                let [(window, delivered), (usual, usually)] = [back, 0].map(|back| {
                    let mut link = link(algorithm);
                    link.run(MS.times(12_000));
                    link.clock_behind = MS.times(back);
                    let (before, mut window) = (link.delivered, 0);
                    for _ in 0..1_000 {
                        link.run(MS.times(8));
                        window = window.max(link.cc.cwnd());
                    }
                    (window, link.delivered - before)
                });
                assert!(window * 10 <= usual * 11, "{algorithm} {back} ms: {window}, {usual}");
                assert!(delivered * 20 >= usually * 19, "{algorithm} {back} ms: {delivered}");
            }
        }
    }

    #[test]
    fn a_step_back_does_not_make_a_probe_rtt_longer() {
        for algorithm in BBR {
            let mut link = link(algorithm);
            link.run_to(State::ProbeRtt);
            // Its end is known by then.
            link.run(MS.times(100));
            link.clock_behind = MS.times(5_000);
            link.run(MS.times(600));
            assert_ne!(link.state(), State::ProbeRtt, "{algorithm}");
        }
    }

    #[test]
    fn a_step_back_does_not_make_a_recovery_longer() {
        for algorithm in [Algorithm::Cubic, Algorithm::Reno, Algorithm::Prague] {
            let mut link = link(algorithm);
            link.run(MS.times(5_000));
            let mut is_lost = true;
            link.step(&mut || std::mem::take(&mut is_lost));
            while link.state() != State::Recovery {
                is_lost = true;
                link.step(&mut || std::mem::take(&mut is_lost));
            }
            link.clock_behind = MS.times(5_000);
            link.run(MS.times(2_000));
            assert_ne!(link.state(), State::Recovery, "{algorithm}");
        }
    }
}
