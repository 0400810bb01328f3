//! Packets that a TUN device hands over or takes many at once, behind a virtio network header
//! (VIRTIO 1.3 section 5.1.6). Of those that it hands over the kernel leaves it to us to cut them
//! and to complete their checksums.
//!
//! Only UDP datagrams are written together: the kernel cuts them again for a socket that does not
//! ask for many at once. A TCP that gets segments merged answers with fewer ACKs.

use std::io::{self, IoSlice};

use fullpipe_path::{Delivered, MTU_BYTES};
use tun_rs::{IDEAL_BATCH_SIZE, SyncDevice, VIRTIO_NET_HDR_LEN};

use super::datagram::{Datagram, merged_headers};
use super::ip::UDP_HEADER;
use crate::os::BUFFER_BYTES;

/// Largest number of packets that one read brings: the device is told so.
pub(super) const MOST_SEGMENTS: usize = IDEAL_BATCH_SIZE;

/// Largest number of packets, and of their bytes, in one write.
const MOST_PACKETS: usize = 64;
const MOST_BYTES: usize = 65_000;

/// A header that says of the packet behind it that it is one and complete.
const ONE_PACKET: [u8; VIRTIO_NET_HDR_LEN] = [0; VIRTIO_NET_HDR_LEN];

/// The kind of many datagrams of UDP.
const GSO_UDP_L4: u8 = 5;

/// Flag of a packet whose checksum is to be completed, and the position of UDP's in its header.
const NEEDS_CSUM: u8 = 1;
const UDP_CHECKSUM: usize = 6;

/// Cuts what a device hands over into packets.
pub(super) struct Reader {
    frame: Vec<u8>,
    packets: Vec<Vec<u8>>,
    sizes: Vec<usize>,
}

impl Reader {
    pub(super) fn new() -> Self {
        Self {
            frame: vec![0; VIRTIO_NET_HDR_LEN + BUFFER_BYTES],
            packets: vec![vec![0; MTU_BYTES as usize]; MOST_SEGMENTS],
            sizes: vec![0; MOST_SEGMENTS],
        }
    }

    /// The packets that one read brings.
    ///
    /// # Errors
    /// [`io::ErrorKind::WouldBlock`] when there is none.
    pub(super) fn read(&mut self, device: &SyncDevice) -> io::Result<impl Iterator<Item = &[u8]>> {
        let (frame, packets) = (&mut self.frame, &mut self.packets);
        let count = device.recv_multiple(frame, packets, &mut self.sizes, 0)?;
        if let Some(packet) = packets.first_mut().filter(|_| count == 1) {
            correct_udp_checksum(frame, packet);
        }
        let sized = self.packets.iter().zip(&self.sizes).take(count);
        Ok(sized.map(|(packet, bytes)| &packet[..*bytes]))
    }
}

/// A checksum of UDP that was completed to 0 is sent as all ones: 0 is none at all (RFC 768).
fn correct_udp_checksum(header: &[u8], packet: &mut [u8]) {
    let field = |at: usize| usize::from(u16::from_ne_bytes([header[at], header[at + 1]]));
    let (flags, start, offset) = (header[0], field(6), field(8));
    if flags & NEEDS_CSUM != 0
        && offset == UDP_CHECKSUM
        && let Some(sum) = packet.get_mut(start + offset..start + offset + 2)
        && sum == [0, 0]
    {
        sum.fill(0xff);
    }
}

/// Number of the first of these packets that one write carries.
pub(super) fn together(device: &SyncDevice, packets: &[Delivered<Vec<u8>>]) -> usize {
    match device.udp_gso() {
        true => alike(packets),
        false => packets.len().min(1),
    }
}

/// Datagrams of UDP that differ in their data alone: of one size, but for a smaller one at the end.
fn alike(packets: &[Delivered<Vec<u8>>]) -> usize {
    let mut packets = packets.iter().map(|packet| packet.payload.as_slice());
    let Some(packet) = packets.next() else { return 0 };
    let Some(second) = packets.next() else { return 1 };
    let Some(first) = Datagram::of(packet) else { return 1 };
    let segment = packet.len();
    let most = MOST_PACKETS.min(MOST_BYTES / segment);
    let (mut count, mut is_over) = (1, false);
    for next in std::iter::once(second).chain(packets) {
        let fits = count < most && !is_over && next.len() <= segment;
        if !fits || !Datagram::of(next).is_some_and(|datagram| datagram.is_behind(&first, count)) {
            break;
        }
        count += 1;
        is_over = next.len() < segment;
    }
    count
}

/// Writes packets that are [`together`].
pub(super) fn send(device: &SyncDevice, packets: &[Delivered<Vec<u8>>]) -> io::Result<()> {
    let Some(first) = packets.first() else { return Ok(()) };
    let first = &first.payload;
    if packets.len() == 1 {
        return device.send_vectored(&[IoSlice::new(&ONE_PACKET), IoSlice::new(first)]).map(drop);
    }
    let bytes = packets.iter().map(|packet| packet.payload.len()).sum();
    let Some((headers, transport)) = merged_headers(first, packets.len(), bytes) else {
        return Err(io::ErrorKind::InvalidInput.into());
    };
    let data = transport + UDP_HEADER;
    let virtio = many(data, first.len() - data, transport);
    let mut slices = Vec::with_capacity(MOST_PACKETS + 2);
    slices.extend([IoSlice::new(&virtio), IoSlice::new(&headers[..data])]);
    slices.extend(packets.iter().map(|packet| IoSlice::new(&packet.payload[data..])));
    device.send_vectored(&slices).map(drop)
}

/// The header of datagrams with so many bytes of data each, behind headers of so many.
fn many(headers: usize, segment: usize, transport: usize) -> [u8; VIRTIO_NET_HDR_LEN] {
    let mut header = ONE_PACKET;
    (header[0], header[1]) = (NEEDS_CSUM, GSO_UDP_L4);
    for (to, field) in
        header[2..].chunks_exact_mut(2).zip([headers, segment, transport, UDP_CHECKSUM])
    {
        to.copy_from_slice(&(field as u16).to_ne_bytes());
    }
    header
}

#[cfg(test)]
mod tests {
    use fullpipe_cc::{Duration, Instant};
    use fullpipe_path::Ecn;

    use super::*;

    #[test]
    fn only_datagrams_are_written_together() {
        let junk = |bytes| {
            let (at, queued) = (Instant::default(), Duration::ZERO);
            let (ecn, payload) = (Ecn::NotEct, vec![0x45; bytes]);
            Delivered { at, queued, left_queue: at, wire_bytes: 0, ecn, corrupted: false, payload }
        };
        for packets in [vec![], vec![junk(40)], vec![junk(40), junk(40)], vec![junk(0); 3]] {
            assert_eq!(alike(&packets), packets.len().min(1));
        }
    }

    #[test]
    fn a_completed_checksum_of_udp_is_never_none() {
        let mut header = ONE_PACKET;
        header[6..8].copy_from_slice(&20_u16.to_ne_bytes());
        header[8..10].copy_from_slice(&6_u16.to_ne_bytes());
        for (flags, sum, expected) in [(1, 0, 0xff), (0, 0, 0), (1, 7, 7)] {
            let mut packet = vec![sum; 30];
            header[0] = flags;
            correct_udp_checksum(&header, &mut packet);
            assert_eq!(packet[26..28], [expected; 2]);
            assert!(packet.iter().enumerate().all(|(i, b)| (26..28).contains(&i) || *b == sum));
        }
        header[0] = 1;
        correct_udp_checksum(&header, &mut [0; 27]);
    }
}
