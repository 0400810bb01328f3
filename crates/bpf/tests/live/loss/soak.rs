//! Many connections under loss, timeouts, switches of algorithm and unloading, and short ones that
//! choose before they connect: no byte is lost, and nothing stays in the kernel. `SOAK_CONNECTIONS`
//! and `SOAK_SECONDS` make it larger and longer than 60 and 8:
//!
//! ```text
//! SOAK_CONNECTIONS=1000 SOAK_SECONDS=600 cargo test --release -p fullpipe-bpf --features kernel --test live -- --include-ignored soak
//! ```

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io::{Read, Seek, SeekFrom, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use fullpipe_bpf::kernel::{self, Loaded, Options, Usage};
use fullpipe_emu::namespace::CLIENT;
use fullpipe_testkit::until;
use nix::libc::O_NONBLOCK;
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use nix::sys::socket::sockopt::{SndBuf, TcpCongestion};
use nix::sys::socket::{
    AddressFamily, SockFlag, SockType, SockaddrIn, connect, setsockopt, socket,
};

use super::bench::{Bench, LinkOf, sleep_ms};
use crate::own::{available, name_of};

const CHUNK: usize = 4096;

/// Number of threads that open short connections.
const OPENERS: usize = 4;

fn setting(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|n| n.parse().ok()).unwrap_or(default)
}

/// The bytes from `at` of connection `seed`.
fn content(seed: u64, at: u64) -> [u8; CHUNK] {
    std::array::from_fn(|i| {
        let at = at + i as u64;
        ((at >> 3).wrapping_mul(31) + at.wrapping_mul(7) + seed) as u8
    })
}

/// Sends until it is told to stop; how many bytes.
fn send(stream: &TcpStream, seed: u64, stop: &AtomicBool) -> u64 {
    let mut stream = stream;
    stream.write_all(&seed.to_ne_bytes()).expect("it goes on");
    let mut at = 0;
    while !stop.load(Ordering::Relaxed) {
        stream.write_all(&content(seed, at)).expect("it goes on");
        at += CHUNK as u64;
    }
    stream.shutdown(Shutdown::Write).expect("it is connected");
    at
}

/// Compares every byte until the end; how many there were.
fn receive(stream: &mut TcpStream) -> u64 {
    stream.set_read_timeout(Some(Duration::from_secs(300))).expect("a timeout");
    let mut seed = [0; 8];
    stream.read_exact(&mut seed).expect("it goes on");
    let seed = u64::from_ne_bytes(seed);
    let (mut buffer, mut have, mut at) = ([0; CHUNK], 0, 0);
    loop {
        let n = stream.read(&mut buffer[have..]).expect("it goes on");
        have += n;
        if have == CHUNK {
            assert!(buffer == content(seed, at), "connection {seed}, from byte {at}");
            at += CHUNK as u64;
            have = 0;
        }
        if n == 0 {
            assert_eq!(have, 0, "connection {seed} ends within a chunk");
            return at;
        }
    }
}

/// Objects in use of the kernel's allocations of 8 KB: a connection's state is one.
fn allocations() -> Option<u64> {
    let table = fs::read_to_string("/proc/slabinfo").ok()?;
    let lines = table.lines().filter_map(|line| line.strip_prefix("kmalloc-"));
    let of_8k =
        lines.filter(|line| line.split(' ').next().is_some_and(|name| name.ends_with("8k")));
    Some(of_8k.filter_map(|line| line.split_whitespace().nth(1)?.parse::<u64>().ok()).sum())
}

fn unreclaimable_kilobytes() -> u64 {
    let table = fs::read_to_string("/proc/meminfo").expect("every Linux has it");
    let line =
        table.lines().find_map(|line| line.strip_prefix("SUnreclaim:")).expect("it is there");
    line.split_whitespace().next().and_then(|n| n.parse().ok()).expect("a number")
}

/// The log of the kernel from here on.
struct Log(File);

impl Log {
    fn start() -> Option<Self> {
        let mut file =
            OpenOptions::new().read(true).custom_flags(O_NONBLOCK).open("/dev/kmsg").ok()?;
        file.seek(SeekFrom::End(0)).ok()?;
        Some(Self(file))
    }

    fn lines(mut self) -> Vec<String> {
        let (mut lines, mut record) = (Vec::new(), [0; 8192]);
        while let Ok(n @ 1..) = self.0.read(&mut record) {
            lines.push(String::from_utf8_lossy(&record[..n]).trim_end().to_owned());
        }
        lines
    }
}

/// xorshift64.
fn random(state: &mut u64) -> u64 {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    *state
}

/// Loads the program under the next name and lets go of the one before: its connections keep it.
struct Program {
    loaded: Loaded,
    name: String,
    number: u32,
}

impl Program {
    fn load(number: u32) -> Self {
        let name = name_of(&format!("soak{number}"));
        let loaded = kernel::load(&Options { name: name.clone(), ..Options::default() });
        Self { loaded: loaded.expect("as before"), name, number }
    }

    fn replace(&mut self) {
        *self = Self::load(self.number + 1);
    }
}

/// Bytes of a short connection.
const SHORT: usize = 20_000;

/// Opens short connections one after the other, with the program that is the newest then, which
/// they choose before they connect, until it is told to stop; how many there were.
fn open_and_close(bench: &Bench, newest: &Mutex<String>, stop: &AtomicBool) -> u64 {
    let listener = bench.link.client().enter(|| TcpListener::bind((CLIENT, 0)));
    let listener = listener.expect("inside").expect("a listener");
    let address = match listener.local_addr().expect("it has one") {
        SocketAddr::V4(address) => SockaddrIn::from(address),
        other => panic!("{other}"),
    };
    let mut opens = 0;
    while !stop.load(Ordering::Relaxed) {
        let name = OsString::from(newest.lock().expect("nobody panics with it").clone());
        let open = || {
            let (family, kind) = (AddressFamily::Inet, SockType::Stream);
            let fd = socket(family, kind, SockFlag::empty(), None).expect("a socket");
            // It may be taken out meanwhile.
            setsockopt(&fd, TcpCongestion, &name).ok()?;
            connect(fd.as_raw_fd(), &address).expect("it listens");
            Some(TcpStream::from(fd))
        };
        let stream = bench.link.server().expect("a namespace").enter(open).expect("inside");
        let Some(mut stream) = stream else { continue };
        // Before it is accepted: where the ACK of the handshake is lost, this takes its place.
        stream.write_all(&[7; SHORT]).expect("it goes on");
        let (mut receiver, _) = listener.accept().expect("it connects");
        drop(stream);
        let mut all = Vec::new();
        receiver.read_to_end(&mut all).expect("it arrives");
        assert!(all == [7; SHORT], "{} bytes of {SHORT}", all.len());
        opens += 1;
    }
    opens
}

/// Switches algorithms at random, cuts the link and replaces the program, until the time is over.
fn disturb(
    bench: &Bench,
    senders: &Mutex<Vec<Arc<TcpStream>>>,
    newest: &Mutex<String>,
    seconds: u64,
) {
    let (mut state, mut program) = (1, Program::load(1));
    let (mut switches, mut replaced, mut outages) = (0u64, 0u64, 0u64);
    let end = Instant::now() + Duration::from_secs(seconds);
    let mut second = 0;
    while Instant::now() < end {
        let streams = senders.lock().expect("nobody panics with it").clone();
        for stream in &streams {
            if !random(&mut state).is_multiple_of(10) {
                continue;
            }
            let name = match random(&mut state) % 4 {
                0 => "reno",
                1 => "cubic",
                _ => &program.name,
            };
            // A connection that has ended takes none.
            switches +=
                u64::from(setsockopt(&**stream, TcpCongestion, &OsString::from(name)).is_ok());
        }
        second += 1;
        if second % 3 == 0 {
            program.replace();
            newest.lock().expect("nobody panics with it").clone_from(&program.name);
            replaced += 1;
        }
        if second % 5 == 0 {
            bench.outage(Duration::from_millis(700));
            outages += 1;
        }
        // Sleeps: until the next disturbance.
        sleep_ms(1_000);
    }
    let used = program.loaded.connections().expect("root reads them").len();
    println!(
        "{switches} switches, {replaced} programs replaced, {outages} outages; {used} connections at the end"
    );
}

pub(super) fn soak() {
    let connections = setting("SOAK_CONNECTIONS", 60);
    let seconds = setting("SOAK_SECONDS", 8);
    let files = 4 * connections + 256;
    let (soft, hard) = getrlimit(Resource::RLIMIT_NOFILE).expect("a limit");
    setrlimit(Resource::RLIMIT_NOFILE, soft.max(files.min(hard)), hard)
        .expect("up to the hard limit");
    // Room for the least window of each, or most would wait for their timers.
    let (rtt_ms, queue_bytes) = (20 + connections * 3 / 10, 500_000 + connections * 4_000);
    let link = LinkOf { mbit: 100, rtt_ms, queue_bytes, loss: 0.01 };
    let (log, allocated, unreclaimable) = (Log::start(), allocations(), unreclaimable_kilobytes());
    let bench = Bench::start("soak0", &link);
    let listener = bench.link.client().enter(|| TcpListener::bind((CLIENT, 0)));
    let listener = listener.expect("inside").expect("a listener");
    let address: SocketAddr = listener.local_addr().expect("it has one");
    let (stop, stopped) = (AtomicBool::new(false), AtomicBool::new(false));
    let (sent, received) = (AtomicU64::new(0), AtomicU64::new(0));
    let senders = Mutex::new(Vec::new());
    let small = || thread::Builder::new().stack_size(128 << 10);
    thread::scope(|scope| {
        for seed in 0..connections {
            let (bench, stop, sent, senders) = (&bench, &stop, &sent, &senders);
            let run = move || {
                let stream =
                    bench.link.server().expect("a namespace").enter(|| TcpStream::connect(address));
                let stream = Arc::new(stream.expect("inside").expect("it listens"));
                // The rest in it is to arrive after the end.
                setsockopt(&*stream, SndBuf, &(32 << 10)).expect("a socket");
                let name = OsString::from(&bench.name);
                setsockopt(&*stream, TcpCongestion, &name).expect("the name is known");
                senders.lock().expect("nobody panics with it").push(Arc::clone(&stream));
                sent.fetch_add(send(&stream, seed, stop), Ordering::Relaxed);
            };
            small().spawn_scoped(scope, run).expect("a thread");
            // One after the other: as many handshakes at once as this would overflow the listener's
            // queue.
            let received = &received;
            let (mut stream, _) = listener.accept().expect("it connects");
            let run = move || {
                received.fetch_add(receive(&mut stream), Ordering::Relaxed);
            };
            small().spawn_scoped(scope, run).expect("a thread");
        }
        let newest = Mutex::new(bench.name.clone());
        let opens = AtomicU64::new(0);
        thread::scope(|scope| {
            let (bench, newest, stop, opens) = (&bench, &newest, &stopped, &opens);
            for _ in 0..OPENERS {
                let run = move || {
                    opens.fetch_add(open_and_close(bench, newest, stop), Ordering::Relaxed);
                };
                small().spawn_scoped(scope, run).expect("a thread");
            }
            disturb(bench, &senders, newest, seconds);
            stop.store(true, Ordering::Relaxed);
        });
        println!("{} short connections", opens.into_inner());
        println!("during: {:?} allocations of 8 KB, before {allocated:?}", allocations());
        stop.store(true, Ordering::Relaxed);
    });
    let (sent, received) = (sent.into_inner(), received.into_inner());
    println!("{sent} bytes sent, {received} received and compared");
    assert_eq!(sent, received);
    drop((senders, listener));
    let usage = || bench.loaded.usage().expect("root reads it");
    println!("the first program at the end: {:?}", usage());
    until("its counters are back", || usage() == Usage::default());
    drop(bench);
    // The kernel frees what a socket used when it gets to it.
    if let Some(before) = allocated {
        until("the allocations are back", || {
            allocations().is_some_and(|now| now < before + connections / 4 + 100)
        });
    }
    println!(
        "before and after: 8 KB {allocated:?}, {:?}; SUnreclaim {unreclaimable}, {} kB",
        allocations(),
        unreclaimable_kilobytes()
    );
    let lines = log.map(Log::lines).unwrap_or_default();
    println!("{} lines in the kernel's log: {lines:#?}", lines.len());
    let is_wrong = |line: &&String| {
        ["WARNING", "BUG", "Oops", "stall", "refcount", "protection"]
            .iter()
            .any(|w| line.contains(w))
    };
    assert_eq!(lines.iter().find(is_wrong), None);
    let (own, names) = (format!("_{}", std::process::id()), available());
    let left = names.split_whitespace().find(|name| name.ends_with(&own));
    assert_eq!(left, None);
}
