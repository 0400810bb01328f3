//! The server among hostile clients.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use fullpipe_noq_repairs::wire::{Invariants, V1, V2, write_integer};
use fullpipe_noq_repairs::{ClientCrypto, client_socket};
use fullpipe_testkit::PATIENCE;
use noq::{AsyncUdpSocket, Connection, Endpoint, EndpointConfig, Runtime, VarInt};
use rustls::quic::Suite;

use super::initial::{Hellos, Initial, SOURCE, payload};
use super::net::{MOST_BYTES, Net};
use super::noise::{Noise, SharedNoise};
use super::session::HostileClient;
use super::{frames, panics, resident, runtime, seed, target, wanted};
use crate::tls::Sessions;
use crate::{
    Alpn, Cipher, ClientError, ClientOptions, Connector, Content, Limits, QuicVersions, Server,
    ServerOptions, ServerStats, ServerTls, TransportSettings, Verify, bulk_block,
};

/// Connections that the server takes.
const CONNECTIONS: usize = 1000;
/// Connections above which the hostile ones wait, so that an honest one is not refused.
const HOSTILE_CONNECTIONS: u64 = 700;
/// Handshakes of unvalidated clients beyond which there is a Retry.
const HANDSHAKES: usize = 64;
/// Hostile clients with a handshake of their own, at one time.
const SESSIONS: u64 = 12;
/// Bytes beyond which the process holds more than so many connections explain.
const MOST_GROWTH: u64 = 600_000_000;

/// The least number of honest downloads meanwhile.
const HONEST: u64 = 6;

pub(super) fn fine() -> Arc<dyn Runtime> {
    fullpipe_noq::runtime(ServerOptions::default().congestion)
}

fn limits() -> Limits {
    Limits {
        connections: CONNECTIONS,
        unvalidated_handshakes: HANDSHAKES,
        // Short, so that much comes and goes, and long enough for an honest client on a busy
        // machine.
        handshake_timeout: Duration::from_secs(1),
        request_timeout: Duration::from_secs(2),
        stall_timeout: Duration::from_secs(4),
        ..Limits::default()
    }
}

fn transport() -> TransportSettings {
    let idle_timeout = fullpipe_cc::Duration::from_secs(2);
    TransportSettings { idle_timeout, ..TransportSettings::default() }
}

fn server(net: &Net, tls: &ServerTls) -> Server {
    let options =
        ServerOptions { limits: limits(), transport: transport(), ..ServerOptions::default() };
    let socket = net.socket(target(), None);
    Server::over(socket, Vec::new(), fine(), tls, Content::Bulk, options).expect("a server")
}

/// The state that all attackers share.
#[derive(Clone)]
struct Attack {
    net: Net,
    server: Arc<Server>,
    suite: Suite,
    over: Arc<AtomicBool>,
    /// Sessions of hostile clients that came to an end.
    sessions: Arc<AtomicU64>,
}

impl Attack {
    fn goes_on(&self) -> bool {
        !self.over.load(Ordering::Relaxed)
    }

    /// Waits until the server keeps up and has room.
    async fn room(&self) {
        self.net.room().await;
        while self.goes_on() && self.server.stats().connections > HOSTILE_CONNECTIONS {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }
}

fn stranger(noise: &mut Noise) -> SocketAddr {
    ([203, 0, 113, noise.byte()], 1024 + noise.below(1000) as u16).into()
}

/// Datagrams of strangers: garbage, and Initials with right keys.
async fn strangers(attack: Attack, mut noise: Noise, hellos: Arc<Hellos>) {
    let mut tokens: Vec<(SocketAddr, u32, Vec<u8>, Vec<u8>)> = Vec::new();
    let mut last = noise.bytes(1200);
    while attack.goes_on() {
        attack.net.room().await;
        for _ in 0..16 {
            while let Some((to, answer)) = attack.net.stray() {
                if let Some((version, source, token)) = retry(&answer)
                    && tokens.len() < 1000
                {
                    tokens.push((to, version, source, token));
                }
            }
            let from = stranger(&mut noise);
            let kind = noise.below(10);
            let datagram = match kind {
                0 => {
                    let count = 1 + noise.below(MOST_BYTES);
                    noise.bytes(count)
                }
                1 => header(&mut noise),
                2 => {
                    let mut copy = last.clone();
                    noise.mangle(&mut copy);
                    copy
                }
                _ => initial(&mut noise, &hellos, &attack.suite),
            };
            attack.net.send(from, target(), datagram.clone());
            last = datagram;
        }
        // Strangers that return their tokens, changed now and then, or from another address.
        if let Some((from, version, id, token)) = tokens.pop() {
            attack.room().await;
            let mut packet = client_initial(&mut noise, &hellos, version);
            (packet.destination, packet.token) = (id, token);
            let mut from = from;
            match noise.below(8) {
                0 => noise.change(&mut packet.token),
                1 => noise.mangle(&mut packet.token),
                2 => from = stranger(&mut noise),
                _ => attack.net.proves(from),
            }
            attack.net.send(from, target(), packet.protect(&attack.suite, CLIENT, None));
        }
    }
}

const CLIENT: rustls::Side = rustls::Side::Client;

/// The version, the server's ID and the token of a Retry.
fn retry(packet: &[u8]) -> Option<(u32, Vec<u8>, Vec<u8>)> {
    let Invariants { first, version, source, rest, .. } = Invariants::read(packet)?;
    let kind = first >> 4 & 3;
    let is_retry = version == V1 && kind == 3 || version == V2 && kind == 0;
    let (token, _tag) = rest.split_last_chunk::<16>()?;
    is_retry.then(|| (version, source.to_vec(), token.to_vec()))
}

/// A long or short header with random fields, and random bytes.
fn header(noise: &mut Noise) -> Vec<u8> {
    let mut out = vec![noise.byte()];
    if noise.percent(80) {
        out[0] |= 0x80;
        let random = noise.next() as u32;
        let version = noise.pick(&[V1, V2, V1, V2, 0, 0xff00_001d, 0x1a2a_3a4a, random]);
        out.extend_from_slice(&version.to_be_bytes());
        for _ in 0..2 {
            let length = noise.pick(&[0, 1, 8, 8, 8, 20, 21, 255]);
            out.push(length);
            let id = noise.bytes(length.min(30).into());
            out.extend_from_slice(&id);
        }
    }
    for _ in 0..3 {
        write_integer(noise.number(), &mut out);
    }
    let end = noise.pick(&[30, 60, 1199, 1200, 1472]);
    while out.len() < end {
        out.push(noise.byte());
    }
    out
}

fn client_initial(noise: &mut Noise, hellos: &Hellos, version: u32) -> Initial {
    let hello = hellos.one(noise);
    let bytes = noise.pick(&[1162, 1162, 1162, 1162, 100, 900, 1400]);
    let payload =
        if noise.percent(15) { frames::fill(noise, bytes) } else { payload(noise, &hello, bytes) };
    let length = noise.pick(&[8, 8, 8, 8, 0, 7, 20]);
    let mut packet = Initial {
        version,
        destination: noise.bytes(length),
        source: SOURCE.to_vec(),
        token: Vec::new(),
        number: noise.pick(&[0, 0, 0, 1, 2, 1000, u32::MAX]),
        payload,
    };
    if noise.percent(10) {
        let length = noise.pick(&[0, 1, 20]);
        packet.source = noise.bytes(length);
    }
    if noise.percent(10) {
        let count = noise.below(100);
        packet.token = noise.bytes(count);
    }
    // It stays within a datagram.
    let over = (packet.payload.len() + packet.token.len() + 100).saturating_sub(MOST_BYTES);
    packet.payload.truncate(packet.payload.len() - over);
    packet
}

/// One Initial, or several, in a datagram.
fn initial(noise: &mut Noise, hellos: &Hellos, suite: &Suite) -> Vec<u8> {
    let version = noise.pick(&[V1, V1, V2]);
    let packet = client_initial(noise, hellos, version);
    let mut datagram = packet.protect(suite, CLIENT, None);
    if noise.percent(10) {
        // Another packet behind it, of another connection or of this one.
        let version = noise.pick(&[V1, V2]);
        let mut second = client_initial(noise, hellos, version);
        if noise.percent(60) {
            second.destination = packet.destination;
        }
        second.payload.truncate(200);
        datagram.extend(second.protect(suite, CLIENT, None));
    }
    if noise.percent(5) {
        datagram.extend(header(noise));
    }
    if noise.percent(5) {
        noise.mangle(&mut datagram);
    }
    datagram
}

/// A client whose packets are changed before they are protected, over a path that changes them
/// again.
async fn session(attack: &Attack, tls: Arc<ClientCrypto>, address: SocketAddr, mut noise: Noise) {
    let shared = SharedNoise::new(noise.next());
    let socket = attack.net.socket(address, noise.percent(80).then(|| shared.clone()));
    let socket = client_socket(socket, tls.versions, None);
    let endpoint =
        Endpoint::new_with_abstract_socket(EndpointConfig::default(), None, socket, fine())
            .expect("an endpoint");
    let mut config = noq::ClientConfig::new(Arc::new(HostileClient { inner: tls, noise: shared }));
    let settings = TransportSettings { initial_rtt: None, ..transport() };
    config.transport_config(Arc::new(settings.noq(ServerOptions::default().congestion, 1)));
    let Ok(connecting) = endpoint.connect_with(config, target(), "localhost") else { return };
    let connection = if noise.percent(50) {
        match connecting.into_0rtt() {
            Ok((connection, _)) => Some(connection),
            Err(connecting) => connected(connecting).await,
        }
    } else {
        connected(connecting).await
    };
    if let Some(connection) = connection {
        let time = Duration::from_millis(50 + noise.below(300) as u64);
        let _end = tokio::time::timeout(time, misbehave(&connection, &mut noise)).await;
        if noise.percent(50) {
            connection.close(VarInt::from_u32(noise.below(600) as u32), &noise.bytes(100));
        }
    }
    attack.sessions.fetch_add(1, Ordering::Relaxed);
}

async fn connected(connecting: noq::Connecting) -> Option<Connection> {
    tokio::time::timeout(Duration::from_millis(600), connecting).await.ok()?.ok()
}

/// Requests that are odd, or never end, or whose answers nobody reads; streams that the server
/// reads or not; key updates.
async fn misbehave(connection: &Connection, noise: &mut Noise) -> Option<()> {
    let mut kept = Vec::new();
    loop {
        match noise.below(8) {
            0 => {
                let mut stream = connection.open_uni().await.ok()?;
                stream.write_all(&frames::http3(noise)).await.ok()?;
                kept.push((stream, None));
            }
            1 => connection.force_key_update(),
            2 => {
                let datagram = noise.bytes(50);
                let _not_taken = connection.send_datagram(datagram.into());
            }
            3 => drop(kept.pop()),
            4 => tokio::time::sleep(Duration::from_millis(noise.below(20) as u64)).await,
            kind => {
                let (mut send, mut recv) = connection.open_bi().await.ok()?;
                let request = match noise.below(5) {
                    0 => b"GET /bulk\r\n".to_vec(),
                    1 => b"GET /bulk/30000\r\n".to_vec(),
                    2 => b"GET /bu".to_vec(),
                    3 => noise.bytes(40),
                    _ => frames::http3(noise),
                };
                send.write_all(&request).await.ok()?;
                if kind == 5 {
                    let _closed = send.reset(VarInt::from_u32(7));
                } else if kind == 6 {
                    let _closed = send.finish();
                    let mut buffer = [0; 1000];
                    let read = recv.read(&mut buffer);
                    let _late = tokio::time::timeout(Duration::from_millis(30), read).await;
                }
                if noise.percent(30) {
                    let _closed = recv.stop(VarInt::from_u32(9));
                }
                kept.push((send, Some(recv)));
            }
        }
    }
}

/// Hostile clients one after the other.
async fn sessions(attack: Attack, number: u64, tls: Vec<Arc<ClientCrypto>>, mut noise: Noise) {
    let mut port = 1024;
    while attack.goes_on() {
        attack.room().await;
        port = if port == u16::MAX { 1024 } else { port + 1 };
        let address = ([198, 51, 100, number as u8], port).into();
        let tls = tls[noise.below(tls.len())].clone();
        let seed = noise.next();
        session(&attack, tls, address, Noise::new(seed)).await;
    }
}

/// An honest client over the same network: what it asks for comes whole.
pub(super) async fn fetch(net: &Net, verify: &Verify, alpn: Alpn, port: u16) {
    try_to_fetch(net, verify, alpn, port).await.expect("an honest client is answered");
}

/// The same against the server's short timeouts, which a client on a busy machine can miss: then it
/// comes again, from the next port. What fails sooner has another reason. Returns the number of
/// attempts that were too late.
async fn fetch_in_time(net: &Net, verify: &Verify, alpn: Alpn, port: &mut u16) -> u64 {
    let (first, mut late) = (Instant::now(), 0);
    loop {
        let begun = Instant::now();
        *port = if *port == u16::MAX { 1024 } else { *port + 1 };
        let Err(error) = try_to_fetch(net, verify, alpn, *port).await else { return late };
        let took = begun.elapsed();
        assert!(took >= limits().handshake_timeout, "an honest client: {error} after {took:?}");
        assert!(first.elapsed() < PATIENCE, "an honest client: {error} each time");
        late += 1;
    }
}

async fn try_to_fetch(
    net: &Net,
    verify: &Verify,
    alpn: Alpn,
    port: u16,
) -> Result<(), ClientError> {
    let versions = if port.is_multiple_of(2) { QuicVersions::V1 } else { QuicVersions::V1AndV2 };
    let options = ClientOptions { alpn, versions, ..ClientOptions::default() };
    let connector = Connector::new(verify, options).expect("TLS");
    let socket: Box<dyn AsyncUdpSocket> = net.socket(([192, 0, 2, 2], port).into(), None);
    let endpoint = connector.endpoint_over(socket, fine(), None).expect("an endpoint");
    let client = connector.connect_over(&endpoint, target(), "localhost").await?;
    let mut response = client.get("/bulk/200000").await?;
    let mut body = Vec::new();
    while let Some(chunk) = response.chunk().await? {
        body.extend_from_slice(&chunk);
    }
    let right = bulk_block();
    assert!(body.len() == 200_000 && body.iter().eq(right.iter().cycle().take(200_000)));
    client.close().await;
    Ok(())
}

/// True if the attack came as far as it shall.
fn is_deep(stats: &ServerStats) -> bool {
    let has_connections = stats.retries > 0 && stats.admitted > 100;
    has_connections && stats.complete_requests > 0 && stats.refused_requests > 0
}

#[test]
fn a_server_survives_whatever_is_sent_to_it() {
    let runtime = runtime();
    runtime.block_on(async {
        let (wanted, before) = (wanted(), panics());
        let net = Net::new(target());
        let tls = ServerTls::self_signed(&["localhost"]).expect("a certificate");
        let tls = tls.with_early_data();
        let verify = Verify::Certificates(tls.certificates().to_vec());
        let server = Arc::new(server(&net, &tls));
        let clients = |alpn| {
            let crypto = |versions| {
                let sessions = Arc::new(Sessions::new());
                let crypto = Verify::Insecure.crypto(Cipher::Any, alpn, versions, sessions);
                Arc::new(crypto.expect("TLS"))
            };
            [QuicVersions::V1, QuicVersions::V1AndV2, QuicVersions::V2].map(crypto)
        };
        let all = || [clients(Alpn::H3), clients(Alpn::HqInterop)].into_iter().flatten().collect();
        let attack = Attack {
            net: net.clone(),
            server: server.clone(),
            suite: clients(Alpn::Any)[0].suite,
            over: Arc::default(),
            sessions: Arc::default(),
        };
        let mut noise = Noise::new(seed());
        let hellos = Arc::new(Hellos::new(&clients(Alpn::Any)[0].tls, &mut noise));
        let mut attackers = Vec::new();
        attackers.push(tokio::spawn(strangers(attack.clone(), Noise::new(noise.next()), hellos)));
        for number in 0..SESSIONS {
            let noise = Noise::new(noise.next());
            attackers.push(tokio::spawn(sessions(attack.clone(), number, all(), noise)));
        }
        let (start, resident_before) = (Instant::now(), resident());
        let (mut port, mut told, mut honest, mut late, mut most) = (1024, 0, 0, 0, 0);
        let mut progress = (Instant::now(), 0);
        let mut enough = None;
        while net.delivered() < wanted || !is_deep(&server.stats()) || honest < HONEST {
            let alpn = if honest % 3 == 0 { Alpn::H3 } else { Alpn::HqInterop };
            late += fetch_in_time(&net, &verify, alpn, &mut port).await;
            honest += 1;
            let stats = server.stats();
            most = most.max(stats.connections);
            assert!(stats.connections <= CONNECTIONS as u64, "{stats:?}");
            assert!(stats.unvalidated_handshakes <= HANDSHAKES as u64, "{stats:?}");
            assert_eq!(net.amplified(), None, "more than three times what came from there");
            assert_eq!(panics(), before, "a panic, seed {}", seed());
            let grown = resident().saturating_sub(resident_before);
            assert!(grown < MOST_GROWTH, "{grown} bytes more with {stats:?}");
            let now = net.delivered();
            if now > progress.1 {
                progress = (Instant::now(), now);
            }
            assert!(progress.0.elapsed() < PATIENCE, "nothing is taken in any more");
            if now >= wanted {
                // A few of the attackers' sessions are slow on a busy machine.
                let since = enough.get_or_insert_with(Instant::now);
                assert!(since.elapsed() < PATIENCE, "the attack does not get far: {stats:?}");
            }
            if now / 100_000 > told {
                told = now / 100_000;
                let seconds = start.elapsed().as_secs();
                println!("{seconds} s: {now} datagrams, {} MB more, {stats:?}", grown / 1_000_000);
            }
        }
        attack.over.store(true, Ordering::Relaxed);
        for attacker in attackers {
            attacker.await.expect("an attacker ends well");
        }
        late += fetch_in_time(&net, &verify, Alpn::Any, &mut port).await;
        let end = Instant::now() + PATIENCE;
        while server.stats().connections > 0 || server.endpoint().open_connections() > 0 {
            assert!(Instant::now() < end, "connections stay: {:?}", server.stats());
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        let (stats, (addresses, sent, got)) = (server.stats(), net.strangers());
        println!(
            "{} datagrams in {:?}, {honest} honest downloads and {late} attempts too late, {} hostile sessions, at most {most} connections; \
             {addresses} unproven addresses sent {sent} bytes and got {got}; {stats:?}",
            net.delivered(),
            start.elapsed(),
            attack.sessions.load(Ordering::Relaxed),
        );
        // A machine that stands still makes a few of them late; a server that does not take each
        // client makes as many.
        assert!(late <= honest / 2, "{late} attempts too late beside {honest}");
        assert_eq!((stats.unvalidated_handshakes, stats.answers), (0, 0), "{stats:?}");
        assert_eq!(panics(), before, "a panic, seed {}", seed());
        assert_eq!(net.amplified(), None);
    });
}
