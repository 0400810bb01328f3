//! Proportional Rate Reduction: how much a loss-based sender may send while it recovers (RFC 9937).
//!
//! Without it the window falls at once, nothing leaves until the flight has shrunk to it, and a
//! burst of losses may empty the path. With it the flight shrinks in step with what arrives.

/// The state of one recovery of a TCP sender whose algorithm has no rule of its own for it:
/// [`Algorithm::CUBIC`] and [`Algorithm::RENO`]. The transport keeps it from the first loss to the
/// end of the recovery, and asks it beside [`Controller::can_send`]. Everything is in bytes, as the
/// transport counts C.SMSS.
///
/// [`Algorithm::CUBIC`]: crate::Algorithm::CUBIC
/// [`Algorithm::RENO`]: crate::Algorithm::RENO
/// [`Controller::can_send`]: crate::Controller::can_send
#[derive(Clone, Copy, Debug)]
pub struct Prr {
    /// The window after the reduction in bytes.
    ssthresh: u64,
    /// RecoverFS: bytes in flight when the recovery began.
    flight: u64,
    delivered: u64,
    out: u64,
    /// The most bytes in flight that the newest ACK allows: cwnd.
    limit: u64,
}

impl Prr {
    /// A recovery begins with `flight` bytes in flight, of which `inflight` are left after the
    /// first losses, and the window is reduced to `ssthresh`.
    pub fn new(ssthresh: u64, flight: u64, inflight: u64, smss: u64) -> Self {
        // The first retransmission leaves whatever the proportion says.
        Self {
            ssthresh,
            flight: flight.max(1),
            delivered: 0,
            out: 0,
            limit: inflight.saturating_add(smss),
        }
    }

    /// An ACK delivered so many bytes and left `inflight`. `is_safe`: it advances, by which the
    /// recovery makes progress, and tells of no further loss (SafeACK, RFC 9937 section 6.2).
    pub fn on_ack(&mut self, delivered: u64, is_safe: bool, inflight: u64, smss: u64) {
        self.delivered = self.delivered.saturating_add(delivered);
        let more = if inflight > self.ssthresh {
            let part = u128::from(self.delivered) * u128::from(self.ssthresh);
            let allowed = u64::try_from(part.div_ceil(u128::from(self.flight))).unwrap_or(u64::MAX);
            allowed.saturating_sub(self.out)
        } else {
            let mut most = self.delivered.saturating_sub(self.out).max(delivered);
            if is_safe && delivered > 0 {
                most = most.saturating_add(smss);
            }
            most.min(self.ssthresh - inflight)
        };
        let more = if self.out == 0 { more.max(smss) } else { more };
        self.limit = inflight.saturating_add(more);
    }

    /// A segment of `bytes` left.
    pub fn on_sent(&mut self, bytes: u64) {
        self.out = self.out.saturating_add(bytes);
    }

    /// True if a packet may leave with `inflight` bytes in flight. A part of a segment counts as
    /// one, as Linux rounds it.
    pub fn may_send(&self, inflight: u64) -> bool {
        inflight < self.limit
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The example of RFC 6937 section 4 (and RFC 9937): a flight of 20 segments, the first lost, a
    /// window reduced by half. 19 ACKs arrive; one segment leaves for every second of them;
    /// the last but one waits for the flight to fall below the new window.
    #[test]
    fn one_segment_leaves_for_two_that_arrive() {
        const SMSS: u64 = 1_000;
        let mut prr = Prr::new(10 * SMSS, 20 * SMSS, 19 * SMSS, SMSS);
        let mut inflight = 19 * SMSS;
        let mut sent = std::vec::Vec::new();
        let mut send = |prr: &mut Prr, inflight: &mut u64, ack| {
            while prr.may_send(*inflight) {
                prr.on_sent(SMSS);
                *inflight += SMSS;
                sent.push(ack);
            }
        };
        send(&mut prr, &mut inflight, 0);
        for ack in 1..=19 {
            inflight -= SMSS;
            prr.on_ack(SMSS, false, inflight, SMSS);
            send(&mut prr, &mut inflight, ack);
        }
        assert_eq!(sent[0], 0, "the retransmission leaves at once");
        assert_eq!(inflight, 10 * SMSS, "the flight ends at the new window");
        assert_eq!(sent, [0, 3, 5, 7, 9, 11, 13, 15, 18, 19]);
    }

    /// RFC 9937 section 6.2: an ACK that delivers nothing allows nothing, as in Linux's
    /// tcp_cwnd_reduction.
    #[test]
    fn an_ack_that_delivers_nothing_allows_nothing() {
        const SMSS: u64 = 1_000;
        let mut prr = Prr::new(10 * SMSS, 20 * SMSS, 5 * SMSS, SMSS);
        let (mut inflight, mut sent) = (5 * SMSS, 0);
        for delivered in core::iter::once(SMSS).chain([0; 20]) {
            prr.on_ack(delivered, true, inflight, SMSS);
            while prr.may_send(inflight) {
                prr.on_sent(SMSS);
                inflight += SMSS;
                sent += 1;
            }
        }
        assert!(sent <= 2, "{sent} segments left for one that was delivered");
    }

    proptest! {
        /// The pseudo-code of RFC 9937 section 6.2, with as many digits as it needs. What leaves
        /// and what arrives follow no rule.
        #[test]
        fn the_window_of_each_ack_is_that_of_the_rfc(
            (smss, ssthresh, recover_fs) in (1i128..3_000, 1i128..100_000, 1i128..100_000),
            acks in prop::collection::vec((0i128..9_000, any::<bool>(), 0i128..120_000, 0i128..9_000), 1..30),
        ) {
            let bytes = |bytes: i128| u64::try_from(bytes).expect("no debt");
            let mut prr = Prr::new(bytes(ssthresh), bytes(recover_fs), 0, bytes(smss));
            let (mut prr_delivered, mut prr_out) = (0, 0);
            for (delivered, is_safe, inflight, sent) in acks {
                prr_delivered += delivered;
                let mut sndcnt = if inflight > ssthresh {
                    let part = prr_delivered * ssthresh;
                    let ceil = part / recover_fs + i128::from(part % recover_fs > 0);
                    (ceil - prr_out).max(0)
                } else {
                    let safe = if is_safe && delivered > 0 { smss } else { 0 };
                    ((prr_delivered - prr_out).max(delivered) + safe).min(ssthresh - inflight)
                };
                // The retransmission at the begin, of a whole segment.
                if prr_out == 0 {
                    sndcnt = sndcnt.max(smss);
                }
                prr.on_ack(bytes(delivered), is_safe, bytes(inflight), bytes(smss));
                let cwnd = bytes(inflight + sndcnt);
                prop_assert!(!prr.may_send(cwnd));
                prop_assert!(cwnd == 0 || prr.may_send(cwnd - 1));
                prr.on_sent(bytes(sent));
                prr_out += sent;
            }
        }
    }
}
