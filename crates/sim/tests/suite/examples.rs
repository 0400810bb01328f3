//! The example of a transport of one's own reaches what the simulator's QUIC reaches.

#[path = "../../examples/own_transport.rs"]
mod own_transport;

use fullpipe_cc::Algorithm;
use own_transport::{own, quic};

#[test]
fn a_transport_of_ones_own_fills_the_path_as_quic_does() {
    let (own, quic) = (own(Algorithm::BBR3), quic(Algorithm::BBR3));
    let (own, quic) = (own.expect("a path"), quic.expect("a path"));
    assert!((own.goodput / quic.goodput - 1.0).abs() < 0.08, "{own:?} beside {quic:?}");
    assert!((own.queue_p95 / quic.queue_p95 - 1.0).abs() < 0.4, "{own:?} beside {quic:?}");
    assert_eq!(own_transport::own(Algorithm::BBR3), Ok(own), "a second run");
}
