//! A flow from the log of one of its ends: qlog of the drafts 0.3 and 0.4 and of those after them,
//! as JSON, as JSON-SEQ or line by line, and the events that are lists in older drafts.
//!
//! Sources: draft-ietf-quic-qlog-main-schema and draft-ietf-quic-qlog-quic-events; in older ones
//! the names of fields and events differ, and numbers may be strings.

use std::collections::{BTreeMap, HashMap};
use std::io::{BufRead, Read as _};
use std::path::Path;

use serde_json::Value;

use super::file::open;
use super::flow::{Acked, At, Flow, Lost, Place, Sending, Sent};
use super::{CaptureError, MOST_PACKETS};

/// The most of a log that is read, unpacked: one JSON document is in memory as a whole.
const MOST_BYTES: u64 = 1 << 30;

/// The beginning of a text in a JSON sequence (RFC 7464).
const SEPARATOR: u8 = 0x1E;

/// A log of one connection at one of its ends.
pub(super) struct Log {
    pub(super) title: String,
    reader: Reader,
    remarks: Vec<String>,
}

/// The form of the events' times.
#[derive(Clone, Copy, Debug)]
struct Clock {
    ms_per_unit: f64,
    /// Each time counts from the event before.
    is_delta: bool,
    now_ms: f64,
}

/// What is read of a trace's events.
struct Reader {
    clock: Clock,
    /// The names of an event's fields where it is a list.
    fields: Vec<String>,
    first_ms: Option<f64>,
    packets: BTreeMap<(u64, u64), Outgoing>,
    lost: BTreeMap<(u64, u64), usize>,
    inflight: f64,
    is_inflight_logged: bool,
    /// By number space.
    largest_received: HashMap<u64, u64>,
    sent_numbers: HashMap<u64, Numbers>,
    /// True if a range ends behind its last packet, as noq writes them: it acknowledged one that
    /// was not sent yet.
    is_half_open: bool,
    flow: Flow,
    /// Data in each direction, and round trips by the log's own words and by acknowledgements.
    sent_bytes: f64,
    arrivals: Vec<Sent>,
    answers: Vec<Acked>,
    logged_rtt: Vec<At>,
    late_arrivals: u64,
    events: u64,
    damaged: u64,
    left_out: u64,
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

fn refuse<T>(why: impl Into<String>) -> Result<T, CaptureError> {
    Err(CaptureError(why.into()))
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

fn whole(value: &Value) -> Option<u64> {
    match value {
        Value::Number(n) => n.as_u64(),
        Value::String(text) => text.parse().ok(),
        _ => None,
    }
}

/// The first of these fields that there is.
fn any<'a>(object: &'a Value, names: &[&str]) -> Option<&'a Value> {
    names.iter().find_map(|name| object.get(name)).filter(|value| !value.is_null())
}

/// All logs of a file, that with most data first.
pub(super) fn read(path: &Path) -> Result<Vec<Log>, CaptureError> {
    let mut content = open(path)?.take(MOST_BYTES);
    let cannot = |e: std::io::Error| CaptureError(format!("it cannot be read: {e}"));
    let start = content.fill_buf().map_err(cannot)?;
    if start.starts_with(&[0x0A, 0x0D, 0x0D, 0x0A]) || start.starts_with(&[0xD4, 0xC3, 0xB2, 0xA1])
    {
        return refuse("it is a capture of packets; --pcap reads it");
    }
    let mut first = Vec::new();
    content.read_until(b'\n', &mut first).map_err(cannot)?;
    let head = serde_json::from_slice::<Value>(text_of(&first));
    let is_sequence = first.first() == Some(&SEPARATOR)
        || head
            .as_ref()
            .is_ok_and(|head| head.get("traces").is_none() && head.get("trace").is_some());
    let mut logs = if is_sequence {
        let Ok(head) = head else {
            return refuse(
                "its first record is no JSON; a qlog begins with its version and its trace",
            );
        };
        vec![sequence(&head, content)?]
    } else {
        content.read_to_end(&mut first).map_err(cannot)?;
        if content.limit() == 0 {
            return refuse("it has more than 1 GiB; write it as JSON-SEQ, or a shorter one");
        }
        document(&first)?
    };
    if let [log] = logs.as_slice()
        && let Some((has, all)) = log.reader.samples()
    {
        return refuse(format!(
            "it has {has} of {all} packets that were sent: a log of samples; log each packet_sent"
        ));
    }
    logs.sort_by(|a, b| b.reader.volume().total_cmp(&a.reader.volume()));
    logs.retain(|log| log.reader.volume() > 0.0);
    if logs.is_empty() {
        return refuse(
            "it has no packet_sent and no packet_received with a size; log these events as well",
        );
    }
    Ok(logs)
}

/// A record without its separator and the end of its line.
fn text_of(record: &[u8]) -> &[u8] {
    let record = record.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(record);
    record.strip_prefix(&[SEPARATOR]).unwrap_or(record).trim_ascii()
}

/// One trace, an event a record.
fn sequence(head: &Value, mut content: impl BufRead) -> Result<Log, CaptureError> {
    let trace = head.get("trace").unwrap_or(&Value::Null);
    if !is_qlog(head) {
        return refuse("it is JSON, and no qlog: there is no qlog_version and no file_schema");
    }
    let mut reader = Reader::new(trace);
    let mut record = Vec::new();
    let mut is_cut = false;
    loop {
        record.clear();
        match content.read_until(b'\n', &mut record) {
            Ok(0) => break,
            Ok(_) => {}
            Err(e) => {
                reader.flow.remarks.push(format!("the file cannot be read on: {e}"));
                break;
            }
        }
        let text = text_of(&record);
        if text.is_empty() {
            continue;
        }
        match serde_json::from_slice(text) {
            Ok(event) => reader.event(&event),
            // The last one may be cut.
            Err(_) if record.last() != Some(&b'\n') => is_cut = true,
            Err(_) => reader.damaged += 1,
        }
    }
    let mut log = Log { title: title(head, trace), reader, remarks: Vec::new() };
    if is_cut {
        log.remarks.push("the file ends inside an event; it is used up to there".to_owned());
    }
    Ok(log)
}

fn is_qlog(head: &Value) -> bool {
    any(head, &["qlog_version", "file_schema", "qlog_format"]).is_some()
}

/// One JSON document with all traces.
fn document(text: &[u8]) -> Result<Vec<Log>, CaptureError> {
    let document: Value = match serde_json::from_slice(text_of(text)) {
        Ok(document) => document,
        Err(_) if text.trim_ascii().is_empty() => return refuse("it is empty"),
        Err(e) if e.is_eof() => {
            return refuse("its JSON ends too early; JSON-SEQ (.sqlog) can be read up to its end");
        }
        Err(e) => return refuse(format!("it is no JSON: {e}")),
    };
    if !is_qlog(&document) {
        return refuse("it is JSON, and no qlog: there is no qlog_version and no file_schema");
    }
    let Some(traces) = document.get("traces").and_then(Value::as_array) else {
        return refuse("it has no traces");
    };
    let logs = traces.iter().map(|trace| {
        let mut reader = Reader::new(trace);
        let events = trace.get("events").and_then(Value::as_array);
        events.into_iter().flatten().for_each(|event| reader.event(event));
        Log { title: title(&document, trace), reader, remarks: Vec::new() }
    });
    Ok(logs.collect())
}

fn title(head: &Value, trace: &Value) -> String {
    let group = trace.pointer("/common_fields/group_id").or(trace.pointer("/common_fields/ODCID"));
    let named = [trace.get("title"), head.get("title"), group];
    let named = named.into_iter().flatten().find_map(Value::as_str).filter(|text| !text.is_empty());
    named.unwrap_or("a trace without a name").chars().take(80).collect()
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
    fn new(trace: &Value) -> Self {
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
    fn volume(&self) -> f64 {
        self.sent_bytes.max(self.arrivals.iter().map(|a| a.bytes).fold(0.0, |a, b| a + b))
    }

    /// The number of packets that are in the log, and of all, if most of them are not.
    fn samples(&self) -> Option<(u64, u64)> {
        let numbers = self.sent_numbers.values().max_by_key(|numbers| numbers.count)?;
        let all = numbers.last - numbers.first + 1;
        (numbers.count < all * 4 / 5 && self.flow.sent.len() > 10).then_some((numbers.count, all))
    }

    fn event(&mut self, event: &Value) {
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
            "metrics_updated" | "recovery_metrics_updated" | "metric_update" => {
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

impl Log {
    /// Its flow, from the sender's view if it is the sender's.
    pub(super) fn flow(self) -> Flow {
        let Self { mut reader, remarks, .. } = self;
        let received = reader.arrivals.iter().map(|a| a.bytes).fold(0.0, |a, b| a + b);
        let mut flow = std::mem::replace(
            &mut reader.flow,
            Flow::new("QUIC", Place::Sender, String::new(), 1200.0),
        );
        if received > 2.0 * reader.sent_bytes {
            flow = of_receiver(reader.arrivals, reader.answers, reader.late_arrivals);
        } else {
            if flow.acked.is_empty() {
                flow.cannot_tell(
                    "deliveries",
                    "the log has no frames of what was received; log packet_received with its frames",
                );
            }
            if flow.rtt.is_empty() {
                flow.rtt = reader.logged_rtt;
            }
            flow.place_why = "it is the log of the sender".to_owned();
            flow.reaction_s = Some(0.0);
            // The order of acknowledgements is that of arrivals only where each packet has one.
            flow.cannot_tell("reordering", "a sender's log has no order of arrivals");
        }
        flow.packet_bytes = usual_size(&flow.sent);
        if reader.is_half_open {
            flow.remarks
                .push("its acked_ranges end behind the last packet, and are read so".to_owned());
        }
        flow.remarks.extend(remarks);
        if reader.damaged > 0 {
            let all = reader.events + reader.damaged;
            flow.remarks.push(format!(
                "{} of {all} events cannot be read and are left out",
                reader.damaged
            ));
        }
        if reader.left_out > 0 {
            flow.remarks.push(format!(
                "{} packets after the first {MOST_PACKETS} are left out",
                reader.left_out
            ));
        }
        flow
    }

    /// Bytes of its data.
    pub(super) fn data_bytes(&self) -> u64 {
        self.reader.volume() as u64
    }

    /// Packets in both directions.
    pub(super) fn packets(&self) -> u64 {
        (self.reader.flow.sent.len() + self.reader.answers.len() + self.reader.arrivals.len())
            as u64
    }
}

/// The flow of a receiver's log.
fn of_receiver(arrivals: Vec<Sent>, answers: Vec<Acked>, late: u64) -> Flow {
    let why = "it is the log of the receiver".to_owned();
    let mut flow = Flow::new("QUIC", Place::Receiver, why, 1200.0);
    flow.sent = arrivals;
    flow.acks = answers.len() as u64;
    flow.acked = answers;
    flow.reordered_packets = late;
    let why = "the log is the receiver's; give that of the sender";
    let all = [
        "losses and retransmissions",
        "round trips",
        "data in flight",
        "response to a loss",
        "pacing and bursts",
    ];
    for what in all {
        flow.cannot_tell(what, why);
    }
    flow
}

/// The size of packets that carries most of the data.
fn usual_size(sent: &[Sent]) -> f64 {
    let mut counts = BTreeMap::<u64, f64>::new();
    sent.iter().for_each(|s| *counts.entry(s.bytes as u64).or_default() += s.bytes);
    let usual = counts.into_iter().max_by(|a, b| a.1.total_cmp(&b.1));
    usual.map_or(1200.0, |(size, _)| (size as f64).max(1.0))
}
