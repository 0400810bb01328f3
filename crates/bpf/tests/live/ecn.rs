//! CE marks of a path between two namespaces come to the program in the kernel.

use std::ffi::OsString;
use std::fs;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

use fullpipe_bpf::kernel::{Connection, Loaded, Options};
use fullpipe_cc::Rate;
use fullpipe_emu::namespace::CLIENT;
use fullpipe_emu::tun::{TunConfig, TunLink};
use fullpipe_path::{
    ElementConfig, Link, PathConfig, QueueConfig, QueueLimit, RateConfig, StepConfig,
};
use fullpipe_testkit::{PATIENCE, inconclusive};
use nix::libc::linger;
use nix::sys::socket::setsockopt;
use nix::sys::socket::sockopt::{Linger, TcpCongestion};

use crate::own::{load, name_of};

/// 50 Mbit/s and 2 ms, which marks what finds six packets in the queue.
fn marking() -> TunConfig {
    let way = || Link { delay: fullpipe_cc::Duration::from_millis(1), ..Link::default() };
    let mut downlink = PathConfig::from(way());
    let queue = QueueConfig::Step(StepConfig {
        limit: QueueLimit::Packets(100),
        mark_above: QueueLimit::Packets(6),
    });
    let rate = RateConfig::Constant(Rate::from_bits_per_sec(50_000_000));
    downlink.row.insert(0, ElementConfig::Bottleneck { rate, queue });
    TunConfig::new(way().into(), downlink)
}

/// Values of net.ipv4.tcp_ecn.
const WITHOUT: &str = "0";
const CLASSIC: &str = "1";
const ACCURATE: &str = "3";

/// True if this kernel can negotiate accurate ECN.
fn has_accurate_ecn() -> bool {
    let link = TunLink::start(&marking()).expect("a link");
    let set = link
        .server()
        .expect("a namespace")
        .enter(|| fs::write("/proc/sys/net/ipv4/tcp_ecn", ACCURATE));
    set.expect("inside").is_ok()
}

/// Sends for two seconds: what the program knew at the end, and how many packets the
/// path marked.
fn send(loaded: &Loaded, ecn: &str) -> (Connection, u64) {
    let link = TunLink::start(&marking()).expect("a link");
    for end in [link.server().expect("a namespace"), link.client()] {
        let set = end.enter(|| fs::write("/proc/sys/net/ipv4/tcp_ecn", ecn));
        set.expect("inside").expect("every Linux has it");
    }
    let listener = link.client().enter(|| TcpListener::bind((CLIENT, 7)));
    let listener = listener.expect("inside").expect("a listener");
    let receiver = thread::spawn(move || {
        let (mut stream, _) = listener.accept().expect("it connects");
        stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
        let mut chunk = vec![0; 1 << 16];
        while matches!(stream.read(&mut chunk), Ok(n) if n > 0) {}
    });
    let stream = link.server().expect("a namespace").enter(|| TcpStream::connect((CLIENT, 7)));
    let mut stream = stream.expect("inside").expect("a connection");
    setsockopt(&stream, TcpCongestion, &OsString::from(name_of("ecn"))).expect("the name is known");
    let begun = Instant::now();
    while begun.elapsed() < Duration::from_secs(2) {
        stream.write_all(&[0; 10_000]).expect("it is sent");
    }
    let connections = loaded.connections().expect("root reads them");
    let port = stream.local_addr().expect("it has one").port();
    let connection = connections.into_iter().find(|c| c.local.port() == port).expect("it is there");
    // Resets it, while the link is there to carry that: a connection that goes on alone would keep
    // the program in the kernel.
    let at_once = linger { l_onoff: 1, l_linger: 0 };
    setsockopt(&stream, Linger, &at_once).expect("a socket");
    drop(stream);
    receiver.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
    let report = link.finish().expect("it ran");
    if let Some(warning) = report.warning {
        inconclusive(warning);
    }
    let queue_ms = report.downlink.queue_delay.mean() / 1e6;
    let stats = report.downlink.stats;
    let megabits = stats.carried.bytes as f64 * 8.0 / 1e6 / begun.elapsed().as_secs_f64();
    println!("tcp_ecn {ecn}: {megabits:.1} Mbit/s, a mean queue of {queue_ms:.2} ms");
    (connection, stats.marked.packets)
}

fn marks_are_responded_to_where_they_are_said_to_mean_a_short_queue() {
    let options =
        |low_latency_ecn| Options { name: name_of("ecn"), low_latency_ecn, ..Options::default() };
    let loaded = load(&options(true));
    let (with, marked) = send(&loaded, CLASSIC);
    assert!(marked > 0 && with.marked > 0, "{marked} packets, {with:?}");
    assert!(with.ecn_alpha.is_some_and(|alpha| alpha < 256), "{with:?}");
    let (without, marked) = send(&loaded, WITHOUT);
    assert_eq!((marked, without.marked, without.ecn_alpha), (0, 0, None), "{without:?}");
    if has_accurate_ecn() {
        let (accurate, marked) = send(&loaded, ACCURATE);
        assert!(marked > 0 && accurate.marked > 0, "{marked} packets, {accurate:?}");
        assert!(accurate.ecn_alpha.is_some_and(|alpha| alpha < 256), "{accurate:?}");
    } else {
        println!("not tried: accurate ECN, which this kernel does not have");
    }
    drop(loaded);
    // Negotiation alone does not say what a mark means: they are counted, and change nothing.
    let loaded = load(&options(false));
    let (unanswered, marked) = send(&loaded, CLASSIC);
    assert!(marked > 0 && unanswered.marked > 0, "{marked} packets, {unanswered:?}");
    assert_eq!(unanswered.ecn_alpha, None, "{unanswered:?}");
}

fullpipe_testkit::tests! {
    long timed [Root, Kernel, Tun] marks_are_responded_to_where_they_are_said_to_mean_a_short_queue;
}
