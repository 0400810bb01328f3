//! Calls that not every transport makes: questions of an application, a restart after idleness, a
//! pacing timer of the transport's own, ACKs of which only the newest packet is known.

use fullpipe_cc::{AckFrequency, BandwidthProbe, Duration, Rate};

use super::RESUME;
use super::flow::{Flow, Last};

impl Flow {
    /// The initial window crosses the path that was saved, with more to send: a connection that
    /// resumes jumps then. Single events seldom make that up from the start.
    pub(super) fn cross_known_path(&mut self) {
        for _ in 0..8 {
            self.send_allowed(0, 31, 1);
        }
        self.now += RESUME.rtt;
        let packets = core::mem::take(&mut self.outstanding);
        self.report(&packets, Vec::new());
        self.send_allowed(0, 7, 1);
    }

    /// The application asks for a higher rate, and fills the flow up where the answer is that this
    /// is a probe. Asking changes nothing that was answered before.
    pub(super) fn ask(&mut self, exponent: u8, mantissa: u8, fills: bool) {
        let target = Rate::from_bytes_per_sec((1 + u64::from(mantissa)) << (exponent % 40));
        let before = (self.cc.send_rate_estimate(), self.cc.cwnd(), self.cc.inflight());
        let answer = self.cc.probe_bandwidth(self.now, target);
        let after = (self.cc.send_rate_estimate(), self.cc.cwnd(), self.cc.inflight());
        assert_eq!(before, after, "{answer:?} to {target}: {self:?}");
        let is_reached = before.0.is_some_and(|estimate| estimate >= target);
        assert_eq!(
            answer == BandwidthProbe::Reached,
            is_reached,
            "{answer:?} to {target}: {self:?}"
        );
        if answer == BandwidthProbe::Probing && fills {
            self.send_allowed(0, mantissa, 1);
        }
    }

    /// The transport trusts no more than a part of the window after idleness, as TCP does, but at
    /// least the initial one.
    pub(super) fn distrust_window(&mut self, shift: u8) {
        let cwnd = (self.cc.cwnd() >> (shift % 8)).max(self.cc.initial_cwnd());
        self.cc.on_idle(self.now, cwnd);
    }

    /// The transport asks when a number of bytes may leave, and fires its own timer then, late by
    /// up to half an hour; or it asks the receiver for fewer ACKs.
    pub(super) fn keep_own_timer(&mut self, what: u8, count: u8, late: u8) {
        if what.is_multiple_of(4) {
            let packets = u32::from(count);
            let max_delay = Duration::from_millis(u64::from(late));
            let asked = AckFrequency { threshold_packets: packets, max_delay };
            self.cc.on_ack_frequency((count > 8).then_some(asked));
            return;
        }
        let due = self.cc.ready_at(self.now, self.smss * u64::from(count));
        assert!(due >= self.now, "{due:?} is over: {self:?}");
        // A wait of years is none that a timer is set for.
        if due.since(self.now) < Duration::from_secs(3600) {
            self.now = due + Duration::from_nanos(u64::from(late) << (what % 34));
            self.cc.on_pacing_timer(self.now, due);
            self.send_allowed(0, count, 0);
        }
    }

    /// An ACK of the oldest packets by a transport that knows the newest of them alone, and
    /// sometimes of a loss that its probe repaired.
    pub(super) fn ack_cumulatively(&mut self, count: u8, exponent: u8, is_repair: bool) {
        self.now += Duration::from_nanos(1 << (exponent % 30));
        let end = (usize::from(count) + 1).min(self.outstanding.len());
        let packets: Vec<_> = self.outstanding.drain(..end).collect();
        let Some(newest) = packets.last() else { return };
        let total = packets.iter().map(|packet| packet.size()).sum();
        self.note_round_trip(&packets);
        self.batch(|ack| {
            ack.acked_bytes(newest, total);
            if is_repair {
                ack.repaired_loss();
            }
        });
        self.count_acked(&packets);
        self.last = Last::Ack;
    }
}
