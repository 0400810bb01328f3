//! IP packets with a TCP segment in them, read and written by smoltcp.

mod fast_open;
mod icmp;
mod ipv6;
mod receiver_delay;
#[cfg(test)]
mod tests;

use alloc::vec::Vec;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use fullpipe_cc::Duration;
use smoltcp::phy::{Checksum, ChecksumCapabilities};
use smoltcp::wire::{
    IpAddress, IpProtocol, Ipv4Packet, Ipv4Repr, Ipv6Packet, Ipv6Repr, TcpPacket, TcpRepr,
    TcpSeqNumber, TcpTimestampRepr,
};

pub use fast_open::FastOpen;
pub use icmp::{Cause, Complaint, parse_icmp};
pub use receiver_delay::ReceiverDelay;
pub use smoltcp::wire::TcpControl as Control;

/// The hop limit of packets that leave.
const HOP_LIMIT: u8 = 64;
/// The most bytes that a TCP header with options can have (RFC 9293 section 3.1).
const LONGEST_HEADER: usize = 60;
/// The place of the options in a TCP header.
const OPTIONS: usize = 20;
/// Bytes of an IPv4 header without options.
const IPV4_HEADER: usize = 20;
/// Bytes of an IPv6 header without extensions.
const IPV6_HEADER: usize = 40;
/// Bytes of the largest packet: what the length field of an IPv4 header can say.
pub(crate) const LARGEST_PACKET: usize = 65_535;
/// The place of the checksum in a TCP header.
const CHECKSUM_OFFSET: u16 = 16;

/// The ECN field of the IP header (RFC 3168 section 5).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Ecn {
    /// The transport does not understand marks.
    #[default]
    NotEct,
    /// ECT(1).
    Ect1,
    /// ECT(0).
    Ect0,
    /// Congestion was experienced.
    Ce,
}

impl Ecn {
    const fn bits(self) -> u8 {
        self as u8
    }

    const fn from_bits(bits: u8) -> Self {
        match bits & 3 {
            0 => Self::NotEct,
            1 => Self::Ect1,
            2 => Self::Ect0,
            _ => Self::Ce,
        }
    }
}

/// A timestamps option (RFC 7323 section 3).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Timestamp {
    /// TSval: the sender's clock.
    pub value: u32,
    /// TSecr: the newest value that the sender got.
    pub echo: u32,
}

/// The header of a segment, with the ECN field of its packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Header {
    /// SEG.SEQ.
    pub seq: u32,
    /// SEG.ACK; `None` without the ACK bit.
    pub ack: Option<u32>,
    /// SYN, FIN, RST or PSH; smoltcp refuses segments that have two of the first three.
    pub control: Control,
    /// Accurate ECN (RFC 9768).
    pub ae: bool,
    /// ECN-Echo (RFC 3168).
    pub ece: bool,
    /// Congestion Window Reduced (RFC 3168).
    pub cwr: bool,
    /// SEG.WND as it is on the wire.
    pub window: u16,
    /// The maximum segment size option.
    pub mss: Option<u16>,
    /// The window scale option; at most 14 when read (RFC 7323 section 2.3).
    pub window_scale: Option<u8>,
    /// The SACK-permitted option.
    pub sack_permitted: bool,
    /// Blocks of the SACK option; a fourth block is not read.
    pub sack: [Option<(u32, u32)>; 3],
    /// The timestamps option.
    pub timestamp: Option<Timestamp>,
    /// The Fast Open option, in a SYN or SYN-ACK alone.
    pub fast_open: Option<FastOpen>,
    /// A SYN or SYN-ACK agrees to be told of the receiver's part of round trips
    /// ([`Config::receiver_delay`](crate::Config::receiver_delay)).
    pub delay_permitted: bool,
    /// The receiver's part of the round trip, in a segment without SYN.
    pub receiver_delay: Option<ReceiverDelay>,
    /// The ECN field of the IP header.
    pub ecn: Ecn,
    /// The identification of an IPv4 packet that routers may cut into fragments (RFC 6864); `None`
    /// forbids it (DF), and IPv6 always does.
    pub fragments: Option<u16>,
}

impl Default for Header {
    fn default() -> Self {
        Self {
            seq: 0,
            ack: None,
            control: Control::None,
            ae: false,
            ece: false,
            cwr: false,
            window: 0,
            mss: None,
            window_scale: None,
            sack_permitted: false,
            sack: [None; 3],
            timestamp: None,
            fast_open: None,
            delay_permitted: false,
            receiver_delay: None,
            ecn: Ecn::NotEct,
            fragments: None,
        }
    }
}

impl Header {
    /// Bytes of the TCP header with its options.
    pub fn bytes(&self) -> usize {
        let permitted = if self.delay_permitted { ReceiverDelay::PERMITTED_LEN } else { 0 };
        let delay = self.receiver_delay.map_or(0, |_| ReceiverDelay::LEN);
        let fast_open = self.fast_open.map_or(0, |option| option.len());
        self.repr(0, 0).header_len() + fast_open + permitted + delay
    }

    /// Leaves out the experimental option where there is no room for it: beside timestamps and
    /// three SACK blocks, by which losses are repaired, and beside a large cookie.
    pub(crate) fn leave_out_excess(&mut self) {
        if self.bytes() > LONGEST_HEADER {
            (self.delay_permitted, self.receiver_delay) = (false, None);
        }
    }

    /// The flags AE, CWR and ECE as a number: the ACE field of RFC 9768 section 3.2.2.
    pub fn flags(&self) -> u8 {
        u8::from(self.ae) << 2 | u8::from(self.cwr) << 1 | u8::from(self.ece)
    }

    /// Sets the flags AE, CWR and ECE.
    pub fn set_flags(&mut self, flags: u8) {
        (self.ae, self.cwr, self.ece) = (flags & 4 != 0, flags & 2 != 0, flags & 1 != 0);
    }

    fn repr(&self, from: u16, to: u16) -> TcpRepr<'static> {
        TcpRepr {
            src_port: from,
            dst_port: to,
            control: self.control,
            seq_number: TcpSeqNumber(self.seq as i32),
            ack_number: self.ack.map(|ack| TcpSeqNumber(ack as i32)),
            window_len: self.window,
            window_scale: self.window_scale,
            max_seg_size: self.mss,
            sack_permitted: self.sack_permitted,
            sack_ranges: self.sack,
            timestamp: self.timestamp.map(|t| TcpTimestampRepr::new(t.value, t.echo)),
            payload: &[],
        }
    }
}

/// A segment and the ends it belongs to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Segment<'a> {
    /// The sender.
    pub from: SocketAddr,
    /// The receiver.
    pub to: SocketAddr,
    /// The header.
    pub header: Header,
    /// The data.
    pub payload: &'a [u8],
    /// The packets that a device has merged into it; 1 of one that came as it was sent.
    pub packets: u32,
    /// The time for which it was in this host before it was read, since it arrived at the network
    /// interface; zero if nobody knows.
    pub in_host: Duration,
}

impl Segment<'_> {
    /// SEG.LEN: the data, and one each for SYN and FIN (RFC 9293 section 3.4).
    pub fn len(&self) -> u32 {
        (self.payload.len() + self.header.control.len()) as u32
    }

    /// True if the segment takes up no sequence number.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// Bytes of the IP header in front of a segment to `to`.
pub const fn ip_header_bytes(to: IpAddr) -> usize {
    match to {
        IpAddr::V4(_) => IPV4_HEADER,
        IpAddr::V6(_) => IPV6_HEADER,
    }
}

/// Marks an IP packet with CE, as a router does that has too long a queue (RFC 3168 section 5), and
/// corrects IPv4's checksum. What is no IP packet stays as it is.
pub fn set_ce(packet: &mut [u8]) {
    match packet.first().map(|first| first >> 4) {
        Some(4) => {
            let Ok(mut ip) = Ipv4Packet::new_checked(packet) else { return };
            ip.set_ecn(Ecn::Ce.bits());
            ip.fill_checksum();
        }
        // The traffic class is across the first two bytes.
        Some(6) if packet.len() >= IPV6_HEADER => packet[1] |= Ecn::Ce.bits() << 4,
        _ => {}
    }
}

/// Reads an IP packet. `None` if it is no TCP segment, is a fragment, is shorter than it says, has
/// a wrong checksum or an impossible mixture of flags, or is from or to an address that is no
/// single host's. IPv6 extension headers are passed over, unless they ask for more than that (RFC
/// 8200 section 4): then it is `None` as well.
pub fn parse(packet: &[u8]) -> Option<Segment<'_>> {
    parse_with(packet, &ChecksumCapabilities::default())
}

/// As [`parse`], of a packet whose TCP checksum is not complete because it never left this machine,
/// or was checked by a device.
pub(crate) fn parse_unchecked(packet: &[u8]) -> Option<Segment<'_>> {
    let mut checksums = ChecksumCapabilities::default();
    checksums.tcp = Checksum::None;
    parse_with(packet, &checksums)
}

fn parse_with<'p>(packet: &'p [u8], checksums: &ChecksumCapabilities) -> Option<Segment<'p>> {
    match packet.first()? >> 4 {
        4 => {
            let ip = Ipv4Packet::new_checked(packet).ok()?;
            let whole = !ip.more_frags() && ip.frag_offset() == 0;
            if !whole || ip.next_header() != IpProtocol::Tcp || !ip.verify_checksum() {
                return None;
            }
            let (from, to) = (ip.src_addr(), ip.dst_addr());
            let is_host = |a: Ipv4Addr| !a.is_broadcast() && !a.is_multicast();
            if !is_host(from) || !is_host(to) || from.is_unspecified() {
                return None;
            }
            let fragments = (!ip.dont_frag()).then(|| ip.ident());
            let ecn = Ecn::from_bits(ip.ecn());
            segment(from.into(), to.into(), ecn, fragments, ip.payload(), checksums)
        }
        6 => {
            let ip = Ipv6Packet::new_checked(packet).ok()?;
            let (from, to) = (ip.src_addr(), ip.dst_addr());
            if from.is_multicast() || to.is_multicast() || from.is_unspecified() {
                return None;
            }
            let ecn = Ecn::from_bits(ip.traffic_class());
            let tcp = ipv6::segment(ip.next_header().into(), ip.payload())?;
            segment(from.into(), to.into(), ecn, None, tcp, checksums)
        }
        _ => None,
    }
}

fn segment<'p>(
    from: IpAddr,
    to: IpAddr,
    ecn: Ecn,
    fragments: Option<u16>,
    bytes: &'p [u8],
    checksums: &ChecksumCapabilities,
) -> Option<Segment<'p>> {
    let tcp = TcpPacket::new_checked(bytes).ok()?;
    let ends = (IpAddress::from(from), IpAddress::from(to));
    let repr = TcpRepr::parse(&tcp, &ends.0, &ends.1, checksums).ok()?;
    let (delay_permitted, receiver_delay) = receiver_delay::read(&tcp);
    let header = Header {
        seq: repr.seq_number.0 as u32,
        ack: repr.ack_number.map(|ack| ack.0 as u32),
        control: repr.control,
        ae: tcp.ns(),
        ece: tcp.ece(),
        cwr: tcp.cwr(),
        window: repr.window_len,
        mss: repr.max_seg_size,
        window_scale: repr.window_scale,
        sack_permitted: repr.sack_permitted,
        sack: repr.sack_ranges,
        timestamp: repr.timestamp.map(|t| Timestamp { value: t.tsval, echo: t.tsecr }),
        fast_open: fast_open::read(&tcp),
        delay_permitted,
        receiver_delay,
        ecn,
        fragments,
    };
    Some(Segment {
        from: SocketAddr::new(from, repr.src_port),
        to: SocketAddr::new(to, repr.dst_port),
        header,
        payload: repr.payload,
        packets: 1,
        in_host: Duration::ZERO,
    })
}

/// Writes an IP packet into `out`, in place of what was in it. The payload is in two parts, as a
/// ring has it. Both ends must be of one address family, and the header with its options at most 60
/// bytes; otherwise `out` is left empty.
pub fn write(
    out: &mut Vec<u8>,
    from: SocketAddr,
    to: SocketAddr,
    header: &Header,
    payload: [&[u8]; 2],
) {
    out.clear();
    let repr = header.repr(from.port(), to.port());
    let headers = header.bytes();
    if headers > LONGEST_HEADER {
        return;
    }
    let tcp_bytes = headers + payload[0].len() + payload[1].len();
    let ip_bytes = ip_header_bytes(to.ip());
    out.resize(ip_bytes + tcp_bytes, 0);
    let (ip, tcp) = out.split_at_mut(ip_bytes);
    match (from.ip(), to.ip()) {
        (IpAddr::V4(from), IpAddr::V4(to)) => write_ipv4(ip, from, to, header, tcp_bytes),
        (IpAddr::V6(from), IpAddr::V6(to)) => write_ipv6(ip, from, to, header.ecn, tcp_bytes),
        _ => return out.clear(),
    }
    let mut packet = TcpPacket::new_unchecked(&mut *tcp);
    let (from, to) = (IpAddress::from(from.ip()), IpAddress::from(to.ip()));
    // The payload is not there yet.
    repr.emit(&mut packet, &from, &to, &ChecksumCapabilities::ignored());
    let tcp = packet.into_inner();
    let mut written = repr.header_len();
    if let Some(option) = header.fast_open {
        option.put(tcp, written);
        written += option.len();
    }
    if header.delay_permitted {
        receiver_delay::put_permitted(tcp, written);
        written += ReceiverDelay::PERMITTED_LEN;
    }
    if let Some(delay) = header.receiver_delay {
        delay.put(tcp, written);
    }
    let mut packet = TcpPacket::new_unchecked(&mut *tcp);
    packet.set_ns(header.ae);
    packet.set_ece(header.ece);
    packet.set_cwr(header.cwr);
    let (first, second) = packet.payload_mut().split_at_mut(payload[0].len());
    first.copy_from_slice(payload[0]);
    second.copy_from_slice(payload[1]);
    packet.fill_checksum(&from, &to);
}

/// Makes room for `own` bytes of options in front of the others in a TCP header that has `bytes`
/// without them, and whose buffer has room for both: the place of the new ones.
fn insert_options(tcp: &mut [u8], bytes: usize, own: usize) -> &mut [u8] {
    tcp.copy_within(OPTIONS..bytes, OPTIONS + own);
    TcpPacket::new_unchecked(&mut *tcp).set_header_len((bytes + own) as u8);
    &mut tcp[OPTIONS..OPTIONS + own]
}

/// A packet that stands for several segments.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Burst {
    pub(crate) is_ipv4: bool,
    /// Bytes of all headers.
    pub(crate) headers: u16,
    /// Bytes of data of each segment but the last, which may have fewer.
    pub(crate) segment: u16,
    /// The place from which the checksum counts, and that of the checksum behind it.
    pub(crate) checksum_start: u16,
    pub(crate) checksum_offset: u16,
    /// The packets have the flag CWR.
    pub(crate) has_cwr: bool,
}

/// True if the segments after a packet can have the flags of its header: none of them counts once.
/// With `keeps_cwr` CWR does not.
pub(crate) fn may_repeat_header(packet: &[u8], keeps_cwr: bool) -> bool {
    let tcp = tcp_start(packet).and_then(|start| packet.get(start..));
    let counts_once =
        |tcp: TcpPacket<_>| tcp.cwr() && !keeps_cwr || tcp.syn() || tcp.rst() || tcp.fin();
    tcp.and_then(|tcp| TcpPacket::new_checked(tcp).ok()).is_some_and(|tcp| !counts_once(tcp))
}

/// The place of the TCP header in a packet that [`write`] made.
fn tcp_start(packet: &[u8]) -> Option<usize> {
    match packet.first()? >> 4 {
        4 => Some(IPV4_HEADER),
        6 => Some(IPV6_HEADER),
        _ => None,
    }
}

/// Makes the header of a packet that [`write`] made, and that has got more data, one for a device
/// that cuts it into segments of `segment` bytes.
pub(crate) fn make_burst(packet: &mut [u8], segment: u16, push: bool) -> Option<Burst> {
    let start = tcp_start(packet)?;
    let tcp_bytes = packet.len().checked_sub(start)?;
    let is_ipv4 = start == IPV4_HEADER;
    let addresses = if is_ipv4 {
        let mut ip = Ipv4Packet::new_unchecked(&mut packet[..start]);
        ip.set_total_len(u16::try_from(start + tcp_bytes).ok()?);
        ip.fill_checksum();
        &packet[12..20]
    } else {
        let mut ip = Ipv6Packet::new_unchecked(&mut packet[..start]);
        ip.set_payload_len(u16::try_from(tcp_bytes).ok()?);
        &packet[8..40]
    };
    // The sum of the pseudo-header (RFC 9293 section 3.1), without the complement: the device adds
    // the rest.
    let words = addresses.chunks_exact(2).map(|word| u32::from(word[0]) << 8 | u32::from(word[1]));
    let sum = words.sum::<u32>() + u32::from(u8::from(IpProtocol::Tcp)) + tcp_bytes as u32;
    let folded = (sum & 0xffff) + (sum >> 16);
    let folded = ((folded & 0xffff) + (folded >> 16)) as u16;
    let mut header = TcpPacket::new_unchecked(&mut packet[start..]);
    header.set_psh(push);
    header.set_checksum(folded);
    let headers = start as u16 + u16::from(header.header_len());
    let (checksum_start, checksum_offset) = (start as u16, CHECKSUM_OFFSET);
    let has_cwr = header.cwr();
    Some(Burst { is_ipv4, headers, segment, checksum_start, checksum_offset, has_cwr })
}

fn write_ipv4(out: &mut [u8], from: Ipv4Addr, to: Ipv4Addr, header: &Header, payload_len: usize) {
    let next_header = IpProtocol::Tcp;
    let repr =
        Ipv4Repr { src_addr: from, dst_addr: to, next_header, payload_len, hop_limit: HOP_LIMIT };
    let mut packet = Ipv4Packet::new_unchecked(out);
    repr.emit(&mut packet, &ChecksumCapabilities::ignored());
    packet.set_ecn(header.ecn.bits());
    packet.set_dont_frag(header.fragments.is_none());
    packet.set_ident(header.fragments.unwrap_or(0));
    packet.fill_checksum();
}

fn write_ipv6(out: &mut [u8], from: Ipv6Addr, to: Ipv6Addr, ecn: Ecn, payload_len: usize) {
    let next_header = IpProtocol::Tcp;
    let repr =
        Ipv6Repr { src_addr: from, dst_addr: to, next_header, payload_len, hop_limit: HOP_LIMIT };
    let mut packet = Ipv6Packet::new_unchecked(out);
    repr.emit(&mut packet);
    packet.set_traffic_class(ecn.bits());
}
