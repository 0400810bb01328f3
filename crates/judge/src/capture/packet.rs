//! Segments of TCP and datagrams of UDP in captured packets, of which the end may be missing.

use std::net::SocketAddr;

use smoltcp::wire::{TCP_HEADER_LEN as HEADER_LEN, TcpOption, TcpPacket};

use super::file::Frame;
use super::headers::{self, Closed};

/// A packet's ends and its transport.
#[derive(Clone, Copy, Debug)]
pub(super) struct Packet<'a> {
    pub(super) from: SocketAddr,
    pub(super) to: SocketAddr,
    /// The bits of ECN.
    pub(super) ecn: u8,
    /// TTL, or the hop limit.
    pub(super) hops: u8,
    /// IPv4's identification; nothing where its sender does not use it.
    pub(super) id: Option<u16>,
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
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
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
    pub(super) options_len: u8,
    /// The capture ends inside the options: those that are missing here may have been there.
    pub(super) are_options_cut: bool,
    /// TSval and TSecr.
    pub(super) timestamps: Option<(u32, u32)>,
    pub(super) sack: [Option<(u32, u32)>; 3],
    pub(super) mss: Option<u16>,
    pub(super) scale: Option<u8>,
}

impl<'a> Packet<'a> {
    /// The segment or datagram of a frame; otherwise the reason why there is none.
    pub(super) fn of(frame: &Frame<'a>) -> Result<Self, Closed> {
        let inner = headers::open(frame.link, frame.bytes, frame.length)?;
        let body = inner.bytes;
        let port = |at: usize| {
            let two = body.get(at..).and_then(|b| b.first_chunk()).ok_or(Closed::Cut)?;
            Ok(u16::from_be_bytes(*two))
        };
        let (from, to) = (port(0)?, port(2)?);
        let transport = if inner.is_udp {
            // What lies behind the datagram is padding of the link.
            let length = u32::from(port(4)?).min(inner.length);
            let length = length.checked_sub(8).ok_or(Closed::Damaged)?;
            let payload = body.get(8..).ok_or(Closed::Cut)?;
            Transport::Udp(&payload[..payload.len().min(length as usize)], length)
        } else {
            Transport::Tcp(Tcp::of(body, inner.length)?)
        };
        Ok(Self {
            from: (inner.from, from).into(),
            to: (inner.to, to).into(),
            ecn: inner.ecn,
            hops: inner.hops,
            id: inner.id,
            transport,
        })
    }
}

impl Tcp {
    /// The number of the first byte of its data: a SYN, which may have data (RFC 7413), takes one.
    pub(super) fn data_seq(&self) -> u32 {
        self.seq.wrapping_add(u32::from(self.syn))
    }

    fn of(body: &[u8], length: u32) -> Result<Self, Closed> {
        if body.len() < HEADER_LEN {
            return Err(Closed::Cut);
        }
        // Its fixed part is there; its options may be cut.
        let packet = TcpPacket::new_unchecked(body);
        let header = usize::from(packet.header_len());
        if header < HEADER_LEN {
            return Err(Closed::Damaged);
        }
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
            payload: length.checked_sub(header as u32).ok_or(Closed::Damaged)?,
            options_len: (header - HEADER_LEN) as u8,
            are_options_cut: body.len() < header,
            ..Self::default()
        };
        let mut options = &body[HEADER_LEN..header.min(body.len())];
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
        Ok(tcp)
    }
}
