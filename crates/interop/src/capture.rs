//! The packets at both ends of a case's link, from the file that the link wrote.

use std::borrow::Cow;
use std::fs::File;
use std::io::{self, BufReader, BufWriter, Write as _};
use std::net::IpAddr;
use std::path::Path;
use std::time::Duration;

use fullpipe_judge::quic::{Datagram, Reader};
use pcap_file::PcapError;
use pcap_file::pcapng::blocks::enhanced_packet::EnhancedPacketBlock;
use pcap_file::pcapng::{Block, PcapNgReader, PcapNgWriter};

/// UDP over IP, and the length of its header.
const UDP: u8 = 17;
const UDP_HEADER: usize = 8;
/// The header of the link's frames.
const ETHERNET_HEADER: usize = 14;

/// The datagrams at the client's end and at the server's.
#[derive(Debug, Default)]
pub(super) struct Capture {
    pub(super) client: Vec<Datagram>,
    pub(super) server: Vec<Datagram>,
}

impl Capture {
    /// Reads a file with an interface for each end, and writes what each has into a file of its
    /// own: whoever looks at one end does not want each packet twice.
    pub(super) fn split(both: &Path, files: [&Path; 2]) -> io::Result<Self> {
        let mut reader = PcapNgReader::new(BufReader::new(File::open(both)?)).map_err(wrong)?;
        let create =
            |path: &Path| PcapNgWriter::new(BufWriter::new(File::create(path)?)).map_err(wrong);
        let [client, server] = files;
        let mut writers = [create(client)?, create(server)?];
        let mut capture = Self::default();
        while let Some(block) = reader.next_block() {
            match block.map_err(wrong)? {
                Block::InterfaceDescription(interface) => {
                    // The first is the client's; each file has both, so that the numbers stay.
                    for writer in &mut writers {
                        writer.write_pcapng_block(interface.clone()).map_err(wrong)?;
                    }
                }
                Block::EnhancedPacket(packet) => {
                    let end = usize::from(packet.interface_id != 0);
                    let of_end = if end == 0 { &mut capture.client } else { &mut capture.server };
                    let ip = packet.data.get(ETHERNET_HEADER..).unwrap_or_default();
                    of_end.extend(datagram(packet.timestamp, ip));
                    let packet = EnhancedPacketBlock {
                        data: Cow::Borrowed(&packet.data),
                        options: Vec::new(),
                        ..packet
                    };
                    writers[end].write_pcapng_block(packet).map_err(wrong)?;
                }
                _ => {}
            }
        }
        for writer in &mut writers {
            writer.get_mut().flush()?;
        }
        Ok(capture)
    }
}

fn wrong(error: PcapError) -> io::Error {
    io::Error::other(error)
}

/// A packet's datagram, if it has one.
fn datagram(at: Duration, packet: &[u8]) -> Option<Datagram> {
    let mut reader = Reader(packet);
    let (ecn, from, to): (u8, IpAddr, IpAddr) = match packet.first()? >> 4 {
        4 => {
            let [first, service] = reader.array()?;
            reader.take(7)?;
            if reader.byte()? != UDP {
                return None;
            }
            reader.take(2)?;
            let ends = (reader.array::<4>()?, reader.array::<4>()?);
            reader.take((usize::from(first & 15) * 4).checked_sub(20)?)?;
            (service & 3, ends.0.into(), ends.1.into())
        }
        6 => {
            let [_, class] = reader.array()?;
            reader.take(4)?;
            if reader.byte()? != UDP {
                return None;
            }
            reader.take(1)?;
            let ends = (reader.array::<16>()?, reader.array::<16>()?);
            (class >> 4 & 3, ends.0.into(), ends.1.into())
        }
        _ => return None,
    };
    let mut port = || reader.array().map(u16::from_be_bytes);
    let (source, destination, length) = (port()?, port()?, port()?);
    reader.take(2)?;
    let payload = reader.take(usize::from(length).checked_sub(UDP_HEADER)?)?.to_vec();
    Some(Datagram { at, from: (from, source).into(), to: (to, destination).into(), ecn, payload })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn datagrams_of_both_families_are_found() {
        let udp = [0x0f, 0xa0, 0x01, 0xbb, 0, 11, 0, 0, 1, 2, 3];
        let mut four = vec![0x45, 2, 0, 31, 0, 0, 0, 0, 64, 17, 0, 0, 198, 18, 0, 2, 198, 18, 0, 1];
        four.extend(udp);
        let found = datagram(Duration::ZERO, &four).expect("a datagram");
        assert_eq!(
            (found.from, found.to),
            ("198.18.0.2:4000".parse().expect("one"), "198.18.0.1:443".parse().expect("one"))
        );
        assert_eq!((found.ecn, found.payload.as_slice()), (2, &[1, 2, 3][..]));
        four[9] = 6;
        assert_eq!(datagram(Duration::ZERO, &four), None, "TCP");
        let mut six = vec![0x60, 0x10, 0, 0, 0, 11, 17, 64];
        six.extend([[0x20, 1, 0, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2], [0; 16]].concat());
        six.extend(udp);
        let found = datagram(Duration::ZERO, &six).expect("a datagram");
        assert_eq!((found.from.to_string().as_str(), found.ecn), ("[2001:2::2]:4000", 1));
        for end in 0..six.len() {
            assert_eq!(datagram(Duration::ZERO, &six[..end]), None);
        }
    }
}
