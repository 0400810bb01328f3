//! The adapter through noq's trait alone, where the whole stack would be in the way. (noq keeps the
//! maker of its RTT estimator to itself, so that ACKs need the whole stack: `virtual_clock`.)

use std::sync::Arc;
use std::time::{Duration, Instant};

use fullpipe_cc::{Algorithm, Rate, Snapshot};
use fullpipe_noq::{Controllers, NoqController};
use noq_proto::congestion::{Controller, ControllerFactory};

const MTU: u16 = 1_200;

fn controller(algorithm: Algorithm, start: Instant) -> Box<dyn Controller> {
    Arc::new(Controllers::new(algorithm).with_seed(1)).build(start, MTU)
}

/// A controller's model; a clone from `clone_box` has that of the moment it was made.
fn snapshot(controller: &dyn Controller) -> Snapshot {
    let ours = controller.clone_box().into_any().downcast::<NoqController>();
    ours.expect("our controller").snapshot()
}

/// W8: lost ranges were dropped once an array of fixed size was full, and the transfer stood still
/// (our forerunner, three times). However many packets are outstanding, each is found again.
#[test]
fn every_packet_is_found_again_however_many_are_outstanding() {
    const PACKETS: u64 = 200_000;
    let start = Instant::now();
    let mut cc = controller(Algorithm::Fixed(Rate::from_bits_per_sec(1_000_000_000)), start);
    for pn in 0..PACKETS {
        cc.on_packet_sent(start + Duration::from_micros(pn), MTU, pn);
    }
    assert_eq!(snapshot(&*cc).inflight, PACKETS * u64::from(MTU));
    let now = start + Duration::from_secs(1);
    for pn in (0..PACKETS).step_by(2).chain((1..PACKETS).step_by(2)) {
        cc.on_packet_lost(MTU, pn, now);
    }
    let after = snapshot(&*cc);
    assert_eq!((after.inflight, after.lost), (0, PACKETS * u64::from(MTU)));
}

/// W9: after a change of path bytes in flight began anew, and the packets of the old path still
/// counted down (our forerunner).
#[test]
fn packets_of_the_path_before_do_not_leave_the_flight_of_the_new_one() {
    let start = Instant::now();
    let mut old = controller(Algorithm::BBR3, start);
    for pn in 0..10 {
        old.on_packet_sent(start, MTU, pn);
    }
    let mut new = old.clone_box();
    let later = start + Duration::from_millis(50);
    for pn in 10..15 {
        new.on_packet_sent(later, MTU, pn);
    }
    let ours = new.into_any().downcast::<NoqController>();
    let mut new: Box<NoqController> = ours.expect("our controller");
    assert_eq!(new.snapshot().inflight, 5 * u64::from(MTU));
    for pn in 0..10 {
        new.on_packet_lost(MTU, pn, later + Duration::from_millis(50));
    }
    let after = new.snapshot();
    assert_eq!((after.inflight, after.lost), (5 * u64::from(MTU), 0));
    new.on_packet_lost(MTU, 12, later + Duration::from_millis(50));
    let after = new.snapshot();
    assert_eq!((after.inflight, after.lost), (4 * u64::from(MTU), u64::from(MTU)));
}

/// W10: a new MTU changed nothing in the controller (quiche #2138, s2n-quic #1481).
#[test]
fn a_new_mtu_reaches_the_controller() {
    for algorithm in [Algorithm::BBR3, Algorithm::BBR1, Algorithm::CUBIC, Algorithm::RENO] {
        for mtu in [1_280, 1_452, 9_000] {
            let mut cc = controller(algorithm, Instant::now());
            cc.on_mtu_update(mtu);
            let fresh =
                Arc::new(Controllers::new(algorithm).with_seed(1)).build(Instant::now(), mtu);
            assert_eq!(cc.initial_window(), fresh.initial_window(), "{algorithm} {mtu}");
            assert!(cc.window() >= fresh.window(), "{algorithm} {mtu}");
            let quantum = cc.metrics().send_quantum.expect("one of ours");
            assert!(quantum >= 2 * u64::from(mtu), "{algorithm} {mtu}: {quantum}");
        }
    }
}

/// R6: the undo was missing (ngtcp2 #1935, picoquic #1488). A persistent congestion that was none
/// gives the window back.
#[test]
fn a_congestion_that_was_none_gives_the_window_back() {
    for algorithm in [Algorithm::BBR3, Algorithm::BBR1, Algorithm::CUBIC, Algorithm::RENO] {
        let start = Instant::now();
        let mut cc = controller(algorithm, start);
        let before = cc.window();
        for pn in 0..10 {
            cc.on_packet_sent(start, MTU, pn);
        }
        let now = start + Duration::from_secs(2);
        for pn in 0..10 {
            cc.on_packet_lost(MTU, pn, now);
        }
        cc.on_congestion_event(now, start, true, false, 10 * u64::from(MTU), 9);
        assert!(cc.window() <= 2 * u64::from(MTU), "{algorithm}: {}", cc.window());
        cc.on_spurious_congestion_event();
        assert_eq!(cc.window(), before, "{algorithm}");
    }
}
