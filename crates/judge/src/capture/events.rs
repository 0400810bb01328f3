//! Events of a qlog, one after the other, as a flow.

use std::collections::{BTreeMap, HashMap};

use serde_json::Value;

use super::MOST_PACKETS;
use super::flow::{Acked, At, Flow, Lost, Place, Sending, Sent};

struct Clock {
    ms_per_unit: f64,
    /// Each time counts from the event before.
    is_delta: bool,
    now_ms: f64,
}

/// What is read of a trace's events.
pub(super) struct Reader {
    clock: Clock,
    /// The names of an event's fields where it is a list.
    fields: Vec<String>,
    first_ms: Option<f64>,
    packets: BTreeMap<(u64, u64), Outgoing>,
    lost: BTreeMap<(u64, u64), usize>,
    inflight: f64,
    is_inflight_logged: bool,
    has_new_metrics: bool,
    /// By number space.
    largest_received: HashMap<u64, u64>,
    sent_numbers: HashMap<u64, Numbers>,
    /// True if a range ends behind its last packet, as noq writes them: it acknowledged one that
    /// was not sent yet.
    pub(super) is_half_open: bool,
    pub(super) flow: Flow,
    /// Data in each direction, and round trips by the log's own words and by acknowledgements.
    pub(super) sent_bytes: f64,
    pub(super) arrivals: Vec<Sent>,
    pub(super) answers: Vec<Acked>,
    pub(super) logged_rtt: Vec<At>,
    pub(super) late_arrivals: u64,
    pub(super) events: u64,
    pub(super) damaged: u64,
    pub(super) left_out: u64,
}

/// The packet numbers of a space.
#[derive(Clone, Copy)]
struct Numbers {
    first: u64,
    last: u64,
    count: u64,
}

/// A packet on its way.
struct Outgoing {
    at_s: f64,
    bytes: f64,
    /// Its place in the list of packets with data.
    index: usize,
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
    !matches!(kind.to_ascii_lowercase().as_str(), "ack" | "padding" | "connection_close")
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
            packets: BTreeMap::new(),
            lost: BTreeMap::new(),
            inflight: 0.0,
            is_inflight_logged: false,
            has_new_metrics: false,
            largest_received: HashMap::new(),
            sent_numbers: HashMap::new(),
            is_half_open: false,
            flow: Flow::new(
                "QUIC",
                Place::Sender,
                "it is the log of the sender".to_owned(),
                1200.0,
            ),
            sent_bytes: 0.0,
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
        self.sent_bytes.max(self.arrivals.iter().map(|a| a.bytes).fold(0.0, |a, b| a + b))
    }

    /// The number of packets that are in the log, and of all, if most of them are not.
    pub(super) fn samples(&self) -> Option<(u64, u64)> {
        let numbers = self.sent_numbers.values().max_by_key(|numbers| numbers.count)?;
        let all = numbers.last - numbers.first + 1;
        (numbers.count < all - all / 5 && self.flow.sent.len() > 10).then_some((numbers.count, all))
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
        let at_s = ((self.clock.now_ms - first_ms) / 1e3).max(0.0);
        let name = name.rsplit([':', '.']).next().unwrap_or(name).to_ascii_lowercase();
        match name.as_str() {
            "packet_sent" => self.sent(at_s, data),
            "packet_received" => self.received(at_s, data),
            "packet_lost" => self.lost(at_s, data),
            "recovery_metrics_updated" => {
                self.has_new_metrics = true;
                self.metrics(at_s, data);
            }
            // A log may have the same by the old name once more, for tools that know no other.
            "metrics_updated" | "metric_update" if !self.has_new_metrics => {
                self.metrics(at_s, data);
            }
            "congestion_state_updated" => {
                if let Some(state) = any(data, &["new"]).and_then(Value::as_str) {
                    self.flow.model.states.push((at_s, state.to_owned()));
                }
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
        let start = Numbers { first: packet_number, last: packet_number, count: 0 };
        let numbers = self.sent_numbers.entry(space).or_insert(start);
        numbers.last = numbers.last.max(packet_number);
        numbers.count += 1;
        if self.flow.sent.len() + self.answers.len() >= MOST_PACKETS {
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
        self.sent_bytes += bytes;
        let index = self.flow.sent.len();
        self.flow.sent.push(Sent { at_s, bytes, packets: 1, sending: Sending::First });
        self.packets.insert((space, packet_number), Outgoing { at_s, bytes, index });
        self.count_inflight(at_s, bytes);
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
            }
        }
    }

    fn acked(&mut self, at_s: f64, space: u64, ranges: &[Value]) {
        self.flow.acks += 1;
        let (mut bytes, mut newest) = (0.0, None::<f64>);
        for range in ranges {
            let bounds: Vec<u64> = match range {
                Value::Array(list) => list.iter().filter_map(whole).collect(),
                one => whole(one).into_iter().collect(),
            };
            let (Some(a), Some(b)) = (bounds.first(), bounds.last()) else { continue };
            let (from, mut to) = (*a.min(b), *a.max(b));
            let sent = self.sent_numbers.get(&space).map(|numbers| numbers.last);
            self.is_half_open |= from < to && sent.is_some_and(|sent| to == sent + 1);
            if self.is_half_open && bounds.len() == 2 {
                to = to.saturating_sub(1).max(from);
            }
            // The ranges of an acknowledgement repeat what earlier ones said.
            let range = (space, from)..=(space, to);
            let sent = self.packets.range(range.clone()).map(|(key, _)| key.1);
            let numbers: Vec<u64> =
                sent.chain(self.lost.range(range).map(|(key, _)| key.1)).collect();
            for n in numbers {
                if let Some(packet) = self.packets.remove(&(space, n)) {
                    bytes += packet.bytes;
                    newest = Some(newest.map_or(packet.at_s, |newest| newest.max(packet.at_s)));
                } else if let Some(index) = self.lost.remove(&(space, n)) {
                    // It was not lost after all.
                    if let Some(sent) = self.flow.sent.get_mut(index) {
                        sent.sending = Sending::Needless;
                    }
                }
            }
        }
        if bytes > 0.0 {
            self.flow.acked.push(Acked { at_s, bytes });
            self.count_inflight(at_s, -bytes);
        }
        if let Some(sent_s) = newest {
            self.flow.rtt.push(At { at_s, value: at_s - sent_s });
        }
    }

    fn lost(&mut self, at_s: f64, data: &Value) {
        let (space, Some(packet_number), _) = Self::packet(data) else { return };
        let Some(packet) = self.packets.remove(&(space, packet_number)) else { return };
        self.lost.insert((space, packet_number), packet.index);
        self.flow.lost.push(Lost { at_s, bytes: packet.bytes, packets: 1 });
        self.count_inflight(at_s, -packet.bytes);
    }

    fn count_inflight(&mut self, at_s: f64, change: f64) {
        self.inflight = (self.inflight + change).max(0.0);
        if !self.is_inflight_logged {
            self.flow.inflight.push(At { at_s, value: self.inflight });
        }
    }

    fn metrics(&mut self, at_s: f64, data: &Value) {
        let value = |names: &[&str]| any(data, names).and_then(number).filter(|n| *n >= 0.0);
        let unit = self.clock.ms_per_unit / 1e3;
        if let Some(rtt) = value(&["latest_rtt"]) {
            self.logged_rtt.push(At { at_s, value: rtt * unit });
        }
        if let Some(cwnd) = value(&["congestion_window", "cwnd"]) {
            self.flow.model.cwnd_bytes.push(At { at_s, value: cwnd });
        }
        if let Some(rate) = value(&["pacing_rate"]) {
            self.flow.model.pacing_mbps.push(At { at_s, value: rate / 1e6 });
        }
        if let Some(bytes) = value(&["bytes_in_flight"]) {
            // The sender knows better, and counts what is in flight in its own way.
            if !self.is_inflight_logged {
                self.is_inflight_logged = true;
                self.flow.inflight.retain(|at| at.at_s < at_s);
            }
            self.flow.inflight.push(At { at_s, value: bytes });
        }
    }
}
