//! Packets with the header of a virtio network device in front (VIRTIO 1.3 section 5.1.6), as a TUN
//! or TAP device with IFF_VNET_HDR and a packet socket with PACKET_VNET_HDR have them: a packet can
//! stand for many segments, and go without a checksum of its data.
//!
//! The fields have this machine's byte order, as those devices do unless they are told otherwise.

use alloc::vec::Vec;

use crate::wire::Burst;

/// Bytes of the header.
pub(crate) const HEADER: usize = 10;

/// The checksum is to be completed; whoever takes the packet in need not check it.
const NEEDS_CSUM: u8 = 1;
/// The checksum was checked.
const DATA_VALID: u8 = 2;
const GSO_TCPV4: u8 = 1;
const GSO_TCPV6: u8 = 4;

/// The packet behind the header, and whether its checksum of TCP is somebody else's affair.
pub(crate) fn split(frame: &[u8]) -> Option<(&[u8], bool)> {
    let (header, packet) = frame.split_at_checked(HEADER)?;
    Some((packet, header[0] & (NEEDS_CSUM | DATA_VALID) != 0))
}

/// Puts the header in front of a packet: without a burst one of zeros, whose packet is complete.
pub(crate) fn put(packet: &mut Vec<u8>, burst: Option<Burst>) {
    let mut header = [0; HEADER];
    if let Some(burst) = burst {
        header[0] = NEEDS_CSUM;
        header[1] = if burst.is_ipv4 { GSO_TCPV4 } else { GSO_TCPV6 };
        let fields = [burst.headers, burst.segment, burst.checksum_start, burst.checksum_offset];
        for (to, field) in header[2..].chunks_exact_mut(2).zip(fields) {
            to.copy_from_slice(&field.to_ne_bytes());
        }
    }
    packet.splice(..0, header);
}
