//! Packets that strangers can make the server send to addresses that are not theirs.

use std::net::UdpSocket;
use std::time::Duration;

use crate::common::start;
use crate::raw::{RawClient, bytes_within};
use fullpipe_files::{Content, ServerOptions};
use fullpipe_testkit::PATIENCE;

/// Packets to each victim: at 2400 bytes for each, the answers would fit into its socket.
const PACKETS: u64 = 40;

/// Sends packets of this connection from the sockets of the victims in turn, and asks for no more
/// than three times their bytes there (RFC 9000 section 8).
fn spoof(attacker: &mut RawClient, victims: [&UdpSocket; 2], whose: &str) {
    for victim in victims {
        // What was on its way there before.
        bytes_within(victim, Duration::from_millis(30));
    }
    let mut sent = [0; 2];
    for _ in 0..PACKETS {
        for (victim, sent) in victims.iter().zip(&mut sent) {
            attacker.connection.ping();
            for datagram in attacker.datagrams() {
                *sent += datagram.len() as u64;
                victim.send_to(&datagram, attacker.server).expect("sent");
            }
            // Sleeps: each packet is to be answered, which nobody sees who sends in another's name.
            std::thread::sleep(Duration::from_millis(1));
        }
    }
    for (victim, sent) in victims.iter().zip(sent) {
        let received = bytes_within(victim, Duration::from_millis(50));
        assert!(sent > 20 * PACKETS, "the attack took place: {sent} bytes");
        assert!(received <= 3 * sent, "{whose}: {received} bytes for {sent}");
    }
}

/// A client at another address than before, which the server has validated.
fn move_to(client: &mut RawClient, socket: UdpSocket) -> UdpSocket {
    socket.set_nonblocking(true).expect("a nonblocking socket");
    let old = std::mem::replace(&mut client.socket, socket);
    let id = client.request(b"GET /bulk/100000\r\n", true).expect("a stream");
    // More than three times what the client sends meanwhile.
    let before = client.received;
    client.drive_until(PATIENCE, |client| client.received > before + 100_000);
    assert_eq!(client.read(id).map(|body| body.len()), Ok(100_000));
    client.drive(Duration::from_millis(50));
    old
}

/// Address validation is a connection's and not the server's (RFC 9000 sections 8 and 9.3.1).
#[tokio::main]
async fn who_was_validated_by_another_connection_gets_no_more_than_three_times() {
    let (server, _verify) = start(Content::Bulk, ServerOptions::default());
    let address = server.local_addr();
    let attacks = tokio::task::spawn_blocking(move || {
        let connect = || RawClient::connect(address);
        let mut former = [connect(), connect()];
        for client in &mut former {
            client.close(b"");
            client.transmit();
        }
        spoof(&mut connect(), former.each_ref().map(|client| &client.socket), "former clients");
        let others = [connect(), connect()];
        spoof(&mut connect(), others.each_ref().map(|client| &client.socket), "other clients");
        // Addresses that the attacker itself had before.
        let mut attacker = connect();
        let socket = || UdpSocket::bind("127.0.0.1:0").expect("a socket");
        let left = [(); 2].map(|()| move_to(&mut attacker, socket()));
        spoof(&mut attacker, left.each_ref(), "addresses that the attacker left");
    });
    attacks.await.expect("attacks");
}

fullpipe_testkit::tests! {
    timed [] who_was_validated_by_another_connection_gets_no_more_than_three_times;
}
