//! A link between this namespace and one of its own. Needs Linux and root; without them the test says so.
#![cfg(target_os = "linux")]

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::{Duration, Instant};

use fullpipe_emu::Link;
use fullpipe_emu::tun::{self, TunConfig, TunLink};

fn interfaces() -> Vec<String> {
    let table = std::fs::read_to_string("/proc/net/dev").expect("a table");
    table.lines().filter_map(|line| Some(line.split_once(':')?.0.to_owned())).collect()
}

#[test]
fn a_link_from_here_reaches_this_machine_and_nothing_stays_behind() {
    if let Err(missing) = tun::available() {
        eprintln!("skipped: {missing}");
        return;
    }
    let before = interfaces();
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
    let reports = links.map(|link| link.finish().expect("it ran"));
    for report in &reports {
        assert_eq!((report.uplink.payload_bytes, report.downlink.payload_bytes), (5, 8));
        assert!(report.active >= fullpipe_cc::Duration::from_millis(40), "{}", report.active);
    }
    assert_eq!(interfaces(), before);
}
