//! New segments of one size that leave together, for a device that makes packets of them (TCP
//! segmentation offload).

use alloc::vec::Vec;

use fullpipe_cc::{Instant, SendDecision};

use super::Connection;
use crate::receiver::Span;
use crate::virtio;
use crate::wire::{self, Burst};

impl Connection {
    /// As [`Self::transmit`], for a device with a virtio network header, which is in front. The
    /// data of the segments that may leave at once after the packet's own, and that its header
    /// fits, is behind it. See [`Endpoint::transmit_virtio`](crate::Endpoint::transmit_virtio).
    pub fn transmit_virtio(&mut self, now: Instant, out: &mut Vec<u8>) -> bool {
        let start = self.send.nxt;
        // A duplicate is reported once (RFC 2883 section 4), and a burst would repeat the report.
        let tells = self.acks.duplicate.is_some();
        if !self.transmit(now, out) {
            return false;
        }
        let burst = if tells { None } else { self.extend(now, start, out) };
        virtio::put(out, burst);
        true
    }

    /// With accurate feedback CWR is no flag of its own but a bit of the count of marks.
    const fn keeps_cwr(&self) -> bool {
        self.options.accurate_ecn && self.config.offload_keeps_cwr
    }

    /// Makes a burst of a packet that left, if more like it may leave; it began at `start` if its
    /// data is new.
    fn extend(&mut self, now: Instant, start: u64, out: &mut Vec<u8>) -> Option<Burst> {
        let first = Span { start, end: self.send.nxt };
        let size = first.end - first.start;
        let is_plain = self.flight.last().is_some_and(|s| s.span == first && !s.fin && !s.is_probe);
        let may_repeat = wire::may_repeat_header(out, self.keeps_cwr());
        if !is_plain || size != u64::from(self.payload()) || !may_repeat {
            return None;
        }
        if self.numbers_packets() {
            // Each packet has an identification of its own (RFC 6864 section 4.1).
            return None;
        }
        let mut added = false;
        while let Some(span) = self.next_of_burst(now, size, out.len()) {
            self.count_new(now, span, false);
            self.count_out(span);
            self.data.get(span).iter().for_each(|part| out.extend_from_slice(part));
            added = true;
            if span.end - span.start < size {
                break;
            }
        }
        if !added {
            return None;
        }
        wire::make_burst(out, size as u16, self.send.nxt == self.data.end())
    }

    /// The next segment, if it is a new one without a FIN that may leave now, and nothing else is
    /// to be done before. Whatever is not so simple is left to [`Self::transmit`].
    fn next_of_burst(&mut self, now: Instant, size: u64, held: usize) -> Option<Span> {
        let is_special = self.reset.is_some()
            || self.probe_due.is_some()
            || self.prr.is_some()
            || self.marks.reduced
            || self.recovery.holds_all()
            || self.flight.has_lost()
            || u64::from(self.payload()) != size
            || held + size as usize > wire::LARGEST_PACKET
            || self.mtu_probe(now).is_some();
        if is_special {
            return None;
        }
        let (span, fin) = self.next_new(size as u32)?;
        let may = !fin
            && matches!(self.cc.can_send(now), SendDecision::Now { .. })
            && !self.is_window_full();
        may.then_some(span)
    }
}
