//! A qlog for each flow of a run, as JSON-SEQ, which qvis and readers of the newest draft open.
//!
//! The dialect is that of the qlogs of connections (`noq/src/qlog/dialect.rs`): the sequence and
//! the names of draft-ietf-quic-qlog-main-schema-14 and draft-ietf-quic-qlog-quic-events, and
//! beside them what version 0.3 has in their place, the newest that qvis reads.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use fullpipe_cc::{Controller, Duration, Instant, Rate, Transport};
use fullpipe_scenario::Scenario;
use fullpipe_sim::FlowConfig;
use serde_json::{Value, json};

use super::store::{StoreError, create_dir, file_name_of};
use crate::observe::FlowSample;
use crate::plan::Plan;

/// RFC 7464: the byte before every text of a sequence.
const RECORD_SEPARATOR: u8 = 0x1e;

/// Thousands of flows write by turns: a file is open only while so many bytes go to it.
const BUFFER_BYTES: usize = 8 << 10;

/// A directory that qlog files can be written into.
#[derive(Clone, Debug)]
pub struct QlogDir(PathBuf);

impl QlogDir {
    /// Makes the directory when it is not there.
    ///
    /// # Errors
    /// It cannot be made, or nothing can be written into it.
    pub fn create(path: &Path) -> Result<Self, StoreError> {
        create_dir(path)?;
        Ok(Self(path.to_owned()))
    }
}

/// The files of a run.
pub struct Qlog {
    logs: Vec<Log>,
}

impl Qlog {
    /// Begins the files of run number `index`, over those of an earlier run of that name.
    ///
    /// # Errors
    /// A file cannot be written.
    pub fn start(
        dir: &QlogDir,
        plan: &Plan,
        index: usize,
        scenario: &Scenario,
    ) -> Result<Self, StoreError> {
        let stem = file_name_of(&plan.name);
        let each = scenario.flows.iter().zip(&scenario.config.flows).enumerate();
        let logs = each.map(|(i, (label, flow))| {
            let name = file_name_of(&label.name);
            let path = dir.0.join(format!("{stem}-run{index}-flow{i}-{name}.sqlog"));
            let config = &flow.cc;
            let at = plan.grid.runs[index].at.iter().map(|(axis, value)| format!("{axis}={value}"));
            let title = format!("{}, run {index}, flow {i}: {}", plan.name, label.name);
            let about = [vec![format!("cc={}", label.cc)], at.collect()].concat().join(" ");
            let is_tcp = config.transport == Transport::Tcp;
            let mut log = Log {
                path,
                is_tcp,
                buffer: Vec::new(),
                state: None,
                packet: None,
                newest: Duration::ZERO,
            };
            let begun = log.begin(title, about, flow);
            begun.and_then(|()| File::create(&log.path)).map_err(StoreError::at(&log.path))?;
            Ok(log)
        });
        Ok(Self { logs: logs.collect::<Result<_, _>>()? })
    }

    /// Writes the model of flow number `i` and its actions until now.
    ///
    /// # Errors
    /// Its file cannot be written.
    pub fn sample(&mut self, i: usize, now: Duration, flow: &FlowSample) -> Result<(), StoreError> {
        let log = &mut self.logs[i];
        log.sample(now, flow).map_err(StoreError::at(&log.path))
    }

    /// Writes what is not in the files yet.
    ///
    /// # Errors
    /// A file cannot be written.
    pub fn finish(mut self) -> Result<(), StoreError> {
        let mut logs = self.logs.iter_mut();
        logs.try_for_each(|log| log.flush().map_err(StoreError::at(&log.path)))
    }
}

/// The file of a flow.
struct Log {
    path: PathBuf,
    is_tcp: bool,
    buffer: Vec<u8>,
    /// The values written last: the state, and the number of a packet.
    state: Option<&'static str>,
    packet: Option<u64>,
    /// The time of the newest event.
    newest: Duration,
}

impl Log {
    /// The head, and an event that is there also when the flow never has a row: qvis wants one.
    fn begin(&mut self, title: String, about: String, flow: &FlowConfig) -> io::Result<()> {
        // There is no schema for TCP: its events are those of QUIC, and the protocol says so.
        let protocol = if self.is_tcp { "TCP" } else { "QUIC" };
        self.record(&json!({
            "file_schema": "urn:ietf:params:qlog:file:sequential",
            "serialization_format": "application/qlog+json-seq",
            "qlog_version": "0.3",
            "qlog_format": "JSON-SEQ",
            "title": title,
            "trace": {
                "title": title,
                "description": about,
                "common_fields": {
                    "protocol_type": [protocol],
                    "time_format": "relative_to_epoch",
                    "reference_time": { "clock_type": "monotonic", "epoch": "unknown" },
                },
                // Data flow from the server, as in qvis.
                "vantage_point": { "name": "sender", "type": "server" },
                "event_schemas": ["urn:ietf:params:qlog:events:quic"],
            },
        }))?;
        let controller = Controller::new(flow.algorithm, flow.cc, Instant::default());
        let parameters = json!({
            "max_datagram_size": flow.cc.smss,
            "initial_congestion_window": controller.snapshot().cwnd,
        });
        self.event(flow.start, "quic:recovery_parameters_set", "recovery", &parameters)
    }

    fn sample(&mut self, now: Duration, flow: &FlowSample) -> io::Result<()> {
        if let Some(packet) = flow.newest_packet.filter(|p| self.packet != Some(p.number)) {
            self.packet = Some(packet.number);
            let packet_type = if self.is_tcp { "unknown" } else { "1RTT" };
            let sent = json!({
                "header": { "packet_type": packet_type, "packet_number": packet.number },
                "raw": { "length": packet.bytes },
            });
            // In real time a packet may come while its row is made, or be seen behind it.
            let at = packet.sent.since(Instant::default()).min(now).max(self.newest);
            self.event(at, "quic:packet_sent", "transport", &sent)?;
        }
        if let Some(state) = flow.state.filter(|state| self.state != Some(state)) {
            let mut update = json!({ "new": state });
            if let Some(old) = self.state.replace(state) {
                update["old"] = old.into();
            }
            self.event(now, "quic:congestion_state_updated", "recovery", &update)?;
        }
        let (stats, model) = (flow.sender, flow.model);
        let metrics: [(&str, Option<Value>); 9] = [
            ("min_rtt", model.and_then(|m| m.bbr).and_then(|b| b.min_rtt).map(millis)),
            ("smoothed_rtt", flow.srtt.map(millis)),
            ("latest_rtt", flow.rtt.map(millis)),
            ("congestion_window", Some(flow.cwnd.into())),
            ("bytes_in_flight", flow.inflight.map(Value::from)),
            ("ssthresh", model.and_then(|m| m.ssthresh).map(Value::from)),
            ("pacing_rate", flow.pacing.map(|rate| Rate::as_bits_per_sec(rate).into())),
            ("sent_packets", Some(stats.sent_packets.into())),
            ("lost_packets", Some(stats.lost_packets.into())),
        ];
        let known = metrics.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?)));
        let metrics = Value::Object(known.collect());
        self.event(now, "quic:recovery_metrics_updated", "recovery", &metrics)?;
        // The name of version 0.3, the one that qvis looks for.
        self.event(now, "recovery:metrics_updated", "recovery", &metrics)?;
        if self.buffer.len() >= BUFFER_BYTES { self.flush() } else { Ok(()) }
    }

    /// An event with its category, which qvis takes for the first half of the name of version 0.3.
    fn event(&mut self, at: Duration, name: &str, category: &str, data: &Value) -> io::Result<()> {
        self.newest = at;
        let time_ms = at.as_nanos() as f64 / 1e6;
        self.record(&json!({ "time": time_ms, "name": name, "data": data, "category": category }))
    }

    fn record(&mut self, record: &Value) -> io::Result<()> {
        self.buffer.push(RECORD_SEPARATOR);
        serde_json::to_writer(&mut self.buffer, record)?;
        self.buffer.push(b'\n');
        Ok(())
    }

    fn flush(&mut self) -> io::Result<()> {
        let mut file = OpenOptions::new().append(true).open(&self.path)?;
        file.write_all(&self.buffer)?;
        self.buffer.clear();
        Ok(())
    }
}

fn millis(d: Duration) -> Value {
    (d.as_nanos() as f64 / 1e6).into()
}
