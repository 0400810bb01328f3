//! The kind of algorithm and its defects, as far as a flow shows them on a path that is not known.

use serde::Serialize;

use super::flow::{Place, Unknown};
use super::measure::{Figures, View};
use crate::program::judge::{Defect, Kind, Looks, at_quantile, is_flat};

/// A defect that something else would explain as well.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Suspicion {
    /// The defect's name.
    pub name: String,
    /// The observation.
    pub about: String,
    /// The other explanation.
    pub or_else: String,
}

/// What a flow shows of its congestion control.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Verdict {
    /// The kind, and whether it paces.
    pub looks: Looks,
    /// That in words.
    pub looks_like: String,
    /// The observations that it rests on.
    pub because: Vec<String>,
    /// Defects that the flow proves, on whatever path it was.
    pub defects: Vec<Defect>,
    /// Defects that it hints at.
    pub suspicions: Vec<Suspicion>,
    /// Things that cannot be known from it.
    pub cannot_tell: Vec<Unknown>,
}

/// A burst from which on a sender does not pace, and one up to which it does, in packets.
const UNPACED_BURST: f64 = 13.0;
const PACED_BURST: f64 = 4.0;

/// The share of bursts that leave with an acknowledgement, from which on these set the pace, and up
/// to which a timer does.
const CLOCKED: f64 = 0.9;
const TIMED: f64 = 0.75;

/// Packets that leave at once for each that is confirmed, while the data in flight double: two
/// without pacing.
const UNPACED_DOUBLING: f64 = 1.6;
const PACED_DOUBLING: f64 = 1.1;

/// The share of the packets from which on the receiver's window is the limit: of those that an
/// acknowledgement lets leave, the last one fills it.
const WINDOW_LIMITED: f64 = 0.3;

/// Round trips with a loss over packets from which on losses are no rare event.
const OFTEN: f64 = 0.002;

/// ProbeRTT of BBRv3 leaves half of a BDP in flight, and that of BBRv1 four packets.
const HALF: f64 = 0.35;

/// Defects that need a path whose rate, delay or company are known.
const NEED_A_PATH: &str = "too much headroom after a loss, collapses under jitter or ACK aggregation, does not forget \
                           an old min_rtt or an old bandwidth, starves a flow like itself";

/// A flow's view with its figures and the rates that several rules ask for.
struct Facts<'a> {
    view: &'a View<'a>,
    figures: &'a Figures,
    /// From here on the sender has found its rate.
    from: f64,
    loss: f64,
    /// Round trips with a loss over packets: what a loss-based algorithm answers to.
    events: f64,
    /// The sending rate from slice to slice differs by no more than a twentieth.
    is_flat: bool,
    /// The usual data in flight, in packets.
    packets: f64,
    because: Vec<String>,
    cannot_tell: Vec<Unknown>,
}

impl Verdict {
    pub(super) fn of(view: &View<'_>, figures: &Figures) -> Self {
        let from = view.settled_s();
        let levels = view.levels_in(from, view.end_s).to_vec();
        let slice = 0.5_f64.max(4.0 * view.usual_rtt_s.unwrap_or(0.0));
        let mut facts = Facts {
            view,
            figures,
            from,
            loss: view.loss(from, view.end_s),
            events: view.loss_events(from),
            is_flat: is_flat(&view.sending(from, view.end_s, slice), 0.05),
            packets: at_quantile(levels, 0.5).unwrap_or(0.0) / figures.packet_bytes,
            because: Vec::new(),
            cannot_tell: view.flow.unknown.clone(),
        };
        let kind = facts.kind();
        let looks = Looks { kind, paced: facts.paced(kind) };
        let defects = facts.defects(&looks);
        let suspicions = if defects.is_empty() { facts.suspicions(&looks) } else { Vec::new() };
        facts.cannot(
            NEED_A_PATH,
            "these show on a path whose rate, delays and company are known: fullpipe judge runs a sender on such",
        );
        Self {
            looks,
            looks_like: looks.to_string(),
            because: facts.because,
            defects,
            suspicions,
            cannot_tell: facts.cannot_tell,
        }
    }
}

impl Facts<'_> {
    fn cannot(&mut self, what: &str, why: impl Into<String>) {
        self.cannot_tell.push(Unknown { what: what.to_owned(), why: why.into() });
    }

    fn because(&mut self, why: String) {
        self.because.push(why);
    }

    /// The usual round trip from three seconds on over the shortest one.
    fn stretch(&self, quantile: f64) -> Option<f64> {
        Some(self.view.rtt(self.from, self.view.end_s, quantile)? / self.view.min_rtt_s?)
    }

    fn kind(&mut self) -> Kind {
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
                    "{:.0} % of the packets filled the receiver's window: it is the limit, and not congestion control",
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
        if let Some(kind) = self.by_dips() {
            return kind;
        }
        if self.is_one_window() && !self.is_timed() {
            let packets = self.packets;
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

    fn sending_mbps(&self) -> f64 {
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
        let median = |of: fn(&super::measure::Dip) -> f64| {
            at_quantile(f.dips.iter().map(of).collect(), 0.5).unwrap_or(0.0)
        };
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

    fn paced(&mut self, kind: Kind) -> Option<bool> {
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
        match f.start.burst_per_ack {
            Some(ratio) if ratio >= UNPACED_DOUBLING => {
                self.because(format!(
                    "while the data in flight double, {ratio:.1} packets leave at once for each that is confirmed: it does not pace"
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

    fn defects(&self, looks: &Looks) -> Vec<Defect> {
        let rules: [(&str, Option<String>); 8] = [
            ("does not react to losses", self.ignores_losses(looks.kind)),
            ("fixed window", self.fixed_window(looks.kind)),
            ("window of a few packets", self.few_packets()),
            ("Startup does not end", self.endless_startup(looks.kind)),
            ("ProbeRTT lasts too long", self.long_probe_rtt(looks.kind)),
            ("no pacing", self.unpaced(looks)),
            ("window reset at each loss", self.reset_at_loss()),
            ("tolerates too much loss", self.tolerates_loss(looks.kind)),
        ];
        let found = rules
            .into_iter()
            .filter_map(|(name, about)| Some(Defect { name: name.to_owned(), about: about? }));
        found.collect()
    }

    fn ignores_losses(&self, kind: Kind) -> Option<String> {
        let Kind::FixedRate { mbps } = kind else { return None };
        (self.loss > 0.15)
            .then(|| format!("it sends {mbps:.1} Mbit/s while {:.0} % are lost", 100.0 * self.loss))
    }

    fn fixed_window(&self, kind: Kind) -> Option<String> {
        let Kind::FixedWindow { packets } = kind else { return None };
        (self.loss > 0.15).then(|| {
            format!("{packets:.0} packets are in flight, while {:.0} % are lost", 100.0 * self.loss)
        })
    }

    fn few_packets(&self) -> Option<String> {
        let late = self.view.levels_in(self.from, self.view.end_s);
        let most = at_quantile(late.to_vec(), 0.95)? / self.figures.packet_bytes;
        let usual = at_quantile(late.to_vec(), 0.5)? / self.figures.packet_bytes;
        let is_limit = self.figures.window_limited_share.is_none_or(|s| s < WINDOW_LIMITED)
            && self.figures.ack_clocked_share.is_some_and(|share| share >= CLOCKED)
            && self.figures.sent_packets >= 50
            && usual > 0.6 * most;
        let has_room = self.stretch(0.5).is_some_and(|s| s < 1.25) && self.loss < 0.01;
        (most <= 8.0 && is_limit && has_room).then(|| {
            format!(
                "no more than {most:.0} packets are in flight and each waits for an acknowledgement, without a queue and without a \
                 loss: the product of bandwidth and min_rtt comes out far too small, as with a min_rtt that is a placeholder or 0"
            )
        })
    }

    fn endless_startup(&self, kind: Kind) -> Option<String> {
        if matches!(
            kind,
            Kind::LossBased { .. } | Kind::FixedRate { .. } | Kind::FixedWindow { .. }
        ) {
            return None;
        }
        let low = self.stretch(0.1)?;
        (self.loss > 0.25 && low > 1.15 && self.figures.duration_s > 5.0).then(|| {
            format!(
                "{:.0} % are lost for as long as it runs, and the shortest round trips stay {low:.1} times what they were: the gains \
                 of Startup stay",
                100.0 * self.loss
            )
        })
    }

    fn long_probe_rtt(&self, kind: Kind) -> Option<String> {
        let Kind::BbrLike { .. } = kind else { return None };
        let rtt = self.view.usual_rtt_s?;
        let lasted = self.figures.dips.iter().map(|d| d.lasted_s).collect();
        let usual = at_quantile(lasted, 0.5)?;
        (usual > 0.7_f64.max(0.3 + 4.0 * rtt)).then(|| {
            format!(
                "in ProbeRTT less than usual is in flight for {usual:.1} s, where 0.2 s and a round trip are enough"
            )
        })
    }

    fn unpaced(&self, looks: &Looks) -> Option<String> {
        let Kind::BbrLike { .. } = looks.kind else { return None };
        let share = self.figures.ack_clocked_share.map_or(String::new(), |share| {
            format!(", {:.0} % of them when an acknowledgement comes", 100.0 * share)
        });
        (looks.paced == Some(false)).then(|| {
            format!(
                "bursts of {:.0} packets leave back to back{share}: no pacing rate is enforced",
                self.figures.burst_packets_p90.unwrap_or(0.0)
            )
        })
    }

    fn reset_at_loss(&self) -> Option<String> {
        let rtt = self.view.usual_rtt_s?;
        let each = self.figures.loss_episodes.iter().filter(|e| e.at_s > self.from.min(2.0));
        // A few losses within a round trip; a timeout has to begin anew.
        let few = each.filter(|e| {
            e.lost_bytes <= 3.5 * self.figures.packet_bytes && e.until_s - e.at_s < 2.0 * rtt
        });
        let answers: Vec<(f64, f64)> = few
            .filter_map(|e| {
                let before = self.view.levels_in(e.at_s - 1.5 * rtt, e.at_s);
                let before = before.iter().copied().fold(0.0, f64::max);
                let before = before / self.figures.packet_bytes;
                (before > 20.0).then_some((before, e.least_after?))
            })
            .collect();
        let before = at_quantile(answers.iter().map(|a| a.0).collect(), 0.5)?;
        let least = at_quantile(answers.iter().map(|a| a.1).collect(), 0.5)?;
        let is_usual = self.view.flow.timeouts * 2 < answers.len() as u64;
        (answers.len() >= 3 && least <= 0.3 && is_usual).then(|| {
            format!(
                "from {before:.0} packets in flight it goes down to {:.0} after a loss or two, {} times",
                least * before,
                answers.len()
            )
        })
    }

    fn tolerates_loss(&self, kind: Kind) -> Option<String> {
        // BBRv1 does not look at losses, and has a ProbeRTT every 10 s.
        let Kind::BbrLike { .. } = kind else { return None };
        let half = self.figures.dips.iter().filter(|d| d.share > HALF).count();
        if half == 0 || half * 2 < self.figures.dips.len() {
            return None;
        }
        let bdp = self.view.bdp()? / self.figures.packet_bytes;
        (self.loss > 0.08 && self.packets > 0.7 * bdp && self.figures.duration_s > 8.0).then(|| {
            format!(
                "with a ProbeRTT as BBRv3 has it, it keeps {:.0} packets in flight while {:.0} % are lost: a loss threshold of 20 % \
                 in place of 2 % does that",
                self.packets,
                100.0 * self.loss
            )
        })
    }

    fn suspicions(&self, looks: &Looks) -> Vec<Suspicion> {
        if self.figures.window_limited_share.is_some_and(|share| share > WINDOW_LIMITED) {
            return Vec::new();
        }
        // A sender that answers to losses, or looks for more, is not stuck.
        if matches!(looks.kind, Kind::BbrLike { .. } | Kind::LossBased { .. }) {
            return self.slow_return().into_iter().collect();
        }
        let stuck = self.stuck().or_else(|| self.first_rate()).or_else(|| self.capped(looks.kind));
        [stuck, self.slow_return()].into_iter().flatten().collect()
    }

    /// A sender that had a rate uses less than three quarters of it for good, without a queue or a
    /// loss.
    fn stuck(&self) -> Option<Suspicion> {
        const STEP: f64 = 0.2;
        let end = self.view.end_s;
        let rates = self.view.rates(0.0, end, STEP);
        // The peak of a flow that soon falls back is in no tenth of its time.
        let full = at_quantile(rates.clone(), 0.97)?;
        let last = rates.iter().rposition(|rate| *rate >= 0.8 * full)?;
        let from = (last + 2) as f64 * STEP;
        let after: f64 = rates.get(last + 2..)?.iter().sum::<f64>();
        let share = after / rates.get(last + 2..)?.len().max(1) as f64 / full;
        let queue = self.view.rtt(from, end, 0.5)? / self.view.min_rtt_s?;
        if end - from < 3.0 || self.view.loss(from, end) > 0.02 || share > 0.75 || queue > 1.25 {
            return None;
        }
        let (name, gain) = match from {
            t if t < 4.0 => ("Drain does not end", "the pacing gain of Drain"),
            _ => ("ProbeRTT does not end", "the window of ProbeRTT"),
        };
        Some(Suspicion {
            name: name.to_owned(),
            about: format!(
                "from {from:.1} s on it sends at {:.0} % of the rate that it had, without a queue and without a loss: {gain} looks \
                 like that",
                100.0 * share
            ),
            or_else: "the application had no more to send, or something else shares the path without a queue".to_owned(),
        })
    }

    fn first_rate(&self) -> Option<Suspicion> {
        let end = self.view.end_s;
        let sending = self.view.sending(1.0, end, 1.0);
        let is_one_rate = is_flat(&sending, 0.15);
        let is_empty = self.view.rtt(0.5, end, 0.95)? < 1.15 * self.view.min_rtt_s?;
        (is_one_rate && is_empty && self.view.loss(0.0, end) < 0.01).then(|| Suspicion {
            name: "stuck at its first rate".to_owned(),
            about: format!(
                "it sends {:.1} Mbit/s from the first second to the last, never with a queue, and never looks for more: a pacing \
                 rate from a first estimate gives samples of that rate",
                self.sending_mbps()
            ),
            or_else: "the application has no more to send".to_owned(),
        })
    }

    fn capped(&self, kind: Kind) -> Option<Suspicion> {
        let Kind::FixedWindow { packets } = kind else { return None };
        let has_room = self.stretch(0.5).is_some_and(|s| s < 1.25) && self.loss < 0.01;
        has_room.then(|| Suspicion {
            name: "window is capped".to_owned(),
            about: format!(
                "no more than {packets:.0} packets are in flight, without a queue and without a loss, and the receiver's window is \
                 larger"
            ),
            or_else: "the sender's buffer (SO_SNDBUF) is as small as that".to_owned(),
        })
    }

    /// After a pause or an outage the rate stays away.
    fn slow_return(&self) -> Option<Suspicion> {
        let sent = &self.view.flow.sent;
        let pause = sent.windows(2).find(|w| w[1].at_s - w[0].at_s >= 1.0 && w[0].at_s > 2.0)?;
        let (stopped, began) = (pause[0].at_s, pause[1].at_s);
        let before = self.view.rates((stopped - 2.5).max(0.0), stopped - 0.5, 0.5);
        let before = at_quantile(before, 0.5)?;
        let resent = pause[1].sending != super::flow::Sending::First;
        let (from, to) =
            if resent { (began + 3.0, began + 5.0) } else { (began + 1.0, began + 3.0) };
        let after = self.view.rates(from, to.min(self.view.end_s), 0.5);
        let after = at_quantile(after, 0.5)?;
        let is_quiet = self.view.loss(from, to) < 0.02
            && self.view.rtt(from, to, 0.5)? < 1.25 * self.view.min_rtt_s?;
        if to > self.view.end_s || after > 0.5 * before || !is_quiet {
            return None;
        }
        let share = 100.0 * after / before.max(1.0);
        let name = match resent {
            true => "does not come back after an outage",
            false => "does not come back after idleness",
        };
        Some(Suspicion {
            name: name.to_owned(),
            about: format!(
                "from {from:.1} s on, after a silence of {:.1} s, it sends at {share:.0} % of its rate of before, without a queue and \
                 without a loss",
                began - stopped
            ),
            or_else: "the application had less to send then, or the path has less".to_owned(),
        })
    }
}
