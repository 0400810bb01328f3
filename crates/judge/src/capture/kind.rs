//! The kind of algorithm, and whether it paces, by what a flow shows on a path that is not known.

use super::figures::Dip;
use super::flow::Place;
use super::verdict::{Facts, HALF, WINDOW_LIMITED};
use crate::program::judge::{Kind, at_quantile, is_flat};

/// A burst from which on a sender does not pace, and one up to which it does, in packets.
const UNPACED_BURST: f64 = 13.0;
const PACED_BURST: f64 = 4.0;

/// The share of bursts that leave with an acknowledgement, from which on these set the pace, and up
/// to which a timer does: by chance it is an eighth. In between a sender may do either: of Linux's
/// CUBIC and Reno, which do not pace, captures at a link had 48 and 72 %.
pub(super) const CLOCKED: f64 = 0.9;
const TIMED: f64 = 0.3;

/// Packets that leave at once for each that is confirmed, while the data in flight double: two
/// without pacing. A pacer that sends pairs has two as well where each packet is confirmed, as
/// Linux's BBR; but a quarter to a third of its pairs leave with an acknowledgement, and without
/// pacing all do.
const UNPACED_DOUBLING: f64 = 1.6;
const PACED_DOUBLING: f64 = 1.1;

/// Round trips with a loss over packets from which on losses are no rare event.
const OFTEN: f64 = 0.002;

/// The reason why one volume in flight, or one rate without a queue, tells nothing.
const MAY_BE_RECEIVERS: &str = "one volume is in flight all the time, which may be the sender's window or the receiver's: the \
                                capture does not show how large that is; capture from the handshake on, 96 bytes of each packet";

impl Facts<'_> {
    pub(super) fn kind(&mut self) -> Kind {
        let f = self.figures;
        if f.duration_s < 1.0 || f.sent_packets < 50 {
            self.cannot(
                "kind of algorithm",
                format!(
                    "{} packets in {:.2} s are too few; a capture of 12 s has a ProbeRTT of each BBR",
                    f.sent_packets, f.duration_s
                ),
            );
            return Kind::Unknown;
        }
        if let Some(share) = f.window_limited_share.filter(|share| *share > WINDOW_LIMITED) {
            self.cannot(
                "kind of algorithm",
                format!(
                    "for {:.0} % of the time the receiver's window was full: it is the limit, and not congestion control",
                    100.0 * share
                ),
            );
            return Kind::Unknown;
        }
        if self.is_flat && self.loss > 0.15 {
            let mbps = self.sending_mbps();
            self.because(format!(
                "it sends {mbps:.1} Mbit/s in each half second, while {:.0} % are lost",
                100.0 * self.loss
            ));
            // What is paced at one rate has one volume in flight as well.
            return match self.is_one_window() && !self.is_timed() {
                true => Kind::FixedWindow { packets: self.packets },
                false => Kind::FixedRate { mbps },
            };
        }
        if let Some(kind) = self.by_dips().or_else(|| self.by_marks()) {
            return kind;
        }
        if self.is_one_window() && !self.is_timed() {
            let packets = self.packets;
            if self.may_be_receivers_window() {
                self.cannot("kind of algorithm", MAY_BE_RECEIVERS.to_owned());
                return Kind::Unknown;
            }
            self.because(format!("{packets:.0} packets are in flight in each second"));
            return Kind::FixedWindow { packets };
        }
        let found = self.by_losses().or_else(|| self.by_probes()).or_else(|| self.by_rate());
        found.unwrap_or_else(|| {
            self.cannot("kind of algorithm", self.why_unknown());
            Kind::Unknown
        })
    }

    fn why_unknown(&self) -> String {
        let f = self.figures;
        if self.view.flow.inflight.is_empty() {
            return "it shows in the data in flight, which are not known".to_owned();
        }
        let dips = match f.dips.len() {
            0 => "no ProbeRTT",
            1 => "one dip that may be a ProbeRTT",
            _ => "dips without a period",
        };
        let late = f.loss_episodes.iter().filter(|e| e.at_s > self.from);
        let shares: Vec<f64> = late.filter_map(|e| e.share_after).collect();
        let losses = match (f.loss_episodes.len(), at_quantile(shares.clone(), 0.5)) {
            (0, _) => "no loss".to_owned(),
            (_, None) => "no loss whose answer can be seen alone".to_owned(),
            (_, Some(share)) => format!(
                "{} take the data in flight down to {:.0} %, as no algorithm does that is known here",
                if shares.len() == 1 {
                    "a loss".to_owned()
                } else {
                    format!("{} losses", shares.len())
                },
                100.0 * share
            ),
        };
        format!("in {:.0} s there is {dips}, and {losses}", f.duration_s)
    }

    pub(super) fn sending_mbps(&self) -> f64 {
        let sent = self.view.flow.sent.iter().filter(|s| s.at_s >= self.from);
        let bytes: f64 = sent.map(|s| s.bytes).sum();
        bytes * 8.0 / 1e6 / (self.view.end_s - self.from).max(1e-9)
    }

    /// True if the data in flight come to the same volume in each second.
    fn is_one_window(&self) -> bool {
        let seconds = (1.0 / self.view.step_s) as usize;
        let late = self.view.levels_in(self.from, self.view.end_s);
        let parts = late.chunks(seconds.max(1)).filter(|part| part.len() == seconds);
        let high: Vec<f64> = parts.filter_map(|part| at_quantile(part.to_vec(), 0.95)).collect();
        let low = at_quantile(late.to_vec(), 0.05).unwrap_or(0.0);
        let usual = at_quantile(late.to_vec(), 0.5).unwrap_or(0.0);
        is_flat(&high, 0.04) && low > 0.8 * usual && usual > 0.0
    }

    /// True if packets leave by a timer, and not when acknowledgements come.
    fn is_timed(&self) -> bool {
        self.figures.ack_clocked_share.is_some_and(|share| share <= TIMED)
    }

    /// True if the capture does not show how large the receiver's window is, and nothing but
    /// acknowledgements sets the pace: then that window may be the limit.
    pub(super) fn may_be_receivers_window(&self) -> bool {
        let is_hidden = self.figures.window_limited_share.is_none();
        is_hidden && self.view.flow.protocol == "TCP" && !self.is_timed()
    }

    /// BBR by its probes for bandwidth.
    fn by_probes(&mut self) -> Option<Kind> {
        let count = self.figures.probes_at_s.len();
        let gaps: Vec<f64> = self.figures.probes_at_s.windows(2).map(|w| w[1] - w[0]).collect();
        let gap = at_quantile(gaps, 0.5)?;
        let is_short = self.stretch(0.5).is_some_and(|s| s < 1.25);
        let is_quiet = self.loss < 0.01;
        (count >= 4 && is_short && is_quiet).then(|| {
            self.because(format!(
                "{count} times, {gap:.1} s apart, more than usual is in flight for a short time and the queue is gone after it, without a \
                 loss: probes for bandwidth"
            ));
            Kind::BbrLike { probe_rtt_s: None }
        })
    }

    /// One rate without a queue.
    fn by_rate(&mut self) -> Option<Kind> {
        let is_empty = self.stretch(0.95).is_some_and(|s| s < 1.15) && self.loss < 0.01;
        if !(self.is_flat && is_empty) {
            return None;
        }
        if self.may_be_receivers_window() {
            self.cannot("kind of algorithm", MAY_BE_RECEIVERS.to_owned());
            return Some(Kind::Unknown);
        }
        let mbps = self.sending_mbps();
        self.because(format!("it sends {mbps:.1} Mbit/s all the time, without a queue"));
        self.cannot(
            "reason of the rate",
            "without a queue and without a loss it may be the application's, or that of something before the sender",
        );
        Some(Kind::FixedRate { mbps })
    }

    /// BBR by its ProbeRTT.
    fn by_dips(&mut self) -> Option<Kind> {
        let f = self.figures;
        let median =
            |of: fn(&Dip) -> f64| at_quantile(f.dips.iter().map(of).collect(), 0.5).unwrap_or(0.0);
        let (packets, share, lasted) =
            (median(|d| d.least_packets), median(|d| d.share), median(|d| d.lasted_s));
        let period = f.dip_period_s.filter(|p| (3.5..14.0).contains(p));
        // One alone could be anything, but for its depth and duration.
        let is_one = f.dips.len() == 1
            && f.duration_s < 25.0
            && (0.15..0.5 + 2.0 * self.view.usual_rtt_s.unwrap_or(0.0)).contains(&lasted)
            && (share > HALF || (3.0..=6.0).contains(&packets));
        // Where losses are frequent, a loss-based sender has dips as well, and less in flight.
        let is_loss_based = self.events >= OFTEN
            && self.loss_based_packets().is_some_and(|model| self.packets < 2.0 * model);
        if (period.is_none() && !is_one) || is_loss_based {
            return None;
        }
        let every = period.map_or("once".to_owned(), |p| format!("every {p:.1} s"));
        let of = match (period, packets) {
            (_, n) if n <= 6.0 => ", as BBRv1 does",
            (Some(_), _) if share > HALF => ", as BBRv2 and BBRv3 do",
            _ => "",
        };
        self.because(format!(
            "{every} the data in flight go down to {packets:.0} packets ({:.0} % of the usual) for {lasted:.2} s without a loss: \
             ProbeRTT{of}",
            100.0 * share
        ));
        Some(Kind::BbrLike { probe_rtt_s: period })
    }

    /// Data in flight that a loss-based algorithm has with losses so often, in packets: Reno's, or
    /// CUBIC's where that is more (RFC 9438 section 5).
    fn loss_based_packets(&self) -> Option<f64> {
        let rtt = self.view.usual_rtt_s?;
        let reno = (1.5 / self.events).sqrt();
        let cubic = 1.054 * (rtt / self.events).powf(0.75);
        Some(reno.max(cubic))
    }

    fn by_losses(&mut self) -> Option<Kind> {
        let f = self.figures;
        let late = f.loss_episodes.iter().filter(|e| e.at_s > self.from);
        let answers: Vec<_> = late.filter_map(|e| Some((e, e.share_after?))).collect();
        let share = at_quantile(answers.iter().map(|a| a.1).collect(), 0.5);
        if self.events >= OFTEN && self.packets > 0.0 {
            let model = self.loss_based_packets()?;
            if self.packets > 3.0 * model {
                self.because(format!(
                    "{:.0} packets are in flight with a loss in one of {:.0}, where a loss-based sender has about {model:.0}",
                    self.packets,
                    1.0 / self.events
                ));
                return Some(Kind::BbrLike { probe_rtt_s: None });
            }
            if answers.len() < 2 && self.packets < 2.0 * model {
                self.because(format!(
                    "{:.0} packets are in flight with a loss in one of {:.0}, about what a loss-based sender has then",
                    self.packets,
                    1.0 / self.events
                ));
                return Some(Kind::LossBased { decrease: share });
            }
        }
        let share = share?;
        let count = answers.len();
        let full = at_quantile(
            answers.iter().filter_map(|(e, _)| self.queue_before(e.at_s)).collect(),
            0.5,
        );
        if (0.25..0.9).contains(&share) && (count >= 2 || full.is_some_and(|q| q > 1.3)) {
            let filled = full.map_or(String::new(), |q| {
                format!(", with round trips of {q:.1} times the shortest before it")
            });
            self.because(format!(
                "{} a loss takes the data in flight down to {:.0} %{filled}",
                if count == 1 { "once".to_owned() } else { format!("{count} times") },
                100.0 * share
            ));
            if let Some(shape) = self.growth() {
                self.because(shape.to_owned());
            }
            return Some(Kind::LossBased { decrease: Some(share) });
        }
        if share >= 0.9 && count >= 3 {
            self.because(format!(
                "{count} losses leave the data in flight as they were ({:.0} %)",
                100.0 * share
            ));
            return Some(Kind::BbrLike { probe_rtt_s: None });
        }
        None
    }

    /// The round trip before a time over the shortest one.
    fn queue_before(&self, at_s: f64) -> Option<f64> {
        let rtt = self.view.usual_rtt_s?;
        Some(self.view.rtt(at_s - 2.0 * rtt, at_s, 0.9)? / self.view.min_rtt_s?)
    }

    /// Growth between two losses: the volume in the middle of the time tells a line from a curve.
    fn growth(&self) -> Option<&'static str> {
        let rtt = self.view.usual_rtt_s?;
        let late: Vec<_> =
            self.figures.loss_episodes.iter().filter(|e| e.at_s > self.from).collect();
        let middles = late.windows(2).filter_map(|pair| {
            let (from, to) = (pair[0].until_s + 2.0 * rtt, pair[1].at_s - rtt);
            if to - from < 10.0 * rtt {
                return None;
            }
            let at = |share: f64| {
                let t = from + share * (to - from);
                let part = self.view.levels_in(t - rtt, t + rtt);
                at_quantile(part.to_vec(), 0.5)
            };
            let (low, middle, high) = (at(0.0)?, at(0.5)?, at(1.0)?);
            (high > 1.1 * low).then(|| (middle - low) / (high - low))
        });
        let middle = at_quantile(middles.collect(), 0.5)?;
        Some(match middle {
            m if m > 0.62 => "between losses it grows fast at first and then slowly, as CUBIC does",
            m if m > 0.35 => "between losses it grows along a line, as Reno does",
            _ => "between losses it grows slowly at first and then fast",
        })
    }

    pub(super) fn paced(&mut self, kind: Kind) -> Option<bool> {
        let f = self.figures;
        if self.view.flow.place != Place::Sender {
            return None;
        }
        let burst = f.burst_packets_p90?;
        let late = self.view.ack_bursts(self.from, self.view.end_s);
        let large = late.iter().filter(|n| **n >= UNPACED_BURST).count();
        let of_large: f64 = late.iter().filter(|n| **n >= UNPACED_BURST).sum();
        let all: f64 = late.iter().sum();
        if large >= 20 && of_large > 0.5 * all {
            if burst >= UNPACED_BURST {
                self.because(format!(
                    "acknowledgements of {UNPACED_BURST:.0} packets and more come at once, and bursts of {burst:.0} packets leave: it does \
                     not pace"
                ));
                return Some(false);
            }
            if burst <= PACED_BURST {
                self.because(format!(
                    "acknowledgements of {UNPACED_BURST:.0} packets and more come at once, and bursts of {burst:.0} leave: it paces"
                ));
                return Some(true);
            }
        }
        let Some(share) = f.ack_clocked_share else {
            self.cannot(
                "pacing",
                "whether a timer or acknowledgements set the pace cannot be seen: these come too close to each other, or the sender's \
                 host answers too late or at an unknown time",
            );
            return None;
        };
        let percent = 100.0 * share;
        if share <= TIMED && burst < UNPACED_BURST {
            self.because(format!(
                "{percent:.0} % of its bursts leave when an acknowledgement comes, the others by a timer: it paces"
            ));
            return Some(true);
        }
        let confirmed = f.ack_burst_packets.map_or(0.0, |packets| packets.p50);
        // A pacer that wakes a little late sends a pair now and then; without one, what is confirmed
        // at once leaves at once.
        let usual_burst = f.burst_packets.as_ref().map_or(burst, |bursts| bursts.p50);
        let are_single = usual_burst < 2.0 && burst <= PACED_BURST && share < CLOCKED;
        if confirmed >= 2.0 && (burst < 2.0 || are_single) {
            self.because(format!(
                "packets leave one by one as a rule, and {confirmed:.0} are confirmed at once: it paces"
            ));
            return Some(true);
        }
        let is_clocked_early = f.start.ack_clocked_share.is_some_and(|share| share >= CLOCKED);
        match f.start.burst_per_ack {
            Some(ratio) if ratio >= UNPACED_DOUBLING && is_clocked_early => {
                self.because(format!(
                    "while the data in flight double, {ratio:.1} packets leave at once for each that is confirmed, and just then: it does \
                     not pace"
                ));
                return Some(false);
            }
            Some(ratio) if ratio <= PACED_DOUBLING => {
                self.because(
                    "while the data in flight double, no more packets leave at once than are confirmed: it paces"
                        .to_owned(),
                );
                return Some(true);
            }
            _ => {}
        }
        if share >= CLOCKED && (matches!(kind, Kind::BbrLike { .. }) || burst >= UNPACED_BURST) {
            self.because(format!(
                "{percent:.0} % of its bursts leave just when an acknowledgement comes: it does not pace"
            ));
            return Some(false);
        }
        self.cannot(
            "pacing",
            format!(
                "{percent:.0} % of its bursts leave when an acknowledgement comes, and these come evenly: behind late ones it would \
                 show"
            ),
        );
        None
    }
}
