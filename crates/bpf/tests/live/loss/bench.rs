//! One flow of the program over a link between two namespaces.

use std::ffi::OsString;
use std::fs;
use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::fd::AsRawFd;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use fullpipe_bpf::kernel::{Connection, Loaded, Options};
use fullpipe_cc::Rate;
use fullpipe_emu::namespace::CLIENT;
use fullpipe_emu::tun::{TunConfig, TunLink};
use fullpipe_path::{Link, Probability, QueueLimit};
use nix::libc::{self, linger};
use nix::sys::socket::setsockopt;
use nix::sys::socket::sockopt::{Linger, RcvBuf, TcpCongestion};

use crate::own::{load, name_of};

/// A phase of a load, or of a measurement.
pub(crate) fn sleep_ms(ms: u64) {
    // Sleeps: what the caller says.
    thread::sleep(Duration::from_millis(ms));
}

/// The way of the data; the ACKs' way has half the round trip, and no limit.
pub(crate) struct LinkOf {
    pub(crate) mbit: u64,
    pub(crate) rtt_ms: u64,
    pub(crate) queue_bytes: u64,
    /// Of all packets.
    pub(crate) loss: f64,
}

/// The program, loaded, and the link.
pub(crate) struct Bench {
    // Dropped first: connections that nothing resets would keep the program in the kernel.
    pub(crate) link: TunLink,
    pub(crate) loaded: Loaded,
    pub(crate) name: String,
}

impl Bench {
    pub(crate) fn start(test: &str, of: &LinkOf) -> Self {
        Self::of(test, false, of)
    }

    /// With the amendments of bbr3x, or without them.
    pub(crate) fn of(test: &str, amended: bool, of: &LinkOf) -> Self {
        Self::with(Options { name: name_of(test), amended, ..Options::default() }, of)
    }

    pub(crate) fn with(options: Options, of: &LinkOf) -> Self {
        let loaded = load(&options);
        let delay = fullpipe_cc::Duration::from_micros(of.rtt_ms * 500);
        let downlink = Link {
            rate: Some(Rate::from_bits_per_sec(of.mbit * 1_000_000)),
            delay,
            queue: QueueLimit::Bytes(of.queue_bytes),
            loss: Probability::new(of.loss).expect("a share"),
            seed: 1,
        };
        let uplink = Link { delay, ..Link::default() };
        let config = TunConfig::new(uplink.into(), downlink.into());
        let link = TunLink::start(&config).expect("a link");
        Self { link, loaded, name: options.name }
    }

    /// A flow that always has something to send.
    pub(crate) fn flow(&self) -> Flow<'_> {
        let flow = self.quiet_flow();
        let (mut reader, count) = (flow.receiver.try_clone(), Arc::clone(&flow.received));
        thread::spawn(move || {
            let reader = reader.as_mut().expect("a descriptor");
            let mut chunk = vec![0; 1 << 18];
            while let Ok(n @ 1..) = reader.read(&mut chunk) {
                count.fetch_add(n as u64, Ordering::Relaxed);
            }
        });
        let mut writer = flow.stream.try_clone().expect("a descriptor");
        thread::spawn(move || while writer.write_all(&[7; 1 << 16]).is_ok() {});
        flow
    }

    /// A flow that sends nothing by itself.
    pub(crate) fn quiet_flow(&self) -> Flow<'_> {
        let listener = self.link.client().enter(|| TcpListener::bind((CLIENT, 0)));
        let listener = listener.expect("inside").expect("a listener");
        let address = listener.local_addr().expect("it has one");
        let stream = self.link.server().expect("a namespace").enter(|| TcpStream::connect(address));
        let stream = stream.expect("inside").expect("a connection");
        let (receiver, _) = listener.accept().expect("it connects");
        let flow = Flow { bench: self, stream, receiver, received: Arc::default() };
        flow.choose(&self.name);
        flow
    }

    /// Sets a sysctl of both ends.
    pub(crate) fn set(&self, path: &str, value: &str) {
        for end in [self.link.server().expect("a namespace"), self.link.client()] {
            let set = end.enter(|| fs::write(path, value));
            set.expect("inside").unwrap_or_else(|error| panic!("{path}: {error}"));
        }
    }

    /// A counter of the server's TCP, by its name in /proc/net/snmp or /proc/net/netstat.
    pub(crate) fn counter(&self, table: &str, name: &str) -> u64 {
        let (file, prefix) = match table {
            "Tcp" => ("/proc/thread-self/net/snmp", "Tcp: "),
            _ => ("/proc/thread-self/net/netstat", "TcpExt: "),
        };
        let text = self.link.server().expect("a namespace").enter(|| fs::read_to_string(file));
        let text = text.expect("inside").expect("every Linux has it");
        let mut lines = text.lines().filter_map(|line| line.strip_prefix(prefix));
        let (names, values) = (lines.next().expect("names"), lines.next().expect("values"));
        let at = names.split(' ').position(|word| word == name).expect("it is there");
        values.split(' ').nth(at).and_then(|value| value.parse().ok()).expect("a number")
    }

    /// Segments that the server has sent, and those of them that were retransmissions.
    pub(crate) fn segments(&self) -> (u64, u64) {
        (self.counter("Tcp", "OutSegs"), self.counter("Tcp", "RetransSegs"))
    }

    /// No packet arrives for so long.
    pub(crate) fn outage(&self, lasts: Duration) {
        let device = |state: &str| {
            let ip = || Command::new("ip").args(["link", "set", "fullpipe", state]).status();
            let done = self.link.client().enter(ip).expect("inside");
            assert!(done.expect("the test needs ip of iproute2").success());
        };
        device("down");
        // Sleeps: the outage.
        thread::sleep(lasts);
        device("up");
    }
}

/// A flow from the server to the client. It is reset when this is dropped.
pub(crate) struct Flow<'a> {
    bench: &'a Bench,
    stream: TcpStream,
    receiver: TcpStream,
    received: Arc<AtomicU64>,
}

impl Flow<'_> {
    pub(crate) fn choose(&self, name: &str) {
        setsockopt(&self.stream, TcpCongestion, &OsString::from(name)).expect("the name is known");
    }

    /// The most that the receiver keeps. With less than it has, it drops what came out of order.
    pub(crate) fn limit_receiver(&self, bytes: usize) {
        setsockopt(&self.receiver, RcvBuf, &bytes).expect("a socket");
    }

    /// Sends so many bytes and waits for the byte with which the receiver answers.
    pub(crate) fn respond(&self, bytes: usize) {
        thread::scope(|scope| {
            scope.spawn(|| (&self.stream).write_all(&vec![7; bytes]).expect("it goes on"));
            // Meanwhile, since the buffers of the two sockets hold less than a large response.
            (&self.receiver).read_exact(&mut vec![0; bytes]).expect("it arrives");
        });
        (&self.receiver).write_all(&[7]).expect("it goes on");
        (&self.stream).read_exact(&mut [0]).expect("it arrives");
    }

    /// Of the server's TCP, in packets.
    pub(crate) fn ssthresh(&self) -> u32 {
        let (mut info, mut size) = ([0u8; 104], 104);
        let fd = self.stream.as_raw_fd();
        let to = info.as_mut_ptr().cast();
        // SAFETY: the kernel writes at most so many bytes.
        let done =
            unsafe { libc::getsockopt(fd, libc::IPPROTO_TCP, libc::TCP_INFO, to, &mut size) };
        assert_eq!(done, 0, "every Linux has it");
        // tcpi_snd_ssthresh of struct tcp_info in linux/tcp.h.
        u32::from_ne_bytes(info[76..80].try_into().expect("four"))
    }

    /// The round trip takes so much longer from now on.
    pub(crate) fn lengthen(&self, by: fullpipe_cc::Duration) {
        let port = self.receiver.local_addr().expect("it has one").port();
        self.bench.link.set_extra_delay(port, by);
    }

    /// Bytes that the receiver has read.
    pub(crate) fn received(&self) -> u64 {
        self.received.load(Ordering::Relaxed)
    }

    pub(crate) fn try_state(&self) -> Option<Connection> {
        let port = self.stream.local_addr().expect("it has one").port();
        let connections = self.bench.loaded.connections().expect("root reads them");
        connections.into_iter().find(|connection| connection.local.port() == port)
    }

    /// The program's estimates of it.
    pub(crate) fn state(&self) -> Connection {
        self.try_state().expect("the program has it")
    }
}

impl Drop for Flow<'_> {
    fn drop(&mut self) {
        let at_once = linger { l_onoff: 1, l_linger: 0 };
        let _ = setsockopt(&self.stream, Linger, &at_once);
        // Wakes the sender; closing the last descriptor then sends the reset.
        let _ = self.stream.shutdown(Shutdown::Both);
    }
}

impl Drop for Bench {
    fn drop(&mut self) {
        // Sleeps: the resets of the flows are still to cross the link, or their connections would
        // keep the program.
        sleep_ms(50);
    }
}
