//! A TCP flow from its segments: what was sent, acknowledged and sent again, as its sender saw it.

use std::collections::{BTreeMap, VecDeque};

use super::flow::{Acked, At, Flow, Lost, Place, Sending, Sent};
use super::marks::{self, Accurate};
use super::packet::Tcp;
use super::place::Placed;

/// A segment of the flow.
#[derive(Clone, Copy, Debug)]
pub(super) struct Segment {
    /// From the first one on, in seconds.
    pub(super) at_s: f64,
    /// True if it goes the way of the data.
    pub(super) is_data_way: bool,
    /// The bits of ECN.
    pub(super) ecn: u8,
    pub(super) tcp: Tcp,
}

/// Sequence numbers of 64 bits, from those of 32 on the wire.
#[derive(Clone, Copy, Default, Debug)]
struct Unwrap {
    last: Option<u64>,
}

impl Unwrap {
    /// The number that is next to the last one.
    fn next(&mut self, wire: u32) -> u64 {
        let value = match self.last {
            // Room below: the first segment that was captured may not be the first one.
            None => (1 << 33) + u64::from(wire),
            Some(last) => {
                let step = i64::from(wire.wrapping_sub(last as u32).cast_signed());
                last.saturating_add_signed(step)
            }
        };
        self.last = Some(value);
        value
    }

    /// The same without taking it for the last one.
    fn peek(mut self, wire: u32) -> u64 {
        self.next(wire)
    }
}

/// Data that was sent and whose arrival nobody has confirmed.
#[derive(Clone, Copy, Debug)]
struct Open {
    end: u64,
    at_s: f64,
    is_resent: bool,
    /// False if its packet is not in the capture.
    is_seen: bool,
}

/// The most silence before data is sent again that is no timeout, in seconds: less than the least
/// timeout of Linux.
const SILENCE_S: f64 = 0.18;

/// Reads segments one after the other.
struct Reader {
    flow: Flow,
    seq: Unwrap,
    open: BTreeMap<u64, Open>,
    /// The end of the data so far, and of what was acknowledged in order.
    max: u64,
    una: u64,
    /// Bytes that were confirmed so far.
    delivered: u64,
    inflight: u64,
    /// The end of the last byte that was confirmed.
    highest: u64,
    /// TSval of the newest data.
    newest_tsval: Option<u32>,
    /// Acknowledgements by their TSval, with the bytes that were confirmed with them, for what is
    /// seen far from the sender.
    confirmed: VecDeque<(u32, u64, f64)>,
    known_to_sender: Option<u64>,
    last_at_s: f64,
    scale: u8,
    /// The right edge of the receiver's window, and its size.
    edge: Option<u64>,
    window: u64,
    /// The data in flight when they were noted last.
    noted: u64,
    /// Times since data came first: all, and those with a full window. The newest segment's.
    passed_s: f64,
    window_full_s: f64,
    looked_s: f64,
    /// The time from the capture to the receiver and back.
    ahead_s: f64,
    unseen: u64,
    accurate: Accurate,
}

/// True if one time stamp is later than another, which may have wrapped.
fn is_later(a: u32, b: u32) -> bool {
    a.wrapping_sub(b).cast_signed() > 0
}

/// The flow of these segments.
pub(super) fn flow(segments: &[Segment], placed: &Placed) -> Flow {
    let data = || segments.iter().filter(|s| s.is_data_way);
    let first = data().find(|s| s.tcp.payload > 0).map_or(0, |s| s.tcp.data_seq());
    let mss = packet_bytes(segments);
    let mut seq = Unwrap::default();
    let start = seq.next(first);
    let with_scale = |s: &&Segment| s.tcp.syn && !s.is_data_way;
    let syn = segments.iter().find(with_scale);
    let syns = segments.iter().filter(|s| s.tcp.syn).all(|s| s.tcp.scale.is_some());
    let mut reader = Reader {
        flow: Flow::new("TCP", placed.place, placed.why.clone(), f64::from(mss)),
        seq,
        open: BTreeMap::new(),
        max: start,
        una: start,
        delivered: 0,
        inflight: 0,
        highest: start,
        newest_tsval: None,
        confirmed: VecDeque::new(),
        known_to_sender: None,
        last_at_s: 0.0,
        scale: syn.and_then(|s| s.tcp.scale).filter(|_| syns).unwrap_or(0),
        edge: None,
        window: 0,
        noted: 0,
        passed_s: 0.0,
        window_full_s: 0.0,
        looked_s: 0.0,
        ahead_s: placed.ahead_s,
        unseen: 0,
        accurate: Accurate::of(segments),
    };
    for segment in segments {
        reader.count_full_window(segment.at_s, mss);
        match segment.is_data_way {
            true => reader.data(segment, mss),
            false => reader.ack(segment, mss),
        }
    }
    let is_cut = |s: &Segment| s.tcp.are_options_cut;
    let no_scale = match syn {
        None if segments.iter().all(|s| s.is_data_way) => {
            Some("the capture has only the direction of the data; capture both")
        }
        None => Some(
            "the capture begins after the handshake, which says by how much the window is scaled",
        ),
        Some(_) if segments.iter().any(|s| s.tcp.syn && s.tcp.scale.is_none() && is_cut(s)) => {
            Some("the options of the handshake are cut, which say by how much the window is scaled")
        }
        Some(_) => None,
    };
    let no_stamps = match data().any(|s| s.tcp.timestamps.is_some()) {
        true => None,
        false if data().any(is_cut) => Some(
            "the capture is not the sender's, and its segments are cut before their time stamps; capture at the sender, or 96 bytes of each packet",
        ),
        false => Some(
            "the capture is not the sender's, and the segments have no time stamps; capture at the sender",
        ),
    };
    reader.finish(no_scale, no_stamps, placed)
}

/// The least data of a full packet: what fits into IPv4's least MTU of 68 bytes.
const LEAST_BYTES: u32 = 28;

/// Bytes of data in a full packet: what both ends agreed on, otherwise the most usual size.
fn packet_bytes(segments: &[Segment]) -> u32 {
    let mss = segments.iter().filter_map(|s| s.tcp.mss).min().map(u32::from);
    let data = || segments.iter().filter(|s| s.is_data_way && s.tcp.payload > 0);
    if let (Some(mss), Some(first)) = (mss, data().find(|s| !s.tcp.syn)) {
        return mss.saturating_sub(u32::from(first.tcp.options_len)).max(LEAST_BYTES);
    }
    let mut counts = BTreeMap::<u32, u64>::new();
    data()
        .filter(|s| s.tcp.payload <= 9000)
        .for_each(|s| *counts.entry(s.tcp.payload).or_default() += 1);
    let usual = counts.iter().max_by_key(|(bytes, n)| u64::from(**bytes) * **n).map(|c| *c.0);
    usual.unwrap_or(1448)
}

impl Reader {
    fn data(&mut self, segment: &Segment, mss: u32) {
        let (tcp, at_s) = (&segment.tcp, segment.at_s);
        if tcp.payload == 0 {
            return;
        }
        let is_marked = segment.ecn == marks::CE;
        let packets = tcp.payload.div_ceil(mss);
        self.flow.codepoints[usize::from(segment.ecn & 3)] += u64::from(packets);
        if is_marked {
            self.flow.marked_packets += u64::from(packets);
            if self.flow.place != Place::Sender {
                self.flow.marks.push(At { at_s, value: f64::from(packets) });
            }
        }
        let start = self.seq.peek(tcp.data_seq());
        let end = start + u64::from(tcp.payload);
        // A keep-alive repeats the byte before the first unconfirmed one.
        if end <= self.una && tcp.payload <= 1 {
            return;
        }
        self.seq.last = Some(start);
        let silence_s = at_s - self.last_at_s;
        let old = self.max;
        let repeated = (start < old)
            .then(|| self.again((start, end.min(old)), at_s, tcp.timestamps, silence_s, mss));
        if end > old {
            self.fresh(start, end, at_s);
        }
        let sending = match repeated {
            Some(Sending::Needless) if end > old => Sending::First,
            Some(sending) => sending,
            None => Sending::First,
        };
        self.last_at_s = at_s;
        self.flow.sent.push(Sent { at_s, bytes: f64::from(tcp.payload), packets, sending });
        if let Some((tsval, _)) = tcp.timestamps
            && self.newest_tsval.is_none_or(|newest| is_later(tsval, newest))
        {
            self.newest_tsval = Some(tsval);
        }
        match self.flow.place {
            Place::Sender => self.note_inflight(at_s, self.inflight),
            _ => self.echo(at_s, tcp.timestamps.map(|t| t.1)),
        }
    }

    /// Data beyond what was sent so far.
    fn fresh(&mut self, start: u64, end: u64, at_s: f64) {
        if start > self.max {
            // Dropped by the capture, or, far from the sender, lost before it or still to come.
            let hole = Open { end: start, at_s, is_resent: false, is_seen: false };
            self.open.insert(self.max, hole);
            self.inflight += start - self.max;
        }
        let from = start.max(self.max);
        self.open.insert(from, Open { end, at_s, is_resent: false, is_seen: true });
        self.inflight += end - from;
        self.max = end;
    }

    /// Data of which some was sent before.
    fn again(
        &mut self,
        (start, end): (u64, u64),
        at_s: f64,
        timestamps: Option<(u32, u32)>,
        silence_s: f64,
        mss: u32,
    ) -> Sending {
        let pieces = self.cut(start, end);
        if pieces.is_empty() {
            return Sending::Needless;
        }
        let is_first = pieces.iter().all(|(_, piece)| !piece.is_seen);
        // What left before data that is here already was overtaken on its way.
        let is_late = is_first
            && match (timestamps, self.newest_tsval) {
                (Some((tsval, _)), Some(newest)) => is_later(newest, tsval),
                _ => pieces.iter().all(|(_, piece)| at_s - piece.at_s < 0.003),
            };
        let lost: u64 = pieces.iter().map(|(from, piece)| piece.end - from).sum();
        // Pieces that are alike now are one, or each repetition would look at all of them again.
        let mut alike: Vec<(u64, Open)> = Vec::new();
        for (from, piece) in pieces {
            let is_resent = !is_late || piece.is_resent;
            match alike.last_mut() {
                Some((_, last)) if last.end == from && last.is_resent == is_resent => {
                    last.end = piece.end;
                }
                _ => {
                    let end = piece.end;
                    alike.push((from, Open { end, at_s, is_resent, is_seen: true }));
                }
            }
        }
        self.open.extend(alike);
        if is_late {
            self.flow.reordered_packets += 1;
            return Sending::First;
        }
        let packets = lost.div_ceil(u64::from(mss)) as u32;
        self.flow.lost.push(Lost { at_s, bytes: lost as f64, packets });
        self.flow.timeouts += u64::from(silence_s > SILENCE_S);
        Sending::Again
    }

    /// Takes out what is open of a range, and leaves what is open around it.
    fn cut(&mut self, start: u64, end: u64) -> Vec<(u64, Open)> {
        let before = self.open.range(..start).next_back().filter(|(_, o)| o.end > start);
        let first = before.map_or(start, |(from, _)| *from);
        let keys: Vec<u64> = self.open.range(first..end).map(|(from, _)| *from).collect();
        let mut pieces = Vec::with_capacity(keys.len());
        for from in keys {
            let Some(piece) = self.open.remove(&from) else { continue };
            if from < start {
                self.open.insert(from, Open { end: start, ..piece });
            }
            if piece.end > end {
                self.open.insert(end, piece);
            }
            pieces.push((from.max(start), Open { end: piece.end.min(end), ..piece }));
        }
        pieces
    }

    fn ack(&mut self, segment: &Segment, mss: u32) {
        let (tcp, at_s) = (&segment.tcp, segment.at_s);
        let Some(ack) = tcp.ack.filter(|_| !tcp.rst) else { return };
        let base = Unwrap { last: Some(self.max) };
        let ack = base.peek(ack).min(self.max);
        // Of a SYN's data, or of none.
        if tcp.syn && ack <= self.una {
            return;
        }
        self.flow.acks += 1;
        // The window of a SYN is not scaled (RFC 7323 section 2.2).
        let edge = ack + (u64::from(tcp.window) << if tcp.syn { 0 } else { self.scale });
        self.edge = Some(edge);
        self.window = edge - ack;
        let mut newest: Option<f64> = None;
        let mut bytes = 0;
        if ack > self.una {
            bytes += self.confirm(self.una, ack, &mut newest);
            self.una = ack;
        }
        let ranges = tcp.sack.iter().flatten();
        let ranges: Vec<(u64, u64)> =
            ranges.map(|(a, b)| (base.peek(*a), base.peek(*b))).filter(|(a, b)| a < b).collect();
        let is_duplicate = match ranges.as_slice() {
            [(_, b), ..] if *b <= ack => true,
            [(a, b), (c, d), ..] => c <= a && b <= d,
            _ => false,
        };
        if let (true, Some((a, b))) = (is_duplicate, ranges.first()) {
            self.flow.duplicate_bytes += b - a;
        }
        for (a, b) in &ranges {
            if *b > self.una && *b <= self.max {
                bytes += self.confirm((*a).max(self.una), *b, &mut newest);
            }
        }
        let told = self.accurate.ack(tcp, bytes.div_ceil(u64::from(mss)));
        if told > 0 && self.flow.place == Place::Sender {
            self.flow.marks.push(At { at_s, value: told as f64 });
            self.flow.marked_packets += told;
        }
        if bytes > 0 {
            self.delivered += bytes;
            self.flow.acked.push(Acked { at_s, bytes: bytes as f64 });
            self.last_at_s = at_s;
        }
        match self.flow.place {
            Place::Sender => {
                if let Some(sent_s) = newest {
                    self.flow.rtt.push(At { at_s, value: at_s - sent_s });
                }
                if bytes > 0 {
                    self.note_inflight(at_s, self.inflight);
                }
            }
            _ => {
                if let Some((tsval, _)) = tcp.timestamps {
                    self.confirmed.push_back((tsval, self.delivered, at_s));
                }
            }
        }
    }

    /// Data arrived: how much of it was not known to have. `newest` becomes the time of the newest
    /// of it that was sent once.
    fn confirm(&mut self, start: u64, end: u64, newest: &mut Option<f64>) -> u64 {
        let pieces = self.cut(start, end);
        let mut bytes = 0;
        for (from, piece) in &pieces {
            bytes += piece.end - from;
            if !piece.is_seen {
                self.unseen += piece.end - from;
            } else if !piece.is_resent {
                *newest = Some(newest.map_or(piece.at_s, |newest| newest.max(piece.at_s)));
                if piece.end < self.highest && self.flow.place == Place::Sender {
                    self.flow.reordered_packets += 1;
                }
            }
        }
        self.inflight = self.inflight.saturating_sub(bytes);
        self.highest = self.highest.max(end);
        bytes
    }

    /// Far from the sender: data with an echo tells which acknowledgement its sender had.
    fn echo(&mut self, at_s: f64, tsecr: Option<u32>) {
        let Some(tsecr) = tsecr else { return };
        let mut answered = None;
        while let Some((tsval, delivered, acked_s)) = self.confirmed.front().copied()
            && !is_later(tsval, tsecr)
        {
            self.confirmed.pop_front();
            self.known_to_sender = Some(delivered);
            answered = (tsval == tsecr).then_some(acked_s);
        }
        if let Some(acked_s) = answered {
            self.flow.rtt.push(At { at_s, value: at_s - acked_s + self.ahead_s });
        }
        if let Some(known) = self.known_to_sender {
            let sent = self.delivered + self.inflight;
            self.note_inflight(at_s, sent.saturating_sub(known));
        }
    }

    /// Counts the time since the segment before. A window is full where no segment fits, or less
    /// than a sixteenth of it: Linux waits for that to send more at once.
    ///
    /// Far from the sender the edge that it knows is an older one, but what it has in flight does
    /// not come to more than the window's size.
    fn count_full_window(&mut self, at_s: f64, mss: u32) {
        let time_s = at_s - std::mem::replace(&mut self.looked_s, at_s);
        let Some(edge) = self.edge.filter(|_| !self.flow.sent.is_empty()) else { return };
        let room = match self.flow.place {
            Place::Sender => edge.saturating_sub(self.max),
            _ => self.window.saturating_sub(self.noted),
        };
        self.passed_s += time_s;
        if room < u64::from(mss).max(self.window / 16) {
            self.window_full_s += time_s;
        }
    }

    fn note_inflight(&mut self, at_s: f64, bytes: u64) {
        self.noted = bytes;
        self.flow.inflight.push(At { at_s, value: bytes as f64 });
    }

    fn finish(self, no_scale: Option<&str>, no_stamps: Option<&str>, placed: &Placed) -> Flow {
        let Self { mut flow, window_full_s, passed_s, unseen, accurate, .. } = self;
        flow.are_marks_told |= flow.place == Place::Sender && accurate.is_agreed();
        accurate.finish(&mut flow);
        flow.handshake_rtt_s = placed.handshake_rtt_s;
        flow.reaction_s = placed.behind_s.filter(|_| flow.place == Place::Sender);
        match no_scale {
            Some(why) => flow.cannot_tell("limits of the receiver's window", why),
            None => flow.window_limited = Some(window_full_s / passed_s.max(1e-9)),
        }
        if unseen > 0 {
            flow.remarks.push(format!(
                "{unseen} bytes were acknowledged that are not in the capture: it dropped packets"
            ));
        }
        if flow.place != Place::Sender {
            flow.cannot_tell(
                "pacing and bursts",
                "packets were captured behind the path, which spaces them; capture at the sender",
            );
            if let Some(why) = no_stamps {
                flow.cannot_tell("round trips and data in flight", why);
            }
        }
        flow
    }
}
