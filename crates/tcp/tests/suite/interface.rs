//! Endpoints behind smoltcp's interfaces: two on an Ethernet in memory, with ARP and NDP, in
//! virtual time.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::net::SocketAddr;
use std::rc::Rc;

use fullpipe_cc::{Duration, Instant};
use fullpipe_tcp::interface::Host;
use fullpipe_tcp::{Config, Endpoint, Error, ListenerHandle, State};
use smoltcp::phy::{Device, DeviceCapabilities, Medium, TxToken};
use smoltcp::time;
use smoltcp::wire::{EthernetFrame, EthernetProtocol, Ipv6Packet};

use crate::common::{App, MS};
use crate::ethernet::{Received, address, hardware, interface};

type Frames = Rc<RefCell<VecDeque<Vec<u8>>>>;

/// One end of a cable.
struct Cable {
    incoming: Frames,
    outgoing: Frames,
    /// Frames that the other end has not taken, at most.
    most: usize,
}

struct Room(Frames);

impl Device for Cable {
    type RxToken<'a> = Received;
    type TxToken<'a> = Room;

    fn receive(&mut self, _: time::Instant) -> Option<(Received, Room)> {
        let frame = self.incoming.borrow_mut().pop_front()?;
        Some((Received(frame), Room(self.outgoing.clone())))
    }

    fn transmit(&mut self, _: time::Instant) -> Option<Room> {
        (self.outgoing.borrow().len() < self.most).then(|| Room(self.outgoing.clone()))
    }

    fn capabilities(&self) -> DeviceCapabilities {
        let mut capabilities = DeviceCapabilities::default();
        capabilities.medium = Medium::Ethernet;
        capabilities.max_transmission_unit = 1514;
        capabilities
    }
}

impl TxToken for Room {
    fn consume<R, F: FnOnce(&mut [u8]) -> R>(self, len: usize, f: F) -> R {
        let mut frame = vec![0; len];
        let result = f(&mut frame);
        self.0.borrow_mut().push_back(frame);
        result
    }
}

/// Two hosts, and what went over the cable between them.
struct Lan {
    now: Instant,
    hosts: [Host; 2],
    cables: [Cable; 2],
    /// Frames with requests and answers of ARP, and of NDP.
    arp: usize,
    ndp: usize,
    listener: ListenerHandle,
    apps: [App; 2],
}

impl Lan {
    /// The first host connects to the second, over a cable that holds `most` frames.
    fn new(v6: bool, most: usize, bytes: u64) -> Self {
        let (there, back) = (Frames::default(), Frames::default());
        let cable = |incoming: &Frames, outgoing: &Frames| Cable {
            incoming: incoming.clone(),
            outgoing: outgoing.clone(),
            most,
        };
        let mut cables = [cable(&back, &there), cable(&there, &back)];
        let mut hosts = [0, 1].map(|i| {
            let interface = interface(i as u16 + 1, &mut cables[i]);
            Host::new(Endpoint::new([i as u8; 16], 16), interface, &cables[i])
        });
        let (local, remote) =
            (SocketAddr::new(address(v6, 1), 0), SocketAddr::new(address(v6, 2), 80));
        let now = Instant::default() + MS;
        let config = Config::default();
        let listener = hosts[1].endpoint().listen(remote, 4, &config).expect("nobody listens");
        let handle = hosts[0].endpoint().connect(now, local, remote, &config);
        let mut apps = [App::writer(0, bytes), App::writer(1, bytes)];
        apps[0].handle = Some(handle.expect("a connection"));
        Self { now, hosts, cables, arp: 0, ndp: 0, listener, apps }
    }

    fn step(&mut self) {
        let mut chunk = vec![0; 16_384];
        for i in 0..2 {
            let (host, cable) = (&mut self.hosts[i], &mut self.cables[i]);
            host.poll(self.now, cable);
            self.apps[i].act(i, self.now, host.endpoint(), self.listener, &mut chunk);
            host.poll(self.now, cable);
            for frame in cable.outgoing.borrow().iter() {
                let frame = EthernetFrame::new_checked(&frame[..]).expect("a frame");
                self.arp += usize::from(frame.ethertype() == EthernetProtocol::Arp);
                let is_ndp = frame.ethertype() == EthernetProtocol::Ipv6
                    && Ipv6Packet::new_checked(frame.payload())
                        .is_ok_and(|ip| matches!(ip.payload().first(), Some(135 | 136)));
                self.ndp += usize::from(is_ndp);
            }
        }
    }

    /// To the next event, when no frame is on the cable.
    fn advance(&mut self) {
        let is_quiet = self.cables.iter().all(|cable| cable.outgoing.borrow().is_empty());
        let times = self.hosts.iter_mut().filter_map(|host| host.poll_at(self.now));
        let next = times.min().unwrap_or(self.now + MS);
        if is_quiet {
            self.now = next.max(self.now + Duration::from_micros(1));
        }
    }

    fn run(&mut self) {
        let end = self.now + Duration::from_secs(100);
        loop {
            self.step();
            if self.apps.iter().all(App::is_done) {
                break;
            }
            self.advance();
            assert!(self.now < end, "it takes too long: {:?}", self.apps);
        }
        assert_eq!(self.apps.map(|app| app.error), [None; 2]);
        assert_eq!(self.apps[0].read, self.apps[1].to_write);
        assert_eq!(self.apps[1].read, self.apps[0].to_write);
    }
}

#[test]
fn neighbours_are_found_by_arp_and_by_ndp() {
    for v6 in [false, true] {
        let mut lan = Lan::new(v6, 1000, 500_000);
        lan.run();
        assert_eq!((lan.arp > 0, lan.ndp > 0), (!v6, v6));
    }
}

/// A device that has room for two frames loses none: the packets wait in the endpoint.
#[test]
fn a_device_without_room_is_waited_for() {
    let mut lan = Lan::new(false, 2, 500_000);
    lan.run();
    let handle = lan.apps[0].handle.expect("open");
    let info = lan.hosts[0].endpoint().connection(handle).map(|c| c.info());
    assert_eq!(info.map(|info| info.total_retrans), Some(0));
}

/// Connections to hosts that are not there do not hold up the others, however many there are.
#[test]
fn neighbours_that_are_missing_keep_nobody_waiting() {
    let mut lan = Lan::new(false, 1000, 1000);
    lan.run();
    let config = Config { user_timeout: Duration::from_secs(20), ..Config::default() };
    let local = SocketAddr::new(address(false, 1), 0);
    let connect = |lan: &mut Lan, end| {
        let remote = SocketAddr::new(address(false, end), 80);
        let handle = lan.hosts[0].endpoint().connect(lan.now, local, remote, &config);
        lan.step();
        handle.expect("room")
    };
    let missing: Vec<_> = (100..112).map(|end| connect(&mut lan, end)).collect();
    let handle = connect(&mut lan, 2);
    let begun = lan.now;
    while lan.now.since(begun) < MS.times(100) {
        lan.step();
        lan.advance();
    }
    let state = lan.hosts[0].endpoint().connection(handle).map(|c| c.state());
    assert_eq!(state, Some(State::Established));
    while lan.now.since(begun) < Duration::from_secs(60) {
        lan.step();
        lan.advance();
    }
    for handle in missing {
        let read = lan.hosts[0].endpoint().read(handle, &mut [0; 1]);
        assert_eq!(read, Err(Error::TimedOut));
    }
}

/// A frame that comes to this host's hardware for the address of another host gets no answer.
#[test]
fn packets_for_other_hosts_are_passed_by() {
    let mut lan = Lan::new(false, 1000, 1000);
    lan.run();
    let elsewhere = SocketAddr::new(address(false, 7), 80);
    let from = SocketAddr::new(address(false, 1), 5000);
    let mut packet = Vec::new();
    let syn = fullpipe_tcp::wire::Header {
        control: fullpipe_tcp::wire::Control::Syn,
        ..Default::default()
    };
    for (to, answers) in [(elsewhere, false), (SocketAddr::new(address(false, 2), 9), true)] {
        fullpipe_tcp::wire::write(&mut packet, from, to, &syn, [&[], &[]]);
        let mut frame = vec![0; 14];
        frame.extend(&packet);
        let mut ethernet = EthernetFrame::new_unchecked(&mut frame);
        ethernet.set_dst_addr(hardware(2));
        ethernet.set_src_addr(hardware(1));
        ethernet.set_ethertype(EthernetProtocol::Ipv4);
        lan.cables[0].outgoing.borrow_mut().push_back(frame);
        let cable = &mut lan.cables[1];
        cable.outgoing.borrow_mut().clear();
        lan.hosts[1].poll(lan.now, cable);
        assert_eq!(!cable.outgoing.borrow().is_empty(), answers, "{to}");
    }
}
