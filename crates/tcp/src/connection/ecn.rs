//! Explicit congestion notification: classic (RFC 3168), and with accurate feedback (RFC 9768).
//!
//! Classic feedback says once in a round trip that a packet was marked. Accurate feedback counts
//! marked packets: three flags of the header have the low bits of the receiver's count. Its TCP
//! option, which counts bytes and is optional, is neither sent nor read.

use fullpipe_cc::EcnValidation;

use super::{Connection, Send};
use crate::options::Options;
use crate::sent::News;
use crate::wire::{Control, Ecn, Header, Segment};

/// The first value of the counts, so that a field that was zeroed on the way shows (section 3.2.1).
const FIRST_COUNT: u64 = 5;
/// The count in a header is modulo this.
const MODULUS: u64 = 8;
/// The flags of a SYN that asks for accurate feedback, and for classic feedback (section 3.1.2,
/// table 2).
pub(crate) const ASK_ACCURATE: u8 = 0b111;
pub(crate) const ASK_CLASSIC: u8 = 0b011;
/// The flags of a SYN-ACK with the latter.
pub(crate) const CLASSIC: u8 = 0b001;
/// SYNs that ask for accurate feedback; others may be lost because they do (section 3.1.4.1).
const SYNS_THAT_ASK: u32 = 2;
/// Marked packets without an ACK: with data that is not acknowledged, and without (section
/// 3.2.2.5.1).
const MARKS_WITH_DATA: u32 = 2;
const MARKS_WITHOUT: u32 = 3;
/// Packets by which the part that was marked lately is estimated.
const LATELY: u64 = 64;

/// The flags that tell the ECN field of a SYN or SYN-ACK (section 3.2.2.1, table 3).
const fn handshake_code(field: Ecn) -> u8 {
    match field {
        Ecn::NotEct => 0b010,
        Ecn::Ect1 => 0b011,
        Ecn::Ect0 => 0b100,
        Ecn::Ce => 0b110,
    }
}

/// True if the flags of a SYN-ACK agree to accurate feedback. The last is reserved, and means that
/// the SYN arrived as it was sent (section 3.1.3).
pub(crate) const fn agrees(flags: u8) -> bool {
    matches!(flags, 0b010 | 0b011 | 0b100 | 0b110 | RESERVED)
}

const RESERVED: u8 = 0b101;

/// The state of ECN on both sides.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Marks {
    /// RFC 3168 section 6.1: a CE mark came, and no CWR since: ACKs carry ECE.
    pub(super) echo: bool,
    /// The next new data says that the window was reduced.
    pub(super) reduced: bool,
    /// Marks of data before this place are answered already.
    pub(super) answered: u64,
    pub(super) accurate: Accurate,
}

/// The state of accurate feedback. As a receiver of data, an end goes on with it whatever happens
/// to its own data.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Accurate {
    /// r.cep and s.cep without their first value (section 3.2): marked packets that came here, and
    /// of which the peer told.
    received: u64,
    told: u64,
    /// The ECN field of the peer's newest SYN or SYN-ACK.
    syn_field: Ecn,
    /// The next pure ACK tells of it.
    is_handshake_due: bool,
    /// Marked packets since an ACK left, and whether the newest packet was one.
    unacked: u32,
    was_marked: bool,
    /// Marks to which the congestion control has not answered yet.
    pending: u64,
    /// Nothing leaves as ECN-capable: the field is changed on the way, or the peer may not count.
    is_off: bool,
    /// The peer's feedback is not answered.
    is_deaf: bool,
    /// A header after the handshake has come.
    has_feedback: bool,
    /// Packets that arrived lately and of these the marked ones, each halved now and then.
    lately: u64,
    marked_lately: u64,
    /// Whether the field of data arrives as it left, or with a router's mark (section 3.2.2.3).
    validation: Option<EcnValidation>,
    /// The newest packet that was acknowledged so far.
    largest: u64,
}

impl Accurate {
    /// The increase of s.cep for a header that tells `flags` and acknowledges `packets` (section
    /// 3.2.2.5.2). The least that the flags allow; but as many more turns of them as are likely if
    /// twice the part of the packets was marked that was lately, and ACKs in between were lost.
    fn news(&self, flags: u8, packets: u64) -> u64 {
        let told = FIRST_COUNT + self.told;
        let least = u64::from(flags).wrapping_sub(told) % MODULUS;
        let likely = (2 * packets * self.marked_lately).checked_div(self.lately).unwrap_or(0);
        least + likely.min(packets).saturating_sub(least) / MODULUS * MODULUS
    }

    fn note_part(&mut self, packets: u64, marked: u64) {
        self.lately += packets;
        self.marked_lately += marked.min(packets);
        while self.lately > LATELY {
            (self.lately, self.marked_lately) = (self.lately / 2, self.marked_lately / 2);
        }
    }
}

impl Marks {
    /// The marks of which an ACK tells that is the first to acknowledge the packets of `news`: what
    /// the congestion control hears of. `send` has SND.UNA as it is now, and `next` is the number
    /// of the next transmission.
    pub(super) fn told(
        &mut self,
        options: &Options,
        send: &Send,
        header: &Header,
        news: &News,
        next: u64,
    ) -> u64 {
        let packets = news.segments;
        if !options.accurate_ecn {
            let has = options.ecn && header.ece && send.una > self.answered;
            if has {
                (self.reduced, self.answered) = (true, send.nxt);
            }
            return u64::from(has);
        }
        let marks = &mut self.accurate;
        let flags = header.flags();
        if !core::mem::replace(&mut marks.has_feedback, true) && flags == 0 {
            // Section 3.2.2.4: no count is 0 at first, unless so many packets may have been marked
            // that it has wrapped already.
            let is_zeroed = FIRST_COUNT + marks.told + packets < MODULUS;
            (marks.is_off, marks.is_deaf) = (marks.is_off || is_zeroed, is_zeroed);
        }
        let mut told = core::mem::take(&mut marks.pending);
        // An ACK that acknowledges nothing may be older than others that came.
        if packets > 0 {
            let marked = marks.news(flags, packets);
            marks.told += marked;
            marks.note_part(packets, marked);
            marks.largest = marks.largest.max(news.newest_order);
            if let Some(validation) = &mut marks.validation {
                validation.on_ack(packets, (marks.told, marks.told), (marks.largest, next));
            }
            told += marked;
        }
        let has_failed = marks.validation.is_some_and(|validation| validation.has_failed());
        if marks.is_deaf || has_failed { 0 } else { told }
    }
}

impl Connection {
    /// The flags of a SYN, or of the SYN-ACK that answers one.
    pub(super) fn syn_flags(&self, answers: bool) -> u8 {
        let options = &self.options;
        match (options.ecn, options.accurate_ecn, answers) {
            (false, _, _) => 0,
            (true, true, true) => handshake_code(self.marks.accurate.syn_field),
            (true, true, false) if self.syns < SYNS_THAT_ASK => ASK_ACCURATE,
            // Not classic, either: the peer could not know which of the two SYNs was answered
            // (section 3.1.5).
            (true, true, false) => 0,
            (true, false, true) => CLASSIC,
            (true, false, false) => ASK_CLASSIC,
        }
    }

    /// A SYN or SYN-ACK came, which the options agree with.
    pub(super) fn note_syn_field(&mut self, syn: &Header) {
        if !self.options.accurate_ecn {
            return;
        }
        let marks = &mut self.marks.accurate;
        marks.syn_field = syn.ecn;
        if syn.ack.is_none() {
            return;
        }
        (marks.is_handshake_due, marks.validation) = (true, Some(EcnValidation::of_marks()));
        // Section 3.2.2.2: at most once.
        marks.received = u64::from(syn.ecn == Ecn::Ce).max(marks.received);
        self.note_own_syn_field(syn.flags());
    }

    /// The peer tells with what ECN field this end's SYN or SYN-ACK arrived, which had none. If
    /// somebody changes the field, nothing leaves as ECN-capable (section 3.2.2.3).
    fn note_own_syn_field(&mut self, flags: u8) {
        let marks = &mut self.marks.accurate;
        let is_sound = flags == handshake_code(Ecn::NotEct) || !agrees(flags) || flags == RESERVED;
        marks.is_off |= !is_sound;
        marks.pending += u64::from(flags == handshake_code(Ecn::Ce));
    }

    /// A SYN came once more, in SYN-RECEIVED; false if it asks for the other kind of feedback, for
    /// which the connection is reset (section 3.1.5).
    pub(super) fn accepts_syn_again(&mut self, syn: &Header) -> bool {
        let flags = syn.flags();
        if !self.config.accurate_ecn || !self.options.ecn {
            return true;
        }
        if !self.options.accurate_ecn {
            return flags != ASK_ACCURATE;
        }
        // An end that has asked for nothing may not count.
        self.marks.accurate.is_off |= flags == 0;
        self.marks.accurate.syn_field = syn.ecn;
        flags != ASK_CLASSIC
    }

    /// A SYN-ACK came once more, after the handshake: its ACK tells of its ECN field as the first
    /// one did.
    pub(super) fn note_syn_ack_again(&mut self, syn: &Header) {
        if self.options.accurate_ecn && !self.is_passive && agrees(syn.flags()) {
            let marks = &mut self.marks.accurate;
            (marks.syn_field, marks.is_handshake_due) = (syn.ecn, true);
        }
    }

    /// The ACK of this end's SYN-ACK came, in SYN-RECEIVED (section 3.2.2.1, table 4).
    pub(super) fn note_handshake_ack(&mut self, header: &Header, is_pure: bool) {
        if !self.options.accurate_ecn {
            return;
        }
        self.marks.accurate.validation = Some(EcnValidation::of_marks());
        if !is_pure || header.sack[0].is_some() {
            return;
        }
        let flags = header.flags();
        if flags == 0 {
            (self.marks.accurate.is_off, self.marks.accurate.is_deaf) = (true, true);
        }
        if flags == handshake_code(Ecn::Ce) {
            self.marks.accurate.told = 1;
        }
        self.note_own_syn_field(flags);
        // What follows has a count.
        self.marks.accurate.has_feedback = false;
    }

    /// True if `segment` has more marks than the ACK that is due may tell of besides its own: the
    /// peer would count fewer, since the count has three bits (section 3.2.2.5.1).
    pub(super) fn exceeds_marks(&self, segment: &Segment<'_>) -> bool {
        let is_marked = self.options.accurate_ecn && segment.header.ecn == Ecn::Ce;
        is_marked && self.marks.accurate.unacked + segment.packets > MARKS_WITH_DATA
    }

    /// The most packets of a merged segment that are taken in together, if it has more.
    pub(super) fn packets_at_once(&self, segment: &Segment<'_>) -> Option<u32> {
        let is_marked = self.options.accurate_ecn && segment.header.ecn == Ecn::Ce;
        let is_plain = !matches!(segment.header.control, Control::Syn | Control::Rst);
        let may = is_marked && is_plain && !segment.payload.is_empty();
        (may && segment.packets > MARKS_WITH_DATA).then_some(MARKS_WITH_DATA)
    }

    /// True if a pure ACK has to leave before anything else.
    pub(super) fn has_handshake_ack(&self) -> bool {
        self.marks.accurate.is_handshake_due && self.acks.is_due()
    }

    /// Puts into a header what the peer has to know. `tells_handshake`: it is a pure ACK without
    /// SACK blocks.
    pub(super) fn put_marks(&mut self, header: &mut Header, tells_handshake: bool) {
        if !self.options.accurate_ecn {
            header.ece = self.marks.echo;
            return;
        }
        let marks = &mut self.marks.accurate;
        let code = match marks.is_handshake_due && tells_handshake {
            true => handshake_code(marks.syn_field),
            false => ((FIRST_COUNT + marks.received) % MODULUS) as u8,
        };
        marks.is_handshake_due &= !tells_handshake;
        marks.unacked = 0;
        header.set_flags(code);
    }

    /// True if new data may leave as ECN-capable. That of L4S may not without feedback that counts
    /// marks (RFC 9331 section 4.2).
    pub(super) fn may_mark(&self) -> bool {
        self.options.ecn
            && (self.options.accurate_ecn || !self.config.congestion.ecn)
            && self.cc.wants_ecn()
            && !self.marks.accurate.is_off
            && !self.marks.accurate.validation.is_some_and(|validation| validation.is_silent())
    }

    /// A timer fired because nothing was acknowledged: a question of the validation was lost.
    pub(super) fn note_lost_question(&mut self) {
        let next = self.flight.next_number();
        if let Some(validation) = &mut self.marks.accurate.validation {
            validation.on_probe(next);
        }
    }

    /// The marks of a packet that came (RFC 3168 section 6.1.3; RFC 9768 sections 3.2 and
    /// 3.2.2.5.1).
    pub(super) fn note_marks(&mut self, segment: &Segment<'_>) {
        let Segment { header, payload, packets, .. } = segment;
        let is_marked = header.ecn == Ecn::Ce;
        if self.options.accurate_ecn {
            let is_change = is_marked && !self.marks.accurate.was_marked && !payload.is_empty();
            let has_data = !payload.is_empty() || self.acks.at().is_some();
            let marks = &mut self.marks.accurate;
            marks.was_marked = is_marked;
            // Each packet of a merged segment was marked: a device merges those with equal
            // codepoints.
            let marked = if is_marked { *packets } else { 0 };
            marks.received += u64::from(marked);
            marks.unacked += marked;
            let most = if has_data { MARKS_WITH_DATA } else { MARKS_WITHOUT };
            if is_change || marks.unacked >= most {
                self.acks.demand();
            }
        } else if self.options.ecn {
            self.marks.echo &= !header.cwr;
            self.marks.echo |= is_marked && !payload.is_empty();
        }
    }
}
