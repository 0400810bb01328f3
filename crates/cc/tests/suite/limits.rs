//! Flows that something else than the path and the application limits: the receiver's window, a send
//! buffer, a cap on the pacing rate.
//!
//! `PROPTEST_CASES` sets the number of paths.

use fullpipe_cc::{Algorithm, Config, Duration, Rate, State};
use proptest::prelude::*;

use crate::test_link::{Link, MS, SMSS};

const BBRS: [Algorithm; 6] = [
    Algorithm::BBR3,
    Algorithm::BBR3X,
    Algorithm::BBR3_LINUX,
    Algorithm::BBR3X_LINUX,
    Algorithm::BBR_SWIFT,
    Algorithm::BBR1,
];

/// The most rounds without growth of what is delivered that Startup may last. The draft wants
/// three; a ProbeRTT with its marks, or a round that is cut in two, adds some.
const MOST_ROUNDS: u32 = 20;

#[derive(Clone, Copy, Debug)]
struct Path {
    mbit: u64,
    rtt: Duration,
    /// The receiver's window in per cent of the BDP.
    window: u64,
    /// The cap on the pacing rate in per cent of the link's.
    cap: Option<u64>,
}

fn paths() -> impl Strategy<Value = Path> {
    let cap = prop_oneof![2 => Just(None), 1 => (20..200_u64).prop_map(Some)];
    let window = prop_oneof![3 => 30..400_u64, 1 => Just(u64::MAX)];
    (1..300_u64, 1..300_u64, window, cap).prop_map(|(mbit, ms, window, cap)| Path {
        mbit,
        rtt: MS.times(ms),
        window,
        cap,
    })
}

fn link(algorithm: Algorithm, path: Path) -> Link {
    let rate = Rate::from_bits_per_sec(path.mbit * 1_000_000);
    let cap = path.cap.map(|cap| Rate::from_bytes_per_sec(rate.as_bytes_per_sec() * cap / 100));
    let config = Config { max_pacing_rate: cap, ..Config::new(1) };
    let mut link = Link::with(algorithm, path.mbit, path.rtt, config);
    let window = rate.bytes_in(path.rtt).saturating_mul(path.window) / 100;
    link.credit = window.max(2 * SMSS);
    link
}

/// Runs a round trip of the path as it is now.
fn run_a_round(link: &mut Link) {
    let round = link.rtt + link.free.since(link.now);
    link.run(round);
}

proptest! {
    #![proptest_config(super::properties::cases(40))]

    /// A limit that is not the application's is a bottleneck like any other: the flow finds what it
    /// allows, and Startup with its window of two BDP ends.
    #[test]
    fn startup_ends_whatever_limits_the_flow(path in paths()) {
        for algorithm in BBRS {
            let mut link = link(algorithm, path);
            let (mut best, mut constant) = (0, 0);
            while link.state() == State::Startup {
                let (began, before) = (link.now, link.delivered);
                run_a_round(&mut link);
                let time = link.now.since(began);
                let rate = Rate::from_volume(link.delivered - before, time).as_bytes_per_sec();
                constant = if rate > best + best / 4 { 0 } else { constant + 1 };
                best = best.max(rate);
                prop_assert!(constant <= MOST_ROUNDS, "{algorithm}: {best} bytes/s, {:?}", link.cc);
            }
        }
    }
}
