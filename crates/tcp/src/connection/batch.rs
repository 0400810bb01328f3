//! ACKs of segments that are taken in together, before anything leaves.
//!
//! A driver may take in many segments at once, and one ACK covers those in order. It must not cover
//! others: a count of three bits cannot tell of more marks than seven (RFC 9768 section
//! 3.2.2.5.1), and without SACK the number of duplicate ACKs is all that the peer learns of
//! segments out of order (RFC 5681 section 4.2). There the ACK that is due is kept as it is, and
//! leaves by itself before any other.

use alloc::vec::Vec;

use fullpipe_cc::Instant;

use super::Connection;
use crate::receiver::Span;
use crate::seq;
use crate::wire::{Control, Header, Segment};

impl Connection {
    /// Before `segment` is taken in: keeps the ACK that is due if it must not cover this one too.
    pub(super) fn keep_ack(&mut self, now: Instant, segment: &Segment<'_>) {
        let may_keep = self.acks.may_keep() && self.state.is_synchronized();
        if !may_keep || !self.exceeds_marks(segment) && !self.is_disordered(segment) {
            return;
        }
        let header = self.pure_ack(now);
        self.recent.last_ack = self.receive.next();
        self.acks.keep(now, header);
    }

    /// RFC 5681 section 4.2: a segment out of order has an ACK at once, and so has one that fills a
    /// gap. With SACK one ACK tells of several.
    fn is_disordered(&self, segment: &Segment<'_>) -> bool {
        let start = seq::place(self.receive.next(), segment.header.seq);
        let is_out_of_order = start > self.receive.next() || self.acks.is_of_disorder();
        !self.options.sack && !segment.payload.is_empty() && is_out_of_order
    }

    /// The header of an ACK without data.
    pub(super) fn pure_ack(&mut self, now: Instant) -> Header {
        let mut header = self.header(now, self.send.nxt);
        if header.sack[0].is_none() {
            self.put_marks(&mut header, true);
        }
        header
    }

    /// Sends the oldest ACK that is kept; whether there was one. Others left since.
    pub(super) fn transmit_kept(&mut self, now: Instant, out: &mut Vec<u8>) -> bool {
        let Some(mut header) = self.acks.take_kept(now) else { return false };
        header.seq = self.send.nxt as u32;
        let value = self.timestamp(now);
        if let Some(timestamp) = &mut header.timestamp {
            timestamp.value = value;
        }
        self.put_packet(out, &header, Span::default());
        true
    }

    /// Takes in a segment that a device has merged of marked packets as if they had come in smaller
    /// ones, so that each can have its ACK.
    pub(super) fn take_apart(&mut self, now: Instant, segment: &Segment<'_>) {
        let Some(most) = self.packets_at_once(segment) else {
            return self.take_segment(now, segment);
        };
        let Segment { mut header, payload: mut rest, mut packets, .. } = *segment;
        let bytes = rest.len().div_ceil(packets as usize) * most as usize;
        while packets > most && rest.len() > bytes {
            let (payload, others) = rest.split_at(bytes);
            let first = Header { control: Control::None, ..header };
            self.take_segment(now, &Segment { header: first, payload, packets: most, ..*segment });
            // What the SACK blocks say is said.
            header =
                Header { seq: header.seq.wrapping_add(bytes as u32), sack: [None; 3], ..header };
            (rest, packets) = (others, packets - most);
        }
        self.take_segment(now, &Segment { header, payload: rest, packets, ..*segment });
    }
}
