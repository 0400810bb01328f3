//! Packets that leave together, over both kinds of link: some do, none before its own time, and in
//! their order.

use std::io::IoSliceMut;
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::AsRawFd;
use std::thread;
use std::time::{Duration, SystemTime};

use fullpipe_cc::{Instant, Rate};
use fullpipe_emu::namespace::{CLIENT, SERVER};
use fullpipe_emu::tun::{TunConfig, TunLink};
use fullpipe_emu::{EmulatorConfig, Link, LinkReport, PathConfig, QueueLimit};
use fullpipe_path::Path;
use nix::sys::socket::{ControlMessageOwned, MsgFlags, recvmsg, setsockopt, sockopt};
use nix::sys::time::TimeSpec;

use crate::link::{introduce, local, socket, start};

const BURSTS: u32 = 30;
const PACKETS_A_BURST: u32 = 40;

/// Of one size, but for some that are smaller or larger.
fn payload(number: u32) -> Vec<u8> {
    let bytes = match number % 23 {
        7 => 600,
        11 => 1472,
        _ => 1200,
    };
    let mut payload = vec![number as u8; bytes];
    payload[..4].copy_from_slice(&number.to_be_bytes());
    payload
}

fn downlink() -> PathConfig {
    Link {
        rate: Some(Rate::from_bits_per_sec(400_000_000)),
        delay: fullpipe_cc::Duration::from_millis(10),
        queue: QueueLimit::Bytes(1_000_000),
        ..Link::default()
    }
    .into()
}

/// Sends numbered packets in bursts; which of them the kernel took in at the other end, and when by
/// the link's clock. The kernel's stamp is of the wall clock, which is read before the link's: what
/// is between the two makes a time later and never earlier.
fn carry(
    from: &UdpSocket,
    peer: SocketAddr,
    to: &UdpSocket,
    now: impl Fn() -> Instant + Sync,
) -> Vec<(u32, Instant)> {
    setsockopt(to, sockopt::ReceiveTimestampns, &true).expect("a socket option");
    // The system may give less, and then drop some.
    let _ = setsockopt(to, sockopt::RcvBuf, &8_000_000);
    to.set_read_timeout(Some(Duration::from_millis(500))).expect("a timeout");
    thread::scope(|scope| {
        let reader = scope.spawn(|| std::iter::from_fn(|| receive(to, &now)).collect());
        for burst in 0..BURSTS {
            for packet in 0..PACKETS_A_BURST {
                from.send_to(&payload(burst * PACKETS_A_BURST + packet), peer).expect("sent");
            }
            // Sleeps: the bursts are apart and their packets leave one behind the other.
            thread::sleep(Duration::from_millis(2));
        }
        reader.join().expect("no panic")
    })
}

/// The next packet's number and time; nothing if none comes.
fn receive(socket: &UdpSocket, now: impl Fn() -> Instant) -> Option<(u32, Instant)> {
    let (mut data, mut control) = ([0; 2048], nix::cmsg_space!(TimeSpec));
    let mut slices = [IoSliceMut::new(&mut data)];
    let flags = MsgFlags::empty();
    let read = recvmsg::<()>(socket.as_raw_fd(), &mut slices, Some(&mut control), flags).ok()?;
    let (wall, now) = (SystemTime::now(), now());
    let stamp = read.cmsgs().expect("whole").find_map(|message| match message {
        ControlMessageOwned::ScmTimestampns(stamp) => Some(Duration::from(stamp)),
        _ => None,
    });
    let stamp = SystemTime::UNIX_EPOCH + stamp.expect("a stamp");
    let age = wall.duration_since(stamp).expect("the wall clock goes on");
    let bytes = read.bytes;
    let data = &data[..bytes];
    let number = u32::from_be_bytes([data[0], data[1], data[2], data[3]]);
    assert!(data == payload(number), "packet {number} of {} bytes", data.len());
    Some((number, Instant::from_nanos(now.as_nanos() - age.as_nanos() as u64)))
}

/// The path lets go of what arrived at these times: nothing left the link earlier.
fn assert_none_is_early(report: &LinkReport, left: &[(u32, Instant)]) {
    let sent = BURSTS * PACKETS_A_BURST;
    assert_eq!(report.downlink.stats.delivered.packets, u64::from(sent));
    assert_eq!(report.downlink.send_failures.packets, 0);
    let mut path = Path::new(&downlink()).expect("a path");
    for arrival in &report.downlink.arrivals {
        path.send(arrival.at, arrival.header, ()).expect("there is room");
    }
    let times: Vec<Instant> =
        (0..sent).filter_map(|_| Some(path.poll(Instant::from_nanos(u64::MAX))?.at())).collect();
    for (number, left) in left {
        let due = times[*number as usize];
        assert!(*left >= due, "packet {number}: {left:?} {due:?}");
    }
    assert!(left.is_sorted_by_key(|(number, _)| number), "in their order");
    assert!(left.len() > sent as usize / 2, "{} arrived", left.len());
}

/// The codepoint of a packet: of five in a row the same.
fn codepoint(number: u32) -> u8 {
    [0, 2, 3][number as usize / 5 % 3]
}

/// Sends numbered packets in bursts to a socket that asks for what arrives together. Some do, with
/// the data and the codepoint of each as it was, and in their order.
fn assert_some_arrive_together(from: &UdpSocket, peer: SocketAddr, to: &UdpSocket) {
    setsockopt(to, sockopt::UdpGroSegment, &true).expect("a socket option");
    setsockopt(to, sockopt::IpRecvTos, &true).expect("a socket option");
    to.set_read_timeout(Some(Duration::from_millis(500))).expect("a timeout");
    let (sent, mut together, mut numbers) = (10 * PACKETS_A_BURST, 0, Vec::new());
    thread::scope(|scope| {
        scope.spawn(|| {
            for number in 0..sent {
                let codepoint = i32::from(codepoint(number));
                setsockopt(from, sockopt::Ipv4Tos, &codepoint).expect("a socket option");
                from.send_to(&payload(number), peer).expect("sent");
                if number % PACKETS_A_BURST == 0 {
                    // Sleeps: the bursts are apart.
                    thread::sleep(Duration::from_millis(10));
                }
            }
        });
        let (mut data, mut control) = (vec![0; 65_536], nix::cmsg_space!(i32, u8));
        while numbers.len() < sent as usize {
            let mut slices = [IoSliceMut::new(&mut data)];
            let flags = MsgFlags::empty();
            let read = recvmsg::<()>(to.as_raw_fd(), &mut slices, Some(&mut control), flags);
            let Ok(read) = read else { break };
            let (mut segment, mut bits) = (read.bytes, 0);
            for message in read.cmsgs().expect("whole") {
                match message {
                    ControlMessageOwned::UdpGroSegments(bytes) => segment = bytes as usize,
                    ControlMessageOwned::Ipv4Tos(tos) => bits = tos & 3,
                    _ => {}
                }
            }
            let bytes = read.bytes;
            together += u32::from(segment < bytes);
            for datagram in data[..bytes].chunks(segment) {
                let number = u32::from_be_bytes(datagram[..4].try_into().expect("four"));
                assert!(datagram == payload(number), "packet {number}");
                assert_eq!(bits, codepoint(number), "packet {number}");
                numbers.push(number);
            }
        }
    });
    assert!(numbers.is_sorted() && numbers.len() > sent as usize / 2, "{numbers:?}");
    assert!(together > 0, "each came alone");
}

fn datagrams_leave_a_relay_together() {
    let server = socket("127.0.0.1");
    let link = start(EmulatorConfig {
        uplink: downlink(),
        downlink: downlink(),
        ..EmulatorConfig::new(local(&server))
    });
    let (client, peer) = introduce(&link, &server);
    assert_some_arrive_together(&server, peer, &client);
}

/// The kernel's version.
fn kernel() -> Vec<u32> {
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").expect("a release");
    release.split('.').take(2).map_while(|number| number.parse().ok()).collect()
}

fn datagrams_leave_a_tun_link_together() {
    if kernel() < vec![6, 2] {
        fullpipe_testkit::skip("TUN devices of this kernel do not take many datagrams at once");
    }
    let link = TunLink::start(&TunConfig::new(downlink(), downlink())).expect("a link");
    let open = |address| move || UdpSocket::bind((address, 9)).expect("a socket");
    let from = link.server().expect("a namespace").enter(open(SERVER)).expect("inside");
    let to = link.client().enter(open(CLIENT)).expect("inside");
    assert_some_arrive_together(&from, (CLIENT, 9).into(), &to);
    assert_some_arrive_together(&to, (SERVER, 9).into(), &from);
}

fn no_datagram_leaves_a_relay_before_its_time() {
    let server = socket("127.0.0.1");
    let link = start(EmulatorConfig {
        uplink: downlink(),
        downlink: downlink(),
        record_arrivals: 10_000,
        ..EmulatorConfig::new(local(&server))
    });
    let (client, peer) = introduce(&link, &server);
    let left = carry(&server, peer, &client, || link.now());
    assert_none_is_early(&link.finish().expect("it ran"), &left);
}

fn no_packet_leaves_a_tun_link_before_its_time() {
    let config = TunConfig { record_arrivals: 10_000, ..TunConfig::new(downlink(), downlink()) };
    let link = TunLink::start(&config).expect("a link");
    let open = |address| move || UdpSocket::bind((address, 9)).expect("a socket");
    let from = link.server().expect("a namespace").enter(open(SERVER)).expect("inside");
    let to = link.client().enter(open(CLIENT)).expect("inside");
    let left = carry(&from, (CLIENT, 9).into(), &to, || link.now());
    assert_none_is_early(&link.finish().expect("it ran"), &left);
}

fullpipe_testkit::tests! {
    long [] no_datagram_leaves_a_relay_before_its_time, datagrams_leave_a_relay_together;
    long [Root, Tun] no_packet_leaves_a_tun_link_before_its_time,
        datagrams_leave_a_tun_link_together;
}
