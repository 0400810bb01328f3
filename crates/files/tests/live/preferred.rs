//! A server's preferred address: the client moves there while it downloads, or stays when it may
//! not or cannot, and nobody else can move it.

use std::net::{SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::common::fetch;
use crate::raw::{RawClient, config};
use fullpipe_files::noq::{Connection, PathId};
use fullpipe_files::{
    Client, ClientOptions, Connector, Content, PreferredAddress, Server, ServerOptions, ServerTls,
    Verify, bulk_block,
};
use fullpipe_testkit::PATIENCE;
use socket2::{Domain, Socket, Type};

const BYTES: usize = 20_000_000;

/// A server with a preferred address, and its connections.
struct Place {
    server: Server,
    verify: Verify,
    connections: Arc<Mutex<Vec<Connection>>>,
}

impl Place {
    fn new(listen: &str, preferred: &str) -> Self {
        let tls = ServerTls::self_signed(&["localhost"]).expect("a certificate");
        let verify = Verify::Certificates(tls.certificates().to_vec());
        let connections = Arc::new(Mutex::new(Vec::new()));
        let seen = connections.clone();
        let options = ServerOptions {
            preferred_address: preferred.parse().expect("an address"),
            on_accept: Some(Arc::new(move |connection| seen.lock().unwrap().push(connection))),
            ..ServerOptions::default()
        };
        let listen = listen.parse().expect("an address");
        let server = Server::bind(listen, &tls, Content::Bulk, options).expect("a server");
        Self { server, verify, connections }
    }

    fn preferred(&self) -> SocketAddr {
        let PreferredAddress { v4, v6 } = self.server.preferred_address();
        v4.map(SocketAddr::V4).or(v6.map(SocketAddr::V6)).expect("there is one")
    }

    /// True if the server sends to its first client from the preferred address: noq then knows the
    /// client by a marked address, and not by its own.
    fn has_moved(&self) -> bool {
        let connections = self.connections.lock().unwrap();
        let Some(path) = connections.first().and_then(|c| c.path(PathId::ZERO)) else {
            return false;
        };
        let remote = path.remote_address().expect("a path");
        !remote.ip().is_loopback()
    }

    async fn connect(&self, to: SocketAddr, options: ClientOptions) -> Client {
        Client::connect(to, "localhost", &self.verify, options).await.expect("a connection")
    }
}

/// Downloads, and checks every byte.
async fn download(client: &Client) {
    let path = format!("/bulk/{BYTES}");
    let body = tokio::time::timeout(PATIENCE, fetch(client, &path));
    let body = body.await.expect("it does not hang").expect("it is complete");
    assert_eq!(body.len(), BYTES);
    assert!(body.iter().zip(bulk_block().iter().cycle()).all(|(a, b)| a == b), "other bytes");
}

async fn soon(what: impl Fn() -> bool) -> bool {
    let end = Instant::now() + PATIENCE;
    while !what() && Instant::now() < end {
        // Sleeps: between two looks.
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    what()
}

/// Stands between a client and the server's own address; the preferred one is reached without it.
struct Relay {
    address: SocketAddr,
    /// Packets from the client.
    forwarded: Arc<AtomicU64>,
    /// It drops everything.
    closed: Arc<AtomicBool>,
    /// It is closed, and has dropped everything that had come.
    drained: Arc<AtomicBool>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Relay {
    fn to(server: SocketAddr) -> Self {
        let socket = || {
            let socket = UdpSocket::bind("127.0.0.1:0").expect("a socket");
            socket.set_read_timeout(Some(Duration::from_millis(1))).expect("a timeout");
            socket
        };
        let (front, back) = (socket(), socket());
        let address = front.local_addr().expect("an address");
        let mut relay = Self {
            address,
            forwarded: Arc::default(),
            closed: Arc::default(),
            drained: Arc::default(),
            stop: Arc::default(),
            thread: None,
        };
        let (forwarded, closed) = (relay.forwarded.clone(), relay.closed.clone());
        let (drained, stop) = (relay.drained.clone(), relay.stop.clone());
        relay.thread = Some(std::thread::spawn(move || {
            let (mut client, mut buffer) = (None, [0; 65_536]);
            while !stop.load(Ordering::Relaxed) {
                let open = !closed.load(Ordering::Relaxed);
                match front.recv_from(&mut buffer) {
                    Ok((len, from)) if open => {
                        client = Some(from);
                        forwarded.fetch_add(1, Ordering::Relaxed);
                        let _ = back.send_to(&buffer[..len], server);
                    }
                    Ok(_) => {}
                    Err(_) => drained.store(!open, Ordering::Relaxed),
                }
                for _ in 0..100 {
                    let Ok((len, _)) = back.recv_from(&mut buffer) else { break };
                    if let Some(client) = client.filter(|_| open) {
                        let _ = front.send_to(&buffer[..len], client);
                    }
                }
            }
        }));
        relay
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

#[tokio::main]
async fn a_client_moves_to_the_preferred_address_and_loses_no_byte() {
    let place = Place::new("127.0.0.1:0", "127.0.0.2:0");
    let client = place.connect(place.server.local_addr(), ClientOptions::default()).await;
    download(&client).await;
    assert!(soon(|| place.has_moved()).await, "it has not moved");
    download(&client).await;
    client.close().await;
}

#[tokio::main]
async fn over_ipv6_too() {
    let place = Place::new("[::1]:0", "127.0.0.2:0,[::1]:0");
    let client = place.connect(place.server.local_addr(), ClientOptions::default()).await;
    download(&client).await;
    assert!(soon(|| place.has_moved()).await, "it has not moved");
    download(&client).await;
}

#[tokio::main]
async fn version_2_moves_too() {
    let place = Place::new("127.0.0.1:0", "127.0.0.2:0");
    let options =
        ClientOptions { versions: "v1,v2".parse().expect("versions"), ..ClientOptions::default() };
    let client = place.connect(place.server.local_addr(), options).await;
    download(&client).await;
    assert!(soon(|| place.has_moved()).await, "it has not moved");
}

/// Nothing of the old path is needed after the move, in neither direction.
#[tokio::main]
async fn after_the_move_nothing_goes_over_the_old_path() {
    let place = Place::new("127.0.0.1:0", "127.0.0.2:0");
    let relay = Relay::to(place.server.local_addr());
    let client = place.connect(relay.address, ClientOptions::default()).await;
    assert!(soon(|| place.has_moved()).await, "it has not moved");
    relay.closed.store(true, Ordering::Relaxed);
    assert!(soon(|| relay.drained.load(Ordering::Relaxed)).await, "packets without an end");
    let before = relay.forwarded.load(Ordering::Relaxed);
    download(&client).await;
    // What was on its way when it moved came before; the relay counts nothing that it drops, so
    // open it again.
    relay.closed.store(false, Ordering::Relaxed);
    download(&client).await;
    assert_eq!(relay.forwarded.load(Ordering::Relaxed), before, "packets on the old path");
}

#[tokio::main]
async fn who_does_not_want_to_move_stays() {
    let place = Place::new("127.0.0.1:0", "127.0.0.2:0");
    let options = ClientOptions { migration: false, ..ClientOptions::default() };
    let client = place.connect(place.server.local_addr(), options).await;
    download(&client).await;
    assert!(!place.has_moved());
}

/// Also when there is a preferred address of another family alone.
#[tokio::main]
async fn an_address_of_another_family_is_not_used() {
    let place = Place::new("127.0.0.1:0", "[::1]:0");
    let client = place.connect(place.server.local_addr(), ClientOptions::default()).await;
    download(&client).await;
    assert!(!place.has_moved());
}

/// A socket that is connected gets nothing from any other address: the probes are not answered.
#[tokio::main]
async fn without_an_answer_from_there_it_stays() {
    let place = Place::new("127.0.0.1:0", "127.0.0.2:0");
    let socket = UdpSocket::bind("127.0.0.1:0").expect("a socket");
    socket.connect(place.server.local_addr()).expect("an address");
    let connector = Connector::new(&place.verify, ClientOptions::default()).expect("a connector");
    let client = connector.connect_from(socket, place.server.local_addr(), "localhost").await;
    let client = client.expect("a connection");
    for _ in 0..3 {
        download(&client).await;
        // Sleeps: longer than all probes take.
        tokio::time::sleep(Duration::from_secs(3)).await;
    }
    assert!(!place.has_moved());
}

/// Packets with the client's own address as their source, at both of the server's addresses:
/// nothing of them is authentic, so the answers go where they went.
#[tokio::main]
async fn a_strangers_packets_in_the_clients_name_move_nothing() {
    let place = Place::new("127.0.0.1:0", "127.0.0.2:0");
    let reusable = || {
        let socket = Socket::new(Domain::IPV4, Type::DGRAM, None).expect("a socket");
        socket.set_reuse_port(true).expect("two on one port");
        socket
    };
    let own = reusable();
    own.bind(&SocketAddr::from(([127, 0, 0, 1], 0)).into()).expect("a port");
    let own = UdpSocket::from(own);
    let address = own.local_addr().expect("an address");
    // Connected to the preferred address, it takes none of what the server's own address sends.
    let stranger = reusable();
    stranger.bind(&address.into()).expect("the same port");
    stranger.connect(&place.preferred().into()).expect("connected");
    let options = ClientOptions { migration: false, ..ClientOptions::default() };
    let connector = Connector::new(&place.verify, options).expect("a connector");
    let client = connector.connect_from(own, place.server.local_addr(), "localhost").await;
    let client = client.expect("a connection");
    let stop = Arc::new(AtomicBool::new(false));
    let stopped = stop.clone();
    let attack = std::thread::spawn(move || {
        let mut state = 1_u64;
        while !stopped.load(Ordering::Relaxed) {
            let mut packet = [0; 1200];
            for byte in &mut packet {
                state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
                *byte = (state >> 56) as u8;
            }
            // Short headers and long ones.
            packet[0] = packet[0] & 0x3f | if state & 1 == 0 { 0x40 } else { 0xc0 };
            let _ = stranger.send(&packet);
            // Sleeps: the rate of the attack.
            std::thread::sleep(Duration::from_micros(100));
        }
    });
    for _ in 0..3 {
        download(&client).await;
    }
    stop.store(true, Ordering::Relaxed);
    attack.join().expect("no panic");
    assert!(!place.has_moved());
}

#[tokio::main]
async fn nobody_begins_a_connection_at_the_preferred_address() {
    let place = Place::new("127.0.0.1:0", "127.0.0.2:0");
    let preferred = place.preferred();
    let received = tokio::task::spawn_blocking(move || {
        let mut client = RawClient::new(preferred, config(1200));
        client.drive(Duration::from_millis(500));
        client.received
    });
    assert_eq!(received.await.expect("a client"), 0);
}

fullpipe_testkit::tests! {
    [SecondLoopback] a_client_moves_to_the_preferred_address_and_loses_no_byte;
    [Ipv6, SecondLoopback] over_ipv6_too;
    [SecondLoopback] version_2_moves_too;
    [SecondLoopback] after_the_move_nothing_goes_over_the_old_path;
    [SecondLoopback] who_does_not_want_to_move_stays;
    [Ipv6] an_address_of_another_family_is_not_used;
    long [SecondLoopback] without_an_answer_from_there_it_stays;
    [SecondLoopback] a_strangers_packets_in_the_clients_name_move_nothing;
    [SecondLoopback] nobody_begins_a_connection_at_the_preferred_address;
}
