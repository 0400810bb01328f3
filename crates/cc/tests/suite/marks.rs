//! CE marks as the algorithms hear of them.

use fullpipe_cc::{Algorithm, Config, Controller, Instant, State};

use crate::test_link::{MS, SMSS};

const START: Instant = Instant::from_nanos(1);

/// RFC 3168: TCP's count of marks comes with any ACK, also one that acknowledges nothing new. They
/// count as if they had come with the next one that does.
#[test]
fn marks_count_whether_their_ack_acknowledged_something_or_not() {
    for algorithm in crate::events::algorithms().into_iter().chain([crate::events::LINUX_CUBIC]) {
        for ecn in [false, true] {
            let after = |is_alone: bool| {
                let config = Config { ecn, ..Config::new(1) };
                let mut cc = Controller::new(algorithm, config, START);
                let flight: Vec<_> = (0..10).map(|_| cc.on_sent(START, SMSS as u32)).collect();
                let now = START + MS.times(40);
                let mut ack = cc.ack(now);
                flight[..5].iter().for_each(|p| ack.acked(p));
                ack.finish();
                let mut ack = cc.ack(now);
                ack.ce(3);
                if is_alone {
                    ack.finish();
                    ack = cc.ack(now);
                }
                ack.acked(&flight[5]);
                ack.finish();
                cc.snapshot()
            };
            assert_eq!(after(true), after(false), "{algorithm:?}, L4S: {ecn}");
        }
    }
}

/// Marks of the path before say nothing of this one.
#[test]
fn marks_that_wait_do_not_outlive_their_path() {
    for algorithm in [Algorithm::CUBIC, Algorithm::RENO, Algorithm::PRAGUE] {
        for is_new_path in [false, true] {
            let config = Config::new(1);
            let mut cc = Controller::new(algorithm, config, START);
            let mut ack = cc.ack(START);
            ack.ce(2);
            ack.finish();
            if is_new_path {
                cc.on_migration(START, 2, &config);
            } else {
                cc.forget_flight();
            }
            let packet = cc.on_sent(START, SMSS as u32);
            let before = cc.cwnd();
            let mut ack = cc.ack(START + MS);
            ack.acked(&packet);
            ack.finish();
            assert!(cc.cwnd() >= before, "{algorithm}");
        }
    }
}

/// A probe of which everything is marked went too high, however many packets that is: 70,000 are 6
/// Gbit/s at 100 ms.
#[test]
fn a_probe_of_any_size_ends_when_all_of_it_is_marked() {
    for packets in [60_000, 65_536, 70_000, 131_072] {
        let config = Config { ecn: true, ..Config::new(1) };
        let mut cc = Controller::new(Algorithm::BBR3, config, START);
        let (mut now, mut was_probing) = (START, false);
        for _ in 0..400 {
            was_probing = cc.snapshot().state == State::ProbeBwUp;
            let count = if was_probing { packets } else { 2_000 };
            let flight: Vec<_> = (0..count).map(|_| cc.on_sent(now, SMSS as u32)).collect();
            now += MS.times(100);
            let mut ack = cc.ack(now);
            flight.iter().for_each(|p| ack.acked(p));
            ack.ce(if was_probing { count } else { 0 });
            ack.finish();
            if was_probing {
                break;
            }
        }
        let bbr = cc.snapshot().bbr.expect("BBR has a model");
        assert!(was_probing && bbr.prev_probe_too_high, "{packets} packets");
    }
}
