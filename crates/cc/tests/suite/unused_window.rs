//! RFC 9002 section 7.8, RFC 5681 section 4.1, RFC 9438 section 5.8: a window that is not used does
//! not grow, whatever it is that holds the flow back.

use fullpipe_cc::{Algorithm, Config, Duration, Rate};
use proptest::prelude::*;

use crate::events::LINUX_CUBIC;
use crate::test_link::{Link, MS, SMSS};

/// The loss-based algorithms, with each set of rules that they have.
pub(crate) fn loss_based(config: Config) -> impl Iterator<Item = (Algorithm, Config)> {
    [
        (Algorithm::CUBIC, config),
        (LINUX_CUBIC, config),
        (Algorithm::RENO, config),
        (Algorithm::PRAGUE, config),
        (Algorithm::PRAGUE, Config { ecn: true, ..config }),
    ]
    .into_iter()
}

/// What holds a flow back that always has data.
#[derive(Clone, Copy, Debug)]
enum Limit {
    /// `Config::max_pacing_rate`, as a part of the link.
    Cap(u64),
    /// The receiver's flow control, in packets.
    Credit(u64),
}

fn limits() -> impl Strategy<Value = Limit> {
    prop_oneof![(2..30_u64).prop_map(Limit::Cap), (11..60_u64).prop_map(Limit::Credit)]
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 24,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    /// The window is at most twice the most in flight, in slow start and after it, and so is what
    /// is saved for a later connection: a path that becomes slow would get all of it at once. The
    /// last ACK of a flight that filled the window may cover others as well: half a window more.
    #[test]
    fn a_window_is_at_most_twice_what_was_in_flight(
        limit in limits(),
        rtt_ms in 5..80_u64,
        clump_ms in 0..8_u64,
        loses: bool,
        knows_rtt: bool,
    ) {
        let link_mbit = 100;
        let rtt = MS.times(rtt_ms);
        let max_pacing_rate = match limit {
            Limit::Cap(part) => Some(Rate::from_bits_per_sec(link_mbit * 1_000_000 / part)),
            Limit::Credit(_) => None,
        };
        let handshake_rtt = knows_rtt.then_some(rtt);
        let config = Config { max_pacing_rate, handshake_rtt, ..Config::new(1) };
        for (algorithm, config) in loss_based(config) {
            let mut link = Link::with(algorithm, link_mbit, rtt, config);
            if let Limit::Credit(packets) = limit {
                link.credit = packets * SMSS;
            }
            link.clump = MS.times(clump_ms).max(Duration::from_nanos(1));
            let mut lose = loses;
            while link.now.as_nanos() < 4_000_000_000 {
                let is_late = link.now.as_nanos() > 500_000_000;
                link.step(&mut || is_late && core::mem::take(&mut lose));
                let most = link.most_inflight.max(link.cc.initial_cwnd());
                let cwnd = link.cc.cwnd();
                let saved = link.cc.saved_parameters().map_or(0, |saved| saved.cwnd);
                prop_assert!(
                    cwnd.max(saved) <= 2 * most + most / 2 + SMSS,
                    "{algorithm:?}, at {:?}: a window of {cwnd}, {saved} saved, and {most} were in \
                     flight",
                    link.now,
                );
            }
        }
    }
}

/// A receiver's window that is shut until nothing is in flight is a pause like one of the
/// application: its time is none in which a window of CUBIC's may grow.
#[test]
fn a_window_that_reopens_after_a_minute_brings_no_growth_of_a_minute() {
    for (algorithm, config) in loss_based(Config::new(1)) {
        let rtt = MS.times(100);
        let mut link = Link::with(algorithm, 1_000, rtt, config);
        link.run(MS.times(800));
        link.run_losing(MS.times(300), 200);
        link.run(MS.times(2_000));
        link.credit = 0;
        link.run(MS.times(60_000));
        assert_eq!(link.cc.inflight(), 0);
        let before = link.cc.cwnd();
        link.credit = u64::MAX;
        link.run(MS.times(1_000));
        let after = link.cc.cwnd();
        assert!(after <= before + before / 4 + 20 * SMSS, "{algorithm} {before} -> {after}");
    }
}
