//! The few requests to the kernel that a link between namespaces takes (rtnetlink(7)).

use std::io::{self, ErrorKind};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::fd::{AsRawFd, BorrowedFd};
use std::time::{Duration, Instant};

use fullpipe_path::Count;
use netlink_packet_core::{
    DefaultNla, NLM_F_ACK, NLM_F_CREATE, NLM_F_DUMP, NLM_F_EXCL, NLM_F_REQUEST, NetlinkMessage,
    NetlinkPayload,
};
pub(crate) use netlink_packet_route::AddressFamily;
use netlink_packet_route::RouteNetlinkMessage;
use netlink_packet_route::address::{AddressAttribute, AddressHeaderFlags, AddressMessage};
use netlink_packet_route::link::{
    InfoData, InfoKind, InfoVeth, LinkAttribute, LinkFlags, LinkInfo, LinkMessage, State,
};
use netlink_packet_route::neighbour::{
    NeighbourAddress, NeighbourAttribute, NeighbourMessage, NeighbourState,
};
use netlink_packet_route::route::{
    RouteAttribute, RouteHeader, RouteMessage, RouteProtocol, RouteScope, RouteType,
};
use netlink_packet_route::tc::{TcAttribute, TcHandle, TcMessage, TcStats2};
use netlink_sys::protocols::NETLINK_ROUTE;
use netlink_sys::{Socket, SocketAddr};
use nix::net::if_::if_nametoindex;

use crate::namespace::{DEVICE, PREFIX_BITS};

/// The Ethernet header, which the kernel counts as part of a packet and a path does not.
pub(crate) const ETHERNET_HEADER_BYTES: u32 = 14;

/// A namespace's loopback device is its first.
const LOOPBACK: u32 = 1;

/// `TCA_OPTIONS`: many qdiscs' begin with a struct, which the library's own attribute cannot.
const TCA_OPTIONS: u16 = 2;

/// A request that makes something new.
const MAKE: u16 = NLM_F_ACK | NLM_F_CREATE | NLM_F_EXCL;

/// Longest time for devices to come up, and the interval at which they are asked.
const LINK_TIME: Duration = Duration::from_secs(5);
const LINK_NAP: Duration = Duration::from_millis(1);

type Mac = [u8; 6];

/// A conversation with the kernel about the namespace in which it was opened.
#[derive(Debug)]
pub(crate) struct Netlink(Socket);

/// One of a pair of devices that is to be made.
#[derive(Clone, Copy)]
pub(crate) struct Device<'a> {
    name: &'a str,
    mac: Mac,
    /// The namespace that it is made in; `None` for the current one.
    namespace: Option<BorrowedFd<'a>>,
}

/// Counters of a qdisc, without Ethernet headers.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Stats {
    pub(crate) carried: Count,
    pub(crate) waiting: Count,
    pub(crate) dropped_packets: u64,
}

impl Netlink {
    /// About the calling thread's namespace.
    pub(crate) fn open() -> io::Result<Self> {
        let mut socket = Socket::new(NETLINK_ROUTE)?;
        socket.bind_auto()?;
        socket.connect(&SocketAddr::new(0, 0))?;
        Ok(Self(socket))
    }

    /// Asks, and returns what the kernel sends until its last word.
    fn ask(&self, what: RouteNetlinkMessage, flags: u16) -> io::Result<Vec<RouteNetlinkMessage>> {
        let mut request = NetlinkMessage::from(what);
        request.header.flags = NLM_F_REQUEST | flags;
        request.finalize();
        let mut bytes = vec![0; request.buffer_len()];
        request.serialize(&mut bytes);
        self.0.send(&bytes, 0)?;
        let mut answers = Vec::new();
        loop {
            let (datagram, _) = self.0.recv_from_full()?;
            let mut rest = &datagram[..];
            while !rest.is_empty() {
                let answer = NetlinkMessage::deserialize(rest)
                    .map_err(|e| io::Error::new(ErrorKind::InvalidData, e.to_string()))?;
                match answer.payload {
                    NetlinkPayload::Error(e) if e.code.is_some() => return Err(e.to_io()),
                    NetlinkPayload::Error(_) | NetlinkPayload::Done(_) => return Ok(answers),
                    NetlinkPayload::InnerMessage(message) => answers.push(message),
                    _ => {}
                }
                let length = (answer.header.length as usize).next_multiple_of(4);
                rest = rest.get(length..).unwrap_or_default();
            }
        }
    }

    /// Turns the loopback device on.
    pub(crate) fn enable_loopback(&self) -> io::Result<()> {
        let mut link = LinkMessage::default();
        link.header.index = LOOPBACK;
        link.header.flags = LinkFlags::Up;
        link.header.change_mask = LinkFlags::Up;
        self.ask(RouteNetlinkMessage::SetLink(link), NLM_F_ACK).map(drop)
    }

    /// Sends what is for no other network to a device, which has no link-layer addresses.
    pub(crate) fn add_default_route(&self, device: &str, family: AddressFamily) -> io::Result<()> {
        let mut route = RouteMessage::default();
        route.header.address_family = family;
        route.header.table = RouteHeader::RT_TABLE_MAIN;
        route.header.protocol = RouteProtocol::Static;
        route.header.scope = RouteScope::Link;
        route.header.kind = RouteType::Unicast;
        route.attributes = vec![RouteAttribute::Oif(if_nametoindex(device)?)];
        self.ask(RouteNetlinkMessage::NewRoute(route), MAKE).map(drop)
    }

    /// Gives a device an address of IPv6, which it has at once: nobody else could have it.
    pub(crate) fn add_address6(&self, device: &str, own: Ipv6Addr, bits: u8) -> io::Result<()> {
        let mut address = AddressMessage::default();
        address.header.family = AddressFamily::Inet6;
        address.header.prefix_len = bits;
        address.header.index = if_nametoindex(device)?;
        address.header.flags = AddressHeaderFlags::Nodad;
        address.attributes =
            vec![AddressAttribute::Local(own.into()), AddressAttribute::Address(own.into())];
        self.ask(RouteNetlinkMessage::NewAddress(address), MAKE).map(drop)
    }

    /// Sets the capacity of a device's own queue, and the largest number of segments that a packet
    /// in it stands for. The older way to say it is root's alone.
    pub(crate) fn set_queue(&self, device: &str, packets: u32, segments: u32) -> io::Result<()> {
        let mut link = LinkMessage::default();
        link.header.index = if_nametoindex(device)?;
        link.attributes =
            vec![LinkAttribute::TxQueueLen(packets), LinkAttribute::GsoMaxSegs(segments)];
        self.ask(RouteNetlinkMessage::SetLink(link), NLM_F_ACK).map(drop)
    }

    /// Makes a pair of devices.
    pub(crate) fn add_veth(&self, here: Device<'_>, there: Device<'_>) -> io::Result<()> {
        let (mut pair, peer) = (here.message(), there.message());
        pair.attributes.push(LinkAttribute::LinkInfo(vec![
            LinkInfo::Kind(InfoKind::Veth),
            LinkInfo::Data(InfoData::Veth(InfoVeth::Peer(peer))),
        ]));
        self.ask(RouteNetlinkMessage::NewLink(pair), MAKE).map(drop)
    }

    /// Gives this namespace's device its address, tells it where the other one is, and turns it on;
    /// its number.
    pub(crate) fn bring_up(&self, own: Ipv4Addr, other: (Ipv4Addr, Mac)) -> io::Result<u32> {
        let device = if_nametoindex(DEVICE)?;
        let mut address = AddressMessage::default();
        address.header.family = AddressFamily::Inet;
        address.header.prefix_len = PREFIX_BITS;
        address.header.index = device;
        address.attributes =
            vec![AddressAttribute::Local(IpAddr::V4(own)), AddressAttribute::Address(own.into())];
        self.ask(RouteNetlinkMessage::NewAddress(address), MAKE)?;

        // The queue counts packets: each is to be one, and not as many as TCP hands over at once.
        let mut link = LinkMessage::default();
        link.header.index = device;
        link.header.flags = LinkFlags::Up;
        link.header.change_mask = LinkFlags::Up;
        link.attributes.push(LinkAttribute::GsoMaxSegs(1));
        self.ask(RouteNetlinkMessage::SetLink(link), NLM_F_ACK)?;

        // Nobody has to ask for it over the link, or again in the middle of a run.
        let mut neighbour = NeighbourMessage::default();
        neighbour.header.family = AddressFamily::Inet;
        neighbour.header.ifindex = device;
        neighbour.header.state = NeighbourState::Permanent;
        neighbour.attributes = vec![
            NeighbourAttribute::Destination(NeighbourAddress::Inet(other.0)),
            NeighbourAttribute::LinkLayerAddress(other.1.to_vec()),
        ];
        self.ask(RouteNetlinkMessage::NewNeighbour(neighbour), MAKE)?;
        Ok(device)
    }

    /// Waits until the kernel has seen that both ends of a device are on: until then it drops what
    /// is sent, and says nothing.
    pub(crate) fn wait_for(&self, device: u32) -> io::Result<()> {
        let deadline = Instant::now() + LINK_TIME;
        while Instant::now() < deadline {
            let mut link = LinkMessage::default();
            link.header.index = device;
            let is_up = |answer: &RouteNetlinkMessage| {
                let RouteNetlinkMessage::NewLink(link) = answer else { return false };
                link.attributes.contains(&LinkAttribute::OperState(State::Up))
            };
            if self.ask(RouteNetlinkMessage::GetLink(link), NLM_F_ACK)?.iter().any(is_up) {
                return Ok(());
            }
            std::thread::sleep(LINK_NAP);
        }
        Err(io::Error::new(ErrorKind::TimedOut, "its devices do not come up"))
    }

    /// Puts a qdisc of a kind with its options on a device, under `parent`.
    pub(crate) fn add_qdisc(
        &self,
        device: u32,
        parent: TcHandle,
        handle: TcHandle,
        (kind, options): (&str, Vec<u8>),
    ) -> io::Result<()> {
        let mut qdisc = TcMessage::with_index(device as i32);
        qdisc.header.parent = parent;
        qdisc.header.handle = handle;
        qdisc.attributes = vec![
            TcAttribute::Kind(kind.to_owned()),
            TcAttribute::Other(DefaultNla::new(TCA_OPTIONS, options)),
        ];
        self.ask(RouteNetlinkMessage::NewQueueDiscipline(qdisc), MAKE).map(drop)
    }

    /// Counters of these qdiscs of the namespace.
    pub(crate) fn stats<const N: usize>(&self, handles: [TcHandle; N]) -> io::Result<[Stats; N]> {
        let all = RouteNetlinkMessage::GetQueueDiscipline(TcMessage::default());
        let mut found = [None; N];
        for answer in self.ask(all, NLM_F_DUMP)? {
            let RouteNetlinkMessage::NewQueueDiscipline(qdisc) = answer else { continue };
            if let Some(place) = handles.iter().position(|h| *h == qdisc.header.handle) {
                found[place] = Stats::of(&qdisc);
            }
        }
        let lacking = || io::Error::new(ErrorKind::NotFound, "one of its qdiscs is gone");
        if found.contains(&None) {
            return Err(lacking());
        }
        Ok(found.map(Option::unwrap_or_default))
    }
}

impl<'a> Device<'a> {
    /// In this namespace.
    pub(crate) fn new(name: &'a str, mac: Mac) -> Self {
        Self { name, mac, namespace: None }
    }

    pub(crate) fn in_namespace(self, namespace: BorrowedFd<'a>) -> Self {
        Self { namespace: Some(namespace), ..self }
    }

    fn message(self) -> LinkMessage {
        let mut message = LinkMessage::default();
        message.attributes.push(LinkAttribute::IfName(self.name.to_owned()));
        message.attributes.push(LinkAttribute::Address(self.mac.to_vec()));
        message.attributes.extend(self.namespace.map(|n| LinkAttribute::NetNsFd(n.as_raw_fd())));
        message
    }
}

impl Stats {
    fn of(qdisc: &TcMessage) -> Option<Self> {
        let stats = qdisc.attributes.iter().find_map(|attribute| match attribute {
            TcAttribute::Stats2(stats) => Some(stats),
            _ => None,
        })?;
        let without_ethernet = |packets: u32, bytes: u64| Count {
            packets: packets.into(),
            bytes: bytes.saturating_sub(u64::from(packets) * u64::from(ETHERNET_HEADER_BYTES)),
        };
        let mut found = Self::default();
        for stat in stats {
            match stat {
                TcStats2::Basic(basic) => {
                    found.carried = without_ethernet(basic.packets, basic.bytes);
                }
                TcStats2::Queue(queue) => {
                    found.waiting = without_ethernet(queue.qlen, queue.backlog.into());
                    found.dropped_packets = queue.drops.into();
                }
                _ => {}
            }
        }
        Some(found)
    }
}
