//! A flow as a stream of events from its sender's view, wherever it was seen.

use serde::Serialize;

/// The place at which a flow was captured.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Place {
    /// At the sender of the data.
    Sender,
    /// At the receiver of the data.
    Receiver,
    /// Somewhere between them.
    Between,
}

impl Place {
    /// In words.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Sender => "at the sender",
            Self::Receiver => "at the receiver",
            Self::Between => "between sender and receiver",
        }
    }
}

/// The history of some data when it was sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Sending {
    /// For the first time.
    First,
    /// Once more, and it had not arrived as far as anybody said.
    Again,
    /// Once more, though it had arrived.
    Needless,
}

/// Data that was sent. At the receiver the time is that of the arrival.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Sent {
    pub(super) at_s: f64,
    pub(super) bytes: f64,
    /// More than one where a segment is captured before it is divided.
    pub(super) packets: u32,
    pub(super) sending: Sending,
}

/// An acknowledgement, and the bytes that it was the first to acknowledge.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Acked {
    pub(super) at_s: f64,
    pub(super) bytes: f64,
}

/// Data that the sender took for lost.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Lost {
    /// The time at which it was sent again, or declared lost.
    pub(super) at_s: f64,
    pub(super) bytes: f64,
    pub(super) packets: u32,
}

/// A value at a time.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct At {
    pub(super) at_s: f64,
    pub(super) value: f64,
}

/// A flow. Times count from its first packet; all lists are in the order of time.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Flow {
    /// `TCP`, `QUIC`, or `UDP` where it is not known to be QUIC.
    pub(super) protocol: &'static str,
    pub(super) place: Place,
    /// The observation that shows it.
    pub(super) place_why: String,
    /// Bytes of data in a full packet.
    pub(super) packet_bytes: f64,
    pub(super) sent: Vec<Sent>,
    pub(super) acked: Vec<Acked>,
    pub(super) lost: Vec<Lost>,
    /// Round trips, in seconds.
    pub(super) rtt: Vec<At>,
    /// Bytes in flight, after each event that changes them.
    pub(super) inflight: Vec<At>,
    /// Acknowledgements of all kinds.
    pub(super) acks: u64,
    /// Packets that arrived behind later ones, without having been sent again.
    pub(super) reordered_packets: u64,
    /// Data that was sent again after a silence.
    pub(super) timeouts: u64,
    /// Bytes that the receiver said to have had before (RFC 2883).
    pub(super) duplicate_bytes: u64,
    /// Packets with a mark of congestion.
    pub(super) marked_packets: u64,
    /// Packets of data by the two bits of their ECN field, as far as it is seen.
    pub(super) codepoints: [u64; 4],
    /// Packets that are told to be marked, at the times at which the sender hears of them.
    pub(super) marks: Vec<At>,
    /// True if the file shows which packets are marked, or how many, also where none is.
    pub(super) are_marks_told: bool,
    /// The share of the time in which the receiver's window was full; nothing where that is not
    /// known.
    pub(super) window_limited: Option<f64>,
    pub(super) handshake_rtt_s: Option<f64>,
    /// Time that the sender's host takes to answer, as far as it is seen at the sender.
    pub(super) reaction_s: Option<f64>,
    /// Remarks about the file and the flow.
    pub(super) remarks: Vec<String>,
    /// Things that cannot be known, and why.
    pub(super) unknown: Vec<Unknown>,
}

/// Something that a file does not show.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Unknown {
    /// The finding.
    pub what: String,
    /// The reason.
    pub why: String,
}

impl Flow {
    pub(super) fn new(
        protocol: &'static str,
        place: Place,
        place_why: String,
        packet_bytes: f64,
    ) -> Self {
        Self {
            protocol,
            place,
            place_why,
            packet_bytes,
            sent: Vec::new(),
            acked: Vec::new(),
            lost: Vec::new(),
            rtt: Vec::new(),
            inflight: Vec::new(),
            acks: 0,
            reordered_packets: 0,
            timeouts: 0,
            duplicate_bytes: 0,
            marked_packets: 0,
            codepoints: [0; 4],
            marks: Vec::new(),
            // Behind the path the packets show it themselves.
            are_marks_told: place == Place::Receiver,
            window_limited: None,
            handshake_rtt_s: None,
            reaction_s: None,
            remarks: Vec::new(),
            unknown: Vec::new(),
        }
    }

    pub(super) fn cannot_tell(&mut self, what: &str, why: impl Into<String>) {
        self.unknown.push(Unknown { what: what.to_owned(), why: why.into() });
    }

    /// Brings all lists into the order of time: events of a log may be in another one.
    pub(super) fn sort(&mut self) {
        self.sent.sort_by(|a, b| a.at_s.total_cmp(&b.at_s));
        self.acked.sort_by(|a, b| a.at_s.total_cmp(&b.at_s));
        self.lost.sort_by(|a, b| a.at_s.total_cmp(&b.at_s));
        self.rtt.sort_by(|a, b| a.at_s.total_cmp(&b.at_s));
        self.inflight.sort_by(|a, b| a.at_s.total_cmp(&b.at_s));
        self.marks.sort_by(|a, b| a.at_s.total_cmp(&b.at_s));
    }

    /// Losses of a time.
    pub(super) fn lost_in(&self, from: f64, to: f64) -> &[Lost] {
        let begin = self.lost.partition_point(|l| l.at_s < from);
        let end = self.lost.partition_point(|l| l.at_s < to);
        self.lost.get(begin..end.max(begin)).unwrap_or_default()
    }

    /// Round trips of a time.
    pub(super) fn rtt_in(&self, from: f64, to: f64) -> &[At] {
        let begin = self.rtt.partition_point(|r| r.at_s < from);
        let end = self.rtt.partition_point(|r| r.at_s < to);
        self.rtt.get(begin..end.max(begin)).unwrap_or_default()
    }

    /// Time of the last event.
    pub(super) fn end_s(&self) -> f64 {
        let sent = self.sent.last().map_or(0.0, |s| s.at_s);
        self.acked.last().map_or(sent, |a| sent.max(a.at_s))
    }
}
