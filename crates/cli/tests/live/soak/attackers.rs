//! Clients that are not honest, each kind in a thread of its own.

use std::net::UdpSocket;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::{Soak, count};
use crate::common::{Running, fullpipe, text};
use crate::raw::{RawClient, config};

/// Of each second, the part in which garbage comes as fast as the machine can send it. The whole
/// second would leave one of two processors to everything else.
const BURST: Duration = Duration::from_millis(150);

pub(crate) fn start(soak: &Arc<Soak>, dir: &Path) -> Vec<JoinHandle<()>> {
    let mut all: Vec<JoinHandle<()>> = Vec::new();
    for attack in [garbage, half_open, stalled] {
        let soak = soak.clone();
        all.push(std::thread::spawn(move || attack(&soak)));
    }
    let (soak, dir) = (soak.clone(), PathBuf::from(dir));
    all.push(std::thread::spawn(move || killed(&soak, &dir)));
    all
}

/// Datagrams of every form at line rate, some with the header of a first packet.
fn garbage(soak: &Soak) {
    let socket = UdpSocket::bind("127.0.0.1:0").expect("a socket");
    let mut first = RawClient::new(soak.server, config(1200)).datagrams().remove(0);
    let mut state = 1_u64;
    while soak.goes_on() {
        let end = Instant::now() + BURST;
        while Instant::now() < end {
            for _ in 0..64 {
                state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
                let (at, value) = ((state >> 33) as usize % first.len(), (state >> 25) as u8);
                let before = std::mem::replace(&mut first[at], value);
                let length = if state & 1 == 0 { first.len() } else { 1 + at };
                // A full buffer is a lost datagram.
                let _ = socket.send_to(&first[..length], soak.server);
                first[at] = before;
                count(&soak.garbage);
            }
        }
        soak.pause(Duration::from_secs(1) - BURST);
    }
}

/// First packets of clients that never say more.
fn half_open(soak: &Soak) {
    while soak.goes_on() {
        RawClient::new(soak.server, config(1200)).transmit();
        count(&soak.half_open);
        soak.pause(Duration::from_millis(40));
    }
}

/// Clients that ask for much, acknowledge nothing, and vanish.
fn stalled(soak: &Soak) {
    while soak.goes_on() {
        let mut clients = Vec::new();
        for _ in 0..5 {
            let mut client = RawClient::new(soak.server, config(1200));
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
