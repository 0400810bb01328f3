//! The headers in front of a TCP segment or a UDP datagram: those of links, tags and tunnels.

use std::collections::BTreeMap;
use std::fmt;
use std::net::IpAddr;

use etherparse::err::ip::LaxHeaderSliceError as HeaderSliceError;
use etherparse::{IpNumber, LaxIpSlice};
use pcap_file::DataLink;

use super::marks::CE;

/// An IP packet with TCP or UDP, behind all headers of links and tunnels.
#[derive(Clone, Copy, Debug)]
pub(super) struct Inner<'a> {
    pub(super) from: IpAddr,
    pub(super) to: IpAddr,
    /// The bits of ECN. A mark on a tunnel's header is one of the packet inside (RFC 6040).
    pub(super) ecn: u8,
    /// TTL, or the hop limit.
    pub(super) hops: u8,
    /// IPv4's identification; nothing where its sender does not use it.
    pub(super) id: Option<u16>,
    pub(super) is_udp: bool,
    /// The segment or datagram as far as it was captured.
    pub(super) bytes: &'a [u8],
    /// Its length on the wire.
    pub(super) length: u32,
}

/// The reason why a packet has no segment and no datagram that is read.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Closed {
    LinkType(u32),
    EtherType(u16),
    Ppp(u16),
    IpProtocol(u8),
    /// One of Wi-Fi that is encrypted, or has no data.
    WiFi,
    /// A fragment that is not the first one.
    Fragment,
    /// Captured up to a place inside its headers.
    Cut,
    /// With headers that no host writes.
    Damaged,
    /// Too many headers, one inside the other.
    Deep,
}

impl fmt::Display for Closed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let named = |f: &mut fmt::Formatter<'_>, name: &str| match name {
            "" => Ok(()),
            name => write!(f, " ({name})"),
        };
        match *self {
            Self::LinkType(n) => {
                write!(f, "of link type {n}")?;
                let name = format!("{:?}", DataLink::from(n));
                named(f, if name.contains('(') { "" } else { &name })
            }
            Self::EtherType(n) => {
                write!(f, "of EtherType 0x{n:04x}")?;
                named(f, ethertype_name(n))
            }
            Self::Ppp(n) => write!(f, "of PPP's protocol 0x{n:04x}"),
            Self::IpProtocol(n) => {
                write!(f, "of IP protocol {n}")?;
                named(f, protocol_name(n))
            }
            Self::WiFi => write!(f, "of Wi-Fi that are encrypted or without data"),
            Self::Fragment => write!(f, "that are later fragments"),
            Self::Cut => write!(f, "that are cut inside their headers"),
            Self::Damaged => write!(f, "with damaged headers"),
            Self::Deep => write!(f, "of more than {MOST_HEADERS} headers"),
        }
    }
}

fn ethertype_name(n: u16) -> &'static str {
    match n {
        0x0806 => "ARP",
        0x888E => "802.1X",
        0x88CC => "LLDP",
        0x88E5 => "MACsec",
        _ => "",
    }
}

fn protocol_name(n: u8) -> &'static str {
    match n {
        1 => "ICMP",
        2 => "IGMP",
        50 => "ESP",
        58 => "ICMPv6",
        132 => "SCTP",
        _ => "",
    }
}

/// The packets of a file that are not read, by their reasons.
#[derive(Clone, Default, Debug)]
pub(super) struct ClosedCounts(BTreeMap<Closed, u64>);

/// The most reasons that are told apart: a damaged file may have any number.
const MOST_REASONS: usize = 1000;

impl ClosedCounts {
    pub(super) fn add(&mut self, why: Closed) {
        if self.0.len() < MOST_REASONS || self.0.contains_key(&why) {
            *self.0.entry(why).or_default() += 1;
        }
    }

    /// The reasons that most packets have.
    pub(super) fn most(&self) -> String {
        let mut all: Vec<(Closed, u64)> = self.0.iter().map(|(why, n)| (*why, *n)).collect();
        all.sort_by_key(|(_, n)| std::cmp::Reverse(*n));
        let words: Vec<String> = all.iter().take(4).map(|(why, n)| counted(*why, *n)).collect();
        words.join(", ")
    }

    /// True if packets are cut.
    pub(super) fn has_cut(&self) -> bool {
        self.0.contains_key(&Closed::Cut)
    }

    /// Remarks on a file that has others as well: ARP and the like are in most files.
    pub(super) fn remarks(&self) -> Vec<String> {
        let worth = |why: &Closed| matches!(why, Closed::LinkType(_) | Closed::Cut);
        let some = self.0.iter().filter(|(why, _)| worth(why)).take(4);
        some.map(|(why, n)| format!("{}, which fullpipe does not open", counted(*why, *n)))
            .collect()
    }
}

fn counted(why: Closed, n: u64) -> String {
    format!("{n} packet{} {why}", if n == 1 { "" } else { "s" })
}

/// The most headers, one inside the other.
const MOST_HEADERS: u32 = 24;

/// The header that is next.
#[derive(Clone, Copy, Debug)]
enum Next {
    /// That of a link type, by its number in the registry of tcpdump.org.
    Link(u32),
    EtherType(u16),
    Ppp,
    Ip,
}

const ETHERNET: Next = Next::Link(1);

/// The rest of a packet, and its length on the wire.
#[derive(Clone, Copy, Debug)]
struct Rest<'a> {
    bytes: &'a [u8],
    length: u32,
}

impl<'a> Rest<'a> {
    fn skip(self, n: usize) -> Result<Self, Closed> {
        let bytes = self.bytes.get(n..).ok_or(Closed::Cut)?;
        Ok(Self { bytes, length: self.length.saturating_sub(n as u32) })
    }

    fn array<const N: usize>(self, at: usize) -> Result<[u8; N], Closed> {
        self.bytes.get(at..).and_then(|b| b.first_chunk()).copied().ok_or(Closed::Cut)
    }

    fn u8(self, at: usize) -> Result<u8, Closed> {
        Ok(self.array::<1>(at)?[0])
    }

    fn u16(self, at: usize) -> Result<u16, Closed> {
        self.array(at).map(u16::from_be_bytes)
    }

    /// A header of so many bytes with its EtherType in the last two.
    fn typed(self, header: usize) -> Result<(Next, Self), Closed> {
        Ok((Next::EtherType(self.u16(header - 2)?), self.skip(header)?))
    }
}

/// The segment or datagram of a captured packet of a link type, and its length on the wire.
pub(super) fn open(link: u32, bytes: &[u8], length: u32) -> Result<Inner<'_>, Closed> {
    open_next(Next::Link(link), Rest { bytes, length }, 0)
}

fn open_next<'a>(next: Next, rest: Rest<'a>, depth: u32) -> Result<Inner<'a>, Closed> {
    if depth >= MOST_HEADERS {
        return Err(Closed::Deep);
    }
    let (next, rest) = match next {
        Next::Link(link) => of_link(link, rest)?,
        Next::EtherType(kind) => of_ethertype(kind, rest)?,
        Next::Ppp => of_ppp(rest)?,
        Next::Ip => return of_ip(rest, depth),
    };
    open_next(next, rest, depth + 1)
}

/// The header of a link. Those of link types that begin with IP have none.
fn of_link(link: u32, rest: Rest<'_>) -> Result<(Next, Rest<'_>), Closed> {
    let little = |at: usize| rest.array(at).map(u32::from_le_bytes);
    match link {
        // Ethernet, HDLC as Cisco has it, and Linux's "cooked" headers, of `-i any`.
        1 => rest.typed(14),
        104 => rest.typed(4),
        113 => rest.typed(16),
        276 => Ok((Next::EtherType(rest.u16(0)?), rest.skip(20)?)),
        12 | 14 | 101 | 228 | 229 => Ok((Next::Ip, rest)),
        // Four bytes of an address family; OpenBSD's of IPsec and of pf, the latter with a length.
        0 | 108 => Ok((Next::Ip, rest.skip(4)?)),
        109 => Ok((Next::Ip, rest.skip(12)?)),
        117 => Ok((Next::Ip, rest.skip(usize::from(rest.u8(0)?).next_multiple_of(4))?)),
        9 | 50 => Ok((Next::Ppp, rest)),
        // With the direction before it.
        204 => Ok((Next::Ppp, rest.skip(1)?)),
        51 => Ok((Next::EtherType(PPPOE), rest)),
        // Apple's, and that of radio: a length, and the link type of what is inside.
        258 => Ok((Next::Link(little(8)?), rest.skip(little(0)?.max(12) as usize)?)),
        192 => Ok((Next::Link(little(4)?), rest.skip((little(0)? >> 16).max(8) as usize)?)),
        105 => of_wifi(rest),
        127 => Ok((Next::Link(105), rest.skip((little(0)? >> 16).max(8) as usize)?)),
        239 => of_nflog(rest),
        _ => Err(Closed::LinkType(link)),
    }
}

/// Data of Wi-Fi (IEEE 802.11), with its LLC header.
fn of_wifi(rest: Rest<'_>) -> Result<(Next, Rest<'_>), Closed> {
    let [kind, flags] = rest.array(0)?;
    let (is_data, is_empty, has_qos) = (kind & 0x0C == 0x08, kind & 0x40 != 0, kind & 0x80 != 0);
    if !is_data || is_empty || flags & 0x40 != 0 {
        return Err(Closed::WiFi);
    }
    let fourth_address = if flags & 3 == 3 { 6 } else { 0 };
    let qos = match (has_qos, flags & 0x80 != 0) {
        (true, true) => 6,
        (true, false) => 2,
        _ => 0,
    };
    of_llc(rest.skip(24 + fourth_address + qos)?)
}

/// LLC and SNAP, with an EtherType.
fn of_llc(rest: Rest<'_>) -> Result<(Next, Rest<'_>), Closed> {
    match rest.array::<6>(0)? {
        [0xAA, 0xAA, 3, 0, 0, 0] => rest.typed(8),
        [dsap, ssap, ..] => Err(Closed::EtherType(u16::from_be_bytes([dsap, ssap]))),
    }
}

/// The packet among the values of Linux's NFLOG, whose numbers are in the order of its host.
fn of_nflog(rest: Rest<'_>) -> Result<(Next, Rest<'_>), Closed> {
    let mut rest = rest.skip(4)?;
    loop {
        let length = usize::from(u16::from_le_bytes(rest.array(0)?));
        if length < 4 {
            return Err(Closed::Cut);
        }
        if rest.array(2)? == [9, 0] {
            return Ok((Next::Ip, rest.skip(4)?));
        }
        rest = rest.skip(length.next_multiple_of(4))?;
    }
}

const PPPOE: u16 = 0x8864;

/// What follows an EtherType.
fn of_ethertype(kind: u16, rest: Rest<'_>) -> Result<(Next, Rest<'_>), Closed> {
    match kind {
        0x0800 | 0x86DD => Ok((Next::Ip, rest)),
        // Tags of VLANs, one behind the other.
        0x8100 | 0x88A8 | 0x9100 | 0x9200 => rest.typed(4),
        PPPOE => Ok((Next::Ppp, rest.skip(6)?)),
        0x8847 | 0x8848 => of_mpls(rest),
        // Ethernet in a tunnel; with the headers of mirrored ports (ERSPAN).
        0x6558 => Ok((ETHERNET, rest)),
        0x88BE => Ok((ETHERNET, rest.skip(8)?)),
        0x22EB => Ok((ETHERNET, rest.skip(if rest.u8(11)? & 1 == 1 { 20 } else { 12 })?)),
        // A length in place of a type.
        0..=1500 => of_llc(rest),
        _ => Err(Closed::EtherType(kind)),
    }
}

/// Labels of MPLS (RFC 3032), and what the first bits behind them say.
fn of_mpls(mut rest: Rest<'_>) -> Result<(Next, Rest<'_>), Closed> {
    while rest.u8(2)? & 1 == 0 {
        rest = rest.skip(4)?;
    }
    rest = rest.skip(4)?;
    match rest.u8(0)? >> 4 {
        4 | 6 => Ok((Next::Ip, rest)),
        // A pseudowire's control word (RFC 4385).
        0 => Ok((ETHERNET, rest.skip(4)?)),
        _ => Ok((ETHERNET, rest)),
    }
}

/// PPP (RFC 1661), whose address and control fields and first byte of zero may be left out.
fn of_ppp(rest: Rest<'_>) -> Result<(Next, Rest<'_>), Closed> {
    let rest = if rest.bytes.starts_with(&[0xFF, 3]) { rest.skip(2)? } else { rest };
    let first = rest.u8(0)?;
    let (protocol, rest) = match first & 1 {
        1 => (u16::from(first), rest.skip(1)?),
        _ => (rest.u16(0)?, rest.skip(2)?),
    };
    match protocol {
        0x21 | 0x57 => Ok((Next::Ip, rest)),
        0x281 | 0x283 => of_mpls(rest),
        _ => Err(Closed::Ppp(protocol)),
    }
}

/// The longest packet whose header has no length: a host may hold that much in one before it is
/// divided.
const MOST_UNDIVIDED: u32 = 1 << 20;

/// An IP packet, and what is in it.
fn of_ip(rest: Rest<'_>, depth: u32) -> Result<Inner<'_>, Closed> {
    let (packet, _) = LaxIpSlice::from_slice(rest.bytes).map_err(|error| match error {
        HeaderSliceError::Len(_) => Closed::Cut,
        HeaderSliceError::Content(_) => Closed::Damaged,
    })?;
    // A segment before it is divided may be too long for the field, which is 0.
    let undivided = rest.length.min(MOST_UNDIVIDED);
    let told = |length: u16, header: u32| match length {
        0 => undivided,
        n => header + u32::from(n),
    };
    let (ecn, hops, id, length) = match &packet {
        LaxIpSlice::Ipv4(v4) => {
            let header = v4.header();
            if header.fragments_offset().value() != 0 {
                return Err(Closed::Fragment);
            }
            let id = Some(header.identification()).filter(|id| *id != 0);
            (header.ecn().value(), header.ttl(), id, told(header.total_len(), 0))
        }
        LaxIpSlice::Ipv6(v6) if v6.is_payload_fragmented() => return Err(Closed::Fragment),
        LaxIpSlice::Ipv6(v6) => {
            let header = v6.header();
            (header.ecn().value(), header.hop_limit(), None, told(header.payload_length(), 40))
        }
    };
    let (from, to, body) = (packet.source_addr(), packet.destination_addr(), packet.payload());
    // Extension headers lie between the two.
    let headers = body.payload.as_ptr() as usize - rest.bytes.as_ptr() as usize;
    let length = length.checked_sub(headers as u32).ok_or(Closed::Damaged)?;
    let rest = Rest { bytes: body.payload, length };
    let inside = |next: Next, rest| {
        let mut inner = open_next(next, rest, depth + 1)?;
        if ecn == CE && inner.ecn != 0 {
            inner.ecn = CE;
        }
        Ok(inner)
    };
    let is_udp = match body.ip_number {
        IpNumber::TCP => false,
        IpNumber::UDP => true,
        IpNumber::IPV4 | IpNumber::IPV6 => return inside(Next::Ip, rest),
        IpNumber::GRE => {
            let (next, rest) = of_gre(rest)?;
            return inside(next, rest);
        }
        IpNumber::MPLS_IN_IP => {
            let (next, rest) = of_mpls(rest)?;
            return inside(next, rest);
        }
        IpNumber(other) => return Err(Closed::IpProtocol(other)),
    };
    // A port says little: what does not open as a tunnel is a flow of its own.
    if is_udp
        && let Ok((next, rest)) = of_udp_tunnel(rest)
        && let Ok(inner) = inside(next, rest)
    {
        return Ok(inner);
    }
    Ok(Inner { from, to, ecn, hops, id, is_udp, bytes: rest.bytes, length })
}

/// GRE (RFC 2784, 2890), and the version 1 of PPTP (RFC 2637).
fn of_gre(rest: Rest<'_>) -> Result<(Next, Rest<'_>), Closed> {
    let (flags, kind) = (rest.u16(0)?, rest.u16(2)?);
    let field = |bit: u16| if flags & bit != 0 { 4 } else { 0 };
    match (flags & 7, kind) {
        // ERSPAN of the first kind has no header of its own.
        (0, 0x88BE) if flags & 0x1000 == 0 => Ok((ETHERNET, rest.skip(4)?)),
        (0, _) => {
            let checksum = field(0x8000).max(field(0x4000));
            let rest = rest.skip(4 + checksum + field(0x2000) + field(0x1000))?;
            Ok((Next::EtherType(kind), rest))
        }
        (1, 0x880B) => Ok((Next::Ppp, rest.skip(8 + field(0x1000) + field(0x0080))?)),
        _ => Err(Closed::IpProtocol(IpNumber::GRE.0)),
    }
}

/// A tunnel over UDP, by the port that it is sent to: VXLAN (RFC 7348) on the registered port and on
/// that of older Linux, which may have flags of a group's policy; Geneve (RFC 8926) and GTP-U (3GPP
/// TS 29.281).
fn of_udp_tunnel(rest: Rest<'_>) -> Result<(Next, Rest<'_>), Closed> {
    let (port, body) = (rest.u16(2)?, rest.skip(8)?);
    match port {
        4789 | 8472 if body.u8(0)? & 0x08 != 0 => Ok((ETHERNET, body.skip(8)?)),
        6081 if body.u8(0)? >> 6 == 0 => {
            let options = usize::from(body.u8(0)? & 0x3F) * 4;
            Ok((Next::EtherType(body.u16(2)?), body.skip(8 + options)?))
        }
        // Version 1, and data of a user.
        2152 if body.u8(0)? >> 4 == 3 && body.u8(1)? == 0xFF => {
            let mut inner = body.skip(8)?;
            let flags = body.u8(0)? & 7;
            if flags != 0 {
                // A number, and the type of the header behind this one, each if its flag is set.
                let mut kind = if flags & 4 != 0 { inner.u8(3)? } else { 0 };
                inner = inner.skip(4)?;
                while kind != 0 {
                    let length = usize::from(inner.u8(0)?) * 4;
                    kind = inner.u8(length.checked_sub(1).ok_or(Closed::Damaged)?)?;
                    inner = inner.skip(length)?;
                }
            }
            Ok((Next::Ip, inner))
        }
        _ => Err(Closed::IpProtocol(IpNumber::UDP.0)),
    }
}
