//! Headers of IP, TCP and UDP in a captured packet, of which the end may be missing.

use std::net::{IpAddr, SocketAddr};

use smoltcp::wire::{TcpOption, TcpPacket};

/// A packet's ends and its transport.
#[derive(Clone, Copy, Debug)]
pub(super) struct Packet<'a> {
    pub(super) from: SocketAddr,
    pub(super) to: SocketAddr,
    /// The bits of ECN.
    pub(super) ecn: u8,
    pub(super) transport: Transport<'a>,
}

/// The transport of a packet.
#[derive(Clone, Copy, Debug)]
pub(super) enum Transport<'a> {
    Tcp(Tcp),
    /// A datagram: as much of its payload as was captured, and its length.
    Udp(&'a [u8], u32),
}

/// The fields of a TCP segment that matter here.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Tcp {
    pub(super) seq: u32,
    pub(super) ack: Option<u32>,
    pub(super) window: u16,
    pub(super) syn: bool,
    pub(super) fin: bool,
    pub(super) rst: bool,
    /// The flags AE, CWR and ECE (RFC 9768 section 3.1), the first as the highest bit.
    pub(super) ecn_flags: u8,
    pub(super) payload: u32,
    /// TSval and TSecr.
    pub(super) timestamps: Option<(u32, u32)>,
    pub(super) sack: [Option<(u32, u32)>; 3],
    pub(super) mss: Option<u16>,
    pub(super) scale: Option<u8>,
}

/// The longest packet whose header has no length: a host may hold that much in one before it is
/// divided.
const MOST_UNDIVIDED: u32 = 1 << 20;

const TCP: u8 = 6;
const UDP: u8 = 17;

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    let two = bytes.get(at..at.checked_add(2)?)?;
    Some(u16::from_be_bytes([two[0], two[1]]))
}

impl<'a> Packet<'a> {
    /// A packet of TCP or UDP that begins with its IP header, and its length on the wire; nothing
    /// where it is something else, a later fragment, or cut inside its headers.
    pub(super) fn of(ip: &'a [u8], length: u32) -> Option<Self> {
        let (protocol, ecn, from, to, header, ip_len): (u8, u8, IpAddr, IpAddr, usize, u32) =
            match ip.first()? >> 4 {
                4 => {
                    let head: &[u8; 20] = ip.get(..20)?.try_into().ok()?;
                    // The offset of a fragment.
                    if u16_at(head, 6)? & 0x1FFF != 0 {
                        return None;
                    }
                    let address = |at: usize| <[u8; 4]>::try_from(&head[at..at + 4]).ok();
                    let total = u32::from(u16_at(head, 2)?);
                    // A segment before it is divided may be too long for the field, which is 0.
                    let total = if total == 0 { length.min(MOST_UNDIVIDED) } else { total };
                    let ends = (address(12)?.into(), address(16)?.into());
                    (head[9], head[1] & 3, ends.0, ends.1, usize::from(head[0] & 15) * 4, total)
                }
                6 => {
                    let head: &[u8; 40] = ip.get(..40)?.try_into().ok()?;
                    let address = |at: usize| <[u8; 16]>::try_from(&head[at..at + 16]).ok();
                    let payload = u32::from(u16_at(head, 4)?);
                    let total =
                        if payload == 0 { length.min(MOST_UNDIVIDED) } else { payload + 40 };
                    let ends = (address(8)?.into(), address(24)?.into());
                    (head[6], head[1] >> 4 & 3, ends.0, ends.1, 40, total)
                }
                _ => return None,
            };
        let body = ip.get(header..)?;
        let body_len = ip_len.checked_sub(header as u32)?;
        let ports = (u16_at(body, 0)?, u16_at(body, 2)?);
        let transport = match protocol {
            TCP => Transport::Tcp(Tcp::of(body, body_len)?),
            UDP => {
                // What lies behind the datagram is padding of the link.
                let length = u32::from(u16_at(body, 4)?).min(body_len).checked_sub(8)?;
                let payload = body.get(8..)?;
                Transport::Udp(&payload[..payload.len().min(length as usize)], length)
            }
            _ => return None,
        };
        Some(Self { from: (from, ports.0).into(), to: (to, ports.1).into(), ecn, transport })
    }
}

impl Tcp {
    /// The number of the first byte of its data: a SYN, which may have data (RFC 7413), takes one.
    pub(super) fn data_seq(&self) -> u32 {
        self.seq.wrapping_add(u32::from(self.syn))
    }

    fn of(body: &[u8], length: u32) -> Option<Self> {
        let packet = TcpPacket::new_checked(body).ok()?;
        let mut tcp = Self {
            seq: packet.seq_number().0.cast_unsigned(),
            ack: packet.ack().then(|| packet.ack_number().0.cast_unsigned()),
            window: packet.window_len(),
            syn: packet.syn(),
            fin: packet.fin(),
            rst: packet.rst(),
            ecn_flags: u8::from(packet.ns()) << 2
                | u8::from(packet.cwr()) << 1
                | u8::from(packet.ece()),
            payload: length.checked_sub(u32::from(packet.header_len()))?,
            ..Self::default()
        };
        let mut options = packet.options();
        while let Ok((rest, option)) = TcpOption::parse(options) {
            match option {
                TcpOption::EndOfList => break,
                TcpOption::MaxSegmentSize(mss) => tcp.mss = Some(mss),
                TcpOption::WindowScale(scale) => tcp.scale = Some(scale.min(14)),
                TcpOption::SackRange(ranges) => tcp.sack = ranges,
                TcpOption::TimeStamp { tsval, tsecr } => tcp.timestamps = Some((tsval, tsecr)),
                _ => {}
            }
            options = rest;
        }
        Some(tcp)
    }
}
