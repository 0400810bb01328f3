//! Strangers who do harm, beside a connection of the kernel's TCP that has to keep half of its rate
//! at least. In real time and in a namespace; `tests/suite/strangers.rs` has it in virtual time.
//! `STRANGERS` says how many packets they send.

use std::io::{self, Read};
use std::net::TcpStream as KernelStream;
use std::os::fd::{AsFd, BorrowedFd};
use std::panic::resume_unwind;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use fullpipe_tcp::Config;
use fullpipe_tcp::tokio::{Device, Stack, TcpListener};
use proptest::test_runner::TestRng;
use tokio::io::AsyncWriteExt;
use tokio::runtime::Runtime;
use tun_rs::SyncDevice;

use crate::flood::{Make, PER_SECOND, dice, garbage, is_for_a_stranger, packets, syn};
use crate::namespace::{in_namespace, ours, start};

/// Time for which the connection is measured by itself.
const ALONE: Duration = Duration::from_secs(2);
const BUFFER: usize = 256 << 10;
const BACKLOG: usize = 128;
const PORT: u16 = 7;
/// Connections that open and never read.
const READ_NOTHING: usize = 500;

/// A device on which strangers send as well. What is for them is taken and forgotten.
struct Attacked {
    device: SyncDevice,
    attack: Arc<Attack>,
}

struct Attack {
    packets: u64,
    state: Mutex<State>,
    sent: AtomicU64,
}

struct State {
    begun: Option<Instant>,
    /// The last packet was a stranger's.
    turn: bool,
    dice: TestRng,
    make: Make,
    packet: Vec<u8>,
}

impl Attack {
    /// A stranger's packet if one is due.
    fn next(&self, to: &mut [u8], has_other: bool) -> Option<usize> {
        let mut state = self.state.lock().expect("no panic");
        let begun = state.begun?;
        let sent = self.sent.load(Relaxed);
        let due = (begun.elapsed().as_micros() as u64 * PER_SECOND / 1_000_000).min(self.packets);
        // One after the other with those of the device.
        state.turn = !state.turn || !has_other;
        if sent >= due || !state.turn {
            return None;
        }
        self.sent.store(sent + 1, Relaxed);
        let State { dice, make, packet, .. } = &mut *state;
        make(ours(PORT), dice, packet);
        to[..packet.len()].copy_from_slice(packet);
        Some(packet.len())
    }

    fn is_over(&self) -> bool {
        self.sent.load(Relaxed) >= self.packets
    }
}

impl AsFd for Attacked {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.device.as_fd()
    }
}

impl Device for Attacked {
    fn receive(&self, to: &mut [u8]) -> io::Result<usize> {
        if let Some(count) = self.attack.next(to, true) {
            return Ok(count);
        }
        match self.device.recv(to) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                self.attack.next(to, false).ok_or(error)
            }
            received => received,
        }
    }

    fn send(&self, packet: &[u8]) -> io::Result<usize> {
        if is_for_a_stranger(packet) { Ok(packet.len()) } else { self.device.send(packet) }
    }
}

/// A server that writes to each connection as long as somebody reads, and the attack that its
/// device can be under.
fn serve(device: SyncDevice, make: Make) -> (Runtime, Stack, Arc<Attack>) {
    let state = State { begun: None, turn: false, dice: dice(), make, packet: Vec::new() };
    let attack = Attack { packets: packets(), state: Mutex::new(state), sent: AtomicU64::new(0) };
    let attack = Arc::new(attack);
    let (runtime, stack) = start(Attacked { device, attack: attack.clone() });
    let config = Config { send_buffer: BUFFER, receive_buffer: BUFFER, ..Config::default() };
    let listener = runtime.block_on(async {
        TcpListener::bind(&stack, ours(PORT), BACKLOG, &config).expect("a listener")
    });
    runtime.spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            tokio::spawn(async move {
                let block = vec![1; 65_536];
                while stream.write_all(&block).await.is_ok() {}
            });
        }
    });
    (runtime, stack, attack)
}

/// Reads as long as `goes_on`; Mbit/s.
fn rate(stream: &mut KernelStream, goes_on: impl Fn() -> bool) -> f64 {
    let (begun, mut bytes, mut chunk) = (Instant::now(), 0, vec![0; 65_536]);
    while goes_on() {
        bytes += stream.read(&mut chunk).expect("it goes on");
    }
    bytes as f64 * 8e-6 / begun.elapsed().as_secs_f64()
}

fn alone(stream: &mut KernelStream) -> f64 {
    let begun = Instant::now();
    rate(stream, || begun.elapsed() < ALONE)
}

fn keeps_half((alone, meanwhile): (f64, f64)) {
    println!("{alone:.0} Mbit/s alone, {meanwhile:.0} meanwhile");
    assert!(meanwhile >= alone / 2.0, "less than half of its rate: {meanwhile:.0} of {alone:.0}");
}

/// A connection keeps half of its rate while so many packets come, and memory stays bounded.
fn survives(make: Make) {
    in_namespace(move |device| {
        let (_runtime, stack, attack) = serve(device, make);
        let mut stream = KernelStream::connect(ours(PORT)).expect("a connection");
        keeps_half({
            let alone = alone(&mut stream);
            attack.state.lock().expect("no panic").begun = Some(Instant::now());
            let begun = Instant::now();
            let meanwhile = rate(&mut stream, || !attack.is_over());
            println!("{} packets in {:?}", attack.packets, begun.elapsed());
            // As many half-open connections as the backlog has room for, with nothing in their
            // buffers.
            let (connections, memory) = (stack.connections(), stack.memory());
            assert!(connections <= 1 + 2 * BACKLOG, "{connections} connections");
            assert!(memory < 2_000_000, "{memory} bytes");
            (alone, meanwhile)
        });
        stream.read_exact(&mut [0; 1000]).expect("it still goes on");
        // And who is no stranger still gets in.
        let mut another = KernelStream::connect(ours(PORT)).expect("a connection");
        another.read_exact(&mut [0; 1000]).expect("an answer");
    });
}

fn a_flood_of_a_million_syns() {
    survives(syn);
}

fn a_million_packets_of_garbage() {
    survives(garbage);
}

fn peers_that_open_and_never_read() {
    in_namespace(|device| {
        let (_runtime, stack, _attack) = serve(device, syn);
        let mut stream = KernelStream::connect(ours(PORT)).expect("a connection");
        keeps_half({
            let alone = alone(&mut stream);
            let opening = std::thread::spawn({
                let mut own = stream.try_clone().expect("a descriptor");
                move || {
                    let begun = Instant::now();
                    rate(&mut own, || begun.elapsed() < 2 * ALONE)
                }
            });
            let idle: Vec<KernelStream> = (0..READ_NOTHING)
                .map(|_| KernelStream::connect(ours(PORT)).expect("a connection"))
                .collect();
            let meanwhile = opening.join().unwrap_or_else(|panic| resume_unwind(panic));
            let memory = stack.memory();
            assert!(stack.connections() > READ_NOTHING);
            // Buffers may have twice the capacity of what is in them.
            assert!(memory < (READ_NOTHING + 1) * 3 * BUFFER, "{memory} bytes");
            println!("{READ_NOTHING} connections, {memory} bytes");
            drop(idle);
            (alone, meanwhile)
        });
        stream.read_exact(&mut [0; 1000]).expect("it still goes on");
    });
}

fullpipe_testkit::tests! {
    long timed [Root, Tun, Ip] a_flood_of_a_million_syns, a_million_packets_of_garbage,
        peers_that_open_and_never_read;
}
