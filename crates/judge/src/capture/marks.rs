//! The ECN field of a flow's data, what its receiver tells of it, and the answers to that.

use super::flow::{At, Flow, Place};
use super::packet::Tcp;
use super::tcp::Segment;
use super::verdict::{Facts, Suspicion};
use crate::program::judge::{Kind, at_quantile};

/// The bits of the ECN field (RFC 3168 section 5, RFC 9331).
pub(super) const ECT1: usize = 1;
pub(super) const CE: u8 = 3;

/// The share of the packets that are not marked from which on a flow is one of L4S: a queue marks
/// ECT(0) as well, and a SYN is not ECN-capable.
const L4S: f64 = 0.9;

/// The share of ECT(1) among packets whose field is seen, without those that a queue has marked.
pub(super) fn ect1_share(codepoints: &[u64; 4]) -> Option<f64> {
    let [not_ect, ect1, ect0, ce] = codepoints.map(|packets| packets as f64);
    let all = not_ect + ect1 + ect0;
    (all + ce > 0.0).then(|| ect1 / all.max(1.0))
}

/// The counts in the acknowledgements of a packet number space (RFC 9000 section 19.3.2).
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct Counts {
    /// The most of ECT(0), ECT(1) and CE so far.
    told: [u64; 3],
    /// The largest sum that was more than what had been sent.
    refused: u64,
}

impl Counts {
    /// Takes the counts of ECT(0), ECT(1) and CE of an acknowledgement. Older ones may come later.
    /// Those of more packets than the `sent` ones prove nothing (RFC 9000 section 13.4.2.1); the
    /// next acknowledgement repeats what is true of them.
    pub(super) fn ack(&mut self, flow: &mut Flow, at_s: f64, told: [u64; 3], sent: u64) {
        let all = told.into_iter().fold(0, u64::saturating_add);
        if all > sent {
            self.refused = self.refused.max(all);
            return;
        }
        flow.are_marks_told |= all > 0;
        let [ect0, ect1, ce] = std::array::from_fn(|i| told[i].saturating_sub(self.told[i]));
        self.told = std::array::from_fn(|i| told[i].max(self.told[i]));
        // The spaces of a damaged log may come to more than 64 bits.
        flow.codepoints[2] = flow.codepoints[2].saturating_add(ect0);
        flow.codepoints[ECT1] = flow.codepoints[ECT1].saturating_add(ect1);
        if ce > 0 {
            flow.marks.push(At { at_s, value: ce as f64 });
            flow.marked_packets = flow.marked_packets.saturating_add(ce);
        }
    }

    /// True if it told of more packets than the `sent` ones, of which the last may be logged late.
    pub(super) const fn is_impossible(&self, sent: u64) -> bool {
        self.refused > sent
    }
}

/// The count of marked packets in the headers of TCP (RFC 9768), modulo 8.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct Accurate {
    /// Both ends agreed to count, in a handshake that is in the capture.
    is_agreed: bool,
    /// The next acknowledgement tells of the SYN-ACK, and has no count.
    is_handshake: bool,
    last: Option<u8>,
    newest: Option<u32>,
    /// The packets that may be marked beyond those that are counted, as the count has 3 bits.
    hidden: u64,
}

/// The count with which a receiver begins (RFC 9768 section 3.2.1).
const FIRST_COUNT: u8 = 5;

impl Accurate {
    pub(super) fn of(segments: &[Segment]) -> Self {
        let syn = |is_answer: bool| {
            segments.iter().find(|s| s.tcp.syn && s.tcp.ack.is_some() == is_answer)
        };
        let (Some(syn), Some(answer)) = (syn(false), syn(true)) else { return Self::default() };
        // RFC 9768 section 3.1.2.
        let agrees = (0b010..=0b110).contains(&answer.tcp.ecn_flags);
        Self {
            is_agreed: syn.tcp.ecn_flags == 0b111 && agrees,
            is_handshake: !syn.is_data_way,
            last: Some(FIRST_COUNT),
            newest: None,
            hidden: 0,
        }
    }

    /// True if acknowledgements count the marks.
    pub(super) const fn is_agreed(&self) -> bool {
        self.is_agreed
    }

    /// The packets of which an acknowledgement is the first to tell that they were marked; it
    /// confirms so many. That is the least number: a receiver acknowledges before it has seen 7
    /// marks (RFC 9768 section 3.2.2.5.1), and such acknowledgements may be lost.
    pub(super) fn ack(&mut self, tcp: &Tcp, confirmed: u64) -> u64 {
        if !self.is_agreed || tcp.syn || tcp.rst {
            return 0;
        }
        if std::mem::take(&mut self.is_handshake) && tcp.payload == 0 {
            return 0;
        }
        // One that was overtaken has an older count.
        let is_older =
            |newest: u32| tcp.ack.is_some_and(|ack| newest.wrapping_sub(ack).cast_signed() > 0);
        if self.newest.is_some_and(is_older) {
            return 0;
        }
        let was_newest = tcp.ack.is_some() && self.newest == tcp.ack;
        self.newest = tcp.ack.or(self.newest);
        let before = self.last.unwrap_or(tcp.ecn_flags);
        let told = u64::from(tcp.ecn_flags.wrapping_sub(before) & 7);
        // One that was overtaken by another with the same number goes back by one or a few.
        if was_newest && confirmed == 0 && told > 4 {
            return 0;
        }
        self.last = Some(tcp.ecn_flags);
        self.hidden += confirmed.saturating_sub(told) & !7;
        told
    }

    /// Says so where the acknowledgements of many packets leave open how many were marked.
    pub(super) fn finish(&self, flow: &mut Flow) {
        let sent: u64 = flow.sent.iter().map(|s| u64::from(s.packets)).sum();
        if flow.place == Place::Sender && self.hidden * 10 > sent {
            flow.cannot_tell(
                COUNT_OF_MARKS,
                format!(
                    "TCP counts them modulo 8, and acknowledgements confirm 8 packets and more: {} are told, and {} more \
                     may be marked; capture at the receiver",
                    flow.marked_packets, self.hidden
                ),
            );
        }
    }
}

/// Round trips after which a healthy sender that began with too much has answered to its marks.
const SETTLED_ROUND_TRIPS: f64 = 40.0;

/// The name of the number of marked packets where it is not known.
const COUNT_OF_MARKS: &str = "number of marks";

/// The least number of reports of marks that tell how a sender answers to them.
const LEAST_REPORTS: usize = 3;

/// The most reports of marks that are looked at, from all of the time.
const MOST_REPORTS: usize = 300;

/// The time in which a BBR that answers to marks has had a ProbeRTT. Its interval is 5 s, and begins
/// anew where a queue of L4S lets the shortest round trip come back.
const PROBE_RTT_SEEN_S: f64 = 12.0;

/// Packets in flight from which on more than half of them marked are more than a scalable sender
/// keeps: two marks in a round trip hold its window (RFC 9332 appendix B).
const LEAST_PACKETS: f64 = 16.0;

/// The queue above which a queue that marks is none of L4S, which begins at about a millisecond.
const CLASSIC_QUEUE_S: f64 = 5e-3;

impl Facts<'_> {
    fn is_l4s(&self) -> bool {
        self.figures.ect1_share.is_some_and(|share| share >= L4S)
    }

    /// The reports of marks once the sender has found its rate.
    fn late_marks(&self) -> &[At] {
        let marks = &self.view.flow.marks;
        marks.get(marks.partition_point(|m| m.at_s < self.from)..).unwrap_or_default()
    }

    /// The packets that are marked in that time.
    fn marked(&self) -> f64 {
        self.late_marks().iter().map(|m| m.value).sum()
    }

    /// A sender of L4S that marks hold, as far as anybody can know: its window and its rate say
    /// nothing then.
    pub(super) fn may_be_held_by_marks(&self) -> bool {
        let is_held = self.late_marks().len() >= LEAST_REPORTS;
        self.is_l4s() && (is_held || !self.view.flow.are_marks_told)
    }

    /// Their share of all.
    fn marked_share(&self) -> f64 {
        let sent = self.view.flow.sent.iter().filter(|s| s.at_s >= self.from);
        self.marked() / sent.map(|s| f64::from(s.packets)).sum::<f64>().max(1.0)
    }

    fn marks_per_round_trip(&self) -> Option<f64> {
        let rtt = self.view.usual_rtt_s?;
        Some(self.marked() * rtt / (self.view.end_s - self.from).max(rtt))
    }

    /// For marks that came alone, without a loss: the data in flight after them as a share of
    /// those before, the packets that were marked, and the queue before them in seconds.
    fn mark_answers(&self) -> Vec<(f64, f64, f64)> {
        let Some(rtt) = self.view.usual_rtt_s else { return Vec::new() };
        let late = self.view.mark_episodes().into_iter().filter(|e| e.at_s > self.from);
        let answers = late.filter_map(|e| {
            let is_alone = self.view.flow.lost_in(e.at_s - rtt, e.until_s + 4.0 * rtt).is_empty();
            let before = self.view.rtt(e.at_s - 2.0 * rtt, e.at_s, 0.9)?;
            let queue = before - self.view.min_rtt_s?;
            Some((e.share_after.filter(|_| is_alone)?, e.lost_bytes / self.view.packet(), queue))
        });
        answers.collect()
    }

    fn usual_answer(&self, of: fn(&(f64, f64, f64)) -> f64) -> Option<f64> {
        let answers = self.mark_answers();
        (answers.len() >= 3).then(|| at_quantile(answers.iter().map(of).collect(), 0.5))?
    }

    /// A sender of L4S by its packets and the marks that hold its window. Where these are not known,
    /// or the flow is too short, nothing else tells its kind.
    pub(super) fn by_marks(&mut self) -> Option<Kind> {
        if !self.is_l4s() {
            return None;
        }
        let flow = self.view.flow;
        if self.late_marks().len() < LEAST_REPORTS {
            let why = match (flow.are_marks_told, flow.protocol) {
                (true, _) => {
                    "its packets are ECT(1), and the path has no marks for them, or one or two: behind a queue that \
                     marks its answer shows"
                }
                (false, "TCP") => {
                    "its packets are ECT(1), and the file does not show the marks: capture the handshake as well, which \
                     says how they are told"
                }
                (false, _) => {
                    "its packets are ECT(1), and the file does not show the marks: give the key log of an end with \
                     --keys, or capture at the receiver"
                }
            };
            self.cannot("answers to marks", why);
            if flow.are_marks_told {
                return None;
            }
            self.cannot("kind of algorithm", "marks that are not in the file may hold its window");
            return Some(Kind::Unknown);
        }
        if self.ignores_marks().is_some() {
            return None;
        }
        if flow.inflight.is_empty() || self.figures.duration_s < PROBE_RTT_SEEN_S {
            self.cannot(
                "kind of algorithm",
                format!(
                    "its packets are ECT(1), and marks hold its window: the ProbeRTT of a BBR that answers to marks shows \
                     in the data in flight of {PROBE_RTT_SEEN_S:.0} s"
                ),
            );
            return Some(Kind::Unknown);
        }
        let marks = self.marks_per_round_trip()?;
        self.because(format!(
            "{:.0} % of its packets are ECT(1), and {:.1} % are marked, {marks:.1} in a round trip",
            100.0 * self.figures.ect1_share.unwrap_or(0.0),
            100.0 * self.marked_share(),
        ));
        Some(Kind::Scalable { decrease: self.usual_answer(|answer| answer.0) })
    }

    pub(super) fn ignores_marks(&self) -> Option<String> {
        let settled = (self.view.end_s - self.from) / self.view.usual_rtt_s?;
        if settled < SETTLED_ROUND_TRIPS {
            return None;
        }
        let marked = self.marked_share();
        let [_, ect1, ect0, _] = self.view.flow.codepoints;
        (ect1.max(ect0) > 0 && marked > 0.5 && self.packets > LEAST_PACKETS).then(|| {
            format!(
                "{:.0} % of its packets are marked, and it keeps {:.0} in flight, where any answer ends sooner",
                100.0 * marked,
                self.packets
            )
        })
    }

    pub(super) fn halves_at_marks(&self, kind: Kind) -> Option<String> {
        let Kind::Scalable { decrease: Some(share) } = kind else { return None };
        // Where more may be marked than is told, the answer that is asked for may be larger.
        if self.view.flow.unknown.iter().any(|u| u.what == COUNT_OF_MARKS) {
            return None;
        }
        let marked = self.usual_answer(|answer| answer.1)? / self.packets.max(1.0);
        let queue = self.usual_answer(|answer| answer.2)?;
        // A tenth more than the whole answer to this round trip alone. A queue that is long asks for
        // that to a loss.
        let most = 1.0 - marked / 2.0 - 0.1;
        (share < most.min(0.65) && queue < CLASSIC_QUEUE_S).then(|| {
            format!(
                "its packets are ECT(1), and where {:.0} % of a round trip are marked the data in flight go down to {:.0} %: that is \
                 the answer to a loss, and L4S takes half of the marked share away",
                100.0 * marked,
                100.0 * share
            )
        })
    }

    /// The queue is long when it marks, and the sender holds its window by more than a mark a round
    /// trip, for longer than a healthy one needs to settle.
    pub(super) fn deaf_to_classic(&self) -> Option<Suspicion> {
        let (rtt, marks) = (self.view.usual_rtt_s?, self.marks_per_round_trip()?);
        if !self.is_l4s() || marks <= 1.0 || self.figures.duration_s < PROBE_RTT_SEEN_S {
            return None;
        }
        let late = self.late_marks();
        let some = late.iter().step_by(late.len().div_ceil(MOST_REPORTS).max(1));
        let queues =
            some.filter_map(|m| self.view.rtt(m.at_s - rtt, m.at_s + self.view.step_s, 0.5));
        let queue = at_quantile(queues.collect(), 0.5)? - self.view.min_rtt_s?;
        (queue > CLASSIC_QUEUE_S).then(|| Suspicion {
            name: "answers a classic queue as one of L4S".to_owned(),
            about: format!(
                "the queue is {:.0} ms long when it marks, and {marks:.1} packets of a round trip are marked for good: other flows in \
                 such a queue halve at each mark (RFC 9331 section 4.3)",
                1e3 * queue
            ),
            or_else: "the queue is one of L4S that begins to mark as late".to_owned(),
        })
    }
}
