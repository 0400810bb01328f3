//! The client of a hostile server, with somebody on the path beside it.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use fullpipe_noq_repairs::wire::{Invariants, V1, V2, write_integer};
use fullpipe_noq_repairs::{NegotiationTable, retry_tag, server_socket};
use fullpipe_testkit::PATIENCE;
use noq::{Connection, ConnectionId, Endpoint, EndpointConfig, Runtime, VarInt};
use rustls::quic::Suite;

use super::initial::Initial;
use super::net::Net;
use super::noise::{Noise, SharedNoise};
use super::session::HostileServer;
use super::{frames, panics, resident, runtime, seed, target, wanted};
use crate::tls::Sessions;
use crate::{
    Alpn, Cipher, ClientError, ClientOptions, Connector, QuicVersions, ServerOptions, ServerTls,
    TransportSettings, Verify,
};

/// Bytes beyond which the client holds more than its windows.
const MOST_GROWTH: u64 = 600_000_000;
/// Clients at one time.
const CLIENTS: usize = 64;

fn fine() -> Arc<dyn Runtime> {
    fullpipe_noq::runtime(ServerOptions::default().congestion)
}

fn server_address() -> SocketAddr {
    ([198, 51, 100, 1], 443).into()
}

fn transport() -> TransportSettings {
    let idle_timeout = fullpipe_cc::Duration::from_millis(600);
    TransportSettings { idle_timeout, ..TransportSettings::default() }
}

/// A server that changes what it sends before it is protected, over a path that changes it again.
fn hostile_server(net: &Net, tls: &ServerTls, noise: &mut Noise) -> Endpoint {
    let shared = SharedNoise::new(noise.next());
    let notes = NegotiationTable::default();
    let inner = tls.crypto(QuicVersions::V1AndV2, &notes).expect("TLS");
    let crypto = HostileServer { inner, noise: shared.clone() };
    let mut config = noq::ServerConfig::with_crypto(Arc::new(crypto));
    let congestion = ServerOptions::default().congestion;
    let transport = transport().noq(congestion, 1);
    config.transport_config(Arc::new(transport));
    let socket = net.socket(server_address(), Some(shared));
    let socket = server_socket(socket, Vec::new(), None, &notes, QuicVersions::V1AndV2);
    let mut endpoint = EndpointConfig::default();
    endpoint.supported_versions(vec![V2, V1]);
    Endpoint::new_with_abstract_socket(endpoint, Some(config), socket, fine()).expect("an endpoint")
}

/// Takes clients and treats each badly.
async fn serve(endpoint: Endpoint, mut noise: Noise) {
    while let Some(incoming) = endpoint.accept().await {
        let mut noise = Noise::new(noise.next());
        match noise.below(12) {
            0 => incoming.refuse(),
            1 => incoming.ignore(),
            2 if incoming.may_retry() => drop(incoming.retry()),
            _ => {
                tokio::spawn(async move {
                    let time = Duration::from_millis(600);
                    let Ok(Ok(connection)) = tokio::time::timeout(time, incoming).await else {
                        return;
                    };
                    let _end = tokio::time::timeout(time, answer(&connection, &mut noise)).await;
                    if noise.percent(50) {
                        let code = VarInt::from_u32(noise.below(600) as u32);
                        connection.close(code, &noise.bytes(200));
                    }
                });
            }
        }
    }
}

/// Answers requests with what is no answer, and opens streams that nobody asked for.
async fn answer(connection: &Connection, noise: &mut Noise) -> Option<()> {
    let mut kept = Vec::new();
    loop {
        match noise.below(6) {
            0 => {
                let mut stream = connection.open_uni().await.ok()?;
                stream.write_all(&frames::http3(noise)).await.ok()?;
                kept.push((stream, None));
            }
            1 => connection.force_key_update(),
            2 => drop(kept.pop()),
            _ => {
                let (mut send, recv) = connection.accept_bi().await.ok()?;
                let count = noise.pick(&[0, 1, 100, 5000, 100_000]);
                let body = match noise.below(4) {
                    0 => frames::http3(noise),
                    // HEADERS with status 200, then DATA.
                    1 => {
                        let mut body = vec![1, 3, 0, 0, 0xd9, 0];
                        write_integer(count as u64, &mut body);
                        body.extend(noise.bytes(count));
                        body
                    }
                    _ => noise.bytes(count),
                };
                send.write_all(&body).await.ok()?;
                match noise.below(3) {
                    0 => drop(send.reset(VarInt::from_u32(404))),
                    1 => drop(send.finish()),
                    _ => {}
                }
                kept.push((send, Some(recv)));
            }
        }
    }
}

/// Somebody on the path, who can make a server's first packets as well as the server.
async fn inject(net: Net, suite: Suite, over: Arc<AtomicBool>, mut noise: Noise) {
    while !over.load(Ordering::Relaxed) {
        net.room().await;
        let Some((_, packet)) = net.seen() else {
            tokio::time::sleep(Duration::from_millis(1)).await;
            continue;
        };
        let Some(Invariants { version, destination, source, .. }) = Invariants::read(&packet)
        else {
            // What could be a stateless reset, or nothing.
            let count = 21 + noise.below(60);
            let mut reset = noise.bytes(count);
            reset[0] = 0x40 | reset[0] & 0x3f;
            net.send(server_address(), target(), reset);
            continue;
        };
        for _ in 0..noise.below(8) {
            let datagram = match noise.below(5) {
                0 => negotiation(&mut noise, destination, source),
                1 => retry(&mut noise, version, destination, source),
                2 => {
                    let mut copy = packet.clone();
                    noise.mangle(&mut copy);
                    copy
                }
                _ => {
                    let count = noise.below(1100);
                    let mut payload = frames::fill(&mut noise, count);
                    payload.resize(payload.len().max(40), 0);
                    let initial = Initial {
                        version: if noise.percent(80) { version } else { noise.pick(&[V1, V2]) },
                        destination: source.to_vec(),
                        source: noise.bytes(8),
                        token: Vec::new(),
                        number: noise.pick(&[0, 0, 1, 2, 70_000]),
                        payload,
                    };
                    initial.protect(&suite, rustls::Side::Server, Some(destination))
                }
            };
            net.send(server_address(), target(), datagram);
        }
    }
}

fn negotiation(noise: &mut Noise, destination: &[u8], source: &[u8]) -> Vec<u8> {
    // What the client has as its source is the destination of what it gets.
    let (destination, source) = (source, destination);
    let first = 0x80 | noise.byte();
    let mut packet = Invariants { first, version: 0, destination, source, rest: &[] }.write();
    for _ in 0..noise.below(5) {
        let version = noise.pick(&[V1, V2, 0, 0x0a0a_0a0a, 0xff00_001d]);
        packet.extend_from_slice(&version.to_be_bytes());
    }
    if noise.percent(10) {
        noise.mangle(&mut packet);
    }
    packet
}

fn retry(noise: &mut Noise, version: u32, destination: &[u8], source: &[u8]) -> Vec<u8> {
    let kind = if version == V2 { 0 } else { 3 };
    let first = 0xc0 | kind << 4 | noise.byte() & 0xf;
    let length = noise.pick(&[0, 4, 8, 20]);
    let own = noise.bytes(length);
    let count = noise.pick(&[0, 1, 30, 1000]);
    let token = noise.bytes(count);
    let packet = Invariants { first, version, destination: source, source: &own, rest: &token };
    let mut packet = packet.write();
    let tag = retry_tag(version, ConnectionId::new(destination), &packet).unwrap_or_default();
    packet.extend_from_slice(&tag);
    if noise.percent(30) {
        noise.mangle(&mut packet);
    }
    packet
}

/// One client, one request. Whatever comes of it, it comes soon.
async fn get(connector: &Connector, endpoint: &Endpoint) -> Result<usize, ClientError> {
    let client = connector.connect_over(endpoint, server_address(), "localhost").await?;
    let mut response = client.get("/bulk/100000").await?;
    let mut bytes = 0;
    while let Some(chunk) = response.chunk().await? {
        bytes += chunk.len();
    }
    Ok(bytes)
}

#[test]
fn a_client_survives_whatever_a_server_sends() {
    let runtime = runtime();
    runtime.block_on(async {
        let (wanted, before) = (wanted(), panics());
        let mut noise = Noise::new(seed() ^ 0xc11e);
        let net = Net::new(target());
        let tls = ServerTls::self_signed(&["localhost"]).expect("a certificate").with_early_data();
        let server = hostile_server(&net, &tls, &mut noise);
        tokio::spawn(serve(server.clone(), Noise::new(noise.next())));
        let connector = |alpn, versions| {
            let options = ClientOptions {
                alpn,
                versions,
                transport: transport(),
                handshake_timeout: fullpipe_cc::Duration::from_millis(600),
                ..ClientOptions::default()
            };
            Arc::new(Connector::new(&Verify::Insecure, options).expect("TLS"))
        };
        let connectors = [
            connector(Alpn::H3, QuicVersions::V1),
            connector(Alpn::HqInterop, QuicVersions::V1AndV2),
            connector(Alpn::H3, QuicVersions::V2),
            connector(Alpn::Any, QuicVersions::V1AndV2),
        ];
        // One socket for all, as a client has one with several connections.
        let socket = net.socket(target(), None);
        let endpoint = connectors[1].endpoint_over(socket, fine(), None).expect("an endpoint");
        let over = Arc::new(AtomicBool::new(false));
        let sessions = Arc::new(Sessions::new());
        let crypto =
            Verify::Insecure.crypto(Cipher::Any, Alpn::Any, QuicVersions::V1AndV2, sessions);
        let suite = crypto.expect("TLS").suite;
        let injector =
            tokio::spawn(inject(net.clone(), suite, over.clone(), Noise::new(noise.next())));
        let (start, resident_before) = (Instant::now(), resident());
        let [whole, failed, slow] = [(); 3].map(|()| Arc::new(AtomicU64::new(0)));
        let mut clients = Vec::new();
        for i in 0..CLIENTS {
            let (connector, endpoint) =
                (connectors[i % connectors.len()].clone(), endpoint.clone());
            let (whole, failed, slow) = (whole.clone(), failed.clone(), slow.clone());
            let over = over.clone();
            clients.push(tokio::spawn(async move {
                while !over.load(Ordering::Relaxed) {
                    // A server may be silent on a stream for ever; `fullpipe get` has a timeout of
                    // its own for that.
                    let got = get(&connector, &endpoint);
                    let count = match tokio::time::timeout(Duration::from_secs(2), got).await {
                        Ok(Ok(_bytes)) => &whole,
                        Ok(Err(_error)) => &failed,
                        Err(_) => &slow,
                    };
                    count.fetch_add(1, Ordering::Relaxed);
                }
            }));
        }
        let mut progress = (Instant::now(), 0);
        let mut told = 0;
        while net.delivered() < wanted {
            tokio::time::sleep(Duration::from_millis(20)).await;
            assert_eq!(panics(), before, "a panic, seed {}", seed());
            let grown = resident().saturating_sub(resident_before);
            assert!(grown < MOST_GROWTH, "{grown} bytes more");
            let now = net.delivered();
            if now > progress.1 {
                progress = (Instant::now(), now);
            }
            assert!(progress.0.elapsed() < PATIENCE, "nothing is taken in any more");
            if now / 100_000 > told {
                told = now / 100_000;
                let (seconds, open) = (start.elapsed().as_secs(), endpoint.open_connections());
                println!("{seconds} s: {now} datagrams, {open} connections, {grown} bytes more");
            }
        }
        over.store(true, Ordering::Relaxed);
        for client in clients {
            client.await.expect("a client ends well");
        }
        injector.await.expect("it ends well");
        let end = Instant::now() + PATIENCE;
        while endpoint.open_connections() > 0 {
            assert!(Instant::now() < end, "{} connections stay", endpoint.open_connections());
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        let [whole, failed, slow] = [whole, failed, slow].map(|n| n.load(Ordering::Relaxed));
        println!(
            "{} datagrams in {:?}: {whole} answers, {failed} errors, {slow} without an end",
            net.delivered(),
            start.elapsed()
        );
        assert!(whole > 0 && failed > 0, "{whole} answers, {failed} errors");
        assert_eq!(panics(), before, "a panic, seed {}", seed());
    });
}
