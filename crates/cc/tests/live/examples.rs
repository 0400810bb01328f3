//! The example of a UDP sender carries its data over loopback.

#[path = "../../examples/udp_sender.rs"]
mod udp_sender;

use fullpipe_cc::Algorithm;

fn the_udp_sender_delivers_everything() {
    for algorithm in [Algorithm::BBR3, Algorithm::CUBIC] {
        let parts = 2_000;
        let (cc, _) = udp_sender::transfer(algorithm, parts).expect("loopback works");
        let snapshot = cc.snapshot();
        assert!(snapshot.delivered >= parts * 1_200, "{snapshot:?}");
        assert_eq!(snapshot.inflight, 0, "{snapshot:?}");
        assert!(snapshot.srtt.is_some());
    }
}

fullpipe_testkit::tests! {
    [] the_udp_sender_delivers_everything;
}
