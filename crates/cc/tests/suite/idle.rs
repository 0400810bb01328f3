//! Pauses of the application, over paths that hold ACKs back: what both do to the window.

use crate::test_link::{Link, SMSS};
use fullpipe_cc::{Algorithm, Duration, Rate};
use proptest::prelude::*;

const BBRS: [&str; 6] = ["bbr3", "bbr3x", "bbr3-linux", "bbr3x-linux", "bbr-swift", "bbr1"];

/// A path without competitors, and what an application sends over it.
#[derive(Clone, Debug)]
struct Case {
    mbit: u64,
    rtt_us: u64,
    /// ACKs come together at multiples of this.
    clump_us: u64,
    /// Packets of each answer, and the pause after it in us. The first fills the pipe.
    answers: Vec<(u64, u64)>,
}

/// The largest windows that the answers after the first led to, and the most bytes that went at
/// once: of one ACK, and of one send quantum. An answer begins when the one before is acknowledged
/// and the pause is over.
fn windows(algorithm: Algorithm, case: &Case) -> (Vec<u64>, u64) {
    let mut link = Link::new(algorithm, case.mbit, Duration::from_micros(case.rtt_us));
    link.clump = Duration::from_micros(case.clump_us).max(link.clump);
    let (mut windows, mut most_acked, mut quantum) = (Vec::new(), 0, 0);
    for (packets, pause_us) in &case.answers {
        let mut most = 0;
        let end = link.delivered + packets * SMSS;
        link.busy = true;
        while link.busy || link.cc.inflight() > 0 {
            let delivered = link.delivered;
            link.step(&mut || false);
            most_acked = most_acked.max(link.delivered - delivered);
            quantum = quantum.max(link.cc.send_quantum());
            most = most.max(link.cc.cwnd());
            link.busy = link.delivered + link.cc.inflight() < end;
        }
        _ = link.send(); // the application has no more, and says so
        link.now += Duration::from_micros(*pause_us);
        windows.push(most);
    }
    windows.remove(0);
    (windows, most_acked + quantum)
}

/// Three BDP, the data of one real aggregation, and a few packets. An RTT has the wait for the next
/// ACK in it.
fn bound(case: &Case, aggregated: u64) -> u64 {
    let rtt = Duration::from_micros(case.rtt_us + case.clump_us);
    let bdp = Rate::from_bits_per_sec(case.mbit * 1_000_000).bytes_in(rtt);
    3 * bdp + aggregated + 10 * SMSS
}

/// For the algorithm of this name, what is above its bound.
fn excess(name: &str, case: &Case) -> Result<(), String> {
    let (windows, aggregated) = windows(name.parse().expect("an algorithm"), case);
    let bound = bound(case, aggregated);
    match windows.iter().position(|window| *window > bound) {
        Some(n) => Err(format!("{name}: answer {n}: {windows:?} above {bound}")),
        None => Ok(()),
    }
}

fn case() -> impl Strategy<Value = Case> {
    let pause = prop_oneof![0..1_000_u64, 1_000..100_000_u64, 100_000..5_000_000_u64];
    let answers = prop::collection::vec((1..300_u64, pause), 5..30);
    (2..1_000_u64, 1..200_u64, 0..150_u64, answers).prop_map(|(mbit, bdp, percent, answers)| {
        let rtt_us = (bdp * SMSS * 8).div_ceil(mbit);
        let clump_us = rtt_us * percent / 100;
        let fills = (20 * bdp * (100 + percent) / 100 + 500, 1_000);
        Case { mbit, rtt_us, clump_us, answers: [vec![fills], answers].concat() }
    })
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 200,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn the_window_is_that_of_the_path_whatever_the_pauses(case in case()) {
        for name in BBRS {
            if let Err(excess) = excess(name, &case) {
                prop_assert!(false, "{excess}");
            }
        }
    }
}

/// Request and response: 2 MB and a second of silence, 40 times.
#[test]
fn answers_after_silence_do_not_add_up_in_the_window() {
    for clump_us in [3_000, 10_000, 30_000] {
        let answers = vec![(1_700, 1_000_000); 40];
        let case = Case { mbit: 20, rtt_us: 40_000, clump_us, answers };
        for name in BBRS {
            assert_eq!(excess(name, &case), Ok(()), "ACKs each {clump_us} us");
        }
    }
}

/// In a data centre the pauses between frames are many round trips, and a second has many of them.
#[test]
fn frames_in_a_data_centre_do_not_add_up_in_the_window() {
    let answers = [vec![(2_000, 5_000)], vec![(200, 5_000); 600]].concat();
    let case = Case { mbit: 1_000, rtt_us: 200, clump_us: 300, answers };
    for name in BBRS {
        assert_eq!(excess(name, &case), Ok(()));
    }
}
