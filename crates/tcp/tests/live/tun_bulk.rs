//! A bulk transfer through a TUN device on one core: this crate beside smoltcp's own socket and the
//! kernel, each with the kernel's TCP at the other end.
//!
//! ```text
//! TUN_BULK_MB=1000 cargo test --release -p fullpipe-tcp --test live -- --include-ignored tun_bulk
//! ```
//!
//! All packets are of 1500 bytes; with offloads (IFF_VNET_HDR, TSO) those that cross a device stand
//! for up to 64 KiB of such packets. smoltcp has none. Between two ends of the kernel's there are
//! two devices, and a thread that carries packets from one to the other. CPU is that of the whole
//! process: both ends, and the devices.

use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU16, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use fullpipe_cc::Algorithm;
use fullpipe_tcp::{Config, Endpoint};
use fullpipe_testkit::in_namespace;
use nix::poll::{PollFd, PollFlags, ppoll};
use nix::sched::{CloneFlags, CpuSet, sched_getaffinity, sched_setaffinity, unshare};
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeSpec;
use nix::unistd::Pid;
use smoltcp::iface::{Interface, SocketSet};
use smoltcp::phy::{self, DeviceCapabilities, Medium};
use smoltcp::socket::tcp::{CongestionControl, Socket, SocketBuffer};
use smoltcp::time as smol;
use smoltcp::wire::{HardwareAddress, IpAddress, IpCidr};
use tun_rs::{DeviceBuilder, SyncDevice};

/// The kernel's address on the device, and that of the stack behind it.
const KERNEL: [u8; 4] = [198, 18, 8, 1];
const OTHER: [u8; 4] = [198, 18, 8, 2];
const PORT: u16 = 80;

const BUFFER: usize = 4 << 20;
const CHUNK: usize = 64 << 10;
/// Shortest wait for the pacer: sleeps of a few microseconds would cost more than what is sent
/// between them.
const LEAST_WAIT: Duration = Duration::from_micros(250);
/// Packets that are read, and that are sent, in one turn.
const BURST: usize = 64;

/// Bytes of the largest frame: a packet, and a virtio network header.
const LARGEST: usize = 65_536 + 10;

/// The stack that is measured, against the kernel's TCP.
#[derive(Clone, Copy, Debug)]
enum Stack {
    Ours(Algorithm),
    Smoltcp(CongestionControl),
    Kernel,
}

/// Offload of the device: it makes many packets of one, and one of many.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Offload {
    Off,
    On,
}

/// The direction of the data, as the stack sees it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Way {
    Sends,
    Receives,
}

/// Bytes that the measured stack has written or read, and whether the other end has all.
struct Transfer {
    way: Way,
    bytes: usize,
    is_over: Arc<AtomicBool>,
}

impl Transfer {
    fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Relaxed)
    }
}

fn device(address: [u8; 4], offload: Offload) -> std::io::Result<SyncDevice> {
    let builder = DeviceBuilder::new().name("bulk0").ipv4(Ipv4Addr::from(address), 24, None);
    let device = builder.offload(offload == Offload::On).enable(true).build_sync()?;
    device.set_nonblocking(true)?;
    Ok(device)
}

/// A port that no connection had before: the kernel may still remember those.
fn next_port() -> u16 {
    static PORTS: AtomicU16 = AtomicU16::new(4000);
    PORTS.fetch_add(1, Ordering::Relaxed)
}

/// Waits until one of the devices has a packet, for `wait` at most.
fn wait_for(devices: &[&SyncDevice], wait: Duration) {
    let mut fds: Vec<_> =
        devices.iter().map(|d| PollFd::new(d.as_fd(), PollFlags::POLLIN)).collect();
    // Longer sleeps would miss the end.
    let wait = wait.min(Duration::from_millis(20));
    let _ = ppoll(&mut fds, Some(TimeSpec::from(wait)), None);
}

fn receive(device: &SyncDevice, buffer: &mut [u8]) -> Option<usize> {
    match device.recv(buffer) {
        Ok(count) => Some(count),
        Err(e) if e.kind() == ErrorKind::WouldBlock => None,
        Err(e) => panic!("the device: {e}"),
    }
}

fn ours(device: &SyncDevice, algorithm: Algorithm, transfer: &Transfer) {
    let epoch = Instant::now();
    let now = || fullpipe_cc::Instant::default() + fullpipe_cc::Duration::from(epoch.elapsed());
    let mut endpoint = Endpoint::new([7; 16], 8);
    // Without timestamps, as smoltcp's.
    let config = Config { algorithm, send_buffer: BUFFER, timestamps: false, ..Config::default() };
    let (local, remote) = ((OTHER, next_port()).into(), (KERNEL, PORT).into());
    let connection = endpoint.connect(now(), local, remote, &config).expect("it is free");
    let (mut buffer, mut packet, mut chunk) = (vec![0; LARGEST], Vec::new(), vec![0; CHUNK]);
    let has_header = device.tcp_gso();
    let mut done = 0;
    while !transfer.is_over() {
        for _ in 0..BURST {
            let Some(count) = receive(device, &mut buffer) else { break };
            match has_header {
                true => endpoint.receive_virtio(now(), &buffer[..count]),
                false => endpoint.receive(now(), &buffer[..count]),
            }
        }
        endpoint.on_timer(now());
        loop {
            let moved = match transfer.way {
                Way::Sends => {
                    let left = CHUNK.min(transfer.bytes - done);
                    endpoint.write(now(), connection, &chunk[..left])
                }
                Way::Receives => endpoint.read(connection, &mut chunk),
            };
            match moved {
                Ok(count @ 1..) => done += count,
                _ => break,
            }
        }
        if transfer.way == Way::Receives && done >= transfer.bytes {
            return;
        }
        let mut is_idle = false;
        for _ in 0..BURST {
            is_idle = !match has_header {
                true => endpoint.transmit_virtio(now(), &mut packet),
                false => endpoint.transmit(now(), &mut packet),
            };
            if is_idle {
                break;
            }
            device.send(&packet).expect("room in the device");
        }
        if is_idle {
            let wait = endpoint.poll_at().map_or(Duration::MAX, |at| at.since(now()).into());
            wait_for(&[device], wait.max(LEAST_WAIT));
        }
    }
}

/// The device as smoltcp has it.
struct Phy<'d> {
    device: &'d SyncDevice,
    received: Vec<u8>,
    leaving: Vec<u8>,
}

struct Received<'a>(&'a [u8]);

struct Room<'a> {
    device: &'a SyncDevice,
    packet: &'a mut Vec<u8>,
}

impl phy::RxToken for Received<'_> {
    fn consume<R, F: FnOnce(&[u8]) -> R>(self, read: F) -> R {
        read(self.0)
    }
}

impl phy::TxToken for Room<'_> {
    fn consume<R, F: FnOnce(&mut [u8]) -> R>(self, len: usize, write: F) -> R {
        self.packet.resize(len, 0);
        let done = write(self.packet);
        self.device.send(self.packet).expect("room in the device");
        done
    }
}

impl phy::Device for Phy<'_> {
    type RxToken<'a>
        = Received<'a>
    where
        Self: 'a;
    type TxToken<'a>
        = Room<'a>
    where
        Self: 'a;

    fn receive(&mut self, _: smol::Instant) -> Option<(Received<'_>, Room<'_>)> {
        let Self { device, received, leaving } = self;
        let count = receive(device, received)?;
        Some((Received(&received[..count]), Room { device, packet: leaving }))
    }

    fn transmit(&mut self, _: smol::Instant) -> Option<Room<'_>> {
        Some(Room { device: self.device, packet: &mut self.leaving })
    }

    fn capabilities(&self) -> DeviceCapabilities {
        let mut capabilities = DeviceCapabilities::default();
        (capabilities.medium, capabilities.max_transmission_unit) = (Medium::Ip, 1500);
        capabilities
    }
}

fn smoltcp(device: &SyncDevice, congestion: CongestionControl, transfer: &Transfer) {
    let epoch = Instant::now();
    let now = || smol::Instant::from_micros(epoch.elapsed().as_micros() as i64);
    let mut phy = Phy { device, received: vec![0; 2000], leaving: Vec::new() };
    let config = smoltcp::iface::Config::new(HardwareAddress::Ip);
    let mut interface = Interface::new(config, &mut phy, now());
    let [a, b, c, d] = OTHER;
    interface.update_ip_addrs(|all| {
        all.push(IpCidr::new(IpAddress::v4(a, b, c, d), 24)).expect("room for one");
    });
    let buffer = || SocketBuffer::new(vec![0; BUFFER]);
    let mut socket = Socket::new(buffer(), buffer());
    socket.set_congestion_control(congestion);
    let [a, b, c, d] = KERNEL;
    let remote = (IpAddress::v4(a, b, c, d), PORT);
    socket.connect(interface.context(), remote, next_port()).expect("an address");
    let mut sockets = SocketSet::new(Vec::new());
    let handle = sockets.add(socket);
    let (mut chunk, mut done) = (vec![0; CHUNK], 0);
    while !transfer.is_over() {
        interface.poll(now(), &mut phy, &mut sockets);
        let socket = sockets.get_mut::<Socket<'_>>(handle);
        while transfer.way == Way::Sends && done < transfer.bytes && socket.can_send() {
            let left = CHUNK.min(transfer.bytes - done);
            done += socket.send_slice(&chunk[..left]).expect("it is open");
        }
        while transfer.way == Way::Receives && socket.can_recv() {
            done += socket.recv_slice(&mut chunk).expect("it is open");
        }
        if transfer.way == Way::Receives && done >= transfer.bytes {
            return;
        }
        match interface.poll_delay(now(), &sockets).map(Duration::from) {
            Some(Duration::ZERO) => {}
            wait => wait_for(&[device], wait.unwrap_or(Duration::MAX)),
        }
    }
}

/// Carries packets between the device and that of another end of the kernel's.
fn kernel(device: &SyncDevice, transfer: &Transfer) {
    let (way, bytes, is_over) = (transfer.way, transfer.bytes, Arc::clone(&transfer.is_over));
    let (told, other) = std::sync::mpsc::channel();
    let offload = if device.tcp_gso() { Offload::On } else { Offload::Off };
    let end = thread::spawn(move || {
        unshare(CloneFlags::CLONE_NEWNET).expect("the first namespace was possible");
        let other = self::device(OTHER, offload).expect("the first device was possible");
        told.send(other).expect("a reader");
        let mut stream = TcpStream::connect(SocketAddr::from((KERNEL, PORT))).expect("it listens");
        move_all(&mut stream, way, bytes);
        // The sender's end is not over when it has written all.
        is_over.fetch_or(way == Way::Receives, Ordering::Relaxed);
    });
    let other = other.recv().expect("a device");
    let mut buffer = vec![0; LARGEST];
    while !transfer.is_over() {
        let mut is_idle = true;
        for (from, to) in [(device, &other), (&other, device)] {
            for _ in 0..BURST {
                let Some(count) = receive(from, &mut buffer) else { break };
                is_idle = false;
                to.send(&buffer[..count]).expect("room in the device");
            }
        }
        if is_idle {
            wait_for(&[device, &other], Duration::MAX);
        }
    }
    end.join().expect("no panic");
}

/// The kernel's end of a stack that has the data go this way.
fn move_all(stream: &mut TcpStream, way: Way, bytes: usize) {
    let (mut chunk, mut left) = (vec![0; CHUNK], bytes);
    while left > 0 {
        let part = CHUNK.min(left);
        left -= match way {
            Way::Sends => stream.write(&chunk[..part]).expect("it is open"),
            Way::Receives => match stream.read(&mut chunk[..part]).expect("it is open") {
                0 => panic!("the end, {left} bytes early"),
                count => count,
            },
        };
    }
}

/// Gbit/s, and seconds of CPU for a gigabyte.
fn measure(offload: Offload, stack: Stack, way: Way, bytes: usize) -> (f64, f64) {
    let device = &device(KERNEL, offload).expect("the test names Need::Tun");
    let listener = TcpListener::bind(SocketAddr::from((KERNEL, PORT))).expect("a free port");
    let is_over = Arc::new(AtomicBool::new(false));
    let transfer = Transfer { way, bytes, is_over: Arc::clone(&is_over) };
    let (cpu, begin) = (cpu_time(), Instant::now());
    let end = thread::spawn(move || {
        let (mut stream, _) = listener.accept().expect("a connection");
        if way == Way::Sends {
            move_all(&mut stream, Way::Receives, bytes);
            is_over.store(true, Ordering::Relaxed);
        } else {
            move_all(&mut stream, Way::Sends, bytes);
        }
        stream
    });
    match stack {
        Stack::Ours(algorithm) => ours(device, algorithm, &transfer),
        Stack::Smoltcp(congestion) => smoltcp(device, congestion, &transfer),
        Stack::Kernel => kernel(device, &transfer),
    }
    let (secs, cpu) = (begin.elapsed().as_secs_f64(), cpu_time() - cpu);
    drop(end.join().expect("no panic"));
    (bytes as f64 * 8e-9 / secs, cpu / (bytes as f64 * 1e-9))
}

fn cpu_time() -> f64 {
    let usage = getrusage(UsageWho::RUSAGE_SELF).expect("its own");
    let secs = |t: nix::sys::time::TimeVal| t.tv_sec() as f64 + t.tv_usec() as f64 * 1e-6;
    secs(usage.user_time()) + secs(usage.system_time())
}

/// Keeps this thread, and those that it starts, on the first core that it may run on.
fn stay_on_one_core() {
    let all = sched_getaffinity(Pid::from_raw(0)).expect("its own");
    let first = (0..CpuSet::count()).find(|core| all.is_set(*core).unwrap_or(false));
    let mut one = CpuSet::new();
    one.set(first.expect("a core")).expect("a number of a core");
    sched_setaffinity(Pid::from_raw(0), &one).expect("fewer than before");
}

fn ours_costs_what_smoltcp_does_and_less_with_offloads() {
    let bytes = std::env::var("TUN_BULK_MB").map_or(50, |mb| mb.parse().expect("megabytes"));
    in_namespace(move || {
        stay_on_one_core();
        let stacks = [
            (Stack::Ours(Algorithm::BBR3), Offload::Off),
            (Stack::Ours(Algorithm::CUBIC), Offload::Off),
            (Stack::Smoltcp(CongestionControl::Cubic), Offload::Off),
            (Stack::Kernel, Offload::Off),
            (Stack::Ours(Algorithm::BBR3), Offload::On),
            (Stack::Ours(Algorithm::CUBIC), Offload::On),
            (Stack::Kernel, Offload::On),
        ];
        for way in [Way::Sends, Way::Receives] {
            // The cheapest of three each: what the first has to warm up does not count.
            let rounds = [0; 3].map(|_| {
                stacks.map(|(stack, offload)| measure(offload, stack, way, bytes * 1_000_000))
            });
            let best = |i: usize| {
                let of = rounds.map(|round| round[i]);
                (
                    of.map(|(rate, _)| rate).into_iter().fold(0.0, f64::max),
                    of.map(|(_, cpu)| cpu).into_iter().fold(f64::INFINITY, f64::min),
                )
            };
            let best = [0, 1, 2, 3, 4, 5, 6].map(best);
            for ((stack, offload), (rate, cpu)) in stacks.iter().zip(&best) {
                println!(
                    "{stack:?} {way:?}, offloads {offload:?}: {rate:.2} Gbit/s, {cpu:.2} s of CPU per GB"
                );
            }
            // On one core that is what bounds the rate. Four fifths of it are the kernel's.
            assert!(best[0].1 < 1.5 * best[2].1, "{way:?}: {best:?}");
            // 0.2 to 0.54 of it was measured; without the offloads' large packets it is all of it.
            assert!(best[4].1 < 0.75 * best[0].1, "{way:?}: {best:?}");
        }
    });
}

fullpipe_testkit::tests! {
    long timed [Root, Tun, Ip] ours_costs_what_smoltcp_does_and_less_with_offloads;
}
