//! The ECN codepoint of the packets that leave: a queue marks those of a flow that answers marks,
//! and drops those of one that does not (RFC 3168 section 5).

use std::io::IoSliceMut;
use std::net::UdpSocket;

use fullpipe_files::noq::udp::{EcnCodepoint, RecvMeta, UdpSocketState};
use fullpipe_files::{Client, ClientOptions, Verify};
use fullpipe_testkit::PATIENCE;

/// The codepoint of the first datagram of a client that runs `congestion`. Nobody answers it.
async fn codepoint(congestion: &str) -> Option<EcnCodepoint> {
    let socket = UdpSocket::bind("127.0.0.1:0").expect("a free port");
    let server = socket.local_addr().expect("bound");
    socket.set_read_timeout(Some(PATIENCE)).expect("a timeout");
    // Asks the kernel for the codepoint of what comes in.
    let state = UdpSocketState::new((&socket).into()).expect("a socket");
    socket.set_nonblocking(false).expect("blocking");
    let options = ClientOptions {
        congestion: congestion.parse().expect("an algorithm"),
        handshake_timeout: PATIENCE.into(),
        ..ClientOptions::default()
    };
    let connecting = tokio::spawn(async move {
        Client::connect(server, "localhost", &Verify::Insecure, options).await.is_ok()
    });
    let received = tokio::task::spawn_blocking(move || {
        let (mut buffer, mut meta) = ([0; 2_000], [RecvMeta::default()]);
        state
            .recv((&socket).into(), &mut [IoSliceMut::new(&mut buffer)], &mut meta)
            .expect("the first datagram");
        meta[0].ecn
    });
    let codepoint = received.await.expect("no panic");
    connecting.abort();
    codepoint
}

#[tokio::main]
async fn packets_are_ecn_capable_where_the_algorithm_answers_marks() {
    for congestion in ["bbr3", "cubic", "reno"] {
        assert_eq!(codepoint(congestion).await, Some(EcnCodepoint::Ect0), "{congestion}");
    }
    for congestion in ["bbr1", "bbr3-linux"] {
        assert_eq!(codepoint(congestion).await, None, "{congestion}");
    }
}

fullpipe_testkit::tests! {
    [] packets_are_ecn_capable_where_the_algorithm_answers_marks;
}
