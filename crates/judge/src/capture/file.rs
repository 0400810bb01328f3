//! Packets of a capture file in the formats pcap and pcapng, as tcpdump and Wireshark write them.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, BufRead, Read as _};
use std::path::Path;

use byteorder_slice::{BigEndian, LittleEndian};
use fullpipe_scenario::trace::unpacked;
use pcap_file::pcap::PcapReader;
use pcap_file::pcapng::blocks::interface_description::{
    InterfaceDescriptionBlock, InterfaceDescriptionOption,
};
use pcap_file::pcapng::{Block, PcapNgReader};
use pcap_file::{DataLink, Endianness, PcapError, TsResolution};

use super::CaptureError;

/// A packet as it was captured.
#[derive(Clone, Copy, Debug)]
pub(super) struct Frame<'a> {
    /// Time since 1970.
    pub(super) at_ns: u64,
    /// Number of its interface; 0 in a pcap.
    pub(super) interface: u32,
    /// Its link type.
    pub(super) link: u32,
    /// As much of it as was captured.
    pub(super) bytes: &'a [u8],
    /// Its length on the wire.
    pub(super) length: u32,
}

/// Remarks about a file besides its packets.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Remarks(BTreeSet<String>);

/// The most remarks on a file.
const MOST_REMARKS: usize = 20;

impl Remarks {
    pub(super) fn add(&mut self, text: String) {
        // A damaged file may have any number of different ones.
        if self.0.len() < MOST_REMARKS {
            self.0.insert(text);
        }
    }

    pub(super) fn into_vec(self) -> Vec<String> {
        self.0.into_iter().collect()
    }
}

/// First bytes of captures: pcap in both orders, with micro- and nanoseconds, and pcapng.
const PCAP: [[u8; 4]; 4] = [
    [0xD4, 0xC3, 0xB2, 0xA1],
    [0xA1, 0xB2, 0xC3, 0xD4],
    [0x4D, 0x3C, 0xB2, 0xA1],
    [0xA1, 0xB2, 0x3C, 0x4D],
];
const PCAPNG: [u8; 4] = [0x0A, 0x0D, 0x0D, 0x0A];

/// Opens a regular file: a pipe would be waited for, and a capture is read twice.
pub(super) fn open(path: &Path) -> Result<Box<dyn BufRead + Send>, CaptureError> {
    let cannot = |e: io::Error| CaptureError(e.to_string());
    if !std::fs::metadata(path).map_err(cannot)?.is_file() {
        return Err(CaptureError("no regular file; write the name of one".to_owned()));
    }
    let file = File::open(path).map_err(cannot)?;
    let (content, _) =
        unpacked(file).map_err(|e| CaptureError(format!("it cannot be read: {e}")))?;
    Ok(content)
}

/// The most bytes of a key log: a connection has about a kilobyte.
const MOST_KEY_BYTES: u64 = 1 << 26;

/// All of a small file of text.
pub(super) fn text(path: &Path) -> Result<String, CaptureError> {
    let mut text = Vec::new();
    let mut content = open(path)?.take(MOST_KEY_BYTES);
    let cannot = |e: io::Error| CaptureError(format!("it cannot be read: {e}"));
    content.read_to_end(&mut text).map_err(cannot)?;
    if content.limit() == 0 {
        return Err(CaptureError("it has more than 64 MiB, and is no key log".to_owned()));
    }
    Ok(String::from_utf8_lossy(&text).into_owned())
}

/// Calls `take` with each packet, in the order of the file. A file that ends
/// too early is used up to its end.
pub(super) fn each(path: &Path, mut take: impl FnMut(Frame<'_>)) -> Result<Remarks, CaptureError> {
    let mut content = open(path)?;
    let start = content.fill_buf().map_err(|e| CaptureError(format!("it cannot be read: {e}")))?;
    let is_pcap = PCAP.iter().any(|magic| start.starts_with(magic));
    let is_pcapng = start.starts_with(&PCAPNG);
    let mut remarks = Remarks::default();
    match (is_pcap, is_pcapng) {
        (true, _) => pcap(content, &mut remarks, &mut take)?,
        (_, true) => pcapng(content, &mut remarks, &mut take)?,
        _ => return Err(CaptureError(foreign(start))),
    }
    Ok(remarks)
}

/// The reason why a file with this beginning is no capture.
fn foreign(start: &[u8]) -> String {
    let begins = |text: &[u8]| start.starts_with(text);
    let why = match start {
        [] => "it is empty",
        _ if begins(b"{") || begins(b"\x1e{") => "it is JSON; a qlog is read with --qlog",
        _ if begins(b"snoop\0") => "it is a capture of snoop; convert it with editcap -F pcap",
        _ if begins(b"\xED\xAB\xEE\xDB") => "it is an RPM package",
        _ => "neither pcap nor pcapng; write a file of tcpdump -w or of Wireshark",
    };
    why.to_owned()
}

/// True if the file ended inside a packet.
fn is_end(error: &PcapError) -> bool {
    match error {
        PcapError::IncompleteBuffer => true,
        PcapError::IoError(e) => e.kind() == io::ErrorKind::UnexpectedEof,
        _ => false,
    }
}

/// Takes note of the error that ended a file.
fn ended(error: &PcapError, packets: u64, remarks: &mut Remarks) {
    let words = match error {
        e if is_end(e) => "the file ends inside a packet".to_owned(),
        PcapError::IoError(e) => format!("the file cannot be read on: {e}"),
        e => format!("the file is damaged: {e}"),
    };
    remarks.add(format!("{words}; it is used up to there ({packets} packets)"));
}

fn wrong(error: &PcapError) -> CaptureError {
    let why = match error {
        e if is_end(e) => "it ends inside its first header".to_owned(),
        PcapError::IoError(e) => format!("it cannot be read: {e}"),
        e => format!("its first header is damaged: {e}"),
    };
    CaptureError(why)
}

fn pcap(
    content: Box<dyn BufRead + Send>,
    remarks: &mut Remarks,
    take: &mut impl FnMut(Frame<'_>),
) -> Result<(), CaptureError> {
    let mut reader = PcapReader::new(content).map_err(|e| wrong(&e))?;
    let header = reader.header();
    let link = link_type(header.datalink);
    let unit = match header.ts_resolution {
        TsResolution::MicroSecond => 1000,
        TsResolution::NanoSecond => 1,
    };
    let mut packets = 0;
    while let Some(packet) = reader.next_raw_packet() {
        let packet = match packet {
            Ok(packet) => packet,
            Err(error) => {
                ended(&error, packets, remarks);
                break;
            }
        };
        packets += 1;
        let at_ns = u64::from(packet.ts_sec) * 1_000_000_000 + u64::from(packet.ts_frac) * unit;
        take(Frame { at_ns, interface: 0, link, bytes: &packet.data, length: packet.orig_len });
    }
    Ok(())
}

/// The number of a link type, without what its upper half says of checksums.
fn link_type(link: DataLink) -> u32 {
    u32::from(link) & 0xFFFF
}

/// An interface of a pcapng.
struct Interface {
    link: u32,
    /// Nanoseconds of a unit of its times, as a fraction.
    unit: (u128, u128),
    /// Seconds that are added to its times.
    offset_s: i64,
}

impl Interface {
    fn of(block: &InterfaceDescriptionBlock<'_>) -> Self {
        // Microseconds where nothing is said.
        let (mut unit, mut offset_s) = ((1000, 1), 0);
        for option in &block.options {
            match option {
                InterfaceDescriptionOption::IfTsResol(n) if n & 0x80 == 0 && *n <= 18 => {
                    unit = (1_000_000_000, 10_u128.pow(u32::from(*n)));
                }
                InterfaceDescriptionOption::IfTsResol(n) if n & 0x7F <= 63 && n & 0x80 != 0 => {
                    unit = (1_000_000_000, 1_u128 << (n & 0x7F));
                }
                InterfaceDescriptionOption::IfTsOffset(s) => offset_s = s.cast_signed(),
                _ => {}
            }
        }
        Self { link: link_type(block.linktype), unit, offset_s }
    }

    fn nanoseconds(&self, ticks: u128) -> u64 {
        let ns = (ticks * self.unit.0 / self.unit.1).cast_signed()
            + i128::from(self.offset_s) * 1_000_000_000;
        u64::try_from(ns.max(0)).unwrap_or(u64::MAX)
    }
}

/// The most interfaces of a section: the library keeps each with its options.
const MOST_INTERFACES: usize = 65_536;

fn pcapng(
    content: Box<dyn BufRead + Send>,
    remarks: &mut Remarks,
    take: &mut impl FnMut(Frame<'_>),
) -> Result<(), CaptureError> {
    let mut reader = PcapNgReader::new(content).map_err(|e| wrong(&e))?;
    let mut interfaces: Vec<Interface> = Vec::new();
    let mut packets = 0;
    loop {
        // A block that the library cannot read is passed by with a remark. A new section says its
        // order of bytes itself.
        let endianness = reader.section().endianness;
        let block = match (reader.next_raw_block(), endianness) {
            (None, _) => break,
            (Some(Ok(raw)), Endianness::Big) => Ok(raw.try_into_block::<BigEndian>()),
            (Some(Ok(raw)), Endianness::Little) => Ok(raw.try_into_block::<LittleEndian>()),
            (Some(Err(error)), _) => Err(error),
        };
        let block = match block {
            Ok(Ok(block)) => Ok(block),
            Ok(Err(error)) => {
                remarks.add(format!("blocks that are damaged are left out: {error}"));
                continue;
            }
            Err(error) => Err(error),
        };
        match block {
            Ok(Block::SectionHeader(_)) => interfaces.clear(),
            Ok(Block::InterfaceDescription(_)) if interfaces.len() >= MOST_INTERFACES => {
                return Err(CaptureError(format!(
                    "it has more than {MOST_INTERFACES} interfaces in a section: it is damaged"
                )));
            }
            Ok(Block::InterfaceDescription(block)) => {
                interfaces.push(Interface::of(&block));
            }
            Ok(Block::EnhancedPacket(packet)) => {
                packets += 1;
                let Some(interface) = interfaces.get(packet.interface_id as usize) else {
                    remarks.add("packets of an interface that the file does not describe".into());
                    continue;
                };
                // The library takes every unit for a nanosecond.
                let at_ns = interface.nanoseconds(packet.timestamp.as_nanos());
                take(Frame {
                    at_ns,
                    interface: packet.interface_id,
                    link: interface.link,
                    bytes: &packet.data,
                    length: packet.original_len,
                });
            }
            Ok(Block::SimplePacket(_) | Block::Packet(_)) => {
                remarks.add("packets without a time, or of an obsolete kind, are left out".into());
            }
            Ok(_) => {}
            Err(error) => {
                ended(&error, packets, remarks);
                break;
            }
        }
    }
    Ok(())
}
