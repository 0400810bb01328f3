//! A link between this namespace and one of its own.

use std::io::{Read, Write};
use std::net::{IpAddr, TcpListener, TcpStream, UdpSocket};
use std::time::{Duration, Instant};

use fullpipe_emu::Link;
use fullpipe_emu::tun::{TunConfig, TunLink};
use fullpipe_testkit::{in_namespace, skip};

/// True if a device of this machine has an address.
fn is_here(address: impl Into<IpAddr>) -> bool {
    UdpSocket::bind((address.into(), 0)).is_ok()
}

fn a_link_from_here_reaches_this_machine_and_nothing_stays_behind() {
    // "Here" is a namespace of the test's own, where nobody else has addresses.
    in_namespace(two_links_from_here);
}

fn two_links_from_here() {
    let half = Link { delay: fullpipe_cc::Duration::from_millis(10), ..Link::default() };
    let (uplink, downlink) = (half.into(), half.into());
    let config = TunConfig::new(uplink, downlink);
    let links = [0, 1].map(|_| TunLink::from_here(&config).expect("a link"));
    assert_ne!(links[0].server_address(), links[1].server_address());
    for link in &links {
        assert!(!link.is_nested() && link.server().is_none());
        // Bound to all of this machine's addresses, as servers are.
        let listener = TcpListener::bind("0.0.0.0:0").expect("a listener");
        let to = (link.server_address(), listener.local_addr().expect("an address").port());
        let begun = Instant::now();
        let stream = link.client().enter(|| TcpStream::connect(to)).expect("inside");
        let mut stream = stream.expect("a connection");
        assert!(begun.elapsed() >= Duration::from_millis(20), "a round trip");
        let (mut other, _) = listener.accept().expect("a connection");
        stream.write_all(b"there").expect("sent");
        other.read_exact(&mut [0; 5]).expect("it arrives");
        other.write_all(b"and back").expect("sent");
        stream.read_exact(&mut [0; 8]).expect("it arrives");
        // A namespace's own loopback works, and is not this one's.
        let own = link.client().enter(|| {
            let listener = TcpListener::bind("127.0.0.1:0").expect("a listener");
            TcpStream::connect(listener.local_addr().expect("an address")).map(drop)
        });
        own.expect("inside").expect("a connection");
    }
    let addresses = links.each_ref().map(TunLink::server_address);
    assert!(addresses.iter().all(|address| is_here(*address)));
    let reports = links.map(|link| link.finish().expect("it ran"));
    for report in &reports {
        assert_eq!((report.uplink.payload_bytes, report.downlink.payload_bytes), (5, 8));
        assert!(report.active >= fullpipe_cc::Duration::from_millis(40), "{}", report.active);
    }
    assert!(!addresses.iter().any(|address| is_here(*address)));
}

fn ipv6_crosses_a_link_from_here_and_the_kernel_sends_nothing_by_itself() {
    in_namespace(|| ipv6_crosses(true));
}

fn ipv6_crosses_the_path_and_the_kernel_sends_nothing_by_itself() {
    ipv6_crosses(false);
}

fn ipv6_crosses(is_from_here: bool) {
    let half = Link { delay: fullpipe_cc::Duration::from_millis(10), ..Link::default() };
    let config = TunConfig { ipv6: true, ..TunConfig::new(half.into(), half.into()) };
    let link = if is_from_here { TunLink::from_here(&config) } else { TunLink::start(&config) };
    let link = link.expect("a link");
    let Some(host) = link.server_address6() else {
        skip("this kernel has no IPv6");
    };
    // Sleeps: what the kernel would ask of a new network it asks within seconds.
    std::thread::sleep(Duration::from_millis(2500));
    let sample = link.sample();
    assert_eq!(
        (sample.uplink.stats.arrived.packets, sample.downlink.stats.arrived.packets),
        (0, 0)
    );
    let listen = || TcpListener::bind("[::]:0").expect("a listener");
    let listener = match link.server() {
        Some(server) => server.enter(listen).expect("inside"),
        None => listen(),
    };
    let to = (host, listener.local_addr().expect("an address").port());
    let begun = Instant::now();
    let stream = link.client().enter(|| TcpStream::connect(to)).expect("inside");
    let mut stream = stream.expect("a connection");
    assert!(begun.elapsed() >= Duration::from_millis(20), "a round trip");
    let (mut other, _) = listener.accept().expect("a connection");
    stream.write_all(b"there").expect("sent");
    other.read_exact(&mut [0; 5]).expect("it arrives");
    drop((stream, other));
    let report = link.finish().expect("it ran");
    assert_eq!((report.uplink.payload_bytes, report.downlink.payload_bytes), (5, 0));
}

fullpipe_testkit::tests! {
    long [Root, Tun, Ip] a_link_from_here_reaches_this_machine_and_nothing_stays_behind,
        ipv6_crosses_a_link_from_here_and_the_kernel_sends_nothing_by_itself;
    long [Root, Tun] ipv6_crosses_the_path_and_the_kernel_sends_nothing_by_itself;
}
