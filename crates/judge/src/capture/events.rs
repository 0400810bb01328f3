//! Events of a qlog, one after the other, as a flow.

use std::collections::HashMap;

use serde_json::Value;

use super::MOST_PACKETS;
use super::flow::{Acked, At, Flow, Place, Sending, Sent};
use super::ledger::Ledger;

struct Clock {
    ms_per_unit: f64,
    /// Each time counts from the event before.
    is_delta: bool,
    now_ms: f64,
}

/// The reader of a trace's events.
pub(super) struct Reader {
    clock: Clock,
    /// The names of an event's fields where it is a list.
    fields: Vec<String>,
    first_ms: Option<f64>,
    /// True if all times are whole milliseconds.
    pub(super) is_coarse: bool,
    /// The packets that this end sent.
    pub(super) ledger: Ledger,
    has_new_metrics: bool,
    /// True if an event named packets that are lost.
    pub(super) names_losses: bool,
    /// By number space.
    largest_received: HashMap<u64, u64>,
    ends: RangeEnds,
    /// Data in the other direction, and round trips by the log's own words.
    pub(super) arrivals: Vec<Sent>,
    pub(super) answers: Vec<Acked>,
    pub(super) logged_rtt: Vec<At>,
    pub(super) late_arrivals: u64,
    pub(super) events: u64,
    pub(super) damaged: u64,
    pub(super) left_out: u64,
}

/// The last number of a range in acknowledgements.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
enum RangeEnds {
    /// Nothing shows it so far; the schema's last packet is taken.
    #[default]
    Unknown,
    /// The last packet: there was a range of one packet, whose two ends would differ otherwise.
    Last,
    /// One behind it, as noq writes them: a range would acknowledge what was not sent yet.
    Behind,
}

/// A number, which may be written as a string.
fn number(value: &Value) -> Option<f64> {
    match value {
        Value::Number(n) => n.as_f64(),
        Value::String(text) => text.parse().ok(),
        _ => None,
    }
    .filter(|n| n.is_finite())
}

/// QUIC's numbers are below this (RFC 9000 section 16), and no other number of a log is larger.
const MOST_WHOLE: u64 = 1 << 62;

fn whole(value: &Value) -> Option<u64> {
    match value {
        Value::Number(n) => n.as_u64(),
        Value::String(text) => text.parse().ok(),
        _ => None,
    }
    .filter(|n| *n < MOST_WHOLE)
}

/// The first of these fields that there is.
pub(super) fn any<'a>(object: &'a Value, names: &[&str]) -> Option<&'a Value> {
    names.iter().find_map(|name| object.get(name)).filter(|value| !value.is_null())
}

/// The number space of a packet of this type, on a path of a connection with several.
fn space(kind: &str, path: u64) -> u64 {
    match kind.to_ascii_lowercase().as_str() {
        "initial" => 0,
        "handshake" => 1,
        _ => 2 + path,
    }
}

fn path_of(object: &Value) -> Option<u64> {
    object.get("path_id").and_then(whole)
}

/// True for frames whose packets are acknowledged (RFC 9002 section 2).
fn is_eliciting(frame: &Value) -> bool {
    let kind = any(frame, &["frame_type", "type"]).and_then(Value::as_str).unwrap_or_default();
    !matches!(
        kind.to_ascii_lowercase().as_str(),
        "ack" | "ack_ecn" | "ack_mp" | "path_ack" | "padding" | "connection_close"
    )
}

impl Reader {
    pub(super) fn new(trace: &Value) -> Self {
        let configured = trace.pointer("/configuration/time_units").and_then(Value::as_str);
        let format = [
            trace.pointer("/common_fields/time_format"),
            trace.pointer("/configuration/time_format"),
        ];
        let format = format.into_iter().flatten().find_map(Value::as_str).unwrap_or_default();
        let fields = trace.get("event_fields").and_then(Value::as_array);
        let fields = fields.into_iter().flatten().filter_map(Value::as_str);
        let fields: Vec<String> = fields.map(str::to_ascii_lowercase).collect();
        Self {
            clock: Clock {
                ms_per_unit: if configured == Some("us") { 1e-3 } else { 1.0 },
                is_delta: matches!(format, "delta" | "relative_to_previous_event")
                    || fields.iter().any(|name| name == "delta_time"),
                now_ms: 0.0,
            },
            fields,
            first_ms: None,
            is_coarse: true,
            ledger: Ledger::new(Flow::new(
                "QUIC",
                Place::Sender,
                "it is the log of the sender".to_owned(),
                1200.0,
            )),
            has_new_metrics: false,
            names_losses: false,
            largest_received: HashMap::new(),
            ends: RangeEnds::default(),
            arrivals: Vec::new(),
            answers: Vec::new(),
            logged_rtt: Vec::new(),
            late_arrivals: 0,
            events: 0,
            damaged: 0,
            left_out: 0,
        }
    }

    /// Bytes of the direction that has more.
    pub(super) fn volume(&self) -> f64 {
        self.ledger.sent_bytes.max(self.arrivals.iter().map(|a| a.bytes).fold(0.0, |a, b| a + b))
    }

    /// True if the ranges of acknowledgements end behind their last packets.
    pub(super) fn is_half_open(&self) -> bool {
        self.ends == RangeEnds::Behind
    }

    pub(super) fn event(&mut self, event: &Value) {
        let (time, name, data) = match event {
            Value::Array(list) => {
                let field = |names: &[&str]| {
                    let at = self.fields.iter().position(|f| names.contains(&f.as_str()))?;
                    list.get(at)
                };
                let time = field(&["relative_time", "delta_time", "time"]);
                (time, field(&["event", "event_type", "name"]), field(&["data"]))
            }
            _ => (event.get("time"), any(event, &["name", "event"]), event.get("data")),
        };
        let (Some(time), Some(name), Some(data)) =
            (time.and_then(number), name.and_then(Value::as_str), data)
        else {
            self.damaged += 1;
            return;
        };
        self.events += 1;
        let time_ms = time * self.clock.ms_per_unit;
        self.clock.now_ms = if self.clock.is_delta { self.clock.now_ms + time_ms } else { time_ms };
        let first_ms = *self.first_ms.get_or_insert(self.clock.now_ms);
        let since_ms = (self.clock.now_ms - first_ms).max(0.0);
        self.is_coarse &= since_ms.fract() == 0.0;
        let at_s = since_ms / 1e3;
        let name = name.rsplit([':', '.']).next().unwrap_or(name).to_ascii_lowercase();
        match name.as_str() {
            "packet_sent" => self.sent(at_s, data),
            "packet_received" => self.received(at_s, data),
            "packet_lost" => {
                self.names_losses = true;
                self.lost(at_s, data);
            }
            // mvfst has one event for all that are found lost at once, and other names.
            "packets_lost" => self.lost_together(at_s, data),
            "congestion_metric_update" => self.metrics(at_s, data),
            "recovery_metrics_updated" => {
                self.has_new_metrics = true;
                self.metrics(at_s, data);
            }
            // A log may have the same by the old name once more, for tools that know no other.
            "metrics_updated" | "metric_update" if !self.has_new_metrics => {
                self.metrics(at_s, data);
            }
            _ => {}
        }
    }

    /// The number space, the number and the size of a packet.
    fn packet(data: &Value) -> (u64, Option<u64>, Option<f64>) {
        let header = data.get("header").unwrap_or(data);
        let kind =
            any(header, &["packet_type"]).or(data.get("packet_type")).and_then(Value::as_str);
        let space = space(kind.unwrap_or_default(), path_of(header).unwrap_or(0));
        let packet_number = any(header, &["packet_number"]).or(data.get("packet_number"));
        let raw = data.get("raw").unwrap_or(&Value::Null);
        let size = [
            raw.get("length"),
            header.get("packet_size"),
            data.get("packet_size"),
            header.get("length"),
            raw.get("payload_length"),
            header.get("payload_length"),
        ];
        let size = size.into_iter().flatten().find_map(number);
        (space, packet_number.and_then(whole), size.filter(|size| *size >= 0.0))
    }

    fn sent(&mut self, at_s: f64, data: &Value) {
        let (space, Some(packet_number), Some(bytes)) = Self::packet(data) else { return };
        self.ledger.numbered(space, packet_number);
        if self.ledger.flow.sent.len() + self.answers.len() >= MOST_PACKETS {
            self.left_out += 1;
            return;
        }
        let frames = data.get("frames").and_then(Value::as_array);
        // A log may leave out frames; an acknowledgement alone is short.
        let is_data = match frames {
            Some(frames) if !frames.is_empty() => frames.iter().any(is_eliciting),
            _ => bytes > 60.0,
        };
        if !is_data {
            self.answers.push(Acked { at_s, bytes: 0.0 });
            return;
        }
        self.ledger.sent(at_s, space, packet_number, bytes);
    }

    fn received(&mut self, at_s: f64, data: &Value) {
        let (space, packet_number, bytes) = Self::packet(data);
        if self.arrivals.len() >= MOST_PACKETS {
            self.left_out += 1;
            return;
        }
        if let Some(n) = packet_number {
            let largest = self.largest_received.entry(space).or_insert(n);
            self.late_arrivals += u64::from(n < *largest);
            *largest = n.max(*largest);
        }
        if let Some(bytes) = bytes {
            self.arrivals.push(Sent { at_s, bytes, packets: 1, sending: Sending::First });
        }
        let frames = data.get("frames").and_then(Value::as_array).into_iter().flatten();
        for frame in frames {
            if let Some(ranges) = frame.get("acked_ranges").and_then(Value::as_array) {
                // An ACK of a connection with several paths is for the first of them.
                let space = if space < 2 { space } else { 2 + path_of(frame).unwrap_or(0) };
                self.acked(at_s, space, ranges);
                self.counted(at_s, space, frame);
            }
        }
    }

    /// The counts of an acknowledgement (RFC 9000 section 19.3.2): they only grow, and older ones
    /// may come later.
    fn counted(&mut self, at_s: f64, space: u64, frame: &Value) {
        let told = ["ect0", "ect1", "ce"].map(|name| frame.get(name).and_then(whole).unwrap_or(0));
        self.ledger.counted(at_s, space, told);
    }

    fn acked(&mut self, at_s: f64, space: u64, ranges: &[Value]) {
        let bounds = |range: &Value| -> Option<(u64, u64)> {
            let bounds: Vec<u64> = match range {
                Value::Array(list) => list.iter().filter_map(whole).collect(),
                one => whole(one).into_iter().collect(),
            };
            let (a, b) = (*bounds.first()?, *bounds.last()?);
            Some((a.min(b), a.max(b)))
        };
        let mut ranges: Vec<(u64, u64)> = ranges.iter().filter_map(bounds).collect();
        let sent = self.ledger.last_sent(space);
        if ranges.iter().any(|(from, to)| from == to) {
            self.ends = RangeEnds::Last;
        } else if self.ends == RangeEnds::Unknown
            && ranges.iter().any(|(_, to)| sent.is_some_and(|sent| *to == sent + 1))
        {
            self.ends = RangeEnds::Behind;
        }
        if self.ends == RangeEnds::Behind {
            ranges.iter_mut().for_each(|(_, to)| *to -= 1);
        }
        self.ledger.acked(at_s, space, &ranges);
        self.ledger.note_overdue(at_s, space);
    }

    fn lost(&mut self, at_s: f64, data: &Value) {
        let (space, Some(packet_number), _) = Self::packet(data) else { return };
        self.ledger.lost(at_s, space, packet_number);
    }

    fn lost_together(&mut self, at_s: f64, data: &Value) {
        self.names_losses = true;
        let field = |name: &str| data.get(name).and_then(whole);
        if let (Some(largest), Some(packets)) =
            (field("largest_lost_packet_num"), field("lost_packets"))
        {
            self.ledger.lost_up_to(at_s, space("1RTT", 0), largest, packets);
        }
    }

    fn metrics(&mut self, at_s: f64, data: &Value) {
        let value = |names: &[&str]| any(data, names).and_then(number).filter(|n| *n >= 0.0);
        let unit = self.clock.ms_per_unit / 1e3;
        if let Some(rtt) = value(&["latest_rtt"]) {
            self.logged_rtt.push(At { at_s, value: rtt * unit });
        }
        if let Some(bytes) = value(&["bytes_in_flight"]) {
            // The sender knows better, and counts what is in flight in its own way.
            let ledger = &mut self.ledger;
            if !ledger.is_inflight_logged {
                ledger.is_inflight_logged = true;
                ledger.flow.inflight.retain(|at| at.at_s < at_s);
            }
            ledger.flow.inflight.push(At { at_s, value: bytes });
        }
    }
}
