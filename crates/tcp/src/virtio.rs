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

/// Set beside the kind of segments where one of the packets has CWR.
const GSO_ECN: u8 = 0x80;

/// A packet with the words of its header.
pub(crate) struct Frame<'a> {
    pub(crate) packet: &'a [u8],
    /// Its checksum of TCP is somebody else's affair.
    pub(crate) is_checked: bool,
    /// The data of each segment of TCP that was merged into it; the last may have less.
    pub(crate) segment_bytes: Option<u16>,
}

/// The packet behind the header. `None` if there is none.
pub(crate) fn split(frame: &[u8]) -> Option<Frame<'_>> {
    let (header, packet) = frame.split_at_checked(HEADER)?;
    let is_merged = matches!(header[1] & !GSO_ECN, GSO_TCPV4 | GSO_TCPV6);
    let size = u16::from_ne_bytes([header[4], header[5]]);
    Some(Frame {
        packet,
        is_checked: header[0] & (NEEDS_CSUM | DATA_VALID) != 0,
        segment_bytes: (is_merged && size > 0).then_some(size),
    })
}

/// Puts the header in front of a packet: without a burst one of zeros, whose packet is complete.
pub(crate) fn put(packet: &mut Vec<u8>, burst: Option<Burst>) {
    let mut header = [0; HEADER];
    if let Some(burst) = burst {
        header[0] = NEEDS_CSUM;
        header[1] = if burst.is_ipv4 { GSO_TCPV4 } else { GSO_TCPV6 };
        header[1] |= if burst.has_cwr { GSO_ECN } else { 0 };
        let fields = [burst.headers, burst.segment, burst.checksum_start, burst.checksum_offset];
        for (to, field) in header[2..].chunks_exact_mut(2).zip(fields) {
            to.copy_from_slice(&field.to_ne_bytes());
        }
    }
    packet.splice(..0, header);
}
