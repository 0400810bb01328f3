//! A file of the packets at both ends of a link, in the format of pcapng, as Wireshark and tcpdump
//! read it.

use std::borrow::Cow;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::net::SocketAddr;
use std::path::Path;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::{self, JoinHandle};
use std::time::{self, SystemTime};

use fullpipe_cc::Instant;
use fullpipe_traffic::Direction;
use pcap_file::pcapng::PcapNgWriter;
use pcap_file::pcapng::blocks::enhanced_packet::EnhancedPacketBlock;
use pcap_file::pcapng::blocks::interface_description::{
    InterfaceDescriptionBlock, InterfaceDescriptionOption,
};
use pcap_file::{DataLink, PcapError};
use smoltcp::phy::ChecksumCapabilities;
use smoltcp::wire::{IpProtocol, IpRepr, UDP_HEADER_LEN, UdpPacket, UdpRepr};

use crate::EmuError;
use crate::clock::Clock;

/// Packets that wait to be written; more are not kept.
const WAITING: usize = 100_000;

/// The exponent of the times' resolution: nanoseconds.
const NANOSECONDS: u8 = 9;

/// The header before each packet: no addresses, as on a loopback device, and the packet's protocol.
/// libpcap refuses a file with two interfaces of bare IP packets (LINKTYPE_RAW), because it
/// compares the second one's number with its own number for the first.
const ETHERNET_HEADER: usize = 14;

/// Hop limit of headers that are made for the file alone.
const HOPS: u8 = 64;

/// An end of a link, which is an interface of the file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum LinkEnd {
    /// The clients', or the client's.
    Client = 0,
    /// The server's.
    Server = 1,
}

impl LinkEnd {
    /// The end at which packets of a direction enter.
    pub(crate) fn entry(direction: Direction) -> Self {
        match direction {
            Direction::Down => Self::Server,
            Direction::Up => Self::Client,
        }
    }

    /// The end at which they leave.
    pub(crate) fn exit(direction: Direction) -> Self {
        match direction {
            Direction::Down => Self::Client,
            Direction::Up => Self::Server,
        }
    }
}

/// Result of a capture.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CaptureReport {
    /// Packets in the file.
    pub written: u64,
    /// Packets that are not in the file, because it was written too slowly.
    pub missing: u64,
    /// The error that ended it early.
    pub error: Option<String>,
}

/// A packet and its place.
struct Packet {
    end: LinkEnd,
    /// Since 1970.
    at: time::Duration,
    data: Vec<u8>,
}

/// A file that is being written, by a thread of its own: the link's does not wait for a disk.
#[derive(Debug)]
pub(crate) struct Capture {
    /// The zero of the link's clock, since 1970.
    zero: time::Duration,
    packets: SyncSender<Packet>,
    thread: JoinHandle<(u64, Result<(), PcapError>)>,
    missing: u64,
}

impl Capture {
    /// Makes the file.
    pub(crate) fn create(path: &Path, clock: Clock) -> Result<Self, EmuError> {
        let cannot = |source| EmuError::Capture { path: path.to_owned(), source };
        let file = File::create(path).map_err(cannot)?;
        let writer = start(BufWriter::new(file)).map_err(|e| cannot(std::io::Error::other(e)))?;
        let wall = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let since_zero: time::Duration = clock.now().since(Instant::default()).into();
        let (packets, waiting) = sync_channel(WAITING);
        let thread = thread::Builder::new()
            .name("fullpipe-pcap".to_owned())
            .spawn(move || write(writer, &waiting))
            .map_err(EmuError::io("start a thread"))?;
        Ok(Self { zero: wall.saturating_sub(since_zero), packets, thread, missing: 0 })
    }

    /// An IP packet entered or left at an end.
    pub(crate) fn note(&mut self, end: LinkEnd, at: Instant, packet: &[u8]) {
        self.push(end, at, packet);
    }

    /// A datagram entered or left at an end. Its headers are made for the file.
    pub(crate) fn note_datagram(
        &mut self,
        end: LinkEnd,
        at: Instant,
        (from, to): (SocketAddr, SocketAddr),
        payload: &[u8],
    ) {
        if from.is_ipv4() == to.is_ipv4() {
            self.push(end, at, &with_headers(from, to, payload));
        }
    }

    fn push(&mut self, end: LinkEnd, at: Instant, packet: &[u8]) {
        let data = frame(packet);
        let at = self.zero + at.since(Instant::default()).into();
        if self.packets.try_send(Packet { end, at, data }).is_err() {
            self.missing += 1;
        }
    }

    /// Waits until all is written.
    pub(crate) fn finish(self) -> CaptureReport {
        drop(self.packets);
        let (written, error) = match self.thread.join() {
            Ok((written, result)) => (written, result.err().map(|e| e.to_string())),
            Err(_) => (0, Some(EmuError::Panicked.to_string())),
        };
        CaptureReport { written, missing: self.missing, error }
    }
}

/// Writes what stands before the packets.
fn start(file: BufWriter<File>) -> Result<PcapNgWriter<BufWriter<File>>, PcapError> {
    let mut writer = PcapNgWriter::new(file)?;
    for name in ["client", "server"] {
        writer.write_pcapng_block(InterfaceDescriptionBlock {
            linktype: DataLink::ETHERNET,
            snaplen: 0,
            options: vec![
                InterfaceDescriptionOption::IfName(name.into()),
                InterfaceDescriptionOption::IfTsResol(NANOSECONDS),
            ],
        })?;
    }
    Ok(writer)
}

/// Writes packets until there are no more to come; their number.
fn write(
    mut writer: PcapNgWriter<BufWriter<File>>,
    packets: &Receiver<Packet>,
) -> (u64, Result<(), PcapError>) {
    let mut written = 0;
    for Packet { end, at, data } in packets {
        let block = EnhancedPacketBlock {
            interface_id: end as u32,
            timestamp: at,
            original_len: data.len() as u32,
            data: Cow::Owned(data),
            options: Vec::new(),
        };
        if let Err(error) = writer.write_pcapng_block(block) {
            return (written, Err(error));
        }
        written += 1;
    }
    (written, writer.get_mut().flush().map_err(PcapError::IoError))
}

/// An IP packet in a frame of Ethernet.
fn frame(packet: &[u8]) -> Vec<u8> {
    let protocol: u16 =
        if packet.first().is_some_and(|byte| byte >> 4 == 6) { 0x86DD } else { 0x0800 };
    let mut frame = vec![0; ETHERNET_HEADER];
    frame[12..].copy_from_slice(&protocol.to_be_bytes());
    frame.extend_from_slice(packet);
    frame
}

/// A datagram as the IP packet that carried it.
fn with_headers(from: SocketAddr, to: SocketAddr, payload: &[u8]) -> Vec<u8> {
    let (source, destination) = (from.ip().into(), to.ip().into());
    let length = UDP_HEADER_LEN + payload.len();
    let ip = IpRepr::new(source, destination, IpProtocol::Udp, length, HOPS);
    let mut packet = vec![0; ip.buffer_len()];
    let checksums = ChecksumCapabilities::default();
    ip.emit(&mut packet, &checksums);
    let udp = UdpRepr { src_port: from.port(), dst_port: to.port() };
    udp.emit(
        &mut UdpPacket::new_unchecked(&mut packet[ip.header_len()..]),
        &source,
        &destination,
        payload.len(),
        |place| place.copy_from_slice(payload),
        &checksums,
    );
    packet
}

#[cfg(test)]
mod tests {
    use smoltcp::wire::{Ipv4Packet, Ipv6Packet};

    use super::*;

    #[test]
    fn a_packet_is_framed_by_its_version() {
        for (first, protocol) in [(0x45, [8, 0]), (0x60, [0x86, 0xDD])] {
            let frame = frame(&[first, 1, 2]);
            assert_eq!((&frame[12..14], &frame[14..]), (&protocol[..], &[first, 1, 2][..]));
        }
    }

    #[test]
    fn a_datagram_gets_the_headers_that_it_had() {
        let payload = b"an odd length";
        let (from, to) = (([127, 0, 0, 1], 4000).into(), ([10, 0, 0, 2], 443).into());
        let packet = with_headers(from, to, payload);
        assert_eq!(packet.len(), 28 + payload.len());
        let ip = Ipv4Packet::new_checked(&packet).expect("an IP packet");
        assert!(ip.verify_checksum());
        let udp = UdpPacket::new_checked(ip.payload()).expect("a datagram");
        assert!(udp.verify_checksum(&ip.src_addr().into(), &ip.dst_addr().into()));
        assert_eq!((udp.src_port(), udp.dst_port(), udp.payload()), (4000, 443, &payload[..]));

        let (from, to) = ("[::1]:5".parse().expect("one"), "[2001:db8::1]:6".parse().expect("one"));
        let packet = with_headers(from, to, payload);
        assert_eq!(packet.len(), 48 + payload.len());
        let ip = Ipv6Packet::new_checked(&packet).expect("an IP packet");
        let udp = UdpPacket::new_checked(ip.payload()).expect("a datagram");
        assert!(udp.verify_checksum(&ip.src_addr().into(), &ip.dst_addr().into()));
    }
}
