//! ICMP messages about packets that this end sent (RFC 792, RFC 1191, RFC 4443).

use core::net::{IpAddr, SocketAddr};

use smoltcp::wire::{
    Icmpv4DstUnreachable, Icmpv4Message, Icmpv4Packet, Icmpv6DstUnreachable, Icmpv6Message,
    Icmpv6Packet, IpProtocol, Ipv4Packet, Ipv6Packet,
};

use super::{IPV4_HEADER, IPV6_HEADER};
use crate::config::Error;

/// A message about a TCP packet, which is quoted in it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Complaint {
    /// The sender of the packet.
    pub from: SocketAddr,
    /// Its receiver.
    pub to: SocketAddr,
    /// SEG.SEQ.
    pub seq: u32,
    /// The reason why it did not arrive.
    pub cause: Cause,
}

/// The reason of a [`Complaint`], by the classes of RFC 9293 section 3.9.2.2.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Cause {
    /// The packet was larger than the next link carries; the bytes of the largest IP packet that is
    /// passed on.
    TooBig(u32),
    /// A soft error: it may pass.
    Soft(Error),
    /// A hard error: there is nothing to connect to, or a filter forbids it.
    Hard(Error),
}

/// Reads an ICMP message about a TCP packet. `None` if the packet is anything else, or damaged.
pub fn parse_icmp(packet: &[u8]) -> Option<Complaint> {
    let (cause, from, to, tcp) = match packet.first()? >> 4 {
        4 => parse_v4(packet)?,
        6 => parse_v6(packet)?,
        _ => return None,
    };
    let number = |at: usize| Some(u16::from_be_bytes(tcp.get(at..at + 2)?.try_into().ok()?));
    Some(Complaint {
        from: SocketAddr::new(from, number(0)?),
        to: SocketAddr::new(to, number(2)?),
        seq: u32::from(number(4)?) << 16 | u32::from(number(6)?),
        cause,
    })
}

/// The cause, the ends, and the start of the quoted TCP header: eight bytes at least (RFC 792).
type Parts<'a> = (Cause, IpAddr, IpAddr, &'a [u8]);

fn parse_v4(packet: &[u8]) -> Option<Parts<'_>> {
    let ip = Ipv4Packet::new_checked(packet).ok()?;
    if ip.next_header() != IpProtocol::Icmp || !ip.verify_checksum() {
        return None;
    }
    let icmp = Icmpv4Packet::new_checked(ip.payload()).ok()?;
    if !icmp.verify_checksum() {
        return None;
    }
    let mtu = u16::from_be_bytes(ip.payload().get(6..8)?.try_into().ok()?);
    let cause = cause_v4(icmp.msg_type(), icmp.msg_code(), mtu)?;
    // smoltcp wants the whole quoted packet to be there.
    let quoted = ip.payload().get(8..)?;
    let old = Ipv4Packet::new_unchecked(quoted);
    if quoted.len() < IPV4_HEADER || old.next_header() != IpProtocol::Tcp {
        return None;
    }
    let tcp = quoted.get(usize::from(old.header_len())..)?;
    Some((cause, old.src_addr().into(), old.dst_addr().into(), tcp))
}

fn parse_v6(packet: &[u8]) -> Option<Parts<'_>> {
    let ip = Ipv6Packet::new_checked(packet).ok()?;
    if ip.next_header() != IpProtocol::Icmpv6 {
        return None;
    }
    let icmp = Icmpv6Packet::new_checked(ip.payload()).ok()?;
    if !icmp.verify_checksum(&ip.src_addr(), &ip.dst_addr()) {
        return None;
    }
    let mtu = u32::from_be_bytes(ip.payload().get(4..8)?.try_into().ok()?);
    let cause = cause_v6(icmp.msg_type(), icmp.msg_code(), mtu)?;
    // This end sends no extension headers.
    let quoted = ip.payload().get(8..)?;
    let old = Ipv6Packet::new_unchecked(quoted);
    if quoted.len() < IPV6_HEADER || old.next_header() != IpProtocol::Tcp {
        return None;
    }
    Some((cause, old.src_addr().into(), old.dst_addr().into(), quoted.get(IPV6_HEADER..)?))
}

/// RFC 9293 section 3.9.2.2. Codes for filters (RFC 1812 section 5.2.7.1) are hard, as the same one
/// of ICMPv6 is.
fn cause_v4(message: Icmpv4Message, code: u8, mtu: u16) -> Option<Cause> {
    use Icmpv4DstUnreachable as Code;
    match message {
        Icmpv4Message::DstUnreachable => Some(match Code::from(code) {
            Code::FragRequired => Cause::TooBig(mtu.into()),
            Code::ProtoUnreachable | Code::PortUnreachable => Cause::Hard(Error::Refused),
            Code::NetProhibited => Cause::Hard(Error::NetworkUnreachable),
            Code::HostProhibited | Code::CommProhibited => Cause::Hard(Error::HostUnreachable),
            Code::NetUnreachable | Code::DstNetUnknown | Code::NetUnreachToS => {
                Cause::Soft(Error::NetworkUnreachable)
            }
            _ => Cause::Soft(Error::HostUnreachable),
        }),
        Icmpv4Message::TimeExceeded | Icmpv4Message::ParamProblem => {
            Some(Cause::Soft(Error::HostUnreachable))
        }
        // A source quench is ignored (RFC 6633).
        _ => None,
    }
}

/// The same for ICMPv6.
fn cause_v6(message: Icmpv6Message, code: u8, mtu: u32) -> Option<Cause> {
    use Icmpv6DstUnreachable as Code;
    match message {
        Icmpv6Message::PktTooBig => Some(Cause::TooBig(mtu)),
        Icmpv6Message::DstUnreachable => Some(match Code::from(code) {
            Code::PortUnreachable => Cause::Hard(Error::Refused),
            // The latter two are kinds of the first (RFC 4443 section 3.1).
            Code::AdminProhibit | Code::FailedPolicy | Code::RejectRoute => {
                Cause::Hard(Error::HostUnreachable)
            }
            Code::NoRoute => Cause::Soft(Error::NetworkUnreachable),
            _ => Cause::Soft(Error::HostUnreachable),
        }),
        Icmpv6Message::TimeExceeded | Icmpv6Message::ParamProblem => {
            Some(Cause::Soft(Error::HostUnreachable))
        }
        _ => None,
    }
}
