//! The few fields of an IPv4 packet that a path reads and writes (RFC 791, RFC 3168).

use fullpipe_path::{Ecn, Header};

/// Where the type of service with the ECN bits is, and where the header's checksum.
const TOS: usize = 1;
const CHECKSUM: usize = 10;

/// What the path needs to know of a packet. Whatever is no IPv4 packet is one of its size.
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
