//! Packets that stand for many segments, to and from a device with a virtio network header.

use alloc::vec::Vec;

use fullpipe_cc::Instant;

use super::Endpoint;
use crate::{virtio, wire};

impl Endpoint {
    /// As [`Self::receive`], from a device that puts the 10 bytes of a virtio network header in
    /// front of each packet, in this machine's byte order (VIRTIO 1.3 section 5.1.6; Linux:
    /// IFF_VNET_HDR, PACKET_VNET_HDR). Segments that the device has merged are taken in as one, and
    /// a checksum that the header says is incomplete or checked is not looked at.
    pub fn receive_virtio(&mut self, now: Instant, frame: &[u8]) {
        let Some(virtio::Frame { packet, is_checked, segment_bytes }) = virtio::split(frame) else {
            self.counters.packets_unread += 1;
            return;
        };
        let segment = if is_checked { wire::parse_unchecked(packet) } else { None };
        match segment {
            Some(mut segment) => {
                if let Some(size) = segment_bytes {
                    segment.packets = segment.payload.len().div_ceil(size.into()).max(1) as u32;
                }
                self.on_segment(now, &segment);
            }
            None => self.receive(now, packet),
        }
    }

    /// As [`Self::transmit`], to such a device: with the header in front, and up to 64 KiB of equal
    /// segments that may leave now in one packet, which the device cuts and whose checksums it
    /// makes (Linux: TUN_F_CSUM, TUN_F_TSO4, TUN_F_TSO6).
    pub fn transmit_virtio(&mut self, now: Instant, out: &mut Vec<u8>) -> bool {
        if self.transmit_reply(out) {
            virtio::put(out, None);
            return true;
        }
        self.transmit_by(out, |connection, ident, out| match ident {
            None => connection.transmit_virtio(now, out),
            Some(ident) => {
                // No burst, whose packets would need a number each.
                let left = connection.transmit_as(now, ident, out);
                if left {
                    virtio::put(out, None);
                }
                left
            }
        })
    }
}
