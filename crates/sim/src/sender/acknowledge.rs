//! What an ACK does to its sender.

use fullpipe_cc::{Duration, Instant, RttSample};

use super::Sender;
use crate::packet::{Ack, Named};
use crate::receiver::Receiver;

impl Sender {
    /// Takes in an ACK; the round trip that it measured.
    #[inline]
    pub(crate) fn on_ack(
        &mut self,
        now: Instant,
        ack: &Ack,
        receiver: &mut Receiver,
    ) -> Option<Duration> {
        self.check_if_application_limited();
        self.max_data = self.max_data.max(ack.max_data);
        if self.on_ack_in_order(now, ack, receiver) {
            return self.flight.rtt.latest;
        }
        let news = self.flight.on_ack(now, ack, receiver, &mut self.cc);
        if !news.any {
            return None;
        }
        self.pto_count = 0;
        if news.spurious {
            self.cc.on_spurious_loss(now);
            if let Some(tcp) = &mut self.flight.tcp {
                tcp.on_spurious_loss();
                tcp.prr = None;
            }
        }
        let flight = self.cc.inflight();
        let marked = self.newly_marked(ack, self.flight.newly_acked(), self.flight.largest_acked());
        let mut batch = self.cc.ack(now);
        self.flight.tell_acked(&mut batch);
        if let Some(rtt) = news.rtt {
            batch.rtt(RttSample::Exact(rtt));
        }
        batch.receiver_delay(ack.receiver_delay);
        batch.ack_delay(ack.ack_delay);
        batch.ce(marked);
        if news.repaired_loss {
            batch.repaired_loss();
            self.stats.lost_packets += 1;
            self.stats.lost_bytes += u64::from(self.payload);
        }
        let losses = self.flight.detect_losses(now, &mut batch);
        batch.finish();
        self.reduce(flight, &news, losses);
        if losses.packets > 0 {
            self.count(losses);
        }
        if self.flight.scoreboard.is_some() && self.source.writes.buffer.is_some() {
            let arrived = self.flight.arrived_bytes();
            self.source.fill(now, arrived);
        }
        self.flight.forget(now);
        news.rtt
    }

    /// The common case: the ACK names the oldest packets, one after the other, and nothing is
    /// missing. What the general way would come to is known then, at a third of its cost.
    #[inline]
    fn on_ack_in_order(&mut self, now: Instant, ack: &Ack, receiver: &mut Receiver) -> bool {
        let Named::Packets { range, upto, delay } = ack.named else { return false };
        let Some(ranges) = receiver.ranges() else { return false };
        let Some(packets) = self.flight.in_order(ranges.only_named(range, upto)) else {
            return false;
        };
        ranges.forget_to(upto);
        self.pto_count = 0;
        self.flight.measure(now, upto - 1, delay);
        let marked = self.newly_marked(ack, packets as u64, upto - 1);
        let mut batch = self.cc.ack(now);
        self.flight.take_oldest(packets, &mut batch);
        batch.receiver_delay(ack.receiver_delay);
        batch.ack_delay(ack.ack_delay);
        batch.ce(marked);
        batch.finish();
        self.flight.forget_if_due(now);
        true
    }

    /// The newly marked packets of which an ACK tells that acknowledges so many, with `largest` the
    /// newest packet so far; none if the field is changed on the way.
    #[inline]
    fn newly_marked(&mut self, ack: &Ack, newly_acked: u64, largest: u64) -> u64 {
        let Some(ecn) = &mut self.ecn else { return 0 };
        let counts = (ack.ecn_packets, ack.ce_packets);
        ecn.on_ack(newly_acked, counts, (largest, self.flight.next_pn()));
        let marked = ack.ce_packets.saturating_sub(self.ce_packets);
        self.ce_packets = self.ce_packets.max(ack.ce_packets);
        if ecn.has_failed() { 0 } else { marked }
    }
}
