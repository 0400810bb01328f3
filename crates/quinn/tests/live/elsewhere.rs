//! A connection with a controller of ours and without our runtime, and on the same thread one with
//! our runtime and a controller of quinn's.

use std::future::poll_fn;
use std::net::{Ipv4Addr, UdpSocket};
use std::sync::Arc;
use std::time::Instant;

use fullpipe_cc::Rate;
use fullpipe_quinn::{Algorithm, Controllers, runtime};
use fullpipe_testkit::PATIENCE;
use quinn::congestion::ControllerFactory;

#[tokio::main(flavor = "current_thread")]
async fn datagrams_of_a_connection_elsewhere_do_not_stop_those_of_this_runtime() {
    let runtime = runtime();
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
    let socket = runtime.wrap_udp_socket(socket).expect("a socket");
    let mut poller = socket.create_io_poller();
    let slow = Algorithm::Fixed(Rate::from_bytes_per_sec(1));
    let mut controller = Arc::new(Controllers::new(slow).with_seed(1)).build(Instant::now(), 1200);
    for number in 0..2 {
        controller.on_sent(Instant::now(), 12_000, number);
    }
    // What each poll of a connection begins with.
    runtime.now();
    let is_writable = poll_fn(|cx| poller.as_mut().poll_writable(cx));
    let in_time = tokio::time::timeout(PATIENCE, is_writable).await;
    in_time.expect("it does not wait").expect("writable");
}

fullpipe_testkit::tests! {
    [] datagrams_of_a_connection_elsewhere_do_not_stop_those_of_this_runtime;
}
