//! UDP datagrams that can be parts of a larger one.

use std::ops::Range;

use super::ip::{
    CHECKSUM, IPV4_HEADER, IPV4_SOURCE, IPV6_HEADER, IPV6_SOURCE, Layout, UDP, UDP_CHECKSUM,
    UDP_HEADER, correct, word,
};

/// IPv4's flag of a packet that must not be cut.
const UNCUT: u16 = 0x4000;

/// A datagram of UDP that its receiver cannot tell from the same one cut out of a larger one:
/// without options and fragments, and with right checksums. Where it may not be cut further its
/// identification may be another one.
pub(super) struct Datagram<'a> {
    packet: &'a [u8],
    is_v6: bool,
    transport: usize,
}

impl<'a> Datagram<'a> {
    pub(super) fn of(packet: &'a [u8]) -> Option<Self> {
        let Layout { is_v6, protocol, transport, .. } = Layout::of(packet)?;
        let segment = packet.get(transport..)?;
        let udp = segment.get(..UDP_HEADER)?;
        let is_plain = match is_v6 {
            true => usize::from(word(packet, 4)) == segment.len(),
            false => {
                let length = usize::from(word(packet, 2));
                transport == IPV4_HEADER
                    && fragment(packet) & !UNCUT == 0
                    && length == packet.len()
                    && tun_rs::checksum(&packet[..IPV4_HEADER], 0) == u16::MAX
            }
        };
        let is_whole = usize::from(word(udp, 4)) == segment.len() && segment.len() > UDP_HEADER;
        let has_sum = protocol == UDP && word(udp, UDP_CHECKSUM) != 0;
        let sum = || tun_rs::checksum(segment, pseudo_header(packet, is_v6, segment.len()));
        let is_right = is_plain && is_whole && has_sum && sum() == u16::MAX;
        is_right.then_some(Self { packet, is_v6, transport })
    }

    /// True if it is the datagram so many behind the first of a larger one. Only data, lengths and
    /// checksums differ, and the identification is so many higher, as where the kernel cuts; of a
    /// packet that must not be cut it says nothing (RFC 6864).
    pub(super) fn is_behind(&self, first: &Self, number: usize) -> bool {
        let same = |range: Range<usize>| self.packet[range.clone()] == first.packet[range];
        let is_next = || {
            fragment(self.packet) == UNCUT
                || word(self.packet, 4) == word(first.packet, 4).wrapping_add(number as u16)
        };
        self.is_v6 == first.is_v6
            && same(self.transport..self.transport + 4)
            && match self.is_v6 {
                true => same(0..4) && same(6..IPV6_HEADER),
                false => {
                    let rest = same(0..2) && same(6..CHECKSUM) && same(IPV4_SOURCE..IPV4_HEADER);
                    rest && is_next()
                }
            }
    }
}

/// IPv4's flags and fragment offset.
fn fragment(packet: &[u8]) -> u16 {
    word(packet, 6)
}

/// The sum over the pseudo header of a UDP datagram of so many bytes.
fn pseudo_header(packet: &[u8], is_v6: bool, bytes: usize) -> u64 {
    let addresses = match is_v6 {
        true => IPV6_SOURCE..IPV6_HEADER,
        false => IPV4_SOURCE..IPV4_HEADER,
    };
    tun_rs::checksum_no_fold(&packet[addresses], u64::from(UDP) + bytes as u64)
}

/// The headers of IP and UDP, and the offset of UDP's, for the data of so many [`Datagram`]s of so
/// many bytes behind those of the first. UDP's checksum has the pseudo header alone, for the kernel
/// to complete.
pub(super) fn merged_headers(
    first: &[u8],
    datagrams: usize,
    bytes: usize,
) -> Option<([u8; IPV6_HEADER + UDP_HEADER], usize)> {
    let Layout { is_v6, transport, .. } = Layout::of(first)?;
    let mut headers = [0; IPV6_HEADER + UDP_HEADER];
    let data = transport + UDP_HEADER;
    headers.get_mut(..data)?.copy_from_slice(first.get(..data)?);
    let udp = (bytes - datagrams * data) + UDP_HEADER;
    let set = |headers: &mut [u8], at: usize, to: usize| {
        headers[at..at + 2].copy_from_slice(&(to as u16).to_be_bytes());
    };
    if is_v6 {
        set(&mut headers, 4, udp);
    } else {
        let before = word(&headers, 2);
        set(&mut headers, 2, transport + udp);
        let after = word(&headers, 2);
        correct(&mut headers, CHECKSUM, before, after, false);
    }
    set(&mut headers, transport + 4, udp);
    let sum = tun_rs::checksum(&[], pseudo_header(first, is_v6, udp));
    set(&mut headers, transport + UDP_CHECKSUM, sum.into());
    Some((headers, transport))
}

#[cfg(test)]
pub(super) mod tests {
    use smoltcp::phy::ChecksumCapabilities;
    use smoltcp::wire::{IpProtocol, IpRepr, Ipv4Packet, Ipv6Packet, UdpPacket, UdpRepr};

    use super::*;

    pub(in super::super) const PAIRS: [(&str, &str); 2] =
        [("198.18.0.1", "198.18.0.2"), ("2001:2::1", "2001:2::2")];

    /// A packet with such a datagram, between the two of a pair.
    pub(in super::super) fn datagram((from, to): (&str, &str), payload: &[u8]) -> Vec<u8> {
        let [from, to] = [from, to].map(|ip| ip.parse::<std::net::IpAddr>().expect("one").into());
        let checksums = ChecksumCapabilities::default();
        let length = UDP_HEADER + payload.len();
        let ip = IpRepr::new(from, to, IpProtocol::Udp, length, 64);
        let mut packet = vec![0; ip.buffer_len()];
        ip.emit(&mut packet, &checksums);
        let udp = UdpRepr { src_port: 443, dst_port: 4000 };
        let fill = |place: &mut [u8]| place.copy_from_slice(payload);
        let mut place = UdpPacket::new_unchecked(&mut packet[ip.header_len()..]);
        udp.emit(&mut place, &from, &to, payload.len(), fill, &checksums);
        packet
    }

    /// Sets a word of IPv4's header.
    fn set(packet: &mut [u8], at: usize, to: u16) {
        let before = word(packet, at);
        packet[at..at + 2].copy_from_slice(&to.to_be_bytes());
        correct(packet, CHECKSUM, before, to, false);
    }

    fn is_behind(first: &[u8], next: &[u8]) -> bool {
        let first = Datagram::of(first).expect("a datagram");
        Datagram::of(next).is_some_and(|next| next.is_behind(&first, 1))
    }

    #[test]
    fn a_datagram_is_behind_another_one_that_differs_in_data_alone() {
        for pair in PAIRS {
            let first = datagram(pair, b"some data");
            assert!(is_behind(&first, &datagram(pair, b"other")));
            assert!(!is_behind(&first, &datagram((pair.1, pair.0), b"other")), "{pair:?}");
            let mut wrong = datagram(pair, b"other");
            *wrong.last_mut().expect("a byte") ^= 1;
            assert!(!is_behind(&first, &wrong), "a receiver refuses it");
            let mut longer = datagram(pair, b"other");
            longer.push(0);
            assert!(!is_behind(&first, &longer));
            assert!(Datagram::of(&datagram(pair, b"")).is_none());
            for bytes in 0..first.len() {
                assert!(Datagram::of(&first[..bytes]).is_none(), "{bytes}");
            }
        }
        let [first, next] = [b"a", b"b"].map(|data| datagram(PAIRS[0], data));
        // The codepoint, the flags, the time to live.
        for (at, to) in [(0, 0x4503), (6, 0x2000), (6, 1), (8, 0x3f11)] {
            let mut other = next.clone();
            set(&mut other, at, to);
            assert!(!is_behind(&first, &other), "{at}");
        }
        // A router or the receiver drops the one alone, and all where it is the first.
        let mut wrong = next.clone();
        wrong[CHECKSUM] ^= 1;
        assert!(!is_behind(&first, &wrong) && Datagram::of(&wrong).is_none());
        // Where the kernel may cut, it counts.
        for (number, expected) in [(0, false), (1, true), (2, false)] {
            let [mut first, mut next] = [first.clone(), next.clone()];
            for (packet, identification) in [(&mut first, 0), (&mut next, number)] {
                set(packet, 6, 0);
                set(packet, 4, u16::MAX.wrapping_add(identification));
            }
            assert_eq!(is_behind(&first, &next), expected, "{number}");
        }
    }

    #[test]
    fn merged_headers_have_right_lengths_and_sums() {
        for pair in PAIRS {
            let datagrams = [&b"some data"[..], b"something", b"last"].map(|d| datagram(pair, d));
            let bytes = datagrams.iter().map(Vec::len).sum();
            let (headers, transport) = merged_headers(&datagrams[0], 3, bytes).expect("of UDP");
            let data = transport + UDP_HEADER;
            let mut whole = headers[..data].to_vec();
            datagrams.iter().for_each(|datagram| whole.extend(&datagram[data..]));
            // The kernel completes the sum so.
            let sum = !tun_rs::checksum(&whole[transport..], 0);
            let at = transport + UDP_CHECKSUM;
            whole[at..at + 2].copy_from_slice(&sum.to_be_bytes());
            let (from, to, segment) = if whole[0] >> 4 == 4 {
                let ip = Ipv4Packet::new_checked(&whole).expect("a packet");
                assert!(ip.verify_checksum() && usize::from(ip.total_len()) == whole.len());
                (ip.src_addr().into(), ip.dst_addr().into(), ip.payload())
            } else {
                let ip = Ipv6Packet::new_checked(&whole).expect("a packet");
                assert_eq!(ip.total_len(), whole.len());
                (ip.src_addr().into(), ip.dst_addr().into(), ip.payload())
            };
            let udp = UdpPacket::new_checked(segment).expect("a datagram");
            assert!(udp.verify_checksum(&from, &to), "{pair:?}");
            assert_eq!(udp.payload(), b"some datasomethinglast");
        }
    }
}
