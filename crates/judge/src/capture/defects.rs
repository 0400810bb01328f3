//! Defects that a flow proves, and those that it hints at, on a path that is not known.

use super::flow::Sending;
use super::kind::CLOCKED;
use super::verdict::{Facts, HALF, Suspicion, WINDOW_LIMITED};
use crate::program::judge::{Defect, Kind, Looks, at_quantile, is_flat};

impl Facts<'_> {
    pub(super) fn defects(&self, looks: &Looks) -> Vec<Defect> {
        let rules: [(&str, Option<String>); 10] = [
            ("does not react to losses", self.ignores_losses(looks.kind)),
            ("fixed window", self.fixed_window(looks.kind)),
            ("window of a few packets", self.few_packets()),
            ("Startup does not end", self.endless_startup(looks.kind)),
            ("ProbeRTT lasts too long", self.long_probe_rtt(looks.kind)),
            ("no pacing", self.unpaced(looks)),
            ("window reset at each loss", self.reset_at_loss()),
            ("tolerates too much loss", self.tolerates_loss(looks.kind)),
            ("does not react to marks", self.ignores_marks()),
            ("halves at each mark of L4S", self.halves_at_marks(looks.kind)),
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
            && usual > 0.6 * most
            && !self.may_be_held_by_marks();
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

    pub(super) fn suspicions(&self, looks: &Looks) -> Vec<Suspicion> {
        if self.figures.window_limited_share.is_some_and(|share| share > WINDOW_LIMITED) {
            return Vec::new();
        }
        // A sender that answers to losses, or looks for more, is not stuck.
        let known = matches!(
            looks.kind,
            Kind::BbrLike { .. } | Kind::LossBased { .. } | Kind::Scalable { .. }
        );
        if known {
            return [self.deaf_to_classic(), self.slow_return()].into_iter().flatten().collect();
        }
        if self.may_be_held_by_marks() || self.may_be_receivers_window() {
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
        let resent = pause[1].sending != Sending::First;
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
