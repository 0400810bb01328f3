//! The few fields of an IP packet that a path reads and writes (RFC 791, RFC 8200, RFC 3168).

use std::net::IpAddr;

use fullpipe_path::{Ecn, Header};

use crate::outcome;

/// Lengths of the headers of IP without options.
pub(super) const IPV4_HEADER: usize = 20;
pub(super) const IPV6_HEADER: usize = 40;

/// Offsets in IPv4's header: of the type of service, which has the ECN bits, of the checksum and of
/// the addresses.
const TOS: usize = 1;
pub(super) const CHECKSUM: usize = 10;
pub(super) const IPV4_SOURCE: usize = 12;

/// Offset of the addresses in IPv6's header.
pub(super) const IPV6_SOURCE: usize = 8;

/// Numbers of protocols over IP.
pub(super) const TCP: u8 = 6;
pub(super) const UDP: u8 = 17;

/// Offsets of the checksums of TCP and UDP, and the length of UDP's header.
const TCP_CHECKSUM: usize = 16;
pub(super) const UDP_CHECKSUM: usize = 6;
pub(super) const UDP_HEADER: usize = 8;

/// A packet of IPv4, or of IPv6 without extension headers: others have a protocol of which nothing
/// is known here.
pub(super) struct Layout {
    pub(super) is_v6: bool,
    pub(super) protocol: u8,
    /// Offset of what is behind IP's header.
    pub(super) transport: usize,
    ecn: Ecn,
}

impl Layout {
    pub(super) fn of(packet: &[u8]) -> Option<Self> {
        let first = *packet.first()?;
        let (protocol, transport, bits) = match first >> 4 {
            4 => {
                let fixed = packet.get(..IPV4_HEADER)?;
                (fixed[9], usize::from(first & 15) * 4, fixed[TOS])
            }
            6 => {
                let fixed = packet.get(..IPV6_HEADER)?;
                (fixed[6], IPV6_HEADER, fixed[1] >> 4)
            }
            _ => return None,
        };
        let ecn = match bits & 3 {
            0 => Ecn::NotEct,
            1 => Ecn::Ect1,
            2 => Ecn::Ect0,
            _ => Ecn::Ce,
        };
        Some(Self { is_v6: first >> 4 == 6, protocol, transport, ecn })
    }
}

/// The fields of a packet that the path needs. Data that is no IP packet has only its size.
pub(super) fn header(packet: &[u8]) -> Header {
    let plain = Header::from(packet.len() as u32);
    let Some(Layout { transport, ecn, .. }) = Layout::of(packet) else { return plain };
    // TCP and UDP begin with their two ports; together with the addresses they name a flow, and the
    // addresses are always the same two.
    let ports = packet.get(transport..transport + 4);
    let flow = ports.map_or(0, |p| u32::from_be_bytes([p[0], p[1], p[2], p[3]]));
    Header { flow, ecn, ..plain }
}

/// True if it is one of IPv6 to a group, as the kernel sends them by itself.
pub(super) fn is_for_a_group(packet: &[u8]) -> bool {
    const GROUPS: u8 = 0xff;
    packet.first().is_some_and(|first| first >> 4 == 6) && packet.get(24) == Some(&GROUPS)
}

/// Changes one byte: of a UDP datagram at its beginning, each time another one, with the checksum
/// corrected, so that the endpoint has to find it; of others so that the kernel finds it.
pub(super) fn corrupt(packet: &mut [u8], before: u64) {
    let udp = match Layout::of(packet) {
        Some(Layout { protocol: UDP, transport, .. }) => transport,
        _ => usize::MAX,
    };
    let Some((header, payload)) =
        packet.get_mut(udp..).and_then(|udp| udp.split_at_mut_checked(UDP_HEADER))
    else {
        let middle = packet.len() / 2;
        packet.iter_mut().skip(middle).take(1).for_each(|byte| *byte ^= 1);
        return;
    };
    let at = outcome::corrupt_position(payload.len(), before) / 2 * 2;
    let old = word(payload, at);
    outcome::corrupt(payload, before);
    let new = word(payload, at);
    correct(header, UDP_CHECKSUM, old, new, true);
}

/// A word of 16 bits; what is missing at the end is 0.
pub(super) fn word(bytes: &[u8], at: usize) -> u16 {
    let byte = |at| bytes.get(at).copied().unwrap_or(0);
    u16::from_be_bytes([byte(at), byte(at + 1)])
}

/// Corrects a checksum for one word that was changed (RFC 1624, eqn. 3). Of UDP's (RFC 768) 0 is
/// none at all, and one that comes out as 0 is sent as all ones.
pub(super) fn correct(header: &mut [u8], at: usize, old: u16, new: u16, is_udp: bool) {
    let Some(place) = header.get_mut(at..at + 2) else { return };
    let sum = u16::from_be_bytes([place[0], place[1]]);
    if is_udp && sum == 0 {
        return;
    }
    let sum = !fold(u32::from(!sum) + u32::from(!old) + u32::from(new));
    let sum = if is_udp && sum == 0 { u16::MAX } else { sum };
    place.copy_from_slice(&sum.to_be_bytes());
}

/// The protocol over IP, and what is behind IP's header; nothing of another packet.
pub(super) fn transport(packet: &[u8]) -> Option<(u8, &[u8])> {
    let layout = Layout::of(packet)?;
    Some((layout.protocol, packet.get(layout.transport..)?))
}

/// Number of bytes behind the headers of IP and of TCP or UDP; 0 where there is neither.
pub(super) fn payload_bytes(packet: &[u8]) -> u64 {
    let Some((protocol, segment)) = transport(packet) else { return 0 };
    let header = match protocol {
        TCP => segment.get(12).map_or(usize::MAX, |offset| usize::from(offset >> 4) * 4),
        UDP => UDP_HEADER,
        _ => usize::MAX,
    };
    // The kernel pads no packet on a TUN device: its length is the IP packet's.
    segment.len().saturating_sub(header) as u64
}

/// Writes a mark that the path made, and corrects IPv4's checksum for it.
pub(super) fn mark(packet: &mut [u8], ecn: Ecn) {
    let Some(Layout { is_v6, ecn: now, .. }) = Layout::of(packet) else { return };
    if ecn != Ecn::Ce || now == Ecn::Ce {
        return;
    }
    if is_v6 {
        packet[1] |= 0x30;
        return;
    }
    let before = word(packet, 0);
    packet[TOS] |= 3;
    let after = word(packet, 0);
    correct(packet, CHECKSUM, before, after, false);
}

/// One end of a packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum AddressField {
    Source = 0,
    Destination = 1,
}

/// The address and the port at a side of a TCP or UDP packet.
pub(super) fn endpoint(packet: &[u8], side: AddressField) -> Option<(IpAddr, u16)> {
    let layout = Layout::of(packet)?;
    if !matches!(layout.protocol, TCP | UDP) {
        return None;
    }
    let port = packet.get(layout.transport + 2 * side as usize..)?.get(..2)?;
    let port = u16::from_be_bytes([port[0], port[1]]);
    let address = if layout.is_v6 {
        let at = IPV6_SOURCE + 16 * side as usize;
        IpAddr::from(<[u8; 16]>::try_from(packet.get(at..at + 16)?).ok()?)
    } else {
        let at = IPV4_SOURCE + 4 * side as usize;
        IpAddr::from(<[u8; 4]>::try_from(packet.get(at..at + 4)?).ok()?)
    };
    Some((address, port))
}

/// Writes another address and port into a TCP or UDP packet, with right checksums. The address is
/// of the same family.
pub(super) fn set_endpoint(packet: &mut [u8], side: AddressField, address: IpAddr, port: u16) {
    let Some(Layout { is_v6, protocol, transport, .. }) = Layout::of(packet) else { return };
    let sum = transport
        + match protocol {
            TCP => TCP_CHECKSUM,
            UDP => UDP_CHECKSUM,
            _ => return,
        };
    let set = |packet: &mut [u8], at: usize, new: u16, is_address: bool| {
        let old = word(packet, at);
        let Some(place) = packet.get_mut(at..at + 2) else { return };
        place.copy_from_slice(&new.to_be_bytes());
        if is_address && !is_v6 {
            correct(packet, CHECKSUM, old, new, false);
        }
        correct(packet, sum, old, new, protocol == UDP);
    };
    let (at, octets) = match address {
        IpAddr::V4(v4) if !is_v6 => (IPV4_SOURCE + 4 * side as usize, v4.octets().to_vec()),
        IpAddr::V6(v6) if is_v6 => (IPV6_SOURCE + 16 * side as usize, v6.octets().to_vec()),
        _ => return,
    };
    for (i, pair) in octets.chunks_exact(2).enumerate() {
        set(packet, at + 2 * i, u16::from_be_bytes([pair[0], pair[1]]), true);
    }
    set(packet, transport + 2 * side as usize, port, false);
}

/// The sum of 16-bit words in one's complement.
fn fold(sum: u32) -> u16 {
    let once = (sum & 0xffff) + (sum >> 16);
    ((once & 0xffff) + (once >> 16)) as u16
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A header of 20 bytes with its right checksum, and eight bytes of TCP.
    fn packet(tos: u8) -> Vec<u8> {
        let mut p =
            vec![0x45, tos, 0, 28, 1, 2, 0x40, 0, 64, 6, 0, 0, 198, 18, 0, 1, 198, 18, 0, 2];
        let sum = !checksum(&p);
        p[10..12].copy_from_slice(&sum.to_be_bytes());
        p.extend_from_slice(&[0x12, 0x34, 0x56, 0x78, 0, 0, 0, 0]);
        p
    }

    fn checksum(header: &[u8]) -> u16 {
        fold(header.chunks(2).map(|w| u32::from(u16::from_be_bytes([w[0], w[1]]))).sum())
    }

    #[test]
    fn a_packet_has_its_flow_and_its_codepoint() {
        for (tos, ecn) in [(0, Ecn::NotEct), (1, Ecn::Ect1), (0xb2, Ecn::Ect0), (3, Ecn::Ce)] {
            let seen = header(&packet(tos));
            assert_eq!(seen, Header { wire_bytes: 28, flow: 0x1234_5678, ecn });
        }
    }

    #[test]
    fn what_is_no_ip_is_a_packet_all_the_same() {
        for junk in [&[][..], &[0x45], &[0x60; 39], &[0x4f; 20], &[0x50; 60]] {
            let seen = header(junk);
            assert_eq!((seen.wire_bytes, seen.flow), (junk.len() as u32, 0), "{junk:?}");
            mark(&mut junk.to_vec(), Ecn::Ce);
        }
    }

    #[test]
    fn payload_is_what_follows_the_headers_of_tcp_and_udp() {
        let mut tcp = packet(0);
        tcp.resize(20 + 32 + 100, 0);
        tcp[20 + 12] = 8 << 4;
        assert_eq!(payload_bytes(&tcp), 100);
        tcp[9] = 17;
        assert_eq!(payload_bytes(&tcp), 32 + 100 - 8);
        tcp[9] = 1;
        assert_eq!(payload_bytes(&tcp), 0, "ICMP");
        for junk in [&[][..], &[0x45], &[0x60; 40], &[0x4f; 20], &tcp[..24]] {
            assert_eq!(payload_bytes(junk), 0, "{junk:?}");
        }
    }

    #[test]
    fn a_corrupted_datagram_has_one_byte_changed_and_a_right_checksum() {
        // The sum over all but the pseudo header, which does not change.
        let sum = |p: &[u8]| {
            let mut padded = p[20..].to_vec();
            padded.resize(padded.len().next_multiple_of(2), 0);
            fold(padded.chunks(2).map(|w| u32::from(u16::from_be_bytes([w[0], w[1]]))).sum())
        };
        for payload in [1, 2, 49, 60, 1471, 1472] {
            for before in 0..120 {
                let mut p = packet(0);
                p[9] = 17;
                p.extend((0..payload).map(|i| i as u8));
                p[26..28].copy_from_slice(&[0xbe, 0xef]);
                let was = p.clone();
                corrupt(&mut p, before);
                let at: Vec<usize> = (28..p.len()).filter(|i| p[*i] != was[*i]).collect();
                assert_eq!(at.len(), 1, "{payload} {before}");
                assert!(at[0] < 28 + 50);
                assert_eq!(sum(&p), sum(&was), "{payload} {before}");
                assert_eq!(p[..26], was[..26]);
            }
        }
        let mut without = packet(0);
        without[9] = 17;
        without.push(7);
        corrupt(&mut without, 0);
        assert_eq!((&without[26..28], without[28]), (&[0, 0][..], !7), "no checksum stays none");
        let mut tcp = packet(0);
        corrupt(&mut tcp, 0);
        assert_ne!(tcp, packet(0));
        for junk in [&[][..], &[0x45], &[0x60; 40], &[0x4f; 20]] {
            corrupt(&mut junk.to_vec(), 3);
        }
    }

    #[test]
    fn a_mark_keeps_the_checksum_right() {
        for tos in [1, 2, 0xb2, 0xff] {
            let mut p = packet(tos);
            mark(&mut p, Ecn::Ce);
            assert_eq!(header(&p).ecn, Ecn::Ce);
            assert_eq!(checksum(&p[..20]), 0xffff, "tos {tos}");
            assert_eq!(p[1] >> 2, tos >> 2);
        }
        let mut p = packet(2);
        mark(&mut p, Ecn::Ect0);
        assert_eq!(p, packet(2));
    }

    /// A UDP datagram with right checksums, as an independent library writes it.
    fn datagram(from: &str, to: &str, ecn: u8, payload: &[u8]) -> Vec<u8> {
        use smoltcp::phy::ChecksumCapabilities;
        use smoltcp::wire::{IpProtocol, IpRepr, UdpPacket, UdpRepr};
        let ends: [std::net::SocketAddr; 2] = [from, to].map(|end| end.parse().expect("one"));
        let [source, destination] = ends.map(|end| end.ip().into());
        let checksums = ChecksumCapabilities::default();
        let length = UDP_HEADER + payload.len();
        let ip = IpRepr::new(source, destination, IpProtocol::Udp, length, 64);
        let mut packet = vec![0; ip.buffer_len()];
        ip.emit(&mut packet, &checksums);
        let udp = UdpRepr { src_port: ends[0].port(), dst_port: ends[1].port() };
        let place = &mut packet[ip.header_len()..];
        let fill = |place: &mut [u8]| place.copy_from_slice(payload);
        let mut udp_packet = UdpPacket::new_unchecked(place);
        udp.emit(&mut udp_packet, &source, &destination, payload.len(), fill, &checksums);
        if packet[0] >> 4 == 6 {
            packet[1] |= ecn << 4;
        } else {
            packet[TOS] |= ecn;
            correct(&mut packet, CHECKSUM, 0x4500, 0x4500 | u16::from(ecn), false);
        }
        packet
    }

    /// True if the checksums are right, by the same library.
    fn is_right(packet: &[u8]) -> bool {
        use smoltcp::wire::{Ipv4Packet, Ipv6Packet, UdpPacket};
        let udp = |payload, from, to| {
            UdpPacket::new_checked(payload).is_ok_and(|udp| udp.verify_checksum(&from, &to))
        };
        if packet[0] >> 4 == 4 {
            let ip = Ipv4Packet::new_checked(packet).expect("a packet");
            ip.verify_checksum() && udp(ip.payload(), ip.src_addr().into(), ip.dst_addr().into())
        } else {
            let ip = Ipv6Packet::new_checked(packet).expect("a packet");
            udp(ip.payload(), ip.src_addr().into(), ip.dst_addr().into())
        }
    }

    const PAIRS: [(&str, &str); 2] =
        [("198.18.0.2:4000", "198.18.0.1:443"), ("[2001:2::2]:4000", "[2001:2::1]:443")];

    #[test]
    fn both_families_have_flows_codepoints_and_payloads() {
        for (from, to) in PAIRS {
            for (bits, ecn) in [(0, Ecn::NotEct), (1, Ecn::Ect1), (2, Ecn::Ect0), (3, Ecn::Ce)] {
                let mut packet = datagram(from, to, bits, b"some data");
                let seen = header(&packet);
                assert_eq!((seen.flow, seen.ecn), (4000 << 16 | 443, ecn), "{from}");
                assert_eq!(payload_bytes(&packet), 9);
                assert!(!is_for_a_group(&packet));
                mark(&mut packet, Ecn::Ce);
                assert_eq!(header(&packet).ecn, Ecn::Ce);
                assert!(is_right(&packet), "{from} {bits}");
            }
        }
        assert!(is_for_a_group(&datagram("[fe80::1]:5353", "[ff02::fb]:5353", 0, b"")));
    }

    #[test]
    fn corruption_and_another_endpoint_keep_the_checksums_of_both_families_right() {
        let elsewhere = ["198.18.0.6", "2001:2::6"].map(|ip| ip.parse().expect("an address"));
        for ((from, to), address) in PAIRS.into_iter().zip(elsewhere) {
            for before in 0..60 {
                let was = datagram(from, to, 2, &[before as u8; 51]);
                let mut packet = was.clone();
                corrupt(&mut packet, before);
                assert!(is_right(&packet) && packet != was, "{from} {before}");
                for side in [AddressField::Source, AddressField::Destination] {
                    set_endpoint(&mut packet, side, address, 5000 + before as u16);
                    assert_eq!(endpoint(&packet, side), Some((address, 5000 + before as u16)));
                    assert!(is_right(&packet), "{from} {before} {side:?}");
                }
            }
        }
        // No checksum stays none, and what is too short is left alone.
        let mut without = datagram(PAIRS[0].0, PAIRS[0].1, 0, b"x");
        without[26..28].copy_from_slice(&[0, 0]);
        set_endpoint(&mut without, AddressField::Source, elsewhere[0], 9);
        assert_eq!(without[26..28], [0, 0]);
        for junk in [&[][..], &[0x45], &[0x60; 40], &[0x4f; 20], &without[..24]] {
            set_endpoint(&mut junk.to_vec(), AddressField::Destination, elsewhere[1], 9);
            assert_eq!(endpoint(&junk[..junk.len().min(21)], AddressField::Source), None);
        }
    }
}
