//! The few fields of an IPv4 packet that a path reads and writes (RFC 791, RFC 3168).

use fullpipe_path::{Ecn, Header};

use crate::outcome;

/// Offsets of the type of service, which has the ECN bits, and of the header's checksum.
const TOS: usize = 1;
const CHECKSUM: usize = 10;

/// The fields of a packet that the path needs. Data that is not an IPv4 packet has only its size.
pub(super) fn header(packet: &[u8]) -> Header {
    let plain = Header::from(packet.len() as u32);
    let Some((first, fixed)) = packet.first().zip(packet.get(..20)) else { return plain };
    if first >> 4 != 4 {
        return plain;
    }
    // TCP and UDP begin with their two ports; together with the addresses they name a flow, and the
    // addresses are always the same two.
    let ports = usize::from(first & 15) * 4;
    let flow =
        packet.get(ports..ports + 4).map_or(0, |p| u32::from_be_bytes([p[0], p[1], p[2], p[3]]));
    let ecn = match fixed[TOS] & 3 {
        0 => Ecn::NotEct,
        1 => Ecn::Ect1,
        2 => Ecn::Ect0,
        _ => Ecn::Ce,
    };
    Header { flow, ecn, ..plain }
}

/// Numbers of protocols over IP.
pub(super) const TCP: u8 = 6;
pub(super) const UDP: u8 = 17;

/// Offset of the checksum in UDP's header, and the header's length.
const UDP_CHECKSUM: usize = 6;
pub(super) const UDP_HEADER: usize = 8;

/// Changes one byte: of a UDP datagram at its beginning, each time another one, with the checksum corrected, so
/// that the endpoint has to find it; of others so that the kernel finds it.
pub(super) fn corrupt(packet: &mut [u8], before: u64) {
    let udp = match packet.get(..20) {
        Some(fixed) if fixed[0] >> 4 == 4 && fixed[9] == UDP => usize::from(fixed[0] & 15) * 4,
        _ => usize::MAX,
    };
    let Some((header, payload)) =
        packet.get_mut(udp..).and_then(|udp| udp.split_at_mut_checked(UDP_HEADER))
    else {
        let middle = packet.len() / 2;
        packet.iter_mut().skip(middle).take(1).for_each(|byte| *byte ^= 1);
        return;
    };
    let word = |payload: &[u8], at: usize| {
        let byte = |at| payload.get(at).copied().unwrap_or(0);
        u16::from_be_bytes([byte(at), byte(at + 1)])
    };
    let at = outcome::corrupt_position(payload.len(), before) / 2 * 2;
    let old = word(payload, at);
    outcome::corrupt(payload, before);
    let sum = word(header, UDP_CHECKSUM);
    // RFC 768: 0 is no checksum, and one that comes out as 0 is sent as all ones.
    if sum != 0 {
        let sum = !fold(u32::from(!sum) + u32::from(!old) + u32::from(word(payload, at)));
        let sum = if sum == 0 { u16::MAX } else { sum };
        header[UDP_CHECKSUM..UDP_HEADER].copy_from_slice(&sum.to_be_bytes());
    }
}

/// The protocol over IPv4, and what is behind the header of IP; nothing of another packet.
pub(super) fn transport(packet: &[u8]) -> Option<(u8, &[u8])> {
    let fixed = packet.get(..20).filter(|fixed| fixed[0] >> 4 == 4)?;
    Some((fixed[9], packet.get(usize::from(fixed[0] & 15) * 4..)?))
}

/// Number of bytes behind the headers of IP and of TCP or UDP; 0 where there is neither.
pub(super) fn payload_bytes(packet: &[u8]) -> u64 {
    let Some((first, fixed)) = packet.first().zip(packet.get(..20)) else { return 0 };
    let ip = usize::from(first & 15) * 4;
    let transport = match (first >> 4, fixed[9]) {
        (4, TCP) => packet.get(ip + 12).map_or(usize::MAX, |offset| usize::from(offset >> 4) * 4),
        (4, UDP) => UDP_HEADER,
        _ => usize::MAX,
    };
    // The kernel pads no packet on a TUN device: its length is the IP packet's.
    packet.len().saturating_sub(ip.saturating_add(transport)) as u64
}

/// Writes a mark that the path made, and corrects the checksum for it (RFC 1624, eqn. 3).
pub(super) fn mark(packet: &mut [u8], ecn: Ecn) {
    if ecn != Ecn::Ce || header(packet).ecn == Ecn::Ce {
        return;
    }
    let Some(fixed) = packet.get_mut(..20).filter(|fixed| fixed[0] >> 4 == 4) else { return };
    let before = u16::from_be_bytes([fixed[0], fixed[TOS]]);
    fixed[TOS] |= 3;
    let after = u16::from_be_bytes([fixed[0], fixed[TOS]]);
    let sum = u16::from_be_bytes([fixed[CHECKSUM], fixed[CHECKSUM + 1]]);
    let sum = !fold(u32::from(!sum) + u32::from(!before) + u32::from(after));
    fixed[CHECKSUM..CHECKSUM + 2].copy_from_slice(&sum.to_be_bytes());
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
    fn what_is_no_ipv4_is_a_packet_all_the_same() {
        for junk in [&[][..], &[0x45], &[0x60; 40], &[0x4f; 20]] {
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
}
