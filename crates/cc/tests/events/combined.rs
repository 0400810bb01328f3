//! Events of several steps, which single ones seldom make up: outages, restarts after silence,
//! several things in one instant, and reports that bring everything at once.

use fullpipe_cc::{Duration, PacketState};

use super::flow::{Flow, Last};

impl Flow {
    /// Timeouts one after the other, the time between them doubled each time, with a probe after
    /// each.
    pub(super) fn pass_outage(&mut self, times: u8, wait: u8, is_probed: bool) {
        for n in 0..=times % 6 {
            self.now += Duration::from_millis(1 + u64::from(wait)).times(1 << n);
            self.time_out();
            if is_probed {
                _ = self.send(self.smss as u32);
                self.last = Last::Other;
            }
        }
    }

    /// Everything arrives, the application has nothing to send for 1 ns to some minutes, then sends
    /// what the window allows.
    pub(super) fn restart(&mut self, exponent: u8, is_told: bool, count: u8) {
        let packets = core::mem::take(&mut self.outstanding);
        self.report(&packets, Vec::new());
        if is_told {
            self.cc.on_app_limited();
        }
        self.now += Duration::from_nanos(1 << (exponent % 38));
        self.send_allowed(0, count, 1);
    }

    /// In one instant packets are lost, others are sent, and some of these are acknowledged. A
    /// transport with a coarse clock sees this.
    pub(super) fn act_at_once(&mut self, lost: u8, sent: u8, acked: u8) {
        self.lose(usize::from(lost % 16) + 1);
        for _ in 0..=sent % 8 {
            _ = self.send(self.smss as u32);
        }
        let first = self.outstanding.len() - usize::from(acked % 8).min(self.outstanding.len());
        let newest = self.outstanding.split_off(first);
        self.report(&newest, Vec::new());
        if !newest.is_empty() {
            self.last = Last::Ack;
        }
    }

    /// One report that acknowledges, loses, marks and finds late what was lost, said in any order.
    pub(super) fn report_everything(&mut self, nth_acked: u8, nth_lost: u8, flags: u8) {
        let (mut acked, mut lost, mut rest) = (Vec::new(), Vec::new(), Vec::new());
        for (n, packet) in core::mem::take(&mut self.outstanding).into_iter().enumerate() {
            if n % (usize::from(nth_acked % 8) + 1) == 0 {
                acked.push(packet);
            } else if n % (usize::from(nth_lost % 8) + 1) == 0 {
                lost.push(packet);
            } else {
                rest.push(packet);
            }
        }
        self.outstanding = rest;
        if flags & 1 == 1 {
            acked.reverse();
        }
        let late: Vec<PacketState> = self.take_late(flags & 2 == 2);
        let marks = u64::from(flags >> 6);
        let newest: Vec<PacketState> = acked.iter().chain(&late).copied().collect();
        self.note_round_trip(&newest);
        let order = flags >> 2 & 3;
        self.batch(|ack| {
            for step in 0..4 {
                match (step + order) % 4 {
                    0 => acked.iter().for_each(|p| ack.acked(p)),
                    1 => lost.iter().for_each(|p| ack.lost(p)),
                    2 => ack.ce(marks),
                    _ => late.iter().for_each(|p| ack.acked_after_loss(p)),
                }
            }
        });
        if !newest.is_empty() {
            self.last = Last::Ack;
        }
        self.count_acked(&acked);
        self.count_late(&late);
        self.count_lost(lost);
    }
}
