//! Packets, acknowledgements and what they carry.

use std::sync::Arc;

use fullpipe_cc::{Duration, Instant};

use crate::network::{CrossPacket, Packet};

/// A piece of the application's data: the same in every packet that carries it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Chunk {
    pub(crate) id: u64,
    /// The time at which the application wrote its last byte.
    pub(crate) written: Instant,
    pub(crate) bytes: u32,
}

impl Chunk {
    /// Placeholder for data in the sender's part of the handshake.
    pub(crate) const HANDSHAKE: Self =
        Self { id: u64::MAX, written: Instant::from_nanos(0), bytes: 0 };
}

/// A packet of a flow, from its sender to its receiver. The chunk's fields stand by themselves, so
/// that the two small ones share a word: a link keeps each packet in one cache line then.
#[derive(Clone, Copy, Debug)]
pub struct Data {
    /// The number of the flow, or of the cross traffic.
    pub(crate) flow: u32,
    chunk_bytes: u32,
    chunk_id: u64,
    chunk_written: Instant,
    pub(crate) pn: u64,
    pub(crate) sent: Instant,
}

impl Data {
    #[inline]
    pub(crate) fn new(flow: u32, pn: u64, sent: Instant, chunk: Chunk) -> Self {
        let Chunk { id: chunk_id, written: chunk_written, bytes: chunk_bytes } = chunk;
        Self { flow, chunk_bytes, chunk_id, chunk_written, pn, sent }
    }

    #[inline]
    pub(crate) fn chunk(&self) -> Chunk {
        Chunk { id: self.chunk_id, written: self.chunk_written, bytes: self.chunk_bytes }
    }
}

impl From<CrossPacket> for Data {
    fn from(CrossPacket(number): CrossPacket) -> Self {
        let never = Instant::default();
        Self::new(number, 0, never, Chunk { id: 0, written: never, bytes: 0 })
    }
}

impl Packet for Data {
    #[inline]
    fn flow(&self) -> u32 {
        self.flow
    }

    #[inline]
    fn number(&self) -> u32 {
        self.flow
    }

    /// A corrupted packet fails its checksum behind the link.
    #[inline]
    fn corrupt(&mut self, _before: u64) -> bool {
        false
    }
}

/// Neighbouring numbers, without the end.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Span {
    pub(crate) start: u64,
    pub(crate) end: u64,
}

impl Span {
    pub(crate) fn is_empty(self) -> bool {
        self.start >= self.end
    }
}

/// SACK blocks in a segment that carries timestamps (RFC 2018 section 3).
pub(crate) const SACK_BLOCKS: usize = 3;

/// The SACK option of a segment.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Sacked {
    /// A chunk that arrived although it was here already (RFC 2883).
    pub(crate) dsack: Option<u64>,
    /// The newest first; the empty ones last.
    pub(crate) blocks: [Span; SACK_BLOCKS],
}

/// The packets or chunks that an acknowledgement names.
#[derive(Clone, Debug)]
pub(crate) enum Named {
    /// QUIC: every packet of the receiver's log up to `upto` in the range number `range`. Like
    /// QUIC's ranges it repeats what earlier ACKs said, so that the loss of one costs nothing.
    Packets {
        range: u64,
        upto: u64,
        /// Time between the arrival of the largest packet and this ACK.
        delay: Duration,
    },
    /// TCP: every chunk before `cumulative`, and those of the blocks.
    Chunks {
        cumulative: u64,
        /// TSecr (RFC 7323 section 4.3).
        echo: Instant,
        /// Few ACKs have the option, so that it is not in each of them. It is shared with the
        /// receiver, which uses its memory again.
        sacked: Option<Arc<Sacked>>,
    },
}

/// An acknowledgement.
#[derive(Clone, Debug)]
pub(crate) struct Ack {
    /// The sender may send application data up to this offset: flow control.
    pub(crate) max_data: u64,
    /// Packets that arrived with CE, in all.
    pub(crate) ce_packets: u64,
    /// Packets that arrived with an ECN codepoint, those with CE included.
    pub(crate) ecn_packets: u64,
    /// Time between the newest packet's arrival at the receiver's host and the host's getting to
    /// it.
    pub(crate) receiver_delay: Duration,
    /// Time from then to this ACK.
    pub(crate) ack_delay: Duration,
    pub(crate) named: Named,
}

/// A packet on the return path, from the receiver of a flow to its sender.
#[derive(Clone, Debug)]
pub struct Answer {
    pub(crate) flow: u32,
    pub(crate) up: Up,
}

/// The content of a packet on the return path.
#[derive(Clone, Debug)]
pub(crate) enum Up {
    Ack(Ack),
    /// The receiver's application wants the answer of this number.
    Request(u64),
    /// The receiver's part of the handshake.
    Handshake,
}

impl Packet for Answer {
    #[inline]
    fn flow(&self) -> u32 {
        self.flow
    }

    #[inline]
    fn number(&self) -> u32 {
        self.flow
    }

    /// As [`Data`].
    #[inline]
    fn corrupt(&mut self, _before: u64) -> bool {
        false
    }
}
