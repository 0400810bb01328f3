//! Clients that are not honest, each kind in a thread of its own.

use std::io::Write;
use std::net::{TcpStream, UdpSocket};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::{Soak, count};
use crate::common::{Running, fullpipe, text};
use crate::raw::{RawClient, bytes_within, config, config_of};
use crate::sustained::connected_from;
use noq_proto::VarInt;

/// The address of those that hold something. The honest clients have others, also where their links
/// move them: what one address may hold of files and places is its clients' together.
const ADDRESS: &str = "127.0.1.3";
/// Datagrams of garbage that come at once.
const BURST: usize = 1000;
/// Time between two bursts.
const BETWEEN: Duration = Duration::from_millis(500);

pub(crate) fn start(soak: &Arc<Soak>, dir: &Path) -> Vec<JoinHandle<()>> {
    let mut all: Vec<JoinHandle<()>> = Vec::new();
    let attacks = [garbage, half_open, stalled, spoofed, unfinished, reset, over_tcp];
    for attack in attacks {
        let soak = soak.clone();
        all.push(std::thread::spawn(move || attack(&soak)));
    }
    let (soak, dir) = (soak.clone(), PathBuf::from(dir));
    all.push(std::thread::spawn(move || killed(&soak, &dir)));
    all
}

/// Datagrams of every form in bursts at line rate, some with the header of a first packet.
fn garbage(soak: &Soak) {
    let socket = UdpSocket::bind("127.0.0.1:0").expect("a socket");
    let mut first = RawClient::from(ADDRESS, soak.server, config(1200)).datagrams().remove(0);
    let mut state = 1_u64;
    while soak.goes_on() {
        for _ in 0..BURST {
            state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
            let (at, value) = ((state >> 33) as usize % first.len(), (state >> 25) as u8);
            let before = std::mem::replace(&mut first[at], value);
            let length = if state & 1 == 0 { first.len() } else { 1 + at };
            // A full buffer is a lost datagram.
            let _ = socket.send_to(&first[..length], soak.server);
            first[at] = before;
            count(&soak.garbage);
        }
        soak.pause(BETWEEN);
    }
}

/// First packets of clients that never say more.
fn half_open(soak: &Soak) {
    while soak.goes_on() {
        RawClient::from(ADDRESS, soak.server, config(1200)).transmit();
        count(&soak.half_open);
        soak.pause(Duration::from_millis(40));
    }
}

/// Clients that ask for much, acknowledge nothing, and vanish.
fn stalled(soak: &Soak) {
    while soak.goes_on() {
        let mut clients = Vec::new();
        for _ in 0..5 {
            let mut client = RawClient::from(ADDRESS, soak.server, config(1200));
            client.drive_until(Duration::from_secs(5), |client| client.connected);
            for _ in 0..20 {
                client.request(b"GET /20000000\r\n", true);
            }
            client.transmit();
            count(&soak.stalled);
            clients.push(client);
        }
        soak.pause(Duration::from_secs(5));
    }
}

/// A client that repeats short packets in the names of former clients (RFC 9000 section 9.3.1).
fn spoofed(soak: &Soak) {
    while soak.goes_on() {
        let [Some(mut attacker), Some(victim)] = [(); 2].map(|()| connected(soak, b"hq-interop"))
        else {
            continue;
        };
        let socket = &victim.socket;
        bytes_within(socket, Duration::from_millis(50));
        for _ in 0..100 {
            attacker.connection.ping();
            for datagram in attacker.datagrams() {
                if socket.send_to(&datagram, soak.server).is_ok() {
                    soak.spoofed.fetch_add(datagram.len() as u64, Ordering::Relaxed);
                }
            }
            soak.reflected
                .fetch_add(bytes_within(socket, Duration::from_millis(2)), Ordering::Relaxed);
        }
        soak.reflected
            .fetch_add(bytes_within(socket, Duration::from_millis(200)), Ordering::Relaxed);
    }
}

/// Settings and headers that come a byte a datagram and do not end, until the server closes.
fn unfinished(soak: &Soak) {
    while soak.goes_on() {
        let Some(mut client) = connected(soak, b"h3") else { continue };
        let control = client.open_uni();
        // A control stream, and SETTINGS and HEADERS of 16,383 bytes.
        [0, 4, 0x7f, 0xff].into_iter().for_each(|byte| client.byte(control, byte));
        let request = client.request(&[1, 0x7f, 0xff], false);
        while soak.goes_on() && client.lost.is_none() {
            client.byte(control, 0x40);
            request.into_iter().for_each(|request| client.byte(request, 0));
            count(&soak.unfinished);
            soak.pause(Duration::from_millis(1));
        }
    }
}

/// Requests that are reset at once.
fn reset(soak: &Soak) {
    while soak.goes_on() {
        let Some(mut client) = connected(soak, b"hq-interop") else { continue };
        let end = Instant::now() + Duration::from_secs(2);
        while Instant::now() < end && client.lost.is_none() {
            while let Some(id) = client.request(b"GET /20000000\r\n", false) {
                // That it is over is no concern.
                let _ = client.connection.send_stream(id).reset(VarInt::from_u32(0));
                let _ = client.connection.recv_stream(id).stop(VarInt::from_u32(0));
                count(&soak.reset);
            }
            client.drive(Duration::from_millis(5));
            soak.pause(Duration::from_millis(100));
        }
        client.close(b"");
        client.transmit();
        soak.pause(Duration::from_secs(1));
    }
}

/// Connections over TCP that begin a request and never end it.
fn over_tcp(soak: &Soak) {
    while soak.goes_on() {
        let open = || connected_from(ADDRESS, soak.tcp);
        let mut all: Vec<TcpStream> = std::iter::repeat_with(open).take(100).flatten().collect();
        for stream in &mut all {
            // What the server closes is closed.
            let _ = stream.write_all(b"GET /20000000 HTTP/1.1\r\nhost: ");
            count(&soak.over_tcp);
        }
        soak.pause(Duration::from_secs(4));
    }
}

/// A client whose handshake is done, where the machine has time for one.
fn connected(soak: &Soak, alpn: &[u8]) -> Option<RawClient> {
    let mut client = RawClient::from(ADDRESS, soak.server, config_of(alpn, 1452, alpn == b"h3"));
    client.drive_until(Duration::from_secs(5), |client| client.connected);
    // What the server sends behind its handshake.
    client.drive(Duration::from_millis(50));
    client.connected.then_some(client)
}

/// Downloads that are killed on their way.
fn killed(soak: &Soak, dir: &Path) {
    let place = tempfile::tempdir().expect("a directory");
    while soak.goes_on() {
        let url = format!("https://localhost:{}/20000000", soak.server.port());
        let args = ["get", &url, "--insecure", "-o", "-"];
        let mut command = fullpipe(place.path(), &args);
        command.stdout(Stdio::piped()).stderr(Stdio::null()).current_dir(text(dir));
        // Nobody reads its pipe, so it stands until it is killed.
        let running = Running(command.spawn().expect("the command starts"));
        soak.pause(Duration::from_millis(1500));
        drop(running);
        count(&soak.killed);
    }
}
