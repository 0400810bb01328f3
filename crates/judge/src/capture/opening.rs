//! The packets of a flow of QUIC, opened with a key log.

use super::CaptureError;
use super::keyed::Opened;
use crate::quic::{KeyLog, Packet, Tracker};

/// Packets that were opened, in the order of time.
#[derive(Default)]
pub(super) struct Packets {
    pub(super) opened: Vec<Opened>,
    /// Those that were not.
    pub(super) closed: u64,
}

impl Packets {
    /// The most packets of a hundred that may stay closed where numbers that do not come are
    /// losses.
    const MOST_CLOSED_PERCENT: u64 = 2;

    /// True if nearly all of them were opened.
    pub(super) fn are_complete(&self) -> bool {
        self.closed * 100 <= Self::MOST_CLOSED_PERCENT * self.opened.len() as u64
    }
}

/// Opens the packets of a flow.
pub(super) struct Opening<'a> {
    tracker: Tracker<'a>,
    /// True if the client sends the data: it is the end whose long header comes first.
    is_client_data_way: Option<bool>,
    opened: Vec<Opened>,
    closed: u64,
    cut: u64,
    /// Bytes of the datagrams that are captured as one, by who sends them.
    segments: [Option<usize>; 2],
    /// Searches for them that found nothing.
    vain: u32,
}

/// Bytes of the datagrams that a host sends at once: from the least of QUIC (RFC 9000 section 14)
/// to what fits into an Ethernet frame.
const SEGMENTS: std::ops::RangeInclusive<usize> = 1200..=1500;

/// The most searches that find nothing.
const MOST_VAIN: u32 = 200;

impl<'a> Opening<'a> {
    pub(super) fn new(keys: &'a KeyLog) -> Self {
        Self {
            tracker: Tracker::new(keys),
            is_client_data_way: None,
            opened: Vec::new(),
            closed: 0,
            cut: 0,
            segments: [None; 2],
            vain: 0,
        }
    }

    pub(super) fn datagram(&mut self, at_s: f64, is_data_way: bool, payload: &[u8], length: u32) {
        if payload.len() < length as usize {
            self.cut += 1;
            return;
        }
        let is_long = payload.first().is_some_and(|first| first & 0x80 != 0);
        if self.is_client_data_way.is_none() && is_long {
            self.is_client_data_way = Some(is_data_way);
        }
        let is_client = self.is_client_data_way.is_none_or(|is_its| is_its == is_data_way);
        for packet in self.packets(payload, usize::from(!is_client)) {
            match Opened::of(at_s, is_data_way, packet) {
                Some(packet) => self.opened.push(packet),
                None => self.closed += 1,
            }
        }
    }

    /// The packets of a datagram. A host that sends several at once hands them to the network as
    /// one, and is captured so (segmentation offload); whoever receives them may join them as well.
    fn packets(&mut self, payload: &[u8], way: usize) -> Vec<Packet> {
        if let Some(packets) = self.segments[way].and_then(|size| self.split(payload, size, way)) {
            return packets;
        }
        let whole = self.tracker.datagram(payload, way);
        let is_open = whole.iter().all(|packet| packet.opened.is_some());
        if is_open || payload.len() <= *SEGMENTS.start() || self.vain >= MOST_VAIN {
            return whole;
        }
        for size in SEGMENTS {
            if let Some(packets) = self.split(payload, size, way) {
                self.segments[way] = Some(size);
                return packets;
            }
        }
        self.vain += 1;
        whole
    }

    /// The packets of datagrams of this size, the last of which may be shorter; nothing if the
    /// first one is not opened.
    fn split(&mut self, payload: &[u8], size: usize, way: usize) -> Option<Vec<Packet>> {
        let (first, rest) = payload.split_at_checked(size).filter(|parts| !parts.1.is_empty())?;
        let mut packets = self.tracker.datagram(first, way);
        if packets.is_empty() || packets.iter().any(|packet| packet.opened.is_none()) {
            return None;
        }
        packets.extend(rest.chunks(size).flat_map(|part| self.tracker.datagram(part, way)));
        Some(packets)
    }

    /// All of them.
    ///
    /// # Errors
    /// None is opened.
    pub(super) fn finish(self, first_s: f64) -> Result<Packets, CaptureError> {
        let Self { mut opened, closed, cut, .. } = self;
        if cut > closed.max(opened.len() as u64) {
            return Err(CaptureError(
                "its packets are cut, and only whole ones can be opened; capture with tcpdump -s 0"
                    .to_owned(),
            ));
        }
        // Handshakes begin with keys that everybody has.
        if opened.iter().all(Opened::is_of_handshake) {
            return Err(CaptureError(
                "no packet behind the handshake is opened by the key log: it has no secret of this \
                 connection, or the capture begins after the handshake, which names the connection"
                    .to_owned(),
            ));
        }
        opened.iter_mut().for_each(|packet| packet.at_s -= first_s);
        opened.sort_by(|a, b| a.at_s.total_cmp(&b.at_s));
        Ok(Packets { opened, closed: closed + cut })
    }
}
