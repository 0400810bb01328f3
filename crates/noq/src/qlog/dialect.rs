//! The form of a log's head and of its events.
//!
//! It is the sequence of draft-ietf-quic-qlog-main-schema-14 with the events of
//! draft-ietf-quic-qlog-quic-events. qvis reads version 0.3 and before, where names and fields
//! differ, and it takes what it does not know for an addition, as readers of the draft have to. So
//! both are written where they differ: the version in the head, an event's category beside its
//! name, the length of a frame, and `metrics_updated`, which has another name by now.

use std::time::SystemTime;

use serde_json::{Map, Value, json};

/// The head of a log, from noq's.
pub(super) fn head(noq: &Value, title: &str, began: SystemTime) -> Value {
    let of_trace = |field: &str| noq.pointer(&format!("/trace/{field}")).cloned();
    json!({
        "file_schema": "urn:ietf:params:qlog:file:sequential",
        "serialization_format": "application/qlog+json-seq",
        "qlog_version": "0.3",
        "qlog_format": "JSON-SEQ",
        "title": title,
        "trace": {
            "title": title,
            "common_fields": {
                "group_id": of_trace("common_fields/group_id").unwrap_or_default(),
                "protocol_type": ["QUIC"],
                "time_format": "relative_to_epoch",
                "reference_time": {
                    "clock_type": "monotonic",
                    "epoch": "unknown",
                    "wall_clock_time": humantime::format_rfc3339_millis(began).to_string(),
                },
            },
            "vantage_point": of_trace("vantage_point").unwrap_or_else(|| json!({ "type": "unknown" })),
            "event_schemas": ["urn:ietf:params:qlog:events:quic"],
        },
    })
}

/// Exponents of the delay in an acknowledgement where nothing is said (RFC 9000 section 18.2).
const ACK_DELAY_EXPONENT: u64 = 3;

/// The name that qvis knows the metrics by.
const OLD_METRICS: &str = "recovery:metrics_updated";

/// The knowledge of earlier events that later ones need.
pub(super) struct Dialect {
    /// `ack_delay_exponent` of this end and of the other one.
    own_exponent: u64,
    peers_exponent: u64,
    /// True once an end has closed the connection: a process that ends then may drop nothing.
    pub(super) is_closing: bool,
}

impl Default for Dialect {
    fn default() -> Self {
        Self {
            own_exponent: ACK_DELAY_EXPONENT,
            peers_exponent: ACK_DELAY_EXPONENT,
            is_closing: false,
        }
    }
}

impl Dialect {
    /// The events for one of noq's, at this time.
    pub(super) fn event(&mut self, event: Value, time_ms: f64) -> impl Iterator<Item = Value> {
        let Value::Object(mut event) = event else { return [None, None].into_iter().flatten() };
        event.insert("time".to_owned(), time_ms.into());
        let name = event.get("name").and_then(Value::as_str).unwrap_or_default().to_owned();
        let name = name.rsplit(':').next().unwrap_or_default();
        event.insert("category".to_owned(), category(name).into());
        if let Some(data) = event.get_mut("data").and_then(Value::as_object_mut) {
            let frames = data.get("frames").and_then(Value::as_array).into_iter().flatten();
            self.is_closing |= frames
                .into_iter()
                .any(|f| f.get("frame_type").is_some_and(|kind| kind == "connection_close"));
            match name {
                "packet_sent" => packet(data, self.own_exponent),
                "packet_received" => packet(data, self.peers_exponent),
                "packet_lost" => length(data),
                "parameters_set" => self.parameters(data),
                _ => {}
            }
        }
        let old = (name == "recovery_metrics_updated").then(|| {
            let mut old = event.clone();
            old.insert("name".to_owned(), OLD_METRICS.into());
            Value::Object(old)
        });
        [Some(Value::Object(event)), old].into_iter().flatten()
    }

    fn parameters(&mut self, data: &Map<String, Value>) {
        let is_own = data.get("initiator").is_some_and(|initiator| initiator == "local");
        let exponent = data.get("ack_delay_exponent").and_then(Value::as_u64);
        // RFC 9000 section 18.2: more than 20 is an error.
        let exponent = exponent.unwrap_or(ACK_DELAY_EXPONENT).min(20);
        *(if is_own { &mut self.own_exponent } else { &mut self.peers_exponent }) = exponent;
    }
}

/// The category of an event in version 0.3.
fn category(name: &str) -> &'static str {
    match name {
        "recovery_parameters_set"
        | "recovery_metrics_updated"
        | "congestion_state_updated"
        | "timer_updated"
        | "packet_lost"
        | "marked_for_retransmit"
        | "ecn_state_updated" => "recovery",
        "server_listening"
        | "connection_started"
        | "connection_closed"
        | "connection_id_updated"
        | "connection_state_updated"
        | "spin_bit_updated"
        | "tuple_assigned"
        | "mtu_updated" => "connectivity",
        _ => "transport",
    }
}

fn packet(data: &mut Map<String, Value>, exponent: u64) {
    length(data);
    for frame in data.get_mut("frames").and_then(Value::as_array_mut).into_iter().flatten() {
        let Some(frame) = frame.as_object_mut() else { continue };
        match frame.get("frame_type").and_then(Value::as_str) {
            Some("ack" | "path_ack") => acknowledgement(frame, exponent),
            Some("stream" | "crypto") => {
                // What noq calls the length is that of the data alone.
                let length = frame.get("raw").and_then(|raw| raw.get("length")).cloned();
                if let Some(length) = length {
                    frame.insert("raw".to_owned(), json!({ "payload_length": length }));
                    frame.insert("length".to_owned(), length);
                }
            }
            _ => {}
        }
    }
}

/// The length of a packet, which noq has where the header's field of that name would be.
fn length(data: &mut Map<String, Value>) {
    let header = data.get_mut("header").and_then(Value::as_object_mut);
    if let Some(length) = header.and_then(|header| header.shift_remove("length")) {
        data.insert("raw".to_owned(), json!({ "length": length }));
    }
}

fn acknowledgement(frame: &mut Map<String, Value>, exponent: u64) {
    // noq has the number as it is in the frame, in units of 2^exponent microseconds.
    if let Some(delay) = frame.get_mut("ack_delay")
        && let Some(units) = delay.as_f64()
    {
        *delay = (units * (1_u64 << exponent) as f64 / 1e3).into();
    }
    let ranges = frame.get_mut("acked_ranges").and_then(Value::as_array_mut);
    for range in ranges.into_iter().flatten() {
        let Some([first, end]) = range.as_array_mut().map(Vec::as_mut_slice) else { continue };
        if let (Some(a), Some(b)) = (first.as_u64(), end.as_u64()) {
            // noq's ends behind the last packet.
            *end = b.saturating_sub(1).max(a).into();
        }
    }
}
