//! A flow from the log of one of its ends: qlog of the drafts 0.3 and 0.4 and of those after them,
//! as JSON, as JSON-SEQ or line by line, and the events that are lists in older drafts.
//!
//! Sources: draft-ietf-quic-qlog-main-schema and draft-ietf-quic-qlog-quic-events; in older ones
//! the names of fields and events differ, and numbers may be strings.

use std::collections::BTreeMap;
use std::io::{BufRead, Read as _};
use std::path::Path;

use serde_json::Value;

use super::events::{Reader, any};
use super::file::open;
use super::flow::{Acked, Flow, Place, Sent};
use super::{CaptureError, MOST_PACKETS};

/// The most of a JSON document that is read, unpacked: it is in memory as a whole, in up to sixteen
/// times its bytes.
const MOST_BYTES: u64 = 1 << 27;
/// The most of one event of a sequence.
const MOST_EVENT_BYTES: usize = 1 << 24;
/// The least events of which all have whole milliseconds only where the log rounds them.
const LEAST_EVENTS: u64 = 50;
/// The most traces of a document.
const MOST_TRACES: usize = 10_000;

/// The beginning of a text in a JSON sequence (RFC 7464).
const SEPARATOR: u8 = 0x1E;

/// A log of one connection at one of its ends.
pub(super) struct Log {
    pub(super) title: String,
    reader: Reader,
    remarks: Vec<String>,
}

fn refuse<T>(why: impl Into<String>) -> Result<T, CaptureError> {
    Err(CaptureError(why.into()))
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
        vec![sequence(&head, content.into_inner())?]
    } else {
        let more = content.read_to_end(&mut first).map_err(cannot)?;
        if content.limit() == 0 {
            return refuse("it has more than 128 MiB; write it as JSON-SEQ, or a shorter one");
        }
        // Many are one line, which is read already.
        document(if more == 0 { head } else { serde_json::from_slice(text_of(&first)) }, &first)?
    };
    if let [log] = logs.as_slice()
        && let Some((has, all)) = log.reader.ledger.samples()
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
        match content.by_ref().take(MOST_EVENT_BYTES as u64).read_until(b'\n', &mut record) {
            Ok(0) => break,
            Ok(_) => {}
            Err(e) => {
                reader.ledger.flow.remarks.push(format!("the file cannot be read on: {e}"));
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
            Err(_) if record.last() != Some(&b'\n') && record.len() < MOST_EVENT_BYTES => {
                is_cut = true;
            }
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
fn document(read: serde_json::Result<Value>, text: &[u8]) -> Result<Vec<Log>, CaptureError> {
    let document = match read {
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
    if traces.len() > MOST_TRACES {
        return refuse(format!("it has more than {MOST_TRACES} traces"));
    }
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
    let shown = |c: char| if c.is_control() { '\u{FFFD}' } else { c };
    named.unwrap_or("a trace without a name").chars().map(shown).take(80).collect()
}

impl Log {
    /// Its flow, from the sender's view if it is the sender's.
    pub(super) fn flow(self) -> Flow {
        let Self { mut reader, remarks, .. } = self;
        let is_half_open = reader.is_half_open();
        let received = reader.arrivals.iter().map(|a| a.bytes).fold(0.0, |a, b| a + b);
        // quiche writes no event for them.
        let overdue = if reader.names_losses { 0 } else { reader.ledger.lose_overdue() };
        reader.ledger.remark_counts();
        let mut flow = std::mem::replace(
            &mut reader.ledger.flow,
            Flow::new("QUIC", Place::Sender, String::new(), 1200.0),
        );
        if received > 2.0 * reader.ledger.sent_bytes {
            flow = of_receiver(reader.arrivals, reader.answers, reader.late_arrivals);
        } else {
            if flow.acked.is_empty() {
                let why = "the log has no frames of what was received; log packet_received with its frames";
                flow.cannot_tell("deliveries", why);
                flow.cannot_tell("reordering", why);
            }
            if flow.rtt.is_empty() {
                flow.rtt = reader.logged_rtt;
            }
            // ngtcp2 writes them so.
            if reader.is_coarse && reader.events > LEAST_EVENTS {
                let why = "the log's times are whole milliseconds, which many packets share";
                flow.cannot_tell("pacing and bursts", why);
            }
            flow.place_why = "it is the log of the sender".to_owned();
            if overdue > 0 {
                flow.remarks.push(format!(
                    "the log names no lost packets; {overdue} that were never acknowledged, though later ones were, \
                     count as lost (RFC 9002 section 6.1.1)"
                ));
            }
            flow.reaction_s = Some(0.0);
        }
        flow.packet_bytes = usual_size(&flow.sent);
        if is_half_open {
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
        (self.reader.ledger.flow.sent.len()
            + self.reader.answers.len()
            + self.reader.arrivals.len()) as u64
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
pub(super) fn usual_size(sent: &[Sent]) -> f64 {
    let mut counts = BTreeMap::<u64, f64>::new();
    sent.iter().for_each(|s| *counts.entry(s.bytes as u64).or_default() += s.bytes);
    let usual = counts.into_iter().max_by(|a, b| a.1.total_cmp(&b.1));
    usual.map_or(1200.0, |(size, _)| (size as f64).max(1.0))
}
