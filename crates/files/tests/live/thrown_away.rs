//! A client that acknowledges the server's first packet of version 2 without having read what is in
//! it, as picoquic's does.

use std::net::UdpSocket;
use std::thread;

use crate::common::{fetch, loopback};
use fullpipe_files::{
    Client, ClientOptions, Content, QuicVersions, Server, ServerOptions, ServerTls, Verify,
};
use fullpipe_testkit::PATIENCE;
use rustls::Side;
use rustls::crypto::ring::cipher_suite::TLS13_AES_128_GCM_SHA256;
use rustls::quic::{Keys, Version};

const V2: [u8; 4] = [0x6b, 0x33, 0x43, 0xcf];
const PING: u8 = 1;

/// The offset of the packet number of an Initial without a token, and the bytes from there on.
fn number_of(packet: &[u8]) -> (usize, usize) {
    let ids = 5 + 1 + usize::from(packet[5]);
    let token = ids + 1 + usize::from(packet[ids]);
    assert_eq!(packet[token], 0, "a token");
    assert_eq!(packet[token + 1] >> 6, 1, "a length of two bytes");
    let length = usize::from(packet[token + 1] & 0x3f) << 8 | usize::from(packet[token + 2]);
    (token + 3, length)
}

/// Puts a PING and padding into an Initial of version 2 in place of what is in it.
fn empty(datagram: &mut [u8], received: &Keys, sent: &Keys) {
    let (number_at, length) = number_of(datagram);
    let sample = datagram[number_at + 4..][..16].to_vec();
    let (header, rest) = datagram.split_at_mut(number_at);
    let (number, _) = rest.split_at_mut(4);
    received.remote.header.decrypt_in_place(&sample, &mut header[0], number).expect("a sample");
    let number_len = usize::from(header[0] & 3) + 1;
    let number = number[..number_len].iter().fold(0, |value, byte| value << 8 | u64::from(*byte));
    let (header, rest) = datagram.split_at_mut(number_at + number_len);
    let payload = &mut rest[..length - number_len];
    let frames = received.remote.packet.decrypt_in_place(number, header, payload);
    let frames = frames.expect("a packet of the server").len();
    payload.fill(0);
    payload[0] = PING;
    let (frames, tag) = payload.split_at_mut(frames);
    let made = sent.local.packet.encrypt_in_place(number, header, frames).expect("a key");
    tag.copy_from_slice(made.as_ref());
    let sample = datagram[number_at + 4..][..16].to_vec();
    let (header, rest) = datagram.split_at_mut(number_at);
    let number = &mut rest[..number_len];
    sent.local.header.encrypt_in_place(&sample, &mut header[0], number).expect("a sample");
}

/// Relays one connection, and empties the server's first packet of version 2.
fn relay(server: std::net::SocketAddr) -> std::net::SocketAddr {
    let front = UdpSocket::bind(loopback()).expect("a socket");
    let back = UdpSocket::bind(loopback()).expect("a socket");
    back.connect(server).expect("a server");
    let address = front.local_addr().expect("an address");
    let clones = |socket: &UdpSocket| socket.try_clone().expect("a socket");
    let (front_of_server, back_of_client) = (clones(&front), clones(&back));
    let (tell, told) = std::sync::mpsc::channel();
    thread::spawn(move || {
        let mut buffer = vec![0; 65_536];
        while let Ok((length, client)) = front.recv_from(&mut buffer) {
            let id = buffer[6..][..usize::from(buffer[5])].to_vec();
            // Whoever has the first one has left when all is done.
            let _ = tell.send((client, id));
            back_of_client.send(&buffer[..length]).expect("it is sent");
        }
    });
    thread::spawn(move || {
        let (client, id) = told.recv().expect("a client");
        let suite = TLS13_AES_128_GCM_SHA256.tls13().and_then(|suite| suite.quic_suite());
        let keys = |side| suite.expect("QUIC").keys(&id, side, Version::V2);
        let (received, sent) = (keys(Side::Client), keys(Side::Server));
        let mut is_first = true;
        let mut buffer = vec![0; 65_536];
        while let Ok(length) = back.recv(&mut buffer) {
            let datagram = &mut buffer[..length];
            if is_first && datagram[1..5] == V2 {
                empty(datagram, &received, &sent);
                is_first = false;
            }
            front_of_server.send_to(datagram, client).expect("it is sent");
        }
    });
    address
}

#[tokio::main]
async fn the_server_sends_again_what_was_acknowledged_and_not_read() {
    let tls = ServerTls::self_signed(&["localhost"]).expect("a certificate");
    let verify = Verify::Certificates(tls.certificates());
    let versions = QuicVersions::V1AndV2;
    let options = ServerOptions { versions, ..ServerOptions::default() };
    let server = Server::bind(loopback(), &tls, Content::Bulk, options).expect("a server");
    let options =
        ClientOptions { versions, handshake_timeout: PATIENCE.into(), ..ClientOptions::default() };
    let address = relay(server.local_addr());
    let client = Client::connect(address, "localhost", &verify, options).await;
    let body = fetch(&client.expect("a connection"), "/bulk/300000").await.expect("fetched");
    assert_eq!(body.len(), 300_000);
}

fullpipe_testkit::tests! {
    [] the_server_sends_again_what_was_acknowledged_and_not_read;
}
