//! What an algorithm of another crate sees of a connection, and sets in it.

use fullpipe_cc::{
    Algorithm, Config, CongestionControl, Conn, Controller, CustomAlgorithm, Instant, RateSample,
    Snapshot, State, built_in,
};

use crate::test_link::{Link, MS, SMSS};

/// Sees an ACK after ten packets left, of which one was lost.
#[derive(Clone, Debug)]
struct Watcher;

impl CongestionControl for Watcher {
    fn on_ack(&mut self, conn: &mut Conn, rs: &RateSample) {
        assert_eq!((conn.smss(), conn.initial_cwnd(), conn.cwnd()), (SMSS, 10 * SMSS, 10 * SMSS));
        assert_eq!((conn.inflight(), conn.send_quantum()), (8 * SMSS, 2 * SMSS));
        assert_eq!((conn.delivered(), conn.lost()), (SMSS, SMSS));
        assert_eq!((conn.min_rtt(), conn.latest_rtt()), (Some(MS), Some(MS)));
        assert_eq!((rs.rtt(), rs.newly_acked, rs.prior_inflight), (Some(MS), SMSS, 10 * SMSS));
        conn.set_send_quantum(3 * SMSS);
        conn.set_cwnd(5 * SMSS);
    }

    fn snapshot(&self, conn: &Conn) -> Snapshot {
        Snapshot::of(conn, "watcher", State::CongestionAvoidance)
    }
}

static WATCHER: CustomAlgorithm = CustomAlgorithm {
    name: "watcher",
    new: &|conn, _now, _config| {
        assert_eq!(conn.min_window(), 2 * conn.smss());
        Box::new(Watcher)
    },
};

#[test]
fn an_algorithm_of_another_crate_sees_the_connection() {
    let now = Instant::from_nanos(1);
    let mut cc = Controller::new(Algorithm::Custom(&WATCHER), Config::new(1), now);
    let flight: Vec<_> = (0..10).map(|_| cc.on_sent(now, SMSS as u32)).collect();
    let mut batch = cc.ack(now + MS);
    batch.lost(&flight[0]);
    batch.acked(&flight[1]);
    batch.finish();
    assert_eq!((cc.cwnd(), cc.send_quantum()), (5 * SMSS, 3 * SMSS));
    assert_eq!(cc.algorithm(), Algorithm::Custom(&WATCHER));
}

/// Two algorithms may have one name, and are two all the same.
#[test]
fn an_algorithm_of_another_crate_is_itself_alone() {
    static OTHER: CustomAlgorithm = CustomAlgorithm { name: "watcher", new: WATCHER.new };
    assert_ne!(Algorithm::Custom(&OTHER), Algorithm::Custom(&WATCHER));
}

/// An algorithm that hands everything on to one of this crate's is that one.
#[test]
fn a_built_in_algorithm_is_the_same_behind_another() {
    for algorithm in crate::events::algorithms().into_iter().chain([crate::events::LINUX_CUBIC]) {
        let inner: &'static CustomAlgorithm = Box::leak(Box::new(CustomAlgorithm {
            name: "same",
            new: Box::leak(Box::new(move |conn: &mut Conn, now, config: &Config| {
                built_in(algorithm, conn, now, config)
            })),
        }));
        let [real, behind] = [algorithm, Algorithm::Custom(inner)].map(|algorithm| {
            let mut link = Link::new(algorithm, 10, MS.times(40));
            let end = link.now + MS.times(1_500);
            let mut seen = Vec::new();
            for step in 0..3_000 {
                if link.now > end {
                    break;
                }
                link.step(&mut || step % 400 == 399);
                seen.push((link.now, link.cc.snapshot()));
            }
            seen
        });
        assert!(real == behind, "{algorithm:?}");
    }
}
