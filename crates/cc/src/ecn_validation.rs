//! Validation of ECN by a sender: whether the field of its packets arrives as it left, or with a
//! mark that a queue can have made.
//!
//! RFC 9000 section 13.4.2.1: of the packets that an ACK newly acknowledges each has to be counted,
//! as ECT or as CE; one that is not was bleached. And no packet may be counted that was not
//! ECN-capable. Marks on all packets prove nothing: a flow that comes late into a queue which
//! others keep above its threshold sees nothing else, whatever it does. A router that writes CE
//! into the field by mistake writes it into packets that are not ECN-capable as well, which no
//! queue does. So a sender that has had nothing but marks for some round trips sends packets of one
//! round trip without ECN, and looks whether they are counted. RFC 9768 section 3.2.2.3 asks the
//! same of TCP's SYN, which is not ECN-capable. Where the field is changed the sender stops: its
//! packets say no more that they can be marked, and marks mean nothing to it.

/// Round trips with nothing but marks, from the first packet on, after which the sender asks.
const MARKED_ROUNDS: u32 = 8;
/// Questions in succession of which all packets were counted, and which so end ECN: one may be
/// wrong where the network doubles packets. After as many that were lost nothing is asked again.
const QUESTIONS: u32 = 3;

/// A sender's account of the ECN field. Packets are numbered as they leave, retransmissions too.
///
/// ```
/// # use fullpipe_cc::EcnValidation;
/// let mut validation = EcnValidation::default();
/// // Ten packets have left. Of the first two one was counted: somebody clears the field.
/// validation.on_ack(2, (1, 0), (1, 10));
/// assert!(validation.has_failed() && validation.is_silent());
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct EcnValidation {
    /// Packets that were acknowledged; of those that the receiver counted, ECT and CE together, and
    /// CE alone.
    acked: u64,
    counted: u64,
    marked: u64,
    /// Packets that left without ECN in questions that are over.
    asked: u64,
    /// The first packet of the next round, while everything was marked so far.
    round_end: u64,
    marked_rounds: u32,
    question: Question,
    /// Questions so far of which all packets were counted.
    counted_questions: u32,
    /// Questions that were lost as a whole.
    lost_questions: u32,
    /// The field arrives as it left: there was a packet without a mark, or an honest answer.
    is_sound: bool,
    has_failed: bool,
    /// The receiver counts marks alone.
    counts_marks_alone: bool,
}

/// Packets of a round trip that leave without ECN.
#[derive(Clone, Copy, Debug, Default)]
enum Question {
    #[default]
    None,
    /// Packets leave without ECN, from this one on.
    Leaving { first: u64 },
    /// Those until this one left without ECN. Before the first of them was acknowledged so many
    /// packets were acknowledged and counted.
    Arriving { end: u64, acked: u64, counted: u64 },
}

impl EcnValidation {
    /// For a receiver that counts marks alone, and not what is ECN-capable: TCP's accurate feedback
    /// without its option (RFC 9768). A field that is cleared does not show there.
    pub fn of_marks() -> Self {
        Self { counts_marks_alone: true, ..Self::default() }
    }

    /// An ACK acknowledges `newly_acked` packets and has these counts, of ECT and CE together and
    /// of CE; where marks alone are counted both are that. `largest` is the newest packet that was
    /// acknowledged so far, `next` the one that will be sent next.
    #[inline]
    pub fn on_ack(
        &mut self,
        newly_acked: u64,
        (counted, marked): (u64, u64),
        (largest, next): (u64, u64),
    ) {
        let before = (self.acked, self.counted);
        self.acked += newly_acked;
        // ACKs overtake each other.
        self.counted = self.counted.max(counted);
        self.marked = self.marked.max(marked);
        if !self.is_sound {
            self.look_for_unmarked(before, largest, next);
        }
        self.has_failed |= !self.counts_marks_alone && self.acked > self.counted + self.asked;
    }

    #[cold]
    fn look_for_unmarked(&mut self, (acked, counted): (u64, u64), largest: u64, next: u64) {
        match self.question {
            Question::None => self.count_round(largest, next),
            Question::Leaving { first } if largest >= first => {
                self.asked += next - first;
                self.question = Question::Arriving { end: next, acked, counted };
            }
            Question::Arriving { end, acked, counted } if largest >= end => {
                let is_counted = self.counted - counted >= self.acked - acked;
                self.question = Question::None;
                self.round_end = next;
                self.is_sound = !is_counted;
                self.counted_questions += 1;
                self.has_failed |= is_counted && self.counted_questions >= QUESTIONS;
            }
            Question::Leaving { .. } | Question::Arriving { .. } => {}
        }
    }

    /// A probe is due: nothing of what is in flight was acknowledged for long. The question ends,
    /// and is asked again after as many round trips as before the first. Where the path drops all
    /// that is not ECN-capable none is ever answered, so the last of `QUESTIONS` counts as an
    /// honest answer. `next` is the packet that will be sent next.
    #[cold]
    pub fn on_probe(&mut self, next: u64) {
        if let Question::Leaving { first } = self.question
            && next > first
        {
            self.asked += next - first;
            (self.question, self.round_end, self.marked_rounds) = (Question::None, next, 0);
            self.lost_questions += 1;
            self.is_sound = self.lost_questions >= QUESTIONS;
        }
    }

    fn count_round(&mut self, largest: u64, next: u64) {
        self.is_sound = self.marked < self.acked - self.asked.min(self.acked);
        if self.is_sound || largest < self.round_end {
            return;
        }
        self.round_end = next;
        self.marked_rounds = self.marked_rounds.saturating_add(1);
        if self.marked_rounds > MARKED_ROUNDS {
            self.question = Question::Leaving { first: next };
        }
    }

    /// True if packets must say that they are not ECN-capable: the field is changed, or this is
    /// asked.
    #[inline]
    pub const fn is_silent(&self) -> bool {
        self.has_failed || matches!(self.question, Question::Leaving { .. })
    }

    /// True if the field is changed on the way: marks mean nothing.
    pub const fn has_failed(&self) -> bool {
        self.has_failed
    }
}

#[cfg(test)]
mod tests {
    use std::vec::Vec;

    use super::*;

    /// A path's account of rounds of so many packets, each with an ACK of its own; `changes` says
    /// what becomes of a packet's field. The packets that left without ECN, and the state at the
    /// end.
    fn after(
        rounds: u64,
        window: u64,
        mut changes: impl FnMut(u64, Field) -> Field,
    ) -> (u64, EcnValidation) {
        let mut validation = EcnValidation::default();
        let mut sent: Vec<Field> = Vec::new();
        let (mut counted, mut marked, mut without) = (0, 0, 0);
        for round in 0..rounds {
            for _ in 0..window {
                let field = if validation.is_silent() { Field::NotEct } else { Field::Ect };
                without += u64::from(field == Field::NotEct);
                sent.push(field);
            }
            for pn in round * window..(round + 1) * window {
                let field = changes(pn, sent[pn as usize]);
                counted += u64::from(field != Field::NotEct);
                marked += u64::from(field == Field::Ce);
                validation.on_ack(1, (counted, marked), (pn, (round + 1) * window));
            }
        }
        (without, validation)
    }

    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    enum Field {
        NotEct,
        Ect,
        Ce,
    }

    /// A queue's mark.
    fn mark(field: Field) -> Field {
        if field == Field::Ect { Field::Ce } else { field }
    }

    /// A field that the path clears shows in a count of ECN-capable packets, and not in one of
    /// marks.
    #[test]
    fn a_count_of_marks_alone_says_nothing_of_a_field_that_is_cleared() {
        let fails = |mut validation: EcnValidation| {
            (1..50).for_each(|n| validation.on_ack(1, (0, 0), (n, n + 1)));
            validation.has_failed()
        };
        assert!(fails(EcnValidation::default()));
        assert!(!fails(EcnValidation::of_marks()));
    }

    #[test]
    fn a_packet_that_is_not_counted_ends_it() {
        let has_failed = |cleared: u64| {
            let clear = |pn, field| if pn % 10 < cleared { Field::NotEct } else { field };
            after(1, 10, clear).1.has_failed()
        };
        assert!(!has_failed(0));
        assert!(has_failed(1));
    }

    #[test]
    fn a_packet_without_a_mark_and_nothing_is_asked() {
        let (without, validation) = after(1_000, 2, |pn, f| if pn == 15 { f } else { mark(f) });
        assert_eq!((without, validation.has_failed()), (0, false));
    }

    #[test]
    fn marks_on_all_that_can_be_marked_are_a_queues() {
        for window in [1, 2, 4, 10] {
            let (without, validation) = after(10_000, window, |_, field| mark(field));
            assert!(!validation.has_failed() && !validation.is_silent(), "{window}");
            assert_eq!(without, window, "one question, of one round trip");
        }
    }

    #[test]
    fn marks_on_what_cannot_be_marked_are_no_queues() {
        for window in [1, 2, 4, 10] {
            assert!(!after(8, window, |_, _| Field::Ce).1.has_failed(), "{window}");
            assert!(after(30, window, |_, _| Field::Ce).1.has_failed(), "{window}");
        }
    }

    /// The network may have doubled the packets of one.
    #[test]
    fn fewer_counted_questions_do_not_end_it() {
        for wrong in 0..=QUESTIONS {
            let mut counted = 0;
            let change = |_, field| {
                if field == Field::NotEct && counted < 2 * wrong {
                    counted += 1;
                    return Field::Ce;
                }
                mark(field)
            };
            let (without, validation) = after(100, 2, change);
            assert_eq!(validation.has_failed(), wrong == QUESTIONS, "{wrong}");
            if wrong < QUESTIONS {
                assert_eq!(without, 2 * u64::from(wrong + 1), "{wrong}, and an honest one");
            }
        }
    }

    /// A question is asked when MARKED_ROUNDS round trips are over, however few packets each has.
    #[test]
    fn a_question_waits_for_so_many_round_trips() {
        for window in [1, 2, 4, 10] {
            let until = u64::from(MARKED_ROUNDS) + 1;
            assert!(!after(until - 1, window, |_, field| mark(field)).1.is_silent(), "{window}");
            assert!(after(until, window, |_, field| mark(field)).1.is_silent(), "{window}");
        }
    }

    /// A question counts as answered when all of its packets have arrived: the last one may be the
    /// one that was not marked.
    #[test]
    fn a_question_of_which_one_packet_is_not_counted_is_an_honest_one() {
        let change = |pn, field| match field {
            Field::NotEct if pn % 4 != 3 => Field::Ce,
            _ => mark(field),
        };
        assert!(!after(200, 4, change).1.has_failed());
    }

    #[test]
    fn a_router_that_clears_the_field_after_a_question_is_noticed() {
        let change = |pn, field| if pn < 200 { mark(field) } else { Field::NotEct };
        assert!(!after(100, 2, change).1.has_failed());
        assert!(after(105, 2, change).1.has_failed());
    }

    /// Packets that are not ECN-capable may be dropped, and then nothing answers.
    #[test]
    fn a_question_without_an_answer_ends_with_a_probe() {
        let mut validation = EcnValidation::default();
        // Packets that left, and those of them that were counted.
        let (mut pn, mut counted) = (0, 0);
        for question in 0..QUESTIONS {
            let before = pn;
            while !validation.is_silent() {
                (pn, counted) = (pn + 1, counted + 1);
                assert!(pn < before + 100, "it asks");
                validation.on_ack(1, (counted, counted), (pn - 1, pn));
            }
            assert!(pn - before > u64::from(MARKED_ROUNDS), "question {question}");
            validation.on_probe(pn);
            assert!(validation.is_silent(), "nothing of it has left");
            validation.on_probe(pn + 4);
            assert!(!validation.is_silent() && !validation.has_failed());
            pn += 4;
        }
        // Those of the last one were late, and are not counted; nothing is asked again.
        for late in pn - 4..pn {
            validation.on_ack(1, (counted, counted), (late, pn));
        }
        for n in 1..200 {
            validation.on_ack(1, (counted + n, counted + n), (pn + n, pn + 1 + n));
            assert!(!validation.is_silent() && !validation.has_failed(), "{n}");
        }
        // Four packets of each question may be not counted. Those of the last one were.
        (pn, counted) = (pn + 200, counted + 199);
        for n in 1..=4 * u64::from(QUESTIONS) - 3 {
            assert!(!validation.has_failed(), "{n}");
            validation.on_ack(1, (counted, counted), (pn + n, pn + 1 + n));
        }
        assert!(validation.has_failed());
    }

    #[test]
    fn acks_that_overtake_each_other_are_no_failure() {
        let mut validation = EcnValidation::default();
        validation.on_ack(8, (10, 0), (9, 20));
        validation.on_ack(2, (2, 0), (9, 20));
        assert!(!validation.has_failed());
    }
}
