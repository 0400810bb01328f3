//! Packets that a TUN device hands over or takes many at once, behind a virtio network header
//! (VIRTIO 1.3 section 5.1.6). Of those that it hands over the kernel leaves it to us to cut them
//! and to complete their checksums.
//!
//! Only UDP datagrams are written together: the kernel cuts them again for a socket that does not
//! ask for many at once. One that does, as a QUIC stack's, may answer what it reads in one call with
//! fewer ACKs; a TCP that gets segments merged always does.

use std::io::{self, ErrorKind, IoSlice};
use std::ops::Range;

use fullpipe_path::Delivered;
use tun_rs::{
    SyncDevice, VIRTIO_NET_HDR_GSO_UDP_L4, VIRTIO_NET_HDR_LEN, VirtioNetHdr, checksum, gso_split,
};

use super::datagram::{Datagram, merged_headers};
use super::ip::{UDP_CHECKSUM, UDP_HEADER};
use crate::os::BUFFER_BYTES;

/// Number of reads of one device, and of packets from it, after which those that are due are sent.
/// More would delay them. Not every packet enters the path, and one read may bring many.
const READS_A_TURN: usize = 32;
const PACKETS_A_TURN: usize = 32;

/// Largest number of packets, and of their bytes, in one write.
const MOST_PACKETS: usize = 64;
const MOST_BYTES: usize = 65_000;

/// A header that says of the packet behind it that it is one and complete.
const ONE_PACKET: [u8; VIRTIO_NET_HDR_LEN] = [0; VIRTIO_NET_HDR_LEN];

/// Flag of a packet whose checksum is to be completed.
const NEEDS_CSUM: u8 = 1;

/// Kind of a packet that is not to be cut.
const GSO_NONE: u8 = 0;

/// Offset in TCP's header of the length of that header.
const TCP_DATA_OFFSET: usize = 12;

/// Cuts what a device hands over into packets.
pub(super) struct Reader {
    frame: Vec<u8>,
    /// As many and as large as one frame has asked for so far.
    packets: Vec<Vec<u8>>,
    sizes: Vec<usize>,
}

impl Reader {
    pub(super) fn new() -> Self {
        Self {
            frame: vec![0; VIRTIO_NET_HDR_LEN + BUFFER_BYTES],
            packets: Vec::new(),
            sizes: Vec::new(),
        }
    }

    /// Gives `take` the packets that `receive` brings in one turn, until it would block. `take`
    /// says of each if it enters the path. The bytes of what cannot be cut go to `refuse`. True if
    /// it would block, false if the turn was over before.
    ///
    /// # Errors
    /// Those of `receive`.
    pub(super) fn read(
        &mut self,
        receive: impl Fn(&mut [u8]) -> io::Result<usize>,
        mut take: impl FnMut(&[u8]) -> bool,
        mut refuse: impl FnMut(usize),
    ) -> io::Result<bool> {
        let mut taken = 0;
        for _ in 0..READS_A_TURN {
            let bytes = match receive(&mut self.frame) {
                Ok(bytes) => bytes,
                Err(e) if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {
                    return Ok(true);
                }
                Err(e) => return Err(e),
            };
            match self.cut(bytes) {
                Some(Cut::One(range)) => taken += usize::from(take(&self.frame[range])),
                Some(Cut::Many(count)) => {
                    for (packet, &bytes) in self.packets.iter().zip(&self.sizes).take(count) {
                        taken += usize::from(take(&packet[..bytes]));
                    }
                }
                None => refuse(bytes.saturating_sub(VIRTIO_NET_HDR_LEN)),
            }
            if taken >= PACKETS_A_TURN {
                break;
            }
        }
        Ok(false)
    }

    /// Completes or cuts the packet in the first bytes of the frame; nothing if it is not what its
    /// header says.
    fn cut(&mut self, bytes: usize) -> Option<Cut> {
        let (virtio, packet) =
            self.frame.get_mut(..bytes)?.split_at_mut_checked(VIRTIO_NET_HDR_LEN)?;
        let mut virtio = VirtioNetHdr::decode(virtio).ok()?;
        let is_v6 = packet.first()? >> 4 == 6;
        if virtio.gso_type == GSO_NONE {
            if virtio.flags & NEEDS_CSUM != 0 {
                complete(packet, virtio.csum_start.into(), virtio.csum_offset.into())?;
            }
            return Some(Cut::One(VIRTIO_NET_HDR_LEN..bytes));
        }
        let transport = usize::from(virtio.csum_start);
        let header = match virtio.gso_type {
            VIRTIO_NET_HDR_GSO_UDP_L4 => UDP_HEADER,
            _ => usize::from(packet.get(transport + TCP_DATA_OFFSET)? >> 4) * 4,
        };
        // What the kernel says of a packet that it forwards may be more.
        let headers = transport + header;
        virtio.hdr_len = u16::try_from(headers).ok()?;
        let segment = usize::from(virtio.gso_size);
        let count = packet.len().checked_sub(headers)?.div_ceil(segment.max(1));
        while self.packets.len() < count {
            self.packets.push(Vec::new());
            self.sizes.push(0);
        }
        for packet in self.packets.iter_mut().take(count).filter(|p| p.len() < headers + segment) {
            packet.resize(headers + segment, 0);
        }
        let (packets, sizes) = (&mut self.packets[..count], &mut self.sizes[..count]);
        gso_split(packet, virtio, packets, sizes, 0, is_v6).ok().map(Cut::Many)
    }
}

/// The packets of a frame.
enum Cut {
    /// The frame has it here.
    One(Range<usize>),
    /// So many, in the reader's buffers.
    Many(usize),
}

/// Completes the checksum of what begins at `start`, which has the sum of its pseudo header. One of
/// UDP that comes out as 0 is sent as all ones: 0 is none at all (RFC 768).
fn complete(packet: &mut [u8], start: usize, offset: usize) -> Option<()> {
    let covered = packet.get_mut(start..)?;
    covered.get(offset..offset + 2)?;
    let sum = match !checksum(covered, 0) {
        0 if offset == UDP_CHECKSUM => u16::MAX,
        sum => sum,
    };
    covered[offset..offset + 2].copy_from_slice(&sum.to_be_bytes());
    Some(())
}

/// Number of the first of these packets that one write carries: datagrams of UDP that differ in
/// their data alone, and of one size, but for a smaller one at the end.
pub(super) fn together(packets: &[Delivered<Vec<u8>>]) -> usize {
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
    (header[0], header[1]) = (NEEDS_CSUM, VIRTIO_NET_HDR_GSO_UDP_L4);
    for (to, field) in
        header[2..].chunks_exact_mut(2).zip([headers, segment, transport, UDP_CHECKSUM])
    {
        to.copy_from_slice(&(field as u16).to_ne_bytes());
    }
    header
}

#[cfg(test)]
mod tests {
    use std::cell::{Cell, RefCell};

    use fullpipe_cc::{Duration, Instant};
    use fullpipe_path::Ecn;

    use super::super::datagram::tests::{PAIRS, datagram};
    use super::super::ip::{self, word};
    use super::*;

    fn due(packets: &[Vec<u8>]) -> Vec<Delivered<Vec<u8>>> {
        let delivered = |payload: &Vec<u8>| {
            let (at, queued, payload) = (Instant::default(), Duration::ZERO, payload.clone());
            let (ecn, wire_bytes) = (Ecn::NotEct, payload.len() as u32);
            Delivered { at, queued, left_queue: at, wire_bytes, ecn, corrupted: false, payload }
        };
        packets.iter().map(delivered).collect()
    }

    #[test]
    fn datagrams_of_one_flow_and_size_are_written_together() {
        for pair in PAIRS {
            let of = |bytes: usize| datagram(pair, &vec![7; bytes]);
            let (full, headers) = (of(1200), of(1).len() - 1);
            let together = |packets: &[Vec<u8>]| super::together(&due(packets));
            let then = |third: Vec<u8>| [full.clone(), full.clone(), third, full.clone()];
            assert_eq!(together(&then(full.clone())), 4);
            assert_eq!(together(&then(of(1199))), 3, "a smaller one is the last");
            assert_eq!(together(&then(of(1201))), 2);
            assert_eq!(together(&then(datagram((pair.1, pair.0), &[7; 1200]))), 2);
            let mut marked = full.clone();
            ip::mark(&mut marked, Ecn::Ce);
            assert_eq!(together(&then(marked.clone())), 2, "a codepoint is of all of them");
            assert_eq!(together(&[marked.clone(), marked.clone(), full.clone()]), 2);
            for (at, protocol) in [(9, 6), (6, 6)] {
                let mut tcp = full.clone();
                tcp[at] = protocol;
                assert_eq!(together(&[tcp.clone(), tcp]), 1);
            }
            assert_eq!(together(&vec![of(100); 200]), MOST_PACKETS);
            assert_eq!(together(&vec![of(9000); 20]), MOST_BYTES / (9000 + headers));
            assert_eq!(together(&vec![of(65_400); 2]), 1);
            assert_eq!((together(&[]), together(&[of(0), of(0)])), (0, 1));
        }
        let junk = vec![0x45; 40];
        assert_eq!(super::together(&due(&[junk.clone(), junk])), 1);
        assert_eq!(super::together(&due(&[vec![], vec![]])), 1);
    }

    /// Gives a reader these frames in one turn; the packets that it takes, and the bytes of those
    /// that it refuses.
    fn read(reader: &mut Reader, frames: &[Vec<u8>]) -> (Vec<Vec<u8>>, Vec<usize>) {
        let (frames, mut taken) = (RefCell::new(frames.iter()), Vec::new());
        let mut refused = Vec::new();
        let receive = |to: &mut [u8]| {
            let frame = frames.borrow_mut().next().ok_or(ErrorKind::WouldBlock)?;
            to[..frame.len()].copy_from_slice(frame);
            Ok(frame.len())
        };
        let take = |packet: &[u8]| {
            taken.push(packet.to_vec());
            true
        };
        let is_empty = reader.read(receive, take, |bytes| refused.push(bytes)).expect("no error");
        assert_eq!(is_empty, taken.len() < PACKETS_A_TURN);
        (taken, refused)
    }

    #[test]
    fn what_is_written_together_is_cut_into_the_same_again() {
        for pair in PAIRS {
            let parts: Vec<_> = [1200, 1200, 700].map(|n| datagram(pair, &vec![n as u8; n])).into();
            let bytes = parts.iter().map(Vec::len).sum();
            let (merged, transport) = merged_headers(&parts[0], 3, bytes).expect("of UDP");
            let data = transport + UDP_HEADER;
            let whole = parts.iter().flat_map(|part| &part[data..]).copied();
            let whole: Vec<u8> = merged[..data].iter().copied().chain(whole).collect();
            let virtio = many(data, 1200, transport);
            assert_eq!(virtio[2..4], (data as u16).to_ne_bytes(), "the length of the headers");
            let (cut, _) = read(&mut Reader::new(), &[behind(virtio, &whole)]);
            let same = |(is, part): (&Vec<u8>, &Vec<u8>)| {
                is.len() == part.len() && is[transport..] == part[transport..]
            };
            assert!(cut.len() == 3 && cut.iter().zip(&parts).all(same), "{pair:?}");
            assert!(cut.iter().all(|packet| Datagram::of(packet).is_some()));
        }
    }

    fn behind(virtio: [u8; VIRTIO_NET_HDR_LEN], packet: &[u8]) -> Vec<u8> {
        [&virtio[..], packet].concat()
    }

    #[test]
    fn a_packet_of_any_size_is_read() {
        let mut reader = Reader::new();
        for bytes in [1, 1500, 1501, 9000, 65_535] {
            let packet = vec![0x45; bytes];
            let (taken, refused) = read(&mut reader, &[behind(ONE_PACKET, &packet)]);
            assert!(taken == [packet] && refused.is_empty(), "{bytes}");
        }
    }

    #[test]
    fn a_packet_of_any_number_of_segments_is_cut() {
        let mut reader = Reader::new();
        for (segment, data) in
            [(1200, 44 * 1200), (8972, 60_000), (1200, 1201), (5, 4000), (1, 700)]
        {
            for pair in PAIRS {
                let content: Vec<u8> = (0..data).map(|i| (i / segment) as u8).collect();
                let whole = datagram(pair, &content);
                let headers = whole.len() - data;
                let virtio = many(headers, segment, headers - UDP_HEADER);
                let (taken, refused) = read(&mut reader, &[behind(virtio, &whole)]);
                assert_eq!((taken.len(), refused.len()), (data.div_ceil(segment), 0));
                let cut: Vec<_> =
                    content.chunks(segment).map(|part| datagram(pair, part)).collect();
                let same = |(i, (is, should)): (usize, (&Vec<u8>, &Vec<u8>))| {
                    // Only the first has the identification of the whole.
                    is.len() == should.len()
                        && is[headers..] == should[headers..]
                        && (i > 0 || is == should)
                };
                assert!(taken.iter().zip(&cut).enumerate().all(same), "{segment} {data}");
                assert!(taken.iter().all(|packet| Datagram::of(packet).is_some()));
            }
        }
    }

    #[test]
    fn what_cannot_be_cut_is_refused_and_the_next_packet_is_read() {
        let whole = datagram(PAIRS[0], &[7; 3000]);
        let (headers, segment) = (28, 1200);
        let mut kind = many(headers, segment, 20);
        kind[1] = 9;
        let wrong = [
            behind(kind, &whole),
            behind(many(headers, 0, 20), &whole),
            behind(many(headers, segment, 65_535), &whole),
            behind(many(headers, segment, 20), &[]),
            behind(many(headers, segment, 20), &whole[..22]),
            vec![1; 3],
            vec![],
        ];
        let good = behind(ONE_PACKET, &whole);
        let mut reader = Reader::new();
        for frame in wrong {
            let bytes = frame.len().saturating_sub(VIRTIO_NET_HDR_LEN);
            let (taken, refused) = read(&mut reader, &[frame, good.clone()]);
            assert!((taken, refused) == (vec![whole.clone()], vec![bytes]), "{bytes}");
        }
    }

    #[test]
    fn a_turn_ends_also_where_no_packet_enters_the_path() {
        let frame = behind(ONE_PACKET, &datagram(PAIRS[0], b"data"));
        let burst = behind(many(28, 100, 20), &datagram(PAIRS[0], &[7; 4000]));
        for (frame, enters, reads) in [
            (&frame, false, READS_A_TURN),
            (&frame, true, PACKETS_A_TURN),
            (&burst, false, READS_A_TURN),
            (&burst, true, 1),
        ] {
            let count = Cell::new(0);
            let receive = |to: &mut [u8]| {
                count.set(count.get() + 1);
                to[..frame.len()].copy_from_slice(frame);
                Ok(frame.len())
            };
            let is_empty = Reader::new().read(receive, |_| enters, |_| ());
            assert!(!is_empty.expect("no error"));
            assert_eq!(count.get(), reads);
        }
    }

    #[test]
    fn a_completed_checksum_of_udp_is_never_none() {
        for (offset, first, expected) in
            [(UDP_CHECKSUM, 0xff, 0xffff), (UDP_CHECKSUM, 1, 0xfefe), (16, 0xff, 0)]
        {
            let mut packet = vec![0; 40];
            packet[20..22].fill(first);
            complete(&mut packet, 20, offset).expect("it is inside");
            assert_eq!(word(&packet, 20 + offset), expected);
        }
        let mut short = [0; 27];
        assert!(complete(&mut short, 20, 6).is_none() && complete(&mut short, 28, 0).is_none());
    }
}
